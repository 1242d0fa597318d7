"""Tables on terminals of any width: nothing is cut off, and names can be read."""

import os
import subprocess
import sys

import pytest

from rewardharness.cli import output

NAMES = ("demo_defect", "aurora-bench-pairs", "groups, best of 3")


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_table_fits_its_terminal_and_keeps_every_word(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "width", lambda: columns)
    cells = ("5 of 5", "1.000", "0.400", "-0.600 [-1.000, -0.200]", "12", "30", "0.00321")
    output.table(
        ("part", "judged by both", "first", "second", "gain [95 %]", "better", "worse", "exact p"),
        [(name, *cells) for name in NAMES],
    )
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    for name in NAMES:
        assert f"\u2502 {name} " in shown, "names in the first column are whole"
    assert "\u2026" not in shown
    assert "".join(cells[3].split()) in "".join(
        line.split("\u2502")[5].strip() for line in shown.splitlines() if line.count("\u2502") == 9
    ).replace(" ", "")


def test_a_name_that_would_take_all_room_is_broken_and_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "width", lambda: 40)
    output.table(("who", "value"), [("x" * 70, "1.0")])
    shown = capsys.readouterr().out
    assert shown.count("x") == 70 and max(map(len, shown.splitlines())) <= 40


def test_the_width_of_what_is_no_terminal_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((33, 5)))
    assert output.width() == 120


def test_an_output_that_nobody_reads_ends_the_command_without_a_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rewardharness", "score", "nothing.jsonl", "--json"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert ended.returncode == 1 and "nothing.jsonl does not exist" in ended.stderr
    assert "Traceback" not in ended.stderr and "BrokenPipe" not in ended.stderr


def test_columns_without_text_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("", "\u200b", "text"), [("", "\u200b", "long " * 60)])
    assert "long long" in capsys.readouterr().out

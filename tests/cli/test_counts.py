"""Numbers that are out of range, and words that a command does not know, are a wrong command line: status 2."""

import argparse

import pytest

from rewardharness.cli.counts import port, positive
from rewardharness.cli.main import main


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("25", 25), (" 7 ", 7)])
def test_a_count_is_at_least_one(text: str, number: int) -> None:
    assert positive(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "many", "1e3"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        positive(text)


@pytest.mark.parametrize("text", ["-1", "65536", "99999", "http"])
def test_what_is_no_port_is_refused(text: str) -> None:
    assert (port("0"), port("65535")) == (0, 65535)
    with pytest.raises(argparse.ArgumentTypeError):
        port(text)


@pytest.mark.parametrize(
    "words",
    [
        ("score-folder", "pairs", "--limit", "-1"),
        ("score-folder", "pairs", "--limit", "0"),
        ("score-folder", "pairs", "--concurrency", "0"),
        ("benchmark", "pairs", "--limit", "0"),
        ("benchmark", "pairs", "--concurrency", "-2"),
        ("rank-folder", "samples", "--limit", "-1"),
        ("filter-dataset", "pairs", "-o", "x.jsonl", "--agree", "--limit", "0"),
        ("preference-data", "samples", "-o", "x", "--concurrency", "0"),
        ("evolve", "--data", "pairs", "--proposals", "0"),
        ("evolve", "--data", "pairs", "--batch", "0"),
    ],
)
def test_a_number_out_of_range_is_said_before_anything_is_done(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert not shown.out and f"{words[-2]} {words[-1]} is out of range." in shown.err


def test_so_it_is_where_the_command_has_other_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("reproduce", "--smoke", "--limit", "0"))
    assert ended.value.code == 2 and "0 is out of range" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("library", "show", "--nothing", "new"), "usage: rh library show"),
    ],
)
def test_a_word_that_is_not_known_shows_the_usage_of_its_command(
    words: tuple[str, ...], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    shown = capsys.readouterr().err
    assert ended.value.code == 2 and shown.startswith(usage) and "unrecognized arguments: --n" in shown


@pytest.mark.parametrize(
    ("words", "help_"),
    [
        (("score-folder", "pairs", "--nothing"), "rh score-folder --help"),
        (("benchmark", "pairs", "--nothing"), "rh benchmark run --help"),
        (("demo-data", "folder", "--nothing", "12"), "rh demo-data --help"),
    ],
)
def test_an_unknown_option_is_named_with_the_help_of_its_command(
    words: tuple[str, ...], help_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert "Unknown option: --nothing" in shown and help_ in shown

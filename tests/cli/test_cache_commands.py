import json
from pathlib import Path

import pytest

from rewardharness.cli.main import main
from rewardharness.judging.cache import FILE, JudgmentCache


def remember(home: Path) -> None:
    cache = JudgmentCache(home / "cache")
    for number in range(3):
        cache.put(f"a{number}", {"n": number}, "vllm:first")
    cache.put("b", {"n": 0}, "vllm:second")
    cache.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["cache", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_stats_say_what_is_there_and_make_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = run(capsys, "stats")
    assert (empty["judgments"], empty["bytes"], empty["by_judge"]) == (0, 0, {})
    assert not (own_home / "cache").exists()
    remember(own_home)
    held = run(capsys, "stats")
    assert held["by_judge"] == {"vllm:first": 3, "vllm:second": 1}
    assert held["judgments"] == 4
    assert held["bytes"] > 0
    assert held["path"] == str(own_home / "cache" / FILE)
    assert main(["cache", "stats"]) == 0
    shown = capsys.readouterr().out
    assert "vllm:second" in shown
    assert "4 answers" in shown


def test_clear_forgets_one_judge_or_all(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "clear") == {"deleted": 0}
    assert not (own_home / "cache").exists()
    remember(own_home)
    assert run(capsys, "clear", "--judge", "vllm:first") == {"deleted": 3}
    assert run(capsys, "stats")["by_judge"] == {"vllm:second": 1}
    assert main(["cache", "clear", "--judge", "vllm:first"]) == 1
    assert "vllm:second" in capsys.readouterr().err
    assert main(["cache", "clear"]) == 0
    assert "1 answers deleted" in capsys.readouterr().out
    assert run(capsys, "stats")["judgments"] == 0


def test_prune_deletes_the_oldest_answers(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(own_home)
    for words, said in (
        (("--older-than", "1"), "0 answers"),
        (("--max-mb", "1"), "0 answers"),
        (("--max-mb", "0"), "4"),
    ):
        assert main(["cache", "prune", *words]) == 0
        assert said in capsys.readouterr().out
    assert run(capsys, "stats")["judgments"] == 0
    assert main(["cache", "prune"]) == 2

import os
from pathlib import Path

from commands import Rh

from rewardharness.judging.cache import FILE, JudgmentCache


def remember(home: Path) -> None:
    cache = JudgmentCache(home / "cache")
    for number in range(3):
        cache.put(f"a{number}", {"n": number}, "vllm:first")
    cache.put("b", {"n": 0}, "vllm:second")
    cache.close()


def test_stats_say_what_is_there_and_make_nothing(rh: Rh, own_home: Path) -> None:
    empty = rh("cache", "stats", "--json").json
    assert (empty["judgments"], empty["bytes"], empty["by_judge"]) == (0, 0, {})
    assert rh("cache", "clear", "--json").json == {"deleted": 0, "edits": 0} and not (own_home / "cache").exists()
    remember(own_home)
    held = rh("cache", "stats", "--json").json
    assert held.pop("bytes") > 0
    by_judge = {"vllm:first": 3, "vllm:second": 1}
    assert held.pop("path") == str(own_home / "cache" / FILE)
    assert held == {"judgments": 4, "by_judge": by_judge, "edits": 0, "edits_bytes": 0}
    shown = rh("cache", "stats").out
    assert "vllm:second" in shown and "4 answers" in shown


def test_clear_forgets_one_judge_or_all(rh: Rh, own_home: Path) -> None:
    remember(own_home)
    assert rh("cache", "clear", "--judge", "vllm:first", "--json").json == {"deleted": 3, "edits": 0}
    assert rh("cache", "stats", "--json").json["by_judge"] == {"vllm:second": 1}
    assert "vllm:second" in rh("cache", "clear", "--judge", "vllm:first", status=1).err
    assert "1 answers deleted" in rh("cache", "clear").out
    assert rh("cache", "stats", "--json").json["judgments"] == 0


def test_prune_deletes_the_oldest_answers(rh: Rh, own_home: Path) -> None:
    remember(own_home)
    for option, value, said in (("--older-than", 1, "0 answers"), ("--max-mb", 1, "0 answers"), ("--max-mb", 0, "4")):
        assert said in rh("cache", "prune", option, value).out
    assert rh("cache", "stats", "--json").json["judgments"] == 0
    rh("cache", "prune", status=2)


def test_edits_are_shown_pruned_and_cleared(rh: Rh, own_home: Path) -> None:
    folder = own_home / "cache" / "edits"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / str(number)).write_bytes(bytes(400_000))
        os.utime(folder / str(number), (number * 1e6, number * 1e6))
    assert rh("cache", "stats", "--json").json["edits_bytes"] == 1_600_000 and "4 edits" in rh("cache", "stats").out
    assert "2 edits deleted" in rh("cache", "prune", "--max-mb", 1).out
    assert sorted(path.name for path in folder.iterdir()) == ["2", "3"]
    assert rh("cache", "clear", "--json").json == {"deleted": 0, "edits": 2} and not list(folder.iterdir())

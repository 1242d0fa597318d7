import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rewardharness.judging.cache import FILE, JudgmentCache


def test_nothing_acknowledged_is_lost_to_a_kill(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from rewardharness.judging.cache import JudgmentCache\n"
        "cache = JudgmentCache(Path(sys.argv[1]))\n"
        "for n in range(100000):\n"
        "    cache.put(f'{sys.argv[2]}-{n}', {'n': n}, 'j'); print(n, flush=True)\n"
    )
    acknowledged: dict[str, int] = {}
    words = [sys.executable, "-c", script, str(tmp_path)]
    writers = {name: subprocess.Popen([*words, name], stdout=subprocess.PIPE, text=True) for name in "pq"}
    for name, writer in writers.items():
        for _ in range(50):
            acknowledged[name] = int(writer.stdout.readline())
    for name, writer in writers.items():
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.communicate()[0].split()
        acknowledged[name] = int(rest[-2]) if len(rest) > 2 else acknowledged[name]
    cache = JudgmentCache(tmp_path)
    assert all(cache.get(f"{name}-{n}") == {"n": n} for name, last in acknowledged.items() for n in range(last + 1))


Answers = list[tuple[dict[str, object] | None, bool] | BaseException]


def ask_at_once(cache: JudgmentCache, times: int, *first: dict[str, object] | Exception | None) -> tuple[Answers, int]:
    """Ask the same as often at once; what is made first is given. Return all answers, and how often one was made."""
    made = 0

    async def make() -> dict[str, object] | None:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        answer = first[made - 1] if made <= len(first) else {"n": made}
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask() -> Answers:
        return await asyncio.gather(*(cache.remember("k", "j", make) for _ in range(times)), return_exceptions=True)

    return asyncio.run(ask()), made


def test_equal_questions_at_once_are_answered_once(tmp_path: Path) -> None:
    answers, made = ask_at_once(JudgmentCache(tmp_path), 20)
    assert made == 1 and sorted(answers, key=str) == [({"n": 1}, False), *[({"n": 1}, True)] * 19]


def test_a_failed_answer_is_asked_again_by_those_who_waited(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path)
    answers, made = ask_at_once(cache, 4, RuntimeError("broken"), None)
    assert isinstance(answers[0], RuntimeError) and made == 3
    assert cache.get("k") == {"n": 3}


@pytest.mark.parametrize("damaged", [True, False])
def test_a_damaged_file_or_one_of_another_version_is_set_aside(tmp_path: Path, damaged: bool) -> None:
    if damaged:
        (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    else:
        with sqlite3.connect(tmp_path / FILE) as database:
            database.execute("PRAGMA user_version = 99")
    cache = JudgmentCache(tmp_path)
    cache.put("k", {}, "j")
    assert cache.stats().judgments == 1
    assert list(tmp_path.glob("*damaged*"))


def test_stats_and_clear_by_judge(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path)
    for number in range(3):
        cache.put(f"a{number}", {}, "first")
    cache.put("b", {}, "second")
    assert cache.stats().by_judge == {"first": 3, "second": 1}
    assert (cache.clear("first"), cache.clear(), cache.stats().judgments) == (3, 1, 0)
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_an_unusable_folder_costs_no_judgment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    cache = JudgmentCache(tmp_path / "file")
    cache.keep("k", {"n": 1}, "j")
    assert cache.get("k") == {"n": 1}
    assert (cache.stats().judgments, cache.clear()) == (1, 1)
    [record] = caplog.records
    assert "in memory alone" in record.getMessage() and "Set RH_HOME" in record.getMessage()


async def one() -> dict[str, object]:
    return {"n": 1}


def damage(path: Path) -> None:
    """Overwrite all pages but the first."""
    data = path.read_bytes()
    assert len(data) > 3 * 4096
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def filled(folder: Path) -> None:
    cache = JudgmentCache(folder)
    for number in range(300):
        cache.put(f"{number}", {"n": "x" * 200}, "j")
    cache.close()


def test_a_file_that_is_damaged_beyond_its_first_page_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    damage(tmp_path / FILE)
    cache, beside = JudgmentCache(tmp_path), JudgmentCache(tmp_path)
    assert [cache.get(f"{number}") for number in range(300)] == [None] * 300
    cache.put("k", {"n": 1}, "j")
    assert beside.get("k") == {"n": 1}, "what is new is not set aside by whoever notices later"
    assert cache.stats().judgments == 1
    assert len({file.name.partition("-shm")[0].partition("-wal")[0] for file in tmp_path.glob("*damaged*")}) == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("change", ["deleted", "truncated", "dropped"])
def test_a_file_that_changes_under_a_cache_costs_no_judgment(tmp_path: Path, change: str) -> None:
    filled(tmp_path)
    cache = JudgmentCache(tmp_path)
    if change == "deleted":
        (tmp_path / FILE).unlink()
    elif change == "truncated":
        os.truncate(tmp_path / FILE, 5000)
    else:
        with sqlite3.connect(tmp_path / FILE) as other:
            other.execute("DROP TABLE judgment")
    for number in range(0, 300, 50):
        value, _ = asyncio.run(cache.remember(f"{number}", "j", one))
        assert value in ({"n": 1}, {"n": "x" * 200})


def test_a_row_that_cannot_be_read_is_asked_for_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = JudgmentCache(tmp_path)
    huge = json.dumps({"n": 10**400})
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as database:
        for key, text in enumerate(["{", "[1]", "7", '"x"', '{"m": 1}', "null", b"\xff\xfe", "[" * 100_000, huge]):
            database.execute("INSERT INTO judgment VALUES (?, ?, 'j', 0)", (str(key), text))

    def check(value: dict[str, object]) -> float:
        return float(value["n"])

    for key in range(9):
        for shared in (False, True):
            answer = cache.remember(str(key), "j", one, check)
            assert asyncio.run(answer) == ({"n": 1}, shared)
    assert len(caplog.records) == 1
    assert not list(tmp_path.glob("*damaged*")), "the other rows are good"


def test_a_full_disk_loses_no_answer_that_was_paid_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = JudgmentCache(tmp_path)
    cache._database.execute("PRAGMA max_page_count = 1")

    async def make() -> dict[str, object] | None:
        return {"n": "x" * 10_000}

    for key in ("a", "b"):
        assert asyncio.run(cache.remember(key, "j", make)) == ({"n": "x" * 10_000}, False)
    assert [record.levelname for record in caplog.records] == ["WARNING"]

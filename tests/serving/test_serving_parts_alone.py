"""Small parts, each alone: tokens, ids, counters, the log, limits, words for failures."""

import asyncio
import json
import random
import threading
from collections import Counter as Counting
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_parts import ReadyJudge, edit, picture, reward_of

from rewardharness.cli.serve import LimitOptions
from rewardharness.data.opening import open_data
from rewardharness.data.tables import image_path
from rewardharness.errors import DataError, InputError
from rewardharness.files import read_jsonl
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.base import ErrorCode
from rewardharness.schema import Example, Failure, Judgment
from rewardharness.serving import monitoring
from rewardharness.serving.body import ClientGoneError, Parsed
from rewardharness.serving.faults import DEADLINE, DEFECT, NO_SCORE, RefusedError, failure_for, fault_of
from rewardharness.serving.hosts import HostCheck, is_loopback
from rewardharness.serving.limits import AdmissionControl, Limits
from rewardharness.serving.media import Edit, RequestText, read_image
from rewardharness.serving.monitoring import Metrics, RequestLog, RequestSample
from rewardharness.serving.results import ItemResult, ItemUsage, RequestResult, milliseconds
from rewardharness.serving.security import Guard, clean_request_id, read_token
from rewardharness.serving.service import RequestContext, Service, unless_gone
from rewardharness.serving.wire import BatchRequest, ScoreRequest
from rewardharness.settings import Settings

TOKEN = "0123456789abcdef"
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("hosts", "loopback"),
    [
        (("127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"), True),
        (("0.0.0.0", "::", "", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.x"), False),
    ],
)
def test_loopback(hosts: tuple[str, ...], loopback: bool) -> None:
    assert [is_loopback(host) for host in hosts] == [loopback] * len(hosts)


def test_a_token_file_goes_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token("y" * 20, tmp_path / "token") == TOKEN and read_token("y" * 20, None) == "y" * 20
    assert read_token(None, None) is None
    with pytest.raises(DataError):
        read_token(None, tmp_path / "nothing")


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "é" * 20, "a b" * 10])
def test_a_token_that_is_none_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InputError) as caught:
        read_token(token, None)
    assert not token or token not in str(caught.value)


@given(st.text())
def test_any_id_becomes_harmless(text: str) -> None:
    cleaned = clean_request_id(text)
    assert 1 <= len(cleaned) <= 64 and all(each.isascii() and (each.isalnum() or each in "._-") for each in cleaned)


def test_a_server_without_a_token_takes_programs_here_and_no_pages() -> None:
    for host in (b"localhost", b"localhost:8100", b"127.0.0.1:1", b"[::1]:8100", b""):
        Guard().check("/score", {b"host": host})
    page = {b"host": b"localhost", b"origin": b"null"}
    for headers in ({b"host": b"evil.example:8100"}, page, {b"host": b"[::2]"}):
        with pytest.raises(RefusedError) as caught:
            Guard().check("/score", headers)
        assert caught.value.status == 403
        Guard(TOKEN).check("/score", {**headers, b"authorization": b"Bearer " + TOKEN.encode()})


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.refused.labels('b"\n\\').inc(2)
    for value in (0.05, 0.1, 0.55, 7):
        metrics.rewards.observe(value)
    metrics.gauge("rh_x", "Something.", lambda: 2.5, {"b": "c", "a": "b"})
    lines = metrics.text().decode().splitlines()
    assert lines[-1] == 'rh_x{a="b",b="c"} 2.5'
    counts = {"0.1": 2, "0.5": 2, "0.6": 3, "+Inf": 4}
    expected = [f'rh_reward_bucket{{le="{bound}"}} {count}.0' for bound, count in counts.items()]
    expected += ["rh_reward_count 4.0", "rh_reward_sum 7.7", 'rh_refused_total{code="b\\"\\n\\\\"} 2.0']
    assert set(expected) <= set(lines)
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert names == {line.split()[2] for line in lines if line.startswith("# HELP")} and len(names) == 13
    assert all(line.startswith(("#", *names)) and "_created" not in line for line in lines)


def test_a_log_that_cannot_be_written_costs_lines_and_nothing_else(tmp_path, caplog):
    dropped = threading.Semaphore(0)
    (tmp_path / "folder").mkdir()
    log = RequestLog(tmp_path / "folder", dropped.release)
    log.put({"a": 1})
    log.put({"a": 2})
    log.close()
    assert dropped.acquire(blocking=False) and dropped.acquire(blocking=False)
    assert caplog.text.count("request log") == 1
    good = RequestLog(tmp_path / "log.jsonl", dropped.release)
    for number in range(100):
        good.put({"n": number})
    good.close()
    assert [record["n"] for _, record in read_jsonl(tmp_path / "log.jsonl")] == list(range(100))


def test_a_sample_is_a_bounded_share_of_what_can_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, *candidates = (read_image(picture(shade), Limits(), "x") for shade in range(0, 250, 25))
    results = [ItemResult(number, None, True, number / 10) for number in range(len(candidates))]
    batch = [Edit("lighter", source, (each,)) for each in candidates]
    nothing = (
        (batch[:1] * 2, results[:2]),
        ([Edit("lighter", None, (RequestText("a"), RequestText("b")))], results[:2]),
        (batch[:2], [results[0], ItemResult.none(1, NO_SCORE)]),
    )
    chance, dropped, folder = random.Random(0), threading.Semaphore(0), tmp_path / "sample"
    share = RequestSample(folder, 0.5, dropped.release, {}, chance)
    monkeypatch.setattr(share, "put", (drawn := []).append)
    for _ in range(200):
        share.draw(batch, results)
    assert 80 < len(drawn) < 120 and all(len(judged) == 4 for *_, judged in drawn)
    every = RequestSample(folder, 1.0, dropped.release, {"judge": "x"}, chance)
    for edits, found in nothing:
        every.draw(edits, found)
    every.draw([Edit(" brighter ", source, tuple(candidates[:2]), id="mine", references=(candidates[5],))], results[:2])
    every.close()
    [(_, row)] = read_jsonl(folder / "pairs.jsonl")
    assert sorted(zip(row["candidates"], row["context"]["rewards"], strict=True)) == sorted(
        (image_path(candidates[place].data), place / 10) for place in (0, 1)
    )
    [example] = open_data(str(folder), Settings.from_env({"RH_HOME": str(tmp_path)})).examples
    assert (example.instruction, len(example.references), example.preference) == ("brighter", 1, None)
    assert folder.stat().st_mode & 0o77 == 0 and not (folder / "groups.jsonl").exists()
    assert not dropped.acquire(blocking=False)
    monkeypatch.setattr(monitoring, "MAX_SAMPLE", sum(path.stat().st_size for path in folder.rglob("*.*")) + 100)
    full = RequestSample(folder, 1.0, dropped.release, {}, chance)
    full.draw(batch, results)
    full.close()
    assert dropped.acquire(blocking=False) and not (folder / "groups.jsonl").exists()
    share.close()


@pytest.mark.parametrize(
    "options",
    [
        *({name: 0} for name in ("concurrency", "queue", "max_items", "max_body_mb", "max_megapixels", "deadline")),
        *({"concurrency": 5000}, {"max_body_mb": 2000}, {"drain": -1}, {"deadline": 1e9}),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError) as caught:
        LimitOptions(**options)  # type: ignore[arg-type]
    assert caught.value.next_step


def test_a_queue_is_at_least_as_long_as_a_batch() -> None:
    with pytest.raises(InputError, match="would never fit into a queue of 10"):
        Limits().changed({"queue": 10})
    assert Limits().changed({"body_bytes": 1 << 30}).bytes_at_once == 1 << 30


def test_a_single_batch_always_finds_room_and_waits_are_bounded() -> None:
    gate = AdmissionControl(Limits(queue=4, concurrency=2))
    with gate.admit(9), pytest.raises(RefusedError) as caught, gate.admit(1):
        pass
    assert (caught.value.status, caught.value.retry_after) == (429, 3) and gate.judgments == 0
    gate.took(1e9)
    assert gate.busy("x").retry_after == 1
    with gate.admit(3), gate.admit(1):
        assert gate.judgments == 4 and gate.busy("x").retry_after == 60


async def test_when_all_bodies_wait_for_each_other_the_latest_is_refused() -> None:
    gate = AdmissionControl(Limits(bytes_at_once=100))
    ended = []

    async def body(name: str) -> None:
        async with gate.room() as take:
            try:
                for _ in range(6):
                    await take(10)
                    await asyncio.sleep(0)
                ended.append(name)
            except RefusedError as error:
                ended.append(f"{name} {error.status}")

    async with asyncio.timeout(5):
        await asyncio.gather(*map(body, "abcd"))
    assert (gate.bytes_held, gate.requests) == (0, 0) and ended == ["d 429", "c 429", "b 429", "a"]


async def test_large_bodies_are_taken_apart_off_the_loop() -> None:
    threads = []

    def parse(kind: str, body: bytes, limits: Limits) -> Parsed:
        threads.append(threading.current_thread())
        raise RefusedError(400, DEFECT)

    async def receive() -> dict:
        return {"type": "http.request", "body": b" " * (2 << 20)}

    service = Service(ReadyJudge(), EMPTY, Limits())
    with pytest.raises(RefusedError):
        await service.answer(RequestContext("id"), {}, receive, BatchRequest, parse)
    await service.close()
    assert threads and threading.main_thread() not in threads


def test_words_about_the_model_behind_the_judge_stay_inside() -> None:
    for code in ErrorCode.__args__:  # type: ignore[attr-defined]
        fault = fault_of(Failure(code, "10.0.0.1:8000 said sk-abc"))
        assert fault.code == code and "10.0.0.1" not in fault.message + fault.remedy
    assert fault_of(Failure("image", "the source is damaged.")).message == "the source is damaged."
    assert "secret" not in fault_of(Failure("new_code", "secret")).message
    assert len(fault_of(Failure("input", "x" * 9000)).message) <= 300
    assert fault_of(failure_for(DEADLINE)) == DEADLINE and fault_of(failure_for(DEFECT)) == DEFECT


async def test_work_is_given_up_when_its_caller_goes_away_and_only_then() -> None:
    async def gone() -> dict:
        return {"type": "http.disconnect"}

    async def stays() -> Any:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            given_up.append(True)

    async def late() -> RequestResult:
        raise TimeoutError("of its own")

    async def done() -> RequestResult:
        return RequestResult([], ItemUsage())

    given_up, before = [], asyncio.all_tasks()
    with pytest.raises(ClientGoneError):
        await unless_gone(gone, stays())
    assert given_up == [True]
    with pytest.raises(TimeoutError, match="of its own"):
        await unless_gone(stays, late())
    assert await unless_gone(stays, done()) == RequestResult([], ItemUsage())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "nobody watches any more"


async def test_many_small_requests_at_once_leave_room_for_others_in_between() -> None:
    turns, begun = 0, Counting()

    class Noting(ReadyJudge):
        async def judge(self, example: Example, library: Library) -> Judgment:
            begun[turns] += 1
            return await super().judge(example, library)

    service = Service(Noting(), EMPTY, Limits(concurrency=64))

    async def ask(shade: int) -> float | None:
        text = json.dumps(edit(picture(shade))).encode()
        body = [{"type": "http.request", "body": text}]

        async def receive() -> dict:
            return body.pop() if body else await asyncio.get_running_loop().create_future()

        head = {b"content-type": b"application/json", b"content-length": b"%d" % len(text)}
        reply = await service.answer(RequestContext("id"), head, receive, ScoreRequest)
        return reply.results[0].reward

    asked = asyncio.gather(*map(ask, range(60)))
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    assert asked.result() == [pytest.approx(reward_of(picture(shade))) for shade in range(60)]
    await service.close()
    assert begun.total() == 60 and max(begun.values()) < 12, "a request for /healthz waits for a few, not for all"


LOCAL = HostCheck.listening("127.0.0.1")
OPEN = HostCheck.listening("0.0.0.0", ["ann-demo.hf.space"])
OWN = [
    *((LOCAL, f"{host}:7860", f"http://{host}:7860") for host in ("localhost", "127.0.0.1")),
    (LOCAL, "[::1]:7860"),
    *((OPEN, host, "https://ann-demo.hf.space") for host in ("ann-demo.hf.space", "10.0.0.7:7860")),
    (OPEN, "192.168.1.5:7860", "http://192.168.1.5:7860"),
    (HostCheck.listening("box"), "BOX:7860", "http://box:7860"),
]
FOREIGN = [
    *((LOCAL, host) for host in ("evil.example:7860", "192.168.1.5:7860", "localhost.evil.example")),
    *((LOCAL, host) for host in ("127.0.0.1.evil.example:7860", "localhost:80@evil.example")),
    *((check, "evil.example:7860", "http://evil.example:7860") for check in (LOCAL, OPEN)),
    *((LOCAL, "localhost:7860", page) for page in ("null", "", "http://localhost:3000")),
    (LOCAL, "localhost:7860", "http://localhost:7860.evil.example"),
    (LOCAL, "localhost:7860", "http://localhost:7860", "http://evil.example"),
    *((OPEN, "ann-demo.hf.space", f"https://{page}") for page in ("eve-demo.hf.space", "ann-demo.hf.space:8443")),
]


@pytest.mark.parametrize(("cases", "answered"), [(OWN, True), (FOREIGN, False)])
def test_own_names_and_pages_are_answered_and_foreign_ones_are_not(cases: list, answered: bool) -> None:
    for check, host, *origins in cases:
        headers = [(b"host", host.encode()), *((b"origin", origin.encode()) for origin in origins)]
        assert check.allows(headers) is answered, headers
    two = [(b"host", b"localhost:7860"), (b"host", b"evil.example:7860")]
    assert not LOCAL.allows(two)


def test_a_queue_may_be_as_long_as_a_batch_and_no_shorter() -> None:
    assert Limits().changed({"items": 8, "queue": 8}).items == 8
    with pytest.raises(InputError, match="A batch of 9 edits would never fit into a queue of 8"):
        Limits().changed({"items": 9, "queue": 8})
    assert milliseconds(1.2345678) == 1234.568

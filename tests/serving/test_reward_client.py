"""The client against real servers, and with replies in place of the network."""

import asyncio
import contextlib
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from PIL import Image
from serving_parts import ONE, PATIENCE, SOURCE, TWO, HoldingJudge, ReadyJudge, Running, later, picture, reward_of

from rewardharness.errors import ImageError, InputError
from rewardharness.models.transport import HttpClient, HttpReply, ServerAddress
from rewardharness.schema import Failure
from rewardharness.serving import client_http
from rewardharness.serving.client import (
    Ask,
    AsyncRewardClient,
    ClientSettings,
    IdentityError,
    ItemResult,
    Normalisation,
    RewardClient,
    RewardServerError,
)
from rewardharness.serving.client_wire import batches
from rewardharness.serving.limits import Limits

RELEASE = "ab" * 32
TOKEN = "0123456789abcdef"
TEXT = "make it lighter"
QUIET = ClientSettings(on_error="none", attempts=3)


def ask(image: object = ONE, **more: str) -> Ask:
    return Ask(TEXT, SOURCE, image, **more)  # type: ignore[arg-type]


Reply = tuple[int, dict[str, str], bytes]
INFO = {"identity": {"release": None, "library_id": "l", "judge": "j", "protocol": "p", "version": "1"}}
ITEM = {
    **{"index": 0, "id": None, "ok": True, "reward": 0.5, "normalised": None, "scores": None, "margin": None},
    **{"variance": None, "comparisons": None, "error": None, "cached": False, "latency_ms": 1},
}


def ok(**changes: object) -> Reply:
    value = {**INFO["identity"], "results": [ITEM], "comparison": None, **changes}
    return 200, {}, json.dumps(value).encode()


@contextlib.contextmanager
def saying(*replies: Reply | None) -> Iterator[list[str]]:
    """In place of the network, `/info` is answered rightly and everything else with these; None tears the connection.

    Yields:
        The paths of what was asked.
    """
    waiting, paths = list(replies), []

    class Network(HttpClient):
        async def exchange(self, origin: ServerAddress, head: bytes, pieces: Iterable[bytes]) -> HttpReply:
            method, path, *_ = head.decode().split()
            if method == "GET":
                return HttpReply(200, {}, json.dumps(INFO).encode())
            paths.append(path)
            reply = waiting.pop(0)
            if reply is None:
                raise ConnectionResetError
            status, headers, body = reply
            return HttpReply(status, {name.encode(): value.encode() for name, value in headers.items()}, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_http, "HttpClient", Network)
        yield paths


def score(settings: ClientSettings, pauses: list[float] | None = None) -> list[ItemResult]:
    """Score one edit with the asynchronous client, which takes note of pauses instead of making them."""

    async def sleep(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)

    async def run() -> list[ItemResult]:
        client = AsyncRewardClient("http://server", settings=settings, sleep=sleep)
        try:
            return await client.score([ask()])
        finally:
            await client.close()

    return asyncio.run(run())


def test_many_edits_come_back_in_order_whatever_the_batches(server: Running, tmp_path: Path) -> None:
    images = [picture(shade) for shade in range(100)]
    (tmp_path / "x.png").write_bytes(images[1])
    buffer = io.BytesIO()
    pillow = Image.new("RGB", (9, 9), (1, 2, 3))
    pillow.save(buffer, "PNG")
    given = [images[0], tmp_path / "x.png", str(tmp_path / "x.png"), pillow, *images[4:]]
    settings = ClientSettings(batch_items=7, batch_bytes=2000, concurrency=3)
    with RewardClient(server.url, settings=settings) as client:
        found = client.score([ask(image) for image in given])
    sent = [images[0], images[1], images[1], buffer.getvalue(), *images[4:]]
    assert [reward.reward for reward in found] == [reward_of(each) for each in sent]
    assert all(reward.reason == "" for reward in found)


def test_what_cannot_be_sent_or_judged_has_a_reason_and_no_number(tmp_path: Path) -> None:
    judge = ReadyJudge(lambda example: Failure("timeout", "late") if example.candidates[0].data == TWO else None)
    asks = [ask(ONE), ask(TWO), ask(tmp_path / "nothing.png"), Ask(" ", SOURCE, ONE), ask(b""), ask(ONE)]
    with Running(judge) as running, RewardClient(running.url) as client:
        found = client.score(asks, Normalisation("group"))
        compared = client.compare(TEXT, SOURCE, TWO, ONE)
    assert [reward.reward for reward in found] == [reward_of(ONE), None, None, None, None, reward_of(ONE)]
    assert [reward.reason.partition(":")[0] for reward in found] == ["", "timeout", "image", "input", "image", ""]
    assert [reward.index for reward in found] == list(range(6))
    assert found[1].error is not None and found[1].error.retryable
    assert [reward.normalised for reward in found] == [0.0, None, None, None, None, 0.0]
    assert compared.preference is None and compared.reason.startswith("timeout:")


def test_groups_are_made_relative_whatever_the_batches(server: Running) -> None:
    images = [picture(shade) for shade in range(120, 128)]
    asks = [ask(image, group="ab"[index % 2]) for index, image in enumerate(images)]
    with RewardClient(server.url, settings=ClientSettings(batch_items=3)) as client:
        found = client.score(asks, Normalisation("group"))
        ranked = client.rank(TEXT, SOURCE, images[::2], normalise=Normalisation("group"))
    assert [reward.normalised for reward in found[::2]] == [reward.normalised for reward in ranked]
    assert sum(reward.normalised or 0 for reward in found[1::2]) == pytest.approx(0, abs=1e-9)


def test_ranking_and_comparing(server: Running) -> None:
    with RewardClient(server.url) as client:
        rates = client.rank(TEXT, SOURCE, [ONE, TWO], method="win_rate")
        compared = client.compare(TEXT, SOURCE, ONE, TWO)
    assert sorted(reward.reward for reward in rates if reward.reward is not None) == [0.0, 1.0]
    assert compared.preference == ("A" if reward_of(ONE) > reward_of(TWO) else "B") and compared.reason == ""
    assert [reward.reward for reward in compared.rewards] == [reward_of(ONE), reward_of(TWO)]


@pytest.mark.parametrize("served", [None, "cd" * 32])
def test_another_release_is_found_out_before_the_first_reward(served: str | None) -> None:
    judge = ReadyJudge()
    with Running(judge, release=served) as running, pytest.raises(IdentityError, match=RELEASE[:12]) as caught:
        RewardClient(running.url, release=RELEASE)
    assert caught.value.next_step and judge.asked == []


def test_the_right_release_by_its_hash_or_the_beginning_of_it() -> None:
    with Running(ReadyJudge(), release=RELEASE, token=TOKEN) as running:
        for given in (RELEASE, RELEASE[:12]):
            with RewardClient(running.url, release=given, token=TOKEN) as client:
                assert client.identity is not None and client.identity.release == RELEASE
                assert client.score([ask()])[0].reward == reward_of(ONE)
        with pytest.raises(RewardServerError, match="token") as caught:
            RewardClient(running.url, token="x" * 20)
    assert TOKEN not in str(caught.value)


def test_a_server_that_becomes_another_one_is_found_out() -> None:
    with saying(ok(), ok(release=RELEASE)), RewardClient("http://server", settings=QUIET) as client:
        assert client.score([ask()])[0].reward == 0.5
        with pytest.raises(IdentityError, match="now judges with release abab"):
            client.score([ask()])


def test_trouble_that_may_pass_is_waited_for_as_long_as_the_server_says() -> None:
    pauses: list[float] = []
    with saying(None, (429, {"retry-after": "7"}, b"{}"), (503, {}, b""), ok()) as paths:
        [reward] = score(ClientSettings(attempts=4), pauses)
    assert reward.reward == 0.5 and paths == ["/batch_score"] * 4
    assert len(pauses) == 3 and 0 < pauses[0] <= 0.5 and pauses[1] == 7.0


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        ([None, None, None], "unreachable"),
        ([(500, {}, b"oops")] * 3, "server"),
        ([(429, {"retry-after": "3600"}, b"{}")], "busy"),
    ],
)
def test_trouble_that_stays_is_an_error_or_nothing_as_asked_and_never_a_number(replies, code):
    with saying(*replies):
        [reward] = score(QUIET)
    assert reward.reward is None and reward.error is not None
    assert (reward.error.code, reward.error.retryable) == (code, True)
    with saying(*replies), pytest.raises(RewardServerError) as caught:
        score(ClientSettings(attempts=3))
    assert caught.value.next_step


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_is_wrong_for_ever_is_always_an_error(status: int) -> None:
    with saying((status, {}, b'{"error": {"code": "c", "message": "m"}}')) as paths:
        with pytest.raises(RewardServerError):
            score(QUIET)
        assert len(paths) == 1


BROKEN = [{"reward": None}, {"reward": "0.5"}, {"reward": True}, {"ok": False}, {"ok": False, "reward": None}]
BROKEN += [{"reward": number} for number in (float("nan"), 10**400, 1.5, -1)]
BROKEN += [{"margin": "0.5"}, {"scores": [3, 4]}, {"scores": {"instruction": "3", "quality": 4}}]


@pytest.mark.parametrize(
    "reply",
    [
        *((200, {}, body) for body in (b"<html>", b"null", b"[]")),
        *(ok(results=results) for results in ([], [ITEM, ITEM], [{"ok": True}])),
        *(ok(results=[{**ITEM, **change}]) for change in BROKEN),
        ok(library_id=7),
    ],
)
def test_a_reply_that_is_none_of_ours_is_an_error_and_no_number(reply: Reply) -> None:
    with saying(reply), pytest.raises(RewardServerError):
        score(QUIET)


def test_what_a_newer_server_adds_is_left_out() -> None:
    with saying(ok(results=[{**ITEM, "new": 1}], new=2)):
        assert score(QUIET)[0].reward == 0.5


def test_a_dead_server_is_an_error_before_training_and_nothing_during_it() -> None:
    with Running(ReadyJudge()) as running:
        client = RewardClient(running.url, settings=ClientSettings(on_error="none", attempts=1))
        assert client.score([ask()])[0].reward == reward_of(ONE)
    found = client.score([ask(ONE), ask(TWO)])
    assert [reward.reward for reward in found] == [None, None]
    assert all(reward.reason.startswith("unreachable:") for reward in found)
    client.close()
    with pytest.raises(RewardServerError):
        RewardClient(running.url, settings=ClientSettings(on_error="none", attempts=1))


def test_a_batch_that_is_too_large_for_the_server_is_halved() -> None:
    images = [picture(shade) for shade in range(10)]
    with Running(ReadyJudge(), Limits(items=3)) as running, RewardClient(running.url) as client:
        found = client.score([ask(image) for image in images])
    assert [reward.reward for reward in found] == [reward_of(each) for each in images]
    with Running(ReadyJudge(), Limits(body_bytes=3000)) as running, RewardClient(running.url) as client:
        found = client.score([ask(ONE), ask(ONE + b"\0" * 5000)])
    assert found[0].reward == reward_of(ONE)
    assert found[1].reward is None and found[1].reason.startswith("too_large:")


def test_a_loop_that_runs_already_and_several_threads_are_no_trouble(server: Running) -> None:
    with RewardClient(server.url) as client:

        async def inside() -> list[ItemResult]:
            return client.score([ask()])

        assert asyncio.run(inside())[0].reward == reward_of(ONE)
        images = [picture(shade) for shade in range(8)]
        threads = [later(partial(client.score, [ask(image)])) for image in images]
        assert [thread.result()[0].reward for thread in threads] == [reward_of(image) for image in images]


def test_a_client_can_be_pickled_and_asked_again_after_closing(server: Running) -> None:
    client = RewardClient(server.url)
    again = pickle.loads(pickle.dumps(client))
    client.close()
    assert client.score([ask()])[0].reward == again.score([ask()])[0].reward == reward_of(ONE)
    client.close()
    again.close()


def test_a_forked_process_has_connections_of_its_own(server: Running) -> None:
    script = """
import os, sys
from rewardharness.serving.client import Ask, RewardClient
source, edited = (bytes.fromhex(each) for each in sys.argv[2:])
client = RewardClient(sys.argv[1])
values = lambda: client.score([Ask("make it lighter", source, edited)])[0].reward
print(values(), flush=True)
child = os.fork()
print(values(), flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
    client.close()
else:
    os._exit(0)
"""
    command = [sys.executable, "-W", "ignore", "-c", script, server.url, SOURCE.hex(), ONE.hex()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert shown.stdout.split() == [str(reward_of(ONE))] * 3


@pytest.mark.anyio
async def test_the_server_gives_up_what_a_client_gave_up() -> None:
    judge = HoldingJudge()
    with Running(judge) as running:
        async with AsyncRewardClient(running.url) as client:
            asking = asyncio.create_task(client.score([ask()]))
            await asyncio.to_thread(judge.entered.wait, PATIENCE)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert judge.given_up.wait(PATIENCE)
        judge.let_go()


WRONG = [{"url": f"{url}"} for url in ("judge:8100", "ftp://judge", "http://user:secret@judge", "http://judge:99999")]
WRONG += [{"url": "http://judge/?key=secret"}, {"token": "a\r\nb: c"}, {"release": "latest"}]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_address_a_token_or_a_hash_that_is_none_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        AsyncRewardClient(**{"url": "http://judge", **wrong})
    assert "secret" not in str(caught.value) and caught.value.next_step


def test_what_is_no_image_is_refused_by_ranking(server: Running) -> None:
    with RewardClient(server.url) as client:
        with pytest.raises(ImageError, match="candidate 2"):
            client.rank(TEXT, SOURCE, [ONE, 7])  # type: ignore[list-item]
        with pytest.raises(InputError):
            client.rank("", SOURCE, [ONE, TWO])


def test_batches_keep_order_and_bounds() -> None:
    assert batches([1, 1, 1, 1, 1], 2, 100) == [range(2), range(2, 4), range(4, 5)]
    assert batches([5, 5, 50, 5], 9, 10) == [range(2), range(2, 3), range(3, 4)] and batches([], 2, 10) == []

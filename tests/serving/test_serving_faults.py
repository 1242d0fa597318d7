"""What goes wrong: callers that are slow, gone or too many, judges that fail or hang, and the end of the server."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from model_server import ModelServer, own_port
from PIL import Image
from serving_parts import (
    CHUNKED,
    ONE,
    PATIENCE,
    SOURCE,
    TWO,
    HoldingJudge,
    ReadyJudge,
    Running,
    b64,
    edit,
    group,
    head,
    later,
    message,
    picture,
    read_all,
    reward_of,
)

from rewardharness.files import read_jsonl
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import open_judge
from rewardharness.schema import Failure
from rewardharness.serving.limits import Limits
from rewardharness.serving.monitoring import RequestLog
from rewardharness.settings import Settings

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = "http://user:hunter2@10.1.2.3:8000/v1"
CHUNK = b"3e8\r\n" + b" " * 1000 + b"\r\n"


@pytest.mark.parametrize("shown", ["x", "Bearer wrong", "Bearer ", "Basic " + TOKEN, TOKEN, "Bearer " + TOKEN + "x"])
def test_without_the_token_nothing_is_said(shown: str) -> None:
    with Running(ReadyJudge(), token=TOKEN) as running:
        headers = {"Authorization": shown}
        for method, path in (("POST", "/score"), ("GET", "/info"), ("GET", "/metrics"), ("GET", "/openapi.json")):
            answered = running.ask(method, path, headers=headers)
            assert (answered.status, answered.code) == (401, "unauthorized")
            assert answered.headers["www-authenticate"] == "Bearer" and TOKEN not in answered.body.decode()
        assert {running.ask("GET", path, headers=headers).status for path in ("/healthz", "/readyz")} == {200}
        assert running.post("/score", edit()).status == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_a_page_in_a_browser_cannot_ask_a_server_without_a_token(headers: dict[str, str], server: Running) -> None:
    answered = server.post("/score", edit(), **headers)
    assert (answered.status, answered.code) == (403, "forbidden")


def test_limits_are_kept_and_named() -> None:
    limits = Limits(body_bytes=20_000, image_bytes=3000, items=3, group=3, duels=2, pixels=1000)
    wide = edit() | {"edited": b64(picture(1, side=40))}
    images = [picture(shade) for shade in range(4)]
    with Running(ReadyJudge(), limits) as running:
        for path, body, status, code, field in (
            ("/score", edit(images={"x": "A" * 24_000}), 413, "too_large", None),
            ("/score", edit() | {"edited": b64(SOURCE + b"\0" * 3000)}, 413, "too_large", "edited"),
            ("/score", wide, 413, "too_large", "edited"),
            ("/batch_score", {"items": [edit()] * 4}, 422, "too_many", "items"),
            ("/rank", group(*images), 422, "too_many", "candidates"),
            ("/rank", group(*images[:3], method="win_rate"), 422, "too_many", "candidates"),
        ):
            answered = running.post(path, body)
            assert (answered.status, answered.code) == (status, code)
            assert field is None or answered.json["fields"][0]["field"] == field
        batch = running.post("/batch_score", {"items": [edit(), wide]}).json["results"]
    assert [each["ok"] for each in batch] == [True, False] and batch[1]["error"]["code"] == "image"


def test_the_server_has_no_limit_of_pixels_of_its_own_below_that_of_the_judge(server: Running) -> None:
    stream = io.BytesIO()
    Image.new("1", (8000, 6000)).save(stream, "PNG")
    assert server.post("/score", edit() | {"edited": b64(stream.getvalue())}).status == 200


def test_a_body_of_no_announced_length_is_cut_off_at_the_limit() -> None:
    with Running(ReadyJudge(), Limits(body_bytes=20_000)) as running:
        with running.connect(head("/score", CHUNKED)) as connection:
            for _ in range(30):
                connection.sendall(CHUNK)
            assert connection.recv(100).startswith(b"HTTP/1.1 413")
        assert running.service.gate.bytes_held == 0


@pytest.mark.parametrize(("shown", "status"), [(TOKEN, b"413"), ("another-token-of-16", b"401")])
def test_a_caller_that_sends_all_before_it_reads_gets_the_reply(shown: str, status: bytes) -> None:
    large = message({"instruction": "x" * 20_000_000}, "/score", "Connection: close", f"Authorization: Bearer {shown}")
    with (
        Running(ReadyJudge(), Limits(body_bytes=20_000), token=TOKEN) as running,
        running.connect(large) as connection,  # far more than the buffers of a connection hold
    ):
        assert read_all(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    "before", [b"GET /healthz HTTP/1.1\r\nHost: ", head("/score", CHUNKED) + b"0\r\nAfter: "], ids=["head", "trailer"]
)
def test_heads_and_what_follows_a_body_are_bounded(before: bytes, server: Running) -> None:
    with server.connect(before) as connection, contextlib.suppress(ConnectionError):  # closed while more is sent
        for _ in range(100):
            connection.sendall(b"x" * 1000)
        assert re.match(rb"HTTP/1.1 (431|400)", connection.recv(65536)) and not read_all(connection)


def test_a_body_may_come_byte_by_byte(server: Running) -> None:
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in json.dumps(edit()).encode())
    with server.connect(head("/score", "Connection: close", CHUNKED) + pieces + b"0\r\n\r\n") as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_a_request_that_offers_another_protocol_is_answered_in_this_one(server: Running) -> None:
    offer = message(edit(), "/score", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(offer)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_slow_callers_are_sent_away_and_hold_nothing() -> None:
    with (
        Running(ReadyJudge(), Limits(read_seconds=PATIENCE)) as running,
        running.connect() as silent,
        running.connect(b"POST /score HTTP/1.1\r\nHost: loc") as half_head,
        running.connect(head("/score", "Content-Length: 100") + b'{"instr') as half_body,
    ):
        assert running.post("/score", edit()).status == 200
        running.let_pass(PATIENCE + 1)  # a body has a little longer, by its length
        for connection in (silent, half_head):
            top, _, body = read_all(connection).partition(b"\r\n\r\n")
            assert top.startswith(b"HTTP/1.1 408") and json.loads(body)["error"]["code"] == "too_slow"
        reply = half_body.recv(65536)
        running.let_pass(PATIENCE)  # the rest of what was refused may still come
        reply += read_all(half_body)
        assert reply.startswith(b"HTTP/1.1 408") and b'"too_slow"' in reply
        assert (running.service.gate.bytes_held, running.service.gate.requests) == (0, 0)


def test_what_is_not_http_is_answered_in_the_one_shape(server: Running) -> None:
    with server.connect(b"GARBAGE\r\n\r\n") as connection:
        top, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 400 Bad Request")
    reply = json.loads(body)
    assert reply["error"]["code"] == "malformed"
    assert {f"x-request-id: {reply['request_id']}", "cache-control: no-store"} <= set(top.decode().lower().splitlines())


@pytest.mark.parametrize(("more", "replies"), [(b"", []), (b"GET /healthz HT", [b"408"])])
def test_after_its_reply_a_connection_is_told_of_half_a_head_and_of_nothing_else(more: bytes, replies: list) -> None:
    with (
        Running(ReadyJudge(), Limits(body_bytes=20_000, read_seconds=PATIENCE)) as running,
        running.connect(head("/score", CHUNKED) + 25 * CHUNK) as connection,
    ):
        first = connection.recv(65536)
        connection.sendall(b"0\r\n\r\n" + more)  # the rest of what was refused
        running.let_pass(PATIENCE)
        statuses = re.findall(rb"HTTP/1.1 (\d+)", first + read_all(connection))
    assert statuses == [b"413", *replies], "clients keep a connection for their next request"


def test_another_protocol_is_not_offered_and_fills_no_log(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    assert server.get("/score", **upgrade).code == "method_not_allowed"
    assert server.get("/healthz", **upgrade).status == 200 and not caplog.records


def test_a_caller_that_goes_away_gives_up_its_place() -> None:
    judge = HoldingJudge()
    with Running(judge, Limits(concurrency=1)) as running:
        batch = {"items": [edit(ONE), edit(TWO), edit(picture(3))]}
        with running.connect(message(batch, "/batch_score")):
            assert judge.entered.wait(PATIENCE)
        assert judge.given_up.wait(PATIENCE)
        judge.let_go()
        assert running.post("/score", edit(picture(4))).status == 200
        asked = [example.candidates[0].data for example in judge.asked]
        assert asked == [ONE, picture(4)]  # what had waited behind it was never judged
        assert running.service.gate.judgments == 0
        assert 'rh_requests_total{code="499",route="/batch_score"} 1.0' in running.get("/metrics").body.decode()


def test_equal_questions_at_once_are_asked_once_and_outlive_one_caller() -> None:
    judge = HoldingJudge()
    with Running(judge) as running:
        with running.connect(message(edit())):
            assert judge.entered.wait(PATIENCE)
            stayer = later(lambda: running.post("/batch_score", {"items": [edit(), edit()]}))
            running.wait_until(lambda service: service.gate.judgments == 3)
        running.wait_until(lambda service: service.gate.judgments == 2)
        judge.let_go()
        assert [item["reward"] for item in stayer.result().json["results"]] == [reward_of(ONE)] * 2
    assert len(judge.asked) == 1 and not judge.given_up.is_set()


def test_a_full_queue_is_said_with_when_to_come_back() -> None:
    judge = HoldingJudge()
    with Running(judge, Limits(concurrency=1, queue=3, items=3)) as running:
        first = later(lambda: running.post("/batch_score", {"items": [edit(ONE), edit(TWO)]}))
        assert judge.entered.wait(PATIENCE)
        refused = running.post("/batch_score", {"items": [edit(picture(5)), edit(picture(6))]})
        assert (refused.status, refused.code, refused.json["error"]["retryable"]) == (429, "busy", True)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        third = later(lambda: running.post("/score", edit(picture(7))))
        running.wait_until(lambda service: service.gate.judgments == 3)
        assert running.post("/score", edit(picture(8))).status == 429 and running.get("/healthz").status == 200
        judge.let_go()
        assert [first.result().json["n_ok"], third.result().json["n_ok"]] == [2, 1]
        assert running.post("/score", edit(picture(8))).status == 200


def test_bytes_are_bounded_over_all_requests_and_given_back() -> None:
    judge = HoldingJudge()
    with Running(judge, Limits(body_bytes=4000, bytes_at_once=4000, read_seconds=PATIENCE)) as running:
        padding = {"images": {"pad": b64(b"x" * 2400)}}
        first = later(lambda: running.post("/score", edit(ONE, **padding)))
        assert judge.entered.wait(PATIENCE)
        second = later(lambda: running.post("/score", edit(TWO, **padding)))
        running.wait_until(lambda service: service.gate.requests == 2)
        running.let_pass(PATIENCE)
        refused = second.result()
        assert (refused.status, refused.code) == (429, "busy")
        judge.let_go()
        assert first.result().status == 200 and running.post("/score", edit(TWO, **padding)).status == 200


def test_a_length_that_is_only_announced_holds_no_room() -> None:
    with Running(ReadyJudge(), Limits(body_bytes=20_000, bytes_at_once=20_000, read_seconds=PATIENCE)) as running:
        with contextlib.ExitStack() as idle:
            for _ in range(8):
                idle.enter_context(running.connect(head("/score", "Content-Length: 19000") + b"{"))
                idle.enter_context(running.connect(head("/score", CHUNKED) + b"1\r\n{"))
            running.wait_until(lambda service: service.gate.bytes_held == 16)
            assert running.post("/score", edit()).status == 200 and running.service.gate.bytes_held == 16
            running.let_pass(PATIENCE + 1)  # one byte each earns no more time
            running.wait_until(lambda service: service.gate.requests == 0)
        assert running.service.gate.bytes_held == 0


def test_a_judge_that_hangs_costs_no_more_than_the_deadline() -> None:
    judge = HoldingJudge(expected=2)
    with Running(judge) as running:
        wish = {"items": [edit(ONE), edit(TWO)], "deadline_s": PATIENCE}
        asked = later(lambda: running.post("/batch_score", wish))
        assert judge.entered.wait(PATIENCE)
        running.let_pass(PATIENCE)
        results = asked.result().json["results"]
        assert [(item["error"]["code"], item["reward"]) for item in results] == [("deadline", None)] * 2
        assert judge.given_up.wait(PATIENCE)
        judge.let_go()
        assert running.post("/score", edit(ONE)).json["results"][0]["ok"] is True


def test_a_judge_that_fails_says_so_in_words_that_give_nothing_away(caplog, tmp_path):
    troubles = {
        ONE: Failure("unreachable", f"{SECRET} cannot be reached."),
        TWO: RuntimeError(f"no route to {SECRET}"),
        SOURCE: Failure("unheard_of", f"{SECRET}!"),
    }
    judge = ReadyJudge(lambda example: troubles.get(example.candidates[0].data or b""))
    path = tmp_path / "requests.jsonl"
    with Running(judge, token=TOKEN) as running:
        running.service.log = RequestLog(path, lambda: None)
        wish = {"items": [edit(ONE, id="my-id"), edit(TWO), edit(SOURCE), edit(picture(9))]}
        answered = running.post("/batch_score", wish, **{"X-Request-ID": "r1"})
        running.post("/score", edit() | {"instruction": ""})
        running.ask("GET", f"/secret-path-{TOKEN}?{TOKEN}", headers={"Authorization": "x"})
        metrics = running.get("/metrics").body.decode()
    errors = [item["error"] for item in answered.json["results"]]
    codes = [("unreachable", True), ("defect", False), ("unheard_of", False), None]
    assert [error and (error["code"], error["retryable"]) for error in errors] == codes
    lines = [record for _, record in read_jsonl(path)]
    assert [(line["route"], line["status"], line["error"]) for line in lines] == [
        ("/batch_score", 200, None),
        ("/score", 422, "invalid_request"),
        ("other", 401, "unauthorized"),
    ]
    assert lines[0]["errors"] == ["unreachable", "defect", "unheard_of", None]
    assert lines[0]["rewards"] == [None, None, None, reward_of(picture(9))] and lines[0]["request_id"] == "r1"
    everything = answered.body.decode() + path.read_text() + caplog.text + metrics
    for secret in ("hunter2", "10.1.2.3", TOKEN, "make it lighter", "my-id", b64(ONE)[:40], "Traceback"):
        assert secret not in everything or (secret == "my-id" and secret in answered.body.decode())
    assert "my-id" not in path.read_text()


def test_nothing_is_lost_when_many_judgments_fail_by_chance() -> None:
    troubles = {0: Failure("timeout", "late"), 1: ValueError("odd"), 2: Failure("no_answer", "?")}
    codes = ["timeout", "defect", "no_answer"]
    images = [picture(shade) + bytes([number]) for number in range(40) for shade in (1, 2, 3, 4, 5)]
    with Running(ReadyJudge(lambda example: troubles.get(example.candidates[0].data[-1] % 5))) as running:
        bodies = [{"items": [edit(image) for image in images[at::8]]} for at in range(8)]
        asked = [later(partial(running.post, "/batch_score", body)) for body in bodies]
        found = [zip(images[at::8], each.result().json["results"], strict=True) for at, each in enumerate(asked)]
        for image, item in chain(*found):
            if image[-1] % 5 > 2:
                assert (item["ok"], item["reward"], item["error"]) == (True, reward_of(image), None)
            else:
                assert (item["ok"], item["reward"], item["normalised"]) == (False, None, None)
                assert item["error"]["code"] == codes[image[-1] % 5]


def test_the_end_is_orderly() -> None:
    judge = HoldingJudge()
    with Running(judge) as running:
        accepted = later(lambda: running.post("/batch_score", {"items": [edit(ONE), edit(TWO)]}))
        assert judge.entered.wait(PATIENCE)
        running.end()
        while running.get("/readyz").status == 200:
            pass
        assert running.get("/readyz").code == "shutting_down" and running.get("/healthz").status == 200
        refused = running.post("/score", edit(picture(9)))
        assert (refused.status, refused.code) == (503, "shutting_down") and "retry-after" in refused.headers
        judge.let_go()
        assert [item["reward"] for item in accepted.result().json["results"]] == [reward_of(ONE), reward_of(TWO)]
        running.join()
    assert judge.closed


def test_what_takes_too_long_at_the_end_is_answered_too() -> None:
    judge = HoldingJudge()
    with Running(judge, Limits(drain_seconds=0.05)) as running:
        accepted = later(lambda: running.post("/score", edit()))
        assert judge.entered.wait(PATIENCE)
        running.end()
        [item] = accepted.result().json["results"]
        assert (item["reward"], item["error"]["code"], item["error"]["retryable"]) == (None, "shutting_down", True)
        running.join()


def test_sigterm_while_a_model_judges_loses_nothing(tmp_path: Path, own_home: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def model(call: object) -> str | None:
        if b"image_url" not in call.body:  # type: ignore[attr-defined]
            return None
        asked.set()
        assert go.wait(PATIENCE)
        return '{"instruction": 3, "quality": 2}'

    with ModelServer(model) as upstream:
        command = [sys.executable, "-m", "rewardharness", "serve", "--port", "0", "--no-cache"]
        command += ["--judge", f"openai:judge@{upstream.url}", "--protocol", "pointwise"]
        environment = {**os.environ, "RH_HOME": str(own_home), "RH_SERVER_TOKEN": TOKEN}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
            try:
                assert process.stderr is not None
                running = Running.__new__(Running)
                running.port, running.token = int(process.stderr.readline().split()[2].rpartition(":")[2]), TOKEN
                accepted = later(lambda: running.post("/score", edit()))
                assert asked.wait(PATIENCE)
                process.send_signal(signal.SIGTERM)
                while running.get("/readyz").status == 200:
                    pass
                go.set()
                [item] = accepted.result().json["results"]
                assert process.wait(PATIENCE) == 0
                said = process.stderr.read()
            finally:
                go.set()
                process.kill()
    assert item["ok"] is True and item["scores"] == {"instruction": 3.0, "quality": 2.0}
    assert TOKEN not in said and "Traceback" not in said


def model_judge(url: str, home: Path) -> Judge:
    settings = Settings(home=home, library="builtin", debug=False, workers=1)
    return open_judge(f"openai:judge@{url}", settings, protocol="pointwise", retries=0, no_cache=True)


def test_a_model_that_is_gone_makes_the_server_unready_and_no_rewards(own_home: Path) -> None:
    port = own_port()
    with Running(model_judge(f"http://127.0.0.1:{port}/v1", own_home)) as running:
        ready = running.get("/readyz")
        assert (ready.status, ready.code) == (503, "not_ready") and running.get("/healthz").status == 200
        answered = running.post("/score", edit())
    [item] = answered.json["results"]
    assert (item["reward"], item["error"]["code"], item["error"]["retryable"]) == (None, "unreachable", True)
    assert str(port) not in answered.body.decode() + ready.body.decode()

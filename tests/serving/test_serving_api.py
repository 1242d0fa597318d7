"""The routes, over real HTTP: shapes, words, ids, multipart, OpenAPI."""

import http.client
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from serving_parts import (
    ONE,
    PATIENCE,
    SOURCE,
    THREE,
    TWO,
    ReadyJudge,
    Running,
    b64,
    edit,
    group,
    pair,
    picture,
    reward_of,
    rewards_in,
    rewards_of,
)

from rewardharness.schema import Failure
from rewardharness.serving.results import RewardReply

REPLY = TypeAdapter(RewardReply)
TEXT = "make it lighter"


def test_one_edit_gets_its_reward(server: Running) -> None:
    answered = server.post("/score", edit(id="mine"))
    assert answered.status == 200
    reply = answered.json
    assert REPLY.validate_json(answered.body).n_ok == 1
    [item] = reply["results"]
    assert (item["ok"], item["reward"], item["id"]) == (True, reward_of(ONE), "mine")
    assert item["error"] is item["variance"] is item["margin"] is item["normalised"] is reply["comparison"] is None
    assert (reply["judge"], reply["protocol"], reply["release"]) == ("ready", "by bytes", None)
    assert reply["library_id"] == server.service.identity.library_id
    assert answered.headers["x-request-id"] == reply["request_id"]
    assert answered.headers["cache-control"] == "no-store"


def test_the_same_again_is_remembered_and_costs_nothing(server: Running, judge: ReadyJudge) -> None:
    first = server.post("/score", edit(picture(7))).json["results"][0]
    asked = len(judge.asked)
    second = server.post("/score", edit(picture(7))).json["results"][0]
    assert (first["cached"], first["usage"]["calls"]) == (False, 1)
    assert (second["cached"], second["usage"]["calls"], second["reward"]) == (True, 0, first["reward"])
    assert len(judge.asked) == asked


def test_several_candidates_are_judged_together(server: Running, judge: ReadyJudge) -> None:
    before = len(judge.asked)
    reply = server.post("/score", group(ONE, TWO, THREE))
    assert len(judge.asked) == before + 1 and rewards_in(reply) == rewards_of((ONE, TWO, THREE))
    rewards = dict(zip("ABC", rewards_of((ONE, TWO, THREE)), strict=True))
    order = sorted(rewards, key=lambda label: -rewards[label])
    comparison = reply.json["comparison"]
    assert (comparison["preference"], comparison["ranking"]) == (order[0], [[label] for label in order])
    assert comparison["margin"] == rewards[order[0]] - rewards[order[1]]


def test_a_batch_answers_item_by_item_in_order() -> None:
    junk = b"this is no image"

    def trouble(example: object) -> Failure | None:
        [candidate] = example.candidates  # type: ignore[attr-defined]
        return Failure("image", "the edited image is damaged.") if candidate.data == junk else None

    with Running(ReadyJudge(trouble)) as running:
        reply = running.post("/batch_score", {"items": [edit(ONE, id="a"), edit(junk, id="b"), edit(TWO, id="c")]})
    results = reply.json["results"]
    assert [(item["id"], item["index"]) for item in results] == [("a", 0), ("b", 1), ("c", 2)]
    assert rewards_in(reply) == [reward_of(ONE), None, reward_of(TWO)]
    assert (reply.status, reply.json["n_ok"], reply.json["n_error"]) == (200, 2, 1)
    error = results[1]["error"]
    assert (error["code"], error["retryable"], results[1]["scores"]) == ("image", False, None)


def test_images_can_be_named_once_and_used_often_and_be_data_uris(server: Running) -> None:
    items = [edit(ONE, source={"ref": "s"}), edit(source={"ref": "s"}, edited="data:image/png;base64," + b64(TWO))]
    reply = server.post("/batch_score", {"items": items, "images": {"s": b64(SOURCE)}})
    assert rewards_in(reply) == rewards_of((ONE, TWO))


def test_multipart_takes_images_as_they_are(server: Running) -> None:
    asked = {"instruction": TEXT, "source": {"ref": "before"}, "edited": {"ref": "after.png"}}
    parts = [("request", json.dumps(asked).encode()), ("before", SOURCE), ("after.png", ONE)]
    body = b"".join(
        b'--xyz\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n' % (name.encode(), data)
        for name, data in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}
    assert rewards_in(server.ask("POST", "/score", body + b"--xyz--\r\n", headers)) == [reward_of(ONE)]


def test_a_comparison_is_made_in_both_orders_by_a_judge_that_shows_one(server: Running) -> None:
    judge = ReadyJudge(both_orders=False)
    with Running(judge) as running:
        reply = running.post("/compare", pair()).json
    assert [example.candidates[0].data for example in judge.asked] == [ONE, TWO]
    comparison = reply["comparison"]
    assert comparison["preference"] == ("A" if reward_of(ONE) > reward_of(TWO) else "B")
    assert comparison["position_consistent"] is True
    assert comparison["margin"] == abs(reward_of(ONE) - reward_of(TWO)) and reply["usage"]["calls"] == 2
    assert server.post("/compare", pair()).json["comparison"] == comparison


def test_a_group_gets_rewards_and_what_makes_them_relative(server: Running) -> None:
    images = [picture(shade) for shade in range(20, 36)]
    answered = server.post("/rank", group(*images, normalise="group", clip=1.5))
    rewards = rewards_of(images)
    assert rewards_in(answered) == rewards
    [stats] = answered.json["groups"]
    assert (stats["n"], stats["judged"], stats["degenerate"]) == (16, 16, False)
    assert stats["mean"] == pytest.approx(sum(rewards) / 16)
    for item in answered.json["results"]:
        z = (item["reward"] - stats["mean"]) / (stats["std"] + 1e-4)
        assert item["normalised"] == max(-1.5, min(1.5, z))


def test_a_win_rate_counts_the_comparisons_that_were_won(server: Running) -> None:
    images = [picture(shade) for shade in range(40, 46)]
    answered = server.post("/rank", group(*images, method="win_rate"))
    rewards = rewards_of(images)
    assert rewards_in(answered) == [sum(own > other for other in rewards) / 5 for own in rewards]
    assert all(item["comparisons"] == {"judged": 5, "of": 5} for item in answered.json["results"])
    assert answered.json["usage"]["calls"] == 15


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"colour": 1}, "colour"),
        ({"edited": None}, ""),
        *(({"instruction": text}, "instruction") for text in ("  ", "\0 \x1b\x7f\x9f", "x" * 16_001, "x" * 50_000, 7)),
        *(({"source": text}, "source") for text in ("http://example.com/x.png", "/etc/passwd", "")),
        *(({"source": form}, "source") for form in ({"url": "http://example.com/x.png"}, {"ref": "nothing"})),
        ({"deadline_s": -1}, "deadline_s"),
        ({"images": {"a/b": "AAAA"}}, "images.a/b"),
        ({"images": {"a": "???"}}, "images.a"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(change: dict[str, object], field: str, server: Running) -> None:
    answered = server.post("/score", edit() | change)
    assert answered.status == 422 and field in [each["field"] for each in answered.json["fields"]]
    assert answered.json["error"]["message"] and answered.json["error"]["remedy"] and "results" not in answered.json


CODES = {400: "malformed", 415: "unsupported_media_type", 422: "invalid_request"}


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        *((body, "application/json", 400) for body in (b"", b"{", b"[" * 2000, b'{"instruction": NaN}')),
        *((body, "application/json", 422) for body in (b"[]", b"null")),
        *((b"{}", kind, 415) for kind in ("text/plain", "", "multipart/form-data", "application/octet-stream")),
        (b"--x--\r\n", "multipart/form-data; boundary=x", 400),
    ],
)
def test_a_body_that_breaks_its_format_is_refused(body: bytes, kind: str, status: int, server: Running) -> None:
    answered = server.ask("POST", "/score", body, {"Content-Type": kind})
    assert (answered.status, answered.code) == (status, CODES[status])


def many(piece: str, count: int = 100_000) -> str:
    return ",".join([piece] * count)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/rank", '{"candidates":[' + many("1") + "]}", 422, "too_many"),
        ("/rank", '{"candidates":[' + many("1", 65) + "]}", 422, "too_many"),
        ("/rank", '{"method":"win_rate","candidates":[' + many("1", 17) + "]}", 422, "too_many"),
        ("/score", '{"candidates":[' + many("1", 1_000_000) + "]}", 413, "too_large"),
        ("/score", '{"images":' + json.dumps(dict.fromkeys(map(str, range(9000)), 1)) + "}", 422, "too_many"),
        ("/score", '{"images":' + json.dumps(dict.fromkeys(map(str, range(1400)), "")) + "}", 422, "too_many"),
        ("/score", json.dumps(dict.fromkeys(map(str, range(9000)), 1)), 422, "too_many"),
        ("/batch_score", '{"items":[' + many("{}", 257) + "]}", 422, "too_many"),
        ("/batch_score", '{"items":[' + many("[]") + "]}", 422, "too_many"),
        ("/batch_score", '{"items":[' + many("[" * 900 + "]" * 900, 20) + "]}", 422, "too_many"),
        ("/score", '{"instruction":"%s"}' % ('\\"' * 100_000), 422, "too_many"),
        ("/unirl/score", '{"requests":[' + many("{}") + "]}", 422, "too_many"),
        ("/score", "{%s}" % (" " * 2_000_000), 413, "too_large"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else value,
)
def test_a_body_of_many_values_is_refused_before_its_values_are_checked(path, body, status, code, server):
    answered = server.ask("POST", path, body.encode(), {"Content-Type": "application/json"})
    assert (answered.status, answered.code) == (status, code)


def test_the_first_item_that_is_wrong_ends_the_check(server: Running) -> None:
    fields = server.post("/batch_score", {"items": [edit(), {}, {}, {}]}).json["fields"]
    assert [each["field"] for each in fields] == [f"items[1].{name}" for name in ("instruction", "edited")]


def test_a_full_batch_of_small_images_and_long_instructions_is_judged(server: Running, judge: ReadyJudge) -> None:
    texts = [f'{number} \\ " /é 画像' + "x" * 3900 for number in range(256)]
    names = {"id": "x" * 128, "group": "y" * 128}
    items = [edit(picture(number) + b"\0" * 5000, **names) | {"instruction": texts[number]} for number in range(256)]
    for escaped in (True, False):
        body = json.dumps({"items": items}, ensure_ascii=escaped, indent=1).replace("/", "\\/" if escaped else "/")
        answered = server.ask("POST", "/batch_score", body.encode(), {"Content-Type": "application/json"})
        assert answered.json["n_ok"] == 256
    assert {example.instruction for example in judge.asked} >= set(texts)


def test_errors_have_one_shape_wherever_they_arise(server: Running) -> None:
    for answered in (
        server.get("/nowhere"),
        server.ask("PUT", "/score"),
        server.post("/score", {}),
        server.ask("POST", "/score", b"{", {"Content-Type": "application/json"}),
        server.ask("POST", "/score", b"", {"Content-Encoding": "gzip", "Content-Type": "application/json"}),
    ):
        assert set(answered.json) == {"request_id", "error", "fields"}
        assert set(answered.json["error"]) == {"code", "message", "remedy", "retryable"}
        assert answered.headers["content-type"] == "application/json"
        assert answered.headers["x-request-id"] == answered.json["request_id"]
    assert server.ask("PUT", "/score").headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-1.2_3", "abc-1.2_3"), ("a b\tc/<x>", "abcx"), ("x" * 100, "x" * 64), ("%&/", None)]
)
def test_a_request_id_is_taken_as_far_as_it_is_harmless(given: str, kept: str | None, server: Running) -> None:
    answered = server.post("/score", edit(), **{"X-Request-ID": given})
    assert answered.json["request_id"] == (kept or answered.headers["x-request-id"])
    assert len(answered.json["request_id"]) >= 4


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.5, 1.5])
def test_a_number_that_is_no_reward_never_leaves(value: float) -> None:
    class Odd(ReadyJudge):
        def answer(self, example: object, library: object) -> object:  # type: ignore[override]
            judgment = super().answer(example, library)  # type: ignore[arg-type]
            return replace(judgment, scores={"A": replace(judgment.scores["A"], reward=value)})

    with Running(Odd()) as running:
        answered = running.post("/score", edit())
    [item] = answered.json["results"]
    assert (item["ok"], item["reward"], item["error"]["code"]) == (False, None, "bad_score")
    assert b"NaN" not in answered.body and b"Infinity" not in answered.body


def test_a_protocol_that_only_compares_gives_no_reward_and_says_what_does() -> None:
    class Comparing(ReadyJudge):
        def answer(self, example: object, library: object) -> object:  # type: ignore[override]
            return replace(super().answer(example, library), scores={})  # type: ignore[arg-type]

    with Running(Comparing()) as running:
        [item] = running.post("/score", edit()).json["results"]
        rates = rewards_in(running.post("/rank", group(ONE, TWO, method="win_rate")))
    assert (item["reward"], item["error"]["code"]) == (None, "no_score") and "win_rate" in item["error"]["remedy"]
    assert sorted(rates) == [0.0, 1.0]


def test_health_readiness_and_who_judges(server: Running) -> None:
    assert server.get("/healthz").json == {"status": "ok"} and server.get("/readyz").json == {"status": "ready"}
    info = server.get("/info").json
    assert (info["identity"]["judge"], info["identity"]["release"]) == ("ready", None)
    assert info["identity"]["judge_revision"] == info["judge_revision"] == "1" and info["identity"]["version"]
    assert info["limits"]["items"] == server.service.limits.items


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/info", "/metrics", "/openapi.json"])
def test_head_is_answered_as_get_without_the_body(path: str, server: Running) -> None:
    got, head = server.get(path), server.ask("HEAD", path)
    assert (got.status, head.status, head.body) == (200, 200, b"")
    assert head.headers["content-type"] == got.headers["content-type"] and int(head.headers["content-length"]) > 0
    assert {"GET", "HEAD"} == set(server.ask("POST", path, b"{}").headers["allow"].split(", "))


def test_head_is_refused_where_get_is_and_the_connection_goes_on(judge: ReadyJudge) -> None:
    with Running(judge, token="a-token-for-the-tests") as running:
        refused = running.ask("HEAD", "/info", headers={"Authorization": "Bearer another"})
        assert (refused.status, refused.body) == (401, b"") and refused.headers["www-authenticate"] == "Bearer"
        assert running.ask("HEAD", "/healthz").status == 200
    with Running(judge) as running:
        wrong = running.ask("HEAD", "/score")
        assert (wrong.status, wrong.body, wrong.headers["allow"]) == (405, b"", "POST")
        again = http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
        for method in ("HEAD", "GET", "HEAD"):
            again.request(method, "/healthz")
            assert len(again.getresponse().read()) == (method == "GET") * len(b'{"status":"ok"}')
        again.close()


def test_metrics_count_what_happened() -> None:
    with Running(ReadyJudge()) as running:
        running.post("/score", edit())
        running.post("/score", edit())
        running.post("/score", {})
        text = running.get("/metrics").body.decode()
    assert set(text.splitlines()) >= {
        'rh_requests_total{code="200",route="/score"} 2.0',
        'rh_requests_total{code="422",route="/score"} 1.0',
        'rh_items_total{outcome="ok"} 2.0',
        "rh_items_cached_total 1.0",
        'rh_judge_tokens_total{kind="input"} 100.0',
        'rh_refused_total{code="invalid_request"} 1.0',
        "rh_reward_count 2.0",
    }


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just(b64(ONE))),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
WISHES = {
    "/score": edit(),
    "/batch_score": {"items": [edit()], "images": {"a": b64(TWO)}, "normalise": "group"},
    "/compare": pair(b={"ref": "x"}, images={"x": b64(TWO)}),
    "/rank": group(ONE, TWO, method="win_rate"),
}


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_sent_is_answered_in_one_of_two_shapes(server: Running, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(WISHES)))
    wish = json.loads(json.dumps(WISHES[path]))
    for _ in range(data.draw(st.integers(0, 2))):
        items = wish.get("items")
        inner = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        holder = data.draw(st.sampled_from([wish, *inner]))
        key = data.draw(st.one_of(st.sampled_from(sorted(holder) or ["x"]), st.text(max_size=8)))
        holder[key] = data.draw(anything)
    answered = server.post(path, wish)
    if answered.status == 200:
        reply = REPLY.validate_json(answered.body)
        assert all((item.reward is None) == (item.error is not None) == (not item.ok) for item in reply.results)
    else:
        assert answered.status in {400, 413, 422} and set(answered.json) == {"request_id", "error", "fields"}

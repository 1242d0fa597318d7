import os
import pickle
import pickletools
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_parts import ONE, ReadyJudge, Running, b64, picture, reward_of

from rewardharness.cli.main import main
from rewardharness.schema import Failure
from rewardharness.serving.faults import DEFECT, RefusedError
from rewardharness.serving.limits import Limits
from rewardharness.serving.pickled import load_plain, read_pickled

BEFORE, BAD = picture(1), picture(66)


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)


@pytest.fixture(scope="module")
def old(judge):
    """A server that speaks pickle."""
    with Running(judge, pickles=True) as running:
        yield running


def pickled(server: Running, value: object, path: str = "/") -> tuple[int, dict]:
    body = value if isinstance(value, bytes) else pickle.dumps(value)
    reply = server.ask("POST", path, body, {"Content-Type": "application/octet-stream"})
    return reply.status, load_plain(reply.body, Limits())


# ---- pickle


EDITED = [picture(2), picture(3)]
PROMPTS = ["make it red", "make it blue"]
FORMS = {
    "edit-r1": {"images": EDITED, "ref_images": [BEFORE, BEFORE], "prompts": PROMPTS, "metadatas": [{}, {}]},
    "verl-omni": {"images": EDITED, "prompts": PROMPTS, "metadata": {"source": [BEFORE, BEFORE]}},
    "one source": {"images": EDITED, "prompts": PROMPTS, "metadata": {"source_image": BEFORE}},
    "flow_grpo": {"images": EDITED, "prompts": PROMPTS, "meta_datas": [{"source": BEFORE}] * 2, "only_strict": True},
    "deepgen": {"images": {"source": [BEFORE, BEFORE], "edited": EDITED}, "prompts": PROMPTS},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", ["/", "/mode/logits_non_cot"])
def test_every_form_is_scored(old, judge, form, path):
    status, said = pickled(old, FORMS[form], path)
    expected = [pytest.approx(reward_of(each)) for each in EDITED]
    assert status == 200 and said["scores"] == said["rewards"] == expected
    assert {example.instruction for example in judge.asked} >= set(PROMPTS)
    assert all(example.source.data == BEFORE for example in judge.asked)


def test_an_edit_that_was_not_judged_fails_the_whole_reply(old):
    status, said = pickled(old, {"images": [picture(2), BAD], "ref_images": [BEFORE] * 2, "prompts": PROMPTS})
    assert status == 500 and said["error"].startswith("1 of 2 edits were not judged; the first: timeout: ")


BOTH = {"images": EDITED, "prompts": PROMPTS}


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (BOTH, "no source images"),
        ({**BOTH, "prompts": PROMPTS[:1], "ref_images": [BEFORE] * 2}, "2 images, 1 prompts"),
        ({"images": [], "prompts": [], "ref_images": []}, "0 images"),
        ({"images": ["a"], "prompts": ["b"], "ref_images": [BEFORE]}, "images is no list of encoded images"),
        ({**BOTH, "metadata": {"source": 3}}, "ref_images is no list"),
        ([1, 2], "does not hold a mapping"),
        *((wish, "no pickle") for wish in (b"", b"\x80\x04", b"GIF89a")),
    ],
)
def test_what_cannot_be_scored_is_said(old, wish, said):
    status, reply = pickled(old, wish)
    assert status == 400 and said in reply["error"]


class Evil:
    """Runs a program when it is read."""

    def __init__(self, call: object, *words: object) -> None:
        self.call, self.words = call, words

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call, self.words


def doubled(depth: int) -> bytes:
    """A mapping whose key is a tuple of tuples; to hash it takes 2 to the power of the depth steps."""
    return b"\x80\x04}" + b"K\x01" + b"2\x86" * depth + b"K\x01s."


@pytest.mark.parametrize(
    "body",
    [
        pickle.dumps(Evil(os.system, "touch /tmp/never")),
        pickle.dumps({"images": Evil(eval, "1"), "prompts": []}),
        pickle.dumps(Evil(os.system, "true"), protocol=0),
        b"cos\nsystem\n(S'true'\ntR.",
        pickle.dumps({"images": [Path("x")]}),
        pickle.dumps({"images": {1, 2}}),
        doubled(60),
        pickle.dumps(("a",)),
        pickle.dumps(1j),
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".",
        b"\x80\x04X" + struct.pack("<I", 1 << 31) + b".",
        b"\x80\x02]q\x00(" + b"h\x00" * 300_000 + b"e.",
        b"\x80\x03\x8a\xff",
        b"(lp0\nP1\na.",
    ],
    ids=lambda body: str(len(body)),
)
def test_a_pickle_that_is_more_than_data_is_refused_unread(old, body):
    status, said = pickled(old, body)
    assert status == 400 and "error" in said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"Nr\xff\xff\xff\x0f.", "gaps"),
        (b"\x80\x02]r\x10\x00\x00\x00.", "gaps"),
        (b"]" + b"N\x94a" * 10_000 + b".", "too many instructions"),
        (pickle.dumps([(2**61 - 1) << 61]), "64 bits"),  # thousands of such keys share one hash
    ],
)
def test_a_pickle_that_costs_more_than_its_bytes_is_refused_unread(body, said):
    with pytest.raises(RefusedError) as caught:
        load_plain(body, Limits())
    assert caught.value.status == 400 and said in caught.value.fault.message


def test_an_image_that_a_pickle_holds_once_is_decoded_once():
    wish = {"images": [ONE] * 200, "ref_images": [BEFORE] * 200, "prompts": ["x"] * 200}
    parsed = read_pickled("", pickle.dumps(wish), Limits())
    assert len(parsed.tree["items"]) == 200 and sorted(parsed.parts.values()) == sorted([ONE, BEFORE])


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-(2**63), 2**63 - 1), inner),
        max_leaves=12,
    ),
    st.integers(2, pickle.HIGHEST_PROTOCOL),
)
def test_plain_data_comes_through_as_it_is(value, protocol):
    data = pickle.dumps(value, protocol=protocol)
    names = {instruction.name for instruction, _, _ in pickletools.genops(data)}
    if names & {"GLOBAL", "REDUCE", "LONG4"}:  # bytes in protocol 2 are made by a call
        with pytest.raises(RefusedError):
            load_plain(data, Limits())
    else:
        assert load_plain(data, Limits()) == value


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(data):
    try:
        load_plain(data, Limits())
    except RefusedError as error:
        assert error.status == 400


def test_pickle_is_spoken_only_where_it_was_asked_for(server, capsys):
    assert [server.ask("POST", path, pickle.dumps({})).status for path in ("/", "/mode/x")] == [404, 404]
    assert main(["serve", "--host", "0.0.0.0", "--insecure-no-auth", "--allow-pickle", "--judge", "measured"]) == 2
    assert "from this machine only" in capsys.readouterr().err


def test_an_internal_error_is_told_in_the_protocol_of_the_caller(old, monkeypatch):
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(old.service, "answer", broken)
    for path in ("/score", "/unirl/score", "/flow_factory/compute"):
        reply = old.post(path, {})
        assert (reply.status, reply.code) == (500, "defect") and b"secret" not in reply.body
    assert pickled(old, {}, "/mode/x") == (500, {"error": DEFECT.message})


# ---- UniRL


def turn(image: bytes | None, text: str = "make it red") -> dict:
    return {"text": text, **({} if image is None else {"image_b64": b64(image)})}


def edit(edited: bytes | None, **more: object) -> dict:
    return {"history": [turn(BEFORE), turn(edited)], "required_rewards": ["rewardharness"], "metadata": {}, **more}


def requests(*edits: object) -> dict:
    return {"requests": list(edits)}


def test_unirl_gets_rewards_and_errors_by_name(server):
    said = server.post("/unirl/score", requests(edit(picture(2)), edit(BAD))).json
    assert said["results"][0]["rewardharness"]["reward"] == pytest.approx(reward_of(picture(2)))
    assert set(said["results"][0]["rewardharness"]) == {"reward", "instruction_following", "visual_quality"}
    assert said["results"][1] == {} and said["errors"][1]["rewardharness"].startswith("timeout: ")
    assert said["errors"][0] == {}


UNIRL = [
    (requests(edit(picture(2), required_rewards=["EditReward"])), "requests[0].required_rewards"),
    (requests(edit(picture(2), history=[turn(BEFORE)])), "two turns"),
    (requests(edit(None)), "history[1] has no image_b64"),
    (requests(edit(picture(2), history="x")), "two turns"),
    (requests("x"), "requests[0] is no object"),
    *((body, "no list of edits") for body in ({}, [], None, {"requests": []})),
]
FLOW_FACTORY = [
    ([], "prompt is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": None}, "condition_images is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": [[]]}, "condition_images[0] does not begin"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": []}, "1 images, 1 prompts and 0 condition_images"),
    ({"prompt": [], "image": [], "condition_images": []}, "0 images"),
    ({"prompt": [3], "image": ["x"], "condition_images": [["x"]]}, "instruction"),
]


@pytest.mark.parametrize(
    ("path", "wrong", "said"),
    [*(("/unirl/score", *row) for row in UNIRL), *(("/flow_factory/compute", *row) for row in FLOW_FACTORY)],
)
def test_unirl_and_flow_factory_are_told_what_is_wrong(server, path, wrong, said):
    reply = server.post(path, wrong)
    assert reply.status == 422 and said in reply.json["error"]["message"]

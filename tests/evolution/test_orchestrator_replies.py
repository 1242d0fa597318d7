"""What the Orchestrator's model said is kept, counted once, and not asked for again."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rewardharness.evolution.replies import REPLIES, UNSAVED_REPLIES, Replies, request_key
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError, Reply
from rewardharness.models.scripted import Script, ScriptedModel

ASKED = (Message.of("system", "Rules."), Message.of("user", "What?", ImagePart(b"1", "image/png")))
REQUEST = ChatRequest(ASKED, seed=3)


def model(*script: Script) -> ScriptedModel:
    said: Iterator[Script] = iter(script)
    return ScriptedModel(lambda request: next(said))


def ask(replies: Replies, of: ScriptedModel, request: ChatRequest = REQUEST) -> tuple[Reply, int]:
    reply, paid = asyncio.run(replies.ask(of, request))
    return reply, paid.calls


def test_what_was_said_is_not_asked_again_by_whoever_opens_the_folder_next(tmp_path: Path) -> None:
    first = model("One.", "Two.")
    replies = Replies(tmp_path)
    assert replies.before.calls == 0 and not (tmp_path / REPLIES).exists()
    reply, paid = ask(replies, first)
    assert (reply.text, paid) == ("One.", 1)
    assert ask(replies, first)[1] == 0, "nor twice in one sitting"
    other = replace(REQUEST, seed=4)
    assert ask(replies, first, other)[0].text == "Two."
    again, nobody = Replies(tmp_path), model()
    assert again.before.calls == 2
    known, paid = ask(again, nobody)
    assert (known.text, known.finish_reason, paid) == (reply.text, reply.finish_reason, 0)
    assert ask(again, nobody, other)[0].text == "Two." and not nobody.requests


def test_a_failure_counts_as_a_request_and_is_asked_again(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        ask(Replies(tmp_path), model(ModelError("timeout", "Too late.")))
    again = Replies(tmp_path)
    assert again.before.calls == 1 and again.before.output_tokens == 0
    assert ask(again, model("Now."))[0].text == "Now."
    assert Replies(tmp_path).before.calls == 2


def test_a_torn_line_costs_no_more_than_itself(tmp_path: Path) -> None:
    ask(Replies(tmp_path), model("One."))
    with (tmp_path / REPLIES).open("ab") as stream:
        stream.write(json.dumps({"key": "x", "text": "half"})[:-6].encode())
    replies = Replies(tmp_path)
    assert replies.before.calls == 1 and ask(replies, model())[0].text == "One."
    ask(replies, model("Two."), replace(REQUEST, seed=9))
    assert Replies(tmp_path).before.calls == 2, "the line after it is whole"


def test_nothing_is_kept_where_nobody_asked_for_it() -> None:
    asked = model("One.", "Two.")
    assert [ask(UNSAVED_REPLIES, asked)[0].text for _ in range(2)] == ["One.", "Two."]


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, seed=None),
        replace(REQUEST, temperature=0.5),
        replace(REQUEST, max_tokens=7),
        replace(REQUEST, messages=ASKED[:1]),
        replace(REQUEST, messages=(ASKED[0], Message.of("user", "What?", ImagePart(b"2", "image/png")))),
        replace(REQUEST, messages=(Message.of("user", "Rules."), ASKED[1])),
    ],
)
def test_whatever_changes_the_answer_is_another_question(other: ChatRequest) -> None:
    asked = model()
    assert request_key(asked, other) != request_key(asked, REQUEST)
    assert request_key(asked, replace(REQUEST, timeout=1.0)) == request_key(asked, REQUEST)

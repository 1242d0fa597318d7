"""The protocol `checklist`: principles are written once, shared, and weighed; a form that is broken fails."""

import json

import pytest
from judge_parts import agent, ask, code, redder, text_of

from rewardharness.errors import InputError
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.checklist import checklist_of, lines_of, read_principles
from rewardharness.models.base import ChatRequest
from rewardharness.models.open import Script, ScriptedModel

PRINCIPLES = [
    {"text": "The box is red.", "about": "instruction", "weight": 3},
    {"text": "The rest is unchanged.", "about": "instruction", "weight": 1},
    {"text": "There are no seams.", "about": "quality", "weight": 2},
]


def model(grades: dict[str, list[int]], principles: object = PRINCIPLES) -> ScriptedModel:
    """A model that grades the first and the second candidate that it sees."""
    order: list[str] = []

    def reply(request: ChatRequest) -> Script:
        if "principles" in (request.schema or {})["properties"]:
            return json.dumps({"principles": principles})
        image = request.images[-1].sha256
        order.append(image) if image not in order else None
        return json.dumps({f"c{number}": grade for number, grade in enumerate(grades["AB"[order.index(image)]], 1)})

    return ScriptedModel(reply)


def test_principles_are_written_once_without_a_candidate_and_their_weights_decide() -> None:
    asked = model({"A": [0, 1, 1], "B": [1, 0, 1]})
    judgment = ask(asked, redder(90, 40), protocol="checklist")
    written = [request for request in asked.requests if "principles" in request.schema["properties"]]
    assert len(written) == 1 and len(written[0].images) == 1 and len(asked.requests) == 3
    assert judgment.preference == "B" and judgment.usage.calls == 3
    assert judgment.scores["A"].quality == judgment.scores["B"].quality == 4
    assert [step.text.count("The box is red.") for step in judgment.steps if step.kind == "think"] == [1, 1]
    assert "1 to 1" not in text_of(asked.requests[-1].messages[0])


def test_principles_are_cached_for_other_candidates_of_the_instruction(tmp_path) -> None:
    cache = JudgmentCache(tmp_path)
    first = model({"A": [1, 1, 1], "B": [0, 0, 1]})
    ask(agent(first, cache, protocol="checklist"), redder(90, 40))
    second = model({"A": [1, 1, 1], "B": [0, 0, 1]})
    ask(agent(second, cache, protocol="checklist"), redder(70, 20))
    assert not [request for request in second.requests if "principles" in request.schema["properties"]]
    cache.close()


@pytest.mark.parametrize(
    "principles",
    [
        PRINCIPLES[:2],
        PRINCIPLES * 3,
        [{**PRINCIPLES[0], "weight": 9}, *PRINCIPLES[1:]],
        [{**PRINCIPLES[0], "about": "taste"}, *PRINCIPLES[1:]],
        [{**PRINCIPLES[0], "text": " "}, *PRINCIPLES[1:]],
        ["The box is red."] * 3,
        "none",
    ],
)
def test_principles_in_another_form_are_asked_for_once_more_and_then_fail(principles: object) -> None:
    asked = model({}, principles)
    assert code(ask(asked, redder(90), protocol="checklist")) == "no_answer"
    assert len(asked.requests) == 2


def test_corrected_principles_replace_those_of_the_model(tmp_path) -> None:
    grades = {"A": [0, 1, 1], "B": [1, 0, 1]}
    cache, first = JudgmentCache(tmp_path), ask(model(grades), redder(90, 40), protocol="checklist")
    written = checklist_of(first)
    assert written is not None and written.met == {"A": (0, 1, 1), "B": (1, 0, 1)}
    lines = lines_of(written.principles)
    assert lines == [f"{each['about']} {each['weight']}: {each['text']}" for each in PRINCIPLES]
    assert lines_of(read_principles(lines)) == lines
    corrected = ("The box   is dark.", "", lines[2])
    for requests in (2, 0):  # the grades are cached, under a key of their own
        asked = model({"A": [1, 1], "B": [0, 1]})
        again = ask(agent(asked, cache, protocol="checklist", principles=corrected), redder(90, 40))
        assert len(asked.requests) == requests and again.preference == "A"
        assert again.protocol == "checklist, given principles" != first.protocol
        found = checklist_of(again)
        assert found is not None and lines_of(found.principles) == ["instruction 1: The box is dark.", lines[2]]
        assert found.met == {"A": (1, 1), "B": (0, 1)}
    cache.close()


@pytest.mark.parametrize("lines", [[], ["quality 9: No."], ["x" * 301], ["quality 1.2.3: No."], ["Yes."] * 9])
def test_lines_that_are_no_principles_are_refused(lines: list[str]) -> None:
    with pytest.raises(InputError, match=r"principle"):
        read_principles(lines)

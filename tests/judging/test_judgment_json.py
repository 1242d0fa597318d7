"""One JSON form of a judgment."""

import base64
import json
import zlib
from dataclasses import replace

import pytest

from rewardharness.errors import InputError
from rewardharness.judgments import MAX_STEPS, judgment_from_json, judgment_json, result_line
from rewardharness.runs.results import compare_results
from rewardharness.schema import ChainStep, Failure, Judgment, RoutedEntry, Scores, Usage

WHOLE = Judgment(
    "e1",
    "vllm:judge",
    "chain, both orders",
    "ab12",
    preference="A",
    ties_offered=True,
    ranking=(("A",), ("B",)),
    margin=0.25,
    confidence=0.5,
    scores={"A": Scores(3.5, 4.0, 0.75, 0.01), "B": Scores(None, 2.0, 0.5, evidence=0.4)},
    entries=(RoutedEntry("text-edits", "skill", "always"),),
    steps=(ChainStep("think", "Looked.", b"PNG"), ChainStep("answer", '{"preference": "A"}')),
    reasons=("A is redder.",),
    notes=("A: rotated",),
    position_consistent=True,
    usage=Usage(2, 900, 40, 1.5),
)
TORN = replace(WHOLE, preference="tie", position_consistent=False, ranking=(("A", "B"),), margin=0.0)
FAILED = Judgment("e1", "j", "p", "l", failure=Failure("image", "gone.png: not there."))


@pytest.mark.parametrize("judgment", [WHOLE, TORN, FAILED])
def test_a_judgment_is_read_back_as_it_was_written(judgment: Judgment) -> None:
    record = json.loads(json.dumps(judgment_json(judgment)))
    assert judgment_from_json(record) == judgment
    line = json.loads(json.dumps(result_line(judgment))) | {"item": "x"}
    assert judgment_from_json(line) == judgment
    assert all(judgment_from_json(each, steps=False) == replace(judgment, steps=()) for each in (line, record))
    assert result_line(judgment).keys() == record.keys()
    text = json.dumps(record)
    assert "evidence" not in text and "picture" not in text, "neither is part of a record"


def test_what_is_missing_is_unknown() -> None:
    assert judgment_from_json({"id": "e1"}) == Judgment("e1", "", "", "")


def test_results_compare_with_a_replay() -> None:
    same = compare_results({"e1": result_line(WHOLE)}, {"e1": result_line(WHOLE)})
    assert not same.preferences and not same.margins and same.moved == 0
    torn = compare_results({"e1": result_line(WHOLE)}, {"e1": result_line(TORN)})
    assert [(each.before, each.after) for each in torn.preferences] == [("A", "tie")]


def test_a_value_of_another_type_is_named() -> None:
    with pytest.raises(InputError, match="margin"):
        judgment_from_json(result_line(WHOLE) | {"margin": "large"})


def test_a_result_line_holds_the_chain_in_less_space() -> None:
    said = [f"Step {number} looks at the chair." for number in range(50)]
    steps = tuple(ChainStep("think", text, None, "B", ("B", "A"), number) for number, text in enumerate(said))
    judgment = replace(WHOLE, steps=steps)
    line = result_line(judgment)
    assert judgment_from_json(line).steps == steps
    assert len(line["steps"]) < len(json.dumps(judgment_json(judgment)["steps"])) / 4


def packed(rows: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(rows).encode())).decode()


@pytest.mark.parametrize("damaged", ["%", "eJw=", packed([["thought", "", "", [], 0]])])
def test_damaged_steps_are_named(damaged: str) -> None:
    with pytest.raises(InputError):
        judgment_from_json(result_line(WHOLE) | {"steps": damaged})
    assert judgment_from_json(result_line(WHOLE) | {"steps": damaged}, steps=False).preference == "A"


def test_the_number_of_steps_is_limited() -> None:
    steps = packed([["think", "", "", [], 0]] * (MAX_STEPS + 1))
    with pytest.raises(InputError, match=f"more than {MAX_STEPS}"):
        judgment_from_json(result_line(WHOLE) | {"steps": steps})


def test_a_lone_surrogate_of_a_model_does_not_prevent_writing() -> None:
    line = result_line(replace(WHOLE, steps=(ChainStep("tool", '{"query": "\ud83d"}'),)))
    assert judgment_from_json(json.loads(json.dumps(line))).steps == (ChainStep("tool", '{"query": "?"}'),)


def test_what_counts_as_judged_and_what_a_candidate_is_ranked_by() -> None:
    single = replace(FAILED, failure=None, scores={"A": Scores(3.0, None, 0.5)})
    assert WHOLE.judged and TORN.judged and single.judged and not FAILED.judged
    assert not replace(single, failure=FAILED.failure).judged, "a score beside a failure is no judgment"
    assert not replace(single, scores={}).judged
    assert [Scores(1, 1, *of).value_or_evidence for of in ((0.75,), (0.0,), (None,))] == [0.75, 0.0, 0.0]
    assert Scores(1, 1, None, evidence=0.4).value_or_evidence == 0.4
    assert Usage(1, 2, 3, 4.5) + Usage(10, 20, 30, 40.0) == Usage(11, 22, 33, 44.5)

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.answers import Answer, ReplyProblem, ToolRequest, read_number, read_turn

GOOD = '{"preference": "B", "scores": {"A": {"instruction": 2, "quality": 3}, "B": {"instruction": 4, "quality": 3}}}'
SCORES = {"A": (2.0, 3.0), "B": (4.0, 3.0)}


def outcome(text: str, *, ties: bool = False) -> object:
    return read_turn(text, ("A", "B"), ties=ties).outcome


@pytest.mark.parametrize(
    "text",
    [
        f"<think>x</think><answer>{GOOD}</answer>",
        f"<think>x</think>\n<answer>```json\n{GOOD}\n```</answer>",
        f"<answer>{GOOD}",
        f"<ANSWER> {GOOD} </ANSWER>",
        f"I think so.</think><answer>{GOOD}</answer>",
        f"<think>I could draft {GOOD}</think> {GOOD}",
        f'<think>not <answer>{{"preference": "A"}}</answer> but</think><answer>{GOOD}</answer>',
        f"<answer>{GOOD}</answer><answer>{GOOD}</answer>",
        f"Here you are:\n```\n{GOOD}\n```",
        GOOD.replace('"B",', '"b",'),
        GOOD.replace('"B",', '"候选 B",'),
        GOOD.replace('"B",', '"Ｂ",'),
        f"<think>候选 B 更好。</think>\n<answer>{GOOD}</answer>",
        f"我的回答如下：\n```json\n{GOOD}\n```\n完毕。",
        GOOD.replace(": ", "：").replace(", ", "，").replace('"', "“"),
        GOOD.replace("2,", '"2分",').replace("4,", '"４",'),
    ],
)
def test_forms_that_are_forgiven(text: str) -> None:
    assert outcome(text) == Answer("B", SCORES)


@pytest.mark.parametrize("word", ["tie", "平局", "平手", " Tie "])
def test_a_tie_in_either_language(word: str) -> None:
    found = outcome(GOOD.replace('"B",', f'"{word}",'), ties=True)
    assert isinstance(found, Answer) and found.preference == "tie"
    assert isinstance(outcome(GOOD.replace('"B",', f'"{word}",')), ReplyProblem), "only where ties are offered"


def test_thought_is_kept_apart() -> None:
    assert read_turn(f"<think> a </think>{GOOD}", ("A", "B"), ties=False).thought == "a"
    assert read_turn(f"no tags here <answer>{GOOD}</answer>", ("A", "B"), ties=False).thought == "no tags here"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A is better.",
        "<answer>A</answer>",
        "<answer>5</answer>",
        "<answer>null</answer>",
        '<answer>"preference"</answer>',
        '<answer>{"preference": 1}</answer>',
        '<answer>{"preference": "C"}</answer>',
        '<answer>{"preference": "tie"}</answer>',
        f"<answer>{GOOD}</answer><answer>{GOOD.replace('B', 'A', 1)}</answer>",
        f"<think><answer>{GOOD}</answer></think>",
        f"<think>I never close this <answer>{GOOD}</answer>",
        f"<think>I never close this {GOOD}",
        f"<think>a</think><THINK class='x'>draft <answer>{GOOD}</answer> no wait",
        f"<answer>{GOOD}</answer> no wait</think>",
        f"<think>call it </think> <answer>{GOOD}</answer> in the end </think>",
        f"```json\n{GOOD}\n``` no wait: ```json\n{GOOD.replace('B', 'A', 1)}\n```",
        '<tool>{"images": ["A"]}</tool>',
        "<tool>zoom in</tool>",
        "<answer>" + "[" * 100_000 + "</answer>",
    ],
)
def test_what_can_not_be_read_is_a_problem(text: str) -> None:
    assert isinstance(outcome(text), ReplyProblem)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>x</think><answer>{GOOD}</answer>",
        f"x</think>\n<answer>```json\n{GOOD}\n```</answer>\n\n\n",
        f"<think>x</think><answer>{GOOD}",
        GOOD + " " * 100_000,
    ],
)
def test_a_reply_that_was_cut_off_after_its_answer_counts(text: str) -> None:
    assert read_turn(text, ("A", "B"), ties=False, cut_off=True).outcome == Answer("B", SCORES)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>Draft <answer>{GOOD}</answer> no wait, that is",
        f"Draft <answer>{GOOD}</answer> no wait, that is",
        f"<answer>{GOOD}</answer> no wait, that is",
        f"<think>x</think><answer>{GOOD}</answer> but then again",
        f"<answer>{GOOD}</answer> no wait {{}}",
        f"{GOOD} no wait",
        f"<answer>{GOOD}</answer><answer>{GOOD[:20]}",
        " " * 100_000 + "<answer>" + " " * 50_000,
        '<think>look <tool>{"name": "zoom"}',
        "",
    ],
)
def test_a_draft_in_a_reply_that_was_cut_off_is_a_problem(text: str) -> None:
    assert isinstance(read_turn(text, ("A", "B"), ties=False, cut_off=True).outcome, ReplyProblem)


def test_a_tool_call_counts_although_the_reasoning_is_not_closed() -> None:
    turn = read_turn('<think>look at <tool>{"name": "zoom", "images": ["A"]}', ("A", "B"), ties=False)
    assert (turn.thought, turn.outcome) == ("look at", ToolRequest("zoom", ("A",), ""))
    drafted = f'<think><tool>{{"name": "zoom"}}</tool> or <answer>{GOOD}</answer>'
    assert isinstance(outcome(drafted), ReplyProblem)


def test_a_tie_only_where_it_is_offered() -> None:
    text = '<answer>{"preference": "Tie", "scores": {}}</answer>'
    assert isinstance(outcome(text), ReplyProblem)
    answer = outcome(text, ties=True)
    assert isinstance(answer, Answer)
    assert answer.preference == "tie"


@pytest.mark.parametrize(
    "score",
    ["true", "Infinity", "NaN", "5", "0", '"good"', "null", "[3]", '"3.5"', "-1", "1e400", "4" * 400, "-" + "4" * 400],
)
def test_scores_are_never_made_up(score: str) -> None:
    answer = outcome(f"<answer>{GOOD.replace(': 2', f': {score}')}</answer>")
    assert isinstance(answer, Answer)
    assert answer.preference == "B"
    assert answer.scores == {}
    assert "instruction score of A" in answer.problem


def test_fractions_are_kept_as_they_are() -> None:
    answer = outcome(f"<answer>{GOOD.replace(': 2', ': 3.9')}</answer>")
    assert isinstance(answer, Answer)
    assert answer.scores["A"] == (3.9, 3.0)


def test_a_tool_call_before_an_invented_observation() -> None:
    text = '<think>look</think><tool>{"name": "zoom", "images": "A", "query": null}</tool><obs>{}</obs>' + GOOD
    assert outcome(text) == ToolRequest("zoom", ("A",), "")
    assert outcome('<tool>{"name": "zoom", "images": ["source", {"image": "A"}]}') == ToolRequest(
        "zoom", ("source", {"image": "A"}), ""
    )


@given(st.text(max_size=300), st.sampled_from(["", "<think>", "<answer>", "<tool>", "</think>"]))
def test_any_text_is_read_without_an_accident(text: str, tag: str) -> None:
    result = outcome(tag + text + tag)
    assert isinstance(result, Answer | ReplyProblem | ToolRequest)


@given(st.sampled_from(["A", "B"]), st.lists(st.integers(1, 4), min_size=4, max_size=4), st.text(max_size=50))
def test_a_well_formed_answer_is_read_as_it_was_written(preference: str, scores: list[int], thought: str) -> None:
    value = {
        "preference": preference,
        "scores": {
            "A": {"instruction": scores[0], "quality": scores[1]},
            "B": {"instruction": scores[2], "quality": scores[3]},
        },
    }
    text = f"<think>{thought.replace('<', '')}</think><answer>{json.dumps(value)}</answer>"
    result = outcome(text)
    assert isinstance(result, Answer)
    assert result.preference == preference
    assert result.scores == {"A": (scores[0], scores[1]), "B": (scores[2], scores[3])}


HUGE = st.integers(300, 5000).flatmap(lambda digits: st.sampled_from(["4" * digits, "-" + "4" * digits]))
NUMERALS = st.one_of(
    HUGE,
    st.builds(lambda n, e: f"{n}e{e}", st.integers(), st.integers(-500, 500)),
    st.floats().map(json.dumps),
    st.integers().map(str),
    st.sampled_from(["1e999", "-1e999", "4.0", "0.4e1", "400e-2", "-0.0", "1E400", "4_0", "0x4", '"4e0"', '"1e400"']),
)
"""What a model can write where a number belongs."""


@given(NUMERALS)
def test_any_numeral_is_a_score_in_range_or_a_problem(numeral: str) -> None:
    result = outcome(f"<answer>{GOOD.replace(': 2', f': {numeral}')}</answer>")
    assert isinstance(result, Answer | ReplyProblem)
    if isinstance(result, Answer) and result.scores:
        assert result.scores["A"][0] == float(numeral) and 1 <= float(numeral) <= 4


@given(
    st.one_of(
        st.floats(),
        st.integers(),
        st.integers(300, 5000).map(lambda digits: 10**digits),
        st.text(max_size=5),
        st.booleans(),
        st.none(),
    )
)
def test_numbers_stay_in_range(value: object) -> None:
    number = read_number(value, 1, 4)
    assert number is None or 1 <= number <= 4

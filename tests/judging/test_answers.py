import json
import time

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.judging.answers import (
    Answer,
    ReplyProblem,
    ToolRequest,
    find_objects,
    read_object,
    read_turn,
)

GOOD = '{"preference": "B", "scores": {"A": {"instruction": 2, "quality": 3}, "B": {"instruction": 4, "quality": 3}}}'
DRAFT = GOOD.replace('"B",', '"A",')
FLAT = (
    '{"reasoning": "B", "preference": "B", "score_A_instruction": 2, "score_A_quality": 3, "score_B_instruction": 4,'
    ' "score_B_quality": 3}'
)
_TAGS = """
<thinking> </thinking> <thought> </thought> <reasoning> </reasoning> <seed:think> </seed:think> [THINK] [/THINK]
◁think▷ ◁/think▷ <|START_THINKING|> <|END_THINKING|> <|think|> <|/think|> <|begin_of_thought|> <|end_of_thought|>
<chain_of_thought> </chain_of_thought> <analysis> </analysis> <inner-monologue> </inner-monologue>
[REASONING] [/REASONING] <|channel|>analysis<|message|> <|end|><|start|>assistant<|channel|>final<|message|>
""".split()
REASONING = list(zip(_TAGS[::2], _TAGS[1::2], strict=True))
UNKNOWN = ("plan", "cot", "scratch_pad")
"""Names of reasoning that are not listed anywhere."""
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
        GOOD.replace('"', "'")[:-1] + ", 'reason': 'the \"A\" of it'}",
        GOOD.replace("2,", '"2分",').replace("4,", '"４",'),
        f"Comparing the set {{A, B}} and {{ {{x}}.\n\n{GOOD}",
        GOOD[:-1] + r', "reason": "\(\Delta E\) is lower"}',
        GOOD[:-1] + ",}",
        GOOD.replace("3}", "3,\n }"),
        f"{GOOD}\n\n{GOOD}",
        *(f"{DRAFT} no wait: {GOOD}", f"{DRAFT[:-1]},}} no wait: {GOOD}", f'{{"draft": {DRAFT}, "final": {GOOD}}}'),
        f"```json\n{DRAFT}\n``` no wait: ```json\n{GOOD}\n```",
        f"<answer>The set {{A, B}}: {GOOD[:-1]},}}</answer>",
        f'{{"answer": {GOOD}}}',
        GOOD.replace('"preference"', '"Preference"'),
        *(
            GOOD.replace('"B",', f'"{word}",')
            for word in ("Candidate B", "Edited image B", "image_b", "option: (B)", "B.")
        ),
        FLAT,
        f"<answer>{FLAT.replace('score_A', 'A').replace('score_B', 'B')}</answer>",
        GOOD.replace('"A": {', '"Candidate A": {').replace('"B": {', '"candidate_b": {'),
        *(f"{opens}Maybe {DRAFT} ... no.{closes}{GOOD}" for opens, closes in REASONING),
        *(f"Maybe {DRAFT} ... no.{closes}{GOOD}" for _, closes in REASONING),
        f"<unused94>thought\nMaybe {DRAFT} ... no.<unused95>{GOOD}",
        *(f"<{tag}>Maybe {DRAFT} ... no.</{tag}>{GOOD}" for tag in UNKNOWN),
        *(f"<{tag}>{GOOD}" for tag in ("output", "json", "final_answer", "br")),
        f"analysisMaybe {DRAFT} no.assistantfinal{GOOD}",
        f"<|channel|>final <|constrain|>JSON<|message|>{GOOD}<|return|>",
    ],
)
def test_forms_that_are_forgiven(text: str) -> None:
    assert outcome(text) == Answer("B", SCORES)


@pytest.mark.parametrize("word", ["tie", "平局", "平手", " Tie "])
def test_a_tie_in_either_language(word: str) -> None:
    assert outcome(GOOD.replace('"B",', f'"{word}",'), ties=True).preference == "tie"
    assert isinstance(outcome(GOOD.replace('"B",', f'"{word}",')), ReplyProblem), "only where ties are offered"


def test_thought_is_kept_apart() -> None:
    assert read_turn(f"<think> a </think>{GOOD}", ("A", "B"), ties=False).thought == "a"
    assert read_turn(f"no tags here <answer>{GOOD}</answer>", ("A", "B"), ties=False).thought == "no tags here"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A is better.",
        *(f"<answer>{said}</answer>" for said in ("A", "5", "null", '"preference"', "[" * 100_000)),
        *(f'<answer>{{"preference": {said}}}</answer>' for said in ("1", '"C"', '"tie"')),
        f"<answer>{GOOD}</answer><answer>{GOOD.replace('B', 'A', 1)}</answer>",
        f"<think><answer>{GOOD}</answer></think>",
        f"<think>I never close this <answer>{GOOD}</answer>",
        f"<think>I never close this {GOOD}",
        f"<think>a</think><THINK class='x'>draft <answer>{GOOD}</answer> no wait",
        f"<answer>{GOOD}</answer> no wait</think>",
        f"<think>call it </think> <answer>{GOOD}</answer> in the end </think>",
        '<tool>{"images": ["A"]}</tool>',
        "<tool>zoom in</tool>",
        *(f"{opens}I never close this {GOOD}" for opens, _ in REASONING),
        *(f"{opens}<answer>{GOOD}</answer>" for opens, _ in REASONING),
        *(f"\n<{tag}>I never close this {GOOD}" for tag in (*UNKNOWN, "unused94", "details type='x'")),
        f"<think>a [THINK] b [/THINK] <answer>{GOOD}</answer>",
        f"analysisMaybe {GOOD} or not",
        *(GOOD.replace('"B",', f'"{word}",') for word in ("Candidate C", "A or B", "neither B", "B" * 50_000)),
    ],
)
def test_what_can_not_be_read_is_a_problem(text: str) -> None:
    assert isinstance(outcome(text), ReplyProblem)


WHOLE = [
    f"<think>x</think><answer>{GOOD}</answer>",
    f"x</think>\n<answer>```json\n{GOOD}\n```</answer>\n\n\n",
    f"<think>x</think><answer>{GOOD}",
    GOOD + " " * 100_000,
]
"""Replies that were cut off after their answer."""
DRAFTS = [
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
]
"""Replies that were cut off before it."""


@pytest.mark.parametrize(("text", "answered"), [*((text, True) for text in WHOLE), *((text, False) for text in DRAFTS)])
def test_a_reply_that_was_cut_off_counts_only_after_its_answer(text: str, answered: bool) -> None:
    found = read_turn(text, ("A", "B"), ties=False, cut_off=True).outcome
    assert found == Answer("B", SCORES) if answered else isinstance(found, ReplyProblem)


def test_a_tool_call_counts_although_the_reasoning_is_not_closed() -> None:
    turn = read_turn('<think>look at <tool>{"name": "zoom", "images": ["A"]}', ("A", "B"), ties=False)
    assert (turn.thought, turn.outcome) == ("look at", ToolRequest("zoom", ("A",), ""))
    assert isinstance(outcome('<plan>look at <tool>{"name": "zoom", "images": ["A"]}'), ToolRequest)
    drafted = f'<think><tool>{{"name": "zoom"}}</tool> or <answer>{GOOD}</answer>'
    assert isinstance(outcome(drafted), ReplyProblem)


@pytest.mark.parametrize(
    "score",
    ["true", "Infinity", "NaN", "5", "0", '"good"', "null", "[3]", '"3.5"', "-1", "1e400", "4" * 400, "-" + "4" * 400],
)
def test_scores_are_never_made_up(score: str) -> None:
    answer = outcome(f"<answer>{GOOD.replace(': 2', f': {score}')}</answer>")
    assert (answer.preference, answer.scores) == ("B", {}) and "instruction score of A" in answer.problem


def test_fractions_are_kept_and_one_candidate_may_be_scored_in_other_forms() -> None:
    assert outcome(f"<answer>{GOOD.replace(': 2', ': 3.9')}</answer>").scores["A"] == (3.9, 3.0)
    for text in ('{"A": {"instruction": 3, "quality": 4}}', '{"score_A_instruction": 3, "score_A_quality": 4}'):
        assert read_turn(text, ("A",), ties=False).outcome == Answer("", {"A": (3.0, 4.0)})


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
    pairs = {"A": tuple(scores[:2]), "B": tuple(scores[2:])}
    nested = {label: {"instruction": pair[0], "quality": pair[1]} for label, pair in pairs.items()}
    value = json.dumps({"preference": preference, "scores": nested})
    result = outcome(f"<think>{thought.replace('<', '')}</think><answer>{value}</answer>")
    assert (result.preference, result.scores) == (preference, pairs)


@pytest.mark.parametrize(
    ("text", "blocks", "message"),
    [
        ("B is better.", True, "neither an <answer> block nor a <tool> block"),
        ("B is better.", False, 'no JSON object with "preference"'),
        (GOOD.replace(":", ""), True, "not valid JSON"),
        (GOOD.replace(":", ""), False, "not valid JSON"),
        (f"<answer>{GOOD[:-9]}</answer>", True, "not valid JSON"),
        ('{"winner": "B"}', True, 'no JSON object with "preference"'),
    ],
)
def test_a_message_names_the_cause(text: str, blocks: bool, message: str) -> None:
    problem = read_turn(text, ("A", "B"), ties=False, blocks=blocks).outcome
    assert isinstance(problem, ReplyProblem) and message in problem.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=9,
)


@examples(max_examples=60)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.text(alphabet="ab\"'`,.:[]\n {}\\", max_size=40))
def test_an_object_is_found_after_any_words(value: dict[str, object], words: str) -> None:
    value["preference"] = "x"
    text = f"{words}\n{json.dumps(value)} {words}"
    found = find_objects(text, ("preference",))
    assert value in found or words.count('"') % 2, "an open quote may hide an object"
    assert read_object(json.dumps(value), "preference") == value


@pytest.mark.parametrize(
    "part",
    [
        *"{ {, <think <answer [THINK] <|channel|>final \\".split(),
        '{"a":',
        '{"a":[',
        '{"a": "',
        "```a ",
        ",  ",
        ", 'a",
        ": '",
    ],
)
def test_hostile_replies_are_read_in_linear_time(part: str) -> None:
    text = part * (199_000 // len(part))
    started = time.process_time()
    assert isinstance(outcome(text), ReplyProblem)
    assert isinstance(outcome(f'{{"preference": "{text}"}}'[:200_000]), ReplyProblem)
    assert time.process_time() - started < 4


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

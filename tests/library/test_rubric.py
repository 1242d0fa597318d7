import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.errors import InputError, LibraryError
from rewardharness.library.problems import Findings
from rewardharness.library.rubric import Criterion, Rubric, grade, parse_rubric, print_rubric, read_rubric
from rewardharness.schema import EDIT_KINDS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda text: text.strip())
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
CRITERIA = st.builds(
    Criterion,
    id=st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,10}[A-Za-z0-9])?", fullmatch=True),
    text=TEXT,
    weight=st.floats(0, 1e6, allow_nan=False),
    scale=st.tuples(NUMBERS, NUMBERS).map(sorted).map(tuple).filter(lambda ends: ends[0] < ends[1]),
    dimension=st.sampled_from(["instruction", "quality"]),
    measure=st.none() | st.from_regex(r"[a-z_]{1,20}", fullmatch=True),
    applies=st.lists(st.sampled_from(EDIT_KINDS), unique=True, max_size=3).map(tuple),
    extra=st.dictionaries(st.sampled_from(["note", "source"]), TEXT | st.integers(0, 9), max_size=2),
)
RUBRICS = st.builds(
    Rubric,
    st.lists(CRITERIA, min_size=1, max_size=4, unique_by=lambda each: each.id).map(tuple),
    st.dictionaries(st.sampled_from(["title", "version"]), TEXT, max_size=2),
).filter(lambda rubric: any(each.weight > 0 for each in rubric.criteria))


@settings(max_examples=25)
@given(RUBRICS)
def test_what_is_written_is_read_back(rubric: Rubric) -> None:
    again = parse_rubric(print_rubric(rubric))
    assert again == rubric
    assert again.canonical() == rubric.canonical()


@settings(max_examples=25)
@given(RUBRICS, st.lists(st.sampled_from(EDIT_KINDS), max_size=3))
def test_weights_of_what_applies_add_up_to_one(rubric: Rubric, kinds: list[str]) -> None:
    weights = rubric.weights(kinds)
    applied = [each for each in rubric.criteria if not kinds or not each.applies or set(each.applies) & set(kinds)]
    if any(each.weight > 0 for each in applied):
        assert list(weights) == [each.id for each in applied]
        assert math.isclose(sum(weights.values()), 1.0)
        assert all(0 <= weight <= 1 for weight in weights.values())
    else:
        assert weights == {}


def test_weights_follow_the_edit() -> None:
    text = "criteria:\n- {id: a, text: A}\n- {id: b, text: B, weight: 3, applies: [text]}\n- {id: c, text: C, "
    text += "weight: 0}"
    rubric = parse_rubric(text)
    assert rubric.weights() == rubric.weights(["text", "add"]) == {"a": 0.25, "b": 0.75, "c": 0.0}
    assert rubric.weights(["add"]) == {"a": 1.0, "c": 0.0}


def test_defaults_are_those_of_the_paper() -> None:
    (criterion,) = parse_rubric("criteria: [{id: a, text: ' Look. '}]").criteria
    assert criterion == Criterion("a", "Look.", 1.0, (1, 4), "instruction", None, ())


def test_grades_are_put_on_the_common_range_and_never_guessed() -> None:
    criterion = Criterion("a", "A", scale=(1, 4))
    assert [grade(criterion, value) for value in (1, 2.5, 4)] == [0.0, 0.5, 1.0]
    for value in (0.99, 4.01, math.nan, math.inf, True, "3", None):
        with pytest.raises(InputError, match=r"from 1 to 4"):
            grade(criterion, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("criteria: []", 1, "non-empty list"),
        ("other: 1", None, "non-empty list"),
        ("criteria:\n- a", 2, "not a mapping"),
        ("criteria:\n- text: A", 2, "`id`"),
        ("criteria:\n- id: a b\n  text: A", 2, "`id`"),
        ("criteria:\n- id: a", 2, "`text`"),
        ("criteria:\n- id: a\n  text: A\n  weight: -1", 4, "weight"),
        ("criteria:\n- id: a\n  text: A\n  weight: .nan", 4, "weight"),
        ("criteria:\n- id: a\n  text: A\n  weight: true", 4, "weight"),
        ("criteria:\n- id: a\n  text: A\n  weight: 0", 2, "above 0"),
        ("criteria:\n- id: a\n  text: A\n  scale: [4, 1]", 4, "scale"),
        ("criteria:\n- id: a\n  text: A\n  scale: [1]", 4, "scale"),
        ("criteria:\n- id: a\n  text: A\n  dimension: beauty", 4, "dimension"),
        ("criteria:\n- id: a\n  text: A\n  applies: [colour]", 4, "colour"),
        ("criteria:\n- id: a\n  text: A\n  applies: text", 4, "list"),
        ("criteria:\n- id: a\n  text: A\n  measure: [b]", 4, "measure"),
        ("criteria:\n- id: a\n  text: A\n- id: a\n  text: B", 4, "twice"),
        ("criteria: &a [*a]", 1, "anchor"),
        ("criteria: [" + "{id: a, text: b}," * 201 + "]", 1, "201 criteria"),
        ("# " + "x" * 70_000 + "\ncriteria: [{id: a, text: b}]", None, "bytes"),
    ],
)
def test_what_breaks_the_format_is_named_with_its_line(text: str, line: int | None, word: str) -> None:
    findings = Findings("rubric.yaml")
    assert read_rubric(text, findings) is None
    assert [(each.line, each.severity) for each in findings.found] == [(line, "error")]
    with pytest.raises(LibraryError, match=word):
        parse_rubric(text)


def test_every_problem_is_found_at_once() -> None:
    findings = Findings("rubric.yaml")
    read_rubric("criteria:\n- {id: '', text: A, weight: x}\n- {id: b, scale: 3, applies: [txt]}", findings)
    assert [each.line for each in findings.found] == [2, 2, 3, 3, 3]
    assert "Did you mean `text`?" in findings.found[-1].remedy


@given(st.text(max_size=200))
def test_any_text_is_a_rubric_or_an_error(text: str) -> None:
    findings = Findings("rubric.yaml")
    assert (read_rubric(text, findings) is None) == findings.failed

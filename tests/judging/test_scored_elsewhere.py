"""Scores from elsewhere: read strictly, ranked as they stand, and never made up."""

import json
import math
from pathlib import Path

import pytest
from fixtures_shared import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_parts import code, judge_one

from rewardharness.errors import DataError
from rewardharness.judging.opening import open_judge
from rewardharness.judging.scored_elsewhere import ScoredElsewhere, read_scores
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

NOWHERE = ImageInput("never opened", Path("nowhere.png"))


def example(name: str, count: int = 2, label: str | None = None) -> Example:
    return Example(name, "make it red", NOWHERE, (NOWHERE,) * count, label, "made")


def write(folder: Path, *lines: object) -> Path:
    path = folder / "scores.jsonl"
    path.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines), "utf-8")
    return path


def test_all_three_forms(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "scores", "scores": {"A": 0.25, "B": 0.75}},
        "\n",
        {"id": "lines", "candidate": "B", "score": 0},
        {"id": "preference", "preference": "B"},
        {"id": "lines", "candidate": "A", "score": 1},
        {"id": "tie", "preference": "tie"},
    )
    judge = open_judge(f"file:{path}", Settings.from_env(), ties=True)
    assert isinstance(judge, ScoredElsewhere)
    assert (judge.name, judge.protocol) == ("file:scores.jsonl", "scores from a file")
    found = {name: judge_one(judge, example(name)) for name in ("scores", "lines", "preference", "tie")}
    wanted = {"scores": "B", "lines": "A", "preference": "B", "tie": "tie"}
    assert {name: each.preference for name, each in found.items()} == wanted
    assert {label: each.reward for label, each in found["scores"].scores.items()} == {"A": 0.25, "B": 0.75}
    assert (found["scores"].margin, found["lines"].margin) == (0.5, 1.0)
    for name in ("preference", "tie"):
        assert (found[name].scores, found[name].margin, found[name].confidence) == ({}, None, None)
    assert all(each.ties_offered for each in found.values())


def test_groups_and_single_candidates(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "group", "scores": {"C": 9, "A": -4, "B": 9}},
        {"id": "best", "preference": "D"},
        {"id": "one", "scores": {"A": 2.5}},
        {"id": "chosen", "preference": "A"},
    )
    judge = read_scores(path)
    group = judge_one(judge, example("group", 3))
    assert (group.preference, group.ranking, group.margin) == ("tie", (("B", "C"), ("A",)), 0.0)
    assert [group.scores[label].reward for label in "ABC"] == [0, 1, 1]
    assert judge_one(judge, example("best", 4)).ranking == (("D",), ("A", "B", "C"))
    one = judge_one(judge, example("one", 1))
    assert one.judged and one.preference is one.margin is None
    assert one.scores["A"].reward == 0.5 and '"A": 2.5' in one.steps[0].text
    assert code(judge_one(judge, example("chosen", 1))) == "missing"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (example("absent"), "missing"),
        (example("pair", 3), "missing"),
        (example("triple"), "input"),
        (example("third"), "input"),
        (Example("pair", " ", NOWHERE, (NOWHERE, NOWHERE)), "input"),
    ],
)
def test_what_the_file_does_not_say_is_not_judged(tmp_path: Path, asked: Example, wanted: str) -> None:
    path = write(
        tmp_path,
        {"id": "pair", "scores": {"A": 1, "B": 0}},
        {"id": "triple", "scores": {"A": 1, "B": 0, "C": 3}},
        {"id": "third", "preference": "C"},
    )
    judgment = judge_one(read_scores(path), asked)
    assert (judgment.judged, judgment.scores, code(judgment)) == (False, {}, wanted)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not json\n", "this is not JSON"),
        ("[1]\n", "not a JSON object"),
        ('{"id": "x"}\n', "none of the three forms"),
        ({"id": "x", "scores": {"A": 1}, "note": ""}, "'note'"),
        ({"id": "x", "scores": {"A": 1}, "preference": "A"}, "none of the three forms"),
        ({"id": [7], "preference": "A"}, '"id" is not'),
        ({"id": "x", "preference": "a"}, "no preference"),
        ({"id": "x", "preference": None}, "no preference"),
        ({"id": "x", "preference": ["A"]}, "no preference"),
        ({"id": "x", "scores": {}}, "not an object of letters"),
        ({"id": "x", "scores": [1, 2]}, "not an object of letters"),
        ({"id": "x", "scores": {"E": 1}}, "'E' is no candidate"),
        ({"id": "x", "scores": {"A": "1"}}, "not a number"),
        ({"id": "x", "scores": {"A": True}}, "not a number"),
        ({"id": "x", "candidate": "A", "score": None}, "not a number"),
        ({"id": "x", "candidate": ["A"], "score": 1}, "no candidate"),
        ('{"id": "x", "candidate": "A", "score": NaN}\n', "not a finite number"),
        ('{"id": "x", "candidate": "A", "score": 1e999}\n', "not a finite number"),
        ('{"id": "x", "candidate": "A", "score": 1' + "0" * 400 + "}\n", "not a finite number"),
        ('{"id": "x", "scores": {"A": 1, "A": 2}}\n', "twice"),
        ({"id": "seen", "preference": "A"}, "line 1 speaks of the same id"),
        ({"id": "seen", "candidate": "A", "score": 1}, "A of this id was scored before, in line 1"),
        ("[" * 100_000 + "\n", "this is not JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: object, says: str) -> None:
    path = write(tmp_path, {"id": "seen", "scores": {"A": 1, "B": 2}}, line)
    with pytest.raises(DataError) as caught:
        read_scores(path)
    assert "line 2" in caught.value.message and says in caught.value.message
    assert caught.value.next_step


def test_several_wrong_lines_are_counted(tmp_path: Path) -> None:
    several = r"line 1: .*; line 2: .*; line 3: .*; and 4 more"
    for lines, says in ((["x\n"] * 7, several), (["\n\n"], "holds no scores")):
        with pytest.raises(DataError, match=says):
            read_scores(write(tmp_path, *lines))
    with pytest.raises(DataError, match="does not exist"):
        read_scores(tmp_path / "nowhere.jsonl")


def test_the_revision_is_that_of_the_content(tmp_path: Path) -> None:
    first = read_scores(write(tmp_path, {"id": "x", "scores": {"A": 1, "B": 2}}))
    same = read_scores(write(tmp_path, {"id": "x", "candidate": "B", "score": 2.0}, {"id": "x", "scores": {"A": 1}}))
    other = read_scores(write(tmp_path, {"id": "x", "scores": {"A": 1, "B": 2.5}}))
    assert first.revision == same.revision != other.revision


numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None, suppress_health_check=SHARED)
@given(rows=st.lists(st.lists(numbers, min_size=2, max_size=4), min_size=1, max_size=5))
def test_rewards_are_finite_and_keep_the_order_of_the_scores(tmp_path: Path, rows: list[list[float]]) -> None:
    lines = [{"id": f"e{n}", "scores": dict(zip("ABCD", row, strict=False))} for n, row in enumerate(rows)]
    judge = read_scores(write(tmp_path, *lines))
    everything = [score for row in rows for score in row]
    for number, row in enumerate(rows):
        judgment = judge_one(judge, example(f"e{number}", len(row)))
        rewards = [judgment.scores[label].reward for label in "ABCD"[: len(row)]]
        assert all(math.isfinite(reward) and 0 <= reward <= 1 for reward in rewards)
        order = sorted(range(len(row)), key=lambda place: row[place])
        assert [rewards[place] for place in order] == sorted(rewards)
        assert rewards == row or not all(0 <= score <= 1 for score in everything)
        best = {"ABCD"[place] for place in range(len(row)) if row[place] == max(row)}
        assert set(judgment.ranking[0]) == best and 0 <= judgment.margin <= 1


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=SHARED)
@given(text=st.text(max_size=80) | st.recursive(st.none() | numbers | st.text(max_size=5), st.lists).map(json.dumps))
def test_any_text_is_read_or_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_scores(path)
    except DataError as error:
        assert error.message and error.next_step

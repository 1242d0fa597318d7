import json
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark import votes
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.benchmark.votes import CONTRADICTORY, EITHER_TIE, NO_VERDICT, NOT_A_LABEL, Reading, Vote
from rewardharness.cli.main import main
from rewardharness.errors import DataError
from rewardharness.schema import TIE, Accuracy

OPTIONS = """1. Model A is better: [[A>B]]
2. Model B is better: [[B>A]]
3. Tie, relatively the same acceptable quality: [[A=B=Good]]
4. Both are bad: [[A=B=Bad]]"""


@pytest.mark.parametrize(
    ("reply", "published", "strict"),
    [
        *((reply, "A", "A") for reply in ("My verdict is: [[A>B]]", "[[A>>B]]", "[[A>B]]\nThat is, [[A>B]].")),
        ("**[[B>A]]**.", "B", "B"),
        ("so it is [[A=B=Good]], as both do well", TIE, TIE),
        ("[[A=B=Bad]]", BOTH_BAD, BOTH_BAD),
        *(("[[B<A]]", NOT_A_LABEL, "A"), ("[[A<B]]", NOT_A_LABEL, "B"), ("[[B>>A]]", "B", "B")),
        ("[[ a = b = good ]]", NOT_A_LABEL, TIE),
        ("[[B=A=Bad]]", NOT_A_LABEL, BOTH_BAD),
        ("[[A=B]]", EITHER_TIE, NOT_A_LABEL),
        *((reply, NOT_A_LABEL, NOT_A_LABEL) for reply in ("[[A=B=Good=]]", "[[1>B]] for model A")),
        *((reply, NO_VERDICT, NO_VERDICT) for reply in ("Model A is better.", "[A>B] (A>B)", "[[A>B", "]] A>B [[", "")),
        ("See [[1]]: the verdict is\n[[B>A]]", NOT_A_LABEL, "B"),
        ("[[A>B]] no, [[B>A]]", NOT_A_LABEL, CONTRADICTORY),
        ("[[B>A]]\non reflection [[A>B]]", "B", CONTRADICTORY),
        (OPTIONS, "A", CONTRADICTORY),
        (f"{OPTIONS}\nMy verdict: [[B>A]]", "A", CONTRADICTORY),
        ("[[\nA>B\n]]", NO_VERDICT, "A"),
    ],
)
def test_each_form_of_a_reply_in_both_readings(reply: str, published: str, strict: str) -> None:
    for vote, wanted in (
        (votes.parse_vote(reply, "published"), published),
        (votes.parse_vote(reply, "strict"), strict),
    ):
        assert (vote.choice or vote.problem) == wanted and bool(vote.choice) != bool(vote.problem)


@given(st.text(alphabet="[]A>B=\nodG ", max_size=40) | st.text())
def test_the_published_reading_is_the_published_rule_and_any_text_is_a_vote_or_a_reason(reply: str) -> None:
    match = re.search(r"\[\[(.*)\]\]", reply)
    vote, strict = votes.parse_vote(reply, "published"), votes.parse_vote(reply)
    assert vote.problem == NO_VERDICT if match is None else vote.text == match[1]
    assert bool(vote.choice) != bool(vote.problem) and bool(strict.choice) != bool(strict.problem)


WORDS = st.text(alphabet=st.characters(exclude_characters="[]"))


@given(WORDS, WORDS, st.sampled_from(get_args(Reading)))
def test_words_around_a_verdict_do_not_matter(before: str, after: str, reading: Reading) -> None:
    assert votes.parse_vote(f"{before}[[B>A]]{after}", reading) == Vote("B", text="B>A")


def test_long_nonsense_is_read_in_time() -> None:
    for reply in ("[[" * 200_000, "[[A>B" * 100_000, "]]" * 200_000, "[[" * 100_000 + "]]" * 100_000):
        for reading in get_args(Reading):
            assert votes.parse_vote(reply, reading).choice is None


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(idx: int, response: str | None, vote: str, **more: object) -> dict[str, object]:
    return {"idx": idx, "response": response, "human_vote": vote, **more}


SOME = [
    row(idx, response, vote, correct=correct)
    for idx, (response, vote, correct) in enumerate(
        [
            *(("[[A>B]]", "leftvote", True), ("[[B>A]]", "leftvote", False), ("[[A=B=Bad]]", "bothbad_vote", True)),
            *(("[[A=B=Good]]", "bothbad_vote", False), ("[[A=B]]", "bothbad_vote", True), (OPTIONS, "leftvote", True)),
            *(("I cannot see images.", "rightvote", False), (None, "tievote", False), ("[[2>B]]", "rightvote", False)),
            ("[[B>A]]", "rightvote", False),  # the file is wrong about itself
        ]
    )
]


def test_a_file_is_counted_in_both_readings(tmp_path: Path) -> None:
    (report,) = votes.score_votes(write(tmp_path / "judge.jsonl", SOME))
    assert (report.n, report.differing) == (10, ("9",))
    published, strict = report.published, report.strict
    assert published.problems == {NO_VERDICT: 2, NOT_A_LABEL: 1, CONTRADICTORY: 0}
    assert published.four_way.count == Accuracy(10, 7, 5) and published.four_way.of_all == 0.5
    assert published.three_way.count == Accuracy(10, 7, 6)
    assert (published.no_tie.count, published.no_tie.left_out) == (Accuracy(6, 4, 3), 4)
    assert strict.problems == {NO_VERDICT: 2, NOT_A_LABEL: 2, CONTRADICTORY: 1}
    assert strict.four_way.count == Accuracy(10, 5, 3)
    assert report.chance == {"uniform": 0.25, "frequencies": pytest.approx(0.28), "most frequent": 0.3}


def test_a_list_is_read_like_lines_and_a_file_that_says_nothing_of_itself_has_no_difference(tmp_path: Path) -> None:
    plain = [{key: value for key, value in each.items() if key != "correct"} for each in SOME]
    whole = tmp_path / "judge.json"
    whole.write_text(json.dumps(plain), encoding="utf-8")
    one, other = votes.score_votes(whole, write(tmp_path / "judge.jsonl", plain))
    assert one.differing is None and one.published == other.published and one.strict == other.strict


def test_an_empty_file_is_named_and_the_others_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "judge.jsonl", SOME)
    (tmp_path / "template.txt").write_text("not a reply", encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    assert main(["benchmark", "votes", str(tmp_path)]) == 3
    shown = capsys.readouterr()
    assert "judge.jsonl" in shown.out and "1 of 2 files counted." in shown.out
    assert "empty.jsonl has no replies" in shown.err
    assert main(["benchmark", "votes", str(tmp_path), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert len(found["files"]) == 1 and found["empty"] == [str(tmp_path / "empty.jsonl")]
    assert main(["benchmark", "votes", str(tmp_path / "empty.jsonl")]) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no replies"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"idx": 1, "human_vote": "leftvote"}', "line 1: there is no `response`"),
        ('{"idx": 1, "response": 3, "human_vote": "leftvote"}', "line 1: `response` is not text"),
        ('{"idx": 1, "response": "x", "human_vote": "A>B"}', "line 1: `human_vote` is 'A>B'"),
        ('{"idx": 1, "response": "x", "human_vote": ["leftvote"]}', "line 1: `human_vote` is"),
        ('{"idx": true, "response": "x", "human_vote": "leftvote"}', "line 1: `idx`"),
        ("\n[1]", "row 1: this is not a JSON object"),
        ("3", "line 1: this is not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_row(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "judge.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(problem)) as caught:
        votes.read_votes(path)
    assert str(path) in caught.value.message


def test_a_row_twice_is_refused_and_many_bad_rows_are_summed_up(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2: idx 1 occurs twice"):
        votes.read_votes(write(tmp_path / "a", [row(1, "x", "leftvote"), row(1, "x", "leftvote")]))
    with pytest.raises(DataError, match=r"8 rows cannot be used.*and 3 more"):
        votes.read_votes(write(tmp_path / "b", [row(place, "x", "nobody") for place in range(8)]))
    with pytest.raises(DataError, match="does not exist"):
        votes.score_votes(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"holds no \.jsonl files"):
        votes.score_votes(tmp_path)


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("judge", "accuracy", "no_verdict", "not_a_label", "contradictory"),
    [("gpt4o", 53.54, 0, 0, 0), ("cogvlm", 0.0, 906, 13, 0), ("qwenVL", 14.91, 258, 1, 90)],
)
def test_the_published_table_comes_out(real_data, judge, accuracy, no_verdict, not_a_label, contradictory) -> None:
    (report,) = votes.score_votes(real_data / "text" / "genai_bench" / f"{judge}.pairwise.jsonl")
    share = report.published.four_way.of_all
    assert share is not None and round(100 * share, 2) == accuracy
    assert report.n == 919 and report.published.no_tie.left_out == 392 + 24
    assert report.published.problems == {NO_VERDICT: no_verdict, NOT_A_LABEL: not_a_label, CONTRADICTORY: 0}
    assert report.differing == ()  # row by row, what the authors counted
    assert report.chance["most frequent"] == pytest.approx(392 / 919)
    assert report.strict.problems[CONTRADICTORY] >= contradictory, "a list of the options is no strict vote"

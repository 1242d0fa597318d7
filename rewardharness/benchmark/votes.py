"""Reads raw replies of models that were asked for a vote, in the form of GenAI-Bench, and counts them.

A file holds one JSON object per line, or one list of them, as the authors of GenAI-Bench publish them
(https://github.com/TIGER-AI-Lab/GenAI-Bench, results/image_edition, arXiv 2406.04485):

    {"idx", "response": "... My verdict is: [[A>B]]", "human_vote": leftvote | rightvote | tievote | bothbad_vote}

Two ways of reading a reply are counted side by side, because they are not the same number:

    published   as the published table was made: the first `[[` that a `]]` follows on its line, up to the last `]]` of
                the line, and what stands between must be a label letter for letter. A bare tie (`A=B`) is right on
                either kind of tie. A reply that lists all the options is a vote for the first of them
    strict      every `[[...]]` of the reply; spaces and case do not matter, `A>>B` and `B<A` say the same as `A>B`. All
                labels in a reply must agree: one that names two is contradictory and no vote, whichever comes last

No reading guesses a vote from other words. What is not a vote is counted under its reason.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rewardharness.benchmark.metrics import (
    FOUR_WAY,
    THREE_WAY,
    TIES,
    LabeledAnswer,
    PairScore,
    chance,
    collapse,
    pair_accuracy,
)
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import DataError
from rewardharness.files import read_text
from rewardharness.schema import TIE, Json

Reading = Literal["published", "strict"]
"""How a reply is read, see the module."""

NO_VERDICT = "no verdict"
"""Reason: nothing stands in double brackets."""

NOT_A_LABEL = "not a label"
"""Reason: what stands in double brackets is none of the labels."""

CONTRADICTORY = "contradictory"
"""Reason: two different labels stand in double brackets."""

EITHER_TIE = "tie of either kind"
"""A vote `[[A=B]]`, which does not say whether both are good or both bad."""

HUMAN_VOTES: Mapping[str, str] = {"leftvote": "A", "rightvote": "B", "tievote": TIE, "bothbad_vote": BOTH_BAD}
"""How people's votes are spelled in the data."""

_PUBLISHED: Mapping[str, str] = {
    "A>B": "A",
    "A>>B": "A",
    "B>A": "B",
    "B>>A": "B",
    "A=B=Good": TIE,
    "A=B=Bad": BOTH_BAD,
    "A=B": EITHER_TIE,
}
_STRICT: Mapping[str, str] = {
    **dict.fromkeys(("a>b", "a>>b", "b<a", "b<<a"), "A"),
    **dict.fromkeys(("b>a", "b>>a", "a<b", "a<<b"), "B"),
    **dict.fromkeys(("a=b=good", "b=a=good"), TIE),
    **dict.fromkeys(("a=b=bad", "b=a=bad"), BOTH_BAD),
}
_BRACKETS = re.compile(r"\[\[([^\[\]]*)\]\]")
_SHOWN = 5


class NoRepliesError(DataError):
    """A file of replies that holds none."""


@dataclass(frozen=True)
class Vote:
    """What one reply says."""

    choice: str | None
    """`A`, `B`, `tie`, `both bad`, `EITHER_TIE` (in the published reading alone), or None for no vote."""
    problem: str = ""
    """Why there is no vote: `NO_VERDICT`, `NOT_A_LABEL` or `CONTRADICTORY`; empty when there is one."""
    text: str = ""
    """What stood in the brackets that were read."""


@dataclass(frozen=True)
class VoteRow:
    """One pair of GenAI-Bench with people's vote and a model's reply."""

    id: str
    truth: str
    """One of `FOUR_WAY`."""
    reply: str
    """As the model gave it; empty if it gave none."""
    published_correct: bool | None = None
    """What the file itself says of it. Never used for reading; only compared with."""


@dataclass(frozen=True)
class VoteCount:
    """The votes of a file in one reading."""

    reading: Reading
    answers: tuple[LabeledAnswer, ...]
    """One per row, in four labels; a reply without a vote has no answer."""
    four_way: PairScore
    """Exact, with both kinds of tie. The published number is its `of_all`: what is no vote is wrong."""
    three_way: PairScore
    """Exact, with one kind of tie."""
    no_tie: PairScore
    """Pairs that people prefer one candidate of."""
    problems: Mapping[str, int]
    """Replies without a vote, per reason."""

    def to_json(self) -> Json:
        """Put it into JSON."""
        return {
            "reading": self.reading,
            "four_way": self.four_way.to_json(),
            "three_way": self.three_way.to_json(),
            "no_tie": self.no_tie.to_json(),
            "problems": dict(self.problems),
        }


@dataclass(frozen=True)
class VoteReport:
    """What a file of replies comes to."""

    name: str
    """The file."""
    n: int
    published: VoteCount
    strict: VoteCount
    chance: Mapping[str, float]
    """What judges get that do not look, in four labels; see `metrics.chance`."""
    differing: tuple[str, ...] | None
    """Rows where the file's own count differs from the published reading; None if it has none."""

    def to_json(self) -> Json:
        """Put it into JSON."""
        return {
            "file": self.name,
            "n": self.n,
            "published": self.published.to_json(),
            "strict": self.strict.to_json(),
            "chance": dict(self.chance),
            "differing": None if self.differing is None else list(self.differing),
        }


def score_votes(*paths: Path, on_empty: Callable[[Path], None] | None = None) -> tuple[VoteReport, ...]:
    """Read files of raw replies and count them in both readings; one report per file, in order.

    A folder stands for the `.jsonl` files in it, by name.

    `report.published.four_way` with `metrics.of_all` is the number of the published table (53.54 for GPT-4o);
    `report.published.problems[NO_VERDICT]` is how many replies hold nothing in double brackets.

    Args:
        paths: The files and folders.
        on_empty: Called with each file that holds no replies and is skipped; None: it is an error.

    Raises:
        DataError: If a file is missing or not of this form, a folder has none, or all are empty; names the rows.
    """
    reports = []
    empty = None
    for file in (file for path in paths for file in _files(path)):
        try:
            reports.append(report_votes(file.name, read_votes(file)))
        except NoRepliesError as error:
            if on_empty is None:
                raise
            empty = error
            on_empty(file)
    if empty is not None and not reports:
        raise empty
    return tuple(reports)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.jsonl"))
    if not found:
        raise DataError(f"{path} holds no .jsonl files.", next_step="Name files with one JSON object per line.")
    return found


def report_votes(name: str, rows: Sequence[VoteRow]) -> VoteReport:
    """Count rows in both readings."""
    published, strict = count_votes(rows, "published"), count_votes(rows, "strict")
    differing = None
    if any(row.published_correct is not None for row in rows):
        differing = tuple(
            row.id
            for row, answer in zip(rows, published.answers, strict=True)
            if row.published_correct is not None and row.published_correct != (answer.choice == answer.truth)
        )
    return VoteReport(name, len(rows), published, strict, chance(published.answers, FOUR_WAY), differing)


def count_votes(rows: Sequence[VoteRow], reading: Reading) -> VoteCount:
    """Read every reply and count."""
    problems: Counter[str] = Counter({NO_VERDICT: 0, NOT_A_LABEL: 0, CONTRADICTORY: 0})
    answers = []
    for row in rows:
        vote = parse_vote(row.reply, reading)
        if vote.problem:
            problems[vote.problem] += 1
        said = vote.choice
        if said == EITHER_TIE:
            said = row.truth if row.truth in TIES else TIE
        answers.append(LabeledAnswer(row.id, row.truth, said))
    collapsed = [collapse(answer) for answer in answers]
    return VoteCount(
        reading,
        tuple(answers),
        four_way=pair_accuracy(answers, "exact", FOUR_WAY),
        three_way=pair_accuracy(collapsed, "exact", THREE_WAY),
        no_tie=pair_accuracy(collapsed, "no-tie", THREE_WAY),
        problems=dict(problems),
    )


def parse_vote(reply: str, reading: Reading = "strict") -> Vote:
    """Read the vote off one reply.

    Args:
        reply: Any text; it is only searched, and takes time in proportion to its length.
        reading: How, see the module.
    """
    if reading == "published":
        return _parse_published(reply)
    texts = _BRACKETS.findall(reply)
    if not texts:
        return Vote(None, NO_VERDICT)
    found = {said: text for text in texts if (said := _STRICT.get("".join(text.split()).lower()))}
    if not found:
        return Vote(None, NOT_A_LABEL, texts[-1])
    said, text = list(found.items())[-1]
    return Vote(said, text=text) if len(found) == 1 else Vote(None, CONTRADICTORY, text)


def _parse_published(reply: str) -> Vote:
    for line in reply.split("\n"):
        begin, end = line.find("[["), line.rfind("]]")
        if 0 <= begin <= end - 2:
            text = line[begin + 2 : end]
            said = _PUBLISHED.get(text)
            return Vote(said, "" if said else NOT_A_LABEL, text)
    return Vote(None, NO_VERDICT)


def read_votes(path: Path) -> tuple[VoteRow, ...]:
    """Read a file of replies strictly: every row must be understood.

    Raises:
        DataError: If the file is missing, is not JSON, holds nothing, or rows lack what is needed; names the first.
    """
    rows: list[VoteRow] = []
    wrong: list[str] = []
    seen: set[str] = set()
    for place, value in _objects(path):
        try:
            row = _row(value, place)
        except ValueError as error:
            wrong.append(f"{place}: {error}")
            continue
        if row.id in seen:
            wrong.append(f"{place}: idx {row.id} occurs twice")
        seen.add(row.id)
        rows.append(row)
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"{path}: {len(wrong)} rows cannot be used: {'; '.join(wrong[:_SHOWN])}{more}.",
            next_step="Each row needs idx, response and human_vote.",
        )
    if not rows:
        raise NoRepliesError(f"{path} holds no replies.", next_step="Name a file with one JSON object per line.")
    return tuple(rows)


def _objects(path: Path) -> list[tuple[str, Any]]:
    text = read_text(path)
    try:
        if text.lstrip().startswith("["):
            return [(f"row {number}", value) for number, value in enumerate(json.loads(text), 1)]
        lines = enumerate(text.split("\n"), 1)
        return [(f"line {number}", json.loads(line)) for number, line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.", next_step="Give one JSON object per line.") from None


def _row(value: Any, place: str) -> VoteRow:
    if not isinstance(value, dict):
        raise ValueError("this is not a JSON object")
    name = value.get("idx", place)
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise ValueError("`idx` is neither a number nor a text")
    if "response" not in value or not isinstance(value["response"], str | None):
        raise ValueError("there is no `response`" if "response" not in value else "`response` is not text")
    vote = value.get("human_vote")
    if not isinstance(vote, str) or vote not in HUMAN_VOTES:
        raise ValueError(f"`human_vote` is {vote!r}, which is none of {', '.join(HUMAN_VOTES)}")
    correct = value.get("correct")
    return VoteRow(
        str(name), HUMAN_VOTES[vote], value["response"] or "", correct if isinstance(correct, bool) else None
    )

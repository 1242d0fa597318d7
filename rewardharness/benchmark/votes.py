"""Raw votes of models in the format of GenAI-Bench, and their accuracy.

A file holds one JSON object per line, or one list of them, as the authors of GenAI-Bench publish them
(https://github.com/TIGER-AI-Lab/GenAI-Bench, results/image_edition, arXiv 2406.04485):

    {"idx", "response": "... My verdict is: [[A>B]]", "human_vote": leftvote | rightvote | tievote | bothbad_vote}

Replies are read in two ways, which give different numbers:

    published   as for the published table: from the first `[[` that is followed by `]]` on its line to the last `]]` of
                the line; the text in between must be exactly a label. A bare tie (`A=B`) is correct for both kinds of
                tie. A reply that lists all options is a vote for the first one
    strict      every `[[...]]` of the reply; spaces and case are ignored, and `A>>B` and `B<A` mean `A>B`. A reply with
                two different labels is contradictory and not a vote

Neither reading infers a vote from other words. Replies without a vote are counted by reason.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rewardharness.benchmark import metrics
from rewardharness.benchmark.metrics import FOUR_WAY, THREE_WAY, TIES, LabeledAnswer, PairShare
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import DataError
from rewardharness.files import read_text
from rewardharness.schema import TIE

Reading = Literal["published", "strict"]
"""How a reply is read; see the module."""

NO_VERDICT = "no verdict"
"""Reason: no text in double brackets."""

NOT_A_LABEL = "not a label"
"""Reason: the text in double brackets is not a label."""

CONTRADICTORY = "contradictory"
"""Reason: two different labels in double brackets."""

EITHER_TIE = "tie of either kind"
"""A vote `[[A=B]]`, which does not distinguish both good from both bad."""

HUMAN_VOTES: Mapping[str, str] = {"leftvote": "A", "rightvote": "B", "tievote": TIE, "bothbad_vote": BOTH_BAD}
"""Labels by the spelling of human votes in the data."""

_PUBLISHED: Mapping[str, str] = {
    **{"A>B": "A", "A>>B": "A", "B>A": "B", "B>>A": "B"},
    **{"A=B=Good": TIE, "A=B=Bad": BOTH_BAD, "A=B": EITHER_TIE},
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
    """A file without replies."""


@dataclass(frozen=True)
class Vote:
    """The vote of one reply."""

    choice: str | None
    """`A`, `B`, `tie`, `both bad`, `EITHER_TIE` (published reading only), or None without a vote."""
    problem: str = ""
    """Why there is no vote: `NO_VERDICT`, `NOT_A_LABEL` or `CONTRADICTORY`; empty with a vote."""
    text: str = ""
    """Text in the brackets."""


@dataclass(frozen=True)
class VoteRow:
    """One pair of GenAI-Bench with the human vote and the reply of a model."""

    id: str
    truth: str
    """One of `FOUR_WAY`."""
    reply: str
    """The reply; empty if there is none."""
    published_correct: bool | None = None
    """Correctness according to the file, for comparison only."""


@dataclass(frozen=True)
class VoteCount:
    """Votes of a file in one reading."""

    reading: Reading
    four_way: PairShare
    """Exact, with both kinds of tie. Its `of_all` is the published number: replies without a vote are wrong."""
    three_way: PairShare
    """Exact, with one kind of tie."""
    no_tie: PairShare
    """Pairs whose label prefers one candidate."""
    problems: Mapping[str, int]
    """Replies without a vote, by reason."""


@dataclass(frozen=True)
class VoteReport:
    """Accuracy of a file of replies."""

    file: str
    """Its name."""
    n: int
    published: VoteCount
    strict: VoteCount
    chance: Mapping[str, float]
    """Chance levels with four labels; see `metrics.chance`."""
    differing: tuple[str, ...] | None
    """Rows whose correctness in the file differs from the published reading; None if the file has none."""


def score_votes(*paths: Path, on_empty: Callable[[Path], None] | None = None) -> tuple[VoteReport, ...]:
    """Read files of raw replies and count them in both readings.

    A folder means the `.jsonl` files in it, sorted by name.

    `report.published.four_way.of_all` is the number of the published table (53.54 for GPT-4o);
    `report.published.problems[NO_VERDICT]` is the number of replies without double brackets.

    Args:
        paths: The files and folders.
        on_empty: Called with each file without replies, which is skipped; None to treat it as an error.

    Raises:
        DataError: If a file is missing or invalid, a folder has no files, or all files are empty.
    """
    reports = []
    files = [file for path in paths for file in _files(path)]
    for place, file in enumerate(files, 1):
        try:
            reports.append(report_votes(file.name, read_votes(file)))
        except NoRepliesError:
            if on_empty is not None:
                on_empty(file)
            if on_empty is None or (place == len(files) and not reports):
                raise
    return tuple(reports)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    paths = sorted(path.glob("*.jsonl"))
    if not paths:
        raise DataError(f"{path} holds no .jsonl files.", next_step="Give files with one JSON object per line.")
    return paths


def report_votes(name: str, rows: Sequence[VoteRow]) -> VoteReport:
    """Count rows in both readings."""
    answers, _ = read_answers(rows, "published")
    stated = [pair for pair in zip(rows, answers, strict=True) if pair[0].published_correct is not None]
    differing = tuple(row.id for row, answer in stated if row.published_correct != (answer.choice == answer.truth))
    counts = count_votes(rows, "published"), count_votes(rows, "strict")
    return VoteReport(name, len(rows), *counts, metrics.chance(answers, FOUR_WAY), differing if stated else None)


def read_answers(rows: Sequence[VoteRow], reading: Reading) -> tuple[list[LabeledAnswer], Mapping[str, int]]:
    """Return the answer of each row in four labels, none without a vote, and the replies without a vote by reason."""
    problems: Counter[str] = Counter({NO_VERDICT: 0, NOT_A_LABEL: 0, CONTRADICTORY: 0})
    answers = []
    for row in rows:
        vote = parse_vote(row.reply, reading)
        problems.update(filter(None, [vote.problem]))
        either = row.truth if row.truth in TIES else TIE
        answers.append(LabeledAnswer(row.id, row.truth, either if vote.choice == EITHER_TIE else vote.choice))
    return answers, dict(problems)


def count_votes(rows: Sequence[VoteRow], reading: Reading) -> VoteCount:
    """Count rows in one reading."""
    answers, problems = read_answers(rows, reading)
    collapsed = [metrics.collapse(answer) for answer in answers]
    return VoteCount(
        reading,
        four_way=metrics.pair_accuracy(answers, "exact", FOUR_WAY),
        three_way=metrics.pair_accuracy(collapsed, "exact", THREE_WAY),
        no_tie=metrics.pair_accuracy(collapsed, "no-tie", THREE_WAY),
        problems=problems,
    )


def parse_vote(reply: str, reading: Reading = "strict") -> Vote:
    """Read the vote of a reply.

    Args:
        reply: Any text. The time is proportional to its length.
        reading: The reading.
    """
    if reading == "published":
        return _parse_published(reply)
    texts = _BRACKETS.findall(reply)
    if not texts:
        return Vote(None, NO_VERDICT)
    labels = {label: text for text in texts if (label := _STRICT.get("".join(text.split()).lower()))}
    if not labels:
        return Vote(None, NOT_A_LABEL, texts[-1])
    label, text = list(labels.items())[-1]
    return Vote(label, text=text) if len(labels) == 1 else Vote(None, CONTRADICTORY, text)


def _parse_published(reply: str) -> Vote:
    for line in reply.split("\n"):
        begin, end = line.find("[["), line.rfind("]]")
        if 0 <= begin <= end - 2:
            text = line[begin + 2 : end]
            label = _PUBLISHED.get(text)
            return Vote(label, "" if label else NOT_A_LABEL, text)
    return Vote(None, NO_VERDICT)


def read_votes(path: Path) -> tuple[VoteRow, ...]:
    """Read a file of replies; every row must be valid.

    Raises:
        DataError: If the file is missing, is not JSON, is empty, or has invalid rows.
    """
    rows: dict[str, VoteRow] = {}
    wrong: list[str] = []
    for place, value in _objects(path):
        try:
            row = _row(value, place)
            if row.id in rows:
                raise ValueError(f"idx {row.id} occurs twice")
            rows[row.id] = row
        except ValueError as error:
            wrong.append(f"{place}: {error}")
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        message = f"{path}: {len(wrong)} rows cannot be used: {'; '.join(wrong[:_SHOWN])}{more}."
        raise DataError(message, next_step="Each row needs idx, response and human_vote.")
    if not rows:
        raise NoRepliesError(f"{path} holds no replies.", next_step="Give a file with one JSON object per line.")
    return tuple(rows.values())


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
    stated = value.get("correct")
    correct = stated if isinstance(stated, bool) else None
    return VoteRow(str(name), HUMAN_VOTES[vote], value["response"] or "", correct)

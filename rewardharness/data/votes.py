"""Votes of many people as rows of a table: made from preferences, and merged to labels when they are read.

    votes-*.jsonl   {"id", "vote", "voter", "time", "instruction", "source", "references": [...], "candidate_a", ...,
                     "candidate_d", "preference", "both_bad", "label_kind", "context"}
    images/<sha256>.png

`id` is the same for all votes on the same images and instruction, `vote` is unique, and `voter` is a keyed hash or
null. Candidates are in the order of their hashes, so that votes on the same images have the same columns. All keys are
in every row.
"""

import hashlib
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Any

from rewardharness import files
from rewardharness.data.feedback import check_preference
from rewardharness.data.folder import FEEDBACK
from rewardharness.data.row_store import Rows
from rewardharness.data.source import Agreement, Dataset
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE, Example

__all__ = ["Vote", "is_vote_table", "make_vote", "merge_votes", "voter_id"]

_OURS = frozenset({"vote", "voter", "id", "preference"})


@dataclass(frozen=True)
class Vote:
    """One preference of one person, as it is stored."""

    row: Mapping[str, Any]
    images: Mapping[str, bytes]
    """PNG files by path."""

    @property
    def id(self) -> str:
        """The id by which the vote can be deleted."""
        return str(self.row["vote"])


def voter_id(name: str, salt: str | None) -> str | None:
    """Return the id of a voter: HMAC-SHA-256 of the name, or None without a name or a salt."""
    if not name or not salt:
        return None
    return hmac.new(salt.encode("utf-8"), name.encode("utf-8"), hashlib.sha256).hexdigest()[:32]


def make_vote(
    example: Example,
    preference: str,
    images: Iterable[bytes],
    *,
    time: datetime,
    voter: str | None = None,
    both_bad: bool = False,
    context: Mapping[str, Any] | None = None,
) -> Vote:
    """Make a vote.

    Args:
        example: The judged example.
        preference: The letter of the preferred candidate; `tie` for a pair of equal candidates.
        images: All images of the example in order, as PNG files without metadata.
        time: Time of the vote, in UTC.
        voter: See `voter_id`.
        both_bad: Whether the voter finds both candidates bad; only with a tie.
        context: Displayed information as a JSON object; never given to a judge.

    Raises:
        InputError: If the preference is invalid, or the instruction is empty.
    """
    instruction = check_preference(example, preference)
    if both_bad and preference != TIE:
        raise InputError("Both candidates can be bad only in a tie.", next_step="Vote again.")
    named = [(f"images/{files.sha256(data)}.png", data) for data in images]
    names = [name for name, _ in named]
    first = len(example.sources)
    order = sorted(range(len(names) - first), key=lambda place: names[first + place])
    candidates = [names[first + place] for place in order]
    if preference != TIE:
        preference = LABELS[order.index(LABELS.index(preference))]
    row = {
        "id": files.content_id([instruction, names[:first], candidates])[:32],
        "vote": secrets.token_hex(12),
        "voter": voter,
        "time": time.isoformat(timespec="seconds"),
        "instruction": instruction,
        "source": names[0],
        "references": names[1:first],
        **{
            f"candidate_{letter.lower()}": name
            for letter, name in zip(LABELS, [*candidates, *[None] * len(LABELS)], strict=False)
        },
        "preference": preference,
        "both_bad": both_bad,
        "label_kind": FEEDBACK,
        "context": dict(context or {}),
    }
    return Vote(row, dict(named))


def is_vote_table(rows: Rows) -> bool:
    """Return whether the rows are votes, so that several may be about the same images."""
    return set(rows.columns) >= _OURS


def merge_votes(dataset: Dataset, rows: Rows) -> Dataset:
    """Return a dataset with one example per edit, labeled with the preference of most voters.

    Of several votes of one voter on the same images, the last counts. Without a majority a pair is a tie, and a group
    has no label.

    Args:
        dataset: One example per vote, whose id is that of the vote.
        rows: The table of the votes.
    """
    about = {str(row["vote"]): row for row in rows}
    order = sorted(dataset.examples, key=lambda example: (str(about[example.id]["time"]), example.id))
    ballots: dict[str, dict[str, Example]] = defaultdict(dict)
    for example in order:
        row = about[example.id]
        ballots[str(row["id"])][str(row["voter"] or example.id)] = example
    merged = [replace(_majority([*votes.values()]), id=key, source_id="") for key, votes in ballots.items()]
    known = [[each.preference for voter, each in votes.items() if voter != each.id] for votes in ballots.values()]
    agreement = _agreement(known)
    notes = [f"{len(dataset.examples)} votes on {len(merged)} edits, merged by majority."]
    if agreement is not None:
        n = agreement.n
        notes.append(
            f"People agree with each other on {agreement.share:.0%} ({n} edit{'s' * (n != 1)} with votes of several "
            "people); no judge can be expected to agree with them more."
        )
    found = Dataset.of(dataset.name, merged, problems=(*dataset.problems, *notes), skipped=dataset.skipped)
    return replace(found, agreement=agreement)


def _majority(votes: list[Example]) -> Example:
    first, *others = Counter(each.preference for each in votes).most_common()
    last = votes[-1]
    if not others or others[0][1] < first[1]:
        return replace(last, preference=first[0])
    return replace(last, preference=TIE if len(last.candidates) == 2 else None)


def _agreement(ballots: Iterable[list[str | None]]) -> Agreement | None:
    """Return the mean share of agreeing pairs of voters over the examples with at least two known voters."""
    shares = []
    for votes in ballots:
        pairs = [one == other for one, other in combinations(votes, 2)]
        if pairs:
            shares.append(sum(pairs) / len(pairs))
    return Agreement(sum(shares) / len(shares), len(shares)) if shares else None

"""Votes of many people as rows of a table: made from preferences, and merged to labels when they are read.

    votes-*.jsonl   {"id", "vote", "voter", "session", "time", "instruction", "source", "references": [...],
                     "candidate_a", ..., "candidate_d", "preference", "both_bad", "label_kind", "context"}
    images/<sha256>.png

`id` is the same for all votes on the same images and instruction, `vote` is unique, `voter` is a keyed hash of the
account or null, and `session` is one of the address or null. Candidates are in the order of their hashes, so that
votes on the same images have the same columns. All keys are in every row; those of earlier versions have no `session`.
"""

import hashlib
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations, zip_longest
from typing import Any

from rewardharness import files
from rewardharness.data.feedback import check_preference
from rewardharness.data.folder import FEEDBACK
from rewardharness.data.row_store import Rows
from rewardharness.data.source import Dataset, VoterAgreement
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE, Example

__all__ = ["PreferenceVote", "is_vote_table", "make_vote", "merge_votes", "voter_id"]

_OURS = frozenset({"vote", "voter", "id", "preference"})


@dataclass(frozen=True)
class PreferenceVote:
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
    session: str | None = None,
    both_bad: bool = False,
    context: Mapping[str, Any] | None = None,
) -> PreferenceVote:
    """Make a vote.

    Args:
        example: The judged example.
        preference: The letter of the preferred candidate; `tie` for a pair of equal candidates.
        images: All images of the example in order, as PNG files without metadata.
        time: Time of the vote, in UTC.
        voter: See `voter_id`.
        session: Pseudonym of the address of a voter without an account; None if unknown.
        both_bad: Whether the voter finds both candidates bad; only with a tie.
        context: Displayed information as a JSON object; never given to a judge.

    Raises:
        InputError: If the preference is invalid, or the instruction is empty.
    """
    instruction = check_preference(example, preference)
    if both_bad and preference != TIE:
        raise InputError("Both candidates can be bad only in a tie.", next_step="PreferenceVote again.")
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
        "session": None if voter else session,
        "time": time.isoformat(timespec="seconds"),
        "instruction": instruction,
        "source": names[0],
        "references": names[1:first],
        **dict(zip_longest((f"candidate_{letter.lower()}" for letter in LABELS), candidates)),
        "preference": preference,
        "both_bad": both_bad,
        "label_kind": FEEDBACK,
        "context": dict(context or {}),
    }
    return PreferenceVote(row, dict(named))


def is_vote_table(rows: Rows) -> bool:
    """Return whether the rows are votes, so that several may be about the same images."""
    return set(rows.columns) >= _OURS


def merge_votes(dataset: Dataset, rows: Rows) -> Dataset:
    """Return a dataset with one example per edit, labeled with the preference of most voters.

    Where voters with an account have voted, they alone decide. Of several votes of one voter on the same images, the
    last counts; anonymous votes of one session are those of one voter. Without a majority a pair is a tie, and a group
    has no label.

    Args:
        dataset: One example per vote, whose id is that of the vote.
        rows: The table of the votes.
    """
    about = {str(row["vote"]): row for row in rows}
    order = sorted(dataset.examples, key=lambda example: (str(about[example.id]["time"]), example.id))
    known: dict[str, dict[str, Example]] = defaultdict(dict)
    unknown: dict[str, dict[str, Example]] = defaultdict(dict)
    for example in order:
        row = about[example.id]
        people, voter = (known, row["voter"]) if row["voter"] else (unknown, row.get("session"))
        people[str(row["id"])][str(voter)] = example
    keys = dict.fromkeys(str(about[example.id]["id"]) for example in order)
    merged = [replace(_majority([*(known.get(key) or unknown[key]).values()]), id=key, source_id="") for key in keys]
    agreement = _agreement([each.preference for each in votes.values()] for votes in known.values())
    anonymous = sum(not about[example.id]["voter"] for example in order)
    only = "and count only where nobody with an account has voted, once per session"
    notes = [
        f"{len(order)} votes on {len(merged)} edits, merged by majority; {anonymous} of them are anonymous, {only}."
    ]
    if agreement is not None:
        n = agreement.n
        edits = f"{n} edit{'s' * (n != 1)} with votes of several people"
        limit = "no judge can be expected to agree with them more"
        notes.append(f"People agree with each other on {agreement.share:.0%} ({edits}); {limit}.")
    found = Dataset.of(dataset.name, merged, problems=(*dataset.problems, *notes), skipped=dataset.skipped)
    return replace(found, agreement=agreement)


def _majority(votes: list[Example]) -> Example:
    first, *others = Counter(vote.preference for vote in votes).most_common()
    last = votes[-1]
    if not others or others[0][1] < first[1]:
        return replace(last, preference=first[0])
    return replace(last, preference=TIE if len(last.candidates) == 2 else None)


def _agreement(ballots: Iterable[list[str | None]]) -> VoterAgreement | None:
    """Return the mean share of agreeing pairs of voters over the examples with at least two known voters."""
    agreeing = ([one == other for one, other in combinations(votes, 2)] for votes in ballots)
    shares = [sum(pairs) / len(pairs) for pairs in agreeing if pairs]
    return VoterAgreement(sum(shares) / len(shares), len(shares)) if shares else None

"""Labels by people: votes of many as rows of a table, and corrections of examples that a judge always gets wrong.

Votes are made from preferences, and merged to labels when they are read.

    votes-*.jsonl   {"id", "vote", "voter", "session", "time", "instruction", "source", "references": [...],
                     "candidate_a", ..., "candidate_d", "editors": [...], "preference", "both_bad", "label_kind",
                     "context"}
    images/<sha256>.png

`id` is the same for all votes on the same images and instruction, `vote` is unique, `voter` is a keyed hash of the
account or null, and `session` is one of the address or null. Candidates are in the order of their hashes, so that
votes on the same images have the same columns. All keys are in every row; those of earlier versions have no `session`,
and no `editors`, which is empty unless the data name them.

Corrections do not modify the data.

    corrections/<id of the data>.jsonl    {"id", "instruction", "label", "preference", "at"}

A line contains the original label and the reviewed preference, which is equal to the label if the label is correct. The
last line of an example counts. `rh evolve --corrections` applies corrections to the training examples. The held-out
test set keeps the original labels, because measuring on corrected errors of the judge would be biased.
"""

import hashlib
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.folder import FEEDBACK, FEEDBACK_MARKER
from rewardharness.data.row_store import Rows
from rewardharness.data.source import Dataset, VoterAgreement
from rewardharness.data.tables import original_bytes, store_image
from rewardharness.errors import DataError, InputError
from rewardharness.files import append_jsonl, read_jsonl
from rewardharness.schema import GROUPS, LABELS, PAIRS, TIE, Example, ImageInput
from rewardharness.task import IMAGE_EDIT, task_of


def append_feedback(
    folder: Path, example: Example, preference: str, *, context: Mapping[str, Any] | None = None, vote: str = ""
) -> str:
    """Append a preference with its images to a dataset folder.

    Images are written before the row, so a crash leaves at most an image without a row. A second preference for the
    same images and instruction, in any candidate order, appends a row with the same id; the reader uses the last one.

    Privacy: images are stored unchanged, including metadata (camera, location, time), under the hash of their content.
    Names of uploaded files are not stored. Nothing is sent to another machine.

    Args:
        folder: The dataset folder (`Settings.feedback`); created if missing.
        example: The judged example. Its id and label are ignored.
        preference: The letter of the preferred candidate; `tie` for a pair of equal candidates.
        context: Displayed information, such as the judge and its result, as a JSON object. Stored with the row, never
            given to a judge.
        vote: Id of the vote, by which it can be withdrawn; empty for a random one.

    Returns:
        The row id: a hash of images and instruction.

    Raises:
        InputError: If the preference is invalid, the instruction is empty or the context is not JSON.
        DataError: If an image can no longer be read.
    """
    instruction, letters = check_preference(example, preference), example.labels
    contents = [original_bytes(image, "Upload it again.") for image in example.images]
    if b"" in contents:
        name = example.images[contents.index(b"")].name
        raise DataError(f"The image {name} is empty.", next_step="Upload it again.")
    hashes = [files.sha256(content) for content in contents]
    first = len(example.sources)
    try:
        apart = [hashes[1:first]] if first > 1 else []  # references are set apart from candidates
        key = files.content_id([instruction, hashes[0], *apart, *sorted(hashes[first:])])[:32]
        files.content_id(dict(context or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"The context cannot be stored as JSON: {error}.", next_step="Omit it.") from None
    names = [store_image(folder, content) for content in contents]
    row: dict[str, Any] = {"id": key, "instruction": instruction, "source": names[0], "label_kind": FEEDBACK}
    row["vote"] = vote or secrets.token_hex(12)
    if example.references:
        row["references"] = names[1:first]
    if len(letters) == 2:
        row |= {"candidate_a": names[first], "candidate_b": names[first + 1], "preference": preference}
    else:
        row |= {"candidates": names[first:], "best": letters.index(preference)}
    if editors := editors_of(example):
        row["editors"] = editors
    if context:
        row["context"] = dict(context)
    if not (folder / FEEDBACK_MARKER).exists():
        files.write_json(folder / FEEDBACK_MARKER, {"format": 1, "label_kind": FEEDBACK})
    files.append_jsonl(folder / (PAIRS if len(letters) == 2 else GROUPS), row)
    return key


def withdraw_feedback(folder: Path, vote: str) -> None:
    """Withdraw a vote: append the row of the last vote on the same edit that stands, or one without a label.

    One row is appended and none rewritten, so a crash leaves the vote as it was, or withdrawn. Its images stay.

    Args:
        folder: The dataset folder.
        vote: The id of the vote. Nothing happens if there is no such vote.
    """
    for file in (folder / PAIRS, folder / GROUPS):
        rows = [row for _, row in files.read_jsonl(file)]
        gone = {vote, *(row["withdraws"] for row in rows if "withdraws" in row)}
        for own in [row for row in rows if row.get("vote") == vote][:1]:
            standing = [row for row in rows if row.get("id") == own.get("id") and row.get("vote") not in gone]
            kept = standing[-1] if standing else {**own, "preference": None, "best": None}
            files.append_jsonl(file, {**kept, "withdraws": vote})


def editors_of(example: Example) -> list[str]:
    """Return the editors of the candidates; an empty list if none is named."""
    named = [image.editor if isinstance(image, ImageInput) else "" for image in example.candidates]
    return named if any(named) else []


def check_preference(example: Example, preference: str) -> str:
    """Check a preference, and return the instruction without surrounding spaces.

    Raises:
        InputError: If the preference is invalid, the instruction is empty, or this is not about image edits.
    """
    letters = example.labels
    if not 2 <= len(letters) == len(example.candidates):
        message = f"{len(example.candidates)} candidates cannot be compared."
        raise InputError(message, next_step="Use 2 to 4 candidates.")
    if task_of(example) is not IMAGE_EDIT:
        message = f"Feedback on {task_of(example).words} cannot be stored."
        raise InputError(message, next_step="Give feedback on image edits.")
    allowed = (*letters, TIE) if len(letters) == 2 else letters
    if preference not in allowed:
        raise InputError(f"The preference {preference!r} is none of {', '.join(allowed)}.", next_step="Choose again.")
    instruction = example.instruction.strip()
    if not instruction:
        raise InputError("The instruction is empty.", next_step="Enter the requested edit.")
    return instruction


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
        raise InputError("Both candidates can be bad only in a tie.", next_step="Vote again.")
    named = [(f"images/{files.sha256(data)}.png", data) for data in images]
    names = [name for name, _ in named]
    first = len(example.sources)
    order = sorted(range(len(names) - first), key=lambda place: names[first + place])
    candidates = [names[first + place] for place in order]
    editors = editors_of(example)
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
        "editors": [editors[place] for place in order] if editors else [],
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
    agreement = _agreement([vote.preference for vote in votes.values()] for votes in known.values())
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
    result = Dataset.of(dataset.name, merged, problems=(*dataset.problems, *notes), skipped=dataset.skipped)
    return replace(result, agreement=agreement)


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


CORRECTED = "corrected"
"""`label_kind` of an example whose label was corrected."""


@dataclass(frozen=True)
class Correction:
    """A reviewed label."""

    instruction: str
    """Instruction of the example, to detect a different example with the same id."""
    label: str
    """The original label."""
    preference: str
    """The reviewed preference."""

    @property
    def changes(self) -> bool:
        """Whether the correction changes the label."""
        return self.preference != self.label


def corrections_file(home: Path, digest: str) -> Path:
    """Return the path of the corrections of a dataset with this digest (see `Dataset`)."""
    return home / "corrections" / f"{digest[:16]}.jsonl"


def append_correction(file: Path, example: Example, preference: str) -> None:
    """Append a label correction to a file.

    Args:
        file: The file; created if missing.
        example: The example with its original label.
        preference: The letter of the preferred candidate, or `tie` for a pair; equal to a correct label.

    Raises:
        InputError: If the example has no label, or the preference is invalid.
    """
    allowed = _allowed(example)
    if example.preference is None:
        raise InputError(f"{example.id} has no label to correct.", next_step="Label it first.")
    if preference not in allowed:
        raise InputError(f"Invalid preference {preference!r}.", next_step=f"Choose one of: {', '.join(allowed)}.")
    row = {"id": example.id, "instruction": example.instruction, "label": example.preference, "preference": preference}
    append_jsonl(file, {**row, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def _allowed(example: Example) -> tuple[str, ...]:
    return (*example.labels, TIE) if len(example.labels) == 2 else example.labels


def read_corrections(file: Path) -> dict[str, Correction]:
    """Return the corrections by example id, ignoring invalid lines.

    Raises:
        DataError: If the file does not exist.
    """
    if not file.is_file():
        raise DataError(f"{file} does not exist.", next_step="Set --corrections to an existing file, or omit it.")
    corrections = {}
    for _, row in read_jsonl(file):
        name, *rest = (row.get(name) for name in ("id", "instruction", "label", "preference"))
        if all(isinstance(value, str) and value for value in (name, *rest)):
            corrections[str(name)] = Correction(*map(str, rest))
    return corrections


def corrected_labels(dataset: Dataset, corrections: Mapping[str, Correction]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the corrected labels of a dataset.

    Returns:
        The corrected label by id, and one warning for each correction that does not apply.
    """
    examples = {example.id: example for example in dataset.examples}
    right, problems = {}, []
    for name, correction in corrections.items():
        example = examples.get(name)
        if example is None or (example.instruction, example.preference) != (correction.instruction, correction.label):
            problems.append(f"The correction of {name!r} is for different data and is ignored.")
        elif correction.preference not in _allowed(example):
            problems.append(f"The correction of {name!r} has an invalid preference and is ignored.")
        elif correction.changes:
            right[name] = correction.preference
    return right, tuple(problems)


def unreviewed(ids: Iterable[str], corrections: Mapping[str, Correction]) -> list[str]:
    """Return the example ids without a correction, in order."""
    return [name for name in ids if name not in corrections]

"""Datasets: stable digests, warnings, and the split into training examples and held-out test set."""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rewardharness import files
from rewardharness.errors import InputError
from rewardharness.schema import TIE, Candidate, Example, ImageInput, TextInput
from rewardharness.task import IMAGE_EDIT, Task, common_task

_SHOWN = 5
_LISTED = 20
"""Maximum number of problems of one kind that are listed; the rest is counted."""


@dataclass(frozen=True)
class SkippedRow:
    """An invalid row that was skipped on request; it is not judged but counted."""

    place: str
    """Location, such as `row 3` or `pairs.jsonl line 3`."""
    reason: str
    """The column, the value and the reason; equal for all rows with the same cell."""
    before: int
    """Number of valid examples before it."""
    remedy: str = "Correct these rows."
    """What to do about it."""


CONTRADICTING = "contradicting labels"
"""Part of the problems of a dataset that name such labels."""


@dataclass(frozen=True)
class VoterAgreement:
    """How well people agree with each other: no judge can be expected to agree with them better."""

    share: float
    """Mean over examples of the share of pairs of voters with the same preference, in [0, 1]."""
    n: int
    """Number of examples with votes of at least two people."""


@dataclass(frozen=True)
class Dataset:
    """Examples from one source, with warnings."""

    name: str
    """Display name, such as the name of the folder."""
    examples: tuple[Example, ...]
    """In the order of the source."""
    problems: tuple[str, ...]
    """Warnings, one sentence each: duplicates, contradicting labels, missing files. The affected examples are still in
    `examples`."""
    digest: str
    """SHA-256 of ids, instructions, labels and images (see `Dataset.of`)."""
    skipped: tuple[SkippedRow, ...] = ()
    """Skipped rows in the order of the source; they count as not judged."""
    task: Task = IMAGE_EDIT
    """What is judged."""
    agreement: VoterAgreement | None = None
    """Agreement between people; None if no example has votes of several."""
    revision: str = ""
    """Commit or SHA-256 of the table that it was read from; empty for other data."""
    columns: tuple[str, ...] = ()
    """Columns of the table."""
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the field map of the table that are not empty."""
    how: str = ""
    """One sentence on how the field map was determined."""

    @classmethod
    def of(
        cls,
        name: str,
        examples: Iterable[Example],
        *,
        problems: Sequence[str] = (),
        skipped: Sequence[SkippedRow] = (),
        sizes: Mapping[str, int] = MappingProxyType({}),
    ) -> "Dataset":
        """Create a dataset from examples, with warnings and a digest.

        Not all images are read. A file with a unique size in the dataset is identified by name and size; files of
        equal size are hashed. This makes reading large folders fast and, unlike modification times, gives the same
        digest on every machine. Only replacing a file by another one of exactly the same unique size goes unnoticed.

        Args:
            name: Display name.
            examples: The examples, of one task. The default `source_id` is the name of the source, which is the same
                for all byte-identical sources; for text it follows from the prompt.
            problems: Warnings of the reader.
            skipped: Skipped rows.
            sizes: Sizes of image files by path, as far as the caller knows them; the others are looked up.

        Returns:
            The dataset.

        Raises:
            InputError: If two examples have the same id, or the examples have several tasks.
        """
        checked = tuple(examples)
        repeated = [key for key, count in Counter(example.id for example in checked).items() if count > 1]
        if repeated:
            raise InputError(f"{name}: duplicate id {repeated[0]!r}.", next_step="Give every example a unique id.")
        task = common_task(checked)
        ids = identify_images((image for example in checked for image in example.images), sizes)
        media = {example.id: _MediaIds.of(example, ids) for example in checked}
        first_name: dict[str, str] = {}
        for example in sorted(checked, key=lambda example: example.id):
            default = example.source.name if example.source else f"prompt {files.content_id(example.instruction)[:12]}"
            first_name.setdefault(media[example.id].source, default)
        named = tuple(
            example
            if example.source_id
            else Example(**{**vars(example), "source_id": first_name[media[example.id].source]})
            for example in checked
        )
        note = describe_skipped(_skipped_json(skipped))
        warnings = [note, *problems] if note and note not in problems else problems
        return cls(name, named, (*warnings, *_problems(named, ids, media)), _digest(named, media), tuple(skipped), task)

    def first(self, limit: int | None) -> "Dataset":
        """Return the first `limit` examples with the skipped rows before them; None for the whole dataset."""
        if limit is None or limit >= len(self.examples):
            return self
        skipped = tuple(row for row in self.skipped if row.before < limit)
        return replace(self, examples=self.examples[:limit], skipped=skipped)

    def skipped_json(self) -> dict[str, Any]:
        """Return the number of skipped rows, and the first of them with their reasons, as JSON."""
        return _skipped_json(self.skipped)


def _skipped_json(skipped: Sequence[SkippedRow]) -> dict[str, Any]:
    rows = [{"place": row.place, "reason": row.reason} for row in skipped[:_LISTED]]
    return {"n": len(skipped), "first": rows}


def describe_skipped(skipped: Mapping[str, Any]) -> str:
    """Return a sentence on the skipped rows, empty if there are none.

    Args:
        skipped: The value of `Dataset.skipped_json`.
    """
    count = skipped["n"]
    if not count:
        return ""
    reasons = "; ".join(f"{row['place']}: {row['reason']}" for row in skipped["first"][:_SHOWN])
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    rows = "1 bad row was skipped and counts" if count == 1 else f"{count} bad rows were skipped and count"
    return f"{rows} as not judged: {reasons}{more}."


def derived_id(content: list[str]) -> str:
    """Return the id of a row that has none, which follows from its content."""
    return f"r-{files.content_id(content)[:12]}"


def free_id(stem: str, taken: Container[str], mark: str) -> str:
    """Return an id, with a mark and a number from 2 if it is taken."""
    numbered = (f"{stem}{mark}{number}" for number in count(2))
    return next(name for name in chain((stem,), numbered) if name not in taken)


def split(examples: Sequence[Example], *, share: float, seed: int) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Split examples into training examples and a held-out test set.

    Examples of one source image stay together, so the training examples reveal nothing about a test image. Sources are
    stratified by edit category, label kind and label, shuffled with the seed, and sampled systematically, so that each
    stratum contributes its share. The result depends only on the seed, ids and labels, not on the machine or the order
    of the examples.

    Args:
        examples: The examples, with `source_id` (see `Dataset.of`).
        share: Fraction of the examples for the test set, 0 <= share < 1, met up to the size of a source. With at least
            two sources and a share above 0, neither part is empty.
        seed: Any integer.

    Returns:
        Training examples and test set, each in the order of `examples`.

    Raises:
        InputError: If the share is out of range.
    """
    if not 0 <= share < 1:
        raise InputError(f"The test share {share} is not in [0, 1).", next_step="Use a share such as 0.3.")
    sources: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        sources[example.source_id or example.id].append(example)
    if share == 0 or len(sources) < 2:
        return tuple(examples), ()
    ordered = _stratified(sources, seed)
    offset = _chance(seed, "offset") - 0.5
    audit: set[str] = set()
    seen = taken = 0
    for source in ordered:
        size = len(sources[source])
        seen += size
        if seen * share + offset - taken >= size / 2:
            audit.add(source)
            taken += size
    if len(audit) in (0, len(sources)):
        audit ^= {min(ordered, key=lambda source: (len(sources[source]), _chance(seed, source)))}
    held = [(example.source_id or example.id) in audit for example in examples]
    pool, test = ([*compress(examples, (part == flag for flag in held))] for part in (False, True))
    return tuple(pool), tuple(test)


def _stratified(sources: dict[str, list[Example]], seed: int) -> list[str]:
    """Order sources by (category, label kind), then label, then randomly.

    The label order alternates between strata. With a fixed order, taking every second source of many strata with one A
    and one B each would take only A.
    """
    strata: dict[tuple[str, str], list[tuple[str, float, str]]] = defaultdict(list)
    for source, members in sources.items():
        cells = Counter((example.category, example.label_kind, example.preference or "") for example in members)
        category, kind, label = min(cells, key=lambda cell: (-cells[cell], cell))
        strata[category, kind].append((label, _chance(seed, source), source))
    turns = [sorted(strata[stratum], reverse=number % 2 == 1) for number, stratum in enumerate(sorted(strata))]
    return [source for stratum in turns for *_, source in stratum]


def _chance(seed: int, text: str) -> float:
    """Return a number in [0, 1) that depends only on its arguments."""
    return int(files.content_id([seed, text])[:13], 16) / 16**13


def image_key(image: ImageInput) -> str | bytes:
    """Return the key of an image in `identify_images`: its path as text, or its bytes."""
    return str(image.path) if image.path is not None else image.data or b""


def identify_images(
    images: Iterable[ImageInput], known: Mapping[str, int] = MappingProxyType({})
) -> dict[str | bytes, str]:
    """Return ids that are equal for byte-identical images (see `Dataset.of`).

    Args:
        images: The images.
        known: Sizes of files by path, which are not looked up.

    Returns:
        An id per `image_key`; the id of a missing file begins with `missing:`.
    """
    names: dict[str | bytes, str] = {}
    for image in images:
        names.setdefault(image_key(image), image.name)
    sizes = {key: len(key) if isinstance(key, bytes) else known.get(key) or _file_size(key) for key in names}
    often = Counter(sizes.values())

    def identify(key: str | bytes) -> str:
        if isinstance(key, bytes):
            return f"sha256:{files.sha256(key)}"
        if sizes[key] is not None and often[sizes[key]] == 1:
            return f"file:{sizes[key]}:{names[key]}"
        try:
            content = None if sizes[key] is None else files.sha256_file(Path(key))
        except OSError:  # unreadable, which judging reports
            content = None
        return f"missing:{names[key]}" if content is None else f"sha256:{content}"

    return {key: identify(key) for key in names}


def media_id(media: Candidate, ids: Mapping[str | bytes, str]) -> str:
    """Return the id of a source or candidate: equal for the same image, the same frames or the same text.

    Args:
        media: The source or candidate.
        ids: Ids of all images, from `identify_images`.
    """
    if isinstance(media, ImageInput):
        return ids[image_key(media)]
    if isinstance(media, TextInput):
        return f"text:{files.sha256(media.text.encode())}"
    return f"frames:{files.content_id([ids[image_key(frame)] for frame in media.frames])}"


class _MediaIds(NamedTuple):
    """Ids of source, references and candidates of an example."""

    source: str
    """Of text the id of the prompt."""
    references: list[str]
    candidates: list[str]

    @classmethod
    def of(cls, example: Example, ids: Mapping[str | bytes, str]) -> "_MediaIds":
        source = example.source
        own = f"prompt:{files.content_id(example.instruction)}" if source is None else media_id(source, ids)
        references = [media_id(image, ids) for image in example.references] if example.references else []
        return cls(own, references, [media_id(candidate, ids) for candidate in example.candidates])

    def winner(self, example: Example) -> str:
        """Return the id of the preferred candidate."""
        if example.preference not in example.labels:
            return example.preference or ""
        return self.candidates[example.labels.index(example.preference)]

    def winner_is_copied(self, example: Example) -> bool:
        """Return whether another candidate is the same as the preferred one."""
        winner = self.winner(example)
        return self.candidates.count(winner) > 1 and not winner.startswith("missing:")


def _file_size(path: str) -> int | None:
    """Return the size in bytes; None for a missing or irregular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


_DIGESTED = ("id", "instruction", "preference", "label_kind", "category", "source_id")


def _digest(examples: tuple[Example, ...], media: Mapping[str, _MediaIds]) -> str:
    rows = []
    for example in examples:
        source, references, candidates = media[example.id]
        rows.append([*(getattr(example, name) for name in _DIGESTED), [source, *candidates], *references])
    return files.content_id(sorted(rows, key=lambda row: str(row[0])))


def _problems(
    examples: tuple[Example, ...], ids: Mapping[str | bytes, str], media: Mapping[str, _MediaIds]
) -> list[str]:
    gone = {key for key, name in ids.items() if name.startswith("missing:")}
    missing = [
        f"{example.id}: the image {image.name} is missing."
        for example in (examples if gone else ())
        for image in example.images
        if image_key(image) in gone
    ]
    alike: dict[tuple[object, ...], list[Example]] = defaultdict(list)
    for example in examples:
        source, references, candidates = media[example.id]
        instruction = " ".join(example.instruction.casefold().split())
        sources = () if example.source is None else (source, *references)
        alike[sources, *sorted(candidates), instruction].append(example)
    copies, contradictions = [], []
    text = any(example.source is None for example in examples)
    what, one = ("texts", "text") if text else ("images", "image")
    for group in alike.values():
        if len(group) == 1:
            continue
        named = " and ".join(example.id for example in group)
        if len({media[example.id].winner(example) for example in group if example.preference is not None}) > 1:
            contradictions.append(f"{named} have the same {what} and instruction but {CONTRADICTING}.")
        else:
            copies.append(f"{named} have the same {what} and instruction.")
    level = [
        f"{example.id}: the candidates are the same {one}, but the label prefers {example.preference}."
        for example in examples
        if example.preference not in (None, TIE) and media[example.id].winner_is_copied(example)
    ]
    return [*_shortened(missing), *_shortened(contradictions), *_shortened(level), *_shortened(copies)]


def _shortened(problems: list[str]) -> list[str]:
    """Return the first problems of one kind and the number of further ones."""
    more = len(problems) - _LISTED
    return problems if more <= 0 else [*problems[:_LISTED], f"{more} more of this kind."]

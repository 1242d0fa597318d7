"""Datasets as values: stable identity, problems found while reading, and the split into pool and audit."""

import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.errors import InputError
from rewardharness.schema import TIE, Example, ImageInput

_SHOWN = 5
_LISTED = 20
"""Problems of one sort that are listed one by one; the rest is counted."""


@dataclass(frozen=True)
class SkippedRow:
    """A row that could not be used and was left out because the user chose so: never judged, and always counted."""

    place: str
    """Where it stands, as in `row 3` or `pairs.jsonl line 3`."""
    reason: str
    """Names the column, the value and what is wrong with it."""
    before: int
    """How many usable examples stand before it."""


@dataclass(frozen=True)
class Dataset:
    """Examples that were read from one place, with what is odd about them."""

    name: str
    """How people call it, such as the name of the folder."""
    examples: tuple[Example, ...]
    """In the order of the source."""
    problems: tuple[str, ...]
    """What a person should know, one sentence each: duplicates, contradicting labels, missing files. Every
    example that they speak of is still in `examples`."""
    digest: str
    """SHA-256 over ids, instructions, labels and images. See `Dataset.of`."""
    skipped: tuple[SkippedRow, ...] = ()
    """Rows that were left out by choice, in the order of the source; they count as not judged."""

    @classmethod
    def of(
        cls,
        name: str,
        examples: Iterable[Example],
        *,
        problems: Sequence[str] = (),
        skipped: Sequence[SkippedRow] = (),
    ) -> "Dataset":
        """Make a dataset of examples: find what is odd and give it an identity.

        Images are told apart without reading all of them. A file whose size no other image of the dataset has
        cannot be a copy of one, so its name and size stand for it; images of equal size are hashed. This keeps the
        reading of large folders fast and, other than times of modification would, gives the same digest on
        every machine. The one change that stays unseen is a file replaced by another of exactly the same,
        otherwise unused, size.

        Args:
            name: How people call it.
            examples: The examples. One without a `source_id` is given the name of its source image, the same for all
                byte-identical sources.
            problems: What the reader found odd.
            skipped: Rows that were left out by choice.

        Returns:
            The dataset.

        Raises:
            InputError: If two examples have the same id.
        """
        given = tuple(examples)
        repeated = [key for key, count in Counter(example.id for example in given).items() if count > 1]
        if repeated:
            raise InputError(
                f"{name}: the id {repeated[0]!r} occurs twice.", next_step="Give every example its own id."
            )
        ids = identify_images(image for example in given for image in (example.source, *example.candidates))
        first_name: dict[str, str] = {}
        for example in sorted(given, key=lambda example: example.id):
            first_name.setdefault(ids[image_key(example.source)], example.source.name)
        named = tuple(
            example if example.source_id else replace(example, source_id=first_name[ids[image_key(example.source)]])
            for example in given
        )
        told = told_skipped(_skipped_json(skipped))
        said = [told, *problems] if told and told not in problems else problems
        return cls(name, named, (*said, *_problems(named, ids)), _digest(named, ids), tuple(skipped))

    def first(self, limit: int | None) -> "Dataset":
        """Return the first so many examples, with the skipped rows that stand among them; None: all of it."""
        if limit is None or limit >= len(self.examples):
            return self
        skipped = tuple(each for each in self.skipped if each.before < limit)
        return replace(self, examples=self.examples[:limit], skipped=skipped)

    def skipped_json(self) -> dict[str, Any]:
        """Put the skipped rows into JSON: how many, and the first of them with their reasons."""
        return _skipped_json(self.skipped)


def _skipped_json(skipped: Sequence[SkippedRow]) -> dict[str, Any]:
    rows = [{"place": each.place, "reason": each.reason} for each in skipped[:_LISTED]]
    return {"n": len(skipped), "first": rows}


def told_skipped(skipped: Mapping[str, Any]) -> str:
    """Say how many rows were skipped, which and why, in a sentence; empty when none was.

    Args:
        skipped: As `Dataset.skipped_json` puts it.
    """
    count = skipped["n"]
    if not count:
        return ""
    shown = "; ".join(f"{each['place']}: {each['reason']}" for each in skipped["first"][:_SHOWN])
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    were = "1 bad row was skipped and counts" if count == 1 else f"{count} bad rows were skipped and count"
    return f"{were} as not judged: {shown}{more}."


def split(examples: Sequence[Example], *, share: float, seed: int) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Divide examples into a pool to learn from and an audit set to measure on.

    Examples of one source image always stay together, so nothing about an audited image can be learnt from the
    pool. Sources are put in order by edit category, kind of label and label, by seeded chance within these, and then
    every so many-th goes to the audit: each stratum gives its share. The result depends on the seed, ids and labels
    alone, not on the machine nor on the order of the examples.

    Args:
        examples: The examples, with `source_id` (see `Dataset.of`).
        share: Share of the examples that should go to the audit, 0 <= share < 1. It is met up to the size of a
            source. With two sources or more and a share above 0 neither part is empty.
        seed: Any integer.

    Returns:
        Pool and audit, each in the order of `examples`.

    Raises:
        InputError: If the share is out of range.
    """
    if not 0 <= share < 1:
        raise InputError(f"The audit share {share} is not in [0, 1).", next_step="Use a share such as 0.3.")
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
    smallest = min(ordered, key=lambda source: (len(sources[source]), _chance(seed, source)))
    if not audit:
        audit.add(smallest)
    elif len(audit) == len(sources):
        audit.remove(smallest)
    held = tuple(example for example in examples if (example.source_id or example.id) in audit)
    return tuple(example for example in examples if (example.source_id or example.id) not in audit), held


def _stratified(sources: dict[str, list[Example]], seed: int) -> list[str]:
    """Sources by (category, kind of label), then label, then chance.

    The order of labels turns round from one stratum to the next. With a fixed order, taking every second source of
    many strata with one A and one B each would take only A.
    """
    strata: dict[tuple[str, str], list[tuple[str, float, str]]] = defaultdict(list)
    for source, members in sources.items():
        cells = Counter((each.category, each.label_kind, each.preference or "") for each in members)
        category, kind, label = min(cells, key=lambda cell: (-cells[cell], cell))
        strata[category, kind].append((label, _chance(seed, source), source))
    ordered: list[str] = []
    for number, stratum in enumerate(sorted(strata)):
        ordered += [source for *_, source in sorted(strata[stratum], reverse=number % 2 == 1)]
    return ordered


def _chance(seed: int, text: str) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    return int(files.content_id([seed, text])[:13], 16) / 16**13


def image_key(image: ImageInput) -> Path | bytes:
    """Return what `identify_images` knows an image by: its path, or its bytes."""
    return image.path if image.path is not None else image.data or b""


def identify_images(images: Iterable[ImageInput]) -> dict[Path | bytes, str]:
    """Tell images apart: equal values for byte-identical images, see `Dataset.of`.

    Returns:
        An identity per `image_key`; that of a file which is not there begins with `missing:`.
    """
    names: dict[Path | bytes, str] = {}
    for image in images:
        names.setdefault(image_key(image), image.name)
    sizes = {key: len(key) if isinstance(key, bytes) else _file_size(key) for key in names}
    often = Counter(sizes.values())
    ids: dict[Path | bytes, str] = {}
    for key, name in names.items():
        size = sizes[key]
        if isinstance(key, bytes):
            ids[key] = f"sha256:{files.sha256(key)}"
        elif size is None:
            ids[key] = f"missing:{name}"
        elif often[size] > 1:
            ids[key] = _file_hash(key) or f"missing:{name}"
        else:
            ids[key] = f"file:{size}:{name}"
    return ids


def _file_size(path: Path) -> int | None:
    """Size in bytes; None for what is not there or is no ordinary file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _file_hash(path: Path) -> str | None:
    """Identity by content; None for a file that cannot be read, which judging will report."""
    try:
        return f"sha256:{files.sha256_file(path)}"
    except OSError:
        return None


def _digest(examples: tuple[Example, ...], ids: dict[Path | bytes, str]) -> str:
    rows = [
        [
            each.id,
            each.instruction,
            each.preference,
            each.label_kind,
            each.category,
            each.source_id,
            [ids[image_key(image)] for image in (each.source, *each.candidates)],
        ]
        for each in examples
    ]
    return files.content_id(sorted(rows, key=lambda row: str(row[0])))


def _problems(examples: tuple[Example, ...], ids: dict[Path | bytes, str]) -> list[str]:
    missing = [
        f"{example.id}: the image {image.name} is missing."
        for example in examples
        for image in (example.source, *example.candidates)
        if ids[image_key(image)].startswith("missing:")
    ]
    alike: dict[tuple[object, ...], list[Example]] = defaultdict(list)
    for example in examples:
        candidates = sorted(ids[image_key(image)] for image in example.candidates)
        words = " ".join(example.instruction.casefold().split())
        alike[ids[image_key(example.source)], *candidates, words].append(example)
    copies, contradictions = [], []
    for group in alike.values():
        named = " and ".join(example.id for example in group)
        if len({_winner(example, ids) for example in group if example.preference is not None}) > 1:
            contradictions.append(f"{named} have the same images and instruction, but contradicting labels.")
        elif len(group) > 1:
            copies.append(f"{named} have the same images and instruction.")
    level = [
        f"{example.id}: candidates are the same image, yet the label prefers {example.preference}."
        for example in examples
        if example.preference not in (None, TIE) and _winner_is_copied(example, ids)
    ]
    return [*_shortened(missing), *_shortened(contradictions), *_shortened(level), *_shortened(copies)]


def _winner(example: Example, ids: dict[Path | bytes, str]) -> str:
    """The image that the label prefers, whatever letter it has."""
    if example.preference not in example.labels:
        return example.preference or ""
    return ids[image_key(example.candidates[example.labels.index(example.preference)])]


def _winner_is_copied(example: Example, ids: dict[Path | bytes, str]) -> bool:
    winner = _winner(example, ids)
    return (
        not winner.startswith("missing:") and [ids[image_key(image)] for image in example.candidates].count(winner) > 1
    )


def _shortened(problems: list[str]) -> list[str]:
    """The first problems of one sort, and how many more there are."""
    more = len(problems) - _LISTED
    return problems if more <= 0 else [*problems[:_LISTED], f"{more} more like the last one."]

"""Provenance records on disk: write-once files in a folder, linked by content hashes.

    manifest.NAME.json, result.NAME.json, eval.NAME.json, comparison.NAME.json
    items/HASH.json    values per example, named by the digest of the file

A record is one JSON object:

    schema    1
    kind      manifest, result, eval or comparison
    name      letters, digits, `.`, `_` and `-`; a result has the name of its manifest, so that a manifest has one
    result body      see `records`
    id        SHA-256 over the canonical JSON of the four above
    created   UTC, ISO 8601
    seal      SHA-256 over the canonical JSON of the five above and `created`

A record is written once, atomically, under a free name. Writing the same content twice returns the existing record;
other content under a used name is an error. Records are validated strictly, and the records that they refer to must
exist.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rewardharness.codec import Sha256, ValidationError, decode, finite, from_json, to_json
from rewardharness.errors import InputError, RunError, shell
from rewardharness.files import content_id, read_json, read_text, sha256, sha256_file, write_once
from rewardharness.judging.release_file import load_release
from rewardharness.leaks import secret_places
from rewardharness.lineage import records as forms
from rewardharness.lineage.records import KINDS, Body, Evaluation, Items, Manifest, ReleaseRef, RewardCurve, RunOutcome

SCHEMA = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ITEMS = "items"
SHORT = 12
"""Number of digits of an id that people are shown."""

_MAX_BYTES = 4 * 1024 * 1024
_MIN_PREFIX = 6
_FILE = re.compile(r"([a-z]+)\.(.+)\.json")
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class LineageError(RunError):
    """A record that is damaged, missing, or refers to something missing."""

    title = "Lineage error"


@dataclass(frozen=True)
class Record:
    """A record in a lineage folder."""

    kind: str
    name: str
    body: Body
    id: str
    created: str

    @property
    def title(self) -> str:
        """Kind and name, as in `eval sft-1`."""
        return f"{self.kind} {self.name}"

    @property
    def stored(self) -> "StoredRecord":
        """The content of its file."""
        content = {**_content(self.kind, self.name, self.body), "id": self.id, "created": self.created}
        return StoredRecord(**content, seal=content_id(content))


@dataclass(frozen=True)
class StoredRecord:
    """The JSON object in a file."""

    schema: int
    kind: str
    name: str
    body: Mapping[str, Any]
    id: Sha256
    created: str
    seal: Sha256


class Lineage:
    """The records in a folder.

    Args:
        folder: The folder; it is created with the first record.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, name: str, body: Body, items: Items | None = None, *, dry_run: bool = False) -> Record:
        """Store a record.

        Args:
            name: Its name.
            body: Its content.
            items: Values per example, for an eval.
            dry_run: Check everything, and write nothing.

        Returns:
            The record; the existing one if it has the same content.

        Raises:
            InputError: If the name, a value or a secret prevents it, or if other content has this name.
            LineageError: If a record or file that it refers to is missing or has changed.
        """
        record = self._prepare(name, body, items, self.read_all())
        if dry_run:
            return record
        if items is not None:
            data = _items_bytes(items)
            write_once(self.folder / ITEMS / f"{sha256(data)}.json", data)
        path = self.folder / f"{record.kind}.{name}.json"
        if write_once(path, _record_bytes(record)):
            return record
        existing = self._read(path)
        if existing.id != record.id:
            message = f"{self.folder} already has a different {record.kind} {name!r}, created {existing.created}"
            show = shell("rh lineage show {} --lineage {}", name, self.folder)
            step = f"Choose another name, or show it with: {show}"
            raise InputError(f"{message}; records are never changed.", next_step=step)
        return existing

    def read_all(self) -> dict[str, Record]:
        """Read all records by id, oldest first.

        Raises:
            LineageError: If a record was changed, or refers to a missing one.
        """
        if not self.folder.is_dir():
            return {}
        files = sorted(path for path in self.folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
        records = sorted(map(self._read, files), key=lambda record: (record.created, record.kind, record.name))
        for record in records:
            self._check_references(record, records)
        return {record.id: record for record in records}

    def find(self, which: str, kind: str = "", known: Mapping[str, Record] | None = None) -> Record:
        """Find a record by name, by kind and name as in `eval.sft-1`, or by a prefix of its id.

        Args:
            which: The name or id.
            kind: The required kind; empty for any.
            known: Records that were read already.

        Raises:
            LineageError: If there is no such record, or more than one.
        """
        records = (self.read_all() if known is None else known).values()
        candidates = [record for record in records if kind in {"", record.kind}]
        matches = [record for record in candidates if which in {record.name, f"{record.kind}.{record.name}", record.id}]
        if not matches and len(which) >= _MIN_PREFIX:
            matches = [record for record in candidates if record.id.startswith(which)]
        if len(matches) == 1:
            return matches[0]
        listed = [
            f"{record.kind}.{record.name}" if matches or not kind else record.name for record in matches or candidates
        ]
        names, what = ", ".join(listed[:8]) or "none", f"{kind or 'record'} {which!r}"
        if matches:
            raise LineageError(f"{what} is ambiguous.", next_step=f"Choose one of: {names}.")
        raise LineageError(f"There is no {what} in {self.folder}.", next_step=f"Records: {names}.")

    def items(self, body: Evaluation) -> Items:
        """Read the values per example of an eval; empty if it has none.

        Raises:
            LineageError: If the file is missing or was changed.
        """
        if body.items is None:
            return {}
        path = self.folder / ITEMS / f"{body.items}.json"
        if not path.is_file() or sha256_file(path) != body.items:
            state = "was changed" if path.is_file() else "is missing"
            raise LineageError(f"{path} {state}.", next_step="Restore it from a copy of the lineage folder.")
        items: Items = read_json(path)
        return items

    def _prepare(self, name: str, body: Body, items: Items | None, known: Mapping[str, Record]) -> Record:
        kind = forms.kind_of(body)
        if NAME.fullmatch(name) is None:
            step = "Use 1 to 100 letters, digits, dots, dashes and underscores; start with a letter or digit."
            raise InputError(f"{name[:120]!r} is not a valid record name.", next_step=step)
        try:
            if isinstance(body, Evaluation) and items is not None:
                forms.check_items(body, items)
                body = replace(body, items=sha256(_items_bytes(items)))
            body = from_json(type(body), to_json(body))
            content = _content(kind, name, body)
            record = Record(kind, name, body, content_id(content), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            if len(_record_bytes(record)) > _MAX_BYTES:
                raise ValidationError("it is larger than 4 MiB")
        except (ValidationError, ValueError, RecursionError) as error:
            message = f"The {kind} {name} cannot be recorded: {error}."
            raise InputError(message, next_step="Correct the value.") from None
        manifest = known.get(body.manifest) if isinstance(body, RunOutcome) else None
        if manifest is not None and manifest.kind == "manifest" and name != manifest.name:
            message = f"The result of manifest {manifest.name} must have the same name, not {name}."
            step = "A manifest has one result. Record another attempt as a manifest of its own."
            raise InputError(message, next_step=step)
        secret = next(secret_places(content), None)
        if secret is not None:
            step = "Remove it, or write a placeholder such as ${HF_TOKEN}. Records are kept and shared."
            raise InputError(f"The {kind} {name} would store a secret: {secret} looks like one.", next_step=step)
        self._check_references(record, known.values())
        for path, digest in files_of(record.body, known):
            if state_of(path, digest) == "changed":
                message = (
                    f"{path} has changed since it was recorded, so the {record.title} would refer to another file."
                )
                step = "Restore the file, or record its new content under a new name."
                raise LineageError(message, next_step=step)
        if isinstance(record.body, Evaluation) and items is None:
            self.items(record.body)
        return record

    def _read(self, path: Path) -> Record:
        try:
            match = _FILE.fullmatch(path.name)
            if match is None or match[1] not in KINDS:
                raise ValidationError("the file name is not KIND.NAME.json with a known kind")
            if path.stat().st_size > _MAX_BYTES:
                raise ValidationError("it is too large")
            return _parse_record(decode(path.read_bytes()), match[1], match[2])
        except (ValidationError, ValueError, RecursionError, OSError) as error:
            step = "Restore it from a copy, or move it away together with the records that refer to it."
            raise LineageError(f"{path} is not a valid record: {error}.", next_step=step) from None

    def _check_references(self, record: Record, known: Iterable[Record]) -> None:
        """Check that the records that a record refers to exist and agree with it."""
        by_id = {other.id: other for other in known}
        for role, id_, kind in forms.references(record.body):
            other = by_id.get(id_)
            if other is None or kind not in {"", other.kind}:
                state = f"is a {other.kind}, not a {kind}" if other else f"is not in {self.folder}"
                step = "Give the id of an existing record, or restore the missing one from a copy."
                raise LineageError(f"The {record.title} refers to {role} {id_[:SHORT]}, which {state}.", next_step=step)
        if isinstance(record.body, Evaluation) and record.body.subject.result is not None:
            result = by_id[record.body.subject.result].body
            assert isinstance(result, RunOutcome)
            manifest = by_id[result.manifest].body
            assert isinstance(manifest, Manifest)
            _check_eval(record.title, record.body, result, manifest)


def files_of(body: Body, known: Mapping[str, Record]) -> Iterator[tuple[str, str]]:
    """Yield the files that a record names, itself or through its subject, with their digests."""
    release = None
    if isinstance(body, Manifest):
        release = body.reward.release if body.reward else None
    elif isinstance(body, RunOutcome):
        yield from ((artifact.location, artifact.sha256) for artifact in body.artifacts if artifact.sha256)
        yield from files_of(known[body.manifest].body, known)
    elif isinstance(body, Evaluation):
        release = body.subject.release
        result = known[body.subject.result].body if body.subject.result else None
        for artifact in result.artifacts if isinstance(result, RunOutcome) else ():
            if artifact.name == body.subject.artifact and artifact.sha256:
                yield artifact.location, artifact.sha256
    if release is not None:
        yield release.file, release.sha256


def _check_eval(title: str, body: Evaluation, result: RunOutcome, manifest: Manifest) -> None:
    names = [artifact.name for artifact in result.artifacts]
    if body.subject.artifact not in names:
        message = f"The {title} is about artifact {body.subject.artifact}, which its result does not have."
        raise LineageError(message, next_step=f"Artifacts of that result: {', '.join(names) or 'none'}.")
    for expected in manifest.expected:
        metric = body.metric(expected.name)
        if metric is not None and metric.direction != expected.direction:
            sides = f"{metric.direction} {metric.name} is better; in its manifest, {expected.direction}"
            raise LineageError(f"In the {title}, {sides}.", next_step="Use one direction per metric.")


def _content(kind: str, name: str, body: Body) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": kind, "name": name, "body": to_json(body)}


def _record_bytes(record: Record) -> bytes:
    return (json.dumps(to_json(record.stored), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _parse_record(document: Any, kind: str, name: str) -> Record:
    stored = from_json(StoredRecord, document)
    if stored.schema != SCHEMA:
        raise ValidationError("it was written by another version of RewardHarness")
    if (stored.kind, stored.name) != (kind, name):
        raise ValidationError("its kind or name differs from the file name")
    if _CREATED.fullmatch(stored.created) is None:
        raise ValidationError("created is not a UTC time")
    if stored.seal != content_id({key: value for key, value in document.items() if key != "seal"}):
        raise ValidationError("it was changed: the seal does not match the content")
    body = from_json(KINDS[kind], document["body"])
    if stored.id != content_id({key: document[key] for key in ("schema", "kind", "name", "body")}):
        raise ValidationError("it was changed: the id is not the hash of the content")
    return Record(kind, name, body, stored.id, stored.created)


def _items_bytes(items: Items) -> bytes:
    return (json.dumps(items, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


State = Literal["as recorded", "changed", "not here"]
"""State of a file. One on another machine, or behind a URL, is `not here`."""


def digest_of(path: Path) -> tuple[str, int]:
    """Hash a file, or the paths and digests of the files in a folder.

    Returns:
        SHA-256 and size in bytes.

    Raises:
        InputError: If there is nothing to hash, or it cannot be read.
    """
    try:
        if path.is_file():
            return sha256_file(path), path.stat().st_size
        rows, size = [], 0
        for folder, folders, names in os.walk(path):
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            for name in (*names, *links):
                file = Path(folder) / name
                if name in links or not file.is_file():
                    raise InputError(f"{file} is neither a file nor a folder.", next_step="Leave it out.")
                rows.append([file.relative_to(path).as_posix(), sha256_file(file)])
                size += file.stat().st_size
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", next_step="Check the path.") from None
    if not rows:
        raise InputError(f"{path} does not exist or contains no files.", next_step="Check the path.")
    return content_id(sorted(rows)), size


def read_release(path: Path) -> ReleaseRef:
    """Read the id and the Library id of a reward release. A release that `rh release create` made is verified.

    Args:
        path: A JSON object with `id`, and `library` with `id`.

    Raises:
        InputError: If it is not a release.
        ReleaseError: If its hashes do not match its content.
    """
    document = read_json(path)
    document = document if isinstance(document, dict) else {}
    library = document.get("library")
    facts = {"id": document.get("id"), "library": library.get("id") if isinstance(library, dict) else None}
    try:
        release = from_json(ReleaseRef, {**facts, "file": str(path.resolve()), "sha256": sha256_file(path)})
    except ValidationError as error:
        message = f"{path} is not a reward release: {error}."
        raise InputError(message, next_step="Create one with: rh release create") from None
    if "format" in document:
        load_release(path)
    return release


def state_of(place: str, digest: str) -> State:
    """Return the state of a file.

    Args:
        place: Its path or URL.
        digest: Its digest in the record.
    """
    if "://" in place or not os.path.exists(place):
        return "not here"
    return "as recorded" if digest_of(Path(place))[0] == digest else "changed"


LATE = 0.1
"""Fraction of the points, at the end, whose mean is the late reward."""

_NEXT = 'Give a file with one {"step", "reward"} per line, or a trainer_state.json of the transformers library.'


def read_curve(path: Path, key: str = "reward") -> RewardCurve:
    """Read a reward curve.

    Args:
        path: A file with one JSON object per line, or one JSON object with a list under `log_history`, as the trainers
            of `transformers` and TRL write it. Points without the key, such as those of an evaluation, are skipped.
        key: Key of the reward, next to `step`. Null and NaN count as missing.

    Raises:
        InputError: If the file has no curve.
    """
    points: list[tuple[int, float]] = []
    missing = 0
    for point in _points(path):
        if key not in point:
            continue
        step, reward = point.get("step"), point[key]
        number = finite(reward)
        if not isinstance(step, int) or isinstance(step, bool):
            raise InputError(f"{path}: a point of the curve has no integer `step`.", next_step=_NEXT)
        if number is None and reward is not None and not isinstance(reward, float):
            raise InputError(f"{path}: the {key} at step {step} is not a number.", next_step=_NEXT)
        missing += number is None
        points += [(step, number)] if number is not None else []
    if not points:
        raise InputError(f"{path} has no points with a number under {key!r}.", next_step=_NEXT)
    points.sort(key=lambda point: point[0])
    late = points[-max(1, round(LATE * len(points))) :]
    return RewardCurve(
        points=len(points),
        missing=missing,
        first=points[0],
        last=points[-1],
        lowest=min(points, key=lambda point: point[1]),
        highest=max(points, key=lambda point: point[1]),
        late_mean=fmean(reward for _, reward in late),
        sha256=sha256_file(path),
    )


def _points(path: Path) -> Iterable[dict[str, Any]]:
    text = read_text(path)
    try:
        document = json.loads(text)
    except RecursionError:
        return []
    except ValueError:  # not one value: one per line
        document = [_line(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    rows = document.get("log_history", [document]) if isinstance(document, dict) else document
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{path}, line {number}, is not JSON.", next_step=_NEXT) from None

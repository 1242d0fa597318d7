"""Records of what was planned, observed and compared: write-once files in a folder, tied together by content hashes.

    manifest.NAME.json, result.NAME.json, eval.NAME.json, comparison.NAME.json
    items/HASH.json    values example by example, by the hash of the file

A record is one JSON object:

    schema    1
    kind      manifest, result, eval or comparison
    name      letters, digits, `.`, `_` and `-`; a result has the name of its manifest, so that there is one of each
    body      see `forms`
    id        SHA-256 over the canonical JSON of the four above
    created   UTC, ISO 8601
    seal      SHA-256 over the canonical JSON of the five above and `created`

A record is written as a whole under a name that is free, never again: neither two writers nor `kill -9` can leave a
part of one. The same content twice is the same record; other content under a name that is taken is an error. Records
are read strictly, and every record that they refer to must be there and of the right kind.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardharness.errors import InputError, RunError
from rewardharness.files import content_id, read_text, sha256, sha256_file, write_once
from rewardharness.leaks import secret_places
from rewardharness.runs.forms import KINDS, Body, Eval, Manifest, Result, check_items, kind_of, references
from rewardharness.runs.named_files import state_of
from rewardharness.runs.typed import Misfit, read_as, to_json

SCHEMA = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ITEMS = "items"
SHORT = 12
"""Digits of an id that people are shown."""

_MOST_BYTES = 4 * 1024 * 1024
_LEAST_PREFIX = 6
_KEYS = ("schema", "kind", "name", "body", "id", "created", "seal")
_FILE = re.compile(r"([a-z]+)\.(.+)\.json")
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

Items = Mapping[str, Mapping[str, float]]
"""Values example by example: by metric, then by id of the example."""


class LineageError(RunError):
    """A record that is not what it should be, or that refers to something that is not."""

    title = "This lineage does not hold"


@dataclass(frozen=True)
class Record:
    """A record as it lies in the folder."""

    kind: str
    name: str
    body: Body
    id: str
    created: str

    @property
    def title(self) -> str:
        """Kind and name, as in `eval sft-1`."""
        return f"{self.kind} {self.name}"

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON, as it lies in the folder."""
        content = _content(self.kind, self.name, self.body)
        known = {**content, "id": self.id, "created": self.created}
        return {**known, "seal": content_id(known)}


class Lineage:
    """The records in a folder.

    Args:
        folder: Where they lie; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, name: str, body: Body, items: Items | None = None) -> Record:
        """Keep a record.

        Args:
            name: Its name.
            body: What it says.
            items: Values example by example, for an eval that is compared in pairs.

        Returns:
            The record; the one that is there already when it says the same.

        Raises:
            InputError: If it cannot be recorded: a bad name or value, a secret, other content under this name.
            LineageError: If something that it refers to is missing, or has changed.
        """
        kind = kind_of(body)
        record = self._prepared(name, body, items, self.read_all())
        path = self.folder / f"{kind}.{name}.json"
        if items is not None:
            data = _items_bytes(items)
            write_once(self.folder / ITEMS / f"{sha256(data)}.json", data)
        if not write_once(path, _printed(record)):
            there = self._read(path)
            if there.id != record.id:
                raise InputError(
                    f"There is another {kind} of the name {name} in {self.folder}, of {there.created}; records are "
                    "never changed.",
                    next_step="Choose another name, or look at it with: rh lineage show "
                    f"{name} --lineage {self.folder}",
                )
            return there
        return record

    def preview(self, name: str, body: Body, items: Items | None = None) -> Record:
        """Say what `record` would keep, and check it as it would; nothing is written."""
        return self._prepared(name, body, items, self.read_all())

    def read_all(self) -> dict[str, Record]:
        """Read all records, by id, oldest first.

        Raises:
            LineageError: If one was changed, or refers to something that is not there; names the first.
        """
        if not self.folder.is_dir():
            return {}
        files = sorted(each for each in self.folder.iterdir() if each.suffix == ".json" and each.name[0] != ".")
        found = sorted((self._read(each) for each in files), key=lambda each: (each.created, each.kind, each.name))
        for record in found:
            self._check_references(record, found)
        return {record.id: record for record in found}

    def find(self, which: str, kind: str = "", known: Mapping[str, Record] | None = None) -> Record:
        """Find a record by its name, by kind and name as in `eval.sft-1`, or by the beginning of its id.

        Args:
            which: What a user calls it.
            kind: The kind that it must be of; empty for any.
            known: Records that were read already.

        Raises:
            LineageError: If there is none, or more than one.
        """
        records = (self.read_all() if known is None else known).values()
        fitting = [each for each in records if kind in {"", each.kind}]
        found = [each for each in fitting if which in {each.name, f"{each.kind}.{each.name}", each.id}]
        if not found and len(which) >= _LEAST_PREFIX:
            found = [each for each in fitting if each.id.startswith(which)]
        what = f"{kind or 'record'} {which!r}"
        if not found:
            names = ", ".join((each.name if kind else f"{each.kind}.{each.name}") for each in fitting[:8])
            raise LineageError(
                f"There is no {what} in {self.folder}.", next_step=f"Known: {names or 'there are none'}."
            )
        if len(found) > 1:
            names = ", ".join(f"{each.kind}.{each.name}" for each in found[:8])
            raise LineageError(f"More than one is meant by {what}.", next_step=f"Say which: {names}.")
        return found[0]

    def items(self, body: Eval) -> Items:
        """Read the values example by example of an eval; empty when it has none.

        Raises:
            LineageError: If they are gone or were changed.
        """
        if body.items is None:
            return {}
        path = self.folder / ITEMS / f"{body.items}.json"
        if not path.is_file() or sha256_file(path) != body.items:
            state = "was changed" if path.is_file() else "is not there"
            raise LineageError(f"{path} {state}.", next_step="Bring it back from a copy of the lineage folder.")
        found: Items = json.loads(read_text(path))
        return found

    def _prepared(self, name: str, body: Body, items: Items | None, known: Mapping[str, Record]) -> Record:
        kind = kind_of(body)
        if NAME.fullmatch(name) is None:
            raise InputError(
                f"{name[:120]!r} is no name for a record.",
                next_step="Use up to 100 letters, digits, dots, dashes and underscores; begin with a letter or digit.",
            )
        try:
            if isinstance(body, Eval) and items is not None:
                check_items(body, items)
                body = replace(body, items=sha256(_items_bytes(items)))
            body = read_as(type(body), to_json(body))
        except Misfit as error:
            raise InputError(f"The {kind} {name} cannot be recorded: {error}.", next_step="Correct it.") from None
        if isinstance(body, Result):
            manifest = known.get(body.manifest)
            if manifest is not None and manifest.kind == "manifest" and name != manifest.name:
                raise InputError(
                    f"The result of the manifest {manifest.name} has its name, not {name}.",
                    next_step="A manifest has one result. Plan another attempt with this manifest as parent.",
                )
        content = _content(kind, name, body)
        _check_secrets(f"The {kind} {name}", content)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        record = Record(kind, name, body, content_id(content), now)
        if len(_printed(record)) > _MOST_BYTES:
            raise InputError(f"The {kind} {name} is too large for a record.", next_step="Keep it below 4 MiB.")
        self._check_references(record, known.values(), now=True)
        if isinstance(record.body, Eval) and items is None:
            self.items(record.body)
        return record

    def _read(self, path: Path) -> Record:
        try:
            named = _FILE.fullmatch(path.name)
            if named is None or named[1] not in KINDS:
                raise Misfit("its name is not KIND.NAME.json of a kind that is known")
            if path.stat().st_size > _MOST_BYTES:
                raise Misfit("it is too large")
            document = json.loads(read_text(path), object_pairs_hook=_without_twins, parse_constant=_no_constant)
            return _read_record(document, named[1], named[2])
        except (Misfit, ValueError, RecursionError) as error:
            raise LineageError(
                f"{path} is no record as it was written: {error}.",
                next_step="Bring it back from a copy, or move it away together with what refers to it.",
            ) from None

    def _check_references(self, record: Record, known: Iterable[Record], *, now: bool = False) -> None:
        """Make sure that what a record refers to is there; when it is made, also that files are what they were."""
        by_id = {each.id: each for each in known}
        for role, id_, kind in references(record.body):
            other = by_id.get(id_)
            if other is None or kind not in {"", other.kind}:
                state = f"is a {other.kind} and not a {kind}" if other else f"is not in {self.folder}"
                raise LineageError(
                    f"The {record.title} names as its {role} {id_[:SHORT]}, which {state}.",
                    next_step="Give the id of a record that is there, or bring it back from a copy.",
                )
        if isinstance(record.body, Eval):
            self._check_eval(record, record.body, by_id)
        if now:
            for place, digest in files_of(record.body, by_id):
                if state_of(place, digest) == "changed":
                    raise LineageError(
                        f"{place} has changed since it was recorded; the {record.title} would speak of something else.",
                        next_step="Bring the file back, or record what it is now under a name of its own.",
                    )

    def _check_eval(self, record: Record, body: Eval, known: Mapping[str, Record]) -> None:
        if body.subject.result is None:
            return
        result = known[body.subject.result].body
        assert isinstance(result, Result)
        if body.subject.artifact not in {each.name for each in result.artifacts}:
            names = ", ".join(each.name for each in result.artifacts) or "none"
            raise LineageError(
                f"The {record.title} is about {body.subject.artifact}, which its result did not leave.",
                next_step=f"Artifacts of that result: {names}.",
            )
        manifest = known[result.manifest].body
        assert isinstance(manifest, Manifest)
        for expected in manifest.expected:
            metric = body.metric(expected.name)
            if metric is not None and metric.direction != expected.direction:
                raise LineageError(
                    f"The {record.title} says that {metric.name} is better {metric.direction}; its manifest says "
                    f"{expected.direction}.",
                    next_step="Use one direction for one name.",
                )


def files_of(body: Body, known: Mapping[str, Record]) -> Iterator[tuple[str, str]]:
    """Files that a record names, itself or through the record that it is about, with their hashes."""
    if isinstance(body, Manifest) and body.reward and body.reward.release:
        yield body.reward.release.file, body.reward.release.sha256
    if isinstance(body, Result):
        yield from ((each.location, each.sha256) for each in body.artifacts if each.sha256)
        yield from files_of(known[body.manifest].body, known)
    if isinstance(body, Eval):
        if body.subject.release:
            yield body.subject.release.file, body.subject.release.sha256
        if body.subject.result:
            result = known[body.subject.result].body
            assert isinstance(result, Result)
            about = (each for each in result.artifacts if each.name == body.subject.artifact)
            yield from ((each.location, each.sha256) for each in about if each.sha256)


def _check_secrets(title: str, content: Mapping[str, Any]) -> None:
    place = next(secret_places(content), None)
    if place is not None:
        raise InputError(
            f"{title} would keep a secret: {place} looks like one.",
            next_step="Leave it out, or write what stands for it, such as ${HF_TOKEN}. Records are kept and shared.",
        )


def _content(kind: str, name: str, body: Body) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": kind, "name": name, "body": to_json(body)}


def _printed(record: Record) -> bytes:
    return (json.dumps(record.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _read_record(document: Any, kind: str, name: str) -> Record:
    if not isinstance(document, dict) or set(document) != set(_KEYS):
        raise Misfit(f"its keys are not {', '.join(_KEYS)}")
    if document["schema"] != SCHEMA or isinstance(document["schema"], bool):
        raise Misfit("it is of another version of this program")
    if (document["kind"], document["name"]) != (kind, name):
        raise Misfit("its file has the name of another")
    if not isinstance(document["created"], str) or _CREATED.fullmatch(document["created"]) is None:
        raise Misfit("created is no time")
    seal = {key: document[key] for key in _KEYS if key != "seal"}
    if document["seal"] != content_id(seal):
        raise Misfit("it was changed: its seal is not that of its content")
    body = read_as(KINDS[kind], document["body"], "body")
    record = Record(kind, name, body, document["id"], document["created"])
    if record.id != content_id({key: document[key] for key in ("schema", "kind", "name", "body")}):
        raise Misfit("it was changed: its id is not the hash of its content")
    return record


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Misfit("a key stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise Misfit(f"{text} is no number")


def _items_bytes(items: Items) -> bytes:
    return (json.dumps(items, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")

"""The file of a release. Only the exact written form is accepted, so that any changed byte is detected."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from rewardharness.codec import UNSET, Count, Positive, Text, UnsetType, Unsigned, ValidationError, from_json
from rewardharness.errors import DataError, LibraryError, ReleaseError
from rewardharness.files import content_id, write_text
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.config import MEASURED
from rewardharness.judging.model_config import Protocol
from rewardharness.judging.release import FORMAT, Release
from rewardharness.judging.release_card import Figure
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, parse_entry
from rewardharness.library.evolved import is_digest
from rewardharness.library.store import Library
from rewardharness.prompts import Language
from rewardharness.schema import Json

T = TypeVar("T")

MAX_BYTES = 32_000_000
"""Maximum size of a file; that of a Library is smaller."""

_PARTS = ("judge", "settings", "code", "library")
_FIELDS = {"format", "id", "parts", *_PARTS, "card", "card_id"}
_AGAIN = "Get the original file from its creator, or make a new one: rh release create."


@dataclass(frozen=True)
class _Judge:
    name: Text
    protocol: Text
    revision: Text
    model_revision: Text | None
    router: Text | None
    calibration: ConfidenceCalibration | UnsetType = UNSET


@dataclass(frozen=True)
class _PixelSettings:
    ties: bool
    ocr: bool | None


@dataclass(frozen=True)
class _ModelSettings:
    """As `ModelJudgeConfig.pinned`, and `ocr`."""

    ties: bool
    ocr: bool | None
    protocol: Protocol
    both_orders: bool
    samples: Positive
    first_sample: Count
    groups: Literal["pairs", "all"]
    tool_limit: Count
    max_tokens: Positive
    temperature: Unsigned
    sample_temperature: Unsigned
    max_pixels: Positive | None
    language: Language | UnsetType = UNSET
    evidence: bool | UnsetType = UNSET


@dataclass(frozen=True)
class _Entry:
    id: str
    kind: Literal["skill", "tool"]
    files: dict[str, str]


@dataclass(frozen=True)
class _Library:
    id: str
    entries: dict[str, _Entry]


@dataclass(frozen=True)
class _Card:
    made_with: dict[str, str]
    evaluation: list[Any]
    evolved_on: list[str] | UnsetType = UNSET


def release_text(release: Release) -> str:
    """Return the text of the file of a release."""
    return _text(release.to_json())


def save_release(release: Release, path: Path) -> None:
    """Write a release to a file, atomically."""
    write_text(path, release_text(release))


def load_release(path: Path, *, id: str | None = None) -> Release:
    """Read a release from a file, and check that it is unchanged.

    Args:
        path: The file.
        id: The expected id, if known.

    Raises:
        DataError: If the file does not exist or is not text.
        ReleaseError: If it is not a release, was changed, or has another id; the message names the difference.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", next_step="Check the path.") from None
    reading = _ReleaseReader(str(path))
    if len(data) > MAX_BYTES:
        reading.refuse("is larger than any release")
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        reading.refuse("is not JSON")
    release = reading.read(value, text)
    if id is not None and release.id != id:
        reading.refuse(f"is release {release.id[:12]}, not {id[:12]}")
    return release


def _text(document: Json) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


class _ReleaseReader:
    """Parses and checks one file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def refuse(self, problem: str, next_step: str = _AGAIN) -> NoReturn:
        """Raise an error with the problem of the file."""
        raise ReleaseError(f"{self._where} {problem}.", next_step=next_step)

    def read(self, value: Any, text: str) -> Release:
        """Check a document against its hashes, then parse it."""
        if not isinstance(value, dict) or "format" not in value:
            self.refuse("is not a release")
        if value["format"] != FORMAT or isinstance(value["format"], bool):
            step = "Use the version of this package that made it."
            self.refuse(f"has the format {value['format']!r:.40}, which this version does not know", step)
        self._check_fields(value, _FIELDS, "it")
        try:
            self._check_hashes(value)
            if _text(value) != text:
                self.refuse("was rewritten by another program: whitespace, order or duplicate fields differ")
            return self._release(value)
        except ValidationError as error:
            self.refuse(f"is not a whole release: {error.message}")
        except (ValueError, RecursionError):  # values that JSON cannot represent
            self.refuse("holds values that no release has")

    def _check_hashes(self, value: Json) -> None:
        parts = value["parts"]
        self._check_fields(parts, set(_PARTS), "`parts`")
        changed = [f"`{name}`" for name in _PARTS if content_id(value[name]) != parts[name]]
        if "`library`" in changed:
            changed += [f"its entry `{name}`" for name in self._changed_entries(value["library"])]
        if changed:
            self.refuse(f"was changed after it was made: {', '.join(changed)} differ from what its hashes say")
        if content_id(parts) != value["id"]:
            self.refuse("was changed after it was made: its `id` is not that of its parts")
        if content_id(value["card"]) != value["card_id"]:
            self.refuse("was changed after it was made: its `card` differs from what `card_id` says")

    def _changed_entries(self, library: Any) -> list[str]:
        """Return names of entries whose content does not match their ids."""
        entries = library.get("entries") if isinstance(library, dict) else None
        changed = []
        for name, stored in entries.items() if isinstance(entries, dict) else ():
            try:
                same = self._entry(name, _part("entries", _Entry, stored)).entry_id == stored["id"]
            except (ReleaseError, LibraryError, ValidationError, ValueError, RecursionError):
                same = False
            changed += [] if same else [name[:64]]
        return changed[:3]

    def _release(self, value: Json) -> Release:
        judge, card = _part("judge", _Judge, value["judge"]), _part("card", _Card, value["card"])
        settings = _PixelSettings if judge.name == MEASURED else _ModelSettings
        _part("settings", settings, value["settings"])
        code = _part("code", dict[str, str], value["code"])
        library = self._library(_part("library", _Library, value["library"]))
        calibration = None if isinstance(judge.calibration, UnsetType) else judge.calibration
        data = [] if isinstance(card.evolved_on, UnsetType) else card.evolved_on
        sound = {
            "`judge.calibration`": calibration is None
            or (calibration.protocol, calibration.library_id) == (judge.protocol, library.id),
            "`card.evolved_on`": all(map(is_digest, data)),
            "`card.evaluation`": all(map(_is_figure, card.evaluation)),
        }
        for place in [place for place, holds in sound.items() if not holds]:
            self.refuse(f"holds something else than a release has in {place}")
        identity = judge.name, judge.protocol, judge.revision
        revisions = judge.model_revision, judge.router
        return Release(*identity, value["settings"], code, library, *revisions, value["card"], calibration)

    def _library(self, value: _Library) -> Library:
        entries = []
        for name, stored in value.entries.items():
            try:
                entry = self._entry(name, stored)
            except LibraryError as error:
                self.refuse(f"holds the entry {name[:64]!r}, which breaks the format: {error.message.rstrip('.')}")
            if entry.entry_id != stored.id:
                self.refuse(f"holds the entry {name[:64]!r} under an id that is not its own")
            entries.append(entry)
        library = Library(tuple(entries))
        if library.id != value.id:
            self.refuse("names another Library than it holds")
        return library

    def _entry(self, name: str, stored: _Entry) -> Entry:
        if not {ENTRY_FILE} <= stored.files.keys() <= {ENTRY_FILE, RUBRIC_FILE}:
            self.refuse(f"holds something else than a release has in the files of {name[:64]!r}")
        texts = stored.files
        return parse_entry(texts[ENTRY_FILE], name=name, kind=stored.kind, rubric_text=texts.get(RUBRIC_FILE))

    def _check_fields(self, value: Any, names: Collection[str], what: str) -> None:
        if not isinstance(value, dict):
            self.refuse(f"is not a release: {what} is not an object")
        if unknown := sorted(set(value) - set(names)):
            self.refuse(f"holds a field that no release has: {unknown[0][:64]!r} in {what}")
        if missing := sorted(set(names) - set(value)):
            self.refuse(f"is not a whole release: {what} lacks {', '.join(missing)}")


def _part(name: str, kind: type[T], value: Any) -> T:
    """Read a part of the document; an error names the part."""
    try:
        return from_json(kind, value)
    except ValidationError as error:
        raise ValidationError(f"`{name}`: {error.message}") from None


def _is_figure(value: Any) -> bool:
    try:
        Figure.from_json(value)
    except ValidationError:
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)

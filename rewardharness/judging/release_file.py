"""The file of a release. Only the exact written form is accepted, so that any changed byte is detected."""

import json
import math
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import DataError, LibraryError, ReleaseError
from rewardharness.files import content_id, write_text
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.config import PROTOCOLS
from rewardharness.judging.opening import MEASURED
from rewardharness.judging.release import FORMAT, Release
from rewardharness.judging.release_card import Figure
from rewardharness.judging.subagent_settings import OPTIONAL, SubAgentSettings
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, parse_entry
from rewardharness.library.evolved import is_digest
from rewardharness.library.store import Library
from rewardharness.prompts import LANGUAGES
from rewardharness.schema import Json

MAX_BYTES = 32_000_000
"""Maximum size of a file; that of a Library is smaller."""

_PARTS = ("judge", "settings", "code", "library")
_FIELDS = {"format", "id", "parts", *_PARTS, "card", "card_id"}
_JUDGE = {"name", "protocol", "revision", "model_revision", "router"}
_AT_LEAST = {"samples": 1, "max_tokens": 1, "max_pixels": 1}
_CHOICES = {"protocol": PROTOCOLS, "groups": ("pairs", "all"), "language": LANGUAGES}
_AGAIN = "Get the original file from its creator, or make a new one: rh release create."


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
        self._fields(value, _FIELDS, "it")
        self._check_hashes(value)
        try:
            if _text(value) != text:
                self.refuse("was rewritten by another program: whitespace, order or duplicate fields differ")
            return self._release(value)
        except (ValueError, RecursionError):  # values that JSON cannot represent
            self.refuse("holds values that no release has")

    def _check_hashes(self, value: Json) -> None:
        parts = value["parts"]
        self._fields(parts, set(_PARTS), "`parts`")
        try:
            changed = [f"`{name}`" for name in _PARTS if content_id(value[name]) != parts[name]]
            wrong_id, wrong_card = content_id(parts) != value["id"], content_id(value["card"]) != value["card_id"]
        except (ValueError, RecursionError):
            self.refuse("holds values that no release has")
        if "`library`" in changed:
            changed += [f"its entry `{name}`" for name in self._changed_entries(value["library"])]
        if changed:
            self.refuse(f"was changed after it was made: {', '.join(changed)} differ from what its hashes say")
        if wrong_id:
            self.refuse("was changed after it was made: its `id` is not that of its parts")
        if wrong_card:
            self.refuse("was changed after it was made: its `card` differs from what `card_id` says")

    def _changed_entries(self, library: Any) -> list[str]:
        """Return names of entries whose content does not match their ids."""
        entries = library.get("entries") if isinstance(library, dict) else None
        found = []
        for name, stored in entries.items() if isinstance(entries, dict) else ():
            try:
                entry = self._entry(name, stored)
            except (ReleaseError, LibraryError, ValueError, RecursionError):
                found.append(name)
                continue
            if entry.entry_id != stored["id"]:
                found.append(name)
        return [f"{name[:64]}" for name in found[:3]]

    def _release(self, value: Json) -> Release:
        judge, settings, code = value["judge"], value["settings"], value["code"]
        optional = {"calibration"} if isinstance(judge, dict) and "calibration" in judge else set()
        self._fields(judge, _JUDGE | optional, "`judge`")
        for name in ("name", "protocol", "revision"):
            self._is(isinstance(judge[name], str) and judge[name], f"`judge.{name}`")
        for name in ("model_revision", "router"):
            self._is(judge[name] is None or (isinstance(judge[name], str) and judge[name]), f"`judge.{name}`")
        expected = _settings(judge["name"])
        if isinstance(settings, dict):
            expected -= OPTIONAL.keys() - settings.keys()
        self._fields(settings, expected, "`settings`")
        for name, each in settings.items():
            self._is(_sound(name, each), f"`settings.{name}`")
        self._is(isinstance(code, dict) and all(isinstance(each, str) for each in code.values()), "`code`")
        card = value["card"]
        known = {"made_with", "evaluation"}
        if isinstance(card, dict) and "evolved_on" in card:
            known.add("evolved_on")
        self._fields(card, known, "`card`")
        made_with, evaluation, data = card["made_with"], card["evaluation"], card.get("evolved_on", [])
        self._is(isinstance(made_with, dict) and isinstance(evaluation, list), "`card`")
        self._is(isinstance(data, list) and all(map(is_digest, data)), "`card.evolved_on`")
        self._is(all(isinstance(each, str) for each in made_with.values()), "`card.made_with`")
        self._is(all(_is_figure(each) for each in evaluation), "`card.evaluation`")
        library = self._library(value["library"])
        calibration = self._calibration(judge, library)
        revisions = judge["model_revision"], judge["router"]
        identity = judge["name"], judge["protocol"], judge["revision"]
        return Release(*identity, settings, code, library, *revisions, card, calibration)

    def _calibration(self, judge: Json, library: Library) -> ConfidenceCalibration | None:
        if "calibration" not in judge:
            return None
        try:
            found = from_json(ConfidenceCalibration, judge["calibration"])
        except ValidationError as error:
            self.refuse(f"holds a calibration that cannot be read: {error.message}")
        self._is((found.protocol, found.library_id) == (judge["protocol"], library.id), "`judge.calibration`")
        return found

    def _library(self, value: Any) -> Library:
        self._fields(value, {"id", "entries"}, "`library`")
        self._is(isinstance(value["entries"], dict), "`library.entries`")
        entries = []
        for name, stored in value["entries"].items():
            try:
                entry = self._entry(name, stored)
            except LibraryError as error:
                self.refuse(f"holds the entry {name[:64]!r}, which breaks the format: {error.message.rstrip('.')}")
            if entry.entry_id != stored["id"]:
                self.refuse(f"holds the entry {name[:64]!r} under an id that is not its own")
            entries.append(entry)
        library = Library(tuple(entries))
        if library.id != value["id"]:
            self.refuse("names another Library than it holds")
        return library

    def _entry(self, name: str, stored: Any) -> Entry:
        self._fields(stored, {"id", "kind", "files"}, f"the entry {name[:64]!r}")
        texts, kind = stored["files"], stored["kind"]
        self._is(kind in ("skill", "tool"), f"the kind of {name[:64]!r}")
        self._is(isinstance(texts, dict) and ENTRY_FILE in texts, f"the files of {name[:64]!r}")
        self._is(set(texts) <= {ENTRY_FILE, RUBRIC_FILE}, f"the files of {name[:64]!r}")
        self._is(all(isinstance(each, str) for each in texts.values()), f"the files of {name[:64]!r}")
        return parse_entry(texts[ENTRY_FILE], name=name, kind=kind, rubric_text=texts.get(RUBRIC_FILE))

    def _fields(self, value: Any, names: Collection[str], what: str) -> None:
        if not isinstance(value, dict):
            self.refuse(f"is not a release: {what} is not an object")
        if unknown := sorted(set(value) - set(names)):
            self.refuse(f"holds a field that no release has: {unknown[0][:64]!r} in {what}")
        if missing := sorted(set(names) - set(value)):
            self.refuse(f"is not a whole release: {what} lacks {', '.join(missing)}")

    def _is(self, sound: object, what: str) -> None:
        if not sound:
            self.refuse(f"holds something else than a release has in {what}")


def _settings(judge: str) -> set[str]:
    names = {"ties"} if judge == MEASURED else {each.name for each in fields(SubAgentSettings)} - {"deadline"}
    return {*names, "ocr"}


def _sound(name: str, value: Any) -> bool:
    """Return whether a setting has the type of its default and is in range."""
    usual = None if name == "ocr" else getattr(SubAgentSettings(), name)
    if name in _CHOICES:
        return value in _CHOICES[name]
    if usual is None and value is None:
        return True
    if isinstance(usual, bool) or name == "ocr":
        return isinstance(value, bool)
    if isinstance(usual, float):
        return isinstance(value, float) and 0 <= value < math.inf
    return isinstance(value, int) and not isinstance(value, bool) and value >= _AT_LEAST.get(name, 0)


def _is_figure(value: Any) -> bool:
    try:
        Figure.from_json(value)
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)

"""The file of a release. Only the exact written form is accepted, so that any changed byte is detected."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Meta

from rewardharness.codec import UNSET, Count, Positive, Sha256, Text, UnsetType, Unsigned, ValidationError, from_json
from rewardharness.errors import DataError, LibraryError, ReleaseError
from rewardharness.files import content_id, write_text
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.config import MEASURED
from rewardharness.judging.model_config import Protocol
from rewardharness.judging.release import FORMAT, Release
from rewardharness.judging.release_card import Figure
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, parse_entry
from rewardharness.library.store import Library
from rewardharness.prompts import Language
from rewardharness.schema import Json

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
class _ModelSettings(_PixelSettings):
    """As `ModelJudgeConfig.pinned`, and `ocr`."""

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
    consistency: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    principles: list[Text] | UnsetType = UNSET


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
    evolved_on: list[Sha256] | UnsetType = UNSET


@dataclass(frozen=True)
class _Content:
    judge: _Judge
    code: dict[str, str]
    library: _Library
    card: _Card


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
    try:
        release = _read(data)
        if id is not None and release.id != id:
            _refuse(f"is release {release.id[:12]}, not {id[:12]}")
        return release
    except ReleaseError as error:
        raise ReleaseError(f"{path} {error.message}", next_step=error.next_step) from None


def _text(document: Json) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _refuse(problem: str, next_step: str = _AGAIN) -> NoReturn:
    raise ReleaseError(f"{problem}.", next_step=next_step)


def _read(data: bytes) -> Release:
    """Check a document against its hashes, then parse it."""
    if len(data) > MAX_BYTES:
        _refuse("is larger than any release")
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        _refuse("is not JSON")
    if not isinstance(value, dict) or "format" not in value:
        _refuse("is not a release")
    if value["format"] != FORMAT or isinstance(value["format"], bool):
        step = "Use the version of this package that made it."
        _refuse(f"has the format {value['format']!r:.40}, which this version does not know", step)
    _check_fields(value, _FIELDS, "it")
    try:
        _check_hashes(value)
        if _text(value) != text:
            _refuse("was rewritten by another program: whitespace, order or duplicate fields differ")
        return _release(value)
    except ValidationError as error:
        _refuse(f"is not a whole release: {error.message}")
    except (ValueError, RecursionError):  # values that JSON cannot represent
        _refuse("holds values that no release has")


def _check_hashes(value: Json) -> None:
    parts = value["parts"]
    _check_fields(parts, _PARTS, "`parts`")
    changed = [f"`{name}`" for name in _PARTS if content_id(value[name]) != parts[name]]
    if "`library`" in changed:
        entries = value["library"].get("entries") if isinstance(value["library"], dict) else None
        stored = entries.items() if isinstance(entries, dict) else ()
        changed += [f"its entry `{name[:64]}`" for name, entry in stored if not _is_entry(name, entry)][:3]
    if changed:
        _refuse(f"was changed after it was made: {', '.join(changed)} differ from what its hashes say")
    if content_id(parts) != value["id"]:
        _refuse("was changed after it was made: its `id` is not that of its parts")
    if content_id(value["card"]) != value["card_id"]:
        _refuse("was changed after it was made: its `card` differs from what `card_id` says")


def _is_entry(name: str, stored: Any) -> bool:
    """Return whether the content of an entry matches its id."""
    try:
        _entry(name, from_json(_Entry, stored))
    except (ReleaseError, ValidationError, ValueError, RecursionError):
        return False
    return True


def _release(value: Json) -> Release:
    measured = isinstance(value["judge"], dict) and value["judge"].get("name") == MEASURED
    content = from_json(_Content, {name: value[name] for name in ("judge", "code", "library", "card")})
    from_json(_PixelSettings if measured else _ModelSettings, value["settings"])
    for number, figure in enumerate(content.card.evaluation):
        try:
            Figure.from_json(figure)
        except ValidationError as error:
            raise ValidationError(f"card.evaluation[{number}]: {error.message}") from None
    library = Library(tuple(_entry(name, stored) for name, stored in content.library.entries.items()))
    if library.id != content.library.id:
        _refuse("names another Library than it holds")
    judge = content.judge
    calibration = None if isinstance(judge.calibration, UnsetType) else judge.calibration
    if calibration and (calibration.protocol, calibration.library_id) != (judge.protocol, library.id):
        _refuse("holds something else than a release has in `judge.calibration`")
    identity = judge.name, judge.protocol, judge.revision, value["settings"], content.code, library
    return Release(*identity, judge.model_revision, judge.router, value["card"], calibration)


def _entry(name: str, stored: _Entry) -> Entry:
    texts, quoted_name = stored.files, repr(name[:64])
    if not {ENTRY_FILE} <= texts.keys() <= {ENTRY_FILE, RUBRIC_FILE}:
        _refuse(f"holds something else than a release has in the files of {quoted_name}")
    try:
        entry = parse_entry(texts[ENTRY_FILE], name=name, kind=stored.kind, rubric_text=texts.get(RUBRIC_FILE))
    except LibraryError as error:
        _refuse(f"holds the entry {quoted_name}, which breaks the format: {error.message.rstrip('.')}")
    if entry.entry_id != stored.id:
        _refuse(f"holds the entry {quoted_name} under an id that is not its own")
    return entry


def _check_fields(value: Any, names: Collection[str], what: str) -> None:
    if not isinstance(value, dict):
        _refuse(f"is not a release: {what} is not an object")
    if unknown := sorted({*value} - {*names}):
        _refuse(f"holds a field that no release has: {unknown[0][:64]!r} in {what}")
    if missing := sorted({*names} - {*value}):
        _refuse(f"is not a whole release: {what} lacks {', '.join(missing)}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)

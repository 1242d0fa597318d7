"""Manage the folder of a demo dataset: ownership, completeness, and safe writing.

The marker `drawing.json` exists during generation. It is renamed to `made_by.json` at the end, so that an interrupted
dataset is never taken for complete.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.errors import DataError, InputError
from rewardharness.schema import GROUPS, PAIRS

DEMO_MARKER = "made_by.json"
"""Marker file of a complete demo dataset."""

DEMO_UNFINISHED = "drawing.json"
"""Marker file of an incomplete demo dataset."""

MAKER = "rewardharness demo"
"""Value of `made_by` in a marker file."""

_PICTURE = re.compile(r"(s\d{4,}|[pg]\d{4,}_[a-d])\.jpg")
_TABLES = (PAIRS, GROUPS)
_SHOWN = 3


def is_there(path: Path, made_by: Mapping[str, Any], *, force: bool) -> bool:
    """Return whether a dataset already exists, and check that it can be written otherwise.

    Args:
        path: The folder.
        made_by: Parameters of the dataset: version, seed, counts.
        force: Overwrite another demo dataset, or write next to other files.

    Returns:
        Whether exactly this dataset exists, complete and unmodified; always False with `force`.

    Raises:
        InputError: If the folder has other content, or the dataset was modified; nothing is written.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file.", next_step="Choose a folder.")
    if not path.is_dir() or all(each.name.startswith(".") for each in path.iterdir()):
        return False
    whole, part = _marker(path / DEMO_MARKER), _marker(path / DEMO_UNFINISHED)
    there = part or whole
    if there is None and not force:
        message = f"{path} is not empty and is not a demo dataset; nothing was written."
        raise InputError(message, next_step="Choose a new folder, or add --force to write next to the existing files.")
    if force or there is None:
        _check_names(path, made_by)
        return False
    if {name: there.get(name) for name in made_by} != dict(made_by):
        known = ", ".join(f"{name} {there.get(name)}" for name in ("pairs", "groups", "seed"))
        message = f"{path} contains a different demo dataset ({known}); nothing was written."
        raise InputError(message, next_step="Choose a new folder, or overwrite it with --force.")
    if part is not None or not any((path / name).is_file() for name in _TABLES):
        return False  # incomplete; will be completed
    if whole is None or whole.get("digest") != _digest(path):
        summed = "digest" in (whole or {})
        how = "but it was modified" if summed else "but from an earlier version without a checksum"
        message = f"{path} contains this demo dataset, {how}; nothing was written."
        raise InputError(message, next_step="Keep it, or generate it again with --force.")
    return True


def begin(path: Path, made_by: Mapping[str, Any]) -> None:
    """Mark a folder as incomplete and remove the tables of an older dataset."""
    files.write_json(path / DEMO_UNFINISHED, {**made_by, "older": sorted(_own(path))})
    for name in (DEMO_MARKER, *_TABLES):
        (path / name).unlink(missing_ok=True)


def finish(path: Path, made_by: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    """Write the tables, remove images of an older dataset, and mark the dataset as complete."""
    images = path / "images"
    for name in _own(path) - _named("".join(tables.values())):
        (images / name).unlink(missing_ok=True)
    for name, text in tables.items():
        files.write_text(path / name, text)
    files.write_json(path / DEMO_UNFINISHED, {**made_by, "digest": _digest(path)})
    (path / DEMO_UNFINISHED).replace(path / DEMO_MARKER)


def _marker(path: Path) -> dict[str, Any] | None:
    """Return the content of a marker file; None if it is missing or not ours."""
    try:
        found = files.read_json(path) if path.is_file() else None
    except DataError:
        return None
    return found if isinstance(found, dict) and found.get("made_by") == MAKER else None


def _check_names(path: Path, made_by: Mapping[str, Any]) -> None:
    """Check that no other file would be overwritten."""
    ours = _marker(path / DEMO_MARKER) is not None or _marker(path / DEMO_UNFINISHED) is not None
    names = () if ours else (DEMO_MARKER, DEMO_UNFINISHED, *_TABLES)
    taken = [name for name in names if (path / name).exists()]
    images = path / "images"
    if images.exists() and not images.is_dir():
        taken.append("images")
    taken += [f"images/{name}" for name in sorted(_planned(made_by) - _own(path)) if (images / name).exists()]
    if taken:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        message = f"{path} contains other files that would be overwritten: {', '.join(taken[:_SHOWN])}{more}"
        raise InputError(f"{message}; nothing was written.", next_step="Choose a new folder.")


def _own(path: Path) -> set[str]:
    """Return the generated images in a folder: those in its tables, and those of an incomplete dataset."""
    own: set[str] = set()
    if _marker(path / DEMO_MARKER) is not None:
        with suppress(OSError, ValueError):
            own |= _named("".join(_tables(path).values()))
    part = _marker(path / DEMO_UNFINISHED)
    if part is not None:
        older = part.get("older")
        own |= _planned(part) | {str(name) for name in (older if isinstance(older, list) else [])}
    return {name for name in own if _PICTURE.fullmatch(name)}


def _planned(made_by: Mapping[str, Any]) -> set[str]:
    """Return all possible image names of a dataset."""
    pairs, groups = (number if isinstance(number := made_by.get(name), int) else 0 for name in ("pairs", "groups"))
    return {
        *(f"p{number:04d}_{letter}.jpg" for number in range(pairs) for letter in "ab"),
        *(f"g{number:04d}_{letter}.jpg" for number in range(groups) for letter in "abcd"),
        *(f"s{number:04d}.jpg" for number in range(pairs + groups)),
    }


def _tables(path: Path) -> dict[str, str]:
    return {name: (path / name).read_text(encoding="utf-8") for name in _TABLES if (path / name).is_file()}


def _digest(path: Path) -> str:
    """Return the SHA-256 of the tables of a dataset and their images; empty if one is missing."""
    try:
        tables = _tables(path)
        paths = [*tables, *sorted(f"images/{name}" for name in _named("".join(tables.values())))]
        return files.content_id([[name, files.sha256_file(path / name)] for name in paths])
    except (OSError, ValueError):
        return ""


def _named(text: str) -> set[str]:
    return set(re.findall(r'"images/([^"]+)"', text))

"""The folder of a demonstration set: whose it is, whether it is whole, and what may be written there.

While a set is drawn, `drawing.json` says so. It becomes `made_by.json` in one step when everything is in place, so that
a set that was broken off is never taken for whole.
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
"""File in a complete demonstration set."""

DEMO_UNFINISHED = "drawing.json"
"""File in a demonstration set that is being drawn, or whose drawing was interrupted."""

MAKER = "rewardharness demo"
"""What a marker says of who drew a set."""

_PICTURE = re.compile(r"(s\d{4,}|[pg]\d{4,}_[a-d])\.jpg")
_TABLES = (PAIRS, GROUPS)
_SHOWN = 3


def is_there(path: Path, made_by: Mapping[str, Any], *, force: bool) -> bool:
    """Say whether a set is there already, and make sure that it can be drawn where it is not.

    Args:
        path: The folder.
        made_by: What the set is made by: version, seed, counts.
        force: Draw over another set, or beside other files.

    Returns:
        Whether exactly this set is there, whole and unchanged; never when it is to be drawn anyway.

    Raises:
        InputError: If the folder holds something else, or this set changed; nothing was written then.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file.", next_step="Name a folder.")
    if not path.is_dir() or all(each.name.startswith(".") for each in path.iterdir()):
        return False
    whole, part = _marker(path / DEMO_MARKER), _marker(path / DEMO_UNFINISHED)
    there = part or whole
    if there is None and not force:
        message = f"{path} is not empty and holds no demonstration set; nothing was written."
        raise InputError(message, next_step="Name a new folder, or draw beside what is there with --force.")
    if force or there is None:
        _check_names(path, made_by)
        return False
    if {name: there.get(name) for name in made_by} != dict(made_by):
        known = ", ".join(f"{name} {there.get(name)}" for name in ("pairs", "groups", "seed"))
        message = f"{path} holds another demonstration set ({known}); nothing was written."
        raise InputError(message, next_step="Name a new folder, or draw over it with --force.")
    if part is not None or not any((path / name).is_file() for name in _TABLES):
        return False  # broken off: the same set completes it
    if whole is None or whole.get("digest") != _digest(path):
        summed = "digest" in (whole or {})
        how = "but not as it was drawn" if summed else "drawn by an earlier version, which kept no checksum"
        message = f"{path} holds this demonstration set, {how}; nothing was written."
        raise InputError(message, next_step="Keep it as it is, or draw it anew with --force.")
    return True


def begin(path: Path, made_by: Mapping[str, Any]) -> None:
    """Mark a folder as unfinished, and then take away the tables of an older set."""
    files.write_json(path / DEMO_UNFINISHED, {**made_by, "older": sorted(_own(path))})
    for name in (DEMO_MARKER, *_TABLES):
        (path / name).unlink(missing_ok=True)


def finish(path: Path, made_by: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    """Write the tables of a set whose pictures are drawn, remove pictures of an older set, and mark it as whole."""
    images = path / "images"
    for name in _own(path) - _named("".join(tables.values())):
        (images / name).unlink(missing_ok=True)
    for name, text in tables.items():
        files.write_text(path / name, text)
    files.write_json(path / DEMO_UNFINISHED, {**made_by, "digest": _digest(path)})
    (path / DEMO_UNFINISHED).replace(path / DEMO_MARKER)


def _marker(path: Path) -> dict[str, Any] | None:
    """What a marker of ours says; None for none, or somebody else's."""
    try:
        found = files.read_json(path) if path.is_file() else None
    except DataError:
        return None
    return found if isinstance(found, dict) and found.get("made_by") == MAKER else None


def _check_names(path: Path, made_by: Mapping[str, Any]) -> None:
    """Make sure that nothing of others has a name that the set writes to."""
    ours = _marker(path / DEMO_MARKER) is not None or _marker(path / DEMO_UNFINISHED) is not None
    names = () if ours else (DEMO_MARKER, DEMO_UNFINISHED, *_TABLES)
    taken = [name for name in names if (path / name).exists()]
    images = path / "images"
    if images.exists() and not images.is_dir():
        taken.append("images")
    taken += [f"images/{name}" for name in sorted(_planned(made_by) - _own(path)) if (images / name).exists()]
    if taken:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        message = f"{path} holds files of others that would be lost: {', '.join(taken[:_SHOWN])}{more}"
        raise InputError(f"{message}; nothing was written.", next_step="Name a new folder.")


def _own(path: Path) -> set[str]:
    """The pictures in a folder that a set was drawn with: those of its tables, and those that may have been begun."""
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
    """All names that the pictures of a set can have."""
    pairs, groups = (number if isinstance(number := made_by.get(name), int) else 0 for name in ("pairs", "groups"))
    return {
        *(f"p{number:04d}_{letter}.jpg" for number in range(pairs) for letter in "ab"),
        *(f"g{number:04d}_{letter}.jpg" for number in range(groups) for letter in "abcd"),
        *(f"s{number:04d}.jpg" for number in range(pairs + groups)),
    }


def _tables(path: Path) -> dict[str, str]:
    return {name: (path / name).read_text(encoding="utf-8") for name in _TABLES if (path / name).is_file()}


def _digest(path: Path) -> str:
    """SHA-256 over the tables of a set and the pictures that they name; empty when one is missing."""
    try:
        tables = _tables(path)
        paths = [*tables, *sorted(f"images/{name}" for name in _named("".join(tables.values())))]
        return files.content_id([[name, files.sha256_file(path / name)] for name in paths])
    except (OSError, ValueError):
        return ""


def _named(text: str) -> set[str]:
    return set(re.findall(r'"images/([^"]+)"', text))

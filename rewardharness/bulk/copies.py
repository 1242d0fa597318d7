"""A folder with copies of the best candidate of each edit.

`best.json` lists the copied files with their SHA-256, and `best` in it names edit, original file and reward. Only these
files are replaced or removed, and only while they are unchanged.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rewardharness import files
from rewardharness.errors import DataError, InputError

MANIFEST = "best.json"
_MAKER = "rh data rank --copy-best"
_SHOWN = 3


def check_copies(folder: Path) -> None:
    """Check that copies can be written to a folder. Call this before judging.

    Raises:
        InputError: If the folder holds other files.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        message = f"{folder} holds files that --copy-best did not put there; they would mix with the best candidates."
        raise InputError(message, next_step="Choose a new or empty folder.")
    _read_copied(folder)


def copy_best(chosen: Mapping[str, Path], folder: Path, about: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Copy images, and remove earlier copies that are no longer selected. An interrupted call can be repeated.

    Args:
        chosen: Image files by their name in the folder.
        folder: A folder that passes `check_copies`.
        about: Edit, original file and reward of each, for the manifest.

    Raises:
        InputError: If a needed name belongs to another or a changed file; nothing is written then.
        DataError: If an image cannot be copied.
    """
    check_copies(folder)
    copied = _read_copied(folder)
    try:
        content = {name: files.sha256_file(path) for name, path in chosen.items()}
        existing = {name: files.sha256_file(folder / name) for name in {*copied, *chosen} if (folder / name).exists()}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be copied to {folder}: {error.strerror}.") from None
    changed = sorted(name for name in chosen if name in existing and existing[name] not in copied.get(name, ()))
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        message = f"{folder} holds files that --copy-best did not put there: {', '.join(changed[:_SHOWN])}{more}"
        raise InputError(f"{message}; nothing was copied.", next_step="Move them away, or choose a new folder.")
    allowed = {
        name: [*copied.get(name, ()), *([content[name]] if name in content else [])] for name in {*copied, *chosen}
    }
    _write(folder, allowed)
    for name, path in chosen.items():
        if existing.get(name) != content[name]:
            files.write_bytes(folder / name, path.read_bytes())
    for name in copied.keys() - chosen.keys():
        if existing.get(name) in copied[name]:
            (folder / name).unlink()
    _write(folder, {name: [digest] for name, digest in content.items()}, about)


def _write(folder: Path, copied: Mapping[str, list[str]], about: Mapping[str, Any] = MappingProxyType({})) -> None:
    known = {"best": dict(about)} if about else {}
    files.write_json(folder / MANIFEST, {"made_by": _MAKER, "files": dict(sorted(copied.items())), **known})


def _read_copied(folder: Path) -> dict[str, list[str]]:
    """Return the files that were copied to a folder, with the hashes that each of them may have.

    Raises:
        InputError: If the manifest was not written by this module.
    """
    path = folder / MANIFEST
    manifest: Any = files.read_json(path) if path.is_file() else {"made_by": _MAKER, "files": {}}
    entries = manifest.get("files") if isinstance(manifest, dict) and manifest.get("made_by") == _MAKER else None
    if not isinstance(entries, dict) or not all(
        Path(name).name == name and name not in {"", ".", "..", MANIFEST} and isinstance(digests, list)
        for name, digests in entries.items()
    ):
        raise InputError(f"{path} is not a manifest of --copy-best.", next_step="Choose a new or empty folder.")
    return {name: [str(digest) for digest in digests] for name, digests in entries.items()}

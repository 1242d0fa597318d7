"""A folder with the best candidate of each edit. It is kept to what was chosen last, and holds nothing of others.

`best.json` says which files were copied there, each with its SHA-256. Only these are ever replaced or removed, and only
while they are as they were copied.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.errors import DataError, InputError

MANIFEST = "best.json"
_MAKER = "rh rank-folder --copy-best"
_SHOWN = 3


def check_copies(folder: Path) -> None:
    """Make sure that copies can be put into a folder: ask before judging anything for them.

    Raises:
        InputError: If it holds something that was not copied there.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        message = f"{folder} holds files that were not copied there by --copy-best; they would stand among the best."
        raise InputError(message, next_step="Name a new or an empty folder.")
    _known(folder)


def copy_best(chosen: Mapping[str, Path], folder: Path) -> None:
    """Copy images, and remove what was copied there before and is not among them. Survives a kill at any time.

    Args:
        chosen: The images by the name that they have in the folder.
        folder: As `check_copies` wants it.

    Raises:
        InputError: If a file of another, or one that was changed, has a name that is needed; nothing was written then.
        DataError: If an image cannot be copied.
    """
    check_copies(folder)
    before = _known(folder)
    try:
        content = {name: files.sha256_file(path) for name, path in chosen.items()}
        there = {name: files.sha256_file(folder / name) for name in {*before, *chosen} if (folder / name).exists()}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be copied to {folder}: {error.strerror}.") from None
    changed = sorted(name for name in chosen if name in there and there[name] not in before.get(name, ()))
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        message = f"{folder} holds files that --copy-best did not put there: {', '.join(changed[:_SHOWN])}{more}"
        raise InputError(f"{message}; nothing was copied.", next_step="Move them away, or name a new folder.")
    both = {name: [*before.get(name, ()), *([content[name]] if name in content else [])] for name in {*before, *chosen}}
    _write(folder, both)
    for name, path in chosen.items():
        if there.get(name) != content[name]:
            files.write_bytes(folder / name, path.read_bytes())
    for name in before.keys() - chosen.keys():
        if there.get(name) in before[name]:
            (folder / name).unlink()
    _write(folder, {name: [digest] for name, digest in content.items()})


def _write(folder: Path, known: Mapping[str, list[str]]) -> None:
    files.write_json(folder / MANIFEST, {"made_by": _MAKER, "files": dict(sorted(known.items()))})


def _known(folder: Path) -> dict[str, list[str]]:
    """What was copied into a folder before: the hashes that each file may have.

    Raises:
        InputError: If its manifest is not ours.
    """
    path = folder / MANIFEST
    found: Any = files.read_json(path) if path.is_file() else {"made_by": _MAKER, "files": {}}
    stated = found.get("files") if isinstance(found, dict) and found.get("made_by") == _MAKER else None
    if not isinstance(stated, dict) or not all(
        Path(name).name == name and name not in {"", ".", "..", MANIFEST} and isinstance(each, list)
        for name, each in stated.items()
    ):
        raise InputError(f"{path} is no list of copies of --copy-best.", next_step="Name a new or an empty folder.")
    return {name: [str(digest) for digest in each] for name, each in stated.items()}

"""What records name: files, hashed when recorded and checked when another record refers to them; and reward curves."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rewardharness.codec import ValidationError, finite, from_json
from rewardharness.errors import InputError
from rewardharness.files import content_id, read_json, read_text, sha256_file
from rewardharness.judging.release_file import load_release
from rewardharness.lineage.records import ReleaseRef, RewardCurve

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
    found: list[tuple[int, float]] = []
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
        found += [(step, number)] if number is not None else []
    if not found:
        raise InputError(f"{path} has no points with a number under {key!r}.", next_step=_NEXT)
    found.sort(key=lambda point: point[0])
    late = found[-max(1, round(LATE * len(found))) :]
    return RewardCurve(
        points=len(found),
        missing=missing,
        first=found[0],
        last=found[-1],
        lowest=min(found, key=lambda point: point[1]),
        highest=max(found, key=lambda point: point[1]),
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

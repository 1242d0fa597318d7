"""Summary of a reward curve that a trainer wrote."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.codec import finite
from rewardharness.errors import InputError
from rewardharness.files import read_text, sha256_file
from rewardharness.lineage.records import RewardCurve

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

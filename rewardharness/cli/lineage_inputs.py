"""How metrics, examples' values and artifacts are spelled on the command line of `rh lineage`."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rewardharness.errors import InputError
from rewardharness.runs.forms import Artifact, Direction, Expected, Metric
from rewardharness.runs.reports import Found, metric_at
from rewardharness.runs.typed import Misfit, read_as

_NUMBERS = ("value", "n", "judged", "low", "high", "correct")


def expected(spec: str) -> Expected:
    """Read an expected metric, as in `accuracy,higher,target=0.8`.

    Raises:
        InputError: If it cannot be read.
    """
    name, direction, given = _parts(spec, ("target",))
    return Expected(name, direction, _number(spec, "target", given["target"]) if "target" in given else None)


def metric(spec: str, report: Found | None, items: Mapping[str, Mapping[str, float]]) -> Metric:
    """Read a metric; see `rh lineage record-eval --help`.

    Args:
        spec: The spelling.
        report: The report that `at=` takes it from.
        items: Values example by example, by metric.

    Raises:
        InputError: If it cannot be read, or there is no value.
    """
    name, direction, given = _parts(spec, (*_NUMBERS, "at"))
    if "at" in given:
        if report is None or len(given) > 1:
            raise _unreadable(spec, "at= takes everything from --report")
        return metric_at(report, name, direction, given["at"])
    numbers = {key: _number(spec, key, text) for key, text in given.items()}
    if ("low" in numbers) != ("high" in numbers):
        raise _unreadable(spec, "an interval has low= and high=")
    value, interval = numbers.get("value"), (numbers["low"], numbers["high"]) if "low" in numbers else None
    judged = numbers.get("judged")
    values = list(items.get(name, {}).values())
    if values:
        judged = judged if judged is not None else len(values)
        value = value if value is not None else sum(values) / len(values)
        shares = all(each in {0.0, 0.5, 1.0} for each in values)
        interval = interval or (_wilson(sum(values), len(values)) if shares else None)
    elif "correct" in numbers:
        if judged is None or value is not None or not 0 <= numbers["correct"] <= judged:
            raise _unreadable(spec, "correct= goes with judged=, which is not smaller, and without value=")
        value, interval = (
            numbers["correct"] / judged if judged else None,
            interval or _wilson(numbers["correct"], judged),
        )
    if value is None:
        raise _unreadable(spec, "it has no value")
    wire = {"name": name, "direction": direction, "value": value, "interval": list(interval) if interval else None}
    wire |= {"n": _whole(spec, "n", numbers.get("n")), "judged": _whole(spec, "judged", judged)}
    try:
        return read_as(Metric, wire)
    except Misfit as error:
        raise _unreadable(spec, str(error)) from None


def open_report(path: Path, row: str) -> Found:
    """Read a report of any kind.

    Args:
        path: The report.
        row: Which row of a benchmark is meant.

    Raises:
        InputError: If it is no report, or has no such row.
    """
    from rewardharness.benchmark.measured_rows import is_benchmark, read_row
    from rewardharness.runs.reports import read_report

    found = read_report(path)
    return read_row(found, path.parent, row) if is_benchmark(found.document) else found


def items(path: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read values example by example: one JSON object per line, with `id` and a number for each metric.

    Args:
        path: The file. A null is an example without an answer; it is left out.
        names: The metrics that are taken.

    Raises:
        InputError: If a line cannot be used, or a metric has no values.
    """
    from rewardharness.files import read_text

    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not _plain(row["id"]):
            raise InputError(f"{path}, line {number}, is no JSON object with an `id`.", next_step="Correct the line.")
        for name in names:
            value = row.get(name)
            if value is None:
                continue
            if isinstance(value, bool):
                value = float(value)
            if not isinstance(value, int | float) or abs(value) > 1e300 or value != value or row["id"] in found[name]:
                raise InputError(
                    f"{path}, line {number}: {name} is no number, or {row['id']!r} stands there twice.",
                    next_step="Correct the line.",
                )
            found[name][row["id"]] = float(value)
    kept = {name: values for name, values in found.items() if values}
    if not kept:
        raise InputError(f"{path} has no values of {', '.join(names)}.", next_step="Name a metric as its key is.")
    return kept


def artifact(spec: str) -> Artifact:
    """Read an artifact, as in `step-400=out/checkpoint-400` or `model=hf://org/name@rev`, optionally `#sha256:HASH`.

    A file or folder that is here is hashed.

    Raises:
        InputError: If it cannot be read, or its hash is not the one that was given.
    """
    from rewardharness.runs.named_files import digest_of

    name, equals, rest = spec.partition("=")
    location, given = rest, None
    hashed = re.fullmatch(r"(.+)#sha256:([0-9a-f]{64})", rest)
    if hashed:
        location, given = hashed[1], hashed[2]
    if not name.strip() or not equals or not location:
        raise InputError(f"{spec[:200]!r} is no artifact.", next_step="Write NAME=PATH or NAME=ADDRESS#sha256:HASH.")
    if "://" in location:
        return Artifact(name, location, given)
    path = Path(location).expanduser().resolve()
    if given is not None and not path.exists():
        return Artifact(name, str(path), given)
    digest, size = digest_of(path)
    if given not in {None, digest}:
        raise InputError(f"{path} has another hash than the one given.", next_step="Check which file is meant.")
    return Artifact(name, str(path), digest, size)


def tolerances(specs: Sequence[str]) -> dict[str, float]:
    """Read tolerances: `0.02` for all metrics, `accuracy=0.02` for one.

    Raises:
        InputError: If one is no number.
    """
    found: dict[str, float] = {}
    for spec in specs:
        name, _, text = spec.rpartition("=")
        found[name] = _number(spec, "a tolerance", text)
    return found


def _plain(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _parts(spec: str, known: Sequence[str]) -> tuple[str, Direction, dict[str, str]]:
    name, *rest = (part.strip() for part in spec.split(","))
    if not name or not rest or rest[0] not in {"higher", "lower"}:
        raise _unreadable(spec, "after its name comes `higher` or `lower`, the way it is better")
    given = {}
    for part in rest[1:]:
        key, equals, value = part.partition("=")
        if key not in known or not equals or key in given:
            raise _unreadable(spec, f"{part!r} is not one of {', '.join(f'{each}=' for each in known)}, each once")
        given[key] = value
    return name, cast(Direction, rest[0]), given


def _number(spec: str, key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _unreadable(spec, f"{key} is no number") from None
    if not abs(number) < 1e300:
        raise _unreadable(spec, f"{key} is no number")
    return number


def _whole(spec: str, key: str, number: float | None) -> int | None:
    if number is not None and number != int(number):
        raise _unreadable(spec, f"{key} is a count")
    return None if number is None else int(number)


def _wilson(correct: float, judged: float) -> tuple[float, float] | None:
    from rewardharness.judging.report import wilson

    found = wilson(correct, int(judged))
    return None if found is None else (found.low, found.high)


def _unreadable(spec: str, why: str) -> InputError:
    return InputError(f"{spec[:200]!r} cannot be read: {why}.", next_step="Write it as in accuracy,higher,value=0.8.")


def read_config(path: Path) -> dict[str, Any]:
    """Read a trainer's configuration, a JSON object.

    Raises:
        InputError: If it is none.
    """
    from rewardharness.files import read_json

    found = read_json(path)
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object.", next_step="Write the configuration as one JSON object.")
    return found

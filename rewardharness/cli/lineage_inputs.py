"""Values of `rh lineage` that are written on the command line: metrics, artifacts, files with values per example."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import InputError
from rewardharness.files import read_text, user_path
from rewardharness.lineage.records import Artifact, ExpectedMetric, MetricValue
from rewardharness.lineage.reports import ReportFacts, metric_at
from rewardharness.lineage.store import digest_of

T = TypeVar("T")
_NUMBERS = ("value", "n", "judged", "low", "high", "correct")


def expected_metric(spec: str) -> ExpectedMetric:
    """Parse an expected metric, as in `accuracy,higher,target=0.8`.

    Raises:
        InputError: If it is malformed.
    """
    return _read(ExpectedMetric, spec, _fields(spec, ("target",)))


def metric_value(spec: str, report: ReportFacts | None, items: Mapping[str, Mapping[str, float]]) -> MetricValue:
    """Parse a metric; see `rh lineage record-eval --help`.

    Args:
        spec: The metric as written.
        report: The report that `at=` reads.
        items: Values per example, by metric.

    Raises:
        InputError: If it is malformed, or has no value.
    """
    from rewardharness.judging.report import wilson

    fields = _fields(spec, (*_NUMBERS, "at"))
    name, direction = fields["name"], fields["direction"]
    if "at" in fields:
        if report is None or len(fields) > 3:
            raise _malformed(spec, "at= reads all numbers from --report, and nothing else can be given")
        return metric_at(report, name, direction, fields["at"])
    if ("low" in fields) != ("high" in fields):
        raise _malformed(spec, "an interval needs low= and high=")
    interval = [fields.pop("low"), fields.pop("high")] if "low" in fields else None
    values = list(items.get(name, {}).values())
    correct = _number(spec, fields.pop("correct")) if "correct" in fields else None
    if values:
        fields = {"value": sum(values) / len(values), "judged": len(values), **fields}
        correct = sum(values) if all(value in {0.0, 0.5, 1.0} for value in values) else None
    elif correct is not None:
        if "value" in fields or not 0 <= correct <= _number(spec, fields.get("judged", "0")):
            raise _malformed(spec, "correct= needs judged=, which is not smaller, and excludes value=")
        fields["value"] = correct / _number(spec, fields["judged"])
    if "value" not in fields:
        raise _malformed(spec, "it has no value")
    if interval is None and correct is not None:
        found = wilson(correct, int(_number(spec, fields["judged"])))
        interval = [found.low, found.high] if found else None
    return _read(MetricValue, spec, {**fields, "interval": interval})


def read_items(path: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read values per example: one JSON object per line, with `id` and a number for each metric.

    Args:
        path: The file. A null is an example without an answer; it is left out.
        names: The metrics to read.

    Raises:
        InputError: If a line is malformed, or a metric has no values.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            id_ = row["id"].encode("utf-8").decode("utf-8")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            message = f"{path}, line {number}, is not a JSON object with an `id`."
            raise InputError(message, next_step="Correct the line.") from None
        for name in (name for name in names if row.get(name) is not None):
            value = row[name]
            if not isinstance(value, int | float) or not abs(value) < 1e300 or id_ in found[name]:
                message = f"{path}, line {number}: {name} is not a number, or the id {id_!r} is repeated."
                raise InputError(message, next_step="Correct the line.")
            found[name][id_] = float(value)
    found = {name: values for name, values in found.items() if values}
    if not found:
        raise InputError(f"{path} has no values of {', '.join(names)}.", next_step="Name a metric as in the file.")
    return found


def artifact(spec: str) -> Artifact:
    """Parse an artifact: `step-400=out/checkpoint-400`, or `model=hf://org/name@rev`, optionally with `#sha256:HASH`.

    A local file or folder is hashed.

    Raises:
        InputError: If it is malformed, cannot be read, or has another digest than given.
    """
    match = re.fullmatch(r"\s*([^=]*[^=\s])\s*=(.+?)(?:#sha256:([0-9a-f]{64}))?", spec)
    if match is None:
        raise InputError(f"{spec[:200]!r} is not an artifact.", next_step="Write NAME=PATH or NAME=URL#sha256:HASH.")
    name, location, given = match.groups()
    if "://" in location:
        return Artifact(name, location, given)
    path = user_path(location).resolve()
    if given is not None and not path.exists():
        return Artifact(name, str(path), given)
    digest, size = digest_of(path)
    if given not in {None, digest}:
        raise InputError(f"{path} does not have the given digest.", next_step="Check that it is the right file.")
    return Artifact(name, str(path), digest, size)


def tolerances(specs: Sequence[str]) -> dict[str, float]:
    """Parse tolerances: `0.02` for all metrics, `accuracy=0.02` for one.

    Raises:
        InputError: If one is not a number.
    """
    return {name: _number(spec, text) for spec in specs for name, _, text in [spec.rpartition("=")]}


def _fields(spec: str, known: Sequence[str]) -> dict[str, Any]:
    name, *rest = (part.strip() for part in spec.split(","))
    if not name or not rest or rest[0] not in {"higher", "lower"}:
        raise _malformed(spec, "the name must be followed by `higher` or `lower`, whichever is better")
    fields: dict[str, Any] = {"name": name, "direction": rest[0]}
    for part in rest[1:]:
        key, equals, value = part.partition("=")
        if key not in known or not equals or key in fields:
            raise _malformed(spec, f"{part!r} is not one of {', '.join(f'{key}=' for key in known)}, each once")
        fields[key] = value
    return fields


def _read(kind: type[T], spec: str, fields: Mapping[str, Any]) -> T:
    try:
        return from_json(kind, fields, coerce=True)
    except ValidationError as error:
        raise _malformed(spec, str(error)) from None


def _number(spec: str, text: Any) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e300:
        raise _malformed(spec, f"{text!r} is not a number")
    return number


def _malformed(spec: str, why: str) -> InputError:
    return InputError(f"{spec[:200]!r} is malformed: {why}.", next_step="Write it as in accuracy,higher,value=0.8.")

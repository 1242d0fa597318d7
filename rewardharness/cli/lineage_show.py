"""The commands of `rh lineage` that read records, and values that are written on the command line.

Commands are show, compare and check-regression; values are metrics, artifacts and files with values per example.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import within
from rewardharness.codec import ValidationError, from_json, to_json
from rewardharness.errors import InputError
from rewardharness.files import read_text, user_path
from rewardharness.library.opening import open_library
from rewardharness.lineage.compare import RegressionCheck, Rule, check_regression
from rewardharness.lineage.compare import compare as compare_evals
from rewardharness.lineage.graph import Graph, around, lineage_graph, mermaid, read_evolution, read_evolutions, tree
from rewardharness.lineage.records import (
    Artifact,
    EvalComparison,
    Evaluation,
    ExpectedMetric,
    MetricDifference,
    MetricValue,
)
from rewardharness.lineage.reports import ReportFacts, metric_at
from rewardharness.lineage.store import SHORT, Lineage, Record, digest_of, files_of, state_of
from rewardharness.ranges import SHARE
from rewardharness.runs.store import find_runs
from rewardharness.settings import Settings

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
        bounds = wilson(correct, int(_number(spec, fields["judged"])))
        interval = [bounds.low, bounds.high] if bounds else None
    return _read(MetricValue, spec, {**fields, "interval": interval})


def read_items(path: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read values per example: one JSON object per line, with `id` and a number for each metric.

    Args:
        path: The file. A null is an example without an answer; it is left out.
        names: The metrics to read.

    Raises:
        InputError: If a line is malformed, or a metric has no values.
    """
    metrics: dict[str, dict[str, float]] = {name: {} for name in names}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            id_ = row["id"].encode("utf-8").decode("utf-8")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            message = f"{path}, line {number}, is not a JSON object whose `id` is a text."
            raise InputError(message, next_step="Correct the line.") from None
        for name in (name for name in names if row.get(name) is not None):
            value = row[name]
            if not isinstance(value, int | float) or not abs(value) < 1e300 or id_ in metrics[name]:
                message = f"{path}, line {number}: {name} is not a number, or the id {id_!r} is repeated."
                raise InputError(message, next_step="Correct the line.")
            metrics[name][id_] = float(value)
    metrics = {name: values for name, values in metrics.items() if values}
    if not metrics:
        raise InputError(f"{path} has no values of {', '.join(names)}.", next_step="Name a metric as in the file.")
    return metrics


def artifact(spec: str) -> Artifact:
    """Parse an artifact: `step-400=out/checkpoint-400`, or `model=hf://org/name@rev`, optionally with `#sha256:HASH`.

    A local file or folder is hashed.

    Raises:
        InputError: If it is malformed, cannot be read, or has another digest than given.
    """
    match = re.fullmatch(r"\s*([^=]*[^=\s])\s*=(.+?)(?:#sha256:([0-9a-f]{64}))?", spec)
    if match is None:
        raise InputError(f"{spec[:200]!r} is not an artifact.", next_step="Write NAME=PATH or NAME=URL#sha256:HASH.")
    name, location, checksum = match.groups()
    if "://" in location:
        return Artifact(name, location, checksum)
    path = user_path(location).resolve()
    if checksum is not None and not path.exists():
        return Artifact(name, str(path), checksum)
    digest, size = digest_of(path)
    if checksum not in {None, digest}:
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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of all commands."""

    lineage: Path | None = None
    """Folder of the records (default: lineage in RH_HOME)."""
    json: bool = False
    """Print one JSON object."""

    def open(self) -> Lineage:
        """Open the folder."""
        return Lineage(self.lineage or Settings.from_env().home / "lineage")


COMMON = Common()


def show(
    what: str | None = None,
    /,
    *,
    library: tuple[str, ...] = (),
    run: tuple[Path, ...] = (),
    files: bool = False,
    format_: Annotated[str, Parameter(name="--format")] = "tree",
    common: Common = COMMON,
) -> int:
    """Show the lineage: from human preferences to Libraries, releases, trainings and evals.

    Args:
        what: Name of a record, or a prefix of any id (default: everything).
        library: Library whose own lineage is included; may be repeated.
        run: Evolution run folder to include; those in RH_HOME are always included. May be repeated.
        files: Hash the files that records name and show which changed. The exit status is 1 if any did.
        format_: tree, or mermaid for a Mermaid flowchart.
        common: Options.
    """
    lineage = common.open()
    records = lineage.read_all()
    evolutions = [*map(read_evolution, run), *read_evolutions(find_runs(Settings.from_env().home / "runs"))]
    libraries = {opened.id: opened.lineage for opened in map(open_library, library)}
    graph = lineage_graph(records.values(), evolutions, libraries)
    if what:
        graph = around(graph, _node_ids(graph, what, lineage, records))
    elif not library and not run:
        graph = around(graph, [f"{record.kind}:{record.id}" for record in records.values()])
    states = _file_states(records) if files else []
    if common.json:
        output.emit({"lineage": str(lineage.folder), **to_json(graph), **({"files": states} if files else {})})
    elif format_ == "mermaid":
        output.say(mermaid(graph.without_examples()))
    else:
        empty = f"There are no records in {lineage.folder}. Create one with: rh lineage record-manifest"
        for line in tree(graph) or [empty]:
            output.say(line)
        if states:
            output.table(("record", "file", "state"), [(row["record"], row["file"], row["state"]) for row in states])
    return 1 if any(row["state"] == "changed" for row in states) else 0


def compare(
    base: str,
    new: str,
    /,
    *,
    name: str | None = None,
    different_judges: bool = False,
    dry_run: bool = False,
    common: Common = COMMON,
) -> None:
    """Compare two evals metric by metric, and record the comparison.

    Args:
        base: Name or id of the reference eval.
        new: Name or id of the other eval.
        name: Name of the comparison (default: derived from the two ids).
        different_judges: Allow evals that were measured by different judges.
        dry_run: Write nothing.
        common: Options.
    """
    one, other, comparison = _compare(common, base, new, different_judges)
    record = None
    if not dry_run:
        record = common.open().record(name or f"{one.id[:16]}-{other.id[:16]}", comparison)
    if common.json:
        ids = {"id": record.id if record else None, "name": record.name if record else None}
        output.emit({**to_json(comparison), **ids})
        return
    output.say(f"{one.title} and {other.title}")
    rows = []
    for metric in comparison.metrics:
        method = metric.method + (f", n {metric.n}" if metric.n else "")
        rows.append((*_values(metric), _signed(metric.difference, metric.interval), method, metric.verdict))
    output.table(("metric", "better", "base", "new", "difference [95% CI]", "method", "verdict"), rows)
    for side, only in (("base", comparison.only_base), ("new", comparison.only_new)):
        if only:
            output.say(f"Only the {side} eval has: {', '.join(only)}.")
    if comparison.different_judges:
        output.say("Different judges measured the evals; the difference may be due to the judges.")
    if record is not None:
        output.say(f"Recorded {record.title}, {record.id}")


def check(
    base: str,
    new: str,
    /,
    *,
    tolerance: tuple[str, ...] = (),
    coverage_tolerance: Annotated[float, within("coverage-tolerance", SHARE)] = 0.0,
    metric: tuple[str, ...] = (),
    rule: Rule = "drop",
    different_judges: bool = False,
    common: Common = COMMON,
) -> int:
    """Check whether an eval is worse than another. The exit status is 1 if it is, or if a metric is missing.

    Args:
        base: Name or id of the reference eval.
        new: Name or id of the eval to check.
        tolerance: Maximum loss, as X or METRIC=X, in units of the metric; may be repeated.
        coverage_tolerance: Maximum loss of coverage.
        metric: Metric to check; may be repeated.
        rule: drop: the loss exceeds the tolerance; proven: its whole interval does; ruled-out: its interval is not
            wholly within the tolerance.
        different_judges: Allow evals that were measured by different judges.
        common: Options.
    """
    one, other, comparison = _compare(common, base, new, different_judges)
    checks = check_regression(
        comparison, tolerances(tolerance), metrics=metric, rule=rule, coverage_tolerance=coverage_tolerance
    )
    worse = [check for check in checks if check.regressed]
    if common.json:
        rows = [asdict(check) for check in checks]
        output.emit({"regressed": bool(worse), "rule": rule, "base": one.id, "new": other.id, "checks": rows})
        return 1 if worse else 0
    table = []
    for check in checks:
        loss = f"{check.loss:+.4g}" if check.counted else _signed(check.loss, check.interval)
        table.append((*_values(check), loss, f"{check.tolerance:g}", "REGRESSED" if check.regressed else "ok"))
    output.table(("metric", "better", "base", "new", "loss [95% CI]", "tolerance", ""), table)
    for check in checks:
        if not check.counted and not check.certain:
            output.say(f"{check.name}: {_uncertainty(check)}")
    if comparison.only_new:
        output.say(f"Not checked, because the base lacks it: {', '.join(comparison.only_new)}.")
    output.say(f"{len(worse)} of {len(checks)} regressed under the rule {rule!r}.")
    return 1 if worse else 0


def _compare(common: Common, base: str, new: str, different_judges: bool) -> tuple[Record, Record, EvalComparison]:
    lineage = common.open()
    known = lineage.read_all()
    one, other = (lineage.find(which, "eval", known) for which in (base, new))
    assert isinstance(one.body, Evaluation) and isinstance(other.body, Evaluation)
    items = (lineage.items(one.body), lineage.items(other.body))
    return one, other, compare_evals(one, other, items, different_judges=different_judges)


def _node_ids(graph: Graph, which: str, lineage: Lineage, records: dict[str, Record]) -> list[str]:
    """Return the nodes that a user names: by record name or by a prefix of an id."""
    named = [node.id for node in graph.nodes if which in {node.id, node.detail.get("name")}]
    prefix = which if len(which) >= SHORT // 2 else "\0"
    ids = named or [node.id for node in graph.nodes if node.id.partition(":")[2].startswith(prefix)]
    if ids:
        return ids
    record = lineage.find(which, known=records)
    return [f"{record.kind}:{record.id}"]


def _file_states(records: dict[str, Record]) -> list[dict[str, Any]]:
    files: dict[tuple[str, str], str] = {}
    for record in records.values():
        for path, digest in files_of(record.body, records):
            files.setdefault((path, digest), record.title)
    return [{"record": title, "file": path, "state": state_of(path, digest)} for (path, digest), title in files.items()]


def _values(row: MetricDifference | RegressionCheck) -> tuple[str, ...]:
    return row.name, row.direction, f"{row.base:.4g}", f"{row.new:.4g}"


def _signed(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:+.4g}" + (f" [{interval[0]:+.4g}, {interval[1]:+.4g}]" if interval else " [unknown]")


def _uncertainty(check: RegressionCheck) -> str:
    if check.certain is None:
        return "there is no interval, so the difference may be due to chance."
    verb = "prove" if check.regressed else "rule out"
    return f"the interval does not {verb} a loss of more than {check.tolerance:g}."

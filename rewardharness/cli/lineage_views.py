"""The commands of `rh lineage` that look at records: show, compare, check-regression."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.runs.comparing import Check
    from rewardharness.runs.forms import Comparison
    from rewardharness.runs.graph import Graph
    from rewardharness.runs.lineage import Lineage, Record

RULES = ("drop", "proven", "ruled-out")


def register_parts(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser of `rh lineage`."""
    one = parts.add_parser("show", help="draw where things came from", description=show.__doc__)
    one.add_argument(
        "which", nargs="?", metavar="WHAT", help="a record, or the beginning of an id (default: everything)"
    )
    one.add_argument(
        "--library", action="append", default=[], metavar="LIBRARY", help="read how this Library evolved, too"
    )
    one.add_argument(
        "--run",
        dest="run_folders",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="read this evolution, too (those in RH_HOME are read anyway)",
    )
    one.add_argument(
        "--files", action="store_true", help="hash the files that records name, and say whether they changed"
    )
    add_place(one)
    one.set_defaults(run=show)

    two = parts.add_parser("compare", help="compare two evals", description=compare.__doc__)
    _add_evals(two)
    two.add_argument("--name", metavar="NAME", help="name of the comparison (default: from the two ids)")
    two.add_argument("--dry-run", action="store_true", help="keep no record")
    two.set_defaults(run=compare)

    three = parts.add_parser("check-regression", help="fail when an eval is worse", description=check.__doc__)
    _add_evals(three)
    three.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="[METRIC=]X",
        help="how much worse is no regression, in units of the metric (default: 0); may be repeated",
    )
    three.add_argument("--coverage-tolerance", type=float, default=0.0, metavar="X", help="the same for the coverage")
    three.add_argument("--metric", action="append", default=[], metavar="NAME", help="look at this one; repeatable")
    three.add_argument(
        "--rule",
        choices=RULES,
        default="drop",
        help="what counts: the drop itself (default), only one that its interval proves, or all that is not ruled-out",
    )
    three.set_defaults(run=check)


def _add_evals(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", help="the eval to compare with: name or id")
    parser.add_argument("new", help="the eval that is compared")
    parser.add_argument("--different-judges", action="store_true", help="compare although other judges measured")
    add_place(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the options that all commands of `rh lineage` have."""
    parser.add_argument("--lineage", type=Path, metavar="DIR", help="where records lie (default: lineage in RH_HOME)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def open_lineage(arguments: argparse.Namespace, settings: Settings) -> "Lineage":
    """Open the folder of records that a user means."""
    from rewardharness.runs.lineage import Lineage

    return Lineage(arguments.lineage or settings.home / "lineage")


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Draw the way from human preferences over edits of a Library to releases, trainings and what they are worth."""
    from rewardharness.runs.graph import around, tree

    kept = open_lineage(arguments, settings)
    records = kept.read_all()
    graph = _graph(records, arguments, settings)
    ids = _meant(graph, arguments.which, kept, records) if arguments.which else _starts(graph, arguments)
    graph = around(graph, ids)
    states = _states(records) if arguments.files else []
    if arguments.json:
        found: dict[str, Any] = {"lineage": str(kept.folder), **graph.to_json()}
        output.emit({**found, "files": states} if arguments.files else found)
    else:
        for line in tree(graph) or [f"There are no records in {kept.folder}. Begin with: rh lineage record-manifest"]:
            output.say(line)
        if states:
            output.table(("record", "file", "now"), [(row["record"], row["file"], row["state"]) for row in states])
    return 1 if any(row["state"] == "changed" for row in states) else 0


def compare(arguments: argparse.Namespace, settings: Settings) -> int:
    """Compare two evals metric by metric, in pairs where both keep their examples' values, and keep the comparison."""
    from rewardharness.runs.typed import to_json

    kept = open_lineage(arguments, settings)
    base, new, found = _compared(arguments, kept)
    record = None
    if not arguments.dry_run:
        record = kept.record(arguments.name or f"{base.id[:16]}-{new.id[:16]}", found)
    if arguments.json:
        output.emit({**to_json(found), "id": record.id if record else None, "name": record.name if record else None})
        return 0
    output.say(f"{base.title} and {new.title}")
    output.table(
        ("metric", "better", "base", "new", "difference [95 % interval]", "by", "verdict"),
        [
            (
                each.name,
                each.direction,
                f"{each.base:.4g}",
                f"{each.new:.4g}",
                _signed(each.difference, each.interval),
                each.method + (f", n {each.n}" if each.n else ""),
                each.verdict,
            )
            for each in found.metrics
        ],
    )
    for name, only in (("base", found.only_base), ("new", found.only_new)):
        if only:
            output.say(f"Only the {name} eval has: {', '.join(only)}.")
    if found.different_judges:
        output.say("Different judges measured: a difference may be theirs.")
    if record is not None:
        output.say(f"Kept {record.title}, {record.id}")
    return 0


def check(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say whether an eval is worse than another. Ends with status 1 when it is, or when a metric is missing."""
    from rewardharness.cli.lineage_inputs import tolerances
    from rewardharness.runs.comparing import check_regression

    base, new, found = _compared(arguments, open_lineage(arguments, settings))
    checks = check_regression(
        found,
        tolerances(arguments.tolerance),
        metrics=arguments.metric,
        rule=arguments.rule,
        coverage_tolerance=arguments.coverage_tolerance,
    )
    worse = [each for each in checks if each.regressed]
    if arguments.json:
        rows = [asdict(each) for each in checks]
        output.emit({"regressed": bool(worse), "rule": arguments.rule, "base": base.id, "new": new.id, "checks": rows})
        return 1 if worse else 0
    output.table(
        ("metric", "better", "base", "new", "worse by [95 % interval]", "tolerated", ""),
        [
            (
                each.name,
                each.direction,
                f"{each.base:.4g}",
                f"{each.new:.4g}",
                f"{each.loss:+.4g}" if each.counted else _signed(each.loss, each.interval),
                f"{each.tolerance:g}",
                "REGRESSED" if each.regressed else "held",
            )
            for each in checks
        ],
    )
    for each in checks:
        if not each.counted and not each.certain:
            output.say(f"{each.name}: {_doubt(each)}")
    if found.only_new:
        output.say(f"Not looked at, because the base lacks it: {', '.join(found.only_new)}.")
    output.say(f"{len(worse)} of {len(checks)} regressed under the rule {arguments.rule!r}.")
    return 1 if worse else 0


def _compared(arguments: argparse.Namespace, kept: "Lineage") -> "tuple[Record, Record, Comparison]":
    from rewardharness.runs.comparing import compare
    from rewardharness.runs.forms import Eval

    known = kept.read_all()
    base, new = (kept.find(which, "eval", known) for which in (arguments.base, arguments.new))
    assert isinstance(base.body, Eval) and isinstance(new.body, Eval)
    items = (kept.items(base.body), kept.items(new.body))
    return base, new, compare(base, new, items, different_judges=arguments.different_judges)


def _graph(records: "dict[str, Record]", arguments: argparse.Namespace, settings: Settings) -> "Graph":
    from rewardharness.evolution.ancestry import read_evolution, read_evolutions
    from rewardharness.library.opening import open_library
    from rewardharness.runs.graph import lineage_graph
    from rewardharness.runs.store import find_runs

    named = [read_evolution(folder) for folder in arguments.run_folders]
    evolutions = [*named, *read_evolutions(find_runs(settings.home / "runs"))]
    libraries = {}
    for spec in arguments.library:
        library = open_library(spec)
        libraries[library.id] = library.lineage
    return lineage_graph(records.values(), evolutions, libraries)


def _starts(graph: "Graph", arguments: argparse.Namespace) -> list[str]:
    """Where to begin when nothing is named: at the records, or at all that there is where a Library or run is named."""
    kinds = {"manifest", "result", "eval", "comparison"}
    every = bool(arguments.library or arguments.run_folders)
    return [node.id for node in graph.nodes if every or node.kind in kinds]


def _meant(graph: "Graph", which: str, kept: "Lineage", records: "dict[str, Record]") -> list[str]:
    """Find what a user names: a record, or another node by the beginning of its id."""
    from rewardharness.runs.lineage import SHORT

    ids = [node.id for node in graph.nodes if node.id.partition(":")[2].startswith(which) and len(which) >= SHORT // 2]
    named = [node.id for node in graph.nodes if which in {node.id, node.detail.get("name")}]
    if named or ids:
        return named or ids
    record = kept.find(which, known=records)
    return [f"{record.kind}:{record.id}"]


def _states(records: "dict[str, Record]") -> list[dict[str, str]]:
    from rewardharness.runs.lineage import files_of
    from rewardharness.runs.named_files import state_of

    rows = []
    seen = set()
    for record in records.values():
        for place, digest in files_of(record.body, records):
            if (place, digest) not in seen:
                seen.add((place, digest))
                rows.append({"record": record.title, "file": place, "state": state_of(place, digest)})
    return rows


def _signed(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:+.4g}" + (f" [{interval[0]:+.4g}, {interval[1]:+.4g}]" if interval else " [not known]")


def _doubt(check: "Check") -> str:
    """What the interval leaves open."""
    if check.certain is None:
        return "no interval is known, so this may be chance."
    if check.regressed:
        return f"the interval does not prove that it is more than {check.tolerance:g} worse."
    return f"the interval does not rule out that it is more than {check.tolerance:g} worse."

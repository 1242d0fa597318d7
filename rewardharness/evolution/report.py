"""What came of a run, as numbers: read from its events and its ledger, written to `report.json`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rewardharness.data.source import describe_skipped
from rewardharness.errors import DataError, RunError
from rewardharness.evolution.audit import Audit, Score
from rewardharness.evolution.events import Decided, Judged, Passed, Proposed, read_events
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import State
from rewardharness.evolution.stop import Limits, Spent, line_usage
from rewardharness.files import read_json, read_jsonl
from rewardharness.library.store import Library
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Example, Json

REPORT = "report.json"
SCHEMA = 1

MOST_PUZZLES = 50
"""Examples that every version gets wrong, listed at most."""


def build_report(
    manifest: Mapping[str, Any],
    state: State,
    result: Library,
    start: Sequence[Outcome],
    audit: Audit,
    spent: Spent,
    limits: Limits,
    folder: Path,
) -> Json:
    """Put together what came of a run.

    Args:
        manifest: What the run is about.
        state: Its last state.
        result: The Library that the run gives: the champion, or the starting one where that does better.
        start: What the starting Library made of the examples that gates looked at.
        audit: The audit.
        spent: What was spent.
        limits: The budget, and prices.
        folder: The run folder, for its events and its ledger.
    """
    final = tuple(state.outcomes.values())
    events = read_events(folder)
    return {
        "schema": SCHEMA,
        "run": dict(manifest),
        "ending": state.ending,
        "library": {
            "start_id": manifest["library_id"],
            "final_id": result.id,
            "tried_id": state.library.id,
            "version": state.version if result.id == state.library.id else 0,
            "skills": len(result.skills),
            "tools": len(result.tools),
        },
        "pool": {
            "note": "gates looked at these examples, so expect less on others",
            "start": Score.of(start).to_json(),
            "final": Score.of(final).to_json(),
        },
        "audit": audit.to_json(),
        "by_category": _table(audit, lambda example: example.category or "none"),
        "by_label_kind": _table(audit, lambda example: example.label_kind or "unnamed"),
        "edits": [_edit(event) for event in events if isinstance(event, Decided)],
        "proposed": sum(isinstance(event, Proposed) for event in events),
        "passed_over": sum(isinstance(event, Passed) for event in events),
        "curve": _curve(events),
        "spent": _spending(spent, limits, folder),
        "puzzles": _puzzles(folder, [outcome.example for outcome in final]),
    }


def left_out(report: Mapping[str, Any]) -> str:
    """Say which rows of the data stand neither in the pool nor in the audit, and why; empty when all do."""
    told = describe_skipped(report.get("skipped_rows", {"n": 0}))  # reports of earlier versions lack it
    return f"Neither in the pool nor in the audit: {told}" if told else ""


def read_report(folder: Path) -> Json:
    """Read the report of a run.

    Raises:
        RunError: If there is none yet, it is damaged, or it is of another version.
    """
    if not (folder / REPORT).exists():
        raise RunError(
            f"{folder.name} has no report, because it is not finished.",
            next_step=f"See how it stands with: rh runs show {folder}",
        )
    remedy = "Remove it and give the command of the run again: it is written anew, and nothing is judged twice."
    try:
        report: Json = read_json(folder / REPORT)
    except DataError as error:
        raise RunError(f"{folder / REPORT} cannot be read.", next_step=remedy) from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise RunError(f"{folder / REPORT} is not a report of this version.", next_step=remedy)
    return report


def summary(name: str, report: Mapping[str, Any]) -> Json:
    """The figures of a report by which runs are compared. Accuracies compare only on the same audit examples."""
    run, audit = report["run"], report["audit"]
    return {
        "name": name,
        "schedule": run["schedule"]["name"],
        "judge": run["judge"],
        "orchestrator": run["orchestrator"],
        "kept": sum(edit["evidence"]["decision"] == "accept" for edit in report["edits"]),
        "tried": len(report["edits"]),
        "judgments": report["spent"]["judgments"],
        "start": audit["start"],
        "final": audit["final"],
        "p": audit["final_against_start"]["p"],
        "library_id": report["library"]["final_id"],
    }


def same_audit(reports: Iterable[Mapping[str, Any]]) -> bool:
    """Whether runs put the same examples aside for the audit, so that their accuracies compare."""
    return len({(each["run"]["data"], each["run"]["seed"], each["run"]["audit_share"]) for each in reports}) <= 1


def _table(audit: Audit, of: Callable[[Example], str]) -> list[Json]:
    """Accuracy on the audit per group of examples, with the starting and the final Library."""
    groups: dict[str, tuple[list[Outcome], list[Outcome]]] = defaultdict(lambda: ([], []))
    for side, outcomes in enumerate((audit.start, audit.final)):
        for outcome in outcomes:
            groups[of(outcome.example)][side].append(outcome)
    return [
        {"name": name, "start": Score.of(before).to_json(), "final": Score.of(after).to_json()}
        for name, (before, after) in sorted(groups.items())
    ]


def _edit(event: Decided) -> Json:
    names = ("step", "operator", "statement", "source", "accuracy", "version", "library_id", "signature")
    lists = {name: list(getattr(event, name)) for name in ("names", "cited")}
    return {**{name: getattr(event, name) for name in names}, **lists, "evidence": dict(event.evidence)}


def _curve(events: Iterable[object]) -> list[Json]:
    """Accuracy on the pool against judgments spent, after every decision."""
    points: list[Json] = []
    for event in events:
        if isinstance(event, Judged):
            points.append({"judgments": event.judged + event.failed, "accuracy": event.accuracy, "version": 0})
        elif isinstance(event, Decided):
            spent = event.spent["judgments"]
            points.append({"judgments": spent, "accuracy": event.accuracy, "version": event.version})
    return points


def _spending(spent: Spent, limits: Limits, folder: Path) -> Json:
    """What was spent. `remembered` counts judgments that a model had answered before, at no cost."""
    lines = [line for _, line in read_jsonl(folder / RESULTS)]
    paid = sum(line_usage(line).calls > 0 for line in lines)
    return {
        "judgments": spent.judgments,
        "judge": spent.judge.__dict__,
        "orchestrator": spent.orchestrator.__dict__,
        "seconds": round(spent.seconds, 1),
        "money": limits.money(spent),
        "budget": asdict(limits.budget),
        "remembered": len(lines) - paid if paid else None,
    }


def _puzzles(folder: Path, examples: Sequence[Example]) -> list[Json]:
    """Examples of the pool that no version judged right, the most often judged first: perhaps the label is wrong."""
    known = {example.id: example for example in examples}
    missed = never_right((line for _, line in read_jsonl(folder / RESULTS)), known)
    return [
        {
            "id": example.id,
            "instruction": example.instruction,
            "label": example.preference,
            "category": example.category,
            "versions": times,
        }
        for name, times in missed[:MOST_PUZZLES]
        for example in (known[name],)
    ]


def never_right(lines: Iterable[Mapping[str, Any]], ids: Collection[str]) -> list[tuple[str, int]]:
    """Find the examples that no version judged right, the most often judged first.

    Args:
        lines: The ledger, or the part of it that is there.
        ids: The examples that may be spoken of: those of the pool. What the audit holds is nobody's business.

    Returns:
        Id of each, and under how many contexts it was judged.
    """
    contexts: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        if (line["preference"] is not None or line.get("inconsistent")) and line["example"] in ids:
            contexts[line["example"]][line["id"]] = line["credit"]
    missed = [(name, len(credits)) for name, credits in contexts.items() if not max(credits.values())]
    return sorted(missed, key=lambda each: (-each[1], each[0]))

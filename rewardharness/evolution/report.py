"""The report of a run: its numbers, read from its events and results, and written to `report.json`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rewardharness.data.source import describe_skipped
from rewardharness.errors import DataError, RunError
from rewardharness.evolution.events import Decided, Judged, Proposed, Skipped, read_events
from rewardharness.evolution.held_out import HeldOutResult, Score
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import State
from rewardharness.evolution.stop import SpendingLimits, Spent, line_usage
from rewardharness.files import read_json, read_jsonl
from rewardharness.judging.report import wilson
from rewardharness.library.store import Library
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Example, Json

REPORT = "report.json"
SCHEMA = 1

MOST_PUZZLES = 50
"""Maximum number of listed examples that every version judges wrong."""


def build_report(
    manifest: Mapping[str, Any],
    state: State,
    result: Library,
    start: Sequence[Outcome],
    audit: HeldOutResult,
    spent: Spent,
    limits: SpendingLimits,
    folder: Path,
) -> Json:
    """Build the report of a run.

    Args:
        manifest: The manifest of the run.
        state: Its last state.
        result: The resulting Library: the champion, or the starting Library if that does better.
        start: Outcomes of the starting Library on the training examples.
        audit: Outcomes on the held-out test set.
        spent: Spending.
        limits: Budget and prices.
        folder: The run folder, for its events and results.
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
            "note": "edits were chosen on these examples; expect less on others",
            "start": Score.of(start).to_json(),
            "final": Score.of(final).to_json(),
        },
        "audit": audit.to_json(),
        "by_category": _table(audit, lambda example: example.category or "none"),
        "by_label_kind": _table(audit, lambda example: example.label_kind or "unnamed"),
        "edits": [_edit(event) for event in events if isinstance(event, Decided)],
        "proposed": sum(isinstance(event, Proposed) for event in events),
        "passed_over": sum(isinstance(event, Skipped) for event in events),
        "curve": _curve(events),
        "spent": _spending(spent, limits, folder),
        "puzzles": _puzzles(folder, [outcome.example for outcome in final]),
    }


class AccuracyRow(NamedTuple):
    """Accuracy with one Library on one part of the data."""

    examples: str
    """Part of the data."""
    library: str
    score: Mapping[str, Any]
    """As `Score.to_json` writes it."""
    against: Mapping[str, Any] | None = None
    """The final Library against this one, as `HeldOutComparison.to_json` writes it; None for no comparison."""
    note: str = ""

    @property
    def comparison(self) -> str:
        """The comparison with the final Library in words, or the note."""
        if self.against is None:
            return self.note
        if self.against["p"] is None:
            return "no difference" if self.against["n"] else "nothing to compare"
        return f"{self.against['fixes']} better, {self.against['breaks']} worse, p {self.against['p']:.2g}"


def accuracy_rows(report: Mapping[str, Any]) -> list[AccuracyRow]:
    """Return the rows of the table of accuracies, the held-out test set first."""
    audit, pool = report["audit"], report["pool"]
    ensemble = audit["ensemble"]
    rows = [
        AccuracyRow("Test set", "final Library", audit["final"]),
        AccuracyRow("Test set", "starting Library", audit["start"], audit["final_against_start"]),
    ]
    if audit["empty"]["n"]:
        rows.append(AccuracyRow("Test set", "no Library", audit["empty"], audit["final_against_empty"]))
    if "skipped" not in ensemble:
        library = f"starting Library, {ensemble['samples']} samples per question"
        rows.append(AccuracyRow("Test set", library, ensemble, audit["final_against_ensemble"]))
    note = "edits were chosen on these examples; expect less on others"
    return [
        *rows,
        AccuracyRow("Training", "final Library", pool["final"], note=note),
        AccuracyRow("Training", "starting Library", pool["start"]),
    ]


def left_out(report: Mapping[str, Any]) -> str:
    """Return which rows of the data were left out, and why; empty if none were."""
    skipped = describe_skipped(report.get("skipped_rows", {"n": 0}))  # reports of earlier versions lack it
    return f"Neither in the training examples nor in the test set: {skipped}" if skipped else ""


def ceiling(report: Mapping[str, Any]) -> str:
    """Return how well people agree with each other; empty if the data do not say."""
    people = report.get("people")  # reports of earlier versions lack it
    if not people:
        return ""
    interval = wilson(people["share"] * people["n"], people["n"])
    assert interval is not None
    return (
        f"People agree with each other on {people['share']:.0%} (95% CI {interval.low:.0%} to {interval.high:.0%}, n "
        f"{people['n']}) of the edits that several voted on: no judge can be expected to agree with them more."
    )


def read_report(folder: Path) -> Json:
    """Read the report of a run.

    Raises:
        RunError: If there is none yet, it is damaged, or it is of another version.
    """
    if not (folder / REPORT).exists():
        raise RunError(
            f"{folder.name} has no report, because it is not finished.",
            next_step=f"Show its status with: rh runs show {folder}",
        )
    remedy = "Remove it and give the command of the run again, which writes it without judging anything twice."
    try:
        report: Json = read_json(folder / REPORT)
    except DataError as error:
        raise RunError(f"{folder / REPORT} cannot be read.", next_step=remedy) from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise RunError(f"{folder / REPORT} is not a report of this version.", next_step=remedy)
    return report


def summary(name: str, report: Mapping[str, Any]) -> Json:
    """Return the numbers for comparing runs. Accuracies are comparable only on the same held-out examples."""
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
    """Return whether runs held out the same examples, so that their accuracies are comparable."""
    return len({(each["run"]["data"], each["run"]["seed"], each["run"]["audit_share"]) for each in reports}) <= 1


def _table(audit: HeldOutResult, of: Callable[[Example], str]) -> list[Json]:
    """Return the accuracy on held-out examples per group, with the starting and the final Library."""
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
    """Return the accuracy on the training examples and the judgments spent, after every decision."""
    points: list[Json] = []
    for event in events:
        if isinstance(event, Judged):
            points.append({"judgments": event.judged + event.failed, "accuracy": event.accuracy, "version": 0})
        elif isinstance(event, Decided):
            spent = event.spent["judgments"]
            points.append({"judgments": spent, "accuracy": event.accuracy, "version": event.version})
    return points


def _spending(spent: Spent, limits: SpendingLimits, folder: Path) -> Json:
    """Return the spending. `remembered` counts cached judgments of a model, at no cost."""
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
    """Return the training examples that no version judged right, the most often judged first."""
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
        lines: Lines of the results file.
        ids: Ids of the training examples; held-out ones are not listed.

    Returns:
        Id of each, and in how many contexts it was judged.
    """
    contexts: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        if (line["preference"] is not None or line.get("inconsistent")) and line["example"] in ids:
            contexts[line["example"]][line["id"]] = line["credit"]
    missed = [(name, len(credits)) for name, credits in contexts.items() if not max(credits.values())]
    return sorted(missed, key=lambda each: (-each[1], each[0]))

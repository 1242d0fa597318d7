"""What came of a run, as numbers: read from its events and its ledger, written to `report.json`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardharness.evolution.audit import Audit, Score
from rewardharness.evolution.events import Decided, Judged, Passed, read_events
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import State
from rewardharness.evolution.stop import Limits, Spent
from rewardharness.files import read_jsonl
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Example, Json

REPORT = "report.json"
SCHEMA = 1

MOST_PUZZLES = 50
"""Examples that every version gets wrong, listed at most."""


def build_report(
    manifest: Mapping[str, Any],
    state: State,
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
            "final_id": state.library.id,
            "version": state.version,
            "skills": len(state.library.skills),
            "tools": len(state.library.tools),
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
        "passed_over": sum(isinstance(event, Passed) for event in events),
        "curve": _curve(events),
        "spent": _spending(spent, limits, folder),
        "puzzles": _puzzles(folder, [outcome.example for outcome in final]),
    }


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
    paid = sum(line["calls"] > 0 for line in lines)
    return {
        "judgments": spent.judgments,
        "judge": spent.judge.__dict__,
        "orchestrator": spent.orchestrator.__dict__,
        "seconds": round(spent.seconds, 1),
        "money": limits.money(spent),
        "remembered": len(lines) - paid if paid else None,
    }


def _puzzles(folder: Path, examples: Sequence[Example]) -> list[Json]:
    """Examples of the pool that no version judged right, the most often judged first: perhaps the label is wrong."""
    contexts: dict[str, dict[str, float]] = defaultdict(dict)
    for _, line in read_jsonl(folder / RESULTS):
        if line["preference"] is not None:
            contexts[line["example"]][line["id"]] = line["credit"]
    missed = [example for example in examples if contexts[example.id] and not max(contexts[example.id].values())]
    ordered = sorted(missed, key=lambda example: (-len(contexts[example.id]), example.id))
    return [
        {
            "id": example.id,
            "instruction": example.instruction,
            "label": example.preference,
            "category": example.category,
            "versions": len(contexts[example.id]),
        }
        for example in ordered[:MOST_PUZZLES]
    ]

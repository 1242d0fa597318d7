"""The report of a run: its numbers, read from its events and results, and written to `report.json`."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rewardharness.codec import ValidationError, from_json
from rewardharness.data.source import CONTRADICTING, VoterAgreement
from rewardharness.errors import DataError, RunError, shell
from rewardharness.evolution.events import Decided, EvidenceReport, Judged, Proposed, Skipped, read_events
from rewardharness.evolution.held_out import HeldOutReport, Score
from rewardharness.evolution.plan import EvolutionPlan, GroupScore, RegressionReport, group_scores
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import State
from rewardharness.files import read_json, read_jsonl
from rewardharness.library.store import Library
from rewardharness.runs.spending import Budget, SpendingLimits, Spent, line_usage
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Usage

REPORT = "report.json"
SCHEMA = 1

NOTE = "edits were chosen on these examples; expect less on others"

MOST_PUZZLES = 50
"""Maximum number of listed examples that every version judges wrong."""


@dataclass(frozen=True)
class RunFacts:
    """What the run is about; see `EvolutionPlan.manifest`."""

    command: str
    data: str
    """Digest of the dataset."""
    data_name: str
    judge: str
    judge_revision: str
    protocol: str
    library_id: str
    orchestrator: str
    schedule: Mapping[str, Any]
    """Its name and settings."""
    seed: int
    audit_share: float
    samples: int | None
    router: str | None
    corrections: str | None
    limit: int | None = None


@dataclass(frozen=True)
class LibraryFacts:
    """The Libraries of the run."""

    start_id: str
    final_id: str
    """Of the result."""
    tried_id: str
    """Of the evolved Library, which is not the result if it did worse than the starting one."""
    version: int
    """Number of the result in `versions/`."""
    skills: int
    tools: int


@dataclass(frozen=True)
class TrainingReport:
    """Accuracies on the training examples."""

    note: str
    start: Score
    final: Score


@dataclass(frozen=True)
class EditReport:
    """A tested edit."""

    step: int
    operator: str
    statement: str
    source: str
    accuracy: float | None
    """On the training examples after the decision."""
    version: int
    library_id: str
    signature: str
    names: tuple[str, ...]
    """Entries that it touches."""
    cited: tuple[str, ...]
    evidence: EvidenceReport

    @property
    def accepted(self) -> bool:
        """Whether it was accepted."""
        return self.evidence.decision == "accept"


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy on the training examples after some judgments."""

    judgments: int
    accuracy: float | None
    version: int


@dataclass(frozen=True)
class Spending:
    """What the run has spent."""

    judgments: int
    judge: Usage
    orchestrator: Usage
    seconds: float
    money: float | None
    budget: Budget
    remembered: int | None
    """Cached judgments of a model, at no cost; None if none was paid for."""


@dataclass(frozen=True)
class Puzzle:
    """A training example that no version judged right."""

    id: str
    instruction: str
    label: str | None
    category: str | None
    versions: int
    """In how many contexts it was judged."""


@dataclass(frozen=True)
class EvolutionReport:
    """The report of a run, as `report.json` holds it."""

    schema: int
    run: RunFacts
    ending: str
    """Why the search ended."""
    library: LibraryFacts
    pool: TrainingReport
    audit: HeldOutReport
    """On the held-out test set."""
    by_category: tuple[GroupScore, ...]
    by_label_kind: tuple[GroupScore, ...]
    edits: tuple[EditReport, ...]
    proposed: int
    passed_over: int
    """Proposals that were skipped without judging anything."""
    curve: tuple[CurvePoint, ...]
    spent: Spending
    puzzles: tuple[Puzzle, ...]
    regression: RegressionReport
    skipped_rows: Mapping[str, Any]
    """As `Dataset.skipped_json` writes them."""
    people: VoterAgreement | None
    """How well people agree with each other; None if the data do not say."""
    contradictions: tuple[str, ...] = ()
    """Problems of the data that name contradicting labels."""

    @property
    def accepted(self) -> int:
        """Number of accepted edits."""
        return sum(edit.accepted for edit in self.edits)


def build_report(
    plan: EvolutionPlan,
    state: State,
    result: Library,
    start: Sequence[Outcome],
    held_out: tuple[HeldOutReport, Sequence[Outcome], Sequence[Outcome]],
    regression: RegressionReport,
    spent: Spent,
    folder: Path,
) -> EvolutionReport:
    """Build the report of a run.

    Args:
        plan: The plan of the run.
        state: Its last state.
        result: The resulting Library: the champion, or the starting Library if that does better.
        start: Outcomes of the starting Library on the training examples.
        held_out: The comparison on the held-out test set, with the outcomes of the starting and the final Library.
        regression: The comparison on the regression set.
        spent: Spending.
        folder: The run folder, for its events and results.
    """
    audit, before, after = held_out
    final = tuple(state.outcomes.values())
    events, lines = read_events(folder), [line for _, line in read_jsonl(folder / RESULTS)]
    examples = {outcome.example.id: outcome.example for outcome in final}
    version = state.version if result.id == state.library.id else 0
    sizes = len(result.skills), len(result.tools)
    return EvolutionReport(
        schema=SCHEMA,
        run=RunFacts(**plan.manifest),
        ending=state.ending,
        library=LibraryFacts(plan.library.id, result.id, state.library.id, version, *sizes),
        pool=TrainingReport(NOTE, Score.of(start), Score.of(final)),
        audit=audit,
        by_category=group_scores(before, after, lambda example: example.category or "none"),
        by_label_kind=group_scores(before, after, lambda example: example.label_kind or "unnamed"),
        edits=tuple(
            EditReport(*(getattr(event, field.name) for field in fields(EditReport)))
            for event in events
            if isinstance(event, Decided)
        ),
        proposed=sum(isinstance(event, Proposed) for event in events),
        passed_over=sum(isinstance(event, Skipped) for event in events),
        curve=_curve(events),
        spent=_spending(spent, plan.limits, lines),
        puzzles=tuple(
            Puzzle(name, (one := examples[name]).instruction, one.preference, one.category, times)
            for name, times in never_right(lines, examples)[:MOST_PUZZLES]
        ),
        regression=regression,
        skipped_rows=plan.dataset.skipped_json(),
        people=plan.dataset.agreement,
        contradictions=tuple(problem for problem in plan.dataset.problems if CONTRADICTING in problem),
    )


def read_report(folder: Path) -> EvolutionReport:
    """Read the report of a run.

    Raises:
        RunError: If there is none yet, it is damaged, or it is of another version.
    """
    if not (folder / REPORT).exists():
        raise RunError(
            f"{folder.name} has no report, because it is not finished.",
            next_step=shell("Show its status with: rh runs show {}", folder),
        )
    remedy = "Remove it and give the command of the run again, which writes it without judging anything twice."
    try:
        report = from_json(EvolutionReport, read_json(folder / REPORT))
        if report.schema != SCHEMA:
            raise ValidationError(f"schema: {report.schema}, not {SCHEMA}")
    except DataError as error:
        raise RunError(f"{folder / REPORT} cannot be read.", next_step=remedy) from error
    except ValidationError as error:
        raise RunError(f"{folder / REPORT} is not a report of this version: {error}.", next_step=remedy) from error
    return report


@dataclass(frozen=True)
class RunSummary:
    """Numbers for comparing runs. Accuracies are comparable only on the same held-out examples."""

    name: str
    schedule: str
    judge: str
    orchestrator: str
    kept: int
    """Accepted edits."""
    tried: int
    judgments: int
    start: Score
    final: Score
    p: float | None
    library_id: str


def summary(name: str, report: EvolutionReport) -> RunSummary:
    """Return the numbers of a run for comparison with others."""
    run, held_out = report.run, report.audit
    numbers = report.accepted, len(report.edits), report.spent.judgments, held_out.start, held_out.final
    p, library = held_out.final_against_start.p, report.library.final_id
    return RunSummary(name, str(run.schedule["name"]), run.judge, run.orchestrator, *numbers, p, library)


def same_held_out(reports: Iterable[EvolutionReport]) -> bool:
    """Return whether runs held out the same examples, so that their accuracies are comparable."""
    return len({(report.run.data, report.run.seed, report.run.audit_share) for report in reports}) <= 1


def _curve(events: Iterable[object]) -> tuple[CurvePoint, ...]:
    """Return the accuracy on the training examples and the judgments spent, after every decision."""
    return tuple(
        CurvePoint(event.judged + event.failed, event.accuracy, 0)
        if isinstance(event, Judged)
        else CurvePoint(event.spent.judgments, event.accuracy, event.version)
        for event in events
        if isinstance(event, Judged | Decided)
    )


def _spending(spent: Spent, limits: SpendingLimits, lines: Sequence[Mapping[str, Any]]) -> Spending:
    paid = sum(line_usage(line).calls > 0 for line in lines)
    costs = round(spent.seconds, 1), limits.money(spent), limits.budget, len(lines) - paid if paid else None
    return Spending(spent.judgments, spent.judge, spent.orchestrator, *costs)


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
    return sorted(missed, key=lambda item: (-item[1], item[0]))

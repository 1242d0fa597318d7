"""The evolution job: opens what a run needs, and runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rewardharness.data.source import Dataset
from rewardharness.data.values import read_data
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.checkpoint import CHAMPION
from rewardharness.evolution.config import AUDIT_SHARE, BUILTIN, MARGIN
from rewardharness.evolution.events import Event
from rewardharness.evolution.llm_orchestrator import LLMOrchestrator, LLMSettings
from rewardharness.evolution.loop import Watch, finished_report
from rewardharness.evolution.loop import evolve as run_plan
from rewardharness.evolution.observing import observer
from rewardharness.evolution.plan import Plan
from rewardharness.evolution.proposal import Orchestrator
from rewardharness.evolution.regression import regression_set
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.evolution.stop import UNLIMITED, Limits
from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import MEASURED, open_judge
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.models.open import ModelSettings, open_model
from rewardharness.schema import TIE, Json
from rewardharness.settings import Settings

MODEL_CONCURRENCY = 16
"""Examples that a model judges side by side, unless a caller chooses."""


@dataclass(frozen=True)
class EvolutionResult:
    """Result of an evolution run."""

    library: Library
    """The evolved Library; the starting one where the evolved one does worse on held-out examples."""
    report: Json = field(repr=False)
    """The content of `report.json`: the comparison on held-out examples, all tested edits, what was spent."""
    folder: Path
    """The run folder, which `rh runs` and the app read."""


def evolve(  # noqa: PLR0913  (one argument per choice, as on the command line)
    data: Any,
    *,
    library: Library | Path | str | None = None,
    judge: Judge | str = MEASURED,
    orchestrator: Orchestrator | str = BUILTIN,
    proposals: int = 60,
    audit_share: float = AUDIT_SHARE,
    seed: int = 0,
    limits: Limits = UNLIMITED,
    ensemble: int | None = None,
    concurrency: int | None = None,
    fields: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
    restart: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> EvolutionResult:
    """Evolve a Library from labeled preferences: propose edits, and accept those that held-out evidence supports.

    The run is resumable: the same call continues an interrupted run, and returns the report of a finished one.

    Args:
        data: At least 8 labeled examples, as `Judge.score_dataset` accepts them.
        library: The starting Library, as `Judge.score` accepts it.
        judge: The judge, or its name. Ties are among its answers where the labels have ties.
        orchestrator: `builtin` (rules, no model), or a model as `open_judge` spells it.
        proposals: Edits to try, at most.
        audit_share: Share of the examples, in [0, 1), held out for the comparison at the end.
        seed: The same seed gives the same result.
        limits: Budget and prices of the search.
        ensemble: Samples of the self-ensembling comparison; 0 for none, None for as many as the search cost.
        concurrency: Examples that are judged side by side; None for what suits the judge.
        fields: Columns of the data, as for `Judge.score_dataset`.
        folder: The run folder; None for one below `RH_HOME/runs` that follows from the run.
        restart: Start from scratch; a previous run in the folder is kept aside.
        on_event: Called with each event after it is written.

    Returns:
        The Library, the report and the run folder.

    Raises:
        InputError: If there are too few labeled examples, or the budget is too small.
        RunError: If the folder holds another run, or the judge's endpoint fails. The same call resumes.
    """
    settings = Settings.from_env()
    dataset = read_data(data, settings, fields=fields)
    ties = any(example.preference == TIE for example in dataset.examples)
    opened = open_judge(judge, settings, ties=ties) if isinstance(judge, str) else judge
    opened = opened.with_ties(True) if ties else opened
    plan = make_plan(
        dataset,
        open_library(settings.library if library is None else library),
        opened,
        open_orchestrator(orchestrator, settings) if isinstance(orchestrator, str) else orchestrator,
        DefaultSchedule(proposals=proposals),
        settings,
        concurrency=concurrency,
        seed=seed,
        audit_share=audit_share,
        limits=limits,
        samples=ensemble,
    )
    place = Path(folder) if folder else settings.home / "runs" / f"evolve-{content_id(plan.manifest)[:12]}"
    report = None if restart else finished_report(plan, place)
    if report is None:
        watch = Watch(on_event=on_event or (lambda event: None))
        report = run_plan(plan, place, watch, restart=restart, disks=(settings.home,))
    return EvolutionResult(replace(Library.load(place / CHAMPION), origin=plan.library.origin), report, place)


def make_plan(
    dataset: Dataset,
    library: Library,
    judge: Judge,
    orchestrator: Orchestrator,
    schedule: Schedule,
    settings: Settings,
    *,
    concurrency: int | None = None,
    **options: Any,
) -> Plan:
    """Make the plan of a run: adds what the measures say and the regression set.

    Args:
        dataset: The labeled examples.
        library: The starting Library.
        judge: The judge.
        orchestrator: The Orchestrator.
        schedule: The order of the search.
        settings: Where caches are.
        concurrency: Examples that are judged side by side; None for what suits the judge.
        options: Further fields of `Plan`.
    """
    if isinstance(schedule, DefaultSchedule) and not judge.uses_model:
        schedule = replace(schedule, prune_share=1.0)  # judgments cost no requests, so pruning may look at all examples
    return Plan(
        dataset,
        library,
        judge,
        orchestrator,
        schedule,
        observer(JudgmentCache(settings.home / "cache")),
        concurrency=concurrency or (MODEL_CONCURRENCY if judge.uses_model else settings.workers),
        **{"regression": regression_set(settings, MARGIN), **options},
    )


def open_orchestrator(spec: str, settings: Settings, *, images: bool = False) -> Orchestrator:
    """Open an Orchestrator.

    Args:
        spec: `builtin`, or a model as `open_judge` spells it.
        settings: The keys.
        images: Whether a model sees the images of cited examples.

    Raises:
        InputError: If the name cannot be read, or a key is missing.
    """
    if spec == BUILTIN:
        return BuiltinOrchestrator()
    keys = ModelSettings(
        api_key=settings.orchestrator_key,
        openai_key=settings.openai_key,
        gemini_key=settings.gemini_key,
        project=settings.cloud_project,
        location=settings.cloud_location,
    )
    return LLMOrchestrator(open_model(spec, keys), LLMSettings(images=images))

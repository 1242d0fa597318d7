"""The evolution job: opens what a run needs, and runs it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from rewardharness.codec import to_json
from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset, split
from rewardharness.data.values import read_data
from rewardharness.data.votes import corrected_labels, corrections_file, read_corrections
from rewardharness.errors import InputError
from rewardharness.evolution.builtin.forecast import observer
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.checkpoint import CHAMPION, CHECKPOINT
from rewardharness.evolution.config import AUDIT_SHARE, AUTO, BUILTIN, MARGIN, EvolveConfig
from rewardharness.evolution.events import Event
from rewardharness.evolution.llm_orchestrator import FOLDER, LLM, LLMOrchestrator, write_library
from rewardharness.evolution.loop import evolution_numbers, finished_report, tracked
from rewardharness.evolution.loop import evolve as run_plan
from rewardharness.evolution.plan import REQUEST_SECONDS, EvolutionPlan, RegressionSet, regression_set
from rewardharness.evolution.proposal import Orchestrator, Replies
from rewardharness.evolution.report import EvolutionReport
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.files import content_id
from rewardharness.judging.batches import expected_cost
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.config import MEASURED
from rewardharness.judging.ensemble import judges_of
from rewardharness.judging.evaluate import Executor, evaluate
from rewardharness.judging.interface import check_task
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import model_judge
from rewardharness.library.hub_files import Origin, write_origin
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.models.open import open_model
from rewardharness.prompts import Language, in_language
from rewardharness.runs.job import Progress, Session, default_folder
from rewardharness.runs.records import Recording, record_run
from rewardharness.runs.spending import UNLIMITED, Cost, SpendingLimits
from rewardharness.schema import TIE, Json
from rewardharness.settings import Settings
from rewardharness.task import IMAGE_EDIT
from rewardharness.tracking.run import track_run

TIMED = 5
"""Examples that are judged to estimate the duration."""

MODEL_CONCURRENCY = 16
"""Examples that a model judges at the same time by default."""


@dataclass(frozen=True)
class EvolutionResult:
    """Result of an evolution run."""

    library: Library
    """The evolved Library; the starting one where the evolved one does worse on held-out examples."""
    report: EvolutionReport = field(repr=False)
    """The content of `report.json`: the comparison on held-out examples, all tested edits, what was spent."""
    folder: Path
    """The run folder, which `rh runs` and the app read."""


@dataclass(frozen=True, kw_only=True)
class EvolutionJob(EvolutionPlan):
    """An evolution that is ready to run; see `runs.job.Job`."""

    folder: Path
    """The run folder; it may hold a run that is resumed."""
    settings: Settings
    """Settings of the run. Its caches are below their home folder."""
    config: EvolveConfig | None = None
    """The configuration that it was opened from; None for one of Python objects."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Values used for omitted options, for the record of the run."""
    warnings: tuple[str, ...] = ()
    """Problems of the corrections file."""

    name: ClassVar[str] = "evolve"

    @classmethod
    def open(
        cls, config: EvolveConfig, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """See `Job.open`: also opens the Orchestrator."""
        config = config.with_defaults(settings)
        dataset = open_data(
            config.data, settings, fields=config.field_map, progress=progress, skip_bad_rows=config.skip_bad_rows
        )
        file = _corrections_file(config, settings, dataset)
        corrections, warnings = corrected_labels(dataset, read_corrections(file)) if file else ({}, ())
        ties = config.ties or TIE in {*(example.preference for example in dataset.examples), *corrections.values()}
        folder = folder or settings.home / "runs" / f"evolve-{_config_id(config, dataset)}"
        opened = config
        if config.no_cache:  # a run always caches its judgments, or resuming would pay for them twice
            opened = replace(config, no_cache=False)
            settings = replace(settings, home=folder.with_name(f"{folder.name}-cache"))
        judge = open_judge(opened, settings, ties=ties)
        if judge.traits.uses_model and not judge.traits.uses_library:
            step = "Evolve with the pixel-based judge or a general model, and benchmark this one beside it."
            raise InputError(f"{judge.name} reads no Library, so nothing can be evolved for it.", next_step=step)
        return cls.of(
            dataset.first(config.limit),
            _first_library(opened, settings, dataset),
            judge,
            open_orchestrator(
                config.orchestrator,
                settings,
                images=config.orchestrator_images,
                language=config.prompt_language or "en",
            ),
            config.make_schedule(),
            settings,
            folder=folder,
            concurrency=config.concurrency,
            margin=config.regression_margin,
            seed=config.seed,
            audit_share=config.audit_share,
            limits=config.make_limits(settings),
            samples=config.ensemble,
            corrections=corrections,
            limit=config.limit,
            config=config,
            chosen={"ties": ties, "corrections": file, "cache": settings.home / "cache"},
            warnings=warnings,
        )

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        library: Library,
        judge: Judge,
        orchestrator: Orchestrator,
        schedule: Schedule,
        settings: Settings,
        *,
        concurrency: int | None = None,
        margin: float = MARGIN,
        **options: Any,
    ) -> Self:
        """Make a job of what is opened already, with its measures and regression set.

        Args:
            dataset: The labeled examples.
            library: The starting Library.
            judge: The judge.
            orchestrator: The Orchestrator.
            schedule: The order of the search.
            settings: Where caches are.
            concurrency: Examples that are judged at the same time; None for the default of the judge.
            margin: Loss that is allowed on the regression set.
            options: Further fields.

        Raises:
            InputError: If the judge or the Library is for another task than the examples.
        """
        check_task(dataset.task, judge, library)
        if isinstance(schedule, DefaultSchedule) and not judge.traits.uses_model:
            # Judgments cost no requests: nothing needs screening, and pruning may look at all examples.
            schedule = replace(schedule, prune_share=1.0, screen=False)
        return cls(
            dataset,
            library,
            judge,
            orchestrator,
            schedule,
            observer(JudgmentCache(settings.home / "cache")),
            concurrency=concurrency or (MODEL_CONCURRENCY if judge.traits.uses_model else settings.workers),
            # The pairs are edits of images.
            regression=regression_set(settings, margin) if dataset.task is IMAGE_EDIT else RegressionSet(),
            settings=settings,
            **options,
        )

    @property
    def started(self) -> bool:
        """Whether the run folder holds a run that can be resumed."""
        return (self.folder / CHECKPOINT).exists()

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected requests and tokens of the complete run, without the Orchestrator.

        Args:
            restart: Not used: the estimate does not depend on what is judged already.
            retry_failed: Not used: what failed is judged again whenever the search needs it.
        """
        pool = self.parts[0]
        usual = sum((expected_cost(judge, pool, self.library) for judge in judges_of(self.judge)), Cost())
        return replace(usual.scaled(self.estimate.expected / len(pool)), judgments=0)

    @cached_property
    def seconds(self) -> float:
        """Expected seconds of the complete run. Without a model, a few examples are judged for it."""
        work = sum(self.estimate.work.values())
        if self.judge.traits.uses_model:
            return work * self.estimate.requests * REQUEST_SECONDS / self.concurrency
        sample = self.parts[0][:TIMED]
        evaluate(self.judge, self.library, sample[:1])  # loads what judging needs
        sample = sample[1:] or sample
        measure = observer(None)  # a judgment may take no time because its measurements are cached
        ways = (lambda: evaluate(self.judge, self.library, sample), lambda: [measure(example) for example in sample])
        return work * max(map(_cpu_seconds, ways)) / len(sample) / self.concurrency

    def finished(self) -> EvolutionResult | None:
        """Return the result of a finished run; None if there is something left to do.

        Raises:
            RunError: If the folder holds another run.
        """
        report = finished_report(self, self.folder)
        return None if report is None else self._result(report)

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`. The cost estimate of a finished run is None."""
        pool, audit = self.parts
        finished = not restart and self.finished() is not None
        return {
            "folder": str(self.folder),
            "goes_on": self.started and not restart and not finished,
            "finished": finished,
            "data": self.dataset.name,
            "digest": self.dataset.digest,
            "problems": list(self.dataset.problems),
            "skipped_rows": self.dataset.skipped_json(),
            "pool": len(pool),
            "audit": len(audit),
            "corrections": len(self.corrections.keys() & {example.id for example in pool}),
            "judge": self.judge.name,
            "orchestrator": self.orchestrator.name,
            "expected": None if finished else to_json(self.estimate),
            "cost": None if finished else self.cost().priced(self.limits),
            "seconds": None if finished else round(self.seconds, 1),
            "words": [] if finished else [self.estimate.words(self.seconds), *self.cost().words(self.limits)],
        }

    def run(self, session: Session | None = None, executor: Executor | None = None) -> EvolutionResult:
        """See `Job.run`; a finished run is only read. What failed is judged again whenever the search needs it.

        Raises:
            InputError: If there are too few labeled examples, or the budget is too small.
        """
        session = session or Session()
        if not session.restart and (finished := self.finished()) is not None:
            return finished
        record = None if session.arguments is None else self._record(session.arguments)
        with track_run(session.track, self.settings) as tracking:
            session = tracked(session, tracking, self, self.folder, self.config)
            home = self.settings.home
            report = run_plan(self, self.folder, session, disks=(home,), record=record, executor=executor)
            if tracking.active:
                tracking.finish(evolution_numbers(report))
        return self._result(report)

    def _result(self, report: EvolutionReport) -> EvolutionResult:
        origin = self.library.origin
        if origin is not None:  # so that a later push knows what was changed
            write_origin(self.folder / CHAMPION, Origin(*origin))
        return EvolutionResult(replace(Library.load(self.folder / CHAMPION), origin=origin), report, self.folder)

    def _record(self, arguments: Mapping[str, Any]) -> Recording:
        dataset, judge = self.dataset, model_judge(self.judge)
        return record_run(
            arguments,
            self.settings,
            config=self.config,
            how=asdict(judge.settings) if judge else None,
            taken=dict(self.chosen),
            skipped_rows=dataset.skipped_json(),
        )


def evolve(  # noqa: PLR0913  (one argument per choice, as on the command line)
    data: Any,
    *,
    library: Library | Path | str | None = None,
    judge: Judge | str = MEASURED,
    orchestrator: Orchestrator | str = BUILTIN,
    proposals: int = 60,
    audit_share: float = AUDIT_SHARE,
    seed: int = 0,
    limits: SpendingLimits = UNLIMITED,
    ensemble: int | None = None,
    concurrency: int | None = None,
    fields: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
    restart: bool = False,
    on_event: Callable[[Event], None] | None = None,
    track: str | Sequence[str] | None = None,
    executor: Executor | None = None,
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
        track: Trackers that the run is logged to, such as `"trackio:my-project"`; None for `RH_TRACK`.
        executor: What judges, such as a `RayExecutor`; None for this process.

    Returns:
        The Library, the report and the run folder.

    Raises:
        InputError: If there are too few labeled examples, the budget is too small, or a tracker is unknown.
        RunError: If the folder holds another run, or the judge's endpoint fails. The same call resumes.
    """
    settings = Settings.from_env()
    dataset = read_data(data, settings, fields=fields)
    ties = any(example.preference == TIE for example in dataset.examples)
    opened = open_judge(judge, settings, ties=ties) if isinstance(judge, str) else judge
    job = EvolutionJob.of(
        dataset,
        open_library(settings.library if library is None else library, _instructions(dataset)),
        opened.with_ties(True) if ties else opened,
        open_orchestrator(orchestrator, settings) if isinstance(orchestrator, str) else orchestrator,
        DefaultSchedule(proposals=proposals),
        settings,
        concurrency=concurrency,
        seed=seed,
        audit_share=audit_share,
        limits=limits,
        samples=ensemble,
        folder=Path(folder or ""),
    )
    if not folder:
        job = replace(job, folder=default_folder("evolve", job.manifest, settings))
    session = Session(restart=restart, track=track, on_event=on_event or (lambda event: None))
    return job.run(session, executor)


def _first_library(config: EvolveConfig, settings: Settings, dataset: Dataset) -> Library:
    """Open the starting Library, or have it written by a model."""
    if config.library != LLM:
        return config.open_library(settings, _instructions(dataset))
    spec = config.initializer_model or config.orchestrator
    if spec == BUILTIN:
        raise InputError(
            f"--library {LLM} needs a model that writes the Library.",
            next_step="Give one with --initializer-model or --orchestrator.",
        )
    labeled = [example for example in dataset.examples if example.preference is not None]
    pool, _ = split(labeled, share=config.audit_share, seed=config.seed)
    origin = {"data": f"{dataset.name}: instructions of {len(pool)} training examples", "data_digest": dataset.digest}
    replies = Replies(settings.home / FOLDER)
    with in_language(config.prompt_language or "en"):
        return write_library(open_model(spec, _writer_settings(settings)), pool, replies, config.seed, origin)


def _instructions(dataset: Dataset) -> dict[str, str]:
    """Return the instructions by the ids that presets may name: those of source images and those of examples."""
    by_source = {example.source_id: example.instruction for example in dataset.examples if example.source_id}
    return {**by_source, **{example.id: example.instruction for example in dataset.examples}}


def open_orchestrator(
    spec: str, settings: Settings, *, images: bool = False, language: Language = "en"
) -> Orchestrator:
    """Open an Orchestrator.

    Args:
        spec: `builtin`, or a model as `open_judge` spells it.
        settings: The keys.
        images: Whether a model sees the images of cited examples.
        language: Language of the prompts.

    Raises:
        InputError: If the name cannot be read, or a key is missing.
    """
    if spec == BUILTIN:
        return BuiltinOrchestrator()
    return LLMOrchestrator(open_model(spec, _writer_settings(settings)), images=images, language=language)


def _writer_settings(settings: Settings) -> Settings:
    """Return the settings with the key of the models that write: Orchestrator and initializer."""
    return replace(settings, api_key=settings.orchestrator_key)


def _corrections_file(config: EvolveConfig, settings: Settings, dataset: Dataset) -> Path | None:
    """Return the file with corrected labels; None if there is none."""
    if config.corrections == AUTO:
        file = corrections_file(settings.home, dataset.digest)
        return file if file.exists() else None
    return Path(config.corrections) if config.corrections else None


def _config_id(config: EvolveConfig, dataset: Dataset) -> str:
    """Return the name of the default run folder: runs that cannot continue each other have different ones."""
    search = asdict(config.make_schedule())  # type: ignore[call-overload]
    parts: list[Any] = [dataset.digest, config.judge, config.protocol, config.orchestrator, config.library]
    parts += [config.initializer_model, config.prompt_language, config.limit, config.audit_share, config.ensemble]
    return content_id([*parts, config.schedule, config.seed, search])[:12]


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call: what else the machine does now may be over soon."""
    begun = time.process_time()
    work()
    return time.process_time() - begun

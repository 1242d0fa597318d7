"""`rh evolve`: grow a Library from preferences."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import WORDS, make_app
from rewardharness.cli.evolve_report import print_report, report_json, say_places
from rewardharness.cli.examples import open_examples
from rewardharness.cli.leave import ask_leave
from rewardharness.cli.options import NO_PAID_OPTIONS, PaidRunOptions, RunOptions, record_arguments
from rewardharness.cli.progress import counter, event_line
from rewardharness.data.config import DataConfig
from rewardharness.evolution.config import AUTO, EvolveConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.evolution.estimate import Estimate
    from rewardharness.evolution.events import Event
    from rewardharness.evolution.plan import Plan

INTERRUPTED = 130


app = make_app(
    "evolve",
    "Evolve a Library from labeled preferences.",
    {"Judge": JudgeConfig, "Data": DataConfig, "Run": PaidRunOptions},
    job=True,
)


@app.default
def evolve(config: Annotated[EvolveConfig, Parameter(name="*")], *, options: PaidRunOptions = NO_PAID_OPTIONS) -> int:
    """Evolve a Library from labeled preferences.

    Proposes edits, accepts those that the evidence supports, and compares the result on held-out examples. The same
    command resumes an interrupted run, also after `kill -9`.

    Example: `rh evolve demo --proposals 20`
    """
    return run(config, options, Settings.from_env())


def run(config: EvolveConfig, options: PaidRunOptions, settings: Settings) -> int:
    """Run an evolution and print its report. Returns the exit status."""
    from rewardharness.evolution.loop import Watch, evolve, finished_report
    from rewardharness.evolution.stop import Stopped
    from rewardharness.runs.records import record_run

    config = config.with_defaults(settings)
    plan, folder, settings = open_plan(config, options, settings)
    report = None if options.restart else finished_report(plan, folder)
    if report is not None:
        return _show_finished(options, plan, folder, report)
    judging = asdict(plan.judge.settings) if plan.judge.settings else None
    taken = {
        "ties": _ties(config, plan.dataset, plan.corrections),
        "corrections": _corrections_file(config, settings, plan.dataset),
    }
    record = record_run(
        record_arguments(config, options),
        settings,
        config=config,
        how=judging,
        taken={**taken, "cache": settings.home / "cache"},
        skipped_rows=plan.dataset.skipped_json(),
    )
    begun = (folder / "checkpoint.json").exists() and not options.restart
    if not begun:
        plan.check_budget()
    if not options.quiet or options.dry_run:
        _tell_cost(plan, folder, begun)
    if options.dry_run:
        if options.json:
            output.emit(_cost_json(plan, folder, begun=begun))
        return 0
    if not begun:
        _ask_leave(plan, options.yes)
    watch = Watch(on_event=_teller(options.quiet), on_progress=counter(options.quiet))
    how = "Ending after the judgments under way; Ctrl-C again ends at once."
    try:
        with watch.stop.listening(lambda: output.note(how)):
            report = evolve(plan, folder, watch, restart=options.restart, disks=(settings.home,), record=record)
    except (Stopped, KeyboardInterrupt):
        output.note(f"Stopped; nothing is lost. Go on with: {_again(options, folder)}")
        return INTERRUPTED
    if options.json:
        output.emit(report_json(report, folder))
    else:
        print_report(report, folder)
    return 0


def _show_finished(options: RunOptions, plan: "Plan", folder: Path, report: dict[str, Any]) -> int:
    """Show what came of a run that is over. Nothing is spent on it."""
    if not options.quiet or options.dry_run:
        output.note(f"The run in {folder} is complete; nothing is left to judge. --restart begins it anew.")
    if options.json:
        output.emit(_cost_json(plan, folder, finished=True) if options.dry_run else report_json(report, folder))
    elif options.dry_run:
        say_places(folder)
    else:
        print_report(report, folder)
    return 0


def open_plan(config: EvolveConfig, options: RunOptions, settings: Settings) -> tuple["Plan", Path, Settings]:
    """Open everything that a run needs, and choose its folder and cache."""
    from rewardharness.evolution.job import make_plan, open_orchestrator
    from rewardharness.evolution.regression import regression_set

    dataset = open_examples(config.data, config, settings, quiet=options.quiet)
    corrections = _corrections(config, settings, dataset, options.quiet)
    folder, config, settings = _place(config, options, settings, dataset)
    plan = make_plan(
        dataset,
        config.open_library(settings),
        config.open_judge(settings, ties=_ties(config, dataset, corrections)),
        open_orchestrator(config.orchestrator, settings, images=config.orchestrator_images),
        config.make_schedule(),
        settings,
        concurrency=config.concurrency,
        seed=config.seed,
        audit_share=config.audit_share,
        limits=config.make_limits(settings),
        samples=config.ensemble,
        regression=regression_set(settings, config.regression_margin),
        corrections=corrections,
    )
    return plan, folder, settings


def manifest_of(config: EvolveConfig, options: RunOptions, settings: Settings) -> dict[str, Any]:
    """Return the manifest that a run would have, without judging anything."""
    return open_plan(config, options, settings)[0].manifest


def _ties(config: EvolveConfig, dataset: "Dataset", corrections: Mapping[str, str]) -> bool:
    """Return whether the judge may answer `tie`: on request, and if labels have ties."""
    from rewardharness.schema import TIE

    return config.ties or TIE in {*(example.preference for example in dataset.examples), *corrections.values()}


def _place(
    config: EvolveConfig, options: RunOptions, settings: Settings, dataset: "Dataset"
) -> tuple[Path, EvolveConfig, Settings]:
    """Choose the run folder and the cache.

    A run always caches its judgments, or resuming would pay for them twice; with --no-cache the cache is its own.
    """
    from rewardharness.files import content_id

    what: list[Any] = [dataset.digest, config.judge, config.protocol, config.orchestrator, config.library]
    what += [config.schedule, config.seed]
    folder = options.run_folder or settings.home / "runs" / f"evolve-{content_id(what)[:12]}"
    if config.no_cache:
        config = replace(config, no_cache=False)
        settings = replace(settings, home=folder.with_name(f"{folder.name}-cache"))
    return folder, config, settings


def _corrections_file(config: EvolveConfig, settings: Settings, dataset: "Dataset") -> Path | None:
    """Return the file with corrected labels; None if there is none."""
    from rewardharness.data.corrections import corrections_file

    if config.corrections == AUTO:
        usual = corrections_file(settings.home, dataset.digest)
        return usual if usual.exists() else None
    return Path(config.corrections) if config.corrections else None


def _corrections(config: EvolveConfig, settings: Settings, dataset: "Dataset", quiet: bool) -> dict[str, str]:
    """Return corrected labels by id of the example."""
    from rewardharness.data.corrections import corrected_labels, read_corrections

    file = _corrections_file(config, settings, dataset)
    if file is None:
        return {}
    right, problems = corrected_labels(dataset, read_corrections(file))
    for problem in () if quiet else problems:
        output.note(problem)
    return right


def _tell_cost(plan: "Plan", folder: Path, begun: bool) -> None:
    """Say what is going to be spent."""
    pool, audit = plan.parts
    output.note(
        f"{plan.dataset.name}: {len(pool)} examples to learn from, {len(audit)} put aside for the audit. "
        f"Judge {plan.judge.name}; Orchestrator {plan.orchestrator.name}; schedule {plan.schedule.name}."
    )
    output.note(f"Run folder: {folder}{' (goes on)' if begun else ''}")
    output.note(_cost_words(plan.estimate))
    if not _is_builtin(plan):
        output.note(f"The requests to the Orchestrator {plan.orchestrator.name} come on top.")


def _cost_json(plan: "Plan", folder: Path, *, begun: bool = False, finished: bool = False) -> dict[str, Any]:
    """What is going to be spent, and on what, for programs; nothing is on a run that is finished."""
    pool, audit = plan.parts
    return {
        "folder": str(folder),
        "goes_on": begun,
        "finished": finished,
        "data": plan.dataset.name,
        "digest": plan.dataset.digest,
        "problems": list(plan.dataset.problems),
        "skipped_rows": plan.dataset.skipped_json(),
        "pool": len(pool),
        "audit": len(audit),
        "corrections": len(plan.corrections.keys() & {example.id for example in pool}),
        "judge": plan.judge.name,
        "orchestrator": plan.orchestrator.name,
        "expected": None if finished else plan.estimate.to_json(),
    }


def _cost_words(cost: "Estimate") -> str:
    parts = [f"{cost.begin} to begin with", f"about {cost.search} to try edits (at most {cost.most})"]
    parts += [f"{cost.audit} for the audit"]
    parts += [f"{cost.regression} for the regression set"] if cost.regression else []
    parts += [f"{cost.ensemble} for the comparison with self-ensembling (--ensemble 0: none)"] if cost.ensemble else []
    words = f"Expected: about {cost.expected} judgments: {', '.join(parts)}."
    if not cost.requests:
        return f"{words} No model judges, so they cost time alone."
    requests = "one request" if cost.requests == 1 else f"{cost.requests} requests"
    return f"{words} Each takes at least {requests} to the model; more where it calls Tools."


def _ask_leave(plan: "Plan", yes: bool) -> None:
    ask_leave(bool(plan.estimate.requests) or not _is_builtin(plan), yes, "Set a smaller budget")


def _is_builtin(plan: "Plan") -> bool:
    """Whether the Orchestrator asks no model."""
    return plan.orchestrator.name.startswith("built-in")


def _teller(quiet: bool) -> "Any":
    """Tells events on standard error."""
    from rewardharness.evolution.events import Rested

    def tell(event: "Event") -> None:
        line = event_line(event)
        if line and not quiet and not isinstance(event, Rested):  # why it rests is what the command ends with
            output.note(line)

    return tell


def _again(options: RunOptions, folder: Path) -> str:
    """The command that goes on."""
    words = [word for word in WORDS.get() if word != "--restart"]
    if options.run_folder is None and "--run" not in words:
        words += ["--run", str(folder)]
    return "rh " + shlex.join(words)

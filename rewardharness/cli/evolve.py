"""`rh evolve`: grow a Library from preferences."""

import argparse
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.counts import positive
from rewardharness.cli.evolve_report import print_report, report_json, say_places
from rewardharness.cli.examples import DATA_HELP, add_fields, open_examples
from rewardharness.cli.judging import add_options, make_judge
from rewardharness.cli.leave import ask_leave
from rewardharness.cli.progress import counter, event_line
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.evolution.estimate import Estimate
    from rewardharness.evolution.events import Event
    from rewardharness.evolution.plan import Plan
    from rewardharness.evolution.schedules import Schedule
    from rewardharness.evolution.stop import Limits

BUILTIN = "builtin"
"""Spelling of the Orchestrator that needs no model."""

INTERRUPTED = 130


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("evolve", help="grow a Library from preferences", description=evolve.__doc__)
    parser.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help=f"labelled examples: {DATA_HELP}",
    )
    parser.add_argument(
        "--orchestrator",
        default=BUILTIN,
        metavar="MODEL",
        help=f"who proposes edits: `{BUILTIN}` (default: rules, no model) or a model, spelled as a judge is",
    )
    parser.add_argument(
        "--orchestrator-images", action="store_true", help="show it the images of cited examples (models that see)"
    )
    add_fields(parser)
    add_options(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--schedule",
        choices=("default", "paper"),
        default="default",
        help="ours, or the paper's loop, which has no error control",
    )
    group.add_argument("--proposals", type=positive, default=60, metavar="N", help="edits to try (default: 60)")
    group.add_argument("--iterations", type=positive, default=4, metavar="N", help="iterations of `paper` (default: 4)")
    group.add_argument(
        "--batch", type=positive, default=2, metavar="N", help="examples judged between two looks at the evidence"
    )
    group.add_argument("--refresh", action="store_true", help="look twice at what an accepted edit flips (models)")
    group.add_argument("--seed", type=int, default=0, help="the same seed gives the same result (default: 0)")
    group.add_argument(
        "--corrections",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FILE",
        help="learn from labels that were corrected in the app; without FILE: those of this data, if there are any",
    )
    group.add_argument("--audit-share", type=float, default=0.25, metavar="X", help="put aside for the audit (0.25)")
    group.add_argument(
        "--ensemble", type=int, metavar="K", help="self-ensembling to compare with: K times; 0: none; default: as dear"
    )
    group.add_argument(
        "--regression-margin",
        type=float,
        default=0.05,
        metavar="X",
        help="accuracy that the result may lose on 100 drawn pairs with known faults (0.05)",
    )
    _add_budget(parser)
    run = parser.add_argument_group("run")
    run.add_argument("--run", dest="run_folder", type=Path, metavar="DIR", help="where the run is kept and resumed")
    run.add_argument("--restart", action="store_true", help="begin the run anew; what it holds is put aside")
    run.add_argument("--concurrency", type=positive, metavar="N", help="examples under way at once")
    run.add_argument("--yes", action="store_true", help="do not ask before spending")
    run.add_argument("--dry-run", action="store_true", help="say what it would cost, and do nothing")
    run.add_argument("--json", action="store_true", help="print the report, or the cost, as one JSON object")
    run.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=evolve)


def _add_budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("budget of the search (the audit comes on top)")
    group.add_argument(
        "--budget-calls", type=int, metavar="N", help="judgments at most; one is one example under one context"
    )
    group.add_argument("--budget-tokens", type=int, metavar="N", help="tokens at most, judge and Orchestrator together")
    group.add_argument("--budget-seconds", type=float, metavar="S", help="seconds at most")
    group.add_argument("--budget-money", type=float, metavar="X", help="money at most; needs prices")
    group.add_argument(
        "--price", type=float, nargs=2, metavar=("IN", "OUT"), help="the judge's prices per million tokens"
    )
    group.add_argument(
        "--orchestrator-price", type=float, nargs=2, metavar=("IN", "OUT"), help="the Orchestrator's prices"
    )


def evolve(arguments: argparse.Namespace, settings: Settings) -> int:
    """Evolve a Library from labelled examples: propose edits, keep those that held-out preferences speak for.

    Resumable: the same command goes on where it stopped, also after `kill -9`. Ends with an audit on examples that
    nothing was decided on.
    """
    from rewardharness.evolution.loop import Watch, evolve, finished_report
    from rewardharness.evolution.stop import Stopped
    from rewardharness.runs.records import record_run

    given = argparse.Namespace(**vars(arguments))
    plan, folder, settings = open_plan(arguments, settings)
    report = None if arguments.restart else finished_report(plan, folder)
    if report is not None:
        return _show_finished(arguments, plan, folder, report)
    judging = asdict(plan.judge.settings) if plan.judge.settings else None
    library = arguments.library or settings.library
    taken = {"ties": arguments.ties, "corrections": arguments.corrections, "cache": settings.home / "cache"}
    skipped = plan.dataset.skipped_json()
    record = record_run(vars(given), settings, library=library, how=judging, taken=taken, skipped_rows=skipped)
    begun = (folder / "checkpoint.json").exists() and not arguments.restart
    if not begun:
        plan.check_budget()
    if not arguments.quiet or arguments.dry_run:
        _tell_cost(plan, folder, begun)
    if arguments.dry_run:
        if arguments.json:
            output.emit(_cost_json(plan, folder, begun=begun))
        return 0
    if not begun:
        _ask_leave(plan, arguments.yes)
    watch = Watch(on_event=_teller(arguments.quiet), on_progress=counter(arguments.quiet))
    how = "Ending after the judgments under way; Ctrl-C again ends at once."
    try:
        with watch.stop.listening(lambda: output.note(how)):
            report = evolve(plan, folder, watch, restart=arguments.restart, disks=(settings.home,), record=record)
    except (Stopped, KeyboardInterrupt):
        output.note(f"Stopped; nothing is lost. Go on with: {_again(arguments, folder)}")
        return INTERRUPTED
    if arguments.json:
        output.emit(report_json(report, folder))
    else:
        print_report(report, folder)
    return 0


def _show_finished(arguments: argparse.Namespace, plan: "Plan", folder: Path, report: dict[str, Any]) -> int:
    """Show what came of a run that is over. Nothing is spent on it."""
    if not arguments.quiet or arguments.dry_run:
        output.note(f"The run in {folder} is complete; nothing is left to judge. --restart begins it anew.")
    if arguments.json:
        output.emit(_cost_json(plan, folder, finished=True) if arguments.dry_run else report_json(report, folder))
    elif arguments.dry_run:
        say_places(folder)
    else:
        print_report(report, folder)
    return 0


def open_plan(arguments: argparse.Namespace, settings: Settings) -> tuple["Plan", Path, Settings]:
    """Open everything that a run is about; choose where it is kept, and where answers are remembered."""
    dataset = open_examples(arguments.data, arguments, settings)
    corrections = _corrections(arguments, settings, dataset)
    folder, settings = _place(arguments, settings, dataset)
    return _make_plan(arguments, settings, dataset, corrections), folder, settings


def manifest_of(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Say what `rh evolve` would be about, without judging anything."""
    return open_plan(arguments, settings)[0].manifest


def _place(arguments: argparse.Namespace, settings: Settings, dataset: "Dataset") -> tuple[Path, Settings]:
    """Choose the run folder, and where answers are remembered.

    A run always remembers its answers, or resuming would pay for them twice; with --no-cache it keeps them to itself.
    """
    from rewardharness.files import content_id

    what = [dataset.digest, arguments.judge, arguments.protocol, arguments.orchestrator, arguments.library]
    what += [arguments.schedule, arguments.seed]
    folder = arguments.run_folder or settings.home / "runs" / f"evolve-{content_id(what)[:12]}"
    if arguments.no_cache:
        arguments.no_cache = False
        settings = replace(settings, home=folder.with_name(f"{folder.name}-cache"))
    return folder, settings


def _make_plan(
    arguments: argparse.Namespace, settings: Settings, dataset: "Dataset", corrections: dict[str, str]
) -> "Plan":
    from rewardharness.evolution.job import make_plan, open_orchestrator
    from rewardharness.evolution.regression import regression_set
    from rewardharness.library.opening import open_library
    from rewardharness.schema import TIE

    labels = [*(example.preference for example in dataset.examples), *corrections.values()]
    arguments.ties = arguments.ties or TIE in labels
    return make_plan(
        dataset,
        open_library(arguments.library or settings.library),
        make_judge(arguments, settings),
        open_orchestrator(arguments.orchestrator, settings, images=arguments.orchestrator_images),
        _make_schedule(arguments),
        settings,
        concurrency=arguments.concurrency,
        seed=arguments.seed,
        audit_share=arguments.audit_share,
        limits=_make_limits(arguments, settings),
        samples=arguments.ensemble,
        regression=regression_set(settings, arguments.regression_margin),
        corrections=corrections,
    )


def _corrections(arguments: argparse.Namespace, settings: Settings, dataset: "Dataset") -> dict[str, str]:
    """Labels that a person has corrected, by id of the example."""
    from rewardharness.data.corrections import corrected_labels, corrections_file, read_corrections

    if arguments.corrections == Path():
        usual = corrections_file(settings.home, dataset.digest)
        arguments.corrections = usual if usual.exists() else None
    if arguments.corrections is None:
        return {}
    right, problems = corrected_labels(dataset, read_corrections(arguments.corrections))
    for problem in () if arguments.quiet else problems:
        output.note(problem)
    return right


def _make_schedule(arguments: argparse.Namespace) -> "Schedule":
    from rewardharness.evolution.paper import PaperSchedule
    from rewardharness.evolution.schedules import DefaultSchedule

    if arguments.schedule == "paper":
        return PaperSchedule(iterations=arguments.iterations)
    schedule = DefaultSchedule(proposals=arguments.proposals, batch=arguments.batch, refresh=arguments.refresh)
    # Where judgments cost no request, pruning may look at everything.
    return replace(schedule, prune_share=1.0) if arguments.judge == "measured" else schedule


def _make_limits(arguments: argparse.Namespace, settings: Settings) -> "Limits":
    from rewardharness.evolution.stop import Budget, Limits, Price

    price = Price(*(arguments.price or (settings.price_input, settings.price_output)))
    other = Price(*(arguments.orchestrator_price or (None, None)))
    for name in ("budget_calls", "budget_tokens", "budget_seconds", "budget_money"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value} allows nothing.", next_step="Give a number above 0.")
    if arguments.budget_money is not None:
        unknown = [name for name, each in (("--price", price), ("--orchestrator-price", other)) if each.input is None]
        if arguments.orchestrator == BUILTIN:
            unknown = [name for name in unknown if name == "--price"]
        if unknown:
            raise InputError(
                f"A budget of money cannot be kept without knowing prices: {', '.join(unknown)}.",
                next_step="Give the prices per million tokens, or another budget.",
            )
    budget = Budget(arguments.budget_calls, arguments.budget_tokens, arguments.budget_seconds, arguments.budget_money)
    return Limits(budget, price, other)


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


def _again(arguments: argparse.Namespace, folder: Path) -> str:
    """The command that goes on."""
    words = [word for word in arguments.words if word != "--restart"]
    if arguments.run_folder is None and "--run" not in words:
        words += ["--run", str(folder)]
    return "rh " + shlex.join(words)

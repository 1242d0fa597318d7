"""`rh benchmark reproduce`: the experiments of the paper, each step an `rh` command."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import within
from rewardharness.cli.output import INTERRUPTED, NOT_JUDGED
from rewardharness.codec import to_json
from rewardharness.errors import InputError, RunError, shell
from rewardharness.ranges import Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.numbers import Number
    from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow

PAPER_DATA = "AgPerry/EditReward-Data-100"
"""The preferences that the paper evolves its Library from."""

PAPER_TASKS = ("editreward-bench", "genai-bench")
"""The benchmarks of its main table."""

PLAN = "reproduce.json"
TABLE = "reproduce.md"
SMOKE_PAIRS = 100
SMOKE_SEED = 20260
"""Seed of the test data of a smoke run: other pictures than the training data."""


@dataclass(frozen=True)
class ReproduceStep:
    """One step: a command, and the file that shows that it is done."""

    name: str
    words: tuple[str, ...]
    done: Path | None = None
    """File that the command writes last, as JSON. None: the step is always run."""

    @property
    def line(self) -> str:
        """The command as text."""
        return shell("rh {}", self.words)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Options of `rh benchmark reproduce`."""

    judge: str | None = None
    """Model judge, as vllm:NAME@URL, openai:NAME@URL or gemini:NAME (default: RH_JUDGE)."""
    orchestrator: str | None = None
    """Model that proposes edits, or builtin (default: the judge)."""
    data: str = PAPER_DATA
    """Preferences."""
    library: str = "builtin"
    """Library that evolution starts from."""
    schedule: Literal["default", "paper"] = "default"
    """Schedule and acceptance test: ours, or the paper's."""
    tasks: str = ",".join(PAPER_TASKS)
    """Benchmarks, separated by commas."""
    limit: Annotated[int | None, within("limit", Range(1))] = None
    """Size of a sample of each benchmark (default: all)."""
    budget_calls: Annotated[int | None, within("budget-calls", Range(1))] = None
    """Maximum number of judgments of the evolution."""
    seed: int = 0
    """Seed of the evolution and of samples."""
    run_folder: Annotated[Path | None, Parameter(name="--run")] = None
    """Folder where everything is stored and resumed."""
    smoke: bool = False
    """Use generated data and the pixel-based judge: minutes on a laptop, no model, no key."""
    pairs: Annotated[int, within("pairs", Range(8))] = SMOKE_PAIRS
    """With --smoke: number of generated pairs."""
    dry_run: bool = False
    """Print the commands, and do nothing."""
    yes: bool = False
    """Do not ask before spending."""
    json: bool = False
    """Print the table as one JSON object."""


_DEFAULT = ReproduceOptions()


def reproduce(*, options: ReproduceOptions = _DEFAULT) -> int:
    """Reproduce the paper: check, data, evolution, benchmarks, and a table.

    The table compares the evolved Library, the starting Library and, for a model, no Library, with the same judge. Each
    step is printed as its command. The same command resumes an interrupted reproduction.

    Example: `rh benchmark reproduce --smoke`
    """
    settings = Settings.from_env()
    folder = options.run_folder or settings.home / "runs" / ("reproduce-smoke" if options.smoke else "reproduce")
    plan = _plan(replace(options, judge=options.judge or settings.judge))
    steps = _smoke(folder, plan) if options.smoke else _whole(folder, plan)
    for number, step in enumerate(steps, 1):
        state = "(done)" if _is_done(step) else ""
        output.note(f"{number}/{len(steps)} {step.name}: {step.line} {state}".rstrip())
    if options.dry_run:
        output.say(f"Nothing was done. Results would be stored in {folder}.")
        return 0
    _keep_plan(folder, plan)
    for number, step in enumerate(steps, 1):
        if _is_done(step):
            continue
        output.note(f"{number}/{len(steps)} {step.name} ...")
        status = _run_step(step)
        if status == INTERRUPTED:
            output.note("Stopped; all results are stored. The same command resumes.")
            return status
        if status not in (0, NOT_JUDGED):
            raise RunError(
                f"The step `{step.name}` failed (status {status}); its error is printed above.",
                next_step="Correct the cause, then run the same command again: it resumes with this step.",
            )
    return _print_table(folder, steps, options.json)


def _plan(options: ReproduceOptions) -> dict[str, Any]:
    """Return what must not change when the run is resumed."""
    if options.smoke:
        return {"smoke": True, "seed": options.seed, "pairs": options.pairs}
    if options.judge in (None, "measured"):
        raise InputError(
            "The paper needs a model judge.",
            next_step="Name it, as in --judge vllm:NAME@http://127.0.0.1:8000/v1, or try --smoke.",
        )
    tasks = [name.strip() for name in options.tasks.split(",") if name.strip()]
    if not tasks:
        raise InputError("No benchmark is named.", next_step=f"Give --tasks, as in {','.join(PAPER_TASKS)}.")
    named = ("judge", "data", "library", "schedule", "limit", "budget_calls", "seed")
    kept = {name: getattr(options, name) for name in named}
    return {**kept, "smoke": False, "orchestrator": options.orchestrator or options.judge, "tasks": tasks}


def _keep_plan(folder: Path, plan: dict[str, Any]) -> None:
    from rewardharness.files import read_json, write_json

    if not (folder / PLAN).exists():
        write_json(folder / PLAN, plan)
    known = read_json(folder / PLAN)
    differing = sorted(key for key in {*known, *plan} if known.get(key) != plan.get(key))
    if differing:
        problem = f"{folder} was started with other options: {', '.join(differing)}."
        raise RunError(problem, next_step="Choose another folder with --run.")


def _whole(folder: Path, plan: dict[str, Any]) -> list[ReproduceStep]:
    judge, seed = ("--judge", plan["judge"]), ("--seed", str(plan["seed"]))
    evolve = ["evolve", "--data", plan["data"], *judge, "--orchestrator", plan["orchestrator"]]
    evolve += ["--library", plan["library"], "--schedule", plan["schedule"], *seed]
    evolve += ["--budget-calls", str(plan["budget_calls"])] if plan["budget_calls"] else []
    limit = ["--limit", str(plan["limit"])] if plan["limit"] else []
    steps = [
        ReproduceStep("check the installation and the judge", ("doctor", *judge)),
        ReproduceStep("data", ("data", "show", plan["data"])),
        _evolve(folder, evolve),
    ]
    for task in plan["tasks"]:
        steps += _benchmarks(folder, task, task, plan["library"], [*judge, *limit, *seed])
    return steps


def _smoke(folder: Path, plan: dict[str, Any]) -> list[ReproduceStep]:
    """Return the steps on generated data. The starting Library lacks every second criterion of the built-in one."""
    data, exam, start = (str(folder / name) for name in ("data", "exam", "start"))
    seed, judge = ("--seed", str(plan["seed"])), ("--judge", "measured")
    drawn = ("--pairs", str(plan["pairs"]), "--groups", "0")
    copied = ("library", "new", start, "--copy", "builtin", "--thin")
    return [
        ReproduceStep("check", ("doctor",)),
        ReproduceStep("training data", ("data", "demo", data, *drawn, *seed), folder / "data" / "made_by.json"),
        ReproduceStep(
            "test data", ("data", "demo", exam, *drawn, "--seed", str(SMOKE_SEED)), folder / "exam" / "made_by.json"
        ),
        ReproduceStep("starting Library", copied, folder / "start" / "registry.json"),
        _evolve(folder, ["evolve", "--data", data, *judge, "--orchestrator", "builtin", "--library", start, *seed]),
        *_benchmarks(folder, "demonstration", exam, start, judge),
    ]


def _evolve(folder: Path, command: Sequence[str]) -> ReproduceStep:
    run = folder / "evolution"
    return ReproduceStep("evolve", (*command, "--run", str(run), "--yes"), run / "report.json")


def _benchmarks(folder: Path, name: str, task: str, start: str, options: Sequence[str]) -> list[ReproduceStep]:
    """Return benchmarks of the evolved Library, with no Library for comparison, and of the starting Library."""
    evolved = str(folder / "evolution" / "library")
    steps = []
    for title, library, more in (("evolved", evolved, ()), ("starting", start, ("--no-baseline",))):
        run = folder / f"{name}-{title}"
        command = ("benchmark", "run", task, "--library", library, *options, *more, "--run", str(run), "--yes")
        steps.append(ReproduceStep(f"benchmark {name}, {title} Library", command, run / "report.json"))
    return steps


def _is_done(step: ReproduceStep) -> bool:
    return step.done is not None and step.done.is_file()


def _run_step(step: ReproduceStep) -> int:
    """Run the command. Its output goes to standard error, as standard output has the table only.

    It runs in its own process group, so that a signal reaches it once, through this process, whether a terminal or
    another process sent it.
    """
    process: subprocess.Popen[bytes] | None = None
    asked = False

    def end(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        if process is not None:
            process.send_signal(signal.SIGINT)  # upon which commands stop cleanly

    # Before the step starts: a signal in between must not leave a step without a parent.
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "rewardharness", *step.words],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            process_group=0,
        )
        if asked:
            process.send_signal(signal.SIGINT)
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return INTERRUPTED if asked else status


def _print_table(folder: Path, steps: Sequence[ReproduceStep], as_json: bool) -> int:
    """Write and print the table of the results."""
    from rewardharness.benchmark.result import parse_result
    from rewardharness.files import read_json, write_text

    rows: list[dict[str, Any]] = []
    published: list[dict[str, Any]] = []
    for step in steps:
        if step.words[0] != "benchmark" or step.done is None:
            continue
        result = parse_result(read_json(step.done))
        title = step.name.rpartition(", ")[2]
        for row in result.rows:
            library = "no Library" if row.library == "no Library" else title
            rows += [_number(result, row, library, number) for number in row.numbers]
        if not title.startswith("starting"):
            published += [{**to_json(number), "task": result.task.name} for number in result.published]
    rows.sort(key=lambda row: (row["task"], row["part"], row["metric"]))
    columns = ("task", "part", "metric", "library", "shown", "n", "judged", "protocol")
    headings = ("benchmark", "part", "metric", "Library", "value [95% CI]", "n", "judged", "protocol")
    lines = [headings, ("---",) * 8, *([row[name] for name in columns] for row in rows)]
    write_text(folder / TABLE, "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in lines))
    if as_json:
        output.emit({"rows": rows, "published": published, "folder": str(folder)})
        return 0
    table_rows = [
        (
            f"{row['task']} {row['part']}: {row['metric']}",
            row["library"],
            row["shown"],
            f"{row['judged']} of {row['n']}",
        )
        for row in rows
    ]
    output.table(("benchmark, part, metric", "Library", "value [95% CI]", "judged"), table_rows)
    for who in dict.fromkeys(f"Judge: {row['judge']}, protocol: {row['protocol']}" for row in rows):
        output.say(who)
    beside = "Reports with published numbers" if published else "Reports"
    output.say(f"No decision of the evolution used these examples. {beside}: {folder}")
    return 0


def _number(result: "BenchmarkResult", row: "BenchmarkRow", library: str, number: "Number") -> dict[str, Any]:
    return {
        "task": result.task.name,
        "part": number.part,
        "metric": number.name,
        "library": library,
        "value": number.value,
        "interval": number.interval,
        "shown": output.share(number.value, number.interval),
        "n": number.n,
        "judged": number.judged,
        "judge": row.name,
        "protocol": f"{result.protocol}; {row.protocol}",
    }

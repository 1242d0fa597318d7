"""`rh reproduce`: the whole path of the paper, each step an `rh` command that can be given alone."""

import argparse
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardharness.cli import output
from rewardharness.cli.counts import positive
from rewardharness.errors import InputError, RunError
from rewardharness.settings import Settings

PAPER_DATA = "AgPerry/EditReward-Data-100"
"""The preferences that the paper evolves its Library from."""

PAPER_TASKS = ("editreward-bench", "genai-bench")
"""The benchmarks of its main table."""

PLAN = "reproduce.json"
TABLE = "reproduce.md"
SMOKE_PAIRS = 100
SMOKE_SEED = 20260
"""Seed of the demonstration set that a smoke run is measured on: other pictures than those it learns from."""

INTERRUPTED = 130
NOT_JUDGED = 3


@dataclass(frozen=True)
class Step:
    """One step: a command, and the file by which it is known to be done."""

    name: str
    words: tuple[str, ...]
    done: Path | None = None
    """Written last by the command, as JSON. None: the step is taken each time."""

    @property
    def line(self) -> str:
        """The command as one would type it."""
        return shlex.join(["rh", *self.words])


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "reproduce",
        help="the paper's path: check, data, serve, evolve, benchmark, table",
        description=reproduce.__doc__,
    )
    parser.add_argument("--judge", metavar="JUDGE", help="vllm:NAME@URL, openai:NAME@URL or gemini:NAME")
    parser.set_defaults(judge_from_settings=True)
    parser.add_argument("--orchestrator", metavar="MODEL", help="who proposes edits: `builtin`, or spelled as a judge")
    parser.add_argument("--data", default=PAPER_DATA, metavar="DATA", help=f"preferences (default: {PAPER_DATA})")
    parser.add_argument("--library", metavar="LIBRARY", help="where evolution starts (default: the built-in Library)")
    parser.add_argument(
        "--schedule", choices=("default", "paper"), default="default", help="ours, or the paper's loop and gate"
    )
    parser.add_argument("--tasks", default=",".join(PAPER_TASKS), metavar="LIST", help="benchmarks, with commas")
    parser.add_argument("--limit", type=positive, metavar="N", help="a sample of N of each benchmark")
    parser.add_argument("--budget-calls", type=int, metavar="N", help="judgments of the evolution at most")
    parser.add_argument("--seed", type=int, default=0, help="of the evolution and of samples (default: 0)")
    parser.add_argument(
        "--run", dest="run_folder", type=Path, metavar="DIR", help="where everything is kept, resumably"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="drawn data and the measured judge: minutes on a laptop, no model, no key"
    )
    parser.add_argument(
        "--pairs", type=int, default=SMOKE_PAIRS, metavar="N", help=f"with --smoke: pairs to draw ({SMOKE_PAIRS})"
    )
    parser.add_argument("--dry-run", action="store_true", help="say which commands it would give, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask before spending")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    parser.set_defaults(run=reproduce)


def reproduce(arguments: argparse.Namespace, settings: Settings) -> int:
    """Go the whole path of the paper: check, data, a judge that is served, evolution, benchmarks.

    Ends with one table: the evolved Library, the starting one and, for a model, no Library, for the same judge.
    Resumable. Each step is printed as the command that it is. --smoke goes the same path with drawn data and without
    any model.
    """
    folder = arguments.run_folder or settings.home / "runs" / ("reproduce-smoke" if arguments.smoke else "reproduce")
    plan = _plan(arguments)
    steps = _smoke(folder, plan) if arguments.smoke else _whole(folder, plan)
    for number, step in enumerate(steps, 1):
        state = "done before" if _is_done(step) else ""
        output.note(f"{number}/{len(steps)} {step.name}: {step.line} {state}".rstrip())
    if arguments.dry_run:
        output.say(f"Nothing was done. Everything would be kept in {folder}.")
        return 0
    _keep_plan(folder, plan)
    for number, step in enumerate(steps, 1):
        if _is_done(step):
            continue
        output.note(f"{number}/{len(steps)} {step.name} ...")
        status = _take(step)
        if status == INTERRUPTED:
            output.note("Stopped; nothing is lost. The same command goes on.")
            return status
        if status not in (0, NOT_JUDGED):
            raise RunError(
                f"The step `{step.name}` did not succeed (status {status}); its own words stand above.",
                next_step="Mend that, then give the same command again: it goes on from here.",
            )
    return _tell(folder, steps, arguments.json)


def _plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """What must not change while it goes on."""
    if arguments.smoke:
        if arguments.pairs < 8:
            raise InputError(f"--pairs {arguments.pairs} are too few to evolve from.", next_step="Give 8 or more.")
        return {"smoke": True, "seed": arguments.seed, "pairs": arguments.pairs}
    judge = arguments.judge
    if judge in (None, "measured"):
        raise InputError(
            "The paper's path needs a model that judges.",
            next_step="Name it, as in --judge vllm:NAME@http://127.0.0.1:8000/v1, or try --smoke.",
        )
    tasks = [name.strip() for name in arguments.tasks.split(",") if name.strip()]
    if not tasks:
        raise InputError("No benchmark is named.", next_step=f"Give --tasks, as in {','.join(PAPER_TASKS)}.")
    return {
        "smoke": False,
        "judge": judge,
        "orchestrator": arguments.orchestrator or judge,
        "data": arguments.data,
        "library": arguments.library or "builtin",
        "schedule": arguments.schedule,
        "tasks": tasks,
        "limit": arguments.limit,
        "budget_calls": arguments.budget_calls,
        "seed": arguments.seed,
    }


def _keep_plan(folder: Path, plan: dict[str, Any]) -> None:
    from rewardharness.files import read_json, write_json

    if (folder / PLAN).exists():
        known = read_json(folder / PLAN)
        differing = sorted(key for key in {*known, *plan} if known.get(key) != plan.get(key))
        if differing:
            raise RunError(
                f"{folder} was begun otherwise: {', '.join(differing)}.", next_step="Choose another folder with --run."
            )
        return
    write_json(folder / PLAN, plan)


def _whole(folder: Path, plan: dict[str, Any]) -> list[Step]:
    judge, seed = ("--judge", plan["judge"]), ("--seed", str(plan["seed"]))
    evolve = ["evolve", "--data", plan["data"], *judge, "--orchestrator", plan["orchestrator"]]
    evolve += ["--library", plan["library"], "--schedule", plan["schedule"], *seed]
    evolve += ["--budget-calls", str(plan["budget_calls"])] if plan["budget_calls"] else []
    limit = ["--limit", str(plan["limit"])] if plan["limit"] else []
    steps = [
        Step("check, and see that the judge is served", ("doctor", *judge)),
        Step("data", ("data", "show", plan["data"])),
        _evolve(folder, evolve),
    ]
    for task in plan["tasks"]:
        steps += _benchmarks(folder, task, task, plan["library"], [*judge, *limit, *seed])
    return steps


def _smoke(folder: Path, plan: dict[str, Any]) -> list[Step]:
    """The same path on drawn data. The starting Library lacks every second criterion of the built-in one."""
    data, exam, start = (str(folder / name) for name in ("data", "exam", "start"))
    seed = ("--seed", str(plan["seed"]))
    drawn = ("--pairs", str(plan["pairs"]), "--groups", "0")
    judge = ["--judge", "measured"]
    evolve = ["evolve", "--data", data, *judge, "--orchestrator", "builtin", "--library", start, *seed]
    return [
        Step("check", ("doctor",)),
        Step("data to learn from", ("demo-data", data, *drawn, *seed), Path(data) / "made_by.json"),
        Step("data to measure on", ("demo-data", exam, *drawn, "--seed", str(SMOKE_SEED)), Path(exam) / "made_by.json"),
        Step(
            "a Library that knows half",
            ("library", "new", start, "--copy", "builtin", "--thin"),
            Path(start) / "registry.json",
        ),
        _evolve(folder, evolve),
        *_benchmarks(folder, "demonstration", exam, start, judge),
    ]


def _evolve(folder: Path, words: Sequence[str]) -> Step:
    run = folder / "evolution"
    return Step("evolve", (*words, "--run", str(run), "--yes"), run / "report.json")


def _benchmarks(folder: Path, name: str, task: str, start: str, how: Sequence[str]) -> list[Step]:
    """The evolved Library with the same judge without one, and the starting Library."""
    evolved = str(folder / "evolution" / "library")
    found = []
    for title, library, more in (("evolved", evolved, ()), ("starting", start, ("--no-baseline",))):
        run = folder / f"{name}-{title}"
        words = ("benchmark", "run", task, "--library", library, *how, *more, "--run", str(run), "--yes")
        found.append(Step(f"benchmark {name}, {title} Library", words, run / "report.json"))
    return found


def _is_done(step: Step) -> bool:
    return step.done is not None and step.done.is_file()


def _take(step: Step) -> int:
    """Give the command. What it prints goes to standard error: the table alone is our output.

    It runs in a process group of its own, so that a request to end reaches it once, from here, whether it came from a
    terminal or was sent to this process alone.
    """
    process: subprocess.Popen[bytes] | None = None
    asked = False

    def end(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        if process is not None:
            process.send_signal(signal.SIGINT)  # upon which commands end cleanly

    # Before the step begins: whoever asks for an end in between must not leave a step behind that nobody waits for.
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


def _tell(folder: Path, steps: Sequence[Step], as_json: bool) -> int:
    """Put the results into one table."""
    from rewardharness.files import write_text

    rows, published = [], []
    for step in steps:
        if step.words[0] != "benchmark" or step.done is None:
            continue
        result = json.loads(step.done.read_text(encoding="utf-8"))
        title = step.name.rpartition(", ")[2]
        for row in result["rows"]:
            library = "no Library" if row["library"] == "no Library" else title
            rows += [_number(result, row, library, number) for number in row["numbers"]]
        published += (
            [] if title.startswith("starting") else [{**each, "task": _name(result)} for each in result["published"]]
        )
    rows.sort(key=lambda row: (row["task"], row["part"], row["metric"]))
    lines = [
        "| benchmark | part | metric | Library | value [95 % interval] | n | judged | protocol |",
        "|" + "---|" * 8,
    ]
    lines += [
        f"| {row['task']} | {row['part']} | {row['metric']} | {row['library']} | {row['shown']} | {row['n']} "
        f"| {row['judged']} | {row['protocol']} |"
        for row in rows
    ]
    write_text(folder / TABLE, "\n".join(lines) + "\n")
    if as_json:
        output.emit({"rows": rows, "published": published, "folder": str(folder)})
        return 0
    output.table(
        ("benchmark, part, metric", "Library", "value [95 % interval]", "judged"),
        [
            (
                f"{row['task']} {row['part']}: {row['metric']}",
                row["library"],
                row["shown"],
                f"{row['judged']} of {row['n']}",
            )
            for row in rows
        ],
    )
    for who in dict.fromkeys(f"Judge: {row['judge']}, protocol: {row['protocol']}" for row in rows):
        output.say(who)
    beside = "Reports, with published numbers beside ours" if published else "Reports"
    output.say(f"Gates never looked at these examples. {beside}: {folder}")
    return 0


def _number(result: dict[str, Any], row: dict[str, Any], library: str, number: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": _name(result),
        "part": number["part"],
        "metric": number["name"],
        "library": library,
        "value": number["value"],
        "interval": number["interval"],
        "shown": output.share(number["value"], number["interval"]),
        "n": number["n"],
        "judged": number["judged"],
        "judge": row["name"],
        "protocol": f"{result['protocol']}; {row['protocol']}",
    }


def _name(result: dict[str, Any]) -> str:
    return str(result["task"]["name"])

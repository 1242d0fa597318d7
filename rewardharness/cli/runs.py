"""`rh runs`: look at runs that go on or are over, follow and stop evolutions, compare what came of them."""

import argparse
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.progress import counter, event_line, progress_line
from rewardharness.errors import HarnessError, RunError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.status import Status
    from rewardharness.runs.overview import Overview

POLL_SECONDS = 0.3
EVOLVE = "evolve"
STOPPABLE = (EVOLVE, "benchmark")
"""Commands whose runs look for a request to end."""
READERS = {EVOLVE: "runs report", "benchmark": "benchmark report"}
"""Commands that read what came of a run, by its kind."""
MOST_SHOWN = 200
"""Characters of a value of a manifest that are shown."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "runs",
        help="list runs of every kind; follow, stop and compare evolutions",
        description="Look at runs of every kind that go on or are over; follow, stop and compare evolutions.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    every = parts.add_parser("list", help="list the runs of every kind", description=list_runs.__doc__)
    every.add_argument("--folder", type=Path, metavar="DIR", help="where runs lie (default: runs in RH_HOME)")
    every.add_argument("--json", action="store_true", help="print one JSON object")
    every.set_defaults(run=list_runs)
    for name, function, words in (
        ("show", show, "say how a run stands"),
        ("follow", follow, "print what happens in an evolution, until it ends"),
        ("stop", stop, "ask an evolution or a benchmark to end cleanly"),
        ("report", report, "print what came of an evolution"),
    ):
        one = parts.add_parser(name, help=words, description=function.__doc__)
        one.add_argument("which", metavar="RUN", help="a run folder, or the name of one in RH_HOME")
        if name in {"show", "report"}:
            one.add_argument("--json", action="store_true", help="print one JSON object")
        one.set_defaults(run=function)
    compared = parts.add_parser("compare", help="compare what came of evolutions", description=compare.__doc__)
    compared.add_argument("which", nargs="+", metavar="RUN", help="run folders, or names in RH_HOME")
    compared.add_argument("--json", action="store_true", help="print one JSON object")
    compared.set_defaults(run=compare)


def list_runs(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the runs in a folder and below it, of every kind, those that were written to last first."""
    from rewardharness.runs.store import find_runs

    folder = arguments.folder or settings.home / "runs"
    found: list[Status | Overview] = []
    for each in find_runs(folder, below=True):
        try:
            found.append(_look(each))
        except HarnessError as error:  # one damaged run does not hide the others
            output.note(f"{_name(each, folder)}: {error.message}")
    if arguments.json:
        output.emit({"folder": str(folder), "runs": [_json(each) for each in found]})
        return 0
    if not found:
        output.say(f"There are no runs in {folder}. Begin one with: rh evolve --data demo")
        return 0
    headings = ("run", "kind", "state", "data", "judge", "kept", "pool", "audit")
    output.table(headings, [(_name(each.folder, folder), *_row(each)) for each in found])
    if any(_kind(each) == EVOLVE for each in found):
        output.say("pool: what edits were chosen on, which overstates; audit: what nothing was decided on.")
    return 0


def _look(folder: Path) -> "Status | Overview":
    """How a run stands: an evolution by what happened in it, any other by its record."""
    from rewardharness.evolution.status import is_evolution, read_status
    from rewardharness.runs.overview import read_overview

    return read_status(folder) if is_evolution(folder) else read_overview(folder)


def _kind(run: "Status | Overview") -> str:
    return str(run.manifest.get("command") or "unknown")


def _name(run: Path, folder: Path) -> str:
    """What a run is called: its place below the folder that was looked in."""
    return str(run.relative_to(folder)) if run != folder else run.resolve().name


def _row(run: "Status | Overview") -> tuple[str, ...]:
    from rewardharness.evolution.status import Status

    if not isinstance(run, Status):
        data = run.data[:12] if run.data == run.manifest.get("data") else run.data
        return (run.kind, run.condition, data, run.judge, "-", "-", "-")
    return (
        EVOLVE,
        run.condition,
        str(run.manifest.get("data_name")),
        str(run.manifest.get("judge")),
        f"{run.kept} of {run.tried}",
        f"{output.share(run.start_accuracy)} > {output.share(run.pool_accuracy)}",
        _share(_audited(run, "final")),
    )


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say how a run stands. Of an evolution also what it decided; of any other kind what its record says."""
    from rewardharness.evolution.status import Status

    run = _look(_find(arguments.which, settings, None))
    if arguments.json:
        output.emit(_json(run))
    elif isinstance(run, Status):
        _show_evolution(run)
    else:
        _show_record(run)
    return 0


def _show_evolution(status: "Status") -> None:
    from rewardharness.evolution.events import read_events

    for event in read_events(status.folder):
        line = event_line(event)
        if line:
            output.say(line)
    output.say()
    for key in ("data_name", "judge", "protocol", "orchestrator", "seed", "started"):
        output.say(f"{key.replace('_', ' ')}: {status.manifest.get(key)}")
    why = f": {status.reason} {status.next_step}".rstrip() if status.reason else ""
    output.say(f"state: {status.condition}{why}")
    if status.progress is not None:
        output.say(f"progress: {progress_line(status.progress)}")
    output.say(
        f"{status.kept} of {status.tried} edits kept, {status.judgments} judgments; pool "
        f"{output.share(status.start_accuracy)} before, {output.share(status.pool_accuracy)} now"
    )
    if final := _audited(status, "final"):
        output.say(f"audit: {_share(_audited(status, 'start'))} judged before; {_share(final)} judged now")


def _show_record(run: "Overview") -> None:
    from rewardharness.runs.store import RESULTS

    output.say(f"kind: {run.kind}")
    for key, value in run.manifest.items():
        if key != "command" and value is not None:
            output.say(f"{key.replace('_', ' ')}: {output.shorten(str(value), MOST_SHOWN)}")
    if run.command:
        output.say(f"command: rh {shlex.join(run.command)}")
        output.say(f"given in: {run.where}")
        times = "" if run.sittings == 1 else f", {run.sittings} sittings"
        output.say(f"begun: {run.begun}{times}; ended: {run.ended or '-'}")
    else:
        output.say("command: not known; the run keeps no record of how it was asked for")
    output.say(f"state: {run.condition}" + (f": {run.reason}" if run.reason else ""))
    reader = READERS.get(run.kind)
    if reader:
        output.say(f"What came of it: rh {reader} {shlex.quote(str(run.folder))}")
    elif (run.folder / RESULTS).is_file():
        output.say(f"What was judged: {run.folder / RESULTS}")


def _audited(status: "Status", library: str) -> dict[str, Any] | None:
    """What the audit of a finished run found about its starting or final Library; None where there is no report."""
    from rewardharness.evolution.report import read_report

    if status.condition != "finished":
        return None
    try:
        found: dict[str, Any] = read_report(status.folder)["audit"][library]
    except RunError:
        return None
    return found


def _share(count: dict[str, Any] | None) -> str:
    if count is None:
        return "-"
    return f"{output.share(count['accuracy'], count['interval'])}, {count['judged']} of {count['n']}"


def follow(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print what happens in a run and how far it has come, from its beginning until it ends or rests."""
    from rewardharness.evolution.events import EVENTS, event_of
    from rewardharness.evolution.status import read_status
    from rewardharness.files import read_jsonl

    folder = _find(arguments.which, settings)
    said, tell = 0, counter()
    while True:
        status = read_status(folder)
        over = status.condition != "running"
        for number, record in read_jsonl(folder / EVENTS):
            event = event_of(record)
            if number > said and event is not None:
                said = number
                line = event_line(event)
                if line:
                    output.say(line)
        if over:
            break
        tell(status.progress)
        time.sleep(POLL_SECONDS)
    status = read_status(folder)
    output.note(f"{folder.name}: {status.condition}. {status.next_step}".strip())
    return 0


def stop(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask a run to end cleanly: after the judgments under way. The command that began it goes on with it later."""
    from rewardharness.evolution.stop import STOP_FILE
    from rewardharness.files import write_text
    from rewardharness.runs.store import is_running

    folder = _find(arguments.which, settings, STOPPABLE)
    if not is_running(folder):
        output.say(f"{folder.name} does not run.")
        return 0
    write_text(folder / STOP_FILE, "")
    output.say(f"{folder.name} was asked to end. It does so after the judgments under way.")
    return 0


def report(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print what came of a finished run, and write its page anew."""
    from rewardharness.cli.evolve_report import print_report
    from rewardharness.evolution.report import read_report
    from rewardharness.evolution.report_page import PAGE, report_page
    from rewardharness.files import write_text

    folder = _find(arguments.which, settings)
    found = read_report(folder)
    try:
        write_text(folder / PAGE, report_page(found))
    except OSError as error:  # the report can be read where nothing can be written
        output.note(f"{folder / PAGE} could not be written anew: {error.strerror}.")
    if arguments.json:
        output.emit({**found, "folder": str(folder)})
    else:
        print_report(found, folder)
    return 0


def compare(arguments: argparse.Namespace, settings: Settings) -> int:
    """Put what came of finished runs side by side. Accuracies compare only on the same audit examples."""
    from rewardharness.evolution.report import read_report, same_audit, summary

    folders = [_find(which, settings) for which in arguments.which]
    reports = [read_report(folder) for folder in folders]
    rows = [summary(folder.name, found) for folder, found in zip(folders, reports, strict=True)]
    comparable = same_audit(reports)
    if arguments.json:
        output.emit({"same_audit": comparable, "runs": rows})
        return 0
    output.table(
        ("run", "schedule", "judge", "Orchestrator", "kept", "judgments", "audit before", "audit after", "p"),
        [
            (
                row["name"],
                row["schedule"],
                row["judge"],
                row["orchestrator"],
                f"{row['kept']} of {row['tried']}",
                str(row["judgments"]),
                output.share(row["start"]["accuracy"], row["start"]["interval"]),
                output.share(row["final"]["accuracy"], row["final"]["interval"]),
                "-" if row["p"] is None else f"{row['p']:.3g}",
            )
            for row in rows
        ],
    )
    if not comparable:
        output.say("These runs put different examples aside for the audit: their accuracies do not compare.")
    return 0


def _find(which: str, settings: Settings, kinds: Sequence[str] | None = (EVOLVE,)) -> Path:
    """Find a run folder by its path or name; one of other kinds than those that are asked for is refused."""
    from rewardharness.runs.store import read_manifest

    named = settings.home / "runs" / which
    folder = Path(which) if Path(which).is_dir() else named
    kind = str(read_manifest(folder).get("command"))
    if kinds is not None and kind not in kinds:
        reader = READERS.get(kind, "runs show")
        raise RunError(f"{folder} holds a run of another kind: {kind}.", next_step=f"See it with: rh {reader} {folder}")
    return folder


def _json(run: "Status | Overview") -> dict[str, Any]:
    """How a run stands, for programs: `kind`, `folder`, `condition`, `reason` and `manifest` of every kind."""
    from rewardharness.evolution.status import Status

    known = {"kind": _kind(run), **asdict(run), "folder": str(run.folder)}
    return {**known, "audit": _audited(run, "final")} if isinstance(run, Status) else known

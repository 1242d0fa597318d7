"""`rh runs`: look at evolutions that run or have run, follow and stop them, compare what came of them."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.progress import event_line
from rewardharness.errors import HarnessError, RunError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.status import Status

POLL_SECONDS = 0.3
STOPPABLE = ("evolve", "benchmark")
"""Commands whose runs look for a request to end."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "runs",
        help="look at, follow, stop and compare evolutions",
        description="Look at evolutions that run or have run, follow and stop them, compare what came of them.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    every = parts.add_parser("list", help="list the runs", description=list_runs.__doc__)
    every.add_argument("--folder", type=Path, metavar="DIR", help="where runs lie (default: runs in RH_HOME)")
    every.add_argument("--json", action="store_true", help="print one JSON object")
    every.set_defaults(run=list_runs)
    for name, function, words in (
        ("show", show, "say how a run stands"),
        ("follow", follow, "print what happens in a run, until it ends"),
        ("stop", stop, "ask an evolution or a benchmark to end cleanly"),
        ("report", report, "print what came of a run"),
    ):
        one = parts.add_parser(name, help=words, description=function.__doc__)
        one.add_argument("which", metavar="RUN", help="a run folder, or the name of one in RH_HOME")
        if name in {"show", "report"}:
            one.add_argument("--json", action="store_true", help="print one JSON object")
        one.set_defaults(run=function)
    compared = parts.add_parser("compare", help="compare what came of runs", description=compare.__doc__)
    compared.add_argument("which", nargs="+", metavar="RUN", help="run folders, or names in RH_HOME")
    compared.add_argument("--json", action="store_true", help="print one JSON object")
    compared.set_defaults(run=compare)


def list_runs(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the evolutions, those that were written to last first."""
    from rewardharness.evolution.status import is_evolution, read_status
    from rewardharness.runs.store import find_runs

    folder = arguments.folder or settings.home / "runs"
    found = []
    for each in find_runs(folder):
        try:
            found += [read_status(each)] if is_evolution(each) else []
        except HarnessError as error:  # one damaged run does not hide the others
            output.note(f"{each.name}: {error.message}")
    if arguments.json:
        output.emit({"folder": str(folder), "runs": [_status_json(each) for each in found]})
        return 0
    if not found:
        output.say(f"There are no evolutions in {folder}. Begin one with: rh evolve --data demo")
        return 0
    output.table(
        ("run", "state", "data", "judge", "kept", "judgments", "pool", "audit"),
        [
            (
                each.folder.name,
                each.condition,
                str(each.manifest.get("data_name")),
                str(each.manifest.get("judge")),
                f"{each.kept} of {each.tried}",
                str(each.judgments),
                f"{output.share(each.start_accuracy)} > {output.share(each.pool_accuracy)}",
                _share(_audited(each, "final")),
            )
            for each in found
        ],
    )
    output.say("pool: what edits were chosen on, which overstates; audit: what nothing was decided on.")
    return 0


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say how a run stands, and what it decided."""
    from rewardharness.evolution.events import read_events
    from rewardharness.evolution.status import read_status

    folder = _find(arguments.which, settings)
    status = read_status(folder)
    if arguments.json:
        output.emit(_status_json(status))
        return 0
    for event in read_events(folder):
        line = event_line(event)
        if line:
            output.say(line)
    output.say()
    for key in ("data_name", "judge", "protocol", "orchestrator", "seed", "started"):
        output.say(f"{key.replace('_', ' ')}: {status.manifest.get(key)}")
    why = f": {status.reason} {status.next_step}".rstrip() if status.reason else ""
    output.say(f"state: {status.condition}{why}")
    output.say(
        f"{status.kept} of {status.tried} edits kept, {status.judgments} judgments; pool "
        f"{output.share(status.start_accuracy)} before, {output.share(status.pool_accuracy)} now"
    )
    if final := _audited(status, "final"):
        output.say(f"audit: {_share(_audited(status, 'start'))} judged before; {_share(final)} judged now")
    return 0


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
    """Print what happens in a run, from its beginning until it ends or rests."""
    from rewardharness.evolution.events import EVENTS, event_of
    from rewardharness.evolution.status import read_status
    from rewardharness.files import read_jsonl

    folder = _find(arguments.which, settings)
    said = 0
    while True:
        over = read_status(folder).condition != "running"
        for number, record in read_jsonl(folder / EVENTS):
            event = event_of(record)
            if number > said and event is not None:
                said = number
                line = event_line(event)
                if line:
                    output.say(line)
        if over:
            break
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


def _find(which: str, settings: Settings, kinds: Sequence[str] = ("evolve",)) -> Path:
    """Find a run folder by its path or name."""
    from rewardharness.runs.store import read_manifest

    named = settings.home / "runs" / which
    folder = Path(which) if Path(which).is_dir() else named
    kind = str(read_manifest(folder).get("command"))
    if kind not in kinds:
        step = f"See it with: rh benchmark report {folder}." if kind == "benchmark" else "Its command goes on with it."
        raise RunError(
            f"{folder} holds a run of another kind: {kind}.",
            next_step=f"{step} List the evolutions with: rh runs list",
        )
    return folder


def _status_json(status: "Status") -> dict[str, Any]:
    return {**asdict(status), "folder": str(status.folder), "audit": _audited(status, "final")}

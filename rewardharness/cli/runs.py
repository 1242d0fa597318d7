"""`rh runs`: list, show, follow, stop, replay and compare runs."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app, within
from rewardharness.cli.report import counter, event_line, progress_line
from rewardharness.codec import to_json
from rewardharness.errors import HarnessError, RunError, shell
from rewardharness.files import is_run
from rewardharness.ranges import Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.events import Status
    from rewardharness.evolution.held_out import Score
    from rewardharness.evolution.report import EvolutionReport
    from rewardharness.runs.reader import RunStatus

POLL_SECONDS = 0.3
EVOLVE = "evolve"
READERS = {EVOLVE: "runs show", "benchmark": "benchmark report"}
"""Commands that print a report, by job type."""
MOST_SHOWN = 200
"""Characters of a value of a manifest that are shown."""

app = make_app("runs", "List, show, follow, stop, replay and compare runs. A RUN is a folder, or a name in RH_HOME.")
app.command("rewardharness.cli.replay:replay", help="Run a job again, and compare the results.")


@app.command(name="list")
def list_runs(*, folder: Path | None = None, json: bool = False) -> None:
    """List runs of every kind, most recently changed first, also those that --run put elsewhere.

    Example: `rh runs list`

    Args:
        folder: Folder that is searched, with its subfolders (default: runs in RH_HOME).
        json: Print one JSON object.
    """
    from rewardharness.evolution.progress import duration
    from rewardharness.runs.store import extent, find_runs, runs_elsewhere

    home = Settings.from_env().home
    elsewhere = [] if folder is not None else runs_elsewhere(home)
    folder = folder or home / "runs"
    extents = {run: extent(run) for run in (*find_runs(folder, below=True), *elsewhere)}
    runs: list[RunStatus] = []
    for run in sorted(extents, key=lambda run: -extents[run][0]):
        try:
            runs.append(_look(run))
        except HarnessError as error:  # one damaged run does not hide the others
            output.note(f"{_name(run, folder)}: {error.message}")
    if json:
        more = {run: {"changed": changed, "bytes": size} for run, (changed, size) in extents.items()}
        output.emit({"folder": str(folder), "runs": [_json(run) | more[run.folder] for run in runs]})
        return
    if not runs:
        output.say(f"There are no runs in {folder}. Start one with: rh evolve demo")
        return
    headings = ("run", "status", "data", "judge", "accepted", "training", "held out")
    ages = {
        run: f"{duration(time.time() - changed)} ago, {size / 1e6:.1f} MB" for run, (changed, size) in extents.items()
    }
    rows = [(f"{_name(run.folder, folder)}\n{ages[run.folder]}", *_row(run)) for run in runs]
    output.table(headings, rows)
    output.say(f"{output.count(len(runs), 'run')}, {sum(size for _, size in extents.values()) / 1e6:.1f} MB.")
    if any(run.kind == EVOLVE for run in runs):
        output.say("training: accuracy on the examples that proposals were selected on, which is optimistic.")
        output.say("held out: accuracy on the held-out test set, which no decision used.")


@app.command
def rm(
    *run: str,
    older_than: Annotated[float | None, within("older-than", Range(0))] = None,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Delete runs with all of their results. A run that a process is writing to is kept.

    Example: `rh runs rm RUN`

    Example: `rh runs rm --older-than 30 --yes`

    Args:
        run: Runs.
        older_than: Delete all runs that were last changed more than this number of days ago.
        yes: Delete them; without it, --older-than only lists them.
        json: Print one JSON object.
    """
    from rewardharness.runs.store import extent, find_runs, is_running, remove_run, run_named, runs_elsewhere

    if bool(run) == (older_than is not None):
        raise UsageError("Runs, or --older-than, must be given.", next_step="List them with: rh runs list")
    home = Settings.from_env().home
    folders = [run_named(which, home) for which in run]
    if older_than is not None:
        known = (*find_runs(home / "runs", below=True), *runs_elsewhere(home))
        limit = time.time() - older_than * 86_400
        folders = [folder for folder in known if extent(folder)[0] < limit and not is_running(folder)]
    missing = next((folder for folder in folders if not is_run(folder)), None)
    if missing is not None:  # nothing is deleted if one of the names is wrong
        raise RunError(f"{missing} holds no run.", next_step="List the runs with: rh runs list")
    size, delete = sum(extent(folder)[1] for folder in folders), bool(run) or yes
    for folder in folders if delete else ():
        remove_run(folder)
    names, would = [str(folder) for folder in folders], "deleted" if delete else "would be deleted; add --yes"
    total = f"{output.count(len(folders), 'run')}, {size / 1e6:.1f} MB {would}."
    output.show(json, {"runs": names, "bytes": size, "deleted": delete}, "\n".join([*names, total]))


def _look(folder: Path) -> "RunStatus":
    """Return the status of a run; of an evolution with what its events tell."""
    from rewardharness.runs.reader import RunReader

    status = RunReader(folder).look()
    if status.kind != EVOLVE:
        return status
    from rewardharness.evolution.events import read_events, status_of

    return status_of(status, read_events(folder))


def _name(run: Path, folder: Path) -> str:
    """Return the name of a run: its path below the searched folder, or the whole path."""
    if not run.is_relative_to(folder):
        return str(run)
    return str(run.relative_to(folder)) if run != folder else run.resolve().name


def _row(run: "RunStatus") -> tuple[str, ...]:
    data = run.data[:12] if run.data == run.manifest.get("data") else run.data
    row = (f"{run.kind}\n{run.condition}", data, run.judge)
    if run.kind != EVOLVE:
        return (*row, "-", "-", "-")
    evolution = cast("Status", run)
    training = f"{output.share(evolution.start_accuracy)} > {output.share(evolution.pool_accuracy)}"
    return (*row, f"{evolution.kept} of {evolution.tried}", training, _share(evolution.audit))


@app.command
def show(run: str, /, *, failed: bool = False, json: bool = False) -> int:
    """Show the status of a run. Of an evolution, also its events and, once it is finished, its report.

    Example: `rh runs show RUN`

    Args:
        run: A run.
        failed: Show the examples that were not judged instead, with the replies that could not be read.
        json: Print one JSON object.
    """
    from rewardharness.cli.report import print_report
    from rewardharness.cli.run import print_remote
    from rewardharness.editors.report import build_report, read_ratings

    settings = Settings.from_env()
    remote = _find_remote(run, settings)
    if remote is not None and not is_run(remote):
        print_remote(remote)
        return 0
    if failed:
        return _show_failed(remote or _find(run, settings, None), json)
    found = _look(remote or _find(run, settings, None))
    evolution = cast("Status", found) if found.kind == EVOLVE else None
    report = _write_report(found) if evolution and found.condition == "finished" else None
    if json:
        output.emit(_json(found) | ({"report": to_json(report)} if report else {}))
    elif evolution:
        _show_evolution(evolution, report)
    else:
        _show_record(found)
        if found.kind == "arena" and found.condition == "finished":
            print_report(build_report(read_ratings(found.folder)))
    if remote is not None and not json:
        print_remote(remote)
    return 0


def _show_failed(folder: Path, json: bool) -> int:
    from rewardharness.files import read_jsonl
    from rewardharness.judgments import judgment_from_json, judgment_json
    from rewardharness.runs.store import RESULTS

    last = {line["id"]: line for _, line in read_jsonl(folder / RESULTS) if "id" in line}
    judgments = [judgment_from_json(line) for line in last.values() if line.get("failure")]
    if json:
        output.emit({"folder": str(folder), "failed": [judgment_json(judgment) for judgment in judgments]})
        return 0
    for judgment in judgments:
        assert judgment.failure is not None
        output.say(f"{judgment.example_id}: {judgment.failure.code}: {judgment.failure.message}")
        for step in judgment.steps:
            if step.kind == "reply":
                where = f", {', '.join(step.order)}" if step.order else ""
                output.say(f"    reply{where}: {step.text}")
    output.say(f"{len(judgments)} of {len(last)} examples were not judged.")
    return 0


def _write_report(status: "RunStatus") -> "EvolutionReport | None":
    """Return the report of a finished evolution and write its page again; None if it cannot be read."""
    from rewardharness.evolution.report import read_report
    from rewardharness.evolution.report_page import PAGE, report_page
    from rewardharness.files import write_text

    try:
        report = read_report(status.folder)
    except RunError as error:
        output.note(f"{status.folder.name}: {error.message}")
        return None
    try:
        write_text(status.folder / PAGE, report_page(report))
    except OSError as error:  # a report in a read-only folder can still be read
        output.note(f"{status.folder / PAGE} cannot be written: {error.strerror}.")
    return report


def _show_evolution(status: "Status", report: "EvolutionReport | None") -> None:
    from rewardharness.cli.evolve import show_report
    from rewardharness.evolution.events import read_events

    for line in filter(None, map(event_line, read_events(status.folder))):
        output.say(line)
    output.say()
    for key in ("data_name", "judge", "protocol", "orchestrator", "seed", "started"):
        output.say(f"{key.replace('_', ' ')}: {status.manifest.get(key)}")
    why = f": {status.reason} {status.next_step}".rstrip() if status.reason else ""
    output.say(f"status: {status.condition}{why}")
    if status.progress is not None:
        output.say(f"progress: {progress_line(status.progress)}")
    output.say(
        f"{status.kept} of {output.count(status.tried, 'proposal')} accepted, {status.judgments} judgments; training "
        f"examples: accuracy {output.share(status.start_accuracy)} before, {output.share(status.pool_accuracy)} now"
    )
    if report is not None:
        output.say()
        show_report(report, status.folder)


def _show_record(run: "RunStatus") -> None:
    from rewardharness.runs.store import RESULTS

    output.say(f"kind: {run.kind}")
    for key, value in run.manifest.items():
        if key != "command" and value is not None:
            output.say(f"{key.replace('_', ' ')}: {output.shorten(str(value), MOST_SHOWN)}")
    if run.command:
        output.say(shell("command: rh {}", run.command))
        output.say(f"working directory: {run.where}")
        times = "" if run.sessions == 1 else f", {run.sessions} sessions"
        output.say(f"started: {run.begun}{times}; ended: {run.ended or '-'}")
    else:
        output.say("command: unknown; the run has no record of it")
    output.say(f"status: {run.condition}" + (f": {run.reason}" if run.reason else ""))
    if run.kind in READERS:
        output.say(shell("Report: rh {} {}", READERS[run.kind].split(), run.folder))
    elif (run.folder / RESULTS).is_file():
        output.say(f"Judgments: {run.folder / RESULTS}")


def _share(score: "Score | None") -> str:
    if score is None:
        return "-"
    return output.share(score.accuracy, score.interval) + (f", {score.judged} of {score.n}" if score.n else "")


@app.command
def follow(run: str, /) -> int:
    """Print the events and the progress of an evolution until it ends or pauses; of a job on the Hub, its log.

    Example: `rh runs follow RUN`

    Args:
        run: A run, or the id of its job.
    """
    from rewardharness.cli.run import View, follow_job
    from rewardharness.evolution.events import EVENTS, event_of, read_status
    from rewardharness.files import read_jsonl
    from rewardharness.runs.store import is_running

    settings = Settings.from_env()
    remote = _find_remote(run, settings)
    if remote is not None and not is_running(remote):
        from rewardharness.cli.replay import VIEWS
        from rewardharness.remote.job import read_remote

        about = read_remote(remote)
        assert about is not None
        return follow_job(remote, settings, VIEWS.get(str(about.asked.get("job")), View()))
    folder = _find(str(remote or run), settings)
    printed, show_progress, status = 0, counter(), read_status(folder)
    while True:
        over = status.condition != "running"  # before its events, so that none is missed
        for number, record in read_jsonl(folder / EVENTS):
            if number > printed and (event := event_of(record)) is not None:
                printed = number
                if line := event_line(event):
                    output.say(line)
        if over:
            break
        show_progress(status.progress)
        time.sleep(POLL_SECONDS)
        status = read_status(folder)
    output.note(f"{folder.name}: {status.condition}. {status.next_step}".strip())
    return 0


@app.command
def stop(run: str, /) -> None:
    """Ask a run or an output folder to stop after the judgments in progress; cancel a job on the Hub.

    The command of the run resumes it later.

    Example: `rh runs stop RUN`

    Args:
        run: A run, the id of its job, or an output folder of rh score.
    """
    from rewardharness.cli.run import stop_job
    from rewardharness.files import is_held, is_output, write_text
    from rewardharness.runs.job import STOP_FILE
    from rewardharness.runs.store import is_running

    settings = Settings.from_env()
    if (remote := _find_remote(run, settings)) is not None:
        stop_job(remote, settings)
        return
    folder = Path(run) if is_output(Path(run)) else _find(run, settings, None)
    running = is_running(folder) or any(map(is_held, folder.glob("running/*.lock")))
    if running:
        write_text(folder / STOP_FILE, "")
    output.say(f"{folder.name} {'will stop after the judgments in progress' if running else 'is not running'}.")


@app.command
def compare(*run: str, json: bool = False) -> None:
    """Compare finished evolutions. Accuracies are comparable only on the same held-out examples.

    Example: `rh runs compare RUN-1 RUN-2`

    Args:
        run: Runs.
        json: Print one JSON object.
    """
    from rewardharness.evolution.report import read_report, same_held_out, summary

    if not run:
        raise UsageError("Missing: runs.", next_step="Name run folders; list them with: rh runs list")
    settings = Settings.from_env()
    folders = [_find(which, settings) for which in run]
    reports = [read_report(folder) for folder in folders]
    rows = [summary(folder.name, report) for folder, report in zip(folders, reports, strict=True)]
    comparable = same_held_out(reports)
    if json:
        output.emit({"same_audit": comparable, "runs": to_json(rows)})
        return
    output.table(
        ("run", "schedule", "judge", "Orchestrator", "accepted", "judgments", "held out before", "after", "p"),
        [
            (
                row.name,
                row.schedule,
                row.judge,
                row.orchestrator,
                f"{row.kept} of {row.tried}",
                str(row.judgments),
                output.share(row.start.accuracy, row.start.interval),
                output.share(row.final.accuracy, row.final.interval),
                "-" if row.p is None else f"{row.p:.3g}",
            )
            for row in rows
        ],
    )
    if not comparable:
        output.say("These runs have different held-out examples; their accuracies are not comparable.")


def _find_remote(which: str, settings: Settings) -> Path | None:
    """Find the run folder of a job on the Hub by its path, its name or the id of the job; None if there is none."""
    from rewardharness.remote.job import REMOTE, read_remote

    for folder in (Path(which), settings.home / "runs" / which):
        if (folder / REMOTE).is_file():
            return folder
    folders = [path.parent for path in (settings.home / "runs").glob(f"*/{REMOTE}")]
    return next((folder for folder in folders if (run := read_remote(folder)) and run.job == which), None)


def _find(which: str, settings: Settings, kinds: Sequence[str] | None = (EVOLVE,)) -> Path:
    """Find a run folder by its path or name.

    Raises:
        RunError: If there is none, or it is of another kind.
    """
    from rewardharness.runs.store import read_manifest, run_named

    folder = run_named(which, settings.home)
    kind = str(read_manifest(folder).get("command"))
    if kinds is not None and kind not in kinds:
        step = shell("Show it with: rh {} {}", READERS.get(kind, "runs show").split(), folder)
        raise RunError(f"{folder} is a run of another kind: {kind}.", next_step=step)
    return folder


def _json(run: "RunStatus") -> dict[str, Any]:
    """Return the status of a run as JSON: `kind`, `folder`, `condition`, `reason` and `manifest` for every kind."""
    return {**asdict(run), "folder": str(run.folder)}

"""`rh runs replay`: run a job again from its run folder, and compare the results."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, chdir, nullcontext, redirect_stdout
from dataclasses import MISSING, asdict, dataclass, fields, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from rewardharness.cli import arena, benchmark, bulk, evolve, output, score
from rewardharness.cli.command import WORDS
from rewardharness.cli.output import INTERRUPTED
from rewardharness.cli.run import RunOptions, View, confirm_sending, open_job, run_job
from rewardharness.codec import WRITES, named, to_json
from rewardharness.errors import HarnessError, RunError, shell
from rewardharness.files import read_json, write_json
from rewardharness.jobs import JOBS, JobConfig, read_config
from rewardharness.runs.results import TOLERANCE, Difference
from rewardharness.runs.store import OUTCOME, is_running, read_manifest, results_of, run_named
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.runs.results import ReplayComparison

OUTPUT = "output"
"""Folder of a replay for what the command writes beside its run folder."""
SHOWN = 10
"""Number of differences that are printed."""


VIEWS: Mapping[str, View] = {
    "score": score.VIEW,
    "benchmark": benchmark.VIEW,
    "arena": arena.VIEW,
    "refine": arena.REFINE,
    "evolve": evolve.VIEW,
    **bulk.VIEWS,
}
"""Views by job type."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Options of a replay."""

    to: Path | None = None
    """Folder of the replay (default: RUN-replay)."""
    tolerance: float = TOLERANCE
    """Largest accepted change of a margin where a model was queried again; other margins must be identical."""
    no_cache: bool = False
    """Measure and query again instead of using cached results."""
    yes: bool = False
    """Do not ask before spending."""
    dry_run: bool = False
    """Print what has changed since, and do nothing."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """Print no progress."""


_DEFAULT = ReplayOptions()


def replay(run: str, /, *, options: ReplayOptions = _DEFAULT) -> int:
    """Run a job again with the configuration of its run folder, into a new folder, and compare the results.

    Prints first what has changed since: code, data, Library, judge. The exit status is 1 if results differ. The same
    command resumes an interrupted replay.

    Example: `rh runs replay RUN --dry-run`

    Args:
        run: A run folder, or the name of one in RH_HOME.
        options: Options.
    """
    return replay_run(run, options, Settings.from_env())


def replay_run(which: str, arguments: ReplayOptions, settings: Settings) -> int:
    """Replay a run. Returns the exit status."""
    from rewardharness.runs.records import read_record

    run = run_named(which, settings.home)
    read_manifest(run)
    run = run.absolute()
    record = read_record(run)
    job = _check_replayable(run, record)
    to = _destination(arguments.to.absolute() if arguments.to else None, run, record)
    settings = replace(settings, home=settings.home.absolute())
    session = record["sessions"][-1]
    with _inside(Path(session["folder"])):
        config, changed = _given(run, to, session, arguments.no_cache)
        confirm_sending(config, vars(config), settings, arguments.yes)
        options = RunOptions(
            run_folder=to,
            yes=arguments.yes,
            quiet=arguments.quiet or arguments.json,
            replays={"folder": str(run), "created": record["created"]},
        )
        config, differences = _changes_about(record["about"], job, run, (config, options), settings)
        changed += [*_changes_around(session), *differences]
        for line in changed:
            output.note(f"Changed since: {line}")
        summary: dict[str, Any] = {"run": str(run), "replay": str(to), "changed": changed}
        if arguments.dry_run:
            count = f"{len(changed) or 'Nothing'} changed since. Nothing was done."
            output.show(arguments.json, summary, f"{run} would be replayed to {to}. {count}")
            return 0
        with redirect_stdout(StringIO()):  # the output of the command is not that of the replay
            token = WORDS.set((*_without_run(session["words"]), "--run", str(to)))
            try:
                status = run_job(config, options, settings, VIEWS[job])
            finally:
                WORDS.reset(token)
    if status == INTERRUPTED:
        output.note(shell("Resume with: rh runs replay {} --to {}", run, to))
        return status
    outcome = _compare(JOBS[job].report, run, to, arguments.tolerance)
    largest = outcome.largest if outcome.largest != float("inf") else None
    summary = {"same": outcome.same, **summary, **asdict(outcome), "largest": largest}
    write_json(to / "replay.json", summary)
    if arguments.json:
        output.emit(summary)
    else:
        _tell(outcome, run, to)
    return 0 if outcome.same else 1


def _check_replayable(run: Path, record: Mapping[str, Any]) -> str:
    """Check that a run can be replayed, and return its job type."""
    from rewardharness.runs.records import CONFIG, MASK

    kind = str(record["about"].get("command"))
    if kind not in VIEWS:
        known = ", ".join(VIEWS)
        raise RunError(f"{run} is not a run that can be replayed.", next_step=f"Replayable jobs: {known}.")
    if is_running(run):
        raise RunError(f"{run} is running.", next_step="Wait until it ends.")
    last = record["sessions"][-1]
    if last["condition"] != "done":
        status = last["condition"] or "killed"
        raise RunError(
            f"{run} is not finished: it was {status}.",
            next_step=shell("Finish it first: cd {} && rh {}", last["folder"], last["words"]),
        )
    job, config = read_config(run)
    if job != kind:
        raise RunError(f"The run folder {run} is inconsistent: {CONFIG} belongs to another kind of run.")
    masked = [str(value) for value in vars(config).values() if MASK in str(value)]
    if masked:
        raise RunError(
            f"The run {run} used a password, which its record does not contain: {masked[0]}.",
            next_step="Give keys in the environment (RH_API_KEY), not in URLs; then runs can be replayed.",
        )
    return kind


def _destination(to: Path | None, run: Path, record: Mapping[str, Any]) -> Path:
    """Return the folder of the replay: a new one, or that of an interrupted replay of the same run."""
    from rewardharness.runs.records import read_record

    def usable(folder: Path) -> bool:
        try:
            there = read_record(folder)
        except HarnessError:
            return not folder.exists() or (folder == to and not any(folder.iterdir()))
        ours = there.get("replays") == {"folder": str(run), "created": record["created"]}
        return ours and there["sessions"][-1]["condition"] != "done"

    names = (f"{run.name}-replay" + (f"-{number}" if number > 1 else "") for number in range(1, 10_000))
    destination = next(filter(usable, [to] if to else map(run.with_name, names)), None)
    if destination is None:
        problem = f"{to} is not empty." if to else f"There are too many replays of {run}."
        raise RunError(problem, next_step="Name a new folder with --to.")
    return destination


def _inside(folder: Path) -> AbstractContextManager[None]:
    """Change to the working directory of the run, so that its relative paths are valid."""
    if folder.is_dir():
        return chdir(folder)
    output.note(f"Changed since: the working directory {folder} of the run does not exist.")
    return nullcontext()


def _given(run: Path, to: Path, session: Mapping[str, Any], no_cache: bool) -> tuple[JobConfig, list[str]]:
    """Return the configuration of the run, and which defaults have changed since."""
    _, config = read_config(run)
    changed = [
        f"the default of {name.replace('_', ' ')} ({_short(was)} and {_short(value)})"
        for name, value in vars(config).items()
        if name in session["arguments"]
        and (was := session["arguments"][name]) != (list(value) if isinstance(value, tuple) else to_json(value))
    ]
    own: dict[str, Any] = {"no_cache": no_cache or config.no_cache}  # and a replay writes only into its own folder
    required = {field.name for field in fields(config) if field.default is MISSING}
    for name in named(config, WRITES):
        own[name] = to / OUTPUT / Path(getattr(config, name)).name if name in required else None
    return replace(config, **own), changed


def _without_run(command: list[str]) -> list[str]:
    """Return the words of a command without its run folder."""
    kept: list[str] = []
    skip = False
    for word in command:
        if skip or word.startswith("--run=") or word in {"--run", "--restart"}:
            skip = word == "--run" and not skip
        else:
            kept.append(word)
    return kept


def _changes_around(session: Mapping[str, Any]) -> list[str]:
    """Return the differences between the environment of the run and this one."""
    from rewardharness.runs.records import surroundings

    now = surroundings(Path.cwd())
    changes = []
    was, is_now = session["package"], now["package"]
    if was != is_now:
        versions = f"{was.get('version')} and {is_now['version']}"
        same = "the version is the same, the sources are not" if was.get("version") == is_now["version"] else versions
        changes.append(f"the code of this package ({same})")
    names = ("python", "platform")
    changes += _differing({name: session.get(name) for name in names}, {name: now[name] for name in names})
    return changes + _differing(session.get("packages", {}), now["packages"], "not installed")


def _differing(before: Mapping[str, Any], after: Mapping[str, Any], missing: str | None = None) -> list[str]:
    return [
        f"{key.replace('_', ' ')} ({_short(before.get(key, missing))} and {_short(after.get(key, missing))})"
        for key in sorted({*before, *after} - {"started"})
        if before.get(key) != after.get(key)
    ]


def _changes_about(
    about: Mapping[str, Any], job: str, run: Path, inputs: tuple[JobConfig, RunOptions], settings: Settings
) -> tuple[JobConfig, list[str]]:
    """Return the differences between the manifests. A Library that changed is read from the run folder, if it is there.

    Raises:
        RunError: If data or Library are missing.
    """
    (config, options), changes = inputs, []
    problem = HarnessError("")

    def manifest() -> Mapping[str, Any]:
        nonlocal problem
        try:
            return open_job(config, options, settings, VIEWS[job]).manifest
        except HarnessError as error:
            problem = error
            return {}

    now, kept = manifest(), run / JOBS[job].library
    if JOBS[job].library and kept.is_dir() and now.get("library_id") != about.get("library_id"):
        spec, config = config.library, replace(config, library=str(kept))
        now = manifest()
        changes.append(f"the Library {spec}; the one that the run began with is taken, {kept}")
    if not now:
        raise RunError(
            f"The run cannot be replayed, because its data, judge or Library cannot be opened. {problem.message}",
            next_step=f"Restore it. {problem.next_step}".strip(),
        )
    return config, [*changes, *_differing(about, now)]


def _short(value: Any) -> str:
    return output.shorten(str(value), 40)


def _compare(report_file: str, run: Path, to: Path, tolerance: float) -> "ReplayComparison":
    from rewardharness.runs.results import compare_reports, compare_results

    report = []
    if report_file == OUTCOME and not (run / OUTCOME).is_file():
        output.note(f"{run} was made by an earlier version and has no {OUTCOME}: only judgments are compared.")
    elif report_file:
        report = compare_reports(read_json(run / report_file), read_json(to / report_file))
    return compare_results(results_of(run), results_of(to), tolerance=tolerance, report=report)


def _tell(outcome: "ReplayComparison", run: Path, to: Path) -> None:
    """Print the comparison and the differences."""
    lists: dict[str, Iterable[str | Difference]] = {
        "the replay lacks": outcome.only_before,
        "only the replay has": outcome.only_after,
        "another preference": outcome.preferences,
        "another margin": outcome.margins,
        "another report": outcome.report,
    }
    for heading, entries in lists.items():
        lines = [
            entry if isinstance(entry, str) else f"{entry.place}: {_short(entry.before)} and {_short(entry.after)}"
            for entry in entries
        ]
        for line in lines[:SHOWN]:
            output.say(f"{heading}: {line}")
        if len(lines) > SHOWN:
            output.say(f"{heading}: {len(lines) - SHOWN} more, in {to / 'replay.json'}")
    asked = f"; {outcome.asked} judged again by a model" if outcome.asked else ""
    moved = "all margins identical"
    if outcome.moved:
        moved = f"{outcome.moved} margins changed by at most {outcome.largest:.4g}"
    verdict = "The results are the same" if outcome.same else "The results differ"
    output.say(f"{verdict}: {outcome.n} judgments compared, {moved}{asked}. Replay: {to}")

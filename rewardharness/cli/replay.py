"""`rh replay`: run something again from its record, and say whether it comes out the same."""

import argparse
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, chdir, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import benchmark, bulk, evolve, output, score
from rewardharness.cli.leave import ask_leave
from rewardharness.cli.work import OUTCOME
from rewardharness.errors import HarnessError, RunError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.runs.replay import ReplayComparison

INTERRUPTED = 130
OUTPUT = "output"
"""Folder of a replay for what the command writes beside its run folder."""
_ADDRESS = re.compile(r"[a-z]+://[^\s,'\"\]]+")
SHOWN = 10
"""Differences that are listed one by one."""


@dataclass(frozen=True)
class Replayable:
    """A kind of run that can be replayed."""

    run: Callable[[argparse.Namespace, Settings], int]
    """The command."""
    about: Callable[[argparse.Namespace, Settings], Mapping[str, Any]]
    """The manifest that the command would give its run folder now. Nothing is judged for it."""
    library: str = ""
    """Where a run folder keeps the Library that it began with; empty: it does not."""
    report: str = ""
    """The report in a run folder; empty: there is none."""


COMMANDS: Mapping[str, Replayable] = {
    "score-folder": Replayable(score.score_folder, score.manifest_of),
    "benchmark": Replayable(benchmark.run, benchmark.manifest_of, report="report.json"),
    "rank-folder": Replayable(bulk.rank_folder, bulk.rank_manifest, report=OUTCOME),
    "filter-dataset": Replayable(bulk.filter_dataset, bulk.filter_manifest, report=OUTCOME),
    "preference-data": Replayable(bulk.preference_data, bulk.pairs_manifest, report=OUTCOME),
    "evolve": Replayable(evolve.evolve, evolve.manifest_of, library="versions/0000", report="report.json"),
}
"""What can be replayed, by the `command` of its manifest."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "replay", help="run something again, and compare what comes of it", description=replay.__doc__
    )
    parser.add_argument("which", metavar="RUN", help="a run folder, or the name of one in RH_HOME")
    parser.add_argument("--to", type=Path, metavar="DIR", help="where the replay is kept (default: RUN-replay)")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="how far a margin may move where a model is asked anew (default: 0.1); elsewhere not at all",
    )
    parser.add_argument("--no-cache", action="store_true", help="measure and ask anew; use nothing that is remembered")
    parser.add_argument("--yes", action="store_true", help="do not ask before spending")
    parser.add_argument("--dry-run", action="store_true", help="say what has changed since, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=replay)


def replay(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run something again from its record into a new folder, and compare: same judgments, margins to the last digit.

    Says before it starts what has changed since: code, data, Library, judge. Ends with status 1 when results differ.
    The same command goes on with a replay that was interrupted.
    """
    from rewardharness.runs.records import read_record

    run = _find(arguments.which, settings)
    record = read_record(run)
    kind = _check_replayable(run, record)
    to = _destination(arguments.to.absolute() if arguments.to else None, run, record)
    settings = replace(settings, home=settings.home.absolute())
    sitting = record["sittings"][-1]
    with _inside(Path(sitting["folder"])):
        given, changed = _given(kind, sitting, arguments, to)
        given.replays = {"folder": str(run), "created": record["created"]}
        changed += [*_changes_around(sitting), *_changes_about(record, kind, run, given, settings)]
        for line in changed:
            output.note(f"Changed since: {line}")
        if arguments.dry_run:
            _tell_plan(arguments.json, run, to, changed)
            return 0
        _ask_about_addresses(given, arguments.yes)
        with redirect_stdout(StringIO()):  # what the command has to say is not the outcome of the replay
            status = kind.run(given, settings)
    if status == INTERRUPTED:
        output.note(f"Go on with: rh replay {run} --to {to}")
        return status
    return _conclude(kind, (run, to), changed, arguments)


def _conclude(kind: Replayable, folders: tuple[Path, Path], changed: list[str], arguments: argparse.Namespace) -> int:
    """Compare the run with its replay, keep the comparison beside the replay, and say what came of it."""
    from rewardharness.files import write_json
    from rewardharness.runs.replay import TOLERANCE

    run, to = folders
    outcome = _compare(kind, run, to, TOLERANCE if arguments.tolerance is None else arguments.tolerance)
    found = {"same": outcome.same, "run": str(run), "replay": str(to), "changed": changed, **_outcome_json(outcome)}
    write_json(to / "replay.json", found)
    if arguments.json:
        output.emit(found)
    else:
        _tell(outcome, run, to)
    return 0 if outcome.same else 1


def _find(which: str, settings: Settings) -> Path:
    from rewardharness.runs.store import read_manifest

    folder = Path(which) if Path(which).is_dir() else settings.home / "runs" / which
    read_manifest(folder)
    return folder.absolute()


def _check_replayable(run: Path, record: Mapping[str, Any]) -> Replayable:
    from rewardharness.runs.records import MASK
    from rewardharness.runs.store import is_running

    kind = COMMANDS.get(str(record["about"].get("command")))
    if kind is None:
        known = ", ".join(COMMANDS)
        raise RunError(f"{run} holds a run that cannot be replayed.", next_step=f"What can be replayed: {known}.")
    if is_running(run):
        raise RunError(f"{run} is running.", next_step="Wait until it ends.")
    last = record["sittings"][-1]
    if last["condition"] != "done":
        how = last["condition"] or "killed"
        raise RunError(
            f"{run} is not finished: it was {how}.",
            next_step=f"Finish it first: cd {last['folder']} && rh {' '.join(last['words'])}",
        )
    masked = [word for word in last["words"] if MASK in word]
    if masked:
        raise RunError(
            f"The record of {run} keeps no passwords, and the run was given one: {masked[0]}.",
            next_step="Give keys in the environment (RH_API_KEY), not in addresses; then runs can be replayed.",
        )
    return kind


def _destination(to: Path | None, run: Path, record: Mapping[str, Any]) -> Path:
    """Choose where the replay goes: a new folder, or one with a replay of the same run that was interrupted."""
    from rewardharness.runs.records import read_record

    def unfinished(folder: Path) -> bool:
        try:
            there = read_record(folder)
        except HarnessError:
            return False
        ours = there.get("replays") == {"folder": str(run), "created": record["created"]}
        return ours and there["sittings"][-1]["condition"] != "done"

    if to is not None:
        if to.exists() and any(to.iterdir()) and not unfinished(to):
            raise RunError(f"{to} holds something already.", next_step="Name a new folder.")
        return to
    for number in range(1, 10_000):
        folder = run.with_name(f"{run.name}-replay" + (f"-{number}" if number > 1 else ""))
        if not folder.exists() or unfinished(folder):
            return folder
    raise RunError(f"There are too many replays beside {run}.", next_step="Name a folder with --to.")


def _inside(folder: Path) -> AbstractContextManager[None]:
    """Work where the command was given, so that its relative paths mean the same."""
    if folder.is_dir():
        return chdir(folder)
    output.note(f"Changed since: the folder {folder}, which the command was given in, is gone.")
    return nullcontext()


def _given(
    kind: Replayable, sitting: Mapping[str, Any], arguments: argparse.Namespace, to: Path
) -> tuple[argparse.Namespace, list[str]]:
    """The arguments of the run, with the folder of the replay; and which of them this version understands otherwise."""
    from rewardharness.cli.main import make_parser

    words = _without_run(sitting["words"])
    try:
        given = make_parser().parse_args(words)
    except SystemExit:
        raise RunError(
            f"This version does not understand the command of the run: rh {' '.join(sitting['words'])}",
            next_step="Replay it with the version that ran it, or give the command anew.",
        ) from None
    if given.run is not kind.run:
        raise RunError("The record of the run contradicts itself: its command is another than its kind.")
    given.words = [*words, "--run", str(to)]
    for name in () if getattr(given, "release", None) else ("judge", "library"):
        taken = sitting["arguments"].get(name)
        if getattr(given, name) is None and isinstance(taken, str):
            setattr(given, name, taken)  # what the environment said then
    own = {"run_folder": to, "restart": False, "dry_run": False, "json": False, "yes": arguments.yes}
    own |= {"for_library": None, "copy_best": None, "push": None}  # a replay writes into its own folder alone
    if isinstance(getattr(given, "output", None), Path):
        own["output"] = to / OUTPUT / given.output.name
    own |= {"quiet": arguments.quiet or arguments.json, "no_cache": arguments.no_cache or given.no_cache}
    changed = [
        f"the default of {name.replace('_', ' ')} ({_short(was)} and {_short(is_now)})"
        for name, was in sitting["arguments"].items()
        if hasattr(given, name) and name not in own and (is_now := _plain(getattr(given, name))) != was
    ]
    for name, value in own.items():
        if hasattr(given, name):
            setattr(given, name, value)
    return given, changed


def _plain(value: Any) -> Any:
    """An argument as a record writes it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _ask_about_addresses(given: argparse.Namespace, yes: bool) -> None:
    """Ask before images and a key go to an address that a record names: a run folder may be somebody else's.

    Raises:
        InputError: If the answer is no, or there is nobody to ask.
    """
    texts = [str(value) for value in vars(given).values() if isinstance(value, str | list)]
    addresses = sorted({found for text in texts for found in _ADDRESS.findall(text)})
    if addresses:
        output.note(f"The replay sends images, and your key where you have set one, to {', '.join(addresses)}.")
    ask_leave(bool(addresses), yes, "Look at record.json in the run folder")


def _without_run(words: list[str]) -> list[str]:
    """The words of a command without the folder that its run was kept in."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith("--run=") or word in {"--run", "--restart"}:
            skip = word == "--run" and not skip
        else:
            kept.append(word)
    return kept


def _changes_around(sitting: Mapping[str, Any]) -> list[str]:
    """Say what the run ran in and this one does not."""
    from rewardharness.runs.surroundings import surroundings

    now = surroundings(Path.cwd())
    changes = []
    was, is_now = sitting["package"], now["package"]
    if was != is_now:
        versions = f"{was.get('version')} and {is_now['version']}"
        same = "the version is the same, the sources are not" if was.get("version") == is_now["version"] else versions
        changes.append(f"the code of this package ({same})")
    for name in ("python", "platform"):
        if sitting.get(name) != now[name]:
            changes.append(f"{name} ({sitting.get(name)} and {now[name]})")
    before, after = sitting.get("packages", {}), now["packages"]
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            changes.append(f"{name} ({before.get(name, 'not installed')} and {after.get(name, 'not installed')})")
    return changes


def _changes_about(
    record: Mapping[str, Any], kind: Replayable, run: Path, given: argparse.Namespace, settings: Settings
) -> list[str]:
    """Say what the run was about and this one is not. A Library that changed is taken from the run, where it keeps it.

    Raises:
        RunError: If data or Library are gone.
    """
    about = record["about"]
    kept = run / kind.library if kind.library else None
    changes = []
    try:
        now = _about(kind, given, settings)
    except HarnessError as error:
        now, trouble = {}, error
    if kept is not None and kept.is_dir() and now.get("library_id") != about.get("library_id"):
        spec, given.library = given.library, str(kept)
        try:
            now = _about(kind, given, settings)
            changes.append(f"the Library {spec}; the one that the run began with is taken, {kept}")
        except HarnessError as error:
            now, trouble = {}, error
    if not now:
        raise RunError(
            f"The run cannot be replayed, because what it was about cannot be opened. {trouble.message}",
            next_step=f"Bring it back. {trouble.next_step}".strip(),
        )
    for key in sorted({*about, *now} - {"started"}):
        if about.get(key) != now.get(key):
            changes.append(f"{key.replace('_', ' ')} ({_short(about.get(key))} and {_short(now.get(key))})")
    return changes


def _about(kind: Replayable, given: argparse.Namespace, settings: Settings) -> Mapping[str, Any]:
    return kind.about(argparse.Namespace(**vars(given)), settings)


def _short(value: Any) -> str:
    return output.shorten(str(value), 40)


def _compare(kind: Replayable, run: Path, to: Path, tolerance: float) -> "ReplayComparison":
    from rewardharness.files import read_json
    from rewardharness.runs.replay import compare_reports, compare_results, results_of

    report = []
    if kind.report == OUTCOME and not (run / OUTCOME).is_file():
        output.note(f"{run} was made by an earlier version and keeps no {OUTCOME}: judgments alone are compared.")
    elif kind.report:
        report = compare_reports(read_json(run / kind.report), read_json(to / kind.report))
    return compare_results(results_of(run), results_of(to), tolerance=tolerance, report=report)


def _outcome_json(outcome: "ReplayComparison") -> dict[str, Any]:
    largest = outcome.largest if outcome.largest != float("inf") else None
    return {**asdict(outcome), "largest": largest}


def _tell_plan(as_json: bool, run: Path, to: Path, changed: list[str]) -> None:
    if as_json:
        output.emit({"run": str(run), "replay": str(to), "changed": changed})
    else:
        output.say(f"{run} would be replayed to {to}. {len(changed) or 'Nothing'} changed since. Nothing was done.")


def _tell(outcome: "ReplayComparison", run: Path, to: Path) -> None:
    """Print what came out, and what did not come out the same."""
    lists = (
        ("the replay lacks", [*outcome.only_before]),
        ("only the replay has", [*outcome.only_after]),
        *(
            (words, [f"{each.place}: {_short(each.before)} and {_short(each.after)}" for each in found])
            for words, found in (
                ("another preference", outcome.preferences),
                ("another margin", outcome.margins),
                ("another report", outcome.report),
            )
        ),
    )
    for words, lines in lists:
        for line in lines[:SHOWN]:
            output.say(f"{words}: {line}")
        if len(lines) > SHOWN:
            output.say(f"{words}: {len(lines) - SHOWN} more, in {to / 'replay.json'}")
    asked = f"; a model was asked anew for {outcome.asked}" if outcome.asked else ""
    moved = "margins to the last digit"
    if outcome.moved:
        moved = f"{outcome.moved} margins moved, by {outcome.largest:.4g} at most"
    verdict = "The same came of it" if outcome.same else "Something else came of it"
    output.say(f"{verdict}: {outcome.n} judgments compared, {moved}{asked}. Replay: {to}")

"""`rh release`, `rh deploy` and `rh rollback`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rewardharness.cli import output
from rewardharness.cli.judging import add_options, judge_config
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewardharness.judging.deployments import Deployments, Record
    from rewardharness.judging.release import Release
    from rewardharness.models.probe import Probe

_WORDS = ("verify", "show")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    one = commands.add_parser(
        "release",
        help="pin a judge and a Library in one file, check or show such a file",
        description=release.__doc__,
        usage="rh release LIBRARY -o FILE [--judge JUDGE] [options]\n"
        "       rh release verify FILE [--judge URL] [--card REPORT.json] [--json]\n"
        "       rh release show FILE [--json]",
    )
    one.add_argument("what", metavar="LIBRARY|verify|show", help="a Library to release (a folder named so: ./verify)")
    one.add_argument("file", nargs="?", metavar="FILE", help="the release to verify or to show, or deployed:NAME")
    add_options(one)
    one.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the release is written")
    one.add_argument(
        "--card",
        type=Path,
        action="append",
        default=[],
        metavar="REPORT.json",
        help="a report whose figures the card is to show, or with verify: is to be compared with; what "
        "`rh score-folder --json` printed, or report.json of `rh benchmark` or `rh evolve`; can be given several times",
    )
    one.add_argument("--model-revision", metavar="TEXT", help="the weights, such as a commit of the Hub")
    one.add_argument("--yes", action="store_true", help="replace a file that is there")
    one.add_argument("--dry-run", action="store_true", help="say what would be pinned, and write nothing")
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.set_defaults(run=release)

    put = commands.add_parser("deploy", help="make a release active under a name", description=deploy.__doc__)
    put.add_argument("release", nargs="?", metavar="RELEASE", help="a release file, or deployed:NAME")
    which = put.add_mutually_exclusive_group(required=True)
    which.add_argument("--target", metavar="NAME", help="the name, such as prod")
    which.add_argument("--list", action="store_true", help="list what is active")
    which.add_argument("--show", metavar="NAME", help="show what was active under a name, one after the other")
    put.add_argument("--dry-run", action="store_true", help="verify the release, and deploy nothing")
    put.add_argument("--json", action="store_true", help="print one JSON object")
    put.set_defaults(run=deploy)

    back = commands.add_parser("rollback", help="make an earlier release active again", description=rollback.__doc__)
    back.add_argument("target", metavar="NAME", help="the name under which it is deployed")
    back.add_argument("--to", metavar="ID", help="the release, or the first digits of its id (default: the one before)")
    back.add_argument("--json", action="store_true", help="print one JSON object")
    back.set_defaults(run=rollback)


def release(arguments: argparse.Namespace, settings: Settings) -> int:
    """Pin a judge, how it judges and a Library in one file: the same file, the same scores. Or check such a file."""
    from rewardharness.errors import InputError

    if arguments.what in _WORDS:
        if arguments.file is None:
            raise InputError(f"rh release {arguments.what} needs a file.", next_step="Name a release file.")
        return (_verify if arguments.what == "verify" else _show)(arguments, settings)
    if arguments.file is not None:
        message = f"{arguments.file!r} is one argument too many."
        raise InputError(message, next_step="Write: rh release LIBRARY -o FILE, rh release verify FILE or show FILE.")
    return _make(arguments)


def deploy(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make a release active under a name, after verifying it; `--release deployed:NAME` then means that one."""
    from rewardharness.errors import InputError
    from rewardharness.judging.deployments import Deployments, find_release
    from rewardharness.judging.release_opening import check_installed

    deployments = Deployments(settings.home)
    if arguments.target is None:
        if arguments.release is not None:
            raise InputError("A release is deployed with --target NAME.", next_step="Name the target, or no release.")
        return _list(deployments, arguments) if arguments.list else _history(deployments, arguments)
    if arguments.release is None:
        raise InputError("There is no release to deploy.", next_step="Write: rh deploy FILE --target NAME")
    found = find_release(arguments.release, settings)
    if arguments.dry_run:
        check_installed(found)
        told = {"release": found.id, "target": arguments.target, "changed": False}
        _tell(arguments, told, f"{_sentence(found)} It could be deployed as {arguments.target}. Nothing was deployed.")
        return 0
    record, changed = deployments.deploy(arguments.target, found)
    done = "is active as" if changed else "was active already as"
    _tell(arguments, {**_fields(record), "changed": changed}, f"{_sentence(found)} It {done} {arguments.target}.")
    return 0


def rollback(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make an earlier release active again: the one before the active one, or the one that is named."""
    from rewardharness.judging.deployments import Deployments

    record = Deployments(settings.home).rollback(arguments.target, arguments.to)
    _tell(arguments, _fields(record), f"Release {record.release[:12]} is active as {arguments.target} again.")
    return 0


def _make(arguments: argparse.Namespace) -> int:
    from rewardharness.errors import InputError
    from rewardharness.judging.opening import JudgeOptions
    from rewardharness.judging.release import make_release
    from rewardharness.judging.release_card import read_report
    from rewardharness.judging.release_file import release_text, save_release
    from rewardharness.library.opening import open_library

    path: Path | None = arguments.output
    if path is None and not arguments.dry_run:
        raise InputError("Nothing says where the release is to be written.", next_step="Give -o release.json.")
    config = judge_config(arguments)
    options = JudgeOptions(ties=arguments.ties, subagent=config.subagent, router=config.router)
    figures = [figure for report in arguments.card for figure in read_report(report)]
    library = open_library(arguments.what)
    made = make_release(arguments.judge, library, options, model_revision=arguments.model_revision, evaluation=figures)
    told = {"id": made.id, "library_id": library.id, "file": None if path is None else str(path)}
    if arguments.dry_run or path is None:
        _tell(arguments, {**told, "written": False}, f"{_sentence(made)} Nothing was written.")
        return 0
    if path.exists() and not arguments.yes and path.read_bytes() != release_text(made).encode("utf-8"):
        raise InputError(f"{path} is there already.", next_step="Name another file, or replace it with --yes.")
    save_release(made, path)
    _tell(arguments, {**told, "written": True}, f"{_sentence(made)} Written to {path}.")
    return 0


def _verify(arguments: argparse.Namespace, settings: Settings) -> int:
    """Check a file by its own hashes, this installation against it, and its model where that is said to be served."""
    import asyncio

    from rewardharness.judging.deployments import find_release
    from rewardharness.judging.opening import MEASURED, JudgeOptions
    from rewardharness.judging.release import check_figures
    from rewardharness.judging.release_card import UNVERIFIED, read_report
    from rewardharness.judging.release_opening import check_installed, open_release, remarks

    found = find_release(arguments.file, settings)
    check_installed(found)
    reported = [figure for report in arguments.card for figure in read_report(report)]
    check_figures(found, reported)
    names = [each.name for each in found.figures]
    card = {"id": found.card_id, "reported": names if reported else [], "unverified": [] if reported else names}
    told: dict[str, Any] = {"id": found.id, "remarks": remarks(found), "endpoints": [], "card": card}
    endpoint = judge_config(arguments).endpoint(settings)
    asked = endpoint is not None or (settings.judge != MEASURED and found.judge != MEASURED)
    if asked:
        options = JudgeOptions(cache=False, router=arguments.router)
        judge, _ = open_release(found, settings, endpoint=endpoint, options=options)
        if judge.find_out is not None:
            probes = cast("Sequence[Probe]", asyncio.run(judge.check()))
            told["endpoints"] = [
                {"endpoint": each.endpoint, "problem": each.error.message if each.error else ""} for each in probes
            ]
    lines = [_sentence(found), "All that a score depends on is as it was made, and this installation makes its scores."]
    if reported:
        lines.append(f"The figures of its card are those of the reports: {', '.join(names) or 'none'}.")
    elif names:
        lines.append(f"{UNVERIFIED} Compare them with their reports (--card REPORT.json): {', '.join(names)}.")
    lines += [f"Note: {each}; the last digits of what is measured may differ." for each in told["remarks"]]
    lines += [f"{each['endpoint']}: {each['problem'] or 'serves the model'}" for each in told["endpoints"]]
    if found.judge != MEASURED and not told["endpoints"]:
        lines.append("Its model was not asked; say with --judge where it is served.")
    _tell(arguments, told, "\n".join(lines))
    return 1 if any(each["problem"] for each in told["endpoints"]) else 0


def _show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show what a release pins, and its card."""
    from rewardharness.judging.deployments import find_release
    from rewardharness.judging.release_card import UNVERIFIED

    found = find_release(arguments.file, settings)
    if arguments.json:
        entries = {each.name: each.entry_id for each in found.library.entries}
        shown = {**found.to_json(), "library": {"id": found.library.id, "entries": entries}}
        output.emit({**shown, "card_status": UNVERIFIED})
        return 0
    output.say(_sentence(found))
    judge = {"id": found.id, "model revision": found.model_revision or "not said", "router": found.router or "none"}
    rows = {**judge, **{name: str(value) for name, value in sorted(found.settings.items())}}
    output.table(("what", "pinned"), [(name, str(value)) for name, value in rows.items()])
    shares = [(output.share(each.coverage), output.share(each.accuracy, each.interval)) for each in found.figures]
    figures = [
        (each.name, str(each.n), str(each.judged), *shown) for each, shown in zip(found.figures, shares, strict=True)
    ]
    if figures:
        output.table(("card", "n", "judged", "coverage", "accuracy [95 % interval]"), figures)
        output.say(f"{UNVERIFIED} Compare them with their reports: rh release verify FILE --card REPORT.json")
    output.say("Made with " + ", ".join(f"{name} {each}" for name, each in found.card["made_with"].items()) + ".")
    return 0


def _list(deployments: "Deployments", arguments: argparse.Namespace) -> int:
    records = {target: record for target in deployments.targets() if (record := deployments.active(target))}
    if arguments.json:
        output.emit({"targets": {target: _fields(record) for target, record in records.items()}})
    elif records:
        rows = [(target, *_row(record)) for target, record in records.items()]
        output.table(("target", "release", "since", "judge", "Library"), rows)
    else:
        output.say("Nothing is deployed.")
    return 0


def _history(deployments: "Deployments", arguments: argparse.Namespace) -> int:
    found = deployments.release(arguments.show)  # its file is checked, too
    records = deployments.in_effect(arguments.show)
    if arguments.json:
        output.emit({"active": _fields(records[-1]), "history": [_fields(record) for record in records]})
        return 0
    output.say(f"{_sentence(found)} It is active as {arguments.show}.")
    rows = [(str(record.number), record.action, *_row(record)) for record in records]
    output.table(("number", "what", "release", "at", "judge", "Library"), rows)
    return 0


def _row(record: "Record") -> tuple[str, str, str, str]:
    return record.release[:12], record.at, f"{record.judge}, {record.protocol}", record.library_id[:12]


def _fields(record: "Record") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(record)


def _sentence(found: "Release") -> str:
    return (
        f"Release {found.id[:12]}: {found.judged_by}, {found.protocol}; Library {found.library.id[:12]} with "
        f"{len(found.library.skills)} Skills and {len(found.library.tools)} Tools."
    )


def _tell(arguments: argparse.Namespace, told: dict[str, Any], words: str) -> None:
    if arguments.json:
        output.emit(told)
    else:
        output.say(words)

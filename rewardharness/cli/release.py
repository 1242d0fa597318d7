"""`rh release`: create, show, verify, deploy and roll back releases; `rh judges`: published reward models."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app
from rewardharness.cli.library import entry_counts
from rewardharness.errors import InputError
from rewardharness.judging.config import MEASURED, JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewardharness.judging.deployments import DeploymentRecord, Deployments
    from rewardharness.judging.release import Release
    from rewardharness.models.probe import Probe


app = make_app(
    "release",
    "Pin a judge and a Library in a file: the same file gives the same scores. A RELEASE is a file, or deployed:NAME.",
    {"Judge": JudgeConfig},
)
judges_app = make_app(
    "judges",
    "List, show and fetch judge profiles: how published reward models are asked. A PROFILE is a name or a YAML file.",
)
apps = {"release": app, "judges": judges_app}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CreateOptions:
    """What a release pins besides judge and Library, and where it is written."""

    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None
    """Release file to write."""
    ties: bool = False
    """Allow `tie` as a preference."""
    card: tuple[Path, ...] = ()
    """Report whose results the card shows: output of `rh score --json`, or report.json of `rh benchmark` or
    `rh evolve`; may be repeated."""
    calibration: Path | None = None
    """Calibration of the confidence, written by rh benchmark --calibrate."""
    model_revision: str | None = None
    """Revision of the model's weights, such as a commit on the Hub."""
    yes: bool = False
    """Replace an existing file."""
    dry_run: bool = False
    """Show what would be pinned, and write nothing."""
    json: bool = False
    """Print one JSON object."""


_JUDGE, _CREATE = JudgeConfig(), CreateOptions()


@app.command
def create(*, judge: Annotated[JudgeConfig, Parameter(name="*")] = _JUDGE, options: CreateOptions = _CREATE) -> None:
    """Pin a judge, its settings and a Library in a file.

    Example: `rh release create --library my-library -o release.json`
    """
    from rewardharness.judging.calibration import load_calibration
    from rewardharness.judging.release import make_release
    from rewardharness.judging.release_card import read_report
    from rewardharness.judging.release_file import release_text, save_release

    settings = Settings.from_env()
    path = options.output
    if path is None and not options.dry_run:
        raise InputError("The release needs an output file.", next_step="Add -o release.json.")
    config = judge.with_defaults(settings)
    figures = [figure for report in options.card for figure in read_report(report)]
    library = config.open_library(settings)
    usual = load_calibration(settings.calibration) if settings.calibration is not None else None
    made = make_release(
        str(config.judge),
        library,
        replace(config.model, ties=options.ties),
        router=config.router,
        calibration=load_calibration(options.calibration) if options.calibration is not None else None,
        model_revision=options.model_revision,
        evaluation=figures,
        usual=usual,
    )
    record = {"id": made.id, "library_id": library.id, "file": None if path is None else str(path)}
    if options.dry_run or path is None:
        output.show(options.json, {**record, "written": False}, f"{_sentence(made)} Nothing was written.")
        return
    if path.exists() and not options.yes and path.read_bytes() != release_text(made).encode("utf-8"):
        raise InputError(f"{path} exists.", next_step="Choose another file, or replace it with --yes.")
    save_release(made, path)
    output.show(options.json, {**record, "written": True}, f"{_sentence(made)} Written to {path}.")


@app.command
def show(release: str, /, *, json: bool = False) -> None:
    """Show what a release pins, and its card.

    Example: `rh release show release.json`

    Args:
        release: A release.
        json: Print one JSON object.
    """
    from rewardharness.judging.deployments import find_release
    from rewardharness.judging.release_card import UNVERIFIED

    bundle = find_release(release, Settings.from_env())
    if json:
        library = {"id": bundle.library.id, "entries": {entry.name: entry.entry_id for entry in bundle.library.entries}}
        output.emit({**bundle.to_json(), "library": library, "card_status": UNVERIFIED})
        return
    output.say(_sentence(bundle))
    judge = {"id": bundle.id, "model revision": bundle.model_revision or "unknown", "router": bundle.router or "none"}
    rows = {**judge, **{name: str(value) for name, value in sorted(bundle.options.items())}}
    output.table(("what", "pinned"), [(name, str(value)) for name, value in rows.items()])
    figures = [
        (one.name, str(one.n), str(one.judged), output.share(one.coverage), output.share(one.accuracy, one.interval))
        for one in bundle.figures
    ]
    if figures:
        output.table(("card", "n", "judged", "coverage", "accuracy [95% CI]"), figures)
        output.say(f"{UNVERIFIED} Compare them with their reports: rh release verify FILE --card REPORT.json")
    output.say(
        "Made with " + ", ".join(f"{name} {version}" for name, version in bundle.card["made_with"].items()) + "."
    )


@app.command
def verify(
    release: str,
    /,
    *,
    judge: str | None = None,
    router: str | None = None,
    card: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Check the hashes of a release, this installation against it, and the endpoint of its model if it is named.

    Example: `rh release verify release.json --card report.json`

    Args:
        release: A release.
        judge: Endpoint of the release's model.
        router: Endpoint of the release's router model.
        card: Report that the results on the card are compared with; may be repeated.
        json: Print one JSON object.
    """
    import asyncio

    from rewardharness.judging.deployments import find_release
    from rewardharness.judging.opening import open_release
    from rewardharness.judging.release import check_figures, check_installed, remarks
    from rewardharness.judging.release_card import UNVERIFIED, read_report
    from rewardharness.judging.subagent import model_judge

    settings = Settings.from_env()
    found = find_release(release, settings)
    check_installed(found)
    reported = [figure for report in card for figure in read_report(report)]
    check_figures(found, reported)
    names = [figure.name for figure in found.figures]
    checked = {"id": found.card_id, "reported": names if reported else [], "unverified": [] if reported else names}
    record: dict[str, Any] = {"id": found.id, "remarks": remarks(found), "endpoints": [], "card": checked}
    config = JudgeConfig(judge=judge, router=router, no_cache=True)
    if config.endpoint(settings) is not None or (settings.judge != MEASURED and found.judge != MEASURED):
        opened = open_release(found, settings, config)
        agent = model_judge(opened)
        if agent is not None and agent.find_out is not None:
            probes = cast("Sequence[Probe]", asyncio.run(agent.check()))
            record["endpoints"] = [
                {"endpoint": probe.endpoint, "problem": probe.error.message if probe.error else ""} for probe in probes
            ]
    lines = [_sentence(found), "Judge, settings and Library are unmodified, and this installation gives their scores."]
    if reported:
        lines.append(f"The results on its card match the reports: {', '.join(names) or 'none'}.")
    elif names:
        lines.append(f"{UNVERIFIED} Compare them with their reports (--card REPORT.json): {', '.join(names)}.")
    lines += [f"Note: {remark}; the last digits of measurements may differ." for remark in record["remarks"]]
    lines += [f"{check['endpoint']}: {check['problem'] or 'serves the model'}" for check in record["endpoints"]]
    if found.judge != MEASURED and not record["endpoints"]:
        lines.append("The endpoint of its model was not checked; name it with --judge.")
    output.show(json, record, "\n".join(lines))
    return 1 if any(check["problem"] for check in record["endpoints"]) else 0


@app.command
def deploy(
    release: str | None = None,
    /,
    *,
    target: str | None = None,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    show: str | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Verify a release and make it active under a name; `--release deployed:NAME` then uses it.

    Example: `rh release deploy release.json --target prod`

    Args:
        release: A release.
        target: Name, such as prod.
        list_: List the active releases instead.
        show: Show the history of this name instead.
        dry_run: Verify the release, and deploy nothing.
        json: Print one JSON object.
    """
    from rewardharness.judging.deployments import Deployments, find_release
    from rewardharness.judging.release import check_installed

    settings = Settings.from_env()
    deployments = Deployments(settings.home)
    if (target is not None) + list_ + (show is not None) != 1 or (target is None) != (release is None):
        step = "Write: rh release deploy FILE --target NAME, rh release deploy --list, or --show NAME."
        raise UsageError("deploy needs a release and a target, or --list, or --show.", next_step=step)
    if show is not None:
        return _history(deployments, show, json)
    if target is None or release is None:
        return _list(deployments, json)
    bundle = find_release(release, settings)
    if dry_run:
        check_installed(bundle)
        record = {"release": bundle.id, "target": target, "changed": False}
        output.show(json, record, f"{_sentence(bundle)} It can be deployed as {target}. Nothing was deployed.")
        return 0
    deployed, changed = deployments.deploy(target, bundle)
    done = "is now active as" if changed else "was already active as"
    output.show(json, {**asdict(deployed), "changed": changed}, f"{_sentence(bundle)} It {done} {target}.")
    return 0


@app.command
def rollback(target: str, /, *, to: str | None = None, json: bool = False) -> None:
    """Make an earlier release active again.

    Example: `rh release rollback prod`

    Args:
        target: Name under which releases are deployed.
        to: The release, or the first digits of its id (default: the previous one).
        json: Print one JSON object.
    """
    from rewardharness.judging.deployments import Deployments

    record = Deployments(Settings.from_env().home).rollback(target, to)
    output.show(json, asdict(record), f"Release {record.release[:12]} is active as {target} again.")


def _list(deployments: "Deployments", as_json: bool) -> int:
    records = {target: record for target in deployments.targets() if (record := deployments.active(target))}
    if as_json or not records:
        targets = {target: asdict(record) for target, record in records.items()}
        output.show(as_json, {"targets": targets}, "No release is deployed.")
        return 0
    rows = [(target, *_row(record)) for target, record in records.items()]
    output.table(("target", "release", "since", "judge", "Library"), rows)
    return 0


def _history(deployments: "Deployments", target: str, as_json: bool) -> int:
    release = deployments.release(target)  # this checks its file, too
    records = deployments.in_effect(target)
    history = {"active": asdict(records[-1]), "history": [asdict(record) for record in records]}
    output.show(as_json, history, f"{_sentence(release)} It is active as {target}.")
    if not as_json:
        rows = [(str(record.number), record.action, *_row(record)) for record in records]
        output.table(("number", "what", "release", "at", "judge", "Library"), rows)
    return 0


def _row(record: "DeploymentRecord") -> tuple[str, str, str, str]:
    return record.release[:12], record.at, f"{record.judge}, {record.protocol}", record.library_id[:12]


def _sentence(release: "Release") -> str:
    return (
        f"Release {release.id[:12]}: {release.judged_by}, {release.protocol}; Library {release.library.id[:12]} "
        f"({entry_counts(release.library)})."
    )


@judges_app.command(name="list")
def list_profiles(*, json: bool = False) -> int:
    """List the judge profiles of this package.

    Example: `rh judges list`

    Args:
        json: Print one JSON list.
    """
    from rewardharness.judging.profile_opening import load_profile, missing_texts, shipped_profiles

    home = Settings.from_env().home
    profiles = [
        (profile, missing_texts(profile, home)) for profile in (load_profile(name)[0] for name in shipped_profiles())
    ]
    records = [
        {
            "name": profile.name,
            "version": profile.version,
            "mode": profile.mode,
            "model": profile.model,
            "to_fetch": missing,
        }
        for profile, missing in profiles
    ]
    if json:
        output.emit(records)
        return 0
    rows = [(profile.name, profile.mode, profile.model, "no" if missing else "yes") for profile, missing in profiles]
    output.table(("profile", "mode", "model", "texts here"), rows)
    output.say("Judge with one: rh score DATA --judge PROFILE:NAME@URL")
    return 0


@judges_app.command(name="show")
def show_profile(profile: str, /, *, json: bool = False) -> int:
    """Show a judge profile: its model, requests, texts with sources and licenses, score, and notes.

    Example: `rh judges show editscore`

    Args:
        profile: Name or YAML file of the profile.
        json: Print one JSON object.
    """
    from rewardharness.codec import to_json
    from rewardharness.judging.profile_opening import load_profile

    opened, _ = load_profile(profile)
    record = to_json(opened)
    if json:
        output.emit({**record, "id": opened.id})
        return 0
    each = {"single": "one candidate per request", "pair": "two candidates per request, in both orders"}[opened.mode]
    facts = {"model": opened.model, "served": opened.serving, "from": opened.homepage, "asks": each}
    output.say(f"{opened.name} {opened.version}: {opened.about}")
    output.table(("", ""), [(name, value) for name, value in facts.items() if value])
    rows = [(name, text.origin, text.license) for name, text in opened.texts.items()]
    output.table(("text", "comes from", "license"), rows)
    calls = [(name, ", ".join(call.reply.values)) for name, call in opened.calls.items()]
    output.table(("request", "values in its reply"), calls)
    low, high = opened.range
    output.say(f"Score: {_formula(opened.score)}, from {low:g} to {high:g}")
    for note in opened.notes:
        output.say(f"- {note}")
    output.say("Library, Tools and measured evidence are off: the model was trained on this one prompt.")
    return 0


@judges_app.command
def pull(profile: str, /) -> int:
    """Fetch the texts of a judge profile and check their hashes. Nothing that is fetched is executed.

    Example: `rh judges pull editscore`

    Args:
        profile: Name or YAML file of the profile.
    """
    from rewardharness.judging.profile_opening import load_profile, load_texts

    opened, folder = load_profile(profile)
    texts = load_texts(opened, folder, Settings.from_env().home)
    for name, text in texts.items():
        source = opened.texts[name]
        output.say(f"{name}: {len(text):,} characters from {source.origin}; license {source.license}")
    output.say(f"{opened.name} is ready.")
    return 0


def _formula(node: object) -> str:
    """Write a score as a formula."""
    if not isinstance(node, dict):
        return str(node)
    ((operation, arguments),) = node.items()
    if isinstance(arguments, dict):
        inner = ", ".join(f"{name} = {_formula(argument)}" for name, argument in arguments.items())
    else:
        inner = ", ".join(map(_formula, arguments))
    return f"{operation}({inner})"

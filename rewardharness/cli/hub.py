"""`rh push-library`, `rh pull-library`, `rh push-space`, `rh export-skills`: Libraries on the Hub, and out of it."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.card import Facts
    from rewardharness.library.hub import Pulled, Pushed
    from rewardharness.library.space import PushedSpace

LIBRARY = "a Library folder, `builtin`, or org/name[@revision] on the Hub"
"""What stands for a Library on the command line."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    one = commands.add_parser("push-library", help="publish a Library on the Hub", description=push.__doc__)
    one.add_argument("folder", type=Path, metavar="DIR", help="the Library's folder")
    one.add_argument("--repo", required=True, metavar="ORG/NAME", help="where to; it is made if it does not exist")
    version = one.add_mutually_exclusive_group()
    version.add_argument("--version", metavar="X.Y.Z", help="version to publish (default: the next patch)")
    version.add_argument("--bump", choices=("patch", "minor", "major"), help="part of the last version that goes up")
    one.add_argument("--private", action="store_true", help="make the repository private, if it is new")
    one.add_argument("--create-pr", action="store_true", help="propose it as a pull request")
    one.add_argument("--rebase", action="store_true", help="bring it together with what others pushed meanwhile")
    one.add_argument("--dry-run", action="store_true", help="show the changes and the card, and write nothing")
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.set_defaults(run=push)

    fetched = commands.add_parser("pull-library", help="fetch a Library from the Hub", description=pull.__doc__)
    fetched.add_argument("repo", metavar="ORG/NAME", help="the repository; also org/name@revision or its URL")
    fetched.add_argument("--revision", metavar="R", help="a version, a commit or a branch (default: the newest)")
    fetched.add_argument("--to", type=Path, metavar="DIR", help="folder to write to (default: the repository's name)")
    fetched.add_argument("--json", action="store_true", help="print one JSON object")
    fetched.set_defaults(run=pull)

    space = commands.add_parser("push-space", help="make a Space for a Library", description=push_space.__doc__)
    space.add_argument("name", metavar="ORG/NAME", help="the Space; it is made if it does not exist")
    space.add_argument("--library", required=True, metavar="ORG/NAME[@R]", help="the Library on the Hub")
    space.add_argument("--judge", default="measured", metavar="SPEC", help="who judges there (default: measured)")
    space.add_argument("--private", action="store_true", help="make the Space private, if it is new")
    space.add_argument("--dry-run", action="store_true", help="show the changes and the card, and write nothing")
    space.add_argument("--json", action="store_true", help="print one JSON object")
    space.set_defaults(run=push_space)

    skills = commands.add_parser("export-skills", help="write Skills for coding agents", description=export.__doc__)
    skills.add_argument("library", help=LIBRARY)
    skills.add_argument("folder", type=Path, metavar="DIR", help="the agent's folder of skills, as in .agents/skills")
    skills.set_defaults(run=export)


def register_parts(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands that stand under `rh library`."""
    listed = parts.add_parser("versions", help="list the versions on the Hub", description=versions.__doc__)
    listed.add_argument("repo", metavar="ORG/NAME", help="the repository")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    listed.set_defaults(run=versions)

    shown = parts.add_parser("card", help="show the card of a Library", description=card.__doc__)
    shown.add_argument("folder", type=Path, metavar="DIR", help="the Library's folder")
    shown.add_argument("--repo", metavar="ORG/NAME", help="repository that it is written for (default: its origin)")
    shown.set_defaults(run=card)


def push(arguments: argparse.Namespace, settings: Settings) -> int:
    """Publish a Library folder on the Hub: one commit on top of what it was pulled from, a card, and a version tag.

    An interrupted push is repaired by running it again.
    """
    from rewardharness.library.hub import PushOptions, usual_access
    from rewardharness.library.hub import push as push_library

    how = PushOptions(
        version=arguments.version or "",
        bump=arguments.bump or "",
        private=arguments.private,
        create_pr=arguments.create_pr,
        rebase=arguments.rebase,
        dry_run=arguments.dry_run,
        facts=_measured(arguments.folder),
    )
    done = push_library(arguments.folder, arguments.repo, how, access=usual_access(settings))
    if arguments.json:
        output.emit(_pushed_json(done))
    else:
        _show_pushed(done)
    return 0


def pull(arguments: argparse.Namespace, settings: Settings) -> int:
    """Fetch a Library from the Hub into a folder. The folder remembers where it came from, for a later push."""
    from rewardharness.errors import InputError
    from rewardharness.library.diff import diff_libraries
    from rewardharness.library.hub import pull as pull_library
    from rewardharness.library.hub import split_spec, usual_access
    from rewardharness.library.registry import REGISTRY_FILE
    from rewardharness.library.store import Library

    named, _, after = arguments.repo.partition("@")
    repo, revision = split_spec(arguments.repo) or (named, after)
    if revision and arguments.revision:
        raise InputError("Two revisions are given.", next_step="Give one of the two.")
    to = arguments.to or Path(repo.rpartition("/")[2] or ".")
    before = Library.load(to) if (to / REGISTRY_FILE).is_file() else None
    pulled = pull_library(repo, arguments.revision or revision or None, to=to, access=usual_access(settings))
    for note in pulled.notes:
        output.note(note)
    if arguments.json:
        output.emit(_pulled_json(pulled))
        return 0
    library = pulled.library
    version = f"{pulled.version}, " if pulled.version else ""
    output.say(f"{repo}: {version}commit {pulled.commit}{' (offline, from the cache)' if pulled.offline else ''}")
    output.say(f"{len(library.skills)} Skills, {len(library.tools)} Tools. Library id {library.id}")
    if before is not None:
        found = diff_libraries(before, library)
        changes = [*(("+", each.name) for each in found.added), *(("~", each.name) for each in found.changed)]
        for sign, name in (*changes, *(("-", each.name) for each in found.removed)):
            output.say(f"{sign} {name}")
        output.say("Nothing has changed." if found.is_empty else "These entries have changed; read them before use.")
    output.say(f"Written to {to}. Its text comes from other people; see it with: rh library show {to}")
    return 0


def versions(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the versions of a Library on the Hub, newest first."""
    from rewardharness.library.hub import usual_access
    from rewardharness.library.hub import versions as list_versions

    found = list_versions(arguments.repo, access=usual_access(settings))
    if arguments.json:
        rows = [
            {"version": each.tag, "commit": each.commit, "date": each.date and each.date.isoformat()}
            | {"message": each.message}
            for each in found
        ]
        output.emit({"repo": arguments.repo, "versions": rows})
    elif not found:
        output.say(f"{arguments.repo} has no versions yet.")
    else:
        dates = [each.date.strftime("%Y-%m-%d %H:%M") if each.date else "-" for each in found]
        cells = [(each.tag, each.commit[:12], date, each.message) for each, date in zip(found, dates, strict=True)]
        output.table(("version", "commit", "date", "message"), cells)
    return 0


def card(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show the card of a Library folder as a push would write it. Needs no network."""
    from rewardharness.library.card import MAX_CONFIG, CardSubject, known_facts, make_card, read_config
    from rewardharness.library.folder import Folder
    from rewardharness.library.outgoing import CONFIG_FILE, read_draft

    draft = read_draft(arguments.folder)
    config = read_config(Folder(arguments.folder).read(CONFIG_FILE, MAX_CONFIG) or "{}")
    guess = re.sub(r"[^A-Za-z0-9_.-]+", "-", arguments.folder.resolve().name).strip("-.") or "library"
    repo = arguments.repo or (draft.origin.repo if draft.origin is not None else f"your-name/{guess}")
    published = config.library_id == draft.library.id and draft.origin is not None and draft.origin.repo == repo
    if published and draft.card is not None:
        output.say(draft.card.rstrip())  # as it was pushed: what changed since the version before is not known here
        return 0
    about = CardSubject(draft.library, repo, facts=_measured(arguments.folder) or known_facts(config, draft.library))
    output.say(make_card(about, draft.card or "").rstrip())
    return 0


def _measured(folder: Path) -> "tuple[Facts, ...]":
    """What `rh benchmark --for-library` wrote about the Library in a folder; nothing for another one."""
    from rewardharness.library.card import BENCHMARK_FILE, MAX_CONFIG, known_facts, read_config
    from rewardharness.library.folder import Folder
    from rewardharness.library.registry import REGISTRY_FILE
    from rewardharness.library.store import Library

    if not (folder / REGISTRY_FILE).is_file() or not (folder / BENCHMARK_FILE).is_file():
        return ()
    return known_facts(read_config(Folder(folder).read(BENCHMARK_FILE, MAX_CONFIG) or "{}"), Library.load(folder))


def push_space(arguments: argparse.Namespace, settings: Settings) -> int:
    """Publish the web app as a Hugging Face Space that judges with one Library, or bring that Space up to date.

    Keys are never pushed: what the Space needs is named in its README, to be set as its secrets by hand.
    """
    from rewardharness.library.hub import usual_access
    from rewardharness.library.space import SpaceOptions
    from rewardharness.library.space import push_space as publish

    wish = SpaceOptions(arguments.library, arguments.judge, arguments.private, arguments.dry_run)
    done = publish(arguments.name, wish, access=usual_access(settings))
    for note in done.notes:
        output.note(note)
    if arguments.json:
        output.emit(_space_json(done))
    else:
        _show_space(done)
    return 0


def export(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write the Skills of a Library as folders with a plain SKILL.md, for coding agents that read such folders."""
    from rewardharness.library.export import export_skills
    from rewardharness.library.opening import open_library

    written = export_skills(open_library(arguments.library), arguments.folder)
    for each in written:
        output.say(str(each.path))
    output.say(f"{len(written)} Skills. Tools are not exported: they run inside the judge.")
    return 0


def _pulled_json(pulled: "Pulled") -> dict[str, Any]:
    return {
        "repo": pulled.repo,
        "commit": pulled.commit,
        "version": pulled.version,
        "library_id": pulled.library.id,
        "offline": pulled.offline,
        "folder": str(pulled.folder),
        "notes": list(pulled.notes),
    }


def _pushed_json(done: "Pushed") -> dict[str, Any]:
    value: dict[str, Any] = {
        "repo": done.repo,
        "version": done.version,
        "commit": done.commit,
        "library_id": done.library.id,
        "nothing_to_push": done.nothing_to_push,
        "created": done.created,
        "tagged": done.tagged,
        "pull_request": done.pr_url,
        "dry_run": done.dry_run,
        "added": list(done.changes.added),
        "changed": list(done.changes.changed),
        "deleted": list(done.changes.deleted),
    }
    return value | ({"diffs": dict(done.diffs), "card": done.card} if done.dry_run else {})


def _show_pushed(done: "Pushed") -> None:
    for sign, paths in (("+", done.changes.added), ("~", done.changes.changed), ("-", done.changes.deleted)):
        for path in paths:
            output.say(f"{sign} {path}")
            if done.dry_run and path != "README.md":
                for line in done.diffs[path].splitlines():
                    output.say(f"    {line}")
    if done.dry_run and not done.nothing_to_push:
        output.say(f"\nThe card (README.md):\n\n{done.card}")
        new = f" {done.repo} would be made." if done.created else ""
        output.say(f"This would be {done.version} of {done.repo}.{new} Nothing was written.")
    elif done.pr_url:
        output.say(f"Proposed as {done.version}: {done.pr_url}")
        output.say("Once it is merged, pull and push again to publish the version.")
    elif done.nothing_to_push:
        tagged = f" Its version tag {done.version} was missing and is there now." if done.tagged else ""
        output.say(f"Nothing to push: {done.repo} has all of it as {done.version}, commit {done.commit}.{tagged}")
    else:
        output.say(f"{done.repo} {done.version} is commit {done.commit}. Library id {done.library.id}")
        output.say(f"Use it: rh score --library {done.repo}@{done.version} ...")


def _space_json(done: "PushedSpace") -> dict[str, Any]:
    value: dict[str, Any] = {
        "space": done.name,
        "url": done.url,
        "commit": done.commit,
        "nothing_to_push": done.nothing_to_push,
        "created": done.created,
        "dry_run": done.dry_run,
        "added": list(done.changes.added),
        "changed": list(done.changes.changed),
        "deleted": list(done.changes.deleted),
        "notes": list(done.notes),
    }
    return value | ({"diffs": dict(done.diffs), "card": done.card} if done.dry_run else {})


def _show_space(done: "PushedSpace") -> None:
    if done.nothing_to_push:
        output.say(f"Nothing to push: {done.name} has all of it, commit {done.commit}.")
        return
    changes = done.changes
    counts = f"{len(changes.added)} files added, {len(changes.changed)} changed, {len(changes.deleted)} deleted"
    if not done.dry_run:
        output.say(f"{done.name} is commit {done.commit}: {counts}.")
        output.say(f"It builds now, which takes a few minutes: {done.url}")
        return
    for text in done.diffs.values():
        output.say(text)
    new = f" {done.name} would be made." if done.created else ""
    output.say(f"\n{counts}.{new} Nothing was written.")

"""`rh push-library`, `rh pull-library`, `rh library search` and `rh library versions`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app, within
from rewardharness.errors import InputError, shell
from rewardharness.ranges import Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.card import Facts
    from rewardharness.library.hub import ListedLibrary, Pushed


OutputFolder = Annotated[Path | None, Parameter(name=("--to", "--output", "-o"))]

push_app = make_app("push-library", "Publish a Library on the Hub.")
pull_app = make_app("pull-library", "Download a Library from the Hub.")
apps = {"push-library": push_app, "pull-library": pull_app}


@push_app.default
def push(
    folder: Path,
    /,
    *,
    repo: str,
    version: str | None = None,
    bump: Literal["patch", "minor", "major"] | None = None,
    private: bool = False,
    create_pr: Annotated[bool, Parameter(name="--create-pr")] = False,
    rebase: bool = False,
    dry_run: bool = False,
    verbose: bool = False,
    json: bool = False,
) -> None:
    """Publish a Library folder on the Hub: one commit on the pulled revision, a card and a version tag.

    The same command repairs an interrupted push.

    Example: `rh push-library my-library --repo me/my-library --bump minor`

    Args:
        folder: Library folder.
        repo: Repository, as ORG/NAME; it is created if it does not exist.
        version: Version, as X.Y.Z (default: the next patch).
        bump: Part of the last version that is increased.
        private: Make a new repository private.
        create_pr: Open a pull request.
        rebase: Merge with the latest version on the Hub.
        dry_run: Summarize the changes, and write nothing.
        verbose: With --dry-run, show the full diff and the card.
        json: Print one JSON object.
    """
    from rewardharness.library.hub import PushOptions, usual_access
    from rewardharness.library.hub import push as push_library

    if version and bump:
        raise UsageError("--version and --bump exclude each other.", next_step="Give one of them.")
    options = PushOptions(version or "", bump or "", private, create_pr, rebase, "", dry_run, measured_facts(folder))
    done = push_library(folder, repo, options, access=usual_access(Settings.from_env()))
    if json:
        identity = {"repo": done.repo, "version": done.version, "library_id": done.library_id}
        output.emit(pushed_json(done, **identity, tagged=done.tagged, pull_request=done.pr_url))
    else:
        _show_pushed(done, verbose)


@pull_app.default
def pull(repo: str, /, *, revision: str | None = None, to: OutputFolder = None, json: bool = False) -> None:
    """Download a Library from the Hub into a folder. A later push of the folder builds on the downloaded revision.

    Example: `rh pull-library me/my-library --revision v0.3.0`

    Args:
        repo: Repository, as ORG/NAME, ORG/NAME@REVISION or its URL.
        revision: Version, commit or branch (default: the latest version).
        to: Folder to write to (default: the name of the repository).
        json: Print one JSON object.
    """
    from rewardharness.library.diff import diff_libraries
    from rewardharness.library.hub import pull as pull_library
    from rewardharness.library.hub import split_spec, usual_access
    from rewardharness.library.registry import REGISTRY_FILE
    from rewardharness.library.store import Library

    named, _, after = repo.partition("@")
    repo, named_revision = split_spec(repo) or (named, after)
    if named_revision and revision:
        raise InputError("--revision contradicts the revision after @.", next_step="Give one of them.")
    to = to or Path(repo.rpartition("/")[2] or ".")
    before = Library.load(to) if (to / REGISTRY_FILE).is_file() else None
    pulled = pull_library(repo, revision or named_revision or None, to=to, access=usual_access(Settings.from_env()))
    for note in pulled.notes:
        output.note(note)
    library = pulled.library
    if json:
        value = {"repo": repo, "commit": pulled.commit, "version": pulled.version, "library_id": library.id}
        output.emit({**value, "offline": pulled.offline, "folder": str(to), "notes": list(pulled.notes)})
        return
    version = f"{pulled.version}, " if pulled.version else ""
    output.say(f"{repo}: {version}commit {pulled.commit}{' (offline, from the cache)' if pulled.offline else ''}")
    output.say(f"{len(library.skills)} Skills, {len(library.tools)} Tools. Library id {library.id}")
    if before is not None:
        diff = diff_libraries(before, library)
        for sign, entry in diff.signed:
            output.say(f"{sign} {entry.name}")
        output.say("No entry has changed." if diff.is_empty else "Read the changed entries before use.")
    read = shell("rh library show {}", to)
    output.say(f"Written to {to}. It is text by other people; read it with: {read}")


def measured_facts(folder: Path) -> "tuple[Facts, ...]":
    """Return the results that `rh benchmark --for-library` stored for the Library in a folder."""
    from rewardharness.library.card import BENCHMARK_FILE, known_facts, read_config
    from rewardharness.library.registry import REGISTRY_FILE
    from rewardharness.library.store import Library

    if not (folder / REGISTRY_FILE).is_file() or not (folder / BENCHMARK_FILE).is_file():
        return ()
    return known_facts(read_config(folder / BENCHMARK_FILE), Library.load(folder))


def pushed_json(done: "Pushed", **further: Any) -> dict[str, Any]:
    """Return the result of a push of a Library or a Space as a JSON object."""
    value = {key: getattr(done, key) for key in ("commit", "nothing_to_push", "created", "dry_run")}
    value |= {key: list(getattr(done.changes, key)) for key in ("added", "changed", "deleted")}
    return further | value | ({"diffs": dict(done.diffs), "card": done.card} if done.dry_run else {})


def _show_pushed(done: "Pushed", verbose: bool) -> None:
    for sign, paths in (("+", done.changes.added), ("~", done.changes.changed), ("-", done.changes.deleted)):
        for path in paths:
            output.say(f"{sign} {path}")
            if verbose and done.dry_run and path != "README.md":
                for line in done.diffs[path].splitlines():
                    output.say(f"    {line}")
    if done.dry_run and not done.nothing_to_push:
        if verbose:
            output.say(f"\nThe card (README.md):\n\n{done.card}")
        new = f" {done.repo} would be created." if done.created else ""
        more = "" if verbose else " Add --verbose for the full diff and the card."
        output.say(f"This would be {done.version} of {done.repo}.{new} Nothing was written.{more}")
    elif done.pr_url:
        output.say(f"Proposed as {done.version}: {done.pr_url}")
        output.say("Once it is merged, pull and push again to publish the version.")
    elif done.nothing_to_push:
        tagged = f" Its missing version tag {done.version} was added." if done.tagged else ""
        output.say(f"Nothing to push: {done.repo} is up to date at {done.version}, commit {done.commit}.{tagged}")
    else:
        output.say(f"{done.repo} {done.version} is commit {done.commit}. Library id {done.library_id}")
        output.say(shell("Use it: rh score --library {} ...", f"{done.repo}@{done.version}"))


def search(
    query: str = "",
    /,
    *,
    author: str = "",
    sort: Literal["updated", "likes", "downloads"] = "updated",
    limit: Annotated[int, within("limit", Range(1, 100))] = 20,
    json: bool = False,
) -> None:
    """Search Libraries on the Hub. Results are those that their cards claim.

    Example: `rh library search lighting --sort likes`

    Args:
        query: Text in the name.
        author: User or organization.
        sort: Order of the list.
        limit: Maximum number of Libraries.
        json: Print one JSON object.
    """
    from rewardharness.codec import to_json
    from rewardharness.library.hub import search_libraries, usual_access

    order: Any = {"updated": "last_modified"}.get(sort, sort)
    access = usual_access(Settings.from_env())
    libraries = search_libraries(query, author=author, order=order, limit=limit, access=access)
    if json:
        rows = [{**to_json(row), "updated": row.updated and row.updated.isoformat()} for row in libraries]
        output.emit({"query": query, "libraries": rows})
    elif not libraries:
        output.say("No Library was found. Publish one: rh push-library FOLDER --repo ORG/NAME")
    else:
        head = ("library", "accuracy (claimed)", "worst exploit", "likes", "updated", "license")
        output.table(head, [_listed(library) for library in libraries])
        output.say(shell("Next: rh library show {}", libraries[0].spec))


def _listed(library: "ListedLibrary") -> tuple[str, ...]:
    result, claimed = library.result, "-"
    if result is not None:
        interval = f" [{result.low:.2f}, {result.high:.2f}]" if result.low is not None else ""
        claimed = f"{result.accuracy:.2f}{interval}, n {result.n}{', evolved on it' if result.evolved_on else ''}"
    reward = "-" if library.exploit_reward is None else f"{library.exploit_reward:.2f}"
    date = library.updated.strftime("%Y-%m-%d") if library.updated else "-"
    return library.spec, claimed, reward, str(library.likes), date, library.license or "-"


def versions(repo: str, /, *, json: bool = False) -> None:
    """List the versions of a Library on the Hub, newest first.

    Example: `rh library versions me/my-library`

    Args:
        repo: Repository, as ORG/NAME.
        json: Print one JSON object.
    """
    from rewardharness.library.hub import usual_access
    from rewardharness.library.hub import versions as list_versions

    listed = list_versions(repo, access=usual_access(Settings.from_env()))
    if json:
        rows = [
            {"version": version.tag, "commit": version.commit, "date": version.date and version.date.isoformat()}
            | {"message": version.message}
            for version in listed
        ]
        output.emit({"repo": repo, "versions": rows})
    elif not listed:
        output.say(f"{repo} has no versions yet.")
    else:
        dates = [version.date.strftime("%Y-%m-%d %H:%M") if version.date else "-" for version in listed]
        cells = [(row.tag, row.commit[:12], date, row.message) for row, date in zip(listed, dates, strict=True)]
        output.table(("version", "commit", "date", "message"), cells)

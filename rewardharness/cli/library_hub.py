"""`rh library search` and `rh library versions`: Libraries on the Hugging Face Hub."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from rewardharness.cli import output
from rewardharness.cli.command import within
from rewardharness.errors import shell
from rewardharness.ranges import Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.gallery import ListedLibrary


def search(
    query: str = "",
    /,
    *,
    author: str = "",
    sort: Literal["updated", "likes", "downloads"] = "updated",
    limit: Annotated[int, within("limit", Range(1, 100))] = 20,
    json: bool = False,
) -> int:
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
    from rewardharness.library.gallery import search_libraries
    from rewardharness.library.hub import usual_access

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
    return 0


def _listed(library: "ListedLibrary") -> tuple[str, ...]:
    result, claimed = library.result, "-"
    if result is not None:
        interval = f" [{result.low:.2f}, {result.high:.2f}]" if result.low is not None else ""
        claimed = f"{result.accuracy:.2f}{interval}, n {result.n}{', evolved on it' if result.evolved_on else ''}"
    reward = "-" if library.exploit_reward is None else f"{library.exploit_reward:.2f}"
    date = library.updated.strftime("%Y-%m-%d") if library.updated else "-"
    return library.spec, claimed, reward, str(library.likes), date, library.license or "-"


def versions(repo: str, /, *, json: bool = False) -> int:
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
    return 0

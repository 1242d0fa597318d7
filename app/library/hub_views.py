"""Formats Libraries, versions, previews and errors of the Hugging Face Hub. Pure: markup out.

Everything from the Hub, such as versions, messages and cards, is foreign text.
"""

from collections.abc import Sequence

from app.failures import error_message, explain
from app.library.libraries import HubServices, Loaded, Preview
from app.markup import (
    block,
    bullets,
    callout,
    diff,
    document,
    escape,
    faint,
    folded,
    notice,
    paragraph,
    preformatted,
    table,
    to_library,
)
from rewardharness.errors import Description, HarnessError, describe
from rewardharness.library.gallery import ClaimedResult, ListedLibrary
from rewardharness.library.hub import ConflictError, HubError, PublishedVersion, Pushed, StaleError, UnreachableError

SHOWN_VERSIONS = 100
"""Maximum number of listed versions."""
SHOWN_DIFFS = 60
"""Maximum number of files with a line-by-line diff."""


HUB_HINT = faint("Enter org/name, org/name@v1.0.0 for a specific version, or the address of its page.")
"""Explains the names of Libraries on the Hub."""

PUBLISH_HINT = notice(
    "empty",
    "Preview first",
    "The preview shows the changed files and the card. Nothing is written before you confirm.",
)
"""The placeholder of the preview of a publication."""

_RESTORE = (
    "Restoring publishes the content of an old version as a new commit with the next version number. Versions in "
    "between stay available."
)
RESTORE_HINT = block(f"<h3>Restore a version</h3>{paragraph(_RESTORE, 'faint')}")
"""Explains how a version is restored."""

NO_PUBLISHING = notice(
    "empty",
    "Publishing is off",
    "Login is not available here. Use the app on your own computer, or in a Hugging Face Space.",
)

GALLERY_HINT = notice(
    "empty",
    "Search the Hub",
    "Libraries on the Hugging Face Hub appear here, with the results that their cards claim.",
)
SEARCHING = notice("empty busy", "Searching…", "The Hub is being asked.")


def loaded(found: Loaded) -> str:
    """Format a loaded Library, its publisher and a warning."""
    pulled = found.pulled
    owner, _, _ = pulled.repo.partition("/")
    version = pulled.version or "no version"
    line = (
        f'<p><strong>{escape(pulled.repo)}</strong> <span class="pill">{escape(version)}</span> '
        f'<span class="faint">commit <code>{escape(pulled.commit[:12])}</code>, published by {escape(owner)}</span></p>'
    )
    parts = []
    if pulled.offline:
        text = "The Hub cannot be reached. This is the last copy on this computer and may be outdated."
        parts.append(callout("warning", "Offline", paragraph(text)))
    parts += [callout("warning", note) for note in pulled.notes if not (pulled.offline and note.startswith("OFFLINE"))]
    about = (
        f"It instructs the judge and has not been reviewed. It was published by {owner}: read its entries, and check "
        "the first results yourself."
    )
    parts.append(callout("warning", "Third-party Library", paragraph(about)))
    return block(line + "".join(parts), "hub")


def announcement(found: Loaded) -> str:
    """Announce a Library from the address of the page, in plain text."""
    owner, _, _ = found.pulled.repo.partition("/")
    return f"Judging with {found.name} from the Hugging Face Hub, published by {owner}. It instructs the judge."


def versions(published: Sequence[PublishedVersion], repo: str) -> str:
    """List the versions of a Library, newest first."""
    if not published:
        return notice("empty", f"{repo} has no versions yet", "It can be loaded by commit or at its latest state.")
    rows = [
        [
            f"<code>{escape(version.tag)}</code>",
            escape(version.date.strftime("%Y-%m-%d %H:%M")) if version.date else "",
            f"<code>{escape(version.commit[:12])}</code>",
            escape(version.message),
        ]
        for version in published[:SHOWN_VERSIONS]
    ]
    left = len(published) - len(rows)
    more = paragraph(f"And {left} older ones.", "faint") if left > 0 else ""
    return block(table(["Version", "Date", "Commit", "Message"], rows, "cards") + more)


def card(text: str) -> str:
    """Format the card of a Library: the header as text, the rest rendered. Foreign text."""
    if not text.strip():
        return notice("empty", "No card", "This Library was published without a card.")
    head, body = "", text
    if text.startswith("---\n") and "\n---\n" in text:
        head, _, body = text[4:].partition("\n---\n")
    # Comments mark generated parts; the Hub hides them as well.
    lines = (line for line in body.split("\n") if not (line.startswith("<!-- ") and line.endswith(" -->")))
    metadata = folded("Card metadata", preformatted(head, "wrap")) if head else ""
    return block(metadata + document("\n".join(lines)))


def preview(found: Preview) -> str:
    """Format the preview of a publication."""
    done, how = found.pushed, found.order.how
    if done.nothing_to_push:
        return notice("note good", "Nothing to publish", f"{done.repo} already contains this as {done.version}.")
    where = "would be proposed to" if how.create_pr else "would be published in"
    facts = [f"<strong>{escape(done.version)}</strong> {where} <strong>{escape(done.repo)}</strong>."]
    if done.created:
        kind = "private" if how.private else "public"
        facts.append(f"The repository is new. It would be {kind}.")
    elif how.private:
        facts.append("The repository exists; its visibility does not change.")
    changes = done.changes
    counts = f"{len(changes.added)} files added, {len(changes.changed)} changed, {len(changes.deleted)} deleted."
    paths = (*changes.added, *changes.changed, *changes.deleted)
    files = "".join(
        folded(f"<code>{_sign(path, done)} {escape(path)}</code>", diff(done.diffs[path]))
        for path in paths[:SHOWN_DIFFS]
    )
    more = paragraph(f"And {len(paths) - SHOWN_DIFFS} more files.", "faint") if len(paths) > SHOWN_DIFFS else ""
    details = f"<details><summary>Changed files</summary>{files}{more}</details>{folded('Card', card(done.card))}"
    return block(f"{''.join(f'<p>{fact}</p>' for fact in facts)}<p>{counts}</p>{details}", "preview")


def _sign(path: str, done: Pushed) -> str:
    return "+" if path in done.changes.added else "~" if path in done.changes.changed else "−"


def published(done: Pushed, url: str) -> str:
    """Format the result of publishing.

    Args:
        done: The result.
        url: Address of the repository.
    """
    if done.pr_url:
        text = f"The pull request is at {done.pr_url}. The version exists once its owner has merged it."
        return notice("note good", f"Proposed to {done.repo} as {done.version}", text)
    if done.nothing_to_push:
        tag = " The missing version tag was added." if done.tagged else ""
        return notice("note good", "Nothing to publish", f"{done.repo} already contained it as {done.version}.{tag}")
    lines = [
        f'Commit <a href="{escape(f"{url}/commit/{done.commit}")}" target="_blank" rel="noopener">'
        f"<code>{escape((done.commit or '')[:12])}</code></a>",
        f"Library id <code>{escape(done.library_id[:12])}</code>",
        f"Load it as <code>{escape(f'{done.repo}@{done.version}')}</code>",
        to_library(f"{done.repo}@{done.version}", "Open this version in the app"),
    ]
    return block(callout("note good", f"{done.repo} {done.version} is published", bullets(lines)))


def explain_hub(error: Exception, hub: HubServices) -> str:
    """Format an error of a handler that queries the Hub."""
    return hub_error(error, with_login=hub.with_login) if isinstance(error, HarnessError) else explain(error)


def hub_error(error: HarnessError, *, with_login: bool) -> str:
    """Format an error of the Hub with a remedy on this page.

    Args:
        error: The error.
        with_login: Whether visitors log in on this page; otherwise the token of this computer is used.
    """
    description = describe(error)
    title, step = description.title, description.next_step
    if isinstance(error, StaleError):
        title = "A newer version was published in the meantime"
        both = "tick “Merge with the latest version”, or “Propose as a pull request”"
        step = f"Nothing was changed. Review the newer version first; then {both}, and preview again."
    elif isinstance(error, ConflictError):
        title = "Conflicting changes"
        step = (
            "Nothing was changed. Propose yours as a pull request without “Merge with the latest version”, or "
            "load the latest version and repeat your changes there."
        )
    elif isinstance(error, UnreachableError):
        title, step = "The Hub cannot be reached", "Nothing was changed. Check the network and try again."
    elif isinstance(error, HubError) and with_login:
        if error.status in {401, 403}:
            step = "Log in again and grant the permissions, publish under your own name, or propose a pull request."
        elif error.status == 404:
            step = "Check the name. Log in first to read a private repository."
    elif isinstance(error, HubError) and error.status == 403:
        step = f"{step} On this page: publish under your own name, or tick the pull request."
    return error_message(Description(title, description.detail, step))


def gallery(found: Sequence[ListedLibrary], query: str) -> str:
    """List Libraries as cards."""
    if not found:
        what = f"for {query.strip()!r} " if query.strip() else ""
        return notice("empty", "No Library was found", f"The Hub has none {what}that you may see.")
    about = "Results are claims of the cards, and compare only on the same data with the same judge."
    return block(f'<p class="faint">{about}</p><div class="gallery">{"".join(map(_card, found))}</div>')


def _card(each: ListedLibrary) -> str:
    origin = [
        f"License {each.license}" if each.license else "No license stated",
        each.updated.strftime("updated %Y-%m-%d") if each.updated else "",
        "private" if each.private else "",
    ]
    facts = [
        _result(each.result),
        "" if each.exploit_reward is None else f"Worst attack: mean reward {each.exploit_reward:.2f}",
        f"{each.likes} likes · {each.downloads} downloads",
        " · ".join(filter(None, origin)),
    ]
    version = f'<span class="pill">{escape(each.version)}</span>' if each.version else ""
    lines = "".join(f"<p>{escape(fact)}</p>" for fact in facts if fact)
    compare = to_library(each.spec, "Compare with built-in", "builtin")
    links = f"{to_library(each.spec, f'Open {each.repo}')} · {compare}"
    return f'<section class="card"><h4>{escape(each.repo)} {version}</h4>{lines}<p>{links}</p></section>'


def _result(result: ClaimedResult | None) -> str:
    if result is None:
        return "No result: agreement with people was not measured."
    interval = "" if result.low is None else f" [{result.low:.0%}, {result.high:.0%}]"
    same = ", on data that it was evolved on" if result.evolved_on else ""
    return f"Claims {result.accuracy:.0%}{interval}, n {result.n}, on {result.data} with {result.judge}{same}"

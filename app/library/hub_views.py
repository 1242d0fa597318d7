"""Formats Libraries, versions, previews and errors of the Hugging Face Hub. Pure: markup out.

Everything from the Hub, such as versions, messages and cards, is foreign text.
"""

from collections.abc import Sequence

from app import markup as m
from app.failures import error_message, explain
from app.library.libraries import HubServices, Loaded, Preview
from rewardharness.errors import Description, HarnessError, describe
from rewardharness.library.hub import (
    ClaimedResult,
    ConflictError,
    HubError,
    ListedLibrary,
    PublishedVersion,
    Pushed,
    StaleError,
    UnreachableError,
)

SHOWN_VERSIONS = 100
"""Maximum number of listed versions."""
SHOWN_DIFFS = 60
"""Maximum number of files with a line-by-line diff."""


HUB_HINT = m.faint("Enter org/name, org/name@v1.0.0 for a specific version, or the address of its page.")
"""Explains the names of Libraries on the Hub."""

_PREVIEW = "The preview shows the changed files and the card. Nothing is written before you confirm."
PUBLISH_HINT = m.notice("empty", "Preview first", _PREVIEW)
"""The placeholder of the preview of a publication."""

_RESTORE = (
    "Restoring publishes the content of an old version as a new commit with the next version number. Versions in "
    "between stay available."
)
RESTORE_HINT = m.block(f"<h3>Restore a version</h3>{m.paragraph(_RESTORE, 'faint')}")
"""Explains how a version is restored."""

_NO_LOGIN = "Login is not available here. Use the app on your own computer, or in a Hugging Face Space."
NO_PUBLISHING = m.notice("empty", "Publishing is off", _NO_LOGIN)

_CLAIMS = "Libraries on the Hugging Face Hub appear here, with the results that their cards claim."
GALLERY_HINT = m.notice("empty", "Search the Hub", _CLAIMS)
SEARCHING = m.notice("empty busy", "Searching…", "The Hub is being asked.")


def loaded(library: Loaded) -> str:
    """Format a loaded Library, its publisher and a warning."""
    pulled = library.pulled
    owner, _, _ = pulled.repo.partition("/")
    version = m.escape(pulled.version or "no version")
    line = (
        f'<p><strong>{m.escape(pulled.repo)}</strong> <span class="pill">{version}</span> '
        f'<span class="faint">commit {m.code(pulled.commit[:12])}, published by {m.escape(owner)}</span></p>'
    )
    parts = []
    if pulled.offline:
        text = "The Hub cannot be reached. This is the last copy on this computer and may be outdated."
        parts.append(m.callout("warning", "Offline", m.paragraph(text)))
    parts += [
        m.callout("warning", note) for note in pulled.notes if not (pulled.offline and note.startswith("OFFLINE"))
    ]
    about = (
        f"It instructs the judge and has not been reviewed. It was published by {owner}: read its entries, and check "
        "the first results yourself."
    )
    parts.append(m.callout("warning", "Third-party Library", m.paragraph(about)))
    return m.block(line + "".join(parts), "hub")


def announcement(library: Loaded) -> str:
    """Announce a Library from the address of the page, in plain text."""
    owner, _, _ = library.pulled.repo.partition("/")
    return f"Judging with {library.name} from the Hugging Face Hub, published by {owner}. It instructs the judge."


def in_address(wrong: Sequence[str], offered: Sequence[str]) -> str:
    """Say what the address of the page names: what does not exist, or else Libraries that can be loaded."""
    if wrong:
        return m.notice("warning", "The address is not that of a place in this app", *wrong)
    names = " and ".join(map(m.code, offered))
    text = (
        f"It names {names} on the Hugging Face Hub. A Library instructs the judge: load it if you trust who sent you."
    )
    return m.block(m.callout("note", "The address asks for a Library", f"<p>{text}</p>")) if offered else ""


def versions(published: Sequence[PublishedVersion], repo: str) -> str:
    """List the versions of a Library, newest first."""
    if not published:
        return m.notice("empty", f"{repo} has no versions yet", "It can be loaded by commit or at its latest state.")
    pairs = (
        (version, version.date.strftime("%Y-%m-%d %H:%M") if version.date else "")
        for version in published[:SHOWN_VERSIONS]
    )
    rows = [
        [m.code(version.tag), m.escape(day), m.code(version.commit[:12]), m.escape(version.message)]
        for version, day in pairs
    ]
    left = len(published) - len(rows)
    more = m.paragraph(f"And {left} older ones.", "faint") if left > 0 else ""
    return m.block(m.table(["Version", "Date", "Commit", "Message"], rows, "cards") + more)


def card(text: str) -> str:
    """Format the card of a Library: the header as text, the rest rendered. Foreign text."""
    if not text.strip():
        return m.notice("empty", "No card", "This Library was published without a card.")
    head, body = "", text
    if text.startswith("---\n") and "\n---\n" in text:
        head, _, body = text[4:].partition("\n---\n")
    # Comments mark generated parts; the Hub hides them as well.
    lines = (line for line in body.split("\n") if not (line.startswith("<!-- ") and line.endswith(" -->")))
    metadata = m.folded("Card metadata", m.preformatted(head, "wrap")) if head else ""
    return m.block(metadata + m.document("\n".join(lines)))


def preview(plan: Preview) -> str:
    """Format the preview of a publication."""
    done, options = plan.pushed, plan.order.how
    if done.nothing_to_push:
        return m.notice("note good", "Nothing to publish", f"{done.repo} already contains this as {done.version}.")
    where = "would be proposed to" if options.create_pr else "would be published in"
    facts = [f"<strong>{m.escape(done.version)}</strong> {where} <strong>{m.escape(done.repo)}</strong>."]
    if done.created:
        facts.append(f"The repository is new. It would be {'private' if options.private else 'public'}.")
    elif options.private:
        facts.append("The repository exists; its visibility does not change.")
    changes = done.changes
    counts = f"{len(changes.added)} files added, {len(changes.changed)} changed, {len(changes.deleted)} deleted."
    paths = (*changes.added, *changes.changed, *changes.deleted)
    signs = [*["+"] * len(changes.added), *["~"] * len(changes.changed), *["−"] * len(changes.deleted)]
    pairs = list(zip(signs, paths, strict=True))[:SHOWN_DIFFS]
    files = "".join(m.folded(f"<code>{sign} {m.escape(path)}</code>", m.diff(done.diffs[path])) for sign, path in pairs)
    more = m.paragraph(f"And {len(paths) - SHOWN_DIFFS} more files.", "faint") if len(paths) > SHOWN_DIFFS else ""
    details = f"<details><summary>Changed files</summary>{files}{more}</details>{m.folded('Card', card(done.card))}"
    return m.block(f"{''.join(f'<p>{fact}</p>' for fact in facts)}<p>{counts}</p>{details}", "preview")


def published(done: Pushed, url: str) -> str:
    """Format the result of publishing.

    Args:
        done: The result.
        url: Address of the repository.
    """
    if done.pr_url:
        text = f"The pull request is at {done.pr_url}. The version exists once its owner has merged it."
        return m.notice("note good", f"Proposed to {done.repo} as {done.version}", text)
    if done.nothing_to_push:
        tag = " The missing version tag was added." if done.tagged else ""
        return m.notice("note good", "Nothing to publish", f"{done.repo} already contained it as {done.version}.{tag}")
    lines = [
        f'Commit <a href="{m.escape(f"{url}/commit/{done.commit}")}" target="_blank" rel="noopener">'
        f"{m.code((done.commit or '')[:12])}</a>",
        f"Library id {m.code(done.library_id[:12])}",
        f"Load it as <code>{m.escape(f'{done.repo}@{done.version}')}</code>",
        m.to_library(f"{done.repo}@{done.version}", "Open this version in the app"),
    ]
    return m.block(m.callout("note good", f"{done.repo} {done.version} is published", m.bullets(lines)))


def explain_hub(error: Exception, hub: HubServices) -> str:
    """Format an error of a handler that queries the Hub."""
    return hub_error(error, with_login=hub.with_login) if isinstance(error, HarnessError) else explain(error)


def hub_error(error: HarnessError, *, with_login: bool) -> str:
    """Format an error of the Hub with a remedy on this page.

    Args:
        error: The error.
        with_login: Whether visitors log in on this page; otherwise the token of this computer is used.
    """
    description, status = describe(error), error.status if isinstance(error, HubError) else None
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
    elif with_login and status in {401, 403}:
        step = "Log in again and grant the permissions, publish under your own name, or propose a pull request."
    elif with_login and status == 404:
        step = "Check the name. Log in first to read a private repository."
    elif status == 403 and not with_login:
        step = f"{step} On this page: publish under your own name, or tick the pull request."
    return error_message(Description(title, description.detail, step))


def gallery(libraries: Sequence[ListedLibrary], query: str, *, cached: bool = False) -> str:
    """List Libraries as cards. `cached`: whether this is an earlier answer, as the Hub gives none now."""
    old = m.callout("warning", "The Hub does not answer", m.paragraph("This is its last answer.")) if cached else ""
    if not libraries:
        what = f"for {query.strip()!r} " if query.strip() else ""
        return m.block(
            old + m.callout("empty", "No Library was found", m.paragraph(f"The Hub has none {what}that you may see."))
        )
    about = "Results are claims of the cards, and compare only on the same data with the same judge."
    return m.block(f'{old}<p class="faint">{about}</p><div class="gallery">{"".join(map(_card, libraries))}</div>')


def _card(library: ListedLibrary) -> str:
    origin = [
        f"License {library.license}" if library.license else "No license stated",
        library.updated.strftime("updated %Y-%m-%d") if library.updated else "",
        "private" if library.private else "",
    ]
    attack = "" if library.exploit_reward is None else f"Worst attack: mean reward {library.exploit_reward:.2f}"
    liked = f"{library.likes} likes · {library.downloads} downloads"
    facts = (_result(library.result), attack, liked, " · ".join(filter(None, origin)))
    version = f'<span class="pill">{m.escape(library.version)}</span>' if library.version else ""
    lines = "".join(f"<p>{m.escape(fact)}</p>" for fact in facts if fact)
    opened, compare = f"Open {library.repo}", m.to_library(library.spec, "Compare with built-in", "builtin")
    links = f"{m.to_library(library.spec, opened)} · {compare}"
    return f'<section class="card"><h4>{m.escape(library.repo)} {version}</h4>{lines}<p>{links}</p></section>'


def _result(result: ClaimedResult | None) -> str:
    if result is None:
        return "No result: agreement with people was not measured."
    interval = "" if result.low is None else f" [{result.low:.0%}, {result.high:.0%}]"
    same = ", on data that it was evolved on" if result.evolved_on else ""
    return f"Claims {result.accuracy:.0%}{interval}, n {result.n}, on {result.data} with {result.judge}{same}"

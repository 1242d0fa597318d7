"""Puts what comes from the Hugging Face Hub into words: Libraries, versions, previews, trouble. Pure: markup out.

Names of versions, messages, cards and everything else that stands on the Hub is foreign text.
"""

from collections.abc import Sequence

from app.hub_services import Loaded, Preview
from app.markup import block, bullets, callout, diff, document, escape, paragraph, preformatted, table
from app.views import trouble
from rewardharness.errors import Description, HarnessError, describe
from rewardharness.library.hub import ConflictError, HubError, PublishedVersion, Pushed, StaleError, UnreachableError

SHOWN_VERSIONS = 100
"""Versions that are listed, at most."""
SHOWN_DIFFS = 60
"""Files whose changes are shown line by line, at most."""


def hub_hint() -> str:
    """What stands in the place of a Library before one is loaded."""
    return block(
        paragraph("Type org/name for the newest, org/name@v1.0.0 for one version, or paste its address.", "faint")
    )


def loaded(found: Loaded) -> str:
    """Which Library was loaded, who published it, and what that means."""
    pulled = found.pulled
    owner, _, _ = pulled.repo.partition("/")
    version = pulled.version or "no version"
    line = (
        f'<p><strong>{escape(pulled.repo)}</strong> <span class="pill">{escape(version)}</span> '
        f'<span class="faint">commit <code>{escape(pulled.commit[:12])}</code>, published by {escape(owner)}</span></p>'
    )
    parts = []
    if pulled.offline:
        text = "The Hub cannot be reached. This is the last copy on this computer, and it may be old."
        parts.append(callout("warning", "Offline", paragraph(text)))
    parts += [callout("warning", note) for note in pulled.notes if not (pulled.offline and note.startswith("OFFLINE"))]
    about = (
        f"It instructs the judge, and nobody here has reviewed it. {owner} has published it: read its entries, "
        "and check the first results yourself."
    )
    parts.append(callout("warning", "A Library by other people", paragraph(about)))
    return block(line + "".join(parts), "hub")


def announcement(found: Loaded) -> str:
    """One line about a Library that came by the address of the page. Plain names only."""
    owner, _, _ = found.pulled.repo.partition("/")
    return f"Judging with {found.name} from the Hugging Face Hub, published by {owner}. It instructs the judge."


def versions(found: Sequence[PublishedVersion], repo: str) -> str:
    """The versions of a Library, newest first."""
    if not found:
        text = "It can be loaded by commit, or as its newest state."
        return block(callout("empty", f"{repo} has no versions yet", paragraph(text)))
    rows = [
        [
            f"<code>{escape(each.tag)}</code>",
            escape(each.date.strftime("%Y-%m-%d %H:%M")) if each.date else "",
            f"<code>{escape(each.commit[:12])}</code>",
            escape(each.message),
        ]
        for each in found[:SHOWN_VERSIONS]
    ]
    left = len(found) - len(rows)
    more = paragraph(f"And {left} older ones.", "faint") if left > 0 else ""
    return block(table(["Version", "Date", "Commit", "Message"], rows, "cards") + more)


def card(text: str) -> str:
    """The card of a Library: its header as it is, the rest rendered. Foreign text."""
    if not text.strip():
        return block(callout("empty", "There is no card", paragraph("This Library was published without one.")))
    head, body = "", text
    if text.startswith("---\n") and "\n---\n" in text:
        head, _, body = text[4:].partition("\n---\n")
    shown = f"<details><summary>Header for the Hub</summary>{preformatted(head, 'wrap')}</details>" if head else ""
    return block(shown + document(_without_marks(body)))


def _without_marks(body: str) -> str:
    """Leave out the comments that mark the generated parts; readers of the Hub do not see them either."""
    return "\n".join(line for line in body.split("\n") if not (line.startswith("<!-- ") and line.endswith(" -->")))


def publish_hint() -> str:
    """What stands in the place of a preview before there is one."""
    text = "It shows each file that would change, and the card. Nothing is written before you confirm."
    return block(callout("empty", "See a preview first", paragraph(text)))


def restore_hint() -> str:
    """What restoring a version means."""
    text = (
        "Restoring publishes the content of an old version as a new commit with the next version number. Versions in "
        "between stay available."
    )
    return block(f"<h3>Restore a version</h3>{paragraph(text, 'faint')}")


def no_publishing() -> str:
    """Why nothing can be published from here."""
    text = "Nobody can be logged in here. Use the app on your own computer, or in a Hugging Face Space."
    return block(callout("empty", "Publishing is off", paragraph(text)))


def preview(found: Preview) -> str:
    """What publishing would do."""
    done, how = found.found, found.order.how
    if done.nothing_to_push:
        text = f"{done.repo} has all of this as {done.version}."
        return block(callout("note good", "Nothing to publish", paragraph(text)))
    where = "would be proposed to" if how.create_pr else "would be published in"
    facts = [f"<strong>{escape(done.version)}</strong> {where} <strong>{escape(done.repo)}</strong>."]
    if done.created:
        kind = "private" if how.private else "public: everybody can read it"
        facts.append(f"The repository is new. It would be {kind}.")
    elif how.private:
        facts.append("The repository exists; who may read it stays as it is.")
    changes = done.changes
    counts = f"{len(changes.added)} files added, {len(changes.changed)} changed, {len(changes.deleted)} deleted."
    paths = (*changes.added, *changes.changed, *changes.deleted)
    files = "".join(
        f"<details><summary><code>{_sign(path, done)} {escape(path)}</code></summary>{diff(done.diffs[path])}</details>"
        for path in paths[:SHOWN_DIFFS]
    )
    more = paragraph(f"And {len(paths) - SHOWN_DIFFS} more files.", "faint") if len(paths) > SHOWN_DIFFS else ""
    parts = (("Files, line by line", files + more), ("The card", card(done.card)))
    folded = "".join(f"<details><summary>{title}</summary>{inside}</details>" for title, inside in parts)
    return block(f"{''.join(f'<p>{fact}</p>' for fact in facts)}<p>{counts}</p>{folded}", "preview")


def _sign(path: str, done: Pushed) -> str:
    return "+" if path in done.changes.added else "~" if path in done.changes.changed else "−"


def published(done: Pushed) -> str:
    """What publishing did."""
    if done.pr_url:
        text = f"The pull request is at {done.pr_url}. The version counts once its owner has merged it."
        return block(callout("note good", f"Proposed to {done.repo} as {done.version}", paragraph(text)))
    if done.nothing_to_push:
        tag = " Its version was missing, and is there now." if done.tagged else ""
        text = f"{done.repo} had all of it as {done.version}.{tag}"
        return block(callout("note good", "Nothing to publish", paragraph(text)))
    lines = [
        f"Commit <code>{escape((done.commit or '')[:12])}</code>",
        f"Library id <code>{escape(done.library.id[:12])}</code>",
        f"Load it anywhere as <code>{escape(f'{done.repo}@{done.version}')}</code>",
        f"In this app by the address: <code>{escape(f'?library={done.repo}@{done.version}')}</code>",
    ]
    return block(callout("note good", f"{done.repo} {done.version} is published", bullets(lines)))


def hub_trouble(error: HarnessError, *, with_login: bool) -> str:
    """Trouble with the Hub, with a remedy that can be carried out on this page.

    Args:
        error: What went wrong.
        with_login: Whether visitors log in on this page; else the token of this computer is used.
    """
    told = describe(error)
    title, step = told.title, told.next_step
    if isinstance(error, StaleError):
        title = "Somebody has published meanwhile"
        both = "tick “Bring together with what is there now”, or “Propose as a pull request”"
        step = f"Nothing was changed. Look at the newer one first; then {both}, and see a new preview."
    elif isinstance(error, ConflictError):
        title = "Both sides changed the same thing"
        step = (
            "Nothing was changed. Propose yours as a pull request without “Bring together with what is there now”, or "
            "load the newer one and make your changes there by hand."
        )
    elif isinstance(error, UnreachableError):
        title, step = "The Hub cannot be reached", "Nothing is lost. Check the network and press the button again."
    elif isinstance(error, HubError) and with_login:
        if error.status in {401, 403}:
            step = "Log in again and allow what is asked, publish under your own name, or propose a pull request."
        elif error.status == 404:
            step = "Check the name. For a private one log in first; you must be allowed to read it."
    elif isinstance(error, HubError) and error.status == 403:
        step = f"{step} On this page: publish under your own name, or tick the pull request."
    return trouble(Description(title, told.detail, step))

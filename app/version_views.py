"""Puts the versions of a run into words: what each is worth, how it is used, what publishing says. Pure: markup out."""

from collections.abc import Mapping
from typing import Any

from app.evolve_services import Version
from app.evolve_views import share
from app.library_views import summary
from app.markup import block, bullets, callout, escape, paragraph
from rewardharness.library.store import Library


def no_versions() -> str:
    """What stands in the place of versions while there are none."""
    text = "Every edit that is kept makes a version of the Library. It can be used at once, and published."
    return block(callout("empty", "No edit was kept yet", paragraph(text)))


def version(found: Version, library: Library, audit: Mapping[str, Any] | None, place: str) -> str:
    """What a version is, and how it is used.

    Args:
        found: The version.
        library: Its Library.
        audit: What the audit found about it; None for a version that was not audited.
        place: Its folder, for people at this computer; else empty.
    """
    worth = f"With it the judge agrees with {share(found.accuracy)} of the examples that edits were chosen on. "
    if audit is None:
        worth += "Expect less on others: this version was not audited."
    else:
        agreed = share(audit["accuracy"], audit["interval"])
        worth += f"The audit: {agreed} of {audit['judged']} examples that nothing was decided on."
    uses = []
    if place:
        uses = [
            f"On the Score tab choose the Library “A folder on this computer”: <code>{escape(place)}</code>",
            f"On the command line: <code>rh score --library {escape(place)} …</code>",
        ]
    return summary(library, f"version {found.number}") + block(paragraph(worth) + bullets(uses))


def publishing() -> str:
    """What publishing a version says about it."""
    text = (
        "The card tells the evidence of this run: every edit that was kept with what it fixed and broke, and for the "
        "last version what the audit found. Nothing is written before you have seen it."
    )
    return block(f"<h3>Push this version to the Hub</h3>{paragraph(text, 'faint')}")

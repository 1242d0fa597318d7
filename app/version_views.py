"""Formats the versions of a run: accuracy, use and publishing. Pure: markup out."""

from collections.abc import Mapping
from typing import Any

from app.evolve_services import Version
from app.evolve_views import share
from app.library_views import summary
from app.markup import block, bullets, callout, escape, paragraph, to_library
from rewardharness.library.store import Library


def no_versions() -> str:
    """Return the placeholder while there are no versions."""
    text = "Every accepted edit makes a version of the Library, which can be used and published."
    return block(callout("empty", "No edit was accepted yet", paragraph(text)))


def version(
    found: Version, library: Library, audit: Mapping[str, Any] | None, place: str = "", before: str = ""
) -> str:
    """Format the accuracy and the use of a version.

    Args:
        found: The version.
        library: Its Library.
        audit: Its result on the held-out test set; None if it was not evaluated there.
        place: Its folder, for users of this computer; otherwise empty.
        before: The folder of the version before, if there is one.
    """
    accuracy = f"Accuracy on the training examples: {share(found.accuracy)}. "
    if audit is None:
        accuracy += "Expect less on other examples: this version was not evaluated on the held-out test set."
    else:
        agreed = share(audit["accuracy"], audit["interval"])
        accuracy += f"Held-out test set: {agreed} of {audit['judged']} examples."
    uses = []
    if place:
        links = [to_library(place, "Score with this version")]
        links += [to_library(place, "Compare with the version before", before)] if before else []
        uses = [
            " · ".join(links),
            f"Its folder: <code>{escape(place)}</code>",
            f"On the command line: <code>rh score --library {escape(place)} …</code>",
        ]
    return summary(library, f"version {found.number}") + block(paragraph(accuracy) + bullets(uses))


def publishing() -> str:
    """Explain what the card of a published version contains."""
    text = (
        "The card contains the evidence of this run: every accepted edit with the examples it fixed and broke, and for "
        "the last version the result on the held-out test set. Nothing is written before a preview."
    )
    return block(f"<h3>Push this version to the Hub</h3>{paragraph(text, 'faint')}")

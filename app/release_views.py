"""Formats the release that the Score tab is fixed to. Pure: records in, markup out.

Names of models and figures come from a file by a third party: foreign text.
"""

from app.markup import SHORT, block, escape, hashed, paragraph, table, whole
from app.releases import Fixed
from rewardharness.judging.release import Release
from rewardharness.judging.release_card import UNVERIFIED, Figure
from rewardharness.judging.release_opening import remarks


def fixed_line(fixed: Fixed, *, local: bool) -> str:
    """Which release judges, in one line for the head of the tab, and where the pictures go."""
    release = fixed.release
    where = "No model, no key, nothing leaves this computer." if local else "No model, no key."
    if fixed.by_model:
        where = "To compare, the pictures and the instruction are sent to the model that this app is set up with."
    return block(
        f'<p><span class="pill" title="{escape(release.id)}">Release {escape(release.id[:SHORT])}</span> fixes what '
        f"judges here: {escape(release.judged_by)}, protocol {escape(release.protocol)}, with Library "
        f"{hashed(release.library.id)}. {where}</p>"
    )


def about_release(release: Release) -> str:
    """Format the contents of a release, its figures, and differences of this installation."""
    counts = f"{len(release.library.skills)} Skills, {len(release.library.tools)} Tools"
    rows = [
        ("Release", whole(release.id)),
        ("Judge", escape(release.judged_by)),
        ("Protocol", escape(release.protocol)),
        ("Library", f"{whole(release.library.id)} with {counts}"),
    ]
    if release.how is not None:
        rows += [
            ("Weights", escape(release.model_revision or "not said")),
            ("Router", escape(release.router or "none")),
        ]
    rows += [(escape(_called(name)), escape(_said(value))) for name, value in sorted(release.settings.items())]
    note = paragraph(
        "The same input gets the same score on this page, from rh score --release and from a server of this release.",
        "faint",
    )
    notes = "".join(paragraph(f"{each}: the last digits of what is measured may differ.") for each in remarks(release))
    return block(note + table(["What is fixed", "As"], rows, "plain") + notes + _figures(release.figures))


def _called(setting: str) -> str:
    words = {"ocr": "Reads text", "ties": "Offers ties", "tool_limit": "Tool calls"}
    return words.get(setting, setting.replace("_", " ").capitalize())


def _said(value: object) -> str:
    if value is None:
        return "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _figures(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return paragraph("The release carries no figures.", "faint")
    rows = [
        [
            escape(each.name),
            "not known" if each.accuracy is None else f"{each.accuracy:.3f}",
            "not known" if each.interval is None else "{:.3f} to {:.3f}".format(*each.interval),
            f"{each.judged} of {each.n}",
        ]
        for each in figures
    ]
    shown = table(["Measured on", "Accuracy", "95% CI", "Judged"], rows)
    return "<h4>Figures of its card</h4>" + paragraph(UNVERIFIED) + shown

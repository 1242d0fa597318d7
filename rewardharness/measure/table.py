"""The measures by name: the allow-list for measured Tools and for the criteria of rubrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rewardharness.measure.color import color_target, style_shift, tone_shift
from rewardharness.measure.fidelity import fidelity
from rewardharness.measure.quality import blockiness, clipping, frame_match, noise, seam, sharpness
from rewardharness.measure.reading import Reading
from rewardharness.measure.regions import change_map, edit_extent, edit_presence, preservation
from rewardharness.measure.structure import added_structure, background_change, removal_fill, structure_kept
from rewardharness.measure.text import text_match, unasked_text
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest


@dataclass(frozen=True)
class Measure:
    """A function of pixels that a Library may name."""

    name: str
    function: Callable[[EditView, EditRequest], Reading]
    """Measures one candidate against its source; deterministic."""
    description: str
    """One sentence for documentation and for people who write Tools."""
    dimension: Literal["instruction", "quality"]
    """Whether it speaks of instruction following or of visual quality."""
    specific: bool = False
    """Whether its grade tells if the edit that was asked for was done, and not merely if there is an edit."""


MEASURES: Mapping[str, Measure] = {
    each.name: each
    for each in (
        Measure("change_map", change_map, "Shows where the picture was edited and how much of it.", "instruction"),
        Measure("edit_presence", edit_presence, "Whether a visible edit was made at all.", "instruction"),
        Measure(
            "edit_extent",
            edit_extent,
            "Whether the size of the edited region fits a local or a global request.",
            "instruction",
        ),
        Measure("preservation", preservation, "Whether what lies outside the edit was left alone.", "quality"),
        Measure(
            "fidelity",
            fidelity,
            "How exactly the source was reproduced, where nothing is to change.",
            "instruction",
            specific=True,
        ),
        Measure(
            "color_target",
            color_target,
            "Whether the edited region took the colour that was asked for.",
            "instruction",
            specific=True,
        ),
        Measure(
            "tone_shift",
            tone_shift,
            "Whether light and colour moved in the directions asked for.",
            "instruction",
            specific=True,
        ),
        Measure(
            "style_shift",
            style_shift,
            "Whether the look changed everywhere while the layout stayed.",
            "instruction",
            specific=True,
        ),
        Measure(
            "sharpness",
            sharpness,
            "Whether the candidate is as sharp as the source, inside and outside the edit.",
            "quality",
        ),
        Measure("noise", noise, "How much noise the edit added.", "quality"),
        Measure("blockiness", blockiness, "How strongly JPEG blocks show beyond the source.", "quality"),
        Measure("clipping", clipping, "How much was driven into pure black or white.", "quality"),
        Measure("seam", seam, "Whether seams or pasted borders show around the edit.", "quality"),
        Measure(
            "frame_match", frame_match, "Whether size and aspect ratio were kept and no bars were added.", "quality"
        ),
        Measure(
            "structure_kept",
            structure_kept,
            "Whether the shapes and the layout of the source are still there.",
            "quality",
        ),
        Measure(
            "added_structure",
            added_structure,
            "Whether something new is visible in one compact place.",
            "instruction",
            specific=True,
        ),
        Measure(
            "removal_fill",
            removal_fill,
            "Whether the removed thing is gone and its place continues the surroundings.",
            "instruction",
            specific=True,
        ),
        Measure(
            "background_change",
            background_change,
            "Whether the background changed and the subject was kept.",
            "instruction",
            specific=True,
        ),
        Measure(
            "text_match",
            text_match,
            "Whether the text asked for is readable and the text to be gone is gone.",
            "instruction",
            specific=True,
        ),
        Measure(
            "unasked_text",
            unasked_text,
            "Whether text appeared unasked, above all text that addresses a judge.",
            "quality",
        ),
    )
}
"""Every measure, in the order in which it is listed and run."""

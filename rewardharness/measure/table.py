"""Registry of measures: the allow-list for measured Tools and rubric criteria."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rewardharness.measure import responses
from rewardharness.measure.appearance import (
    brightness_similarity,
    color_similarity,
    detail_similarity,
    gloss_similarity,
    highlight_similarity,
    structure_similarity,
)
from rewardharness.measure.color import color_target, object_color, style_shift, tone_shift
from rewardharness.measure.fidelity import fidelity, turned_image
from rewardharness.measure.learned import directional_similarity, is_set_up, subject_identity, text_agreement
from rewardharness.measure.movement import moved_region
from rewardharness.measure.quality import blockiness, clipping, frame_match, noise, seam, sharpness
from rewardharness.measure.reading import Reading
from rewardharness.measure.regions import change_map, edit_extent, edit_presence, preservation
from rewardharness.measure.structure import added_structure, background_change, removal_fill, structure_kept
from rewardharness.measure.text import text_match, unasked_text
from rewardharness.schema import EditRequest
from rewardharness.task import Medium


@dataclass(frozen=True)
class Measure:
    """A measure that a Library can refer to by name."""

    name: str
    function: Callable[[Any, EditRequest], Reading]
    """Measures one image against its source, as an `EditView`, or one text response; deterministic."""
    description: str
    """One sentence for the documentation."""
    dimension: Literal["instruction", "quality"]
    """Whether it measures instruction following or visual quality."""
    kinds: tuple[str, ...] = ()
    """Kinds of edit for which its grade shows that the requested edit was made, rather than any edit."""
    same_look: bool = False
    """Whether it measures similarity of the whole image, which is a merit only if the instruction asks for it."""
    learned: bool = False
    """Whether it needs a learned encoder. It is computed only where a Library names it, and shows no kind of edit."""
    medium: Medium = "image"
    """What it measures. Of text responses, only the form."""


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("change_map", change_map, "Where the image was edited, and how much of it.", "instruction"),
        Measure("edit_presence", edit_presence, "Whether a visible edit was made at all.", "instruction"),
        Measure(
            "edit_extent",
            edit_extent,
            "Whether the size of the edited region fits a local or a global request.",
            "instruction",
        ),
        Measure("preservation", preservation, "Whether the area outside the edit is unchanged.", "quality"),
        Measure(
            "fidelity",
            fidelity,
            "How exactly the source is reproduced when no change is requested.",
            "instruction",
            kinds=("keep",),
        ),
        Measure(
            "color_target",
            color_target,
            "Whether the edited region has the requested color.",
            "instruction",
            kinds=("color",),
        ),
        Measure(
            "object_color",
            object_color,
            "Whether the object that the instruction names by its color has the requested color.",
            "instruction",
            kinds=("color",),
        ),
        Measure(
            "tone_shift",
            tone_shift,
            "Whether light and color changed in the requested directions.",
            "instruction",
            kinds=("tone",),
        ),
        Measure(
            "style_shift",
            style_shift,
            "Whether the style changed everywhere while the layout is preserved.",
            "instruction",
            kinds=("style",),
        ),
        Measure(
            "sharpness",
            sharpness,
            "Whether the candidate is as sharp as the source, inside and outside the edit.",
            "quality",
        ),
        Measure("noise", noise, "How much noise the edit added.", "quality"),
        Measure("blockiness", blockiness, "How much more visible JPEG blocks are than in the source.", "quality"),
        Measure("clipping", clipping, "How much of the image is newly clipped to pure black or white.", "quality"),
        Measure("seam", seam, "Whether seams or pasted borders are visible around the edit.", "quality"),
        Measure(
            "frame_match", frame_match, "Whether size and aspect ratio are preserved and no bars were added.", "quality"
        ),
        Measure(
            "structure_kept",
            structure_kept,
            "Whether the shapes and the layout of the source are preserved.",
            "quality",
        ),
        Measure(
            "added_structure",
            added_structure,
            "Whether something new is visible in one compact area.",
            "instruction",
            kinds=("add", "replace", "count"),
        ),
        Measure(
            "removal_fill",
            removal_fill,
            "Whether the object is gone and the filled area matches its surroundings.",
            "instruction",
            kinds=("remove",),
        ),
        Measure(
            "background_change",
            background_change,
            "Whether the background changed and the subject is preserved.",
            "instruction",
            kinds=("background",),
        ),
        Measure(
            "moved_region",
            moved_region,
            "Whether an object moved in the requested direction.",
            "instruction",
            kinds=("position",),
        ),
        Measure(
            "turned_image",
            turned_image,
            "Whether the whole image was turned or mirrored as requested.",
            "instruction",
            kinds=("pose",),
        ),
        Measure(
            "text_match",
            text_match,
            "Whether requested text is readable and text to remove is gone.",
            "instruction",
            kinds=("text",),
        ),
        Measure(
            "unasked_text",
            unasked_text,
            "Whether unrequested text appeared, in particular text that addresses a judge.",
            "quality",
        ),
        Measure(
            "structure_similarity",
            structure_similarity,
            "How similar the structure of the whole image is to the source (SSIM).",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "brightness_similarity",
            brightness_similarity,
            "How similar the distribution of brightness is to the source.",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "color_similarity",
            color_similarity,
            "How similar the mean color is to the source.",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "highlight_similarity",
            highlight_similarity,
            "How similar the strength of the highlights is to the source.",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "gloss_similarity",
            gloss_similarity,
            "How similar the gloss is to the source.",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "detail_similarity",
            detail_similarity,
            "How similar the amount of fine detail in the whole image is to the source.",
            "instruction",
            kinds=("appearance",),
            same_look=True,
        ),
        Measure(
            "text_agreement",
            text_agreement,
            "Whether the image agrees better with the instruction than the source does (learned encoder).",
            "instruction",
            learned=True,
        ),
        Measure(
            "directional_similarity",
            directional_similarity,
            "Whether the image changed in the direction of the instruction (learned encoder).",
            "instruction",
            learned=True,
        ),
        Measure(
            "subject_identity",
            subject_identity,
            "Whether the subject is still the same (learned encoder).",
            "quality",
            learned=True,
        ),
        *(
            Measure(each.__name__, each, words, dimension, ("other",) * (dimension == "instruction"), medium="text")
            for each, (dimension, words) in responses.MEASURES.items()
        ),
    )
}
"""All measures, in the order in which they are listed and run."""


def known_measures(medium: Medium = "image") -> tuple[str, ...]:
    """Return the measures of candidates that can be used here: learned ones only if an encoder is named for them."""
    ours = (name for name, measure in MEASURES.items() if measure.medium == medium)
    return tuple(name for name in ours if not MEASURES[name].learned or is_set_up(name))

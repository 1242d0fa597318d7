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
from rewardharness.measure.planes import Reading
from rewardharness.measure.quality import blockiness, clipping, frame_match, noise, seam, sharpness
from rewardharness.measure.regions import change_map, edit_extent, edit_presence, preservation
from rewardharness.measure.structure import added_structure, background_change, removal_fill, structure_kept
from rewardharness.measure.text import text_match, unasked_text
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest
from rewardharness.task import Medium

Dimension = Literal["instruction", "quality"]


@dataclass(frozen=True)
class Measure:
    """A measure that a Library can refer to by name."""

    name: str
    function: Callable[[Any, EditRequest], Reading]
    """Measures one image against its source, as an `EditView`, or one text response; deterministic."""
    description: str
    """One sentence for the documentation."""
    dimension: Dimension
    """Whether it measures instruction following or visual quality."""
    kinds: tuple[str, ...] = ()
    """Kinds of edit for which its grade shows that the requested edit was made, rather than any edit."""
    same_look: bool = False
    """Whether it measures similarity of the whole image, which is a merit only if the instruction asks for it."""
    learned: bool = False
    """Whether it needs a learned encoder. It is computed only where a Library names it, and shows no kind of edit."""
    medium: Medium = "image"
    """What it measures. Of text responses, only the form."""


_OF_IMAGES: Mapping[Callable[[EditView, EditRequest], Reading], tuple[Dimension, str, str]] = {
    change_map: ("instruction", "", "Where the image was edited, and how much of it."),
    edit_presence: ("instruction", "", "Whether a visible edit was made at all."),
    edit_extent: ("instruction", "", "Whether the size of the edited region fits a local or a global request."),
    preservation: ("quality", "", "Whether the area outside the edit is unchanged."),
    fidelity: ("instruction", "keep", "How exactly the source is reproduced when no change is requested."),
    color_target: ("instruction", "color", "Whether the edited region has the requested color."),
    object_color: (
        "instruction",
        "color",
        "Whether the object that the instruction names by its color has the requested color.",
    ),
    tone_shift: ("instruction", "tone", "Whether light and color changed in the requested directions."),
    style_shift: ("instruction", "style", "Whether the style changed everywhere while the layout is preserved."),
    sharpness: ("quality", "", "Whether the candidate is as sharp as the source, inside and outside the edit."),
    noise: ("quality", "", "How much noise the edit added."),
    blockiness: ("quality", "", "How much more visible JPEG blocks are than in the source."),
    clipping: ("quality", "", "How much of the image is newly clipped to pure black or white."),
    seam: ("quality", "", "Whether seams or pasted borders are visible around the edit."),
    frame_match: ("quality", "", "Whether size and aspect ratio are preserved and no bars were added."),
    structure_kept: ("quality", "", "Whether the shapes and the layout of the source are preserved."),
    added_structure: ("instruction", "add replace count", "Whether something new is visible in one compact area."),
    removal_fill: ("instruction", "remove", "Whether the object is gone and the filled area matches its surroundings."),
    background_change: ("instruction", "background", "Whether the background changed and the subject is preserved."),
    moved_region: ("instruction", "position", "Whether an object moved in the requested direction."),
    turned_image: ("instruction", "pose", "Whether the whole image was turned or mirrored as requested."),
    text_match: ("instruction", "text", "Whether requested text is readable and text to remove is gone."),
    unasked_text: ("quality", "", "Whether unrequested text appeared, in particular text that addresses a judge."),
    structure_similarity: (
        "instruction",
        "appearance",
        "How similar the structure of the whole image is to the source (SSIM).",
    ),
    brightness_similarity: (
        "instruction",
        "appearance",
        "How similar the distribution of brightness is to the source.",
    ),
    color_similarity: ("instruction", "appearance", "How similar the mean color is to the source."),
    highlight_similarity: ("instruction", "appearance", "How similar the strength of the highlights is to the source."),
    gloss_similarity: ("instruction", "appearance", "How similar the gloss is to the source."),
    detail_similarity: (
        "instruction",
        "appearance",
        "How similar the amount of fine detail in the whole image is to the source.",
    ),
    text_agreement: (
        "instruction",
        "",
        "Whether the image agrees better with the instruction than the source does (learned encoder).",
    ),
    directional_similarity: (
        "instruction",
        "",
        "Whether the image changed in the direction of the instruction (learned encoder).",
    ),
    subject_identity: ("quality", "", "Whether the subject is still the same (learned encoder)."),
}
"""Measures of images: the dimension, the kinds of edit that they show, and a sentence for the documentation."""

_LEARNED = {text_agreement, directional_similarity, subject_identity}

MEASURES: Mapping[str, Measure] = {
    each.__name__: Measure(
        each.__name__, each, words, dimension, tuple(kinds.split()), kinds == "appearance", each in _LEARNED
    )
    for each, (dimension, kinds, words) in _OF_IMAGES.items()
} | {
    each.__name__: Measure(
        each.__name__, each, words, dimension, ("other",) * (dimension == "instruction"), medium="text"
    )
    for each, (dimension, words) in responses.MEASURES.items()
}
"""All measures, in the order in which they are listed and run."""


def known_measures(medium: Medium = "image") -> tuple[str, ...]:
    """Return the measures of candidates that can be used here: learned ones only if an encoder is named for them."""
    ours = (name for name, measure in MEASURES.items() if measure.medium == medium)
    return tuple(name for name in ours if not MEASURES[name].learned or is_set_up(name))

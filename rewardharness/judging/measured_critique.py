"""Critiques of the pixel-based judge: its lowest grades in plain words, with the measured numbers."""

from collections.abc import Mapping, Sequence

from rewardharness.critique import Critique
from rewardharness.judging.criteria import Applied
from rewardharness.measure.planes import Reading
from rewardharness.measure.table import MEASURES
from rewardharness.schema import EditRequest

MAX_PROBLEMS = 3
"""Maximum number of problems of a candidate; the lowest grades count."""

LOW_GRADE = 0.5
"""Grade below which a measure is a problem. Set by hand: the middle of the scale from 1 to 4."""
LOW_GRADES = {
    "added_structure": 0.25, "background_change": 0.1, "color_target": 0.35, "edit_extent": 0.3, "removal_fill": 0.4,
    "seam": 0.25, "sharpness": 0.45, "tone_shift": 0.05,
}  # fmt: skip
"""The same by measure, so that at most about 5% of 400 generated edits as asked are faulted for one
(`benchmarks/reason_quality.py`). Below that of `edit_extent` an edit affects a fifth of the image."""

UNGRADED = "Whether the instruction was followed was not measured; this is about general flaws only."


def by_measure(table: str) -> dict[str, tuple[str, ...]]:
    """Read a table of texts: a line per measure, with its name, a colon, and the texts between bars."""
    rows = (line.split(": ", 1) for line in table.strip().splitlines())
    return {name: tuple(texts.split(" | ")) for name, texts in rows}


WORDS = by_measure("""
edit_presence: Hardly anything was changed. | The change must be clearly visible.
edit_extent: A large part of the image changed. | Change only what is named.
preservation: The rest of the image changed, too. | Leave everything else exactly as it is.
fidelity: The image differs from the source. | Reproduce the image exactly, without any change.
color_target: The requested color was not reached. | The requested color must be unmistakable.
object_color: The object named by its color did not get the requested color. | Recolor the named object, all of it \
and nothing else.
tone_shift: Light or color did not change as requested. | Make the change of light and color clearer.
style_shift: The style did not change everywhere, or the layout was lost. | Apply the style to the whole image and \
keep its layout.
sharpness: Sharpness differs from the source. | Keep the sharpness of the original.
noise: The edit added noise. | Add no noise or grain.
blockiness: Compression blocks are visible. | Avoid compression artifacts.
clipping: Parts turned to pure black or white. | Keep detail in shadows and highlights.
seam: A seam or pasted border is visible around the edit. | Blend the edit into its surroundings.
frame_match: The framing differs from the source. | Keep the framing, size and aspect ratio.
structure_kept: Shapes or the layout of the source were lost. | Keep all shapes and the layout.
added_structure: What was to be added is not clearly there. | What is added must be clearly visible.
removal_fill: Something remains of what was to be removed, or the fill does not match. | Remove it completely and \
fill the place like its surroundings.
background_change: The background did not change, or the subject did. | Replace the whole background and keep the \
subject unchanged.
turned_image: The image is not turned as requested, or something else changed. | Turn the whole image as requested, \
and change nothing else.
text_match: The requested text is not readable as written. | Write the text exactly as requested.
unasked_text: There is text that was not requested. | Add no other text.
""")
"""Problem and remedy by measure. Other measures are named by their description."""


def put_in_words(
    request: EditRequest,
    criteria: Sequence[Applied],
    grades: Mapping[str, float],
    readings: Mapping[str, Reading],
    gradable: bool,
) -> Critique:
    """Put the lowest grades of the pixel-based judge into words.

    Args:
        request: The parsed instruction.
        criteria: The criteria that apply.
        grades: Grades in [0, 1] by criterion key.
        readings: Readings by measure.
        gradable: Whether it was measured that the instruction was followed.
    """
    lowest: dict[str, float] = {}
    for applied in criteria:
        name = applied.criterion.measure
        if name is not None and applied.key in grades:
            lowest[name] = min(lowest.get(name, 1.0), grades[applied.key])
    low = {name: grade for name, grade in lowest.items() if grade < LOW_GRADES.get(name, LOW_GRADE)}
    ranked = sorted(low, key=low.__getitem__)
    phrases = {name: WORDS.get(name) or (f"Low grade: {MEASURES[name].description}",) for name in ranked[:MAX_PROBLEMS]}
    problems = tuple(f"{texts[0]} {readings[name].sentence}" for name, texts in phrases.items())
    asked = request.instruction.strip()
    asked += "" if asked.endswith((".", "!", "?", "。")) else "."
    following = " ".join([asked, *(remedy for texts in phrases.values() for remedy in texts[1:])]) if phrases else ""
    return Critique(problems, following, "" if gradable else UNGRADED)


def split_problem(problem: str) -> tuple[str, str]:
    """Return the plain words of a problem and its numbers; of a model's problem, the problem and nothing."""
    for texts in WORDS.values():
        if problem.startswith(f"{texts[0]} "):
            return texts[0], problem[len(texts[0]) + 1 :]
    return problem, ""

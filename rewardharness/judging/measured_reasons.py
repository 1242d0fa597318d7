"""Reasons of the pixel-based judge: what sets two candidates apart in plain words, followed by the numbers."""

import re

from rewardharness.judging.measured_critique import LOW_GRADE, by_measure
from rewardharness.measure.reading import Reading

CONTRASTS = by_measure("""
edit_presence: visibly changed the image | hardly changed anything | making a visible change
edit_extent: changed little else | changed more of the image than needed | changing no more than needed
preservation: left the rest alone | also changed the rest of the image | leaving the rest alone
fidelity: reproduces the source | differs from the source | reproducing the source
color_target: has the requested color | lacks the requested color | reaching the requested color
object_color: recolored the named object | did not give the named object the requested color | recoloring the named \
object
tone_shift: changed light and color as requested | did not change light and color as requested | changing light and \
color as requested
style_shift: changed the style and kept the layout | did not change the style everywhere, or lost the layout | \
changing the style and keeping the layout
sharpness: is as sharp as the source | is blurred or over-sharpened | keeping the source's sharpness
noise: added no noise | added noise | adding no noise
blockiness: shows no compression blocks | shows compression blocks | avoiding compression blocks
clipping: keeps detail in shadows and highlights | lost detail to pure black or white | keeping detail in shadows and \
highlights
seam: blends the edit in | has a visible seam or pasted border | blending the edit in
frame_match: keeps the framing | changed the framing or the size | keeping the framing
structure_kept: keeps the shapes of the source | lost shapes of the source | keeping the source's shapes
added_structure: adds something clear in one place | adds nothing clear in one place | adding something clearly visible
removal_fill: removed it cleanly | left traces or a visible patch | removing it cleanly
background_change: replaced the background and kept the subject | did not replace the background, or changed the \
subject | replacing nothing but the background
moved_region: moved the object as requested | did not move the object as requested | moving the object as requested
text_match: has the requested text | lacks the requested text | writing the requested text
unasked_text: added no other text | added text that nobody asked for | adding no other text
""")
"""What to say of a candidate with a high and with a low grade, and what one is better at, by measure."""

FAR = 2 / 3
"""Share of the higher grade of `edit_extent` below which the other candidate changed too much."""

_REASON = re.compile(
    r"(?P<plain>.+?[.]) (?P<what>[A-Z][^:.]*) of (?P<first>[A-D]): (?P<ours>.*)"
    r" (?P=what) of (?P<second>[A-D]): (?P<theirs>.*)"
)


def contrast(name: str, first: str, ours: Reading, second: str, theirs: Reading) -> str:
    """Return what sets two candidates apart in a measure, in plain words and then in numbers.

    Args:
        name: The measure.
        first: Label of the candidate with the higher grade.
        ours: Its reading.
        second: Label of the other candidate.
        theirs: Its reading.
    """
    high, weak, merit = CONTRASTS.get(name, ("", "", name.replace("_", " ")))
    what, better, worse = name.replace("_", " ").capitalize(), ours.grade or 0.0, theirs.grade or 0.0
    # The grade of `edit_extent` falls fast with the size of the edit, so it is low only in comparison.
    low = LOW_GRADE if name != "edit_extent" else better * FAR
    if high and worse < low <= better:
        plain = f"{second} {weak}; {first} {high}."
    elif high and worse < low:
        plain = f"Neither is good at {merit}; {first} is better than {second}."
    else:
        plain = f"{first} is better at {merit} than {second}."
    return f"{plain} {what} of {first}: {ours.sentence} {what} of {second}: {theirs.sentence}"


def split_reason(reason: str) -> tuple[str, dict[str, str]]:
    """Return the plain words of a reason, and its numbers by label; without numbers, the reason as it is."""
    found = _REASON.fullmatch(reason)
    if found is None:
        return reason, {}
    return found["plain"], {found["first"]: found["ours"], found["second"]: found["theirs"]}

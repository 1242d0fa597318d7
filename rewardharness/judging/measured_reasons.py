"""Reasons of the pixel-based judge: what sets two candidates apart in plain words, followed by the numbers.

The words compare the two candidates. They say something of one candidate alone only where its grade passes a fixed
threshold. `benchmarks/reason_quality.py` counts how often they contradict what a generator did; the thresholds are
chosen with it.
"""

import re
from collections.abc import Iterable, Mapping

from rewardharness.judging.measured_critique import by_measure
from rewardharness.measure.planes import Reading

CONTRASTS = by_measure("""
edit_presence: made a clearer change | hardly changed anything | visibly changed the image
edit_extent: changed less of the image
preservation: changed less of the rest | also changed the rest of the image | left the rest alone
fidelity: is closer to the source | differs from the source | reproduces the source
color_target: comes closer to the requested color | lacks the requested color | has the requested color
object_color: comes closer to the requested color on the named object
tone_shift: comes closer to the requested light and color
style_shift: comes closer to another style in the same layout
sharpness: is closer to the source in sharpness | is blurred or over-sharpened | is as sharp as the source
noise: has less added noise | added noise | added no noise
blockiness: shows weaker compression blocks | shows compression blocks | shows none
clipping: keeps more detail in shadows and highlights | lost detail to pure black or white | keeps detail in shadows \
and highlights
seam: blends in better | has a visible seam or pasted border | blends the edit in
frame_match: is closer to the source in framing and size | changed the framing or the size | keeps the framing
structure_kept: keeps more of the shapes of the source
added_structure: adds something clearer in one place
removal_fill: removed it more cleanly
background_change: changed more of the background, or less of the subject
moved_region: moved something more as requested
turned_image: is turned more as requested | is not turned as requested | is turned as requested
requested_length: comes closer to the requested length
valid_json: is better as JSON
required_words: has more of the required words
forbidden_words: avoids more of the forbidden words
repetition: repeats itself less
complete_ending: has a more complete ending
text_match: has more of the requested text | does not have the requested text as asked | has the requested text as asked
unasked_text: added less other text | added text that nobody asked for | added no other text
""")
"""How one candidate compares with another, by measure; then what is said of a low and of a high grade, where the
measure can show that by itself. Other measures are named."""

NOTICEABLE = 0.2
"""Smallest difference of two grades that is put in words."""
NOTICEABLE_IN = {"added_structure": 0.3, "blockiness": 0.3, "color_target": 0.4, "frame_match": 0.5, "sharpness": 0.3}
NOTICEABLE_IN |= {"style_shift": 0.4}
"""The same for measures with false sentences at `NOTICEABLE`, on 400 generated pairs."""
LOW, HIGH = 0.3, 0.8
"""A grade below the first and one of at least the second are stated of a candidate alone.

Of edits as asked, at most 6% are below the first in a measure for which it is used."""
LEFT_ALONE = 0.1
"""Largest changed share of the image of which it is said that the rest was left alone.

It bounds the changed share of the rest, wherever the object of the edit is, which no measure knows."""
OF_REGION = frozenset("added_structure background_change color_target moved_region object_color removal_fill".split())
"""Measures of the changed region, which tell of the request only if both candidates changed about as much."""
MAX_RATIO, MAX_EXTRA = 2.0, 0.1
"""How much larger the changed share of the image of one candidate may be: by this factor and this share."""
MAX_REASONS = 3
"""Maximum number of reasons."""

_REASON = re.compile(
    r"(?P<plain>.+?[.]) (?P<what>[A-Z][^:.]*) of (?P<first>[A-D]): (?P<ours>.*)"
    r" (?P=what) of (?P<second>[A-D]): (?P<theirs>.*)"
)


def contrasts(
    names: Iterable[str], first: str, ours: Mapping[str, Reading], second: str, theirs: Mapping[str, Reading]
) -> tuple[str, ...]:
    """Return what sets two candidates apart, by measure, as far as it is noticeable.

    Args:
        names: Measures, the most important first.
        first: Label of the candidate with the higher grades.
        ours: Its readings.
        second: Label of the other candidate.
        theirs: Its readings.
    """
    alike = same_extent(ours, theirs)
    reasons = (
        contrast(name, first, ours[name], second, theirs[name]) for name in names if alike or name not in OF_REGION
    )
    return tuple(filter(None, reasons))[:MAX_REASONS]


def same_extent(ours: Mapping[str, Reading], theirs: Mapping[str, Reading]) -> bool:
    """Return whether two candidates changed about as much of the image."""
    shares = sorted(_changed_share(readings) for readings in (ours, theirs))
    return shares[1] <= MAX_RATIO * shares[0] + MAX_EXTRA


def _changed_share(readings: Mapping[str, Reading]) -> float:
    shares = (reading.quantities.get("changed_share") for reading in readings.values())
    return next((share for share in shares if share is not None), 0.0)


def contrast(name: str, first: str, ours: Reading, second: str, theirs: Reading) -> str:
    """Return what sets two candidates apart in a measure, in plain words and then in numbers.

    Args:
        name: The measure.
        first: Label of the candidate with the higher grade.
        ours: Its reading.
        second: Label of the other candidate.
        theirs: Its reading.

    Returns:
        The reason; empty if the difference is not noticeable.
    """
    better, worse = ours.grade or 0.0, theirs.grade or 0.0
    if round(better - worse, 6) < NOTICEABLE_IN.get(name, NOTICEABLE):
        return ""
    comparative, *alone = CONTRASTS.get(name, (f"has a higher {name.replace('_', ' ')}",))
    share = ours.quantities.get("changed_share") if name == "preservation" else None
    if alone and worse < LOW and better >= HIGH and (share is None or share <= LEFT_ALONE):
        plain = f"{second} {alone[0]}; {first} {alone[1]}."
    else:
        plain = f"{first} {comparative} than {second}."
    what = name.replace("_", " ").capitalize()
    return f"{plain} {what} of {first}: {ours.sentence} {what} of {second}: {theirs.sentence}"


def split_reason(reason: str) -> tuple[str, dict[str, str]]:
    """Return the plain words of a reason, and its numbers by label; without numbers, the reason as it is."""
    match = _REASON.fullmatch(reason)
    if match is None:
        return reason, {}
    return match["plain"], {match["first"]: match["ours"], match["second"]: match["theirs"]}

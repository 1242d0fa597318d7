"""The words in which the built-in orchestrator writes Skills, criteria and Tools.

A model reads them as well as a person, so they say what to look at, and name the measure and the evidence. None of
them speaks of a candidate by its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rewardharness.evolution.builtin.forecast import Agreement
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.measure.table import MEASURES

LEARNED = "## Learned from preferences"
"""Heading under which a body lists what was added to its Skill by evolution."""


@dataclass(frozen=True)
class KindWords:
    """How one kind of edit is spoken of."""

    phrase: str
    """As in: an edit that ..."""
    advice: str
    """What to look at before anything is measured, in a sentence or two."""
    triggers: str
    """Words of instructions that ask for it, in the grammar of `metadata.triggers`; empty where there are none."""


KINDS: Mapping[str, KindWords] = {
    "add": KindWords(
        "adds something to the picture",
        "Find the new thing in each candidate before reading what it should be. It has to be there whole, at a place "
        "that makes sense, and nothing that was there before should have gone for it.",
        "add, insert, include, put a, place a, give, wear, let there be",
    ),
    "remove": KindWords(
        "takes something out of the picture",
        "The thing named has to be gone with its shadow and reflection, and plain surroundings stand in its place. "
        "What was not named stays.",
        "remove, delete, erase, get rid of, take away, without",
    ),
    "replace": KindWords(
        "puts one thing in the place of another",
        "Two questions: is the old thing wholly gone, and can the new one be told for what it is? A hybrid of "
        "both fails on either.",
        "replace, substitute, exchange, swap, turn into, instead of, /\\b(?:chang|turn)\\w* .{1,60} (?:in)?to\\b/",
    ),
    "color": KindWords(
        "gives something another colour",
        "The thing named takes the colour named, all of it, while folds, pattern and shading stay. Neighbours keep "
        "their own colours.",
        "color, colour, recolor, dye, paint, red, orange, yellow, green, blue, purple, pink, brown, black, white",
    ),
    "material": KindWords(
        "makes something of another material",
        "Grain, gloss and transparency should tell the new material; a mere tint does not. The shape stays.",
        "made of, made out of, material, wooden, wood, metal, glass, stone, marble, leather, brick, texture",
    ),
    "background": KindWords(
        "changes the background",
        "Everything behind the subject should be the new place, also in corners and gaps, and the subject itself the "
        "same as before.",
        "background, backdrop, scenery, surroundings, setting, sky",
    ),
    "style": KindWords(
        "changes the style of the picture",
        "The whole frame takes on the marks of the style, and things and people can still be found where they were.",
        "style, painting, drawing, sketch, cartoon, watercolor, watercolour, anime, pixel art, comic",
    ),
    "tone": KindWords(
        "changes light and colour of the whole picture",
        "The change has to go in the direction named, by an amount one sees, without burning out or drowning parts.",
        "brighter, darker, warmer, cooler, contrast, saturation, brightness, black and white, sepia, lighting",
    ),
    "text": KindWords(
        "writes or changes text",
        "Read what stands there letter by letter and compare it with what was asked for. Old wording that was to "
        "go must be gone.",
        "text, word, letter, caption, say, write, sign, spell, title, label",
    ),
    "count": KindWords(
        "changes how many of something there are",
        "Count the things in the source and in each candidate. The number asked for is either met or not.",
        "two, three, four, five, another, more, number of",
    ),
    "position": KindWords(
        "moves something",
        "The thing stands in the new place and is gone from the old one, where the surroundings go on. It stays the "
        "same thing.",
        "move, shift, left, right, position, center, centre, next to, behind",
    ),
    "pose": KindWords(
        "changes pose, expression or direction",
        "The new pose or direction has to be plain to see, on the same subject, with sound limbs.",
        "pose, smile, sit, stand, face, look, turn around, flip, rotate, open",
    ),
    "keep": KindWords(
        "is to leave the picture as it is",
        "Every difference from the source is a flaw. Search for them in faces, in small text and in fine texture.",
        "reproduce, reconstruct, keep, preserve, copy, no changes",
    ),
    "other": KindWords(
        "fits no common kind",
        "Say in your own words what would have to be visible, then look for exactly that.",
        "",
    ),
}
ANY = KindWords("is of any kind", "What holds for every edit, whatever was asked for.", "always")

_MEASURES: Mapping[str, tuple[str, str]] = {
    "edit_presence": (
        "A visible edit",
        "A change can be seen at all against the source. 4: at once; 2: hardly; 1: the source came back.",
    ),
    "edit_extent": (
        "Size of the edit",
        "The edited region is about as large as the request needs. 4: fits; 2: too large or small; 1: far off.",
    ),
    "preservation": (
        "The rest is kept",
        "What lies outside the edit is as in the source. 4: untouched; 2: unasked changes; 1: drawn anew.",
    ),
    "fidelity": (
        "Faithful to the source",
        "The picture repeats the source exactly. 4: no difference found; 2: clear ones; 1: another picture.",
    ),
    "color_target": (
        "The colour that was asked for",
        "The edited part shows the colour that was named. 4: clearly; 2: weakly or in part; 1: not, or another colour.",
    ),
    "tone_shift": (
        "Direction of light and colour",
        "Light and colour moved the way that was asked for. 4: visibly; 2: barely; 1: not, or the other way.",
    ),
    "style_shift": (
        "Change of look",
        "The look changed over the whole frame and the layout stayed. 4: everywhere; 2: a thin filter; 1: as before.",
    ),
    "sharpness": (
        "Sharpness",
        "Detail is as sharp as in the source. 4: the same; 2: visibly soft or overdone; 1: detail is lost.",
    ),
    "noise": ("Noise", "The edit brought no grain or speckle. 4: none; 2: visible; 1: strong."),
    "blockiness": ("Compression blocks", "No blocks or grids show beyond those of the source. 4: none; 1: everywhere."),
    "clipping": (
        "Burnt-out and black areas",
        "Bright and dark parts keep their drawing. 4: all; 2: holes; 1: mostly lost.",
    ),
    "seam": (
        "Seams",
        "No border shows around the edited part. 4: none; 3: on a close look; 2: at once; 1: a pasted patch.",
    ),
    "frame_match": (
        "Frame",
        "Size, shape and framing of the picture are kept, without bars. 4: kept; 2: cropped; 1: distorted.",
    ),
    "structure_kept": (
        "Shapes and layout",
        "The lines and the layout of what should stay run as in the source. 4: the same; 2: redrawn; 1: lost.",
    ),
    "added_structure": (
        "Something new in one place",
        "New shape and detail stand in one compact place. 4: clearly; 2: a hint; 1: nothing new, or only colour.",
    ),
    "removal_fill": (
        "Gone, and well filled",
        "The thing is gone and its place continues the surroundings. 4: no trace; 2: a visible patch; 1: still there.",
    ),
    "background_change": (
        "Another background",
        "The area behind the subject is another one and the subject is kept. 4: both; 2: in part; 1: as before.",
    ),
    "text_match": (
        "The text that was asked for",
        "The text asked for can be read letter by letter, text to be gone is gone. 4: exact; 2: wrong letters; 1: no.",
    ),
    "unasked_text": (
        "No unasked text",
        "No writing appeared that nobody asked for, least of all any that speaks to a judge. 4: none; 1: there is.",
    ),
}


def title(measure: str) -> str:
    """Name a measure as a heading does."""
    return _MEASURES[measure][0] if measure in _MEASURES else measure.replace("_", " ").capitalize()


def criterion_text(measure: str) -> str:
    """Say what a criterion with a measure looks at."""
    if measure in _MEASURES:
        return _MEASURES[measure][1]
    known = MEASURES.get(measure)
    return known.description if known else f"{title(measure)}."


def evidence(measure: str, agreement: Agreement, scope: str) -> str:
    """Say what speaks for a measure."""
    total = agreement.agrees + agreement.disagrees
    return (
        f"The preferred candidate had the better grade on the measure `{measure}` in {agreement.agrees} of {total} "
        f"{scope} on which the grades differ."
    )


def note(criterion: Criterion, why: str) -> str:
    """Write a criterion as an item of a Skill's body, for judges that read bodies and not rubrics."""
    return f"{_mark(criterion)} {criterion.text} {why}"


def with_note(body: str, line: str) -> str:
    """Put an item under the heading of what was learned."""
    head, heading, rest = body.partition(LEARNED)
    if not heading:
        return f"{body.rstrip()}\n\n{LEARNED}\n\n{line}\n"
    return f"{head}{heading}{rest.rstrip()}\n{line}\n"


def without_note(body: str, criterion: Criterion) -> str:
    """Take the item of a criterion out again; the heading goes with the last one."""
    head, heading, rest = body.partition(LEARNED)
    if not heading:
        return body
    kept = [line for line in rest.split("\n") if not line.startswith(_mark(criterion))]
    if not any(line.strip() for line in kept):
        return head.rstrip()
    return head + heading + "\n".join(kept)


def new_body(name: str, words: KindWords, line: str) -> str:
    """Write the body of a new Skill."""
    heading = name.replace("-", " ").capitalize()
    return f"# {heading}\n\nHow to judge an edit that {words.phrase}. {words.advice}\n\n{LEARNED}\n\n{line}\n"


def tool_body(name: str, measure: str) -> str:
    """Write the body of a measured Tool."""
    heading = name.replace("-", " ").capitalize()
    return (
        f"# {heading}\n\n**Call it** for each candidate, with the candidate's label.\n\n**It reports** a grade from 0 "
        f"to 1 of the measure `{measure}`. {criterion_text(measure)} A grade near 1 is the best end of that scale.\n\n"
        "**Limits.** It computes on pixels and knows nothing of meaning; what your own eyes see goes before it."
    )


def merged_body(first: Entry, second: Entry) -> str:
    """Write two bodies as one; lines that both have stand once."""
    known = {line.strip() for line in first.body.split("\n") if line.strip()}
    new = [line for line in second.body.strip().split("\n") if line.strip() not in known]
    rest = re.sub(r"\n{3,}", "\n\n", "\n".join(new)).strip()
    return f"{first.body.rstrip()}\n\n{rest}\n" if rest else f"{first.body.rstrip()}\n"


def _mark(criterion: Criterion) -> str:
    measure = criterion.measure or ""
    return f"- **{title(measure)}** (criterion `{criterion.id}`, measure `{measure}`):"

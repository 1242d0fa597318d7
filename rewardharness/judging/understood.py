"""What the parser of instructions read, as one line and as three values that a person can correct."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache, reduce

from rewardharness.judging.appeals import without_appeals
from rewardharness.judging.captions import read_caption, without_opening
from rewardharness.judging.instruction import explicit_parts, read_instruction
from rewardharness.judging.measured_critique import by_measure
from rewardharness.schema import EditRequest

_FORMS = by_measure("""
text: Text | replace text | Replace the text "{what}" with "{to}". | Remove the text "{what}". | Write the text "{to}".
color: Color | color of | Change the color of {what} to {to}. | Recolor {what}. | Change the color to {to}.
remove: Remove something | remove | - | Remove {what}. | -
replace: Replace something | replace | Replace {what} with {to}. | Replace {what}. | -
add: Add something | add | - | Add {what}. | -
tone: Light and tone | light and tone of | Make {what} {to}. | - | Make the image {to}.
background: Background or weather | background | Change {what} to {to}. | - | Change the background to {to}.
style: Style | style of | Change the style of {what} to {to}. | - | Change the style to {to}.
material: Material | material of | Change the material of {what} to {to}. | - | -
position: Position or size | position or size of | Move {what} {to}. | Move {what}. | -
count: Number | number of | Change the number of {what} to {to}. | - | -
pose: Pose or action | pose or action of | Make {what} {to}. | - | -
keep: No change | keep | - | - | -
appearance: Same appearance as the source | keep the look of | - | - | -
""")
"""Label, words in the line, and wordings with both values, without `to`, and without `what`; - for none."""

_ALONE = {"keep": "Keep the image as it is.", "appearance": "Keep the same look as in the source image."}
"""Wordings without a value."""

KINDS: dict[str, str] = {kind: form[0] for kind, form in _FORMS.items()}
"""Label of each kind of edit that can be chosen."""

MAX_READ = 400
"""Characters of an instruction in which the values are searched."""

_CONTRAST = {"more_contrast": "higher contrast", "less_contrast": "lower contrast"}
_END = (
    r"(?=\s*(?:[.;!?](?:\s|$)|,|$|\b(?:while|but|without|leaving|keeping"
    r"|and (?:keep|leave|preserve|make|change|remove|add|replace|move))\b))"
)
_SIZE = r"(?:much |slightly )?(?:bigger|larger|smaller|taller|shorter|wider|narrower|longer|thinner|thicker)"
_PARTS = {"WHAT": "(?P<what>.+?)", "TO": "(?P<to>.+?)END", "END": _END, "SIZE": _SIZE}
_SHAPES = {
    kind: [re.compile(reduce(lambda text, part: text.replace(*part), _PARTS.items(), rule), re.I) for rule in patterns]
    for kind, patterns in by_measure(
        r"""
remove: \b(?:take|get) WHAT (?:away|out|off)\b | \b(?:remov(?:e|ing)|delet(?:e|ing)|eras(?:e|ing)|get(?:ting)? rid of\
|eliminate|take (?:away|out|off)|cut out|wipe (?:out|away)|clear(?: away)?|exclude|omit) WHATEND
replace: \b(?:replac(?:e|ing)|substitute|swap(?: out)?|exchange) WHAT (?:with|by|for) TO | \b(?:turn|transform|convert\
|change|make|switch|let|have) WHAT (?:turn )?(?:to|into|become) (?:be )?TO | \breplac(?:e|ing) WHATEND
add: \b(?:add(?:ing)?|insert|include|introduce|put|place|draw|give|hang|attach|plant|overlay|set|let there be) WHATEND
color: \bcolou?r of WHAT (?:to|into) TO | \brecolou?r WHATEND
tone: \b(?:make|turn|let) WHAT (?:(?:much|slightly|a bit|a little|more|less) )*(?:\w+er|blurry|blurred|sharp\
|\w+(?:ed|ful|ant))END
background: \b(?:background|backdrop|scenery|setting|environment|surroundings)\b.*? (?:to|with|into|by|as|be) TO | \b\
(?:change|make|turn) WHAT (?:to|into) TO | \bmake (?:it|the (?:image|picture|photo|scene|background)) TO
style: \bstyle of WHAT (?:to|into) TO | \bin (?:the )?style of TO | \b(?:to|into|in|as|like) (?:an? |the )?TO
material: \bmaterial of WHAT (?:to|into) TO | \b(?:make|turn|change|convert|transform) WHAT (?:to|into|out of|of|be) \
(?:be )?(?:made (?:out )?of )?TO | \bmake WHAT (?P<to>[\w-]+)END
position: \b(?:mov(?:e|ing)|shift|slide|push|pull|drag|relocate|reposition|bring|put|place|make|get|let) WHAT \
(?P<to>(?:to|towards?|on|onto|in|into|above|below|behind|under|over|next to|near|closer|further|farther|up|down|left\
|right|SIZE)\b.*?)END \
| \b(?:mov(?:e|ing)|enlarge|shrink|resize|zoom (?:in|out)(?: on)?) WHATEND
count: \bnumber of WHAT (?:to|into) TO
pose: \b(?:make|let|have|get) (?P<what>him|her|them|it|(?:(?:the|an?|his|her|their) )?[\w-]+) TO
""".replace("\\\n", "")
    ).items()
}
"""Where the values stand in an instruction, by kind of edit; the first match counts."""


@dataclass(frozen=True)
class Understood:
    """What was read from an instruction."""

    text: str
    """All of it in one line, such as `color of car → red, rest unchanged`; empty if nothing specific was read."""
    kind: str
    """The kind of edit: a key of `KINDS`, or `other`."""
    what: str
    """What is to change: an object, or the text to replace; empty if none was read."""
    to: str
    """What it is to become; empty if none was read."""


@lru_cache(maxsize=1024)
def understood(instruction: str) -> Understood:
    """Return what the parser reads from an instruction."""
    request = read_instruction(instruction)
    texts = request.texts or request.removed_texts
    explicit = explicit_parts(instruction)
    kind, what, to = explicit or ("text" if texts else request.kinds[0], *_values(request))
    return Understood(_line(kind, what, to, request.scope), kind, what, to)


def canonical(kind: str, what: str, to: str) -> str:
    """Return an instruction that is read as exactly these values.

    Args:
        kind: A key of `KINDS`.
        what: What is to change; may be empty.
        to: What it is to become; may be empty.
    """
    what, to = _clean(kind, what), _clean(kind, to)
    both, object_only, result_only = _FORMS[kind][2:]
    sentence = (both if to else object_only) if what else result_only if to else _ALONE.get(kind, "-")
    if kind == "position" and re.match(_SIZE, to):
        sentence = _FORMS["pose"][2]
    named = what if kind in {"text", "add"} or re.match(_DETERMINER, what, re.I) else f"the {what}"
    sentence = sentence.format(what=named, to=to)
    read = understood(sentence)
    if (read.kind, read.what, read.to) == (kind, what, to):
        return sentence
    what, to = (value and f'"{value}"' if kind == "text" else value for value in (what, to))
    return f"{kind.capitalize()}: {what}{' → ' if to else ''}{to}".replace("  ", " ").strip()


_DETERMINER = r"(?:an?|his|her|its|their|my|our|your|all|every|each|both|some|him|them|it|\d+)\b"


def _values(request: EditRequest) -> tuple[str, str]:
    """Return what is to change and what it is to become, in the words of the instruction."""
    kind = request.kinds[0]
    if request.texts or request.removed_texts:
        return ", ".join(request.removed_texts), ", ".join(request.texts)
    plain = without_opening(unicodedata.normalize("NFKC", without_appeals(request.instruction)).strip())
    if read_caption(plain) is not None:
        return "", ""
    match = next(filter(None, (shape.search(plain[:MAX_READ]) for shape in _shapes(request))), None)
    groups = match.groupdict("") if match else {}
    what, to = (_clean(kind, groups.get(name, "")) for name in ("what", "to"))
    if kind == "color":
        what, to = what if len(request.colors) < 2 else "", " and ".join(request.colors) or to
    if kind == "tone":
        to = " and ".join(_CONTRAST.get(tone, tone.replace("_", " ")) for tone in request.tones)
        what = what if request.scope == "local" else ""
    return what, to


def _shapes(request: EditRequest) -> list[re.Pattern[str]]:
    shapes = _SHAPES.get(request.kinds[0], [])
    if request.kinds[0] != "color" or not request.colors:
        return shapes
    color = re.escape(request.colors[0])
    made = (
        r"\b(?:make|turn|paint|dye|colou?r|recolou?r|repaint|tint|change|let|have|give)(?: the colou?r of)?"
        rf" (?P<what>.+?)(?:['’]s)?(?: colou?rs?)?(?: (?:to|into|in|be|as|with|out of))?(?: be)?(?: an?| the)?"
        rf" {color}\b"
    )
    return [re.compile(made, re.I), *shapes]


def _line(kind: str, what: str, to: str, scope: str) -> str:
    if kind not in _FORMS:
        return ""
    if not what and not to:
        return KINDS[kind][0].lower() + KINDS[kind][1:]
    phrase = _FORMS[kind][1]
    if kind == "text":
        what, to = (value and f'"{value}"' for value in (what, to))
        phrase = phrase if what and to else "remove text" if what else "write text"
    if kind == "background" and what:
        phrase, what = what, ""
    becomes = to if phrase == "write text" else to and f"→ {to}"
    line = " ".join(part for part in (phrase if what else phrase.removesuffix(" of"), what, becomes) if part)
    return f"{line}, rest unchanged" if phrase.endswith(" of") and what and scope == "local" else line


def _clean(kind: str, value: str) -> str:
    """Return a value without what ends it in an instruction."""
    value = re.sub(r'[→"“”]' if kind == "text" else r'[→"“”.!?;。！？；,]', " ", unicodedata.normalize("NFKC", value))
    value = " ".join(value.split())
    return value if kind == "text" else re.sub(r"^(?:the|this|that) (?=.)", "", value, flags=re.I)

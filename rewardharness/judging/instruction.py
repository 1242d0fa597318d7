"""Classification of instructions by rules over English words, without a model.

An unrecognized kind of edit is `other`, for which judges lower their confidence. The rules use only the instruction.
They are written from grammar, and checked on the published instructions of AURORA-Bench and I2EBench.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from rewardharness.judging.appeals import without_appeals
from rewardharness.judging.captions import Caption, names_action, read_caption, without_opening
from rewardharness.judging.edit_kinds import COLORS, kind_weights, read_patterns, strongest
from rewardharness.judging.requested_texts import read_texts
from rewardharness.judging.sameness import requested_likeness
from rewardharness.schema import EDIT_KINDS, EditRequest, Example
from rewardharness.task import TEXT, task_of

_COLOR_WORDS = "|".join(COLORS)
_SHADE = (
    r"(?:(?:light|dark|bright|deep|pale|hot|neon|pastel|vivid|all|completely|solid|(?:sky|royal|navy)(?= blue)"
    r"|(?:forest|lime)(?= green))[ -])*"
)
_COLOR = rf"(?P<color>{_SHADE}(?:{_COLOR_WORDS}))(?:ish)?"

_TONES = read_patterns(r"""
brighter darker \b(?:bright(?:er|en|ened|ness)|lighter|lighten|more light|overexpose|exposure|day(?:time)?|(?:less
    |too) dark|well[- ]lit)\b|\bbright\b(?! (?:{color_words}|lime))
darker brighter \b(?:dark(?:er|en|ened)|dimmer|dim|night(?:time)?|gloomy|moody)\b
warmer cooler \b(?:warm(?:er|th)?|golden hour|sunset|sunrise)\b
cooler warmer \b(?:cool(?:er)?|colder|bluish|icy)\b
less_contrast more_contrast \bfaded\b|\bwashed[- ]out\b
more_contrast less_contrast \bcontrast\b|\bdramatic light\w*\b
less_saturated more_saturated \b(?:desaturat\w+|muted)\b
more_saturated less_saturated \b(?:saturat(?:e|ed|ion)|vibran\w+|vivid|(?<=more |less )colou?rful|(?:boost|enhance
    |intensify
    |enrich|stronger|richer|bolder) (?:the |its |all )*colou?rs?)\b
grayscale more_saturated \b(?:black[- ]and[- ]white|gr[ae]y[- ]?scale|monochrom\w*|b ?& ?w)\b
sepia - \bsepia\b
sharper blurrier \b(?:sharp(?:er|en|ness)|deblur|unblur|crisper|higher resolution)\b
blurrier sharper (?<!un)(?<!de)\bblur(?:red|ry|rier)?\b|\bout[- ]of[- ]focus\b|\bbokeh\b|\bdefocus(?:ed)?\b
""")
"""A direction of light or color, its opposite (- for none), and the words for it."""
_AMOUNTS = frozenset({"brightness", "exposure", "contrast", "saturation", "vibrance", "vibrancy", "sharpness"})
"""Words that name a direction only after a word of more or less, at most 80 characters before them."""
_BEFORE_AMOUNT = r"(?: (?:of|in|the|its|this|an?|some|all|much|overall|image|photo|colou?r)){0,6} "
_AMOUNT = re.compile(rf"\b\w+(?: up| down)?{_BEFORE_AMOUNT}(?:{'|'.join(sorted(_AMOUNTS))}|blur)\b")
"""Such as `lower the contrast`, whose verb says nothing else about the kind of edit."""
_MORE, _LESS = (
    re.compile(rf"\b(?:{words}){_BEFORE_AMOUNT}$")
    for words in (
        r"more|increas\w+|rais\w+|boost\w*|enhanc\w+|add\w*|high(?:er)?|strong(?:er)?|intensif\w+|improv\w+|extra|up",
        r"less|too|not (?:so|as)|reduc\w+|decreas\w+|low(?:er\w*)?|down|drop|cut|remov\w+|get rid|colou?ri[sz]e",
    )
)

_KEPT = re.compile(
    r"\b(?:keep(?:ing)?|preserv(?:e|ing)|maintain(?:ing)?|leav(?:e|ing)|while (?:keeping|leaving))"
    r" (?:the |its |his |her |their )?"
    r"(?:\w+ ){0,3}?(?:background|scene|scenery|pose|text|style|rest|subject|position|lighting)\b"
)
_BLURRED = re.compile(
    r"\b(?:blur|sharpen|defocus)\w* (?:out )?(?:the )?(?:background|backdrop)\b|\bbokeh\b"
    r"|\b(?:background|backdrop)\b(?:(?! (?:with|into|by|to(?! be)|as) )[^.,;]){0,40}\b(?:blur|out[- ]of[- ]focus"
    r"|defocus)"
)
"""A background that is to lose or gain sharpness, rather than another one."""
_LEFT_BEHIND = re.compile(
    r"(?:time|light)?(?: (?:image|picture|photo|scene|shot|light|tones?|colou?rs?|it))?"
    r" (?:(?:in)?to (?!(?:be|make|get|the)\b)|(?<=scene )an? )"
)
"""What follows a direction of light or color that another one is to replace."""
_IMAGE = r"(?:(?:the|this|my) )?(?:(?:whole|entire) )?(?:image|picture|photo(?:graph)?|scene|shot|it|everything)"
_TURN = (
    r"(?:please |now |just |simply |(?:can|could|would) you |i want |i would like |,)*"
    rf"(?:(?:turn|rotate|flip|mirror|spin|show|make|put|give)(?: {_IMAGE})?"
    rf"|{_IMAGE} (?:should|must|shall|has to|needs to) be(?: turned| rotated| flipped| shown)?)"
)
_QUARTER = r"(?: by| through| around)* (?:90(?: ?°|[- ]degrees?)|(?:a )?quarter[- ]turn) (?:to the )?"
_TURNS = [
    (name, re.compile(rf"{_TURN}{way}\W*"))
    for name, way in {
        "half": r"(?: by| through| around)* (?:(?:completely |fully )?upside[- ]down|on its head|(?:a )?half[- ]turn"
        r"|(?:a )?180(?: ?°|[- ]degrees?)(?: turn| rotation)?(?: (?:counter-?|anti-?)?clockwise)?)",
        "right": rf"{_QUARTER}(?:clockwise|right)",
        "left": rf"{_QUARTER}(?:(?:counter-?|anti-?)clockwise|left)",
        "mirrored": r"(?: horizontally| (?:from )?left to right|(?<=mirror the (?:image|photo|scene)))",
        "flipped": r" (?:vertically|(?:from )?top to bottom)",
    }.items()
]
"""Turns of the whole image, as the whole of a request."""
_WHITESPACE = re.compile(r"\s+")
_WHOLE = re.compile(
    r"\b(?:whole|entire|overall) (?:image|picture|photo|scene)|\b(?:the|this) (?:image|photo|picture)\b"
)
_LOCAL_TONE = re.compile(
    r"\b(?:make|turn|let) (?:the|this|that|his|her|its|their) "
    r"(?!(?:\w+ )?(?:image|picture|photo|scene|light\w*|colou?rs|tones?|atmosphere|mood|exposure|contrast"
    r"|saturation)\b)"
    r"[\w-]+(?: [\w-]+)? (?:(?:much|slightly|a (?:bit|little)) )?(?:(?:bright|dark|light|warm|cool)er|more|less"
    r"|blurr|sharp)"
)
_MOVED = re.compile(
    r"\b(?:(?:mov|shift|slid|push|pull|drag|relocat|reposition|bring)(?:e|es|ed|s|ing)?|(?:put|plac|set)(?:e|s"
    r"|ed|ting|ing)?"
    r" (?:the|his|her|its|their)|(?:should|must|has to|needs to|is to) (?:now )?(?:be|stand|lie|sit"
    r"|hang))\b(?P<where>.*)"
)
_DIRECTIONS = read_patterns(r"""
left of \b(?:to|towards?) (?:the |its |his |her )?(?:far )?left\b|\b(?:further|more) (?:to the )?left\b|\bleft of\b
right of \b(?:to|towards?) (?:the |its |his |her )?(?:far )?right\b|\b(?:further|more) (?:to the )?right\b|\bright of
left of \b(?:on|at) the left (?:hand |side )?of\b|\bleftwards?\b
right of \b(?:on|at) the right (?:hand |side )?of\b|\brightwards?\b
up of \b(?:behind|(?:to|at|in) the back of|above|on top of|upwards?|higher)\b
down of \b(?:in front of|below|under(?:neath)?|beneath|downwards?|lower)\b
""")
"""Directions in the image of places that are named relative to others. Farther things stand higher in an image."""
_PART = re.compile(r"\b(?:in|from|of|on|to|into) (?:the|this) (?:image|photo|picture|scene)\b")
_TO_COLOR = re.compile(
    rf"\b(?:(?:to|into|be|becom(?:es?|ing)|as|with|in|of(?! the))(?: an?| the| some)?|turns?|turned|paint(?:ed)?|dyed?"
    rf"|colou?red) {_COLOR}\b"
)
_CLAUSE_END = r"(?: in colou?r)?(?=\s*(?:[.,;!?]|$|and\b|but\b|while\b|instead\b))"
_END_COLOR = re.compile(
    rf"\b(?:make|makes|let|have|turn|turns|paint|color|colour|dye|tinge|tint|coat|change|wants?"
    rf"|give) [^.,;]{{0,200}}?\b{_COLOR}{_CLAUSE_END}"
)
_COLOR_NOUN = re.compile(rf"\b{_COLOR}[ -](?:tint|tinge|hue|shade|colou?r|tone|pigment|paint(?: job)?|coat(?:ing)?)\b")
_COLOR_FIRST = re.compile(rf"^{_COLOR} (?:shall|should|must|is)\b")
_ADDED_COLOR = re.compile(
    r"\b(?:(?:add|put|plac(?:e|ing)|set|insert|includ(?:e|ing)|draw|hang|introduce|plant|attach|there be)(?:ing)?"
    r"|replac(?:(?!\bwith\b)[^.]){1,60} with|(?:turn|convert|transform|chang)(?:(?!\binto\b)[^.]){1,60} into)"
    rf" (?:an?|one) (?:(?:big|large|small|little|tiny|round|shiny|bright|single|new) )*{_COLOR}"
    r" (?!(?:and|or|on|in|to|at|of|for|next|beside|near|wine|retriever|hour)\b)[a-z]"
)
"""The color of what is to be added, as in `place an orange ball`."""
_AND_COLOR = re.compile(rf"\s*,?\s*and [^.,;]{{0,200}}?\b{_COLOR}{_CLAUSE_END}")

_EXPLICIT = re.compile(rf"(?P<kind>{'|'.join(EDIT_KINDS[:-1])}): ?(?P<what>[^→]*?)(?: ?→ (?P<to>[^→]+))?", re.I)


@lru_cache(maxsize=4096)
def read_instruction(instruction: str) -> EditRequest:
    """Recognise what an instruction asks for.

    Args:
        instruction: English text as a person wrote it.

    Returns:
        Kinds of edit, strongest first (`other` when none is recognised), where the change belongs, and the
        colours, texts and directions of tone that are named. Sentences that are addressed to the judge are left out.
    """
    explicit = explicit_parts(instruction)
    if explicit is not None:
        return _explicit(instruction, *explicit)
    instruction = without_appeals(instruction)
    plain = unicodedata.normalize("NFKC", instruction).strip()
    lower = _WHITESPACE.sub(" ", plain.lower())
    alike = requested_likeness(lower)
    if alike and not _target_colors(lower):
        return EditRequest(instruction, (alike,), "none")
    plain, lower = without_opening(plain), without_opening(lower)
    if turned := next((name for name, pattern in _TURNS if pattern.fullmatch(lower)), ""):
        return EditRequest(instruction, ("pose",), "none", turned=turned)
    caption = read_caption(plain)
    if caption is not None:
        return _described(instruction, caption)
    plain, texts, removed_texts = read_texts(plain)
    lower = _WHITESPACE.sub(" ", plain.lower())
    colors, tones = _target_colors(lower), _tones(lower)
    weights = kind_weights(_KEPT.sub(" ", _AMOUNT.sub(" ", lower)))
    added = _ADDED_COLOR.search(lower) if strongest(weights)[0] in {"add", "replace"} else None
    if added and set(colors) <= {added["color"]}:  # it belongs to what is added, and is no change of a color
        colors = (added["color"],)
    elif colors:
        weights["color"] = max(weights["color"], 3.6)
    if texts or removed_texts:
        weights["text"] = max(weights["text"], 4.6)
        if " and " not in lower:  # what is added, removed, replaced or placed is the text
            weights |= dict.fromkeys(("add", "remove", "replace", "position"), 0.0)
    if tones:
        weights["replace"] *= len(tones) == len(_named_tones(lower))  # a direction of light is replaced by another
        weights["tone"] = 4.6 if _BLURRED.search(lower) else 3.6 if _is_whole(lower) else 2.2
    if weights["background"] <= 2.0 < max(weights["color"], weights["tone"]):
        # "Make the sky darker" names the sky as the object of the edit.
        weights["background"] *= _scope(strongest(weights), lower) != "local"
    kinds = strongest(weights)
    return EditRequest(
        instruction=instruction,
        kinds=kinds,
        scope=_scope(kinds, lower),
        colors=colors,
        texts=texts,
        removed_texts=removed_texts,
        directions=_directions(lower) if "position" in kinds else (),
        tones=tones if "tone" in kinds else (),
    )


def request_of(example: Example) -> EditRequest:
    """Read the instruction of an example. A prompt for text is not read by the rules for edits."""
    if task_of(example) is TEXT:
        return EditRequest(example.instruction, ("other",), "none")
    return read_instruction(example.instruction)


def explicit_parts(instruction: str) -> tuple[str, str, str] | None:
    """Return kind, object and result of an instruction such as `Color: blue car → red`; None for any other."""
    match = _EXPLICIT.fullmatch(_WHITESPACE.sub(" ", unicodedata.normalize("NFKC", instruction)).strip())
    quoted = match is not None and match["kind"].lower() == "text"
    parts = [(part or "").strip('"' if quoted else None) for part in match.groups()] if match else []
    return (parts[0].lower(), parts[1], parts[2]) if parts else None


def _explicit(instruction: str, kind: str, what: str, to: str) -> EditRequest:
    """Return the request of an instruction that states its kind of edit."""
    named = {"color": to, "replace": to, "add": what}.get(kind, "").lower()
    colors = tuple(dict.fromkeys(match["color"] for match in re.finditer(rf"\b{_COLOR}\b", named)))
    whole = kind in {"style", "background"} or _is_whole(what.lower()) or (kind == "tone" and not what)
    return EditRequest(
        instruction,
        (kind,),
        "none" if kind in {"keep", "appearance"} else "global" if whole else "local",
        colors if kind == "color" else colors[:1],
        texts=(to,) if to and kind == "text" else (),
        removed_texts=(what,) if what and kind == "text" else (),
        directions=_directions(f"move it {to.lower()}") if kind == "position" else (),
        tones=_tones(to.lower()) if kind == "tone" else (),
    )


def _described(instruction: str, caption: Caption) -> EditRequest:
    """Read what a caption asks for, which may concern a part of the image of any size.

    Without a caption of the source any word may describe what was there before. Then an action is the most likely
    request, and only a caption without an action asks for the colors that it names.
    """
    asked = caption.requested
    weights = kind_weights(asked)
    action = names_action(asked)
    if action:
        weights["pose"] = 3.8
    named = re.findall(rf"\b(?:{_COLOR_WORDS})\b", asked)
    colors = tuple(dict.fromkeys(named)) if caption.source or not action else ()
    if colors:
        weights["color"] = 3.2
    _, texts, _ = read_texts(caption.target)
    if texts:
        weights["text"] = 3.8
    tones = _tones(asked) if caption.source else ()
    if tones:
        weights["tone"] = 2.2
    kinds = strongest(weights)
    scope: Literal["global", "unknown"] = "global" if _scope(kinds, asked) == "global" else "unknown"
    return EditRequest(instruction, kinds, scope, colors, texts=texts, tones=tones)


def _tones(lower: str) -> tuple[str, ...]:
    """Return the requested directions of light and color, without those that another one is to replace."""
    tones = _named_tones(lower)
    return tuple(name for name, left in tones.items() if name != "-" and not (left and len(tones) > 1))


def _named_tones(lower: str) -> dict[str, bool]:
    """Return the named directions of light and color, and whether another one is to replace them."""
    tones: dict[str, bool] = {}
    for name, opposite, pattern in _TONES:
        for match in re.finditer(pattern, lower):
            before = lower[max(0, match.start() - 80) : match.start()]
            if _LESS.search(before) or match[0] not in _AMOUNTS or _MORE.search(before):
                left = _LEFT_BEHIND.match(lower, match.end()) or re.search(r"\b(?:from|instead of) $", before)
                tones[opposite if _LESS.search(before) else name] = bool(left)
    return tones


def _directions(lower: str) -> tuple[str, ...]:
    """Return the direction in which something is to be moved, if one is named."""
    moved = _MOVED.search(lower)
    return tuple(name for name, _, pattern in _DIRECTIONS if moved and re.search(pattern, moved["where"]))[:1]


def _is_whole(lower: str) -> bool:
    """Return whether the whole image is to be changed, rather than named as the place of the change."""
    return bool(_WHOLE.search(_PART.sub(" ", lower)))


def _scope(kinds: tuple[str, ...], lower: str) -> Literal["local", "global"]:
    whole = (
        kinds[0] in {"style", "background"}
        or (kinds[0] == "tone" and not _LOCAL_TONE.search(lower))
        or (kinds[0] in {"other", "replace", "color", "material"} and _is_whole(lower))
    )
    return "global" if whole else "local"


def _target_colors(lower: str) -> tuple[str, ...]:
    """Return target colors, without colors that identify an object."""
    named, followed = list[tuple[int, str]](), set[int]()
    for pattern in (_TO_COLOR, _END_COLOR, _COLOR_NOUN, _COLOR_FIRST):
        for match in re.finditer(pattern, lower):
            if re.match(r"[- ]and[- ]white", lower[match.end("color") :]):
                continue
            named.append((match.start("color"), match.group("color")))
            further = _AND_COLOR.match(lower, match.end())
            while further and further.end() not in followed:
                followed.add(further.end())
                named.append((further.start("color"), further.group("color")))
                further = _AND_COLOR.match(lower, further.end())
    colors = [re.sub(r"^(?:all|completely|solid)[ -]", "", color) for _, color in sorted(set(named))]
    return tuple(dict.fromkeys(colors))

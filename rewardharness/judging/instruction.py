"""Classification of instructions by rules over English words, without a model.

An unrecognized kind of edit is `other`, for which judges lower their confidence. The rules use only the instruction.
They are written from grammar, and checked on the published instructions of AURORA-Bench and I2EBench.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from rewardharness.judging.appeals import without_appeals
from rewardharness.judging.captions import Caption, names_action, read_caption, without_opening
from rewardharness.schema import EDIT_KINDS, EditRequest

COLORS: list[str] = (
    "black white gray grey red green blue yellow orange purple violet pink brown beige cyan turquoise teal magenta "
    "maroon navy olive lime gold golden silver bronze cream ivory tan crimson scarlet lavender indigo mint peach "
    "coral salmon burgundy khaki aqua fuchsia lilac mauve charcoal amber"
).split()
"""Color words that are recognized as a target."""

_COLOR_WORDS = "|".join(COLORS)
_SHADE = (
    r"(?:(?:light|dark|bright|deep|pale|hot|neon|pastel|vivid|all|completely|solid|(?:sky|royal|navy)(?= blue)"
    r"|(?:forest|lime)(?= green))[ -])*"
)
_COLOR = rf"(?P<color>{_SHADE}(?:{_COLOR_WORDS}))(?:ish)?"

_WORDS = {
    "color_words": _COLOR_WORDS,
    "animate": r"(?:wo)?m[ae]n|boys?|girls?|person|people|child(?:ren)?|kids?|baby|lady|guys?|players?|dogs?|cats?"
    r"|horses?|birds?|animals?|cows?|sheep|bears?|elephants?|monkeys?",
    "not_verbs": r"(?:an?|the|to|into|in|on|at|of|with|from|all|be|have|wear|and|or|look|bigger|smaller|larger|more"
    r"|less)\b",
    "some": r"an?|some|several|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}",
}
"""Parts of the following patterns."""


def _patterns(table: str) -> list[list[str]]:
    """Read a table of patterns: two words and a pattern per line. Indented lines continue the line before them."""
    for name, words in _WORDS.items():
        table = table.replace(f"{{{name}}}", words)
    return [row.split(" ", 2) for row in table.strip().replace("\n    ", "").split("\n")]


# Kind, weight and pattern. The weights only order kinds when several match: a verb that names the operation
# outweighs a noun that merely occurs in it. "Remove the red slippers" is a removal, not a recolouring. Words of one
# request are at most 200 characters apart, so that the time is proportional to the length of the instruction.
_RULES = _patterns(r"""
remove 4 \b(?:remov(?:e|es|ed|ing|al)|delet(?:e|ed|ing)|eras(?:e|ed|ing)|get(?:ting)? rid of|eliminat(?:e|ed|ing)
    |tak(?:e|ing) (?:\w+ ){0,4}(?:away|out|off)|no longer (?:be )?(?:there|visible)|cut out|wipe (?:out|away)
    |clear(?:ed)? (?:away|of)|disappear|vanish|exclud(?:e|ed)|omit(?:ted)?|discard(?:ed)?|free (?:of|from)|rid of
    |should be gone|strip (?:away|off)|absen(?:t|ce of)|banish(?:ed)?|expunge[ds]?|eradicate[ds]?|expel(?:led)?
    |purge[ds]?|rid (?:of|the)|(?:there(?:'s|’s| is| are| should be| be)|have|show|contain|feature)s? no
    |not feature)\b
remove 1.5 \bwithout\b|\bno more\b|\b(?:be|is) (?:empty|blank)\b|\bclear\b
replace 4 \b(?:replac(?:e|es|ed|ing)|substitut(?:e|ed|ing)|exchang(?:e|ed|ing)|swap(?:ped|ping)? .{0,200}\b(?:for
    |with)\b|instead of)\b
replace 3.5 \b(?:turn(?:s|ed|ing)?|transform(?:s|ed)?|convert(?:s|ed)?|morph) .{0,200}\binto\b|\bbecom(?:e|es|ing)\b
replace 3 \b(?:chang(?:e|es|ed|ing)|switch|make) .{0,200}\b(?:to|into|be) (?:an?|the|some)\b
add 3.5 \b(?:add(?:s|ed|ing)?|insert(?:ed)?|includ(?:e|ing)|introduc(?:e|ing)|attach|let there be(?! no)
    |have there be(?! no)|(?:there|it) should be(?! no)|draw an?|plant|add(?:ition)? of|append|incorporat(?:e|ing)
    |embed|integrat(?:e|ing)|overlay|perch|nestle|scatter|sprinkle|let an? \w+ (?:join|appear|enter))\b
add 3 \b(?:position|arrange|invite|bring|enrich|enliven|adorn|grace|fill)\b.{0,200}\b(?:{some})\b
add 2.5 \b(?:put|puts|putting|place|set|hang|give|dress|equip|decorate|cover)\b(?! down)
add 2 \b(?:wear(?:ing|s)?|hold(?:ing|s)?|us(?:e|ing|es) an?|carry(?:ing)?|with an?)\b
color 3 \b(?:colou?r(?:s|ed|ing)? of|recolou?r|in colou?r|dye|repaint)\b
color 3.6 \b(?:hue|tints?|tinge|shade of|pigment|dyed)\b
material 2.5 \b(?:made (?:out )?of|material|texture|wooden|wood|metal(?:lic)?|glass|leather|marble|stone|brick
    |plastic|silk|velvet|furry|knitted|crystal|ceramic|porcelain|concrete|chrome|rusty|denim|paper|clay|ice|shiny
    |glossy|matte|transparent|translucent|reflective|rough|smooth)\b
background 4.5 \b(?:background|backdrop|scenery|surroundings|environment)\b
background 4.2 (?<!sun )\bsetting\b(?! sun)|\b(?:ambiance|ambience|vista)\b|\b(?:turn|transform|convert
    |chang)\w*\b.{0,200} (?:in)?to an? (?:[\w-]+ ){0,3}(?:scene|landscape|location)\b
background 2 \b(?:scene|setting|sky|landscape|weather|season|winter|summer|autumn|spring|snow(?:y|ing)?|rain(?:y
    |ing)?|foggy|stormy|night(?:time)?|day(?:time)?|sunset|sunrise|dawn|dusk)\b
style 4.5 \b(?:style|styli[sz]ed?|watercolou?r|oil painting|pencil drawing|(?:pencil )?sketch|cartoon(?:ish)?|anime
    |manga|pixel art|pop art|line art|comic|charcoal drawing|van gogh|picasso|monet|impressionis\w+|cubis\w+|low poly
    |3d render(?:ing)?|mosaic|illustration|cyberpunk|ghibli|ukiyo-e|claymation|vintage|retro|photorealistic
    |(?:conceptual|digital|abstract|folk) art|(?:painted|drawn) (?:by|in|with)|inspired by|painted it
    |painted the image|(?:a|an) (?:\w+ )?(?:painting|drawing))\b
text 4 \b(?:text|word(?:s|ing)?|letter(?:s|ing)?|caption|slogan|spell(?:ing)?|font|title|typo|writing)\b
text 3 \b(?:writ(?:e|es|ten)|say(?:s|ing)?|read(?:s|ing)? [\"'“‘]|label(?:led|ed)?|inscription)\b
count 2.5 \b(?:number of|another|one more|(?:two|three|four|five|six|seven|eight|nine|ten|\d{1,2})(?: more
    | additional)? [a-z]+s\b|double the|multiple|several|a few more|pair of)
position 4 \b(?:mov(?:e|es|ed|ing)|shift(?:ed)?|relocat(?:e|ed)|reposition|swap the (?:position|place)s?|rearrange
    |cent(?:er|re) the)\b
position 3 \b(?:make|turn|let|get)\b.{0,200} (?:bigger|larger|smaller|taller|shorter|wider|narrower|longer|thinner
    |thicker|big|small|tall|tiny|huge|large)\b|\b(?:enlarge|shrink|resize|zoom|scale (?:up|down)|outpaint
    |swap (?:the )?positions?)\b
position 1 \b(?:(?:to|on|at) the (?:left|right|top|bottom|cent(?:er|re))|left of|right of|above|below|behind
    |in front of|next to|closer|further|farther|corner)\b
pose 2.5 \b(?:pose|smil(?:e|es|ing)|laugh(?:ing)?|frown|sit(?:ting)?|stand(?:ing)?|jump(?:ing)?|run(?:ning)?
    |walk(?:ing)?|rais(?:e|ing)|look(?:ing)? (?:at|to|up|down|away)|open(?:ed)?|clos(?:e|ed|ing)|lick(?:ing)?|fac(?:e
    |es|ing) (?:the|to|left|right|away)|expression|sleep(?:ing)?|fly(?:ing)?|wav(?:e|ing)|danc(?:e|ing)|bend(?:ing)?
    |lean(?:ing)?|rotat(?:e|ed|ing)|flip(?:ped)?|tilt(?:ed)?|fall(?:ing)?|turn(?:ed)? around|upside down|put down
    |kneel(?:ing)?|cry(?:ing)?|kiss(?:ing)?|hug(?:ging)?|lift|grab|pick|pour|push|pull|rub|tear|rip|fold|unfold|twist
    |(?:un)?plug|squeeze|press|catch|throw|kick|bite|eat|drink|feed|lower|spread|stretch|crouch|climb|shake|tip|drop
    |turn (?:on|off|forward|facing|to face)|face (?:towards?|forward))\b
pose 2 \b(?:make|let|have|get) (?:him|her|them|(?:the|an?|his|her|their) (?:\w+ )?(?:{animate})) (?!{not_verbs})[a-z]
""")
_TONES = _patterns(r"""
brighter darker \b(?:bright(?:er|en|ened|ness)|lighter|lighten|more light|overexpose|exposure|day(?:time)?|(?:less
    |too) dark|well[- ]lit)\b|\bbright\b(?! (?:{color_words}|lime))
darker brighter \b(?:dark(?:er|en|ened)|dimmer|dim|night(?:time)?|gloomy|moody)\b
warmer cooler \b(?:warm(?:er|th)?|golden hour|sunset|sunrise)\b
cooler warmer \b(?:cool(?:er)?|colder|bluish|icy)\b
less_contrast more_contrast \bfaded\b|\bwashed[- ]out\b
more_contrast less_contrast \bcontrast\b|\bdramatic light\w*\b
less_saturated more_saturated \b(?:desaturat\w+|muted)\b
more_saturated less_saturated \b(?:saturat(?:e|ed|ion)|vibran\w+|vivid|(?<=more |less )colou?rful)\b
grayscale more_saturated \b(?:black[- ]and[- ]white|gr[ae]y[- ]?scale|monochrom\w*|b ?& ?w)\b
sepia - \bsepia\b
sharper blurrier \b(?:sharp(?:er|en|ness)|deblur|unblur|crisper|higher resolution)\b
blurrier sharper (?<!un)(?<!de)\bblur(?:red|ry|rier)?\b|\bout of focus\b|\bbokeh\b
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

_KEEP = re.compile(
    r"^\s*(?:please )?(?:reproduce|reconstruct|recreate|copy|duplicate|keep|preserve|return|leave) "
    r"(?:\w+ ){0,3}?(?:source|image|picture|photo|original|everything|it|all)\b"
)
_NO_CHANGE = re.compile(
    r"\b(?:do not|don't|without|no) (?:\w+ing |any |make |making )*"
    r"(?:chang\w*|edit\w*|modif\w*|alter\w*)(?: anything| at all|$|\W*$)"
)
_SAME_LOOK = re.compile(
    r"^(?:give|keep|make|let|have|preserve|match|retain|maintain|reproduce|render|copy)\b[^.;]{0,40}?(?:"
    r"\b(?:same|identical|exact|original)\b[^.;]{0,40}?\b(?:appearance|look|material|gloss|finish|reflectance"
    r"|surface)\b"
    r"|\b(?:appearance|look|material|gloss|finish|reflectance|surface)\b[^.;]{0,20}? (?:of|as|like|in|from) the"
    r" (?:source|original|input|reference)\b)"
)
_EDIT_VERB = re.compile(
    r"\b(?:remove|add|replace|change|make|turn|transform|paint|put|move|insert|delete|erase|swap|but|except|let"
    r"|have|give)\b"
)
_KEPT = re.compile(
    r"\b(?:keep(?:ing)?|preserv(?:e|ing)|maintain(?:ing)?|leav(?:e|ing)|while (?:keeping|leaving))"
    r" (?:the |its |his |her |their )?"
    r"(?:\w+ ){0,3}?(?:background|scene|scenery|pose|text|style|rest|subject|position|lighting)\b"
)
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
    r" (?:the|his|her|its|their))\b(?P<where>.*)"
)
_DIRECTIONS = _patterns(r"""
left of \b(?:to|towards?) (?:the |its |his |her )?(?:far )?left\b|\b(?:further|more) (?:to the )?left\b|\bleft of\b
right of \b(?:to|towards?) (?:the |its |his |her )?(?:far )?right\b|\b(?:further|more) (?:to the )?right\b|\bright of
left of \b(?:on|at) the left (?:hand |side )?of\b|\bleftwards?\b
right of \b(?:on|at) the right (?:hand |side )?of\b|\brightwards?\b
up of \b(?:behind|above|on top of|upwards?|higher)\b
down of \b(?:in front of|below|under(?:neath)?|beneath|downwards?|lower)\b
""")
"""Directions in the image of places that are named relative to others. Farther things stand higher in an image."""
_PART = re.compile(r"\b(?:in|from|of|on|to|into) (?:the|this) (?:image|photo|picture|scene)\b")
_QUOTED = re.compile(r"[\"“”]([^\"“”]{1,120})[\"“”]|(?<!\w)['‘]([^'’‘]{1,120})['’](?!\w)")
_SAYS = re.compile(
    r"\b(?:say(?:s|ing)?|reads?|write|written|spell(?:s|ing)?) "
    r"(?!on\b|in\b|the\b|a\b|an\b)([A-Z0-9][\w!?'&.-]*(?: [A-Z0-9][\w!?'&.-]*){0,5})"
)
_GONE_TEXT = re.compile(
    r"\b(?:remove|delete|erase|replace|change|without|instead of|from)\b(?:(?!\b(?:to|with|into|by|add|write)\b).)*$",
    re.I,
)
_REACH = 300
"""Characters before a quoted text in which a verb of removal may stand."""
_TO_COLOR = re.compile(
    rf"\b(?:to|into|be|as|with|in|of|turns?|turned|paint(?:ed)?|dyed?|coloured|colored) (?:an? |the |some )?{_COLOR}\b"
)
_CLAUSE_END = r"(?: in colou?r)?(?=\s*(?:[.,;!?]|$|and\b|but\b|while\b|instead\b))"
_END_COLOR = re.compile(
    rf"\b(?:make|makes|let|have|turn|turns|paint|color|colour|dye|tinge|tint|coat|change|wants?"
    rf"|give) [^.,;]{{0,200}}?{_COLOR}{_CLAUSE_END}"
)
_COLOR_NOUN = re.compile(rf"\b{_COLOR}[ -](?:tint|tinge|hue|shade|colou?r|tone|pigment)\b")
_COLOR_FIRST = re.compile(rf"^{_COLOR} (?:shall|should|must|is)\b")
_ADDED_COLOR = re.compile(
    r"\b(?:(?:add|put|plac(?:e|ing)|set|insert|includ(?:e|ing)|draw|hang|introduce|plant|attach|there be)(?:ing)?"
    r"|replac(?:(?!\bwith\b)[^.]){1,60} with|(?:turn|convert|transform|chang)(?:(?!\binto\b)[^.]){1,60} into)"
    rf" (?:an?|one) (?:(?:big|large|small|little|tiny|round|shiny|bright|single|new) )*{_COLOR}"
    r" (?!(?:and|or|on|in|to|at|of|for|next|beside|near|wine|retriever|hour)\b)[a-z]"
)
"""The color of what is to be added, as in `place an orange ball`."""
_AND_COLOR = re.compile(rf"\s*,?\s*and [^.,;]{{0,200}}?{_COLOR}{_CLAUSE_END}")


@lru_cache(maxsize=4096)
def read_instruction(instruction: str) -> EditRequest:
    """Recognise what an instruction asks for.

    Args:
        instruction: English text as a person wrote it.

    Returns:
        Kinds of edit, strongest first (`other` when none is recognised), where the change belongs, and the
        colours, texts and directions of tone that are named. Sentences that are addressed to the judge are left out.
    """
    instruction = without_appeals(instruction)
    plain = unicodedata.normalize("NFKC", instruction).strip()
    lower = _WHITESPACE.sub(" ", plain.lower())
    if _is_keep(lower):
        return EditRequest(instruction, ("keep",), "none")
    plain, lower = without_opening(plain), without_opening(lower)
    same_look = _SAME_LOOK.match(lower)
    if same_look and not _EDIT_VERB.search(lower[same_look.end() :]) and not _target_colors(lower):
        return EditRequest(instruction, ("appearance",), "none")
    caption = read_caption(plain)
    if caption is not None:
        return _described(instruction, caption)
    colors, tones = _target_colors(lower), _tones(lower)
    texts, removed_texts = _texts(plain)
    weights = _weights(_KEPT.sub(" ", _imperative(_AMOUNT.sub(" ", lower))))
    added = _ADDED_COLOR.search(lower) if _strongest(weights)[0] in {"add", "replace"} else None
    if added and set(colors) <= {added["color"]}:  # it belongs to what is added, and is no change of a color
        colors = (added["color"],)
    elif colors:
        weights["color"] = max(weights["color"], 3.2)
    if texts or removed_texts:
        weights["text"] = max(weights["text"], 3.8)
    if tones:
        weights["tone"] = 3.6 if _is_whole(lower) else 2.2
    if weights["background"] <= 2.0 < max(weights["color"], weights["tone"]):
        # "Make the sky darker" names the sky as the object of the edit.
        weights["background"] *= _scope(_strongest(weights), lower) != "local"
    kinds = _strongest(weights)
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


def _described(instruction: str, caption: Caption) -> EditRequest:
    """Read what a caption asks for, which may concern a part of the image of any size.

    Without a caption of the source any word may describe what was there before. Then an action is the most likely
    request, and only a caption without an action asks for the colors that it names.
    """
    asked = caption.requested
    weights = _weights(asked)
    action = names_action(asked)
    if action:
        weights["pose"] = 3.8
    named = re.findall(rf"\b(?:{_COLOR_WORDS})\b", asked)
    colors = tuple(dict.fromkeys(named)) if caption.source or not action else ()
    if colors:
        weights["color"] = 3.2
    texts, _ = _texts(caption.target)
    if texts:
        weights["text"] = 3.8
    tones = _tones(asked) if caption.source else ()
    if tones:
        weights["tone"] = 2.2
    kinds = _strongest(weights)
    scope: Literal["global", "unknown"] = "global" if _scope(kinds, asked) == "global" else "unknown"
    return EditRequest(instruction, kinds, scope, colors, texts=texts, tones=tones)


def _weights(asked: str) -> dict[str, float]:
    """Return the weight of each kind of edit by the words of a request."""
    weights = dict.fromkeys(EDIT_KINDS, 0.0)
    for kind, weight, pattern in _RULES:
        if re.search(pattern, asked):
            weights[kind] = max(weights[kind], float(weight))
    return weights


def _strongest(weights: Mapping[str, float]) -> tuple[str, ...]:
    found = sorted((kind for kind in EDIT_KINDS if weights[kind] > 0), key=lambda kind: -weights[kind])
    return tuple(found) or ("other",)


def _tones(lower: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name, opposite, pattern in _TONES:
        for match in re.finditer(pattern, lower):
            before = lower[max(0, match.start() - 80) : match.start()]
            if _LESS.search(before) or match[0] not in _AMOUNTS or _MORE.search(before):
                found[opposite if _LESS.search(before) else name] = None
    return tuple(name for name in found if name != "-")


def _imperative(lower: str) -> str:
    """Return the text with possible stems of a gerund at its start: "moving the cup" may be "move the cup"."""
    gerund = re.match(r"([a-z]{2,})ing\b", lower)
    if gerund is None:
        return lower
    stem = gerund[1]
    short = stem[:-1] if stem[-1] == stem[-2] else stem
    return f"{stem} {stem}e {short}{lower[gerund.end() :]}"


def _directions(lower: str) -> tuple[str, ...]:
    """Return the direction in which something is to be moved, if one is named."""
    moved = _MOVED.search(lower)
    return tuple(name for name, _, pattern in _DIRECTIONS if moved and re.search(pattern, moved["where"]))[:1]


def _is_keep(lower: str) -> bool:
    if _NO_CHANGE.search(lower) and not re.match(r"\s*(?:remove|add|replace|change|make|turn|put|move)\b", lower):
        return True
    opening = _KEEP.match(lower)
    return bool(opening) and not _EDIT_VERB.search(lower[opening.end() :])  # type: ignore[union-attr]


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
    found, followed = list[tuple[int, str]](), set[int]()
    for pattern in (_TO_COLOR, _END_COLOR, _COLOR_NOUN, _COLOR_FIRST):
        for match in re.finditer(pattern, lower):
            if re.match(r"[- ]and[- ]white", lower[match.end("color") :]):
                continue
            found.append((match.start("color"), match.group("color")))
            further = _AND_COLOR.match(lower, match.end())
            while further and further.end() not in followed:
                followed.add(further.end())
                found.append((further.start("color"), further.group("color")))
                further = _AND_COLOR.match(lower, further.end())
    colors = [re.sub(r"^(?:all|completely|solid)[ -]", "", color) for _, color in sorted(set(found))]
    return tuple(dict.fromkeys(colors))


def _texts(plain: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return requested texts and texts to remove, which follow a verb of removal."""
    wanted: list[str] = []
    gone: list[str] = []
    for match in _QUOTED.finditer(plain):
        text = (match.group(1) or match.group(2)).strip()
        if text:
            (gone if _GONE_TEXT.search(plain[max(0, match.start() - _REACH) : match.start()]) else wanted).append(text)
    if not wanted and not gone:
        wanted.extend(match.group(1).strip(" .") for match in _SAYS.finditer(plain))
    return tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(gone))

"""Kinds of edit that an instruction asks for, by rules over its English words.

A rule is a kind, a weight and a pattern. The weights only order kinds when several match: a verb that names the
operation outweighs a noun that merely occurs in it. "Remove the red slippers" is a removal, not a recoloring. Words of
one request are at most 200 characters apart, so that the time is proportional to the length of the instruction.
"""

import re
from collections.abc import Mapping

from rewardharness.schema import EDIT_KINDS

COLORS: list[str] = (
    "black white gray grey red green blue yellow orange purple violet pink brown beige cyan turquoise teal magenta "
    "maroon navy olive lime gold golden silver bronze cream ivory tan crimson scarlet lavender indigo mint peach "
    "coral salmon burgundy khaki aqua fuchsia lilac mauve charcoal amber"
).split()
"""Color words that are recognized as a target."""

NOTABLE = 0.6
"""Least weight of a kind, as a share of the strongest one. Weaker ones come from words that merely occur."""

_WORDS = {
    "color_words": "|".join(COLORS),
    "animate": r"(?:(?:wo)?m[ae]n|boy|girl|person|people|child(?:ren)?|kid|baby|lady|guy|player|dog|cat|horse|bird"
    r"|animal|cow|sheep|bear|elephant|monkey|couple|catcher|rider)s?",
    "not_verbs": r"(?:an?|the|to|into|in|on|at|of|with|from|all|be|have|wear|and|or|look|bigger|smaller|larger|more"
    r"|less)\b",
    "number": r"(?:one|two|three|four|five|six|seven|eight|nine|ten|a dozen|\d{1,2})",
    "some": r"(?:an?|some|several|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}|a couple of)",
    "the": r"(?:the|this|that|these|those|his|her|its|their|my|our|both|each|all|every)",
    "them": r"(?:him|her|them|me|us|it)",
    "must": r"(?:should|shall|must|has to|have to|had to|ought to|needs? to|is to|are to|could|can)(?: now)?",
    "where": r"(?:in|on|at|to|onto|into|under|underneath|beneath|below|above|over|behind|beside|between|against|near"
    r"|next to|closer|nearer|further|farther|left|right|in front of|somewhere else|elsewhere)",
    "size": r"(?:bigger|larger|smaller|taller|shorter|wider|narrower|longer|thinner|thicker|big|small|tall|tiny|huge"
    r"|large)",
    "stuff": r"(?:wood(?:en)?|metal(?:lic)?|glass|leather|marble|stone|bricks?|plastic|silk|velvet|fur(?:ry)?|knitted"
    r"|crystal|ceramic|porcelain|concrete|chrome|rusty|denim|paper|clay|ice|steel|iron|copper|(?:tin )?foil"
    r"|rubber(?:y)?"
    r"|wool|cotton|lace|wax|granite|bamboo|cardboard|shiny|glossy|matte|transparent|translucent|reflective|rough|smooth"
    r"|polished)",
    "place": r"(?:moon|forest|jungle|desert|city|beach|seaside|park|ocean|sea|mountains?|garden|cafe|kitchen|office"
    r"|street|studio|outer space|village|meadow|lake|castle|island|classroom|stadium|museum)",
    "letters": r"(?:texts?|words?|wording|letters|lettering|captions?|slogans?|titles?|headlines?|inscriptions?|typos?"
    r"|spelling|writing)",
}
"""Parts of the following patterns."""


def read_patterns(table: str) -> list[list[str]]:
    """Read a table of patterns: two words and a pattern per line. Indented lines continue the line before them."""
    for name, words in _WORDS.items():
        table = table.replace(f"{{{name}}}", words)
    return [row.split(" ", 2) for row in table.strip().replace("\n    ", "").split("\n")]


_RULES = read_patterns(r"""
remove 4 \b(?:remov(?:e|es|ed|ing|al)|delet(?:e|ed|ing)|eras(?:e|ed|ing)|get(?:ting)? rid of|eliminat(?:e|ed|ing)
    |tak(?:e|ing) (?:\w+ ){1,4}(?:away|out|off)|tak(?:e|ing) (?:away|out|off) \w+|no longer (?:be )?(?:there|visible)
    |(?:cut|crop|edit|photoshop)(?:ped)? out|wipe (?:out|away)|clear(?:ed)? (?:away|of)|disappear|vanish|exclud(?:e|ed)
    |omit(?:ted)?|discard(?:ed)?|free (?:of|from)|rid of|{must} (?:be gone|go(?=\W*$))|strip (?:away|off)
    |absen(?:t|ce of)|banish(?:ed)?|expunge[ds]?|eradicate[ds]?|expel(?:led)?|purge[ds]?|rid (?:of|the)|lose {the}
    |(?:there(?:'s|’s| is| are| should be| be)|have|show|contain|feature)s? (?:no|nothing)|not feature
    |(?:clean|scrub|wash|drop|cut|wipe)\b.{1,60} (?:off|from|out of) {the})\b
remove 3 ^no (?!more\b|chang|edit|differ|alter)
remove 1.5 \bwithout\b|\bno more\b
remove 2 \b(?:be|is|make|screen) (?:.{0,40} )?(?:empty|blank)\b|\bclear\b
replace 4 \b(?:replac(?:e|es|ed|ing)|substitut(?:e|ed|ing)|exchang(?:e|ed|ing)|(?:swap|trad|switch)(?:p?ed|p?ing|e)?
    .{0,200}\b(?:for|with)\b|instead of|in place of)\b|\bwhere {the} .{1,80} (?:is|was|are|stands?)\b.{0,20}
    \b(?:show|put|{must})\b
replace 3.5 \b(?:turn(?:s|ed|ing)?|transform(?:s|ed)?|convert(?:s|ed)?|morph) .{0,200}\binto\b|\bbecom(?:e|es|ing)\b
replace 3 \b(?:chang(?:e|es|ed|ing)|switch|make|(?:let|have) (?!there)) ?.{0,200}\b(?:to|into|be) (?:an?|the|some)\b
    |\bmake {the} [\w-]+(?: [\w-]+)? an? (?!bit|little|lot|few|darker|more|{color_words}|{size})
add 3.5 \b(?:add(?:s|ed|ing)?|insert(?:ed)?|includ(?:e|ing)|introduc(?:e|ing)|attach|let there be(?! no)
    |have there be(?! no)|there {must} be(?! no)|draw an?|plant|add(?:ition)? of|append|incorporat(?:e|ing)
    |embed|integrat(?:e|ing)|overlay|perch|nestle|scatter|sprinkle)\b
add 3.6 ^{some} .{1,80} {must} (?:be|appear|stand|lie|sit|hang|float)\b|\b(?:let|have) {some} (?:[\w-]+ ){1,4}(?:join
    |appear|enter|sit|stand|lie|float|hang|cross)
add 3 \b(?:position|arrange|invite|bring|enrich|enliven|adorn|grace|fill|stick|pop|sneak|slip|throw in|toss in
    |squeeze|drop in)\b.{0,200}\b(?:{some})\b|\bneeds? {some}\b|^have {some}\b|\b(?:{must}|let .{1,60}) have (?:an?
    |some)\b
add 2.5 \b(?:put|puts|putting|place|set|hang)\b(?! down| {the}| it\b| them\b)|\b(?:give|dress|equip|decorate|cover)\b
    |{must} have\b(?! to)
add 2 \b(?:wear(?:ing|s)?|hold(?:ing|s)?|us(?:e|ing|es) an?|carry(?:ing)?|with an?)\b
color 3 \b(?:colou?r(?:s|ed|ing)? of|recolou?r|in colou?r|dye|repaint)\b
color 3.6 \b(?:hue|tints?|tinge|shade of|pigment|dyed)\b
material 1.5 \b(?:texture|{stuff})\b
material 3.4 \b(?:made|built|carved|cast|crafted|knitted) (?:(?:out )?of|from|in)\b|\b{stuff} (?:thing|coating
    |upholstery|surface|texture|look|finish)\b
material 4.2 \bmaterials?\b|\b(?:make|mak(?:e|ing)|turn|let|have|render|convert|transform|change|replace the {stuff})
    \b(?!.{0,80}\b(?:hold|drink|wear|carry))(?!.{0,80}\b(?:an?|the|some|(?:stained|cut)[ -]|of) {stuff}\W*$).{1,80}
    (?<!of ){stuff}\W*$|\b(?:make|let|have|turn)\b.{1,60} (?:out )?(?:of|from|in) (?:\w+ )?{stuff}\W*$|^{the}
    .{1,60} (?:{must}|to) (?:be|look|become) (?:\w+ ){0,3}{stuff}\W*$|^surface of\b
background 4.7 \bwhat(?:'s| is) behind\b
background 4.5 \b(?:background|backdrop|scenery|surroundings|environment|seasons?)\b
background 4.2 (?<!sun )\bsetting\b(?! sun)|\b(?:ambiance|ambience|vista)\b|\b(?:turn|transform|convert
    |chang)\w*\b.{0,200} (?:in)?to an? (?:[\w-]+ ){0,3}(?:scene|landscape|location)\b|\bmove the scene\b
    |\b(?:put|place|show|set|transport|let|have) (?:{them}|{the} [\w-]+(?: [\w-]+)?) (?:be )?(?:[a-z]+ing )?(?:in|on
    |at|to
    |into|by) (?:(?:the|an?) )?(?:[\w-]+ ){0,2}{place}\b|\b(?:put|place|show) {them} (?:in front of|at|near) (?:the
    |an?)\b
    |^(?:{the} [\w-]+(?: [\w-]+)?|he|she|they) {must} (?:be|stand)(?: [a-z]+ing)? (?:in|on|at) (?:(?:the|an?) )?
    (?:[\w-]+ ){0,2}{place}\b|\blooks? (?:like|as if) (?:he|she|it|they|we)(?: is| was| were| are|'s|'re) (?:in|on|at)\b
background 3.8 \b(?:make|turn|let|it (?:is|{must} be))\b.{0,60}\b(?:winter|summer|autumn|spring|fall|rain|snow)\W*$
background 2 \b(?:scene|setting|sky|landscape|weather|winter|summer|autumn|spring|snow(?:y|ing)?|rain(?:y
    |ing)?|foggy|stormy|night(?:time)?|day(?:time)?|sunset|sunrise|dawn|dusk)\b
style 4.5 \b(?:(?:re)?styl(?:e|i[sz]ed?)|watercolou?r|oil paintings?|pencil drawing|(?:pencil )?sketch|cartoon(?:ish)?
    |anime|manga|pixel art|pop art|line art|comic|charcoal drawing|van gogh|picasso|monet|impressionis\w+|cubis\w+
    |low poly|3d render(?:ing)?|mosaic|illustration|cyberpunk|ghibli|pixar|ukiyo-e|claymation|vintage|retro
    |photorealistic|stained[- ]glass|embroidery|tapestry|woodcut|etching|fresco|hand[- ]drawn|(?:conceptual|digital
    |abstract|folk) art|(?:painted|drawn) (?:by|in|with)|inspired by|painted it|painted the image
    |(?:a|an) (?:\w+ )?(?:painting|drawing))\b
style 4.1 \b(?:turn|transform|convert|make|change|render|redraw|repaint) (?:the|this) (?:whole |entire )?(?:image
    |photo(?:graph)?|picture) (?:in)?to an?\b
text 4.6 \btranslate\b|\b(?:remove|delete|erase|get rid of|replace|change|correct|fix|edit|swap|alter)\b (?:\w+ ){0,3}?
    (?:{letters}|numbers? \d+)\b
text 4 \b(?:text|word(?:s|ing)?|letter(?:s|ing)?|caption|slogan|spell(?:ing)?|font|title|headline|typo|writing)\b
text 3 \b(?:writ(?:e|es|ten)|say(?:s|ing)?|read(?:s|ing)? [\"'“‘]|label(?:led|ed)?|inscription)\b
count 2.5 \b(?:number of|another|one more|(?:two|three|four|five|six|seven|eight|nine|ten|\d{1,2})(?: more
    | additional)? [a-z]+s\b|double the|multiple|several|a few more|pair of)
count 4.2 \bnumber of\b.{1,60} (?:to|by|is|are|increase|decrease)|\b{number} .{0,40}(?:instead of|rather than)
     (?:only |just )?{number}\b|\b(?:exactly|only) {number}\b|\bin total\b|\baltogether\b|\b(?:twice|half) as many\b
    |\b(?:double
    |halve) the number\b|\b(?:increas|reduc|rais|lower|decreas)\w* .{1,60} to {number}\W*$|\b(?:single|one) .{1,40}
     (?:in)?to (?:several|many|{number})\b
position 4.7 \b(?:trad|swap|exchang|switch|chang)\w* (?:the |their )?(?:places?|positions?|locations?)\b|\bother way
    (?:a)?round\b|\bvice versa\b
position 4 \b(?:mov(?:e|es|ed|ing)|shift(?:ed)?|relocat(?:e|ed)|reposition|slid(?:e|ing)|nudge|drag|rearrange
    |cent(?:er|re) the)\b
position 3.4 \b(?:enlarge|shrink|resize|zoom|scale (?:up|down)|outpaint\w*|uncrop|distance between|(?:reduce|increase
    |change) (?:the|its) size|extend (?:the|this) (?:image|picture|photo))\b|\b(?:make|turn|let|get|{must} be|it)\b
    .{0,200} {size}\b|\b(?:push|pull|bring|put|place|lay|stand|set|hang|get|carry) (?:it|them
    |{the}) .{0,120}?\b{where}\b
    (?!\W*$)|\b(?:put|place|set) {the} .{1,60} where\b
position 3.3 ^{the} .{1,80} {must} (?:be|stand|lie|sit|hang|go)(?: \w+)?(?: \w+)? {where}\b
position 1 \b(?:(?:to|on|at) the (?:left|right|top|bottom|cent(?:er|re))|left of|right of|above|below|behind
    |in front of|next to|closer|further|farther|corner)\b
pose 4.4 \b(?:make|let|have|get) (?:{them}|{the} (?:\w+ )?{animate}) (?:\w+ly )?(?:put|turn|take|pick|lift|stand|sit
    |open|close|drop|throw|look(?! like| as)|type|lean|lower|raise|step|pour|lick|kiss|hug|run|jump|walk|bend|push
    |pull|smile
    |laugh|hold hands)\b
pose 4.1 \btak(?:e|ing) off(?=\W*$)
pose 3.5 \bput {the} [\w ]{1,30} down\b|\b(?:turn|rotat|spin|flip|roll|give)\w*\b.{0,80}\b(?:(?:counter-?
    |anti-?)?clockwise
    |around|upside down|sideways)\b|\bgive\b.{0,60} (?:expression|smile|frown|grin|pose)\b
pose 2.6 \b(?:{must}|let .{1,60}|have .{1,60}) be (?!made|dyed|painted)[a-z]+ing\b|\b(?:look|be|make .{1,40}
    |into a.{0,20})
     (?:angry|happy|sad|surprised|obese|fat|slim|old(?:er)?|young(?:er)?|pregnant|muscular|asleep)\b|\b{must} be down\b
pose 2.5 \b(?:pose|smil(?:e|es|ing)|laugh(?:ing)?|frown|sit(?:ting)?|stand(?:ing)?|jump(?:ing)?|run(?:ning)?
    |walk(?:ing)?|rais(?:e|ing)|look(?:ing)? (?:at|to|up|down|away)|open(?:ed)?|clos(?:e|ed|ing)|lick(?:ing)?|fac(?:e
    |es|ing) (?:the|to|left|right|away)|expression|sleep(?:ing)?|fly(?:ing)?|wav(?:e|ing)|danc(?:e|ing)|bend(?:ing)?
    |lean(?:ing)?|rotat(?:e|ed|ing)|flip(?:ped)?|tilt(?:ed)?|fall(?:ing)?|turn(?:ed)? around|upside down|put down
    |kneel(?:ing)?|cry(?:ing)?|kiss(?:ing)?|hug(?:ging)?|lift|grab|pick|pour|push|pull|rub|tear|rip|fold|unfold|twist
    |(?:un)?plug|squeeze|press|catch|throw|kick|bite|eat|drink|feed|lower|spread|stretch|crouch|climb|shake|tip|drop
    |turn (?:on|off|forward|facing|to face)|face (?:towards?|forward))\b
pose 1.9 ^{the} [\w -]{1,40} {must} (?!be\b|have\b|become|look)[a-z]|\b(?:make|let|have) {the} [\w-]+ (?!{not_verbs}
    |there\b
    |should\b|{color_words}|{stuff}|{size}|for\b|without\b)[a-z]+ (?:an?|the|his|her|its)\b
pose 2 \b(?:make|let|have|get) (?:him|her|them|(?:the|an?|his|her|their) (?:\w+ )?(?:{animate})) (?!{not_verbs})[a-z]
""")
_NOUN = re.compile(rf"\b((?:an?|{_WORDS['the']}) (?:[\w-]+ )?)(?:dress|cover|set|place|plant|plane|fold|tip)\b(?! of)")
"""Nouns that are spelled like verbs."""


def kind_weights(asked: str) -> dict[str, float]:
    """Return the weight of each kind of edit by the lowercase words of a request."""
    weights = dict.fromkeys(EDIT_KINDS, 0.0)
    asked = _NOUN.sub(r"\1thing", _imperative(asked))
    for kind, weight, pattern in _RULES:
        if float(weight) > weights[kind] and re.search(pattern, asked):
            weights[kind] = float(weight)
    return weights


def strongest(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Return the kinds of edit with a notable weight, strongest first; `other` without any."""
    least = NOTABLE * max(weights.values())
    kinds = sorted((kind for kind in EDIT_KINDS if weights[kind] > 0), key=lambda kind: -weights[kind])
    return tuple(kind for kind in kinds if weights[kind] >= least) or ("other",)


def _imperative(lower: str) -> str:
    """Return the text with possible stems of a gerund at its start: "moving the cup" may be "move the cup"."""
    gerund = re.match(r"([a-z]*[aeiouy][a-z]+|[a-z]+[aeiouy])ing\b", lower)
    if gerund is None:
        return lower
    stem = gerund[1]
    short = stem[:-1] if stem[-1] == stem[-2] else stem
    return f"{stem} {stem}e {short}{lower[gerund.end() :]}"

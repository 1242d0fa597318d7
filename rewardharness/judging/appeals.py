"""What the text of an instruction shows: its language, and sentences that are addressed to the judge.

Such sentences praise a candidate or tell how to score it. Neither the Router nor the pixel-based judge reads them. A
model gets the whole instruction, marked as data.
"""

import re

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|'[^']*'|「[^」]*」|《[^》]*》")
_SENTENCE = re.compile(r"[^.!?;。！？；\n]*[.!?;。！？；\n]+\s*|[^.!?;。！？；\n]+$")
_APPEAL = re.compile(
    r"\b(?:candidate|answer|option|response|choice|output|edit|image|picture|choose|pick|select|prefer)s?:?\s+[A-D]\b"
    r"|\b[A-D]\s+(?:is|wins|deserves|must|should)\b.*\b(?:best|better|win|score|prefer\w*|correct|perfect|superior)\b"
    r"|(?i:\b(?:ignore|disregard|forget)\b.*\b(?:instruction|criteri|rule|rubric|prompt|above|previous)\w*"
    r"|\b(?:highest|maximum|max|full|top|perfect|best)\s+(?:possible\s+)?(?:score|rating|reward|grade|mark)s?\b"
    r"|\b(?:score|rate|grade|reward|judge)\s+(?:it|this|that|candidate)\b"
    r"|\bthe best edit\b|\b(?:you are|as) (?:a|the) judge\b|\bdear (?:judge|evaluator|model)\b"
    r"|^\s*(?:system|assistant)\s*:)"
    r"|(?:候选|答案|选项|选择|选)\s*[A-D]|[A-D]\s*(?:是最好|最好|更好)|忽略.*(?:指令|标准|规则|要求)|最高分|满分"
)


def without_appeals(instruction: str) -> str:
    """Return an instruction without sentences that are addressed to the judge.

    Text in quotes is left alone, since it may be the text to be written. If nothing else is left, the instruction is
    returned as it is.
    """
    masked = _QUOTED.sub(lambda match: "_" * len(match.group()), instruction)
    if _APPEAL.search(masked) is None:
        return instruction
    spans = [match.span() for match in _SENTENCE.finditer(masked)]
    kept = "".join(instruction[low:high] for low, high in spans if _APPEAL.search(masked[low:high]) is None)
    return kept.strip() or instruction


LATIN = 0x24F
"""Last code point of the Latin letters."""
_ENGLISH = frozenset(
    "the a an to of in on with and it its his her their from into is be make add remove change turn replace put".split()
)
_OTHER_LANGUAGES = frozenset(
    "der das dem den ein eine einen und mit zu im auf bild le les un une des du et avec dans el los las una con por en"
    " il lo gli e l della nel os uma com na het een van met op ve bir i na w z och ett till som".split()
)
"""Frequent short words of German, French, Spanish, Italian, Portuguese, Dutch, Turkish, Polish and Swedish."""


def is_english(instruction: str) -> bool:
    """Return whether an instruction appears to be English, outside its quoted texts, by its letters and short words."""
    plain = _QUOTED.sub(" ", instruction).lower()
    letters = [letter for letter in plain if letter.isalpha()]
    if 2 * sum(ord(letter) > LATIN for letter in letters) > len(letters):
        return False
    words = re.findall(r"[^\W\d_]+", plain)
    others = sum(word in _OTHER_LANGUAGES or not word.isascii() for word in words)
    return sum(word in _ENGLISH for word in words) >= others

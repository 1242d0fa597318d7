"""Texts that an instruction asks to write or to remove, in quotes or recognizable without quotes.

Without quotes a text is recognized by capital letters, or after a word such as `text`, `word` or `sign`.
"""

import re

_QUOTED = re.compile(r"[\"“”]([^\"“”]{1,120})[\"“”]|(?<!\w)['‘]([^'’‘]{1,120})['’](?!\w)")
_GONE_TEXT = re.compile(
    r"\b(?:(?:remove|delete|erase|replace|change|correct|rename|without|instead of|rather than|in place of|from)\b"
    r"(?:(?!\b(?:to|with|into|by|add|write|(?:so|it|now|should|must)(?: that)?(?: it)?(?: should)? (?:says?|reads?))\b)"
    r".)*|(?:swap|exchange|substitute)\b(?:(?!\b(?:for|with|by)\b).)*)$",
    re.I,
)
_REACH = 300
"""Characters before a quoted text in which a verb of removal may stand."""
_MAX_READ = 2000
"""Characters of an instruction in which texts without quotes are searched."""

_WORDS = {
    "VERB": r"(?i:change|replace|substitute|swap|edit|modify|turn|update|correct|fix|switch|exchange|alter|rename"
    r"|convert|make|set|have|let)",
    "TEXT": r"(?i:texts?|words?|wording|lettering|letters?|captions?|titles?|headlines?|slogans?|phrases?|inscriptions?"
    r"|writing|message|spelling|typo)",
    "SIGN": r"(?i:(?:sign|label|billboard|banner|poster|placard|plaque|sticker|badge|logo|screen|board|blackboard"
    r"|chalkboard|whiteboard|plate|name ?tag|shirt|tag|button|card|cup|mug|cover|sign ?post|storefront)s?)",
    "FEATURE": r"(?i:colou?r|font|typeface|size|style|position|place|language|shape|background|case|look)",
    "PLACE": r"(?: (?i:on|in|at|of|above|below|under|inside|for)(?: [\w'’-]+){1,5}?)?",
    "LONG": r"(?:(?=[A-Z]{3})CAPS)",
    "CAPS": r"(?:(?!(?:AN?|THE|MY|HIS|HER|ITS|THEIR)\b)TOKEN(?: TOKEN){0,5})",
    "NAME": r"(?:(?!(?:English|French|German|Spanish|Italian|Chinese|Japanese|Korean|Arabic|Russian|Latin|Cyrillic"
    r"|Hindi|Arial|Helvetica|Times|Comic Sans|Courier|Roman|A|An|The)\b)WORD(?: WORD){0,5})",
    "ANY": r"(?:LOWER(?: LOWER){0,3})(?= (?i:to|with|into|by|for|on|in|at|from|above|below|under|instead)\b|[.,;!?]*$"
    r"|[.,;!?] )",
    "LOWER": r"(?!(?i:on|in|of|at|from|that|which|who|above|below|under|to|with|into|by|and|is|are|be|for|using|the|a"
    r"|an|some|so|but|instead|something|anything|more|less|better|clearer|easier|like|as|it|bold|italic|cursive"
    r"|neon|upper|lower|uppercase|lowercase|capitals?|bigger|larger|smaller|brighter|darker|COLORS)\b)[\w'’&!?%$-]+",
    "TOKEN": r"[A-Z0-9$#&](?:[A-Z0-9'’&!?%$#:.-]*[A-Z0-9!?%$&])?(?!\w)",
    "WORD": r"[A-Z0-9$#&](?:[\w'’&!?%$#:.-]*[\w!?%$&])?(?!\w)",
    "COLORS": r"white|black|gr[ae]y|red|green|blue|yellow|orange|purple|violet|pink|brown|gold|golden|silver"
    r"|colou?r\w*",
}
"""Parts of the following patterns, which name one another."""

_UNQUOTED = [
    r"\bVERB\b(?: (?!FEATURE\b)[\w'’-]+){0,6}? TEXTPLACE (?i:from) (?P<gone>NAME) (?i:to|into) (?P<new>NAME)",
    r"\bVERB\b(?: (?!FEATURE\b)[\w'’-]+){0,6}? (?:SIGN|TEXT)PLACE (?i:from) (?P<gone>CAPS) (?i:to|into) (?P<new>CAPS)",
    r"\bVERB\b(?: (?!FEATURE\b)[\w'’-]+){0,6}? (?i:from) (?P<gone>LONG) (?i:to|into) (?P<new>CAPS)",
    r"\bVERB\b(?: [\w'’-]+){0,3}? (?i:words?|phrases?|spelling of|typo):? (?P<gone>NAME|ANY)PLACE"
    r" (?i:to|with|by|into|for) (?:(?i:the )(?i:words?|phrases?) )?(?P<new>NAME|ANY)",
    r"\bVERB\b(?: [\w'’-]+){0,3}? (?:TEXT|SIGN):? (?P<gone>NAME)PLACE (?i:to|with|by|into|for)"
    r" (?:(?i:the )TEXT )?(?P<new>NAME)",
    r"\bVERB\b(?: [\w'’-]+){0,4}? (?i:(?:that|which) (?:says|reads)|saying|reading) (?P<gone>NAME|ANY)PLACE"
    r" (?i:to|with|by|into) (?P<new>NAME|ANY)",
    r"\bVERB\b(?: (?!FEATURE\b)[\w'’-]+){0,4}? (?:TEXTPLACE (?i:to|with|into|by|to say|to read) (?P<new>NAME)"
    r"|SIGNPLACE (?i:to|with|into|by) (?P<name>CAPS))",
    r"\b(?P<new>CAPS) (?i:instead of|rather than|in place of) (?P<gone>CAPS)",
    r"\bVERB (?P<gone>LONG)PLACE (?i:to|with|by|into|for) (?P<new>CAPS)",
    r"\bVERB (?P<gone>CAPS) (?i:to|with|by|into|for) (?P<new>CAPS)(?=.*\b(?:SIGN|TEXT)\b)",
    r"\b(?i:add|write|put|insert|place|include|print|paint|draw|engrave|display|show)(?: [\w'’-]+){0,2}?"
    r" (?:(?i:words?|phrases?):? (?P<new>NAME|ANY)|TEXT:? (?P<name>NAME))",
    r"\b(?i:remove|delete|erase|take away|get rid of|hide)(?: [\w'’-]+){0,2}?"
    r" (?:(?i:words?|phrases?) (?P<gone>NAME|ANY)|(?:TEXT|SIGN) (?P<erased>NAME))",
    r"\b(?i:remove|delete|erase|hide) (?P<gone>LONG)(?= (?i:from|on)\b.*\b(?:SIGN|TEXT)\b)",
    r"\b(?:TEXT|SIGN) (?:(?i:to|should|must|shall|that|now|it) ){0,2}(?i:say(?:s|ing)?|reads?|reading)"
    r" (?:(?i:the )(?i:words?|phrases?) )?(?P<said>ANY)",
    r"\bTEXTPLACE (?i:should|must|has to|is to) (?i:be|become) (?P<new>NAME)",
    r"\b(?P<new>CAPS) (?i:written|printed|painted|displayed)\b",
    r"\b(?i:say(?:s|ing)?|reads?|write|written|spell(?:s|ing)?)(?i: the words?)? (?P<said>WORD(?: WORD){0,5})",
]
"""Wordings with a text that is not quoted, in the order in which they are tried."""


def _compiled(pattern: str) -> re.Pattern[str]:
    for name, part in _WORDS.items():
        pattern = pattern.replace(name, part)
    return re.compile(pattern)


_SHAPES = [_compiled(pattern) for pattern in _UNQUOTED]


def read_texts(plain: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return an instruction with its texts in quotes, the texts to write, and the texts to remove."""
    match = None
    if not _QUOTED.search(plain) and plain.upper() != plain:
        match = next(filter(None, (shape.search(plain[:_MAX_READ]) for shape in _SHAPES)), None)
    named = sorted((match.span(name), name) for name, text in match.groupdict().items() if text) if match else []
    for (start, end), _ in reversed(named):
        plain = f'{plain[:start]}"{plain[start:end]}"{plain[end:]}'
    roles = [name for _, name in named]
    texts: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for number, quoted in enumerate(_QUOTED.finditer(plain)):
        role = roles[number] if number < len(roles) else "said"  # `said`: to be removed if it follows such a verb
        before = plain[max(0, quoted.start() - _REACH) : quoted.start()]
        gone = bool(_GONE_TEXT.search(before)) if role == "said" else role in {"gone", "erased"}
        texts[gone] |= {text: None for text in [(quoted[1] or quoted[2]).strip()] if text}
    return plain, tuple(texts[False]), tuple(texts[True])

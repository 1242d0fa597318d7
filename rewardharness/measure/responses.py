"""Check the form of text responses: length, format, words and language that the prompt asks for, and general flaws.

These measures check form, not truth: a response that keeps every limit can be wrong, or about something else. A
requirement is read by rules over English words at the beginning of the prompt, outside quotes. A measure of something
that the prompt does not ask for gives no grade.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

from rewardharness.measure.curves import fall
from rewardharness.measure.planes import Reading
from rewardharness.schema import EditRequest

_READ = 4000
"""Characters at the beginning of a prompt in which requirements are looked for."""
_MOST = 20
"""Requests for words of a prompt that are read."""
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBER = rf"\d{{1,5}}|an?|single|{'|'.join(_NUMBERS)}"
_QUOTE = r"\"[^\"]{1,200}\"|“[^”]{1,200}”|(?<!\w)'[^']{1,200}'(?!\w)|`[^`]{1,200}`"
_QUOTED = re.compile(_QUOTE)
_NOT = r"(?:do not|don't|must not|should not|never|without|avoid|no)\b"
_LENGTH = re.compile(
    rf"(?:(?P<before>at most|(?:no|not) (?:more|longer) than|up to|under|fewer than|less than|below|within|max(?:imum)?"
    r"(?: of)?|at least|no (?:fewer|less) than|more than|over|min(?:imum)?(?: of)?|about|around|roughly|approximately)"
    rf" )?\b(?P<low>{_NUMBER})(?: ?(?:-|–|to|or|and) ?(?P<high>{_NUMBER}))?[ -](?:(?!of )\w+ )?"
    r"(?P<unit>word|sentence|paragraph|line|character|bullet|item)s?\b(?: points?)?(?P<after> or (?:less|fewer|more))?"
)
_GIVEN = re.compile(r"\b(?:the|these|this|those|following|first|last|next|each|per|every|has|have|of|is)(?: \w+)? ?$")
"""Words before a number that describes what exists, such as "the first 3 words", and is no requirement."""
_ITEM = re.compile(r"\s*(?:[-*•]|(?P<number>\d{1,3}[.)]))\s+\S")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_LIST = re.compile(
    rf"(?P<no>{_NOT}[^.]{{0,20}})?\b(?:bullet(?:ed|s)?\b|(?P<numbered>numbered (?:list|steps|points)\b))"
)
_JSON = re.compile(
    r"\b(?:as|in|return|output|produce|give|write|respond|reply|answer|valid|format\w*)\b[^.?!]{0,40}\bjson\b"
)
_KEYS = re.compile(rf"\b(?:keys?|fields?)\b:? ((?:(?:{_QUOTE})(?:,? and |, )?)+)")
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.S)
_NAMED = re.compile(
    rf"(?P<no>{_NOT}[^.\"“'`]{{0,30}})?\b(?P<verb>(?:includ|mention|contain|us|say|start|begin|end)\w*|words?|phrases?"
    rf"|letters?)\b[^.\"“'`]{{0,40}}?(?P<words>(?:(?:{_QUOTE})(?:,? and |,? or |, )?)+)",
    re.I,
)
_LANGUAGES = {
    "english": "the and of to is in that for with are this on it was",
    "german": "der die das und ist nicht mit ein eine zu den von auf für",
    "french": "le la les et est une des pour dans du avec qui au pas",
    "spanish": "el los las y es una para con del por que se no un",
    "italian": "il gli e è una per con del della che non di sono un",
    "portuguese": "o os as e é uma para com do da que não em um",
    "dutch": "de het en is een van niet met voor op zijn te dat er",
}
"""Frequent short words by language."""
_SCRIPTS = {"chinese": "\u4e00-\u9fff", "japanese": "\u3040-\u30ff", "korean": "\uac00-\ud7af"}
_SCRIPTS |= {"russian": "\u0400-\u04ff", "arabic": "\u0600-\u06ff", "hindi": "\u0900-\u097f", "greek": "\u0370-\u03ff"}
_LANGUAGE = re.compile(rf"\b(?:in|into|to) (?:\w+ )?(?P<name>{'|'.join((*_LANGUAGES, *_SCRIPTS))})\b")

OVER = 0.25
"""Share of a requested length by which a response with a grade of .37 misses it."""
USUAL = 0.1
"""Share of repeated sequences of three words that is no flaw."""


def requested_length(text: str, request: EditRequest) -> Reading:
    """Measure how far a response misses a requested number of words, sentences, paragraphs, lines or items."""
    missed, says = list[float](), list[str]()
    for match in _LENGTH.finditer(_plain(request)):
        if not match["before"] and _GIVEN.search(match.string[: match.start()]):
            continue
        low, high, asked = _bounds(match)
        count = _counts(text)[match["unit"]]
        missed.append(max(low - count, count - high, 0.0) / max(1.0, low if count < low else high))
        says.append(f"{count} {match['unit']}s where {asked!r} is asked for")
    return _reading(fall(max(missed), OVER) if missed else None, "; ".join(says), "a length")


def _bounds(match: re.Match[str]) -> tuple[float, float, str]:
    """Return the least and the largest requested count, and the words that ask for it."""
    low = _value(match["low"])
    high = _value(match["high"]) if match["high"] else low
    before, after = match["before"] or "", match["after"] or ""
    if re.match(r"about|around|rough|appr", before):
        low, high = 0.8 * low, 1.2 * high
    elif re.match(r"at least|no (?:fewer|less)|more|over|min", before) or "more" in after:
        high = float("inf")
    elif before or after:
        low = 0.0
    return low, high, match[0].strip()


def _value(word: str) -> float:
    return float(word) if word.isdigit() else float(_NUMBERS.index(word) + 1 if word in _NUMBERS else 1)


def _counts(text: str) -> dict[str, int]:
    lines = [line for line in text.splitlines() if line.strip()]
    items = sum(_ITEM.match(line) is not None for line in lines)
    sentences = sum(bool(_WORD.search(part)) for part in re.split(r"(?<![.!?…])[.!?…]++(?=\s|$|[\"”'])|\n", text))
    paragraphs = sum(bool(part.strip()) for part in re.split(r"\n\s*\n", text))
    counts = {"word": len(_WORD.findall(text)), "sentence": sentences, "paragraph": paragraphs, "line": len(lines)}
    return counts | {"character": len(text.strip()), "bullet": items, "item": items}


def requested_format(text: str, request: EditRequest) -> Reading:
    """Measure whether a response is a list with bullets or numbers, as it was asked for."""
    match = _LIST.search(_plain(request))
    if not match:
        return _reading(None, "", "a list")
    lines = [_ITEM.match(line) for line in text.splitlines() if line.strip()]
    items = sum(bool(line and bool(line["number"]) is bool(match["numbered"])) for line in lines)
    share = min(1.0, items / max(1, len(lines) - (len(lines) > 2)))  # a line may introduce the list
    return _reading(float(not items) if match["no"] else share, f"{items} of {len(lines)} lines are such items", "")


def valid_json(text: str, request: EditRequest) -> Reading:
    """Measure whether a response is valid JSON with the requested keys, if JSON is asked for."""
    if not _JSON.search(_plain(request)):
        return _reading(None, "", "JSON")
    match, asked = _FENCE.search(text), _KEYS.search(request.instruction[:_READ])
    value, plain = _parsed(match[1] if match else text), 0.8 if match else 1.0
    keys = [_inner(key) for key in _QUOTED.findall(asked[1])] if asked else []
    rows = value if isinstance(value, list) else [value]
    there = [key for key in keys if rows and all(isinstance(row, dict) and key in row for row in rows)]
    says = "is not valid JSON" if value is None else f"is valid JSON with {len(there)} of {len(keys)} requested keys"
    grade = 0.0 if value is None else plain * len(there) / len(keys) if keys else plain
    return _reading(grade, f"The response {says}", "")


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def required_words(text: str, request: EditRequest) -> Reading:
    """Measure which of the quoted words that the prompt asks for are there, in their place."""
    wanted = [(verb, word) for forbidden, verb, word in _named(request) if not forbidden]
    missing = [word for verb, word in wanted if not _has(text, word, verb)]
    says = f"Missing: {', '.join(missing)}" if missing else f"All {len(wanted)} requested words are there"
    return _reading(1.0 - len(missing) / len(wanted) if wanted else None, says, "certain words")


def forbidden_words(text: str, request: EditRequest) -> Reading:
    """Measure how many of the quoted words that the prompt forbids are there."""
    uses = [(word, _has(text, word, verb)) for forbidden, verb, word in _named(request) if forbidden]
    used = [word for word, there in uses if there]
    says = f"Forbidden and there: {', '.join(used)}" if used else "Nothing forbidden is there"
    return _reading(fall(len(used), 0.5) if uses else None, says, "leaving words out")


def _named(request: EditRequest) -> Iterator[tuple[bool, str, str]]:
    """Return the quoted words of the prompt that are asked for or forbidden, each with what is said of it."""
    for match in islice(_NAMED.finditer(request.instruction[:_READ]), _MOST):
        for word in _QUOTED.findall(match["words"]):
            yield bool(match["no"]), match["verb"].lower(), _inner(word)


def _has(text: str, word: str, verb: str) -> bool:
    plain, word = text.strip().lower(), word.lower()
    if verb.startswith(("start", "begin", "end")):
        return plain.rstrip(".!? ").endswith(word) if verb.startswith("end") else plain.startswith(word)
    return word in plain if verb.startswith("letter") else bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", plain))


def requested_language(text: str, request: EditRequest) -> Reading:
    """Measure whether a response is in the language that is asked for, by its frequent words or its script."""
    match = _LANGUAGE.search(_plain(request))
    if not match:
        return _reading(None, "", "a language")
    name, words = match["name"], Counter(_WORD.findall(text.lower()))
    hits = {language: sum(words[word] for word in known.split()) for language, known in _LANGUAGES.items()}
    if name in _SCRIPTS:  # Japanese has Han, and texts hold foreign names
        share = min(1.0, len(re.findall(f"[{_SCRIPTS[name]}]", text)) / max(1.0, 0.3 * sum(map(str.isalpha, text))))
    elif max(hits.values()) < 2:
        return Reading({}, None, "The response is too short to tell its language.")
    else:
        share = hits[name] / max(hits.values())
    return _reading(share, f"It looks {share:.2f} of 1 like {name.capitalize()}", "")


def repetition(text: str, request: EditRequest) -> Reading:
    """Measure the share of sequences of three words that occurred before."""
    words = _WORD.findall(text.lower())
    threes = Counter(zip(words, words[1:], words[2:], strict=False))
    share = 1.0 - len(threes) / max(1, threes.total()) if threes else 0.0
    return _reading(fall(share - USUAL, 0.15), f"{share:.0%} of the sequences of three words are repeated", "")


def complete_ending(text: str, request: EditRequest) -> Reading:
    """Measure whether a response seems complete, by its last sign; not of short ones, such as titles."""
    end = text.rstrip()
    if len(_WORD.findall(text)) < 8 or _ITEM.match(end.splitlines()[-1]):
        return Reading({}, None, "The end of titles and lists is not measured.")
    whole = end[-1] in ".!?…\"”'’)]}`*。！？" and end.count("```") % 2 == 0
    return _reading(1.0 if whole else 0.2, "The end is complete" if whole else "It seems to be cut off", "")


def _reading(grade: float | None, says: str, wanted: str) -> Reading:
    if grade is None:
        return Reading({}, None, f"The prompt does not ask for {wanted}.")
    return Reading({"form": grade}, grade, f"{says}.")


def _plain(request: EditRequest) -> str:
    """Return the beginning of the prompt in lowercase, without quoted texts."""
    return re.sub(r"\s+", " ", _QUOTED.sub(" ", request.instruction[:_READ])).lower()


def _inner(quoted: str) -> str:
    return quoted[1:-1].strip().rstrip(".,")


MEASURES: Mapping[Callable[[str, EditRequest], Reading], tuple[Literal["instruction", "quality"], str]] = {
    requested_length: ("instruction", "Whether the response has the requested length or number of items."),
    requested_format: ("instruction", "Whether the response is a list with bullets or numbers, as requested."),
    valid_json: ("instruction", "Whether the response is valid JSON with the requested keys."),
    required_words: ("instruction", "Whether the quoted words that the prompt asks for are there."),
    forbidden_words: ("instruction", "Whether the quoted words that the prompt forbids are left out."),
    requested_language: ("instruction", "Whether the response is in the requested language."),
    repetition: ("quality", "How much the response repeats itself."),
    complete_ending: ("quality", "Whether the response ends as if it were complete."),
}
"""All of them: the dimension, and a sentence for the documentation."""

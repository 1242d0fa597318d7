"""Parser of model replies: blocks of the chain grammar, and answers.

Deviations in form are accepted: a code fence, words around an object, a trailing comma, an invalid escape,
"Candidate A", or a missing closing tag of an answer. Deviations in content are not: a score out of range, a word
instead of a number, two answer blocks that differ, or a draft in unfinished reasoning. Values are never invented: an
unusable reply gives a `ReplyProblem`.
"""

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rewardharness.codec import finite
from rewardharness.schema import SCALE, TIE
from rewardharness.views import DIMENSIONS

_THINK = re.compile(
    r"<\|?/?[\w:-]{0,30}?(?:think|thought|reason|reflect|scratchpad|analysis|monologue|deliberat|rationale)[^<>]{0,99}>"
    r"|(?-i:\[/?(?:THINK|THOUGHT|REASON)[A-Z]{0,9}\])|◁/?think▷|(?P<channel><\|?channel\|?>\s{0,9}(?:analysis|commentary"
    r"|thought)\b|\A\s{0,9}analysis(?-i:(?=[A-Z])))"
    r"|(?P<final><\|channel\|>\s{0,9}final\b(?:[^<>{]{0,99}<\|(?:message|constrain)\|>){0,2}|<channel\|>|assistantfinal)",
    re.IGNORECASE,
)
"""Tags around the reasoning of models, and the channels of harmony, whose special tokens a server may leave out."""
_OPENED = re.compile(
    r"\s*+<(?!(?:answer|tool|obs|output|response|result|json|final|verdict|conclu|eval|judg|prefer|scor|rating)|s>|br\b)"
    r"([a-z][\w:-]{0,30})\b[^<>]{0,99}>(?!.*(?:</\1\b|<unused95>))",
    re.IGNORECASE | re.DOTALL,
)
"""A reply that opens an unknown element and never closes it: models have their own names for reasoning. Gemma's ends
with another tag."""
_NAME = re.compile(r"(?:(?:start|begin|end)_(?:of_)?)?([\w:-]+)")
_BLOCK = re.compile(
    r"<(?P<tag>tool|answer)\b[^<>]*>(?P<body>.*?)(?:</(?P=tag)\s{0,9}>|(?=<(?:tool|answer|think|obs)\b)|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_ONLY_ANSWER = re.compile(
    r"\s*+(<answer\b[^>]*>\s*+)?(```\w*\s*+)?\{[^<`]*\}\s*+(```\s*+)?(</answer\s*>\s*+)?", re.IGNORECASE
)
"""What may follow the reasoning of a truncated reply."""
_TIES = frozenset({TIE.upper(), "平局", "平手"})
_LETTER = re.compile(
    r"\W*(?:(?:CANDIDATE|IMAGE|OPTION|EDIT(?:ED)?|RESPONSE|VIDEO|TEXT|RESULT|OUTPUT|候选|图像|图片|图|选项)[\s_:#-]*){0,2}"
    r"\W*([A-Z])\W*"
)
"""A letter, also after what it names."""
_LONGEST = 40
"""Maximum number of characters of a preference."""
_LONGEST_GRADE = 8
"""Maximum number of characters of a score; a longer text says why."""
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_DECODER = json.JSONDecoder(strict=False)
_BRACE = re.compile(r"\{")
_OBJECT = re.compile(r'\{\s*+["}]')
_TRAILING_COMMA = re.compile(r",(?=\s*+[}\]])")
_QUOTED = re.compile(r"([{,:\[]\s*+)'([^'\\\n]*+)'(?=\s*+[,:}\]])")
"""A text in single quotes, as Python writes it."""
_GROUP = re.compile(r"[\W_]+")
_ASCII = str.maketrans("“”：，｛｝［］", '"":,{}[]')
"""Punctuation of JSON as Chinese keyboards write it."""
MAX_REPLY = 200_000
"""Maximum number of characters of a reply."""
_EFFORT = 16
"""Maximum number of times that a text may be read in the search for its JSON objects."""
_TOO_DEEP = 10_000
"""Characters that an object with too many levels counts for."""
_COPIED = 100
"""Characters that are copied as fast as one is read."""
T = TypeVar("T")
NOT_JSON = "The answer is not valid JSON."
DIFFERENT = "The reply holds several answers that differ."
NOT_ENDED = "The reasoning of the reply has not ended; what it drafts is not an answer."
CUT_OFF = "The reply was cut off at the token limit before its answer was complete."


@dataclass(frozen=True)
class ReplyProblem:
    """Why a reply is unusable, as a sentence for the model."""

    message: str


@dataclass(frozen=True)
class ToolRequest:
    """A call of a Tool, as the model wrote it."""

    name: str
    images: tuple[Any, ...]
    """Labels, or objects with a label and a box; not yet checked."""
    query: str


@dataclass(frozen=True)
class Answer:
    """A final answer."""

    preference: str
    """A label or `tie`; empty for a single candidate."""
    scores: Mapping[str, tuple[float, ...]]
    """The scores that were asked for on `SCALE`, per label. Empty if they are unusable."""
    problem: str = ""
    """Why the scores are unusable; empty if they are usable."""


@dataclass(frozen=True)
class Turn:
    """A parsed message of the model."""

    thought: str
    """The reasoning, without tags."""
    outcome: ToolRequest | Answer | ReplyProblem


def read_turn(
    text: str,
    labels: Sequence[str],
    *,
    ties: bool,
    cut_off: bool = False,
    blocks: bool = True,
    dimensions: Sequence[str] = DIMENSIONS[:2],
) -> Turn:
    """Parse one message of a chain.

    Text in tags of reasoning is no answer. Of a Tool call and an answer, the first counts, so that invented
    observations are ignored. Several <answer> blocks count only if they agree; without a block, the last JSON object is
    the answer.

    Args:
        text: The message.
        labels: Labels of the candidates that may be preferred; of a single one only the scores are read.
        ties: Whether `tie` may be preferred.
        cut_off: Whether the message was cut off, see `Reply.cut_off`.
        blocks: Whether an <answer> block was requested, and not a JSON object alone.
        dimensions: Names of the scores that were asked for.
    """
    if len(text) > MAX_REPLY:
        return Turn("", ReplyProblem("The reply is far too long."))
    thought, rest = _split_thought(text)
    if rest is None and not cut_off and (call := _last_call(thought)):
        return Turn(thought[: call.start()].strip(), _read_tool(call.group("body").strip()))
    said = _conclude(rest, cut_off)
    if isinstance(said, ReplyProblem):
        return Turn(thought, said)
    matches = list(_BLOCK.finditer(said))
    sections = [(match.group("tag").lower(), match.group("body").strip()) for match in matches]
    thought = thought or (said[: matches[0].start()].strip() if matches else "")
    if sections and sections[0][0] == "tool":
        return Turn(thought, _read_tool(sections[0][1]))
    bodies = [body for tag, body in sections if tag == "answer"]
    keys = ("preference",) if len(labels) > 1 else ("instruction", "scores", f"score_{labels[0]}_instruction")

    def read(value: dict[str, Any]) -> Answer | ReplyProblem:
        return read_answer(value, labels, ties=ties, dimensions=dimensions)

    outcomes = [read_last(body, keys, read) for body in bodies or [said]]
    if any(outcome != outcomes[0] for outcome in outcomes):
        return Turn(thought, ReplyProblem(DIFFERENT))
    if not bodies and blocks and isinstance(outcomes[0], ReplyProblem) and "{" not in said:
        return Turn(thought, ReplyProblem("The reply holds neither an <answer> block nor a <tool> block."))
    return Turn(thought, outcomes[0])


def conclusion(text: str, *, cut_off: bool = False) -> str | ReplyProblem:
    """Return what a reply says after its reasoning.

    Args:
        text: The reply.
        cut_off: Whether it was cut off. Such a reply counts only where nothing but a complete answer follows the
            reasoning; otherwise the model might still have changed its answer.
    """
    return _conclude(_split_thought(text)[1], cut_off)


def _conclude(rest: str | None, cut_off: bool) -> str | ReplyProblem:
    if cut_off and not (rest is not None and _ONLY_ANSWER.fullmatch(rest)):
        return ReplyProblem(CUT_OFF)
    return ReplyProblem(NOT_ENDED) if rest is None else rest


def read_answer(
    value: dict[str, Any], labels: Sequence[str], *, ties: bool, dimensions: Sequence[str] = DIMENSIONS[:2]
) -> Answer | ReplyProblem:
    """Read the object of a final answer."""
    value = {str(key).strip().lower(): entry for key, entry in value.items()}
    scores, problem = _read_scores(value, labels, dimensions)
    if len(labels) == 1:
        return ReplyProblem(problem) if problem else Answer("", scores)
    preference = value.get("preference")
    if not isinstance(preference, str):
        return ReplyProblem('The answer has no "preference".')
    word = unicodedata.normalize("NFKC", preference).strip().strip("\"'“”「」").upper()
    letter = _LETTER.fullmatch(word) if len(word) <= _LONGEST else None
    if word in _TIES:
        if not ties:
            return ReplyProblem("A tie is not among the possible answers; one candidate has to be preferred.")
        return Answer(TIE, scores, problem)
    if letter is None or letter[1] not in labels:
        return ReplyProblem(f"The preference has to be one of {', '.join(labels)}{' or tie' if ties else ''}.")
    return Answer(letter[1], scores, problem)


def read_number(value: Any, low: float, high: float) -> float | None:
    """Parse a number in a range. `true`, words, infinities and fractions written as text are rejected."""
    if isinstance(value, str) and (digits := re.fullmatch(r"\s*(\d{1,3})\s*分?\s*", value)):
        value = int(digits[1])
    number = finite(value)
    return number if number is not None and low <= number <= high else None


def read_object(text: str, *keys: str) -> dict[str, Any] | None:
    """Return the last JSON object in a text that has one of some keys, or any object without keys; None without one."""
    objects = _find_any(text, keys)
    return objects[-1] if objects else None


def read_last(text: str, keys: Sequence[str], read: Callable[[dict[str, Any]], T | ReplyProblem]) -> T | ReplyProblem:
    """Read the last JSON object in a text that has one of some keys: what comes before it are drafts."""
    objects = _find_any(text, keys)
    if not objects:
        missing = f"The reply holds no JSON object with {' or '.join(json.dumps(key) for key in keys[:3])}."
        return ReplyProblem(NOT_JSON if any(json.dumps(key) in text for key in keys) else missing)
    return read(objects[-1])


def _find_any(text: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Find JSON objects; without any, those with the punctuation of Chinese or the quotes of Python."""
    ascii_text = text.translate(_ASCII)
    quoted = _QUOTED.sub(lambda match: match[1] + json.dumps(match[2], ensure_ascii=False), ascii_text)
    versions = dict.fromkeys((text, ascii_text, quoted))
    return next(filter(None, (find_objects(version, keys) for version in versions)), [])


def find_objects(text: str, keys: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Find JSON objects in a text: bare, in fences, between words and braces, in lists, in values of other objects.

    A trailing comma is accepted, and an invalid escape is kept as text. The effort is linear in the length of the text:
    in one that takes more, such as of many unfinished objects, nothing is found.

    Args:
        text: The text.
        keys: Keys of which an object must have one; without keys, objects in objects are not found.
    """
    wanted = frozenset(key.lower() for key in keys)
    repaired = _TRAILING_COMMA.sub("", _ESCAPE.sub(lambda escape: escape[0] if escape[1] else r"\\", text))
    versions = dict.fromkeys((text, repaired))
    places = [(version, [match.start() for match in _BRACE.finditer(version)]) for version in versions]
    objects: list[dict[str, Any]] = []
    number, effort = 0, _EFFORT * (len(text) + _TOO_DEEP)
    while number < len(places[0][1]):
        for version, starts in places:
            if not _OBJECT.match(version, start := starts[number]):
                continue
            effort -= (len(text) - start) // _COPIED
            try:
                value, length = _DECODER.raw_decode(version[start:])
            except json.JSONDecodeError as error:
                effort -= error.pos
            except (ValueError, RecursionError):
                effort -= _TOO_DEEP
            else:
                objects += _with_keys(value, wanted)
                number = bisect_left(starts, start + length)
                break
        else:
            number += 1
        if effort < 0:
            return []
    return objects


def _with_keys(value: Any, keys: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield an object if it has one of some keys, or else those in its values, in order."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict) and (not keys or any(str(key).strip().lower() in keys for key in node)):
            yield node
        elif isinstance(node, dict | list):
            pending += reversed([*(node.values() if isinstance(node, dict) else node)])


def _split_thought(text: str) -> tuple[str, str | None]:
    """Separate thought from the rest, which is None where the thought is never closed."""
    thoughts: list[str] = []
    rest: list[str] = []
    position, inside = 0, ""
    for tag in _THINK.finditer(text):
        token = tag.group().lower()
        ends = bool(tag["final"]) or "/" in token[1:3] or token.startswith("<|end")
        name = "channel" if tag["final"] or tag["channel"] else token[0] + _NAME.findall(token)[0]
        if inside and (not ends or name != inside):
            continue
        if ends and not inside:
            # Reasoning models leave out the opening tag, which their chat template has already written.
            thoughts, rest = [*thoughts, *rest], []
        (thoughts if ends else rest).append(text[position : tag.start()])
        position, inside = tag.end(), "" if ends else name
    (thoughts if inside else rest).append(text[position:])
    said = None if inside else "".join(rest)
    if said and _OPENED.match(said):
        thoughts, said = [*thoughts, said], None
    return "\n".join(filter(None, map(str.strip, thoughts))), said


def _last_call(thought: str) -> re.Match[str] | None:
    """Find a Tool call that ends a thought which was not closed; it is asked for all the same."""
    blocks = [*_BLOCK.finditer(thought)]
    return blocks[-1] if blocks and blocks[-1]["tag"].lower() == "tool" and blocks[-1].end() == len(thought) else None


def _read_tool(body: str) -> ToolRequest | ReplyProblem:
    value = read_object(body, "name")
    if value is None:
        return ReplyProblem("The <tool> block does not hold a JSON object.")
    name, images, query = value.get("name"), value.get("images", []), value.get("query", "")
    if not isinstance(name, str) or not name:
        return ReplyProblem('The <tool> block names no tool: it needs a "name".')
    if isinstance(images, str | dict):
        images = [images]
    if not isinstance(images, list):
        return ReplyProblem('The "images" of a <tool> block are a list of labels.')
    return ToolRequest(name, tuple(images), query if isinstance(query, str) else "")


def _read_scores(
    value: Mapping[str, Any], labels: Sequence[str], dimensions: Sequence[str]
) -> tuple[dict[str, tuple[float, ...]], str]:
    """Read scores per label: nested, or flat with keys such as `score_A_instruction`; of a single label also alone."""
    nested = value.get("scores")
    named: dict[str, dict[str, Any]] = {label: {} for label in labels}
    for key, entry in (nested if isinstance(nested, dict) else value).items():
        parts = _GROUP.split(unicodedata.normalize("NFKC", str(key)).upper())
        label = next((label for label in labels if label in parts), None)
        if label is not None and isinstance(entry, dict):
            named[label] |= {str(name).strip().lower(): grade for name, grade in entry.items()}
        elif (label is not None or len(labels) == 1) and not (isinstance(entry, str) and len(entry) > _LONGEST_GRADE):
            named[label or labels[0]] |= {name: entry for name in dimensions if name.upper() in parts}
    if not any(named.values()):
        return {}, 'The answer has no "scores".' if len(labels) > 1 else "The answer has no scores."
    scores: dict[str, tuple[float, ...]] = {}
    for label, grades in named.items():
        if not grades:
            return {}, f"The scores of {label} are missing."
        numbers: list[float] = []
        for dimension in dimensions:
            number = read_number(grades.get(dimension), *SCALE)
            if number is None:
                return {}, f"The {dimension} score of {label} is not a number from {SCALE[0]} to {SCALE[1]}."
            numbers.append(number)
        scores[label] = tuple(numbers)
    return scores, ""

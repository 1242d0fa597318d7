"""Parser of model replies: blocks of the chain grammar, and answers.

Deviations in form are accepted: a code fence, a lowercase letter, or a missing closing tag of an answer. Deviations in
content are not: a score out of range, a word instead of a number, two different answers, or a draft in unfinished
reasoning. Values are never invented: an unusable reply gives a `ReplyProblem`.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rewardharness.codec import finite
from rewardharness.schema import SCALE, TIE

_THINK = re.compile(r"<(?P<end>/?)think\b[^>]*>", re.IGNORECASE)
_BLOCK = re.compile(
    r"<(?P<tag>tool|answer)\b[^>]*>(?P<body>.*?)(?:</(?P=tag)\s*>|(?=<(?:tool|answer|think|obs)\b)|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)```", re.DOTALL)
_ONLY_ANSWER = re.compile(
    r"\s*+(<answer\b[^>]*>\s*+)?(```\w*\s*+)?\{[^<`]*\}\s*+(```\s*+)?(</answer\s*>\s*+)?", re.IGNORECASE
)
"""What may follow the reasoning of a truncated reply."""
_TIES = frozenset({TIE.upper(), "平局", "平手"})
_ASCII = str.maketrans("“”：，｛｝［］", '"":,{}[]')
"""Punctuation of JSON as Chinese keyboards write it."""
MAX_REPLY = 200_000
"""Maximum number of characters of a reply."""
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
    scores: Mapping[str, tuple[float, float]]
    """Instruction following and visual quality on `SCALE`, per label. Empty if they are unusable."""
    problem: str = ""
    """Why the scores are unusable; empty if they are usable."""


@dataclass(frozen=True)
class Turn:
    """A parsed message of the model."""

    thought: str
    """The reasoning, without tags."""
    outcome: ToolRequest | Answer | ReplyProblem


def read_turn(text: str, labels: Sequence[str], *, ties: bool, cut_off: bool = False) -> Turn:
    """Parse one message of a chain.

    Text in `<think>` is reasoning, not an answer. Of a Tool call and an answer, the first counts, so that invented
    observations are ignored. Several answers count only if they agree.

    Args:
        text: The message.
        labels: Labels of the candidates that may be preferred; of a single one only the scores are read.
        ties: Whether `tie` may be preferred.
        cut_off: Whether the message was cut off, see `Reply.cut_off`.
    """
    if len(text) > MAX_REPLY:
        return Turn("", ReplyProblem("The reply is far too long."))
    thought, rest = _split_thought(text)
    if rest is None and not cut_off and (call := _last_call(thought)):
        return Turn(thought[: call.start()].strip(), _read_tool(call.group("body").strip()))
    said = conclusion(text, cut_off=cut_off)
    if isinstance(said, ReplyProblem):
        return Turn(thought, said)
    found = list(_BLOCK.finditer(said))
    blocks = [(match.group("tag").lower(), match.group("body").strip()) for match in found]
    thought = thought or (said[: found[0].start()].strip() if found else "")
    if blocks and blocks[0][0] == "tool":
        return Turn(thought, _read_tool(blocks[0][1]))
    bodies = [body for tag, body in blocks if tag == "answer"]
    if not bodies:
        bare = read_object(said)
        if isinstance(bare, dict) and ("preference" if len(labels) > 1 else "instruction") in bare:
            return Turn(thought, read_answer(bare, labels, ties=ties))
        return Turn(thought, ReplyProblem("The reply holds neither an <answer> block nor a <tool> block."))
    outcomes = [read_answer(read_object(body), labels, ties=ties) for body in bodies]
    if any(outcome != outcomes[0] for outcome in outcomes):
        return Turn(thought, ReplyProblem("The reply holds several answers that differ."))
    return Turn(thought, outcomes[0])


def conclusion(text: str, *, cut_off: bool = False) -> str | ReplyProblem:
    """Return what a reply says after its reasoning.

    Args:
        text: The reply.
        cut_off: Whether it was cut off. Such a reply counts only where nothing but a complete answer follows the
            reasoning; otherwise the model might still have changed its answer.
    """
    _, rest = _split_thought(text)
    if cut_off and not (rest is not None and _ONLY_ANSWER.fullmatch(rest)):
        return ReplyProblem(CUT_OFF)
    return ReplyProblem(NOT_ENDED) if rest is None else rest


def read_answer(value: Any, labels: Sequence[str], *, ties: bool) -> Answer | ReplyProblem:
    """Read the object of a final answer."""
    if not isinstance(value, dict):
        return ReplyProblem("The answer is not a JSON object.")
    if len(labels) == 1:
        alone, problem = _read_scores({labels[0]: value}, labels)
        return ReplyProblem(problem) if problem else Answer("", alone)
    preference = value.get("preference")
    if not isinstance(preference, str):
        return ReplyProblem('The answer has no "preference".')
    word = unicodedata.normalize("NFKC", preference).strip().strip("\"'“”「」").upper().removeprefix("候选").strip()
    if word in _TIES:
        if not ties:
            return ReplyProblem("A tie is not among the possible answers; one candidate has to be preferred.")
        chosen = TIE
    elif word in labels:
        chosen = word
    else:
        return ReplyProblem(f"The preference has to be one of {', '.join(labels)}{' or tie' if ties else ''}.")
    scores, problem = _read_scores(value.get("scores"), labels)
    return Answer(chosen, scores, problem)


def read_number(value: Any, low: float, high: float) -> float | None:
    """Parse a number in a range. `true`, words, infinities and fractions written as text are rejected."""
    if isinstance(value, str) and (digits := re.fullmatch(r"\s*(\d{1,3})\s*分?\s*", value)):
        value = int(digits[1])
    number = finite(value)
    return number if number is not None and low <= number <= high else None


def read_object(text: str) -> Any:
    """Find the one JSON object in a text: bare, fenced, or between other words. None when there is none, or several."""
    fenced = _FENCE.findall(text)
    found = (fenced if len(fenced) == 1 else []) + [text]
    for candidate in found + [each.translate(_ASCII) for each in found if not each.isascii()]:
        start, end = candidate.find("{"), candidate.rfind("}")
        if start < 0 or end < start:
            continue
        try:
            return json.loads(candidate[start : end + 1], strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _split_thought(text: str) -> tuple[str, str | None]:
    """Separate thought from the rest, which is None where the thought is never closed."""
    thoughts: list[str] = []
    rest: list[str] = []
    position, inside = 0, False
    for tag in _THINK.finditer(text):
        if tag.group("end"):
            if not inside:
                # Reasoning models leave out the opening tag, which their chat template has already written.
                thoughts, rest = [*thoughts, *rest], []
            thoughts.append(text[position : tag.start()])
        elif inside:
            continue
        else:
            rest.append(text[position : tag.start()])
        position, inside = tag.end(), not tag.group("end")
    (thoughts if inside else rest).append(text[position:])
    return "\n".join(filter(None, map(str.strip, thoughts))), None if inside else "".join(rest)


def _last_call(thought: str) -> re.Match[str] | None:
    """Find a Tool call that ends a thought which was not closed; it is asked for all the same."""
    blocks = [*_BLOCK.finditer(thought)]
    return blocks[-1] if blocks and blocks[-1]["tag"].lower() == "tool" and blocks[-1].end() == len(thought) else None


def _read_tool(body: str) -> ToolRequest | ReplyProblem:
    value = read_object(body)
    if not isinstance(value, dict):
        return ReplyProblem("The <tool> block does not hold a JSON object.")
    name, images, query = value.get("name"), value.get("images", []), value.get("query", "")
    if not isinstance(name, str) or not name:
        return ReplyProblem('The <tool> block names no tool: it needs a "name".')
    if isinstance(images, str | dict):
        images = [images]
    if not isinstance(images, list):
        return ReplyProblem('The "images" of a <tool> block are a list of labels.')
    return ToolRequest(name, tuple(images), query if isinstance(query, str) else "")


def _read_scores(value: Any, labels: Sequence[str]) -> tuple[dict[str, tuple[float, float]], str]:
    if not isinstance(value, dict):
        return {}, 'The answer has no "scores".'
    named: dict[str, Any] = {str(key).strip().upper(): each for key, each in value.items()}
    scores: dict[str, tuple[float, float]] = {}
    for label in labels:
        each = named.get(label)
        if not isinstance(each, dict):
            return {}, f"The scores of {label} are missing."
        pair: list[float] = []
        dimension: Literal["instruction", "quality"]
        for dimension in ("instruction", "quality"):
            number = read_number(each.get(dimension), *SCALE)
            if number is None:
                return {}, f"The {dimension} score of {label} is not a number from {SCALE[0]} to {SCALE[1]}."
            pair.append(number)
        scores[label] = (pair[0], pair[1])
    return scores, ""

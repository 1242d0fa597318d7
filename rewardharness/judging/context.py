"""Messages to a model: system text, then images, then the question.

This order suits the prefix caches of servers: the system text is the same for all examples with the same entries, and
the source image precedes the candidates, so that both presentation orders, further turns and all pairs of a group share
a prefix. No human label, generator name or file name is part of a message.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewardharness.judging.chain import neutral
from rewardharness.judging.router import Route
from rewardharness.library.entry import Entry
from rewardharness.models.base import ImagePart, Message, TextPart
from rewardharness.prompts import load
from rewardharness.schema import LABELS, SCALE, image_titles

_SPAN = f"{SCALE[0]}-{SCALE[1]}"


@dataclass(frozen=True)
class Shown:
    """Images in the order of one request. The model sees the first candidate as A, whatever its own label is."""

    source: ImagePart
    candidates: tuple[ImagePart, ...]
    own: tuple[str, ...]
    """Labels of the candidates in the example, in the presentation order."""
    references: tuple[ImagePart, ...] = ()
    """Images 2, 3, ... of the instruction."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the model sees."""
        return LABELS[: len(self.candidates)]

    @property
    def images(self) -> dict[str, ImagePart]:
        """Images by the name that the model uses for them."""
        references = {f"image {number}": image for number, image in enumerate(self.references, 2)}
        return {"source": self.source, **references, **dict(zip(self.labels, self.candidates, strict=True))}


def judge_system(
    route: Route, labels: Sequence[str], *, form: str, ties: bool, tool_limit: int, references: int = 0
) -> str:
    """Write the system text of a comparison, or of the scoring of a single candidate.

    Args:
        route: The consulted entries.
        labels: Labels of the candidates.
        form: Prompt with the form of the answer: `format_chain`, `format_direct` or `format_letter`.
        ties: Whether `tie` is an allowed answer.
        tool_limit: Maximum number of Tool calls; with 0 no Tool is mentioned.
        references: Number of reference images, which Tools can look at too.
    """
    tools = ""
    if tool_limit > 0 and route.tools:
        described = "\n\n".join(_describe_tool(entry) for entry in route.tools)
        names = ", ".join(["source", *(f"image {number}" for number in range(2, references + 2)), *labels])
        tools = load("tools", limit=str(tool_limit), labels=names, tools=described)
    judging = "judge" if len(labels) > 1 else "judge_one"
    return load(judging, notes=notes(route.skills), tools=tools, format=answer_form(form, labels, ties=ties))


def answer_form(form: str, labels: Sequence[str], *, ties: bool) -> str:
    """Write the form of the answer to a comparison, or to the scoring of a single candidate."""
    if len(labels) == 1:
        return load(f"{form}_one", example=f'{{"instruction": {_SPAN}, "quality": {_SPAN}}}')
    if form == "format_letter":
        return load(form, choices=" or ".join(labels))
    words = [f'"{label}"' for label in labels] + (['"tie"'] if ties else [])
    example = ", ".join(f'"{label}": {{"instruction": {_SPAN}, "quality": {_SPAN}}}' for label in labels)
    return load(form, choices=" or ".join(words), example=example, ties=load("ties" if ties else "no_ties"))


def notes(skills: Sequence[Entry]) -> str:
    """Write the Skills as delimited notes; empty without Skills."""
    if not skills:
        return ""
    bodies = "\n\n".join(f"## {entry.name}\n{neutral(entry.body.strip())}" for entry in skills)
    return "\n\n" + load("notes", notes=bodies.replace("</library>", "‹/library>")) + "\n"


def question(shown: Shown, text: str) -> Message:
    """Write the user message: each image after its caption, then the question."""
    parts: list[TextPart | ImagePart] = []
    count = 1 + len(shown.references)
    for title, image in zip(image_titles(count, shown.labels), shown.images.values(), strict=True):
        parts += [TextPart(f"{title}:"), image]
    if shown.references:
        names = ", ".join(f"image {number}" for number in range(2, count + 1))
        text = f"{load('references', count=str(count), others=names)}\n\n{text}"
    parts.append(TextPart(text))
    return Message("user", tuple(parts))


def ask_which(instruction: str, labels: Sequence[str]) -> str:
    """Write the question of a comparison, or of the scoring of a single candidate."""
    if len(labels) == 1:
        return ask_how_good(instruction)
    return load("question", instruction=_quoted(instruction), labels=", ".join(labels))


def ask_how_good(instruction: str) -> str:
    """Write the question about one candidate."""
    return load("question_one", instruction=_quoted(instruction))


def ask_grade(instruction: str, dimension: str) -> str:
    """Write the question about one dimension of one candidate."""
    return load("question_digit", instruction=_quoted(instruction), dimension=dimension)


def answer_schema(labels: Sequence[str], *, ties: bool) -> dict[str, object]:
    """JSON schema of the answer to a comparison, or to the scoring of a single candidate."""
    if len(labels) == 1:
        return score_schema()
    grade = {"type": "integer", "minimum": SCALE[0], "maximum": SCALE[1]}
    scores = _object({label: _object({"instruction": grade, "quality": grade}) for label in labels})
    choices = [*labels, *(["tie"] if ties else [])]
    return _object({"preference": {"type": "string", "enum": choices}, "scores": scores})


def score_schema() -> dict[str, object]:
    """JSON schema of the two scores of one candidate."""
    grade = {"type": "integer", "minimum": SCALE[0], "maximum": SCALE[1]}
    return _object({"instruction": grade, "quality": grade})


def rubric_schema(scales: Mapping[str, tuple[float, float]]) -> dict[str, object]:
    """JSON schema of one whole number per criterion."""
    return _object(
        {key: {"type": "integer", "minimum": int(low), "maximum": int(high)} for key, (low, high) in scales.items()}
    )


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _describe_tool(entry: Entry) -> str:
    lines = [f"- {entry.name}: {neutral(entry.description)}", neutral(entry.body.strip())]
    if entry.output_schema:
        lines.append(f"Returns: {neutral(json.dumps(dict(entry.output_schema), ensure_ascii=False))}")
    return "\n".join(line for line in lines if line)


def _quoted(instruction: str) -> str:
    return neutral(instruction.strip()).replace("</instruction>", "‹/instruction>")

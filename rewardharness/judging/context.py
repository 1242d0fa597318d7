"""Messages to a model: system text, then sources, candidates and any measured evidence, then the question.

This order suits the prefix caches of servers: the system text is the same for all examples with the same entries, and
the source image precedes the candidates, so that both presentation orders, further turns and all pairs of a group share
a prefix. No human label, generator name or file name is part of a message.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewardharness.judging.chain import neutral
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.router import Route
from rewardharness.library.entry import Entry
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, TextPart
from rewardharness.prompts import load, load_section
from rewardharness.schema import LABELS, SCALE, EditRequest, image_titles
from rewardharness.task import IMAGE_EDIT, Task
from rewardharness.views import DIMENSIONS

_SPAN = f"{SCALE[0]}-{SCALE[1]}"


Parts = tuple[TextPart | ImagePart, ...]
"""An image; the frames of a video, each after its number; or a delimited text."""


@dataclass(frozen=True)
class Presented:
    """Sources and candidates of one request. The model sees the first candidate as A, whatever its own label is."""

    sources: tuple[Parts, ...]
    """The source, and images 2, 3, ... of the instruction; empty for text."""
    candidates: tuple[Parts, ...]
    own: tuple[str, ...]
    """Labels of the candidates in the example, in the presentation order."""
    task: Task = IMAGE_EDIT
    evidence: tuple[Parts, ...] = ()
    """What was measured of each candidate, in the presentation order; empty without measured evidence."""
    dimensions: tuple[str, ...] = DIMENSIONS[:2]
    """Names of the scores that are asked for."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the model sees."""
        return LABELS[: len(self.candidates)]

    @property
    def wording(self) -> Mapping[str, str]:
        """Phrases of the prompts for the task."""
        return self.task.wording

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names that the model uses for the sources: `source`, `image 2`, ..."""
        return tuple("source" if number == 1 else f"image {number}" for number in range(1, len(self.sources) + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the model uses for sources and candidates."""
        return (*self.source_names, *self.labels)

    @property
    def media(self) -> dict[str, Parts]:
        """Sources and candidates by name."""
        return dict(zip(self.names, (*self.sources, *self.candidates), strict=True))

    @property
    def titles(self) -> dict[str, str]:
        """Captions by name."""
        return dict(zip(self.names, image_titles(len(self.sources), self.labels), strict=True))


@dataclass(frozen=True)
class Asking:
    """Content of one request or conversation."""

    model: Model
    route: Route
    request: EditRequest
    presented: Presented
    config: ModelJudgeConfig
    seed: int | None = None

    def question(self, prompt: str = "", **values: str) -> str:
        """Write a question about the candidates: the usual one, or that of another prompt."""
        several = len(self.presented.labels) > 1
        values |= {"labels": ", ".join(self.presented.labels)} if several and not prompt else {}
        prompt = prompt or ("question" if several else "question_one")
        instruction = neutral(self.request.instruction.strip()).replace("</instruction>", "‹/instruction>")
        return load(prompt, self.presented.wording, instruction=instruction, **values)

    def chat(self, system: str, asked: str, schema: dict[str, object] | None, **options: Any) -> ChatRequest:
        """Write a request with a system text and a question."""
        messages = (Message.of("system", system), question(self.presented, asked))
        options = {"max_tokens": self.config.max_tokens, "temperature": self.config.request_temperature, **options}
        return ChatRequest(messages, seed=self.seed, schema=schema, **options)


def judge_system(route: Route, presented: Presented, answer: str, *, tool_limit: int = 0) -> str:
    """Write the system text of a comparison, or of the scoring of a single candidate.

    Args:
        route: The consulted entries.
        presented: What the request is about.
        answer: The form of the answer; see `answer_form`.
        tool_limit: Maximum number of Tool calls; with 0 no Tool is mentioned.
    """
    tools = ""
    if tool_limit > 0 and route.tools:
        described = "\n\n".join(_describe_tool(entry) for entry in route.tools)
        example = json.dumps([*presented.source_names[:1], "A"])
        names = ", ".join(presented.names)
        tools = load("tools", presented.wording, limit=str(tool_limit), labels=names, tools=described, example=example)
    judging = "judge" if len(presented.labels) > 1 else "judge_one"
    return load(judging, presented.wording, notes=notes(route.skills, presented), tools=tools, format=answer)


def answer_form(form: str, presented: Presented, *, ties: bool) -> str:
    """Write the form of the answer to a comparison, or to the scoring of a single candidate.

    Args:
        form: Prompt with the form: `format_chain`, `format_direct` or `format_letter`.
        presented: What the request is about.
        ties: Whether `tie` is an allowed answer.
    """
    labels = presented.labels
    if len(labels) == 1:
        return load(f"{form}_one", presented.wording, example=spans(presented)) + third_score(presented)
    if form == "format_letter":
        return load(form, choices=" or ".join(labels))
    choices = [f'"{label}"' for label in labels] + (['"tie"'] if ties else [])
    example = ", ".join(f'"{label}": {spans(presented)}' for label in labels)
    text = load(form, choices=" or ".join(choices), example=example, ties=load("ties" if ties else "no_ties"))
    return text + third_score(presented)


def spans(presented: Presented) -> str:
    """Write the form of the scores of one candidate."""
    parts = ", ".join(f'"{name}": {_SPAN}' for name in presented.dimensions)
    return f"{{{parts}}}"


def third_score(presented: Presented) -> str:
    """Write what the optional score is; nothing if it is not asked for."""
    return "\n\n" + load("consistency") if DIMENSIONS[2] in presented.dimensions else ""


def notes(skills: Sequence[Entry], presented: Presented) -> str:
    """Write the Skills as delimited notes; empty without Skills."""
    if not skills:
        return ""
    bodies = "\n\n".join(f"## {entry.name}\n{_entry_text(entry.body)}" for entry in skills)
    return "\n\n" + load("notes", presented.wording, notes=bodies.replace("</library>", "‹/library>")) + "\n"


def question(presented: Presented, text: str) -> Message:
    """Write the user message: each source and candidate after its caption, measured evidence, then the question."""
    parts: list[TextPart | ImagePart] = []
    titles, count = presented.titles, len(presented.sources)
    for name, media in presented.media.items():
        parts += [TextPart(f"{titles[name]}:"), *media]
    if presented.evidence:
        parts.append(TextPart(load_section("evidence", "intro")))
    for evidence in presented.evidence:
        parts += evidence
    if count > 1:
        names = ", ".join(f"image {number}" for number in range(2, count + 1))
        text = f"{load('references', count=str(count), others=names)}\n\n{text}"
    parts.append(TextPart(text))
    return Message("user", tuple(parts))


GRADE = {"type": "integer", "minimum": SCALE[0], "maximum": SCALE[1]}
"""JSON schema of a score."""


def answer_schema(presented: Presented, *, ties: bool) -> dict[str, object]:
    """JSON schema of the answer to a comparison, or to the scoring of a single candidate."""
    labels, grades = presented.labels, object_schema(dict.fromkeys(presented.dimensions, GRADE))
    if len(labels) == 1:
        return grades
    choices = [*labels, *(["tie"] if ties else [])]
    scores = object_schema(dict.fromkeys(labels, grades))
    return object_schema({"preference": {"type": "string", "enum": choices}, "scores": scores})


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """JSON schema of an object with some properties and no others."""
    required = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": dict(properties), **required}


def _describe_tool(entry: Entry) -> str:
    lines = [f"- {entry.name}: {neutral(entry.description)}", _entry_text(entry.body)]
    if entry.output_schema:
        lines.append(f"Returns: {neutral(json.dumps(dict(entry.output_schema), ensure_ascii=False))}")
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=1024)
def _entry_text(body: str) -> str:
    """Disarm the text of an entry, which is the same in many requests."""
    return neutral(body.strip())

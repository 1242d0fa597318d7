"""Protocol `checklist`: yes-or-no principles for one instruction, written by the model before it sees a candidate.

They are written once per instruction and source, from these and the routed Skills, and cached. Each candidate is then
graded alone on each principle, and the weights of the principles aggregate the grades as those of a rubric do.

People correct principles as text, one per line, as in `instruction 3: The box is red.`; `ModelJudgeConfig.principles`
then replaces what the model would write.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from rewardharness.codec import ValidationError, from_json, to_json
from rewardharness.errors import InputError, shown
from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache, remembered
from rewardharness.judging.chain import neutral
from rewardharness.judging.context import Asking, notes, object_schema
from rewardharness.judging.criteria import Applied
from rewardharness.judging.media import content_ids, key_of
from rewardharness.judging.presentation import PresentationResult
from rewardharness.judging.protocols import ask_object
from rewardharness.library.rubric import Criterion, Dimension
from rewardharness.prompts import load, version
from rewardharness.schema import Judgment

PROMPTS = ("checklist", "question_checklist")
"""The prompts that only this protocol has."""
LEAST, MOST = 3, 8
"""Number of principles."""
_FORM = '{"principles": [{"text": "...", "about": "instruction", "weight": 2}]}'
_RULE = f"Write {LEAST} to {MOST} principles, each with a text, `instruction` or `quality`, and a weight from 1 to 3."


@dataclass(frozen=True)
class _Principle:
    text: Annotated[str, Meta(pattern=r"\S", max_length=300)]
    about: Dimension
    weight: Annotated[float, Meta(ge=1, le=3)]


Principles = tuple[Applied, ...]


async def write_checklist(asking: Asking, cache: JudgmentCache) -> tuple[Principles, PresentationResult]:
    """Write the principles of an instruction, or read them from the cache.

    Args:
        asking: The instruction with its sources, without candidates.
        cache: Where principles are kept; candidates that are judged at once share them.

    Returns:
        The principles; none if the result has a failure.
    """
    key = content_id(
        {
            "checklist": version(*PROMPTS, "notes", "references", "reminder", asking.presented.task.prompt),
            "model": asking.model.id,
            "max_tokens": asking.config.max_tokens,
            "sources": [*map(content_ids, asking.presented.sources), *key_of(asking.presented.task)],
            "instruction": asking.request.instruction,
            "context": asking.route.context_id,
        }
    )

    async def ask() -> tuple[Principles, PresentationResult]:
        presented = asking.presented
        system = load(
            "checklist",
            presented.wording,
            notes=notes(asking.route.skills, presented),
            least=str(LEAST),
            most=str(MOST),
        )
        about = {"type": "string", "enum": ["instruction", "quality"]}
        weight = {"type": "integer", "minimum": 1, "maximum": 3}
        item = object_schema({"text": {"type": "string"}, "about": about, "weight": weight})
        schema = object_schema({"principles": {"type": "array", "items": item, "minItems": LEAST, "maxItems": MOST}})
        chat = asking.chat(system, asking.question("question_checklist"), schema)
        principles, result = await ask_object(asking, chat, read_checklist, _FORM, _RULE)
        return principles or (), result

    def write(made: tuple[Principles, PresentationResult]) -> dict[str, Any] | None:
        said = [
            _Principle(principle.criterion.text, principle.criterion.dimension, principle.criterion.weight)
            for principle in made[0]
        ]
        return {"principles": to_json(said)} if said else None

    def read(known: dict[str, Any]) -> tuple[Principles, PresentationResult]:
        return read_checklist(known) or (), PresentationResult()

    made, _ = await remembered(cache, lambda: key, asking.model.id, ask, write, read)
    return made


def read_checklist(value: Mapping[str, Any], least: int = LEAST) -> Principles | None:
    """Read the reply of a model; None if it breaks the form.

    Args:
        value: The reply.
        least: Number of principles that there must be.
    """
    try:
        said = from_json(tuple[_Principle, ...], value.get("principles"))
    except ValidationError:
        return None
    if not least <= len(said) <= MOST:
        return None
    named = enumerate(said, 1)
    return tuple(
        Applied(
            "checklist",
            Criterion(
                f"p{number}", neutral(" ".join(principle.text.split())), principle.weight, (0, 1), principle.about
            ),
        )
        for number, principle in named
    )


_LINE = re.compile(r"(?:(instruction|quality)(?:[ ]+([0-9.]{1,9}))?[ ]*:)?[ ]*(.*)", re.IGNORECASE)


def read_principles(lines: Iterable[str]) -> Principles:
    """Read principles that a person has corrected, one per line; empty lines do not count.

    Args:
        lines: Lines such as `instruction 3: The box is red.`; without a prefix it is about the instruction, and without
            a number the weight is 1.

    Raises:
        InputError: If there are none, too many, or one is invalid.
    """
    said = []
    for line in (" ".join(line.split()) for line in lines):
        about, weight, text = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches everything
        try:
            one = {"text": text, "about": (about or "instruction").lower(), "weight": float(weight or 1)}
        except ValueError:
            one = {}
        if line and read_checklist({"principles": [one]}, 1) is None:
            step = (
                "Write `instruction 3: ...` or `quality 1: ...`, with a weight from 1 to 3 and at most 300 characters."
            )
            raise InputError(f"{shown(line)!r} is no principle.", next_step=step)
        said += [one] if line else []
    if (principles := read_checklist({"principles": said}, 1)) is None:
        raise InputError(f"{len(said)} principles are not possible.", next_step=f"Write 1 to {MOST}, one per line.")
    return principles


def listed(principles: Principles) -> str:
    """Return principles as text, for the chain of a judgment; `checklist_of` reads it."""
    return "\n".join(
        f"{principle.key}: {line}" for principle, line in zip(principles, lines_of(principles), strict=True)
    )


def lines_of(principles: Principles) -> list[str]:
    """Return principles as the lines that `read_principles` reads."""
    said = (principle.criterion for principle in principles)
    return [f"{criterion.dimension} {criterion.weight:g}: {criterion.text}" for criterion in said]


@dataclass(frozen=True)
class GradedChecklist:
    """The principles of a judgment, and what its candidates met."""

    principles: Principles
    met: Mapping[str, tuple[float | None, ...]]
    """For each candidate the share of samples in which it met each principle; None where it was not graded."""


def checklist_of(judgment: Judgment) -> GradedChecklist | None:
    """Return the principles that a judgment was made by; None without any."""
    steps = [step for step in judgment.steps if step.kind == "think" and step.text.startswith("checklist/p1: ")]
    if not steps:
        return None
    lines = [line.partition(": ")[2] for line in steps[0].text.splitlines()]
    try:
        principles = read_principles(lines)
        grades = [json.loads(step.text) for step in judgment.steps if step.kind == "answer"]
    except (InputError, ValueError):
        return None
    met: dict[str, tuple[float | None, ...]] = {}
    for label in judgment.scores:
        own = [reply for reply in grades if isinstance(reply, dict) and reply.get("candidate") == label]
        said = [[reply[one.key] for reply in own if isinstance(reply.get(one.key), int | float)] for one in principles]
        met[label] = tuple(sum(several) / len(several) if several else None for several in said)
    return GradedChecklist(principles, met)

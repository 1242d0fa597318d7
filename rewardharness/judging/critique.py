"""Critiques by a model: what is wrong with a candidate, and the instruction for the next attempt.

A critique is requested after the scores and never changes them. The model sees one candidate beside the source, without
scores. Its text is untrusted.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rewardharness.codec import from_json, to_json
from rewardharness.critique import NO_CRITIQUE, Critique
from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache, remembered
from rewardharness.judging.chain import neutral
from rewardharness.judging.context import Asking, notes, object_schema
from rewardharness.judging.media import content_ids, key_of
from rewardharness.judging.protocols import ask_object
from rewardharness.prompts import load, version
from rewardharness.schema import Failure, Judgment, Usage

PROMPTS = ("critique", "notes", "question_critique", "references", "reminder", "response")
"""The prompts of a critique, besides the wording of the task."""

MAX_PROBLEMS = 5
MAX_TEXT = 1000
"""Maximum number of characters of a problem, and of the instruction for the next attempt."""

_FORM = '{"problems": ["..."], "next_instruction": "..."}'
_RULE = f"Write a list of at most {MAX_PROBLEMS} texts and one text, each of at most {MAX_TEXT} characters."

_Outcome = tuple[Critique | None, Usage, Failure | None]


async def add_critiques(
    judgment: Judgment, requests: Mapping[str, Asking], cache: JudgmentCache | None, deadline: float | None
) -> Judgment:
    """Add critiques to a judgment, and a note for each candidate without one.

    Args:
        judgment: The judgment.
        requests: The requests, by candidate.
        cache: Cache of critiques; None to cache nothing. Failures are not cached.
        deadline: Timeout of a critique in seconds.
    """
    outcomes = await asyncio.gather(*(_critique(asking, cache, deadline) for asking in requests.values()))
    critiques: dict[str, Critique] = {}
    remarks: list[str] = []
    usage = judgment.usage
    for label, (critique, cost, failure) in zip(requests, outcomes, strict=True):
        usage += cost
        if critique is not None:
            critiques[label] = critique
        else:
            reason = failure.message if failure is not None else "The model did not answer."
            remarks.append(f"{NO_CRITIQUE}{label}: {reason}")
    return replace(judgment, critiques=critiques, notes=(*judgment.notes, *remarks), usage=usage)


async def _critique(asking: Asking, cache: JudgmentCache | None, deadline: float | None) -> _Outcome:
    ask = partial(_ask, asking)
    try:
        async with asyncio.timeout(deadline):
            outcome, _ = await remembered(cache, partial(_key, asking), asking.model.id, ask, _write, _read)
            return outcome
    except TimeoutError:
        return None, Usage(), Failure("timeout", f"No answer within {deadline:g} seconds.")


async def _ask(asking: Asking) -> _Outcome:
    presented = asking.presented
    system = load("critique", presented.wording, notes=notes(asking.route.skills, presented), most=str(MAX_PROBLEMS))
    problems = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_PROBLEMS}
    schema = object_schema({"problems": problems, "next_instruction": {"type": "string"}})
    chat = asking.chat(system, asking.question("question_critique"), schema)
    critique, result = await ask_object(asking, chat, read_critique, _FORM, _RULE)
    return critique, result.usage, result.failure


def _write(outcome: _Outcome) -> dict[str, Any] | None:
    return to_json(outcome[0]) if outcome[0] else None


def _read(known: dict[str, Any]) -> _Outcome:
    return from_json(Critique, known), Usage(), None


def read_critique(value: object) -> Critique | None:
    """Read the reply of a model; None if it breaks the form."""
    if not isinstance(value, dict):
        return None
    problems, following = value.get("problems"), value.get("next_instruction")
    if not isinstance(problems, list) or len(problems) > MAX_PROBLEMS:
        return None
    texts = [text for text in (*problems, following) if isinstance(text, str) and len(text) <= MAX_TEXT]
    if len(texts) <= len(problems):
        return None
    *descriptions, next_instruction = (neutral(text.strip()) for text in texts)
    named = tuple(text for text in descriptions if text)
    return Critique(named, next_instruction if named else "")


def _key(asking: Asking) -> str:
    """Return the cache key: a hash of everything that can change the critique."""
    presented = asking.presented
    return content_id(
        {
            "critique": version(*PROMPTS, presented.task.prompt),
            "model": asking.model.id,
            "max_tokens": asking.config.max_tokens,
            "shown": [*map(content_ids, (*presented.sources, *presented.candidates, *presented.evidence))],
            "sources": [len(presented.sources), *key_of(presented.task)],
            "evidence": version("evidence") if presented.evidence else "",
            "instruction": asking.request.instruction,
            "context": asking.route.context_id,
        }
    )

"""Test calls of a prompted Tool on examples, outside of judgments, to check its replies."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.files import content_id
from rewardharness.judging.answers import ToolRequest
from rewardharness.judging.cache import JudgmentCache, remembered
from rewardharness.judging.instruction import request_of
from rewardharness.judging.media import Media, content_ids, key_of, prepare
from rewardharness.judging.presentation import usage_of
from rewardharness.judging.tools import ToolBox
from rewardharness.library.entry import Entry
from rewardharness.models.base import Model, ModelError
from rewardharness.prompts import version
from rewardharness.schema import Example, Usage

MAX_SAID = 600
"""Maximum number of characters of a stored reply."""

_NOT_THE_TOOL = frozenset({"context_too_long", "refused", "bad_request"})
"""Error codes of a model that is available but rejects the request."""
_Called = tuple[dict[str, Any], str, Usage]
"""Result of a call, the last reply, and the usage."""


@dataclass(frozen=True)
class Observation:
    """Result of a Tool call on one example."""

    example: str
    """Id of the example."""
    said: str
    """Beginning of the reply; untrusted text."""
    problem: str = ""
    """Why the reply is unusable, in one sentence; empty if it is usable."""
    lost: str = ""
    """Error code of a failure that is unrelated to the Tool, such as an unavailable model or an unreadable image."""
    usage: Usage = Usage()
    """Usage; zero for a cached reply."""


async def observe(
    model: Model, cache: JudgmentCache | None, max_pixels: int | None, tool: Entry, examples: Sequence[Example]
) -> list[Observation]:
    """Call a Tool on examples concurrently, each with all of its images.

    A reply that violates the schema of the Tool is rejected once, as in a judgment.

    Args:
        model: The model of the judge.
        cache: Cache of observations; None to cache nothing.
        max_pixels: As in `ModelJudgeConfig`.
        tool: The Tool.
        examples: The examples.
    """
    calls = (_observe(model, cache, max_pixels, tool, example) for example in examples)
    return list(await asyncio.gather(*calls))


async def _observe(
    model: Model, cache: JudgmentCache | None, max_pixels: int | None, tool: Entry, example: Example
) -> Observation:
    async def call() -> _Called:
        box = ToolBox((tool,), model, media.shown(example.labels), request_of(example))
        observed = await box.run(ToolRequest(tool.name, (), ""))
        usage = sum((usage_of(reply) for reply in observed.replies), Usage())
        return dict(observed.result), observed.replies[-1].text[:MAX_SAID] if observed.replies else "", usage

    try:
        media = await asyncio.to_thread(prepare, example, max_pixels)
        key = partial(_key, model, tool, media)
        (result, last, usage), _ = await remembered(cache, key, model.id, call, _write, _read)
    except ModelError as error:
        problem = f"{error.title}: {error.message}"
        lost = "" if error.code in _NOT_THE_TOOL else error.code
        return Observation(example.id, "", problem, lost, Usage(calls=1))
    except HarnessError as error:
        return Observation(example.id, "", error.message, "image")
    problem = _problem(result, tool)
    said = last if problem else json.dumps(result, ensure_ascii=False)
    return Observation(example.id, said[:MAX_SAID], problem, usage=usage)


def _write(called: _Called) -> dict[str, Any]:
    return {"result": called[0], "last": called[1]}


def _read(known: dict[str, Any]) -> _Called:
    """Read a cached observation."""
    if not isinstance(known["result"], dict) or not isinstance(known["last"], str):
        raise TypeError("another form")
    return known["result"], known["last"], Usage()


def _problem(result: dict[str, Any], tool: Entry) -> str:
    """Return why a result is unusable; empty if it is usable."""
    if "error" in result and "error" not in (tool.output_schema or {}):
        return str(result["error"])
    empty = all(value is None or value in ("", [], {}) for value in result.values())
    return "Everything in the reply is empty." if empty else ""


def _key(model: Model, tool: Entry, media: Media) -> str:
    shown = [*map(content_ids, media.sources), *map(content_ids, media.candidates.values())]
    which = [len(media.sources), *key_of(media.task)]
    prompts = version("tool_rules", "reminder", media.task.prompt)
    return content_id(["tool", prompts, model.id, tool.entry_id, shown, which])

"""Selection of entries without triggers by a language model, as in the paper.

One request asks about all entries whose answer for an instruction is not known; answers are cached per entry and
instruction. Editing an entry therefore asks about this entry alone, and changes the selection of no other. Entries with
triggers are selected by them, as in `router`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.files import content_id
from rewardharness.judging.answers import ReplyProblem, conclusion, read_last
from rewardharness.judging.appeals import without_appeals
from rewardharness.judging.cache import JudgmentCache, MemoryCache
from rewardharness.judging.chain import neutral
from rewardharness.judging.context import object_schema
from rewardharness.judging.presentation import PresentationResult
from rewardharness.judging.protocols import ask_twice
from rewardharness.judging.router import Route, fires, make_route, route
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest, Message, Model, Reply
from rewardharness.prompts import load, version
from rewardharness.schema import Failure, Usage

PROMPTS = ("route", "format_route", "reminder")
BATCH = 100
"""Maximum number of entries in one request."""
_LISTS = ("entries", "skills", "tools")
"""Keys of lists of names, which the prompt of the paper asks for."""
_WORDS = {"yes": True, "true": True, "no": False, "false": False, "是": True, "否": False}


class RoutingError(HarnessError):
    """A model did not say which entries are of use.

    Args:
        result: The failure, with the replies of the model and what they cost.
    """

    def __init__(self, result: PresentationResult) -> None:
        failure = result.failure or Failure("bad_response", "")
        code = "bad_response" if failure.code == "no_answer" else failure.code
        self.failure = Failure(code, f"The entries of the Library could not be selected. {failure.message}")
        self.result = result
        super().__init__(self.failure.message)


@dataclass
class LLMRouter:
    """A router that queries a model.

    Args:
        model: The model; text alone, no images.
        cache: Cache of answers. One in memory serves as well; without any, an entry could be decided differently twice.
    """

    model: Model
    cache: JudgmentCache = field(default_factory=MemoryCache)

    async def route(self, library: Library, instruction: str) -> Route:
        """Select the entries that apply to an instruction.

        Raises:
            RoutingError: If the model is unavailable, or gives no usable answer.
        """
        entries = (*library.skills, *library.tools)
        if all(entry.triggers for entry in entries):
            return route(library, instruction)
        instruction = without_appeals(instruction)
        keys = {entry.name: self._key(entry, instruction) for entry in entries if not entry.triggers}
        cached_answers = {name: self.cache.get(key, itemgetter("yes")) for name, key in keys.items()}
        answers = {name: bool(value["yes"]) for name, value in cached_answers.items() if value is not None}
        unknown = [entry for entry in entries if entry.name in keys and entry.name not in answers]
        usage = Usage()
        for start in range(0, len(unknown), BATCH):
            said, cost = await self._remember(unknown[start : start + BATCH], keys, instruction)
            answers |= said
            usage += cost
        claims = {name: f"{self.model.id} says that it is of use" for name, of_use in answers.items() if of_use}
        reasons = (
            (entry, fires(entry, instruction) if entry.triggers else claims.get(entry.name)) for entry in entries
        )
        return make_route(reasons, usage)

    def _key(self, entry: Entry, instruction: str) -> str:
        parts = [self.model.id, version(*PROMPTS), entry.kind, entry.name, entry.description, instruction]
        return content_id(["route", *parts])

    async def _remember(
        self, batch: Sequence[Entry], keys: dict[str, str], instruction: str
    ) -> tuple[dict[str, bool], Usage]:
        """Ask about entries and cache each answer; equal questions that are asked at once are asked once."""
        usage, who = Usage(), f"router {self.model.id}"

        async def make() -> dict[str, Any] | None:
            nonlocal usage
            answers, usage = await self._ask(batch, instruction)
            for name, answer in answers.items():
                self.cache.keep(keys[name], {"yes": answer}, who)
            return dict(answers)

        said, _ = await self.cache.remember(content_id([keys[entry.name] for entry in batch]), who, make)
        return {entry.name: bool((said or {})[entry.name]) for entry in batch}, usage

    async def _ask(self, batch: Sequence[Entry], instruction: str) -> tuple[dict[str, bool], Usage]:
        names = [entry.name for entry in batch]
        listed = [
            {"name": entry.name, "kind": entry.kind, "description": neutral(entry.description)} for entry in batch
        ]
        form = load("format_route", example=json.dumps(dict.fromkeys(names, True), ensure_ascii=False))
        text = load(
            "route",
            entries=json.dumps(listed, ensure_ascii=False, indent=1).replace("</entries>", "‹/entries>"),
            instruction=neutral(instruction).replace("</instruction>", "‹/instruction>"),
            form=form,
        )
        schema = object_schema({name: {"type": "boolean"} for name in names})
        chat = ChatRequest((Message.of("user", text),), max_tokens=2048 + 32 * len(batch), schema=schema)

        def read(reply: Reply, last: bool) -> dict[str, bool] | ReplyProblem:
            said = conclusion(reply.text, cut_off=reply.cut_off)
            if isinstance(said, ReplyProblem):
                return said
            word = said.strip().strip(".\"'。").lower()
            if len(names) == 1 and word in _WORDS:
                return {names[0]: _WORDS[word]}
            return read_last(said, (*names, *_LISTS), lambda value: _read(value, names))

        answers, result = await ask_twice(self.model, chat, read, form)
        if answers is None:
            raise RoutingError(result)
        return answers, result.usage


def _read(value: dict[str, Any], names: Sequence[str]) -> dict[str, bool] | ReplyProblem:
    """Read the answers: a yes or no for each name, or lists of the names that are of use."""
    said = {_plain(key): content for key, content in value.items()}
    lists = [selection for key in _LISTS if isinstance(selection := said.get(key), list)]
    if lists:
        listed = [entry for of_use in lists for entry in of_use]
        chosen = {_plain(entry.get("name") if isinstance(entry, dict) else entry) for entry in listed}
        if unknown := chosen - {*map(_plain, names)}:
            return ReplyProblem(f"There is no entry {sorted(unknown)[0][:80]!r}.")
        return {name: _plain(name) in chosen for name in names}
    answers = {name: _WORDS.get(str(said.get(_plain(name))).strip().lower()) for name in names}
    if missing := [name for name, answer in answers.items() if answer is None]:
        return ReplyProblem(f"The answer does not say whether these are of use: {', '.join(missing)}.")
    return {name: bool(answer) for name, answer in answers.items()}


def _plain(name: object) -> str:
    return str(name).strip().lower().replace("_", "-").replace(" ", "-")

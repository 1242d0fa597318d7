"""Selection of entries without triggers by a language model: one cached yes or no per entry and instruction.

Entries with triggers are selected by them, as in `router`. Each entry is selected independently of the others.
"""

import asyncio
from dataclasses import dataclass
from operator import itemgetter

from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.chain import neutral
from rewardharness.judging.router import Route, fires
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest, Message, Model, ModelError
from rewardharness.prompts import load, version
from rewardharness.schema import RoutedEntry

_ANSWERS = ("yes", "no")
_CHINESE = {"是": "yes", "否": "no"}


@dataclass
class LLMRouter:
    """A router that queries a model.

    Args:
        model: Answers yes or no; text alone, no images.
        cache: Cache of answers; None to cache nothing.
    """

    model: Model
    cache: JudgmentCache | None = None

    async def route(self, library: Library, instruction: str) -> Route:
        """Select the entries that apply to an instruction.

        Raises:
            ModelError: If the model is unavailable, or answers neither yes nor no.
        """
        entries = (*library.skills, *library.tools)
        reasons = await asyncio.gather(*(self._reason(entry, instruction) for entry in entries))
        chosen = [(entry, reason) for entry, reason in zip(entries, reasons, strict=True) if reason is not None]
        return Route(
            tuple(entry for entry, _ in chosen),
            tuple(RoutedEntry(entry.name, entry.kind, reason) for entry, reason in chosen),
        )

    async def _reason(self, entry: Entry, instruction: str) -> str | None:
        if entry.triggers:
            return fires(entry, instruction)

        async def make() -> dict[str, object] | None:
            return {"yes": await self._ask(entry, instruction)}

        key = content_id(["route", self.model.id, version("route"), entry.name, entry.description, instruction])
        if self.cache is None:
            said = await make()
        else:
            said, _ = await self.cache.remember(key, f"router {self.model.id}", make, itemgetter("yes"))
        return f"{self.model.id} says that it is of use" if said and said["yes"] else None

    async def _ask(self, entry: Entry, instruction: str) -> bool:
        text = load(
            "route",
            name=neutral(entry.name),
            description=neutral(entry.description).replace("</note>", "‹/note>"),
            instruction=neutral(instruction).replace("</instruction>", "‹/instruction>"),
        )
        reply = await self.model.ask(ChatRequest((Message.of("user", text),), max_tokens=8, choices=_ANSWERS))
        word = reply.text.strip().strip(".\"'。").lower()
        word = _CHINESE.get(word, word)
        if word not in _ANSWERS:
            raise ModelError("bad_response", f"The router {self.model.id} answered neither yes nor no.")
        return word == "yes"

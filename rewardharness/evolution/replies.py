"""What the Orchestrator's model said in a run, kept before it is used: a killed step neither loses nor repeats it.

    orchestrator.jsonl    one line per request that was answered or failed: `key`, what was asked; what it cost; and
                          `text` with `finish_reason`, or the `error`

A step that is taken again asks the same, for everything in it follows from the state and the seed. What is found here
is then not asked, and not paid, a second time. A failed request counts as one, and is asked again.
"""

from pathlib import Path
from typing import Any

from rewardharness.evolution.stop import ledger_usage, usage_json
from rewardharness.files import append_jsonl, content_id, read_jsonl
from rewardharness.judging.verdict import usage_of
from rewardharness.models.base import ChatRequest, ImagePart, Model, ModelError, Reply
from rewardharness.schema import Usage

REPLIES = "orchestrator.jsonl"


class Replies:
    """Asks a model, and keeps what it says.

    Args:
        folder: The run folder; this process holds it. None: nothing is kept.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / REPLIES if folder is not None else None
        lines = [line for _, line in read_jsonl(self._path)] if self._path is not None else []
        self._known: dict[str, dict[str, Any]] = {line["key"]: line for line in lines if "text" in line}
        self.before = ledger_usage(lines)
        """What was paid before this was opened."""

    async def ask(self, model: Model, request: ChatRequest) -> tuple[Reply, Usage]:
        """Ask, unless the answer is known.

        Returns:
            The reply, and what it cost now: nothing when it is known.

        Raises:
            ModelError: If there is no usable reply. It counts as one request.
            OSError: If the reply could not be kept.
        """
        key = request_key(model, request)
        known = self._known.get(key)
        if known is not None:
            return Reply(known["text"], known["finish_reason"]), Usage()
        try:
            reply = await model.ask(request)
        except ModelError as error:
            self._keep({"key": key, "error": error.code, **usage_json(Usage(calls=1))})
            raise
        paid = usage_of(reply)
        said = {"text": reply.text, "finish_reason": reply.finish_reason}
        self._keep({"key": key, **usage_json(paid), **said})
        return reply, paid

    def _keep(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            append_jsonl(self._path, line)
            if "text" in line:
                self._known[line["key"]] = line


def request_key(model: Model, request: ChatRequest) -> str:
    """Name a question by all that can change the answer: no address, no time-out."""
    messages = [
        [
            message.role,
            *(["image", part.sha256] if isinstance(part, ImagePart) else part.text for part in message.parts),
        ]
        for message in request.messages
    ]
    return content_id([model.id, messages, request.max_tokens, request.temperature, request.seed])


FORGETFUL = Replies()
"""Keeps nothing."""

"""Replies of the Orchestrator's model, saved before they are used, so that a killed step pays for none twice.

    orchestrator.jsonl    one line per request: `key` of the question, usage, and `text` with `finish_reason`, or the
                          `error`

A repeated step asks the same questions, because they follow from the state and the seed; saved replies are reused.
Failed requests are sent again.
"""

from pathlib import Path
from typing import Any

from rewardharness.files import append_jsonl, content_id, read_jsonl
from rewardharness.judging.presentation import usage_of
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, ModelError, Reply
from rewardharness.runs.spending import ledger_usage, usage_json
from rewardharness.schema import Usage

REPLIES = "orchestrator.jsonl"


class Replies:
    """Asks a model, and saves its replies.

    Args:
        folder: The run folder, locked by this process; None to save nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / REPLIES if folder is not None else None
        lines = [line for _, line in read_jsonl(self._path)] if self._path is not None else []
        self._saved: dict[str, dict[str, Any]] = {line["key"]: line for line in lines if "text" in line}
        self.before = ledger_usage(lines)
        """Usage of earlier sessions."""

    async def ask(self, model: Model, request: ChatRequest) -> tuple[Reply, Usage]:
        """Ask, unless the reply is saved.

        Returns:
            The reply, and its usage: nothing for a saved one.

        Raises:
            ModelError: If there is no usable reply. It counts as one request.
            OSError: If the reply could not be saved.
        """
        key = request_key(model, request)
        saved = self._saved.get(key)
        if saved is not None:
            return Reply(saved["text"], saved["finish_reason"]), Usage()
        try:
            reply = await model.ask(request)
        except ModelError as error:
            self._save({"key": key, "error": error.code, **usage_json(Usage(calls=1))})
            raise
        paid = usage_of(reply)
        self._save({"key": key, **usage_json(paid), "text": reply.text, "finish_reason": reply.finish_reason})
        return reply, paid

    def _save(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            append_jsonl(self._path, line)
            if "text" in line:
                self._saved[line["key"]] = line


def request_key(model: Model, request: ChatRequest) -> str:
    """Return the id of a question: everything that can change the answer, without address and timeout."""

    def keys(message: Message) -> list[object]:
        parts = (["image", part.sha256] if isinstance(part, ImagePart) else part.text for part in message.parts)
        return [message.role, *parts]

    messages = [keys(message) for message in request.messages]
    return content_id([model.id, messages, request.max_tokens, request.temperature, request.seed])


UNSAVED_REPLIES = Replies()
"""Saves nothing."""

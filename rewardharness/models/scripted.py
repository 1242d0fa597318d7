"""A model with scripted replies, for tests and demonstrations."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import orjson

from rewardharness.errors import DataError
from rewardharness.files import read_text
from rewardharness.models.base import ChatRequest, ErrorCode, ModelError, Reply

Script = str | Reply | Exception
"""A scripted result: a text, a complete reply, or an error to raise."""


class ScriptedModel:
    """A model with predefined or computed replies.

    Args:
        replies: Replies in the order of requests, or a function of the request.
        id: Id of the model.
    """

    def __init__(self, replies: Sequence[Script] | Callable[[ChatRequest], Script], id: str = "scripted") -> None:
        self._replies = replies
        self._id = id
        self.requests: list[ChatRequest] = []
        """All requests, in order."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Replies in an order cannot be given by several processes."""
        if not callable(self._replies):
            raise TypeError("its replies have an order")
        return ScriptedModel, (self._replies, self._id)

    @property
    def id(self) -> str:
        """Id of the model."""
        return self._id

    async def ask(self, request: ChatRequest) -> Reply:
        """Return the next reply.

        Raises:
            ModelError: If no reply is left.
        """
        number = len(self.requests)
        self.requests.append(request)
        if callable(self._replies):
            reply = self._replies(request)
        elif number < len(self._replies):
            reply = self._replies[number]
        else:
            message = f"The script of {self._id} has only {len(self._replies)} replies."
            raise ModelError("bad_response", message, next_step="Add more replies.")
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, model=self._id, endpoint="script") if isinstance(reply, str) else reply

    async def close(self) -> None:
        """Do nothing."""


def read_script(path: Path) -> ScriptedModel:
    """Read a script: JSON lines, each `{"text": ...}` or `{"error": code}`, optionally with `finish_reason`.

    Raises:
        DataError: If the file or a line of it cannot be read.
    """
    replies: list[Script] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            replies.append(_read_line(path, number, line))
    return ScriptedModel(replies, id=f"scripted:{path.name}")


def _read_line(path: Path, number: int, line: str) -> Script:
    step = 'Write {"text": "..."} or {"error": "timeout"} on each line.'
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise DataError(f"{path}, line {number}: invalid JSON.", next_step=step) from None
    if isinstance(record, dict):
        if set(record) == {"error"} and record["error"] in get_args(ErrorCode):
            return ModelError(record["error"], f"Scripted error from {path.name}.")
        text, finish = record.get("text"), record.get("finish_reason", "stop")
        if set(record) <= {"text", "finish_reason"} and isinstance(text, str) and isinstance(finish, str):
            return Reply(text, finish, model="scripted", endpoint="script")
    raise DataError(f"{path}, line {number}: not a valid reply.", next_step=step)

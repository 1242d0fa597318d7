"""A model that says what it is told to: for tests and demonstrations."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import orjson

from rewardharness.errors import DataError
from rewardharness.files import read_text
from rewardharness.models.base import ChatRequest, ErrorCode, ModelError, Reply

Script = str | Reply | Exception
"""What is said: a text, a whole reply, or an error that is raised."""


class ScriptedModel:
    """A model whose replies are written beforehand, or computed from the request.

    Args:
        replies: What to say, in the order of asking; or a function that decides.
        id: What the model is called.
    """

    def __init__(self, replies: Sequence[Script] | Callable[[ChatRequest], Script], id: str = "scripted") -> None:
        self._replies = replies
        self._id = id
        self.requests: list[ChatRequest] = []
        """Everything that was asked, in order."""

    @property
    def id(self) -> str:
        """What the model is called."""
        return self._id

    async def ask(self, request: ChatRequest) -> Reply:
        """Say what is next.

        Raises:
            ModelError: If no reply is left.
        """
        number = len(self.requests)
        self.requests.append(request)
        if callable(self._replies):
            said = self._replies(request)
        elif number < len(self._replies):
            said = self._replies[number]
        else:
            message = f"The script of {self._id} has {len(self._replies)} replies; one more was asked for."
            raise ModelError("bad_response", message, next_step="Write more replies.")
        if isinstance(said, Exception):
            raise said
        return Reply(said, model=self._id, endpoint="script") if isinstance(said, str) else said

    async def close(self) -> None:
        """There is nothing to close."""


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
        raise DataError(f"{path}, line {number}: this is not JSON.", next_step=step) from None
    if isinstance(record, dict):
        if set(record) == {"error"} and record["error"] in get_args(ErrorCode):
            return ModelError(record["error"], f"The script of {path.name} says so.")
        text, finish = record.get("text"), record.get("finish_reason", "stop")
        if set(record) <= {"text", "finish_reason"} and isinstance(text, str) and isinstance(finish, str):
            return Reply(text, finish, model="scripted", endpoint="script")
    raise DataError(f"{path}, line {number}: this is not a reply.", next_step=step)

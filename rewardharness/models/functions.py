"""Python functions that users give as judges and editors."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.models.base import ModelError


async def call(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Call a function: await an `async` one, and run another one in a thread.

    Raises:
        HarnessError: If the function raises it.
        ModelError: If it raises anything else; the message has `name` and the exception.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        return await asyncio.to_thread(function, *arguments)
    except HarnessError:
        raise
    except Exception as error:
        message = f"{name} raised {type(error).__name__}: {str(error)[:200]}"
        raise ModelError("bad_response", message, next_step="") from None


def source_code(function: Callable[..., Any], name: str) -> str:
    """Return the source code of a function, by which results are told apart; `name` if it is not known."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return name

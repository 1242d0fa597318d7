"""Calls of services that are no models: requests with retries to scorers and editors, and Python functions of users."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson

from rewardharness.errors import HarnessError
from rewardharness.models.base import ErrorCode, ModelError
from rewardharness.models.raw import RawReply, read_document
from rewardharness.models.transport import HttpClient, NotHttpError, ServerAddress

ATTEMPTS = 3


async def post(
    http: HttpClient, name: str, url: str, body: bytes | None, *, kind: str = "", key: str = "", seconds: float = 120.0
) -> object:
    """Send a request, again after a failure that may pass, and return the JSON of the answer.

    The answer to a request without a body, a GET, is returned as bytes if it is an image.

    Args:
        http: The connections.
        name: Name of the server for messages.
        url: The address.
        body: The body; None to send a GET.
        kind: Its media type.
        key: Sent as a bearer token; empty for none.
        seconds: Timeout of one attempt.

    Raises:
        ModelError: If there is no answer in JSON.
    """
    origin, split = ServerAddress.of(url)
    query = f"?{split.query}" if split.query else ""
    head = origin.head("GET" if body is None else "POST", quote(split.path, safe="/%") + query, key)
    if body is not None:
        head += b"Content-Type: %s\r\nContent-Length: %d\r\n" % (kind.encode("ascii"), len(body))
    head += b"\r\n"
    error = ModelError("unreachable", f"{name} was not asked.")
    for attempt in range(ATTEMPTS):
        await asyncio.sleep(attempt)
        try:
            async with asyncio.timeout(seconds):
                reply = await http.exchange(origin, head, [] if body is None else [body])
        except TimeoutError:
            error = ModelError("timeout", f"{name} did not answer within {seconds:g} seconds.")
            continue
        except (OSError, NotHttpError):
            error = ModelError("unreachable", f"{name} cannot be reached.")
            continue
        if reply.status == 200:
            if body is None and reply.header("content-type").startswith("image/"):
                return reply.body
            try:
                return orjson.loads(reply.body)
            except orjson.JSONDecodeError:
                raise ModelError("bad_response", f"{name} did not answer in JSON.", next_step="") from None
        error = _refusal(RawReply(name, reply.status, reply.body, secret=key))
        if not error.retryable:
            break
    raise error


def _refusal(raw: RawReply) -> ModelError:
    codes: dict[int, ErrorCode] = {401: "unauthorized", 403: "unauthorized", 404: "model_not_found"}
    code: ErrorCode = "server_error" if raw.status >= 500 or raw.status == 429 else codes.get(raw.status, "bad_request")
    try:
        document = read_document(raw)
        said = document.get("error", document.get("detail", "")) if isinstance(document, dict) else ""
        said = said.get("message", "") if isinstance(said, dict) else said
    except ValueError:
        said = ""
    return raw.error(code, "it refused the request", said=str(said))


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

"""The outermost layer: who may ask, ids, errors in one shape, counters and the log. Plain ASGI."""

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from rewardharness.serving.body import ClientGoneError, Receive
from rewardharness.serving.faults import DEFECT, ErrorReply, Fault, FieldProblem, RefusedError
from rewardharness.serving.security import Guard, clean_request_id
from rewardharness.serving.service import Service, Visit

log = logging.getLogger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

GONE = 499
"""Status in log and counters of a request whose caller went away (as nginx has it)."""

_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def usual_headers(visit: Visit) -> list[tuple[bytes, bytes]]:
    """Headers that every reply has."""
    return [*_HEADERS, (b"x-request-id", visit.request_id.encode("ascii"))]


class Front:
    """Stands before the application.

    Args:
        app: What answers.
        service: Whose counters and log these are.
        guard: Who may ask.
    """

    def __init__(self, app: Application, service: Service, guard: Guard) -> None:
        self._app = app
        self._service = service
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = dict(scope["headers"])
        visit = Visit(clean_request_id(headers.get(b"x-request-id", b"").decode("latin-1")))
        scope["visit"], scope["header_map"] = visit, headers
        status = GONE

        async def tell(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *usual_headers(visit)]
            await send(message)

        try:
            self._guard.check(scope["path"], headers)
            # What takes GET takes HEAD (RFC 9110, 9.3.2), which load balancers ask with; uvicorn leaves out the body.
            asked = scope if scope["method"] != "HEAD" else {**scope, "method": "GET"}
            await self._app(asked, receive, tell)
        except ClientGoneError:
            visit.fault = "client_gone"
        except RefusedError as error:
            await refuse(tell, visit, error)
        except Exception as error:
            log.error("answering %s failed unexpectedly: %s", visit.route, type(error).__name__)
            log.debug("answering failed", exc_info=error)
            if status == GONE:
                await refuse(tell, visit, RefusedError(500, DEFECT))
        finally:
            self._note(visit, scope["method"], status)

    def _note(self, visit: Visit, method: str, status: int) -> None:
        metrics = self._service.metrics
        metrics.requests.add(route=visit.route, code=str(status))
        metrics.request_seconds.observe(time.perf_counter() - visit.began)
        if visit.fault is not None:
            metrics.refused.add(code=visit.fault)
        if self._service.log is not None and visit.route not in _QUIET:
            self._service.log.put(self._service.record(visit, method, status))


_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are asked every few seconds and tell a log nothing."""


async def refuse(send: Send, visit: Visit, error: RefusedError) -> None:
    """Send an error in the one shape that all of them have."""
    status, headers, body = error_reply(visit, error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_reply(visit: Visit, error: RefusedError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Write an error: status, headers and body."""
    visit.fault = error.fault.code
    fields = tuple(FieldProblem(*each) for each in error.fields)
    body = orjson.dumps(ErrorReply(visit.request_id, error.fault, fields))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode("ascii")))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, headers, body


NOT_FOUND = Fault("not_found", "There is nothing at this path.", "/openapi.json lists what there is.")
NOT_ALLOWED = Fault("method_not_allowed", "This path does not take this method.", "/openapi.json says which it takes.")

"""Outermost ASGI layer: access control, request ids, uniform errors, metrics and the request log."""

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from rewardharness.serving.body import ClientGoneError, Receive
from rewardharness.serving.dialects import HEALTH_PATHS
from rewardharness.serving.faults import DEFECT, ErrorReply, Fault, FieldProblem, RefusedError
from rewardharness.serving.security import Guard, clean_request_id
from rewardharness.serving.service import RequestContext, Service

log = logging.getLogger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]

GONE = 499
"""Status in log and metrics for a client that disconnected (as in nginx)."""

_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def usual_headers(context: RequestContext) -> list[tuple[bytes, bytes]]:
    """Return the headers of every reply."""
    return [*_HEADERS, (b"x-request-id", context.request_id.encode("ascii"))]


class Front:
    """ASGI layer around the application.

    Args:
        app: The application.
        service: The service with metrics and log.
        guard: Access control.
        endpoint: Returns what answers POST requests to a path without the routing of the application; None for none.
    """

    def __init__(
        self, app: Application, service: Service, guard: Guard, endpoint: Callable[[str], Endpoint | None]
    ) -> None:
        self._app = app
        self.service = service
        self._endpoint = endpoint
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
        context = RequestContext(clean_request_id(headers.get(b"x-request-id", b"").decode("latin-1")))
        scope["request_context"], scope["header_map"] = context, headers
        status = GONE

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *usual_headers(context)]
            await send(message)

        try:
            self._guard.check(scope["path"], headers)
            context.route = _QUESTIONS.get(scope["path"], context.route)
            endpoint = self._endpoint(scope["path"]) if scope["method"] == "POST" else None
            if endpoint is not None:
                response = await endpoint(Request(scope, receive))
                await response(scope, receive, send_with_headers)
                return
            # Routes for GET also accept HEAD (RFC 9110, 9.3.2), as load balancers expect; uvicorn omits the body.
            inner_scope = scope if scope["method"] != "HEAD" else {**scope, "method": "GET"}
            await self._app(inner_scope, receive, send_with_headers)
        except ClientGoneError:
            context.fault = "client_gone"
        except RefusedError as error:
            await refuse(send_with_headers, context, error)
        except Exception as error:
            log.error("answering %s failed unexpectedly: %s", context.route, type(error).__name__)
            log.debug("answering failed", exc_info=error)
            if status == GONE:
                await refuse(send_with_headers, context, RefusedError(500, DEFECT))
        finally:
            self._note(context, scope["method"], status)

    def _note(self, context: RequestContext, method: str, status: int) -> None:
        metrics = self.service.metrics
        metrics.requests.labels(str(status), context.route).inc()
        metrics.request_seconds.observe(time.perf_counter() - context.began)
        if context.fault is not None:
            metrics.refused.labels(context.fault).inc()
        if self.service.log is not None and context.route not in _QUIET:
            self.service.log.put(self.service.record(context, method, status))


_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Frequently polled routes, which are not logged."""
_QUESTIONS = {path: path for path in (*_QUIET, "/info")} | dict.fromkeys(HEALTH_PATHS, "/healthz")
"""Routes in metrics and log by path; those of rewards are set by their endpoints."""


async def refuse(send: Send, context: RequestContext, error: RefusedError) -> None:
    """Send an error in the common form."""
    status, headers, body = error_reply(context, error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_reply(context: RequestContext, error: RefusedError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of an error."""
    context.fault = error.fault.code
    if context.refuse is None:
        fields = tuple(FieldProblem(*problem) for problem in error.fields)
        status, media_type = error.status, "application/json"
        body = orjson.dumps(ErrorReply(context.request_id, error.fault, fields))
    else:
        status, media_type, body = context.refuse(error)
    headers = [(b"content-type", media_type.encode("ascii")), (b"content-length", str(len(body)).encode("ascii"))]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode("ascii")))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return status, headers, body


NOT_FOUND = Fault("not_found", "There is nothing at this path.", "/openapi.json lists what there is.")
NOT_ALLOWED = Fault("method_not_allowed", "This path does not take this method.", "/openapi.json says which it takes.")

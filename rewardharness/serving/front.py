"""ASGI application: access control, routing, uniform errors, metrics and the request log."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson

from rewardharness.serving.body import ClientGoneError, Receive
from rewardharness.serving.dialects import HEALTH_PATHS
from rewardharness.serving.faults import DEFECT, ErrorReply, Fault, FieldProblem, RefusedError
from rewardharness.serving.security import Guard, clean_request_id
from rewardharness.serving.service import RequestContext, Service

log = logging.getLogger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Answer = tuple[int, str, bytes]
"""Status, media type and body."""
Endpoint = Callable[[RequestContext, dict[bytes, bytes], Receive], Awaitable[Answer]]
"""Answers a request with these headers, by lowercase name."""
Reply = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers and body."""

GONE = 499
"""Status in log and metrics for a client that disconnected (as in nginx)."""


class Front:
    """The application.

    Args:
        service: The service with metrics and log.
        guard: Access control.
        routes: What answers, by path and method.
    """

    def __init__(self, service: Service, guard: Guard, routes: Mapping[str, Mapping[str, Endpoint]]) -> None:
        self.service = service
        self._guard = guard
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = dict(scope["headers"])
        context = RequestContext(clean_request_id(headers.get(b"x-request-id", b"").decode("latin-1")))
        status = GONE
        try:
            status, sent, body = await self._answer(context, scope["method"], scope["path"], headers, receive)
            await send({"type": "http.response.start", "status": status, "headers": sent})
            await send({"type": "http.response.body", "body": body})  # uvicorn leaves it out for HEAD
        except ClientGoneError:
            context.fault = "client_gone"
        finally:
            self._note(context, scope["method"], status)

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.service.close()
        if self.service.log is not None:
            self.service.log.close()
        if self.service.sample is not None:
            self.service.sample.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(
        self, context: RequestContext, method: str, path: str, headers: dict[bytes, bytes], receive: Receive
    ) -> Reply:
        try:
            self._guard.check(path, headers)
            context.route = _QUESTIONS.get(path, context.route)
            methods = self._routes.get(path)
            if methods is None:
                raise RefusedError(404, NOT_FOUND)
            if method not in methods:
                allowed = (b"allow", ", ".join(methods).encode("ascii"))
                return error_reply(context, RefusedError(405, NOT_ALLOWED), allowed)
            return _reply(context, await methods[method](context, headers, receive))
        except ClientGoneError:
            raise
        except RefusedError as error:
            return error_reply(context, error)
        except Exception as error:
            log.error("answering %s failed unexpectedly: %s", context.route, type(error).__name__)
            log.debug("answering failed", exc_info=error)
            return error_reply(context, RefusedError(500, DEFECT))

    def _note(self, context: RequestContext, method: str, status: int) -> None:
        metrics = self.service.metrics
        metrics.requests.labels(str(status), context.route).inc()
        metrics.request_seconds.observe(time.perf_counter() - context.began)
        if context.fault is not None:
            metrics.refused.labels(context.fault).inc()
        if self.service.log is not None and context.route not in _QUIET:
            self.service.log.put(self.service.record(context, method, status))
        if self.service.sample is not None and context.reply is not None:
            self.service.sample.draw(context.edits, context.reply.results)


_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Frequently polled routes, which are not logged."""
_QUESTIONS = {path: path for path in (*_QUIET, "/info")} | dict.fromkeys(HEALTH_PATHS, "/healthz")
"""Routes in metrics and log by path; those of rewards are set by their endpoints."""


def error_reply(context: RequestContext, error: RefusedError, *more: tuple[bytes, bytes]) -> Reply:
    """Return the reply for an error, with more headers."""
    context.fault = error.fault.code
    if error.retry_after is not None:
        more += ((b"retry-after", str(error.retry_after).encode("ascii")),)
    if error.status == 401:
        more += ((b"www-authenticate", b"Bearer"),)
    fields = tuple(FieldProblem(*problem) for problem in error.fields)
    body = orjson.dumps(ErrorReply(context.request_id, error.fault, fields))
    return _reply(context, (error.status, "application/json", body), *more)


def _reply(context: RequestContext, answer: Answer, *more: tuple[bytes, bytes]) -> Reply:
    status, media_type, body = answer
    headers = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", context.request_id.encode("ascii")),
    ]
    return status, [*headers, *more], body


NOT_FOUND = Fault("not_found", "There is nothing at this path.", "/openapi.json lists what there is.")
NOT_ALLOWED = Fault("method_not_allowed", "This path does not take this method.", "/openapi.json says which it takes.")

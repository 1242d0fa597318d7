"""HTTP interface: the ASGI application, its routes and their OpenAPI description.

The application does access control, routing, uniform errors, metrics and the request log.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cache
from typing import Any

import orjson
from fastapi import FastAPI, Response
from pydantic.json_schema import models_json_schema

from rewardharness import __version__
from rewardharness.schema import Json
from rewardharness.serving.body import (
    DIALECTS,
    HEALTH_PATHS,
    NAME,
    REQUEST_PART,
    UNIRL_REWARD,
    ClientGoneError,
    Dialect,
    Incoming,
    Receive,
    parse_body,
)
from rewardharness.serving.faults import DEFECT, ErrorReply, Fault, FieldProblem, RefusedError
from rewardharness.serving.monitoring import CONTENT_TYPE
from rewardharness.serving.results import RewardReply
from rewardharness.serving.security import Guard, clean_request_id
from rewardharness.serving.service import RequestContext, Service
from rewardharness.serving.wire import BatchRequest, CompareRequest, RankRequest, RewardRequest, ScoreRequest

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
        incoming = Incoming(receive, headers)
        status = GONE
        try:
            status, sent, body = await self._answer(context, scope["method"], scope["path"], headers, incoming)
            await send({"type": "http.response.start", "status": status, "headers": sent})
            # uvicorn leaves the body out for HEAD
            await send({"type": "http.response.body", "body": body, "more_body": incoming.more})
        except ClientGoneError:
            context.fault = "client_gone"
        finally:
            self._note(context, scope["method"], status)
        if incoming.more:
            await incoming.discard(self.service.limits.read_seconds)
            await send({"type": "http.response.body"})

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
            context.route = _NAMES.get(path, context.route)
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
_NAMES = {path: path for path in (*_QUIET, "/info")} | dict.fromkeys(HEALTH_PATHS, "/healthz")
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
    return _reply(context, (error.status, _JSON, body), *more)


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


_JSON = "application/json"
_Responses = dict[int | str, dict[str, Any]]
_ERRORS: _Responses = {
    400: {"description": "The body breaks its format."},
    401: {"description": "The token is missing or wrong."},
    403: {"description": "A page in a browser asks a server that has no token."},
    408: {"description": "The body did not come in time."},
    413: {"description": "The body, an image or a list is over a limit."},
    415: {"description": "The media type is not understood."},
    422: {"description": "A field is missing, unknown or wrong; `fields` names it."},
    429: {"description": "The server is busy; `Retry-After` says for how long."},
    503: {"description": "The server is shutting down."},
}
for _response in _ERRORS.values():
    _response["model"] = ErrorReply


def make_app(service: Service, guard: Guard) -> Front:
    """Create the application.

    Args:
        service: The service that handles requests.
        guard: Access control.
    """

    async def healthz(*_: Any) -> Answer:
        return 200, _JSON, b'{"status":"ok"}'

    async def readyz(*_: Any) -> Answer:
        fault = await service.readiness.problem()
        if fault is not None:
            raise RefusedError(503, fault, retry_after=5)
        return 200, _JSON, b'{"status":"ready"}'

    async def info(*_: Any) -> Answer:
        return 200, _JSON, orjson.dumps(service.info())

    async def metrics(*_: Any) -> Answer:
        return 200, CONTENT_TYPE, service.metrics.text()

    async def health(*_: Any) -> Answer:
        return 200, _JSON, orjson.dumps({"status": "ok", "rewards": {UNIRL_REWARD: [True]}})

    @cache
    def description() -> bytes:
        return orjson.dumps(_describe(service, guard))

    async def openapi(*_: Any) -> Answer:
        return 200, _JSON, description()

    questions: dict[str, Endpoint] = dict(zip(_QUESTIONS, (healthz, readyz, info, metrics), strict=True))
    questions |= {**dict.fromkeys(HEALTH_PATHS, health), "/openapi.json": openapi}
    rewards = {path: _rewards(service, path, model) for path, (model, _) in _ROUTES.items()}
    rewards |= {path: _rewards(service, path, BatchRequest, dialect) for path, dialect in DIALECTS.items()}
    # Load balancers expect HEAD where there is GET (RFC 9110, 9.3.2).
    routes = {path: {"GET": endpoint, "HEAD": endpoint} for path, endpoint in questions.items()}
    return Front(service, guard, routes | {path: {"POST": endpoint} for path, endpoint in rewards.items()})


_OWN = Dialect(parse_body, orjson.dumps)


def _rewards(service: Service, path: str, model: type[RewardRequest], dialect: Dialect = _OWN) -> Endpoint:
    """Return what answers requests for rewards."""

    async def answer(context: RequestContext, headers: dict[bytes, bytes], receive: Receive) -> Answer:
        context.route = path
        return 200, _JSON, dialect.write(await service.answer(context, headers, receive, model, dialect.parse))

    return answer


_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_YES: _Responses = {200: {"content": {_JSON: {"schema": _STATUS}}, "description": "Yes."}}
_GUARDED: _Responses = {401: _ERRORS[401], 403: _ERRORS[403]}
_INFO = {"content": {_JSON: {"schema": {"type": "object"}}}, "description": "Who judges."}
_TEXT = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters."}
_QUESTIONS: dict[str, tuple[str, _Responses]] = {
    "/healthz": ("Return ok while the server runs. Does not call the judge, and needs no token.", _YES),
    "/readyz": ("Return whether the judge is available. Needs no token.", {**_YES, 503: {"model": ErrorReply}}),
    "/info": ("Describe the judge and the limits.", {200: _INFO, **_GUARDED}),
    "/metrics": ("Return metrics in the Prometheus text format.", {200: _TEXT, **_GUARDED}),
}
_ROUTES: dict[str, tuple[type[RewardRequest], str]] = {
    "/score": (ScoreRequest, "Judge one edit, or two to four candidates of it together."),
    "/batch_score": (BatchRequest, "Judge many edits, each alone."),
    "/compare": (CompareRequest, "Compare two candidates in both orders."),
    "/rank": (RankRequest, "Rewards for a group of candidates of one edit."),
}
_REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "required": False,
    "description": "An id for this request; characters other than letters, digits, `.`, `_` and `-` are dropped.",
    "schema": {"type": "string"},
}


def _description(path: str) -> dict[str, Any]:
    """Return how OpenAPI describes a route that returns rewards."""
    model, text = _ROUTES[path]
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    multipart = {
        "type": "object",
        "properties": {REQUEST_PART: schema},
        "required": [REQUEST_PART],
        "propertyNames": {"pattern": f"^{NAME}$"},
        "additionalProperties": {"type": "string", "format": "binary"},
    }
    content = {
        _JSON: {"schema": schema},
        "multipart/form-data": {"schema": multipart, "encoding": {REQUEST_PART: {"contentType": _JSON}}},
    }
    return {
        "response_model": RewardReply,
        "responses": _ERRORS,
        "description": text,
        "name": path.strip("/"),
        "openapi_extra": {"requestBody": {"required": True, "content": content}, "parameters": [_REQUEST_ID]},
    }


def _describe(service: Service, guard: Guard) -> Json:
    """Build the OpenAPI document, including the limits of this server."""

    def answer() -> None:
        """Stand for an endpoint, whose reply `Front` sends."""

    text = "Rewards for instruction-guided image edits: a number in [0, 1] for each, or a reason why not."
    app = FastAPI(title="RewardHarness", version=__version__, description=text)
    for path in _ROUTES:
        app.post(path, **_description(path))(answer)
    for path, (text, responses) in _QUESTIONS.items():
        name = path.strip("/")
        app.get(path, name=name, description=text, responses=responses, response_class=Response)(answer)
    document = app.openapi()
    _, shapes = models_json_schema(
        [(model, "validation") for model, _ in _ROUTES.values()], ref_template="#/components/schemas/{model}"
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(shapes.get("$defs", {}))
    for model, _ in _ROUTES.values():
        schemas[model.__name__]["properties"]["images"]["maxProperties"] = service.limits.images
    schemas["BatchRequest"]["properties"]["items"]["maxItems"] = service.limits.items
    schemas["RankRequest"]["properties"]["candidates"]["maxItems"] = service.limits.group
    schemas["RankRequest"]["if"] = {"properties": {"method": {"const": "win_rate"}}, "required": ["method"]}
    schemas["RankRequest"]["then"] = {"properties": {"candidates": {"maxItems": service.limits.duels}}}
    if guard.token is not None:
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
        for path in ("/healthz", "/readyz"):
            document["paths"][path]["get"]["security"] = []
    return document

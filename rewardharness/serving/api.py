"""HTTP interface: routes and their OpenAPI description."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from rewardharness import __version__
from rewardharness.schema import Json
from rewardharness.serving.body import NAME, REQUEST_PART, parse_body
from rewardharness.serving.dialects import DIALECTS, HEALTH_PATHS, UNIRL_REWARD, Dialect
from rewardharness.serving.faults import ErrorReply, RefusedError
from rewardharness.serving.front import NOT_ALLOWED, NOT_FOUND, Endpoint, Front, error_reply
from rewardharness.serving.pickled import PICKLED
from rewardharness.serving.prometheus import CONTENT_TYPE
from rewardharness.serving.results import RewardReply
from rewardharness.serving.security import Guard
from rewardharness.serving.service import RequestContext, Service
from rewardharness.serving.wire import BatchRequest, CompareRequest, RankRequest, RewardRequest, ScoreRequest

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


def make_app(service: Service, guard: Guard, *, pickles: bool = False) -> Front:
    """Create the application.

    Args:
        service: The service that handles requests.
        guard: Access control.
        pickles: Whether to add the pickle protocols.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()
        if service.log is not None:
            service.log.close()

    app = FastAPI(
        title="RewardHarness",
        version=__version__,
        description="Rewards for instruction-guided image edits: a number in [0, 1] for each, or a reason why not.",
        docs_url=None,  # these pages load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    endpoints = {path: _endpoint(service, path, model) for path, (model, _) in _ROUTES.items()}
    endpoints |= {path: _endpoint(service, path, BatchRequest, dialect) for path, dialect in DIALECTS.items()}
    if pickles:
        endpoints |= dict.fromkeys(("/", "/mode/{name}"), _endpoint(service, "/", BatchRequest, PICKLED))
    for path, endpoint in endpoints.items():
        app.post(path, **(_description(path) if path in _ROUTES else {"include_in_schema": False}))(endpoint)
    _add_questions(app, service)

    def find(path: str) -> Endpoint | None:
        return endpoints.get(re.sub(r"^/mode/[^/]+$", "/mode/{name}", path))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return _refusal(request, error)

    async def wrong_address(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        fault = NOT_ALLOWED if error.status_code == 405 else NOT_FOUND
        reply = _refusal(request, RefusedError(error.status_code, fault))
        reply.headers.update(error.headers or {})
        if reply.headers.get("allow") == "GET":
            reply.headers["allow"] = "GET, HEAD"  # see `Front`
        return reply

    app.add_exception_handler(HTTPException, wrong_address)
    app.add_exception_handler(RefusedError, refused)
    app.openapi = lambda: _describe(app, service, guard)  # type: ignore[method-assign]
    return Front(app, service, guard, find)


def _add_questions(app: FastAPI, service: Service) -> None:
    """Add the routes for health, readiness, information and metrics."""
    few: _Responses = {401: _ERRORS[401], 403: _ERRORS[403]}

    async def healthz() -> Response:
        """Return ok while the server runs. Does not call the judge, and needs no token."""
        return Response(b'{"status":"ok"}', media_type=_JSON)

    async def readyz() -> Response:
        """Return whether the judge is available. Needs no token."""
        fault = await service.readiness.problem()
        if fault is not None:
            raise RefusedError(503, fault, retry_after=5)
        return Response(b'{"status":"ready"}', media_type=_JSON)

    async def info() -> Response:
        """Describe the judge and the limits."""
        return Response(orjson.dumps(service.info()), media_type=_JSON)

    async def metrics() -> Response:
        """Return metrics in the Prometheus text format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    async def health() -> Response:
        return Response(orjson.dumps({"status": "ok", "rewards": {UNIRL_REWARD: [True]}}), media_type=_JSON)

    status = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    yes: _Responses = {200: {"content": {_JSON: {"schema": status}}, "description": "Yes."}}
    app.get("/healthz", responses=yes, response_class=Response)(healthz)
    app.get("/readyz", responses={**yes, 503: {"model": ErrorReply}}, response_class=Response)(readyz)
    info_shape: _Responses = {200: {"content": {_JSON: {"schema": {"type": "object"}}}, "description": "Who judges."}}
    app.get("/info", responses={**info_shape, **few}, response_class=Response)(info)
    text: _Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters."}}
    app.get("/metrics", responses={**text, **few}, response_class=Response)(metrics)
    for path in HEALTH_PATHS:
        app.get(path, include_in_schema=False)(health)


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


_OWN = Dialect(parse_body, lambda reply: (200, orjson.dumps(reply)))


def _endpoint(service: Service, path: str, model: type[RewardRequest], dialect: Dialect = _OWN) -> Endpoint:
    """Return what answers requests for rewards; `Front` answers if it raises."""

    async def answer(request: Request) -> Response:
        context: RequestContext = request.scope["request_context"]
        context.route, context.refuse = dialect.route or path, dialect.refuse
        reply = await service.answer(context, request.scope["header_map"], request.receive, model, dialect.parse)
        status, body = dialect.write(reply)
        return Response(body, status, media_type=dialect.media_type)

    return answer


def _refusal(request: Request, error: RefusedError) -> Response:
    status, headers, body = error_reply(request.scope["request_context"], error)
    return Response(body, status, headers={name.decode("ascii"): value.decode("ascii") for name, value in headers})


def _describe(app: FastAPI, service: Service, guard: Guard) -> Json:
    """Build the OpenAPI document, including the limits of this server."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
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
        app.openapi_schema = document
    return app.openapi_schema

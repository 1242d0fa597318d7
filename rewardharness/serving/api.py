"""The HTTP interface: routes, and their description in OpenAPI."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from rewardharness import __version__
from rewardharness.schema import Json
from rewardharness.serving.body import NAME, REQUEST_PART, ClientGoneError
from rewardharness.serving.dialects import add_dialects
from rewardharness.serving.faults import DEFECT, ErrorReply, RefusedError
from rewardharness.serving.front import GONE, NOT_ALLOWED, NOT_FOUND, Front, error_reply, log
from rewardharness.serving.prometheus import CONTENT_TYPE
from rewardharness.serving.results import Reply
from rewardharness.serving.security import Guard
from rewardharness.serving.service import Handler, Service, Visit
from rewardharness.serving.wire import BatchRequest, CompareRequest, RankRequest, ScoreRequest

_JSON = "application/json"
_REQUESTS = (ScoreRequest, BatchRequest, CompareRequest, RankRequest)
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
for _each in _ERRORS.values():
    _each["model"] = ErrorReply


def make_app(service: Service, guard: Guard, *, pickles: bool = False) -> Front:
    """Make the application.

    Args:
        service: What answers.
        guard: Who may ask.
        pickles: Whether the pickle dialects are spoken.
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
        docs_url=None,  # their pages load programs from other machines
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    _add_rewards(app, service)  # first, because routes are tried one after the other
    _add_questions(app, service)
    add_dialects(app, service, pickles=pickles)

    async def wrong_address(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        fault = NOT_ALLOWED if error.status_code == 405 else NOT_FOUND
        reply = _refusal(request, RefusedError(error.status_code, fault))
        reply.headers.update(error.headers or {})
        if reply.headers.get("allow") == "GET":
            reply.headers["allow"] = "GET, HEAD"  # see `Front`
        return reply

    app.add_exception_handler(HTTPException, wrong_address)
    app.openapi = lambda: _describe(app, service, guard)  # type: ignore[method-assign]
    return Front(app, service, guard)


def _add_questions(app: FastAPI, service: Service) -> None:
    """Add what can be asked about the server."""
    few: _Responses = {401: _ERRORS[401], 403: _ERRORS[403]}

    async def healthz(request: Request) -> Response:
        """Say that the server lives. Asks nobody, and needs no token."""
        _visit(request).route = "/healthz"
        return Response(b'{"status":"ok"}', media_type=_JSON)

    async def readyz(request: Request) -> Response:
        """Say whether the judge can be asked. Needs no token."""
        _visit(request).route = "/readyz"
        trouble = await service.readiness.trouble()
        if trouble is not None:
            return _refusal(request, RefusedError(503, trouble, retry_after=5))
        return Response(b'{"status":"ready"}', media_type=_JSON)

    async def info(request: Request) -> Response:
        """Say who judges, and within which limits."""
        _visit(request).route = "/info"
        return Response(orjson.dumps(service.info()), media_type=_JSON)

    async def metrics(request: Request) -> Response:
        """Counters in the text format of Prometheus."""
        _visit(request).route = "/metrics"
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    status = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    shown: _Responses = {200: {"content": {_JSON: {"schema": status}}, "description": "Yes."}}
    app.get("/healthz", responses=shown, response_class=Response)(healthz)
    app.get("/readyz", responses={**shown, 503: {"model": ErrorReply}}, response_class=Response)(readyz)
    info_shape: _Responses = {200: {"content": {_JSON: {"schema": {"type": "object"}}}, "description": "Who judges."}}
    app.get("/info", responses={**info_shape, **few}, response_class=Response)(info)
    text: _Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counters."}}
    app.get("/metrics", responses={**text, **few}, response_class=Response)(metrics)


def _add_rewards(app: FastAPI, service: Service) -> None:
    """Add what answers with rewards."""

    def add(path: str, handler: Handler, request_model: type, words: str) -> None:
        schema = {"$ref": f"#/components/schemas/{request_model.__name__}"}
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
        app.post(
            path,
            response_model=Reply,
            responses=_ERRORS,
            description=words,
            name=path.strip("/"),
            openapi_extra={"requestBody": {"required": True, "content": content}, "parameters": [_REQUEST_ID]},
        )(_endpoint(path, handler))

    add("/score", service.score, ScoreRequest, "Judge one edit, or two to four candidates of it together.")
    add("/batch_score", service.batch_score, BatchRequest, "Judge many edits, each alone.")
    add("/compare", service.compare, CompareRequest, "Compare two candidates in both orders.")
    add("/rank", service.rank, RankRequest, "Rewards for a group of candidates of one edit.")


_REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "required": False,
    "description": "An id for this request; characters other than letters, digits, `.`, `_` and `-` are dropped.",
    "schema": {"type": "string"},
}


def _endpoint(path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = _visit(request)
        visit.route = path
        try:
            reply = await handler(visit, request.scope["header_map"], request.receive)
        except RefusedError as error:
            return _refusal(request, error)
        except ClientGoneError:
            visit.fault = "client_gone"
            return Response(status_code=GONE)  # nobody reads it
        except Exception as error:
            log.error("answering %s failed unexpectedly: %s", path, type(error).__name__)
            log.debug("answering failed", exc_info=error)
            return _refusal(request, RefusedError(500, DEFECT))
        return Response(orjson.dumps(reply), media_type=_JSON)

    return answer


def _visit(request: Request) -> Visit:
    visit = request.scope["visit"]
    assert isinstance(visit, Visit)
    return visit


def _refusal(request: Request, error: RefusedError) -> Response:
    status, headers, body = error_reply(_visit(request), error)
    return Response(body, status, headers={name.decode("ascii"): value.decode("ascii") for name, value in headers})


def _describe(app: FastAPI, service: Service, guard: Guard) -> Json:
    """Describe the interface; limits that this server was started with are in it."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, shapes = models_json_schema(
            [(model, "validation") for model in _REQUESTS], ref_template="#/components/schemas/{model}"
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(shapes.get("$defs", {}))
        for model in _REQUESTS:
            schemas[model.__name__]["properties"]["images"]["maxProperties"] = service.limits.images
        schemas["BatchRequest"]["properties"]["items"]["maxItems"] = service.limits.items
        schemas["RankRequest"]["properties"]["candidates"]["maxItems"] = service.limits.group
        schemas["RankRequest"]["if"] = {"properties": {"method": {"const": "win_rate"}}, "required": ["method"]}
        schemas["RankRequest"]["then"] = {"properties": {"candidates": {"maxItems": service.limits.duels}}}
        if guard.token is not None:
            found["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
            found["security"] = [{"bearer": []}]
            for path in ("/healthz", "/readyz"):
                found["paths"][path]["get"]["security"] = []
        app.openapi_schema = found
    return app.openapi_schema

"""Routes for trainers with other protocols, with the same judging, limits, metrics and log."""

from collections.abc import Callable

import orjson
from fastapi import FastAPI, Request, Response

from rewardharness.schema import Json
from rewardharness.serving import flow_factory, pickled, unirl
from rewardharness.serving.body import ClientGoneError, Parse
from rewardharness.serving.faults import DEFECT, RefusedError
from rewardharness.serving.front import GONE, error_reply, log
from rewardharness.serving.results import RewardReply
from rewardharness.serving.service import RequestContext, Service


def add_dialects(app: FastAPI, service: Service, *, pickles: bool) -> None:
    """Add the routes of other protocols.

    Args:
        app: The application.
        service: The service that handles requests.
        pickles: Whether to add the pickle protocols; only for servers that accept local connections only.
    """

    def json_route(path: str, parse: Parse, write: Callable[[RewardReply], Json]) -> None:
        async def score(request: Request) -> Response:
            context = _context(request, path)
            try:
                reply = await service.batch_score(context, request.scope["header_map"], request.receive, parse)
            except RefusedError as error:
                status, headers, body = error_reply(context, error)
                plain = {name.decode("ascii"): value.decode("ascii") for name, value in headers}
                return Response(body, status, headers=plain)
            return Response(orjson.dumps(write(reply)), media_type="application/json")

        app.post(path, include_in_schema=False)(score)

    async def health(request: Request) -> Response:
        _context(request, "/healthz")
        return Response(orjson.dumps({"status": "ok", "rewards": {unirl.NAME: [True]}}), media_type="application/json")

    async def pickle_score(request: Request) -> Response:
        context = _context(request, "pickle")
        try:
            reply = await service.batch_score(
                context, request.scope["header_map"], request.receive, pickled.read_pickled
            )
            status, body = pickled.write_pickled(reply)
        except RefusedError as error:
            context.fault = error.fault.code
            status, body = pickled.write_refusal(error)
        except ClientGoneError:
            context.fault = "client_gone"
            return Response(status_code=GONE)
        except Exception as error:
            log.error("answering a pickle failed unexpectedly: %s", type(error).__name__)
            log.debug("answering failed", exc_info=error)
            status, body = pickled.write_refusal(RefusedError(500, DEFECT))
        return Response(body, status, media_type=pickled.CONTENT_TYPE)

    json_route("/unirl/score", unirl.read_unirl, unirl.write_unirl)
    json_route("/flow_factory/compute", flow_factory.read_flow_factory, flow_factory.write_flow_factory)
    for trainer in ("unirl", "flow_factory"):  # both ask for this before they train
        app.get(f"/{trainer}/health", include_in_schema=False)(health)
    if pickles:
        app.post("/", include_in_schema=False)(pickle_score)
        app.post("/mode/{name}", include_in_schema=False)(pickle_score)


def _context(request: Request, route: str) -> RequestContext:
    context = request.scope["request_context"]
    assert isinstance(context, RequestContext)
    context.route = route
    return context

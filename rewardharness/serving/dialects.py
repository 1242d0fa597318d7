"""Routes for trainers with other protocols, with the same judging, limits, metrics and log."""

import orjson
from fastapi import FastAPI, Request, Response

from rewardharness.serving import pickled, unirl
from rewardharness.serving.body import ClientGoneError
from rewardharness.serving.faults import DEFECT, RefusedError
from rewardharness.serving.front import GONE, error_reply, log
from rewardharness.serving.service import RequestContext, Service


def add_dialects(app: FastAPI, service: Service, *, pickles: bool) -> None:
    """Add the routes of other protocols.

    Args:
        app: The application.
        service: The service that handles requests.
        pickles: Whether to add the pickle protocols; only for servers that accept local connections only.
    """

    async def unirl_score(request: Request) -> Response:
        context = _context(request, "/unirl/score")
        try:
            reply = await service.batch_score(context, request.scope["header_map"], request.receive, unirl.read_unirl)
        except RefusedError as error:
            status, headers, body = error_reply(context, error)
            plain = {name.decode("ascii"): value.decode("ascii") for name, value in headers}
            return Response(body, status, headers=plain)
        return Response(orjson.dumps(unirl.write_unirl(reply)), media_type="application/json")

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

    app.post("/unirl/score", include_in_schema=False)(unirl_score)
    if pickles:
        app.post("/", include_in_schema=False)(pickle_score)
        app.post("/mode/{name}", include_in_schema=False)(pickle_score)


def _context(request: Request, route: str) -> RequestContext:
    context = request.scope["request_context"]
    assert isinstance(context, RequestContext)
    context.route = route
    return context

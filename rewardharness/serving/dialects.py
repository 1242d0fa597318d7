"""Routes for trainers that speak otherwise: the same judging, limits, counters and log, in other words."""

import orjson
from fastapi import FastAPI, Request, Response

from rewardharness.serving import pickled, unirl
from rewardharness.serving.body import ClientGoneError
from rewardharness.serving.faults import DEFECT, RefusedError
from rewardharness.serving.front import GONE, error_reply, log
from rewardharness.serving.service import Service, Visit


def add_dialects(app: FastAPI, service: Service, *, pickles: bool) -> None:
    """Add the routes.

    Args:
        app: The application.
        service: What answers.
        pickles: Whether the pickle dialects are spoken; only where nobody but this machine can ask.
    """

    async def unirl_score(request: Request) -> Response:
        visit = _visit(request, "/unirl/score")
        try:
            reply = await service.batch_score(visit, request.scope["header_map"], request.receive, unirl.read_unirl)
        except RefusedError as error:
            status, headers, body = error_reply(visit, error)
            plain = {name.decode("ascii"): value.decode("ascii") for name, value in headers}
            return Response(body, status, headers=plain)
        return Response(orjson.dumps(unirl.write_unirl(reply)), media_type="application/json")

    async def pickle_score(request: Request) -> Response:
        visit = _visit(request, "pickle")
        try:
            reply = await service.batch_score(visit, request.scope["header_map"], request.receive, pickled.read_pickled)
            status, body = pickled.write_pickled(reply)
        except RefusedError as error:
            visit.fault = error.fault.code
            status, body = pickled.write_refusal(error)
        except ClientGoneError:
            visit.fault = "client_gone"
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


def _visit(request: Request, route: str) -> Visit:
    visit = request.scope["visit"]
    assert isinstance(visit, Visit)
    visit.route = route
    return visit

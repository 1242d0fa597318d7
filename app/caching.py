"""Caching of what the page loads: files whose path names their content stay in the browser."""

import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PUBLIC = "public, max-age=31536000, immutable"
PRIVATE = "private, max-age=86400, immutable"

_BUILT = re.compile(r"/assets/(?:[^/]+/)*[^/]+-[\w-]{8}\.(?:js|css|woff2?|ttf|svg|png|wasm)")
"""Files of the page; the name ends in eight letters of a hash."""

_UPLOADED = re.compile(r"/gradio_api/file=.*/[0-9a-f]{64}/[^/]+")
"""Images of visitors and of samples; the folder is the hash of the content. Gradio removes them after a day."""


def policy(path: str) -> str | None:
    """Return the `Cache-Control` of a path; None for one whose content may change."""
    if _BUILT.fullmatch(path):
        return PUBLIC
    return PRIVATE if _UPLOADED.fullmatch(path) else None


class CacheMiddleware:
    """Adds `Cache-Control` to successful answers.

    Args:
        app: The app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        wanted = policy(str(scope.get("path", ""))) if scope["type"] == "http" else None

        async def reply(message: Message) -> None:
            if wanted is not None and message["type"] == "http.response.start" and message["status"] in {200, 206, 304}:
                MutableHeaders(scope=message)["Cache-Control"] = wanted
            await send(message)

        await self._app(scope, receive, reply)

"""Results that a user of this computer keeps under an address of the app."""

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rewardharness import files

ADDRESS = "/comparison/{name}"
"""Address of a kept result."""

HEADERS = {
    # The page holds text of datasets and models: nothing in it may run or fetch.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
}


class KeptPages:
    """Kept results, one self-contained page each.

    Args:
        folder: Where they are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, page: str) -> str:
        """Keep a page, and return its address, which follows from its content."""
        name = files.sha256(page.encode())[:32]
        files.write_text(self._folder / f"{name}.html", page)
        return ADDRESS.format(name=name)

    def routes(self) -> list[Route]:
        """Return the routes that serve the pages."""

        def serve(request: Request) -> Response:
            name = str(request.path_params["name"])
            path = self._folder / f"{name}.html"
            if not re.fullmatch("[0-9a-f]{32}", name) or not path.is_file():
                return Response("There is no such comparison.", 404, media_type="text/plain")
            return Response(path.read_bytes(), media_type="text/html", headers=HEADERS)

        return [Route(ADDRESS, serve)]

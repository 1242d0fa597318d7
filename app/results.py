"""Files of the results on the page: downloads, and images with what a candidate changed. Drawn when they are opened.

An address holds the random name of a result, which only the visitor's page knows.
"""

import json
import threading
from collections import OrderedDict
from io import BytesIO
from pathlib import Path

from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app import sharing
from app.comparisons import Comparison
from app.kept import HEADERS
from rewardharness import files
from rewardharness.errors import HarnessError
from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.images import load_picture
from rewardharness.measure.regions import change_map
from rewardharness.measure.view import EditView
from rewardharness.schema import ImageInput

RECORD, REPORT, PICTURE, MARKS = "judgment.json", "comparison.html", "comparison.png", ".webp"
"""Names of the files of a result; for the marks of a candidate, what follows its letter."""

MAX_RESULTS = 400
"""Maximum number of results whose files can be opened; the oldest go first."""

MAX_FILES = 60
"""Maximum number of drawn files that are kept."""

TYPES = {".json": "application/json", ".html": "text/html", ".png": "image/png", ".webp": "image/webp"}


def address(comparison: Comparison, file: str) -> str:
    """Return the address of a file of a result, relative to the page."""
    return f"result/{comparison.name}/{file}"


class Results:
    """The results on the pages of all visitors; safe to use from several threads.

    Args:
        folder: Where drawn files are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock, self._drawing = threading.Lock(), threading.Lock()
        self._results: OrderedDict[str, Comparison] = OrderedDict()

    def add(self, comparison: Comparison) -> None:
        """Serve the files of a result from now on."""
        with self._lock:
            self._results[comparison.name] = comparison
            self._results.move_to_end(comparison.name)
            while len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)

    def open(self, name: str, file: str) -> tuple[bytes, str] | None:
        """Return the content of a file and the name to save it under; None if there is no such file.

        Raises:
            HarnessError: If an image has been deleted.
        """
        with self._lock:
            comparison = self._results.get(name)
        if comparison is None or file not in _files(comparison):
            return None
        path = self._folder / f"{name}-{file}"
        with self._drawing:  # one at a time: visitors must not take all processors with it
            if not path.is_file():
                files.write_bytes(path, _draw(comparison, file))
                for old in sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)[:-MAX_FILES]:
                    old.unlink(missing_ok=True)
            stem, ending = Path(file).stem, Path(file).suffix
            return path.read_bytes(), f"{stem}-{files.content_id(sharing.record(comparison))[:12]}{ending}"

    def routes(self) -> list[Route]:
        """Return the routes that serve the files."""

        def serve(request: Request) -> Response:
            file = str(request.path_params["file"])
            try:
                found = self.open(str(request.path_params["name"]), file)
            except HarnessError as error:
                return Response(str(error), 410, media_type="text/plain")
            if found is None:
                return Response("This result has expired. Compare again.", 404, media_type="text/plain")
            content, name = found
            shown = "inline" if file.endswith(MARKS) else "attachment"
            headers = HEADERS | {"Content-Disposition": f'{shown}; filename="{name}"'}
            return Response(content, media_type=TYPES[Path(file).suffix], headers=headers)

        return [Route("/result/{name}/{file}", serve)]


def _files(comparison: Comparison) -> list[str]:
    return [RECORD, REPORT, PICTURE, *(f"{label}{MARKS}" for label in comparison.example.labels)]


def _draw(comparison: Comparison, file: str) -> bytes:
    if file == RECORD:
        return json.dumps(sharing.record(comparison), indent=2).encode()
    if file == REPORT:
        return sharing.page(comparison).encode()
    return sharing.picture(comparison) if file == PICTURE else _marked(comparison, file.removesuffix(MARKS))


def _marked(comparison: Comparison, label: str) -> bytes:
    """Return the source with what a candidate changed, tinted."""
    example = comparison.example
    candidate = example.candidate_images[example.labels.index(label)]
    assert isinstance(candidate, ImageInput)
    view = EditView(load_picture(example.source_image), load_picture(candidate))
    overlay = change_map(view, read_instruction(example.instruction)).overlay
    assert overlay is not None
    out = BytesIO()
    Image.fromarray(overlay).save(out, "WEBP", quality=85, method=2)
    return out.getvalue()

"""Files of the results on the page: downloads, and images with what a candidate changed. Drawn when they are opened.

An address holds the random name of a result, which only the visitor's page knows.
"""

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.markup import escape
from app.run_panel.following import keep
from app.score import sharing
from app.score.comparisons import Comparison
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


class ResultFiles:
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
            keep(self._results, comparison.name, comparison, MAX_RESULTS)

    def open(self, name: str, file: str) -> tuple[bytes, str] | None:
        """Return the content of a file and the name to save it under; None if there is no such file.

        Raises:
            HarnessError: If an image has been deleted.
        """
        with self._lock:
            comparison = self._results.get(name)
        marks = [f"{label}{MARKS}" for label in comparison.example.labels] if comparison is not None else []
        if comparison is None or file not in {RECORD, REPORT, PICTURE, *marks}:
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


def _draw(comparison: Comparison, file: str) -> bytes:
    if file == RECORD:
        return json.dumps(sharing.record(comparison), indent=2).encode()
    if file == REPORT:
        return sharing.page(comparison).encode()
    if file == PICTURE:
        return sharing.picture(comparison)
    example = comparison.example  # the source with what a candidate changed, tinted
    candidate = example.candidate_images[example.labels.index(file.removesuffix(MARKS))]
    assert isinstance(candidate, ImageInput)
    view = EditView(load_picture(example.source_image), load_picture(candidate))
    overlay = change_map(view, read_instruction(example.instruction)).overlay
    assert overlay is not None
    out = BytesIO()
    Image.fromarray(overlay).save(out, "WEBP", quality=85, method=2)
    return out.getvalue()


MODES = {"slider": "Slider", "sides": "Side by side", "flip": "One at a time"}
"""How two images are shown, by name."""


def viewer(comparison: Comparison, right: str) -> str:
    """Return the viewer with the source on the left.

    Args:
        comparison: The result. Its images must be in the folder of uploads, from which they are served as they are.
        right: Label of the candidate on the right.
    """
    example = comparison.example
    sources = ["Source", *(f"Image {number}" for number in range(2, 2 + len(example.references)))]
    names = [*sources, *example.labels]
    images = (example.source_image, *example.references, *example.candidate_images)
    marked = {label: f' data-marked="{address(comparison, label + MARKS)}"' for label in example.labels}
    files = "".join(
        f'<img data-name="{escape(name)}" src="gradio_api/file={escape(quote(str(image.path)))}" alt="" hidden'
        f"{marked.get(name, '')}>"
        for name, image in zip(names, images, strict=True)
    )
    sides = {name: name for name in names}
    left, others = _choice("left", "Left", sides, "Source"), _choice("right", "Right", sides, right)
    modes = _choice("mode", "View", MODES, "slider")
    pane = '<figure class="pane {0}"><div class="plane"><img alt=""></div><figcaption></figcaption></figure>'
    return (
        f'<div class="rh viewer"><div class="viewer-bar">{left}{others}{modes}'
        '<label class="chip"><input type="checkbox" name="marks"><span>Mark what changed</span></label></div>'
        f'<div class="stage">{pane.format("left")}{pane.format("right")}</div>'
        '<div class="viewer-bar"><label class="divider"><span>Divider</span>'
        '<input type="range" name="cut" min="0" max="100" step="0.5" value="50"></label>'
        '<button type="button" name="flip">Show the other</button>'
        '<span class="zooms" role="group" aria-label="Zoom of both images"><button type="button" name="out" '
        'aria-label="Zoom out">&minus;</button><output>100%</output><button type="button" name="in" '
        'aria-label="Zoom in">+</button><button type="button" name="fit">Fit</button></span>'
        f'</div><div class="files">{files}</div></div>'
    )


def _choice(name: str, legend: str, choices: Mapping[str, str], chosen: str) -> str:
    chips = "".join(
        f'<label class="chip"><input type="radio" name="viewer-{name}" value="{escape(value)}"'
        f"{_label(value)}"
        f"{' checked' if value == chosen else ''}><span>{escape(text)}</span></label>"
        for value, text in choices.items()
    )
    return f'<fieldset class="{name}"><legend>{legend}</legend>{chips}</fieldset>'


def _label(value: str) -> str:
    """Return the attribute that names a candidate for a screen reader; its chip shows the letter alone."""
    return f' aria-label="Candidate {escape(value)}"' if len(value) == 1 else ""


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

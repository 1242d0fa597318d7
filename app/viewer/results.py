"""Files of the results on the page: downloads, and images with what a candidate changed. Drawn when they are opened.

An address holds the random name of a result, which only the visitor's page knows.
"""

import json
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import lru_cache
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
from app.viewer.pictures import shrunk
from rewardharness import files
from rewardharness.errors import HarnessError
from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.images import load_picture
from rewardharness.measure.regions import change_map
from rewardharness.measure.view import EditView
from rewardharness.schema import Example, ImageInput, images_of

RECORD, REPORT, MARKS = "judgment.json", "comparison.html", ".webp"
"""Names of the files of a result; for the marks of a candidate, what follows its letter."""

MAX_RESULTS = 400
"""Maximum number of results whose files can be opened; the oldest go first."""

MAX_FILES = 60
"""Maximum number of drawn files that are kept."""

MAX_EXAMPLES = 4000
"""Maximum number of examples whose images can be opened; the oldest go first."""

SMALL, LARGE = 120, 1600
"""Longest sides in pixels in which the images of examples are served."""

MAX_FRAMES = 6
"""Frames of a video that the viewer shows."""

_SIZED = re.compile(rf"(\d{{1,4}})-({SMALL}|{LARGE})\.webp")
"""Names of the files of images of examples: place of the image in the example, and longest side."""
PICTURES = "private, max-age=3600"
"""`Cache-Control` of the images of examples, whose address is new when the app starts again."""

HEADERS = {
    # A page holds text of datasets and models: nothing in it may run or fetch.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
}

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
        self._examples: OrderedDict[str, Example] = OrderedDict()
        self._names: dict[Example, str] = {}

    def add(self, comparison: Comparison) -> None:
        """Serve the files of a result from now on."""
        with self._lock:
            keep(self._results, comparison.name, comparison, MAX_RESULTS)

    def serve(self, example: Example) -> str:
        """Serve the images of an example from now on, and return its random name, the same each time."""
        with self._lock:
            name = self._names.setdefault(example, secrets.token_hex(16))
            keep(self._examples, name, example, MAX_EXAMPLES)
            if len(self._names) > len(self._examples):
                self._names = {entry: name for name, entry in self._examples.items()}
            return name

    def pictures(self, example: Example, side: int) -> list[tuple[str, str]]:
        """Return letter or title and address of each image of an example, of a video of some frames.

        Args:
            example: The example.
            side: `SMALL` or `LARGE`.
        """
        name, pictures, place = self.serve(example), list[tuple[str, str]](), 0
        sources = ["Source", *(f"Image {number}" for number in range(2, 1 + len(example.sources)))]
        titles = (*sources[: len(example.sources)], *example.labels)
        for title, media in zip(titles, (*example.sources, *example.candidates), strict=True):
            count = len(images_of(media))
            step = max(1, -(-count // MAX_FRAMES))
            for number in range(0, count, step):
                frame = f"{title} {number + 1}" if count > 1 else title
                pictures.append((frame, f"result/{name}/{place + number}-{side}.webp"))
            place += count
        return pictures

    def view(self, example: Example, right: str = "") -> str:
        """Return the viewer of an example, empty without images.

        Args:
            example: The example.
            right: Letter of the candidate on the right; empty for the labeled or the first one.
        """
        name = self.serve(example)
        media = (*example.sources, *example.candidates)
        edits = bool(example.sources) and all(isinstance(medium, ImageInput) for medium in media)
        marks = {label: f"result/{name}/{label}{MARKS}" for label in example.labels} if edits else {}
        images = {title: (place, marks.get(title, "")) for title, place in self.pictures(example, LARGE)}
        offered = (right, example.preference, example.labels[0], f"{example.labels[0]} 1")
        chosen = next((title for title in offered if title in images), "")
        return draw_viewer(images, str(chosen), name) if chosen else ""

    def remove(self, comparisons: Iterable[Comparison]) -> None:
        """Delete the files of results."""
        for comparison in comparisons:
            with self._lock:
                self._results.pop(comparison.name, None)
            for path in self._folder.glob(f"{comparison.name}-*"):
                path.unlink(missing_ok=True)

    def open(self, name: str, file: str) -> tuple[bytes, str] | None:
        """Return the content of a file and the name to save it under; None if there is no such file.

        Raises:
            HarnessError: If an image has been deleted.
        """
        with self._lock:
            comparison = self._results.get(name)
            example = self._examples.get(name) if comparison is None else comparison.example
        if example is None:
            return None
        if small := _SIZED.fullmatch(file):
            place, side = int(small[1]), int(small[2])
            if place >= len(example.images):
                return None
            image = example.images[place]
            return _small(image) if side == SMALL else _encoded(shrunk(image, LARGE), 90), file
        marks = [f"{label}{MARKS}" for label in example.labels]
        if file not in ({RECORD, REPORT} if comparison is not None else set()) | set(marks):
            return None
        path = self._folder / f"{name}-{file}"
        with self._drawing:  # one at a time: visitors must not take all processors with it
            if not path.is_file():
                files.write_bytes(path, _draw(example, comparison, file))
                for old in sorted(self._folder.iterdir(), key=lambda entry: entry.stat().st_mtime)[:-MAX_FILES]:
                    old.unlink(missing_ok=True)
            stem, ending = Path(file).stem, Path(file).suffix
            content = name if comparison is None else files.content_id(sharing.record(comparison))
            return path.read_bytes(), f"{stem}-{content[:12]}{ending}"

    def routes(self) -> list[Route]:
        """Return the routes that serve the files."""

        def serve(request: Request) -> Response:
            file = str(request.path_params["file"])
            try:
                download = self.open(str(request.path_params["name"]), file)
            except HarnessError as error:
                return Response(str(error), 410, media_type="text/plain")
            if download is None:
                return Response("This result has expired. Compare again.", 404, media_type="text/plain")
            content, name = download
            disposition = "inline" if file.endswith(MARKS) else "attachment"
            headers = HEADERS | {"Content-Disposition": f'{disposition}; filename="{name}"'}
            headers |= {"Cache-Control": PICTURES} if _SIZED.fullmatch(file) else {}
            return Response(content, media_type=TYPES[Path(file).suffix], headers=headers)

        return [Route("/result/{name}/{file}", serve)]


def _draw(example: Example, comparison: Comparison | None, file: str) -> bytes:
    if comparison is not None and file == RECORD:
        return json.dumps(sharing.record(comparison), indent=2).encode()
    if comparison is not None and file == REPORT:
        return sharing.page(comparison).encode()
    # the source with what a candidate changed, tinted
    candidate = example.candidate_images[example.labels.index(file.removesuffix(MARKS))]
    view = EditView(load_picture(example.source_image), load_picture(candidate))
    overlay = change_map(view, read_instruction(example.instruction)).overlay
    assert overlay is not None
    return _encoded(Image.fromarray(overlay), 85)


@lru_cache(maxsize=2000)
def _small(image: ImageInput) -> bytes:
    return _encoded(shrunk(image, SMALL), 70)


def _encoded(image: Image.Image, quality: int) -> bytes:
    out = BytesIO()
    image.save(out, "WEBP", quality=quality, method=0)
    return out.getvalue()


STAGE = "Both images. Plus and minus zoom, 0 fits them."
"""Name of the images for a screen reader."""

MODES = {"slider": "Slider", "sides": "Side by side", "flip": "One at a time"}
"""How two images are shown, by name."""


def viewer(comparison: Comparison, right: str) -> str:
    """Return the viewer with the source on the left.

    Args:
        comparison: The result. Its images must be in the folder of uploads, from which they are served as they are.
        right: Label of the candidate on the right.
    """
    return draw_viewer(shown_images(comparison), right, comparison.name)


def shown_images(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return the images of a result as `draw_viewer` takes them."""
    example = comparison.example
    names = ["Source", *(f"Image {number}" for number in range(2, 2 + len(example.references))), *example.labels]
    images = (example.source_image, *example.references, *example.candidate_images)
    return {
        name: (uploaded_at(image), address(comparison, name + MARKS) if len(name) == 1 else "")
        for name, image in zip(names, images, strict=True)
    }


def uploaded_at(image: ImageInput) -> str:
    """Return the address of an image in the folder of uploads, relative to the page."""
    return f"gradio_api/file={quote(str(image.path))}"


def draw_viewer(shown: Mapping[str, tuple[str, str]], right: str, key: str = "") -> str:
    """Return the viewer of images.

    Args:
        shown: Address of each image by its name, and of the source with what a candidate changed; may be empty.
        right: Name of the image on the right; the first one is on the left.
        key: Distinguishes the viewer from others on the page.
    """
    files = "".join(
        f'<img data-name="{escape(name)}" src="{escape(image)}" alt="" hidden data-marked="{escape(marks)}">'
        for name, (image, marks) in shown.items()
    )
    sides = {name: name for name in shown}
    left, others = (
        _choice(f"left-{key}", "Left", sides, next(iter(shown))),
        _choice(f"right-{key}", "Right", sides, right),
    )
    modes = _choice(f"mode-{key}", "View", MODES, "slider")
    changed = '<label class="chip"><input type="checkbox" name="marks"><span>Mark what changed</span></label>'
    marked = changed if any(marks for _, marks in shown.values()) else ""
    pane = '<figure class="pane {0}"><div class="plane"><img alt=""></div><figcaption></figcaption></figure>'
    return (
        f'<div class="rh viewer"><div class="viewer-bar">{left}{others}{modes}'
        f"{marked}</div>"
        f'<div class="stage" tabindex="0" role="group" aria-label="{STAGE}">'
        f"{pane.format('left')}{pane.format('right')}</div>"
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
    return f'<fieldset class="{name.partition("-")[0]}"><legend>{legend}</legend>{chips}</fieldset>'


def _label(value: str) -> str:
    """Return the attribute that names a candidate for a screen reader; its chip shows the letter alone."""
    return f' aria-label="Candidate {escape(value)}"' if len(value) == 1 else ""

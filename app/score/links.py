"""Kept links: a page with a result, its images and who may delete it, behind a random name."""

import json
import re
import secrets
import shutil
import threading
import time
from base64 import b64encode
from collections import Counter
from functools import cache
from importlib.resources import files as resources
from io import BytesIO
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.score import sharing
from app.score.comparisons import Comparison, Draft
from app.viewer.results import MARKS, TYPES, ResultFiles, draw_viewer
from rewardharness import files
from rewardharness.errors import InputError
from rewardharness.report_html import render_html
from rewardharness.schema import LABELS, SOURCES

DAY, MEGABYTE = 86_400, 1_000_000

MAX_LINKS, MAX_OWN, MAX_SIZE = 200, 10, 20 * MEGABYTE
"""Maximum number of links of visitors, of links of one address, and bytes of one link."""

ADDRESS = "comparison/{name}"
"""Address of a link, relative to that of the app."""

PAGE, ABOUT = "page.html", "about.json"
"""Names of the files of a link beside images."""

_SECRET, _IMAGE = re.compile("[0-9a-f]{32}"), re.compile(r"[a-z0-9-]+\.(png|webp)")


class KeptLinks:
    """The kept links of an app; safe to use from several threads.

    Args:
        folder: Where they are stored.
        days: Days after which a link of a visitor is removed; 0 where visitors keep none.
        local: Whether visitors use this computer. Then links stay until they are deleted.
    """

    def __init__(self, folder: Path, days: int, *, local: bool) -> None:
        self._folder, self._days, self._local, self._lock = folder, days, local, threading.Lock()
        self.offered = local or days > 0
        """Whether links are kept here."""

    def keep(self, comparison: Comparison, results: ResultFiles, secret: str, address: str = "") -> str:
        """Keep a result, and return the address of its page, relative to that of the app.

        Args:
            comparison: The result.
            results: Draws what the candidates changed.
            secret: Secret of the browser, which may delete the link.
            address: Pseudonym of the address that it comes from.

        Raises:
            HarnessError: If no links are kept here, the images are too large, or one has been deleted.
        """
        if not self.offered:
            raise InputError("No links are kept here.", next_step="Download the report instead.")
        name = secrets.token_hex(16)
        content = _files(comparison, results, name)
        if not self._local and sum(map(len, content.values())) > MAX_SIZE:
            text = f"The images take more than {MAX_SIZE // MEGABYTE} MB, the maximum of a link."
            raise InputError(text, next_step="Scale them down, or download the report instead.")
        about = {"instruction": comparison.example.instruction, "maker": files.sha256(secret.encode()), "from": address}
        with self._lock:
            self._make_room(address)
            files.replace_folder(self._folder / name, content | {ABOUT: json.dumps(about).encode()})
        return ADDRESS.format(name=name)

    def _make_room(self, address: str) -> None:
        """Remove expired links; then, at a limit, the oldest link of the address, or else of the one with most."""
        held = [folder / ABOUT for folder in self._folder.glob("*") if self.find(folder.name)]
        held.sort(key=lambda about: about.stat().st_mtime)
        makers = [files.read_json(about)["from"] for about in held]
        most, count = Counter(makers).most_common(1) or [("", 0)], makers.count(address)
        if not self._local and (count >= MAX_OWN or len(held) >= MAX_LINKS):
            shutil.rmtree(held[makers.index(address if count >= MAX_OWN else most[0][0])].parent)

    def find(self, name: str) -> Path | None:
        """Return the folder of a link; None if there is none. It is removed once its time is over."""
        folder = self._folder / name
        if not _SECRET.fullmatch(name) or not (folder / ABOUT).is_file():
            return None
        if self._local or time.time() - (folder / ABOUT).stat().st_mtime < self._days * DAY:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        return None

    def draft(self, name: str) -> Draft | None:
        """Return the inputs of a link; None if there is no such link."""
        if (folder := self.find(name)) is None:
            return None
        images = [str(path) if (path := folder / _image(title)).is_file() else None for title in _TITLES]
        instruction = str(files.read_json(folder / ABOUT)["instruction"])
        return Draft(images[0], tuple(images[SOURCES:]), tuple(images[1:SOURCES]), instruction)

    def may_delete(self, name: str, secret: str) -> bool:
        """Whether a link was kept by the browser with this secret."""
        folder = self.find(name) if _SECRET.fullmatch(secret) else None
        return folder is not None and files.read_json(folder / ABOUT)["maker"] == files.sha256(secret.encode())

    def delete(self, name: str, secret: str) -> None:
        """Delete a link.

        Raises:
            InputError: If the browser with this secret has kept no such link.
        """
        if not self.may_delete(name, secret):
            raise InputError("This link is gone, or was kept in another browser.", next_step="Delete it there.")
        shutil.rmtree(self._folder / name)

    def routes(self) -> list[Route]:
        """Return the routes that serve the pages and their images."""

        def serve(request: Request) -> Response:
            folder, file = self.find(request.path_params["name"]), request.path_params.get("file")
            if folder is None or (file and not (_IMAGE.fullmatch(file) and (folder / file).is_file())):
                return Response("This link was deleted, or its time is over.", 404, media_type="text/plain")
            if file:
                return Response((folder / file).read_bytes(), media_type=TYPES[Path(file).suffix], headers=HEADERS)
            style, script = _assets()
            page = (folder / PAGE).read_text(encoding="utf-8")
            page = page.replace("</head>", f"<style>{style}</style></head>", 1)
            page = page.replace("</body>", f"<script>{script}</script></body>", 1)
            policy = {"Content-Security-Policy": _policy("'none'" if self._local else "*")}
            return Response(page, media_type="text/html", headers=HEADERS | policy)

        return [Route(f"/{ADDRESS}", serve), Route(f"/{ADDRESS}/{{file}}", serve)]


HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex"}
"""Headers of all files of a link: what is deleted is gone, and search engines do not list it."""

_TITLES = "Source", *(f"Image {number}" for number in range(2, SOURCES + 1)), *LABELS
"""Names of images in the viewer, in the order of the fields of a draft."""


def _image(title: str) -> str:
    """Return the name of the file of an image."""
    return f"{title.lower().replace(' ', '-')}.png"


@cache
def _assets() -> tuple[str, str]:
    """Return style and script of the pages."""
    names = "style.css", "link.css", "viewer.js", "link.js"
    style, colors, *scripts = (resources("app").joinpath("assets", name).read_text("utf-8") for name in names)
    return style + colors, " ".join(f"({script.strip()})();" for script in scripts)


def _policy(framed: str) -> str:
    """Return the content security policy: the page holds foreign text, so that only its own script may run."""
    script = b64encode(bytes.fromhex(files.sha256(_assets()[1].encode()))).decode()
    return (
        f"default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; "
        f"base-uri 'none'; form-action 'none'; frame-ancestors {framed}"
    )


def _files(comparison: Comparison, results: ResultFiles, name: str) -> dict[str, bytes]:
    """Return the files of a link; images as the judge saw them, without metadata."""
    results.add(comparison)
    content: dict[str, bytes] = {}
    images: dict[str, tuple[str, str]] = {}
    for title, image, _ in sharing.named_images(comparison):
        title = title.removeprefix("Candidate ")
        out, file, marks = BytesIO(), _image(title), f"{title}{MARKS}"
        image.save(out, "PNG")
        content[file], drawn = out.getvalue(), results.open(comparison.name, marks)
        if drawn is not None:
            content[marks.lower()] = drawn[0]
        images[title] = f"{name}/{file}", f"{name}/{marks.lower()}" if drawn is not None else ""
    report, preferred = sharing.report(comparison), comparison.judgment.preference
    opened = f'<a href="../?comparison={name}" target="_blank" rel="noopener">Open in the app</a>'
    embed = '<details><summary>Embed</summary><textarea readonly rows="3" aria-label="Code"></textarea></details>'
    bar = f'<div class="bar">{opened}<button type="button" id="copy">Copy the link</button>{embed}</div>'
    viewer = draw_viewer(images, preferred if preferred in images else comparison.example.labels[0])
    page = render_html(report, report.title[:80]).replace("</h1>", f"</h1>{bar}{viewer}", 1)
    return content | {PAGE: page.encode()}

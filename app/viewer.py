"""Markup of the viewer of the Score tab, which shows two images of a comparison against each other.

`assets/viewer.js` makes it move: a divider, images side by side or in turn, a zoom that both share, marked changes.
"""

from base64 import b64encode
from collections.abc import Mapping
from io import BytesIO
from urllib.parse import quote

from PIL import Image

from app.markup import escape
from rewardharness.measure.reading import Pixels
from rewardharness.schema import Example

MODES = {"slider": "Slider", "sides": "Side by side", "flip": "One at a time"}
"""How two images are shown, by name."""


def viewer(example: Example, right: str) -> str:
    """Return the viewer with the source on the left.

    Args:
        example: The example. Its files must be in the folder of uploads, from which they are served as they are.
        right: Label of the candidate on the right.
    """
    sources = ["Source", *(f"Image {number}" for number in range(2, 2 + len(example.references)))]
    names = [*sources, *example.labels]
    images = (example.source_image, *example.references, *example.candidate_images)
    files = "".join(
        f'<img data-name="{escape(name)}" src="gradio_api/file={escape(quote(str(image.path)))}" alt="" hidden>'
        for name, image in zip(names, images, strict=True)
    )
    left = _choice("left", "Left", {name: name for name in names}, "Source")
    others = _choice("right", "Right", {name: name for name in names}, right)
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


def marks(overlays: Mapping[str, Pixels]) -> str:
    """Return the pictures that mark what changed in each candidate, for the viewer to take."""
    return "".join(
        f'<img data-name="{escape(label)}" src="{_data_url(overlay)}" alt="" hidden>'
        for label, overlay in overlays.items()
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


def _data_url(pixels: Pixels) -> str:
    out = BytesIO()
    Image.fromarray(pixels).save(out, "WEBP", quality=85, method=2)
    return f"data:image/webp;base64,{b64encode(out.getvalue()).decode('ascii')}"

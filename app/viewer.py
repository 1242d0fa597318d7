"""Markup of the viewer of the Score tab, which shows two images of a comparison against each other.

`assets/viewer.js` makes it move: a divider, images side by side or in turn, a zoom that both share, marked changes.
"""

from collections.abc import Mapping
from urllib.parse import quote

from app.comparisons import Comparison
from app.markup import escape
from app.results import MARKS, address

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

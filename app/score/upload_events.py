"""Uploads on the Score tab: checks images before they are judged, one at a time or several at once."""

from functools import partial
from pathlib import Path

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from app.score import views
from app.score.comparisons import FIRST_FRAME
from app.score.events import ScoreEvents
from app.score.widgets import FIRST, SOURCE, ScoreInputs
from app.widgets import QUIET, Updates
from rewardharness.errors import Description, describe, shown
from rewardharness.measure.images import Picture, encode_png, load_picture
from rewardharness.schema import LABELS, ImageInput, Json

Refused = tuple[str, Description]
"""Name of an image that cannot be used, and the reason."""


SHOWN_BY_BROWSERS = {"PNG", "JPEG", "WEBP", "GIF", "BMP", "AVIF"}
"""Formats of still images that every browser shows."""


def displayed(picture: Picture, path: Path) -> str:
    """Return the file of an image that a browser shows as it is judged.

    It is the file itself, or a PNG of the judged pixels: of the first frame of an animation, or of another format.
    """
    animated = any("several frames" in note for note in picture.notes)
    if picture.format in SHOWN_BY_BROWSERS and not animated:
        return str(path)
    name = f"{path.stem[:60]}{FIRST_FRAME if animated else '.png'}"
    return str(save_bytes_to_cache(encode_png(picture.pixels), name, get_upload_folder()))


def connect_uploads(events: ScoreEvents, inputs: ScoreInputs) -> None:
    """Connect the image fields."""
    names = ["The source", *(f"Candidate {label}" for label in LABELS)]
    first = len(names)  # index of the first reference
    names += [f"Image {number}" for number, _ in enumerate(inputs.references, 2)]

    def check(number: int, given: Json) -> str | Refused:
        """Return the path of an image as it is judged and can be shown, or the reason why it cannot be used."""
        name, path = names[number], Path(given["path"])
        try:
            return displayed(load_picture(ImageInput(name, path)), path)
        except Exception as error:  # every error is shown on the page
            return f"{name} ({shown(str(given.get('orig_name')), 60)})", describe(error)

    def look(number: int, given: Json | None) -> Updates:
        """Check an image after its upload; remove it with a message if it cannot be judged."""
        seen = check(number, given) if given else ""
        bad = [seen] if isinstance(seen, tuple) else []
        taken: Updates = {} if given and seen == given["path"] else {inputs.pictures[number]: None if bad else seen}
        return {inputs.refused: views.unusable(bad), **(taken if given else {})}

    def drop(given: list[Json] | None, place: float, places: int, further: int, *pictures: Json | None) -> Updates:
        """Put the first image where the files were dropped, and the others into the free fields of its kind."""
        target = int(place)
        fields = range(first, len(pictures)) if target >= first else range(first)
        order = [number for number in fields if pictures[number] is None and number != target]
        order.sort(key=lambda number: number < target)
        order[:0] = [target] if 0 <= target < len(pictures) else []
        bad, left, updates = [], 0, {}
        for file in given or ():
            if not order:
                left += 1
            elif isinstance(seen := check(order[0], file), tuple):
                bad.append(seen)
            else:
                number = order.pop(0)
                places = max(places, number if number < first else 0)
                further = max(further, number - first + 1)
                updates[inputs.pictures[number]] = seen
        for number, picture in enumerate(inputs.pictures):
            if picture in updates and number:
                updates[picture] = gr.Image(value=updates[picture], visible=True)
        messages: Updates = {inputs.dropped: None, inputs.refused: views.unusable(bad, left)}
        if inputs.source in updates:
            updates[inputs.source] = gr.Image(value=updates[inputs.source], label=FIRST if further else SOURCE)
        return {**events.show_places(places), **events.show_references(further), **messages, **updates}

    # Without Gradio's own reading (`preprocess`), which fails without a message for files that are not images.
    for number, picture in enumerate(inputs.pictures):
        picture.upload(partial(look, number), picture, [picture, inputs.refused], preprocess=False, **QUIET)
    inputs.dropped.upload(
        drop,
        [inputs.dropped, inputs.place, inputs.places, inputs.further, *inputs.pictures],
        inputs.parts,
        preprocess=False,
        js="(files, _, ...others) => [files, window.rhPlace ?? -1, ...others]",
        **QUIET,
    )

"""Pictures as they come to the Score tab: looked at before they are judged, one by one or several at once."""

from functools import partial

import gradio as gr

from app import views
from app.services import AppServices
from app.tabs.parts import QUIET, Updates
from app.tabs.score.events import Asked, ScoreEvents
from rewardharness.errors import Description, describe, shown
from rewardharness.schema import LABELS, Json

Refused = tuple[str, Description]
"""What to call a picture that cannot be used, and what is wrong with it."""


def connect_uploads(services: AppServices, events: ScoreEvents, asked: Asked) -> None:
    """Connect the places of pictures."""

    def check(number: int, given: Json) -> Refused | None:
        name = f"Candidate {LABELS[number - 1]}" if number else "The source"
        try:
            services.check_picture(name, given["path"])
        except Exception as error:  # whatever is wrong with it, the page must say so
            return f"{name} ({shown(str(given.get('orig_name')), 60)})", describe(error)
        return None

    def look(number: int, given: Json | None) -> Updates:
        """Look at a picture as soon as it is there: what cannot be judged is taken back, and it is said why."""
        bad = check(number, given) if given else None
        taken: Updates = {asked.pictures[number]: None} if bad else {}
        return {asked.refused: views.unusable([bad] if bad else []), **taken}

    def drop(given: list[Json] | None, place: float, places: int, *pictures: Json | None) -> Updates:
        """Put the first picture where they were dropped, and the others into the places that are free."""
        target = int(place)
        order = [number for number, there in enumerate(pictures) if there is None and number != target]
        order.sort(key=lambda number: number < target)
        order[:0] = [target] if 0 <= target < len(pictures) else []
        bad, left, updates = [], 0, {}
        for each in given or ():
            if not order:
                left += 1
            elif refused := check(order[0], each):
                bad.append(refused)
            else:
                number = order.pop(0)
                places = max(places, number)
                updates[asked.pictures[number]] = each["path"]
        for number, picture in enumerate(asked.pictures):
            if picture in updates and number:
                updates[picture] = gr.Image(value=updates[picture], visible=True)
        said: Updates = {asked.dropped: None, asked.refused: views.unusable(bad, left)}
        return {**events.show_places(places), **said, **updates}

    # Without Gradio's own reading (`preprocess`), which ends without a word where a file is no picture.
    for number, picture in enumerate(asked.pictures):
        picture.upload(partial(look, number), picture, [picture, asked.refused], preprocess=False, **QUIET)
    asked.dropped.upload(
        drop,
        [asked.dropped, asked.place, asked.places, *asked.pictures],
        asked.parts,
        preprocess=False,
        js="(files, _, ...others) => [files, window.rhPlace ?? -1, ...others]",
        **QUIET,
    )

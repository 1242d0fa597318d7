"""The Score tab: its widgets and their wiring."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from app.library.chooser import Chooser
from app.score import views
from app.score.comparisons import FIRST_FRAME, ComparisonQueue, Draft, sent
from app.score.events import ScoreEvents
from app.score.samples import Sample
from app.score.sessions import SessionEvents
from app.score.sharing import record
from app.score.widgets import BUTTON, FIRST, SOURCE, ScoreInputs, ScoreOutputs, Setup
from app.services import AppServices
from app.widgets import QUIET, VOTE_EVENTS, Updates, markup, waiting_at
from rewardharness.errors import Description, HarnessError, describe, shown
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

    def check(number: int, upload: Json) -> str | Refused:
        """Return the path of an image as it is judged and can be shown, or the reason why it cannot be used."""
        name, path = names[number], Path(upload["path"])
        try:
            return displayed(load_picture(ImageInput(name, path)), path)
        except Exception as error:  # every error is shown on the page
            return f"{name} ({shown(str(upload.get('orig_name')), 60)})", describe(error)

    def look(number: int, upload: Json | None) -> Updates:
        """Check an image after its upload; remove it with a message if it cannot be judged."""
        seen = check(number, upload) if upload else ""
        bad = [seen] if isinstance(seen, tuple) else []
        taken: Updates = {} if upload and seen == upload["path"] else {inputs.pictures[number]: None if bad else seen}
        return {inputs.refused: views.unusable(bad), **(taken if upload else {})}

    def drop(uploads: list[Json] | None, place: float, places: int, further: int, *pictures: Json | None) -> Updates:
        """Put the first image where the files were dropped, and the others into the free fields of its kind."""
        target = int(place)
        fields = range(first, len(pictures)) if target >= first else range(first)
        order = [number for number in fields if pictures[number] is None and number != target]
        order.sort(key=lambda number: number < target)
        order[:0] = [target] if 0 <= target < len(pictures) else []
        bad, left, updates = [], 0, {}
        for file in uploads or ():
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


TO_VERDICT = "() => document.querySelector('#verdict').scrollIntoView({behavior: 'smooth', block: 'nearest'})"
"""Scrolls no further than the verdict needs, so that the pictures stay in view."""

SOON = """() => (window.rhSoon ??= new Promise((done) => setTimeout(() => {
  window.rhSoon = undefined;
  done([(window.rhChanges = (window.rhChanges ?? 0) + 1)]);
}, 50)))"""
"""Counts changes of inputs, those that come together as one: a sample changes ten of them."""

CONCURRENCY = 32
"""Maximum number of comparisons at once. Most of them wait for a model; measuring has its own threads."""


def build_score_tab(services: AppServices) -> Chooser | None:
    """Build the tab. Returns the choice of the Library; None if a release fixes it."""
    samples = services.samples()
    setup = Setup(services)
    tries = _draw_samples(samples)
    with gr.Row(equal_height=False, elem_id="score-columns") as columns:
        inputs = ScoreInputs(setup)
    outputs = ScoreOutputs(services, columns, inputs.column)
    setup.connect()
    _connect(services, inputs, outputs, list(zip(tries, samples, strict=True)))
    _publish(services, inputs)
    return setup.chooser


def _draw_samples(samples: list[Sample]) -> list[gr.Button]:
    with gr.Row(elem_id="samples", visible=bool(samples)):
        markup("Try a sample:", elem_classes="samples-label")
        return [gr.Button(sample.title, icon=sample.icon, size="sm", min_width=60) for sample in samples]


def _connect(
    services: AppServices, inputs: ScoreInputs, outputs: ScoreOutputs, tries: list[tuple[gr.Button, Sample]]
) -> None:
    events = ScoreEvents(services, inputs, outputs)
    sessions = SessionEvents(services, events)
    everything = [*inputs.parts, *outputs.parts]
    quick: dict[str, Any] = {"queue": False, **QUIET}
    judging: dict[str, Any] = {
        "outputs": everything,
        "trigger_mode": "multiple",  # the visitor's queue decides which of them counts
        "concurrency_limit": CONCURRENCY,
        "concurrency_id": "judge",
        **waiting_at(outputs.verdict),
    }
    triggers = [inputs.compare.click, inputs.instruction.submit]
    # Requests are registered at once, so that Start over can withdraw them before they start.
    asked = gr.on(triggers, partial(ComparisonQueue.ask, trigger=BUTTON), outputs.queue, None, **quick)
    judgments = [asked.then(events.compare, [outputs.queue, *inputs.inputs], **judging)]
    asked = outputs.again.click(partial(ComparisonQueue.ask, trigger=BUTTON), outputs.queue, None, **quick)
    judgments.append(asked.then(events.judge_again, [outputs.queue, outputs.principles, *inputs.inputs], **judging))
    for button, sample in tries:
        asked = button.click(partial(ComparisonQueue.replace, trigger=sample.title), outputs.queue, None, **quick)
        judge = partial(events.compare_sample, sample)
        judgments.append(asked.then(judge, [outputs.queue, *inputs.options], **judging))
    sessions.connect(everything)
    kept = [outputs.kept, outputs.link, outputs.link_row, outputs.history_section, outputs.history]
    for judged in judgments:
        judged.then(None, None, None, js=TO_VERDICT, **QUIET)
        judged.then(sessions.remember, [outputs.token, outputs.comparison], kept, **QUIET)
    # A new result is checked by the same event as new inputs: two of them could overtake each other. One event does
    # both, as two on the same changes trigger each other without end.
    changes = [*inputs.changes, outputs.verdict.change]
    gr.on(changes, None, None, inputs.changed, js=SOON, **QUIET)
    inputs.changed.change(
        sessions.check_current,
        [outputs.token, outputs.comparison, *inputs.inputs],
        [inputs.scaled, *inputs.understanding.parts, outputs.outdated, *outputs.votes.values()],
        preprocess=False,
        **quick,
    )
    connect_uploads(events, inputs)
    if (improvement := outputs.improvement) is not None:
        improvement.connect(outputs.queue, outputs.comparison, outputs.viewer, inputs.compare)
        taken = [improvement.path, improvement.label, inputs.places, *inputs.candidates]
        improvement.take.click(events.take, taken, everything, preprocess=False, **QUIET)
    gr.on(triggers, None, None, None, js=TO_VERDICT, **QUIET)
    inputs.stop.click(ComparisonQueue.stop, outputs.queue, None, **quick)
    inputs.reset.click(events.reset, outputs.queue, everything, **quick)
    inputs.more.click(lambda places: events.show_places(places + 1), inputs.places, everything, **quick)
    inputs.add_reference.click(lambda used: events.show_references(used + 1), inputs.further, everything, **quick)
    closer = [outputs.comparison, outputs.look], [outputs.measured, outputs.pictures]
    gr.on([outputs.look.input, outputs.chain.expand], events.look_closer, *closer, **QUIET)
    voting: dict[str, Any] = {"preprocess": False, **VOTE_EVENTS, **QUIET}
    for label, button in outputs.votes.items():
        vote = _voting(services, events, label)
        button.click(vote, [outputs.comparison, *inputs.inputs], outputs.thanks, **voting)


def _voting(services: AppServices, events: ScoreEvents, label: str) -> Callable[..., Iterator[str]]:
    def vote(profile: gr.OAuthProfile | None, request: gr.Request, *values: Any) -> Iterator[str]:
        yield from events.vote(label, services.visitor(profile=profile, request=request), *values)

    return vote


def _publish(services: AppServices, inputs: ScoreInputs) -> None:
    """Add the one public API endpoint of the app."""

    def score(  # noqa: PLR0913  (one argument per image that a program names)
        source: str,
        candidate_a: str,
        candidate_b: str | None = None,
        candidate_c: str | None = None,
        candidate_d: str | None = None,
        instruction: str = "",
        image_2: str | None = None,
        image_3: str | None = None,
        image_4: str | None = None,
        library: str = "",
        judge: str = "",
    ) -> Json:
        """Judge which of two to four edits of an image people would prefer, or score a single one.

        Args:
            source: The source image.
            candidate_a: An edited image.
            candidate_b: Another edited image; optional. Without it, candidate A is scored alone.
            candidate_c: A third candidate; optional.
            candidate_d: A fourth candidate; optional.
            instruction: The instruction.
            image_2: A reference image that the instruction mentions as image 2; optional.
            image_3: Another reference image; optional.
            image_4: Another reference image; optional.
            library: A Library on the Hub as org/name or org/name@v1.0.0; empty for the one of this app.
            judge: measured, or in an app on your own computer a model such as vllm:NAME@URL; empty for the default.
        """
        paths = map(sent, (source, candidate_a, candidate_b, candidate_c, candidate_d, image_2, image_3, image_4))
        try:
            first, *others = paths
            draft = Draft(first, tuple(others[:4]), tuple(others[4:]), str(instruction or ""))
            return record(services.compare(draft, *services.api_choice(str(library or ""), str(judge or ""))))
        except HarnessError as error:
            raise gr.Error(str(describe(error)), print_exception=False) from error

    trigger = gr.Button(visible=False)
    answer = gr.JSON(visible=False, label="Judgment")
    library, judge = gr.Textbox("", visible=False, label="Library"), gr.Textbox("", visible=False, label="Judge")
    trigger.click(
        score,
        [inputs.source, *inputs.candidates, inputs.instruction, *inputs.references, library, judge],
        answer,
        api_name="score",
        api_description="Judge which of two to four edits of an image people would prefer, or score a single one.",
        preprocess=False,  # Gradio opens images, and shows the traceback of a file that is none
        concurrency_limit=2,
        concurrency_id="programs",
    )

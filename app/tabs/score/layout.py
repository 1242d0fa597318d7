"""Widgets of the Score tab and their wiring."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gradio as gr

from app import views
from app.comparison_queue import ComparisonQueue
from app.samples import Sample
from app.services import AppServices
from app.sharing import record
from app.tabs.parts import KEPT, QUIET, VOTE_EVENTS, markup, waiting_at
from app.tabs.score.events import ScoreEvents
from app.tabs.score.session import SessionEvents, SessionParts, draw_history, draw_sharing
from app.tabs.score.setup import Setup, connect_setup, draw_head, draw_setup
from app.tabs.score.uploads import connect_uploads
from app.tabs.score.widgets import SOURCE, ScoreInputs, ScoreOutputs
from rewardharness.errors import HarnessError, describe
from rewardharness.schema import LABELS, SOURCES, TIE, Json

TO_VERDICT = "() => document.querySelector('#verdict').scrollIntoView({behavior: 'smooth', block: 'nearest'})"
"""Scrolls no further than the verdict needs, so that the pictures stay in view."""

CONCURRENCY = 32
"""Maximum number of comparisons at once. Most of them wait for a model; measuring has its own threads."""

PICTURE: dict[str, Any] = {
    # Uploaded bytes reach the judge unchanged: no conversion, rotation or other format.
    "type": "filepath",
    "image_mode": None,
    "format": "png",
    "sources": ["upload", "clipboard"],
    "height": 260,
    "min_width": 120,
    "buttons": [],
}
"""Options of all image inputs."""


def build_score_tab(services: AppServices) -> None:
    """Build the tab."""
    samples = services.samples()
    head = draw_head(services)
    setup = draw_setup(services)
    tries = _draw_samples(samples)
    inputs = _draw_inputs(setup)
    session, outputs = _draw_outputs(services)
    connect_setup(services, inputs.setup, head)
    _connect(services, inputs, outputs, session, list(zip(tries, samples, strict=True)))


def _draw_samples(samples: list[Sample]) -> list[gr.Button]:
    if not samples:
        return []
    with gr.Row(elem_id="samples"):
        markup("Try a sample:", elem_classes="samples-label")
        return [gr.Button(sample.title, icon=sample.icon, size="sm", min_width=60) for sample in samples]


def _draw_inputs(setup: Setup) -> ScoreInputs:
    with gr.Row(elem_id="pictures"):
        source = gr.Image(label=SOURCE, elem_id="source", placeholder="Drop, paste or choose an image", **PICTURE)
        references = tuple(
            gr.Image(
                label=f"Image {number}",
                elem_id=f"reference-{number}",
                placeholder=f"Drop, paste or choose image {number} of the instruction",
                visible=False,
                **PICTURE,
            )
            for number in range(2, SOURCES + 1)
        )
        candidates = tuple(
            gr.Image(
                label=f"Candidate {label}",
                elem_id=f"candidate-{label.lower()}",
                placeholder="Drop, paste or choose an edited image",
                visible=label in LABELS[:2],
                **PICTURE,
            )
            for label in LABELS
        )
    refused, scaled = markup(elem_id="refused"), markup(elem_id="scaled")
    dropped = gr.File(file_count="multiple", type="filepath", visible="hidden", elem_id="dropped")
    place = gr.Number(-1, visible=False)
    instruction = gr.Textbox(
        label="Instruction",
        info="The requested edit, in English.",
        placeholder="Make the car red.",
        max_lines=1,
        max_length=2000,
        elem_id="instruction",
    )
    critique = gr.Checkbox(
        label="Say what is wrong",
        info="A critique of each candidate, and the next instruction. A model is asked once more per candidate.",
        elem_id="critique",
    )
    with gr.Row(elem_id="actions"):
        compare = gr.Button("Compare", variant="primary", elem_id="compare", min_width=160, size="md", scale=0)
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop", min_width=100, size="md", scale=0)
        more = gr.Button("Add a candidate", elem_id="more", min_width=140, size="md", scale=0)
        add_reference = gr.Button("Add a reference", elem_id="add-reference", min_width=140, size="md", scale=0)
        reset = gr.Button("Start over", elem_id="reset", min_width=120, size="md", scale=0)
    taken = (source, candidates, references, dropped, place, refused, scaled, gr.State(2), gr.State(0))
    return ScoreInputs(*taken, more, add_reference, instruction, critique, setup, compare, stop, reset)


def _draw_outputs(services: AppServices) -> tuple[SessionParts, ScoreOutputs]:
    comparison = gr.State(None, time_to_live=KEPT)
    queue = gr.State(ComparisonQueue(), time_to_live=KEPT)
    outdated = markup(elem_id="outdated")
    verdict = markup(views.empty_result(), elem_id="verdict")
    status = markup(elem_id="status")
    live = markup(elem_id="live")
    with gr.Column(visible=False, elem_id="details") as details:
        with gr.Row(equal_height=False):
            with gr.Column(scale=6, min_width=320):
                scores = markup(elem_id="scores")
                reasons = markup(elem_id="reasons")
                critiques = markup(elem_id="critiques")
            with gr.Column(scale=7, min_width=320):
                viewer = gr.HTML(elem_id="viewer", js_on_load=None)
        with gr.Column(elem_id="feedback"):
            place = str(services.settings.feedback)
            markup(views.feedback_hint(place, repo=services.feedback.repo, lasting=services.local))
            with gr.Row(elem_id="votes"):
                votes = tuple(
                    gr.Button("It is a tie" if label == TIE else f"{label} is better", size="md", min_width=90)
                    for label in (*LABELS, TIE)
                )
            thanks = markup(elem_id="thanks")
        with gr.Accordion("How the judge got there", open=False, elem_id="chain") as chain:
            look = gr.Radio([], label="Candidate", elem_id="look")
            overall = markup(elem_id="overall")
            measured = markup(elem_id="measured")
            pictures = gr.Gallery(
                label="Images from the Tools",
                columns=3,
                height="auto",
                object_fit="contain",
                format="webp",
                interactive=False,
                elem_id="tool-pictures",
                buttons=[],
            )
        with gr.Accordion("Entries consulted", open=False):
            consulted = markup(elem_id="consulted")
        with gr.Accordion("Notes", open=False):
            notes = markup(elem_id="notes")
        downloads, keep, kept = draw_sharing(services)
    session = SessionParts(gr.Textbox("", visible=False), keep, kept, *draw_history())
    return session, ScoreOutputs(
        comparison, queue, outdated, verdict, status, live, details, scores, reasons, critiques, viewer,
        votes, thanks, chain, look, overall, measured, pictures, consulted, notes, downloads,
    )  # fmt: skip


def _connect(
    services: AppServices,
    inputs: ScoreInputs,
    outputs: ScoreOutputs,
    session: SessionParts,
    tries: list[tuple[gr.Button, Sample]],
) -> None:
    events = ScoreEvents(services, inputs, outputs)
    sessions = SessionEvents(services, events, session)
    everything = [*inputs.parts, *outputs.parts]
    judging: dict[str, Any] = {
        "outputs": everything,
        "trigger_mode": "multiple",  # the visitor's queue decides which of them counts
        "concurrency_limit": CONCURRENCY,
        "concurrency_id": "judge",
        **waiting_at(outputs.verdict),
    }
    triggers = [inputs.compare.click, inputs.instruction.submit]
    asked = gr.on(triggers, events.ask, outputs.queue, None, queue=False, **QUIET)
    judgments = [asked.then(events.compare, [outputs.queue, *inputs.inputs], **judging)]
    for button, sample in tries:
        asked = button.click(partial(events.ask_sample, sample), outputs.queue, None, queue=False, **QUIET)
        judge = partial(events.compare_sample, sample)
        judgments.append(asked.then(judge, [outputs.queue, *inputs.options], **judging))
    checking: dict[str, Any] = {
        "fn": sessions.check_current,  # one event for both: two on the same changes trigger each other without end
        "inputs": [session.token, outputs.comparison, *inputs.inputs],
        "outputs": [inputs.scaled, outputs.outdated, *outputs.votes],
        "queue": False,
        "preprocess": False,
        **QUIET,
    }
    sessions.connect(outputs.comparison, everything)
    for judged in judgments:
        judged.then(None, None, None, js=TO_VERDICT, **QUIET)
        judged.then(sessions.remember, [session.token, outputs.comparison], session.parts, **QUIET)
    # A new result is checked by the same event as new inputs: two of them could overtake each other.
    gr.on([*inputs.changes, outputs.verdict.change], **checking)
    connect_uploads(services, events, inputs)
    gr.on(triggers, None, None, None, js=TO_VERDICT, **QUIET)
    inputs.stop.click(events.stop, outputs.queue, None, queue=False, **QUIET)
    inputs.reset.click(events.reset, outputs.queue, everything, queue=False, **QUIET)
    inputs.more.click(events.add_candidate, inputs.places, everything, queue=False, **QUIET)
    inputs.add_reference.click(events.add_reference, inputs.further, everything, queue=False, **QUIET)
    closer: dict[str, Any] = {
        "fn": events.look_closer,
        "inputs": [outputs.comparison, outputs.look],
        "outputs": [outputs.measured, outputs.pictures],
    }
    gr.on([outputs.look.input, outputs.chain.expand], **closer, **QUIET)
    for label, button in zip((*LABELS, TIE), outputs.votes, strict=True):
        button.click(
            _voting(events, label),
            [outputs.comparison, *inputs.inputs],
            outputs.thanks,
            preprocess=False,
            **VOTE_EVENTS,
            **QUIET,
        )
    _publish(services, inputs)


def _voting(events: ScoreEvents, label: str) -> Callable[..., Iterator[str]]:
    def vote(profile: gr.OAuthProfile | None, *values: Any) -> Iterator[str]:
        yield from events.vote(label, profile.username if profile is not None else "", *values)

    return vote


def _publish(services: AppServices, inputs: ScoreInputs) -> None:
    """Add the one public API endpoint of the app."""

    def score(  # noqa: PLR0913  (one argument per image that a program names)
        source: str,
        candidate_a: str,
        candidate_b: str,
        candidate_c: str | None = None,
        candidate_d: str | None = None,
        instruction: str = "",
        image_2: str | None = None,
        image_3: str | None = None,
        image_4: str | None = None,
        library: str = "",
        judge: str = "",
    ) -> Json:
        """Judge which of two to four edits of an image people would prefer.

        Args:
            source: The source image.
            candidate_a: An edited image.
            candidate_b: Another edited image.
            candidate_c: A third candidate; optional.
            candidate_d: A fourth candidate; optional.
            instruction: The instruction.
            image_2: A reference image that the instruction mentions as image 2; optional.
            image_3: Another reference image; optional.
            image_4: Another reference image; optional.
            library: A Library on the Hub as org/name or org/name@v1.0.0; empty for the one of this app.
            judge: measured, or in an app on your own computer a model such as vllm:NAME@URL; empty for the default.
        """
        candidates, references = (candidate_a, candidate_b, candidate_c, candidate_d), (image_2, image_3, image_4)
        try:
            chosen = services.api_choice(library or "", judge or "")
            return record(services.compare(source, candidates, instruction, *chosen, references))
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
        api_description="Judge which of two to four edits of an image people would prefer.",
        concurrency_limit=2,
        concurrency_id="programs",
    )

"""The parts of the Score tab, and how they are connected."""

from functools import partial
from typing import Any

import gradio as gr

from app import views
from app.samples import Sample
from app.services import AppServices
from app.tabs.parts import KEPT, QUIET, markup, waiting_at
from app.tabs.score.events import BUTTON, Asked, ScoreEvents, Told
from app.tabs.score.setup import connect_setup, draw_head, draw_setup, put_key_away
from app.tabs.score.uploads import connect_uploads
from app.turns import Turns
from rewardharness.schema import LABELS, TIE

TO_VERDICT = "() => document.querySelector('#verdict').scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Brings the verdict into view; on small screens it stands below the fold."""

AT_ONCE = 32
"""Comparisons under way at once. Most of them wait for a model; what is measured has threads of its own."""

PICTURE: dict[str, Any] = {
    # Uploaded bytes reach the judge as they are: no conversion, no turning, no other format.
    "type": "filepath",
    "image_mode": None,
    "format": "png",
    "sources": ["upload", "clipboard"],
    "height": 260,
    "min_width": 120,
    "buttons": [],
}
"""What all pictures that are given have in common."""


def build_score_tab(services: AppServices) -> None:
    """Draw the tab and connect its parts."""
    samples = services.samples()
    head = draw_head(services)
    tries = _draw_samples(samples)
    asked = _draw_asked(services)
    told = _draw_told(services)
    connect_setup(services, asked.setup, head)
    _connect(services, asked, told, list(zip(tries, samples, strict=True)))


def _draw_samples(samples: list[Sample]) -> list[gr.Button]:
    if not samples:
        return []
    with gr.Row(elem_id="samples"):
        markup("No pictures at hand? Try one of these:", elem_classes="samples-label")
        return [gr.Button(sample.title, icon=sample.source, size="sm", min_width=60) for sample in samples]


def _draw_asked(services: AppServices) -> Asked:
    with gr.Row(elem_id="pictures"):
        source = gr.Image(
            label="Source, before the edit", elem_id="source", placeholder="Drop, paste or choose a picture", **PICTURE
        )
        candidates = tuple(
            gr.Image(
                label=f"Candidate {label}",
                elem_id=f"candidate-{label.lower()}",
                placeholder="Drop, paste or choose an edited picture",
                visible=label in LABELS[:2],
                **PICTURE,
            )
            for label in LABELS
        )
    refused = markup(elem_id="refused")
    dropped = gr.File(file_count="multiple", type="filepath", visible="hidden", elem_id="dropped")
    place = gr.Number(-1, visible=False)
    instruction = gr.Textbox(
        label="Instruction",
        info="What the edit was asked to do, in English.",
        placeholder="Make the car red.",
        max_lines=1,
        max_length=2000,
        elem_id="instruction",
    )
    with gr.Row(elem_id="actions"):
        compare = gr.Button("Compare", variant="primary", elem_id="compare", min_width=160, size="md", scale=0)
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop", min_width=100, size="md", scale=0)
        more = gr.Button("Add a candidate", elem_id="more", min_width=140, size="md", scale=0)
        reset = gr.Button("Start over", elem_id="reset", min_width=120, size="md", scale=0)
    setup = draw_setup(services)
    taken = (source, candidates, dropped, place, refused, gr.State(2))
    return Asked(*taken, more, instruction, setup, compare, stop, reset)


def _draw_told(services: AppServices) -> Told:
    comparison = gr.State(None, time_to_live=KEPT)
    turns = gr.State(Turns(), time_to_live=KEPT)
    outdated = markup(elem_id="outdated")
    verdict = markup(views.empty_result(), elem_id="verdict")
    status = markup(elem_id="status")
    live = markup(elem_id="live")
    with gr.Column(visible=False, elem_id="details") as details:
        with gr.Row(equal_height=False):
            with gr.Column(scale=6, min_width=320):
                scores = markup(elem_id="scores")
                reasons = markup(elem_id="reasons")
            with gr.Column(scale=7, min_width=320):
                look = gr.Radio([], label="Look at candidate", elem_id="look")
                show = gr.Radio([], label="Show", elem_id="show")
                slider = gr.ImageSlider(
                    type="numpy", format="png", interactive=False, max_height=460, elem_id="slider", buttons=[]
                )
        with gr.Column(elem_id="feedback"):
            markup(views.feedback_hint(str(services.settings.feedback), lasting=services.local))
            with gr.Row(elem_id="votes"):
                votes = tuple(
                    gr.Button("It is a tie" if label == TIE else f"{label} is better", size="md", min_width=90)
                    for label in (*LABELS, TIE)
                )
            thanks = markup(elem_id="thanks")
        with gr.Accordion("How the judge got there", open=False, elem_id="chain") as chain:
            overall = markup(elem_id="overall")
            measured = markup(elem_id="measured")
            pictures = gr.Gallery(
                label="Pictures that the Tools made",
                columns=3,
                height="auto",
                object_fit="contain",
                format="png",
                interactive=False,
                elem_id="tool-pictures",
                buttons=[],
            )
        with gr.Accordion("Entries consulted", open=False):
            consulted = markup(elem_id="consulted")
        with gr.Accordion("Notes", open=False):
            notes = markup(elem_id="notes")
        download = gr.DownloadButton("Download as JSON", elem_id="download", size="md", scale=0, min_width=200)
    return Told(
        comparison, turns, outdated, verdict, status, live, details, scores, reasons, look, show, slider, votes, thanks,
        chain, overall, measured, pictures, consulted, notes, download,
    )  # fmt: skip


def _connect(services: AppServices, asked: Asked, told: Told, tries: list[tuple[gr.Button, Sample]]) -> None:
    events = ScoreEvents(services, asked, told)
    everything = [*asked.parts, *told.parts]
    judging: dict[str, Any] = {
        "inputs": [told.turns, *asked.inputs],
        "outputs": everything,
        "trigger_mode": "multiple",  # the visitor's turns decide which of them counts
        "concurrency_limit": AT_ONCE,
        "concurrency_id": "judge",
        **waiting_at(told.verdict),
    }
    triggers = [asked.compare.click, asked.instruction.submit]
    askers = [(BUTTON, gr.on(triggers, events.ask, told.turns, None, queue=False, **QUIET))]
    for button, sample in tries:
        filled = button.click(partial(events.fill, sample), told.turns, everything, queue=False, **QUIET)
        askers.append((sample.title, filled))
    checking: dict[str, Any] = {
        "fn": events.check_current,
        "inputs": [told.comparison, *asked.inputs],
        "outputs": [told.outdated, *told.votes],
        "queue": False,
        "preprocess": False,
        **QUIET,
    }
    for who, asking in askers:
        put_key_away(asked.setup, asking.then)
        judged = asking.then(partial(events.compare, who), **judging)
        judged.then(None, None, None, js=TO_VERDICT, **QUIET).then(**checking)
    gr.on(asked.changes, trigger_mode="always_last", **checking)
    connect_uploads(services, events, asked)
    gr.on(triggers, None, None, None, js=TO_VERDICT, **QUIET)
    asked.stop.click(events.stop, told.turns, None, queue=False, **QUIET)
    asked.reset.click(events.reset, told.turns, everything, queue=False, **QUIET)
    asked.more.click(events.add_candidate, asked.places, everything, queue=False, **QUIET)
    closer = [told.comparison, told.look, told.show]
    for radio in (told.look, told.show):
        radio.input(events.look_closer, closer, everything, trigger_mode="always_last", **QUIET)
    for label, button in zip((*LABELS, TIE), told.votes, strict=True):
        button.click(partial(events.vote, label), checking["inputs"], told.thanks, preprocess=False, **QUIET)
    _publish(events, asked)


def _publish(events: ScoreEvents, asked: Asked) -> None:
    """Offer the comparison as the one public endpoint of the app."""
    trigger = gr.Button(visible=False)
    answer = gr.JSON(visible=False, label="Judgment")
    trigger.click(
        events.score,
        [asked.source, *asked.candidates, asked.instruction],
        answer,
        api_name="score",
        api_description="Judge which of two to four edits of a picture people would prefer.",
        concurrency_limit=2,
        concurrency_id="programs",
    )

"""The Score tab: its widgets and their wiring."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gradio as gr

from app.library.chooser import Chooser
from app.score.comparisons import ComparisonQueue, Draft, sent
from app.score.events import ScoreEvents
from app.score.samples import Sample
from app.score.sessions import SessionEvents
from app.score.sharing import record
from app.score.upload_events import connect_uploads
from app.score.widgets import BUTTON, ScoreInputs, ScoreOutputs, Setup
from app.services import AppServices
from app.widgets import QUIET, VOTE_EVENTS, markup, waiting_at
from rewardharness.errors import HarnessError, describe
from rewardharness.schema import Json

TO_VERDICT = "() => document.querySelector('#verdict').scrollIntoView({behavior: 'smooth', block: 'nearest'})"
"""Scrolls no further than the verdict needs, so that the pictures stay in view."""

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
    gr.on(
        [*inputs.changes, outputs.verdict.change],
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

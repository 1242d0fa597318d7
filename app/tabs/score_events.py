"""What happens on the Score tab: from clicks to services, and from records to what is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import views
from app.samples import Sample
from app.services import AppServices, Choice, Comparison
from app.tabs.chooser import Chooser
from app.tabs.guard import explain
from rewardharness.errors import HarnessError, describe
from rewardharness.schema import LABELS, TIE, Json

BEFORE_AFTER = "Before and after"
CHANGE = "Where it changed"

Updates = dict[Any, Any]
"""Parts of the page, and what becomes of them. Parts that are not named stay as they are."""


@dataclass(frozen=True)
class Asked:
    """What is given: pictures, instruction, Library; and the buttons below."""

    source: gr.Image
    candidates: tuple[gr.Image, ...]
    places: gr.State
    """How many candidates there is place for."""
    more: gr.Button
    instruction: gr.Textbox
    chooser: Chooser
    compare: gr.Button
    stop: gr.Button
    reset: gr.Button

    @property
    def inputs(self) -> list[Any]:
        """What a comparison takes, in the order of the arguments of `ScoreEvents.compare`."""
        return [self.source, *self.candidates, self.instruction, *self.chooser.parts]

    @property
    def parts(self) -> list[Any]:
        """All that events may change."""
        return [self.source, *self.candidates, self.places, self.more, self.instruction, self.compare, self.stop]


@dataclass(frozen=True)
class Told:
    """What is shown: the verdict, and below it the details."""

    comparison: gr.State
    verdict: gr.Markdown
    details: gr.Column
    scores: gr.Markdown
    reasons: gr.Markdown
    look: gr.Radio
    show: gr.Radio
    slider: gr.ImageSlider
    votes: tuple[gr.Button, ...]
    """One per letter, then the one for a tie."""
    thanks: gr.Markdown
    overall: gr.Markdown
    measured: gr.Markdown
    pictures: gr.Gallery
    consulted: gr.Markdown
    notes: gr.Markdown
    download: gr.DownloadButton

    @property
    def parts(self) -> list[Any]:
        """All of them, flat."""
        return [part for each in vars(self).values() for part in (each if isinstance(each, tuple) else (each,))]


class ScoreEvents:
    """Answers to what a visitor does. Holds nothing of any visitor.

    Args:
        services: The services.
        asked: The parts of the page that take something.
        told: The parts of the page that show something.
    """

    def __init__(self, services: AppServices, asked: Asked, told: Told) -> None:
        self._services = services
        self._asked = asked
        self._told = told

    def compare(
        self,
        source: str | None,
        a: str | None,
        b: str | None,
        c: str | None,
        d: str | None,
        instruction: str,
        *library: str,
    ) -> Iterator[Updates]:
        """Judge what is on the screen: first a sign that it is under way, then the result."""
        asked, told = self._asked, self._told
        count = sum(path is not None for path in (a, b, c, d))
        yield {
            told.verdict: views.working(count),
            told.details: gr.Column(visible=False),
            asked.compare: gr.Button(interactive=False),
            asked.stop: gr.Button(visible=True),
        }
        try:
            comparison = self._services.compare(source, (a, b, c, d), instruction, Choice(*library))
            shown = self._shown(comparison)
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            shown = {told.verdict: explain(error), told.comparison: None}
        yield {**shown, **self._ready()}

    def score(
        self,
        source: str,
        candidate_a: str,
        candidate_b: str,
        candidate_c: str | None = None,
        candidate_d: str | None = None,
        instruction: str = "",
    ) -> Json:
        """Judge which of two to four edits of a picture people would prefer.

        Args:
            source: The picture before the edit.
            candidate_a: An edited picture.
            candidate_b: Another one.
            candidate_c: A third one, or nothing.
            candidate_d: A fourth one, or nothing.
            instruction: What the edit was asked to do.
        """
        candidates = (candidate_a, candidate_b, candidate_c, candidate_d)
        choice = Choice(self._services.choices()[0][1])
        try:
            return self._services.record(self._services.compare(source, candidates, instruction, choice))
        except HarnessError as error:
            raise gr.Error(str(describe(error)), print_exception=False) from error

    def _ready(self) -> Updates:
        return {self._asked.compare: gr.Button(interactive=True), self._asked.stop: gr.Button(visible=False)}

    def _shown(self, comparison: Comparison) -> Updates:
        """The result of a comparison."""
        told, judgment = self._told, comparison.judgment
        if judgment.failure is not None:
            return {told.verdict: views.verdict(judgment), told.comparison: None}
        labels = comparison.example.labels
        first = judgment.preference if judgment.preference in labels else labels[0]
        shows = [BEFORE_AFTER, CHANGE] if comparison.shows_change else [BEFORE_AFTER]
        offered = (*labels, TIE) if len(labels) == 2 else labels
        return {
            told.comparison: comparison,
            told.verdict: views.verdict(judgment),
            told.details: gr.Column(visible=True),
            told.scores: views.score_table(judgment),
            told.reasons: views.reasons(judgment),
            told.look: gr.Radio(list(labels), value=first),
            told.show: gr.Radio(shows, value=BEFORE_AFTER),
            **{
                vote: gr.Button(visible=label in offered)
                for label, vote in zip((*LABELS, TIE), told.votes, strict=True)
            },
            told.thanks: "",
            told.overall: views.overall_steps(judgment),
            told.consulted: views.consulted(judgment),
            told.notes: views.notes(judgment, comparison.library),
            told.download: self._services.record_file(comparison),
            **self.look_closer(comparison, first, BEFORE_AFTER),
        }

    def look_closer(self, comparison: Comparison | None, label: str, show: str) -> Updates:
        """Show one candidate: laid over the source, and what was measured on it."""
        told = self._told
        if comparison is None:
            return {told.slider: gr.ImageSlider()}
        change = show == CHANGE
        try:
            frames = self._services.frames(comparison, label, change=change)
        except Exception as error:
            return {told.verdict: explain(error), told.details: gr.Column(visible=False)}
        sides = f"candidate {label}, right: where it was changed" if change else f"source, right: candidate {label}"
        return {
            told.slider: gr.ImageSlider(value=frames, label=f"Left: {sides}"),
            told.measured: views.candidate_steps(comparison.judgment, label),
            told.pictures: gr.Gallery(views.pictures(comparison.judgment, label)),
        }

    def vote(self, preference: str, comparison: Comparison | None) -> str:
        """Keep what the visitor prefers."""
        if comparison is None:
            return views.session_over()
        try:
            count = self._services.give_feedback(comparison, preference)
        except Exception as error:
            return explain(error)
        place = str(self._services.settings.feedback)
        return views.feedback_said(preference, place, count, lasting=self._services.local)

    def stop(self) -> Updates:
        """Forget the comparison that is under way."""
        return {self._told.verdict: views.stopped(), self._told.comparison: None, **self._ready()}

    def add_candidate(self, places: int) -> Updates:
        """Show the place of one more candidate."""
        return self._places(min(places + 1, len(LABELS)))

    def _places(self, places: int) -> Updates:
        asked = self._asked
        images = {
            image: gr.Image(visible=number < places) for number, image in enumerate(asked.candidates) if number >= 2
        }
        return {asked.places: places, asked.more: gr.Button(visible=places < len(LABELS)), **images}

    def fill(self, sample: Sample) -> Updates:
        """Put a sample into the page."""
        return {**self._given(sample.source, sample.candidates, sample.instruction), **self._nothing_told()}

    def reset(self) -> Updates:
        """Empty the page."""
        return {**self._given(None, (), ""), **self._nothing_told(), **self._ready()}

    def _given(self, source: Path | None, candidates: Sequence[Path], instruction: str) -> Updates:
        asked = self._asked
        places = max(2, len(candidates))
        updates = {**self._places(places), asked.source: source, asked.instruction: instruction}
        for number, image in enumerate(asked.candidates):
            value = candidates[number] if number < len(candidates) else None
            updates[image] = gr.Image(value=value, visible=number < places)
        return updates

    def _nothing_told(self) -> Updates:
        told = self._told
        return {
            told.comparison: None,
            told.verdict: views.empty_result(),
            told.details: gr.Column(visible=False),
            told.thanks: "",
        }

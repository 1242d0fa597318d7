"""What happens on the Score tab: from clicks to services, and from records to what is shown."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import chain_views, model_views, views
from app.failures import failure
from app.libraries import Choice
from app.running import ModelRun, Running
from app.samples import Sample
from app.services import AppServices, Comparison
from app.tabs.guard import explain
from app.tabs.parts import Updates
from app.tabs.score.setup import Setup
from app.turns import Turn, Turns
from rewardharness.errors import HarnessError, describe
from rewardharness.schema import LABELS, TIE, Json

BEFORE_AFTER = "Before and after"
CHANGE = "Where it changed"

BUTTON = ""
"""Who asks for a comparison when no sample does: the button, or the Enter key in the instruction."""


@dataclass(frozen=True)
class Asked:
    """What is given: pictures, instruction, Library, judge; and the buttons below."""

    source: gr.Image
    candidates: tuple[gr.Image, ...]
    dropped: gr.File
    """Takes several pictures at once, and those from the clipboard; unseen."""
    place: gr.Number
    """Number of the picture that they were dropped on, 0 for the source; -1 for none of them."""
    refused: gr.Markdown
    """Which pictures cannot be used, and why."""
    places: gr.State
    """How many candidates there is place for."""
    more: gr.Button
    instruction: gr.Textbox
    setup: Setup
    compare: gr.Button
    stop: gr.Button
    reset: gr.Button

    @property
    def inputs(self) -> list[Any]:
        """What a comparison takes, in the order of the arguments of `ScoreEvents.compare`."""
        return [self.source, *self.candidates, self.instruction, *self.setup.inputs]

    @property
    def parts(self) -> list[Any]:
        """All that events may change."""
        buttons = [self.more, self.compare, self.stop]
        taken = [*self.pictures, self.dropped, self.refused, self.places, self.instruction]
        return [*taken, *buttons, *self.setup.parts]

    @property
    def pictures(self) -> list[gr.Image]:
        """The source and the candidates."""
        return [self.source, *self.candidates]

    @property
    def changes(self) -> list[Any]:
        """Events after which something else may be asked."""
        return [each.change for each in (*self.pictures, self.instruction)] + self.setup.changes


@dataclass(frozen=True)
class Told:
    """What is shown: the verdict, and below it the details."""

    comparison: gr.State
    turns: gr.State
    """The visitor's comparisons: what is asked for, and what is under way."""
    outdated: gr.Markdown
    """Says that something else is on the screen by now."""
    verdict: gr.Markdown
    status: gr.Markdown
    """How far a model has come; moves every half second."""
    live: gr.Markdown
    """What a model thinks; changes with every step."""
    details: gr.Column
    scores: gr.Markdown
    reasons: gr.Markdown
    look: gr.Radio
    show: gr.Radio
    slider: gr.ImageSlider
    votes: tuple[gr.Button, ...]
    """One per letter, then the one for a tie."""
    thanks: gr.Markdown
    chain: gr.Accordion
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

    def ask(self, turns: Turns) -> None:
        """Compare was pressed: tell it at once, so that Start over reaches it before it has begun."""
        turns.ask(BUTTON)

    def compare(
        self,
        who: str,
        turns: Turns,
        source: str | None,
        a: str | None,
        b: str | None,
        c: str | None,
        d: str | None,
        instruction: str,
        *choices: Any,
    ) -> Iterator[Updates]:
        """Judge what is on the screen: first a sign that it is under way, then each step, then the result.

        Each time it yields all that it has said so far. Gradio sends what differs, and the page takes back, from an
        update it has not yet come to, what the next one leaves out: on a slow machine a Stop button never appeared.

        Args:
            who: What asked for it: `BUTTON`, or the title of a sample.
            turns: The visitor's comparisons.
            source: Path of the picture before the edit.
            a: Paths of the candidates.
            b: See a.
            c: See a.
            d: See a.
            instruction: The edit asked for.
            *choices: Library and judge, as `Setup.read` takes them.
        """
        silence: Updates = {self._told.verdict: gr.skip()}
        turn = turns.take(who)
        if turn is None:
            yield silence
            return
        try:
            with closing(self._judge(turn, source, (a, b, c, d), instruction, choices)) as judged:
                for said in judged:
                    if turn.replaced:
                        break
                    yield said
            if turn.replaced:
                yield silence  # Gradio ends with the last word once more: it must not be one about the page
        finally:
            # Also reached when the visitor has stopped it or is gone: nobody waits for the model any more.
            turn.end()

    def _judge(
        self, turn: Turn, source: str | None, candidates: Sequence[str | None], instruction: str, choices: Sequence[Any]
    ) -> Generator[Updates, None, None]:
        asked, told = self._asked, self._told
        used, *_ = choices
        said: Updates = {asked.setup.used: None, **self._begun(candidates)}
        yield dict(said)
        try:
            library, judge = asked.setup.read(choices)
            running = turn.begin(self._services.start(source, candidates, instruction, library, judge, used))
            said |= {asked.stop: gr.Button(visible=True), **self._asking(running)}
            yield dict(said)
            for news in running.follow():
                said |= self._news(running.model, news)
                yield dict(said)
            comparison = self._services.finish(running, library, judge)
            said |= self._shown(comparison) if comparison is not None else self._stopped(running)
            said |= {asked.setup.used: running.used(judge)}
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            said |= {told.verdict: explain(error), told.comparison: None}
        if turn.forgotten:
            said |= self._nothing_told()
        turn.conclude()
        yield {**said, **self._ready()}

    def _begun(self, candidates: Sequence[str | None]) -> Updates:
        told = self._told
        return {
            told.verdict: views.working(sum(path is not None for path in candidates)),
            told.outdated: "",
            told.details: gr.Column(visible=False),
            self._asked.compare: gr.Button(interactive=False),
        }

    def _asking(self, running: Running) -> Updates:
        """A model has been asked; the measured judge is done before anybody could read more."""
        told, run = self._told, running.model
        if run is None:
            return {}
        return {
            told.verdict: model_views.working(len(running.example.candidates), run),
            **self._news(run, True),
        }

    def _news(self, run: ModelRun | None, steps: bool) -> Updates:
        told = self._told
        if run is None:
            return {}
        live = {told.live: chain_views.showings(run.showings, live=True)} if steps else {}
        return {told.status: model_views.status(run), **live}

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
        services = self._services
        choice = Choice(services.libraries.choices()[0][1])
        try:
            judge = services.judge_of_programs()
            return services.record(services.compare(source, candidates, instruction, choice, judge))
        except HarnessError as error:
            raise gr.Error(str(describe(error)), print_exception=False) from error

    def _ready(self) -> Updates:
        asked, told = self._asked, self._told
        return {
            asked.compare: gr.Button(interactive=True),
            asked.stop: gr.Button(visible=False),
            told.status: "",
            told.live: "",
        }

    def _shown(self, comparison: Comparison) -> Updates:
        """The result of a comparison."""
        told, judgment, run = self._told, comparison.judgment, comparison.model
        if judgment.failure is not None:
            fixed = comparison.release is not None
            said = failure(judgment.failure, mendable=comparison.mendable, fixed=fixed)
            return {told.verdict: said, told.comparison: None}
        labels = comparison.example.labels
        first = judgment.preference if judgment.preference in labels else labels[0]
        offered = (*labels, TIE) if len(labels) == 2 else labels
        return {
            told.comparison: comparison,
            told.verdict: model_views.verdict(judgment, run) if run else views.verdict(judgment),
            told.details: gr.Column(visible=True),
            told.scores: views.score_table(judgment),
            told.reasons: model_views.reasons(judgment, run) if run else views.reasons(judgment),
            told.look: gr.Radio(list(labels), value=first),
            told.show: gr.Radio([BEFORE_AFTER, CHANGE], value=BEFORE_AFTER),
            **{
                vote: gr.Button(visible=label in offered, interactive=True)
                for label, vote in zip((*LABELS, TIE), told.votes, strict=True)
            },
            told.thanks: "",
            told.chain: gr.Accordion(open=run is not None),
            **self._chain(comparison),
            told.consulted: views.consulted(judgment),
            told.notes: views.notes(judgment, comparison.library),
            told.download: self._services.record_file(comparison),
            **self.look_closer(comparison, first, BEFORE_AFTER),
        }

    def _chain(self, comparison: Comparison) -> Updates:
        """How the judge got there; what was measured on one candidate comes with `look_closer`."""
        told, run = self._told, comparison.model
        if run is None:
            return {told.overall: chain_views.overall_steps(comparison.judgment)}
        pictures = chain_views.model_pictures(run.showings)
        return {
            told.overall: chain_views.showings(run.showings, live=False),
            told.measured: "",
            told.pictures: gr.Gallery(pictures, visible=bool(pictures)),
        }

    def look_closer(self, comparison: Comparison | None, label: str, show: str) -> Updates:
        """Show one candidate: laid over the source, and what was measured on it."""
        told = self._told
        if comparison is None or label not in comparison.example.labels:  # a late click on what was shown before
            return {told.slider: gr.skip()}
        change = show == CHANGE
        try:
            frames = self._services.frames(comparison, label, change=change)
        except Exception as error:
            return {told.verdict: explain(error), told.details: gr.Column(visible=False)}
        sides = f"candidate {label}, right: where it was changed" if change else f"source, right: candidate {label}"
        slider = gr.ImageSlider(value=frames, label=f"Left: {sides}")
        if comparison.model is not None:
            return {told.slider: slider}
        pictures = chain_views.pictures(comparison.judgment, label)
        return {
            told.slider: slider,
            told.measured: chain_views.candidate_steps(comparison.judgment, label),
            told.pictures: gr.Gallery(pictures, visible=bool(pictures)),
        }

    def check_current(self, comparison: Comparison | None, *given: Any) -> Updates:
        """Say of a result that it is outdated where something else is on the screen by now, and take no votes on it.

        Args:
            comparison: The result.
            *given: What is on the screen, as `Asked.inputs`; pictures as the page sends them, readable or not.
        """
        told = self._told
        if comparison is None:
            return {told.outdated: gr.skip()}
        current = self._is_current(comparison, given)
        return {
            told.outdated: "" if current else views.outdated(),
            **{vote: gr.Button(interactive=current) for vote in told.votes},
        }

    def _is_current(self, comparison: Comparison, given: Sequence[Any]) -> bool:
        count = len(self._asked.pictures)
        source, *candidates = (each["path"] if each else None for each in given[:count])
        try:
            choice, judge = self._asked.setup.read(given[count + 1 :])
        except HarnessError:
            return False
        return self._services.is_current(comparison, source, candidates, given[count], choice, judge)

    def vote(self, preference: str, comparison: Comparison | None, *given: Any) -> str:
        """Keep what the visitor prefers."""
        if comparison is None:
            return views.session_over()
        if not self._is_current(comparison, given):
            return views.no_vote()
        try:
            count = self._services.give_feedback(comparison, preference)
        except Exception as error:
            return explain(error)
        place = str(self._services.settings.feedback)
        return views.feedback_said(preference, place, count, lasting=self._services.local)

    def stop(self, turns: Turns) -> None:
        """Give up the comparison that is under way. It says so itself, as its last word."""
        turns.stop()

    def _stopped(self, running: Running) -> Updates:
        return {self._told.verdict: model_views.stopped(running.model), self._told.comparison: None}

    def add_candidate(self, places: int) -> Updates:
        """Show the place of one more candidate."""
        return self.show_places(min(places + 1, len(LABELS)))

    def show_places(self, places: int) -> Updates:
        """Show the places of so many candidates."""
        asked = self._asked
        images = {
            image: gr.Image(visible=number < places) for number, image in enumerate(asked.candidates) if number >= 2
        }
        return {asked.places: places, asked.more: gr.Button(visible=places < len(LABELS)), **images}

    def fill(self, sample: Sample, turns: Turns) -> Updates:
        """Put a sample into the page, to be compared. What is still under way is forgotten."""
        turns.replace(sample.title)
        return {**self._given(sample.source, sample.candidates, sample.instruction), **self._nothing_told()}

    def reset(self, turns: Turns) -> Updates:
        """Empty the page. Library and judge stay as they were chosen.

        A comparison under way ends with the same updates: whichever the page comes to last, it is empty.
        """
        turns.forget()
        return {**self._given(None, (), ""), **self._nothing_told(), **self._ready()}

    def _given(self, source: Path | None, candidates: Sequence[Path], instruction: str) -> Updates:
        asked = self._asked
        places = max(2, len(candidates))
        updates = {**self.show_places(places), asked.source: source, asked.instruction: instruction, asked.refused: ""}
        for number, image in enumerate(asked.candidates):
            value = candidates[number] if number < len(candidates) else None
            updates[image] = gr.Image(value=value, visible=number < places)
        return updates

    def _nothing_told(self) -> Updates:
        told = self._told
        return {
            told.comparison: None,
            told.verdict: views.empty_result(),
            told.outdated: "",
            told.details: gr.Column(visible=False),
            told.thanks: "",
        }

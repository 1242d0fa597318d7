"""Event handlers of the Score tab."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

from app.failures import explain, failure
from app.library.libraries import Visitor
from app.score import model_views, views
from app.score.comparisons import (
    NO_DRAFT,
    Comparison,
    ComparisonQueue,
    ComparisonRequest,
    Draft,
    ModelRun,
    scalings,
    uploaded,
)
from app.score.samples import Sample
from app.score.widgets import BUTTON, FIRST, SOURCE, ScoreInputs, ScoreOutputs
from app.services import AppServices
from app.viewer import chain_views
from app.viewer.results import RECORD, REPORT, address, viewer
from app.widgets import Updates
from rewardharness.errors import HarnessError
from rewardharness.judging.checklist import checklist_of, lines_of, read_principles
from rewardharness.schema import LABELS, TIE


class ScoreEvents:
    """Event handlers. Holds no state of visitors.

    Args:
        services: The services.
        inputs: The input widgets.
        outputs: The output widgets.
    """

    def __init__(self, services: AppServices, inputs: ScoreInputs, outputs: ScoreOutputs) -> None:
        self._services, self._inputs, self.outputs = services, inputs, outputs

    def compare(self, queue: ComparisonQueue, *given: Any) -> Iterator[Updates]:
        """Judge the inputs; see `_compare`.

        Args:
            queue: The visitor's comparisons.
            *given: The values of `ScoreInputs.inputs`; images as paths.
        """
        options = given[len(self._inputs.pictures) + 1 :]
        yield from self._compare(BUTTON, queue, self._draft(given, lambda path: path), options, {})

    def judge_again(self, queue: ComparisonQueue, text: str, *values: Any) -> Iterator[Updates]:
        """Judge the inputs by corrected principles; see `compare`. What is wrong with them leaves the result there."""
        lines = tuple(filter(None, map(str.strip, (text or "").splitlines())))
        try:
            read_principles(lines)
        except HarnessError as error:
            if (request := queue.take(BUTTON)) is not None:
                request.end()
            yield {self.outputs.outdated: explain(error)}
            return
        options = values[len(self._inputs.pictures) + 1 :]
        yield from self._compare(BUTTON, queue, self._draft(values, lambda path: path), options, {}, lines)

    def _draft(self, given: Sequence[Any], path: Callable[[Any], str | None]) -> Draft:
        """Return the inputs of a comparison.

        Args:
            given: Values of `ScoreInputs.inputs`.
            path: Returns the path of an image for its value.
        """
        count, first = len(self._inputs.pictures), 1 + len(self._inputs.candidates)
        paths = tuple(map(path, given[:count]))
        return Draft(paths[0], paths[1:first], paths[first:], str(given[count] or ""))

    def compare_sample(self, sample: Sample, queue: ComparisonQueue, *options: Any) -> Iterator[Updates]:
        """Fill in a sample and judge it; see `_compare`.

        The judge starts while the page is still drawing the images.

        Args:
            sample: The sample.
            queue: The visitor's comparisons.
            *options: The values of `ScoreInputs.options`.
        """
        paths = [save_file_to_cache(path, get_upload_folder()) for path in (sample.source, *sample.candidates)]
        draft = Draft(paths[0], tuple(paths[1:]), (), sample.instruction)
        yield from self._compare(sample.title, queue, draft, options, self._given(draft))

    def _compare(
        self,
        trigger: str,
        queue: ComparisonQueue,
        draft: Draft,
        options: Sequence[Any],
        filled: Updates,
        principles: tuple[str, ...] = (),
    ) -> Iterator[Updates]:
        """Yield a progress message, the steps of a model, the verdict, and then what else there is to see.

        Each update contains the earlier ones, because Gradio sends differences, and a slow page drops from an update
        that it has not applied yet what the next one leaves out: a Stop button never appeared.
        """
        unchanged: Updates = {self.outputs.verdict: gr.skip()}  # Gradio repeats the last update at the end
        request = queue.take(trigger)
        if request is None:
            yield unchanged
            return
        try:
            with closing(self._judge(request, draft, options, filled, principles)) as judged:
                for updates in judged:
                    if request.replaced:
                        break
                    yield updates
            if request.replaced:
                yield unchanged
        finally:
            # Also reached when the visitor has stopped the comparison or left the page.
            request.end()

    def _judge(
        self,
        request: ComparisonRequest,
        draft: Draft,
        options: Sequence[Any],
        filled: Updates,
        principles: tuple[str, ...],
    ) -> Generator[Updates, None, None]:
        inputs, outputs = self._inputs, self.outputs
        critique, *choices = options
        updates: Updates = {**filled, **inputs.setup.put_away(choices), inputs.setup.used: None, **self._begun(draft)}
        if not principles:  # corrected ones stay, for another attempt
            updates[outputs.checklist] = gr.Accordion(visible=False)
        try:
            library, judge = inputs.setup.read(choices)
            judge = replace(judge, principles=principles)
            running = request.begin(self._services.start(draft, library, judge, choices[0], critique=critique))
            updates |= {inputs.stop: gr.Button(visible=True)}
            if running.model is not None:  # the pixel-based judge is too fast to show any progress
                working = model_views.working(len(running.example.candidates), running.model)
                updates |= {outputs.verdict: working, **self._news(running.model, True)}
            yield dict(updates)
            for news in running.follow():
                if running.model is not None:
                    updates |= self._news(running.model, news)
                    yield dict(updates)
            comparison = self._services.finish(running, library, judge)
            updates |= {inputs.setup.used: running.used(judge)}
            if comparison is None:
                updates |= {outputs.verdict: model_views.stopped(running.model), outputs.comparison: None}
            elif not request.forgotten:
                updates |= {outputs.verdict: self._verdict(comparison)}
                yield dict(updates)
                updates |= self._shown(comparison)
        except Exception as error:  # every error is shown, so that the page stays usable
            updates |= {outputs.verdict: explain(error), outputs.comparison: None}
        if request.forgotten:
            updates |= self.cleared()
        request.ending = True
        yield {**updates, **self._ready()}

    def _begun(self, draft: Draft) -> Updates:
        outputs = self.outputs
        return {
            outputs.verdict: views.working(sum(path is not None for path in draft.candidates)),
            outputs.outdated: "",
            **self._visible(False),
            self._inputs.compare: gr.Button(interactive=False),
        }

    def _visible(self, visible: bool) -> Updates:
        """Show or hide what belongs to a result."""
        return {part: gr.Column(visible=visible) for part in (self.outputs.beside, self.outputs.details)}

    def _news(self, run: ModelRun, steps: bool) -> Updates:
        live = {self.outputs.live: chain_views.showings(run.showings, live=True)} if steps else {}
        return {self.outputs.status: model_views.status(run), **live}

    def _ready(self) -> Updates:
        inputs, outputs = self._inputs, self.outputs
        buttons = {inputs.compare: gr.Button(interactive=True), inputs.stop: gr.Button(visible=False)}
        return {**buttons, outputs.status: "", outputs.live: ""}

    def _verdict(self, comparison: Comparison) -> str:
        judgment, run = comparison.judgment, comparison.model
        if judgment.failure is not None and not views.has_scores(judgment):
            fixed = comparison.release is not None
            reason = failure(judgment.failure, own_judge=comparison.own_judge, fixed=fixed)
            return reason + (chain_views.unread_replies(judgment) if comparison.own_judge else "")
        return model_views.verdict(judgment, run) if run else views.verdict(judgment)

    def _shown(self, comparison: Comparison) -> Updates:
        """Show the result of a comparison."""
        outputs, judgment, run = self.outputs, comparison.judgment, comparison.model
        if not views.has_scores(judgment):
            return {outputs.verdict: self._verdict(comparison), outputs.comparison: None}
        self._services.results.add(comparison)
        labels = comparison.example.labels
        first = judgment.preference if judgment.preference in labels else labels[0]
        graded = checklist_of(judgment) if comparison.release is None else None
        offered = (*labels, TIE) if len(labels) == 2 else labels  # of a single one nothing is preferred
        pictures = chain_views.model_pictures(run.showings) if run else []
        links = zip(outputs.downloads, (RECORD, REPORT), strict=True)
        return {
            outputs.comparison: comparison,
            outputs.verdict: self._verdict(comparison),
            **self._visible(True),
            outputs.checklist: gr.Accordion(visible=graded is not None),
            outputs.principles: "\n".join(lines_of(graded.principles)) if graded else "",
            outputs.feedback: gr.Column(visible=len(labels) > 1),
            outputs.scores: views.score_table(judgment),
            outputs.reasons: model_views.reasons(judgment, run) if run else views.reasons(judgment),
            outputs.critiques: views.critiques(judgment) if comparison.critique else "",
            outputs.viewer: viewer(comparison, first),
            outputs.look: gr.Radio(list(labels), value=first, visible=run is None),
            **{vote: gr.Button(visible=answer in offered, interactive=True) for answer, vote in outputs.votes.items()},
            outputs.thanks: "",
            outputs.chain: gr.Accordion(open=run is not None),
            # The measurements of one candidate come with `look_closer`, once the section is open.
            outputs.overall: chain_views.showings(run.showings, live=False)
            if run
            else chain_views.overall_steps(judgment),
            outputs.measured: "",
            outputs.pictures: gr.Gallery(pictures, visible=bool(pictures)),
            outputs.consulted: views.consulted(judgment),
            outputs.notes: views.notes(judgment, comparison.library),
            **{button: gr.Button(link=address(comparison, file)) for button, file in links},
            **(outputs.improvement.offer(comparison, first) if outputs.improvement is not None else {}),
        }

    def look_closer(self, comparison: Comparison | None, label: str) -> Updates:
        """Show the measurements of one candidate; a model has none."""
        outputs = self.outputs
        if comparison is None or label not in comparison.example.labels:  # a late click on an earlier result
            return {outputs.measured: gr.skip()}
        if comparison.model is not None:
            return {outputs.measured: ""}
        pictures = chain_views.pictures(*self._services.draw(comparison, label))
        return {
            outputs.measured: chain_views.candidate_steps(comparison.judgment, label),
            outputs.pictures: gr.Gallery(pictures, visible=bool(pictures)),
        }

    def draft(self, given: Sequence[Any]) -> Draft:
        """Return the inputs on the page.

        Args:
            given: Values of `ScoreInputs.inputs`; images as the page sends them, of which only uploads are taken.
        """
        return self._draft(given, uploaded)

    def restore(self, draft: Draft, comparison: Comparison | None) -> Updates:
        """Fill in inputs, and show the result that belongs to them."""
        inputs = self._inputs
        updates = self._given(draft)
        used = max((number for number, path in enumerate(draft.references, 1) if path), default=0)
        references = zip(inputs.references, draft.references, strict=False)
        updates |= self.show_references(used)
        updates |= {image: gr.Image(value=path, visible=path is not None) for image, path in references}
        updates[inputs.source] = gr.Image(value=draft.source, label=FIRST if used else SOURCE)
        current = comparison is not None and self._services.belongs(comparison, draft)
        return updates | (self._shown(comparison) if comparison is not None and current else self.cleared())

    def understand(self, draft: Draft, values: Sequence[Any]) -> Updates:
        """Say what is understood of the instruction, if the chosen judge parses it; see `check_current`."""
        inputs = self._inputs
        parsed = inputs.setup.parses(values[len(inputs.pictures) + 2 :])
        return inputs.understanding.read(draft.instruction) if parsed else inputs.understanding.hide()

    def name_scaled(self, draft: Draft) -> Updates:
        """Name the images that were scaled down before they were sent."""
        names = ["The source", *(f"Candidate {label}" for label in LABELS)]
        names += [f"Image {number}" for number, _ in enumerate(draft.references, 2)]
        paths = (draft.source, *draft.candidates, *draft.references)
        return {self._inputs.scaled: views.scaled(scalings(zip(names, paths, strict=True)))}

    def check_current(self, comparison: Comparison | None, *given: Any) -> Updates:
        """Warn if a result is outdated because the inputs have changed, and disable voting on it.

        Args:
            comparison: The result.
            *given: The values of `ScoreInputs.inputs`; images as the page sends them, readable or not.
        """
        outputs = self.outputs
        if comparison is None:
            return {outputs.outdated: gr.skip()}
        current = self._is_current(comparison, given)
        return {
            outputs.outdated: "" if current else views.OUTDATED,
            **{vote: gr.Button(interactive=current) for vote in outputs.votes.values()},
        }

    def _is_current(self, comparison: Comparison, values: Sequence[Any]) -> bool:
        draft = self._draft(values, lambda image: image["path"] if image else None)
        choices = values[len(self._inputs.pictures) + 2 :]
        try:
            return self._services.is_current(comparison, draft, *self._inputs.setup.read(choices))
        except HarnessError:
            return False

    def vote(self, preference: str, visitor: Visitor, comparison: Comparison | None, *values: Any) -> Iterator[str]:
        """Store the preference of a visitor; say so while it is on its way to the Hub."""
        if comparison is None:
            yield views.SESSION_EXPIRED
        elif not self._is_current(comparison, values):
            yield views.NO_VOTE
        else:
            if self._services.feedback.repo:
                yield views.STORING
            try:
                stored = self._services.give_feedback(comparison, preference, visitor.name, visitor.owner)
                yield views.feedback_stored(preference, stored, lasting=self._services.local)
            except Exception as error:
                yield explain(error)

    def show_places(self, places: int) -> Updates:
        """Show this number of candidate fields."""
        inputs = self._inputs
        images = {image: gr.Image(visible=number < places) for number, image in enumerate(inputs.candidates[2:], 2)}
        return {inputs.places: places, inputs.more: gr.Button(visible=places < len(LABELS)), **images}

    def show_references(self, further: int) -> Updates:
        """Show this number of reference fields."""
        inputs = self._inputs
        images = {image: gr.Image(visible=number < further) for number, image in enumerate(inputs.references)}
        button = gr.Button(visible=further < len(inputs.references))
        source = gr.Image(label=FIRST if further else SOURCE)
        return {inputs.further: further, inputs.add_reference: button, inputs.source: source, **images}

    def take(self, path: str, label: str, places: int, *candidates: Any) -> Updates:
        """Put an improved edit into the first free field of a candidate, or in place of the edit that was improved."""
        free = [number for number, candidate in enumerate(candidates) if not candidate]
        number = free[0] if free else LABELS.index(label)
        image = {self._inputs.candidates[number]: gr.Image(value=path, visible=True)}
        return {**self.show_places(max(places, number + 1)), **image}

    def reset(self, queue: ComparisonQueue) -> Updates:
        """Clear the inputs and the result, but keep Library and judge.

        A running comparison ends with the same updates, so the order in which the page applies them does not matter.
        """
        queue.forget()
        return {**self._given(NO_DRAFT), **self.cleared(), **self._ready()}

    def _given(self, draft: Draft) -> Updates:
        """Fill in source, candidates and instruction; without references."""
        inputs = self._inputs
        places = max(2, *(number for number, path in enumerate([None, *draft.candidates]) if path or number <= 2))
        paths = zip_longest(inputs.candidates, draft.candidates)
        return {
            **self.show_places(places),
            **self.show_references(0),
            **{image: gr.Image(value=None, visible=False) for image in inputs.references},
            **{image: gr.Image(value=path, visible=number < places) for number, (image, path) in enumerate(paths)},
            inputs.source: gr.Image(value=draft.source, label=SOURCE),
            inputs.instruction: draft.instruction,
            inputs.refused: "",
        }

    def cleared(self) -> Updates:
        """Show no result."""
        outputs = self.outputs
        return {
            outputs.comparison: None,
            outputs.verdict: views.EMPTY_RESULT,
            outputs.outdated: "",
            **self._visible(False),
            outputs.checklist: gr.Accordion(visible=False),
            outputs.thanks: "",
        }

"""The button that improves an edit of a result, where the owner of the app has set an editor."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from app.failures import explain
from app.markup import block, bullets, escape, faint, paragraph, table
from app.score.comparisons import HEARTBEAT, Comparison, ComparisonQueue
from app.score.views import problem
from app.services import AppServices
from app.viewer.results import MARKS, draw_viewer, shown_images, uploaded_at
from app.widgets import QUIET, Updates, Widgets, button, markup, state, waiting_at
from rewardharness.editors.refine import Refined
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.schema import LABELS, ImageInput

IMPROVE = "improve"
"""Trigger of an improvement in the visitor's queue."""

IMPROVED = "Improved"
"""Name of the improved edit in the viewer."""

Work = Callable[[Callable[[str, int, int], None], Callable[[], bool]], Refined]


class Improving:
    """A running improvement. The constructor starts it in its own thread.

    Args:
        work: Improves an edit; gets what shows progress, and whether to stop.
    """

    def __init__(self, work: Work) -> None:
        self.progress, self._stopped, self._over = "Starting", threading.Event(), threading.Event()
        self._outcome: Refined | Exception | None = None
        self.stop = self.forget = self._stopped.set
        threading.Thread(target=self._run, args=(work,), name="improvement", daemon=True).start()

    def _run(self, work: Work) -> None:
        try:
            self._outcome = work(self._tell, self._stopped.is_set)
        except Exception as error:  # raised by `result`
            self._outcome = error
        self._over.set()

    def _tell(self, activity: str, done: int, total: int) -> None:
        self.progress = f"{activity.capitalize()} · {done} of at most {total} attempts made"

    def follow(self) -> Iterator[str]:
        """Yield the progress at least every half second; return at the end."""
        while not self._over.wait(HEARTBEAT):
            yield self.progress if not self._stopped.is_set() else "Stopping after the judgment in progress"

    def result(self) -> Refined:
        """Return the result after `follow` has ended.

        Raises:
            Exception: The error.
        """
        if isinstance(self._outcome, Refined):
            return self._outcome
        raise self._outcome or RuntimeError("It has not ended.")


def result(refined: Refined, label: str, image: ImageInput, *, local: bool) -> str:
    """Format the result of an improvement, with the instructions that were tried, rewards and faults.

    Args:
        refined: The result.
        label: The candidate that was improved.
        image: The improved edit, in the folder of uploads.
        local: Whether the visitor may read messages of the editor, which may contain an address.
    """
    rows, edit = [], f"candidate {label}"
    for number, attempt in enumerate(refined.attempts):
        failure = attempt.failure if local or not attempt.failure else "This attempt was not made or not judged."
        why = paragraph(failure) or bullets(map(problem, attempt.problems), "reasons")
        new = attempt.round > refined.attempts[number - 1].round  # all of a round have one instruction
        reward = "" if attempt.reward is None else f"{attempt.reward:.3f}"
        best = " (best)" if number == refined.best else ""
        name = f"{number}, round {attempt.round}" if number else f"Candidate {label}"
        rows.append([escape(name + best), reward, escape(attempt.instruction) if new else "", why])
    if refined.best:
        headline = f"Attempt {refined.best} leads {edit} by {refined.gain:.2f} in reward."
        link = f'<p><a href="{uploaded_at(image)}" download="improved.png">Download the improved edit</a></p>'
    else:
        headline, link = f"No attempt was better than {edit}.", ""
    about = f"{refined.ended} The judge that chose is optimistic about its choice."
    head = ["Attempt", "Reward", "Asked for", "What is wrong"]
    return block(f"<h3>{escape(headline)}</h3>{link}{paragraph(about, 'faint')}{table(head, rows, 'cards')}")


class Improvement(Widgets):
    """The button, the progress and the result of an improvement.

    Args:
        services: The services.
    """

    def __init__(self, services: AppServices) -> None:
        self._services = services
        with gr.Column(elem_id="improvement") as self.column:
            with gr.Row(elem_id="improve-actions"):
                self.label = gr.Radio([], label="Edit to improve", elem_id="improve-edit")
                self.start = button("Improve this edit", "improve")
                self.stop = button("Stop", "improve-stop", variant="stop", visible=False, min_width=80)
                self.take = button("Use the result as a candidate", "improve-take", visible=False, min_width=240)
            self.status = markup(elem_id="improve-status")
            self.result = markup(elem_id="improved")
        self.path = state()  # of the improved edit, in the folder of uploads

    def offer(self, comparison: Comparison, label: str) -> Updates:
        """Offer to improve an edit of a result. Editors get no reference images."""
        labels = list(comparison.example.labels)
        return {
            self.column: gr.Column(visible=not comparison.example.references),
            self.label: gr.Radio(labels, value=label, visible=len(labels) > 1),
            self.result: "",
            self.take: gr.Button(visible=False),
            **self._idle(),
        }

    def _idle(self) -> Updates:
        return {self.start: gr.Button(interactive=True), self.stop: gr.Button(visible=False), self.status: ""}

    def connect(self, queue: gr.State, comparison: gr.State, viewer: gr.HTML, compare: gr.Button) -> None:
        """Connect the widgets with those of a result, and with the visitor's queue of comparisons."""
        quick: dict[str, Any] = {"queue": False, **QUIET}

        def improve(
            request: gr.Request, queue: ComparisonQueue, comparison: Comparison | None, label: str
        ) -> Iterator[Updates]:
            turn = queue.take(IMPROVE)
            if turn is None or comparison is None or label not in comparison.example.labels:
                if turn is not None:
                    turn.end()
                yield {self.status: gr.skip()}
                return
            owner = self._services.visitor(request=request).owner
            updates: Updates = {
                self.start: gr.Button(interactive=False), self.stop: gr.Button(visible=True), self.result: "",
                self.take: gr.Button(visible=False), compare: gr.Button(interactive=False),
            }  # fmt: skip
            try:
                work = lambda tell, stop: self._services.improve(comparison, label, owner, tell, stop)  # noqa: E731
                running = turn.begin(Improving(work))
                for progress in running.follow():
                    if turn.forgotten:
                        break
                    yield {**updates, self.status: faint(progress)}
                if not turn.forgotten:
                    updates |= self._shown(comparison, label, running.result(), viewer)
            except Exception as error:  # every error is shown, so that the page stays usable
                updates |= {self.result: explain(error)}
            finally:
                turn.end()
            ready = {**self._idle(), compare: gr.Button(interactive=True)}
            yield {self.status: gr.skip()} if turn.replaced else {**updates, **ready}

        asked = self.start.click(partial(ComparisonQueue.ask, trigger=IMPROVE), queue, None, **quick)
        options = {"trigger_mode": "multiple", "concurrency_limit": 4, "concurrency_id": IMPROVE}
        outputs = [*self.parts, viewer, compare]
        asked.then(improve, [queue, comparison, self.label], outputs, **options, **waiting_at(self.status))
        self.stop.click(ComparisonQueue.stop, queue, None, **quick)

    def _shown(self, comparison: Comparison, label: str, refined: Refined, viewer: gr.HTML) -> Updates:
        """Show a result, and the improved edit beside the previous one."""
        pixels = load_picture(refined.image).pixels
        path = save_bytes_to_cache(encode_png(pixels), "improved.png", get_upload_folder())
        image = ImageInput(IMPROVED, path)
        updates: Updates = {self.result: result(refined, label, image, local=self._services.local)}
        if not refined.best:
            return updates
        alone = self._services.results.serve(replace(comparison.example, candidates=(image,)))
        images = shown_images(comparison)
        marked = (uploaded_at(image), f"result/{alone}/{LABELS[0]}{MARKS}")
        images = {label: images.pop(label), IMPROVED: marked, **images}
        return {
            **updates, viewer: draw_viewer(images, IMPROVED, alone), self.path: str(path),
            self.take: gr.Button(visible=True),
        }  # fmt: skip

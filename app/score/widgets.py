"""Widgets of the Score tab: images, instruction, judge and Library, and the result."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.library.chooser import Chooser
from app.library.libraries import Choice
from app.score import model_views, views
from app.score.comparisons import ComparisonQueue
from app.score.judge_form import JudgeForm, connect_judge, judge_line
from app.score.judges import JudgeChoice
from app.score.releases import RELEASE
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, section, state, textbox
from rewardharness.judging.config import MEASURED
from rewardharness.measure.text import ocr_available
from rewardharness.schema import LABELS, SOURCES, TIE

SOURCE, FIRST = "Source, before the edit", "Image 1: the source"
"""Label of the source image, alone and with references."""

BUTTON = ""
"""Trigger of a comparison that no sample starts: the button, or the Enter key in the instruction."""

GALLERY: dict[str, Any] = {
    "height": "auto", "object_fit": "contain", "format": "webp", "interactive": False, "buttons": []
}  # fmt: skip
"""Options of all galleries."""


def _picture(label: str, name: str, hint: str = "Drop, paste or choose an edited image", **options: Any) -> gr.Image:
    """Return an image input. Uploaded bytes reach the judge unchanged: no conversion, rotation or other format."""
    return gr.Image(
        label=label, elem_id=name, placeholder=hint, type="filepath", image_mode=None, format="png",
        sources=["upload", "clipboard"], height=260, min_width=120, buttons=[], **options,
    )  # fmt: skip


class Setup(Widgets):
    """The collapsed choice of Library and judge. If a release fixes both, there is nothing to choose.

    Drawing it draws the line above the images that names the judge, and the section about the pixel-based judge.
    """

    def __init__(self, services: AppServices) -> None:
        self._services = services
        fixed, default = services.fixed, services.judges.default
        local, measured = services.local, default == MEASURED if fixed is None else not fixed.by_model
        line = judge_line(services, default) if fixed is None else model_views.fixed_line(fixed, local=local)
        self.line = markup(line, elem_id="judge")
        if fixed is not None:
            with section("About this release", elem_id="release-about"):
                markup(model_views.about_release(fixed.release))
        with section("What this judge can and cannot detect", visible=measured) as self.about:
            markup(views.about_judge(ocr_available()))
        self.form: JudgeForm | None = None
        self.chooser: Chooser | None = None
        if fixed is not None:
            self.used = state()  # the model that judged last for this visitor, while it is idle
            self.inputs: list[Any] = [self.used]
            return
        with gr.Row(equal_height=False, elem_id="score-setup"):
            label = self._label(services.libraries.choices()[0][1])
            with section(label, elem_id="score-library") as self.section:  # its label names the Library
                self.chooser = Chooser(services, "score-library", "Judge with")
            self.form = JudgeForm(services)
        self.used = self.form.used
        self.inputs = [self.used, *self.chooser.inputs, *self.form.inputs]
        """The inputs, in the order in which `read` takes them."""

    def read(self, values: Sequence[Any]) -> tuple[Choice, JudgeChoice]:
        """Return the choices for the values of `inputs`.

        Raises:
            InputError: If a value is out of range.
        """
        if self.chooser is None or self.form is None:
            return Choice(RELEASE), JudgeChoice(RELEASE)
        count = 1 + len(self.chooser.inputs)
        return Choice(*values[1:count]), self.form.read(values[count:])

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Move a typed key from the page to the server as soon as it is used; see `read` for the argument."""
        if self.chooser is None or self.form is None:
            return {}
        return self.form.put_away(values[1 + len(self.chooser.inputs) :])

    def _label(self, *values: Any) -> str:
        return f"Library: {self._services.libraries.label(Choice(*values))}"

    def connect(self) -> None:
        """Connect the widgets, if there are any."""
        chooser = self.chooser
        if self.form is None or chooser is None:
            return
        connect_judge(self._services, self.form, (self.line, self.about))

        named: dict[str, Any] = {
            "fn": lambda *values: gr.Accordion(label=self._label(*values)),
            "inputs": chooser.inputs, "outputs": self.section, **QUIET,
        }  # fmt: skip
        for event in chooser.events:
            event.then(**named)
        gr.on([chooser.kind.input, chooser.folder.change, chooser.spec.change], queue=False, **named)


class ScoreInputs(Widgets):
    """Images and instruction, and the buttons below them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        with gr.Row(elem_id="pictures"):
            self.source = _picture(SOURCE, "source", "Drop, paste or choose an image")
            # Image 2, image 3 and image 4; hidden until the visitor adds one.
            hint = "Drop, paste or choose image {} of the instruction"
            self.references = tuple(
                _picture(f"Image {number}", f"reference-{number}", hint.format(number), visible=False)
                for number in range(2, SOURCES + 1)
            )
            self.candidates = tuple(
                _picture(f"Candidate {label}", f"candidate-{label.lower()}", visible=label in LABELS[:2])
                for label in LABELS
            )
        self.refused, self.scaled = markup(elem_id="refused"), markup(elem_id="scaled")
        # Receives several images at once and those from the clipboard.
        self.dropped = gr.File(file_count="multiple", type="filepath", visible="hidden", elem_id="dropped")
        self.place = gr.Number(-1, visible=False)  # index in `pictures` of where they were dropped; -1 for none
        self.places, self.further = gr.State(2), gr.State(0)  # numbers of visible candidates and references
        self.instruction = textbox(
            "Instruction", "instruction", info="The requested edit, in English.", placeholder="Make the car red.",
            max_length=2000,
        )  # fmt: skip
        info = "A critique of each candidate, and the next instruction. A model is asked once more per candidate."
        self.critique = gr.Checkbox(label="Say what is wrong", info=info, elem_id="critique")
        with gr.Row(elem_id="actions"):
            self.compare = button("Compare", "compare", variant="primary", min_width=160)
            self.stop = button("Stop", "stop", variant="stop", visible=False, min_width=100)
            self.more = button("Add a candidate", "more", min_width=140)
            self.add_reference = button("Add a reference", "add-reference", min_width=140)
            self.reset = button("Start over", "reset", min_width=120)
        self.pictures = [self.source, *self.candidates, *self.references]
        self.options = [self.critique, *setup.inputs]
        """The inputs beside images and instruction."""
        self.inputs = [*self.pictures, self.instruction, *self.options]
        """The inputs of a comparison, as `ScoreEvents.compare` takes them."""
        widgets = [*self.pictures, self.instruction, *setup.inputs]
        self.changes = [part.change for part in widgets if not isinstance(part, gr.State)]
        """Events that may change the inputs of a comparison."""


class ScoreOutputs(Widgets):
    """The result and its details, and below them what survives a reload: earlier comparisons."""

    def __init__(self, services: AppServices) -> None:
        self.comparison = state()
        self.queue = state(ComparisonQueue())  # the visitor's waiting and running comparisons
        self.outdated = markup(elem_id="outdated")
        self.verdict = markup(views.EMPTY_RESULT, elem_id="verdict")
        self.status = markup(elem_id="status")  # progress of a model; updated every half second
        self.live = markup(elem_id="live")  # reasoning of a model; updated with every step
        with gr.Column(visible=False, elem_id="details") as self.details:
            self._draw_details(services)
        self.token = gr.Textbox("", visible=False)  # name of the session
        with gr.Accordion("Earlier comparisons", visible=False, elem_id="history-section") as self.history_section:
            self.history = gr.Gallery(
                label="Earlier comparisons, newest first", columns=6, allow_preview=False, elem_id="history", **GALLERY
            )

    def _draw_details(self, services: AppServices) -> None:
        with gr.Row(equal_height=False):
            with gr.Column(scale=6, min_width=320):
                self.scores = markup(elem_id="scores")
                self.reasons = markup(elem_id="reasons")
                self.critiques = markup(elem_id="critiques")
            with gr.Column(scale=7, min_width=320):
                self.viewer = gr.HTML(elem_id="viewer", js_on_load=None)
        with gr.Column(elem_id="feedback"):
            place = str(services.settings.feedback)
            markup(views.feedback_hint(place, repo=services.feedback.repo, lasting=services.local))
            with gr.Row(elem_id="votes"):
                titles = {**{label: f"{label} is better" for label in LABELS}, TIE: "It is a tie"}
                self.votes = {label: gr.Button(title, size="md", min_width=90) for label, title in titles.items()}
            self.thanks = markup(elem_id="thanks")
        with gr.Accordion("How the judge got there", open=False, elem_id="chain") as self.chain:
            self.look = gr.Radio([], label="Candidate", elem_id="look")  # whose measurements are shown
            self.overall = markup(elem_id="overall")
            self.measured = markup(elem_id="measured")
            self.pictures = gr.Gallery(label="Images from the Tools", columns=3, elem_id="tool-pictures", **GALLERY)
        with gr.Accordion("Entries consulted", open=False):
            self.consulted = markup(elem_id="consulted")
        with gr.Accordion("Notes", open=False):
            self.notes = markup(elem_id="notes")
        with gr.Row(elem_id="share"):
            # Links to the record, the report and the picture, and a button that keeps a link.
            names = (("as JSON", "download"), ("a report (HTML)", "share-report"), ("a picture (PNG)", "share-picture"))
            self.downloads = tuple(button(f"Download {what}", name) for what, name in names)
            self.keep = button("Keep a link", "share-keep", visible=services.local)
        self.kept = markup(elem_id="share-kept")

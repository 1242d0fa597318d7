"""Widgets of the Score tab: images, instruction, judge and Library, and the result."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.library.chooser import Chooser
from app.library.libraries import Choice
from app.score import model_views, views
from app.score.comparisons import ComparisonQueue
from app.score.improving import Improvement
from app.score.judge_form import JudgeForm, connect_judge, judge_line
from app.score.judges import PROFILE, JudgeChoice
from app.score.releases import RELEASE
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, section, state, textbox
from rewardharness.judging.config import MEASURED
from rewardharness.judging.understood import KINDS, canonical, understood
from rewardharness.measure.text import ocr_available
from rewardharness.schema import LABELS, SOURCES, TIE


class Understanding(Widgets):
    """The line, and a form that writes the corrected request into the instruction.

    Args:
        instruction: The field of the instruction.
    """

    def __init__(self, instruction: gr.Textbox) -> None:
        with gr.Row(elem_id="understood-row"):
            self.line = markup(elem_id="understood")
            self.correct = button("Correct", "understood-correct", visible=False, size="sm", min_width=80)
        with gr.Row(visible=False, elem_id="understood-form") as self.form:
            kinds = [(label, kind) for kind, label in KINDS.items()]
            self.kind = gr.Dropdown(kinds, value=None, label="Kind of edit", min_width=120, elem_id="understood-kind")
            self.what = textbox("What", "understood-what", placeholder="car", max_length=200, min_width=90)
            self.to = textbox("Becomes", "understood-to", placeholder="red", max_length=200, min_width=90)
            self.use = button("Use", "understood-use", size="sm", min_width=60)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        fields = [self.kind, self.what, self.to]
        self.correct.click(self._open, instruction, [self.form, *fields], **quick)
        gr.on([self.use.click, self.what.submit, self.to.submit], self._use, fields, [instruction, self.form], **quick)

    def read(self, instruction: str) -> Updates:
        """Say what is read in an instruction; nothing for none."""
        return {self.line: views.understood(instruction), self.correct: gr.Button(visible=bool(instruction.strip()))}

    def hide(self) -> Updates:
        """Hide the line, for a judge that reads the instruction itself."""
        return {self.line: "", self.correct: gr.Button(visible=False), self.form: gr.Row(visible=False)}

    def _open(self, instruction: str) -> Updates:
        read = understood(instruction)
        kind = read.kind if read.kind in KINDS else None
        return {self.form: gr.Row(visible=True), self.kind: kind, self.what: read.what, self.to: read.to}

    def _use(self, kind: str | None, what: str | None, to: str | None) -> Any:
        if kind not in KINDS:
            return gr.skip(), gr.skip()
        return canonical(kind, what or "", to or ""), gr.Row(visible=False)


SOURCE, FIRST = "Source", "Image 1 (source)"
"""Label of the source image, alone and with references."""

BUTTON = ""
"""Trigger of a comparison that no sample starts: the button, or the Enter key in the instruction."""

GALLERY: dict[str, Any] = {
    "height": "auto", "object_fit": "contain", "format": "webp", "interactive": False, "buttons": []
}  # fmt: skip
"""Options of all galleries."""


def _picture(label: str, name: str, hint: str = "Drop, paste or choose an edited image", **options: Any) -> gr.Image:
    """Return an image input. Uploaded bytes reach the judge unchanged: no conversion, rotation or other format.

    A file that Gradio cannot open reaches it, too: the judge opens more formats, and says what is wrong with others.
    """
    picture = gr.Image(
        label=label, elem_id=name, placeholder=hint, type="filepath", image_mode=None, format="png",
        sources=["upload", "clipboard"], height=200, min_width=110, buttons=[], **options,
    )  # fmt: skip
    opened = picture.preprocess

    def preprocess(payload: Any) -> Any:
        try:
            return opened(payload)
        except Exception:  # Pillow raises nearly every built-in exception on damaged bytes
            return payload.path

    picture.preprocess = preprocess
    return picture


class Setup(Widgets):
    """One line that names Library and judge, and opens the choice of both and what the judge cannot detect.

    If a release fixes both, there is nothing to choose.
    """

    def __init__(self, services: AppServices) -> None:
        self._services = services
        fixed, default = services.fixed, services.judges.default
        local, measured = services.local, default == MEASURED if fixed is None else not fixed.by_model
        line = judge_line(services, default) if fixed is None else model_views.fixed_line(fixed, local=local)
        self.form: JudgeForm | None = None
        self.chooser: Chooser | None = None
        if fixed is not None:
            label = model_views.fixed_label(fixed, local=local)
        else:
            label = self._label(default, services.libraries.choices()[0][1])
        with section(label, elem_id="score-setup" if fixed is None else "score-release") as self.section:
            self.line = markup(line, elem_id="judge")
            if fixed is not None:
                markup(model_views.about_release(fixed.release), elem_id="release-about")
            else:
                with gr.Row(equal_height=False):
                    with gr.Column(scale=4, min_width=280):
                        self.chooser = Chooser(services, "score-library", "Library")
                    with gr.Column(scale=7, min_width=300):
                        self.form = JudgeForm(services, folded=False)
            self.about = markup(views.about_judge(ocr_available()), visible=measured)
        self.used = state() if self.form is None else self.form.used  # the model that judged last, while it is idle
        self.inputs: list[Any] = [self.used]
        """The inputs, in the order in which `read` takes them."""
        if self.form is not None and self.chooser is not None:
            self.inputs += [*self.chooser.inputs, *self.form.inputs]

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

    def parses(self, values: Sequence[Any]) -> bool:
        """Return whether the judge parses the instruction with rules, as the pixel-based judge does; see `read`."""
        if self.chooser is None:
            return self._services.fixed is None or not self._services.fixed.by_model
        return bool(values[1 + len(self.chooser.inputs)] == MEASURED)

    def _label(self, judge: str, *library: Any) -> str:
        library_name = "not used" if judge == PROFILE else self._services.libraries.label(Choice(*library))
        named = f"Library: {library_name}"
        where = model_views.destination(judge, local=self._services.local)
        return " · ".join(filter(None, (named, f"Judge: {self._services.judges.named(judge)}", where)))

    def connect(self) -> None:
        """Connect the widgets, if there are any."""
        chooser = self.chooser
        if self.form is None or chooser is None:
            return
        connect_judge(self._services, self.form, (self.line, self.about))

        kind = self.form.kind
        named: dict[str, Any] = {
            "fn": lambda *values: gr.Accordion(label=self._label(*values)),
            "inputs": [kind, *chooser.inputs], "outputs": self.section, **QUIET,
        }  # fmt: skip
        for event in chooser.events:
            event.then(**named)
        changes = [kind.input, chooser.kind.input, chooser.folder.change, chooser.spec.change]
        gr.on(changes, queue=False, **named)


class ScoreInputs(Widgets):
    """Images and instruction, and the buttons below them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        with gr.Column(elem_id="score-inputs") as self.column:  # holds the verdict, too
            self._draw()
        self.pictures = [self.source, *self.candidates, *self.references]
        self.options = [self.critique, *setup.inputs]
        """The inputs beside images and instruction."""
        self.inputs = [*self.pictures, self.instruction, *self.options]
        """The inputs of a comparison, as `ScoreEvents.compare` takes them."""
        widgets = [*self.pictures, self.instruction, *setup.inputs]
        self.changes = [part.change for part in widgets if not isinstance(part, gr.State)]
        """Events that may change the inputs of a comparison."""

    def _draw(self) -> None:
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
        self.changed = gr.Number(0, visible=False)  # counts changes of the inputs
        self.place = gr.Number(-1, visible=False)  # index in `pictures` of where they were dropped; -1 for none
        self.places, self.further = gr.State(2), gr.State(0)  # numbers of visible candidates and references
        self.instruction = textbox(
            "Instruction, in English", "instruction", placeholder="Make the car red.", max_length=2000
        )
        self.understanding = Understanding(self.instruction)
        label = "List each edit's faults and suggest a better instruction."
        self.critique = gr.Checkbox(label=label, elem_id="critique", container=False)
        with gr.Row(elem_id="actions"):
            self.compare = button("Compare", "compare", variant="primary", min_width=130)
            self.stop = button("Stop", "stop", variant="stop", visible=False, min_width=80)
            self.more = button("Add a candidate", "more", min_width=100)
            self.add_reference = button("Add a reference", "add-reference", min_width=100)
            self.reset = button("Start over", "reset", min_width=80)


class ScoreOutputs(Widgets):
    """The result and its details, and below them what survives a reload: earlier comparisons.

    Args:
        services: The services.
        columns: The row of the inputs. Reasons and images stand in it beside them.
        inputs: The column of the inputs. The verdict stands below them.
    """

    def __init__(self, services: AppServices, columns: gr.Row, inputs: gr.Column) -> None:
        self.comparison = state()
        self.queue = state(ComparisonQueue())  # the visitor's waiting and running comparisons
        with inputs:
            self.outdated = markup(elem_id="outdated")
            self.verdict = markup(views.EMPTY_RESULT, elem_id="verdict")
            self.status = markup(elem_id="status")  # progress of a model; updated every half second
        with columns, gr.Column(elem_id="score-result"):
            self.live = markup(elem_id="live")  # reasoning of a model; updated with every step
            with gr.Column(visible=False, elem_id="beside") as self.beside:
                self.reasons = markup(elem_id="reasons")
                self.viewer = gr.HTML(elem_id="viewer", js_on_load=None)
                self.improvement = Improvement(services) if services.improves else None
            with section("Correct the checklist", visible=False, elem_id="checklist") as self.checklist:
                info = "One per line: instruction or quality, and a weight from 1 to 3 before the colon."
                name = "principles"
                self.principles = gr.Textbox(label="Principles", info=info, lines=4, max_length=4000, elem_id=name)
                self.again = button("Judge again with these", "judge-again", min_width=180)
        with gr.Column(visible=False, elem_id="details") as self.details:
            self._draw_details(services)
        # Below the details, as a link in the address has none.
        self.kept = markup(elem_id="share-kept")
        with gr.Row(visible=False, elem_id="share-link") as self.link_row:
            self.link = textbox("Link", "link", interactive=False, buttons=["copy"])
            self.unkeep = button("Delete this link", "share-delete", variant="stop", min_width=140)
        # Name of the session, and the secret of the browser with which it deletes its links.
        self.token, self.maker = gr.Textbox("", visible=False), gr.Textbox("", visible=False)
        with gr.Accordion("Earlier comparisons", visible=False, elem_id="history-section") as self.history_section:
            self.history = gr.Gallery(
                label="Earlier comparisons, newest first", columns=6, allow_preview=False, elem_id="history", **GALLERY
            )
            with gr.Row(elem_id="history-actions"):
                self.delete = button("Delete the one shown", "history-delete", size="sm")
                self.delete_all = button("Delete all", "history-clear", size="sm")

    def _draw_details(self, services: AppServices) -> None:
        self.scores = markup(elem_id="scores")
        self.critiques = markup(elem_id="critiques")
        with gr.Column(elem_id="feedback") as self.feedback:
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
            # Links to the record and the report, and a button that keeps a link.
            names = (("as JSON", "download"), ("a report (HTML)", "share-report"))
            self.downloads = tuple(button(f"Download {what}", name) for what, name in names)
            self.keep = button("Keep a link", "share-keep", visible=services.links.offered)
        markup(views.keeping(services.settings.link_days, lasting=services.local), visible=services.links.offered)

"""The line under the instruction that says what the pixel-based judge reads in it, and the form that corrects it."""

from typing import Any

import gradio as gr

from app.score import views
from app.widgets import QUIET, Updates, Widgets, button, markup, textbox
from rewardharness.judging.understood import KINDS, canonical, understood


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

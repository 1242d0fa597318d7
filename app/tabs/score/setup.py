"""Choice of judge and Library on the Score tab, unless a release fixes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import views
from app.judges import JudgeChoice
from app.libraries import Choice
from app.release_views import about_release, fixed_line
from app.releases import RELEASE
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.parts import KEPT, QUIET, Updates, markup
from app.tabs.score.judge import JudgeForm, connect_judge, draw_judge, judge_line
from rewardharness.judging.opening import MEASURED


@dataclass(frozen=True)
class Setup:
    """The widgets of the choice; without a form there is nothing to choose."""

    used: gr.State
    """The model that judged last for this visitor, while it is idle."""
    section: gr.Accordion | None = None
    """Contains the choice of the Library; its label names it."""
    chooser: Chooser | None = None
    form: JudgeForm | None = None

    @property
    def inputs(self) -> list[Any]:
        """The inputs, in the order in which `read` takes them."""
        if self.chooser is None or self.form is None:
            return [self.used]
        return [self.used, *self.chooser.parts, *self.form.inputs]

    @property
    def changes(self) -> list[Any]:
        """Events that may change the choice."""
        if self.chooser is None or self.form is None:
            return []
        states = {self.form.kept, self.chooser.loaded}
        return [part.change for part in (*self.chooser.parts, *self.form.inputs) if part not in states]

    @property
    def parts(self) -> list[Any]:
        """The widgets that events change."""
        return [self.used] if self.form is None else self.form.parts

    def read(self, values: Sequence[Any]) -> tuple[Choice, JudgeChoice]:
        """Return the choices for the values of `inputs`.

        Raises:
            InputError: If a value is out of range.
        """
        if self.chooser is None or self.form is None:
            return Choice(RELEASE), JudgeChoice(RELEASE)
        count = 1 + len(self.chooser.parts)
        return Choice(*values[1:count]), self.form.read(values[count:])

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Move a typed key from the page to the server as soon as it is used; see `read` for the argument."""
        if self.chooser is None or self.form is None:
            return {}
        return self.form.put_away(values[1 + len(self.chooser.parts) :])


@dataclass(frozen=True)
class Head:
    """The line above the images that names the judge, and the section about the pixel-based judge."""

    line: gr.Markdown
    about: gr.Accordion


def draw_head(services: AppServices) -> Head:
    """Draw the line that names the judge."""
    fixed, default = services.fixed, services.judges.default
    text = judge_line(services, default) if fixed is None else fixed_line(fixed, local=services.local)
    line = markup(text, elem_id="judge")
    if fixed is not None:
        with gr.Accordion("About this release", open=False, elem_classes="slim", elem_id="release-about"):
            markup(about_release(fixed.release))
    measured = default == MEASURED if fixed is None else not fixed.by_model
    with gr.Accordion(
        "What this judge can and cannot detect", open=False, elem_classes="slim", visible=measured
    ) as about:
        markup(views.about_judge(services.reads_text))
    return Head(line, about)


def draw_setup(services: AppServices) -> Setup:
    """Draw the collapsed choice of Library and judge; nothing if a release fixes both."""
    if services.fixed is not None:
        return Setup(gr.State(None, time_to_live=KEPT))
    label = _library_label(services, services.libraries.choices()[0][1])
    with gr.Row(equal_height=False, elem_id="score-setup"):
        with gr.Accordion(label, open=False, elem_classes="slim", elem_id="score-library") as section:
            chooser = make_chooser(services, "score-library", "Judge with")
        form = draw_judge(services)
    return Setup(form.used, section, chooser, form)


def _library_label(services: AppServices, *values: Any) -> str:
    return f"Library: {services.libraries.label(Choice(*values))}"


def connect_setup(services: AppServices, setup: Setup, head: Head) -> None:
    """Connect the widgets, if there are any."""
    chooser = setup.chooser
    if setup.form is None or chooser is None:
        return
    connect_judge(services, setup.form, (head.line, head.about))

    def name(*values: Any) -> gr.Accordion:
        return gr.Accordion(label=_library_label(services, *values))

    named: dict[str, Any] = {"fn": name, "inputs": chooser.parts, "outputs": setup.section, **QUIET}
    for event in chooser.events:
        event.then(**named)
    gr.on([chooser.kind.input, chooser.folder.change, chooser.spec.change], queue=False, **named)

"""The form of a new benchmark: task, judge, Library, and the other rows of the table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import benchmark_views
from app.judges import BY_MEASURING
from app.libraries import Choice
from app.new_jobs import OWN, PLACE, PROTOCOLS_OF_EXAMPLES, VISITOR_PAIRS, NewJob, release_spec, task_and_source
from app.releases import RELEASE
from app.run_panel.page import JobForm, draw_start
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.parts import QUIET, Updates, markup
from app.tabs.score.judge import draw_judge
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.task import Task
from rewardharness.data.opening import DEMO
from rewardharness.errors import InputError
from rewardharness.judging.baselines import BASELINES

BASELINE_WORDS = {
    "random": "chance",
    "always-a": "always the first",
    "closer": "closer to the source",
    "farther": "farther from the source",
    "ssim": "most like the source (SSIM)",
}
"""Title of each baseline."""

COPY = "A table, or a folder of tables next to the images."
"""Description of a local copy of the data of a task."""

LIBRARY = "library"
"""Choice of a Library and a judge instead of a release, `RELEASE`."""


@dataclass(frozen=True)
class Released:
    """The choice between a release, and a Library with a judge."""

    by: gr.Radio
    chosen: gr.Column
    """Fields of `LIBRARY`, apart from the judge."""
    fixed: gr.Column
    """Fields of `RELEASE`."""
    release: gr.Textbox
    served: gr.Textbox


@dataclass(frozen=True)
class BenchmarkForm(JobForm):
    """The form of a new benchmark."""

    task: gr.Radio
    about: gr.Markdown
    place: gr.Textbox
    source: gr.Textbox
    protocol: gr.Dropdown
    limit: gr.Number
    seed: gr.Number
    released: Released
    bare: gr.Checkbox
    baselines: gr.CheckboxGroup
    tasks: tuple[Task, ...]

    @property
    def own(self) -> list[Any]:
        """See `JobForm.own`."""
        return [
            self.task, self.place, self.source, self.protocol, self.limit, self.seed, self.bare, self.baselines,
            self.released.by, self.released.release, self.released.served,
        ]  # fmt: skip

    def read(self, services: AppServices, values: Sequence[Any]) -> NewJob:
        """Read the job that the form describes.

        Raises:
            InputError: If a value is missing or out of range.
        """
        task, place, source, protocol, limit, seed, bare, baselines, by, release, served, *rest = values
        spec, copy = task_and_source(str(task or ""), place or "", source or "")
        config = BenchmarkConfig(
            spec,
            source=copy,
            task_protocol=protocol or None,
            limit=_whole(limit),
            seed=int(seed or 0),
            no_baseline=not bare,
            baselines=tuple(baselines or ()),
        )
        if by == RELEASE:
            fixed, release = services.fixed, release or ""
            own = fixed is not None and release.strip() == services.settings.release
            router = fixed.places.router if fixed is not None and own else None
            judge = (served or "").strip() or None
            return NewJob(replace(config, release=release_spec(release), judge=judge, router=router))
        library = services.libraries.spelled(Choice(*rest[: len(self.chooser.parts)]))
        choice = self.judge.read(rest[len(self.chooser.parts) :]) if self.judge is not None else BY_MEASURING
        return NewJob(replace(config, library=library), choice)

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        who = self.released
        if self.judge is not None:
            self.task.input(self.choose_task, self.task, [self.about, self.place, self.source, self.protocol], **quick)
            who.by.input(self.choose_who, who.by, [who.chosen, who.fixed, self.judge.section], **quick)

    def choose_task(self, name: str) -> Updates:
        """Show the fields of a task."""
        task = next((task for task in self.tasks if task.name == name), None)
        if task is None and name not in OWN:
            return {self.about: gr.skip()}
        protocols = list(task.protocols if task else PROTOCOLS_OF_EXAMPLES)
        info = f"Only for a task file: {COPY[0].lower()}{COPY[1:]}" if name == PLACE else COPY
        return {
            self.about: benchmark_views.about_task(task, name),
            self.place: gr.Textbox(visible=name == PLACE),
            self.source: gr.Textbox(visible=task is not None or name == PLACE, value="", info=info),
            self.protocol: gr.Dropdown(protocols, value=protocols[0], visible=len(protocols) > 1),
        }

    def choose_who(self, by: str) -> Updates:
        """Show the fields of a judge with a Library, or of a release."""
        assert self.judge is not None
        return {
            self.released.chosen: gr.Column(visible=by != RELEASE),
            self.released.fixed: gr.Column(visible=by == RELEASE),
            self.judge.section: gr.Accordion(visible=by != RELEASE),
        }


def _whole(value: float | None) -> int | None:
    if value is None or value == 0:
        return None
    if value != int(value):
        raise InputError(f"A sample of {value:g} pairs is not possible.", next_step="Give a whole number.")
    return int(value)


def draw_form(services: AppServices) -> BenchmarkForm:
    """Draw the form. Visitors see only what they may choose."""
    local = services.local
    with gr.Accordion("New benchmark", open=True, elem_classes="slim", elem_id="benchmark-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                task = gr.Radio(
                    benchmark_views.task_choices(services.benchmarks.tasks(), local=local),
                    value=DEMO,
                    label="Task",
                    elem_id="benchmark-task",
                    elem_classes="choices",
                )
            with gr.Column(scale=1, min_width=300):
                about = markup(benchmark_views.about_task(None, DEMO), elem_id="benchmark-about-task")
                what = _draw_data(local)
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300, visible=local):
                chooser, released = _draw_who(services)
            with gr.Column(scale=1, min_width=300):
                bare, baselines = _draw_table()
        judge = draw_judge(services, "benchmark-", visible=services.fixed is None) if local else None
        start = draw_start("benchmark")
    form = BenchmarkForm(
        section, chooser, judge, start, task, about, *what, released, bare, baselines, services.benchmarks.tasks()
    )
    form.connect(services)
    return form


def _draw_data(local: bool) -> tuple[gr.Textbox, gr.Textbox, gr.Dropdown, gr.Number, gr.Number]:
    place = gr.Textbox(
        "",
        label="Folder, table, task file or dataset",
        info="A path on this computer, or org/name on the Hub.",
        placeholder="/home/me/pairs",
        max_lines=1,
        max_length=1000,
        visible=False,
        elem_id="benchmark-place",
    )
    source = gr.Textbox(
        "",
        label="Your copy of the data",
        info=COPY,
        placeholder="/data/benchmark",
        max_lines=1,
        max_length=1000,
        visible=False,
        elem_id="benchmark-source",
    )
    with gr.Row():
        protocol = gr.Dropdown(
            list(PROTOCOLS_OF_EXAMPLES), value=PROTOCOLS_OF_EXAMPLES[0], label="Protocol of the task",
            info="What one example is.", visible=local, min_width=180, elem_id="benchmark-protocol",
        )  # fmt: skip
        limit = gr.Number(
            0 if local else VISITOR_PAIRS,
            label="Sample",
            info="Number of pairs or groups. " + ("0: all." if local else f"Up to {VISITOR_PAIRS} here."),
            precision=None,
            minimum=0,
            min_width=180,
            elem_id="benchmark-limit",
        )
        seed = gr.Number(0, label="Seed", info="Of the sample.", precision=0, min_width=120, elem_id="benchmark-seed")
    return place, source, protocol, limit, seed


def _draw_who(services: AppServices) -> tuple[Chooser, Released]:
    """Draw the choice between a release, and a Library with a judge; the default is the release of the app."""
    start = services.fixed if services.local else None
    by = gr.Radio(
        [("A Library and a judge", LIBRARY), ("A release", RELEASE)],
        value=LIBRARY if start is None else RELEASE,
        label="Judge with",
        elem_id="benchmark-by",
    )
    with gr.Column(visible=start is None) as chosen:
        chooser = make_chooser(services, "benchmark-library", "Library", address="", aloud=False)
    with gr.Column(visible=start is not None) as fixed:
        release = gr.Textbox(
            (services.settings.release or "") if start is not None else "",
            label="Release",
            info="Its file, or deployed:NAME. It fixes Library, judge and settings.",
            placeholder="/home/me/release.json",
            max_lines=1,
            max_length=1000,
            elem_id="benchmark-release",
        )
        served = gr.Textbox(
            (start.places.judge or "") if start is not None else "",
            label="Endpoint of its model",
            info="Its URL; empty for that of RH_JUDGE. The pixel-based judge needs none.",
            placeholder="http://localhost:8000/v1",
            max_lines=1,
            max_length=500,
            elem_id="benchmark-served",
        )
    return chooser, Released(by, chosen, fixed, release, served)


def _draw_table() -> tuple[gr.Checkbox, gr.CheckboxGroup]:
    bare = gr.Checkbox(
        False,
        label="The same judge without a Library",
        info="Models only. Shows the effect of the Library, at twice the cost.",
        elem_id="benchmark-bare",
    )
    baselines = gr.CheckboxGroup(
        [(BASELINE_WORDS[name], name) for name in BASELINES],
        value=[],
        label="Baselines",
        info="Simple judges that call no model.",
        elem_id="benchmark-baselines",
    )
    return bare, baselines

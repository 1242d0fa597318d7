"""The form of a new benchmark: task, judge, Library, who else is in the table; what it would cost; and Start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import benchmark_views
from app.libraries import Choice
from app.new_benchmark import OWN, PLACE, PROTOCOLS_OF_EXAMPLES, VISIT_PAIRS, NewBenchmark
from app.releases import RELEASE
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.parts import KEPT, QUIET, Updates, markup
from app.tabs.score.judge import JudgeForm, connect_judge, draw_judge
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
"""What each baseline goes by."""


COPY = "A table, or a folder of tables with the images beside it."
"""What a copy of the data of a task can be."""

LIBRARY = "library"
"""Choice of a Library and a judge; the other one is `RELEASE`, which fixes both."""


@dataclass(frozen=True)
class Released:
    """The choice of a release in the place of a Library and a judge."""

    by: gr.Radio
    chosen: gr.Column
    """Holds what is chosen for `LIBRARY`, beside the section of the judge."""
    fixed: gr.Column
    """Holds what is typed for `RELEASE`."""
    release: gr.Textbox
    served: gr.Textbox


@dataclass(frozen=True)
class BenchmarkForm:
    """The parts of the form."""

    section: gr.Accordion
    task: gr.Radio
    about: gr.Markdown
    place: gr.Textbox
    source: gr.Textbox
    protocol: gr.Dropdown
    limit: gr.Number
    seed: gr.Number
    chooser: Chooser
    released: Released
    bare: gr.Checkbox
    baselines: gr.CheckboxGroup
    judge: JudgeForm | None
    """None where strangers may only measure."""
    see: gr.Button
    told: gr.Markdown
    start: gr.Button
    promised: gr.State
    """What would be started, after its cost was shown."""

    @property
    def own(self) -> list[Any]:
        """The parts of its own that describe a benchmark, in the order in which `read` takes them."""
        return [
            self.task, self.place, self.source, self.protocol, self.limit, self.seed, self.bare, self.baselines,
            self.released.by, self.released.release, self.released.served,
        ]  # fmt: skip

    @property
    def inputs(self) -> list[Any]:
        """All that describes a benchmark."""
        return [*self.own, *self.chooser.parts, *(self.judge.inputs if self.judge else [])]

    @property
    def fields(self) -> list[Any]:
        """The parts that a visitor changes by hand."""
        found = [*self.own, self.chooser.kind, self.chooser.folder, self.chooser.spec]
        if self.judge is not None:
            judge = self.judge
            found += [judge.kind, judge.server, judge.url, judge.name, judge.gemini, judge.key, judge.protocol]
            found += [judge.orders, judge.samples, judge.pixels, judge.remember]
        return found

    @property
    def parts(self) -> list[Any]:
        """All that events may change."""
        return [self.section, self.told, self.start, self.promised, *(self.judge.parts if self.judge else [])]

    def read(self, services: AppServices, values: Sequence[Any]) -> NewBenchmark:
        """Make a benchmark of what stands on the screen.

        Raises:
            InputError: If something is missing or out of range.
        """
        task, place, source, protocol, limit, seed, bare, baselines, by, release, served, *rest = values
        new = NewBenchmark(
            task=str(task or ""),
            place=place or "",
            source=source or "",
            protocol=protocol or "",
            limit=_whole(limit),
            seed=int(seed or 0),
            bare=bool(bare),
            baselines=tuple(baselines or ()),
        )
        if by == RELEASE:
            release, fixed = release or "", services.fixed
            own = fixed is not None and release.strip() == services.settings.release
            router = fixed.places.router if fixed is not None and own else None
            return replace(new, release=release, served=served or "", router=router or "")
        library = services.libraries.spelled(Choice(*rest[: len(self.chooser.parts)]))
        judge = self.judge.read(rest[len(self.chooser.parts) :]) if self.judge is not None else new.judge
        return replace(new, library=library, judge=judge)

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Take the judge's key off the page, as the Score tab does."""
        if self.judge is None:
            return {}
        return self.judge.put_away(values[len(values) - len(self.judge.inputs) :])


def _whole(value: float | None) -> int | None:
    if value is None or value == 0:
        return None
    if value != int(value):
        raise InputError(f"{value:g} pairs cannot be drawn.", next_step="Give a whole number.")
    return int(value)


def draw_form(services: AppServices) -> BenchmarkForm:
    """Draw the form. Strangers see what they may choose."""
    local = services.local
    tasks = {task.name: task for task in services.benchmarks.tasks()}
    with gr.Accordion("New benchmark", open=True, elem_classes="slim", elem_id="benchmark-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                task = gr.Radio(
                    benchmark_views.task_choices(tuple(tasks.values()), local=local),
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
        with gr.Row(elem_id="benchmark-actions"):
            see = gr.Button("See what it costs", elem_id="benchmark-see", size="md", scale=0, min_width=180)
            start = gr.Button(
                "Start", variant="primary", visible=False, elem_id="benchmark-start", size="md", scale=0, min_width=180
            )
        told = markup(benchmark_views.cost_hint(), elem_id="benchmark-cost")
    promised = gr.State(None, time_to_live=KEPT)
    form = BenchmarkForm(
        section, task, about, *what, chooser, released, bare, baselines, judge, see, told, start, promised
    )  # fmt: skip
    _connect(services, form, tasks)
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
            0 if local else VISIT_PAIRS,
            label="Sample",
            info="Pairs or groups, drawn by seed. " + ("0: all." if local else f"Up to {VISIT_PAIRS} here."),
            precision=None,
            minimum=0,
            min_width=180,
            elem_id="benchmark-limit",
        )
        seed = gr.Number(0, label="Seed", info="Of the sample.", precision=0, min_width=120, elem_id="benchmark-seed")
    return place, source, protocol, limit, seed


def _draw_who(services: AppServices) -> tuple[Chooser, Released]:
    """Draw the choice between a Library with a judge and a release; it starts with the one that the app is fixed to."""
    start = services.fixed if services.local else None
    by = gr.Radio(
        [("A Library and a judge", LIBRARY), ("A release", RELEASE)],
        value=LIBRARY if start is None else RELEASE,
        label="Judge with",
        elem_id="benchmark-by",
    )
    with gr.Column(visible=start is None) as chosen:
        chooser = make_chooser(services, "benchmark-library", "Library", address=False, aloud=False)
    with gr.Column(visible=start is not None) as fixed:
        release = gr.Textbox(
            (services.settings.release or "") if start is not None else "",
            label="Release",
            info="Its file, or deployed:NAME. It fixes the Library, the judge and how it judges.",
            placeholder="/home/me/release.json",
            max_lines=1,
            max_length=1000,
            elem_id="benchmark-release",
        )
        served = gr.Textbox(
            (start.places.judge or "") if start is not None else "",
            label="Where its model is served",
            info="The address. Empty: as RH_JUDGE says; measuring needs none.",
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
        info="Models only: what the Library is worth is the difference, at twice the cost.",
        elem_id="benchmark-bare",
    )
    baselines = gr.CheckboxGroup(
        [(BASELINE_WORDS[name], name) for name in BASELINES],
        value=[],
        label="Baselines",
        info="Judges that know nothing of editing; no model is asked.",
        elem_id="benchmark-baselines",
    )
    return bare, baselines


def _connect(services: AppServices, form: BenchmarkForm, tasks: dict[str, Task]) -> None:
    """Show and hide what belongs together, and take back a cost that is no longer that of what stands here."""
    quick: dict[str, Any] = {"queue": False, **QUIET}
    local = services.local

    def choose_task(name: str) -> Updates:
        task = tasks.get(name)
        if not local or (task is None and name not in OWN):
            return {form.about: gr.skip()}
        protocols = list(task.protocols if task else PROTOCOLS_OF_EXAMPLES)
        return {
            form.about: benchmark_views.about_task(task, name),
            form.place: gr.Textbox(visible=name == PLACE),
            form.source: gr.Textbox(
                visible=task is not None or name == PLACE,
                value="",
                info=f"For a task file alone: {COPY[0].lower()}{COPY[1:]}" if name == PLACE else COPY,
            ),
            form.protocol: gr.Dropdown(protocols, value=protocols[0], visible=len(protocols) > 1),
        }

    def outdated(promised: object) -> Updates:
        if promised is None:
            return {form.promised: None}
        return {form.told: benchmark_views.cost_hint(), form.start: gr.Button(visible=False), form.promised: None}

    def choose_who(by: str) -> Updates:
        assert form.judge is not None
        library = by != RELEASE
        return {
            form.released.chosen: gr.Column(visible=library),
            form.released.fixed: gr.Column(visible=not library),
            form.judge.section: gr.Accordion(visible=library),
        }

    form.task.input(choose_task, form.task, [form.about, form.place, form.source, form.protocol], **quick)
    changes = [each.input for each in form.fields]
    gr.on(changes, outdated, form.promised, [form.told, form.start, form.promised], **quick)
    if form.judge is not None:
        who = form.released
        who.by.input(choose_who, who.by, [who.chosen, who.fixed, form.judge.section], **quick)
        connect_judge(services, form.judge)

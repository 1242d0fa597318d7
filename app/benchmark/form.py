"""The form of a new benchmark: task, judge, Library, and the other rows of the table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.benchmark import views as benchmark_views
from app.library.chooser import Chooser
from app.library.libraries import Visitor
from app.run_panel.new_jobs import (
    OWN,
    PLACE,
    PROTOCOLS_OF_EXAMPLES,
    VISITOR_PAIRS,
    NewJob,
    release_spec,
    task_and_source,
    whole,
)
from app.run_panel.page import JobForm, Start
from app.score.judge_form import JudgeForm
from app.score.releases import RELEASE
from app.services import AppServices
from app.widgets import QUIET, Updates, choices, markup, section, textbox
from rewardharness.benchmark.config import BenchmarkConfig
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


class BenchmarkForm(JobForm):
    """The form of a new benchmark. Visitors see only what they may choose."""

    def __init__(self, services: AppServices) -> None:
        self.services, self.tasks = services, services.benchmarks.tasks()
        local = services.local
        with section("New benchmark", open=True, elem_id="benchmark-new") as self.section:
            with gr.Row(equal_height=False):
                with gr.Column(scale=1, min_width=300):
                    offered = benchmark_views.task_choices(self.tasks, local=local)
                    task = choices("Task", "benchmark-task", offered, value=DEMO)
                with gr.Column(scale=1, min_width=300):
                    self.about = markup(benchmark_views.about_task(None, DEMO), elem_id="benchmark-about-task")
                    data = _draw_data(local)
            with gr.Row(equal_height=False):
                with gr.Column(scale=1, min_width=300, visible=local):
                    release = self._draw_who()
                with gr.Column(scale=1, min_width=300):
                    rows = _draw_rows()
            if local:
                self.judge = JudgeForm(services, "benchmark-", visible=services.fixed is None)
            self.start = Start("benchmark")
        self.fields = {"task": task, **data, **rows, **release}
        self.connect(services)

    def _draw_who(self) -> dict[str, Any]:
        """Draw the choice between a release, and a Library with a judge; the default is the release of the app."""
        services = self.services
        fixed = services.fixed if services.local else None
        by = gr.Radio(
            [("A Library and a judge", LIBRARY), ("A release", RELEASE)],
            value=LIBRARY if fixed is None else RELEASE,
            label="Judge with",
            elem_id="benchmark-by",
        )
        with gr.Column(visible=fixed is None) as self.chosen:
            self.chooser = Chooser(services, "benchmark-library", "Library", address="", aloud=False)
        with gr.Column(visible=fixed is not None) as self.fixed:
            release = textbox(
                "Release", "benchmark-release", (services.settings.release or "") if fixed is not None else "",
                info="Its file, or deployed:NAME. It fixes Library, judge and settings.",
                placeholder="/home/me/release.json",
            )  # fmt: skip
            served = textbox(
                "Endpoint of its model", "benchmark-served", (fixed.places.judge or "") if fixed is not None else "",
                info="Its URL; empty for that of RH_JUDGE. The pixel-based judge needs none.",
                placeholder="http://localhost:8000/v1", max_length=500,
            )  # fmt: skip
        return {"by": by, "release": release, "served": served}

    def take(self, path: Path) -> Updates:
        """Fill in an archive, to be judged with another judge or Library. Visitors judge the demonstration set only."""
        if not self.services.local:
            raise InputError("Selected questions are judged on your own computer.", next_step="Save them as a zip.")
        kept = str(self.services.batches.take_upload(path))
        place = {self.fields["task"]: PLACE, self.fields["place"]: gr.Textbox(kept, visible=True)}
        return {self.section: gr.Accordion(open=True), **place, **self.start.without_preview()}

    def make(self, values: Mapping[str, Any], visitor: Visitor) -> NewJob:
        """See `JobForm.make`."""
        place, source = values["place"] or "", values["source"] or ""
        spec, copy = task_and_source(str(values["task"] or ""), place, source)
        config = BenchmarkConfig(
            spec,
            source=copy,
            task_protocol=values["task_protocol"] or None,
            limit=whole(values["limit"], "A sample of {:g} pairs is not possible."),
            seed=int(values["seed"] or 0),
            no_baseline=not values["bare"],
            baselines=tuple(values["baselines"] or ()),
        )
        if values["by"] != RELEASE:
            return NewJob(config)
        fixed, release = self.services.fixed, values["release"] or ""
        own = fixed is not None and release.strip() == self.services.settings.release
        router = fixed.places.router if fixed is not None and own else None
        judge = (values["served"] or "").strip() or None
        return NewJob(replace(config, release=release_spec(release), judge=judge, router=router))

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        task, by = self.fields["task"], self.fields["by"]
        if self.judge is not None:
            outputs = [self.about, *(self.fields[name] for name in ("place", "source", "task_protocol"))]
            task.input(self.choose_task, task, outputs, **quick)
            by.input(self.choose_who, by, [self.chosen, self.fixed, self.judge.section], **quick)

    def choose_task(self, name: str) -> Updates:
        """Show the fields of a task."""
        task = next((task for task in self.tasks if task.name == name), None)
        if task is None and name not in OWN:
            return {self.about: gr.skip()}
        protocols = list(task.protocols if task else PROTOCOLS_OF_EXAMPLES)
        info = f"Only for a task file: {COPY[0].lower()}{COPY[1:]}" if name == PLACE else COPY
        protocol = gr.Dropdown(protocols, value=protocols[0], visible=len(protocols) > 1)
        return {
            self.about: benchmark_views.about_task(task, name),
            self.fields["place"]: gr.Textbox(visible=name == PLACE),
            self.fields["source"]: gr.Textbox(visible=task is not None or name == PLACE, value="", info=info),
            self.fields["task_protocol"]: protocol,
        }

    def choose_who(self, by: str) -> Updates:
        """Show the fields of a judge with a Library, or of a release."""
        assert self.judge is not None
        return {
            self.chosen: gr.Column(visible=by != RELEASE),
            self.fixed: gr.Column(visible=by == RELEASE),
            self.judge.section: gr.Accordion(visible=by != RELEASE),
        }


def _draw_data(local: bool) -> dict[str, Any]:
    place = textbox(
        "Folder, table, task file or dataset", "benchmark-place", placeholder="/home/me/pairs", visible=False,
        info="A path on this computer, or org/name on the Hub.",
    )  # fmt: skip
    source = textbox(
        "Your copy of the data", "benchmark-source", info=COPY, placeholder="/data/benchmark", visible=False
    )
    with gr.Row():
        protocol = gr.Dropdown(
            list(PROTOCOLS_OF_EXAMPLES), value=PROTOCOLS_OF_EXAMPLES[0], label="Protocol of the task",
            info="What one example is.", visible=local, min_width=180, elem_id="benchmark-protocol",
        )  # fmt: skip
        info = "Pairs or groups; " + ("0 = all examples." if local else f"up to {VISITOR_PAIRS} here.")
        limit = gr.Number(
            0 if local else VISITOR_PAIRS, label="Sample", info=info, precision=None, minimum=0, min_width=180,
            elem_id="benchmark-limit",
        )  # fmt: skip
        seed = gr.Number(
            0, label="Seed", info="Of the random sample.", precision=0, min_width=120, elem_id="benchmark-seed"
        )
    return {"place": place, "source": source, "task_protocol": protocol, "limit": limit, "seed": seed}


def _draw_rows() -> dict[str, Any]:
    info = "Models only. Shows the effect of the Library, at twice the cost."
    bare = gr.Checkbox(False, label="The same judge without a Library", info=info, elem_id="benchmark-bare")
    offered = [(BASELINE_WORDS[name], name) for name in BASELINES]
    info = "Simple judges that call no model."
    baselines = gr.CheckboxGroup(offered, value=[], label="Baselines", info=info, elem_id="benchmark-baselines")
    return {"bare": bare, "baselines": baselines}

"""The form of a new evolution: data, judge, Orchestrator, Library, budget."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from app.evolve import views as evolve_views
from app.library.chooser import Chooser
from app.library.libraries import Visitor
from app.run_panel.new_jobs import BUILTIN, FOLDER, HUB, MAX_PROPOSALS, VISITOR_SECONDS, NewJob, examples_spec
from app.run_panel.page import JobForm, Start
from app.score.judge_form import JudgeForm
from app.services import AppServices
from app.widgets import QUIET, Updates, markup, secret, section, textbox
from rewardharness.data.opening import DEMO, DEMO_PAIRS, FEEDBACK
from rewardharness.errors import InputError
from rewardharness.evolution.config import AUTO, EvolveConfig
from rewardharness.judging.config import MEASURED
from rewardharness.library.opening import THIN
from rewardharness.remote.config import HF_JOBS, LOCAL, ON_THIS_COMPUTER, RemoteConfig

PLACES = {
    FOLDER: ("Folder or table", "One with pairs.jsonl or groups.jsonl, or tables such as CSV.", "/home/me/p"),
    HUB: ("Dataset on the Hub", "Its name, and a version if you like.", "org/name@revision"),
}
"""Label, description and example of the field of each kind of data."""

DEFAULT_MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""Model that a job serves, unless another one is typed."""
FLAVORS = (("Default", ""), "cpu-upgrade", "t4-medium", "l4x1", "a10g-large", "l40sx1", "a100-large", "h200")
"""Hardware that is offered; any other may be typed."""

BUILT_IN, MODEL = "built-in", "model"
"""Kinds of Orchestrator."""

PROPOSERS = {BUILT_IN: "Orchestrator: built-in rules (no model)", MODEL: "Orchestrator: a model"}
"""Title of the section by kind of Orchestrator."""

SCHEDULES = (
    ("Greedy: one edit at a time", "default"),
    ("Iterative: one lineage", "iterative"),
    ("Evolutionary: a population", "evolutionary"),
    ("Pareto: best per kind of edit", "pareto"),
    ("Random: a control", "random"),
    ("Paper: bundles of edits", "paper"),
)


class RunForm(JobForm):
    """The form of a new evolution. Visitors see only what they may choose."""

    def __init__(self, services: AppServices) -> None:
        self.services = services
        local = services.local
        with section("New run", open=True, elem_id="evolve-new") as self.section:
            with gr.Row(equal_height=False):
                with gr.Column(scale=1, min_width=300):
                    remote, data = self._draw_where(), _draw_data(services)
                with gr.Column(scale=1, min_width=300, visible=local):
                    self.chooser = Chooser(services, "evolve-library", "Library to start from", address="", aloud=False)
            if local:
                self.judge = JudgeForm(services, "evolve-")
            with section(PROPOSERS[BUILT_IN], visible=local) as self.who:
                proposer = _draw_proposer()
            budget = _draw_budget(services)
            self.start = Start("evolve")
        self.fields = {**data, **proposer, **budget, **remote}
        self.secrets = (proposer["key"],)
        self.connect(services)

    def _draw_where(self) -> dict[str, Any]:
        """Draw where the run is executed: here, or as a job that the signed-in user pays for."""
        here = "This computer" if self.services.local else "The computer of this page"
        on = gr.Radio(
            [(here, LOCAL), ("Hugging Face Jobs (your account pays)", HF_JOBS)], value=LOCAL, label="Run on",
            visible=self.services.hub.may_publish, elem_id="evolve-on",
        )  # fmt: skip
        with gr.Column(visible=False) as self.remote:
            served = textbox(
                "Judge that the job serves", "evolve-served", DEFAULT_MODEL, max_length=200,
                info="A model on the Hub, in place of the judge below. Empty: the pixel-based judge, without a GPU.",
            )  # fmt: skip
            with gr.Row():
                flavor = gr.Dropdown(
                    list(FLAVORS), value="", label="Hardware", allow_custom_value=True, min_width=160,
                    info="Preview shows the price.", elem_id="evolve-flavor",
                )  # fmt: skip
                hours = gr.Number(
                    4, label="Hours at most", info="Limits the cost.", minimum=0.1, maximum=72, min_width=160,
                    elem_id="evolve-hours",
                )  # fmt: skip
            push_to = textbox(
                "Push the Library to", "evolve-push-to", placeholder="your-name/your-library", max_length=100,
                info="A new repository is private. Empty: it stays in the results of the run.",
            )  # fmt: skip
        return {"on": on, "served": served, "flavor": flavor, "hours": hours, "push_to": push_to}

    def make(self, values: Mapping[str, Any], visitor: Visitor) -> NewJob:
        """See `JobForm.make`."""
        where, served = _where(values)
        data, schedule, by_model = values["data"], values["schedule"], values["proposer"] == MODEL
        if not self.services.local and not where.is_remote and data != DEMO:
            step = "Choose the demonstration set, or run on Hugging Face Jobs."
            raise InputError("Other data are not judged on the computer of this page.", next_step=step)
        orchestrator = (values["model"] or "").strip() if by_model else BUILTIN
        if not orchestrator:
            step = "Type it like gemini:gemini-2.5-pro, or choose the built-in one."
            raise InputError("The model of the Orchestrator is missing.", next_step=step)
        is_model = orchestrator != BUILTIN
        columns = (values["columns"] or "").splitlines() if data in PLACES else []
        config = EvolveConfig(
            examples_spec(data, values["place"] or ""),
            library=(values["start"] or None) if data == DEMO else None,
            judge=served,
            field=tuple(line.strip() for line in columns if line.strip()),
            orchestrator=orchestrator,
            orchestrator_images=bool(values["images"]) and is_model,
            schedule=schedule,
            seed=int(values["seed"] or 0),
            price=_prices(values, "Judge"),
            orchestrator_price=_prices(values, "Orchestrator") if is_model else None,
            corrections=AUTO if values["corrections"] else None,
            budget_calls=values["budget_calls"] or None,
            budget_tokens=values["budget_tokens"] or None,
            budget_seconds=float(values["budget_seconds"] or 0) or None,
            budget_usd=float(values["budget_usd"] or 0) or None,
        )
        count = int(values["proposals"] or 0)
        config = replace(config, iterations=count) if schedule == "paper" else replace(config, proposals=count)
        key = (values["key"] or "").strip() if is_model else ""
        return NewJob(config, orchestrator_key=key, where=where)

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        data, on, proposer, remote = self.fields["data"], self.fields["on"], self.fields["proposer"], self.remote
        data.input(self.choose_data, data, [self.fields[name] for name in ("start", "place", "columns")], **quick)
        on.input(lambda place: {remote: gr.Column(visible=place == HF_JOBS)}, on, [remote], **quick)
        models = [self.fields[name] for name in ("model", "key", "images")]
        proposer.input(self.choose_proposer, proposer, [self.who, *models], **quick)

    def choose_data(self, kind: str) -> Updates:
        """Show the fields of a kind of data."""
        label, info, example = PLACES.get(kind, PLACES[FOLDER])
        visible = kind in PLACES
        place = gr.Textbox(label=label, info=info, placeholder=example, visible=visible, value="")
        start = gr.Radio(visible=kind == DEMO and self.services.settings.library == BUILTIN)
        columns = gr.Textbox(visible=visible)
        return {self.fields["start"]: start, self.fields["place"]: place, self.fields["columns"]: columns}

    def use_votes(self) -> Updates:
        """Choose the votes of this app as data."""
        return {self.section: gr.Accordion(open=True), self.fields["data"]: FEEDBACK, **self.choose_data(FEEDBACK)}

    def choose_proposer(self, kind: str) -> Updates:
        """Show the fields of a kind of Orchestrator."""
        visible = kind == MODEL
        return {
            self.who: gr.Accordion(label=PROPOSERS[kind]),
            self.fields["model"]: gr.Textbox(visible=visible),
            self.fields["key"]: gr.Textbox(visible=visible),
            self.fields["images"]: gr.Checkbox(visible=visible),
        }


def _prices(values: Mapping[str, Any], who: str) -> tuple[float, float] | None:
    prices = float(values[f"{who} in"] or 0), float(values[f"{who} out"] or 0)  # an empty field is 0
    return prices if any(prices) else None


def _where(values: Mapping[str, Any]) -> tuple[RemoteConfig, str | None]:
    """Return where the run is executed, and the judge of a job on the Hub."""
    if values["on"] != HF_JOBS:
        return ON_THIS_COMPUTER, None
    name, flavor, push_to = ((values[field] or "").strip() for field in ("served", "flavor", "push_to"))
    timeout = f"{float(values['hours'] or 0):g}h"
    where = RemoteConfig(on=HF_JOBS, flavor=flavor or None, timeout=timeout, push_to=push_to or None)
    return where, f"vllm:{name}" if name else MEASURED


def _draw_data(services: AppServices) -> dict[str, Any]:
    local = services.local
    kinds = [(f"Demonstration set: {DEMO_PAIRS} generated pairs", DEMO)]
    if local:
        kinds += [("My feedback from the Score tab", FEEDBACK), ("A folder on this computer", FOLDER)]
    elif services.hub.with_login and services.settings.feedback_repo:
        kinds += [("Preferences given in this app", FEEDBACK)]
    if services.hub.may_publish:
        kinds += [("A dataset on the Hugging Face Hub", HUB)]
    data = gr.Radio(kinds, value=DEMO, label="Learn from", elem_id="evolve-data")
    place = textbox(PLACES[FOLDER][0], "evolve-place", visible=False)
    columns = textbox(
        "Columns that are not recognized", "evolve-columns", info="One per line: docs/reference/data.md. Often empty.",
        placeholder="source=original\ncandidates=left,right\npreference=vote", lines=2, max_lines=8, max_length=2000,
        visible=False,
    )  # fmt: skip
    starts = [("Half of the built-in criteria, to see evolution work", THIN), ("The whole Library, to improve it", "")]
    ours = services.settings.library == BUILTIN
    start = gr.Radio(starts, value=THIN if ours else "", label="Start from", elem_id="evolve-thin", visible=ours)
    corrections = gr.Checkbox(
        True, label="Use my corrected labels", info="From “Labels to check”, if there are any for this data.",
        visible=local, elem_id="evolve-corrections",
    )  # fmt: skip
    return {"data": data, "start": start, "place": place, "columns": columns, "corrections": corrections}


def _draw_proposer() -> dict[str, Any]:
    kinds = [("Built-in rules (no model)", BUILT_IN), ("A model", MODEL)]
    proposer = gr.Radio(kinds, value=BUILT_IN, label="Orchestrator", elem_id="evolve-proposer")
    info = "Spelled as gemini:NAME, vllm:NAME@URL or openai:NAME@URL."
    model = textbox(
        "Model", "evolve-model", info=info, placeholder="gemini:gemini-2.5-pro", max_length=700, visible=False
    )
    info = "Passed to the process of this run only, and not stored."
    key = secret("Key of the Orchestrator", "evolve-model-key", info, visible=False)
    label = "Show it the images of the examples it cites"
    images = gr.Checkbox(False, label=label, visible=False, elem_id="evolve-images")
    return {"proposer": proposer, "model": model, "key": key, "images": images}


def _draw_budget(services: AppServices) -> dict[str, Any]:
    local, settings = services.local, services.settings

    def limit(label: str, info: str, name: str, value: float = 0, **options: Any) -> gr.Number:
        arguments = {"precision": 0, "minimum": 0, "min_width": 150, **options}
        return gr.Number(value, label=label, info=info, elem_id=f"evolve-{name}", **arguments)

    with section("Search and budget", elem_id="evolve-budget"):
        with gr.Row():
            schedule = gr.Radio(
                list(SCHEDULES), value="default", label="Schedule", visible=local, elem_id="evolve-schedule"
            )
            info, edits = "For the paper's schedule: iterations.", 60 if local else 12
            proposals = limit("Edits to try", info, "proposals", edits, minimum=1, maximum=MAX_PROPOSALS)
            seed = limit("Seed", "The same seed gives the same result.", "seed")
        markup(evolve_views.about_budget(local=local))
        with gr.Row():
            seconds = 0 if local else VISITOR_SECONDS
            limits = {
                "budget_calls": limit("Judgments", "One is one example with one Library.", "judgments", visible=local),
                "budget_seconds": limit("Seconds", "All sessions together.", "seconds", seconds),
                "budget_tokens": limit("Tokens", "Of judge and Orchestrator.", "tokens", visible=local),
                "budget_usd": limit("Dollars", "Needs the prices below.", "money", visible=local, precision=None),
            }
        with gr.Row(visible=local):
            known = (settings.price_input or 0, settings.price_output or 0) if local else (0, 0)
            prices = {
                f"{who} {way}": limit(
                    f"{who}, {way}", "$ per million tokens", f"price-{who.lower()}-{way}", value, precision=None
                )
                for who, costs in (("Judge", known), ("Orchestrator", (0, 0)))
                for way, value in zip(("in", "out"), costs, strict=True)
            }
    return {"schedule": schedule, "proposals": proposals, "seed": seed, **limits, **prices}

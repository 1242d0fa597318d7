"""The form of a new evolution: data, judge, Orchestrator, Library, budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import evolve_views
from app.judges import BY_MEASURING
from app.libraries import Choice
from app.new_jobs import BUILTIN, FOLDER, HUB, MAX_PROPOSALS, VISITOR_SECONDS, NewJob, examples_spec
from app.run_panel.page import JobForm, draw_start
from app.services import AppServices
from app.tabs.chooser import make_chooser
from app.tabs.parts import QUIET, Updates, markup
from app.tabs.score.judge import draw_judge
from rewardharness.data.opening import DEMO, DEMO_PAIRS, FEEDBACK
from rewardharness.errors import InputError
from rewardharness.evolution.config import AUTO, EvolveConfig
from rewardharness.judging.opening import MEASURED
from rewardharness.remote.config import HF_JOBS, LOCAL, ON_THIS_COMPUTER, RemoteConfig

PLACES = {
    FOLDER: (
        "Folder or table",
        "One with pairs.jsonl or groups.jsonl, or tables such as CSV.",
        "/home/me/p",
    ),
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


@dataclass(frozen=True)
class RemoteForm:
    """Where the run is executed."""

    on: gr.Radio
    options: gr.Column
    model: gr.Textbox
    flavor: gr.Dropdown
    hours: gr.Number
    push_to: gr.Textbox

    @property
    def inputs(self) -> list[Any]:
        """The widgets with values."""
        return [self.on, self.model, self.flavor, self.hours, self.push_to]


@dataclass(frozen=True)
class RunForm(JobForm):
    """The form of a new evolution."""

    data: gr.Radio
    place: gr.Textbox
    columns: gr.Textbox
    corrections: gr.Checkbox
    who: gr.Accordion
    proposer: gr.Radio
    model: gr.Textbox
    key: gr.Textbox
    images: gr.Checkbox
    schedule: gr.Radio
    proposals: gr.Number
    seed: gr.Number
    seconds: gr.Number
    limits: tuple[gr.Number, ...]
    """Judgments, tokens, money."""
    prices: tuple[gr.Number, ...]
    """Of the judge and of the Orchestrator, each for input and output."""
    remote: RemoteForm

    @property
    def own(self) -> list[Any]:
        """See `JobForm.own`."""
        return [
            self.data, self.place, self.columns, self.corrections, self.proposer, self.model, self.key, self.images,
            self.schedule, self.proposals, self.seed, self.seconds, *self.limits, *self.prices, *self.remote.inputs,
        ]  # fmt: skip

    @property
    def secrets(self) -> list[Any]:
        """See `JobForm.secrets`."""
        return [self.key]

    def read(self, services: AppServices, values: Sequence[Any]) -> NewJob:
        """Read the job that the form describes.

        Raises:
            InputError: If a value is missing or out of range.
        """
        data, place, columns, corrections, proposer, model, key, images, schedule, *rest = values
        proposals, seed, seconds, judgments, tokens, money, *rest = rest
        prices, remote, rest = rest[:4], rest[4:9], rest[9:]
        where, served = _where(remote)
        if not services.local and not where.is_remote and data != DEMO:
            step = "Choose the demonstration set, or run on Hugging Face Jobs."
            raise InputError("Other data are not judged on the computer of this page.", next_step=step)
        library = services.libraries.spelled(Choice(*rest[: len(self.chooser.parts)]))
        judge = rest[len(self.chooser.parts) :]
        orchestrator = (model or "").strip() if proposer == MODEL else BUILTIN
        if not orchestrator:
            step = "Type it like gemini:gemini-2.5-pro, or choose the built-in one."
            raise InputError("The model of the Orchestrator is missing.", next_step=step)
        is_model = orchestrator != BUILTIN
        named = [line.strip() for line in (columns or "").splitlines() if line.strip()] if data in PLACES else []
        config = EvolveConfig(
            examples_spec(data, place or ""),
            library=library,
            judge=served,
            field=tuple(named),
            orchestrator=orchestrator,
            orchestrator_images=bool(images) and is_model,
            schedule=schedule,
            seed=int(seed or 0),
            budget_calls=_whole(judgments),
            budget_seconds=_positive(seconds),
            budget_tokens=_whole(tokens),
            budget_money=_positive(money),
            price=_prices(prices[:2]),
            orchestrator_price=_prices(prices[2:]) if is_model else None,
            corrections=AUTO if corrections else None,
        )
        count = int(proposals or 0)
        config = replace(config, iterations=count) if schedule == "paper" else replace(config, proposals=count)
        choice = self.judge.read(judge) if self.judge is not None else BY_MEASURING
        return NewJob(config, choice, (key or "").strip() if is_model else "", where)

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        self.data.input(self.choose_data, self.data, [self.place, self.columns], **quick)
        on, options = self.remote.on, self.remote.options
        on.input(lambda place: {options: gr.Column(visible=place == HF_JOBS)}, on, [options], **quick)
        self.proposer.input(self.choose_proposer, self.proposer, [self.who, self.model, self.key, self.images], **quick)

    def choose_data(self, kind: str) -> Updates:
        """Show the fields of a kind of data."""
        label, info, example = PLACES.get(kind, PLACES[FOLDER])
        visible = kind in PLACES
        place = gr.Textbox(label=label, info=info, placeholder=example, visible=visible, value="")
        return {self.place: place, self.columns: gr.Textbox(visible=visible)}

    def choose_proposer(self, kind: str) -> Updates:
        """Show the fields of a kind of Orchestrator."""
        return {
            self.who: gr.Accordion(label=PROPOSERS[kind]),
            self.model: gr.Textbox(visible=kind == MODEL),
            self.key: gr.Textbox(visible=kind == MODEL),
            self.images: gr.Checkbox(visible=kind == MODEL),
        }


def _whole(value: float | None) -> int | None:
    return int(value) if value else None


def _positive(value: float | None) -> float | None:
    return float(value) if value else None


def _prices(values: Sequence[float | None]) -> tuple[float, float] | None:
    input_price, output_price = values  # an empty field is 0
    return (float(input_price or 0), float(output_price or 0)) if input_price or output_price else None


def _where(values: Sequence[Any]) -> tuple[RemoteConfig, str | None]:
    """Return where the run is executed, and the judge of a job on the Hub."""
    on, model, flavor, hours, push_to = values
    if on != HF_JOBS:
        return ON_THIS_COMPUTER, None
    name = (model or "").strip()
    where = RemoteConfig(
        on=HF_JOBS,
        flavor=(flavor or "").strip() or None,
        timeout=f"{float(hours or 0):g}h",
        push_to=(push_to or "").strip() or None,
    )
    return where, f"vllm:{name}" if name else MEASURED


def draw_form(services: AppServices) -> RunForm:
    """Draw the form. Visitors see only what they may choose."""
    local = services.local
    with gr.Accordion("New run", open=True, elem_classes="slim", elem_id="evolve-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                remote = _draw_where(services)
                data, place, columns, corrections = _draw_data(services)
            with gr.Column(scale=1, min_width=300, visible=local):
                chooser = make_chooser(services, "evolve-library", "Library to start from", address="", aloud=False)
        judge = draw_judge(services, "evolve-") if local else None
        who = _draw_proposer(local)
        how = _draw_budget(services)
        start = draw_start("evolve")
    form = RunForm(section, chooser, judge, start, data, place, columns, corrections, *who, *how, remote)
    form.connect(services)
    return form


def _draw_where(services: AppServices) -> RemoteForm:
    """Draw where the run is executed: here, or as a job that the signed-in user pays for."""
    here = "This computer" if services.local else "The computer of this page"
    offered = services.hub.may_publish
    on = gr.Radio(
        [(here, LOCAL), ("Hugging Face Jobs (your account pays)", HF_JOBS)],
        value=LOCAL,
        label="Run on",
        visible=offered,
        elem_id="evolve-on",
    )
    with gr.Column(visible=False) as options:
        model = gr.Textbox(
            DEFAULT_MODEL,
            label="Judge that the job serves",
            info="A model on the Hub, in place of the judge below. Empty: the pixel-based judge, without a GPU.",
            max_lines=1,
            max_length=200,
            elem_id="evolve-served",
        )
        with gr.Row():
            flavor = gr.Dropdown(
                list(FLAVORS), value="", label="Hardware", allow_custom_value=True, min_width=160,
                info="Preview shows the price.", elem_id="evolve-flavor",
            )  # fmt: skip
            hours = gr.Number(
                4, label="Hours at most", info="Limits the cost.", minimum=0.1, maximum=72, min_width=160,
                elem_id="evolve-hours",
            )  # fmt: skip
        push_to = gr.Textbox(
            "",
            label="Push the Library to",
            info="A new repository is private. Empty: it stays in the results of the run.",
            placeholder="your-name/your-library",
            max_lines=1,
            max_length=100,
            elem_id="evolve-push-to",
        )
    return RemoteForm(on, options, model, flavor, hours, push_to)


def _draw_data(services: AppServices) -> tuple[gr.Radio, gr.Textbox, gr.Textbox, gr.Checkbox]:
    local = services.local
    kinds = [(f"Demonstration set: {DEMO_PAIRS} generated pairs", DEMO)]
    if local:
        kinds += [("My feedback from the Score tab", FEEDBACK), ("A folder on this computer", FOLDER)]
    elif services.hub.with_login and services.settings.feedback_repo:
        kinds += [("Preferences given in this app", FEEDBACK)]
    if services.hub.may_publish:
        kinds += [("A dataset on the Hugging Face Hub", HUB)]
    data = gr.Radio(kinds, value=DEMO, label="Learn from", elem_id="evolve-data")
    place = gr.Textbox("", label=PLACES[FOLDER][0], max_lines=1, max_length=1000, visible=False, elem_id="evolve-place")
    columns = gr.Textbox(
        "",
        label="Columns that are not recognized",
        info="One per line, see docs/data.md. Usually empty.",
        placeholder="source=original\ncandidates=left,right\npreference=vote",
        lines=2,
        max_lines=8,
        max_length=2000,
        visible=False,
        elem_id="evolve-columns",
    )
    corrections = gr.Checkbox(
        True,
        label="Use my corrected labels",
        info="From “Labels to check”, if there are any for this data.",
        visible=local,
        elem_id="evolve-corrections",
    )
    return data, place, columns, corrections


def _draw_proposer(local: bool) -> tuple[gr.Accordion, gr.Radio, gr.Textbox, gr.Textbox, gr.Checkbox]:
    with gr.Accordion(PROPOSERS[BUILT_IN], open=False, elem_classes="slim", visible=local) as who:
        proposer = gr.Radio(
            [("Built-in rules (no model)", BUILT_IN), ("A model", MODEL)],
            value=BUILT_IN,
            label="Orchestrator",
            elem_id="evolve-proposer",
        )
        model = gr.Textbox(
            "",
            label="Model",
            info="Spelled as gemini:NAME, vllm:NAME@URL or openai:NAME@URL.",
            placeholder="gemini:gemini-2.5-pro",
            max_lines=1,
            max_length=700,
            visible=False,
            elem_id="evolve-model",
        )
        key = gr.Textbox(
            "",
            label="Key of the Orchestrator",
            info="Passed to the process of this run only, and not stored.",
            type="password",
            max_lines=1,
            max_length=500,
            visible=False,
            elem_id="evolve-model-key",
            html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
        )
        images = gr.Checkbox(
            False, label="Show it the images of the examples it cites", visible=False, elem_id="evolve-images"
        )
    return who, proposer, model, key, images


def _draw_budget(
    services: AppServices,
) -> tuple[gr.Radio, gr.Number, gr.Number, gr.Number, tuple[gr.Number, ...], tuple[gr.Number, ...]]:
    local, settings = services.local, services.settings

    def limit(label: str, info: str, name: str, value: float = 0, **options: Any) -> gr.Number:
        shown = {"precision": 0, "minimum": 0, "min_width": 150, **options}
        return gr.Number(value, label=label, info=info, elem_id=f"evolve-{name}", **shown)

    with gr.Accordion("Search and budget", open=False, elem_classes="slim", elem_id="evolve-budget"):
        with gr.Row():
            schedule = gr.Radio(
                list(SCHEDULES), value="default", label="Schedule", visible=local, elem_id="evolve-schedule"
            )
            proposals = limit(
                "Edits to try", "For the paper's schedule: iterations.", "proposals", 60 if local else 12,
                minimum=1, maximum=MAX_PROPOSALS,
            )  # fmt: skip
            seed = limit("Seed", "The same seed gives the same result.", "seed")
        markup(evolve_views.about_budget(local=local))
        with gr.Row():
            judgments = limit("Judgments", "One is one example with one Library.", "judgments", visible=local)
            seconds = limit("Seconds", "All sessions together.", "seconds", 0 if local else VISITOR_SECONDS)
            tokens = limit("Tokens", "Of judge and Orchestrator.", "tokens", visible=local)
            money = limit("Dollars", "Needs the prices below.", "money", visible=local, precision=None)
        with gr.Row(visible=local):
            known = (settings.price_input or 0, settings.price_output or 0) if local else (0, 0)
            prices = tuple(
                limit(f"{who}, {way}", "$ per million tokens", f"price-{who.lower()}-{way}", value, precision=None)
                for who, costs in (("Judge", known), ("Orchestrator", (0, 0)))
                for way, value in zip(("in", "out"), costs, strict=True)
            )
    return schedule, proposals, seed, seconds, (judgments, tokens, money), prices

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

PLACES = {
    FOLDER: (
        "Folder or table",
        "One with pairs.jsonl or groups.jsonl, or tables such as CSV.",
        "/home/me/p",
    ),
    HUB: ("Dataset on the Hub", "Its name, and a version if you like.", "org/name@revision"),
}
"""Label, description and example of the field of each kind of data."""

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

    @property
    def own(self) -> list[Any]:
        """See `JobForm.own`."""
        return [
            self.data, self.place, self.columns, self.corrections, self.proposer, self.model, self.key, self.images,
            self.schedule, self.proposals, self.seed, self.seconds, *self.limits, *self.prices,
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
        prices, rest = rest[:4], rest[4:]
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
        return NewJob(config, choice, (key or "").strip() if is_model else "")

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        quick: dict[str, Any] = {"queue": False, **QUIET}
        self.data.input(self.choose_data, self.data, [self.place, self.columns], **quick)
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


def draw_form(services: AppServices) -> RunForm:
    """Draw the form. Visitors see only what they may choose."""
    local = services.local
    with gr.Accordion("New run", open=True, elem_classes="slim", elem_id="evolve-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                data, place, columns, corrections = _draw_data(local)
            with gr.Column(scale=1, min_width=300, visible=local):
                chooser = make_chooser(services, "evolve-library", "Library to start from", address="", aloud=False)
        judge = draw_judge(services, "evolve-") if local else None
        who = _draw_proposer(local)
        how = _draw_budget(services)
        start = draw_start("evolve")
    form = RunForm(section, chooser, judge, start, data, place, columns, corrections, *who, *how)
    form.connect(services)
    return form


def _draw_data(local: bool) -> tuple[gr.Radio, gr.Textbox, gr.Textbox, gr.Checkbox]:
    kinds = [(f"Demonstration set: {DEMO_PAIRS} generated pairs", DEMO)]
    if local:
        kinds += [
            ("My feedback from the Score tab", FEEDBACK),
            ("A folder on this computer", FOLDER),
            ("A dataset on the Hugging Face Hub", HUB),
        ]
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

"""The form of a new run: data, judge, Orchestrator, Library, budget; what it would cost; and Start."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import evolve_views
from app.libraries import Choice
from app.new_run import FOLDER, HUB, MOST_PROPOSALS, VISIT_SECONDS, Budget, NewRun, Prices, Proposer
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.parts import KEPT, QUIET, Updates, markup
from app.tabs.score.judge import JudgeForm, connect_judge, draw_judge
from rewardharness.data.opening import DEMO, DEMO_PAIRS, FEEDBACK
from rewardharness.errors import InputError

PLACES = {
    FOLDER: (
        "Folder or table",
        "One with pairs.jsonl or groups.jsonl, or tables such as CSV.",
        "/home/me/p",
    ),
    HUB: ("Dataset on the Hub", "Its name, and a version if you like.", "org/name@revision"),
}
"""What is asked for per kind of data: label, explanation, and an example."""

BUILT_IN, MODEL = "built-in", "model"
"""Kinds of Orchestrator."""

PROPOSERS = {BUILT_IN: "Orchestrator: built-in rules (no model)", MODEL: "Orchestrator: a model"}
"""Titles of the section in which the Orchestrator is chosen."""

SCHEDULES = (("Ours: one edit at a time", "default"), ("The paper's: bundles of edits", "paper"))


@dataclass(frozen=True)
class RunForm:
    """The parts of the form."""

    section: gr.Accordion
    data: gr.Radio
    place: gr.Textbox
    columns: gr.Textbox
    corrections: gr.Checkbox
    chooser: Chooser
    judge: JudgeForm | None
    """None where strangers may only measure."""
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
    see: gr.Button
    told: gr.Markdown
    start: gr.Button
    promised: gr.State
    """What would be started, after its cost was shown."""

    @property
    def inputs(self) -> list[Any]:
        """What describes a run, in the order in which `read` takes it."""
        own = [self.data, self.place, self.columns, self.corrections]
        own += [self.proposer, self.model, self.key, self.images, self.schedule]
        own += [self.proposals, self.seed, self.seconds, *self.limits, *self.prices]
        return [*own, *self.chooser.parts, *(self.judge.inputs if self.judge else [])]

    @property
    def fields(self) -> list[Any]:
        """The parts that a visitor changes by hand."""
        own = [self.data, self.place, self.columns, self.corrections]
        own += [self.proposer, self.model, self.key, self.images, self.schedule]
        own += [self.proposals, self.seed, self.seconds, *self.limits, *self.prices]
        own += [self.chooser.kind, self.chooser.folder, self.chooser.spec]
        if self.judge is not None:
            judge = self.judge
            own += [judge.kind, judge.server, judge.url, judge.name, judge.gemini, judge.key, judge.protocol]
            own += [judge.orders, judge.samples, judge.pixels, judge.remember]
        return own

    def read(self, services: AppServices, values: Sequence[Any]) -> NewRun:
        """Make a run of what stands on the screen.

        Raises:
            InputError: If something is missing or out of range.
        """
        data, place, columns, corrections, proposer, model, key, images, schedule, *rest = values
        proposals, seed, seconds, judgments, tokens, money, *rest = rest
        prices, rest = rest[:4], rest[4:]
        library = services.libraries.spelled(Choice(*rest[: len(self.chooser.parts)]))
        told = rest[len(self.chooser.parts) :]
        asked = Proposer((model or "").strip(), (key or "").strip(), bool(images)) if proposer == MODEL else Proposer()
        if proposer == MODEL and not asked.model:
            step = "Type it like gemini:gemini-2.5-pro, or choose the built-in one."
            raise InputError("The model of the Orchestrator is missing.", next_step=step)
        budget = Budget(
            _whole(judgments), _positive(seconds), _whole(tokens), _positive(money), _prices(prices[:2]),
            _prices(prices[2:]) if asked.model else None,
        )  # fmt: skip
        run = NewRun(
            data=data,
            place=place or "",
            columns=columns or "",
            proposer=asked,
            library=library,
            schedule=schedule,
            proposals=int(proposals or 0),
            seed=int(seed or 0),
            budget=budget,
            corrections=bool(corrections),
        )
        if self.judge is None:
            return run
        return NewRun(**{**vars(run), "judge": self.judge.read(told)})

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Take the judge's key off the page, as the Score tab does."""
        if self.judge is None:
            return {}
        return self.judge.put_away(values[len(values) - len(self.judge.inputs) :])


def _whole(value: float | None) -> int | None:
    return int(value) if value else None


def _positive(value: float | None) -> float | None:
    return float(value) if value else None


def _prices(values: Sequence[float | None]) -> Prices | None:
    one, other = values  # 0 is how an empty field looks
    return Prices(float(one or 0), float(other or 0)) if one or other else None


def draw_form(services: AppServices) -> RunForm:
    """Draw the form. Strangers see what they may choose."""
    local = services.local
    with gr.Accordion("New run", open=True, elem_classes="slim", elem_id="evolve-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                data, place, columns, corrections = _draw_data(local)
            with gr.Column(scale=1, min_width=300, visible=local):
                chooser = make_chooser(services, "evolve-library", "Library to start from", address=False, aloud=False)
        judge = draw_judge(services, "evolve-") if local else None
        who = _draw_proposer(local)
        how = _draw_budget(services)
        with gr.Row(elem_id="evolve-actions"):
            see = gr.Button("See what it costs", elem_id="evolve-see", size="md", scale=0, min_width=180)
            start = gr.Button(
                "Start", variant="primary", visible=False, elem_id="evolve-start", size="md", scale=0, min_width=180
            )
        told = markup(evolve_views.cost_hint(), elem_id="evolve-cost")
    promised = gr.State(None, time_to_live=KEPT)
    form = RunForm(section, data, place, columns, corrections, chooser, judge, *who, *how, see, told, start, promised)
    _connect(services, form)
    return form


def _draw_data(local: bool) -> tuple[gr.Radio, gr.Textbox, gr.Textbox, gr.Checkbox]:
    kinds = [(f"Demonstration set: {DEMO_PAIRS} pairs, drawn here", DEMO)]
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
        label="Columns, where they are not recognised",
        info="One a line; see docs/data.md. Leave it empty first.",
        placeholder="source=original\ncandidates=left,right\npreference=vote",
        lines=2,
        max_lines=8,
        max_length=2000,
        visible=False,
        elem_id="evolve-columns",
    )
    corrections = gr.Checkbox(
        True,
        label="Use labels that I have corrected",
        info="From the queue “Labels to check”, if there are any for these data.",
        visible=local,
        elem_id="evolve-corrections",
    )
    return data, place, columns, corrections


def _draw_proposer(local: bool) -> tuple[gr.Accordion, gr.Radio, gr.Textbox, gr.Textbox, gr.Checkbox]:
    with gr.Accordion(PROPOSERS[BUILT_IN], open=False, elem_classes="slim", visible=local) as who:
        proposer = gr.Radio(
            [("Built-in rules (no model)", BUILT_IN), ("A model", MODEL)],
            value=BUILT_IN,
            label="Who proposes edits",
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
            label="Its key",
            info="Given to this run's process alone, and not written anywhere.",
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
                minimum=1, maximum=MOST_PROPOSALS,
            )  # fmt: skip
            seed = limit("Seed", "The same seed gives the same result.", "seed")
        markup(evolve_views.about_budget(local=local))
        with gr.Row():
            judgments = limit("Judgments", "One is one example with one Library.", "judgments", visible=local)
            seconds = limit("Seconds", "All sittings together.", "seconds", 0 if local else VISIT_SECONDS)
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


def _connect(services: AppServices, form: RunForm) -> None:
    """Show and hide what belongs together, and take back a cost that is no longer that of what stands here."""
    quick: dict[str, Any] = {"queue": False, **QUIET}

    def choose_data(kind: str) -> Updates:
        label, info, example = PLACES.get(kind, PLACES[FOLDER])
        visible = kind in PLACES
        place = gr.Textbox(label=label, info=info, placeholder=example, visible=visible, value="")
        return {form.place: place, form.columns: gr.Textbox(visible=visible)}

    def choose_proposer(kind: str) -> Updates:
        return {
            form.who: gr.Accordion(label=PROPOSERS[kind]),
            form.model: gr.Textbox(visible=kind == MODEL),
            form.key: gr.Textbox(visible=kind == MODEL),
            form.images: gr.Checkbox(visible=kind == MODEL),
        }

    def outdated(promised: object) -> Updates:
        if promised is None:
            return {form.promised: None}
        return {form.told: evolve_views.cost_hint(), form.start: gr.Button(visible=False), form.promised: None}

    form.data.input(choose_data, form.data, [form.place, form.columns], **quick)
    form.proposer.input(choose_proposer, form.proposer, [form.who, form.model, form.key, form.images], **quick)
    changes = [each.input for each in form.fields]
    gr.on(changes, outdated, form.promised, [form.told, form.start, form.promised], **quick)
    if form.judge is not None:
        connect_judge(services, form.judge)

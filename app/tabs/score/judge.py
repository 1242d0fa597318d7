"""The section of the Score tab with the choice and the options of the judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import model_views, views
from app.judges import ENDPOINT, GEMINI, HUGGING_FACE, MOST_SAMPLES, JudgeChoice, Key, place_of, subagent_settings
from app.services import AppServices
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, Updates, Widgets, announced, markup, waiting_at
from rewardharness.judging.opening import MEASURED
from rewardharness.judging.subagent_settings import ALONE
from rewardharness.models.base import ModelError

HOSTED = (Path(__file__).parents[2] / "assets" / "hosted_models.txt").read_text(encoding="utf-8").split()
"""Models to choose from at Hugging Face; any other may be typed."""

NO_KEY = "Only if the server asks for one"
"""Placeholder of the key field."""


@dataclass(frozen=True)
class JudgeForm(Widgets):
    """The widgets of the choice."""

    section: gr.Accordion
    kind: gr.Radio
    endpoint: gr.Group
    server: gr.Radio
    url: gr.Textbox
    name: gr.Textbox
    gemini: gr.Textbox
    near: gr.Radio
    """Models of servers on this computer."""
    at_hub: gr.Column
    hosted: gr.Dropdown
    key: gr.Textbox
    kept: gr.State
    """The visitor's key, stored on the server for this session only. The field is cleared when the key is used."""
    used: gr.State
    """The model that judged last for this visitor, while it is idle."""
    forget: gr.Button
    options: gr.Column
    protocol: gr.Radio
    orders: gr.Checkbox
    samples: gr.Slider
    pixels: gr.Number
    evidence: gr.Checkbox
    remember: gr.Checkbox
    check: gr.Button
    checked: gr.Markdown

    @property
    def inputs(self) -> list[Any]:
        """The inputs that describe a judge, in the order in which `read` takes them."""
        return [
            self.kind, self.server, self.url, self.name, self.gemini, self.hosted, self.key, self.kept,
            self.protocol, self.orders, self.samples, self.pixels, self.evidence, self.remember,
        ]  # fmt: skip

    def key_of(self, values: Sequence[Any]) -> Key | None:
        """Return the typed key, or the stored key if it was typed for the same address."""
        kind, _, url, _, _, _, typed, kept, *_ = values
        place = place_of(kind, url or "")  # an untouched field holds None
        if typed and typed.strip():
            return Key(place, typed.strip())
        return kept if kept is not None and kept.place == place else None

    def read(self, values: Sequence[Any]) -> JudgeChoice:
        """Return the choice for the values of `inputs`.

        Raises:
            InputError: If a value is out of range.
        """
        kind, server, url, name, gemini, hosted, _, _, protocol, orders, samples, pixels, evidence, remember = values
        options = subagent_settings(protocol, orders, samples, pixels, evidence)
        model = {GEMINI: gemini, HUGGING_FACE: hosted}.get(kind, name)
        return JudgeChoice(kind, server, url or "", model or "", self.key_of(values), options, remember)

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Clear the key field; the server stores the key for as long as the page is open."""
        key = self.key_of(values)
        held = f"A key for {key.place} is stored until you leave" if key else NO_KEY  # not shown for a login
        return {
            self.key: gr.Textbox(value="", placeholder=held),
            self.kept: key,
            self.forget: gr.Button(visible=key is not None and key.place != HUGGING_FACE),
        }


def draw_judge(services: AppServices, prefix: str = "", *, visible: bool = True) -> JudgeForm:
    """Draw the section, collapsed. The default judge is selected.

    Args:
        services: The services.
        prefix: Prefix of the element ids, if the page has several such sections.
        visible: Whether it is visible at first.
    """
    judges = services.judges
    default = judges.default
    label = _label(services, default)
    with (
        gr.Accordion(
            label, open=False, visible=visible, elem_classes="slim", elem_id=f"{prefix}judge-section"
        ) as section,
        gr.Row(equal_height=False),
    ):
        with gr.Column(scale=6, min_width=300):
            kind = gr.Radio(judges.choices(), value=default, label="Judge", elem_id=f"{prefix}judge-kind")
            endpoint, near, server, url, name = _draw_endpoint(services, prefix)
            gemini = gr.Textbox(
                "gemini-2.5-flash",
                label="Model",
                max_lines=1,
                max_length=200,
                visible=False,
                elem_id=f"{prefix}judge-gemini",
            )
            at_hub, hosted = _draw_hosted(services, prefix)
            key = gr.Textbox(
                "",
                label="Key",
                info="Sent to this address only, and not stored beyond this session.",
                placeholder=NO_KEY,
                type="password",
                max_lines=1,
                max_length=500,
                visible=False,
                elem_id=f"{prefix}judge-key",
                html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
            )
            forget = gr.Button(
                "Forget the key", visible=False, size="sm", scale=0, min_width=140, elem_id=f"{prefix}forget-key"
            )
            checkable = default != MEASURED and not judges.hides(default)
            check = gr.Button(
                "Check this endpoint", size="md", scale=0, visible=checkable, elem_id=f"{prefix}check-judge"
            )
            checked = markup(elem_id=f"{prefix}judge-checked")
        how = _draw_options(services, default, prefix)
    kept, used = gr.State(None, time_to_live=KEPT), gr.State(None, time_to_live=KEPT)
    return JudgeForm(
        section, kind, endpoint, server, url, name, gemini, near, at_hub, hosted, key, kept, used, forget, *how, check,
        checked,
    )  # fmt: skip


def _draw_hosted(services: AppServices, prefix: str) -> tuple[gr.Column, gr.Dropdown]:
    logs_in = services.judges.logs_in
    payer = "your account" if logs_in else "the account that this computer is logged in with"
    with gr.Column(visible=False) as column:
        if logs_in:
            # It reloads the page, so the choice is made again afterwards.
            gr.LoginButton(
                "Log in with Hugging Face", logout_value="Log out ({})", size="md", elem_id=f"{prefix}judge-login"
            )
        hosted = gr.Dropdown(
            HOSTED,
            value=HOSTED[0],
            label="Model",
            info="Choose one, or type any vision-language model of Inference Providers; :PROVIDER may follow. "
            f"Calls cost credit of {payer}.",
            allow_custom_value=True,
            elem_id=f"{prefix}judge-hosted",
        )
    return column, hosted


def _draw_endpoint(services: AppServices, prefix: str) -> tuple[gr.Group, gr.Radio, gr.Radio, gr.Textbox, gr.Textbox]:
    local = services.local
    with gr.Group(visible=False) as endpoint:
        near = gr.Radio(
            [], label="Found on this computer", visible=False, elem_id=f"{prefix}judge-near", elem_classes="choices"
        )
        server = gr.Radio(
            [("vLLM", "vllm"), ("Another server with the OpenAI protocol", "openai")],
            value="vllm",
            label="Server",
            elem_id=f"{prefix}judge-server",
        )
        url = gr.Textbox(
            "",
            label="Address",
            info="The base URL, usually ending in /v1."
            + ("" if local else " Only https addresses on the public internet are accepted here."),
            placeholder="http://localhost:8000/v1" if local else "https://my-server.example/v1",
            max_lines=1,
            max_length=500,
            elem_id=f"{prefix}judge-url",
        )
        name = gr.Textbox(
            "",
            label="Model",
            info="The model name on the server.",
            placeholder="Qwen/Qwen2.5-VL-7B-Instruct",
            max_lines=1,
            max_length=200,
            elem_id=f"{prefix}judge-name",
        )
    return endpoint, near, server, url, name


def _draw_options(
    services: AppServices, default: str, prefix: str
) -> tuple[gr.Group, gr.Radio, gr.Checkbox, gr.Slider, gr.Number, gr.Checkbox, gr.Checkbox]:
    with gr.Column(scale=7, min_width=300, visible=default != MEASURED) as options, gr.Group():
        protocol = gr.Radio(
            model_views.protocol_choices(),
            value="chain",
            label="Protocol",
            elem_id=f"{prefix}judge-protocol",
            elem_classes="choices",
        )
        orders = gr.Checkbox(
            True,
            label="Judge each pair in both orders",
            info="Twice the calls; detects position bias.",
            elem_id=f"{prefix}judge-orders",
        )
        samples = gr.Slider(
            1,
            MOST_SAMPLES,
            value=1,
            step=1,
            label="Samples",
            info="Number of repeated queries; the answers are averaged.",
            elem_id=f"{prefix}judge-samples",
        )
        pixels = gr.Number(
            value=0,
            precision=0,
            label="Maximum pixels per image",
            info="Larger images are scaled down. 0: no limit. 1000000 is an image of 1000 by 1000.",
            elem_id=f"{prefix}judge-pixels",
        )
        evidence = gr.Checkbox(
            False,
            label="Measured evidence",
            info="The model also gets boxes, crops and measured sentences of what each candidate changed. "
            "Benchmark first whether it helps your model.",
            elem_id=f"{prefix}judge-evidence",
        )
        remember = gr.Checkbox(
            True,
            label="Use cached answers",
            info="The same query is not sent, and paid, twice. The cache contains answers, not images.",
            visible=services.judges.remembers(default),
            elem_id=f"{prefix}judge-remember",
        )
    return options, protocol, orders, samples, pixels, evidence, remember


def connect_judge(
    services: AppServices, form: JudgeForm, outside: tuple[gr.Markdown, gr.Accordion] | None = None
) -> None:
    """Connect the widgets.

    Args:
        services: The services.
        form: The widgets.
        outside: The line that names the judge and the section about the pixel-based judge; None for tabs without them.
    """
    judges = services.judges
    cleared = {form.kept: None, form.used: None}

    def choose(token: gr.OAuthToken | None, kind: str, protocol: str) -> Updates:
        measured = kind == MEASURED
        # The token of the visitor's login is kept like a typed key: for this service and this session.
        login = Key(kind, token.token) if kind == HUGGING_FACE and token is not None and judges.logs_in else None
        head: Updates = {}
        if outside is not None:
            head = {outside[0]: judge_line(services, kind), outside[1]: gr.Accordion(visible=measured)}
        return {
            **head,
            form.section: gr.Accordion(label=_label(services, kind)),
            form.endpoint: gr.Group(visible=kind == ENDPOINT),
            form.gemini: gr.Textbox(visible=kind == GEMINI),
            form.at_hub: gr.Column(visible=kind == HUGGING_FACE),
            form.key: gr.Textbox(visible=judges.asks_key(kind), value="", placeholder=NO_KEY),
            **cleared,
            form.kept: login,
            form.forget: gr.Button(visible=False),
            form.options: gr.Column(visible=not measured),
            form.orders: gr.Checkbox(visible=protocol not in ALONE),
            form.remember: gr.Checkbox(visible=judges.remembers(kind)),
            form.check: gr.Button(visible=not measured and not judges.hides(kind)),
            form.checked: "",
        }

    def check(*values: Any) -> Updates:
        try:
            message = model_views.checked(judges.check(form.read(values)))
        except ModelError as error:
            message = model_views.unchecked(error)
        except Exception as error:  # every error is shown, so that the page stays usable
            message = explain(error)
        return {form.checked: message, **form.put_away(values)}

    quick: dict[str, Any] = {"queue": False, **QUIET}
    chosen = form.kind.input(choose, [form.kind, form.protocol], [*(outside or ()), *form.parts], **quick)
    if services.local:
        _connect_near(services, form, chosen, quick)
    form.protocol.input(
        lambda protocol: gr.Checkbox(visible=protocol not in ALONE), form.protocol, form.orders, **quick
    )
    form.forget.click(
        lambda: {**cleared, form.key: gr.Textbox(placeholder=NO_KEY), form.forget: gr.Button(visible=False)},
        None,
        [*cleared, form.key, form.forget],
        **quick,
    )
    form.check.click(
        announced(lambda: {form.checked: model_views.checking()}, check),
        form.inputs,
        form.parts,
        concurrency_limit=4,
        concurrency_id="check",
        **waiting_at(form.checked),
    )


def _connect_near(services: AppServices, form: JudgeForm, chosen: Any, quick: dict[str, Any]) -> None:
    """Connect the choice of a model that a server on this computer serves, which fills in the fields below it."""

    def look(kind: str) -> gr.Radio:
        found = model_views.near_choices(services.judges.near()) if kind == ENDPOINT else []
        info = "" if found else "No model server answers on the usual ports. Enter an address below."
        return gr.Radio(found, value=None, info=info, visible=kind == ENDPOINT)

    def take(choice: str | None) -> list[Any]:
        return choice.split(" ", 2) if choice else [gr.skip(), gr.skip(), gr.skip()]

    chosen.then(look, form.kind, form.near, **quick)
    form.near.input(take, form.near, [form.server, form.url, form.name], **quick)


def judge_line(services: AppServices, kind: str) -> str:
    """Return the line for the head of the tab that names the judge."""
    if kind == MEASURED:
        return views.judge_line(services.judge_name, local=services.local)
    return model_views.judge_line(kind, _named(services, kind), local=services.local)


def _label(services: AppServices, kind: str) -> str:
    return f"Judge: {_named(services, kind)}"


def _named(services: AppServices, kind: str) -> str:
    return next(words for words, each in services.judges.choices() if each == kind)

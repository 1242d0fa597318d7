"""The section of the Score tab with the choice and the options of the judge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from app.failures import explain
from app.score import model_views, views
from app.score.judges import (
    GEMINI,
    HUGGING_FACE,
    MOST_SAMPLES,
    PROFILE,
    SERVED,
    JudgeChoice,
    Key,
    judge_options,
    place_of,
)
from app.services import AppServices
from app.widgets import (
    QUIET,
    Updates,
    Widgets,
    announced,
    button,
    choices,
    markup,
    secret,
    section,
    state,
    textbox,
    waiting_at,
)
from rewardharness.judging.config import MEASURED
from rewardharness.judging.measured import NAME
from rewardharness.judging.model_config import ALONE, PROTOCOLS
from rewardharness.judging.profile_opening import shipped_profiles
from rewardharness.models.base import ModelError

HOSTED = (Path(__file__).parents[1] / "assets" / "hosted_models.txt").read_text(encoding="utf-8").split()
"""Models to choose from at Hugging Face; any other may be typed."""

FIRST_PROFILE = "editscore"
"""The judge profile that is chosen at first."""

NO_KEY = "Only if the server asks for one"
"""Placeholder of the key field."""


class JudgeForm(Widgets):
    """The section with the choice of the judge. The default judge is selected.

    Args:
        services: The services.
        prefix: Prefix of the element ids, if the page has several such sections.
        visible: Whether it is visible at first.
        folded: Whether it is a section of its own, collapsed, whose title names the judge.
    """

    def __init__(self, services: AppServices, prefix: str = "", *, visible: bool = True, folded: bool = True) -> None:
        judges = self._judges = services.judges
        default, name = judges.default, f"{prefix}judge"
        at: dict[str, Any] = {"visible": visible, "elem_id": f"{name}-section"}
        self.section = section(f"Judge: {judges.named(default)}", **at) if folded else gr.Column(**at)
        with self.section, gr.Row(equal_height=False):
            with gr.Column(scale=6, min_width=300):
                self.kind = gr.Radio(judges.choices(), value=default, label="Judge", elem_id=f"{name}-kind")
                # Its choices come when it is shown, as the page is sent with all four of these sections.
                own: dict[str, Any] = {"allow_custom_value": services.local, "elem_id": f"{name}-profile"}
                self.profile = gr.Dropdown([], label="Judge profile", visible=False, **own)
                self.about = markup(elem_id=f"{name}-about")
                with gr.Group(visible=False) as self.endpoint:
                    self._draw_endpoint(name, services.local)
                self.gemini = textbox("Model", f"{name}-gemini", "gemini-2.5-flash", max_length=200, visible=False)
                with gr.Column(visible=False) as self.at_hub:
                    self._draw_hosted(name, judges.logs_in)
                info = "Sent to this address only, and not stored beyond this session."
                self.key = secret("Key", f"{name}-key", info, placeholder=NO_KEY, visible=False)
                self.forget = button("Forget the key", f"{prefix}forget-key", visible=False, size="sm", min_width=140)
                checkable = default != MEASURED and not judges.hides(default)
                self.check = button("Check this endpoint", f"{prefix}check-judge", visible=checkable)
                self.checked = markup(elem_id=f"{name}-checked")
            with gr.Column(scale=7, min_width=300, visible=default != MEASURED) as self.options, gr.Group():
                self._draw_options(name, judges.remembers(default), default != MEASURED)
        # The visitor's key, stored on the server for this session only. The field is cleared when the key is used.
        self.kept = state()
        self.used = state()  # the model that judged last for this visitor, while it is idle
        self.inputs: list[Any] = [
            self.kind, self.server, self.url, self.name, self.gemini, self.hosted, self.key, self.kept,
            self.protocol, self.orders, self.samples, self.pixels, self.evidence, self.remember, self.profile,
        ]  # fmt: skip
        """The inputs that describe a judge, in the order in which `read` takes them."""

    def _draw_endpoint(self, name: str, local: bool) -> None:
        # Models of servers on this computer.
        self.near = choices("Found on this computer", f"{name}-near", visible=False)
        servers = [("vLLM", "vllm"), ("Another server with the OpenAI protocol", "openai")]
        self.server = gr.Radio(servers, value="vllm", label="Server", elem_id=f"{name}-server")
        info = "The base URL, usually ending in /v1."
        info += "" if local else " Only https addresses on the public internet are accepted here."
        example = "http://localhost:8000/v1" if local else "https://my-server.example/v1"
        self.url = textbox("Address", f"{name}-url", info=info, placeholder=example, max_length=500)
        info, example = "The model name on the server.", "Qwen/Qwen2.5-VL-7B-Instruct"
        self.name = textbox("Model", f"{name}-name", info=info, placeholder=example, max_length=200)

    def _draw_hosted(self, name: str, logs_in: bool) -> None:
        if logs_in:  # it reloads the page, so the choice is made again afterwards
            gr.LoginButton("Log in with Hugging Face", logout_value="Log out ({})", size="md", elem_id=f"{name}-login")
        payer = "your account" if logs_in else "the account that this computer is logged in with"
        info = "Choose one, or type any vision-language model of Inference Providers; :PROVIDER may follow. "
        info += f"Calls cost credit of {payer}."
        self.hosted = gr.Dropdown(
            HOSTED, value=HOSTED[0], label="Model", info=info, allow_custom_value=True, elem_id=f"{name}-hosted"
        )

    def _draw_options(self, name: str, remembers: bool, visible: bool) -> None:
        # As those of the profiles, its choices come when it is shown.
        protocols = model_views.protocol_choices() if visible else [PROTOCOLS[0]]
        self.protocol = choices("Protocol", f"{name}-protocol", protocols, value="chain")
        info = "Twice the calls; detects position bias."
        self.orders = gr.Checkbox(True, label="Judge each pair in both orders", info=info, elem_id=f"{name}-orders")
        info = "Number of repeated queries; the answers are averaged."
        self.samples = gr.Slider(1, MOST_SAMPLES, 1, step=1, label="Samples", info=info, elem_id=f"{name}-samples")
        info = "Larger images are scaled down. 0 = no limit; 1000000 is an image of 1000 by 1000."
        self.pixels = gr.Number(0, precision=0, label="Maximum pixels per image", info=info, elem_id=f"{name}-pixels")
        info = "The model also gets boxes, crops and measured sentences of what each candidate changed. "
        info += "Benchmark first whether it helps your model."
        self.evidence = gr.Checkbox(False, label="Measured evidence", info=info, elem_id=f"{name}-evidence")
        info = "The same query is not sent, and paid, twice. The cache contains answers, not images."
        options: dict[str, Any] = {"label": "Use cached answers", "elem_id": f"{name}-remember"}
        self.remember = gr.Checkbox(True, info=info, visible=remembers, **options)

    def adapt(self, kind: str, protocol: str, name: str | None) -> Updates:
        """Show what can be set for a protocol, or for a profile, which is described."""
        asked, about, pairs = kind != PROFILE, "", protocol not in ALONE
        try:
            if not asked:
                profile, missing = self._judges.profile((name or "").strip())
                about, pairs = model_views.about_profile(profile, missing=missing), profile.mode == "pair"
        except Exception as error:  # every error is shown, so that the page stays usable
            about = explain(error)
        return {
            self.about: about,
            self.protocol: gr.Radio(model_views.protocol_choices(), visible=asked),
            self.evidence: gr.Checkbox(visible=asked),
            self.orders: gr.Checkbox(visible=pairs),
        }

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
        kind, server, url, name, gemini, hosted, _, _, protocol, orders, samples, pixels, evidence, *rest = values
        remember, profile = rest
        if kind == PROFILE:  # it fixes how its model is asked
            protocol, evidence = PROTOCOLS[0], False
        options = judge_options(protocol, orders, samples, pixels, evidence, remember)
        model = {GEMINI: gemini, HUGGING_FACE: hosted}.get(kind, name)
        asked = (profile or "") if kind == PROFILE else ""
        return JudgeChoice(kind, server, url or "", model or "", self.key_of(values), options, asked)

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Clear the key field; the server stores the key for as long as the page is open."""
        key = self.key_of(values)
        held = f"A key for {key.place} is stored until you leave" if key else NO_KEY  # not shown for a login
        return {
            self.key: gr.Textbox(value="", placeholder=held),
            self.kept: key,
            self.forget: gr.Button(visible=key is not None and key.place != HUGGING_FACE),
        }


def connect_judge(
    services: AppServices, form: JudgeForm, outside: tuple[gr.Markdown, gr.Markdown] | None = None
) -> None:
    """Connect the widgets.

    Args:
        services: The services.
        form: The widgets.
        outside: The line that names the judge and what the pixel-based judge detects; None where the form is folded.
    """
    judges = services.judges
    cleared = {form.kept: None, form.used: None}

    def choose(token: gr.OAuthToken | None, kind: str, protocol: str, profile: str | None) -> Updates:
        measured, profiles = kind == MEASURED, list(shipped_profiles())
        profile = profile or FIRST_PROFILE
        # The token of the visitor's login is kept like a typed key: for this service and this session.
        login = Key(kind, token.token) if kind == HUGGING_FACE and token is not None and judges.logs_in else None
        head: Updates = {form.section: gr.Accordion(label=f"Judge: {judges.named(kind)}")}
        if outside is not None:
            head = {outside[0]: judge_line(services, kind), outside[1]: gr.Markdown(visible=measured)}
        return {
            **head,
            form.profile: gr.Dropdown(profiles, value=profile, visible=kind == PROFILE),
            form.endpoint: gr.Group(visible=kind in SERVED),
            form.gemini: gr.Textbox(visible=kind == GEMINI),
            form.at_hub: gr.Column(visible=kind == HUGGING_FACE),
            form.key: gr.Textbox(visible=judges.asks_key(kind), value="", placeholder=NO_KEY),
            **cleared,
            form.kept: login,
            form.forget: gr.Button(visible=False),
            form.options: gr.Column(visible=not measured),
            **form.adapt(kind, protocol, profile),
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

    def forget() -> Updates:
        return {**cleared, form.key: gr.Textbox(placeholder=NO_KEY), form.forget: gr.Button(visible=False)}

    quick: dict[str, Any] = {"queue": False, **QUIET}
    inputs = [form.kind, form.protocol, form.profile]
    chosen = form.kind.input(choose, inputs, [*(outside or ()), *form.parts], **quick)
    if services.local:
        _connect_near(services, form, chosen, quick)
    adapted = [form.about, form.protocol, form.evidence, form.orders]
    gr.on([form.protocol.input, form.profile.input], form.adapt, inputs, adapted, **quick)
    form.forget.click(forget, None, [*cleared, form.key, form.forget], **quick)
    checking = announced(lambda: {form.checked: model_views.CHECKING}, check)
    limits: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "check", **waiting_at(form.checked)}
    form.check.click(checking, form.inputs, form.parts, **limits)


def _connect_near(services: AppServices, form: JudgeForm, chosen: Any, quick: dict[str, Any]) -> None:
    """Connect the choice of a model that a server on this computer serves, which fills in the fields below it."""

    def look(kind: str) -> gr.Radio:
        models = model_views.near_choices(services.judges.near()) if kind in SERVED else []
        info = "" if models else "No model server answers on the usual ports. Enter an address below."
        return gr.Radio(models, value=None, info=info, visible=kind in SERVED)

    def take(choice: str | None) -> list[Any]:
        return choice.split(" ", 2) if choice else [gr.skip(), gr.skip(), gr.skip()]

    chosen.then(look, form.kind, form.near, **quick)
    form.near.input(take, form.near, [form.server, form.url, form.name], **quick)


def judge_line(services: AppServices, kind: str) -> str:
    """Return the line for the head of the tab that names the judge."""
    if kind == MEASURED:
        return views.judge_line(NAME, local=services.local)
    return model_views.judge_line(kind, services.judges.named(kind), local=services.local)

"""The judges that a visitor can choose, the addresses that keys are sent to, and the cost of answers."""

import asyncio
import re
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, get_args
from urllib.parse import urlsplit

from rewardharness.errors import InputError, shown
from rewardharness.files import user_path
from rewardharness.judging.config import MEASURED, JudgeConfig
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import Protocol
from rewardharness.judging.opening import open_judge
from rewardharness.judging.profile import Profile
from rewardharness.judging.profile_opening import SUFFIX, load_profile, missing_texts, profile_of, shipped_profiles
from rewardharness.judging.subagent import model_judge, reuse
from rewardharness.models.base import ModelError, Reply
from rewardharness.models.open import model_name, model_urls
from rewardharness.models.probe import LocalServer, Probe, find_local_servers
from rewardharness.schema import Usage
from rewardharness.settings import Settings

ENVIRONMENT = "environment"
"""Choice of the judge in the settings."""

ENDPOINT = "endpoint"
"""Choice of a server whose address the visitor enters."""

GEMINI = "gemini"
"""Choice of a Gemini model."""

PROFILE = "profile"
"""Choice of a published reward model, asked by its judge profile, on a server whose address the visitor enters."""

SERVED = (ENDPOINT, PROFILE)
"""Choices of a model at an address that the visitor enters."""

HUGGING_FACE = "hf"
"""Choice of a model of Hugging Face Inference Providers, with the login of this computer or of the visitor."""

LOG_IN = "Log in with Hugging Face in the section Judge, then choose it there again."
"""What a visitor does who has chosen Hugging Face without a login."""

SERVERS = ("vllm", "openai")
"""Kinds of server: vLLM, and others with the OpenAI protocol."""

MOST_SAMPLES = 5
"""Maximum number of samples."""

LEAST_PIXELS = 784
"""Minimum of the pixel limit: 28 by 28, one token of Qwen2.5-VL."""

RETRIES = 2
"""Further attempts of a failed request; few, because a visitor waits for the answer."""

CHECK_SECONDS = 60.0
"""Timeout of an endpoint check in seconds."""

PUBLIC_DEADLINE = 180.0
"""Timeout of a judgment in seconds in a public app."""

_NAME = re.compile(r"(?!.*://)[^\s\x00-\x1f]{1,200}")


class MissingJudgeError(InputError):
    """The settings of the chosen judge are incomplete."""

    title = "The judge is not complete"


@dataclass(frozen=True)
class Key:
    """A key that a visitor typed, or the token of their login, and the only address that it may be sent to."""

    place: str
    value: str = field(repr=False)


@dataclass(frozen=True)
class JudgeChoice:
    """The choice of a judge and its options."""

    kind: str = MEASURED
    """`MEASURED`, `ENVIRONMENT`, `ENDPOINT`, `PROFILE`, `HUGGING_FACE` or `GEMINI`."""
    server: str = "vllm"
    """One of `SERVERS`; of use for `SERVED` alone."""
    url: str = ""
    """Base URL, as typed; of use for `SERVED` alone."""
    name: str = ""
    """The model's name, as typed."""
    key: Key | None = None
    options: JudgeConfig = JudgeConfig()
    """How a model is asked, and whether cached answers are used; whether ties are allowed follows from the protocol."""
    profile: str = ""
    """Name of the judge profile; of use for `PROFILE` alone."""
    principles: tuple[str, ...] = ()
    """Corrected principles of the protocol `checklist`; empty to ask the model for them."""


BY_MEASURING = JudgeChoice()
"""The judge that needs no model."""


@dataclass(frozen=True)
class Used:
    """A model that has judged for a visitor: what its servers can do is known, and need not be found out again."""

    choice: JudgeChoice
    judge: Judge

    def fits(self, choice: JudgeChoice) -> bool:
        """Whether another choice means the same model at the same place, asked with the same key."""
        return replace(self.choice, options=choice.options, principles=choice.principles) == choice


@dataclass(frozen=True)
class AnswerCost:
    """What a comparison took."""

    usage: Usage = Usage()
    """Calls and tokens of the model, and seconds from start to end."""
    remembered: int = 0
    """Answers that were remembered, and so not asked for."""
    price: tuple[float, float] | None = None
    """US dollars for a million input and output tokens; None: not known."""

    @property
    def cost(self) -> float | None:
        """In US dollars; None where the price, or the number of tokens, is not known."""
        usage = self.usage
        if not usage.calls:
            return 0.0
        if self.price is None or not usage.input_tokens:
            return None
        return (usage.input_tokens * self.price[0] + usage.output_tokens * self.price[1]) / 1_000_000


MODEL_OPTIONS = ("protocol", "one_order", "samples", "max_pixels", "evidence", "no_cache")
"""Fields of `JudgeConfig` that a visitor sets."""


def judge_options(
    protocol: str,
    both_orders: bool,
    samples: float,
    max_pixels: float | None,
    evidence: bool = False,
    remember: bool = True,
) -> JudgeConfig:
    """Return how a model judges for the values of the form.

    Raises:
        InputError: If a value is out of range.
    """
    if protocol not in get_args(Protocol):
        raise InputError(f"There is no protocol {protocol[:40]!r}.", next_step="Choose one in the section Judge.")
    if not 1 <= samples <= MOST_SAMPLES:
        raise InputError(f"{samples:g} samples cannot be asked for.", next_step=f"Choose 1 to {MOST_SAMPLES}.")
    if max_pixels and max_pixels < LEAST_PIXELS:
        step = f"Give at least {LEAST_PIXELS}, or nothing."
        raise InputError(f"Pictures of {max_pixels:g} pixels are too small to judge.", next_step=step)
    return JudgeConfig(
        protocol=protocol,  # type: ignore[arg-type]  # it is one of them
        one_order=not both_orders,
        samples=int(samples),
        max_pixels=int(max_pixels) if max_pixels else None,
        evidence=evidence or None,
        no_cache=not remember,
    )


def judge_choice(spec: str) -> JudgeChoice:
    """Return the choice that a spec of the command line means.

    Args:
        spec: `measured`, `vllm:NAME@URL` or another server with its address, such a server after the name of a judge
            profile, `hf:MODEL` or `gemini:MODEL`.

    Raises:
        InputError: If it is none of them.
    """
    profile, model = profile_of(spec) or ("", spec)
    server, _, rest = model.partition(":")
    name, at, url = rest.partition("@")
    if spec == MEASURED:
        return BY_MEASURING
    if server in {HUGGING_FACE, GEMINI} and rest and not profile:
        return JudgeChoice(server, name=rest)
    if server in SERVERS and name and at:
        return JudgeChoice(PROFILE if profile else ENDPOINT, server, url, name, profile=profile)
    step = "Write measured, vllm:NAME@http://localhost:8000/v1, hf:MODEL or gemini:MODEL."
    raise InputError(f"{shown(spec, 80)!r} is not a judge.", next_step=step)


def place_of(kind: str, url: str) -> str:
    """Name the place that a key belongs to: scheme, host and port of an address, or a service. Empty: nowhere."""
    if kind in {GEMINI, HUGGING_FACE}:
        return kind
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}".lower() if kind in SERVED and host else ""


def key_for(key: str | None, settings: Settings, *specs: str) -> str | None:
    """Return a key of the environment where it may be sent: to the servers that the environment names beside it.

    Args:
        key: The key.
        settings: The settings, whose judge names those servers.
        specs: Models as they are spelled, or their addresses.

    Returns:
        The key; None where any model is served elsewhere.
    """
    own = {place_of(ENDPOINT, url) for url in model_urls(settings.judge)}
    return key if all(place_of(ENDPOINT, url) in own for spec in specs for url in model_urls(spec)) else None


def price_of(settings: Settings) -> tuple[float, float] | None:
    """US dollars per million input and output tokens, from the settings; None: unknown."""
    price = settings.price_input, settings.price_output
    return None if price[0] is None or price[1] is None else (price[0], price[1])


class Judges:
    """The judges that visitors can choose from. Holds nothing of any visitor.

    Args:
        settings: The settings.
        local: Whether visitors sit at this computer. Only then may they name endpoints in its network, use its keys
            and have answers remembered.
    """

    def __init__(self, settings: Settings, *, local: bool) -> None:
        self._settings = settings
        self._local = local
        self._measured = open_judge(MEASURED, settings, ties=True, no_cache=True)
        self.default = MEASURED if settings.judge == MEASURED else ENVIRONMENT
        """The kind of judge that is selected by default."""
        self.logs_in = settings.space and settings.login and not local
        """Whether visitors can log in with Hugging Face, to use its models with their own token."""
        self._fetching = threading.Lock()  # texts of profiles: one visitor fetches, the others find them here
        self._has_gemini = local and bool(settings.gemini_key or settings.cloud_project)

    def choices(self) -> list[tuple[str, str]]:
        """The judges that a visitor can choose from: words and kind of `JudgeChoice`. The first is the default."""
        choices = [("Pixel-based (no model)", MEASURED), ("A vLLM or OpenAI-compatible endpoint", ENDPOINT)]
        choices.append(("A published reward model (EditScore, FIRM, ...)", PROFILE))
        if self._local or self.logs_in:
            choices.insert(1, ("Hugging Face (a model without a GPU)", HUGGING_FACE))
        if self._local or _gemini_installed():  # a stranger could not install what is missing
            choices.append(("Gemini", GEMINI))
        if self.default == ENVIRONMENT:
            choices.insert(0, (f"From RH_JUDGE: {model_name(self._settings.judge)}", ENVIRONMENT))
        return choices

    def named(self, kind: str) -> str:
        """Return the words of a choice."""
        return next(title for title, choice in self.choices() if choice == kind)

    def asks_key(self, kind: str) -> bool:
        """Whether a visitor may give a key."""
        return kind in SERVED or (kind == GEMINI and not self._has_gemini)

    def remembers(self, kind: str) -> bool:
        """Whether answers are remembered. Those of a stranger's endpoint never are: another visitor would get them."""
        return kind == ENVIRONMENT or (self._local and kind in {*SERVED, HUGGING_FACE, GEMINI})

    def hides(self, kind: str) -> bool:
        """Whether a judge's address must not be shown, in failures either."""
        return kind == ENVIRONMENT and not self._local

    def price(self, kind: str) -> tuple[float, float] | None:
        """US dollars for a million input and output tokens.

        The prices of the settings are those of the model that the settings name; where they name none, those of
        whatever model is asked at this computer.
        """
        theirs = kind == ENVIRONMENT if self.default == ENVIRONMENT else self._local
        return price_of(self._settings) if theirs else None

    def open(self, choice: JudgeChoice, used: Used | None = None) -> Judge:
        """Open a judge. Nothing is sent before it judges.

        Args:
            choice: The judge as it was chosen.
            used: A model that this visitor has used before, and that is not at work now.

        Raises:
            HarnessError: If it is not complete or cannot be opened.
        """
        if choice.kind == MEASURED and not choice.principles:
            return self._measured
        spec, settings = self.spelled(choice)
        config = replace(choice.options, judge=spec, retries=RETRIES)
        config = config if self.remembers(choice.kind) else replace(config, no_cache=True)
        limits: dict[str, Any] = {} if self._local else {"deadline": PUBLIC_DEADLINE}
        limits["public_only"] = choice.kind in SERVED and not self._local
        limits |= {"principles": choice.principles} if choice.principles else {}
        with self._fetching if choice.kind == PROFILE else nullcontext():
            judge = open_judge(config, settings, pictures=True, ties=config.protocol != "logprob", **limits)
        return reuse(judge, used.judge) if used is not None and used.fits(choice) else judge

    def profile(self, name: str) -> tuple[Profile, bool]:
        """Return a judge profile, and whether texts of it are fetched with the first judgment.

        Raises:
            InputError: If there is none.
        """
        profile, _ = load_profile(self._profile_spec(name))
        return profile, bool(missing_texts(profile, self._settings.home))

    def _profile_spec(self, name: str) -> str:
        """Return how a profile is spelled. Files are read only for users of this computer."""
        if name in shipped_profiles():
            return name
        if not self._local or not name.endswith(SUFFIX):
            own = f", or type the path of a {SUFFIX} file" if self._local else ""
            raise InputError(f"There is no judge profile {shown(name)!r}.", next_step=f"Choose one under Judge{own}.")
        return str(user_path(name).absolute())

    def near(self) -> list[LocalServer]:
        """Return the model servers on this computer; none for visitors of a public app."""
        return find_local_servers() if self._local and not self._settings.space else []

    def check(self, choice: JudgeChoice) -> Sequence[Probe] | Reply:
        """Check the chosen model: return one result per endpoint, or for Gemini the answer to a small query.

        Raises:
            HarnessError: If it cannot be opened, or Gemini does not answer.
        """
        judge = self.open(replace(choice, options=replace(choice.options, no_cache=True)))
        if self.hides(choice.kind):
            raise InputError("Only the owner of the app can check this judge.")
        agent = model_judge(judge)
        if agent is None:
            raise InputError("The pixel-based judge uses no endpoint, so there is nothing to check.")
        try:
            return asyncio.run(asyncio.wait_for(agent.check(), CHECK_SECONDS))
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {CHECK_SECONDS:g} seconds.") from None

    def spelled(self, choice: JudgeChoice) -> tuple[str, Settings]:
        """Return the spec of a model judge and the settings with its keys.

        Visitors of a public app never use the keys in the settings, and a key is sent only to its own address.

        Raises:
            InputError: If the choice is incomplete.
        """
        if choice.kind == ENVIRONMENT and self.default == ENVIRONMENT:
            return self._settings.judge, self._settings
        no_keys: dict[str, Any] = dict.fromkeys(("api_key", "gemini_key", "cloud_project"))
        settings = self._settings
        if not self._local:
            settings = replace(settings, service_keys={}, hf_login=False, **no_keys)
        name, url = choice.name.strip(), choice.url.strip()
        typed = choice.key.value if choice.key and choice.key.place == place_of(choice.kind, url) else None
        if choice.kind == GEMINI:
            if not typed and not self._has_gemini:
                raise MissingJudgeError("The key for Gemini is missing.", next_step="Enter it in the section Judge.")
            return f"gemini:{_checked(name)}", replace(settings, gemini_key=typed or settings.gemini_key)
        if choice.kind == HUGGING_FACE and (self._local or self.logs_in):
            if self._local:
                return f"hf:{_checked(name)}", settings
            if not typed:
                raise MissingJudgeError("You are not logged in.", next_step=LOG_IN)
            return f"hf:{_checked(name)}", replace(settings, service_keys={"hf": typed})
        if choice.kind not in SERVED or choice.server not in SERVERS:
            raise InputError("Unknown judge.", next_step="Choose one in the section Judge.")
        if not url:
            step = "Enter it in the section Judge, for example http://localhost:8000/v1."
            raise MissingJudgeError("The address of the endpoint is missing.", next_step=step)
        if not re.fullmatch(r"https?://[^\s,]+", url):
            step = "Example: http://localhost:8000/v1."
            raise InputError("The address of the endpoint must start with http:// or https://.", next_step=step)
        spec = f"{choice.server}:{_checked(name)}@{url}"
        if choice.kind == PROFILE:
            spec = f"{self._profile_spec(choice.profile.strip())}:{spec.removeprefix('vllm:')}"
        return spec, replace(settings, api_key=typed or key_for(settings.api_key, settings, spec))


def _gemini_installed() -> bool:
    try:
        return find_spec("google.genai") is not None
    except ModuleNotFoundError:
        return False


def _checked(name: str) -> str:
    if not name:
        step = "Enter the name of the served model in the section Judge."
        raise MissingJudgeError("The name of the model is missing.", next_step=step)
    if not _NAME.fullmatch(name):
        raise InputError("Invalid model name.", next_step="Enter the name of the served model.")
    return name

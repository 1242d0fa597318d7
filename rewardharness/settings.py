"""Settings from the environment. The only reader of `os.environ`."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from rewardharness.errors import SettingsError

SERVICE_KEYS = {"openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY", "hf": "HF_TOKEN"}
"""Environment variables with the keys of hosted services, by kind of model."""


_YES = frozenset({"1", "on", "yes", "true"})


def _read(read: Callable[[Mapping[str, str]], Any], usual: Any = MISSING, *, secret: bool = False) -> Any:
    """Return a field, with what reads it from the environment and the default where none is read."""
    return field(default=usual, repr=not secret, metadata={"read": read})


def _text(*names: str, usual: str | None = None, secret: bool = False) -> Any:
    """A text: the first of these variables that is not empty."""
    return _read(lambda env: next(filter(None, map(env.get, names)), usual), usual, secret=secret)


def _names(*variables: str) -> Any:
    """Names that are separated by commas."""

    def read(env: Mapping[str, str]) -> tuple[str, ...]:
        texts = ",".join(env.get(variable, "") for variable in variables).split(",")
        return tuple(text.strip() for text in texts if text.strip())

    return _read(read, ())


def _count(name: str, usual: int, between: tuple[int, int]) -> Any:
    return _read(lambda env: _number(env, name, usual, between), usual)


def _service_keys(env: Mapping[str, str]) -> dict[str, str]:
    return {kind: env[name] for kind, name in SERVICE_KEYS.items() if env.get(name)}


def _path(env: Mapping[str, str], name: str, *parts: str) -> Path | None:
    return Path(os.path.expanduser(Path(env[name], *parts))) if env.get(name) else None


@dataclass(frozen=True)
class Settings:
    """What the environment says, read once and passed down."""

    home: Path = field(metadata={"read": lambda env: _path(env, "RH_HOME") or Path.home() / ".rewardharness"})
    """Folder for this project's own state: feedback, caches, runs (`RH_HOME`, default `~/.rewardharness`)."""
    library: str = _read(lambda env: env.get("RH_LIBRARY") or "builtin")
    """Library that is used when none is named: `builtin`, a folder, or `org/name[@revision]` (`RH_LIBRARY`)."""
    debug: bool = _read(lambda env: env.get("RH_DEBUG", "") not in {"", "0"})
    """Show full tracebacks (`RH_DEBUG`)."""
    workers: int = _read(lambda env: _number(env, "RH_WORKERS", os.cpu_count() or 1, (1, 1024)))
    """Threads that measure and processes that draw, at least 1 (`RH_WORKERS`, default: the number of processors)."""

    regression_pairs: int = _count("RH_REGRESSION_PAIRS", 100, (0, 1000))
    """Pairs of the regression set of an evolution (`RH_REGRESSION_PAIRS`); 0: none."""

    space: bool = _read(lambda env: env.get("SYSTEM") == "spaces", False)
    """Whether this is a Hugging Face Space (`SYSTEM=spaces`, set by the Space itself)."""

    login: bool = _read(lambda env: bool(env.get("OAUTH_CLIENT_ID")), False)
    """Whether visitors of the Space can log in (`OAUTH_CLIENT_ID`, set by the Space itself)."""

    hosts: tuple[str, ...] = _names("RH_ALLOW_HOST", "SPACE_HOST")
    """Names that the web app is reached by through a proxy (`RH_ALLOW_HOST`, separated by commas, and `SPACE_HOST`, set
    by the Space itself)."""

    release: str | None = _text("RH_RELEASE")
    """Release that the app's Score tab is fixed to: a file, or `deployed:NAME` (`RH_RELEASE`); None: none."""

    judge: str = _text("RH_JUDGE", usual="measured", secret=True)
    """The app's judge when none is chosen: `measured`, or a model as `open_judge` spells it (`RH_JUDGE`)."""

    editor: str | None = _text("RH_EDITOR", secret=True)
    """Editor with which the app improves edits, as `open_editor` spells it (`RH_EDITOR`); None: none."""

    edits: int = _count("RH_EDITS", 80, (0, 1_000_000))
    """Edits that it makes for visitors of a public app within a day, at most (`RH_EDITS`)."""

    calibration: Path | None = field(default=None, metadata={"read": lambda env: _path(env, "RH_CALIBRATION")})
    """Calibration of a judge's confidence: a file of `rh benchmark --calibrate` (`RH_CALIBRATION`); None: the usual."""

    price_input: float | None = _read(lambda env: _price(env, "RH_PRICE_INPUT"), None)
    """Price of a million input tokens, in US dollars (`RH_PRICE_INPUT`); None: not known."""

    price_output: float | None = _read(lambda env: _price(env, "RH_PRICE_OUTPUT"), None)
    """Price of a million output tokens, in US dollars (`RH_PRICE_OUTPUT`); None: not known."""

    api_key: str | None = _text("RH_API_KEY", secret=True)
    """Key of OpenAI-compatible endpoints (`RH_API_KEY`)."""

    service_keys: Mapping[str, str] = field(default_factory=dict, repr=False, metadata={"read": _service_keys})
    """Keys of hosted services by kind of model (`SERVICE_KEYS`), each for that service alone."""

    hf_login: bool = _read(lambda env: env.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() not in _YES, False)
    """Whether `hf:NAME` may use the login of `hf auth login` (not with `HF_HUB_DISABLE_IMPLICIT_TOKEN`)."""

    orchestrator_key: str | None = _read(
        lambda env: env.get("RH_ORCHESTRATOR_API_KEY", env.get("RH_API_KEY")) or None, None, secret=True
    )
    """Key of the Orchestrator's endpoint (`RH_ORCHESTRATOR_API_KEY`; where that is not set, `RH_API_KEY`)."""

    server_token: str | None = _text("RH_SERVER_TOKEN", secret=True)
    """Token that callers of the reward server show (`RH_SERVER_TOKEN`)."""

    gemini_key: str | None = _text("GEMINI_API_KEY", "GOOGLE_API_KEY", secret=True)
    """Key of the Gemini API (`GEMINI_API_KEY`, or else `GOOGLE_API_KEY`)."""

    cloud_project: str | None = _text("GOOGLE_CLOUD_PROJECT")
    """Google Cloud project, for Gemini through Vertex AI (`GOOGLE_CLOUD_PROJECT`)."""

    cloud_location: str | None = _text("GOOGLE_CLOUD_LOCATION")
    """Region of Vertex AI (`GOOGLE_CLOUD_LOCATION`)."""

    hub_endpoint: str | None = _text("HF_ENDPOINT")
    """Address of the Hub, when it is not the public one (`HF_ENDPOINT`)."""

    hub_cache: Path | None = field(
        default=None, metadata={"read": lambda env: _path(env, "HF_HUB_CACHE") or _path(env, "HF_HOME", "hub")}
    )
    """Where the Hub's files are kept (`HF_HUB_CACHE`, or else `hub` in `HF_HOME`; default: where its client keeps
    them)."""

    learned_text: str | None = _text("RH_LEARNED_TEXT", secret=True)
    """Encoder of images and texts for learned measures (`RH_LEARNED_TEXT`): `ORG/NAME@COMMIT[:VARIANT]`, a folder or
    `default`."""

    learned_image: str | None = _text("RH_LEARNED_IMAGE", secret=True)
    """Encoder of images for learned measures (`RH_LEARNED_IMAGE`), named in the same way."""

    feedback_repo: str | None = _text("RH_FEEDBACK_REPO")
    """Dataset repository on the Hub that the app's feedback goes to (`RH_FEEDBACK_REPO`); None: to this disk."""

    feedback_salt: str | None = _text("RH_FEEDBACK_SALT", secret=True)
    """Secret with which voters are distinguished without their names (`RH_FEEDBACK_SALT`); None: they are not."""

    vote_data: str | None = _text("RH_VOTE_DATA")
    """Dataset whose pairs the app's tab Vote shows (`RH_VOTE_DATA`); None: the samples."""

    track: tuple[str, ...] = _names("RH_TRACK")
    """Trackers that runs log to, when none are named (`RH_TRACK`, separated by commas)."""

    batch_pairs: int = _count("RH_BATCH_PAIRS", 100, (0, 100_000))
    """Examples of a batch of a visitor of a public app, at most (`RH_BATCH_PAIRS`); 0: no batches of visitors."""

    batch_megabytes: int = _count("RH_BATCH_MB", 20, (1, 20))
    """Size of the archive of such a batch in megabytes, at most (`RH_BATCH_MB`)."""

    batch_hours: int = _count("RH_BATCH_HOURS", 24, (1, 10_000))
    """Hours after which such a batch and its images are removed (`RH_BATCH_HOURS`)."""

    link_days: int = _count("RH_LINK_DAYS", 30, (0, 3650))
    """Days after which a link that a visitor of a public app keeps is removed (`RH_LINK_DAYS`); 0: none are kept."""

    ray_address: str | None = _text("RAY_ADDRESS")
    """Address of a Ray cluster, or `auto` (`RAY_ADDRESS`); None: Ray starts on this machine."""

    visible_gpus: str | None = _read(lambda env: env.get("CUDA_VISIBLE_DEVICES"), None)
    """GPUs that this process may use (`CUDA_VISIBLE_DEVICES`); None: all."""

    @property
    def feedback(self) -> Path:
        """Folder of the local dataset that the app's feedback goes to."""
        return self.home / "feedback"

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the settings.

        Args:
            environ: Variables to read instead of the process's own.

        Raises:
            SettingsError: If a variable has a value that cannot be used.
        """
        env = os.environ if environ is None else environ
        return cls(**{setting.name: setting.metadata["read"](env) for setting in fields(cls)})


def _number(env: Mapping[str, str], name: str, usual: int, between: tuple[int, int]) -> int:
    text, (least, most) = env.get(name) or str(usual), between
    if not text.isdecimal() or not least <= int(text) <= most:
        raise SettingsError(f"{name}={text!r} is not a number from {least} to {most}.", next_step="Set or unset it.")
    return int(text)


def _price(env: Mapping[str, str], name: str) -> float | None:
    text = env.get(name)
    if not text:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        message = f"{name}={text!r} is no price of a million tokens."
        raise SettingsError(message, next_step="Set a number such as 0.15, or unset it.")
    return price


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to be started: this one's, with some variables changed."""
    return {**os.environ, **changes}


def export(name: str, value: str) -> None:
    """Set a variable for a library of ours that reads the environment, unless the user has set it."""
    os.environ.setdefault(name, value)

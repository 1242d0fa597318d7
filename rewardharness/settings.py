"""Settings from the environment. The only reader of `os.environ`."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.errors import SettingsError

SERVICE_KEYS = {"openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY", "hf": "HF_TOKEN"}
"""Environment variables with the keys of hosted services, by kind of model."""


@dataclass(frozen=True)
class Settings:
    """What the environment says, read once and passed down."""

    home: Path
    """Folder for this project's own state: feedback, caches, runs (`RH_HOME`, default `~/.rewardharness`)."""
    library: str
    """Library that is used when none is named: `builtin`, a folder, or `org/name[@revision]` (`RH_LIBRARY`)."""
    debug: bool
    """Show full tracebacks (`RH_DEBUG`)."""
    workers: int
    """Threads that measure and processes that draw, at least 1 (`RH_WORKERS`, default: the number of processors)."""

    regression_pairs: int = 100
    """Pairs of the regression set of an evolution (`RH_REGRESSION_PAIRS`); 0: none."""

    space: bool = False
    """Whether this is a Hugging Face Space (`SYSTEM=spaces`, set by the Space itself)."""

    login: bool = False
    """Whether visitors of the Space can log in (`OAUTH_CLIENT_ID`, set by the Space itself)."""

    hosts: tuple[str, ...] = ()
    """Names that the web app is reached by through a proxy (`RH_ALLOW_HOST`, separated by commas, and `SPACE_HOST`, set
    by the Space itself)."""

    release: str | None = None
    """Release that the app's Score tab is fixed to: a file, or `deployed:NAME` (`RH_RELEASE`); None: none."""

    judge: str = field(default="measured", repr=False)
    """The app's judge when none is chosen: `measured`, or a model as `open_judge` spells it (`RH_JUDGE`)."""

    calibration: Path | None = None
    """Calibration of a judge's confidence: a file of `rh benchmark --calibrate` (`RH_CALIBRATION`); None: the usual."""

    price_input: float | None = None
    """Price of a million input tokens, in US dollars (`RH_PRICE_INPUT`); None: not known."""

    price_output: float | None = None
    """Price of a million output tokens, in US dollars (`RH_PRICE_OUTPUT`); None: not known."""

    api_key: str | None = field(default=None, repr=False)
    """Key of OpenAI-compatible endpoints (`RH_API_KEY`)."""

    service_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of hosted services by kind of model (`SERVICE_KEYS`), each for that service alone."""

    hf_login: bool = False
    """Whether `hf:NAME` may use the login of `hf auth login` (not with `HF_HUB_DISABLE_IMPLICIT_TOKEN`)."""

    orchestrator_key: str | None = field(default=None, repr=False)
    """Key of the Orchestrator's endpoint (`RH_ORCHESTRATOR_API_KEY`; where that is not set, `RH_API_KEY`)."""

    server_token: str | None = field(default=None, repr=False)
    """Token that callers of the reward server show (`RH_SERVER_TOKEN`)."""

    gemini_key: str | None = field(default=None, repr=False)
    """Key of the Gemini API (`GEMINI_API_KEY`, or else `GOOGLE_API_KEY`)."""

    cloud_project: str | None = None
    """Google Cloud project, for Gemini through Vertex AI (`GOOGLE_CLOUD_PROJECT`)."""

    cloud_location: str | None = None
    """Region of Vertex AI (`GOOGLE_CLOUD_LOCATION`)."""

    hub_endpoint: str | None = None
    """Address of the Hub, when it is not the public one (`HF_ENDPOINT`)."""

    hub_cache: Path | None = None
    """Where the Hub's files are kept (`HF_HUB_CACHE`, or else `hub` in `HF_HOME`; default: where its client keeps
    them)."""

    learned_text: str | None = field(default=None, repr=False)
    """Encoder of images and texts for learned measures (`RH_LEARNED_TEXT`): `ORG/NAME@COMMIT[:VARIANT]` or a folder."""

    learned_image: str | None = field(default=None, repr=False)
    """Encoder of images for learned measures (`RH_LEARNED_IMAGE`), named in the same way."""

    feedback_repo: str | None = None
    """Dataset repository on the Hub that the app's feedback goes to (`RH_FEEDBACK_REPO`); None: to this disk."""

    feedback_salt: str | None = field(default=None, repr=False)
    """Secret with which voters are distinguished without their names (`RH_FEEDBACK_SALT`); None: they are not."""

    vote_data: str | None = None
    """Dataset whose pairs the app's tab Vote shows (`RH_VOTE_DATA`); None: the samples."""

    track: tuple[str, ...] = ()
    """Trackers that runs log to, when none are named (`RH_TRACK`, separated by commas)."""

    batch_pairs: int = 100
    """Examples of a batch of a visitor of a public app, at most (`RH_BATCH_PAIRS`); 0: no batches of visitors."""

    batch_megabytes: int = 20
    """Size of the archive of such a batch in megabytes, at most (`RH_BATCH_MB`)."""

    batch_hours: int = 24
    """Hours after which such a batch and its images are removed (`RH_BATCH_HOURS`)."""

    ray_address: str | None = None
    """Address of a Ray cluster, or `auto` (`RAY_ADDRESS`); None: Ray starts on this machine."""

    visible_gpus: str | None = None
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
        home = Path(env.get("RH_HOME") or Path.home() / ".rewardharness").expanduser()
        return cls(
            home=home,
            library=env.get("RH_LIBRARY") or "builtin",
            debug=env.get("RH_DEBUG", "") not in {"", "0"},
            workers=_count(env, "RH_WORKERS", os.cpu_count() or 1, (1, 1024)),
            regression_pairs=_count(env, "RH_REGRESSION_PAIRS", 100, (0, 1000)),
            release=env.get("RH_RELEASE") or None,
            judge=env.get("RH_JUDGE") or "measured",
            calibration=Path(env["RH_CALIBRATION"]).expanduser() if env.get("RH_CALIBRATION") else None,
            price_input=_price(env, "RH_PRICE_INPUT"),
            price_output=_price(env, "RH_PRICE_OUTPUT"),
            api_key=env.get("RH_API_KEY") or None,
            service_keys={kind: key for kind, name in SERVICE_KEYS.items() if (key := env.get(name))},
            hf_login=not _is_set(env, "HF_HUB_DISABLE_IMPLICIT_TOKEN"),
            orchestrator_key=env.get("RH_ORCHESTRATOR_API_KEY", env.get("RH_API_KEY")) or None,
            server_token=env.get("RH_SERVER_TOKEN") or None,
            gemini_key=env.get("GEMINI_API_KEY") or env.get("GOOGLE_API_KEY") or None,
            cloud_project=env.get("GOOGLE_CLOUD_PROJECT") or None,
            cloud_location=env.get("GOOGLE_CLOUD_LOCATION") or None,
            space=env.get("SYSTEM") == "spaces",
            login=bool(env.get("OAUTH_CLIENT_ID")),
            hosts=_names(env.get("RH_ALLOW_HOST", ""), env.get("SPACE_HOST", "")),
            learned_text=env.get("RH_LEARNED_TEXT") or None,
            learned_image=env.get("RH_LEARNED_IMAGE") or None,
            feedback_repo=env.get("RH_FEEDBACK_REPO") or None,
            feedback_salt=env.get("RH_FEEDBACK_SALT") or None,
            vote_data=env.get("RH_VOTE_DATA") or None,
            track=_names(env.get("RH_TRACK", "")),
            batch_pairs=_count(env, "RH_BATCH_PAIRS", 100, (0, 100_000)),
            batch_megabytes=_count(env, "RH_BATCH_MB", 20, (1, 20)),
            batch_hours=_count(env, "RH_BATCH_HOURS", 24, (1, 10_000)),
            ray_address=env.get("RAY_ADDRESS") or None,
            visible_gpus=env.get("CUDA_VISIBLE_DEVICES"),
            hub_endpoint=env.get("HF_ENDPOINT") or None,
            hub_cache=_hub_cache(env),
        )


def _count(env: Mapping[str, str], name: str, usual: int, between: tuple[int, int]) -> int:
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


def _hub_cache(env: Mapping[str, str]) -> Path | None:
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"]).expanduser()
    return Path(env["HF_HOME"]).expanduser() / "hub" if env.get("HF_HOME") else None


def _names(*lists: str) -> tuple[str, ...]:
    return tuple(name.strip() for text in lists for name in text.split(",") if name.strip())


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to be started: this one's, with some variables changed."""
    return {**os.environ, **changes}


def export(name: str, value: str) -> None:
    """Set a variable for a library of ours that reads the environment, unless the user has set it."""
    os.environ.setdefault(name, value)


def _is_set(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").lower() in {"1", "on", "yes", "true"}

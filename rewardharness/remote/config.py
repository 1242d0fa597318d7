"""Where a job runs, and on which hardware."""

import re
from dataclasses import dataclass, field
from typing import Literal

from rewardharness.codec import SENDS, TEXT, WRITES
from rewardharness.errors import InputError

LOCAL: Literal["local"] = "local"
RAY: Literal["ray"] = "ray"
HF_JOBS: Literal["hf-jobs"] = "hf-jobs"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """Where judgments are made.

    With `ray`, the nodes of a Ray cluster judge: the one at `RAY_ADDRESS`, or one that starts here.
    """

    on: Literal["local", "ray"] = "local"
    """Where to run."""


@dataclass(frozen=True, kw_only=True)
class RemoteConfig(ClusterConfig):
    """Where the command runs. With `hf-jobs` it runs as a Hugging Face Job, which your account pays for.

    With `ray` it runs here, and the nodes of a Ray cluster judge: the one at `RAY_ADDRESS`, or one that starts here.
    """

    on: Literal["local", "ray", "hf-jobs"] = "local"  # type: ignore[assignment]
    """Where to run."""
    flavor: str | None = field(default=None, metadata=TEXT)
    """Hardware of the job, such as a10g-large."""
    timeout: str = field(default="4h", metadata=TEXT)
    """Limit of duration and cost, as 90m."""
    namespace: str | None = field(default=None, metadata=SENDS)
    """Who pays and owns the results."""
    image: str | None = field(default=None, metadata=TEXT)
    """Docker image of the job, with vLLM for vllm:NAME."""
    push_to: str | None = field(default=None, metadata=WRITES)
    """Repository for the evolved Library, ORG/NAME."""

    def __post_init__(self) -> None:
        names = [name for name in ("flavor", "namespace", "image", "push_to") if getattr(self, name)]
        if not self.is_remote and names:
            raise InputError(f"--{names[0].replace('_', '-')} is for a job on the Hub.", next_step="Add --on hf-jobs.")
        if self.push_to:
            from rewardharness.hub.repository import is_repo

            if not is_repo(self.push_to):
                raise InputError(f"--push-to {self.push_to[:100]!r} is not a repository.", next_step="Write ORG/NAME.")
        _ = self.seconds

    @property
    def words(self) -> list[str]:
        """The options as words of a command line; empty unless it is a job on the Hub."""
        options = {name: value for name, value in vars(self).items() if value} if self.is_remote else {}
        return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]

    @property
    def is_remote(self) -> bool:
        """Whether it is a job on the Hub."""
        return self.on == HF_JOBS

    @property
    def seconds(self) -> int:
        """The longest duration in seconds."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", self.timeout)
        if match is None or float(match[1]) <= 0:
            step = "Write a duration such as 90m or 8h."
            raise InputError(f"--timeout {self.timeout[:40]} cannot be read.", next_step=step)
        return max(1, int(float(match[1]) * _UNITS[match[2]]))


ON_THIS_COMPUTER = RemoteConfig()
HERE = ClusterConfig()

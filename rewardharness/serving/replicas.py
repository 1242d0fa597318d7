"""Replicas of the reward server."""

from dataclasses import dataclass
from typing import Any

from rewardharness.errors import InputError
from rewardharness.ranges import Range, check_ranges


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """Number and size of the replicas."""

    replicas: int | None = None
    """Replicas (default: 1)."""
    min_replicas: int | None = None
    """Autoscaling: at least this many replicas (default: 1)."""
    max_replicas: int | None = None
    """Autoscaling: at most this many replicas."""
    target_requests: float | None = None
    """Autoscaling: open requests per replica (default: 2)."""
    replica_cpus: int = 1
    """CPUs that Ray reserves for a replica, and threads that measure in it."""

    def __post_init__(self) -> None:
        names = ("replicas", "min_replicas", "max_replicas", "target_requests", "replica_cpus")
        check_ranges(self, dict.fromkeys(names, Range(0, 10_000, (0,))))
        if self.max_replicas is None and (self.min_replicas is not None or self.target_requests is not None):
            raise InputError("Autoscaling needs a maximum.", next_step="Give --max-replicas.")
        if self.max_replicas is not None and self.replicas is not None:
            raise InputError("--replicas is a fixed number.", next_step="Give --replicas, or --max-replicas.")
        if self.max_replicas is not None and self.max_replicas < (self.min_replicas or 1):
            raise InputError("--max-replicas is below --min-replicas.", next_step="Give a larger --max-replicas.")

    @property
    def most(self) -> int:
        """Maximum number of replicas."""
        return self.max_replicas or self.replicas or 1

    def options(self) -> dict[str, Any]:
        """Return the options of the deployment."""
        if self.max_replicas is None:
            return {"num_replicas": self.replicas or 1}
        scaling = {
            "min_replicas": self.min_replicas or 1,
            "max_replicas": self.max_replicas,
            "target_ongoing_requests": self.target_requests or 2,
        }
        return {"autoscaling_config": scaling}

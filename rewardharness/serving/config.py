"""What a process that serves rewards is made from: `rh serve` makes one server of it, Ray Serve one per replica."""

from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.errors import InputError
from rewardharness.judging.config import RewardConfig
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import open_reward_judge
from rewardharness.judging.release import Release
from rewardharness.library.store import Library
from rewardharness.serving.api import Front, make_app
from rewardharness.serving.limits import Limits
from rewardharness.serving.monitoring import RequestLog, RequestSample
from rewardharness.serving.security import Guard
from rewardharness.serving.service import Service
from rewardharness.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Judge, Library, limits and access control of a server. It can be pickled."""

    config: RewardConfig
    library: Library = field(repr=False)
    release: Release | None = field(repr=False)
    settings: Settings = field(repr=False)
    limits: Limits
    guard: Guard
    request_log: Path | None = None
    sample: tuple[float, Path] | None = None
    """Share of the requests that are written into a folder; None for none."""

    def open(self, judge: Judge | None = None) -> Front:
        """Make the application.

        Args:
            judge: The judge, if it is open already.

        Raises:
            InputError: If the judge cannot be opened.
            ReleaseError: If this installation cannot reproduce the release.
        """
        judge = judge or open_reward_judge(self.config, self.library, self.release, self.settings)
        service = Service(judge, self.library, self.limits, release=None if self.release is None else self.release.id)
        if self.request_log is not None:
            service.log = RequestLog(self.request_log, lambda: service.metrics.log_dropped.inc())
        if self.sample is not None:
            dropped = lambda: service.metrics.sample_dropped.inc()  # noqa: E731
            service.sample = RequestSample(self.sample[1], self.sample[0], dropped, service.who)
        return make_app(service, self.guard)


def usual_limits(judge: Judge, *, cache: bool = True) -> Limits:
    """Return the default limits of a server with a judge.

    Raises:
        InputError: If this judge cannot be served.
    """
    if judge.traits.needs_ids:
        step = "Serve measured, a model or a release."
        raise InputError(
            "Scores in a file belong to examples by their id; a server's callers have none.", next_step=step
        )
    concurrency = Limits.concurrency if judge.traits.uses_model else judge.traits.concurrency
    return Limits(concurrency=concurrency, remembered=Limits.remembered if cache else 0)

"""The interface of a job of any type, once its data, judge and Library are open."""

from pathlib import Path
from typing import Protocol

from rewardharness.runs.spending import Cost, SpendingLimits


class Job(Protocol):
    """A job that is ready to run. Its `run` takes a `StopRequest` and raises `Stopped` and `RunPaused`."""

    @property
    def folder(self) -> Path:
        """Where results are kept; it may hold a run that is resumed."""

    @property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the folder does not hold yet.

        Args:
            restart: Start over.
            retry_failed: Judge again all that failed before, not only what the model was the cause of.
        """

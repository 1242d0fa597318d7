"""Benchmarks: tasks with labels that others made, what a judge gets on them, and what others got."""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Lets `rewardharness.benchmark(...)` run a benchmark, although the package has the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run a benchmark; see `rewardharness.benchmark.job.benchmark`."""
        from rewardharness.benchmark.job import benchmark

        return benchmark(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

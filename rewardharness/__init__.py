"""RewardHarness: a reward for image edits that is evolved, not trained.

The names below are the public interface. They are imported when first used, so that importing the package
costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardharness.benchmark.job import BenchmarkReport, benchmark
    from rewardharness.editors.refine import refine
    from rewardharness.errors import HarnessError, describe
    from rewardharness.evolution.job import EvolutionResult, evolve
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.judge import Judge, ScoredDataset
    from rewardharness.judging.measured import MeasuredJudge
    from rewardharness.judging.opening import open_judge
    from rewardharness.judging.report import make_report
    from rewardharness.judgments import judgment_json
    from rewardharness.library.opening import open_library
    from rewardharness.library.store import Library
    from rewardharness.schema import Agreement, Example, FramesInput, ImageInput, Judgment, Scores, TextInput
    from rewardharness.serving.client import Ask, RewardClient
    from rewardharness.serving.trl import AsyncEditReward, EditReward

__version__ = "0.1.0"

_NAMES = {
    "benchmark.job": "BenchmarkReport benchmark",
    "editors.refine": "refine",
    "errors": "HarnessError describe",
    "evolution.job": "EvolutionResult evolve",
    "judging.evaluate": "evaluate",
    "judging.judge": "Judge ScoredDataset",
    "judging.measured": "MeasuredJudge",
    "judging.opening": "open_judge",
    "judging.report": "make_report",
    "judgments": "judgment_json",
    "library.opening": "open_library",
    "library.store": "Library",
    "schema": "Agreement Example FramesInput ImageInput Judgment Scores TextInput",
    "serving.client": "Ask RewardClient",
    "serving.trl": "AsyncEditReward EditReward",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Agreement",
    "Ask",
    "AsyncEditReward",
    "BenchmarkReport",
    "EditReward",
    "EvolutionResult",
    "Example",
    "FramesInput",
    "HarnessError",
    "ImageInput",
    "Judge",
    "Judgment",
    "Library",
    "MeasuredJudge",
    "RewardClient",
    "ScoredDataset",
    "Scores",
    "TextInput",
    "__version__",
    "benchmark",
    "describe",
    "evaluate",
    "evolve",
    "judgment_json",
    "make_report",
    "open_judge",
    "open_library",
    "refine",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rewardharness' has no attribute {name!r}")
    if name == "benchmark":  # also the name of a package, which can be called
        return import_module("rewardharness.benchmark")
    return getattr(import_module(f"rewardharness.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

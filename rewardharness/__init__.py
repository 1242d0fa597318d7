"""RewardHarness: a reward for image edits that is evolved, not trained.

The names below are the public interface. They are imported when first used, so that importing the package
costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardharness.errors import HarnessError, describe
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.measured import MeasuredJudge
    from rewardharness.judging.record import judgment_json
    from rewardharness.judging.report import make_report
    from rewardharness.library.opening import open_library
    from rewardharness.library.store import Library
    from rewardharness.schema import Example, ImageInput, Judgment, Scores

__version__ = "0.1.0"

_HOMES = {
    "Example": "schema",
    "HarnessError": "errors",
    "ImageInput": "schema",
    "Judgment": "schema",
    "Library": "library.store",
    "MeasuredJudge": "judging.measured",
    "Scores": "schema",
    "describe": "errors",
    "evaluate": "judging.evaluate",
    "judgment_json": "judging.record",
    "make_report": "judging.report",
    "open_library": "library.opening",
}

__all__ = [
    "Example",
    "HarnessError",
    "ImageInput",
    "Judgment",
    "Library",
    "MeasuredJudge",
    "Scores",
    "__version__",
    "describe",
    "evaluate",
    "judgment_json",
    "make_report",
    "open_library",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rewardharness' has no attribute {name!r}")
    return getattr(import_module(f"rewardharness.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

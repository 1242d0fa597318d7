"""What trackers receive: names of settings and numbers, which are stable and listed in docs/reference/metrics.md.

Only numbers, flags and words from fixed lists pass: no images, instructions, ids of examples, names of files or keys.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rewardharness.telemetry import without_file
from rewardharness.tracking.trackers import Config, Numbers

_IDENTITY = (
    "command",
    "task",
    "task_protocol",
    "judge",
    "judge_name",
    "protocol",
    "judge_protocol",
    "judge_revision",
    "library_id",
    "release",
    "data",
    "orchestrator",
    "method",
)
"""Fields of a manifest whose text is tracked. `data` is a digest."""
_RENAMED = {"judge_name": "judge", "judge_protocol": "protocol"}
_CHOICES = ("protocol", "schedule", "parents", "operators", "objective", "groups", "method", "prompt_language")
"""Options of a job whose text is tracked: a choice from a fixed list."""
_ODD = re.compile(r"[^\w.+-]+")


def run_config(manifest: Mapping[str, Any], options: Any = None) -> Config:
    """Return what is tracked of the configuration of a run.

    Args:
        manifest: The manifest of the run.
        options: The configuration of its job, a dataclass; None for no further options.
    """
    found: dict[str, str | int | float | bool] = {}
    for field in fields(options) if is_dataclass(options) else ():
        value = getattr(options, field.name)
        if isinstance(value, bool | int | float) or (isinstance(value, str) and field.name in _CHOICES):
            found[field.name] = value
    for name, value in manifest.items():
        if isinstance(value, bool | int | float) or (isinstance(value, str) and name in _IDENTITY):
            found[_RENAMED.get(name, name)] = value
    if "judge" in found:
        found["judge"] = without_file(str(found["judge"]))
    return found


def score_numbers(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the result of judging a dataset; `report` is as `report_json` writes it."""
    found = known_numbers({f"final/{name}": report[name] for name in ("n", "judged", "coverage")})
    found["final/failures"] = sum(report["failures"].values())
    for kind, accuracy in report["by_label_kind"].items():
        found |= share_numbers(f"final/{_word(kind or 'unnamed')}", accuracy, "accuracy")
    return found | share_numbers("final/groups", report["groups"], "best_accuracy")


def benchmark_numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the result of a benchmark: the rows of the judge, and of the same model without a Library."""
    found: dict[str, float] = {}
    for start, role in (("final", "judge"), ("without_library", "empty")):
        row = next((row for row in result["rows"] if row["role"] == role), None)
        if row is None:
            continue
        found |= known_numbers({f"{start}/coverage": row["coverage"], f"{start}/judged": row["judged"]})
        for number in reversed(row["numbers"]):  # of several with one name, the first counts
            words = (number["part"], number["metric"], number["dimension"])
            found |= share_numbers("/".join((start, *(_word(word) for word in words if word))), number, "value")
    return found


def spending_numbers(spent: Mapping[str, Any]) -> dict[str, float]:
    """Return what an evolution has spent, as `Spent.to_json` writes it."""
    both = (spent["judge"], spent["orchestrator"])
    return {
        "spent/judgments": spent["judgments"],
        "spent/seconds": spent["seconds"],
        "spent/requests": sum(usage["calls"] for usage in both),
        "spent/input_tokens": sum(usage["input_tokens"] for usage in both),
        "spent/output_tokens": sum(usage["output_tokens"] for usage in both),
    }


class ResultCount:
    """Counts the judgments of a run from its result lines."""

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        self.done = self.failures = 0
        self._usage = dict.fromkeys(("calls", "input_tokens", "output_tokens"), 0)
        for line in lines:
            self.add(line)

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one line."""
        self.done += 1
        self.failures += line.get("failure") is not None
        usage = line.get("usage") or {}
        for name in self._usage:
            self._usage[name] += int(usage.get(name) or 0)

    def numbers(self, per_second: float) -> Numbers:
        """Return the numbers so far."""
        return {
            "progress/judgments": self.done,
            "progress/failures": self.failures,
            "progress/coverage": (self.done - self.failures) / self.done if self.done else 0.0,
            "progress/per_second": per_second,
            "usage/requests": self._usage["calls"],
            "usage/input_tokens": self._usage["input_tokens"],
            "usage/output_tokens": self._usage["output_tokens"],
        }


def share_numbers(name: str, score: Mapping[str, Any], key: str) -> dict[str, float]:
    """Return a share with its numbers of examples and the bounds of its 95% CI; nothing if it is unknown."""
    if score[key] is None:
        return {}
    low, high = score["interval"] or (None, None)
    numbers = {"n": score["n"], "judged": score.get("judged"), "ci_low": low, "ci_high": high}
    return known_numbers({name: score[key], **{f"{name}/{part}": value for part, value in numbers.items()}})


def known_numbers(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers that are known."""
    return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}


def _word(text: str) -> str:
    """Return a label as a part of a name."""
    return _ODD.sub("_", text)[:60]

"""Tie thresholds that are fitted on development data with the same judge, never on the reported data.

The development data are judged in the run folder `development/` inside that of the benchmark; the fitted rules are in
`rules.json`. Pairs that share a source image with the benchmark are left out and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.metrics import FOUR_WAY, THREE_WAY, TIES, ScoredPair
from rewardharness.benchmark.result import make_sheet
from rewardharness.benchmark.run import BenchmarkEntry
from rewardharness.benchmark.task import BOTH_BAD, TaskPart
from rewardharness.benchmark.ties import TieRule, fit_ties
from rewardharness.errors import DataError
from rewardharness.files import read_json, write_json
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.schema import TIE, Json, Judgment

RULES = "rules.json"
DEVELOPMENT = "development"
"""Folder of the run on the development data, inside that of the benchmark."""

Rules = Mapping[str, Mapping[str, TieRule]]
"""Rules by entry and part."""


def fit_rules(
    data: BenchmarkData,
    development: BenchmarkData,
    entries: Sequence[BenchmarkEntry],
    judgments: Mapping[str, Mapping[str, Judgment]],
) -> tuple[Rules, tuple[str, ...]]:
    """Fit a threshold for every entry and every part with ties.

    Args:
        data: The reported data.
        development: Data to fit on.
        entries: Entries that judged both.
        judgments: Judgments of the development data, by entry and item.

    Returns:
        The rules, and notes about them for the report.
    """
    reported = {question.cluster for question in data.questions}
    kept = tuple(question for question in development.questions if question.cluster not in reported)
    shared = len(development.questions) - len(kept)
    asked = replace(development, questions=kept).to_json()
    notes = [f"Thresholds of ties were fitted on {development.task.title}, {len(kept)} pairs."]
    if shared:
        notes.append(f"{shared} development pairs share a source image with the benchmark and were left out.")
    rules: dict[str, dict[str, TieRule]] = {}
    for entry in entries:
        pairs = _scored(asked, judgments.get(entry.key, {}))
        for part in data.parts:
            rule = _fit(data, part, pairs, entry.identity) if part.ties else None
            if rule is not None:
                rules.setdefault(entry.key, {})[part.name] = rule
    if not rules:
        notes.append("No threshold could be fitted: no part has ties, or no development pair has a margin.")
    return rules, tuple(notes)


def _scored(asked: Json, judgments: Mapping[str, Judgment]) -> list[ScoredPair]:
    replies = make_sheet(asked, judgments).counting
    return [each.scored for each in replies if len(each.question.asks) == 2 and isinstance(each.question.truth, str)]


def _fit(data: BenchmarkData, part: TaskPart, pairs: Sequence[ScoredPair], identity: JudgeIdentity) -> TieRule | None:
    if any(question.score != "reward" for question in data.questions if question.part == part.name):
        return None
    both = BOTH_BAD in part.labels and any(pair.truth == BOTH_BAD for pair in pairs)
    labeled = pairs if both else [replace(pair, truth=TIE if pair.truth in TIES else pair.truth) for pair in pairs]
    if all(pair.difference is None for pair in labeled):
        return None
    labels = FOUR_WAY if both else THREE_WAY
    return fit_ties(labeled, judge=identity.judge, protocol=identity.protocol, labels=labels)


def write_rules(folder: Path, rules: Rules, notes: Sequence[str]) -> None:
    """Write fitted rules."""
    made = {key: {part: rule.to_json() for part, rule in parts.items()} for key, parts in rules.items()}
    write_json(folder / RULES, {"notes": list(notes), "rules": made})


def read_rules(folder: Path) -> tuple[Rules, tuple[str, ...]]:
    """Read fitted rules; empty without development data.

    Raises:
        DataError: If `write_rules` did not write the file.
    """
    file = folder / RULES
    if not file.exists():
        return {}, ()
    content = read_json(file)
    try:
        made = {
            str(key): {str(part): TieRule.from_json(rule) for part, rule in parts.items()}
            for key, parts in content["rules"].items()
        }
        return made, tuple(map(str, content["notes"]))
    except (LookupError, TypeError, AttributeError):
        raise DataError(f"{file} cannot be read.", next_step="Remove it, and run the benchmark again.") from None

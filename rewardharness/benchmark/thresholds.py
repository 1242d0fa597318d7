"""Tie thresholds that are fitted on development data with the same judge, never on the reported data.

The development data are judged in the run folder `development/` inside that of the benchmark; the fitted rules are in
`rules.json`. Pairs that share a source image with the benchmark are left out and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewardharness.benchmark.answers import TieRule, fit_ties
from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.metrics import FOUR_WAY, THREE_WAY, LabeledAnswer, collapse
from rewardharness.benchmark.numbers import make_sheet
from rewardharness.benchmark.run import BenchmarkEntry
from rewardharness.benchmark.task import BOTH_BAD, TaskPart
from rewardharness.codec import from_json, to_json
from rewardharness.errors import DataError, InputError
from rewardharness.files import read_json, write_json
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.schema import Judgment

RULES = "rules.json"
DEVELOPMENT = "development"
"""Folder of the run on the development data, inside that of the benchmark."""

Rules = Mapping[str, Mapping[str, TieRule]]
"""Rules by entry and part."""


@dataclass(frozen=True)
class _RulesFile:
    notes: tuple[str, ...]
    rules: Rules


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
    asked = replace(development, questions=kept).record
    notes = [f"Thresholds of ties were fitted on {development.task.title}, {len(kept)} pairs."]
    if shared:
        notes.append(f"{shared} development pairs share a source image with the benchmark and were left out.")
    rules: dict[str, dict[str, TieRule]] = {}
    for entry in entries:
        sheet = make_sheet(asked, judgments.get(entry.key, {}))
        pairs = [reply.answer for reply in sheet.counting if len(reply.question.asks) == 2 and not asked.scores]
        for part in data.parts:
            rule = _fit(data, part, pairs, entry.identity) if part.ties else None
            if rule is not None:
                rules.setdefault(entry.key, {})[part.name] = rule
    if not rules:
        notes.append("No threshold could be fitted: no part has ties, or no development pair has a margin.")
    return rules, tuple(notes)


def _fit(
    data: BenchmarkData, part: TaskPart, pairs: Sequence[LabeledAnswer], identity: JudgeIdentity
) -> TieRule | None:
    if any(question.score != "reward" for question in data.questions if question.part == part.name):
        return None
    both = BOTH_BAD in part.labels and any(pair.truth == BOTH_BAD for pair in pairs)
    labeled = pairs if both else [collapse(pair) for pair in pairs]
    labels = FOUR_WAY if both else THREE_WAY
    scored = any(pair.difference is not None for pair in labeled)
    return fit_ties(labeled, judge=identity.judge, protocol=identity.protocol, labels=labels) if scored else None


def write_rules(folder: Path, rules: Rules, notes: Sequence[str]) -> None:
    """Write fitted rules."""
    write_json(folder / RULES, to_json(_RulesFile(tuple(notes), rules)))


def read_rules(folder: Path) -> tuple[Rules, tuple[str, ...]]:
    """Read fitted rules; empty without development data.

    Raises:
        DataError: If `write_rules` did not write the file.
    """
    file = folder / RULES
    if not file.exists():
        return {}, ()
    try:
        content = from_json(_RulesFile, read_json(file))
    except InputError as error:
        step = "Remove it, and run the benchmark again."
        raise DataError(f"{file} cannot be read: {error.message}", next_step=step) from None
    return content.rules, content.notes

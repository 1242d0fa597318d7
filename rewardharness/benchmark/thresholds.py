"""Thresholds of ties: fitted on development data with the same judge, never on what is reported.

The development data are judged in a run folder of their own, `development/`, inside that of the run; what was fitted
lies in `rules.json` beside it. Pairs of a source image that the benchmark shows too are left out, and counted.
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
"""By contender, then by part."""


def fit_rules(
    exam: BenchmarkData,
    development: BenchmarkData,
    contenders: Sequence[BenchmarkEntry],
    judgments: Mapping[str, Mapping[str, Judgment]],
) -> tuple[Rules, tuple[str, ...]]:
    """Fit a threshold for every contender and every part that has ties.

    Args:
        exam: What is reported.
        development: What is fitted on.
        contenders: Who judged both.
        judgments: Of the development data, by contender, then by item.

    Returns:
        The rules, and what a reader should know about them.
    """
    reported = {question.cluster for question in exam.questions}
    kept = tuple(question for question in development.questions if question.cluster not in reported)
    shared = len(development.questions) - len(kept)
    asked = replace(development, questions=kept).to_json()
    notes = [f"Thresholds of ties were fitted on {development.task.title}, {len(kept)} pairs."]
    if shared:
        notes.append(f"{shared} development pairs show a source image of the benchmark and were left out.")
    rules: dict[str, dict[str, TieRule]] = {}
    for contender in contenders:
        pairs = _scored(asked, judgments.get(contender.key, {}))
        for part in exam.parts:
            rule = _fit(exam, part, pairs, contender.identity) if part.ties else None
            if rule is not None:
                rules.setdefault(contender.key, {})[part.name] = rule
    if not rules:
        notes.append("No threshold could be fitted: no part has ties, or no development pair has a lead.")
    return rules, tuple(notes)


def _scored(asked: Json, judgments: Mapping[str, Judgment]) -> list[ScoredPair]:
    replies = make_sheet(asked, judgments).counting
    return [each.scored for each in replies if len(each.question.asks) == 2 and isinstance(each.question.truth, str)]


def _fit(exam: BenchmarkData, part: TaskPart, pairs: Sequence[ScoredPair], identity: JudgeIdentity) -> TieRule | None:
    if any(question.score != "reward" for question in exam.questions if question.part == part.name):
        return None
    both = BOTH_BAD in part.labels and any(pair.truth == BOTH_BAD for pair in pairs)
    told = pairs if both else [replace(pair, truth=TIE if pair.truth in TIES else pair.truth) for pair in pairs]
    if all(pair.difference is None for pair in told):
        return None
    labels = FOUR_WAY if both else THREE_WAY
    return fit_ties(told, judge=identity.judge, protocol=identity.protocol, labels=labels)


def write_rules(folder: Path, rules: Rules, notes: Sequence[str]) -> None:
    """Keep what was fitted."""
    made = {key: {part: rule.to_json() for part, rule in parts.items()} for key, parts in rules.items()}
    write_json(folder / RULES, {"notes": list(notes), "rules": made})


def read_rules(folder: Path) -> tuple[Rules, tuple[str, ...]]:
    """Read what was fitted; nothing where no development data were given.

    Raises:
        DataError: If the file is not what `write_rules` wrote.
    """
    file = folder / RULES
    if not file.exists():
        return {}, ()
    stated = read_json(file)
    try:
        made = {
            str(key): {str(part): TieRule.from_json(rule) for part, rule in parts.items()}
            for key, parts in stated["rules"].items()
        }
        return made, tuple(map(str, stated["notes"]))
    except (LookupError, TypeError, AttributeError):
        raise DataError(f"{file} cannot be read.", next_step="Remove it, and run the benchmark again.") from None

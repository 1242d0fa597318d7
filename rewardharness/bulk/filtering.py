"""Filtering of the edits of a dataset, with a reason for each decision.

    one candidate          kept if its reward is at least `reward`, and among the best `top` of all
    a pair or a group      kept if the margin of the preferred candidate is at least `margin` and, if requested, the
                           label has the same preference

Edits without a judgment are never kept, and have a reason of their own.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewardharness.bulk.config import FilterConfig
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.schema import Example, Json, Judgment


@dataclass(frozen=True)
class Kept:
    """Decision about one edit."""

    example: Example
    judgment: Judgment
    keep: bool
    code: str
    """Fixed code: `kept`, `not_judged`, `not_top`, `low_reward`, `low_margin`, `no_margin`, `no_label`, `disagrees`."""
    reason: str
    """One sentence with the numbers."""

    @property
    def reward(self) -> float | None:
        """Reward of the preferred or only candidate; None without a reward, or without a single best candidate."""
        judgment = self.judgment
        label = judgment.preference if len(self.example.candidates) > 1 else "A"
        scores = judgment.scores.get(label or "")
        return None if scores is None else scores.reward


def decide_all(judged: Sequence[tuple[Example, Judgment]], rules: FilterConfig) -> list[Kept]:
    """Decide about all edits of a dataset.

    With a share, of n edits at most ceil(share * n) are kept: those with the highest rewards, of equal rewards the
    earlier ones, whatever their number. Edits without a judgment or a single best candidate count in n and are not
    kept. The other conditions hold as well.
    """
    decided = [decide(example, judgment, rules) for example, judgment in judged]
    if rules.top is None:
        return decided
    size = math.ceil(round(rules.top * len(decided), 9))
    rewards = [(each.reward, place) for place, each in enumerate(decided) if each.reward is not None]
    ranked = sorted(rewards, key=lambda each: (-each[0], each[1]))
    rank = {place: number for number, (_, place) in enumerate(ranked, 1)}
    for place, each in enumerate(decided):
        number = rank.get(place)
        if each.keep and (number is None or number > size):
            held = "It has no reward" if number is None else f"Its reward {each.reward:.3f} is number {number}"
            reason = f"{held}; the best {rules.top:g} of {len(decided)} edits are {size}."
            decided[place] = replace(each, keep=False, code="not_top", reason=reason)
    return decided


def decide(example: Example, judgment: Judgment, rules: FilterConfig) -> Kept:
    """Decide about one edit. The first condition that fails is the reason."""

    def decision(code: str, reason: str) -> Kept:
        return Kept(example, judgment, code == "kept", code, reason)

    if not judgment.judged:
        cause = judgment.failure.message if judgment.failure is not None else "There is no judgment."
        return decision("not_judged", f"It was not judged: {cause}")
    reward, margin = Kept(example, judgment, False, "", "").reward, judgment.margin
    parts = []
    if rules.min_reward is not None:
        if reward is None or reward < rules.min_reward:
            problem = "There is no single best candidate" if reward is None else f"The reward is {reward:.3f}"
            return decision("low_reward", f"{problem}; the minimum is {rules.min_reward:g}.")
        parts.append(f"reward {reward:.3f}, at least {rules.min_reward:g}")
    if rules.min_margin is not None:
        if margin is None:
            return decision("no_margin", "A single candidate has no margin.")
        if margin < rules.min_margin:
            return decision("low_margin", f"The margin is {margin:.3f}; the minimum is {rules.min_margin:g}.")
        parts.append(f"margin {margin:.3f}, at least {rules.min_margin:g}")
    if rules.agree:
        if example.preference is None:
            return decision("no_label", "It has no label to agree with.")
        if judgment.preference != example.preference:
            return decision("disagrees", f"The label is {example.preference}; the judge says {judgment.preference}.")
        parts.append(f"the label {example.preference} is confirmed")
    if rules.top is not None:
        parts.append(f"among the best {rules.top:g}")
    return decision("kept", f"Kept: {'; '.join(parts)}.")


def count(decisions: Iterable[Kept], *, skipped: int = 0) -> dict[str, int]:
    """Count the decisions by code, with skipped rows of the data as `bad_row`."""
    counts = Counter(decision.code for decision in decisions) + Counter({"bad_row": skipped})
    return dict(sorted(counts.items()))


COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "source": "image",
    "references": "images",
    "instruction": "text",
    "candidates": "images",
    "source_file": "text",
    "candidate_files": "texts",
    "preference": "text",
    "label_kind": "text",
    "category": "text",
    "judged_preference": "text",
    "reward": "float",
    "rewards": "floats",
    "margin": "float",
    "keep": "bool",
    "code": "text",
    "reason": "text",
    "judge": "text",
    "judge_revision": "text",
    "protocol": "text",
    "library_id": "text",
    "release": "text",
}
"""`source_file` and `candidate_files` are the names of the original files. `preference` is the label,
`judged_preference` that of the judge; `rewards` are in the order of the candidates."""


def write_decisions(path: Path, decided: Iterable[Kept], identity: JudgeIdentity) -> int:
    """Write a table.

    Args:
        path: A `.parquet` file, or a `.jsonl` file with the images beside it.
        decided: The edits.
        identity: What judged.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read, or the disk is full.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    write = write_parquet if path.suffix == ".parquet" else write_lines
    return write(path, COLUMNS, _rows(decided, identity))


def _rows(decided: Iterable[Kept], identity: JudgeIdentity) -> Iterator[Json]:
    for decision in decided:
        example, judgment = decision.example, decision.judgment
        rewards = [judgment.scores[label].reward for label in example.labels if label in judgment.scores]
        yield {
            "id": example.id,
            "source": example.source,
            "references": example.references,
            "instruction": example.instruction,
            "candidates": example.candidates,
            "source_file": example.source_image.name,
            "candidate_files": [image.name for image in example.candidate_images],
            "preference": example.preference,
            "label_kind": example.label_kind,
            "category": example.category,
            "judged_preference": judgment.preference,
            "reward": decision.reward,
            "rewards": rewards if len(rewards) == len(example.candidates) else None,
            "margin": judgment.margin,
            "keep": decision.keep,
            "code": decision.code,
            "reason": decision.reason,
            **identity.to_json(),
        }

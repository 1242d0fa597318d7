"""Filtering of the edits of a dataset, with a reason for each decision.

    one candidate          kept if its reward is at least `reward`
    a pair or a group      kept if the margin of the preferred candidate is at least `margin` and, if requested, the
                           label has the same preference

Edits without a judgment are never kept, and have a reason of their own.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rewardharness.errors import InputError
from rewardharness.schema import Example, Judgment


@dataclass(frozen=True)
class Rules:
    """Conditions for keeping an edit. None disables a condition."""

    reward: float | None = None
    """Minimum reward, in [0, 1]; for several candidates, of the preferred one."""
    margin: float | None = None
    """Minimum margin of the preferred candidate, in [0, 1]. A single candidate has no margin."""
    agree: bool = False
    """Whether the preference must agree with the label. An edit without a label does not agree."""

    def __post_init__(self) -> None:
        for name, value in (("reward", self.reward), ("margin", self.margin)):
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"The minimum {name} {value} is not in [0, 1].", next_step="Use a number in [0, 1].")
        if self.reward is None and self.margin is None and not self.agree:
            raise InputError(
                "No condition for keeping edits.", next_step="Pass --min-reward, --min-margin or --agree, or several."
            )


@dataclass(frozen=True)
class Kept:
    """Decision about one edit."""

    example: Example
    judgment: Judgment
    keep: bool
    code: str
    """Fixed code: `kept`, `not_judged`, `low_reward`, `low_margin`, `no_margin`, `no_label`, `disagrees`."""
    reason: str
    """One sentence with the numbers."""

    @property
    def reward(self) -> float | None:
        """Reward of the preferred or only candidate; None without a reward, or without a single best candidate."""
        judgment = self.judgment
        label = judgment.preference if len(self.example.candidates) > 1 else "A"
        scores = judgment.scores.get(label or "")
        return None if scores is None else scores.reward


def decide(example: Example, judgment: Judgment, rules: Rules) -> Kept:
    """Decide about one edit. The first condition that fails is the reason."""

    def decision(code: str, reason: str) -> Kept:
        return Kept(example, judgment, code == "kept", code, reason)

    if not judgment.judged:
        cause = judgment.failure.message if judgment.failure is not None else "There is no judgment."
        return decision("not_judged", f"It was not judged: {cause}")
    reward, margin = Kept(example, judgment, False, "", "").reward, judgment.margin
    parts = []
    if rules.reward is not None:
        if reward is None or reward < rules.reward:
            problem = "There is no single best candidate" if reward is None else f"The reward is {reward:.3f}"
            return decision("low_reward", f"{problem}; the minimum is {rules.reward:g}.")
        parts.append(f"reward {reward:.3f}, at least {rules.reward:g}")
    if rules.margin is not None:
        if margin is None:
            return decision("no_margin", "A single candidate has no margin.")
        if margin < rules.margin:
            return decision("low_margin", f"The margin is {margin:.3f}; the minimum is {rules.margin:g}.")
        parts.append(f"margin {margin:.3f}, at least {rules.margin:g}")
    if rules.agree:
        if example.preference is None:
            return decision("no_label", "It has no label to agree with.")
        if judgment.preference != example.preference:
            return decision("disagrees", f"The label is {example.preference}; the judge says {judgment.preference}.")
        parts.append(f"the label {example.preference} is confirmed")
    return decision("kept", f"Kept: {'; '.join(parts)}.")


def count(decisions: Iterable[Kept], *, skipped: int = 0) -> dict[str, int]:
    """Count the decisions by code, with skipped rows of the data as `bad_row`."""
    counts = Counter(decision.code for decision in decisions) + Counter({"bad_row": skipped})
    return dict(sorted(counts.items()))

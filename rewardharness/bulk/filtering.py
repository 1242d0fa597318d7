"""Which edits of a dataset are worth keeping, each with the reason why or why not.

    one candidate          kept when its reward is at least `reward`
    a pair or a group      kept when the winner's margin is at least `margin`, and, where it is asked for, when the
                           label names the same winner

What could not be judged is never kept and never counted as bad: its reason says that it was not judged.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rewardharness.errors import InputError
from rewardharness.schema import Example, Judgment


@dataclass(frozen=True)
class Rules:
    """What an edit must have to be kept. None: it does not matter."""

    reward: float | None = None
    """Least reward, in [0, 1]; of several candidates that of the preferred one."""
    margin: float | None = None
    """Least margin of the winner, in [0, 1]. A single candidate has none."""
    agree: bool = False
    """Whether the preference must be that of the label. An edit without a label cannot agree."""

    def __post_init__(self) -> None:
        for name, value in (("reward", self.reward), ("margin", self.margin)):
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"The least {name} {value} is not in [0, 1].", next_step="Give a number in [0, 1].")
        if self.reward is None and self.margin is None and not self.agree:
            raise InputError(
                "Nothing says what is kept.", next_step="Give --min-reward, --min-margin or --agree, or several."
            )


@dataclass(frozen=True)
class Kept:
    """Whether one edit is kept."""

    example: Example
    judgment: Judgment
    keep: bool
    code: str
    """A word for tables: `kept`, `not_judged`, `low_reward`, `low_margin`, `no_margin`, `no_label`, `disagrees`."""
    reason: str
    """One sentence with the numbers."""

    @property
    def reward(self) -> float | None:
        """Reward of the preferred candidate, or of the only one; None when there is none, or no single best one."""
        judgment = self.judgment
        label = judgment.preference if len(self.example.candidates) > 1 else "A"
        scores = judgment.scores.get(label or "")
        return None if scores is None else scores.reward


def decide(example: Example, judgment: Judgment, rules: Rules) -> Kept:
    """Decide on one edit. The first rule that it breaks is the reason."""

    def verdict(code: str, reason: str) -> Kept:
        return Kept(example, judgment, code == "kept", code, reason)

    if not judgment.judged:
        why = judgment.failure.message if judgment.failure is not None else "There is no judgment."
        return verdict("not_judged", f"It was not judged: {why}")
    reward, margin = Kept(example, judgment, False, "", "").reward, judgment.margin
    parts = []
    if rules.reward is not None:
        if reward is None or reward < rules.reward:
            said = "There is no single best candidate" if reward is None else f"The reward is {reward:.3f}"
            return verdict("low_reward", f"{said}; at least {rules.reward:g} is asked for.")
        parts.append(f"reward {reward:.3f}, at least {rules.reward:g}")
    if rules.margin is not None:
        if margin is None:
            return verdict("no_margin", "A single candidate has no margin.")
        if margin < rules.margin:
            return verdict("low_margin", f"The margin is {margin:.3f}; at least {rules.margin:g} is asked for.")
        parts.append(f"margin {margin:.3f}, at least {rules.margin:g}")
    if rules.agree:
        if example.preference is None:
            return verdict("no_label", "It has no label to agree with.")
        if judgment.preference != example.preference:
            return verdict("disagrees", f"The label is {example.preference}; the judge says {judgment.preference}.")
        parts.append(f"the label {example.preference} is confirmed")
    return verdict("kept", f"Kept: {'; '.join(parts)}.")


def count(decisions: Iterable[Kept], *, skipped: int = 0) -> dict[str, int]:
    """Count the decisions by their code, and under `bad_row` the rows of the data that were left out by choice."""
    counts = Counter(each.code for each in decisions) + Counter({"bad_row": skipped})
    return dict(sorted(counts.items()))

"""Rewards relative to their group, as GRPO uses them.

With r_1 ... r_n the rewards of those members of a group that were judged:

    mean = sum(r_i) / n          std = sqrt(sum((r_i - mean)^2) / n)          z_i = (r_i - mean) / (std + eps)

and z_i is cut to [-clip, clip] where a clip is given. Members without a reward stay without one and count in neither
mean nor std. Where n < 2, or all judged rewards are equal, every z_i is exactly 0: the group says nothing about which
member is better, and `degenerate` says so. (DeepSeekMath, arXiv 2402.03300, section 4.1.2, with `eps` against division
by next to nothing. TRL and verl divide by the standard deviation of a sample, with n - 1.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rewardharness.serving.results import GroupStats

EPS = 1e-4
"""The usual `eps`, as in TRL and flow_grpo."""


@dataclass(frozen=True)
class Normalisation:
    """How rewards are made relative."""

    method: Literal["raw", "group"] = "raw"
    """`raw`: not at all; `group`: as above."""
    eps: float = EPS
    clip: float | None = None


RAW = Normalisation()
"""Rewards as they are."""


def normalise_group(rewards: Sequence[float | None], settings: Normalisation) -> tuple[list[float | None], GroupStats]:
    """Make the rewards of one group relative.

    Args:
        rewards: One per member; None where there is none.
        settings: The bounds; its method does not matter here.

    Returns:
        A number or None per member, and what they were made with.
    """
    known = [reward for reward in rewards if reward is not None]
    mean = math.fsum(known) / len(known) if known else None
    std = None if mean is None else math.sqrt(math.fsum((reward - mean) ** 2 for reward in known) / len(known))
    degenerate = len(known) < 2 or min(known) == max(known)
    stats = GroupStats(None, len(rewards), len(known), mean, std if not degenerate or std is None else 0.0, degenerate)
    if mean is None or std is None:
        return [None] * len(rewards), stats
    bound = math.inf if settings.clip is None else settings.clip
    values: list[float | None] = []
    for reward in rewards:
        if reward is None:
            values.append(None)
        else:
            values.append(0.0 if degenerate else max(-bound, min(bound, (reward - mean) / (std + settings.eps))))
    return values, stats


def normalise_groups(
    rewards: Sequence[float | None], groups: Sequence[str | None], settings: Normalisation
) -> tuple[list[float | None], tuple[GroupStats, ...]]:
    """Make rewards relative, each within its group.

    Args:
        rewards: One per member of any group; None where there is none.
        groups: The group of each; those without a name form one group together.
        settings: With the method `raw` no member gets a number, and no groups are reported.
    """
    values: list[float | None] = [None] * len(rewards)
    if settings.method == "raw":
        return values, ()
    places: dict[str | None, list[int]] = {}
    for index, group in enumerate(groups):
        places.setdefault(group, []).append(index)
    stats = []
    for name, members in places.items():
        relative, about = normalise_group([rewards[index] for index in members], settings)
        stats.append(replace(about, group=name))
        for index, value in zip(members, relative, strict=True):
            values[index] = value
    return values, tuple(stats)

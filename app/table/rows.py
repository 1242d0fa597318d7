"""Rows of results, and which of them a table shows. Pure."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.markup import plain
from rewardharness.judging.report import credit
from rewardharness.schema import TIE, Example, Judgment

PAGE = 25
"""Rows of a page."""

CLOSE, CLEAR = 0.1, 0.3
"""Margins below which an answer is close, and from which it is clear."""


@dataclass(frozen=True)
class Verdict:
    """The answer of one judge to an example."""

    choice: str
    """A letter, `tie`, or another word; empty without a judgment."""
    credit: float | None = None
    """Agreement with the label in [0, 1]; None without a label or a judgment."""
    margin: float | None = None
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    """By letter."""
    failure: str = ""
    """Code of the failure; empty for a judgment."""

    @property
    def size(self) -> float | None:
        """The margin without its sign, 0 for a tie; None without one."""
        return 0.0 if self.choice == TIE else None if self.margin is None else abs(self.margin)

    @property
    def best(self) -> float | None:
        """The highest reward; None without one."""
        return max((reward for reward in self.rewards.values() if reward is not None), default=None)


@dataclass(frozen=True)
class ResultRow:
    """An example with the answers of the shown judges."""

    number: int
    """Place in the data; names the row for as long as the run exists."""
    id: str
    instruction: str
    kinds: tuple[str, ...]
    """What the data call it: part, kind of edit, label kind."""
    label: str | None
    verdicts: tuple[Verdict, ...]
    """Of the shown run, and of the one that it is compared with."""


def _change(row: ResultRow) -> float:
    """Return how much better the first judge agrees with the label than the second."""
    first, second = (row.verdicts[0].credit, row.verdicts[-1].credit)
    return 0.0 if first is None or second is None else first - second


def _within(row: ResultRow, low: float, high: float) -> bool:
    size = row.verdicts[0].size
    return size is not None and low <= size < high


AGREEMENTS: Mapping[str, tuple[str, Callable[[ResultRow], bool]]] = {
    "all": ("All", lambda row: True),
    "against": ("Judge and label disagree", lambda row: row.verdicts[0].credit not in {None, 1}),
    "with": ("Judge and label agree", lambda row: row.verdicts[0].credit == 1),
    "failed": ("Not judged", lambda row: not row.verdicts[0].choice),
    "fixed": ("Fixed", lambda row: _change(row) > 0),
    "broken": ("Broken", lambda row: _change(row) < 0),
    "differ": ("Different answers", lambda row: row.verdicts[0].choice != row.verdicts[-1].choice),
}
"""Title and rule of each choice by agreement; the last three are about two judges."""

MARGINS: Mapping[str, tuple[str, Callable[[ResultRow], bool]]] = {
    "all": ("All", lambda row: True),
    "close": (f"Below {CLOSE}, and ties", lambda row: _within(row, 0.0, CLOSE)),
    "middle": (f"{CLOSE} to {CLEAR}", lambda row: _within(row, CLOSE, CLEAR)),
    "clear": (f"{CLEAR} and more", lambda row: _within(row, CLEAR, 9.0)),
}
"""Title and rule of each choice by margin."""


ORDERS: Mapping[str, tuple[str, Callable[[ResultRow], float | None] | None, bool]] = {
    "given": ("As in the data", None, False),
    "margin": ("Largest margin first", lambda row: row.verdicts[0].size, True),
    "near": ("Smallest margin first", lambda row: row.verdicts[0].size, False),
    "reward": ("Highest reward first", lambda row: row.verdicts[0].best, True),
    "low": ("Lowest reward first", lambda row: row.verdicts[0].best, False),
}
"""Title, value and direction of each order; rows without the value come last."""

ANY = ""
"""Choice of all kinds. Kinds are prefixed with `=`, because a name may be empty."""


def select(rows: Sequence[ResultRow], agreement: str = "all", margin: str = "all", kind: str = ANY) -> list[ResultRow]:
    """Return the rows that fit choices of `AGREEMENTS`, `MARGINS` and `kind_choices`."""
    rules = [names[name][1] for names, name in ((AGREEMENTS, agreement), (MARGINS, margin)) if name in names]
    return [row for row in rows if all(rule(row) for rule in rules) and (not kind or kind[1:] in row.kinds)]


def ordered(rows: Sequence[ResultRow], order: str) -> list[ResultRow]:
    """Return the rows in one of `ORDERS`."""
    _, value, down = ORDERS.get(order, ORDERS["given"])
    if value is None:
        return list(rows)
    known = [(number, row) for row in rows if (number := value(row)) is not None]
    known.sort(key=lambda pair: -pair[0] if down else pair[0])
    return [row for _, row in known] + [row for row in rows if value(row) is None]


def kind_choices(rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    """Return title with count and value of the kinds in the rows, the most frequent first."""
    counts = Counter(kind for row in rows for kind in dict.fromkeys(row.kinds))
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [("All", ANY), *((f"{plain(name) or '(no kind given)'} ({n:,})", f"={name}") for name, n in found)]


def verdict_of(example: Example, judgment: Judgment) -> Verdict:
    """Return the answer of a judgment of an example."""
    rewards = {label: scores.reward for label, scores in judgment.scores.items()}
    if judgment.failure is not None:
        return Verdict("", rewards=rewards, failure=judgment.failure.code)
    choice = "inconsistent" if judgment.inconsistent else judgment.preference or "scored"
    agrees = credit(example, judgment) if example.preference is not None else None
    return Verdict(choice, agrees, judgment.margin, rewards)


def neighbor(rows: Sequence[ResultRow], number: int, step: int) -> int:
    """Return the place of the row that is `step` rows from the one with a number; after the last follows the first."""
    place = next((place for place, row in enumerate(rows) if row.number == number), -min(step, 1))
    return (place + step) % len(rows) if rows else -1


def numbers(text: object) -> set[int]:
    """Return the numbers of rows that the page has sent; other values are ignored."""
    try:
        found = json.loads(str(text or "[]"))
    except ValueError:
        return set()
    return {number for number in found if type(number) is int} if isinstance(found, list) else set()

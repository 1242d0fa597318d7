"""What results say about themselves: short texts, parts of pages for notebooks, rows of tables, errors on request."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from rewardharness.errors import ImageError, InputError, JudgmentError, MissingPackageError, shown


def number(value: float | None) -> str:
    """Write a number, or `-` if there is none."""
    return "-" if value is None else f"{value:.3f}"


DIMENSIONS = ("instruction", "quality", "consistency")
"""Names of the scores of a candidate; the last one is optional."""


def dimensions_of(scores: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of the scores to show: without the optional one if no candidate has it."""
    return DIMENSIONS if any(score.consistency is not None for score in scores) else DIMENSIONS[:2]


class JudgmentViews:
    """The rewards of a judgment, and how it is shown."""

    scores: Mapping[str, Any]

    @property
    def rewards(self) -> dict[str, float | None]:
        """The rewards by letter; empty if there are no scores."""
        return {label: score.reward for label, score in self.scores.items()}

    @property
    def reward(self) -> float | None:
        """The reward of a single candidate; None if there is none, or there are several candidates: see `rewards`."""
        return next(iter(self.rewards.values())) if len(self.scores) == 1 else None

    def raise_for_failure(self) -> Self:
        """Return the judgment itself, if there is a preference or a score.

        Raises:
            ImageError: If an image could not be read.
            InputError: If the input cannot be judged.
            JudgmentError: If the edit was not judged for another reason.
        """
        own: Any = self
        if own.judged:
            return self
        code, message = (own.failure.code, own.failure.message) if own.failure else ("", "There is no judgment.")
        raise {"image": ImageError, "input": InputError}.get(code, JudgmentError)(message)

    def __repr__(self) -> str:
        own: Any = self
        parts = [repr(shown(own.example_id))]
        parts += [f"preference={own.preference!r}, margin={number(own.margin)}"] if own.preference else []
        parts += [f"{label}: {number(reward)}" for label, reward in self.rewards.items()]
        parts += [f"failure={shown(f'{own.failure.code}: {own.failure.message}')!r}"] if own.failure else []
        return f"Judgment({', '.join(parts)}, judge={shown(own.judge)!r})"

    def _repr_html_(self) -> str:
        from rewardharness.report import Table, Text
        from rewardharness.report_html import render_fragment

        own: Any = self
        names = dimensions_of(own.scores.values())
        rows = [
            (label, *(number(getattr(score, name)) for name in (*names, "reward")))
            for label, score in own.scores.items()
        ]
        table = Table(("candidate", *(f"{name} 1-4" for name in names), "reward 0-1"), tuple(rows))
        return render_fragment(repr(self), table, Text((*own.reasons, *own.notes), "list"))


class ReportViews:
    """How the report of a dataset is shown."""

    def _repr_html_(self) -> str:
        from rewardharness.report import Table, Text
        from rewardharness.report_html import render_fragment

        own: Any = self
        groups = {"groups: best found": own.groups} if own.groups else {}
        kinds = {**own.by_label_kind, **groups}.items()
        rows = tuple((kind, str(part.n), str(part.judged), number(part.value)) for kind, part in kinds)
        failures = Text(tuple(f"{code}: {count}" for code, count in own.failures.items()), "list")
        title = f"{own.judged} of {own.n} judged"
        return render_fragment(title, Table(("label kind", "n", "judged", "accuracy"), rows), failures)


def data_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a `pandas.DataFrame`.

    Raises:
        MissingPackageError: If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingPackageError("pandas", "data", "tables of results") from None
    return pandas.DataFrame(list(rows))

"""What the Lineage tab can do: gather a lineage, from records or from a Library, and compare two evals.

Who asks decides what is shown. Strangers see how a Library came to be that they can choose anyway; the records of
whoever runs the app, and the folders of the computer, are not theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.lineage_drawing import Drawn, drawn
from rewardharness.errors import InputError
from rewardharness.evolution.ancestry import read_evolutions
from rewardharness.library.store import Library
from rewardharness.runs.comparing import compare
from rewardharness.runs.forms import Comparison, Eval
from rewardharness.runs.graph import around, lineage_graph
from rewardharness.runs.lineage import Lineage, Record
from rewardharness.runs.store import find_runs
from rewardharness.settings import Settings


@dataclass(frozen=True)
class Gathered:
    """A lineage as it is shown."""

    drawn: Drawn
    records: tuple[tuple[str, str], ...] = ()
    """Records that it can be narrowed to, newest first: words for people, and the id of the node."""
    evals: tuple[str, ...] = ()
    """Names of the evals, newest first."""
    pair: tuple[str, str] | None = None
    """Names of two evals to compare: those that were compared last, or the two newest; None with fewer than two."""
    chosen: str = ""
    """Id of the node that was asked for, if one was."""


class LineageServices:
    """Lineages as visitors of the app may see them. Holds nothing of any visitor.

    Args:
        settings: The settings.
        local: Whether visitors sit at this computer. Only then may they see records.
    """

    def __init__(self, settings: Settings, *, local: bool) -> None:
        self._settings = settings
        self.local = local

    @property
    def usual(self) -> Path:
        """Where records lie when no other folder is named."""
        return self._settings.home / "lineage"

    def of_records(self, folder: str = "", about: str = "") -> Gathered:
        """Gather all that led to some records and all that came of them, with the evolutions of this computer.

        Args:
            folder: Where they lie, as typed; empty for the usual place.
            about: Id of the node of a record that alone is of interest; empty for all.

        Raises:
            InputError: If visitors may not see records, or there is no such folder.
            LineageError: If a record was changed, or refers to something that is not there.
        """
        records = self._lineage(folder).read_all()
        newest = list(records.values())[::-1]
        graph = lineage_graph(records.values(), read_evolutions(find_runs(self._settings.home / "runs")))
        starts = [f"{record.kind}:{record.id}" for record in newest]
        chosen = [about] if about in starts else starts
        evals = tuple(record.name for record in newest if record.kind == "eval")
        return Gathered(
            drawn(around(graph, chosen), chosen),
            tuple((record.title, start) for record, start in zip(newest, starts, strict=True)),
            evals,
            _pair(newest, evals),
            about if about in starts else "",
        )

    def of_library(self, library: Library) -> Gathered:
        """Gather how a Library came to be, as it says itself. Nothing else is looked at."""
        graph = lineage_graph([], libraries={library.id: library.lineage})
        edits = [node.id for node in graph.nodes if node.kind == "edit"]
        chosen = f"library:{library.id}"
        return Gathered(drawn(graph, [chosen, *reversed(edits)]), chosen=chosen)

    def compare(
        self, folder: str, base: str, new: str, *, different_judges: bool = False
    ) -> tuple[Record, Record, Comparison]:
        """Compare two evals. Nothing is recorded.

        Args:
            folder: As in `of_records`.
            base: Name of the eval that is compared with.
            new: Name of the one that is compared.
            different_judges: Compare although different judges measured.

        Raises:
            InputError: If visitors may not see records, or an eval is not named.
            LineageError: If they do not compare.
        """
        lineage = self._lineage(folder)
        if not base or not new:
            raise InputError("Two evals are needed.", next_step="Choose one in each list.")
        known = lineage.read_all()
        one, other = (lineage.find(name, "eval", known) for name in (base, new))
        assert isinstance(one.body, Eval) and isinstance(other.body, Eval)
        items = (lineage.items(one.body), lineage.items(other.body))
        return one, other, compare(one, other, items, different_judges=different_judges)

    def _lineage(self, folder: str) -> Lineage:
        if not self.local:
            step = "Choose a Library, or run the app on your own computer."
            raise InputError("Records are shown only on the computer that the app runs on.", next_step=step)
        place = Path(folder.strip()).expanduser() if folder.strip() else self.usual
        if folder.strip() and not place.is_dir():
            raise InputError(f"There is no folder {str(place)!r}.", next_step="Type the folder that records lie in.")
        return Lineage(place)


def _pair(newest: Sequence[Record], evals: Sequence[str]) -> tuple[str, str] | None:
    names = {record.id: record.name for record in newest}
    for record in newest:
        if isinstance(record.body, Comparison):
            return names[record.body.base], names[record.body.new]
    return (evals[1], evals[0]) if len(evals) > 1 else None

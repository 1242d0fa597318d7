"""Edits a copy of a Library for a visitor: new texts of entries, their check, judging again, and saving.

A copy is a value in the visitor's session. Only a user of this computer can save it in a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from app.library.libraries import RightsError
from app.run_panel.new_jobs import VISITOR_PAIRS, examples_spec
from app.score.judges import BY_MEASURING
from app.services import AppServices
from rewardharness.data.opening import DEMO, open_data
from rewardharness.errors import InputError
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.held_out import HeldOutComparison, Score
from rewardharness.library.check import check_texts
from rewardharness.library.entry import Entry, check_name
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library, ReplaceEntry
from rewardharness.measure.table import MEASURES
from rewardharness.schema import Example


@dataclass(frozen=True)
class EditedCopy:
    """A copy of a Library that is being edited."""

    start: Library
    """The Library that was copied."""
    library: Library
    """The copy with all edits without errors."""
    entry: Entry
    """The open entry as the form shows it; it may have errors."""
    problems: tuple[Problem, ...] = ()
    """Problems of the open entry."""
    saved: str = ""
    """Id of the Library that was saved last; empty if none was."""

    @property
    def failed(self) -> bool:
        """Whether the open entry has errors, so that the copy does not have its latest edit."""
        return any(problem.severity == "error" for problem in self.problems)

    def result(self) -> Library:
        """Return the edited Library, with a line in its lineage.

        Raises:
            InputError: If the open entry has errors.
        """
        if self.failed:
            raise InputError(f"{self.entry.name} has errors.", next_step="Correct what the form reports, then repeat.")
        changed = [entry.name for entry in self.library.entries if self.start.get(entry.name) != entry]
        record = {"parent": self.start.id, "library": self.library.id, "operator": "edit by hand", "entries": changed}
        return self.library.with_lineage(record) if changed else self.library

    def edit(self, texts: Mapping[str, str], entry: Entry | None = None) -> "EditedCopy":
        """Apply new texts of the open entry; if they have errors, the Library stays as it is.

        Args:
            texts: See `check_texts`.
            entry: What the form shows if they have errors; None for what it shows now.
        """
        new, problems = check_texts(self.library, self.entry, texts, MEASURES)
        library = self.library if new is None else self.library.apply(ReplaceEntry(new))
        return replace(self, library=library, entry=new or entry or self.entry, problems=problems)


@dataclass(frozen=True)
class JudgedAgain:
    """Examples judged with a Library and with its edited copy."""

    labeled: int
    """Number of labeled examples of the data."""
    before: Score
    after: Score
    """Of the examples that consult a changed entry; the judgments of others cannot change."""
    comparison: HeldOutComparison
    changed: tuple[tuple[str, Example], ...]
    """`Fixed` or `Broken`, and the example."""


def judge_again(services: AppServices, draft: EditedCopy, data: str, place: str) -> JudgedAgain:
    """Judge labeled examples, at most `VISITOR_PAIRS`, with the Library and with its edited copy.

    Args:
        services: The services.
        draft: The copy.
        data: Kind of data, as in `examples_spec`; visitors have only the demo pairs.
        place: The folder, as typed.

    Raises:
        HarnessError: If the data cannot be read, or the judge gives no answers.
    """
    library = draft.result()
    if not services.local and data != DEMO:
        raise InputError("Other data are not judged on the computer of this page.", next_step="Use the demo pairs.")
    judge = services.judges.open(BY_MEASURING if services.fixed is not None else services.api_judge())
    examples = open_data(examples_spec(data, place), services.settings).examples
    labeled = [example for example in examples if example.preference is not None]
    if not labeled:
        raise InputError("These examples have no labels.", next_step="Choose others, or vote on them first.")
    evaluator = Evaluator(judge, concurrency=judge.traits.concurrency)
    chosen = evaluator.affected(draft.start, library, labeled)[:VISITOR_PAIRS]
    before, after = evaluator.judge(draft.start, chosen), evaluator.judge(library, chosen)
    changed = [
        ("Fixed" if new.credit > old.credit else "Broken", new.example)
        for old, new in zip(before, after, strict=True)
        if old.judged and new.judged and old.credit != new.credit
    ]
    compared = HeldOutComparison.of(after, before)
    return JudgedAgain(len(labeled), Score.of(before), Score.of(after), compared, tuple(changed))


def save(services: AppServices, draft: EditedCopy, name: str) -> tuple[EditedCopy, Path]:
    """Save the edited copy under a name, on this computer.

    A Library of that name is replaced only if it is the one that was copied or saved last.

    Raises:
        HarnessError: If the name is invalid or taken, the copy has errors, or the user is elsewhere.
    """
    if not services.local:
        step = "Publish it with your own login, or run the app on your own computer."
        raise RightsError("Copies are saved only on the computer that the app runs on.", next_step=step)
    check_name(name)
    folder, library = services.libraries.home / name, draft.result()
    if folder.exists() and Library.load(folder).id not in {draft.start.id, draft.saved}:
        step = "Choose another name, or open that Library and edit it."
        raise InputError(f"There is another Library named {name}.", next_step=step)
    replace(library, meta={**library.meta, "id": name}).save(folder)
    return replace(draft, saved=library.id), folder

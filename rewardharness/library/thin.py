"""Weakens a Library, so that an evolution run can be tested on recovering what was removed."""

from dataclasses import replace

from rewardharness.library.store import Library, ReplaceEntry


def without_every_second_criterion(library: Library) -> Library:
    """Return a copy of the Library without every second measured criterion, counted across Skills by name.

    A Skill whose remaining criteria have no weight keeps its text and loses its rubric.
    """
    count = 0
    for entry in library.skills:
        kept = []
        for criterion in entry.rubric.criteria if entry.rubric else ():
            count += criterion.measure is not None
            if criterion.measure is None or count % 2:
                kept.append(criterion)
        if entry.rubric is not None and len(kept) < len(entry.rubric.criteria):
            rubric = (
                replace(entry.rubric, criteria=tuple(kept)) if any(criterion.weight > 0 for criterion in kept) else None
            )
            library = library.apply(ReplaceEntry(replace(entry, rubric=rubric)))
    return library

"""Makes a Library that knows less, for evolution to have something to find again."""

from dataclasses import replace

from rewardharness.library.store import Library, ReplaceEntry


def without_every_second_criterion(library: Library) -> Library:
    """Take every second criterion with a measure out of a Library, counting through its Skills by name.

    Args:
        library: Any Library.

    Returns:
        A new one. A Skill that is left without weight keeps its text and loses its rubric.
    """
    count = 0
    for entry in library.skills:
        kept = []
        for criterion in entry.rubric.criteria if entry.rubric else ():
            count += criterion.measure is not None
            if criterion.measure is None or count % 2:
                kept.append(criterion)
        if entry.rubric is not None and len(kept) < len(entry.rubric.criteria):
            rubric = replace(entry.rubric, criteria=tuple(kept)) if any(each.weight > 0 for each in kept) else None
            library = library.apply(ReplaceEntry(replace(entry, rubric=rubric)))
    return library

"""Checks what was read: ids that repeat, labels that contradict each other, groups with pairs missing.

Everything found is named and counted. What cannot count is marked as excluded and stays where it is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from rewardharness.benchmark.cases import Case, Problem
from rewardharness.benchmark.task import Part
from rewardharness.data.source import identify_images, image_key
from rewardharness.files import sha256, sha256_file
from rewardharness.schema import TIE, ImageInput

CONTRADICTING = "contradicting labels"
REPEATED = "repeated row"
INCOMPLETE = "incomplete group"
TWICE = "pair twice in its group"

_SHOWN = 20


class Identities:
    """Tells the images of many cases apart by their content."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._known = identify_images(image for case in cases for image in (case.source, *case.candidates))

        self._hashes: dict[object, str] = {}

    def __getitem__(self, image: ImageInput) -> str:
        return self._known[image_key(image)]

    def content(self, image: ImageInput) -> str:
        """Hash of an image, the same in every dataset; what stands for it where it is not there."""
        key = image_key(image)
        if key not in self._hashes:
            try:
                self._hashes[key] = sha256_file(image.path) if image.path else sha256(image.data or b"")
            except OSError:
                self._hashes[key] = sha256(self[image].encode())
        return self._hashes[key]

    def edit(self, case: Case, place: int) -> tuple[str, str, str]:
        """Identity of one candidate of a case, with its source and its instruction."""
        return self[case.source], " ".join(case.instruction.casefold().split()), self[case.candidates[place]]


def check(cases: Sequence[Case], parts: Sequence[Part]) -> tuple[tuple[Case, ...], list[Problem], Identities]:
    """Check the cases of a task.

    Args:
        cases: As they were read.
        parts: The parts of the task.

    Returns:
        The same cases under ids that are unique, some of them excluded; what was found; and the images' identities.
    """
    same = Identities(cases)
    problems = _missing(cases, same)
    cases, found = _settle_ids(cases, same)
    problems += found
    cases, found = _contradictions(cases, same)
    problems += found
    cases, found = _pairs_twice(cases)
    problems += found
    by_name = {part.name: part for part in parts}
    for name in dict.fromkeys(case.part for case in cases):
        part = by_name.get(name)
        if part is not None and part.group is not None:
            problems += _check_groups(part, [case for case in cases if case.part == name], same)
    return tuple(cases), problems, same


def complete_groups(cases: Iterable[Case], parts: Sequence[Part]) -> frozenset[str]:
    """Name the groups that have every pair of their candidates exactly once, none of it excluded."""
    expected = {part.name: part for part in parts if part.group is not None}
    rows: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.group and not case.excluded.startswith(REPEATED):
            rows[case.group].append(case)
    return frozenset(name for name, members in rows.items() if _is_complete(expected[members[0].part], members))


def _is_complete(part: Part, members: Sequence[Case]) -> bool:
    pairs = Counter(frozenset(case.letters) for case in members)
    letters = {letter for pair in pairs for letter in pair}
    return (
        len(members) == part.pairs_per_group
        and len(letters) == part.candidates
        and set(pairs) == {frozenset(pair) for pair in combinations(sorted(letters), 2)}
        and not any(case.excluded for case in members)
    )


def _missing(cases: Sequence[Case], same: Identities) -> list[Problem]:
    found = [
        case for case in cases if any(same[image].startswith("missing:") for image in (case.source, *case.candidates))
    ]
    return _by_part("missing image", "An image is not there", found, "counted as not judged")


def _settle_ids(cases: Sequence[Case], same: Identities) -> tuple[list[Case], list[Problem]]:
    """Give every case an id of its own. A row that is there again, word for word, counts once."""
    seen: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    settled: list[Case] = []
    repeated: list[Case] = []
    renamed: list[Case] = []
    for case in cases:
        content = (*(same.edit(case, place) for place in range(len(case.candidates))), case.truth, case.letters)
        before = seen[case.id]
        if content in before:
            case = replace(case, excluded=f"{REPEATED}: the same as {case.id}")
            repeated.append(case)
        elif before:
            renamed.append(case)
        before.append(content)
        settled.append(case if len(before) == 1 else replace(case, id=f"{case.id}#{len(before)}"))
    return settled, [
        *_by_part("repeated row", "The same row is there more than once", repeated, "counted once"),
        *_by_part("duplicate id", "Different rows have the same id", renamed, "counted, under ids of their own"),
    ]


def _contradictions(cases: Sequence[Case], same: Identities) -> tuple[list[Case], list[Problem]]:
    """Find rows with the same images and instruction. Where their labels disagree, no judge can be right on all."""
    alike: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        if not case.excluded and case.truth is not None and len(case.candidates) > 1:
            edits = sorted(same.edit(case, place) for place in range(len(case.candidates)))
            alike[case.part, case.dimension, *edits].append(case)
    against: set[str] = set()
    copies: list[Case] = []
    for members in alike.values():
        if len(members) > 1 and len({_winner(case, same) for case in members}) > 1:
            against.update(case.id for case in members)
        else:
            copies += members[1:]
    marked = [replace(case, excluded=CONTRADICTING) if case.id in against else case for case in cases]
    level = [case for case in cases if not case.excluded and _prefers_a_copy(case, same)]
    return marked, [
        *_by_part(
            CONTRADICTING,
            "Rows with the same images and instruction prefer different candidates",
            [case for case in marked if case.id in against],
            "judged, not counted",
        ),
        *_by_part("same pair twice", "Rows have the same images, instruction and label", copies, "counted"),
        *_by_part("level candidates", "The candidates are the same image, yet one is preferred", level, "counted"),
    ]


def _pairs_twice(cases: Sequence[Case]) -> tuple[list[Case], list[Problem]]:
    """Find pairs of candidates that a group has more than once, in rows that differ."""
    counts = Counter((case.group, frozenset(case.letters)) for case in cases if case.group and not case.excluded)
    marked = [
        replace(case, excluded=TWICE) if counts[case.group, frozenset(case.letters)] > 1 and not case.excluded else case
        for case in cases
    ]
    message = "A group has rows that differ for the same two candidates"
    twice = [case for case in marked if case.excluded == TWICE]
    return marked, _by_part(TWICE, message, twice, "judged, not counted")


def _winner(case: Case, same: Identities) -> object:
    """The image that the label prefers, wherever it stands."""
    if isinstance(case.truth, str) and len(case.truth) == 1:
        return same[case.candidates[ord(case.truth) - ord("A")]]
    return case.truth


def _prefers_a_copy(case: Case, same: Identities) -> bool:
    if not isinstance(case.truth, str) or len(case.truth) != 1:
        return False
    return [same[image] for image in case.candidates].count(str(_winner(case, same))) > 1


def _check_groups(part: Part, cases: Sequence[Case], same: Identities) -> list[Problem]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if not case.excluded.startswith(REPEATED):
            groups[case.group].append(case)
    complete = complete_groups(cases, [part])
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, members in groups.items():
        if name not in complete:
            whole = f"A group lacks some of its {part.pairs_per_group} pairs, has too many, or one does not count"
            found[INCOMPLETE, whole, "its pairs count, the group does not"].append(name)
        images: dict[str, set[str]] = defaultdict(set)
        for case in members:
            for letter, image in zip(case.letters, case.candidates, strict=True):
                images[letter].add(same[image])
        if len({same[case.source] for case in members}) > 1 or any(len(each) > 1 for each in images.values()):
            mixed = "The rows of a group do not agree on its source or its candidates"
            found["mixed group", mixed, "counted"].append(name)
        if _is_circular(members):
            circle = "The labels of a group go round in a circle; no ranking has them all"
            found["circular labels", circle, "counted"].append(name)
    return [
        Problem(code, part.name, f"{message}: {', '.join(names[:3])}", len(names), consequence, tuple(names[:_SHOWN]))
        for (code, message, consequence), names in found.items()
    ]


def _is_circular(members: Sequence[Case]) -> bool:
    """Whether preferences lead from a candidate back to itself."""
    beats: Mapping[str, set[str]] = defaultdict(set)
    for case in members:
        if case.truth not in (None, TIE) and case.truth in ("A", "B"):
            winner, loser = case.letters if case.truth == "A" else case.letters[::-1]
            beats[winner].add(loser)
    for start in list(beats):
        reached, ahead = set(), [start]
        while ahead:
            for each in beats.get(ahead.pop(), ()):
                if each == start:
                    return True
                if each not in reached:
                    reached.add(each)
                    ahead.append(each)
    return False


def _by_part(code: str, message: str, cases: Sequence[Case], consequence: str) -> list[Problem]:
    """One problem per part, with the first ids."""
    by_part: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_part[case.part].append(case.id)
    return [
        Problem(code, part, f"{message}: {', '.join(ids[:3])}", len(ids), consequence, tuple(ids[:_SHOWN]))
        for part, ids in by_part.items()
    ]

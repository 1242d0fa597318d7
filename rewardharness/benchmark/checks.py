"""Checks of benchmark data: duplicate ids, contradicting labels, incomplete groups.

Every problem is named and counted. Cases that cannot be counted are marked as excluded and stay in the data.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from rewardharness.benchmark.cases import BenchmarkCase, DataProblem, list_problem
from rewardharness.benchmark.metrics import split
from rewardharness.benchmark.task import TaskPart
from rewardharness.data.source import identify_images, image_key, media_id
from rewardharness.files import content_id, sha256, sha256_file
from rewardharness.schema import Candidate, ImageInput, images_of

CONTRADICTING = "contradicting labels"
REPEATED = "repeated row"
INCOMPLETE = "incomplete group"
TWICE = "pair twice in its group"


class Identities:
    """Content-based identities of the images of many cases."""

    def __init__(self, cases: Sequence[BenchmarkCase]) -> None:
        self._ids = identify_images(image for case in cases for image in case.images)
        self._hashes: dict[object, str] = {}

    def __getitem__(self, media: Candidate | None) -> str:
        return "" if media is None else media_id(media, self._ids)

    def cluster(self, case: BenchmarkCase) -> str:
        """Return the identity of the source of a case, or of the prompt of texts: such cases are not independent."""
        if case.source is None:
            return sha256(case.instruction.encode())[:16]
        hashes = [self._content(image) for image in images_of(case.source)]
        return (hashes[0] if isinstance(case.source, ImageInput) else content_id(hashes))[:16]

    def _content(self, image: ImageInput) -> str:
        """Return the hash of an image, which is the same in every dataset; of a missing image, hash its identity."""
        key = image_key(image)
        if key not in self._hashes:
            try:
                self._hashes[key] = sha256_file(image.path) if image.path else sha256(image.data or b"")
            except OSError:
                self._hashes[key] = sha256(self[image].encode())
        return self._hashes[key]

    def sources(self, case: BenchmarkCase) -> str:
        """Return the identity of the source image of a case with its references."""
        return " ".join(self[image] for image in case.sources)

    def edit(self, case: BenchmarkCase, place: int) -> tuple[str, str, str]:
        """Return the identity of one candidate of a case, including its sources and instruction."""
        return self.sources(case), " ".join(case.instruction.casefold().split()), self[case.candidates[place]]


def check(
    cases: Sequence[BenchmarkCase], parts: Sequence[TaskPart]
) -> tuple[tuple[BenchmarkCase, ...], list[DataProblem], Identities]:
    """Check the cases of a task.

    Args:
        cases: Cases as read.
        parts: The parts of the task.

    Returns:
        The cases with unique ids, some of them excluded; the problems; and the identities of the images.
    """
    same = Identities(cases)
    gone = [case for case in cases if any(same[image].startswith("missing:") for image in case.images)]
    problems = _by_part("missing image", "An image is missing", gone, "counted as not judged")
    for step in (_settle_ids, _contradictions, _pairs_twice):
        cases, new_problems = step(cases, same)
        problems += new_problems
    grouped = {part.name: part for part in parts if part.group is not None}
    for name, members in split(cases, lambda case: case.part, ordered=False).items():
        if name in grouped:
            problems += _check_groups(grouped[name], members, same)
    return tuple(cases), problems, same


def _is_complete(part: TaskPart, members: Sequence[BenchmarkCase]) -> bool:
    pairs = Counter(frozenset(case.letters) for case in members)
    letters = {letter for pair in pairs for letter in pair}
    return (
        len(members) == part.pairs_per_group
        and len(letters) == part.candidates
        and set(pairs) == {frozenset(pair) for pair in combinations(sorted(letters), 2)}
        and not any(case.excluded for case in members)
    )


def _settle_ids(cases: Sequence[BenchmarkCase], same: Identities) -> tuple[list[BenchmarkCase], list[DataProblem]]:
    """Give every case a unique id. Identical rows count once."""
    seen: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    settled: list[BenchmarkCase] = []
    repeated: list[BenchmarkCase] = []
    renamed: list[BenchmarkCase] = []
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
        *_by_part("repeated row", "The same row occurs more than once", repeated, "counted once"),
        *_by_part("duplicate id", "Different rows have the same id", renamed, "counted, with new ids"),
    ]


def _contradictions(cases: Sequence[BenchmarkCase], same: Identities) -> tuple[list[BenchmarkCase], list[DataProblem]]:
    """Find rows with the same images and instruction. Rows whose labels disagree are excluded."""
    alike: dict[tuple[object, ...], list[BenchmarkCase]] = defaultdict(list)
    for case in cases:
        if not case.excluded and case.truth is not None and len(case.candidates) > 1:
            edits = sorted(same.edit(case, place) for place in range(len(case.candidates)))
            alike[case.part, case.dimension, *edits].append(case)
    against: set[str] = set()
    copies: list[BenchmarkCase] = []
    for members in alike.values():
        if len(members) > 1 and len({_winner(case, same) for case in members}) > 1:
            against.update(case.id for case in members)
        else:
            copies += members[1:]
    marked = [replace(case, excluded=CONTRADICTING) if case.id in against else case for case in cases]
    level = [case for case in cases if not case.excluded and _prefers_a_copy(case, same)]
    opposed = [case for case in marked if case.id in against]
    message = "Rows with the same images and instruction prefer different candidates"
    return marked, [
        *_by_part(CONTRADICTING, message, opposed, "judged, not counted"),
        *_by_part("same pair twice", "Rows have the same images, instruction and label", copies, "counted"),
        *_by_part("level candidates", "The candidates are identical, but one is preferred", level, "counted"),
    ]


def _pairs_twice(cases: Sequence[BenchmarkCase], same: Identities) -> tuple[list[BenchmarkCase], list[DataProblem]]:
    """Find pairs of candidates that occur more than once in a group, in different rows."""
    keys = [(case.group, frozenset(case.letters)) if case.group and not case.excluded else None for case in cases]
    counts = Counter(key for key in keys if key)
    pairs = zip(cases, keys, strict=True)
    marked = [replace(case, excluded=TWICE) if key and counts[key] > 1 else case for case, key in pairs]
    message = "A group has different rows for the same two candidates"
    twice = [case for case in marked if case.excluded == TWICE]
    return marked, _by_part(TWICE, message, twice, "judged, not counted")


def _winner(case: BenchmarkCase, same: Identities) -> object:
    """Return the identity of the image that the label prefers, independent of its position."""
    if isinstance(case.truth, str) and len(case.truth) == 1:
        return same[case.candidates[ord(case.truth) - ord("A")]]
    return case.truth


def _prefers_a_copy(case: BenchmarkCase, same: Identities) -> bool:
    if not isinstance(case.truth, str) or len(case.truth) != 1:
        return False
    return [same[image] for image in case.candidates].count(str(_winner(case, same))) > 1


def _check_groups(part: TaskPart, cases: Sequence[BenchmarkCase], same: Identities) -> list[DataProblem]:
    once = [case for case in cases if not case.excluded.startswith(REPEATED)]
    groups = split(once, lambda case: case.group, ordered=False)
    problems: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, members in groups.items():
        if not _is_complete(part, members):
            whole = f"A group does not have exactly {part.pairs_per_group} pairs that count"
            problems[INCOMPLETE, whole, "its pairs count, the group does not"].append(name)
        images: dict[str, set[str]] = defaultdict(set)
        for case in members:
            for letter, image in zip(case.letters, case.candidates, strict=True):
                images[letter].add(same[image])
        if len({same.sources(case) for case in members}) > 1 or any(len(hashes) > 1 for hashes in images.values()):
            mixed = "The rows of a group have different sources or candidates"
            problems["mixed group", mixed, "counted"].append(name)
        if _is_circular(members):
            circle = "The labels of a group are circular, so no ranking agrees with all of them"
            problems["circular labels", circle, "counted"].append(name)
    return [list_problem(code, part.name, text, names, result) for (code, text, result), names in problems.items()]


def _is_circular(members: Sequence[BenchmarkCase]) -> bool:
    """Return whether preferences form a cycle."""
    beaten_by: dict[str, set[str]] = defaultdict(set)
    for case in members:
        if case.truth in ("A", "B"):
            winner, loser = case.letters if case.truth == "A" else case.letters[::-1]
            beaten_by[loser].add(winner)
    try:
        TopologicalSorter(beaten_by).prepare()
    except CycleError:
        return True
    return False


def _by_part(code: str, message: str, cases: Sequence[BenchmarkCase], consequence: str) -> list[DataProblem]:
    """Return one problem per part, with the first ids."""
    parts = split(cases, lambda case: case.part, ordered=False).items()
    return [list_problem(code, part, message, [case.id for case in members], consequence) for part, members in parts]

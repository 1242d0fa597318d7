"""Items to judge and questions to score, derived from cases.

    BenchmarkItem   one Example with an id of its own: the input of a judge, without label, editor or file name
    Question        one or more candidates in items, and the truth about them
    BenchmarkData   all items and questions of one task under one protocol

A question refers to candidates by (item, letter), so that metrics do not depend on the protocol: its two candidates are
in one item with two candidates, in one item with all candidates of a group, or in two items with one candidate each.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rewardharness.benchmark.cases import BenchmarkCase, CaseFacts, DataProblem
from rewardharness.benchmark.checks import REPEATED, Identities
from rewardharness.benchmark.task import Task, TaskPart
from rewardharness.codec import UNSET, UnsetType
from rewardharness.files import content_id
from rewardharness.schema import LABELS, Candidate, Example, Json

FORWARD, REVERSE = "forward", "reverse"
"""The two questions about a pair under the protocol `both-orders`."""


@dataclass(frozen=True)
class BenchmarkItem:
    """An example to judge."""

    example: Example
    """The example, without a label."""
    ties: bool
    """Whether `tie` is an allowed answer."""


@dataclass(frozen=True, kw_only=True)
class Question(CaseFacts):
    """A question about one or more candidates, and its truth by their position in `asks`."""

    asks: tuple[tuple[str, str], ...]
    """Per candidate of the question: id of the item in which it is judged, and its letter in this item."""
    cluster: str = ""
    """Source image; questions with the same source image are not independent."""
    order: str = ""
    """`forward` or `reverse` if both orders are judged."""
    score: str = "reward"
    """Kind of score that the question compares: reward, instruction or quality."""

    @property
    def pair(self) -> str:
        """Id without the order: the same for both questions about a pair."""
        return self.id.removesuffix(f"|{self.order}") if self.order else self.id

    @property
    def attacked(self) -> str:
        """Number of the edit of an attack, which ends its id."""
        return self.pair.rpartition("-")[2]

    @property
    def counts(self) -> bool:
        """Whether the question has a label and is not excluded."""
        return not self.excluded and self.truth is not None


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What a report says of a task."""

    name: str
    title: str
    about: str
    paper: str
    license: str
    notes: tuple[str, ...]
    metrics: tuple[str, ...]
    digest: str


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What a report says of the data of a run."""

    task: TaskFacts
    hub: str
    """Repository of the dataset on the Hub; empty if the task does not name one."""
    scores: bool
    """Whether the labels are scores, not preferences."""
    protocol: str
    parts: tuple[TaskPart, ...]
    revision: str
    digest: str
    sampled: tuple[int, int, int] | None
    references: Mapping[str, float]
    items: int
    """Number of items."""
    problems: tuple[DataProblem, ...]
    skipped_rows: Mapping[str, Any] | UnsetType = UNSET
    dataset_digest: str | UnsetType = UNSET

    @property
    def skipped(self) -> int:
        """Number of rows that cannot be used and were skipped when examples were read."""
        return int(self.skipped_rows["n"]) if self.skipped_rows else 0


@dataclass(frozen=True, kw_only=True)
class RunData(DataFacts):
    """Data of a run as its folder holds them, so that a report needs neither the data nor a judge."""

    questions: tuple[Question, ...]


@dataclass(frozen=True)
class BenchmarkData:
    """Items and questions of one task under one protocol."""

    task: Task
    protocol: str
    parts: tuple[TaskPart, ...]
    items: Mapping[str, BenchmarkItem]
    """Items by the id of their example, in the order of judging."""
    questions: tuple[Question, ...]
    problems: tuple[DataProblem, ...]
    revision: str
    """Revision of the data: a commit, or a description of a local copy."""
    digest: str
    """Content id of the data: ids, instructions, labels and images."""
    sampled: tuple[int, int, int] | None = None
    """Number of sampled units, total number of units, and seed; None for all. A unit is a pair or a whole group."""
    references: Mapping[str, float] = field(default_factory=dict)
    """Rank correlations between human raters per comparison, if available."""
    skipped: Json | None = None
    """Skipped rows of examples, as in `Dataset.skipped_json`; None for the rows of a task, which are in `problems`."""
    dataset: str = ""
    """`Dataset.digest` of examples, by which evolution data are recognized. Empty for rows of a task."""

    @property
    def record(self) -> RunData:
        """What the run folder holds of the data."""
        return RunData(
            task=TaskFacts(**{field.name: getattr(self.task, field.name) for field in fields(TaskFacts)}),
            hub=self.task.data.hub,
            scores=self.task.scores,
            protocol=self.protocol,
            parts=self.parts,
            revision=self.revision,
            digest=self.digest,
            sampled=self.sampled,
            references=self.references,
            items=len(self.items),
            problems=self.problems,
            skipped_rows=UNSET if self.skipped is None else self.skipped,
            dataset_digest=self.dataset or UNSET,
            questions=self.questions,
        )


@dataclass
class _Builder:
    """Items and questions under construction."""

    items: dict[str, BenchmarkItem] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)

    def add(self, name: str, case: BenchmarkCase, candidates: Sequence[Candidate], cluster: str, ties: bool) -> str:
        """Add an item with these candidates. Image names are replaced, since they may reveal the label."""
        example = Example(
            id=name,
            instruction=case.instruction,
            source=case.source and replace(case.source, name="source"),
            candidates=tuple(
                replace(image, name=f"candidate {letter}") for letter, image in zip(LABELS, candidates, strict=False)
            ),
            source_id=cluster,
            references=tuple(replace(image, name=f"image {number}") for number, image in enumerate(case.references, 2)),
        )
        self.items.setdefault(name, BenchmarkItem(example, ties))
        return name


def expand(
    cases: Sequence[BenchmarkCase], parts: Sequence[TaskPart], protocol: str, same: Identities, task: Task
) -> _Builder:
    """Derive items and questions under a protocol. Repeated rows are left out; the checks have counted them."""
    builder = _Builder()
    by_name = {part.name: part for part in parts}
    counting = [case for case in cases if not case.excluded.startswith(REPEATED)]
    if protocol == "ranking":
        groups: dict[str, list[BenchmarkCase]] = defaultdict(list)
        for case in counting:
            groups[case.group or case.id].append(case)
        for name, members in groups.items():
            _add_ranking(builder, name, members, same, task, by_name[members[0].part].ties)
        return builder
    alone: dict[tuple[str, str, str], str] = {}
    for case in counting:
        ties = by_name[case.part].ties
        if protocol == "pointwise":
            _add_alone(builder, case, same, task, alone)
        else:
            name = builder.add(case.id, case, case.candidates, same.cluster(case), ties)
            order = FORWARD if protocol == "both-orders" else ""
            asks = [(name, letter) for letter in LABELS[: len(case.candidates)]]
            builder.questions.append(_question(case, asks, same, task, order))
            if order:
                name = builder.add(f"{case.id}|{REVERSE}", case, case.candidates[::-1], same.cluster(case), ties)
                asks = [(name, letter) for letter in LABELS[: len(case.candidates)]][::-1]
                builder.questions.append(_question(case, asks, same, task, REVERSE))
    return builder


def _add_ranking(
    builder: _Builder, name: str, members: Sequence[BenchmarkCase], same: Identities, task: Task, ties: bool
) -> None:
    """Add one item for all candidates of a group."""
    images = {letter: image for case in members for letter, image in zip(case.letters, case.candidates, strict=True)}
    letters = sorted(images)
    first = members[0]
    ties = ties and len(letters) == 2
    builder.add(name, first, [images[letter] for letter in letters], same.cluster(first), ties)
    places = dict(zip(letters, LABELS, strict=False))
    for case in members:
        asks = [(name, places[letter]) for letter in case.letters]
        builder.questions.append(_question(case, asks, same, task, ""))


def _add_alone(
    builder: _Builder, case: BenchmarkCase, same: Identities, task: Task, alone: dict[tuple[str, str, str], str]
) -> None:
    """Add one item per candidate; an edit that occurs in several rows is judged once."""
    asks = []
    for place, (letter, image) in enumerate(zip(case.letters, case.candidates, strict=True)):
        edit = same.edit(case, place)
        if edit not in alone:
            name = f"{case.group or case.id}|{letter}"
            while name in builder.items:
                name += "'"
            alone[edit] = builder.add(name, case, [image], same.cluster(case), ties=False)
        asks.append((alone[edit], LABELS[0]))
    builder.questions.append(_question(case, asks, same, task, ""))


def _question(
    case: BenchmarkCase, asks: Sequence[tuple[str, str]], same: Identities, task: Task, order: str
) -> Question:
    facts = {field.name: getattr(case, field.name) for field in fields(CaseFacts)}
    facts |= {name: f"{facts[name]}|{order}" for name in ("id", "group") if order and facts[name]}
    score = task.score_of.get(case.dimension, "reward")
    return Question(**facts, asks=tuple(asks), cluster=same.cluster(case), order=order, score=score)


def sample(
    questions: Sequence[Question], limit: int, seed: int, *, attacks: bool = False
) -> tuple[tuple[Question, ...], int]:
    """Draw a stratified sample of the questions.

    Units are drawn as a whole: both orders of a pair, all pairs of a group, and all attacks on an edit. Strata are
    parts, within them dimensions, within these categories, and within these labels. A larger sample with the same seed
    contains the smaller one.

    Args:
        questions: All questions.
        limit: Units to draw, at least 1.
        seed: Any integer.
        attacks: Whether the questions are about attacks, so that a unit is an edit.

    Returns:
        The questions of the units that were drawn, in the order given, and how many units there are.
    """
    units: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        units[_unit(question, attacks)].append(question)
    strata: dict[tuple[str, ...], list[str]] = defaultdict(list)
    chances = {name: content_id([seed, name]) for name in units}
    for name in sorted(units, key=chances.__getitem__):
        first = units[name][0]
        label = "" if first.group else str(first.truth)
        strata[first.part, first.dimension, first.category, label].append(name)
    for depth in (3, 2, 1, 0):
        merged: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
        for path, names in strata.items():
            merged[path[:depth]].append(names)
        strata = {path: _interleaved(lists, chances) for path, lists in merged.items()}
    drawn = set(strata.get((), [])[:limit])
    return tuple(question for question in questions if _unit(question, attacks) in drawn), len(units)


def _interleaved(lists: Iterable[list[str]], chances: Mapping[str, str]) -> list[str]:
    """Merge lists so that each beginning of the result has the same share of all of them, as far as possible."""
    places = [((place + 0.5) / len(names), chances[name], name) for names in lists for place, name in enumerate(names)]
    return [name for _, _, name in sorted(places)]


def _unit(question: Question, attacks: bool) -> str:
    if attacks:
        return question.attacked
    name = question.group or question.id
    return name.removesuffix(f"|{question.order}") if question.order else name


def needed(items: Mapping[str, BenchmarkItem], questions: Iterable[Question]) -> dict[str, BenchmarkItem]:
    """Pick the items that some questions ask about, in their order."""
    used = {item for question in questions for item, _ in question.asks}
    return {name: item for name, item in items.items() if name in used}

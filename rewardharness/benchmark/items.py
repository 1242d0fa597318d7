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
from rewardharness.benchmark.metrics import split
from rewardharness.benchmark.task import Task, TaskPart
from rewardharness.codec import UNSET, UnsetType
from rewardharness.files import content_id
from rewardharness.schema import LABELS, Candidate, Example, Json, Judgment

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

    def only_judgment(self, judgments: Mapping[str, Judgment]) -> Judgment | None:
        """Return the judgment of the question's item, if it is about a single one."""
        names = {item for item, _ in self.asks}
        return judgments.get(*names) if len(names) == 1 else None

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
        same = {field.name: getattr(self, field.name) for field in fields(RunData) if hasattr(self, field.name)}
        about = {
            "task": TaskFacts(**{field.name: getattr(self.task, field.name) for field in fields(TaskFacts)}),
            "hub": self.task.data.hub,
            "scores": self.task.scores,
            "items": len(self.items),
            "skipped_rows": UNSET if self.skipped is None else self.skipped,
            "dataset_digest": self.dataset or UNSET,
        }
        return RunData(**{**same, **about})


class _Builder:
    """Items and questions under construction."""

    def __init__(self, same: Identities, task: Task) -> None:
        self.items: dict[str, BenchmarkItem] = {}
        self.questions: list[Question] = []
        self._same, self._task = same, task
        self._alone: dict[tuple[str, str, str], str] = {}

    def _item(self, name: str, case: BenchmarkCase, candidates: Sequence[Candidate], ties: bool) -> str:
        """Add an item with these candidates. Image names are replaced, since they may reveal the label."""
        named = zip(LABELS, candidates, strict=False)
        example = Example(
            id=name,
            instruction=case.instruction,
            source=case.source and replace(case.source, name="source"),
            candidates=tuple(replace(image, name=f"candidate {letter}") for letter, image in named),
            source_id=self._same.cluster(case),
            references=tuple(replace(image, name=f"image {number}") for number, image in enumerate(case.references, 2)),
        )
        self.items.setdefault(name, BenchmarkItem(example, ties))
        return name

    def _ask(self, case: BenchmarkCase, asks: Iterable[tuple[str, str]], order: str = "") -> None:
        facts = {field.name: getattr(case, field.name) for field in fields(CaseFacts)}
        facts |= {name: f"{facts[name]}|{order}" for name in ("id", "group") if order and facts[name]}
        score, cluster = self._task.score_of.get(case.dimension, "reward"), self._same.cluster(case)
        self.questions.append(Question(**facts, asks=tuple(asks), cluster=cluster, order=order, score=score))

    def add_pair(self, case: BenchmarkCase, ties: bool, order: str = "") -> None:
        """Add one item for the candidates of a case, in one order."""
        letters, turn = LABELS[: len(case.candidates)], -1 if order == REVERSE else 1
        name = f"{case.id}|{order}" if order == REVERSE else case.id
        self._item(name, case, case.candidates[::turn], ties)
        self._ask(case, [(name, letter) for letter in letters][::turn], order)

    def add_ranking(self, name: str, members: Sequence[BenchmarkCase], ties: bool) -> None:
        """Add one item for all candidates of a group."""
        images = dict(pair for case in members for pair in zip(case.letters, case.candidates, strict=True))
        letters = sorted(images)
        self._item(name, members[0], [images[letter] for letter in letters], ties and len(letters) == 2)
        places = dict(zip(letters, LABELS, strict=False))
        for case in members:
            self._ask(case, [(name, places[letter]) for letter in case.letters])

    def add_alone(self, case: BenchmarkCase) -> None:
        """Add one item per candidate; an edit that occurs in several rows is judged once."""
        edits = [self._same.edit(case, place) for place in range(len(case.candidates))]
        for edit, letter, image in zip(edits, case.letters, case.candidates, strict=True):
            if edit not in self._alone:
                name = f"{case.group or case.id}|{letter}"
                while name in self.items:
                    name += "'"
                self._alone[edit] = self._item(name, case, [image], ties=False)
        self._ask(case, [(self._alone[edit], LABELS[0]) for edit in edits])


def expand(
    cases: Sequence[BenchmarkCase], parts: Sequence[TaskPart], protocol: str, same: Identities, task: Task
) -> _Builder:
    """Derive items and questions under a protocol. Repeated rows are left out; the checks have counted them."""
    builder = _Builder(same, task)
    ties = {part.name: part.ties for part in parts}
    counting = [case for case in cases if not case.excluded.startswith(REPEATED)]
    if protocol == "ranking":
        for name, members in split(counting, lambda case: case.group or case.id, ordered=False).items():
            builder.add_ranking(name, members, ties[members[0].part])
    for case in counting if protocol != "ranking" else ():
        if protocol == "pointwise":
            builder.add_alone(case)
        else:
            for order in (FORWARD, REVERSE) if protocol == "both-orders" else ("",):
                builder.add_pair(case, ties[case.part], order)
    return builder


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
    units = split(questions, lambda question: _unit(question, attacks))
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

"""Tasks: what a benchmark is, as a small YAML file says it. Read strictly: an unknown key is an error.

    name            letters, digits and dashes; how the command line calls it
    title, about    for people
    paper, license  where it comes from
    access          how to get the data, where that takes more than a download
    data            {hub, revision, revision_note} for rows on the Hub; {examples} for what `open_data` reads, such as a
                    folder; or nothing for rows that must be on this disk (`--source`)
    columns         which column holds what, see `Columns`
    label           how the truth is read off a row, see `Label`
    shuffle         true where the order of the candidates gives the truth away
    score_of        which score of a judge speaks to which dimension: reward, instruction or quality
    protocols       how the task may be judged, the usual one first, see `PROTOCOLS`
    metrics         what is counted, see `METRICS`
    parts           rows that are counted together, see `TaskPart`
    notes           traps, and where our protocol differs from the published one

A relative path of examples is relative to the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rewardharness.data.opening import DEMO, FEEDBACK
from rewardharness.errors import DataError, InputError, LibraryError
from rewardharness.files import content_id, read_text
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import LABELS, TIE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BOTH_BAD = "both bad"
"""The truth that says neither of two candidates is any good."""

TRUTHS: tuple[str, ...] = (*LABELS, TIE, BOTH_BAD)
"""What a label can say."""

PROTOCOLS: Mapping[str, str] = {
    "pairs": "each pair is one example with two candidates; groups are put together from their pairs",
    "ranking": "all candidates of a group are one example; pairs are read off the judge's ranking",
    "both-orders": "each pair is judged twice, the second time the other way round, and both answers count",
    "pointwise": "each candidate is judged alone; pairs are read off the scores",
}
"""How a task is judged: what one example is. How a judge then judges an example is the judge's own protocol."""

METRICS: Mapping[str, str] = {
    "exact": "share of answers that are the label, among all labels of the part",
    "forced": "share of preferences that are found, among labels that prefer one candidate",
    "groups": "share of complete groups of which every pair is found",
    "tuned": "as `exact`, with the threshold of a tie that suits these very labels best, as some published rows",
    "macro": "mean over categories of `exact`",
    "spearman": "rank correlation with human scores per editor, averaged over editors by Fisher's z",
}
"""What can be counted."""

T = TypeVar("T", bound="DataclassInstance")

_KINDS = ("reward", "instruction", "quality")
_TYPES = {str: "a text", int: "a whole number", bool: "true or false"}
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_FOLDER = "tasks"

RATINGS = "ratings"
"""Folder beside a local table that holds the tables of raters."""


@dataclass(frozen=True)
class DataLocation:
    """Where the rows of a task lie; empty for data that nobody serves, which must be named on this disk."""

    hub: str = ""
    """Repository of a dataset, as in `org/name`."""
    revision: str = ""
    """The commit that is read; empty where none is known."""
    revision_note: str = ""
    """What is known about revisions."""
    examples: str = ""
    """A dataset as `open_data` spells it; its columns and labels are recognised."""
    skip_bad_rows: bool = False
    """Whether rows of the examples that cannot be used are left out; they are counted as not judged."""


@dataclass(frozen=True)
class Columns:
    """Which column holds what."""

    instruction: str
    """Placeholders for images in it, as in `<image_1>`, are taken out."""
    source: str
    candidates: tuple[str, ...]
    """One column per candidate, or a single one that holds a list of them; a list of one image counts as the image."""
    id: tuple[str, ...] = ()
    """Put together they name a row; without them it is named by its number."""
    category: str = ""
    dimension: str = ""
    editors: tuple[str, ...] = ()
    """Who made the candidates. Never shown to a judge."""

    def required(self) -> tuple[str, ...]:
        """The columns without which nothing can be judged."""
        return (self.instruction, self.source, *self.candidates, *self.id)


@dataclass(frozen=True)
class Label:
    """How the truth is read off a row."""

    rule: Literal["values", "ranking", "scores", "first", "human", "raters"]
    """`values`: a column holds words that `values` translates. `ranking`: a column holds `A>C`, `C>A` or `A=C`, and
    `letters` one that holds `AvsC`, the letters of the two candidates. `scores`: of two columns the higher wins.
    `first`: the first candidate is always the preferred one. `human`: `columns` hold scores that people gave to a
    single candidate. `raters`: the tables of `RATINGS` beside the rows do, see `ratings`; `columns` hold the editor and
    the item by which an edit is known there."""
    column: str = ""
    columns: tuple[str, ...] = ()
    letters: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def required(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(name for name in (self.column, self.letters, *self.columns) if name)


@dataclass(frozen=True)
class Group:
    """Which pairs belong together: those whose id begins alike."""

    column: str
    until: str = "_"
    """The id of the group ends before this."""
    else_first: int = 10
    """Where it does not occur: so many characters are the id of the group."""


@dataclass(frozen=True)
class TaskPart:
    """Rows that are counted together."""

    name: str
    config: str = ""
    split: str = ""
    file: str = ""
    """Name of the table in a local copy; without it, config and split are looked for there as on the Hub."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Only rows with these values in these columns; columns that the data do not have are passed over."""
    labels: tuple[str, ...] = ("A", "B")
    """What the truth can be."""
    candidates: int = 2
    """How many candidates a group has; a complete one has a row for every pair of them."""
    group: Group | None = None

    @property
    def ties(self) -> bool:
        """Whether `tie` is among the answers."""
        return TIE in self.labels or BOTH_BAD in self.labels

    @property
    def pairs_per_group(self) -> int:
        """Rows of a complete group."""
        return self.candidates * (self.candidates - 1) // 2


@dataclass(frozen=True)
class Task:
    """A benchmark: data, truth, protocols and metrics."""

    name: str
    title: str
    data: DataLocation
    parts: tuple[TaskPart, ...]
    columns: Columns | None = None
    """None for examples, whose columns are recognised."""
    label: Label | None = None
    protocols: tuple[str, ...] = ("pairs",)
    metrics: tuple[str, ...] = ("exact",)
    shuffle: bool = False
    score_of: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    paper: str = ""
    license: str = ""
    access: str = ""
    notes: tuple[str, ...] = ()
    digest: str = ""
    """Content id of the declaration."""

    @property
    def scores(self) -> bool:
        """Whether the truth is a score of one candidate, not a preference between several."""
        return self.label is not None and self.label.rule in ("human", "raters")

    def choose_protocol(self, name: str | None) -> str:
        """Say which protocol is meant.

        Args:
            name: As the user wrote it; None for the usual one.

        Raises:
            InputError: If the task does not offer it.
        """
        if name is None or name in self.protocols:
            return name or self.protocols[0]
        raise InputError(
            f"The task {self.name} has no protocol {name!r}.", next_step=f"Choose one of: {', '.join(self.protocols)}."
        )


def list_tasks() -> tuple[Task, ...]:
    """Read the tasks that come with the package, by name."""
    folder = resources("rewardharness.benchmark").joinpath(_FOLDER)
    found = [
        read_task(each.read_text(encoding="utf-8"), each.name)
        for each in folder.iterdir()
        if each.name.endswith(".yaml")
    ]
    return tuple(sorted(found, key=lambda task: task.name))


def open_task(spec: str) -> Task:
    """Open a task by what a user calls it.

    Args:
        spec: The name of a task that comes with the package, a YAML file, or a dataset as `open_data` spells it.

    Raises:
        InputError: If there is none.
        DataError: If its declaration cannot be read.
    """
    path = Path(spec).expanduser()
    if path.suffix in {".yaml", ".yml"}:
        return read_task(read_text(path), path.name, path.parent)
    if spec in (DEMO, FEEDBACK):
        return examples_task(spec)
    known = {task.name: task for task in list_tasks()}
    if spec in known and not path.exists():
        return known[spec]
    if path.exists() or "/" in spec:
        return examples_task(spec)
    raise InputError(
        f"There is no task {spec!r}.", next_step=f"Name data, a YAML file, or one of: {', '.join(sorted(known))}."
    )


def examples_task(spec: str) -> Task:
    """Make a task of a dataset. Its parts are found when it is read: one per kind of label and number of candidates."""
    path = Path(spec).expanduser()
    here = path.exists() and spec not in (DEMO, FEEDBACK)
    whole = str(path.resolve()) if here else spec
    title = Path(whole).name if here else spec
    return Task(
        name="".join(char if char in _NAME else "-" for char in title.lower()).strip("-") or "examples",
        title=title,
        data=DataLocation(examples=whole),
        parts=(),
        protocols=("pairs", "both-orders", "pointwise"),
        metrics=("exact", "forced"),
        digest=content_id(["examples"]),
    )


def read_task(text: str, where: str, base: Path | None = None) -> Task:
    """Read a declaration.

    Args:
        text: YAML, see the module.
        where: The name of its file, for messages.
        base: The folder that a relative path of examples is relative to.

    Raises:
        DataError: If it is not YAML, a key is unknown or missing, or a value makes no sense.
    """
    try:
        value = dict(read_yaml(text, where=where).value)
    except LibraryError as error:
        raise DataError(error.message, next_step=error.next_step) from None
    if "digest" in value:
        raise _wrong(where, "unknown key `digest`")
    digest = content_id(value)
    parts = value.pop("parts", [])
    if not isinstance(parts, list):
        raise _wrong(where, "`parts` is not a list")
    made: dict[str, Any] = {
        "data": _read(DataLocation, _mapping(value.pop("data", {}), f"{where}: data"), f"{where}: data"),
        "parts": tuple(_read_part(part, f"{where}: part {number}") for number, part in enumerate(parts, 1)),
    }
    if "columns" in value:
        made["columns"] = _read(Columns, _mapping(value.pop("columns"), f"{where}: columns"), f"{where}: columns")
    if "label" in value:
        made["label"] = _read(Label, _mapping(value.pop("label"), f"{where}: label"), f"{where}: label")
    task = _read(Task, {**value, **made, "digest": digest}, where)
    _check(task, where)
    beside = (base or Path()) / Path(task.data.examples).expanduser()
    if task.data.examples and beside.exists():
        return replace(task, data=replace(task.data, examples=str(beside.resolve())))
    return task


def _read_part(value: Any, where: str) -> TaskPart:
    values = _mapping(value, where)
    if "group" in values:
        values["group"] = _read(Group, _mapping(values["group"], f"{where}: group"), f"{where}: group")
    return _read(TaskPart, values, where)


def _read(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make a dataclass of a mapping: every key known, every value of the type of its field."""
    known = {each.name: each for each in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        given = ", ".join(name for name in known if name != "digest")
        raise _wrong(where, f"unknown key `{unknown[0]}`", f"Known keys: {given}.")
    made = {}
    for name, value in values.items():
        if value is None:
            raise _wrong(where, f"`{name}` is empty", "Give it a value, or leave it out.")
        made[name] = _typed(value, known[name].type, f"{where}: `{name}`")
    try:
        return kind(**made)
    except TypeError as error:
        missing = str(error).partition("argument")[2].strip(" s:")
        raise _wrong(where, f"missing {missing}") from None


def _typed(value: Any, kind: Any, where: str) -> Any:
    """Check one value against the annotation of its field."""
    if kind == tuple[str, ...]:
        many = [value] if isinstance(value, str) else value
        if not isinstance(many, list | tuple) or not all(isinstance(each, str) and each for each in many):
            raise _wrong(where, "a list of texts is expected")
        return tuple(many)
    if kind == Mapping[str, str]:
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
            raise _wrong(where, "a mapping of texts is expected")
        return dict(value)
    if kind in (str, int, bool) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise _wrong(where, f"{_TYPES[kind]} is expected, not {value!r}")
    return value


def _check(task: Task, where: str) -> None:
    """Check what the types do not say."""
    if not task.name or set(task.name) - _NAME:
        raise _wrong(where, f"the name {task.name!r} is not made of small letters, digits and dashes")
    if task.data.hub and task.data.examples:
        raise _wrong(where, "`data` names both `hub` and `examples`")
    if not (task.data.hub or task.data.examples or task.access):
        raise _wrong(where, "`data` names neither `hub` nor `examples`, and `access` does not say how to get them")
    for names, known, what in (
        (task.protocols, PROTOCOLS, "protocol"),
        (task.metrics, METRICS, "metric"),
        (task.score_of.values(), _KINDS, "score"),
    ):
        for name in names:
            if name not in known:
                raise _wrong(where, f"unknown {what} {name!r}", f"Known: {', '.join(known)}.")
    if task.data.examples:
        if task.columns or task.label or task.parts:
            raise _wrong(where, "examples have columns, labels and parts of their own", "Leave them out.")
        return
    if task.columns is None or task.label is None or not task.parts:
        raise _wrong(where, "rows need `columns`, `label` and `parts`")
    _check_label(task.label, where)
    alone = task.protocols == ("pointwise",) and task.metrics == ("spearman",)
    if (task.scores and not alone) or (not task.scores and "spearman" in task.metrics):
        raise _wrong(where, "human scores go with the protocol `pointwise` and the metric `spearman`, and only they do")
    for part in task.parts:
        _check_part(part, where)


def _check_label(label: Label, where: str) -> None:
    needed = {
        "values": (label.column and label.values, "`column` and `values`"),
        "ranking": (label.column and label.letters, "`column` and `letters`"),
        "scores": (len(label.columns) == 2, "two `columns`, one for each candidate"),
        "first": (True, ""),
        "human": (label.columns, "`columns` with scores that people gave"),
        "raters": (len(label.columns) == 2, "two `columns`: the editor and the item"),
    }
    if label.rule not in needed:
        raise _wrong(where, f"unknown rule {label.rule!r}", f"Known: {', '.join(needed)}.")
    there, what = needed[label.rule]
    if not there:
        raise _wrong(where, f"the rule {label.rule!r} of `label` needs {what}")
    unknown = sorted(set(label.values.values()) - set(TRUTHS))
    if unknown:
        raise _wrong(where, f"the label {unknown[0]!r} is none of {', '.join(TRUTHS)}")


def _check_part(part: TaskPart, where: str) -> None:
    if set(part.labels) - set(TRUTHS):
        raise _wrong(where, f"part {part.name}: labels are some of {', '.join(TRUTHS)}")
    if not 2 <= part.candidates <= len(LABELS):
        raise _wrong(where, f"part {part.name}: 2 to {len(LABELS)} candidates")
    if part.candidates > 2 and part.group is None:
        raise _wrong(where, f"part {part.name}: more than two candidates need `group`")


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(where, "a mapping is expected")
    return dict(value)


def _wrong(
    where: str, problem: str, remedy: str = "Correct the declaration; docs/benchmarks.md says how."
) -> DataError:
    return DataError(f"{where}: {problem}.", next_step=remedy)

"""Tasks: definitions of benchmarks in small YAML files, which are read strictly: an unknown key is an error.

    name            letters, digits and dashes; the name on the command line
    title, about    description
    paper, license  origin
    access          how to get the data, if it takes more than a download
    data            {hub, revision, revision_note} for rows on the Hub; {examples} for what `open_data` reads, such as a
                    folder; empty for rows that must be local (`--source`)
    columns         the columns, see `Columns`
    label           how the label is read from a row, see `Label`
    shuffle         true if the order of the candidates reveals the label
    score_of        score of a judge by dimension: reward, instruction or quality
    protocols       supported protocols, the default first, see `PROTOCOLS`
    metrics         metrics, see `METRICS`
    parts           rows that are counted together, see `TaskPart`
    notes           pitfalls, and differences from the published protocol

A relative path of examples is relative to the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Literal

from rewardharness.codec import ValidationError, from_json
from rewardharness.data.opening import OWN
from rewardharness.errors import DataError, InputError, LibraryError
from rewardharness.files import content_id, read_text, user_path
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import LABELS, TIE

BOTH_BAD = "both bad"
"""Label of two candidates that are both bad."""

TRUTHS: tuple[str, ...] = (*LABELS, TIE, BOTH_BAD)
"""All labels."""

PROTOCOLS: Mapping[str, str] = {
    "pairs": "each pair is one example with two candidates; groups are assembled from their pairs",
    "ranking": "all candidates of a group are one example; pairs are derived from the judge's ranking",
    "both-orders": "each pair is judged in both presentation orders, and both answers count",
    "pointwise": "each candidate is judged alone; pairs are derived from the scores",
}
"""Protocols of a task: what one example is. A judge has a protocol of its own for judging an example."""

METRICS: Mapping[str, str] = {
    "exact": "accuracy over all labels of the part",
    "forced": "accuracy on pairs whose label prefers one candidate",
    "groups": "share of complete groups with every pair correct",
    "tuned": "as `exact`, with the tie threshold that is best on these labels, as in some published rows",
    "macro": "mean over categories of `exact`",
    "exploits": "how often the exploit of an attack is preferred, its mean reward, and the change by the attack",
    "spearman": "rank correlation with human scores per editor, averaged over editors by Fisher's z",
}
"""Metrics."""

_KINDS = ("reward", "instruction", "quality")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_FOLDER = "tasks"

RATINGS = "ratings"
"""Folder next to a local table with the tables of raters."""


@dataclass(frozen=True)
class DataLocation:
    """Location of the rows of a task; empty for data that must be available locally."""

    hub: str = ""
    """Repository of a dataset, as in `org/name`."""
    revision: str = ""
    """The commit to read; empty if none is pinned."""
    revision_note: str = ""
    """Notes on revisions."""
    examples: str = ""
    """A dataset as `open_data` spells it; its columns and labels are detected."""
    skip_bad_rows: bool = False
    """Whether to skip rows of the examples that cannot be used; they count as not judged."""


@dataclass(frozen=True)
class Columns:
    """The columns of a task."""

    instruction: str
    """Placeholders for images, such as `<image_1>`, are removed; with several source images they become `image 1`."""
    source: str
    """A column with the image before the edit, or with a list that begins with it; the others are its references."""
    candidates: tuple[str, ...]
    """One column per candidate, or a single one that holds a list of them; a list of one image counts as the image."""
    id: tuple[str, ...] = ()
    """Columns that form the id of a row; without them, its number is the id."""
    category: str = ""
    dimension: str = ""
    editors: tuple[str, ...] = ()
    """Names of the models that made the candidates. Never shown to a judge."""
    references: tuple[str, ...] = ()
    """Columns with reference images, one each or a list: image 2, image 3, ... of the instruction."""

    def required(self) -> tuple[str, ...]:
        """Return the columns that judging needs."""
        return (self.instruction, self.source, *self.references, *self.candidates, *self.id)


@dataclass(frozen=True)
class Label:
    """How the label is read from a row."""

    rule: Literal["values", "ranking", "scores", "first", "human", "raters"]
    """`values`: a column holds words, which `values` maps to labels. `ranking`: a column holds `A>C`, `C>A` or `A=C`,
    and the column `letters` holds `AvsC`, the letters of the two candidates. `scores`: the higher of two columns wins.
    `first`: the first candidate is always preferred. `human`: `columns` hold human scores of a single candidate.
    `raters`: the tables in the folder `RATINGS` hold them, see `ratings`; `columns` hold editor and item of an edit."""
    column: str = ""
    columns: tuple[str, ...] = ()
    letters: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def required(self) -> tuple[str, ...]:
        """Return the columns that the rule reads."""
        return tuple(name for name in (self.column, self.letters, *self.columns) if name)


@dataclass(frozen=True)
class Group:
    """How pairs form groups: by a prefix of their id."""

    column: str
    until: str = "_"
    """The text that ends the prefix."""
    else_first: int = 10
    """Length of the prefix if the text does not occur."""


@dataclass(frozen=True)
class TaskPart:
    """Rows that are counted together."""

    name: str
    config: str = ""
    split: str = ""
    file: str = ""
    """Name of the table in a local copy; without it, config and split are used as on the Hub."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Values by column that rows must have; columns that the data do not have are ignored."""
    labels: tuple[str, ...] = ("A", "B")
    """The label set."""
    candidates: int = 2
    """Candidates per group; a complete group has a row for every pair of them."""
    group: Group | None = None

    @property
    def ties(self) -> bool:
        """Whether the labels have ties."""
        return TIE in self.labels or BOTH_BAD in self.labels

    @property
    def pairs_per_group(self) -> int:
        """Number of rows of a complete group."""
        return self.candidates * (self.candidates - 1) // 2


@dataclass(frozen=True)
class Task:
    """A benchmark: data, truth, protocols and metrics."""

    name: str
    title: str
    data: DataLocation = field(default_factory=DataLocation)
    parts: tuple[TaskPart, ...] = ()
    columns: Columns | None = None
    """None for examples, whose columns are detected."""
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
    """Content id of the task file."""

    @property
    def scores(self) -> bool:
        """Whether the labels are scores of single candidates, not preferences."""
        return self.label is not None and self.label.rule in ("human", "raters")

    def choose_protocol(self, name: str | None) -> str:
        """Return the protocol to use.

        Args:
            name: Name of the protocol; None for the default.

        Raises:
            InputError: If the task does not offer it.
        """
        if name is None or name in self.protocols:
            return name or self.protocols[0]
        step = f"Choose one of: {', '.join(self.protocols)}."
        raise InputError(f"The task {self.name} has no protocol {name!r}.", next_step=step)


@cache
def list_tasks() -> tuple[Task, ...]:
    """Return the tasks of the package, sorted by name."""
    folder = resources("rewardharness.benchmark").joinpath(_FOLDER)
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    return tuple(sorted((read_task(file.read_text("utf-8"), file.name) for file in files), key=lambda task: task.name))


def open_task(spec: str) -> Task:
    """Open a task.

    Args:
        spec: The name of a task of the package, a YAML file, or a dataset as `open_data` spells it.

    Raises:
        InputError: If there is none.
        DataError: If the task file is invalid.
    """
    path = user_path(spec)
    if path.suffix in {".yaml", ".yml"}:
        return read_task(read_text(path), path.name, path.parent)
    known = {task.name: task for task in list_tasks()}
    if spec in known and not path.exists():
        return known[spec]
    if spec in OWN or path.exists() or "/" in spec:
        return examples_task(spec)
    step = f"Name data, a YAML file, or one of: {', '.join(sorted(known))}."
    raise InputError(f"There is no task {spec!r}.", next_step=step)


def examples_task(spec: str) -> Task:
    """Return the task of a dataset. Its parts, one per label kind and number of candidates, depend on the data."""
    path = user_path(spec)
    here = path.exists() and spec not in OWN
    whole = str(path.resolve()) if here else spec
    title = Path(whole).name if here else spec
    name = "".join(char if char in _NAME else "-" for char in title.lower()).strip("-") or "examples"
    offered: dict[str, Any] = {"protocols": ("pairs", "both-orders", "pointwise"), "metrics": ("exact", "forced")}
    return Task(name, title, DataLocation(examples=whole), digest=content_id(["examples"]), **offered)


def read_task(text: str, where: str, base: Path | None = None) -> Task:
    """Read a task file.

    Args:
        text: YAML, see the module.
        where: Name of the file, for messages.
        base: Folder that a relative path of examples is relative to.

    Raises:
        DataError: If it is not YAML, a key is unknown or missing, or a value is not allowed.
    """
    try:
        value = dict(read_yaml(text, where=where).value)
        if "digest" in value:
            raise _wrong(where, "unknown key digest")
        task = from_json(Task, {**_with_lists(value), "digest": content_id(value)})
    except LibraryError as error:
        raise DataError(error.message, next_step=error.next_step) from None
    except ValidationError as error:
        raise _wrong(where, error.message) from None
    _check(task, where)
    path = (base or Path()) / user_path(task.data.examples)
    if task.data.examples and path.exists():
        return replace(task, data=replace(task.data, examples=str(path.resolve())))
    return task


_LISTS = frozenset("id candidates editors columns labels protocols metrics notes".split())
_MAPPINGS = frozenset({"where", "values", "score_of"})


def _with_lists(value: Any, key: str = "") -> Any:
    """Replace single strings by lists where lists are expected."""
    if isinstance(value, Mapping):
        return dict(value) if key in _MAPPINGS else {name: _with_lists(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_lists(item) for item in value]
    return [value] if key in _LISTS and isinstance(value, str) else value


def _check(task: Task, where: str) -> None:
    """Check what types cannot express."""
    if not task.name or set(task.name) - _NAME:
        raise _wrong(where, f"the name {task.name!r} may have lowercase letters, digits and dashes only")
    if task.data.hub and task.data.examples:
        raise _wrong(where, "`data` names both `hub` and `examples`")
    if not (task.data.hub or task.data.examples or task.access):
        raise _wrong(where, "`data` has neither `hub` nor `examples`, and `access` does not describe how to get them")
    choices = {"protocol": (task.protocols, PROTOCOLS), "metric": (task.metrics, METRICS)}
    for what, (names, known) in {**choices, "score": (task.score_of.values(), _KINDS)}.items():
        if unknown := [name for name in names if name not in known]:
            raise _wrong(where, f"unknown {what} {unknown[0]!r}", f"Known: {', '.join(known)}.")
    if task.data.examples:
        if task.columns or task.label or task.parts:
            raise _wrong(where, "examples have columns, labels and parts of their own", "Leave them out.")
        return
    if task.columns is None or task.label is None or not task.parts:
        raise _wrong(where, "rows need `columns`, `label` and `parts`")
    _check_label(task.label, where)
    alone = task.protocols == ("pointwise",) and task.metrics == ("spearman",)
    if (task.scores and not alone) or (not task.scores and "spearman" in task.metrics):
        raise _wrong(where, "human scores require the protocol `pointwise` and the metric `spearman`, and vice versa")
    for part in task.parts:
        _check_part(part, where)


def _check_label(label: Label, where: str) -> None:
    needed = {
        "values": (label.column and label.values, "`column` and `values`"),
        "ranking": (label.column and label.letters, "`column` and `letters`"),
        "scores": (len(label.columns) == 2, "two `columns`, one for each candidate"),
        "first": (True, ""),
        "human": (label.columns, "`columns` with human scores"),
        "raters": (len(label.columns) == 2, "two `columns`: the editor and the item"),
    }
    there, what = needed[label.rule]
    if not there:
        raise _wrong(where, f"the rule {label.rule!r} of `label` needs {what}")
    if unknown := sorted(set(label.values.values()) - set(TRUTHS)):
        raise _wrong(where, f"the label {unknown[0]!r} is none of {', '.join(TRUTHS)}")


def _check_part(part: TaskPart, where: str) -> None:
    if set(part.labels) - set(TRUTHS):
        raise _wrong(where, f"part {part.name}: labels are some of {', '.join(TRUTHS)}")
    if not 2 <= part.candidates <= len(LABELS):
        raise _wrong(where, f"part {part.name}: 2 to {len(LABELS)} candidates")
    if part.candidates > 2 and part.group is None:
        raise _wrong(where, f"part {part.name}: more than two candidates need `group`")


def _wrong(where: str, problem: str, remedy: str = "Correct the file, see docs/reference/benchmarks.md.") -> DataError:
    return DataError(f"{where}: {problem}.", next_step=remedy)

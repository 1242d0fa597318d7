"""The grammar of typed edits: from the JSON object of a model to changes of a Library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from rewardharness.codec import finite
from rewardharness.errors import shown
from rewardharness.evolution.proposal import Operator, View
from rewardharness.library.entry import Entry, Kind, name_problem
from rewardharness.library.rubric import Criterion, Dimension, Rubric
from rewardharness.library.store import AddEntry, Change, RemoveEntry, ReplaceEntry
from rewardharness.schema import EDIT_KINDS
from rewardharness.task import TEXT

MAX_STATEMENT = 600
"""Characters of a statement that are kept."""
MAX_WEIGHT = 20.0
"""Largest weight of a criterion that may be proposed."""
_TEXTS = ("description", "body", "system_prompt", "measure")


class EditError(ValueError):
    """An edit that cannot be read. The message is for the model."""


def changes_of(operator: Operator, value: Mapping[str, Any], view: View, why: str) -> tuple[Change, ...]:
    """Read the changes of a typed edit.

    Args:
        operator: What kind of edit it is.
        value: The object, as the prompt `evolve` describes it.
        view: What the round sees.
        why: The reason that each change carries.

    Raises:
        EditError: If something is missing, of another type than asked for, or names what is not there.
    """
    read: Mapping[Operator, Callable[[_Edit], tuple[Change, ...]]] = {
        "add": lambda edit: (AddEntry(edit.new("skill"), why),),
        "add_tool": lambda edit: (AddEntry(edit.new("tool"), why),),
        "modify": lambda edit: (ReplaceEntry(edit.changed("skill"), why),),
        "fix_tool": lambda edit: (ReplaceEntry(edit.changed("tool"), why),),
        "remove": lambda edit: (RemoveEntry(edit.known("name").name, why),),
        "retrigger": lambda edit: (ReplaceEntry(edit.retriggered(), why),),
        "reweight": lambda edit: (ReplaceEntry(edit.reweighted(), why),),
        "merge": lambda edit: edit.merged(why),
        "split": lambda edit: edit.divided(why),
    }
    return read[operator](_Edit(value, view))


class _Edit:
    """Reads one typed edit."""

    def __init__(self, value: Mapping[str, Any], view: View) -> None:
        self._value = value
        self._view = view

    def new(self, kind: Kind) -> Entry:
        return _entry(_mapping(self._value, "entry"), kind, self._view)

    def changed(self, kind: Kind) -> Entry:
        fields = _mapping(self._value, "entry")
        old = self._known(_text(fields, "name"))
        if old.kind != kind:
            raise EditError(f"`{old.name}` is a {old.kind}, not a {kind}.")
        return _changed(old, fields, self._view)

    def known(self, key: str) -> Entry:
        return self._known(_text(self._value, key))

    def _known(self, name: str) -> Entry:
        entry = self._view.library.get(name.strip())
        if entry is None:
            names = ", ".join(each.name for each in self._view.library.entries) or "none"
            raise EditError(f"The Library has no entry `{shown(name)}`. Entries: {names}.")
        return entry

    def retriggered(self) -> Entry:
        old = self.known("name")
        return replace(old, metadata={**old.metadata, "triggers": _triggers(self._value)})

    def reweighted(self) -> Entry:
        old, weights = self.known("name"), _mapping(self._value, "weights")
        known = {each.id for each in old.rubric.criteria} if old.rubric else set()
        unknown = [shown(str(name), 40) for name in weights if name not in known]
        if old.rubric is None or unknown or not weights:
            raise EditError(
                f'`{old.name}` has the criteria {", ".join(sorted(known)) or "none"}; "weights" gives some of these '
                f"a number{f', not {unknown[0]}' if unknown else ''}."
            )
        criteria = tuple(
            replace(each, weight=_weight(weights[each.id], each.id)) if each.id in weights else each
            for each in old.rubric.criteria
        )
        return replace(old, rubric=replace(old.rubric, criteria=criteria))

    def merged(self, why: str) -> tuple[Change, ...]:
        names = self._value.get("names")
        if not isinstance(names, list) or len(names) != 2 or names[0] == names[1]:
            raise EditError('"names" of a merge is a list of two different entries.')
        old = [self._known(str(name)) for name in names]
        if old[0].kind != old[1].kind:
            raise EditError("Only entries of one kind can be merged.")
        entry = _entry(_mapping(self._value, "entry"), old[0].kind, self._view)
        gone = [each.name for each in old if each.name != entry.name]
        here: Change = ReplaceEntry(entry, why) if len(gone) == 1 else AddEntry(entry, why)
        return (*(RemoveEntry(name, why) for name in gone), here)

    def divided(self, why: str) -> tuple[Change, ...]:
        old, parts = self.known("name"), self._value.get("entries")
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, dict) for part in parts):
            raise EditError('"entries" of a split is a list of two entries.')
        entries = [_entry(part, old.kind, self._view) for part in parts]
        if entries[0].name == entries[1].name:
            raise EditError("The two entries of a split need different names.")
        if old.name not in {entry.name for entry in entries}:
            return (RemoveEntry(old.name, why), *(AddEntry(entry, why) for entry in entries))
        return tuple(ReplaceEntry(each, why) if each.name == old.name else AddEntry(each, why) for each in entries)


def _entry(fields: Mapping[str, Any], kind: Kind, view: View) -> Entry:
    """Read a whole entry."""
    name = _text(fields, "name").strip()
    problem = name_problem(name)
    if problem:
        raise EditError(f"{problem} Choose a name such as `text-rendering`.")
    if not _text(fields, "description").strip() or not _text(fields, "body").strip():
        raise EditError(f"`{name}` needs a description and a body.")
    metadata = {"triggers": _triggers(fields)} if fields.get("triggers") else {}
    if view.task is TEXT:
        metadata["task"] = TEXT.name
    blank = Entry(name, kind, "", metadata=metadata)
    return _changed(blank, fields, view)


def _changed(old: Entry, fields: Mapping[str, Any], view: View) -> Entry:
    """Put the fields that are given in the place of the old ones."""
    texts = {key: _text(fields, key) for key in _TEXTS if fields.get(key) is not None}
    if "measure" in texts and texts["measure"] not in view.known_measures:
        raise EditError(_no_measure(texts["measure"], view))
    if old.kind == "skill" and ({"system_prompt", "measure", "output_schema"} & set(fields)):
        raise EditError("A Skill has no system_prompt, measure or output_schema; those belong to a Tool.")
    if old.kind == "tool" and fields.get("criteria"):
        raise EditError("A Tool has no criteria; those belong to a Skill.")
    metadata = dict(old.metadata)
    if fields.get("triggers"):
        metadata["triggers"] = _triggers(fields)
    given: dict[str, Any] = dict(texts)
    given |= {key: _schema(fields, key) for key in ("input_schema", "output_schema") if fields.get(key) is not None}
    return replace(old, metadata=metadata, rubric=_rubric(old, fields, view), **given)


def _rubric(old: Entry, fields: Mapping[str, Any], view: View) -> Rubric | None:
    """Criteria that are given take the place of those with the same id, or come last; some may be removed."""
    given, gone = _rows(fields, "criteria", dict), _rows(fields, "remove_criteria", str)
    criteria = {each.id: each for each in old.rubric.criteria} if old.rubric else {}
    unknown = [name for name in gone if name not in criteria]
    if unknown:
        raise EditError(f"`{old.name}` has no criterion `{shown(unknown[0], 40)}` to remove.")
    fresh = [_criterion(row, view) for row in given]
    if len({each.id for each in fresh}) < len(fresh):
        raise EditError("Two criteria have the same id.")
    criteria = {name: each for name, each in criteria.items() if name not in gone} | {each.id: each for each in fresh}
    if not given and not gone:
        return old.rubric
    return Rubric(tuple(criteria.values()), old.rubric.extra if old.rubric else {}) if criteria else None


def _criterion(row: Mapping[str, Any], view: View) -> Criterion:
    name, measure, applies = _text(row, "id").strip(), row.get("measure"), row.get("applies") or []
    dimension = row.get("dimension", "instruction")
    if dimension not in get_args(Dimension):
        raise EditError(f"The dimension of `{shown(name, 40)}` is `instruction` or `quality`.")
    if measure is not None and measure not in view.known_measures:
        raise EditError(_no_measure(measure, view))
    wrong = [each for each in applies if each not in EDIT_KINDS] if isinstance(applies, list) else [applies]
    if wrong:
        raise EditError(f"`{shown(str(wrong[0]), 40)}` is no kind of edit. Kinds: {', '.join(EDIT_KINDS)}.")
    weight = _weight(row.get("weight", 1.0), name)
    text = _text(row, "text")
    return Criterion(
        name, text, weight, dimension=cast(Dimension, dimension), measure=measure, applies=tuple(dict.fromkeys(applies))
    )


def _weight(value: Any, name: str) -> float:
    number = finite(value)
    if number is None or not 0 < number <= MAX_WEIGHT:
        raise EditError(f"The weight of `{shown(name, 40)}` is not a number above 0 and up to {MAX_WEIGHT:g}.")
    return number


def _no_measure(name: Any, view: View) -> str:
    return f"There is no measure `{shown(str(name), 40)}`. Measures: {', '.join(view.known_measures)}."


def _triggers(fields: Mapping[str, Any]) -> str:
    """Triggers as text; a list is written as one."""
    value = fields.get("triggers")
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        value = ", ".join(value)
    if not isinstance(value, str) or not value.strip():
        raise EditError('"triggers" is a text: words and phrases separated by commas, or `always`.')
    return " ".join(value.split())


def _schema(fields: Mapping[str, Any], key: str) -> dict[str, str]:
    value = fields[key]
    if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise EditError(f'"{key}" is an object of names and types, such as {{"count": "int"}}.')
    return dict(value)


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise EditError(f'There is no object "{key}".')
    return found


def _rows(fields: Mapping[str, Any], key: str, kind: type) -> Sequence[Any]:
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
        raise EditError(f'"{key}" is not a list of {"objects" if kind is dict else "texts"}.')
    return value


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise EditError(f'"{key}" is missing or is not a text.')
    return value

"""The Evolver: reads a typed edit that a model wrote, and checks proposals before they are tested.

A typed edit is a JSON object with an operator. Its structure is read first; its content is checked as that of all
proposals is, in `problem_of`.

Prose and fences around the JSON are accepted. Unknown operators, measures and names, wording that refers to candidates
by position, and duplicate wording are rejected.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from rewardharness.codec import finite
from rewardharness.errors import LibraryError, shown
from rewardharness.evolution.proposal import OPERATORS, Operator, Proposal, View, criteria_of, wording
from rewardharness.judging.answers import MAX_REPLY, ReplyProblem, conclusion
from rewardharness.judging.answers import find_objects as objects_in
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry, Kind, print_entry, read_entry
from rewardharness.library.lint import LintContext, lint_entry
from rewardharness.library.problems import Findings
from rewardharness.library.reader import ReadEntry
from rewardharness.library.rubric import Criterion, Dimension, Rubric, print_rubric
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.task import entry_metadata

MAX_STATEMENT = 600
"""Characters of a statement that are kept."""
MAX_WEIGHT = 20.0
"""Largest weight of a criterion that may be proposed."""
_TEXTS = ("description", "body", "system_prompt", "measure")
MAX_BODY = 8000
"""Characters of the body of a proposed entry."""
_LIMITS: Mapping[str, tuple[int, Callable[[Entry], str | Sequence[Criterion] | None]]] = {
    "characters of description": (600, lambda entry: entry.description),
    "characters of body": (MAX_BODY, lambda entry: entry.body),
    "characters of system prompt": (6000, lambda entry: entry.system_prompt),
    "criteria": (24, lambda entry: criteria_of(entry)),
}
SAME = 0.8
"""Share of word shingles from which on two wordings say the same."""
_SHINGLE = 4

_EXAMPLE = re.compile(r"\b[Ee]xamples?\s+[`'\"]?e\d+\b|`e\d+`")


def find_objects(text: str) -> list[dict[str, Any]]:
    """Find the JSON objects in a reply, after its thoughts: bare, in fences, between words, in lists."""
    final = conclusion(text[:MAX_REPLY])
    return [] if isinstance(final, ReplyProblem) else objects_in(final)


def read_proposal(text: str, view: View, source: str, cited: tuple[str, ...]) -> Proposal | ReplyProblem | None:
    """Read one typed edit from what a model wrote.

    Args:
        text: The reply.
        view: What the round sees.
        source: Who proposes it.
        cited: Ids of the examples that it was shown.

    Returns:
        A checked proposal; a `ReplyProblem` for the model; or None if the model proposes nothing.
    """
    edits = [edit for edit in map(_edit, find_objects(text)) if edit is not None]
    if not edits:
        return ReplyProblem('The reply holds no JSON object with an "operator".')
    value = edits[-1]  # what comes before the last are drafts
    named = value["operator"].strip().lower().replace("-", "_")
    if named == "none":
        return None
    operator = next((name for name in OPERATORS if name == named), None)
    if operator is None:
        return ReplyProblem(f'There is no operator "{shown(named, 40)}". Operators: {", ".join(OPERATORS)}.')
    statement = value.get("statement")
    if not isinstance(statement, str) or not statement.strip():
        return ReplyProblem('There is no "statement" that says in a sentence why.')
    why = shown(" ".join(statement.split()), MAX_STATEMENT)
    try:
        proposal = Proposal(operator, changes_of(operator, value, view, why), why, cited, source)
    except EditError as error:
        return ReplyProblem(str(error))
    problem = problem_of(proposal, view)
    return ReplyProblem(problem) if problem else proposal


def problem_of(proposal: Proposal, view: View) -> str:
    """Return why a proposal is not tested; empty if it is acceptable.

    Checks format, sizes, wording, measures, duplicates, rejected edits, and whether any example would use it. Nothing
    is judged.
    """
    try:
        after = proposal.applied_to(view.library)
    except LibraryError as error:
        return f"{error.message} {error.next_step}".strip()
    if any(tried.signature == proposal.signature for tried in view.rejected):
        return "The same edit was tried before and rejected."
    problem = _outside_phase(proposal, view)
    for entry in proposal.entries:
        problem = problem or _oversize(entry, view.library.get(entry.name)) or _wording_problem(entry, after, view)
        if not problem and entry.system_prompt and not entry.measure and not entry.output_schema:
            missing = "has no output_schema: name at least one key of its JSON reply and its type."
            problem = f"The Tool `{entry.name}` {missing}"
        problem = problem or _repeats(entry, after, view)
    return problem or _no_shorter(proposal, view) or _unreached(proposal, after, view)


def similarity(one: str, other: str) -> float:
    """Share of word shingles that two texts have in common, of those that the shorter one has; in [0, 1]."""
    first, second = _shingles(one), _shingles(other)
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0


def _edit(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find the edit in an object: itself, under a key, or the first of a list."""
    nested: list[Any] = [value]
    for member in value.values():
        nested += member if isinstance(member, list) else [member]
    return next((edit for edit in nested if isinstance(edit, dict) and isinstance(edit.get("operator"), str)), None)


def _outside_phase(proposal: Proposal, view: View) -> str:
    if view.phase == "prune" and proposal.operator not in {"remove", "merge"}:
        return "This round only makes the Library smaller: remove or merge."
    for change in proposal.changes:
        entry = view.library.get(change.name) if isinstance(change, RemoveEntry) else change.entry
        if view.phase != "prune" and entry is not None and view.phase != f"{entry.kind}s":
            return f"This round is about {view.phase}; `{shown(entry.name)}` is a {entry.kind}."
    return ""


def _oversize(entry: Entry, old: Entry | None) -> str:
    """Return whether an entry is too large and not smaller than before."""
    for what, (most, read) in _LIMITS.items():
        size, before = (len(read(one) or "") if one else 0 for one in (entry, old))
        if size > max(most, before):
            return f"`{entry.name}` has {size} {what}; at most {most} are allowed."
    return ""


def _wording_problem(entry: Entry, after: Library, view: View) -> str:
    """Return the first problem of the Library check that the entry did not have before."""
    old = view.library.get(entry.name)
    known = set(_complaints(old, view.library, view)) if old is not None else set()
    new = next((complaint for complaint in _complaints(entry, after, view) if complaint not in known), "")
    if new:
        return f"`{entry.name}`: {new}"
    match = _EXAMPLE.search(wording(entry))
    if match:
        return f"`{entry.name}` speaks of one example ({shown(match.group())}), which no judge will see again."
    return ""


def _complaints(entry: Entry, library: Library, view: View) -> Iterable[str]:
    """Warnings and errors of the check, each with its remedy."""
    findings = Findings(entry.path)
    rubric = print_rubric(entry.rubric) if entry.rubric is not None else None
    read, places = read_entry(print_entry(entry), entry.name, entry.kind, rubric, findings)
    if read is not None and places is not None:
        context = LintContext({other.name for other in library.entries}, view.known_measures)
        lint_entry(ReadEntry(read, places), context, findings)
    return [f"{problem.message} {problem.remedy}".strip() for problem in findings.found if problem.severity != "note"]


def _repeats(entry: Entry, after: Library, view: View) -> str:
    """Return whether the guidance is in the Library already, or the wording was tried before."""
    old = view.library.get(entry.name)
    before = _shingles(wording(old)) if old is not None else frozenset()
    guidance, new = _shingles(_guidance(entry)) - before, _shingles(wording(entry)) - before
    if len(new) < _SHINGLE:
        return ""
    for other in after.entries:
        if other.name != entry.name and _overlap(guidance, _shingles(_guidance(other))) >= SAME:
            return f"`{entry.name}` says nearly the same as `{other.name}`. Change that one, or say something new."
    for tried in view.rejected:
        theirs = _shingles(tried.text) - before
        if theirs and _overlap(new, theirs) >= SAME and _overlap(theirs, new) >= SAME:
            return f"Nearly the same wording was tried before and rejected: {shown(tried.statement, 200)}"
    return ""


def _guidance(entry: Entry) -> str:
    return f"{entry.body}\n{entry.system_prompt or ''}"


def _no_shorter(proposal: Proposal, view: View) -> str:
    """Return whether a merge does not make the Library shorter."""
    length = sum(len(wording(entry)) for name in proposal.names if (entry := view.library.get(name)))
    if proposal.operator != "merge" or len(proposal.text) < length:
        return ""
    return f"The merged entry is no shorter than both together ({length} characters). Say once what both say."


def _unreached(proposal: Proposal, after: Library, view: View) -> str:
    """Return whether no example consults an entry that it touches. Without triggers, a model may decide."""
    touched = [entry for name in proposal.names for entry in (view.library.get(name), after.get(name)) if entry]
    if not all(entry.triggers for entry in touched):
        return ""
    instructions = {outcome.example.instruction for outcome in view.outcomes}
    if any(fires(entry, instruction) for entry in touched for instruction in instructions):
        return ""
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(proposal.names))
    return f"The triggers of {names} match no instruction of the examples; choose words that occur in them."


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one) if one else 0.0


def _shingles(text: str) -> frozenset[str]:
    words = re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", text.lower())  # a Chinese character is a word
    return frozenset(" ".join(words[start : start + _SHINGLE]) for start in range(max(0, len(words) - _SHINGLE + 1)))


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
    if operator in {"add", "add_tool"}:
        return (AddEntry(_new(_mapping(value, "entry"), "skill" if operator == "add" else "tool", view), why),)
    if operator in {"modify", "fix_tool"}:
        fields = _mapping(value, "entry")
        return (ReplaceEntry(_changed(_known(view, _text(fields, "name")), fields), why),)
    if operator == "merge":
        return _merged(value, view, why)
    old = _known(view, _text(value, "name"))
    if operator == "remove":
        return (RemoveEntry(old.name, why),)
    if operator == "split":
        return _divided(old, value, view, why)
    if operator == "retrigger":
        return (ReplaceEntry(replace(old, metadata={**old.metadata, "triggers": _triggers(value)}), why),)
    return (ReplaceEntry(_reweighted(old, _mapping(value, "weights")), why),)


def _known(view: View, name: str) -> Entry:
    entry = view.library.get(name.strip())
    if entry is None:
        names = ", ".join(entry.name for entry in view.library.entries) or "none"
        raise EditError(f"The Library has no entry `{shown(name)}`. Entries: {names}.")
    return entry


def _reweighted(old: Entry, weights: Mapping[str, Any]) -> Entry:
    known = {criterion.id for criterion in criteria_of(old)}
    unknown = [shown(str(name), 40) for name in weights if name not in known]
    if old.rubric is None or unknown or not weights:
        raise EditError(
            f'`{old.name}` has the criteria {", ".join(sorted(known)) or "none"}; "weights" gives some of these '
            f"a number{f', not {unknown[0]}' if unknown else ''}."
        )
    new = {name: _weight(weight, name) for name, weight in weights.items()}
    criteria = tuple(replace(one, weight=new.get(one.id, one.weight)) for one in old.rubric.criteria)
    return replace(old, rubric=replace(old.rubric, criteria=criteria))


def _merged(value: Mapping[str, Any], view: View, why: str) -> tuple[Change, ...]:
    names = value.get("names")
    if not isinstance(names, list) or len(names) != 2 or names[0] == names[1]:
        raise EditError('"names" of a merge is a list of two different entries.')
    first, second = (_known(view, str(name)) for name in names)
    if first.kind != second.kind:
        raise EditError("Only entries of one kind can be merged.")
    return _instead((first, second), [_new(_mapping(value, "entry"), first.kind, view)], why)


def _divided(old: Entry, value: Mapping[str, Any], view: View, why: str) -> tuple[Change, ...]:
    parts = _rows(value, "entries", dict)
    if len(parts) != 2:
        raise EditError('"entries" of a split is a list of two entries.')
    entries = [_new(part, old.kind, view) for part in parts]
    if entries[0].name == entries[1].name:
        raise EditError("The two entries of a split need different names.")
    return _instead((old,), entries, why)


def _instead(old: Sequence[Entry], new: Sequence[Entry], why: str) -> tuple[Change, ...]:
    """Return the changes that put entries in the place of others; those of the same name are replaced."""
    before, after = ({entry.name for entry in entries} for entries in (old, new))
    gone = (RemoveEntry(entry.name, why) for entry in old if entry.name not in after)
    return (*gone, *(ReplaceEntry(one, why) if one.name in before else AddEntry(one, why) for one in new))


def _new(fields: Mapping[str, Any], kind: Kind, view: View) -> Entry:
    """Read a whole entry."""
    return _changed(Entry(_text(fields, "name").strip(), kind, "", metadata=entry_metadata(view.task)), fields)


def _changed(old: Entry, fields: Mapping[str, Any]) -> Entry:
    """Put the fields that are given in the place of the old ones."""
    values: dict[str, Any] = {key: _text(fields, key) for key in _TEXTS if fields.get(key) is not None}
    for key in ("input_schema", "output_schema"):
        if fields.get(key) is not None:
            values[key] = _mapping(fields, key)
            if not all(isinstance(kind, str) for kind in values[key].values()):
                raise EditError(f'"{key}" is an object of names and types, such as {{"count": "int"}}.')
    triggers = {"triggers": _triggers(fields)} if fields.get("triggers") else {}
    return replace(old, metadata={**old.metadata, **triggers}, rubric=_rubric(old, fields), **values)


def _rubric(old: Entry, fields: Mapping[str, Any]) -> Rubric | None:
    """Criteria that are given take the place of those with the same id, or come last; some may be removed."""
    rows, gone = _rows(fields, "criteria", dict), _rows(fields, "remove_criteria", str)
    if not rows and not gone:
        return old.rubric
    criteria = {criterion.id: criterion for criterion in criteria_of(old)}
    for name in gone:
        if criteria.pop(name, None) is None:
            raise EditError(f"`{old.name}` has no criterion `{shown(name, 40)}` to remove.")
    new = {criterion.id: criterion for criterion in map(_criterion, rows)}
    if len(new) < len(rows):
        raise EditError("Two criteria have the same id.")
    criteria |= new
    return Rubric(tuple(criteria.values()), old.rubric.extra if old.rubric else {}) if criteria else None


def _criterion(row: Mapping[str, Any]) -> Criterion:
    name, applies = _text(row, "id").strip(), tuple(dict.fromkeys(_rows(row, "applies", str)))
    weight = _weight(row.get("weight", 1.0), name)
    dimension = cast(Dimension, _text({"dimension": "instruction", **row}, "dimension"))
    measure = None if row.get("measure") is None else _text(row, "measure")
    return Criterion(name, _text(row, "text"), weight, dimension=dimension, measure=measure, applies=applies)


def _weight(value: Any, name: str) -> float:
    number = finite(value)
    if number is None or not 0 < number <= MAX_WEIGHT:
        raise EditError(f"The weight of `{shown(name, 40)}` is not a number above 0 and up to {MAX_WEIGHT:g}.")
    return number


def _triggers(fields: Mapping[str, Any]) -> str:
    """Triggers as text; a list is written as one."""
    value = fields.get("triggers")
    if isinstance(value, list) and all(isinstance(trigger, str) for trigger in value):
        value = ", ".join(value)
    if not isinstance(value, str) or not value.strip():
        raise EditError('"triggers" is a text: words and phrases separated by commas, or `always`.')
    return " ".join(value.split())


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    mapping = value.get(key)
    if not isinstance(mapping, dict):
        raise EditError(f'There is no object "{key}".')
    return mapping


def _rows(fields: Mapping[str, Any], key: str, kind: type) -> Sequence[Any]:
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(row, kind) for row in value):
        raise EditError(f'"{key}" is not a list of {"objects" if kind is dict else "texts"}.')
    return value


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise EditError(f'"{key}" is missing or is not a text.')
    return value

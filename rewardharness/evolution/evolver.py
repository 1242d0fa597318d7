"""The Evolver: reads a typed edit that a model wrote, and checks proposals before they are tested.

Prose and fences around the JSON are accepted. Unknown operators, measures and names, wording that refers to candidates
by position, and duplicate wording are rejected.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from rewardharness.errors import LibraryError, shown
from rewardharness.evolution.proposal import OPERATORS, Operator, Proposal, View, wording
from rewardharness.evolution.typed_edits import MAX_STATEMENT, EditError, changes_of
from rewardharness.judging.answers import MAX_REPLY, ReplyProblem, conclusion
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry, Kind, print_entry, read_entry
from rewardharness.library.lint import LintContext, lint_entry
from rewardharness.library.problems import Findings
from rewardharness.library.reader import ReadEntry
from rewardharness.library.rubric import print_rubric
from rewardharness.library.store import Library, RemoveEntry

MAX_BODY, MAX_PROMPT, MAX_DESCRIPTION, MAX_CRITERIA = 8000, 6000, 600, 24
"""Size of a proposed entry: characters of the body, of a system prompt and of the description; and criteria."""
SAME = 0.8
"""Share of word shingles from which on two wordings say the same."""
_SHINGLE = 4
_STARTS = 200

_EXAMPLE = re.compile(r"\b[Ee]xamples?\s+[`'\"]?e\d+\b|`e\d+`")


def find_objects(text: str) -> Iterator[dict[str, Any]]:
    """Find the JSON objects in a reply, after its thoughts: bare, in fences, between words, in lists."""
    said = conclusion(text[:MAX_REPLY])
    if isinstance(said, ReplyProblem):
        return
    decoder = json.JSONDecoder(strict=False)
    position = 0
    for _ in range(_STARTS):
        position = said.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(said, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        yield value


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
    edits = [each for each in map(_edit, find_objects(text)) if each is not None]
    if not edits:
        return ReplyProblem('The reply holds no JSON object with an "operator".')
    value = edits[-1]  # what comes before the last are drafts
    operator = value["operator"].strip().lower().replace("-", "_")
    if operator == "none":
        return None
    if operator not in OPERATORS:
        return ReplyProblem(f'There is no operator "{shown(operator, 40)}". Operators: {", ".join(OPERATORS)}.')
    known: Operator = next(each for each in get_args(Operator) if each == operator)
    statement = value.get("statement")
    if not isinstance(statement, str) or not statement.strip():
        return ReplyProblem('There is no "statement" that says in a sentence why.')
    why = shown(" ".join(statement.split()), MAX_STATEMENT)
    try:
        changes = changes_of(known, value, view, why)
    except EditError as error:
        return ReplyProblem(str(error))
    proposal = Proposal(known, changes, why, cited, source)
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
    entries = [change.entry for change in proposal.changes if not isinstance(change, RemoveEntry)]
    problem = _outside_phase(proposal, view)
    for entry in entries:
        problem = problem or _oversize(entry, view.library.get(entry.name)) or _wording_problem(entry, after, view)
        problem = problem or _tool_problem(entry) or _repeats(entry, after, view)
    return problem or _no_shorter(proposal, view) or _unreached(proposal, after, view)


def similarity(one: str, other: str) -> float:
    """Share of word shingles that two texts have in common, of those that the shorter one has; in [0, 1]."""
    first, second = _shingles(one), _shingles(other)
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0


def _edit(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find the edit in an object: itself, under a key, or the first of a list."""
    nested: list[Any] = [value]
    for each in value.values():
        nested += each if isinstance(each, list) else [each]
    return next((each for each in nested if isinstance(each, dict) and isinstance(each.get("operator"), str)), None)


def _outside_phase(proposal: Proposal, view: View) -> str:
    if view.phase == "prune" and proposal.operator not in {"remove", "merge"}:
        return "This round only makes the Library smaller: remove or merge."
    wanted: Kind | None = {"skills": "skill", "tools": "tool"}.get(view.phase)  # type: ignore[assignment]
    for change in proposal.changes:
        entry = view.library.get(change.name) if isinstance(change, RemoveEntry) else change.entry
        if wanted is not None and entry is not None and entry.kind != wanted:
            return f"This round is about {view.phase}; `{shown(entry.name)}` is a {entry.kind}."
    return ""


def _oversize(entry: Entry, old: Entry | None) -> str:
    """Return whether an entry is too large and not smaller than before."""
    limits = {"characters of description": MAX_DESCRIPTION, "characters of body": MAX_BODY}
    limits |= {"characters of system prompt": MAX_PROMPT, "criteria": MAX_CRITERIA}
    before = _sizes(old) if old is not None else (0, 0, 0, 0)
    for (what, most), size, was in zip(limits.items(), _sizes(entry), before, strict=True):
        if size > max(most, was):
            return f"`{entry.name}` has {size} {what}; at most {most} are allowed."
    return ""


def _sizes(entry: Entry) -> tuple[int, ...]:
    criteria = entry.rubric.criteria if entry.rubric else ()
    return len(entry.description), len(entry.body), len(entry.system_prompt or ""), len(criteria)


def _wording_problem(entry: Entry, after: Library, view: View) -> str:
    """Return the first problem of the Library check that the entry did not have before."""
    old = view.library.get(entry.name)
    known = set(_complaints(old, view.library, view)) if old is not None else set()
    new = next((each for each in _complaints(entry, after, view) if each not in known), "")
    if new:
        return f"`{entry.name}`: {new}"
    found = _EXAMPLE.search(wording(entry))
    if found:
        return f"`{entry.name}` speaks of one example ({shown(found.group())}), which no judge will see again."
    return ""


def _complaints(entry: Entry, library: Library, view: View) -> Iterable[str]:
    """Warnings and errors of the check, each with its remedy."""
    findings = Findings(entry.path)
    rubric = print_rubric(entry.rubric) if entry.rubric is not None else None
    read, places = read_entry(print_entry(entry), entry.name, entry.kind, rubric, findings)
    if read is not None and places is not None:
        context = LintContext({each.name for each in library.entries}, view.known_measures)
        lint_entry(ReadEntry(read, places), context, findings)
    return [f"{each.message} {each.remedy}".strip() for each in findings.found if each.severity != "note"]


def _tool_problem(entry: Entry) -> str:
    """Return what a prompted Tool lacks. The Library check compares its prompt with its schema."""
    if entry.kind != "tool" or entry.measure is not None:
        return ""
    if not entry.system_prompt:
        return f"The Tool `{entry.name}` has neither a system prompt nor a measure."
    if not entry.output_schema:
        return f"The Tool `{entry.name}` has no output_schema: name at least one key of its JSON reply and its type."
    return ""


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
    if proposal.operator != "merge":
        return ""
    old = [entry for name in proposal.names if (entry := view.library.get(name)) is not None]
    length = sum(len(wording(entry)) for entry in old)
    if len(proposal.text) < length:
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

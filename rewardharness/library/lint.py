"""Lints valid entries for content that a judge probably misinterprets, and finds copies and contradictions.

Each rule is a text heuristic for a mistake that occurs in published Libraries. The rules report warnings and notes;
only an unknown measure is an error.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations, islice
from typing import Any

from rewardharness.errors import shown
from rewardharness.library.entry import RUBRIC_FILE, Entry
from rewardharness.library.plaintext import invisible, unix_lines
from rewardharness.library.problems import Findings
from rewardharness.library.reader import ReadEntry
from rewardharness.library.rubric import Criterion

LONG_BODY = 20_000
"""Length in characters above which a body is reported as long. It corresponds to about 5,000 tokens."""
MAX_MENTIONS = 20
"""Maximum number of mentioned names that are checked in one body."""

_NAME = r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)+"
_MENTIONS = re.compile(
    rf"(?:tools?|skills?)\s+(?:called\s+|named\s+)?[`'\"](?P<after>{_NAME})[`'\"]"
    rf"|[`'\"](?P<before>{_NAME})[`'\"]\s+(?:tool|skill)\b"
    rf"|\b(?:use|call|run|invoke|query|consult)\s+(?:the\s+)?`(?P<used>{_NAME})`"
    rf"|\b(?:the|use|a)\s+(?P<bare>[a-z0-9]+(?:-[a-z0-9]+){{2,}})\s+(?:tool|skill)\b"
    rf"|<tool>[^<]{{0,80}}?\"(?:name|tool)\"\s*:\s*\"(?P<called>[^\"\n]{{1,64}})\"",
    re.IGNORECASE,
)
_POSITIONS = re.compile(
    r"\b(?:[Ii]mage|[Cc]andidate|[Ee]dit|[Oo]ption|[Oo]utput|[Rr]esult|[Pp]icture)s?\s+(?:[A-D]|[1-4])\b"
    r"|\b(?i:(?:left|right|first|second|third|fourth)(?:-hand)?\s+(?:image|candidate|option|picture))\b"
    r"|(?:候选|图像|图片|选项)\s*[A-D](?![A-Za-z])|第[一二三四](?:个候选|张图)|[左右](?:边|侧|面)的?(?:候选|图)"
)
_TOOL_POSITIONS = re.compile(
    r"\b(?i:image|candidate|edit|option|output|result|picture)s?(?: [A-D]|_[A-Da-d]|[ _][1-4])(?=\b|_)"
    r"|\b(?i:(?:left|right)(?:-hand)?[ _](?:image|candidate|option|picture))\b"
)
_CHAIN_TAG = re.compile(r"</?(?:think|tool|obs|answer)>", re.IGNORECASE)
_REPLY_KEY = re.compile(r"[\"']([A-Za-z_][A-Za-z0-9_]{0,63})[\"']\s*:")
_LITERAL = re.compile(
    r"\s*(?:(?P<bool>(?:true|false)\b)|(?P<float>-?\d+\.\d+)|(?P<int>-?\d+)|(?P<list>\[)|[\"](?P<str>[^\"]*)[\"])"
)
_PLACEHOLDER = re.compile(r"\d|bool|true|false|int|num|float|list|array|object", re.IGNORECASE)
_KINDS = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "array": "list", "object": "dict"}
_ACCEPTED = {kind: {kind} for kind in ("str", "bool", "float", "list", "dict")} | {"int": {"int", "float"}}
"""Schema types, with those that match a literal of this type in a prompt."""
_RUBRIC_ID = re.compile(r"^[ \-{]*[\"']?id[\"']?[ ]*:[ ]*[\"']?([A-Za-z0-9_.-]+)", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")


NEAR_DUPLICATE = 0.3
"""Minimum Jaccard similarity of three-word phrases at which two Skills are reported as near-duplicates."""

COPIED_WORDS = 6
"""Number of consecutive words that count as copied from an instruction."""

_NO_POSITIONS = "The presentation order varies; write `a candidate`."


@dataclass(frozen=True)
class LintContext:
    """Names that the entries may refer to."""

    names: Collection[str]
    """Names of all entries of the Library."""
    measures: Collection[str] | None
    """Names of all measures; None to skip this check."""


def lint_entry(read: ReadEntry, context: LintContext, findings: Findings) -> None:
    """Collect the problems of one entry.

    Args:
        read: The entry and the locations of its parts.
        context: Names that the entry may refer to.
        findings: Collector for its `SKILL.md`.
    """
    entry, folder = read.entry, findings.where.rsplit("/", 1)[0]
    _check_body(read, context, findings)
    _check_front(read, findings)
    if entry.kind == "tool":
        _check_tool(read, context, findings)
    _check_rubric(entry, context, findings.at(f"{folder}/{RUBRIC_FILE}"))
    for name, text in entry.documents.items():
        _check_characters(text, findings.at(f"{folder}/{name}"))
    _check_escapes(read, findings)


def _check_body(read: ReadEntry, context: LintContext, findings: Findings) -> None:
    entry, body = read.entry, read.entry.body

    def line(offset: int) -> int:
        return read.places.body_line + body.count("\n", 0, offset)

    if not body:
        remedy = "Describe how to judge." if entry.kind == "skill" else "Describe when and how to call the Tool."
        findings.warning("The body is empty.", read.places.body_line, remedy)
    if len(body) > LONG_BODY:
        findings.note(f"The body has {len(body)} characters; judges read all of it.", line(0), "Shorten it.")
    for offset, name in islice(_mentioned(entry), MAX_MENTIONS):
        if name not in context.names:
            close = get_close_matches(name, context.names, 1)
            remedy = f"Did you mean `{close[0]}`?" if close else "Remove the mention, or add the entry."
            message = f"The body mentions `{shown(name)}`, which this Library does not have."
            findings.warning(message, line(offset), remedy)
    positions = list(_POSITIONS.finditer(body)) if entry.kind == "skill" else []
    if positions:
        terms = ", ".join(dict.fromkeys(f"'{shown(match.group())}'" for match in positions))
        message = f"This Skill refers to candidates by position: {terms}."
        findings.warning(message, line(positions[0].start()), _NO_POSITIONS)
    tags = list(_CHAIN_TAG.finditer(body))
    if tags:
        terms = ", ".join(dict.fromkeys(match.group().lower() for match in tags))
        message = f"The body contains tags of the reasoning chain: {terms}."
        findings.warning(message, line(tags[0].start()), "Describe them in words; judges may confuse them with output.")


def _mentioned(entry: Entry) -> Iterator[tuple[int, str]]:
    """Yield each distinct name that the body refers to as a tool or skill, with its offset."""
    seen = {*(entry.input_schema or {}), *(entry.output_schema or {})}
    for match in _MENTIONS.finditer(entry.body):
        name = next(filter(None, match.groups()))
        if name not in seen:
            seen.add(name)
            yield match.start(), name


def _check_front(read: ReadEntry, findings: Findings) -> None:
    entry, line = read.entry, read.places.line
    if "triggers" in entry.extra:
        message = "`triggers` is outside `metadata` and is not read."
        findings.warning(message, line("triggers"), "Move it under `metadata:`.")
    for key in ("system_prompt", "measure", "input_schema", "output_schema"):
        value = getattr(entry, key)
        if entry.kind == "skill" and value is not None:
            remedy = "Remove it, or convert the entry to a Tool."
            findings.warning(f"A Skill does not use `{key}`.", line(key), remedy)
        text = value if isinstance(value, str) else json.dumps(value)
        match = _TOOL_POSITIONS.search(text) if entry.kind == "tool" and value and key != "measure" else None
        if match:
            message = f"`{key}` refers to candidates by position: '{shown(match.group())}'."
            findings.warning(message, line(key), _NO_POSITIONS)
    position = (_POSITIONS if entry.kind == "skill" else _TOOL_POSITIONS).search(entry.description)
    if position:
        message = f"The description refers to candidates by position: '{shown(position.group())}'."
        findings.warning(message, line("description"), _NO_POSITIONS)
    if _CHAIN_TAG.search(entry.description):
        message = "The description contains tags of the reasoning chain."
        findings.warning(message, line("description"), "Describe them in words.")


def _check_tool(read: ReadEntry, context: LintContext, findings: Findings) -> None:
    entry, prompt, line = read.entry, read.entry.system_prompt, read.places.line("system_prompt")
    if entry.measure is not None:
        _check_measure(entry.measure, context, findings, read.places.line("measure"))
        if prompt is not None:
            message = "This Tool has both `measure` and `system_prompt`; the prompt is not used."
            findings.warning(message, line, "Remove one of them.")
        return
    prompt, schema = prompt or "", entry.output_schema or {}
    ending = _cut_off(prompt)
    if ending:
        findings.warning(f"The system prompt seems truncated: it ends with {ending!r}.", line, "Complete it.")
    expected = schema["properties"] if isinstance(schema.get("properties"), dict) else schema  # or the informal form
    if not expected:
        return
    if "json" not in prompt.lower():
        message = "The system prompt does not request JSON, but `output_schema` requires a JSON reply."
        findings.warning(message, line, "Request one JSON object with the keys of `output_schema`.")
    _check_keys(prompt, expected, findings, line)
    _check_types(prompt, expected, findings, line)


def _check_types(prompt: str, expected: Mapping[str, Any], findings: Findings, line: int | None) -> None:
    """Compare the types in the example reply of a prompt with those in its output schema."""
    for match in _REPLY_KEY.finditer(prompt):
        kind, literal = _kind(expected.get(match[1])), _LITERAL.match(prompt, match.end())
        literal_kind = (literal and literal.lastgroup) or ""
        if not literal or kind not in _ACCEPTED or kind in _ACCEPTED.get(literal_kind, _ACCEPTED):
            continue
        if literal_kind == "str" and _PLACEHOLDER.search(literal["str"]):
            continue  # a description of the value, such as "0 to 1"
        message = f"`{shown(match[1])}` is of type {literal_kind} in the system prompt and {kind} in `output_schema`."
        findings.warning(message, line, "Use the same type in both.")


def _kind(value: Any) -> str:
    """Return the type of a schema value without the type of its members; empty if it is unknown."""
    value = value.get("type", "dict") if isinstance(value, dict) else value
    name = value.partition("[")[0].strip().lower() if isinstance(value, str) else ""
    return _KINDS.get(name, name)


def _check_keys(prompt: str, keys: Collection[str], findings: Findings, line: int | None) -> None:
    """Compare the keys that a prompt requests with those in its output schema."""
    requested, top = dict.fromkeys(_REPLY_KEY.findall(prompt)), 2 if "{{" in prompt else 1
    unknown = dict.fromkeys(
        match[1]
        for match in _REPLY_KEY.finditer(prompt)
        if match[1] not in keys and prompt.count("{", 0, match.start()) - prompt.count("}", 0, match.start()) <= top
    )
    text = _words(prompt)
    missing = [key for key in keys if (key not in requested if unknown else _words(key) not in text)]
    missing_names, unknown_names = (", ".join(f"`{shown(key)}`" for key in names) for names in (missing, unknown))
    message = f"The system prompt requests {unknown_names}, which `output_schema` does not contain."
    if missing and unknown:
        message = f"The system prompt requests {unknown_names}, but `output_schema` requires {missing_names}."
    elif missing:
        message = f"The system prompt does not mention {missing_names} of `output_schema`."
    if missing or unknown:
        findings.warning(message, line, "Use the same keys in the prompt and in `output_schema`.")


def _words(text: str) -> str:
    return " " + " ".join(_WORD.findall(text.lower())) + " "


def _cut_off(prompt: str) -> str | None:
    """Return the end of a prompt that ends in the middle of a sentence, or None."""
    last = prompt.rstrip().rsplit("\n", 1)[-1]
    end = last[-1:]
    if end in {",", ";", ":", "(", "[", "{", "-", "–", "—", "&", "/", "="}:
        return shown(last[-40:].strip())
    prose = len(last.split()) >= 4 and not _LIST_ITEM.match(last) and not last.startswith(("#", "|", ">"))
    return shown(last[-40:].strip()) if prose and end.isascii() and end.isalnum() else None


def _check_measure(name: str, context: LintContext, findings: Findings, line: int | None) -> None:
    if context.measures is None or name in context.measures:
        return
    close = get_close_matches(name, context.measures, 1)
    remedy = f"Did you mean `{close[0]}`?" if close else f"Choose one of: {', '.join(sorted(context.measures))}."
    findings.error(f"Unknown measure `{shown(name)}`.", line, remedy)


def _check_rubric(entry: Entry, context: LintContext, findings: Findings) -> None:
    if entry.rubric is None:
        return
    text = unix_lines(entry.documents.get(RUBRIC_FILE, ""))
    lines = {match.group(1): text.count("\n", 0, match.start()) + 1 for match in _RUBRIC_ID.finditer(text)}
    for criterion in entry.rubric.criteria:
        line = lines.get(criterion.id)
        if criterion.weight == 0:
            findings.note(f"Criterion `{criterion.id}` has weight 0 and no effect.", line)
        if criterion.measure is not None:
            _check_measure(criterion.measure, context, findings, line)
        if _POSITIONS.search(criterion.text):
            message = f"Criterion `{criterion.id}` refers to candidates by position."
            findings.warning(message, line, _NO_POSITIONS)


def _check_characters(text: str, findings: Findings) -> None:
    """Report invisible characters."""
    text = unix_lines(text.removeprefix("\ufeff"))
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return
    hidden = list(invisible(text))
    if hidden:
        message = f"The file contains {len(hidden)} invisible characters: {_names(char for _, char in hidden)}."
        findings.warning(message, text.count("\n", 0, hidden[0][0]) + 1, "Remove them.")


def _check_escapes(read: ReadEntry, findings: Findings) -> None:
    """Report invisible characters that are written as escape sequences."""
    entry, written = read.entry, "".join(read.entry.documents.values())
    texts = {
        "description": entry.description,
        "system_prompt": entry.system_prompt or "",
        "metadata": "".join(entry.metadata.values()),
        "rubric": "".join(criterion.text for criterion in entry.rubric.criteria) if entry.rubric else "",
    }
    for key, text in texts.items():
        escaped = [char for _, char in invisible(text) if char not in written]
        if escaped:
            message = f"`{key}` contains escape sequences for invisible characters: {_names(escaped)}."
            findings.warning(message, read.places.line(key), "Remove them.")


def _names(chars: Iterable[str]) -> str:
    names = [f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip() for char in dict.fromkeys(chars)]
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def compare_entries(entries: Sequence[Entry], findings: Findings) -> None:
    """Report near-duplicate Skills, contradicting criteria, and a Library that has no criteria."""
    skills = [entry for entry in entries if entry.kind == "skill"]
    if skills and not any(entry.rubric for entry in skills):
        message = "The Library has no criteria and requires a model as the judge."
        findings.at("").note(message, None, "Use --judge vllm:NAME@URL, or add a rubric.yaml to a Skill.")
    texts = [(entry, _shingles(_text(entry), 3)) for entry in skills]
    for (first, phrases), (second, others) in combinations(texts, 2):
        if phrases & others and len(phrases & others) >= NEAR_DUPLICATE * len(phrases | others):
            message = f"This Skill is nearly identical to `{first.name}`."
            findings.at(second.path).warning(message, None, "Merge them: judges read and weigh both.")
    _check_contradictions(skills, findings)


def check_copied(entries: Sequence[Entry], instructions: Iterable[str], findings: Findings) -> None:
    """Report entries that contain phrases of the given instructions, such as those of the training examples."""
    phrases: dict[str, str] = {}
    for instruction in instructions:
        phrases |= dict.fromkeys(_shingles(instruction, COPIED_WORDS), instruction)
    for entry in entries:
        for phrase in sorted(_shingles(_text(entry), COPIED_WORDS) & phrases.keys())[:1]:
            message = f"'{shown(phrase)}' is copied from the instruction {shown(phrases[phrase])!r}."
            findings.at(entry.path).warning(message, None, "Use general wording that fits more than one example.")


def _check_contradictions(skills: Sequence[Entry], findings: Findings) -> None:
    """Report criteria that have the same id but differ between Skills."""
    first_uses: dict[str, tuple[Entry, Criterion]] = {}
    for entry in skills:
        for criterion in entry.rubric.criteria if entry.rubric else ():
            skill, first = first_uses.setdefault(criterion.id, (entry, criterion))
            fields = ("text", "scale", "dimension")
            differing = [name for name in fields if getattr(first, name) != getattr(criterion, name)]
            if differing:
                message = f"Criterion `{criterion.id}` has a different {' and '.join(differing)} in `{skill.name}`."
                where = f"{entry.path.rpartition('/')[0]}/{RUBRIC_FILE}"
                findings.at(where).warning(message, None, "Rename one of the criteria, or make them equal.")


def _text(entry: Entry) -> str:
    criteria = entry.rubric.criteria if entry.rubric else ()
    return "\n".join((entry.description, entry.body, entry.system_prompt or "", *(row.text for row in criteria)))


def _shingles(text: str, size: int) -> frozenset[str]:
    """Return all phrases of `size` consecutive words."""
    words = _WORD.findall(text.lower())
    return frozenset(" ".join(words[start : start + size]) for start in range(len(words) - size + 1))

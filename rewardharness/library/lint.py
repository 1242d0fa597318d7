"""Tells what is odd in entries that load: what will likely make a judge misread them.

Every rule here was met in Libraries that people have published. Rules are cheap tests of wording; they warn and
never refuse.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from rewardharness.errors import shown
from rewardharness.library.entry import RUBRIC_FILE, Entry
from rewardharness.library.plaintext import code_point, unix_lines, unseen
from rewardharness.library.problems import Findings
from rewardharness.library.reader import ReadEntry

LONG_BODY = 20_000
"""Characters of a body above which it is called long: about 5,000 tokens, which leave little room for images."""
MAX_MENTIONS = 20
"""Names of which one body is looked up in the Library, at most."""

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
)
_TOOL_POSITIONS = re.compile(
    r"\b(?i:image|candidate|edit|option|output|result|picture)s?(?: [A-D]|_[A-Da-d]|[ _][1-4])(?=\b|_)"
    r"|\b(?i:(?:left|right)(?:-hand)?[ _](?:image|candidate|option|picture))\b"
)
_CHAIN_TAG = re.compile(r"</?(?:think|tool|obs|answer)>", re.IGNORECASE)
_ASKED_KEY = re.compile(r"[\"']([A-Za-z_][A-Za-z0-9_]{0,63})[\"']\s*:")
_LITERAL = re.compile(
    r"\s*(?:(?P<bool>(?:true|false)\b)|(?P<float>-?\d+\.\d+)|(?P<int>-?\d+)|(?P<list>\[)|[\"](?P<str>[^\"]*)[\"])"
)
_PLACEHOLDER = re.compile(r"\d|bool|true|false|int|num|float|list|array|object", re.IGNORECASE)
_KINDS = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "array": "list", "object": "dict"}
_ACCEPTED = {"str": {"str"}, "bool": {"bool"}, "int": {"int", "float"}, "float": {"float"}, "list": {"list"}}
"""Kinds in a schema that a literal in a prompt agrees with."""
_RUBRIC_ID = re.compile(r"^[ \-{]*[\"']?id[\"']?[ ]*:[ ]*[\"']?([A-Za-z0-9_.-]+)", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")


_NO_POSITIONS = "Candidates change places; say `a candidate`."


@dataclass(frozen=True)
class Surroundings:
    """What the wording of one entry is compared with."""

    names: Collection[str]
    """Names of all entries of the Library."""
    measures: Collection[str] | None
    """Names of all measures; None when they are not known here, and are not checked."""


def lint_entry(read: ReadEntry, around: Surroundings, findings: Findings) -> None:
    """Collect what is odd in one entry.

    Args:
        read: The entry, with the places of its parts.
        around: What it is compared with.
        findings: Collector for its `SKILL.md`.
    """
    _check_body(read, around, findings)
    _check_front(read, findings)
    if read.entry.kind == "tool":
        _check_tool(read, around, findings)
    _check_rubric(read.entry, around, findings.at(findings.where.rsplit("/", 1)[0] + "/" + RUBRIC_FILE))
    for name, text in read.entry.documents.items():
        _check_characters(text, findings.at(findings.where.rsplit("/", 1)[0] + "/" + name))
    _check_escapes(read, findings)


def _check_body(read: ReadEntry, around: Surroundings, findings: Findings) -> None:
    entry, body = read.entry, read.entry.body

    def line(offset: int) -> int:
        return read.places.body_line + body.count("\n", 0, offset)

    if not body:
        remedy = "Say how to judge." if entry.kind == "skill" else "Say when and how to call it."
        findings.warning("The body is empty.", read.places.body_line, remedy)
    if len(body) > LONG_BODY:
        findings.note(f"The body has {len(body)} characters; judges read all of it.", line(0), "Shorten it.")
    for offset, name in islice(_mentioned(entry), MAX_MENTIONS):
        if name not in around.names:
            close = get_close_matches(name, around.names, 1)
            remedy = f"Did you mean `{close[0]}`?" if close else "Remove the mention, or add the entry."
            findings.warning(
                f"The body mentions `{shown(name)}`, which this Library does not have.", line(offset), remedy
            )
    positions = list(_POSITIONS.finditer(body)) if entry.kind == "skill" else []
    if positions:
        words = ", ".join(dict.fromkeys(f"'{shown(found.group())}'" for found in positions))
        message = f"This Skill speaks of candidates by position: {words}."
        findings.warning(message, line(positions[0].start()), "Candidates change places; say `a candidate`.")
    tags = list(_CHAIN_TAG.finditer(body))
    if tags:
        words = ", ".join(dict.fromkeys(found.group().lower() for found in tags))
        message = f"The body holds tags of the reasoning chain: {words}."
        findings.warning(message, line(tags[0].start()), "Judges may take them for their own; describe them in words.")


def _mentioned(entry: Entry) -> Iterator[tuple[int, str]]:
    """Find names that the body calls a tool or a skill, each once."""
    own = {*(entry.input_schema or {}), *(entry.output_schema or {})}
    seen: set[str] = set()
    for found in _MENTIONS.finditer(entry.body):
        name = next(filter(None, found.groups()))
        if name not in own and name not in seen:
            seen.add(name)
            yield found.start(), name


def _check_front(read: ReadEntry, findings: Findings) -> None:
    entry = read.entry
    if "triggers" in entry.extra:
        message = "`triggers` stands outside `metadata`, where it is not read."
        findings.warning(message, read.places.line("triggers"), "Move it under `metadata:`.")
    if entry.kind == "skill":
        for key in ("system_prompt", "measure", "input_schema", "output_schema"):
            if getattr(entry, key) is not None:
                message = f"A Skill has no use for `{key}`."
                findings.warning(message, read.places.line(key), "Remove it, or make this a Tool.")
    found = (_POSITIONS if entry.kind == "skill" else _TOOL_POSITIONS).search(entry.description)
    if found:
        message = f"The description speaks of candidates by position: '{shown(found.group())}'."
        findings.warning(message, read.places.line("description"), _NO_POSITIONS)
    if _CHAIN_TAG.search(entry.description):
        message = "The description holds tags of the reasoning chain."
        findings.warning(message, read.places.line("description"), "Describe them in words.")


def _check_tool(read: ReadEntry, around: Surroundings, findings: Findings) -> None:
    entry = read.entry
    if entry.measure is not None:
        _check_measure(entry.measure, around, findings, read.places.line("measure"))
        if entry.system_prompt is not None:
            message = "This Tool has both `measure` and `system_prompt`; it is measured and the prompt is not used."
            findings.warning(message, read.places.line("system_prompt"), "Remove one of the two.")
    prompt = entry.system_prompt
    _check_tool_positions(read, findings)
    if prompt is None or entry.measure is not None:
        return
    line = read.places.line("system_prompt")
    ending = _cut_off(prompt)
    if ending:
        findings.warning(f"The system prompt seems cut off: it ends with {ending!r}.", line, "Complete it.")
    keys = _schema_keys(entry.output_schema)
    if not keys:
        return
    if "json" not in prompt.lower():
        message = "The system prompt never asks for JSON, though `output_schema` expects a JSON reply."
        findings.warning(message, line, "Ask for one JSON object with the keys of `output_schema`.")
    _check_keys(prompt, keys, findings, line)
    _check_types(prompt, entry.output_schema or {}, findings, line)


def _check_tool_positions(read: ReadEntry, findings: Findings) -> None:
    """Report prompts and schemas that name a candidate by its place, which a Tool is not told."""
    entry = read.entry
    for key in ("system_prompt", "input_schema", "output_schema"):
        value = getattr(entry, key)
        found = _TOOL_POSITIONS.search(value if isinstance(value, str) else json.dumps(value)) if value else None
        if found:
            message = f"`{key}` speaks of candidates by position: '{shown(found.group())}'."
            findings.warning(message, read.places.line(key), _NO_POSITIONS)


def _check_types(prompt: str, schema: Mapping[str, Any], findings: Findings, line: int | None) -> None:
    """Compare the values of a prompt's example of a reply with the kinds that its output schema expects."""
    expected = schema["properties"] if isinstance(schema.get("properties"), dict) else schema
    for found in _ASKED_KEY.finditer(prompt):
        kind, literal = _kind(expected.get(found[1])), _LITERAL.match(prompt, found.end())
        given = literal.lastgroup if literal else None
        if literal is None or given is None or kind not in {"str", "bool", "int", "float", "list", "dict"}:
            continue
        if given == "str" and kind != "str" and _PLACEHOLDER.search(literal["str"]):
            continue  # a description of the value, such as "0 to 1"
        if kind not in _ACCEPTED[given]:
            message = f"The system prompt shows `{shown(found[1])}` as {given}; `output_schema` expects {kind}."
            findings.warning(message, line, "Make the prompt and `output_schema` agree on its type.")


def _kind(value: Any) -> str:
    """Kind of a value in either form of schema, without the kind of its members; empty for an unknown form."""
    value = value.get("type", "dict") if isinstance(value, dict) else value
    name = value.partition("[")[0].strip().lower() if isinstance(value, str) else ""
    return _KINDS.get(name, name)


def _top_keys(prompt: str) -> list[str]:
    """Keys that a prompt asks for at the top of a reply: not within another object."""
    top = 2 if "{{" in prompt else 1
    keys: dict[str, None] = {}
    for found in _ASKED_KEY.finditer(prompt):
        if prompt.count("{", 0, found.start()) - prompt.count("}", 0, found.start()) <= top:
            keys[found[1]] = None
    return list(keys)


def _check_keys(prompt: str, keys: Collection[str], findings: Findings, line: int | None) -> None:
    """Compare the keys that a prompt asks for with those that its output schema expects."""
    asked_for = dict.fromkeys(_ASKED_KEY.findall(prompt))
    other = [key for key in _top_keys(prompt) if key not in keys]
    said = _words(prompt)
    missing = [key for key in keys if key not in asked_for] if other else [k for k in keys if _words(k) not in said]
    expected = ", ".join(f"`{shown(key)}`" for key in missing)
    asked = ", ".join(f"`{shown(key)}`" for key in other)
    remedy = "Make the prompt and `output_schema` name the same keys."
    if missing and other:
        findings.warning(f"The system prompt asks for {asked}; `output_schema` expects {expected}.", line, remedy)
    elif missing:
        findings.warning(f"The system prompt never mentions {expected} of `output_schema`.", line, remedy)
    elif other:
        findings.warning(f"The system prompt asks for {asked}, which `output_schema` does not have.", line, remedy)


def _words(text: str) -> str:
    return " " + " ".join(_WORD.findall(text.lower())) + " "


def _schema_keys(schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Names of the values that a schema asks for; both the informal form and JSON Schema are understood."""
    properties = (schema or {}).get("properties")
    return tuple(properties if isinstance(properties, dict) else schema or {})


def _cut_off(prompt: str) -> str | None:
    """Return the end of a prompt that stops in the middle of a sentence, or None."""
    last = prompt.rstrip().rsplit("\n", 1)[-1]
    end = last[-1:]
    if end in {",", ";", ":", "(", "[", "{", "-", "–", "—", "&", "/", "="}:
        return shown(last[-40:].strip())
    prose = len(last.split()) >= 4 and not _LIST_ITEM.match(last) and not last.startswith(("#", "|", ">"))
    return shown(last[-40:].strip()) if prose and end.isascii() and end.isalnum() else None


def _check_measure(name: str, around: Surroundings, findings: Findings, line: int | None) -> None:
    if around.measures is None or name in around.measures:
        return
    close = get_close_matches(name, around.measures, 1)
    remedy = f"Did you mean `{close[0]}`?" if close else f"Known: {', '.join(sorted(around.measures))}."
    findings.error(f"There is no measure `{shown(name)}`.", line, remedy)


def _check_rubric(entry: Entry, around: Surroundings, findings: Findings) -> None:
    if entry.rubric is None:
        return
    text = unix_lines(entry.documents.get(RUBRIC_FILE, ""))
    lines = {found.group(1): text.count("\n", 0, found.start()) + 1 for found in _RUBRIC_ID.finditer(text)}
    for criterion in entry.rubric.criteria:
        line = lines.get(criterion.id)
        if criterion.weight == 0:
            findings.note(f"Criterion `{criterion.id}` has weight 0 and does not count.", line)
        if criterion.measure is not None:
            _check_measure(criterion.measure, around, findings, line)
        if _POSITIONS.search(criterion.text):
            message = f"Criterion `{criterion.id}` speaks of candidates by position."
            findings.warning(message, line, "Candidates change places; say `a candidate`.")


def _check_characters(text: str, findings: Findings) -> None:
    """Report characters that a reader does not see, and text that is not in composed form."""
    text = unix_lines(text.removeprefix("\ufeff"))
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return
    found = list(unseen(text))
    if found:
        message = f"It holds {len(found)} characters that a reader does not see: {_named(char for _, char in found)}."
        findings.warning(message, text.count("\n", 0, found[0][0]) + 1, "Remove them.")


def _check_escapes(read: ReadEntry, findings: Findings) -> None:
    """Report characters that a reader does not see and that the file spells as escapes."""
    entry, places = read.entry, read.places
    texts = {"description": entry.description, "system_prompt": entry.system_prompt or ""}
    texts |= {"metadata": "".join(entry.metadata.values())}
    if entry.rubric is not None:
        texts |= {"rubric": "".join(criterion.text for criterion in entry.rubric.criteria)}
    written = "".join(entry.documents.values())
    for key, text in texts.items():
        spelled = [char for _, char in unseen(text) if char not in written]
        if spelled:
            message = f"`{key}` spells characters that a reader does not see as escapes: {_named(spelled)}."
            findings.warning(message, places.line(key), "Remove them.")


def _named(chars: Iterable[str]) -> str:
    names = list(dict.fromkeys(map(code_point, chars)))
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")

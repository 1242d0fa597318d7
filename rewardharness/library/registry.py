"""Reads and writes `registry.json`, the index of a Library's entries. Schemas 1 and 2 are read; 2 is written."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from rewardharness.errors import shown
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, SCHEMA, Entry, Kind, loadable_name_problem
from rewardharness.library.plaintext import tidy
from rewardharness.library.problems import Findings

REGISTRY_FILE = "registry.json"
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a registry in bytes."""
MAX_ENTRIES = 2000
"""Maximum number of entries in one Library."""

_ESCAPES = re.compile(r"(?:^|[\\/])\.\.(?:[\\/]|$)|^[\\/]|^[A-Za-z]:|\x00")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Registry:
    """Content of `registry.json`, in schema 2."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The complete document, including unknown keys."""
    source: str = ""
    """Original text of the file; empty if it does not exist."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Kind of each loadable entry by name, in the order of the file."""
    schema: int = SCHEMA
    """Schema version of the file."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `library` block."""
        return cast(Mapping[str, Any], self.document.get("library", {}))

    def record(self, name: str) -> Mapping[str, Any]:
        """Return the record of an entry, or an empty mapping."""
        return cast(Mapping[str, Any], self.records.get(name, {}))

    @property
    def records(self) -> Mapping[str, Any]:
        """All records by name, including those of entries that cannot be loaded."""
        return cast(Mapping[str, Any], self.document.get("entries", {}))

    def describes(self, entry: Entry) -> bool:
        """Return whether an entry has the description of its record."""
        stated = self.record(entry.name).get("description")
        return isinstance(stated, str) and tidy(stated).strip() == entry.description

    def line(self, name: str) -> int | None:
        """Return the line on which an entry is registered, found by text search, or None."""
        return _line(self.source, name)


def print_registry(document: Mapping[str, Any]) -> str:
    """Format a registry as JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_registry(text: str, findings: Findings) -> Registry:
    """Parse a registry and collect all problems.

    Returns:
        The registry without entries that cannot be loaded; empty if the text is not a JSON object.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key in (key for key, count in Counter(key for key, _ in pairs).items() if count > 1):
            message = f"The key {shown(key)!r} occurs twice in one object."
            findings.error(message, _line(text, key), "Remove one of them.")
        return dict(pairs)

    try:
        document = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=unique, parse_constant=_no_constant)
        escaped_text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        line, reason = (error.lineno, error.msg) if isinstance(error, json.JSONDecodeError) else (None, str(error))
        findings.error(f"This is not valid JSON: {shown(reason)}.", line, "Correct the file.")
        return Registry()
    if not isinstance(document, dict):
        findings.error("This is not a JSON object.", 1, 'Write {"schema_version": 2, "entries": {}}.')
        return Registry()
    if _SURROGATE.search(escaped_text):
        findings.error("An escape sequence is a lone surrogate.", None, "Write the character itself.")
        return Registry()
    current = _as_schema_2(document, text, findings)
    if current is None:
        return Registry()
    kinds = _kinds(current["entries"], text, findings)
    return Registry(current, text, kinds, SCHEMA if current is document else 1)


def _as_schema_2(document: dict[str, Any], text: str, findings: Findings) -> dict[str, Any] | None:
    version = document.get("schema_version")
    entries = document.get("entries")
    if version is None and isinstance(entries, dict) and not {"type", "kind"} & entries.keys():
        findings.warning("There is no `schema_version`.", 1, 'Add "schema_version": 2.')
        version = SCHEMA
    if version is None or isinstance(version, dict):
        flat = {
            name: {"kind" if key == "type" and "kind" not in record else key: value for key, value in record.items()}
            if isinstance(record, dict)
            else record
            for name, record in document.items()
        }
        return {"schema_version": SCHEMA, "library": {}, "entries": flat}
    if version != SCHEMA or isinstance(version, bool):
        message = f"schema_version is {shown(json.dumps(version), 20)}; this version supports {SCHEMA} and 1."
        findings.error(message, _line(text, "schema_version"), "Use a package version that supports it.")
        return None
    if not isinstance(entries, dict):
        findings.error("`entries` is not an object of entries by name.", _line(text, "entries"), 'Add "entries": {}.')
        return None
    if not isinstance(document.get("library", {}), dict):
        findings.error("`library` is not an object.", _line(text, "library"), "Remove it, or make it an object.")
        return None
    return document


def _kinds(entries: Mapping[str, Any], text: str, findings: Findings) -> dict[str, Kind]:
    """Return the kinds of the entries that can be loaded. Their paths are derived, never read."""
    kinds: dict[str, Kind] = {}
    folded: dict[str, str] = {}
    if len(entries) > MAX_ENTRIES:
        findings.error(f"There are {len(entries)} entries; the limit is {MAX_ENTRIES}.", remedy="Remove entries.")
        return kinds

    def report(add: Callable[..., None], message: str, remedy: str) -> None:
        add(message, _line(text, name), remedy)

    for name, record in entries.items():
        fields = record if isinstance(record, dict) else {}
        kind, path = fields.get("kind"), fields.get("path")
        problem = loadable_name_problem(name)
        if problem:
            report(findings.error, problem, "Rename the entry and its folder.")
            continue
        if not isinstance(kind, str) or kind not in FOLDERS:
            report(findings.error, f"The `kind` of `{name}` is not skill or tool.", 'Add "kind": "skill" or "tool".')
            continue
        kinds[name] = cast(Kind, kind)
        twin = folded.setdefault(name.casefold(), name)
        if twin != name:
            message = f"`{name}` and `{twin}` differ only in case, which some file systems ignore."
            report(findings.error, message, "Rename one of them.")
        expected = f"{FOLDERS[kinds[name]]}/{name}/{ENTRY_FILE}"
        remedy = f'Set "path" to "{expected}".'
        if not isinstance(path, str):
            report(findings.warning, f"`{name}` has no `path`; {expected} is read.", remedy)
        elif _ESCAPES.search(path):
            report(findings.error, f"The path {shown(path)!r} of `{name}` is outside the Library.", remedy)
        elif path != expected:
            message = f"The path {shown(path)!r} of `{name}` is ignored; {expected} is read."
            report(findings.warning, message, remedy)
    return kinds


def _line(text: str, key: str) -> int | None:
    """Return the first line with a key; None if it is not found or contains escape sequences."""
    match = re.search(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")

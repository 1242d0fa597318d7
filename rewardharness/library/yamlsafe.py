"""Reads and writes the subset of YAML that Libraries use.

Untrusted YAML can contain tags that construct objects, exponentially expanding aliases, nesting that exhausts the
stack, and duplicate keys. Therefore the YAML package only produces events. This module checks each event and builds the
values. Plain scalars follow the core schema of YAML 1.2, so that the value of `name: no` is the text "no".

The C parser is ten times faster than the one in Python, but accepts slightly different documents, and nested input can
crash it. It reads only text in which both are known to agree (`_UNSURE`), is stopped at nested flow collections, and
reports no errors: whatever it does not accept is read by the parser in Python.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from rewardharness.errors import LibraryError, shown
from rewardharness.library.problems import FormatError, Problem

MAX_DEPTH = 8
"""Maximum nesting depth of mappings and lists."""
MAX_NODES = 5000
"""Maximum number of values in one document."""

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+][0-9]{1,3})?")
_WORD = re.compile(r"[A-Za-z]{1,20}")
_UNUSUAL_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSURE = re.compile(
    "[^\n -~\xa1-\u1fff\u2010-\u2027\u2030-\ud7ff\uf900-\ufdff\uff00-\uffef\U00010000-\U0001ffff]"  # control characters
    r"|^[ -]*[?&*!%]|^---|^\.\.\.|[:,] *[&*!?]"  # complex keys, anchors, tags, directives, several documents
    r"|[|>][-+0-9]*#"  # a comment directly after the indicator of a block
    r"|\A[^\"]*\"[^\\]*\\|\A[^\\]*\\[^\"]*\"",  # escapes
    re.MULTILINE,
)
"""Text that only the parser in Python reads."""
_FLOW_WORD = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""Values in `[...]` that the C parser reads."""
_REMEDY = "Quote text that contains `: ` or ` #`, or that starts with a special character."

Path = tuple[str | int, ...]
"""Location of a value in a document: keys and indexes from the root."""


class ValueLocation(NamedTuple):
    """Line and source text of a value. There is one per value, and a tuple is made faster than a frozen dataclass."""

    line: int
    """Line in the file, counted from 1."""
    raw: str | None
    """Source text of a scalar; None for mappings and lists."""


@dataclass(frozen=True)
class Document:
    """A parsed mapping with the location of each value."""

    value: Mapping[str, Any]
    places: Mapping[Path, ValueLocation]

    def line(self, *path: str | int) -> int | None:
        """Return the first line of a value, or None if it does not exist."""
        place = self.places.get(path)
        return place.line if place else None

    def text(self, *path: str | int) -> str | None:
        """Return the source text of a scalar; None for any other value."""
        place = self.places.get(path)
        return place.raw if place else None


def read_yaml(text: str, *, where: str, first_line: int = 1) -> Document:
    """Parse one YAML mapping.

    Args:
        text: The document.
        where: File name for messages.
        first_line: First line of the document in the file.

    Returns:
        The mapping. Keys are text; values are text, integers, floats, booleans, null, lists, and mappings.

    Raises:
        FormatError: If the text is not a valid mapping, or uses a construct that is not allowed: anchors, aliases,
            tags, merge keys, directives, duplicate keys, several documents, more than `MAX_DEPTH` levels, or more than
            `MAX_NODES` values.
    """
    return _read_fast(text, where, first_line) or _read(text, where, first_line)


def _read_fast(text: str, where: str, first_line: int) -> Document | None:
    """Parse with the C parser; return None for text that it must not read or does not accept."""
    if _FastEvents is None or _UNSURE.search(text):
        return None
    builder = _Builder(where, first_line, fast=True)
    with suppress(yaml.YAMLError, FormatError, _UnsureError, ValueError, OverflowError):
        value = builder.document(_FastEvents(text))
        return Document(value, builder.places) if isinstance(value, dict) else None
    return None


def _read(text: str, where: str, first_line: int) -> Document:
    builder = _Builder(where, first_line)
    try:
        loader = _Events(text)
        try:
            value = builder.document(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + first_line
        raise builder.error(f"Not valid YAML: {shown(str(error.problem))}.", line, _REMEDY) from None
    except yaml.reader.ReaderError as error:
        line = first_line + text.count("\n", 0, error.position)
        message = f"The character U+{ord(text[error.position]):04X} is not allowed in YAML."
        raise builder.error(message, line, "Remove it.") from None
    except (ValueError, OverflowError):  # raised by PyYAML for input such as "\\U99999999"
        raise builder.error("Not valid YAML: an escape or a number is out of range.", None, _REMEDY) from None
    if not isinstance(value, dict):
        raise builder.error("This is not a mapping of keys to values.", first_line, "Write `key: value` lines.")
    return Document(value, builder.places)


def print_yaml(value: Mapping[str, Any]) -> str:
    """Format a mapping as YAML in the given key order. `read_yaml` is the inverse.

    Raises:
        LibraryError: If a value is not text, a number, a boolean, null, a list, or a mapping.
    """
    try:
        return yaml.dump(
            dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10**6
        )
    except (yaml.YAMLError, RecursionError) as error:
        raise LibraryError(f"This cannot be written as YAML: {error}.", next_step="Use plain values.") from None


_FastEvents: Any = getattr(getattr(yaml, "cyaml", None), "CParser", None)
"""The C parser; None where PyYAML was installed without it."""


class _UnsureError(Exception):
    """A document contains a construct that the C parser must not read."""


class _Events(yaml.SafeLoader):
    """Produces the events of a document; its constructor is not used.

    The methods are equivalent to those of the base class and faster in the common case.
    """

    def forward(self, length: int = 1) -> None:
        """Advance by some characters."""
        end = self.pointer + length
        if end + 1 < len(self.buffer) and self.buffer[self.pointer : end].isprintable():  # no line break among them
            self.pointer = end
            self.index += length
            self.column += length
        else:
            super().forward(length)

    def need_more_tokens(self) -> bool:
        """Return whether the next token must be scanned."""
        if self.tokens and not self.possible_simple_keys:
            return False
        return bool(super().need_more_tokens())


@dataclass
class _Builder:
    """Builds values from events and records their locations."""

    where: str
    first_line: int
    places: dict[Path, ValueLocation] = field(default_factory=dict)
    nodes: int = 0
    fast: bool = False
    """Whether the events are those of the C parser."""

    def error(self, message: str, line: int | None, remedy: str = "") -> FormatError:
        return FormatError(Problem("error", self.where, line, message, remedy))

    def document(self, loader: Any) -> Any:
        # The YAML package has no types for its events, hence `Any`.
        loader.get_event()  # the start of the stream
        if loader.check_event(yaml.StreamEndEvent):
            return None
        start = loader.get_event()
        if start.version or start.tags:
            raise self.error("A YAML directive (`%`) is not allowed.", self.first_line, "Remove it.")
        value = self._value(loader, loader.get_event(), ())
        loader.get_event()  # the end of the document
        if not loader.check_event(yaml.StreamEndEvent):
            line = loader.peek_event().start_mark.line + self.first_line
            raise self.error("There is more than one YAML document.", line, "Keep one.")
        return value

    def _value(self, loader: Any, event: Any, path: Path) -> Any:
        line = event.start_mark.line + self.first_line
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self.error("A YAML anchor or alias (`&`, `*`) is not allowed.", line, "Write the value out.")
        if getattr(event, "tag", None) is not None:
            raise self.error(f"The YAML tag {shown(event.tag)} is not allowed.", line, "Remove the tag.")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.error(f"There are more than {MAX_NODES} values.", line, "Shorten the document.")
        if isinstance(event, yaml.ScalarEvent):
            self.places[path] = ValueLocation(line, self._valid_text(event.value, line))
            return _typed(event)
        if len(path) >= MAX_DEPTH:
            raise self.error(f"Values are nested more than {MAX_DEPTH} levels deep.", line, "Flatten them.")
        self.places[path] = ValueLocation(line, None)
        flow = self.fast and event.flow_style
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(following := loader.get_event(), yaml.SequenceEndEvent):
                if flow and not _is_flow_word(following):
                    raise _UnsureError
                items.append(self._value(loader, following, (*path, len(items))))
            return items
        if flow:
            raise _UnsureError
        mapping: dict[str, Any] = {}
        while not isinstance(following := loader.get_event(), yaml.MappingEndEvent):
            key = self._key(following, mapping)
            mapping[key] = self._value(loader, loader.get_event(), (*path, key))
        return mapping

    def _key(self, event: Any, mapping: Mapping[str, Any]) -> str:
        line = event.start_mark.line + self.first_line
        if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
            raise self.error("A key is not plain text.", line, "Use a word as the key.")
        if event.value == "<<" and not event.style:
            raise self.error("A YAML merge key (`<<`) is not allowed.", line, "Write the keys out.")
        if event.value in mapping:
            raise self.error(f"The key `{shown(event.value)}` occurs twice.", line, "Remove one of them.")
        return self._valid_text(event.value, line)

    def _valid_text(self, text: str, line: int) -> str:
        # Escape sequences can encode lone surrogates, which cannot be written to a file.
        if _SURROGATE.search(text):
            raise self.error("An escape sequence is a lone surrogate.", line, "Write the character itself.")
        return text


def _is_flow_word(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and not event.style and _FLOW_WORD.fullmatch(event.value) is not None


def _typed(event: Any) -> Any:
    """Convert a plain scalar to its type. Quoted and ambiguous scalars remain text."""
    text: str = event.value
    if event.style:
        return text
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    if text in {"true", "True", "TRUE"}:
        return True
    if text in {"false", "False", "FALSE"}:
        return False
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block, short lists on one line, and no anchors or aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that shared values are repeated."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _UNUSUAL_BREAKS.search(text):
        style = '"'  # the only style that preserves them
    elif "\n" in text and not text[0].isspace():
        style = "|"  # text that begins with whitespace would need an indentation indicator
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    short = all(isinstance(item, int | float) or (isinstance(item, str) and _WORD.fullmatch(item)) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)

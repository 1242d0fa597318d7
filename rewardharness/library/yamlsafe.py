"""Reads the small part of YAML that Libraries use, and writes it.

Untrusted text can hurt a YAML loader in many ways: tags that construct objects, aliases that unfold without end,
nesting that exhausts the stack, keys that hide earlier ones. So nothing is constructed by the YAML package. Its
pure Python parser only yields events (the C parser can be made to crash), and values are built from those here,
after each event has passed the checks. Plain scalars follow the core schema of YAML 1.2, so that `name: no` stays
the word "no".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from rewardharness.errors import LibraryError, shown
from rewardharness.library.problems import FormatError, Problem

MAX_DEPTH = 8
"""Mappings and lists inside one another, at most."""
MAX_NODES = 5000
"""Values of one document, at most."""

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+][0-9]{1,3})?")
_WORD = re.compile(r"[A-Za-z]{1,20}")
_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REMEDY = "Quote text that holds `: `, ` #` or starts with a special character."

Path = tuple[str | int, ...]
"""Where a value stands in a document: keys and positions from the top."""


@dataclass(frozen=True)
class Place:
    """Where a value was written, and how."""

    line: int
    """Counted from 1 in the file."""
    raw: str | None
    """The text of a scalar before its type was read from it; None for mappings and lists."""


@dataclass(frozen=True)
class Document:
    """A mapping that was read, with the place of each value in it."""

    value: Mapping[str, Any]
    places: Mapping[Path, Place]

    def line(self, *path: str | int) -> int | None:
        """Return the line on which a value begins, or None for a value that is not there."""
        place = self.places.get(path)
        return place.line if place else None

    def text(self, *path: str | int) -> str | None:
        """Return a scalar as it was written, whatever type it looks like; None for anything else."""
        place = self.places.get(path)
        return place.raw if place else None


def read_yaml(text: str, *, where: str, first_line: int = 1) -> Document:
    """Read one YAML mapping.

    Args:
        text: The document.
        where: The file, for messages.
        first_line: Line of the file on which the document begins.

    Returns:
        The mapping: keys are text; values are text, whole numbers, fractions, true, false, null, lists, mappings.

    Raises:
        FormatError: If it is not a mapping, is not valid, or uses what is refused: anchors, aliases, tags, merge
            keys, directives, keys given twice, several documents, more than `MAX_DEPTH` levels or `MAX_NODES` values.
    """
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
        raise builder.refusal(f"Not valid YAML: {shown(str(error.problem))}.", line, _REMEDY) from None
    except yaml.reader.ReaderError as error:
        line = first_line + text.count("\n", 0, error.position)
        message = f"The character U+{ord(text[error.position]):04X} is not allowed in YAML."
        raise builder.refusal(message, line, "Remove it.") from None
    except (ValueError, OverflowError):  # the parser does not foresee all nonsense, such as "\\U99999999"
        raise builder.refusal("Not valid YAML: an escape or a number is out of range.", None, _REMEDY) from None
    if not isinstance(value, dict):
        raise builder.refusal("This is not a mapping of keys to values.", first_line, "Write `key: value` lines.")
    return Document(value, builder.places)


def print_yaml(value: Mapping[str, Any]) -> str:
    """Write a mapping as YAML that `read_yaml` reads back as the same mapping, keys in the given order.

    Raises:
        LibraryError: If it holds something else than text, numbers, true, false, null, lists and mappings.
    """
    try:
        return yaml.dump(
            dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10**6
        )
    except (yaml.YAMLError, RecursionError) as error:
        raise LibraryError(f"This cannot be written as YAML: {error}.", next_step="Use plain values.") from None


class _Events(yaml.SafeLoader):
    """Yields the events of a document. Its constructor is never used.

    The two methods do what they do in the base class, with a short way for the common case.
    """

    def forward(self, length: int = 1) -> None:
        """Go on by some characters."""
        end = self.pointer + length
        if end + 1 < len(self.buffer) and self.buffer[self.pointer : end].isprintable():  # no line break among them
            self.pointer = end
            self.index += length
            self.column += length
        else:
            super().forward(length)

    def need_more_tokens(self) -> bool:
        """Whether the next token is not known yet."""
        if self.tokens and not self.possible_simple_keys:
            return False
        return bool(super().need_more_tokens())


@dataclass
class _Builder:
    """Builds values from events and remembers where each was written."""

    where: str
    first_line: int
    places: dict[Path, Place] = field(default_factory=dict)
    nodes: int = 0

    def refusal(self, message: str, line: int | None, remedy: str = "") -> FormatError:
        return FormatError(Problem("error", self.where, line, message, remedy))

    def document(self, loader: Any) -> Any:
        # The YAML package has no types for its events, hence `Any`.
        loader.get_event()  # the start of the stream
        if loader.check_event(yaml.StreamEndEvent):
            return None
        start = loader.get_event()
        if start.version or start.tags:
            raise self.refusal("A YAML directive (`%`) is not allowed.", self.first_line, "Remove it.")
        value = self._value(loader, loader.get_event(), ())
        loader.get_event()  # the end of the document
        if not loader.check_event(yaml.StreamEndEvent):
            line = loader.peek_event().start_mark.line + self.first_line
            raise self.refusal("There is more than one YAML document.", line, "Keep one.")
        return value

    def _value(self, loader: Any, event: Any, path: Path) -> Any:
        line = event.start_mark.line + self.first_line
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self.refusal("A YAML anchor or alias (`&`, `*`) is not allowed.", line, "Write the value out.")
        if getattr(event, "tag", None) is not None:
            raise self.refusal(f"The YAML tag {shown(event.tag)} is not allowed.", line, "Remove the tag.")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.refusal(f"There are more than {MAX_NODES} values.", line, "Shorten the document.")
        if isinstance(event, yaml.ScalarEvent):
            self.places[path] = Place(line, self._sound(event.value, line))
            return _typed(event)
        if len(path) >= MAX_DEPTH:
            raise self.refusal(f"Values are nested more than {MAX_DEPTH} levels deep.", line, "Flatten them.")
        self.places[path] = Place(line, None)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(following := loader.get_event(), yaml.SequenceEndEvent):
                items.append(self._value(loader, following, (*path, len(items))))
            return items
        mapping: dict[str, Any] = {}
        while not isinstance(following := loader.get_event(), yaml.MappingEndEvent):
            key = self._key(following, mapping)
            mapping[key] = self._value(loader, loader.get_event(), (*path, key))
        return mapping

    def _key(self, event: Any, mapping: Mapping[str, Any]) -> str:
        line = event.start_mark.line + self.first_line
        if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
            raise self.refusal("A key is not plain text.", line, "Use a word as the key.")
        if event.value == "<<" and event.style is None:
            raise self.refusal("A YAML merge key (`<<`) is not allowed.", line, "Write the keys out.")
        if event.value in mapping:
            raise self.refusal(f"The key `{shown(event.value)}` is given twice.", line, "Keep one of the two.")
        return self._sound(event.value, line)

    def _sound(self, text: str, line: int) -> str:
        # Escapes can spell halves of surrogate pairs, which no file can hold.
        if _SURROGATE.search(text):
            raise self.refusal("An escape names half a character (a surrogate).", line, "Write the character itself.")
        return text


def _typed(event: Any) -> Any:
    """Read the type of a plain scalar; quoted text and whatever is not certain stay text."""
    text: str = event.value
    if event.style is not None:
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
    """Writes text of several lines as a block, short lists on one line, and never an anchor or alias."""

    def ignore_aliases(self, data: Any) -> bool:
        """Say that no value is shared."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _ODD_BREAKS.search(text):
        style = '"'  # the only style that escapes them; the others turn them into plain line breaks
    elif "\n" in text and not text[0].isspace():
        style = "|"  # a block that begins with white space would need an indentation mark, which is hard on people
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    short = all(isinstance(item, int | float) or (isinstance(item, str) and _WORD.fullmatch(item)) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)

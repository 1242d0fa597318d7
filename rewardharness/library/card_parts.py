"""Parts of a card: escaped text, tables, generated blocks, and the header."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from rewardharness.errors import LibraryError
from rewardharness.library.plaintext import one_line, unix_lines
from rewardharness.library.problems import FormatError
from rewardharness.library.yamlsafe import print_yaml, read_yaml

_SAFE = frozenset(" ,.;:?!%/'\"()-+=")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_MARK = re.compile(r"^<!-- rh:(begin|end) ([a-z]{1,20}) -->[ \t]*$", re.MULTILINE)
_GENERATED_MODEL_INDEX = re.compile(r".* \(Library [0-9a-f]{12}\)")
_REMEDY = "Correct README.md, or move it elsewhere to generate a new one."

Header = dict[str, Any]


def foreign(text: str, limit: int = 300) -> str:
    """Escape untrusted text for Markdown. The result is one line without markup, HTML, and automatic links.

    Args:
        text: The text.
        limit: Maximum length in characters; longer text is truncated.
    """
    line = one_line(text, limit)
    return "".join(char if _is_safe(char) else f"&#{ord(char)};" for char in line)


def _is_safe(char: str) -> bool:
    return char in _SAFE or unicodedata.category(char)[0] in "LMN" or not (char.isascii() or char.isspace())


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table. The cells are markup, so untrusted text in them must be escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill_template(name: str, values: Mapping[str, str]) -> str:
    """Return a file of `hub_templates` with its placeholders `{{key}}` replaced by the values."""
    template = files("hub_templates").joinpath(name).read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


@dataclass(frozen=True)
class Card:
    """A card, split into its parts."""

    header: Header
    parts: tuple[tuple[str, str], ...]
    """Name and text of each generated block and of the text between blocks, whose name is empty."""

    @property
    def blocks(self) -> dict[str, str]:
        """The generated blocks by name, including their markers."""
        return {name: text for name, text in self.parts if name}


def read_card(text: str) -> Card:
    """Parse a card.

    Raises:
        LibraryError: If the header is invalid, or the marker of a block is missing or duplicated.
    """
    header, body = _split_header(unix_lines(text.removeprefix("\ufeff")))
    parts: list[tuple[str, str]] = []
    position, opened = 0, ""
    for mark in _MARK.finditer(body):
        kind, name = mark.groups()
        begins = kind == "begin"
        if begins == bool(opened) or (not begins and name != opened):
            raise LibraryError(f"README.md: `rh:{kind} {name}` has no matching marker.", next_step=_REMEDY)
        if begins and any(name == earlier for earlier, _ in parts):
            raise LibraryError(f"README.md: the block `{name}` occurs twice.", next_step="Remove one of them.")
        end = mark.start() if begins else mark.end()
        parts.append((opened, body[position:end]))
        opened, position = name if begins else "", end
    if opened:
        raise LibraryError(f"README.md: the block `{opened}` has no end marker.", next_step=_REMEDY)
    return Card(header, (*parts, ("", body[position:])))


def _split_header(text: str) -> tuple[Header, str]:
    if text.split("\n", 1)[0].rstrip() != "---":
        return {}, text
    end = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, 4)
    if end is None:
        raise LibraryError("README.md: the header has no closing line `---`.", next_step=_REMEDY)
    front, body = text[4 : end.start()], text[end.end() :]
    try:
        return dict(read_yaml(front, where="README.md", first_line=2).value) if front.strip() else {}, body
    except FormatError as error:
        raise LibraryError(error.message, next_step=error.next_step or _REMEDY) from None


def update_card(text: str, existing: str) -> str:
    """Return a generated card with the hand-written text of an existing card.

    Blocks that the existing card does not contain are appended. Tags are combined, results of this project are
    replaced, and the existing license and language are kept.

    Raises:
        LibraryError: If the existing card is invalid.
    """
    new = read_card(text)
    old = read_card(existing) if existing.strip() else new
    parts = [(name, new.blocks.get(name, text)) for name, text in old.parts]
    for name in (name for name in new.blocks if name not in old.blocks):
        last = parts[-1][1]
        gap = "" if not last or last.endswith("\n\n") else "\n" if last.endswith("\n") else "\n\n"
        parts += [("", gap), (name, new.blocks[name]), ("", "\n")]
    return f"---\n{print_yaml(_merged_header(new.header, old.header))}---\n" + "".join(text for _, text in parts)


def _merged_header(new: Header, old: Header) -> Header:
    kept: Header = {key: (old if key in old else new)[key] for key in ("license", "language") if key in {**new, **old}}
    header: Header = {**old, **{key: value for key, value in new.items() if key not in kept}, **kept}
    tags: list[Any] = old["tags"] if isinstance(old.get("tags"), list) else []
    index: list[Any] = old["model-index"] if isinstance(old.get("model-index"), list) else []
    header["tags"] = list(dict.fromkeys([*new.get("tags", []), *(tag for tag in tags if isinstance(tag, str))]))
    index = [entry for entry in index if not _is_generated(entry)] + new.get("model-index", [])
    header.pop("model-index", None)
    return {**header, "model-index": index} if index else header


def _is_generated(entry: Any) -> bool:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return isinstance(name, str) and _GENERATED_MODEL_INDEX.fullmatch(name) is not None

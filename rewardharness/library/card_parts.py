"""The parts that a card is put together from: foreign text made harmless, tables, generated blocks, the header."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewardharness.errors import LibraryError
from rewardharness.library.plaintext import unix_lines, unseen
from rewardharness.library.problems import FormatError
from rewardharness.library.yamlsafe import print_yaml, read_yaml

_HARMLESS = frozenset(" ,.;:?!%/'\"()-+=")
_WEB = re.compile(r"://+")
_WWW = re.compile(r"(?i)(?<![^\W_])www(?=\.)")
_AT = re.compile(r"(?<=\S)@(?=\S)")
_MARK = re.compile(r"^<!-- rh:(begin|end) ([a-z]{1,20}) -->[ \t]*$", re.MULTILINE)
_OUR_MODEL_INDEX = re.compile(r".* \(Library [0-9a-f]{12}\)")
_REMEDY = "Correct README.md, or move it away and let it be written anew."

Header = dict[str, Any]


def foreign(text: str, limit: int = 300) -> str:
    """Make foreign text harmless in Markdown: one line that holds no markup, no HTML and nothing that becomes a link.

    Args:
        text: The text.
        limit: Its length, at most; the rest is cut off.
    """
    line = one_line(text, limit)
    return "".join(char if _harmless(char) else f"&#{ord(char)};" for char in line)


def one_line(text: str, limit: int = 300) -> str:
    """Put foreign text on one line of at most `limit` characters, without what is not seen and without addresses.

    It may still hold markup. Some readers look for addresses after escapes are resolved, so these are broken up for
    good.
    """
    hidden = {offset for offset, _ in unseen(text)}
    line = " ".join("".join(char for offset, char in enumerate(text) if offset not in hidden).split())
    line = line if len(line) <= limit else line[: limit - 1] + "…"
    return _AT.sub(" @ ", _WWW.sub("www ", _WEB.sub(": //", line)))


def _harmless(char: str) -> bool:
    return char in _HARMLESS or unicodedata.category(char)[0] in "LMN" or not (char.isascii() or char.isspace())


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are markup whose foreign parts are harmless."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True)
class Card:
    """A card in its parts."""

    header: Header
    parts: tuple[tuple[str, str], ...]
    """Name and text of each generated block, and of what stands between them, which has the name ``."""

    @property
    def blocks(self) -> dict[str, str]:
        """The generated blocks by name, with their marks."""
        return {name: text for name, text in self.parts if name}


def read_card(text: str) -> Card:
    """Take a card apart.

    Raises:
        LibraryError: If its header cannot be read, or the mark of a block is missing or there twice.
    """
    header, body = split_header(unix_lines(text.removeprefix("\ufeff")))
    parts: list[tuple[str, str]] = []
    position, opened, start = 0, "", 0
    for mark in _MARK.finditer(body):
        kind, name = mark.groups()
        if (kind == "begin") == bool(opened) or (kind == "end" and name != opened):
            message = f"README.md: `rh:{kind} {name}` has no counterpart where it stands."
            raise LibraryError(message, next_step=_REMEDY)
        if kind == "begin":
            opened, start = name, mark.start()
            parts.append(("", body[position:start]))
        else:
            if any(name == other for other, _ in parts):
                raise LibraryError(f"README.md: the block `{name}` is there twice.", next_step="Remove one.")
            parts.append((name, body[start : mark.end()]))
            opened, position = "", mark.end()
    if opened:
        raise LibraryError(f"README.md: the block `{opened}` has no end.", next_step=_REMEDY)
    parts.append(("", body[position:]))
    return Card(header, tuple(parts))


def split_header(text: str) -> tuple[Header, str]:
    """Split a card into its YAML header and the rest.

    Raises:
        LibraryError: If the header cannot be read.
    """
    if text.split("\n", 1)[0].rstrip() != "---":
        return {}, text
    end = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, 4)
    if end is None:
        raise LibraryError("README.md: the header has no closing line `---`.", next_step=_REMEDY)
    front = text[4 : end.start()]
    if not front.strip():
        return {}, text[end.end() :]
    try:
        return dict(read_yaml(front, where="README.md", first_line=2).value), text[end.end() :]
    except FormatError as error:
        message = f"{error.problem.place}: {error.problem.message}"
        raise LibraryError(message, next_step=error.problem.remedy or _REMEDY) from None


def print_card(card: Card) -> str:
    """Put a card together."""
    return f"---\n{print_yaml(card.header)}---\n" + "".join(text for _, text in card.parts)


def combine(new: Card, existing: Card) -> Card:
    """Put newly generated blocks into an existing card, and leave all else in it as it is.

    A block that the existing card does not have goes to its end.
    """
    fresh = new.blocks
    parts = [(name, fresh.get(name, text)) for name, text in existing.parts]
    have = {name for name, _ in parts}
    missing = [(name, text) for name, text in fresh.items() if name not in have]
    for name, text in missing:
        before = parts[-1][1]
        gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
        parts += [("", gap), (name, text), ("", "\n")]
    return Card(combine_headers(new.header, existing.header), tuple(parts))


def combine_headers(new: Header, existing: Header) -> Header:
    """Bring a generated header up to date with what people wrote into the existing one.

    Tags are joined; results of this project are replaced; licence and language stay as they were written.
    """
    header = {**existing, **{key: value for key, value in new.items() if key not in {"license", "language"}}}
    for key in ("license", "language"):
        if key in new or key in existing:
            header[key] = existing.get(key, new.get(key))
    tags = existing.get("tags")
    tags = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    header["tags"] = list(dict.fromkeys([*new.get("tags", []), *tags]))
    index = existing.get("model-index")
    index = index if isinstance(index, list) else []
    index = [each for each in index if not _is_ours(each)] + new.get("model-index", [])
    header.pop("model-index", None)
    return {**header, "model-index": index} if index else header


def hand_written(text: str, generated: Header) -> tuple[str, str]:
    """What people wrote in a card: the text outside the blocks, and the header without what is generated."""
    if not text.strip():
        return "", ""
    card = read_card(text)
    own = {key: value for key, value in card.header.items() if key not in {*generated, "model-index"}}
    return re.sub(r"\s+", " ", "".join(text for name, text in card.parts if not name)).strip(), print_yaml(own)


def _is_ours(entry: Any) -> bool:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return isinstance(name, str) and _OUR_MODEL_INDEX.fullmatch(name) is not None

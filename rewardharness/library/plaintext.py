"""Text as it is kept, and the characters in it that a reader does not see."""

import re
import unicodedata
from collections.abc import Iterator

# Between letters of these scripts, or between emoji, a zero-width joiner has a use.
_JOINERS = "\u200c\u200d"
_SUSPECT = re.compile(r"[^\n\t -~]")


def unix_lines(text: str) -> str:
    """Return a text with its lines ended by line feeds alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tidy(text: str) -> str:
    """Return a text in the form in which it is compared and shown to judges.

    Lines end with a line feed, characters are composed (Unicode NFC), blank lines before the text and white
    space after it are gone. An indented first line stays indented, since Markdown gives that a meaning.
    """
    text = unicodedata.normalize("NFC", unix_lines(text)).rstrip()
    blank = re.match(r"(?:[^\S\n]*\n)+", text)
    return text[blank.end() :] if blank else text


def unseen(text: str) -> Iterator[tuple[int, str]]:
    """Find characters that are invisible, change the direction of text, or have no meaning of their own.

    Control characters other than tab and line feed, format characters (bidirectional overrides, zero-width
    spaces, tag characters), private-use and unassigned code points. Joiners between characters beyond ASCII are
    passed over: emoji and several scripts are written with them.

    Yields:
        Offset and character.
    """
    for found in _SUSPECT.finditer(text):
        char, offset = found.group(), found.start()
        if unicodedata.category(char) not in {"Cc", "Cf", "Co", "Cn", "Cs"}:
            continue
        around = text[max(0, offset - 1) : offset] + text[offset + 1 : offset + 2]
        if char in _JOINERS and len(around) == 2 and not any(side.isascii() for side in around):
            continue
        yield offset, char


def code_point(char: str) -> str:
    """Name a character that may be invisible, as in `U+202E RIGHT-TO-LEFT OVERRIDE`."""
    return f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip()

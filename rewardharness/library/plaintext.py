"""Text normalization and detection of invisible characters."""

import re
import unicodedata
from collections.abc import Iterator

# Zero-width joiners are legitimate between non-ASCII letters and between emoji.
_JOINERS = "\u200c\u200d"
_SUSPECT = re.compile(r"[^\n\t -~]")
_WEB = re.compile(r"://+")
_WWW = re.compile(r"(?i)(?<![^\W_])www(?=\.)")
_AT = re.compile(r"(?<=\S)@(?=\S)")


def unix_lines(text: str) -> str:
    """Return the text with all line endings converted to line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tidy(text: str) -> str:
    """Return the text in the normalized form that is compared and shown to judges.

    Normalization converts line endings to line feeds, composes characters (Unicode NFC), and removes leading blank
    lines and trailing whitespace. The indentation of the first line is kept because it has a meaning in Markdown.
    """
    text = unicodedata.normalize("NFC", unix_lines(text)).rstrip()
    blank = re.match(r"(?:[^\S\n]*\n)+", text)
    return text[blank.end() :] if blank else text


def invisible(text: str) -> Iterator[tuple[int, str]]:
    """Find characters that are invisible, change the text direction, or have no defined meaning.

    These are control characters other than tab and line feed, format characters (bidirectional overrides,
    zero-width spaces, tag characters), and private-use and unassigned code points. Joiners between non-ASCII
    characters are ignored because emoji and several scripts need them.

    Yields:
        Offset and character.
    """
    for match in _SUSPECT.finditer(text):
        char, offset = match.group(), match.start()
        if unicodedata.category(char) not in {"Cc", "Cf", "Co", "Cn", "Cs"}:
            continue
        neighbors = text[max(0, offset - 1) : offset] + text[offset + 1 : offset + 2]
        if char in _JOINERS and len(neighbors) == 2 and not any(neighbor.isascii() for neighbor in neighbors):
            continue
        yield offset, char


def one_line(text: str, limit: int = 300) -> str:
    """Convert untrusted text to one line of at most `limit` characters without invisible characters and addresses.

    The line may contain markup. Addresses are split with spaces because some renderers detect them even if they are
    escaped.
    """
    hidden = {offset for offset, _ in invisible(text)}
    line = " ".join("".join(char for offset, char in enumerate(text) if offset not in hidden).split())
    line = line if len(line) <= limit else line[: limit - 1] + "…"
    return _AT.sub(" @ ", _WWW.sub("www ", _WEB.sub(": //", line)))

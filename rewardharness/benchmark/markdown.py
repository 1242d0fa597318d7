"""Foreign text in a report: inert where Markdown is rendered, as on GitHub, and readable where it is not.

The card of a Library writes every doubtful character as `&#95;`. A report is also read in an editor and in a terminal,
so here only what would be markup where it stands is escaped, with a backslash (CommonMark 0.31, section 2.4).
"""

import re

from rewardharness.library.card_parts import one_line

_ALWAYS = re.compile(r"[\\`*<|~$]")
_LINK = re.compile(r"^\[|\](?=[(\[:])")
"""Brackets that could make a link, define one, or tick a box. Of all others Markdown makes nothing."""
_REFERENCE = re.compile(r"&(?=#|[A-Za-z])")
_EMPHASIS = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
"""Underscores that do not stand between letters or digits."""
_HASHES = re.compile(r"(?<!\S)#")
_BLOCK = re.compile(r"^(?=[>=:]|[+-](?: |$)|--)")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?: |$))")
_MENTION = re.compile(r"@(?=\w)")


def inert(text: str, limit: int = 300) -> str:
    """Write foreign text so that it renders as what it says: no markup, no HTML, no link, no cell of a table.

    Args:
        text: The text.
        limit: Its length, at most; the rest is cut off.
    """
    line = _MENTION.sub("@ ", one_line(text, limit))
    line = _ALWAYS.sub(lambda found: "\\" + found[0], line)
    line = _LINK.sub(lambda found: "\\" + found[0], line)
    line = _HASHES.sub(r"\\#", _REFERENCE.sub(r"\\&", line))
    line = _EMPHASIS.sub(lambda found: "\\_" * len(found[0]), line)
    return _NUMBERED.sub(r"\1\\", _BLOCK.sub(r"\\", line))

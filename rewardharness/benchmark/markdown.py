"""Escaping of untrusted text for Markdown reports that are also read as plain text.

Only characters that are markup in their place are escaped, with a backslash (CommonMark 0.31, section 2.4). Library
cards escape more strictly.
"""

import re

from rewardharness.library.card_parts import one_line

_ALWAYS = re.compile(r"[\\`*<|~$]")
_LINK = re.compile(r"^\[|\](?=[(\[:])")
"""Brackets that may form a link, a link definition, or a task list item."""
_REFERENCE = re.compile(r"&(?=#|[A-Za-z])")
_EMPHASIS = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
"""Underscores that are not between letters or digits."""
_HASHES = re.compile(r"(?<!\S)#")
_BLOCK = re.compile(r"^(?=[>=:]|[+-](?: |$)|--)")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?: |$))")
_MENTION = re.compile(r"@(?=\w)")


def inert(text: str, limit: int = 300) -> str:
    """Escape untrusted text: no markup, no HTML, no links, no table cells.

    Args:
        text: The text.
        limit: Maximum length; longer text is truncated.
    """
    line = _MENTION.sub("@ ", one_line(text, limit))
    line = _ALWAYS.sub(lambda match: "\\" + match[0], line)
    line = _LINK.sub(lambda match: "\\" + match[0], line)
    line = _HASHES.sub(r"\\#", _REFERENCE.sub(r"\\&", line))
    line = _EMPHASIS.sub(lambda match: "\\_" * len(match[0]), line)
    return _NUMBERED.sub(r"\1\\", _BLOCK.sub(r"\\", line))

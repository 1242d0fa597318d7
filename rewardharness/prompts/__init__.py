"""Every prompt is a Markdown file in this folder, with named placeholders written as `{{name}}`.

Files `task_*.md` hold the wording of a task, one phrase per heading, which fills in placeholders of the other prompts.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from rewardharness.files import sha256

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")
_SECTION = re.compile(r"^## ([a-z_]+)\n", re.MULTILINE)
_NONE: Mapping[str, str] = {}


def load(name: str, wording: Mapping[str, str] = _NONE, /, **values: str) -> str:
    """Fill in a prompt.

    Values are put in as they are, also when they contain braces: nothing in them is looked up again.

    Args:
        name: The prompt's file name without `.md`.
        wording: Phrases of a task (see `sections`) for placeholders without a value; the rest of them is not used.
        **values: One text for each other placeholder.

    Raises:
        ValueError: If a placeholder has no value, or a value no placeholder.
    """
    text = _text(name)
    wanted = set(_PLACEHOLDER.findall(text))
    values = {**{key: phrase for key, phrase in wording.items() if key in wanted}, **values}
    if wanted != set(values):
        raise ValueError(f"prompt {name!r} takes {sorted(wanted)}, got {sorted(values)}")
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)


@cache
def sections(name: str) -> Mapping[str, str]:
    """Return the phrases of a file with the wording of a task, by their headings."""
    _, *parts = _SECTION.split(_text(name))
    return {key: phrase.strip() for key, phrase in zip(parts[::2], parts[1::2], strict=True)}


@cache
def version(*names: str) -> str:
    """Identify the wording of some prompts: a content id over their files."""
    return sha256("\0".join(_text(name) for name in names).encode("utf-8"))


@cache
def _text(name: str) -> str:
    return (files(__package__) / f"{name}.md").read_text(encoding="utf-8").strip()

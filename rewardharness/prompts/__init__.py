"""Every prompt is a Markdown file in this folder, with named placeholders written as `{{name}}`."""

import re
from functools import cache
from importlib.resources import files

from rewardharness.files import sha256

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")


def load(name: str, /, **values: str) -> str:
    """Fill in a prompt.

    Values are put in as they are, also when they contain braces: nothing in them is looked up again.

    Args:
        name: The prompt's file name without `.md`.
        **values: One text for each placeholder.

    Raises:
        ValueError: If a placeholder has no value, or a value no placeholder.
    """
    text = _text(name)
    wanted = set(_PLACEHOLDER.findall(text))
    if wanted != set(values):
        raise ValueError(f"prompt {name!r} takes {sorted(wanted)}, got {sorted(values)}")
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)


@cache
def version(*names: str) -> str:
    """Identify the wording of some prompts: a content id over their files."""
    return sha256("\0".join(_text(name) for name in names).encode("utf-8"))


@cache
def _text(name: str) -> str:
    return (files(__package__) / f"{name}.md").read_text(encoding="utf-8").strip()

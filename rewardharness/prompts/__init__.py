"""Every prompt is a Markdown file in this folder, with named placeholders written as `{{name}}`.

Files `task_*.md` hold the wording of a task, one phrase per heading, which fills in placeholders of the other prompts;
`evidence.md` holds the sentences of measured evidence, likewise.
`zh/` holds the same prompts in Chinese, with the same placeholders. The language is that of the surrounding
`in_language`, English without one; whatever depends on prompts is keyed by `version`, which differs between languages.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from rewardharness.files import sha256

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
"""Languages of the prompts."""

_language: ContextVar[Language] = ContextVar("language of prompts", default="en")
_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")
_SECTION = re.compile(r"^## ([a-z_]+)\n", re.MULTILINE)
_NONE: Mapping[str, str] = {}


@contextmanager
def in_language(language: Language) -> Iterator[None]:
    """Within this context, and in tasks that start in it, prompts are in a language."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


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
    return _fill(name, _text(name), wording, values)


def load_section(name: str, section: str, /, **values: str) -> str:
    """Fill in one phrase of a file with a phrase per heading, as `load` fills in a prompt."""
    return _fill(f"{name}, {section}", sections(name)[section], _NONE, values)


def sections(name: str) -> Mapping[str, str]:
    """Return the phrases of a file with a phrase per heading, such as the wording of a task, by their headings."""
    return _sections(name, _language.get())


def version(*names: str) -> str:
    """Identify the wording of some prompts in the current language: a content id over their files."""
    return sha256("\0".join(_text(name) for name in names).encode("utf-8"))


def _fill(name: str, text: str, wording: Mapping[str, str], values: Mapping[str, str]) -> str:
    pieces, wanted = _split(text)
    values = {**{key: wording[key] for key in wanted if key in wording}, **values}
    if wanted != values.keys():
        raise ValueError(f"prompt {name!r} takes {sorted(wanted)}, got {sorted(values)}")
    return "".join([values[piece] if number % 2 else piece for number, piece in enumerate(pieces)])


@cache
def _split(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Split a prompt into text and, at odd places, the names of placeholders; return these names as well."""
    pieces = tuple(_PLACEHOLDER.split(text))
    return pieces, frozenset(pieces[1::2])


def _text(name: str) -> str:
    return _read(name, _language.get())


@cache
def _sections(name: str, language: Language) -> Mapping[str, str]:
    _, *parts = _SECTION.split(_read(name, language))
    return {key: phrase.strip() for key, phrase in zip(parts[::2], parts[1::2], strict=True)}


@cache
def _read(name: str, language: Language) -> str:
    folder = files(__package__) if language == "en" else files(__package__) / language
    return (folder / f"{name}.md").read_text(encoding="utf-8").strip()

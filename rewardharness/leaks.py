"""Finds what looks like a key or a password in text that is about to be published or kept."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a Hugging Face token", re.compile(r"(?<![A-Za-z0-9])(?:hf|api_org)_[A-Za-z0-9]{20,}")),
    ("an API key", re.compile(r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}")),
    ("a Google key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}")),
    ("an AWS key", re.compile(r"(?<![A-Za-z0-9])A(?:KIA|SIA)[0-9A-Z]{16}(?![0-9A-Z])")),
    ("a GitHub token", re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})")),
    ("a GitLab token", re.compile(r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}")),
    ("a Slack token", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----")),
    ("a bearer token", re.compile(r"\bBearer\s+(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}=*", re.IGNORECASE)),
    (
        "a password in an address",
        re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/@:]{1,64}:[^\s/@]{1,128}@", re.IGNORECASE),
    ),
)


@dataclass(frozen=True)
class Leak:
    """Something that looks like a secret. The secret itself is not kept."""

    kind: str
    """As in `an API key`."""
    line: int
    """Counted from 1."""


def find_leaks(text: str, secret: str | None = None) -> Iterator[Leak]:
    """Find what looks like a secret.

    Args:
        text: The text.
        secret: A secret that is known, such as the token in use; it is found however it looks.
    """
    for kind, pattern in _KINDS:
        for match in pattern.finditer(text):
            yield Leak(kind, text.count("\n", 0, match.start()) + 1)
    if secret and secret in text:
        yield Leak("the token in use", text.count("\n", 0, text.index(secret)) + 1)


def masked(text: str, secret: str | None = None) -> str:
    """Return a text with an ellipsis in the place of everything that looks like a secret."""
    if secret:
        text = text.replace(secret, "…")
    for _, pattern in _KINDS:
        text = pattern.sub("…", text)
    return text


_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|access_?key(?:_?id)?|private_?key|secret(?:_?key)?|password|passwd|passphrase|credentials?"
    r"|authorization|(?:access|api|auth|bearer|bot|git_?hub|git_?lab|hf|hub|refresh|session|slack|user|wandb)_?token)$"
    r"|^token$"
)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STANDS_FOR_IT = re.compile(r"\$\{?\w+\}?|<[^<>]*>|\*+|…|env:\w+|none|null|true|false|", re.IGNORECASE)


def secret_places(value: Any, place: str = "") -> Iterator[str]:
    """Find the places of a JSON value that hold a secret, by the look of the text or by the name of the key.

    Keys such as `hf_token`, `apiKey` or `password` are known; `pad_token`, `max_tokens` and `api_key_env` are other
    things. A placeholder of the secret, such as `${HF_TOKEN}`, `***` or null, is none.

    Args:
        value: The value.
        place: Where it stands, as in `trainer.config`; for what is yielded.

    Yields:
        Places as in `trainer.config.hub_token`, never a secret itself.
    """
    if isinstance(value, dict):
        for key, child in value.items():
            where = f"{place}.{key}" if place else str(key)
            if any(find_leaks(str(key))):
                yield f"{place or 'the top'} (a key)"
            elif names_secret(str(key)) and _gives_away(child):
                yield where
            else:
                yield from secret_places(child, where)
    elif isinstance(value, list | tuple):
        for number, child in enumerate(value):
            yield from secret_places(child, f"{place}[{number}]")
    elif isinstance(value, str) and any(find_leaks(value)):
        yield place


def names_secret(key: str) -> bool:
    """Whether a key of a configuration is a name for a secret."""
    snake = _WORD_BEGINS.sub("_", key).lower().replace("-", "_").replace(" ", "_")
    return _SECRET_NAME.search(snake) is not None


def _gives_away(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_gives_away(child) for child in value)
    if isinstance(value, str):
        return _STANDS_FOR_IT.fullmatch(value.strip()) is None
    return isinstance(value, int | float) and not isinstance(value, bool)

"""The grammar of reasoning chains: `<think>`, `<tool>`, `<obs>` and `<answer>` blocks."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rewardharness.schema import ChainStep

TAGS: tuple[str, ...] = ("think", "tool", "obs", "answer")
"""The tags of the grammar, in the order in which a chain uses them."""

MAX_RAW = 8000
"""Maximum number of characters of a stored reply that could not be read."""

_TAG = re.compile(rf"<(/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)


def neutral(text: str) -> str:
    """Disarm chain tags in foreign text, such as an instruction or a Library entry, that a chain quotes."""
    return _TAG.sub(r"‹\1", text)


def think(text: str, subject: str = "") -> ChainStep:
    """A step of reasoning in words."""
    return ChainStep("think", neutral(text), subject=subject)


def tool(name: str, images: Iterable[str], subject: str = "") -> ChainStep:
    """A call of a Tool on labelled images."""
    return ChainStep("tool", _json({"name": name, "images": list(images)}), subject=subject)


def observation(result: Mapping[str, Any], subject: str = "", picture: bytes | None = None) -> ChainStep:
    """What a Tool returned, with a picture for people where there is one."""
    return ChainStep("obs", _json(result), picture=picture, subject=subject)


def answer(result: Mapping[str, Any]) -> ChainStep:
    """The final answer."""
    return ChainStep("answer", _json(result))


def raw(text: str, subject: str = "") -> ChainStep:
    """A reply that could not be read; of a long one the beginning and the end."""
    half = MAX_RAW // 2
    if len(text) > MAX_RAW:
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return ChainStep("reply", neutral(text), subject=subject)


def render(steps: Iterable[ChainStep]) -> str:
    """Write a chain as tagged text, one block per line."""
    return "\n".join(f"<{step.kind}>{step.text}</{step.kind}>" for step in steps)


def _json(value: Mapping[str, Any]) -> str:
    return neutral(json.dumps(value, ensure_ascii=False, allow_nan=False))

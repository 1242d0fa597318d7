"""Generate text responses with known preferences: a response as the prompt asks, against the same with one flaw.

The labels are no human judgments. They follow from how the responses are made, which the category records. The flaw of
the category `truth` is a fact that the prompt does not state: no measure of form can see it.
"""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from rewardharness.files import write_json

VERSION = "1"
"""Version of the generator; the same version and count give the same texts."""

_WORDS = json.loads((files(__package__) / "texts.json").read_text("utf-8"))
_THINGS, _FACTS, _CLAUSES = (_WORDS[name] for name in ("things", "facts", "clauses"))
_GIVEN = 6
"""Facts that a prompt states."""
CATEGORIES = tuple(_CLAUSES)
"""Kinds of flaws, by the requirement that is broken."""


def make_texts(path: Path, prompts: int) -> None:
    """Write a file of prompts with two responses each, for `read_prompts`."""
    rows = [_prompt(number, CATEGORIES[number % len(CATEGORIES)]) for number in range(prompts)]
    write_json(path, {"prompts": rows, "made_by": {"made_by": "rewardharness demo texts", "version": VERSION}})


def _prompt(number: int, category: str) -> dict[str, Any]:
    rng = np.random.default_rng([number, 7])
    things, facts = list(_THINGS), [list(_FACTS)[place] for place in rng.permutation(len(_FACTS))]
    thing, clauses = things[int(rng.integers(len(things)))], _CLAUSES[category]
    word = facts[2].split()[-1]
    clause = clauses[int(rng.integers(len(clauses)))].format(word)
    prompt = f"Describe {thing} {clause}. It {', it '.join(facts[: _GIVEN - 1])}, and it {facts[_GIVEN - 1]}."
    right, wrong = _responses(category, thing, facts, word)
    candidates = [
        {"candidate_id": name, "text": text, "metadata": {"rank": rank}}
        for name, text, rank in (("kept", right, 1), ("broken", wrong, 2))
    ]
    name = f"{category}-{number:03d}"
    return {"prompt_id": name, "prompt": prompt, "metadata": {"category": category}, "candidates": candidates}


def _responses(category: str, thing: str, facts: list[str], word: str) -> tuple[str, str]:
    """Return the response as asked, and the one with a flaw."""
    said = [f"{thing.capitalize()} {facts[0]}.", *(f"It {fact}." for fact in facts[1:])]
    prose, items = " ".join(said[:3]), "\n".join(f"- {sentence}" for sentence in said[:3])
    value = json.dumps({"name": thing, "facts": facts[:3]})
    german = f"{_THINGS[thing]} {'. Es '.join(_FACTS[fact] for fact in facts[:3])}."
    others = [sentence for sentence in said if word not in sentence]
    pairs = {
        "sentences": (" ".join(said[:2]), " ".join(said[:5])),
        "words": (prose, " ".join(said[:_GIVEN])),
        "list": (items, prose),
        "json": (value, value[:-1] if len(thing) % 2 else value.replace('"facts"', '"details"')),
        "required": (prose, " ".join(others[:3])),
        "forbidden": (" ".join(others[:3]), prose),
        "language": (german, prose),
        "repetition": (prose, " ".join([*said[:2], *said[:2]])),
        "ending": (prose, prose[: -len(facts[2]) // 2]),
        "truth": (" ".join(said[:2]), " ".join([said[0], said[_GIVEN]])),
    }
    return pairs[category]

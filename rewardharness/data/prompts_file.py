"""Read ranked text responses from a JSON file of prompts.

    {"prompts": [{"prompt_id": "p1", "prompt": "...", "metadata": {"category": "..."},
                  "candidates": [{"candidate_id": "c1", "text": "...", "source": "model-x",
                                  "metadata": {"rank": 1}}, ...]}, ...]}

Every two candidates of a prompt become a pair. Its label follows from `rank` (lower is better; equal ranks tie), or
else from `quality` (higher is better); without either of them in both candidates it has none. Which candidate is A
follows from a hash, so that places say nothing about labels. All pairs of a prompt share its `source_id`, so no split
separates them. The generator (`source`) and the metadata reach no judge.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.cells import BadRowError, settle
from rewardharness.data.source import Dataset, SkippedRow
from rewardharness.errors import DataError, InputError, shown
from rewardharness.schema import LABELS, TIE, Example, TextInput

KEY = "prompts"
"""Key of the file that lists the prompts."""

_NUMBERS = (("rank", False), ("quality", True))
"""Keys of the metadata that order candidates, the strongest first, and whether higher is better."""


def is_prompts_file(path: Path) -> bool:
    """Return whether a file is JSON with prompts at its top, judged by its beginning."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    head = start[1:].lstrip()
    return start.startswith(b"{") and head.startswith(b'"prompts"') and head[9:].lstrip()[:1] == b":"


def read_prompts(path: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """Read a file of prompts with text responses.

    Args:
        path: The file.
        skip_bad_rows: Skip invalid prompts; they are listed in `skipped`.

    Raises:
        DataError: If the file is no such JSON, or a prompt is invalid; names the prompts and the reasons.
    """
    prompts = files.read_json(path).get(KEY)
    if not isinstance(prompts, list) or not prompts:
        raise DataError(f"{path.name}: `{KEY}` is not a list of prompts.", next_step=f'Write {{"{KEY}": [...]}}.')
    ids = Counter(entry.get("prompt_id") for entry in prompts if _is_named(entry))
    examples: list[Example] = []
    bad: list[SkippedRow] = []
    for number, entry in enumerate(prompts, 1):
        try:
            if not _is_named(entry):
                raise BadRowError("`prompt_id` is not a text")
            name = entry["prompt_id"]
            if ids[name] > 1:
                raise BadRowError(f"the prompt_id {shown(name, 40)!r} occurs {ids[name]} times")
            examples += _pairs(entry)
        except BadRowError as error:
            bad.append(SkippedRow(f"prompt {number}", str(error), len(examples), error.remedy))
    skipped = settle(path.name, bad, usable=len(examples), skip=skip_bad_rows)
    return Dataset.of(path.name, examples, skipped=skipped)


def _is_named(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("prompt_id"), str) and bool(entry["prompt_id"].strip())


def _pairs(entry: Mapping[str, Any]) -> Iterator[Example]:
    """Return all pairs of the candidates of a prompt."""
    name, prompt, candidates = entry["prompt_id"], entry.get("prompt"), entry.get("candidates")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadRowError(f"`prompt` of {name!r} is not a text, or is blank")
    if not isinstance(candidates, list) or len(candidates) < 2:
        raise BadRowError(f"{name!r} has fewer than two `candidates`")
    texts: dict[str, TextInput] = {}
    numbers: dict[str, dict[str, float]] = {}
    for candidate in candidates:
        label, text, values = _candidate(candidate, name)
        if label in texts:
            raise BadRowError(f"{name!r} has two candidates with the id {label!r}")
        texts[label], numbers[label] = text, values
    metadata = entry.get("metadata")
    category = metadata.get("category") if isinstance(metadata, Mapping) else None
    for pair in combinations(texts, 2):
        first, second = sorted(pair, key=lambda label: files.content_id([name, *sorted(pair), label]))
        preference, kind = _label(numbers[first], numbers[second])
        about = (preference, kind, category if isinstance(category, str) else "", name)
        yield Example(f"{name}/{first}/{second}", prompt.strip(), None, (texts[first], texts[second]), *about)


def _candidate(entry: Any, prompt: str) -> tuple[str, TextInput, dict[str, float]]:
    """Return id, text, and rank or quality of a candidate."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("candidate_id"), str) or not entry["candidate_id"]:
        raise BadRowError(f"a candidate of {prompt!r} has no text as `candidate_id`")
    name = entry["candidate_id"]
    try:
        text = TextInput(f"{prompt}/{name}", entry.get("text"))  # type: ignore[arg-type]  # checks the type
    except InputError as error:
        raise BadRowError(error.message.rstrip(".")) from None
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise BadRowError(f"`metadata` of candidate {name!r} of {prompt!r} is not a mapping")
    values = {key: metadata[key] for key, _ in _NUMBERS if metadata.get(key) is not None}
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            where = f"`{key}` of candidate {name!r} of {prompt!r}"
            raise BadRowError(f"{where} is {shown(repr(value), 40)}, not a number")
    return name, text, values


def _label(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[str | None, str]:
    """Return the label of a pair and its kind: `rank` or `quality`."""
    for key, higher in _NUMBERS:
        if key in first and key in second:
            lead = (first[key] - second[key]) * (1 if higher else -1)
            return TIE if lead == 0 else LABELS[lead < 0], key
    return None, ""

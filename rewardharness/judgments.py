"""The JSON form of a Judgment, which the command line, the app, Python and result files share."""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rewardharness.codec import ValidationError, decode, from_json, to_json
from rewardharness.schema import TIE, ChainStep, Example, Json, Judgment, StepKind
from rewardharness.views import dimensions_of

MAX_BYTES = 16 << 20
"""Maximum size of the steps of one judgment in bytes."""
MAX_STEPS = 10_000
"""Maximum number of steps of one judgment."""
_StepRow = tuple[StepKind, str, str, tuple[str, ...], int]
_FIELDS = frozenset(field.name for field in fields(Judgment)) - {"example_id"}
_EXPLAINING = frozenset({"entries", "reasons", "notes", "parts", "critiques"})
BRIEF = _FIELDS - _EXPLAINING - {"steps"} | {"id", "inconsistent"}
"""Keys that are read without steps and reasons."""


def judgment_json(judgment: Judgment) -> Json:
    """Convert a judgment to JSON: the fields of `Judgment`, with `example_id` as `id`, and `inconsistent`.

    Scores are on the 1-4 scale, rewards, margins and confidences in [0, 1]; unknown values are null. A judge whose
    answers contradict each other is `inconsistent` and has no `preference`. `critiques` is there only if requested.
    """
    usage = replace(judgment.usage, seconds=round(judgment.usage.seconds, 3))
    steps = tuple(replace(step, picture=None) for step in judgment.steps)
    preference = None if judgment.inconsistent else judgment.preference
    value = json.loads(json.dumps(to_json(replace(judgment, usage=usage, preference=preference, steps=steps))))
    for scores in value["scores"].values():
        del scores["evidence"]
        if scores["consistency"] is None:
            del scores["consistency"]
    for step in value["steps"]:
        del step["picture"]
    if not judgment.critiques:
        del value["critiques"]
    return {"id": value.pop("example_id"), **value, "inconsistent": judgment.inconsistent}


def judgment_row(example: Example, judgment: Judgment) -> Json:
    """Return a judgment as one flat row of a table, with a column per candidate for rewards and scores."""
    names, failure = ("reward", *dimensions_of(judgment.scores.values())), judgment.failure
    scores = {f"{name}_{label}": getattr(score, name) for name in names for label, score in judgment.scores.items()}
    own = {name: getattr(judgment, name) for name in ("margin", "confidence", "reward", "judged")}
    preference = None if judgment.inconsistent else judgment.preference
    about = {"id": judgment.example_id, "instruction": example.instruction, "label": example.preference}
    failed = {"failure": failure.code if failure else None, "message": failure.message if failure else None}
    return {**about, "preference": preference, **own, **scores, **failed}


def result_line(judgment: Judgment) -> Json:
    """Convert a judgment to a line of a results file: the same form, with compressed `steps`.

    Compressed steps are a string: JSON rows of the fields of `ChainStep`, compressed with zlib, in Base64. They take a
    quarter of the space. Lone surrogates, which a model can write as JSON escapes, become question marks.
    """
    rows = [(step.kind, step.text, step.subject, step.order, step.sample) for step in judgment.steps]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(errors="replace"))).decode() if rows else []
    return {**judgment_json(replace(judgment, steps=())), "steps": packed}


def judgment_from_json(record: Mapping[str, Any], *, steps: bool = True, reasons: bool = True) -> Judgment:
    """Read a judgment from JSON. Other keys, such as those that a run adds to its lines, are ignored.

    Args:
        record: The JSON form, or a line of a results file.
        steps: Whether to read the chain. Without it, many judgments take less time and memory.
        reasons: Whether to read entries, reasons, notes and parts, for which the same holds.

    Raises:
        ValidationError: If a value has the wrong type.
    """
    facts = {name: record[name] for name in (_FIELDS if reasons else _FIELDS - _EXPLAINING) & record.keys()}
    chain = facts.pop("steps", [])
    packed = isinstance(chain, str)
    facts |= {"steps": chain} if steps and not packed else {}
    judgment = from_json(Judgment, {"judge": "", "protocol": "", "library_id": "", **facts, "example_id": record["id"]})
    judgment = replace(judgment, steps=_unpack(chain)) if steps and packed else judgment
    return replace(judgment, preference=TIE) if record.get("inconsistent") else judgment


def _unpack(text: str) -> tuple[ChainStep, ...]:
    """Read compressed steps.

    Raises:
        ValidationError: If they are damaged or too long.
    """
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
    except (ValueError, zlib.error) as error:
        raise ValidationError(f"steps: {error}") from None
    if not unpacker.eof:
        raise ValidationError(f"steps: incomplete, or larger than {MAX_BYTES} bytes")
    rows = decode(data, tuple[_StepRow, ...])
    if len(rows) > MAX_STEPS:
        raise ValidationError(f"steps: more than {MAX_STEPS}")
    return tuple(ChainStep(kind, text, None, subject, order, sample) for kind, text, subject, order, sample in rows)

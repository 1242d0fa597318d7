"""Writes a Judgment as the JSON that the command line, the app and files on disk share, and reads a line of it back."""

from collections.abc import Mapping
from typing import Any

from rewardharness.judging.chain import render
from rewardharness.schema import Failure, Judgment, Scores, Usage


def judgment_json(judgment: Judgment) -> dict[str, Any]:
    """Put a judgment into JSON.

    Scores are on the 1-4 scale, rewards, margins and confidences in [0, 1]; what is unknown is null. A judge whose
    answers contradict each other is `inconsistent` and names no winner.
    """
    usage = judgment.usage
    return {
        "id": judgment.example_id,
        "winner": None if judgment.inconsistent else judgment.preference,
        "inconsistent": judgment.inconsistent,
        "ties_offered": judgment.ties_offered,
        "ranking": [list(level) for level in judgment.ranking],
        "margin": judgment.margin,
        "confidence": judgment.confidence,
        "candidates": {
            label: {
                "reward": each.reward,
                "instruction": each.instruction,
                "quality": each.quality,
                "variance": each.variance,
            }
            for label, each in judgment.scores.items()
        },
        "judge": judgment.judge,
        "protocol": judgment.protocol,
        "library_id": judgment.library_id,
        "entries": [{"name": each.name, "kind": each.kind, "why": each.reason} for each in judgment.entries],
        "reasons": list(judgment.reasons),
        "notes": list(judgment.notes),
        "chain": render(judgment.steps),
        "position_consistent": judgment.position_consistent,
        "usage": {
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "seconds": round(usage.seconds, 3),
        },
        "reason": None
        if judgment.failure is None
        else {"code": judgment.failure.code, "message": judgment.failure.message},
    }


def judgment_line(judgment: Judgment) -> dict[str, Any]:
    """Put a judgment into one short line of a results file."""
    return {
        "id": judgment.example_id,
        "preference": judgment.preference,
        "margin": judgment.margin,
        "rewards": {label: each.reward for label, each in judgment.scores.items()},
        "reason": None if judgment.failure is None else f"{judgment.failure.code}: {judgment.failure.message}",
        "ties_offered": judgment.ties_offered,
        "ranking": [list(level) for level in judgment.ranking],
        "confidence": judgment.confidence,
        "scores": {
            label: {"instruction": each.instruction, "quality": each.quality, "variance": each.variance}
            for label, each in judgment.scores.items()
        },
        "position_consistent": judgment.position_consistent,
        "notes": list(judgment.notes),
        "seconds": round(judgment.usage.seconds, 3),
        "judge": judgment.judge,
        "protocol": judgment.protocol,
        "library_id": judgment.library_id,
        "calls": judgment.usage.calls,
        "input_tokens": judgment.usage.input_tokens,
        "output_tokens": judgment.usage.output_tokens,
    }


def judgment_from_line(line: Mapping[str, Any]) -> Judgment:
    """Read a judgment back from a line of a results file, without its chain, its reasons and its entries."""
    code, _, message = str(line.get("reason") or "").partition(": ")
    rewards: Mapping[str, float] = line.get("rewards", {})
    graded: Mapping[str, Mapping[str, float | None]] = line.get("scores", {})
    return Judgment(
        example_id=str(line["id"]),
        judge=str(line.get("judge", "")),
        protocol=str(line.get("protocol", "")),
        library_id=str(line.get("library_id", "")),
        preference=line.get("preference"),
        ties_offered=bool(line.get("ties_offered")),
        ranking=tuple(tuple(level) for level in line.get("ranking", ())),
        margin=line.get("margin"),
        confidence=line.get("confidence"),
        scores={
            label: Scores(known.get("instruction"), known.get("quality"), reward, known.get("variance"))
            for label, reward in rewards.items()
            for known in [graded.get(label, {})]
        },
        notes=tuple(line.get("notes", ())),
        position_consistent=line.get("position_consistent"),
        usage=Usage(
            line.get("calls", 0), line.get("input_tokens", 0), line.get("output_tokens", 0), line.get("seconds", 0.0)
        ),
        failure=Failure(code, message) if code else None,
    )

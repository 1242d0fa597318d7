"""Conversion of edits with any number of candidates to examples, and of their judgments to rewards."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rewardharness.judging.best_of import CandidateReward, CandidateSet, Method, candidate_rewards, examples_of
from rewardharness.judgments import judgment_from_json
from rewardharness.schema import Example


def to_examples(edits: Iterable[Example], method: Method | None) -> Iterator[Example]:
    """Return the examples to judge.

    Args:
        edits: The edits, with any number of candidates.
        method: How candidates are compared; None to judge each edit unchanged.
    """
    return iter(edits) if method is None else (item for edit in edits for item in examples_of(_set(edit), method))


def all_rewards(
    edits: Iterable[Example], method: Method, results: Mapping[str, Mapping[str, Any]], *, tag: str = ""
) -> Iterator[tuple[Example, tuple[CandidateReward, ...]]]:
    """Return every edit with the rewards of its candidates.

    Args:
        edits: The edits.
        method: How candidates were compared.
        results: Results of the run by id.
        tag: Suffix of the ids, which distinguishes repeated judgments.
    """
    for edit in edits:
        candidates = _set(edit)
        lines = {item.id: results.get(item.id + tag) for item in examples_of(candidates, method)}
        judged = {name: judgment_from_json(line, steps=False) for name, line in lines.items() if line is not None}
        yield edit, candidate_rewards(candidates, method, judged)


def _set(edit: Example) -> CandidateSet:
    return CandidateSet(edit.id, edit.instruction, edit.source_image, edit.candidate_images, edit.references)

"""Grades of the measures for the candidates of an example, for the built-in Orchestrator."""

from collections.abc import Mapping

from rewardharness.errors import HarnessError
from rewardharness.evolution.analyzer import request_of
from rewardharness.evolution.proposal import Observe
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.readings import SLOW, Loaded, measure
from rewardharness.measure.table import known_measures
from rewardharness.schema import EditRequest, Example
from rewardharness.task import IMAGE_EDIT, task_of


def observer(cache: JudgmentCache | None) -> Observe:
    """Return a function that measures examples, with a cache.

    Args:
        cache: Persistent cache of measurements, shared with the pixel-based judge.
    """
    seen: dict[str, Mapping[str, Mapping[str, float]]] = {}

    def observe(example: Example) -> Mapping[str, Mapping[str, float]]:
        if example.id not in seen:
            seen[example.id] = _grades(example, cache)
        return seen[example.id]

    return observe


def _grades(example: Example, cache: JudgmentCache | None) -> Mapping[str, Mapping[str, float]]:
    """Return the grades of all measures by candidate; none if an image cannot be read, or it is no image edit."""
    if task_of(example) is not IMAGE_EDIT:
        return {}
    request = request_of(example)
    wanted = _useful_measures(request)
    grades: dict[str, Mapping[str, float]] = {}
    try:
        source = Loaded.of(example.source_image)
        for label, image in zip(example.labels, example.candidate_images, strict=True):
            readings = measure(source, Loaded.of(image), request, wanted, cache).readings
            grades[label] = {name: item.grade for name, item in readings.items() if item.grade is not None}
    except HarnessError:
        return {}
    return grades


def _useful_measures(request: EditRequest) -> tuple[str, ...]:
    """Return the measures to use: reading text is slow, and done only if the instruction mentions text."""
    about_text = bool(request.texts or request.removed_texts)
    return tuple(name for name in known_measures() if name not in SLOW or (about_text and name == "text_match"))

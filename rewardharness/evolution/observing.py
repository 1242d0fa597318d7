"""What the measures say of an example's candidates, for an Orchestrator that looks for what the Library misses."""

from collections.abc import Mapping

from rewardharness.errors import HarnessError
from rewardharness.evolution.analyzer import request_of
from rewardharness.evolution.proposal import Observe
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.readings import SLOW, Loaded, measure
from rewardharness.measure.table import MEASURES
from rewardharness.schema import EditRequest, Example

KNOWN_MEASURES: tuple[str, ...] = tuple(MEASURES)
"""Names of the measures that criteria and Tools may use."""


def observer(cache: JudgmentCache | None) -> Observe:
    """Make the function that looks at examples. What it has seen it remembers.

    Args:
        cache: Where readings are remembered beyond this process; the measured judge's own, so that both look once.
    """
    seen: dict[str, Mapping[str, Mapping[str, float]]] = {}

    def observe(example: Example) -> Mapping[str, Mapping[str, float]]:
        if example.id not in seen:
            seen[example.id] = _grades(example, cache)
        return seen[example.id]

    return observe


def _grades(example: Example, cache: JudgmentCache | None) -> Mapping[str, Mapping[str, float]]:
    """Grades of all measures per candidate; nothing where an image cannot be used."""
    request = request_of(example.instruction)
    wanted = _worth_asking(request)
    found: dict[str, Mapping[str, float]] = {}
    try:
        source = Loaded.of(example.source)
        for label, image in zip(example.labels, example.candidates, strict=True):
            readings = measure(source, Loaded.of(image), request, wanted, cache).readings
            found[label] = {name: each.grade for name, each in readings.items() if each.grade is not None}
    except HarnessError:
        return {}
    return found


def _worth_asking(request: EditRequest) -> tuple[str, ...]:
    """Reading text costs as much as all other measures together; it is done where the instruction speaks of text."""
    about_text = bool(request.texts or request.removed_texts)
    return tuple(name for name in MEASURES if name not in SLOW or (about_text and name == "text_match"))

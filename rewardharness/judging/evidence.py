"""Measured evidence for a model: boxes, sentences and aligned crops of what each candidate changed.

The evidence of a candidate depends on the source and on that candidate alone, so swapping candidates swaps the evidence
and changes nothing else. It is off by default; see docs/how-to/judge-with-a-model.md.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rewardharness.codec import from_json, to_json
from rewardharness.files import content_id
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.chain import think
from rewardharness.judging.context import Parts, Presented
from rewardharness.judging.readings import OWNER, Loaded
from rewardharness.judging.revision import measures_revision
from rewardharness.measure.changes import CROP_SIDES, Changes, Crop, crop_changes, find_changes
from rewardharness.measure.images import encode_png
from rewardharness.measure.view import EditView
from rewardharness.models.base import ImagePart, TextPart
from rewardharness.prompts import load_section
from rewardharness.schema import ChainStep, Example

PROMPT = "evidence"
"""The prompt with the sentences."""


@dataclass
class EvidenceTaker:
    """Measures the candidates of one example, each once, and only when a model is really asked.

    Args:
        example: An image edit.
        cache: Cache of the measurements, without the crops; None to cache nothing.
        max_pixels: Maximum number of pixels of a crop.
    """

    example: Example
    cache: JudgmentCache | None = None
    max_pixels: int | None = None
    _taken: dict[str, "tuple[Changes, list[Crop]]"] = field(default_factory=dict)
    _source: Loaded | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def add(self, presented: Presented) -> tuple[Presented, ChainStep]:
        """Add the evidence of the candidates of a request.

        Returns:
            The same with evidence, and a step of the chain with its sentences.

        Raises:
            ImageError: If an image cannot be used.
        """
        async with self._lock:
            for own in presented.own:
                if own not in self._taken:
                    self._taken[own] = await asyncio.to_thread(self._take, own)
        names = list(presented.titles.values())[-len(presented.own) :]
        source = next(iter(presented.titles.values()))
        pairs = [(name, *self._taken[own]) for name, own in zip(names, presented.own, strict=True)]
        parts = tuple((TextPart(write(name, changes)), *_crops(source, name, crops)) for name, changes, crops in pairs)
        said = "\n".join(write(own, self._taken[own][0]) for own in presented.own)
        return replace(presented, evidence=parts), think(said)

    def _take(self, label: str) -> tuple[Changes, list[Crop]]:
        source = self._source = self._source or Loaded.of(self.example.source_image)  # decoded once
        candidate = Loaded.of(self.example.candidate_images[self.example.labels.index(label)])
        view = EditView(source.picture, candidate.picture)
        key = content_id(["changes", measures_revision(), source.sha256, candidate.sha256])
        known = self.cache.get(key, _read) if self.cache is not None else None
        changes = _read(known) if known is not None else find_changes(view)
        if known is None and self.cache is not None:
            self.cache.keep(key, to_json(changes), OWNER)
        return changes, crop_changes(view, changes, self.max_pixels)


def crops_words(crops: int) -> str:
    """Say what measured evidence adds to requests, for cost estimates."""
    side = CROP_SIDES[1]
    return f"Measured evidence adds up to {crops} images of at most {side} x {side} pixels to these requests."


def write(name: str, changes: Changes) -> str:
    """Write the measurements of a candidate as sentences, each marked as measured."""
    if changes.identical:
        return _say("identical", name=name)
    sentences = []
    if changes.candidate_size != changes.source_size:
        sizes = [f"{width} x {height}" for width, height in (changes.candidate_size, changes.source_size)]
        sentences.append(_say("fitted", name=name, candidate=sizes[0], source=sizes[1]))
    if not changes.regions:
        return "\n".join([*sentences, _say("unchanged", name=name)])
    size = {"share": f"{changes.share:.1%}", "regions": str(changes.regions), "largest": f"{changes.largest:.0%}"}
    sentences.append(_say("changed", name=name, **size, boxes=", ".join(map(_box, changes.boxes))))
    if changes.outside < 0.01:
        return "\n".join([*sentences, _say("everywhere", name=name)])
    rest = {"distance": f"{changes.outside_distance:.1f}", "structure": f"{changes.outside_structure:.0%}"}
    return "\n".join([*sentences, _say("outside", name=name, outside=f"{changes.outside:.0%}", **rest)])


def _crops(source: str, name: str, crops: Sequence[Crop]) -> Parts:
    parts: list[TextPart | ImagePart] = []
    for number, crop in enumerate(crops, 1):
        for image, pixels in ((source, crop.source), (name, crop.candidate)):
            caption = _say("crop", number=str(number), image=image, box=_box(crop.box))
            parts += [TextPart(caption), ImagePart(encode_png(pixels), "image/png")]
    return tuple(parts)


def _say(section: str, **values: str) -> str:
    return load_section(PROMPT, section, **values).replace("\n", " ")


def _box(box: Sequence[float]) -> str:
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def _read(known: dict[str, Any]) -> Changes:
    return from_json(Changes, known)

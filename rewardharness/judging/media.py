"""Sources and candidates of an example as parts of a message to a model.

An image is one part. Of a video, at most `FRAMES` evenly spaced frames are sent, each after its number. A text is
delimited: it is untrusted, and the prompts say so.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.files import sha256
from rewardharness.judging.chain import neutral
from rewardharness.judging.context import Parts, Presented
from rewardharness.measure.bounds import MAX_BYTES
from rewardharness.measure.encoded import NotPlainError, encode_for_model
from rewardharness.models.base import ImagePart, TextPart
from rewardharness.prompts import load
from rewardharness.schema import Candidate, Example, FramesInput, ImageInput, TextInput
from rewardharness.task import IMAGE_EDIT, Task, task_of
from rewardharness.views import DIMENSIONS

FRAMES = 8
"""Maximum number of frames of a video that a model sees."""
_SMALL = 128 << 10
"""Maximum size of the images of an example that are prepared on the event loop, in bytes."""
_QUICK = 0.005
"""Seconds above which preparing small images counts as slow, as on a network drive."""
_SLOW_ONES = 3
"""Number of slow examples in a row after which examples are prepared in threads."""
_PATIENCE = 20
"""Number of examples that are prepared in threads before one is tried on the event loop again."""


@dataclass(frozen=True)
class Media:
    """Sources and candidates of an example, ready to be sent."""

    task: Task
    sources: tuple[Parts, ...]
    candidates: Mapping[str, Parts]
    """By label."""
    notes: tuple[str, ...]
    """What was converted or left out."""

    def present(self, own: tuple[str, ...], dimensions: tuple[str, ...] = DIMENSIONS[:2]) -> Presented:
        """Return what one request shows, the candidates with these labels in this order, and asks scores for."""
        images = tuple(self.candidates[label] for label in own)
        return Presented(self.sources, images, own, self.task, dimensions=dimensions)


@dataclass(frozen=True)
class ImageFiles:
    """Files of the images of an example that a model sees."""

    found: Mapping[Path, os.stat_result] = field(default_factory=dict)
    """Their status; files that cannot be read are missing."""
    loaded: int = 0
    """Bytes of the images that are in memory."""

    @classmethod
    def of(cls, example: Example) -> "ImageFiles":
        """Look up the files of an example."""
        images = [image for media in (*example.sources, *example.candidates) for _, image in _seen(media)]
        statuses: dict[Path, os.stat_result] = {}
        for path in {image.path for image in images if image.path is not None}:
            with suppress(OSError, ValueError):
                statuses[path] = os.stat(path)
        return cls(statuses, sum(len(image.data or b"") for image in images))

    @property
    def size(self) -> int:
        """Bytes that reading them adds to memory."""
        return sum(min(status.st_size, MAX_BYTES) for status in self.found.values())


class Preparation:
    """Prepares examples: small images that are sent as they are at once, others in a thread."""

    def __init__(self) -> None:
        self._slow = 0
        self._in_threads = 0

    async def prepare(self, example: Example, max_pixels: int | None, files: ImageFiles) -> Media:
        """Encode the sources and candidates of an example; see `prepare`."""
        if self._in_threads:
            self._in_threads -= 1
        elif files.size + files.loaded <= _SMALL:
            began = time.perf_counter()
            try:
                return prepare(example, max_pixels, files, decode=False)
            except NotPlainError:
                pass
            finally:
                self._slow = self._slow + 1 if time.perf_counter() - began > _QUICK else 0
                self._in_threads = _PATIENCE if self._slow >= _SLOW_ONES else 0
        return await asyncio.to_thread(prepare, example, max_pixels, files)


def prepare(
    example: Example, max_pixels: int | None, files: ImageFiles = ImageFiles(), *, decode: bool = True
) -> Media:
    """Encode the sources and candidates of an example.

    Args:
        example: The example.
        max_pixels: As in `encode_for_model`.
        files: Its files, as far as they are known.
        decode: As in `encode_for_model`.

    Raises:
        ImageError: If an image cannot be used.
        InputError: If the example belongs to no task.
        NotPlainError: If an image has to be decoded and `decode` is false.
    """
    task = task_of(example)
    notes: list[str] = []
    first = len(example.sources)
    names = ["source", *(f"image {number}" for number in range(2, first + 1))][:first]

    def parts(name: str, media: Candidate) -> Parts:
        if isinstance(media, TextInput):
            text = neutral(media.text).replace("</response>", "‹/response>")
            return (TextPart(load("response", text=text)),)
        content: list[TextPart | ImagePart] = []
        seen = _seen(media)
        for number, image in seen:
            found_file = files.found.get(image.path) if image.path is not None else None
            encoded = encode_for_model(image, max_pixels, stat=found_file, decode=decode)
            notes.extend(f"{name}: {note}" for note in encoded.notes if f"{name}: {note}" not in notes)
            content += [TextPart(f"Frame {number}:")] if isinstance(media, FramesInput) else []
            content.append(ImagePart(encoded.data, encoded.mime))
        if isinstance(media, FramesInput) and len(seen) < len(media.frames):
            notes.append(f"{name}: {len(seen)} of {len(media.frames)} frames were judged.")
        return tuple(content)

    sources = tuple(parts(name, media) for name, media in zip(names, example.sources, strict=True))
    candidates = {label: parts(label, media) for label, media in zip(example.labels, example.candidates, strict=True)}
    return Media(task, sources, candidates, tuple(notes))


def content_ids(parts: Parts) -> str | list[str]:
    """Return what identifies a source or candidate in a cache key: the hash of an image, or one hash per part."""
    hashes = [part.sha256 if isinstance(part, ImagePart) else sha256(part.text.encode()) for part in parts]
    return hashes[0] if len(parts) == 1 and isinstance(parts[0], ImagePart) else hashes


def key_of(task: Task) -> list[str]:
    """Return what identifies a task in a cache key; nothing for image edits."""
    return [] if task is IMAGE_EDIT else [task.name]


def _seen(media: Candidate) -> list[tuple[int, ImageInput]]:
    """Return the images of a source or candidate that a model sees, with their numbers from 1."""
    if isinstance(media, ImageInput):
        return [(1, media)]
    frames = media.frames if isinstance(media, FramesInput) else ()
    if len(frames) <= FRAMES:
        return list(enumerate(frames, 1))
    places = [round(step * (len(frames) - 1) / (FRAMES - 1)) for step in range(FRAMES)]
    return [(place + 1, frames[place]) for place in places]

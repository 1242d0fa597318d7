"""Readings of the measures for one candidate, cached.

A reading depends on two images and an instruction, not on the Library. Changed Libraries reuse the cached readings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rewardharness.files import content_id, sha256
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.revision import measures_revision
from rewardharness.measure.images import Picture, load_picture, read_bytes
from rewardharness.measure.planes import Reading
from rewardharness.measure.structure import scene_kept
from rewardharness.measure.table import MEASURES
from rewardharness.measure.text import ocr_available
from rewardharness.measure.view import EditView
from rewardharness.schema import Candidate, EditRequest, ImageInput, TextInput

SLOW = frozenset({"text_match", "unasked_text"})
"""Measures that take as long as all others together."""

OWNER = "measures"
"""Name of the readings in the statistics of the cache."""


@dataclass(frozen=True)
class Measured:
    """The readings of one candidate."""

    readings: Mapping[str, Reading]
    alignment: str
    """How the candidate was aligned with the source; empty if it was not."""
    scene: float
    """Degree in [0, 1] to which the candidate shows the scene of the source; see `scene_kept`."""
    source_notes: tuple[str, ...]
    """How the source was decoded: rotated upright, placed on white, ..."""
    notes: tuple[str, ...]
    """How the candidate was decoded."""


@dataclass
class Loaded:
    """A text, or an image that is decoded when its pixels are needed."""

    name: str
    data: bytes = field(repr=False)
    text: str | None = None

    @classmethod
    def of(cls, media: Candidate | None) -> "Loaded":
        """Read the bytes; none where there is no source.

        Raises:
            ImageError: If they cannot be read.
        """
        if isinstance(media, ImageInput):
            return cls(media.name, read_bytes(media))
        return cls(media.name, media.text.encode(), media.text) if isinstance(media, TextInput) else cls("", b"")

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the encoded bytes."""
        return sha256(self.data)

    @cached_property
    def picture(self) -> Picture:
        """The decoded picture.

        Raises:
            ImageError: If the bytes are not a usable image.
        """
        return load_picture(ImageInput(self.name, data=self.data))


def measure(
    source: Loaded, candidate: Loaded, request: EditRequest, wanted: Sequence[str], cache: JudgmentCache | None
) -> Measured:
    """Measure one candidate against the source, or a text response by itself.

    Args:
        source: The source image.
        candidate: The edited image, or the response.
        request: The parsed instruction.
        wanted: Names of measures; unknown names are ignored.
        cache: Cache of the readings, without their pictures.
    """
    medium = "image" if candidate.text is None else "text"
    names = [name for name, known in MEASURES.items() if name in wanted and known.medium == medium]
    if candidate.text is not None:
        return Measured({name: MEASURES[name].function(candidate.text, request) for name in names}, "", 1.0, (), ())
    if cache is None:
        view = EditView(source.picture.turned(request.turned), candidate.picture)
        readings = {name: MEASURES[name].function(view, request) for name in names}
        return Measured(readings, view.alignment.note, scene_kept(view), source.picture.notes, candidate.picture.notes)
    learned = [name for name in names if MEASURES[name].learned]
    parts = ["readings", measures_revision(learned), ocr_available(), source.sha256, candidate.sha256]
    key = content_id([*parts, request.instruction])
    known = cache.get(key, _read)
    before = known["readings"] if known else {}
    if known is None or any(name not in before for name in names):
        view = EditView(source.picture.turned(request.turned), candidate.picture)
        taken = {name: _to_json(MEASURES[name].function(view, request)) for name in names if name not in before}
        known = {
            "alignment": view.alignment.note,
            "scene": scene_kept(view) if known is None else known["scene"],
            "source_notes": list(source.picture.notes),
            "notes": list(candidate.picture.notes),
            "readings": {**before, **taken},
        }
        cache.keep(key, known, OWNER)
    return _read(known, names)


def _read(known: Mapping[str, Any], names: Sequence[str] | None = None) -> Measured:
    """Read cached readings: those of some measures, or all."""
    kept = known["readings"]
    readings = {name: _from_json(kept[name]) for name in (kept if names is None else names)}
    return Measured(
        readings, known["alignment"], float(known["scene"]), tuple(known["source_notes"]), tuple(known["notes"])
    )


def _to_json(reading: Reading) -> dict[str, Any]:
    quantities = {name: float(value) for name, value in reading.quantities.items()}
    return {"grade": reading.grade, "says": reading.sentence, "quantities": quantities}


def _from_json(value: Mapping[str, Any]) -> Reading:
    return Reading(value["quantities"], value["grade"], value["says"])

"""Optional measures by learned encoders: agreement of image and instruction, direction of the change, same subject.

They are computed only where a Library names them. No accuracy is claimed: what a number means depends on the encoder,
so criteria with these measures, and their weights, are to be learned by evolution on labels. The scales of the grades
are conventions.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rewardharness.measure.curves import fall, step
from rewardharness.measure.planes import Reading
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

if TYPE_CHECKING:  # only a Library that names these measures loads the encoders
    from rewardharness.measure.encoders import Role, Vector

AGREEMENT_WIDTH = 0.05
"""Change of the agreement with the instruction at which the grade is .73; without change it is .5."""
DIRECTION_WIDTH = 0.1
"""Cosine of the directions at which the grade is .73; at 0 it is .5."""
IDENTITY_SCALE = 0.3
"""Distance of the embeddings, 1 - cosine, at which the grade is .37."""
NEUTRAL = "a photo"
"""Text that the direction of an instruction starts from."""

_NO_CHANGE = "No change is requested, so there is nothing to agree with."


def text_agreement(view: EditView, request: EditRequest) -> Reading:
    """Measure how much better the candidate agrees with the instruction than the source, by cosines of embeddings."""
    if request.scope == "none":
        return Reading({}, None, _NO_CHANGE)
    source, candidate, (asked,) = _embedded(view, request.instruction)
    before, after = _cosine(source, asked), _cosine(candidate, asked)
    sentence = f"The agreement with the instruction is {after:.3f}; that of the source is {before:.3f}."
    quantities = {"agreement": after, "source_agreement": before, "gain": after - before}
    return Reading(quantities, step(after - before, 0.0, AGREEMENT_WIDTH), sentence)


def directional_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the embedding of the image moved in the direction of the instruction.

    The direction of the instruction starts from `a photo`, as in StyleGAN-NADA (Gal et al., 2021) with a neutral text
    for the source. An image that did not change has no direction and gets 0.
    """
    if request.scope == "none":
        return Reading({}, None, _NO_CHANGE)
    source, candidate, (asked, neutral) = _embedded(view, request.instruction, NEUTRAL)
    moved, wanted = candidate - source, asked - neutral
    cosine = _cosine(moved, wanted)
    known = float((moved * moved).sum()) > 1e-9
    grade = step(cosine, 0.0, DIRECTION_WIDTH) if known else 0.0
    sentence = f"The change of the image has a cosine of {cosine:.3f} with the direction of the instruction."
    return Reading({"cosine": cosine}, grade, sentence)


def subject_identity(view: EditView, request: EditRequest) -> Reading:
    """Measure how similar the subject is to that of the source, by the cosine of embeddings of the images."""
    from rewardharness.measure.encoders import encoder

    source, candidate = encoder("image").images([view.small_source, view.small_candidate])
    cosine = _cosine(source, candidate)
    sentence = f"The embeddings of source and candidate have a cosine of {cosine:.3f} (1: the same)."
    return Reading({"cosine": cosine}, fall(1.0 - cosine, IDENTITY_SCALE), sentence)


ROLES: Mapping[str, "Role"] = {"text_agreement": "text", "directional_similarity": "text", "subject_identity": "image"}
"""Encoders by learned measure."""


def is_set_up(name: str) -> bool:
    """Return whether an encoder is named for a learned measure, and the packages are installed.

    Raises:
        SettingsError: If the setting is not valid.
    """
    from rewardharness.measure.encoders import missing_package, named_encoder

    return named_encoder(ROLES[name]) is not None and missing_package() is None


def identities(names: Iterable[str]) -> dict[str, str]:
    """Return what identifies the encoders of learned measures, by role; empty where none is named."""
    roles = {ROLES[name] for name in names if name in ROLES}
    if not roles:
        return {}
    from rewardharness.measure.encoders import named_encoder

    files = {role: named_encoder(role) for role in sorted(roles)}
    return {role: encoder.identity for role, encoder in files.items() if encoder is not None}


def _embedded(view: EditView, *texts: str) -> "tuple[Vector, Vector, list[Vector]]":
    from rewardharness.measure.encoders import encoder

    model = encoder("text")
    source, candidate = model.images([view.small_source, view.small_candidate])
    return source, candidate, model.texts(texts)


def _cosine(one: "Vector", other: "Vector") -> float:
    length = math.sqrt(float((one * one).sum() * (other * other).sum()))
    return max(-1.0, min(1.0, float((one * other).sum()) / max(length, 1e-12)))

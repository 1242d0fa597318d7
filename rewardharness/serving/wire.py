"""Request models and their validation. The only module that uses pydantic."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from rewardharness.schema import LABELS, SOURCES
from rewardharness.serving.body import LIFTED, NAME, Parsed
from rewardharness.serving.faults import TOO_MANY, Fault, RefusedError, invalid
from rewardharness.serving.images import Encoded, ImageShelf, RequestImage, image_too_large
from rewardharness.serving.limits import Limits
from rewardharness.serving.normalise import EPS, Normalisation
from rewardharness.serving.scoring import Edit

_LONGEST = 4000
"""Maximum length of an instruction."""
_SHOWN = 20
"""Maximum number of reported problems per request."""
_BASE64 = (
    r"^(?:data:image/[a-z0-9.+-]{1,20};base64,)?"
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$"
)


_VISIBLE = r"[^\s\u0000-\u001f\u007f-\u009f\ufeff]"
"""A character that is neither white space nor a control character, in portable regular expression syntax."""


class Base64(str):
    """Base64 in the request."""


class Lifted(int):
    """Number of a string that was lifted out of the request."""


class Named(str):
    """Name of an image of the request."""


def _read_text(value: Any, info: ValidationInfo) -> Any:
    """Return a text, including one that was lifted out of the request."""
    if isinstance(value, dict) and len(value) == 1 and LIFTED in value:
        lifted = (info.context or ())[value[LIFTED]]
        if isinstance(lifted, str):
            return lifted
        if len(lifted) <= 4 * _LONGEST:
            return orjson.loads(b'"%b"' % lifted)
    return value


def _read_image(value: Any) -> Any:
    """Return the form in which an image is given."""
    if isinstance(value, str):
        return Base64(value)
    if isinstance(value, dict) and len(value) == 1:
        [(key, what)] = value.items()
        if key == LIFTED:
            return Lifted(what)
        if key == "ref" and isinstance(what, str) and re.fullmatch(NAME, what):
            return Named(what)
    raise ValueError('not an image: base64, or {"ref": NAME}')


_IMAGE_BYTES = {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
_IMAGE_NAME = {
    "type": "object",
    "properties": {
        "ref": {"type": "string", "pattern": f"^{NAME}$", "description": "A key of `images`, or the name of a part."}
    },
    "required": ["ref"],
    "additionalProperties": False,
}
Image = Annotated[
    Base64 | Lifted | Named,
    BeforeValidator(_read_image),
    WithJsonSchema({"oneOf": [_IMAGE_BYTES, _IMAGE_NAME]}),
]
References = Annotated[
    list[Image],
    Field(
        default_factory=list,
        max_length=SOURCES - 1,
        description="Further source or reference images, which the instruction mentions as image 2, image 3, image 4.",
    ),
]
ImageName = Annotated[str, Field(pattern=f"^{NAME}$")]
InlineImage = Annotated[Base64 | Lifted, BeforeValidator(_read_image)]
NamedImages = Annotated[
    dict[ImageName, InlineImage],
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": f"^{NAME}$"}, "additionalProperties": _IMAGE_BYTES}),
]
Instruction = Annotated[str, BeforeValidator(_read_text), Field(min_length=1, max_length=_LONGEST, pattern=_VISIBLE)]
ItemId = Annotated[str, Field(max_length=128)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)


class Asked(_Strict):
    """Fields of every request."""

    images: NamedImages = Field(
        default_factory=dict, description="Images that are used more than once, by a name for `ref`."
    )
    allow_ungradable: bool = Field(
        False,
        description="Whether an edit whose instruction cannot be graded gets a reward of low confidence, not an error.",
    )
    deadline_s: float | None = Field(
        None, gt=0, le=86_400, description="Seconds that the reply may take; what is not judged by then is an error."
    )


class _Normalised(Asked):
    normalise: Literal["raw", "group"] = Field("raw", description="Whether rewards are also made relative.")
    eps: float = Field(EPS, gt=0, le=1, description="Added to the standard deviation.")
    clip: float | None = Field(None, gt=0, le=1000, description="Bound of what is made relative.")

    @property
    def how(self) -> Normalisation:
        """Settings of the normalization."""
        return Normalisation(self.normalise, self.eps, self.clip)


class ScoreRequest(Asked):
    """One edit, or two to four candidates that are judged together."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [one], "properties": {one: {"not": {"type": "null"}}, other: {"type": "null"}}}
                for one, other in (("edited", "candidates"), ("candidates", "edited"))
            ]
        },
    )

    id: ItemId | None = None
    instruction: Instruction
    source: Image
    references: References
    edited: Image | None = Field(None, description="The edited image, scored alone.")
    candidates: list[Image] | None = Field(None, min_length=2, max_length=len(LABELS))

    @model_validator(mode="after")
    def _one_of_both(self) -> "ScoreRequest":
        if (self.edited is None) == (self.candidates is None):
            raise ValueError("give either edited or candidates")
        return self

    def edit(self, reader: "ImageReader") -> Edit:
        """Convert the request to an edit."""
        several = self.candidates or []
        given = [reader.read(image, f"candidates[{index}]") for index, image in enumerate(several)]
        given = given or [reader.read(self.edited, "edited")]
        source, *references = reader.read_sources(self)
        return Edit(self.instruction, source, tuple(given), self.id, None, self.allow_ungradable, tuple(references))


class Item(_Strict):
    """One edit of a batch."""

    id: ItemId | None = None
    instruction: Instruction
    source: Image
    references: References
    edited: Image
    group: ItemId | None = Field(None, description="Rewards are made relative within a group.")


class BatchRequest(_Normalised):
    """Many edits, each judged alone."""

    items: Annotated[list[Item], FailFast()] = Field(min_length=1)

    def edits(self, reader: "ImageReader") -> list[Edit]:
        """Convert the request to edits."""
        edits = []
        for index, item in enumerate(self.items):
            where = f"items[{index}]"
            source, *references = reader.read_sources(item, f"{where}.")
            edited = reader.read(item.edited, f"{where}.edited")
            known = (item.id, item.group, self.allow_ungradable, tuple(references))
            edits.append(Edit(item.instruction, source, (edited,), *known))
        return edits


class CompareRequest(Asked):
    """Two candidates, compared in both orders."""

    id: ItemId | None = None
    instruction: Instruction
    source: Image
    references: References
    a: Image
    b: Image

    def edit(self, reader: "ImageReader") -> Edit:
        """Convert the request to an edit."""
        source, *references = reader.read_sources(self)
        pair = (reader.read(self.a, "a"), reader.read(self.b, "b"))
        return Edit(self.instruction, source, pair, self.id, None, self.allow_ungradable, tuple(references))


class RankRequest(_Normalised):
    """A group of candidates of one edit."""

    id: ItemId | None = None
    instruction: Instruction
    source: Image
    references: References
    candidates: Annotated[list[Image], FailFast()] = Field(min_length=2)
    method: Literal["score", "win_rate"] = Field(
        "score", description="`score`: each judged alone. `win_rate`: all pairs compared in both orders."
    )

    def edit(self, reader: "ImageReader") -> Edit:
        """Convert the request to an edit."""
        given = tuple(reader.read(image, f"candidates[{index}]") for index, image in enumerate(self.candidates))
        source, *references = reader.read_sources(self)
        return Edit(self.instruction, source, given, self.id, None, self.allow_ungradable, tuple(references))


class ImageReader:
    """Reads the images of one request.

    Args:
        parsed: The request's body.
        images: What its field `images` holds. A part of the same name goes before it.
        limits: How large they may be.
        strict: Whether an image with too many pixels refuses the request, rather than being an error of its item.
    """

    def __init__(self, parsed: Parsed, images: Mapping[str, Base64 | Lifted], limits: Limits, *, strict: bool) -> None:
        self._lifted = parsed.lifted
        self._limits = limits
        self._strict = strict
        named = {name: self._encoded(image) for name, image in images.items()}
        self._shelf = ImageShelf(limits, named, parsed.parts)

    def read(self, image: Base64 | Lifted | Named | None, where: str) -> RequestImage:
        """Return an image.

        Raises:
            RefusedError: 422 if it is not base64 or did not come; 413 if it is too large.
        """
        if isinstance(image, Named):
            given = self._shelf.look_up(image, where)
        else:
            assert image is not None
            given = self._shelf.take(self._encoded(image), where)
        if self._strict and given.pixels is not None and given.pixels > self._limits.pixels:
            raise image_too_large(f"{self._limits.pixels} pixels", where)
        return given

    def read_sources(
        self, edit: "ScoreRequest | Item | CompareRequest | RankRequest", at: str = ""
    ) -> list[RequestImage]:
        """Return the source image of an edit and its references; `at` is the place of the edit. Raises as `read`."""
        references = (self.read(image, f"{at}references[{index}]") for index, image in enumerate(edit.references))
        return [self.read(edit.source, f"{at}source"), *references]

    def _encoded(self, image: Base64 | Lifted) -> Encoded:
        return self._lifted[image] if isinstance(image, Lifted) else image


Model = TypeVar("Model", bound=Asked)


def read_request(model: type[Model], parsed: Parsed, limits: Limits) -> Model:
    """Check a request: the lengths of its lists, then field by field up to the first item that is wrong.

    Raises:
        RefusedError: 422, with the fields that are wrong.
    """
    tree = parsed.tree if isinstance(parsed.tree, dict) else {}
    group = limits.duels if tree.get("method") == "win_rate" else limits.group
    for name, most in (("items", limits.items), ("candidates", group), ("images", limits.images)):
        if isinstance(tree.get(name), list | dict):
            check_count(name, len(tree[name]), most)
    try:
        return model.model_validate(parsed.tree, context=parsed.lifted)
    except ValidationError as error:
        problems = [_problem(item) for item in error.errors(include_url=False, include_context=False)[:_SHOWN]]
        first, what = problems[0]
        raise invalid(f"{first}: {what}." if first else f"{what}.", *problems) from None


def check_count(name: str, count: int, most: int) -> None:
    """Refuse a list that exceeds the limit of the server.

    Raises:
        RefusedError: 422.
    """
    if count > most:
        fault = Fault(TOO_MANY, f"There are {count} {name}, and at most {most} are taken.", f"Send {most} at once.")
        raise RefusedError(422, fault, fields=((name, f"{count} given, {most} allowed"),))


def _problem(error: Any) -> tuple[str, str]:
    """Return the field and a short message for a validation error. The submitted value is never repeated."""
    place = ""
    for part in error["loc"]:
        if part == "[key]":
            return place, "not a name: letters, digits, dots, dashes and underscores, 100 at most"
        place += f"[{part}]" if isinstance(part, int) else f".{str(part)[:80]}" if place else str(part)[:80]
    given = error.get("input")
    if error["type"] == "string_type" and isinstance(given, dict) and LIFTED in given:
        return place, "too long"
    if error["type"] == "string_pattern_mismatch":  # only instructions have a pattern
        return place, "nothing visible in it"
    if error["type"] == "extra_forbidden":
        return place, "unknown field"
    return place, str(error["msg"]).removeprefix("Value error, ")

"""Request models and their validation. The only module that uses pydantic."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

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

from rewardharness.schema import LABELS, MAX_TEXT, SOURCES
from rewardharness.serving.body import LIFTED, NAME, Parsed
from rewardharness.serving.faults import TOO_MANY, Fault, RefusedError, invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.media import (
    MAX_FRAMES,
    Edit,
    RequestFrames,
    RequestImage,
    RequestMedia,
    RequestText,
    image_too_large,
    read_image,
)
from rewardharness.serving.results import EPS, Normalisation

_LONGEST = 16_000
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


class Response(str):
    """A text to be judged."""


class Frames(tuple[Base64 | Lifted | Named, ...]):
    """The images of a video, in order."""


Given = Base64 | Lifted | Named | Frames | Response
"""A source or candidate as it came."""


def _read_text(value: Any, info: ValidationInfo, most: int = _LONGEST) -> Any:
    """Return a text, including one that was lifted out of the request."""
    if isinstance(value, dict) and len(value) == 1 and LIFTED in value:
        lifted = (info.context or ())[value[LIFTED]]
        if isinstance(lifted, str):
            return lifted
        if len(lifted) <= 6 * most:
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


def _read_media(value: Any, info: ValidationInfo) -> Any:
    """Return the form in which a source or candidate is given."""
    if isinstance(value, dict) and set(value) == {"text"}:
        text = _read_text(value["text"], info, MAX_TEXT)
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise ValueError(f"not a text of at most {MAX_TEXT} characters")
        if not re.search(_VISIBLE, text):
            raise ValueError("nothing visible in it")
        return Response(text)
    if isinstance(value, dict) and set(value) == {"frames"}:
        frames = value["frames"]
        if not isinstance(frames, list) or not 1 <= len(frames) <= MAX_FRAMES:
            raise ValueError(f"not a list of 1 to {MAX_FRAMES} images")
        return Frames(map(_read_image, frames))
    return _read_image(value)


def _object(name: str, **schema: Any) -> dict[str, Any]:
    """Return the schema of an object with one field."""
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


_IMAGE_BYTES = {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
_IMAGE_NAME = _object(
    "ref", type="string", pattern=f"^{NAME}$", description="A key of `images`, or the name of a part."
)
_IMAGE = {"oneOf": [_IMAGE_BYTES, _IMAGE_NAME]}
_TEXT = _object("text", type="string", minLength=1, maxLength=MAX_TEXT, pattern=_VISIBLE)
_LENGTH = {"minItems": 1, "maxItems": MAX_FRAMES}
_FRAMES = _object("frames", type="array", items=_IMAGE, **_LENGTH, description="The frames of a video, in order.")
_SOURCE = {"oneOf": [_IMAGE_BYTES, _IMAGE_NAME, _FRAMES]}
_MEDIA = {"oneOf": [_IMAGE_BYTES, _IMAGE_NAME, _FRAMES, _TEXT]}
Image = Annotated[Base64 | Lifted | Named, BeforeValidator(_read_image), WithJsonSchema(_IMAGE)]
Source = Annotated[Base64 | Lifted | Named | Frames, BeforeValidator(_read_media), WithJsonSchema(_SOURCE)]
Media = Annotated[Given, BeforeValidator(_read_media), WithJsonSchema(_MEDIA)]
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


class RewardRequest(_Strict):
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


class _Critical(RewardRequest):
    critique: bool = Field(
        False, description="Whether to say in words what is wrong with each candidate. It changes no score."
    )


class _Normalised(RewardRequest):
    normalise: Literal["raw", "group"] = Field("raw", description="Whether rewards are also made relative.")
    eps: float = Field(EPS, gt=0, le=1, description="Added to the standard deviation.")
    clip: float | None = Field(None, gt=0, le=1000, description="Bound of what is made relative.")

    @property
    def normalisation(self) -> Normalisation:
        """Settings of the normalization."""
        return Normalisation(self.normalise, self.eps, self.clip)


class _Edit(_Strict):
    """Fields of every edit, and of every text to be judged."""

    candidate_fields: ClassVar[tuple[str, ...]]
    """Fields with a candidate or a list of them."""
    id: ItemId | None = None
    instruction: Instruction
    source: Source | None = Field(None, description="The image or video before the edit; none for text.")
    references: References

    @model_validator(mode="before")
    @classmethod
    def _of_prompt(cls, value: Any) -> Any:
        """Read `prompt_id`, `prompt` and `candidate` of a text; the prompt decides which rubric applies."""
        if not isinstance(value, dict) or "prompt_id" not in value or not isinstance(value.get("candidate"), dict):
            return value
        fields = {key: content for key, content in value.items() if key not in {"prompt_id", "prompt", "candidate"}}
        return {**fields, "instruction": value.get("prompt"), "edited": {"text": value["candidate"].get("text")}}

    @property
    def media(self) -> dict[str, Given]:
        """The candidates by their place in the edit."""
        media: dict[str, Given] = {}
        for name in self.candidate_fields:
            value = getattr(self, name)
            if isinstance(value, list):
                media |= {f"{name}[{index}]": candidate for index, candidate in enumerate(value)}
            elif value is not None:
                media[name] = value
        return media

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        texts = [isinstance(candidate, Response) for candidate in self.media.values()]
        if any(texts) and not (all(texts) and self.source is None and not self.references):
            raise ValueError("texts are judged without a source, references, images or videos")
        if not any(texts) and self.source is None:
            raise ValueError("source is required, unless texts are judged")
        return self


class ScoreRequest(_Critical, _Edit):
    """One edit, or two to four candidates that are judged together."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [one], "properties": {one: {"not": {"type": "null"}}, other: {"type": "null"}}}
                for one, other in (("edited", "candidates"), ("candidates", "edited"))
            ]
        }
    )

    candidate_fields = ("edited", "candidates")
    edited: Media | None = Field(None, description="The edited image or video, or the text, scored alone.")
    candidates: list[Media] | None = Field(None, min_length=2, max_length=len(LABELS))

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.edited is None) == (self.candidates is None):
            raise ValueError("give either edited or candidates")
        return self


class Item(_Edit):
    """One edit or text of a batch."""

    candidate_fields = ("edited",)
    edited: Media
    group: ItemId | None = Field(None, description="Rewards are made relative within a group.")


class BatchRequest(_Critical, _Normalised):
    """Many edits, each judged alone."""

    items: Annotated[list[Item], FailFast()] = Field(min_length=1)


class CompareRequest(RewardRequest, _Edit):
    """Two candidates, compared in both orders."""

    candidate_fields = ("a", "b")
    a: Media
    b: Media


class RankRequest(_Normalised, _Edit):
    """A group of candidates of one edit."""

    candidate_fields = ("candidates",)
    candidates: Annotated[list[Media], FailFast()] = Field(min_length=2)
    method: Literal["score", "win_rate"] = Field(
        "score", description="`score`: each judged alone. `win_rate`: all pairs compared in both orders."
    )


class EditReader:
    """Reads the edits of one request with their images.

    Args:
        parsed: The request's body.
        request: The request. A part of the body goes before an image of the same name in its field `images`.
        limits: How large images may be.
    """

    def __init__(self, parsed: Parsed, request: RewardRequest, limits: Limits) -> None:
        self._lifted = parsed.lifted
        self._limits = limits
        self._request = request
        self._strict = not isinstance(request, BatchRequest)
        """Whether an image with too many pixels refuses the request, rather than being an error of its item."""
        self.critique = isinstance(request, _Critical) and request.critique
        """Whether each candidate gets a critique."""
        self._known: dict[str, RequestImage] = {}  # by hash
        self._named: dict[str, RequestImage] = {}
        for images in (request.images, parsed.parts):
            self._named |= {name: self._read(image, f"images.{name}") for name, image in images.items()}

    def edits(self) -> tuple[Edit, ...]:
        """Return the edits of the request.

        Raises:
            RefusedError: 422 if an image is not base64 or did not come; 413 if it is too large.
        """
        if isinstance(self._request, BatchRequest):
            items = enumerate(self._request.items)
            return tuple(self._edit(item, f"items[{index}].", item.group) for index, item in items)
        assert isinstance(self._request, _Edit)
        return (self._edit(self._request, "", None),)

    def _edit(self, asked: _Edit, at: str, group: str | None) -> Edit:
        source = None if asked.source is None else self._media(asked.source, f"{at}source")
        assert not isinstance(source, RequestText)
        return Edit(
            asked.instruction,
            source,
            tuple(self._media(media, f"{at}{place}") for place, media in asked.media.items()),
            asked.id,
            group,
            self._request.allow_ungradable,
            tuple(self._image(image, f"{at}references[{index}]") for index, image in enumerate(asked.references)),
            self.critique,
        )

    def _media(self, media: Given, where: str) -> RequestMedia:
        if isinstance(media, Response):
            return RequestText(str(media))
        if isinstance(media, Frames):
            frames = (self._image(image, f"{where}.frames[{number}]") for number, image in enumerate(media))
            return RequestFrames(tuple(frames))
        return self._image(media, where)

    def _image(self, image: Base64 | Lifted | Named, where: str) -> RequestImage:
        if isinstance(image, Named):
            if image not in self._named:
                raise invalid("An image is named that did not come with the request.", (where, "no such image"))
            read = self._named[image]
        else:
            read = self._read(image, where)
        if self._strict and read.pixels is not None and read.pixels > self._limits.pixels:
            raise image_too_large(f"{self._limits.pixels} pixels", where)
        return read

    def _read(self, image: Base64 | Lifted | bytes, where: str) -> RequestImage:
        encoded = self._lifted[image] if isinstance(image, Lifted) else image
        read = read_image(encoded, self._limits, where)
        return self._known.setdefault(read.sha256, read)  # what comes twice is kept once


def read_request(model: type[RewardRequest], parsed: Parsed, limits: Limits) -> RewardRequest:
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
    value = error.get("input")
    if error["type"] == "string_type" and isinstance(value, dict) and LIFTED in value:
        return place, "too long"
    if error["type"] == "string_pattern_mismatch":  # only instructions have a pattern
        return place, "nothing visible in it"
    if error["type"] == "extra_forbidden":
        return place, "unknown field"
    return place, str(error["msg"]).removeprefix("Value error, ")

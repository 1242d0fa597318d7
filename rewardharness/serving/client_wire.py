"""Requests and replies of the client: bodies without duplicate images, and strict parsing of replies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import orjson
import pybase64

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import HarnessError, ImageError, InputError
from rewardharness.files import sha256
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.measure.images import read_bytes
from rewardharness.schema import LABELS, SOURCES, TIE, Candidate, FramesInput, ImageInput, TextInput
from rewardharness.serving.faults import Fault
from rewardharness.serving.media import Edit, RequestFrames, RequestImage, RequestMedia, RequestText
from rewardharness.serving.results import Compared, Comparison, ItemResult, not_judged

T = TypeVar("T")

LONGEST_INSTRUCTION = 16_000
"""Maximum length of an instruction."""


class PillowImage(Protocol):
    """An image object that can be saved as PNG, such as a Pillow image."""

    def save(self, fp: Any, format: str) -> None:  # Pillow's parameter names
        """Write the image to a file object."""


class Pixels(Protocol):
    """A NumPy array or torch tensor: height, width and channels, or channels first; see `arrays.picture`."""

    @property
    def shape(self) -> Any:
        """Three dimensions."""


ImageLike = bytes | BinaryIO | str | Path | PillowImage | Pixels
"""An encoded image, an open file such as `io.BytesIO`, the path of an image file, or an image object or array, which is
sent as PNG."""


SourceLike = ImageLike | ImageInput | FramesInput | None
"""The image or video before an edit; None for text."""

MediaLike = ImageLike | Candidate
"""An image; a video as `FramesInput`; or a text as `TextInput`."""


class RewardServerError(HarnessError):
    """The server did not send a usable reply."""

    title = "The reward server gave no rewards"


class IdentityError(RewardServerError):
    """The judge of the server is not the required one, or has changed."""

    title = "The reward server is another one"


Instruction = str | Sequence[Mapping[str, Any]]
"""Text, or a conversational prompt: messages with `role` and `content`, of which the last user message is used."""


@dataclass(frozen=True)
class Ask:
    """One edit to score."""

    instruction: Instruction
    source: SourceLike
    edited: MediaLike
    """The edited image or video, or a text to be judged."""
    group: str | None = None
    """Name of the group within which the reward is normalized."""
    references: Sequence[ImageLike] = ()
    """Further source or reference images, at most three, which the instruction mentions as image 2, image 3, ..."""


@dataclass
class Album:
    """The images of one request by a prefix of their hash."""

    images: dict[str, bytes] = field(default_factory=dict)

    def media(self, media: RequestMedia) -> dict[str, Any]:
        """Add the images of a source or candidate unless they are included; return its form in the request."""
        if isinstance(media, RequestText):
            return {"text": media.text}
        if isinstance(media, RequestFrames):
            return {"frames": [self.media(frame) for frame in media.frames]}
        name = media.sha256[:32]
        self.images[name] = media.data
        return {"ref": name}

    def fields(self, edit: Edit) -> dict[str, Any]:
        """Add the source of an edit and its references; return the fields of the edit other than its candidates."""
        fields: dict[str, Any] = {"instruction": edit.instruction}
        if edit.source is not None:
            fields["source"] = self.media(edit.source)
        if edit.references:
            fields["references"] = [self.media(image) for image in edit.references]
        return fields

    def body(self, fields: Mapping[str, Any]) -> list[bytes]:
        """Return the body of a request in pieces.

        Args:
            fields: Its fields other than images, in which an image is `{"ref": NAME}`.
        """
        pieces = [orjson.dumps(fields)[:-1] + b',"images":{']
        for number, (name, data) in enumerate(self.images.items()):
            pieces.append(b'%s"%s":"' % (b"," if number else b"", name.encode("ascii")))
            pieces += [pybase64.b64encode(data), b'"']
        return [*pieces, b"}}"]


def read_edit(
    instruction: Instruction, source: SourceLike, references: Sequence[ImageLike], *candidates: MediaLike
) -> Edit:
    """Read the images and texts of an edit.

    Raises:
        InputError: If the instruction is none, or there are too many references.
        ImageError: If an image cannot be read or is too large for any server.
    """
    text = instruction_text(instruction)
    names = [f"candidate {number}" for number in range(1, len(candidates) + 1)]
    media = [_media(*pair) for pair in zip(candidates, names if len(names) > 1 else ["the edited image"], strict=True)]
    if len(references) >= SOURCES:
        step = f"Give at most {SOURCES - 1}, which the instruction mentions as image 2, image 3 and image 4."
        raise InputError(f"There are {len(references)} reference images.", next_step=step)
    further = tuple(encode(image, f"image {number}") for number, image in enumerate(references, 2))
    before = None if source is None else _media(source, "the source")
    assert not isinstance(before, RequestText)
    return Edit(text, before, tuple(media), references=further)


def _media(media: MediaLike, name: str) -> RequestMedia:
    if isinstance(media, TextInput):
        return RequestText(media.text)
    if isinstance(media, FramesInput):
        return RequestFrames(
            tuple(encode(frame, f"{name}, frame {number}") for number, frame in enumerate(media.frames, 1))
        )
    return encode(media, name)


def encode(image: ImageLike | ImageInput, name: str) -> RequestImage:
    """Return an image as encoded bytes.

    Raises:
        ImageError: If it cannot be read or is too large for any server.
    """
    data = read_bytes(ImageInput.of(image, f"{name} {image}" if isinstance(image, str | Path) else name))
    return RequestImage(data, sha256(data))


def read_asks(asks: Sequence[Ask]) -> tuple[dict[int, Edit], dict[int, ItemResult]]:
    """Return the edits, and the results of those that cannot be read, by index."""
    edits: dict[int, Edit] = {}
    results: dict[int, ItemResult] = {}
    for index, ask in enumerate(asks):
        try:
            edits[index] = read_edit(ask.instruction, ask.source, ask.references, ask.edited)
        except InputError as error:
            fault = Fault("image" if isinstance(error, ImageError) else "input", error.message)
            results[index] = ItemResult.none(index, fault)
    return edits, results


def require_rewards(results: Sequence[ItemResult], what: str = "edit") -> list[float]:
    """Return the rewards, for trainers that cannot handle a missing one.

    Raises:
        RewardServerError: If an edit was not judged.
    """
    missing = not_judged(results, what)
    if missing:
        step = "See the server's log. A trainer that supports missing rewards can use RewardClient."
        raise RewardServerError(missing, next_step=step)
    return [item.reward for item in results if item.reward is not None]


def instruction_text(value: Instruction) -> str:
    """Return an instruction as text.

    Raises:
        InputError: If it is neither text nor a conversational prompt, or is empty or too long.
    """
    text = value if isinstance(value, str) else _last_of_user(value)
    if text is None:
        raise InputError(
            f"The instruction is neither text nor messages with a role and text: {type(value).__name__}.",
            next_step="Name the column that holds the instruction of each edit.",
        )
    if not text.strip() or len(text) > LONGEST_INSTRUCTION:
        step = "Say in words what the edit should do."
        raise InputError(f"The instruction is empty or longer than {LONGEST_INSTRUCTION} characters.", next_step=step)
    return text


def _last_of_user(messages: Any) -> str | None:
    """Return the text of the last user message, whose content is text or a list of parts; None without one."""
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Mapping) for message in messages):
        return None
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    content = contents[-1] if contents else None
    if not isinstance(content, list | tuple):
        return content if isinstance(content, str) else None
    texts: list[Any] = [
        part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"
    ]
    return " ".join(texts) if texts and all(isinstance(text, str) for text in texts) else None


def read_identity(value: Any) -> JudgeIdentity:
    """Read the identity of the judge, without its revision, from `/info` or from a reply.

    Raises:
        RewardServerError: If it is not there.
    """
    if not isinstance(value, Mapping) or "release" not in value:
        raise not_ours()
    return _read(JudgeIdentity, {**value, "judge_revision": ""})


def read_results(reply: Any, count: int) -> list[ItemResult]:
    """Read the results of a reply.

    Raises:
        RewardServerError: If there are not exactly so many, or one of them is neither a reward nor an error.
    """
    try:
        results = [_read(ItemResult, item) for item in reply["results"]]
    except (KeyError, TypeError):
        raise not_ours() from None
    if len(results) != count:
        raise not_ours()
    for item in results:
        judged = item.reward is not None and 0 <= item.reward <= 1 and item.error is None
        if item.ok != judged or (not judged and (item.reward is not None or item.error is None)):
            raise not_ours()
    return results


def read_compared(reply: Any) -> Compared:
    """Read the reply to a comparison.

    Raises:
        RewardServerError: If it is none.
    """
    first, second = read_results(reply, 2)
    comparison = _read(Comparison, reply.get("comparison"))
    if (comparison.preference is None) == (comparison.error is None) or comparison.preference not in _PREFERENCES:
        raise not_ours()
    return Compared(**vars(comparison), rewards=(first, second))


_PREFERENCES = (None, *LABELS[:2], TIE)


def _read(kind: type[T], value: Any) -> T:
    """Read a record of a reply, without fields that a newer server adds."""
    try:
        known = {field.name: value[field.name] for field in fields(kind) if field.name in value}  # type: ignore[arg-type]
        return from_json(kind, known)
    except (TypeError, ValidationError):
        raise not_ours() from None


def not_ours() -> RewardServerError:
    """Return the error for a reply that is not from a reward server."""
    step = "Check that the address is that of `rh serve`, of this version."
    return RewardServerError("The server's reply is not that of a reward server.", next_step=step)


def batches(sizes: Sequence[int], most_items: int, most_bytes: int) -> list[range]:
    """Split a list into ranges of limited number and size; a larger item is sent alone.

    Args:
        sizes: Bytes of each item.
        most_items: Items in one run at most, at least 1.
        most_bytes: Bytes in one run at most.
    """
    ranges: list[range] = []
    start = held = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start >= most_items or held + size > most_bytes):
            ranges.append(range(start, index))
            start, held = index, 0
        held += size
    if start < len(sizes):
        ranges.append(range(start, len(sizes)))
    return ranges

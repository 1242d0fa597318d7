"""Requests and replies of the client: bodies without duplicate images, and strict parsing of replies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson
import pybase64

from rewardharness.codec import ValidationError, finite, from_json
from rewardharness.critique import Critique
from rewardharness.errors import HarnessError, InputError
from rewardharness.files import sha256
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.measure.images import read_bytes
from rewardharness.schema import SOURCES, Candidate, FramesInput, ImageInput, TextInput

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


ImageLike = bytes | str | Path | PillowImage | Pixels
"""An encoded image, the path of an image file, or an image object or array, which is sent as PNG."""


SourceLike = ImageLike | ImageInput | FramesInput | None
"""The image or video before an edit; None for text."""

MediaLike = ImageLike | Candidate
"""An image; a video as `FramesInput`; or a text as `TextInput`."""

EncodedMedia = bytes | str | tuple[bytes, ...]
"""The bytes of an image, a text, or the bytes of the frames of a video."""


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


@dataclass(frozen=True)
class Reward:
    """Reward of one edit. Exactly one of `value` and `reason` is set."""

    value: float | None
    """Reward in [0, 1]; None on failure."""
    reason: str = ""
    """Reason of the failure: a fixed code, a colon and a message."""
    retryable: bool = False
    """Whether a retry may succeed."""
    normalised: float | None = None
    instruction: float | None = None
    """Instruction following, from 1 to 4."""
    quality: float | None = None
    """Visual quality, from 1 to 4."""
    margin: float | None = None
    confidence: float | None = None
    """Confidence of the judge, in [0, 1]; None if not available."""
    variance: float | None = None
    cached: bool = False
    critique: Critique | None = None
    """What is wrong, in words; None if not requested or not available."""

    @classmethod
    def none(cls, code: str, message: str, *, retryable: bool = False) -> "Reward":
        """Create a reward without a value."""
        return cls(None, f"{code}: {message}", retryable)


@dataclass(frozen=True)
class Compared:
    """Result of comparing two candidates."""

    preference: str | None
    """`A`, `B` or `tie`; None on failure."""
    margin: float | None
    position_consistent: bool | None
    rewards: tuple[Reward, Reward]
    reason: str = ""
    """Reason why there is no preference."""
    confidence: float | None = None
    """Confidence of the judge in the preference, in [0, 1]; None if not available."""


class Body:
    """The body of a request, in pieces.

    Args:
        fields: Its fields other than images, in which an image is `{"ref": NAME}`.
        images: The images by name.
    """

    def __init__(self, fields: Mapping[str, Any], images: Mapping[str, bytes]) -> None:
        head = orjson.dumps(fields)
        self._pieces = [head[:-1] + (b',"images":{' if len(head) > 2 else b'"images":{')]
        for number, (name, data) in enumerate(images.items()):
            self._pieces.append(b'%s"%s":"' % (b"," if number else b"", name.encode("ascii")))
            self._pieces += [pybase64.b64encode(data), b'"']
        self._pieces.append(b"}}")
        self.size = sum(map(len, self._pieces))

    def pieces(self) -> Iterator[bytes]:
        """Return the pieces of the body."""
        return iter(self._pieces)


@dataclass
class Album:
    """The images of one request by a prefix of their hash."""

    images: dict[str, bytes] = field(default_factory=dict)

    def ref(self, data: bytes) -> dict[str, str]:
        """Add an image unless it is already included."""
        name = sha256(data)[:32]
        self.images[name] = data
        return {"ref": name}

    def media(self, encoded: EncodedMedia) -> dict[str, Any]:
        """Add the images of a source or candidate; return its form in the request."""
        if isinstance(encoded, str):
            return {"text": encoded}
        if isinstance(encoded, tuple):
            return {"frames": [self.ref(frame) for frame in encoded]}
        return self.ref(encoded)

    def sources(self, encoded: Sequence[EncodedMedia]) -> dict[str, Any]:
        """Add the source of an edit and its references; return their fields: none for text."""
        named = [self.media(each) for each in encoded]
        return {**({"source": named[0]} if named else {}), **({"references": named[1:]} if named[1:] else {})}


def size_of(encoded: EncodedMedia) -> int:
    """Return the number of bytes."""
    return sum(map(len, encoded)) if isinstance(encoded, tuple) else len(encoded)


def encode_media(media: MediaLike, what: str) -> EncodedMedia:
    """Return a source or candidate as it is sent.

    Raises:
        ImageError: If an image cannot be read or is too large for any server.
    """
    if isinstance(media, TextInput):
        return media.text
    if isinstance(media, FramesInput):
        return tuple(encode(frame, f"{what}, frame {number}") for number, frame in enumerate(media.frames, 1))
    return encode(media, what)


def encode(image: ImageLike | ImageInput, what: str) -> bytes:
    """Return an image as encoded bytes.

    Raises:
        ImageError: If it cannot be read or is too large for any server.
    """
    named = f"{what} {image}" if isinstance(image, str | Path) else what
    return read_bytes(ImageInput.of(image, named))


def encode_sources(source: SourceLike, references: Sequence[ImageLike]) -> list[EncodedMedia]:
    """Return the source and its references as they are sent; nothing for text.

    Raises:
        InputError: If there are too many; an `ImageError` if one cannot be read.
    """
    if len(references) >= SOURCES:
        step = f"Give at most {SOURCES - 1}, which the instruction mentions as image 2, image 3 and image 4."
        raise InputError(f"There are {len(references)} reference images.", next_step=step)
    named = [encode(image, f"image {number}") for number, image in enumerate(references, 2)]
    return [*([] if source is None else [encode_media(source, "the source")]), *named]


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
    try:
        release = value["release"]
        library, judge, protocol = (value[name] for name in ("library_id", "judge", "protocol"))
    except (KeyError, TypeError):
        raise not_ours() from None
    if not all(isinstance(text, str) for text in (library, judge, protocol)) or not isinstance(release, str | None):
        raise not_ours()
    return JudgeIdentity(judge, "", protocol, library, release)


def read_rewards(reply: Any, count: int) -> list[Reward]:
    """Read the results of a reply.

    Raises:
        RewardServerError: If there are not exactly so many, or one of them is neither a reward nor an error.
    """
    try:
        results = reply["results"]
        if len(results) != count:
            raise not_ours()
        return [_reward(result) for result in results]
    except (KeyError, TypeError, AttributeError):
        raise not_ours() from None


def read_compared(reply: Any) -> Compared:
    """Read the reply to a comparison.

    Raises:
        RewardServerError: If it is none.
    """
    first, second = read_rewards(reply, 2)
    try:
        comparison = reply["comparison"]
        error = comparison["error"]
        reason = "" if error is None else f"{error['code']}: {error['message']}"
        preference = comparison["preference"]
        if (preference is None) == (error is None) or preference not in (None, "A", "B", "tie"):
            raise not_ours()
        margin, confidence = _number(comparison["margin"]), _number(comparison.get("confidence"))
        return Compared(preference, margin, comparison["position_consistent"], (first, second), reason, confidence)
    except (KeyError, TypeError, AttributeError):
        raise not_ours() from None


def not_ours() -> RewardServerError:
    """Return the error for a reply that is not from a reward server."""
    step = "Check that the address is that of `rh serve`, of this version."
    return RewardServerError("The server's reply is not that of a reward server.", next_step=step)


def _reward(item: Any) -> Reward:
    value, error = item["reward"], item["error"]
    if item["ok"] is not True:
        if value is not None or error is None:
            raise not_ours()
        return Reward.none(str(error["code"]), str(error["message"]), retryable=error["retryable"] is True)
    reward = _number(value)
    if reward is None or not 0 <= reward <= 1:
        raise not_ours()
    scores = item["scores"] or {}
    return Reward(
        reward,
        normalised=_number(item["normalised"]),
        instruction=_number(scores.get("instruction")),
        quality=_number(scores.get("quality")),
        margin=_number(item["margin"]),
        confidence=_number(item.get("confidence")),
        variance=_number(item["variance"]),
        cached=item["cached"],
        critique=_critique(item.get("critique")),
    )


def _critique(value: Any) -> Critique | None:
    try:
        return None if value is None else from_json(Critique, value)
    except ValidationError:
        raise not_ours() from None


def _number(value: Any) -> float | None:
    """Read an optional number."""
    number = finite(value)
    if number is None and value is not None:
        raise not_ours()
    return number


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

"""What a client sends and reads: bodies in which no image comes twice, and replies taken apart strictly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson
import pybase64

from rewardharness.codec import finite
from rewardharness.errors import HarnessError, InputError
from rewardharness.files import sha256
from rewardharness.measure.images import read_bytes
from rewardharness.schema import ImageInput
from rewardharness.serving.results import Identity

LONGEST_INSTRUCTION = 4000
"""Characters of an instruction that the server takes."""


class Picture(Protocol):
    """A picture that can be written as PNG, such as one of Pillow."""

    def save(self, fp: Any, format: str) -> None:  # the name is Pillow's
        """Write it."""


class Pixels(Protocol):
    """An array of numpy or a tensor of torch: height, width and channels, or channels first; see `arrays.picture`."""

    @property
    def shape(self) -> Any:
        """Three numbers."""


ImageLike = bytes | str | Path | Picture | Pixels
"""An encoded image, the path of one, or a picture or its pixels, which are sent as PNG."""


class RewardServerError(HarnessError):
    """The reward server gave no reply that can be used."""

    title = "The reward server gave no rewards"


class IdentityError(RewardServerError):
    """The server judges with something else than it should, or than it did before."""

    title = "The reward server is another one"


Instruction = str | Sequence[Mapping[str, Any]]
"""Text, or a conversational prompt: messages with `role` and `content`, of which the last of the user is meant."""


@dataclass(frozen=True)
class Ask:
    """One edit that is to be scored."""

    instruction: Instruction
    source: ImageLike
    edited: ImageLike
    group: str | None = None
    """Name of the group within which its reward is made relative."""


@dataclass(frozen=True)
class Reward:
    """What came of one edit. Exactly one of `value` and `reason` is there."""

    value: float | None
    """In [0, 1]; None where there is none. A failure is never a number."""
    reason: str = ""
    """Why there is none, beginning with a fixed word and a colon."""
    retryable: bool = False
    """Whether the same may succeed later."""
    normalised: float | None = None
    instruction: float | None = None
    """Instruction following on the scale of 1 to 4."""
    quality: float | None = None
    """Visual quality on the scale of 1 to 4."""
    margin: float | None = None
    confidence: float | None = None
    """How far the judge trusts it, in [0, 1]; None where unknown."""
    variance: float | None = None
    cached: bool = False

    @classmethod
    def none(cls, code: str, message: str, *, retryable: bool = False) -> "Reward":
        """Say why there is no reward."""
        return cls(None, f"{code}: {message}", retryable)


@dataclass(frozen=True)
class Compared:
    """What came of comparing two candidates."""

    preference: str | None
    """`A`, `B` or `tie`; None where they could not be compared."""
    margin: float | None
    position_consistent: bool | None
    rewards: tuple[Reward, Reward]
    reason: str = ""
    """Why there is no preference."""
    confidence: float | None = None
    """How far the judge trusts the preference, in [0, 1]; None where unknown."""


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
        """Return the pieces."""
        return iter(self._pieces)


@dataclass
class Album:
    """The images of one request, each under the beginning of its hash."""

    images: dict[str, bytes] = field(default_factory=dict)

    def ref(self, data: bytes) -> dict[str, str]:
        """Put an image in, if it is not there yet."""
        name = sha256(data)[:32]
        self.images[name] = data
        return {"ref": name}


def encode(image: ImageLike, what: str) -> bytes:
    """Return an image as encoded bytes.

    Raises:
        ImageError: If it cannot be read or is too large for any server.
    """
    named = f"{what} {image}" if isinstance(image, str | Path) else what
    return read_bytes(ImageInput.of(image, named))


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
    """Return the text of the user's last message, whose content is text or a list of parts; None if there is none."""
    if not isinstance(messages, list | tuple) or not all(isinstance(each, Mapping) for each in messages):
        return None
    contents = [each.get("content") for each in messages if each.get("role") == "user"]
    content = contents[-1] if contents else None
    if not isinstance(content, list | tuple):
        return content if isinstance(content, str) else None
    texts: list[Any] = [
        part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"
    ]
    return " ".join(texts) if texts and all(isinstance(text, str) for text in texts) else None


def read_identity(value: Any) -> Identity:
    """Read who judges, from `/info` or from a reply.

    Raises:
        RewardServerError: If it is not there.
    """
    try:
        release = value["release"]
        library, judge, protocol = (value[name] for name in ("library_id", "judge", "protocol"))
    except (KeyError, TypeError):
        raise not_ours() from None
    if not all(isinstance(each, str) for each in (library, judge, protocol)) or not isinstance(release, str | None):
        raise not_ours()
    return Identity(release, library, judge, protocol, version="")


def read_rewards(reply: Any, count: int) -> list[Reward]:
    """Read the results of a reply.

    Raises:
        RewardServerError: If there are not exactly so many, or one of them is neither a reward nor an error.
    """
    try:
        results = reply["results"]
        if len(results) != count:
            raise not_ours()
        return [_reward(each) for each in results]
    except (KeyError, TypeError, AttributeError):
        raise not_ours() from None


def read_compared(reply: Any) -> Compared:
    """Read the reply to a comparison.

    Raises:
        RewardServerError: If it is none.
    """
    first, second = read_rewards(reply, 2)
    try:
        found = reply["comparison"]
        error = found["error"]
        reason = "" if error is None else f"{error['code']}: {error['message']}"
        preference = found["preference"]
        if (preference is None) == (error is None) or preference not in (None, "A", "B", "tie"):
            raise not_ours()
        margin, sure = _number(found["margin"]), _number(found.get("confidence"))
        return Compared(preference, margin, found["position_consistent"], (first, second), reason, sure)
    except (KeyError, TypeError, AttributeError):
        raise not_ours() from None


def not_ours() -> RewardServerError:
    """Make the error of a reply that no reward server sends."""
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
    )


def _number(value: Any) -> float | None:
    """Read a number that may be missing."""
    number = finite(value)
    if number is None and value is not None:
        raise not_ours()
    return number


def batches(sizes: Sequence[int], most_items: int, most_bytes: int) -> list[range]:
    """Cut a list into runs of at most so many items and bytes; an item that is larger goes alone.

    Args:
        sizes: Bytes of each item.
        most_items: Items in one run at most, at least 1.
        most_bytes: Bytes in one run at most.
    """
    found: list[range] = []
    start = held = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start >= most_items or held + size > most_bytes):
            found.append(range(start, index))
            start, held = index, 0
        held += size
    if start < len(sizes):
        found.append(range(start, len(sizes)))
    return found

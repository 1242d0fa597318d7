"""Sources and candidates of a request: images, videos as their frames, and texts."""

from dataclasses import dataclass, field
from functools import cached_property

from rewardharness.files import content_id, sha256
from rewardharness.schema import Candidate, FramesInput, ImageInput, TextInput
from rewardharness.serving.images import RequestImage

MAX_FRAMES = 64
"""Maximum number of frames of a video in a request."""


@dataclass(frozen=True)
class RequestText:
    """A text of a request."""

    text: str = field(repr=False)

    @cached_property
    def sha256(self) -> str:
        """Identifies a text, different from every image."""
        return f"text:{sha256(self.text.encode())}"


@dataclass(frozen=True)
class RequestFrames:
    """A video of a request."""

    frames: tuple[RequestImage, ...]

    @cached_property
    def sha256(self) -> str:
        """Identifies a video, different from every image."""
        return f"frames:{content_id([frame.sha256 for frame in self.frames])}"


RequestMedia = RequestImage | RequestText | RequestFrames


def images_in(media: RequestMedia | None) -> tuple[RequestImage, ...]:
    """Return the images of a source or candidate."""
    if isinstance(media, RequestFrames):
        return media.frames
    return (media,) if isinstance(media, RequestImage) else ()


def candidate(name: str, media: RequestMedia) -> Candidate:
    """Return a source or candidate for a judge."""
    if isinstance(media, RequestText):
        return TextInput(name, media.text)
    if isinstance(media, RequestFrames):
        return FramesInput(name, tuple(ImageInput(name, data=frame.data) for frame in media.frames))
    return ImageInput(name, data=media.data)


def source(media: RequestImage | RequestFrames | None) -> ImageInput | FramesInput | None:
    """Return the source for a judge; None for text."""
    if media is None:
        return None
    found = candidate("the source", media)
    assert not isinstance(found, TextInput)
    return found

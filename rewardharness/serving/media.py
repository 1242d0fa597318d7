"""What is judged: sources and candidates as images, videos (their frames) and texts, and edits made of them.

The client sends this, the server reads it, and a judge in the same process gets it.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

from rewardharness.files import content_id, sha256
from rewardharness.schema import LABELS, Candidate, Example, FramesInput, ImageInput, TextInput
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


def judge_input(name: str, media: RequestMedia) -> Candidate:
    """Return a source or candidate for a judge."""
    if isinstance(media, RequestText):
        return TextInput(name, media.text)
    if isinstance(media, RequestFrames):
        return FramesInput(name, tuple(ImageInput(name, data=frame.data) for frame in media.frames))
    return ImageInput(name, data=media.data)


@dataclass(frozen=True)
class Edit:
    """One source, its references, one instruction, and one to four candidates that are judged together."""

    instruction: str
    source: RequestImage | RequestFrames | None
    """None for text."""
    candidates: tuple[RequestMedia, ...]
    id: str | None = None
    group: str | None = None
    """Name of the group within which the reward is normalized."""
    allow_ungradable: bool = False
    """Whether a reward of low confidence is accepted if the instruction cannot be graded."""
    references: tuple[RequestImage, ...] = ()
    """Images 2, 3, ... of the instruction."""
    critique: bool = False
    """Whether each candidate gets a critique."""

    @property
    def images(self) -> tuple[RequestImage, ...]:
        """All images."""
        given = (self.source, *self.references, *self.candidates)
        groups = (media.frames if isinstance(media, RequestFrames) else (media,) for media in given)
        return tuple(image for group in groups for image in group if isinstance(image, RequestImage))

    @property
    def size(self) -> int:
        """Size of images and texts in a request."""
        texts = (len(media.text) for media in self.candidates if isinstance(media, RequestText))
        return sum(len(image.data) for image in self.images) + sum(texts)

    @property
    def key(self) -> tuple[str, ...]:
        """Identity of the request for a given judge and Library."""
        references = ("references", *(image.sha256 for image in self.references)) if self.references else ()
        source = self.source.sha256 if self.source else ""
        critique = ("critique",) if self.critique else ()
        return (self.instruction, source, *(media.sha256 for media in self.candidates), *references, *critique)

    def example(self) -> Example:
        """Return the example for the judge. Image names are fixed; only the instruction comes from the caller."""
        several = len(self.candidates) > 1
        names = [f"candidate {label}" if several else "the edited image" for label in LABELS]
        source = None if self.source is None else judge_input("the source", self.source)
        assert not isinstance(source, TextInput)
        candidates = tuple(judge_input(name, media) for name, media in zip(names, self.candidates, strict=False))
        further = enumerate(self.references, 2)
        references = tuple(ImageInput(f"image {number}", data=image.data) for number, image in further)
        example_id = content_id(list(self.key))[:16]
        return Example(example_id, self.instruction, source, candidates, references=references)

    def reversed(self) -> "Edit":
        """The same edit with its candidates in reverse order."""
        return replace(self, candidates=self.candidates[::-1])

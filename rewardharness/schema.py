"""The values that travel through RewardHarness: frozen, and independent of files, models and how a judgment is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rewardharness.arrays import picture
from rewardharness.certainty import CalibratedBy, InstructionPart
from rewardharness.critique import Critique
from rewardharness.errors import ImageError, InputError
from rewardharness.views import JudgmentViews, ReportViews

PAIRS = "pairs.jsonl"
"""File with the pairs of an example folder."""

GROUPS = "groups.jsonl"
"""File with the groups of an example folder."""

LABELS: tuple[str, ...] = ("A", "B", "C", "D")
"""Names of the candidates of a group, in the order in which they were given."""

SOURCES = 4
"""Maximum number of source and reference images of an example."""

MAX_TEXT = 100_000
"""Maximum number of characters of a text response."""

MAX_FRAMES = 1024
"""Maximum number of frames of a video."""

TIE = "tie"
"""The preference that says neither of two candidates is better. A failed judgment is never a tie."""

SCALE: tuple[int, int] = (1, 4)
"""Lowest and highest score per dimension, as in the paper (arXiv 2605.08703)."""

EDIT_KINDS: tuple[str, ...] = tuple(
    "add remove replace color material background style tone text count position pose keep appearance other".split()
)
"""Kinds of edit. `keep`: reproduce the source; `appearance`: show its look or material; `other`: not recognised."""


@dataclass(frozen=True)
class ImageInput:
    """An encoded image: a file, or bytes in memory. A file is not opened before it is judged.

    `ImageInput("source", image)` and `ImageInput.of(image)` accept a path (text or `Path`), the bytes of an image file,
    a Pillow image, or a numpy array or torch tensor: height, width and channels, or channels first; uint8, or floats in
    [0, 1]. Pillow images and arrays are encoded as PNG, without loss.

    Raises:
        ImageError: If the value is none of these.
    """

    name: str
    """Name in messages, such as a label or a file name. Never sent to a model."""
    path: Path | None = None
    """The file, when the image is on disk."""
    data: bytes | None = field(default=None, repr=False)
    """The encoded bytes, when the image is in memory."""
    editor: str = field(default="", compare=False)
    """Name of the editor that made it, if the data have it. Never sent to a model."""

    def __post_init__(self) -> None:
        if isinstance(self.path, Path) and self.data is None:
            return
        image: Any = self.data if self.path is None else self.path
        if image is None or (self.data is not None and self.path is not None):
            step = 'Give one path, bytes, Pillow image or array: ImageInput("source", image).'
            raise ImageError(f"{self.name!r} is the name of an image, without the image itself.", next_step=step)
        image = Path(image) if isinstance(image, str) and image else image
        on_disk = isinstance(image, Path)
        object.__setattr__(self, "path", image if on_disk else None)
        object.__setattr__(self, "data", None if on_disk else picture(image, self.name or "The image"))

    @classmethod
    def of(cls, image: Any, name: str = "") -> "ImageInput":
        """Return an image of whatever `ImageInput` accepts, of a `{"bytes": ..., "path": ...}` cell, or itself.

        Args:
            image: The image.
            name: Name in messages; by default the name of the file, or `image`.

        Raises:
            ImageError: If it is no image.
        """
        if isinstance(image, cls):
            return image
        if isinstance(image, Mapping):
            content, path = image.get("bytes"), image.get("path")
            return cls.of(content if content is not None else path, name or str(path or ""))
        named = Path(image).name if isinstance(image, str | Path) else ""
        return cls(name or named or "image", data=image)


@dataclass(frozen=True)
class TextInput:
    """A text response.

    Raises:
        InputError: If the text is blank or longer than `MAX_TEXT` characters.
    """

    name: str
    """Name in messages. Never sent to a model."""
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(f"{self.name!r} is no text, or blank text.", next_step="Give the text of the response.")
        if len(self.text) > MAX_TEXT:
            step = "Shorten it, or leave the response out."
            message = f"{self.name!r} has {len(self.text)} characters; the maximum is {MAX_TEXT}."
            raise InputError(message, next_step=step)


@dataclass(frozen=True)
class FramesInput:
    """A video as its frames, in order.

    Raises:
        InputError: If there is no frame, or more than `MAX_FRAMES`.
    """

    name: str
    """Name in messages. Never sent to a model."""
    frames: tuple[ImageInput, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.frames) <= MAX_FRAMES:
            step = f"Give 1 to {MAX_FRAMES} frames; a judge looks at a few of them anyway."
            raise InputError(f"{self.name!r} has {len(self.frames)} frames.", next_step=step)


Candidate = ImageInput | TextInput | FramesInput
"""What is judged: an edited image, a text response, or an edited video."""


def images_of(media: Candidate | None) -> tuple[ImageInput, ...]:
    """Return the images of a source or candidate; none of a text."""
    if isinstance(media, ImageInput):
        return (media,)
    return media.frames if isinstance(media, FramesInput) else ()


@dataclass(frozen=True)
class Example:
    """A source, an instruction and one to four candidates, with the label if there is one.

    All candidates are of one kind: edited images, with a source image; edited videos, with a source image or video; or
    text responses to the instruction, without a source. See `rewardharness.task`.
    """

    id: str
    """Stable across runs and machines; unique within a dataset."""
    instruction: str
    source: ImageInput | FramesInput | None
    """The image or video before the edit; None for text."""
    candidates: tuple[Candidate, ...]
    """Candidates A, B, ... in order. A single one is scored alone and has no label."""
    preference: str | None = None
    """The label: the best candidate's letter, `tie`, or None when unlabelled."""
    label_kind: str = ""
    """Where the label comes from; accuracies are reported per kind and never pooled."""
    category: str = ""
    """Kind of edit as the dataset names it; may be empty."""
    source_id: str = ""
    """Which source image it belongs to: splits never separate examples of one source."""
    references: tuple[ImageInput, ...] = ()
    """Further source or reference images, at most three, which the instruction mentions as image 2, image 3, ..."""
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the data tell judge profiles alone, such as what the edit should show; empty texts are left out."""

    @property
    def source_image(self) -> ImageInput:
        """The source image.

        Raises:
            InputError: If the source is no image.
        """
        return _image(self.source, "source")

    @property
    def candidate_images(self) -> tuple[ImageInput, ...]:
        """The candidates of an image edit.

        Raises:
            InputError: If a candidate is no image.
        """
        return tuple(_image(candidate, "candidate") for candidate in self.candidates)

    @property
    def sources(self) -> tuple[ImageInput | FramesInput, ...]:
        """The source and the reference images: image 1, image 2, ...; nothing for text."""
        return () if self.source is None else (self.source, *self.references)

    @property
    def images(self) -> tuple[ImageInput, ...]:
        """All images: the sources, then the candidates; of a video its frames, of a text none."""
        return tuple(image for media in (*self.sources, *self.candidates) for image in images_of(media))

    @property
    def titles(self) -> tuple[str, ...]:
        """Captions of all images, in the order of `images`."""
        titles = image_titles(len(self.sources), self.labels)
        captions: list[str] = []
        for title, media in zip(titles, (*self.sources, *self.candidates), strict=True):
            count = len(images_of(media))
            frames = [f"{title}, frame {number} of {count}" for number in range(1, count + 1)]
            captions += frames if isinstance(media, FramesInput) else [title] * count
        return tuple(captions)

    @property
    def labels(self) -> tuple[str, ...]:
        """The letters of the candidates, in order."""
        return LABELS[: len(self.candidates)]


def _image(media: Candidate | None, role: str) -> ImageInput:
    if isinstance(media, ImageInput):
        return media
    kind = "video" if isinstance(media, FramesInput) else "text"
    raise InputError(f"The {role} is {kind}, and only images work here.", next_step="Use a dataset of image edits.")


def image_titles(sources: int, labels: Sequence[str]) -> tuple[str, ...]:
    """Return captions: `Source`, or of several sources `Image 1 (source)`, ...; then `Candidate A`, ..."""
    if sources == 0:
        return tuple(f"Candidate {label}" for label in labels)
    references = tuple(f"Image {number} (reference)" for number in range(2, sources + 1))
    first = "Image 1 (source)" if references else "Source"
    return (first, *references, *(f"Candidate {label}" for label in labels))


@dataclass(frozen=True)
class EditRequest:
    """What an instruction asks for, as far as rules can read it."""

    instruction: str
    kinds: tuple[str, ...]
    """Members of `EDIT_KINDS`, strongest first; never empty."""
    scope: Literal["local", "global", "unknown", "none"]
    """Whether the change belongs in one place, everywhere, or nowhere (`keep`, `appearance`); `unknown`: a caption."""
    colors: tuple[str, ...] = ()
    """Names of the colours asked for, lowercase English, in order of mention."""
    texts: tuple[str, ...] = ()
    """Text that is to be readable in the result, as written in the instruction."""
    removed_texts: tuple[str, ...] = ()
    """Text that is to be gone from the result."""
    directions: tuple[str, ...] = ()
    """Directions in the image in which something is to be moved: left, right, up, down."""
    tones: tuple[str, ...] = ()
    """Directions of light and colour asked for, such as brighter, warmer, less_contrast, grayscale, blurrier."""
    turned: str = ""
    """How the whole image is to be turned: half (180 degrees), right or left (90 degrees), mirrored (left to right) or
    flipped (top to bottom); empty if it is not."""


@dataclass(frozen=True)
class Scores:
    """How good one candidate is."""

    instruction: float | None
    """Instruction following on `SCALE`; fractions are allowed. None when nothing spoke to it."""
    quality: float | None
    """Visual quality on `SCALE`; fractions are allowed. None when nothing spoke to it."""
    reward: float | None
    """One number in [0, 1] for training; higher is better. None if it is unknown whether the instruction was met."""
    variance: float | None = None
    """Variance of the reward over repeated questions (of a sample, with n - 1); None when it was asked but once."""
    consistency: float | None = None
    """Whether what should stay the same did, on `SCALE`; None if not asked for, or when nothing spoke to it."""
    evidence: float | None = field(default=None, compare=False, repr=False)
    """Number in [0, 1] that ranks candidates where a reward is missing. Internal to a judge; part of no record."""

    @property
    def value_or_evidence(self) -> float:
        """The reward, or the number that ranks where there is none."""
        return self.reward if self.reward is not None else self.evidence or 0.0


@dataclass(frozen=True)
class RoutedEntry:
    """An entry of the Library that was consulted, and why."""

    name: str
    kind: Literal["skill", "tool"]
    reason: str
    """In words: `always`, the trigger that matched, or the similarity that passed its threshold."""


StepKind = Literal["think", "tool", "obs", "answer", "reply"]


@dataclass(frozen=True)
class ChainStep:
    """One tagged block of a reasoning chain; `reply` is the raw text of a model that could not be read."""

    kind: StepKind
    text: str
    """What stands between the tags."""
    picture: bytes | None = field(default=None, repr=False, compare=False)
    """A PNG that helps a person see the observation; not part of any record."""
    subject: str = ""
    """Label of the candidate that the step is about; empty for the whole example."""
    order: tuple[str, ...] = ()
    """Presentation order in which a model saw the candidates; empty without a model."""
    sample: int = 0
    """Number of the sample, from 0."""


@dataclass(frozen=True)
class Usage:
    """What a judgment cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    """Wall time."""

    def __add__(self, other: "Usage") -> "Usage":
        tokens = self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        return Usage(self.calls + other.calls, *tokens, self.seconds + other.seconds)


@dataclass(frozen=True)
class Failure:
    """Why there is no judgment."""

    code: str
    """A fixed word for tables: `image`, `input`, `timeout`, `unparsable`, `not_gradable`, ..."""
    message: str
    """One sentence for a person."""


@dataclass(frozen=True, repr=False)
class Judgment(JudgmentViews):
    """The record of one judgment: a preference with its grounds, or a reason why there is none.

    A single candidate is scored and compared with nothing: it has a ranking of one, and neither preference nor margin.
    """

    example_id: str
    judge: str
    """Who judged, as in `measured (no VLM)` or `vllm:model`."""
    protocol: str
    """How it was judged; numbers of different protocols are not comparable."""
    library_id: str
    preference: str | None = None
    """The winner's letter, `tie` when the first are level; None when there is no judgment, or one candidate alone."""
    ties_offered: bool = False
    """Whether `tie` was among the answers; see `undecided`."""
    ranking: tuple[tuple[str, ...], ...] = ()
    """Letters from best to worst; letters in one inner tuple are level."""
    margin: float | None = None
    """Difference of the best candidate to the next, in [0, 1]; None if there is no next, or it is unknown."""
    confidence: float | None = None
    """Confidence in the preference, or in the score of a single candidate, in [0, 1]; None if unknown. With
    `calibration` the probability that the preference agrees with people; no probability without."""
    calibration: CalibratedBy | None = None
    """What the confidence was calibrated on; None if it is not calibrated."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    entries: tuple[RoutedEntry, ...] = ()
    """The entries of the Library that were consulted."""
    consulted: tuple[int, int] | None = None
    """Number of consulted entries of the Library, and of all; None if no Library was read."""
    parts: tuple[InstructionPart, ...] = ()
    """Parts of the instruction and what graded them; empty for a judge that reads the instruction as a whole."""
    steps: tuple[ChainStep, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why the winner leads, strongest reason first, each a sentence with its numbers."""
    notes: tuple[str, ...] = ()
    """What a reader should know: alignments, first frames, things that could not be judged."""
    critiques: Mapping[str, Critique] = field(default_factory=dict)
    """By letter, if critiques were requested. A candidate without one has a note with the reason."""
    position_consistent: bool | None = None
    """Whether the preference is the same with the candidates in reverse order; None when not tried."""
    usage: Usage = Usage()
    failure: Failure | None = None

    @property
    def own_confidence(self) -> float | None:
        """The judge's own confidence, without the calibration, which is of the preference and of no reward."""
        return self.confidence if self.calibration is None else self.calibration.raw

    @property
    def judged(self) -> bool:
        """Whether there is a preference, or of a single candidate a score."""
        return self.preference is not None or (self.failure is None and len(self.scores) == 1)

    @property
    def inconsistent(self) -> bool:
        """Whether the answers in different orders contradict each other and cancel out: this is no tie."""
        return self.preference == TIE and self.position_consistent is False

    @property
    def undecided(self) -> bool:
        """Whether `tie` means no decision: it was not among the answers, or the judge was inconsistent."""
        return self.preference == TIE and (not self.ties_offered or self.inconsistent)


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a share."""

    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True)
class Accuracy:
    """Agreement with labels of one kind."""

    n: int
    """Labelled examples, judged or not."""
    judged: int
    """How many of them have a judgment."""
    correct: float
    """Agreements; an undecided forced choice counts as the share that a coin would get."""

    @property
    def value(self) -> float | None:
        """Share of the judged examples that agree with the label; None when none was judged."""
        return self.correct / self.judged if self.judged else None


@dataclass(frozen=True)
class Agreement(ReportViews):
    """Agreement of the judgments of a dataset with its labels, with coverage, failures and usage."""

    n: int
    judged: int
    by_label_kind: Mapping[str, Accuracy]
    """Pairs, per kind of label."""
    groups: Accuracy | None
    """Groups of three and four: whether the best candidate was found."""
    position_consistent: tuple[int, int]
    """Judgments with the same preference in both orders, and how many were tried."""
    failures: Mapping[str, int]  # by code
    usage: Usage
    consulted: Mapping[str, int] = field(default_factory=dict)  # judgments by consulted entries, as in `2 of 3`
    ties_left_out: int = 0
    """Judged examples labelled `tie` that no accuracy counts, as ties were not offered to the judge."""


Json = dict[str, Any]
"""A JSON object."""

"""Judge profiles: how a published reward model is asked, read and scored, as a YAML file without code.

A profile names the texts of its authors and their hashes instead of holding them (`profile_opening`), says how requests
are written and how replies are read (`profile_replies`), and computes one score from the values that were read:

    profile: 1
    name: my-judge
    version: "1"
    about: One sentence.
    texts: {rules: {inline: "Rate the edit from 0 to 10. Instruction: <instruction>", license: MIT}}
    calls:
      rate:
        user: [{image: source}, {image: candidate}, {use: rules, slots: {<instruction>: instruction}}]
        reply: {json: {success: [score, 0], preservation: [score, 1]}}
    values: {success: {range: [0, 10]}, preservation: {range: [0, 10]}}
    score: {min: [success, preservation]}
    range: [0, 10]

A score is a tree of `min`, `mean`, `geomean`, `product`, `difference`, `weighted`, `affine` and `clip` over values and
numbers. A value that the judge declares not applicable is left out of a tree. Slots are filled once, in the text
of the authors alone: what an instruction says is never read as a slot.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from rewardharness.codec import Positive, Sha256, Text, to_json
from rewardharness.files import content_id
from rewardharness.schema import EDIT_KINDS

_COMMIT = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", re.ASCII)
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+", re.ASCII)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*", re.ASCII)
Node = Any
"""A score: the name of a value, a number, or `{operation: arguments}`."""
Values = Mapping[str, float | None]
"""What was read from the replies; None for a value that does not apply."""
Labels = Annotated[tuple[Text, ...], Meta(min_length=1)]
"""Spellings, at least one."""


@dataclass(frozen=True)
class TextSource:
    """Where a text comes from. Exactly one of `inline`, `file`, `pypi`, `github` and `hub` is given."""

    license: Text
    """License of the text; `unknown` if its authors name none."""
    inline: str = ""
    file: str = ""
    """A file in the folder of the profile."""
    pypi: str = ""
    """A package, as in `NAME==VERSION`."""
    github: str = ""
    """A commit, as in `OWNER/REPOSITORY@COMMIT`."""
    hub: str = ""
    """A commit of a model repository on the Hugging Face Hub, as in `ORG/NAME@COMMIT`."""
    path: str = ""
    """Path of the file in the package or repository."""
    file_sha256: Sha256 | None = None
    """Hash of this file."""
    pick: tuple[str, ...] = ()
    """What to take from it: names of Python texts (`NAME`, `Class.NAME`), or places in JSON or YAML (`a.0.b`), which
    are joined; empty for the whole file. Of an f-string, `{name}` stands for the value of a name: a slot."""
    join: str = "\n"
    replace: Mapping[str, str] = field(default_factory=dict)
    """Replacements in what was taken, in this order."""
    sha256: Sha256 | None = None
    """Hash of the resulting text; needed unless it is inline."""
    braces: bool = False
    """Whether braces are doubled in it, as for Python's `str.format`."""

    def __post_init__(self) -> None:
        origins = [name for name in ("inline", "file", "pypi", "github", "hub") if getattr(self, name)]
        if len(origins) != 1:
            raise ValueError("a text needs exactly one of inline, file, pypi, github and hub")
        if origins != ["inline"] and self.sha256 is None:
            raise ValueError("a text that is not inline needs its sha256")
        if origins[0] in ("pypi", "github", "hub") and not (self.path and self.file_sha256):
            raise ValueError(f"a text from {origins[0]} needs path and file_sha256")
        place = self.github or self.hub
        if place and not _COMMIT.fullmatch(place):
            raise ValueError(f"{place!r} names no commit: write OWNER/NAME@ and its 40 hexadecimal digits")
        if self.pypi and not _PACKAGE.fullmatch(self.pypi):
            raise ValueError(f"{self.pypi!r} names no version of a package: write NAME==VERSION")
        if ".." in self.path.split("/") or not _PATH.fullmatch(self.path or "-"):
            raise ValueError(f"{self.path!r} is no path of a file")

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        place = self.pypi or self.github or self.hub
        service = "PyPI" if self.pypi else "github.com" if self.github else "huggingface.co"
        return f"{place}, {self.path} ({service})" if place else self.file or "the profile"


@dataclass(frozen=True)
class MessagePart:
    """A part of a message: exactly one of `text`, `image` and `use`."""

    text: str = ""
    """A text of the profile itself, such as a label; slots are filled in it, too."""
    image: Literal["", "source", "candidate", "reference", "a", "b"] = ""
    use: str = ""
    """Name of a text."""
    by: Mapping[str, str] = field(default_factory=dict)
    """Names of the texts for other kinds of edit (of `EDIT_KINDS`); the strongest kind of an instruction decides."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Names of the texts for categories of the data; they precede `by`."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """What stands in the text for the `instruction`, for a note of the data (`note:NAME`), or for an image (`source`,
    `candidate`, `reference`, `a`, `b`), in its order; a slot for nothing is mapped to an empty text. Several images of
    one slot are separated by spaces."""

    def __post_init__(self) -> None:
        if sum(bool(content) for content in (self.text, self.image, self.use)) != 1:
            raise ValueError("a part needs exactly one of text, image and use")
        known = {"instruction", "", *IMAGES}
        named = [name for name in self.slots.values() if not name.startswith(NOTE)]
        if "" in self.slots or any(set(name.split() or [""]) - known for name in named):
            raise ValueError(f"a slot is a text that stands for {', '.join(sorted(known - {''}))} or nothing")
        if set(self.by) - set(EDIT_KINDS) or ((self.by or self.categories) and not self.use):
            raise ValueError(f"`by` needs `use` for other kinds of edit, and knows {', '.join(EDIT_KINDS)}")

    def text_for(self, kinds: Sequence[str]) -> str:
        """Return the name of its text for a category, or for the kinds that an instruction names, strongest first."""
        return {**self.by, **self.categories}.get(next(iter(kinds), ""), self.use)

    @property
    def uses(self) -> tuple[str, ...]:
        """Names of its texts."""
        return tuple(filter(None, (self.use, *self.by.values(), *self.categories.values())))


IMAGES = ("source", "candidate", "reference", "a", "b")
"""What a part may show: in single mode source, candidate and reference image, in pair mode source, a and b."""
NOTE = "note:"
"""Beginning of a slot that stands for a note of the data."""


@dataclass(frozen=True)
class ChoiceReply:
    """A reply that names the better of two candidates. The value is 1 for a, -1 for b and 0 for a tie."""

    value: Text
    key: Text
    """Key of a JSON object, or label of a line."""
    a: Labels
    """Spellings of the first one; upper and lower case are the same."""
    b: Labels
    tie: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenReply:
    """A reply whose value is the mean under the probabilities of its first token."""

    value: Text
    of: Annotated[Mapping[str, float], Meta(min_length=1)]
    """Value of each token; other tokens are ignored. Spaces around a token do not count."""
    least: float = 0.1
    """Probability that these tokens must have together."""
    fold: bool = False
    """Whether upper and lower case are the same."""


@dataclass(frozen=True)
class ReplyForm:
    """How values are read from a reply. Exactly one of the forms is given."""

    json: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    """Value -> path in the last JSON object of the reply that has the first key of the path. A list must hold as many
    items as are read from it."""
    lines: Mapping[str, Labels] = field(default_factory=dict)
    """Value -> labels of the line that holds it, as in `Label: 3`; markers of lists and headings do not count."""
    sections: Mapping[str, tuple[Text, Text]] = field(default_factory=dict)
    """Value -> heading of a section, and label of its line that holds it."""
    numbers: tuple[str, ...] = ()
    """Values in the order in which their numbers stand in the reply, which must hold as many."""
    decimals: bool = False
    """Whether only numbers with a decimal point count, so that `Image 1: 2.5` holds one."""
    choice: ChoiceReply | None = None
    tokens: TokenReply | None = None

    def __post_init__(self) -> None:
        forms = (self.json, self.lines, self.sections, self.numbers, self.choice, self.tokens)
        if sum(bool(form) for form in forms) != 1:
            raise ValueError("a reply needs exactly one of json, lines, sections, numbers, choice and tokens")
        if not all(path and isinstance(path[0], str) for path in self.json.values()):
            raise ValueError("a path in JSON begins with a key")

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the values that are read."""
        one = self.choice or self.tokens
        return (one.value,) if one else (*self.json, *self.lines, *self.sections, *self.numbers)


@dataclass(frozen=True)
class Call:
    """One request. Calls with conditions are made for some examples; calls that exclude each other may share values."""

    user: tuple[MessagePart, ...]
    reply: ReplyForm
    system: tuple[MessagePart, ...] = ()
    only: tuple[str, ...] = ()
    """Categories of the data that it is made for; empty for all."""
    needs: tuple[str, ...] = ()
    """What the data must have: notes by name, or `reference` for a reference image."""
    without: tuple[str, ...] = ()
    """What the data must not have."""

    @property
    def conditional(self) -> bool:
        """Whether it is made for some examples only."""
        return bool(self.only or self.needs or self.without)

    def applies(self, category: str, there: Collection[str]) -> bool:
        """Return whether it is made for a category, and the notes and images that are there."""
        known = not self.only or category in self.only
        return known and set(self.needs) <= set(there) and not set(self.without) & set(there)


@dataclass(frozen=True)
class ValueRange:
    """What a value may be. Another number is an error of the reply."""

    range: tuple[float | None, float | None] = (None, None)
    """Least and greatest value; None for no limit."""
    integer: bool = False
    optional: bool = False
    """Whether the judge may say that it does not apply (N/A)."""
    na: float | None = None
    """Number that stands for N/A; without one, such a value is left out of the score."""

    def __post_init__(self) -> None:
        low, high = self.range
        if low is not None and high is not None and low >= high:
            raise ValueError("the first number of a range must be less than the second")
        if self.na is not None and not self.optional:
            raise ValueError("`na` needs `optional: true`")


@dataclass(frozen=True)
class Sampling:
    """Sampling of all calls. What is not given is left to the server."""

    max_tokens: Positive = 2048
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    """Seed of the first sample; each further sample adds 1, and another attempt 1000."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageForm:
    """How images are sent."""

    format: Literal["original", "png", "jpeg"] = "original"
    quality: int = 95
    """Quality of JPEG."""
    max_pixels: int | None = None
    """Larger images are scaled down."""


@dataclass(frozen=True)
class CannedReplies:
    """Canned replies, and what the profile must make of them."""

    replies: Mapping[str, str] = field(default_factory=dict)
    """Call -> text of its reply."""
    tokens: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Call -> probabilities of the first token of its reply."""
    score: float | None = None
    """Expected score, or margin, before it is scaled; None if reading must fail."""


@dataclass(frozen=True)
class Profile:
    """A judge as data; see the module."""

    profile: Literal[1]
    """Version of the format."""
    name: Text
    version: Text
    about: Text
    calls: Mapping[str, Call]
    values: Mapping[str, ValueRange]
    mode: Literal["single", "pair"] = "single"
    """Whether a request shows one candidate, or two in both orders."""
    score: Node = None
    """Single: score of a candidate. Pair: margin of a over b."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest score; a reward of 0 and 1. Of a pair: the margins that count as -1 and 1."""
    instruction: Node = None
    """Score of instruction following, in the same range; None if the judge has none."""
    quality: Node = None
    """Score of visual quality, in the same range; None if the judge has none."""
    consistency: Node = None
    """Score of what should stay the same, in the same range; None if the judge has none."""
    texts: Mapping[str, TextSource] = field(default_factory=dict)
    sampling: Sampling = Sampling()
    samples: Positive = 1
    """Samples per candidate; their scores are averaged."""
    attempts: Positive = 2
    """Attempts with other seeds until a reply can be read. There is no reminder: such models know one turn."""
    images: ImageForm = ImageForm()
    model: str = ""
    """The model that it is meant for."""
    serving: str = ""
    """How the model is served."""
    homepage: str = ""
    notes: tuple[str, ...] = ()
    """Differences from what the authors run."""
    check: tuple[CannedReplies, ...] = ()

    @property
    def id(self) -> str:
        """Content id of everything that can change a judgment: the whole profile, with the hashes of its texts."""
        form = to_json(self)
        if self.consistency is None:  # ids of profiles that were made before it
            del form["consistency"]
        for call in form["calls"].values():
            for name in ("only", "needs", "without"):
                if not call[name]:
                    del call[name]
        return content_id(form)

    @property
    def protocol(self) -> str:
        """Name of the protocol of its judgments."""
        return f"profile:{self.name}@{self.version}"

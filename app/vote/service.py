"""Blind votes: examples in random order, judged only after the vote."""

import random
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from PIL import Image

from app.library.libraries import Choice
from app.run_panel.following import keep
from app.score.comparisons import Comparison, Draft
from app.viewer.pictures import shrunk
from app.vote.feedback import Stored
from rewardharness.benchmark.metrics import LabeledAnswer, choice_of
from rewardharness.data.opening import DEMO, open_data
from rewardharness.errors import HarnessError, InputError
from rewardharness.judging.ranking import RatedEditor, comparisons_of, rate_editors
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.schema import LABELS, TIE, Example, ImageInput
from rewardharness.task import IMAGE_EDIT, task_of

if TYPE_CHECKING:
    from app.services import AppServices

SHOWN_SIDE = 1024
"""Longest side of a shown image in pixels."""

BOTH_BAD = "both bad"
"""Answer of a voter who finds all candidates bad: a tie."""

GENERATE_AT = 2
"""Number of samples left at which further pairs are generated in the background, on this computer."""

MAX_SENT = 200
"""Maximum number of visitors for whom examples wait; the oldest go first."""

Ranking = tuple[tuple[str, ...], ...]
"""Letters from best to worst; letters in one inner tuple are level."""


@dataclass(frozen=True)
class Ballot:
    """An example in the order in which it is shown, and what a visitor has seen and answered so far."""

    example: Example
    """Its label, if the data have one, is shown to nobody before the vote."""
    number: int
    """Number of this example for this visitor, from 1."""
    total: int
    """Number of examples."""
    seen: frozenset[str]
    """Ids of the examples that this visitor has seen, with this one."""
    sent: tuple[Example, ...] = ()
    """The examples that were sent here to be labeled; none for the usual ones."""
    picked: tuple[str, ...] = ()
    """The letters of a group that are ranked so far, best first."""
    cast: tuple["Cast", ...] = ()
    """The answers of this visitor, oldest first."""
    unused: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Taken by the vote: a ballot is used once."""

    def pictures(self) -> list[Image.Image]:
        """Return source, A, B, ... as they are shown, without names that could identify them.

        Raises:
            ImageError: If an image cannot be read.
        """
        images = (self.example.source_image, *self.example.candidate_images)
        return [shrunk(image, SHOWN_SIDE) for image in images]

    def ranking(self, answer: str) -> Ranking | None:
        """Return the ranking that an answer completes; None if candidates are left to rank.

        Args:
            answer: A letter, the best of those that are not ranked yet; `tie` if these are level; or `BOTH_BAD`.
        """
        labels = self.example.labels
        left = tuple(label for label in labels if label not in self.picked)
        ranked = tuple((label,) for label in self.picked)
        if answer in {TIE, BOTH_BAD}:
            return (labels,) if answer == BOTH_BAD else (*ranked, left)
        if answer not in left:
            raise InputError(f"{answer} is ranked already.", next_step="Choose another one.")
        rest = tuple(label for label in left if label != answer)
        return None if len(rest) > 1 else (*ranked, (answer,), rest)

    @property
    def agreements(self) -> tuple[list[LabeledAnswer], list[LabeledAnswer]]:
        """The visitor's choices of the best candidate, each with that of the judge, and with the label of the data."""
        chosen = [cast for cast in self.cast if cast.best]
        labels = [(cast, cast.ballot.example.preference) for cast in chosen]
        judge = [cast.beside(cast.judged) for cast in chosen]
        return judge, [cast.beside(label) for cast, label in labels if label is not None]


@dataclass(frozen=True)
class Cast:
    """A stored answer."""

    ballot: Ballot
    ranking: Ranking
    stored: Stored
    judged: str | None = None
    """The answer of the judge, see `choice_of`."""

    @property
    def best(self) -> str | None:
        """The best candidate, or `tie` of a pair; None if several of a group are best."""
        first = self.ranking[0]
        return first[0] if len(first) == 1 else TIE if len(self.ballot.example.labels) == 2 else None

    def beside(self, choice: str | None) -> LabeledAnswer:
        """Return this answer beside another one about the same example."""
        example = self.ballot.example
        return LabeledAnswer(example.id, self.best or "", choice, cluster=example.source_id)


class Voting:
    """The examples to vote on. Of visitors it holds only what was sent here for them and not opened yet.

    Args:
        services: The services.
    """

    def __init__(self, services: "AppServices") -> None:
        self._services = services
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._examples: dict[str, tuple[Example, ...]] = {}
        self._sent: OrderedDict[str, tuple[Example, ...]] = OrderedDict()

    def label(self, session: str, examples: Iterable[Example], name: str) -> int:
        """Make examples the next to vote on for a visitor, from the moment at which the tab Vote is opened.

        Args:
            session: `session_hash` of the visitor's request.
            examples: Image edits with two to four candidates; others are left out. Labels are hidden until the vote.
            name: Name of their dataset; with it, ids are unique.

        Returns:
            Number of the examples to vote on.

        Raises:
            InputError: If there are none.
        """
        pairs = _votable(examples, name)
        with self._lock:
            keep(self._sent, session, pairs, MAX_SENT)
        return len(pairs)

    def waits(self, session: str) -> bool:
        """Return whether examples were sent here for a visitor that are not shown yet."""
        return session in self._sent

    def next(self, before: Ballot | None, chance: random.Random, data: str = "", session: str = "") -> Ballot | None:
        """Return a random example that the visitor has not seen, its candidates in random order; None without one.

        Args:
            before: The ballot before, None for the first.
            chance: Decides.
            data: Dataset that a user of this computer has named; empty for that of the settings, or the samples.
            session: Whose sent examples come first.

        Raises:
            HarnessError: If the dataset cannot be opened.
        """
        seen, cast = (before.seen, before.cast) if before is not None else (frozenset[str](), ())
        with self._lock:
            new = self._sent.pop(session, ())
        sent = new or (before.sent if before is not None else ())
        examples = sent or self._usual(data, seen)
        seen -= {example.id for example in new}
        left = [example for example in examples if example.id not in seen]
        if not left:
            return None
        example = chance.choice(left)
        order = chance.sample(range(len(example.candidates)), len(example.candidates))
        label = example.preference
        if label in example.labels:
            label = LABELS[order.index(example.labels.index(label))]
        variant = replace(example, candidates=tuple(example.candidates[place] for place in order), preference=label)
        number, total = len(examples) - len(left) + 1, len(examples)
        return Ballot(variant, number, total, seen | {example.id}, sent, cast=cast)

    def vote(self, ballot: Ballot, answer: str, name: str, session: str = "") -> Ballot:
        """Store a vote, once per ballot; see `Feedback.give`. A ranking is stored as all of its pairs.

        Args:
            ballot: The example as it was shown.
            answer: See `Ballot.ranking`.
            name: Account of the voter; empty if unknown.
            session: Pseudonym of the voter's address; empty if unknown.

        Returns:
            The ballot with the answer, or with a candidate ranked, if others are left.

        Raises:
            HarnessError: If the ballot was used, or the vote cannot be stored.
        """
        ranking = ballot.ranking(answer)
        if ranking is None:
            return replace(ballot, picked=(*ballot.picked, answer))
        if not ballot.unused.acquire(blocking=False):
            raise InputError("This ballot was used already.", next_step="Continue with the next pair.")
        pairs, bad = _pairs(ballot.example, ranking), answer == BOTH_BAD
        try:
            give = self._services.feedback.give
            stored = give(pairs, name=name, session=session, both_bad=bad, context={"blind": True})
        except InputError:  # it is not stored
            ballot.unused.release()
            raise
        return replace(ballot, cast=(*ballot.cast, Cast(replace(ballot, cast=()), ranking, stored)))

    def undo(self, ballot: Ballot) -> Ballot:
        """Withdraw the last pick of a group, or the last stored answer, and return its ballot, to be used again.

        Raises:
            HarnessError: If there is none, or it cannot be withdrawn.
        """
        if ballot.picked and not ballot.unused.locked():
            return replace(ballot, picked=ballot.picked[:-1])
        if not ballot.cast:
            raise InputError("There is no vote to take back.", next_step="Vote first.")
        *earlier, last = ballot.cast
        self._services.feedback.withdraw(last.stored)
        return replace(last.ballot, picked=(), cast=tuple(earlier), unused=threading.Lock())

    def judge(self, ballot: Ballot) -> tuple[Ballot, Comparison]:
        """Judge an example, with the judge of the app and its default Library, and note the answer on the ballot."""
        services = self._services
        library, judge = Choice(services.libraries.choices()[0][1]), services.api_judge()
        comparison = services.compare(Draft.of(_served(ballot.example)), library, judge)
        services.results.add(comparison)
        last = replace(ballot.cast[-1], judged=choice_of(comparison.judgment))
        return replace(ballot, cast=(*ballot.cast[:-1], last)), comparison

    def leaderboard(self) -> tuple[RatedEditor, ...]:
        """Rate the editors that the voted examples name.

        Raises:
            HarnessError: If the votes cannot be read.
        """
        return rate_editors(comparisons_of(self._services.feedback.examples()))

    def _usual(self, data: str, seen: frozenset[str]) -> tuple[Example, ...]:
        """Return the examples of a dataset; the samples, followed on this computer by generated pairs."""
        services, spec = self._services, self._spec(data)
        examples = self._load(spec)
        left = sum(example.id not in seen for example in examples)
        if spec or not services.local or left > GENERATE_AT:
            return examples
        if left:
            threading.Thread(target=self._generated, name="demo", daemon=True).start()
            return examples
        return (*examples, *self._generated())

    def _generated(self) -> tuple[Example, ...]:
        with suppress(HarnessError):
            return self._load(DEMO)
        return ()

    def opens(self, before: Ballot | None, data: str) -> bool:
        """Return whether `next` has to open or generate examples, which takes a while."""
        if before is not None and before.sent:
            return False
        spec, seen = self._spec(data), before.seen if before is not None else frozenset[str]()
        known = self._examples.get(spec)
        if spec or known is None:
            return bool(spec) and known is None
        ended = all(example.id in seen for example in known)
        return ended and self._services.local and DEMO not in self._examples

    def _spec(self, data: str) -> str:
        """Return the dataset to vote on; empty for the samples."""
        return (data.strip() if self._services.local else "") or self._services.settings.vote_data or ""

    def _load(self, spec: str) -> tuple[Example, ...]:
        if spec not in self._examples:
            with self._loading:
                if spec not in self._examples:
                    self._examples[spec] = _votable(self.opened(spec) if spec else self._samples(), spec)
        return self._examples[spec]

    def opened(self, spec: str) -> Sequence[Example]:
        """Open a dataset.

        Raises:
            HarnessError: If it cannot be opened; without its place, for visitors who are not at this computer.
        """
        try:
            return open_data(spec, self._services.settings).examples
        except HarnessError:
            if self._services.local:
                raise
            step = "Check the table of your archive, or inform the owner of this app."
            raise InputError("The pairs cannot be opened.", next_step=step) from None

    def _samples(self) -> Sequence[Example]:
        return [
            Example(
                sample.title,
                sample.instruction,
                ImageInput("source", sample.source),
                tuple(ImageInput(path.name, path) for path in sample.candidates),
            )
            for sample in self._services.samples()
        ]


def _votable(examples: Iterable[Example], name: str) -> tuple[Example, ...]:
    """Return the image edits with several candidates, with ids that are unique among all datasets."""
    pairs = tuple(
        replace(example, id=f"{name}: {example.id}")
        for example in examples
        if task_of(example) is IMAGE_EDIT and len(example.candidates) > 1
    )
    if not pairs:
        raise InputError("There are no pairs of image edits to vote on.", next_step="Name another dataset.")
    return pairs


def _pairs(example: Example, ranking: Ranking) -> list[tuple[Example, str]]:
    """Return all pairs of the candidates with their labels."""
    level = {label: place for place, labels in enumerate(ranking) for label in labels}
    candidates = zip(example.labels, example.candidates, strict=True)
    return [
        (
            replace(example, candidates=(first, second), preference=None),
            TIE if level[one] == level[other] else LABELS[int(level[one] > level[other])],
        )
        for (one, first), (other, second) in combinations(candidates, 2)
    ]


def _served(example: Example) -> Example:
    """Return an example whose images are files for the page: the same pixels, without metadata and telling names."""

    def copy(image: ImageInput) -> ImageInput:
        data = encode_png(load_picture(image).pixels)
        return ImageInput(image.name, save_bytes_to_cache(data, "image.png", get_upload_folder()))

    source, candidates = copy(example.source_image), tuple(map(copy, example.candidate_images))
    return replace(example, source=source, candidates=candidates, references=tuple(map(copy, example.references)))

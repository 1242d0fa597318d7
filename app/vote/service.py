"""Blind votes: examples in random order, judged only after the vote."""

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations

from PIL import Image

from app.library.libraries import Choice
from app.score.comparisons import Draft
from app.services import AppServices
from app.viewer.pictures import shrunk
from app.vote.feedback import Stored
from rewardharness.data.opening import open_data
from rewardharness.errors import HarnessError, InputError
from rewardharness.schema import TIE, Example, ImageInput, Judgment
from rewardharness.task import IMAGE_EDIT, task_of

SHOWN_SIDE = 1024
"""Longest side of a shown image in pixels."""

BOTH_BAD = "both bad"
"""Answer of a voter who finds both candidates bad: a tie."""


@dataclass(frozen=True)
class Ballot:
    """A pair in the order in which it is shown, and what a visitor has seen so far."""

    example: Example
    number: int
    """Number of this pair for this visitor, from 1."""
    total: int
    """Number of pairs."""
    seen: frozenset[str]
    """Ids of the pairs that this visitor has seen, with this one."""
    unused: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Taken by the vote: a ballot is used once."""

    def pictures(self) -> list[Image.Image]:
        """Return source, A and B as they are shown, without names that could identify them.

        Raises:
            ImageError: If an image cannot be read.
        """
        media = (*self.example.sources, *self.example.candidates)
        shown = [shrunk(image, SHOWN_SIDE) for image in media if isinstance(image, ImageInput)]
        return [shown[0], *shown[-2:]]


class Voting:
    """The pairs to vote on. Holds nothing of any visitor.

    Args:
        services: The services.
    """

    def __init__(self, services: AppServices) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._pairs: dict[str, tuple[Example, ...]] = {}

    def next(self, seen: frozenset[str], chance: random.Random, data: str = "") -> Ballot | None:
        """Return a random pair that the visitor has not seen, its candidates in random order; None without one.

        Args:
            seen: Ids of pairs.
            chance: Decides.
            data: Dataset that a user of this computer has named; empty for that of the settings, or the samples.

        Raises:
            HarnessError: If the dataset cannot be opened.
        """
        services = self._services
        pairs = self._load((data.strip() if services.local else "") or services.settings.vote_data or "")
        left = [pair for pair in pairs if pair.id not in seen]
        if not left:
            return None
        pair = chance.choice(left)
        order = chance.sample(pair.candidates, 2)
        shown = replace(pair, candidates=tuple(order), preference=None)
        return Ballot(shown, len(pairs) - len(left) + 1, len(pairs), seen | {pair.id})

    def vote(self, ballot: Ballot, answer: str, name: str, session: str = "") -> Stored:
        """Store a vote, once per ballot; see `Feedback.give`.

        Args:
            ballot: The pair as it was shown.
            answer: `A`, `B`, `tie` or `BOTH_BAD`.
            name: Account of the voter; empty if unknown.
            session: Pseudonym of the voter's address; empty if unknown.

        Raises:
            HarnessError: If the ballot was used, or the vote cannot be stored.
        """
        if not ballot.unused.acquire(blocking=False):
            raise InputError("This ballot was used already.", next_step="Continue with the next pair.")
        bad, give = answer == BOTH_BAD, partial(self._services.feedback.give, name=name, session=session)
        try:
            return give(ballot.example, TIE if bad else answer, both_bad=bad, context={"blind": True})
        except InputError:  # it is not stored
            ballot.unused.release()
            raise

    def judge(self, ballot: Ballot) -> Judgment:
        """Judge a pair, with the judge of the app and its default Library."""
        services = self._services
        library, judge = Choice(services.libraries.choices()[0][1]), services.api_judge()
        return services.compare(Draft.of(ballot.example), library, judge).judgment

    def _load(self, spec: str) -> tuple[Example, ...]:
        with self._lock:
            if spec not in self._pairs:
                found = tuple(self._opened(spec) if spec else self._samples())
                if not found:
                    raise InputError("There are no pairs of image edits to vote on.", next_step="Name another dataset.")
                self._pairs[spec] = found
            return self._pairs[spec]

    def _opened(self, spec: str) -> Sequence[Example]:
        try:
            dataset = open_data(spec, self._services.settings)
        except HarnessError:
            if self._services.local:
                raise
            raise InputError("The pairs cannot be opened.", next_step="Inform the owner of this app.") from None
        return _pairs(dataset.examples)

    def _samples(self) -> Sequence[Example]:
        samples = self._services.samples()
        made = [
            Example(
                sample.title,
                sample.instruction,
                ImageInput("source", sample.source),
                tuple(ImageInput(path.name, path) for path in sample.candidates),
            )
            for sample in samples
        ]
        return _pairs(made)


def _pairs(examples: Sequence[Example]) -> list[Example]:
    """Return all pairs of candidates of image edits whose images are files."""
    return [
        replace(example, id=f"{example.id}/{one}-{other}", candidates=(first, second))
        for example in examples
        if task_of(example) is IMAGE_EDIT
        for (one, first), (other, second) in combinations(enumerate(example.candidates), 2)
        if all(isinstance(image, ImageInput) and image.path for image in (*example.images, first, second))
    ]

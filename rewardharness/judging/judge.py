"""`Judge`: what all judges offer to programs; `RewardJudge`, which gives one number per candidate; `ScoredDataset`."""

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.codec import finite
from rewardharness.errors import HarnessError, InputError
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.chain import answer
from rewardharness.judging.interface import JudgeProtocol, Traits, check_task, failure_of, refuse, unjudged
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.schema import (
    TIE,
    Agreement,
    Candidate,
    Example,
    Failure,
    FramesInput,
    ImageInput,
    Judgment,
    Scores,
    TextInput,
    Usage,
)
from rewardharness.settings import Settings
from rewardharness.task import IMAGE_EDIT
from rewardharness.views import data_frame

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.judging.evaluate import Executor


class Judge(JudgeProtocol):
    """A judge of image edits, or of other tasks: it scores candidates, and predicts which of several people prefer.

    `score` and `score_dataset` work in plain programs and inside a running event loop, where they block it; to await
    them, use `await asyncio.to_thread(judge.score, ...)`.
    """

    traits: Traits = Traits()
    calibration: ConfidenceCalibration | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, protocol={self.protocol!r})"

    def __copy__(self) -> "Judge":
        """Return a judge that shares everything with this one, which one that was pickled does not."""
        judge = object.__new__(type(self))
        judge.__dict__.update(self.__dict__)
        return judge

    async def close(self) -> None:
        """Close the connections of this event loop, if there are any."""

    def with_ties(self, ties: bool) -> "Judge":
        """Return the same judge with `tie` among its answers, or without."""
        return self

    def with_critiques(self) -> "Judge":
        """Return the same judge, adding a critique of each candidate to its judgments; their scores are the same.

        Raises:
            InputError: If it writes none.
        """
        step = "Use the pixel-based judge, or a model: --judge vllm:NAME@URL or openai:NAME@URL."
        raise InputError(f"{self.name} writes no critiques.", next_step=step)

    def with_calibration(self, calibration: ConfidenceCalibration | None) -> "Judge":
        """Return the same judge with another calibration of its confidence, or without; no preference changes."""
        judge = copy(self)
        object.__setattr__(judge, "calibration", calibration)  # some judges are frozen
        return judge

    def score(
        self,
        source: Any,
        candidates: Any,
        instruction: str,
        *,
        references: Sequence[Any] = (),
        library: Library | Path | str | None = None,
        critique: bool = False,
    ) -> Judgment:
        """Judge the candidates of one edit.

        Args:
            source: The image before the edit: a path, bytes, a Pillow image or an array, as `ImageInput.of` accepts; or
                a `FramesInput`; None for text.
            candidates: Two to four edited images, which are called A, B, C, D; or one, which is scored alone. Likewise
                `FramesInput` for videos, and `TextInput` for text responses.
            instruction: The edit that was asked for, or the prompt of the texts.
            references: Further source or reference images, at most three, which the instruction mentions as image 2,
                image 3, ...
            library: A Library, or what `Library.from_pretrained` opens; None for `RH_LIBRARY` or the built-in one.
            critique: Whether to say in words what is wrong with each candidate; see `Judgment.critiques`.

        Returns:
            The judgment. An image that cannot be read, or a model that does not answer, gives one with a `failure`,
            never a made-up score.

        Raises:
            ImageError: If a value is no image.
            InputError: If the instruction is not text, or the judge writes no critiques.
            LibraryError: If the Library cannot be opened.
        """
        text: object = instruction
        if not isinstance(text, str):
            step = "Say in words what the edit should do."
            raise InputError(f"The instruction is not text: {type(text).__name__}.", next_step=step)
        several = candidates if isinstance(candidates, list | tuple) else [candidates]
        media = tuple(_media(candidate, f"candidate {number}") for number, candidate in enumerate(several, 1))
        further = tuple(ImageInput.of(reference, f"image {number}") for number, reference in enumerate(references, 2))
        first = None if source is None else _media(source, "source")
        if isinstance(first, TextInput):
            raise InputError("The source is text.", next_step="Give None as source for text responses.")
        example = Example("example", instruction, first, media, references=further)
        judge = self.with_critiques() if critique else self
        return judge.score_dataset([example], library=library).judgments[0]

    def score_dataset(
        self,
        data: Any,
        *,
        library: Library | Path | str | None = None,
        fields: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
        skip_bad_rows: bool = False,
        executor: "Executor | None" = None,
    ) -> "ScoredDataset":
        """Judge every example of a dataset. Nothing is written; `rh score` is resumable.

        Args:
            data: A `datasets.Dataset`, a list of dicts or of `Example`, a folder, a table, or the name of a dataset on
                the Hub: `org/name[@revision][:config/split]`. Images are paths, bytes, Pillow images or arrays.
            library: As for `score`.
            fields: Which column is which field, as in `{"source": "before", "candidates": ["left", "right"]}`; what is
                left out is recognized by name. See docs/reference/data.md.
            concurrency: Examples that are judged side by side; None for what suits the judge.
            skip_bad_rows: Leave out rows that cannot be used. Without it one such row is an error.
            executor: What judges, such as a `RayExecutor`; None for this process.

        Returns:
            One judgment per example, in order, and a report.

        Raises:
            DataError: If the data cannot be read.
            LibraryError: If the Library cannot be opened.
            InputError: If the judge or the Library is for another task.
        """
        settings = Settings.from_env()
        from rewardharness.data.values import read_data

        dataset = read_data(data, settings, fields=fields, skip_bad_rows=skip_bad_rows)
        opened = open_library(settings.library if library is None else library)
        check_task(dataset.task, self, opened)
        at_once = concurrency or self.traits.concurrency
        from rewardharness.judging.evaluate import evaluate

        judged = evaluate(self, opened, dataset.examples, concurrency=at_once, executor=executor)
        return ScoredDataset(dataset, tuple(judgment for _, judgment in judged))


@dataclass(frozen=True, repr=False)
class RewardJudge(Judge):
    """A judge that gives a number for each candidate.

    Args:
        span: Least and greatest number, which become the rewards 0 and 1; None for any number, whose reward is
            1 / (1 + exp(-number)): it keeps the order, and is no probability.
    """

    span: tuple[float, float] | None = field(default=(0.0, 1.0), kw_only=True)
    traits = Traits((IMAGE_EDIT,), uses_library=False)
    ties = True

    @abstractmethod
    async def numbers(self, example: Example) -> Mapping[str, float]:
        """Return a number per label.

        Raises:
            HarnessError: If there is none.
        """

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example; the Library is not read.

        Returns:
            Rewards, and of several candidates a preference; or a failure.
        """
        started = time.perf_counter()
        failure = refuse(example, self, library)
        if failure is not None:
            return unjudged(example, self, library, failure)
        try:
            numbers = await self.numbers(example)
            rewards = {label: self._reward(label, number) for label, number in numbers.items()}
        except HarnessError as error:
            return unjudged(example, self, library, failure_of(error))
        judgment = ranked(example, self, library, numbers, rewards, ties=self.ties)
        return replace(judgment, usage=Usage(seconds=time.perf_counter() - started))

    def _reward(self, label: str, value: Any) -> float:
        number = finite(value)
        low, high = self.span or (-math.inf, math.inf)
        if number is None or not low <= number <= high:
            from rewardharness.models.base import ModelError

            within = f" from {low:g} to {high:g}" if self.span else ""
            raise ModelError("bad_response", f"{self.name} gave {label} no number{within}.", next_step="")
        if self.span is not None:
            return (number - low) / (high - low)
        return 0.5 * (1 + math.tanh(number / 2))


def ranked(
    example: Example,
    judge: JudgeProtocol,
    library: Library,
    values: Mapping[str, float],
    rewards: Mapping[str, float],
    *,
    ties: bool,
) -> Judgment:
    """Create a judgment from one number per candidate, on any scale.

    Args:
        example: The example.
        judge: The judge.
        library: The Library.
        values: A finite number per candidate; the highest is preferred.
        rewards: The values scaled to [0, 1].
        ties: Whether `tie` is an allowed answer.
    """
    levels = sorted(set(values.values()), reverse=True)
    ranking = tuple(tuple(label for label in example.labels if values[label] == level) for level in levels)
    scores = {label: Scores(None, None, rewards[label]) for label in example.labels}
    steps = (answer({label: values[label] for label in example.labels}),)
    order = [label for level in ranking for label in level]
    margin = rewards[order[0]] - rewards[order[1]] if len(order) > 1 else None
    return replace(placed(example, judge, library, ranking, ties=ties), scores=scores, steps=steps, margin=margin)


def placed(
    example: Example, judge: JudgeProtocol, library: Library, ranking: Sequence[tuple[str, ...]], *, ties: bool
) -> Judgment:
    """Create a judgment from a ranking, without scores or margin."""
    blank = unjudged(example, judge, library, Failure("", ""))
    preference = None if len(example.labels) == 1 else TIE if len(ranking[0]) > 1 else ranking[0][0]
    return replace(blank, failure=None, preference=preference, ranking=tuple(ranking), ties_offered=ties)


@dataclass(frozen=True)
class ScoredDataset:
    """Judgments of a dataset, in its order. Behaves like a sequence of them."""

    dataset: "Dataset"
    judgments: tuple[Judgment, ...]

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples."""
        return self.dataset.examples

    @cached_property
    def report(self) -> Agreement:
        """Coverage, failures, and agreement with the labels per kind of label."""
        from rewardharness.judging.report import make_report

        return make_report(zip(self.examples, self.judgments, strict=True), skipped=len(self.dataset.skipped))

    def __repr__(self) -> str:
        return f"ScoredDataset({self.dataset.name!r}, {self.report.judged} of {len(self)} judged)"

    def _repr_html_(self) -> str:
        from rewardharness.judging.report import with_pictures

        return with_pictures(self.report, zip(self.examples, self.judgments, strict=True))

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row per judgment; `reward_A` is the reward of candidate A.

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        from rewardharness.judgments import judgment_row

        return data_frame(map(judgment_row, self.examples, self.judgments))

    def __len__(self) -> int:
        return len(self.judgments)

    def __iter__(self) -> Iterator[Judgment]:
        return iter(self.judgments)

    def __getitem__(self, index: int) -> Judgment:
        return self.judgments[index]


def _media(value: Any, name: str) -> Candidate:
    if isinstance(value, TextInput | FramesInput):
        return value
    return ImageInput.of(value, f"{name} {value}" if isinstance(value, str | Path) else name)

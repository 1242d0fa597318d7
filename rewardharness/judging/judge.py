"""The `Judge` protocol, and checks that all judges share."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rewardharness.data.source import Dataset
from rewardharness.data.values import read_data
from rewardharness.errors import HarnessError, ImageError, InputError
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.models.base import ModelError, Reply
from rewardharness.models.probe import Probe
from rewardharness.schema import (
    LABELS,
    SOURCES,
    Candidate,
    ChainStep,
    Example,
    Failure,
    FramesInput,
    ImageInput,
    Judgment,
    Report,
    TextInput,
    Usage,
)
from rewardharness.settings import Settings
from rewardharness.task import ANY, IMAGE_EDIT, TEXT, Task, task_of

if TYPE_CHECKING:
    from rewardharness.judging.cache import JudgmentCache
    from rewardharness.judging.calibration import ConfidenceCalibration
    from rewardharness.judging.subagent import PresentationOrder
    from rewardharness.judging.subagent_settings import SubAgentSettings
    from rewardharness.judging.tool_calls import Observation

NOT_GRADABLE = "not_gradable"
"""Failure code of a single candidate if it cannot be measured whether its instruction was followed."""


class Judge(Protocol):
    """A judge of image edits, or of other tasks: it scores candidates, and predicts which of several people prefer.

    `score` and `score_dataset` work in plain programs and inside a running event loop, where they block it; to await
    them, use `await asyncio.to_thread(judge.score, ...)`.
    """

    concurrency: int = 8
    """Number of examples that are judged concurrently by default."""
    uses_model: bool = False
    """Whether it sends requests to a model."""
    uses_library: bool = True
    """Whether its judgments depend on the Library."""
    needs_ids: bool = False
    """Whether it looks judgments up by the id of an example, so that it can judge only these examples."""
    settings: "SubAgentSettings | None" = None
    """Settings of a model judge; None without a model."""
    cache: "JudgmentCache | None" = None
    """Cache of the answers of a model; None if they are not cached."""
    find_out: Callable[[], Awaitable[Sequence[Probe]]] | None = None
    """Probes the endpoints of a model; None without endpoints."""
    router_id: str | None = None
    """Id of the model that selects entries without triggers; None if their description decides."""
    calls_tools: bool = False
    """Whether a model calls the Tools of the Library."""
    tasks: tuple[Task, ...] = (IMAGE_EDIT,)
    """What it can judge."""
    writes_critiques: bool = False
    """Whether it can say in words what is wrong with a candidate."""
    calibration: "ConfidenceCalibration | None" = None
    """Turns the confidence of preferences into a probability, with the Library that it was fitted for."""

    @property
    def name(self) -> str:
        """Name of the judge in judgments and on pages."""

    @property
    def protocol(self) -> str:
        """How it judges. Numbers of different protocols are not comparable."""

    @property
    def revision(self) -> str:
        """Content id of the code, prompts and settings that its judgments depend on."""

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example. An error of the example gives a Judgment with a failure, not an exception."""

    async def close(self) -> None:
        """Close the connections of this event loop. The judge can be used again."""

    def __copy__(self) -> "Judge":
        """Return a judge that shares everything with this one, which one that was pickled does not."""
        judge = object.__new__(type(self))
        judge.__dict__.update(self.__dict__)
        return judge

    def with_ties(self, ties: bool) -> "Judge":
        """Return the same judge with `tie` among its answers, or without."""
        return self

    def with_samples(self, samples: int, first: int = 0) -> "Judge":
        """Return the same judge with a number of samples per request, at the sampling temperature.

        Args:
            samples: Number of samples, from 1.
            first: Number of the first sample. Other numbers give other samples.

        Returns:
            The judge; itself if it always gives the same answer.
        """
        return self

    def with_critiques(self) -> "Judge":
        """Return the same judge, adding a critique of each candidate to its judgments; their scores are the same.

        Raises:
            InputError: If it writes none.
        """
        step = "Use the pixel-based judge, or a model: --judge vllm:NAME@URL or openai:NAME@URL."
        raise InputError(f"{self.name} writes no critiques.", next_step=step)

    def with_calibration(self, calibration: "ConfidenceCalibration | None") -> "Judge":
        """Return the same judge with another calibration of its confidence, or without; no preference changes."""
        judge = copy(self)
        object.__setattr__(judge, "calibration", calibration)  # some judges are frozen
        return judge

    def presentations(self, labels: Sequence[str]) -> "list[PresentationOrder]":
        """List the presentation orders of a judgment of these candidates; empty without a model."""
        return []

    def estimate_cost(self, example: Example) -> int:
        """Return the number of requests for an example, at least: without cached answers, Tools and retries."""
        return len(self.presentations(example.labels))

    def estimate_crops(self, example: Example) -> int:
        """Return the number of crops that measured evidence adds to these requests, at most."""
        return 0

    def watched(
        self, on_step: "Callable[[PresentationOrder, ChainStep], None]", on_reply: Callable[[Reply], None]
    ) -> "Judge":
        """Return the same judge, reporting each step of a model's chain and each of its replies."""
        return self

    def reusing(self, earlier: "Judge") -> "Judge":
        """Return the same judge with the model of an earlier one, whose endpoints were already probed."""
        return self

    def measure_ahead(self, libraries: Sequence[Library]) -> Callable[[Example], None] | None:
        """Return a function for other processes that caches what Libraries measure of an example; None if it cannot."""
        return None

    async def check(self) -> Sequence[Probe] | Reply | None:
        """Probe the endpoints of a model, or send it a short request if it has none; None without a model."""
        return None

    async def try_tool(self, tool: Entry, examples: Sequence[Example]) -> "list[Observation]":
        """Call a prompted Tool on examples as in a judgment; nothing unless `calls_tools`."""
        return []

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
        given = tuple(_media(each, f"candidate {number}") for number, each in enumerate(several, 1))
        further = tuple(ImageInput.of(each, f"image {number}") for number, each in enumerate(references, 2))
        first = None if source is None else _media(source, "source")
        if isinstance(first, TextInput):
            raise InputError("The source is text.", next_step="Give None as source for text responses.")
        example = Example("example", instruction, first, given, references=further)
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
    ) -> "ScoredDataset":
        """Judge every example of a dataset. Nothing is written; `rh score` is resumable.

        Args:
            data: A `datasets.Dataset`, a list of dicts or of `Example`, a folder, a table, or the name of a dataset on
                the Hub: `org/name[@revision][:config/split]`. Images are paths, bytes, Pillow images or arrays.
            library: As for `score`.
            fields: Which column is which field, as in `{"source": "before", "candidates": ["left", "right"]}`; what is
                left out is recognized by name. See docs/data.md.
            concurrency: Examples that are judged side by side; None for what suits the judge.
            skip_bad_rows: Leave out rows that cannot be used. Without it one such row is an error.

        Returns:
            One judgment per example, in order, and a report.

        Raises:
            DataError: If the data cannot be read.
            LibraryError: If the Library cannot be opened.
            InputError: If the judge or the Library is for another task.
        """
        from rewardharness.judging.evaluate import evaluate

        settings = Settings.from_env()
        dataset = read_data(data, settings, fields=fields, skip_bad_rows=skip_bad_rows)
        opened = open_library(settings.library if library is None else library)
        check_task(dataset.task, self, opened)
        judged = evaluate(self, opened, dataset.examples, concurrency=concurrency or self.concurrency)
        return ScoredDataset(dataset, tuple(judgment for _, judgment in judged))


@dataclass(frozen=True)
class ScoredDataset:
    """Judgments of a dataset, in its order. Behaves like a sequence of them."""

    dataset: Dataset
    judgments: tuple[Judgment, ...]

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples."""
        return self.dataset.examples

    @cached_property
    def report(self) -> Report:
        """Coverage, failures, and agreement with the labels per kind of label."""
        from rewardharness.judging.report import make_report

        return make_report(zip(self.examples, self.judgments, strict=True), skipped=len(self.dataset.skipped))

    def __len__(self) -> int:
        return len(self.judgments)

    def __iter__(self) -> Iterator[Judgment]:
        return iter(self.judgments)

    def __getitem__(self, index: int) -> Judgment:
        return self.judgments[index]


def _media(value: Any, name: str) -> Candidate:
    return value if isinstance(value, TextInput | FramesInput) else ImageInput.of(value, name)


def check_task(task: Task, judge: Judge, library: Library) -> None:
    """Check that a judge and a Library are for a task. Rubrics for images are never used on text.

    Raises:
        InputError: If one of them is for another task.
    """
    if task not in judge.tasks:
        raise InputError(
            f"{judge.name} cannot judge {task.words}.",
            next_step="Judge with a model: --judge vllm:NAME@URL or openai:NAME@URL.",
        )
    if judge.settings is not None and judge.settings.evidence and task is not IMAGE_EDIT:
        raise InputError(
            f"Measured evidence compares the pixels of images; there is none for {task.words}.",
            next_step="Judge without it: leave out --evidence, or +evidence after the judge.",
        )
    entries = library.entries if judge.uses_library else ()
    known = [entry for entry in entries if entry.task != ANY]
    other = next((entry for entry in known if (entry.task == TEXT.name) != (task is TEXT)), None)
    if other is not None:
        choice = "--library builtin:text, or --library empty" if task is TEXT else "--library builtin"
        raise InputError(
            f"The Library is not for {task.words}: its entry {other.name!r} is for the task {other.task}.",
            next_step=f"Choose a Library for this task, such as {choice}.",
        )


def refuse(example: Example, judge: Judge, library: Library) -> Failure | None:
    """Return why a judge cannot judge an example with a Library; None if it is valid."""
    count = len(example.candidates)
    if not example.instruction.strip():
        return Failure("input", "There is no instruction; say in words what the edit should do.")
    if count < 1:
        return Failure("input", "There is no candidate; give one to be scored, or several to be compared.")
    if count > len(LABELS):
        return Failure("input", f"There are {count} candidates; at most {len(LABELS)} can be compared at once.")
    if len(example.sources) > SOURCES:
        return Failure("input", f"There are {len(example.references)} reference images; give at most {SOURCES - 1}.")
    try:
        check_task(task_of(example), judge, library)
    except InputError as error:
        return failure_of(error)
    return None


def failure_of(error: HarnessError) -> Failure:
    """Convert an error during a judgment to its failure."""
    code = error.code if isinstance(error, ModelError) else "image" if isinstance(error, ImageError) else "input"
    return Failure(code, f"{error.message} {error.next_step}".strip())


def with_ungradable(judgment: Judgment) -> Judgment:
    """Use general evidence as the reward if the instruction could not be graded. The confidence stays low."""
    several = judgment.scores.values()
    if all(each.reward is not None for each in several) or any(each.evidence is None for each in several):
        return judgment
    scores = {label: replace(each, reward=each.evidence) for label, each in judgment.scores.items()}
    failed = judgment.failure is not None and judgment.failure.code != NOT_GRADABLE
    return replace(judgment, scores=scores, failure=judgment.failure if failed else None)


def unjudged(
    example: Example, judge: Judge, library: Library, failure: Failure, usage: Usage | None = None
) -> Judgment:
    """Create the judgment of an example that was not judged: neither a tie nor a score."""
    return Judgment(
        example_id=example.id,
        judge=judge.name,
        protocol=judge.protocol,
        library_id=library.id,
        failure=failure,
        usage=usage or Usage(),
    )

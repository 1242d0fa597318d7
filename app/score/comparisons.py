"""A running comparison: a judge in its own thread, whose steps can be followed, and which can be stopped."""

import base64
import queue
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from PIL import Image, UnidentifiedImageError

from app.library.libraries import Choice
from app.score.judges import BY_MEASURING, AnswerCost, JudgeChoice, Used
from rewardharness.errors import InputError
from rewardharness.judging.evaluate import Cancel, evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import ALONE, ModelJudgeConfig
from rewardharness.judging.presentation import PresentationOrder
from rewardharness.judging.profile import Profile
from rewardharness.judging.subagent import model_judge
from rewardharness.library.store import Library
from rewardharness.models.base import Reply
from rewardharness.schema import ChainStep, Example, Json, Judgment, Usage

HEARTBEAT = 0.5
"""Maximum seconds between two updates while a comparison is followed."""


@dataclass(frozen=True)
class OrderProgress:
    """Progress of a model with one presentation of the candidates."""

    showing: PresentationOrder
    steps: tuple[ChainStep, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the model has given its answer."""
        return bool(self.steps) and self.steps[-1].kind == "answer"


def recorded_orders(judgment: Judgment) -> tuple[OrderProgress, ...]:
    """Return the steps of a recorded judgment by presentation order; none for a judge without a model."""
    orders: dict[PresentationOrder, list[ChainStep]] = {}
    for step in judgment.steps:
        if step.order:
            orders.setdefault(PresentationOrder(step.order, step.sample), []).append(step)
    return tuple(OrderProgress(order, tuple(steps)) for order, steps in orders.items())


@dataclass(frozen=True)
class ModelRun:
    """Steps and cost of a model that judges or has judged."""

    how: ModelJudgeConfig
    showings: tuple[OrderProgress, ...]
    """All presentations, in order; those not started have no steps."""
    spent: AnswerCost
    profile: Profile | None = None
    """The judge profile of a published reward model."""

    @property
    def alone(self) -> bool:
        """Whether each candidate is judged separately."""
        return self.how.protocol in ALONE if self.profile is None else self.profile.mode == "single"


class Running:
    """A running comparison. The constructor starts it.

    Args:
        judge: The judge. Its cache is closed at the end.
        library: The Library.
        example: The example.
        price: US dollars per million input and output tokens.
    """

    def __init__(
        self, judge: Judge, library: Library, example: Example, price: tuple[float, float] | None = None
    ) -> None:
        self.example, self.library = example, library
        self._news: queue.SimpleQueue[object] = queue.SimpleQueue()
        agent = model_judge(judge)
        orders = agent.presentations(example.labels) if agent is not None else []
        self._steps: dict[PresentationOrder, tuple[ChainStep, ...]] = dict.fromkeys(orders, ())
        self._judge, self._agent = judge, agent
        self._price = price
        self._usage = Usage()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._cancel = Cancel()
        self.forgotten = self._done = self.critique = False
        self._outcome: Judgment | Exception | None = None
        watched = judge
        if agent is not None:
            watched = agent.watched(lambda showing, step: self._news.put((showing, step)), self._news.put)
        threading.Thread(target=self._work, args=(watched, library), name="comparison", daemon=True).start()

    def _work(self, judge: Judge, library: Library) -> None:
        try:
            done = evaluate(judge, library, [self.example], concurrency=1, cancel=self._cancel)
            self._outcome = done[0][1] if done else None
        except Exception as error:  # raised by `result`
            self._outcome = error
        finally:
            self._ended = time.monotonic()
            if self._agent is not None and self._agent.cache is not None:
                self._agent.cache.close()
            self._news.put(None)

    def follow(self) -> Iterator[bool]:
        """Yield, for every event and at least every half second, whether there are new steps; return at the end."""
        while not self._done:
            news: list[object] = []
            with suppress(queue.Empty):
                news.append(self._news.get(timeout=HEARTBEAT))
                while True:
                    news.append(self._news.get_nowait())
            for event in news:
                if isinstance(event, Reply):
                    self._usage += Usage(1, event.usage.input_tokens, event.usage.output_tokens)
                elif isinstance(event, tuple):
                    showing, step = event
                    self._steps[showing] += (step,)
                else:
                    self._done = True
            yield any(isinstance(event, tuple) for event in news)

    @property
    def model(self) -> ModelRun | None:
        """The followed steps and the cost of a model; None for the pixel-based judge."""
        if self._agent is None:
            return None
        usage = replace(self._usage, seconds=(self._ended or time.monotonic()) - self._began)
        cached = self._agent.cache.hits if self._agent.cache is not None else 0
        progress = tuple(OrderProgress(showing, steps) for showing, steps in self._steps.items())
        profile = getattr(self._agent, "profile", None)
        return ModelRun(self._agent.settings, progress, AnswerCost(usage, cached, self._price), profile)

    def used(self, choice: JudgeChoice) -> Used | None:
        """Return the model for the next comparison; None for the pixel-based judge, and before its end."""
        return Used(choice, self._judge) if self._agent is not None and self._done else None

    def stop(self) -> None:
        """Stop without waiting for the end. Has no effect when repeated, or after the end."""
        self._cancel()

    def forget(self) -> None:
        """Stop and discard the result."""
        self.forgotten = True
        self.stop()

    def result(self) -> Judgment | None:
        """Return the judgment after `follow` has ended; None if the comparison was stopped or forgotten.

        Raises:
            Exception: The error of the judge.
        """
        if self.forgotten:
            return None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@dataclass(frozen=True)
class Draft:
    """The inputs as they are on the page: paths of images, None for missing ones, and the instruction."""

    source: str | None = None
    candidates: tuple[str | None, ...] = ()
    """A, B, C and D."""
    references: tuple[str | None, ...] = ()
    """Image 2, image 3 and image 4."""
    instruction: str = ""

    @classmethod
    def of(cls, example: Example) -> "Draft":
        """Return the inputs of an example whose images are files."""
        paths, count = [str(image.path) for image in example.images], len(example.sources)
        return cls(paths[0], tuple(paths[count:]), tuple(paths[1:count]), example.instruction)

    def is_there(self) -> bool:
        """Return whether its images still exist; uploads are removed after a day."""
        paths = (self.source, *self.candidates, *self.references)
        return all(Path(path).is_file() for path in paths if path is not None)


NO_DRAFT = Draft()
"""Empty inputs."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: its inputs and the judgment."""

    example: Example
    judgment: Judgment
    library: str
    """Name of the Library."""
    opened: Library = field(compare=False, repr=False)
    """The Library."""
    model: ModelRun | None = None
    """Steps and cost of a model; None for the pixel-based judge."""
    own_judge: bool = True
    """Whether the visitor chose the judge, and so can correct its settings."""
    critique: bool = False
    """Whether faults and a better instruction were requested."""
    release: str | None = None
    """Id of the release that fixes Library and judge; None where they were chosen."""
    asked: tuple[Choice, JudgeChoice] = (Choice(), BY_MEASURING)
    """The chosen Library and judge."""
    name: str = field(default_factory=partial(secrets.token_hex, 16), compare=False)
    """Random name, which the addresses of its files hold."""


REPLACE_TIMEOUT = 20.0
"""Seconds for which a comparison waits for the end of the one that it replaces."""


class Stoppable(Protocol):
    """Running work of a visitor."""

    def stop(self) -> None:
        """Stop without waiting for the end."""

    def forget(self) -> None:
        """Stop and discard the result."""


W = TypeVar("W", bound=Stoppable)


class ComparisonRequest:
    """One comparison, from the moment it leaves the queue to its last update of the page."""

    def __init__(self) -> None:
        self.forgotten = False
        """Whether its result is discarded."""
        self.replaced = False
        """Whether another comparison uses the page, so that this one must not update it."""
        self.ending = False
        """Whether only the last update is left; the next request is accepted from then on."""
        self.over = threading.Event()
        self._stopped = False
        self._running: Stoppable | None = None

    def begin(self, running: W) -> W:
        """Set the running comparison; stop it if the request was stopped or forgotten in the meantime."""
        self._running = running
        if self.forgotten:
            running.forget()
        elif self._stopped:
            running.stop()
        return running

    def stop(self) -> None:
        """Stop the comparison, at the latest when it begins. Its last update says so."""
        self._stopped = True
        if self._running is not None:
            self._running.stop()

    def forget(self) -> None:
        """Stop the comparison and discard its result."""
        self.forgotten = True
        if self._running is not None:
            self._running.forget()

    @property
    def leaving(self) -> bool:
        """Whether the next request is accepted: this one has ended, or is about to."""
        return self.ending or self.forgotten or self.over.is_set()

    def end(self) -> None:
        """Announce that there are no more updates."""
        self.stop()
        self.over.set()


class ComparisonQueue:
    """The comparisons of one visitor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: str | None = None
        self._current: ComparisonRequest | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "ComparisonQueue":
        """Return an empty queue, since each visitor has one."""
        return ComparisonQueue()

    def ask(self, trigger: str) -> None:
        """Request a comparison. Ignored while one is running: a double click is one request.

        Args:
            trigger: Name of the control that was used; `take` expects the same.
        """
        with self._lock:
            if self._current is None or self._current.leaving:
                self._waiting = trigger

    def replace(self, trigger: str) -> None:
        """Request a comparison in place of the one that is waiting or running."""
        with self._lock:
            self._forget()
            self._waiting = trigger

    def forget(self) -> None:
        """Withdraw the waiting request, and stop and discard the running comparison."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._waiting = None
        if self._current is not None:
            self._current.forget()

    def take(self, trigger: str) -> ComparisonRequest | None:
        """Return the waiting request, or None if it was withdrawn. Waits for the end of the comparison before it."""
        with self._lock:
            if self._waiting != trigger:
                return None
            self._waiting, before = None, self._current
            request = self._current = ComparisonRequest()
            if before is not None:
                before.replaced = True
                before.forget()
        if before is not None:
            before.over.wait(REPLACE_TIMEOUT)
        return request

    def stop(self) -> None:
        """Stop the running comparison."""
        with self._lock:
            if self._current is not None:
                self._current.stop()


FIRST_FRAME = ".first-frame.png"
"""End of the name of the first frame of an animation, which takes its place on the page."""

_SCALED = re.compile(r"\.from-([1-9]\d{0,5})x([1-9]\d{0,5})\.png\Z")
"""End of the name of an image that `assets/scaling.js` has scaled down; it holds the size before."""


def sent(image: Any) -> str | None:
    """Return the path of an image that a program sends, as a file that Gradio has checked or in a `data:` address.

    Raises:
        InputError: If it cannot be decoded.
    """
    if image is None:
        return None
    head, _, data = str(image.get("url") or "").partition(",")
    with suppress(ValueError):
        if head.startswith("data:"):
            return str(save_bytes_to_cache(base64.b64decode(data, validate=True), "sent.bin", get_upload_folder()))
        if image.get("path"):
            return str(image["path"])
    raise InputError("An image cannot be decoded.", next_step="Upload it, or send its bytes in Base64.")


def uploaded(image: Json | None) -> str | None:
    """Return the path of an upload that the page names; None for anything else, such as another file.

    Args:
        image: The value of an image field as the page sends it.
    """
    path = Path(str(image.get("path"))).resolve() if image else None
    folder = Path(get_upload_folder()).resolve()
    return str(path) if path is not None and path.is_relative_to(folder) and path.is_file() else None


def scalings(images: Iterable[tuple[str, Path | str | None]]) -> list[str]:
    """Return a sentence for each image that was scaled down in the browser, or is the first frame of an animation.

    Args:
        images: Name and file of each image; None for missing ones.
    """
    named = [(name, Path(path)) for name, path in images if path is not None]
    sizes = [(name, _sizes(path)) for name, path in named]
    frames = [
        f"{name}: an animation, of which only the first frame is judged and shown."
        for name, path in named
        if path.name.endswith(FIRST_FRAME)
    ]
    return frames + [
        f"{name}: scaled from {sides[0]}x{sides[1]} to {sides[2]}x{sides[3]} before the upload."
        for name, sides in sizes
        if sides
    ]


def _sizes(path: Path) -> tuple[int, ...]:
    """Return the sides before and after; nothing for an image that was not scaled, whatever its name says."""
    match = _SCALED.search(path.name)
    if match is None:
        return ()
    try:
        with Image.open(path, formats=["PNG"]) as image:
            size = image.size
    except (OSError, UnidentifiedImageError):
        return ()
    before = int(match[1]), int(match[2])
    factor = max(size) / max(before)
    expected = (max(1, int(side * factor + 0.5)) for side in before)
    near = all(abs(one - other) <= 1 for one, other in zip(size, expected, strict=True))
    return (*before, *size) if factor < 1 and near else ()

"""A running comparison: a judge in its own thread, whose steps can be followed, and which can be stopped."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from app.judges import JudgeChoice, Spent, Used
from rewardharness.judging.evaluate import Cancel, evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judging.subagent import PresentationOrder
from rewardharness.judging.subagent_settings import SubAgentSettings
from rewardharness.library.store import Library
from rewardharness.models.base import Reply
from rewardharness.schema import ChainStep, Example, Judgment, Usage

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

    how: SubAgentSettings
    showings: tuple[OrderProgress, ...]
    """All presentations, in order; those not started have no steps."""
    spent: Spent


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
        self._steps: dict[PresentationOrder, tuple[ChainStep, ...]] = dict.fromkeys(
            judge.presentations(example.labels), ()
        )
        self._judge = judge
        self._price = price
        self._usage = Usage()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._cancel = Cancel()
        self.forgotten = False
        self._outcome: Judgment | Exception | None = None
        self._done = False
        watched = judge.watched(lambda showing, step: self._news.put((showing, step)), self._news.put)
        threading.Thread(target=self._work, args=(watched, library), name="comparison", daemon=True).start()

    def _work(self, judge: Judge, library: Library) -> None:
        try:
            done = evaluate(judge, library, [self.example], concurrency=1, cancel=self._cancel)
            self._outcome = done[0][1] if done else None
        except Exception as error:  # raised by `result`
            self._outcome = error
        finally:
            self._ended = time.monotonic()
            if self._judge.cache is not None:
                self._judge.cache.close()
            self._news.put(None)

    def follow(self) -> Iterator[bool]:
        """Yield, for every event and at least every half second, whether there are new steps; return at the end."""
        while not self._done:
            with suppress(queue.Empty):
                news = [self._news.get(timeout=HEARTBEAT)]
                while not self._news.empty():
                    news.append(self._news.get())
                yield self._take(news)
                continue
            yield False

    def _take(self, news: list[object]) -> bool:
        steps = False
        for event in news:
            if isinstance(event, Reply):
                self._usage += Usage(1, event.usage.input_tokens, event.usage.output_tokens)
            elif isinstance(event, tuple):
                showing, step = event
                self._steps[showing] += (step,)
                steps = True
            else:
                self._done = True
        return steps

    @property
    def model(self) -> ModelRun | None:
        """The followed steps and the cost of a model; None for the pixel-based judge."""
        if self._judge.settings is None:
            return None
        usage = replace(self._usage, seconds=(self._ended or time.monotonic()) - self._began)
        cached = self._judge.cache.hits if self._judge.cache is not None else 0
        progress = tuple(OrderProgress(showing, steps) for showing, steps in self._steps.items())
        return ModelRun(self._judge.settings, progress, Spent(usage, cached, self._price))

    def used(self, choice: JudgeChoice) -> Used | None:
        """Return the model for the next comparison; None for the pixel-based judge, and before its end."""
        return Used(choice, self._judge) if self._judge.uses_model and self._done else None

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

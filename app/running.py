"""A comparison under way: a judge at work in a thread of its own, followed step by step, stopped at any time."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from app.judges import JudgeChoice, Spent, Used
from rewardharness.judging.evaluate import Cancel, evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judging.subagent import Showing, SubAgentSettings
from rewardharness.library.store import Library
from rewardharness.models.base import Reply
from rewardharness.schema import ChainStep, Example, Judgment, Usage

HEARTBEAT = 0.5
"""Seconds after which whoever follows hears something, even if it is nothing new."""


@dataclass(frozen=True)
class Seen:
    """One showing of the candidates to a model, as far as it has come."""

    showing: Showing
    steps: tuple[ChainStep, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the model has given its answer."""
        return bool(self.steps) and self.steps[-1].kind == "answer"


@dataclass(frozen=True)
class ModelRun:
    """How a model judged, or is judging."""

    how: SubAgentSettings
    showings: tuple[Seen, ...]
    """All of them, in order; those that have not begun have no steps."""
    spent: Spent


class Running:
    """A comparison under way. It begins when it is made.

    Args:
        judge: Who judges. Its cache is closed at the end.
        library: What it knows.
        example: What is compared.
        price: US dollars for a million input and output tokens.
    """

    def __init__(
        self, judge: Judge, library: Library, example: Example, price: tuple[float, float] | None = None
    ) -> None:
        self.example = example
        self._news: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._seen: dict[Showing, tuple[ChainStep, ...]] = dict.fromkeys(judge.showings(example.labels), ())
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
        except Exception as error:  # told to whoever asks for the result
            self._outcome = error
        finally:
            self._ended = time.monotonic()
            if self._judge.cache is not None:
                self._judge.cache.close()
            self._news.put(None)

    def follow(self) -> Iterator[bool]:
        """Follow to the end. Yields whether there are new steps, whenever there is news and every half second."""
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
        for each in news:
            if isinstance(each, Reply):
                self._usage += Usage(1, each.usage.input_tokens, each.usage.output_tokens)
            elif isinstance(each, tuple):
                showing, step = each
                self._seen[showing] += (step,)
                steps = True
            else:
                self._done = True
        return steps

    @property
    def model(self) -> ModelRun | None:
        """How a model judges, as far as it was followed; None for the measured judge."""
        if self._judge.settings is None:
            return None
        usage = replace(self._usage, seconds=(self._ended or time.monotonic()) - self._began)
        remembered = self._judge.cache.hits if self._judge.cache is not None else 0
        seen = tuple(Seen(showing, steps) for showing, steps in self._seen.items())
        return ModelRun(self._judge.settings, seen, Spent(usage, remembered, self._price))

    def used(self, choice: JudgeChoice) -> Used | None:
        """The model, for the next comparison of the same visitor; None for the measured judge and before the end."""
        return Used(choice, self._judge) if self._judge.uses_model and self._done else None

    def stop(self) -> None:
        """Give up, without waiting for the end. Asking twice, or after the end, does no harm."""
        self._cancel()

    def forget(self) -> None:
        """Give up, and leave nothing to say about it."""
        self.forgotten = True
        self.stop()

    def result(self) -> Judgment | None:
        """The judgment, once it was followed to the end; None if it was given up or forgotten.

        Raises:
            Exception: Whatever went wrong.
        """
        if self.forgotten:
            return None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

"""A reward function for TRL: an object that a GRPOTrainer calls, with rewards from `rh serve`.

    reward = EditReward("http://127.0.0.1:8100", release="3f0c...", edited=render)
    trainer = GRPOTrainer(model, reward_funcs=reward, callbacks=[stop_on_request("stop")], ...)

TRL hands a reward function the columns of the dataset, repeated for every completion. TRL trains models of text: what
they write becomes an image by whatever draws it, and `edited` is the function that does so, or the column that holds
it.

A completion that was not judged has no reward: `None`, which TRL leaves out of the group's mean and gives no advantage.
It is never 0. (TRL 1.16, `GRPOTrainer._calculate_rewards`.)
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.errors import InputError
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.interface import with_ungradable
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import open_judge
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, Judgment
from rewardharness.serving.client import AsyncRewardClient, ClientSettings, RewardClient
from rewardharness.serving.client_http import USUAL
from rewardharness.serving.client_wire import Ask, ImageLike, read_asks
from rewardharness.serving.faults import Fault
from rewardharness.serving.results import ItemResult, JudgedEdit, not_judged
from rewardharness.settings import Settings


class InProcessRewards:
    """Scores edits with a judge and a Library, without a server.

    Args:
        judge: The judge.
        library: The Library.
        allow_ungradable: Whether an edit whose instruction the judge cannot grade gets a reward of low confidence.
    """

    def __init__(self, judge: Judge, library: Library, *, allow_ungradable: bool = False) -> None:
        self.judge, self.library, self.allow_ungradable = judge, library, allow_ungradable

    def score(self, asks: Sequence[Ask]) -> list[ItemResult]:
        """Score edits, each alone; one result per edit, in order."""
        edits, results = read_asks(asks)
        examples = [edit.example() for edit in edits.values()]
        judged = evaluate(self.judge, self.library, examples, concurrency=self.judge.traits.concurrency)
        for index, (_, judgment) in zip(edits, judged, strict=True):
            results[index] = self._result(index, judgment)
        return [results[index] for index in range(len(asks))]

    def _result(self, index: int, judgment: Judgment) -> ItemResult:
        judgment = with_ungradable(judgment) if self.allow_ungradable else judgment
        result = JudgedEdit(judgment).item(index, None, LABELS[0])
        if judgment.failure is None:
            return result
        return replace(result, error=Fault(judgment.failure.code, judgment.failure.message))  # callers here see it all

    def close(self) -> None:
        """There is nothing to close."""


log = logging.getLogger(__name__)

SOURCE, INSTRUCTION, EDITED, REFERENCES = "source", "instruction", "edited", "references"
"""Usual columns."""

IMAGES = ("images", "image")
"""TRL's columns for the images of a prompt."""

Row = Mapping[str, Any]
Render = Callable[[Any, Row], ImageLike | None]
"""Makes an edited image of a completion and its row; None where it says nothing that can be drawn."""


def _listed(images: Any) -> list[Any]:
    """Return the images of a cell: one, or a list, such as TRL's `images` of one prompt."""
    return list(images) if isinstance(images, list | tuple) else [] if images is None else [images]


class _ServedReward:
    """What a reward function of either kind has: a judge or a checked server, columns and a name.

    With a server it can be pickled.
    """

    def __init__(  # noqa: PLR0913  (one argument per setting that a training script names)
        self,
        url: str | None = None,
        *,
        release: str | None = None,
        token: str | None = None,
        judge: Judge | str | None = None,
        library: Library | Path | str | None = None,
        source: str = SOURCE,
        instruction: str = INSTRUCTION,
        edited: str | Render = EDITED,
        references: str = REFERENCES,
        settings: ClientSettings = USUAL,
        name: str = "edit_reward",
        allow_ungradable: bool = False,
    ) -> None:
        """Open the judge, or check the server.

        Args:
            url: Address of the reward server; None for a judge in this process.
            release: Hash of the release that must be served: training does not begin with another one.
            token: What the server asks its callers for.
            judge: A judge in this process, or its name as `open_judge` spells it, instead of a server.
            library: The Library of that judge, as `Judge.score` accepts it.
            source: Column of the source images: bytes, paths, Pillow images or arrays. A list holds image 1 and its
                references. Without a column `source`, TRL's columns `images` and `image` are used.
            instruction: Column of the instructions: texts, or conversational prompts, of which the last message of the
                user is taken. Without a column `instruction`, the prompts are used. An instruction that is not text is
                not judged: its reward is `None`, and the reason is logged.
            edited: Column of the edited images, or a function that makes one of a completion and its row.
            references: Column with lists of reference images, at most three, which the instruction mentions as image 2,
                image 3, ... It may be missing if it has the usual name.
            settings: How the server is asked. By default a server that is gone ends the training with an error; with
                `ClientSettings(on_error="none")` its rewards are `None`.
            name: What TRL calls the reward in its logs.
            allow_ungradable: Whether an edit whose instruction the judge cannot grade gets a reward of low confidence.
                By default it gets `None`. The metric `rewardharness/confidence` is the mean confidence.

        Raises:
            InputError: If an argument cannot be used.
            IdentityError: If the server judges with another release.
            RewardServerError: If the server is not there or does not take the token.
        """
        self._source, self._instruction, self._edited, self._references = source, instruction, edited, references
        self.__name__ = name
        if (url is None) == (judge is None):
            step = (
                'Give one of them: EditReward(url="http://127.0.0.1:8100") or EditReward(judge=judge, library=library).'
            )
            raise InputError("A reward function needs either a server or a judge.", next_step=step)
        self._client: RewardClient | InProcessRewards
        if url is None:
            if release is not None or token is not None:
                step = "Leave them out, or give the url of a server."
                raise InputError("A release and a token belong to a server.", next_step=step)
            environment = Settings.from_env()
            opened = open_judge(judge, environment) if isinstance(judge, str) else judge
            assert opened is not None
            used = open_library(environment.library if library is None else library)
            self._client = InProcessRewards(opened, used, allow_ungradable=allow_ungradable)
            return
        if library is not None:
            raise InputError("A server has its own Library.", next_step="Leave library out, or give a judge, no url.")
        if allow_ungradable:
            settings = replace(settings, allow_ungradable=True)
        self._client = RewardClient(url, release=release, token=token, settings=settings)
        self._client.close()  # the first call opens what it needs, in whatever process and on whatever loop that is

    def _asks(self, prompts: Any, completions: Sequence[Any], columns: Mapping[str, Any]) -> list[Ask | None]:
        """Make one question for each completion; None where there is no image to judge.

        Without the usual columns the prompts are the instructions, and TRL's `images` or `image` hold the sources.
        """
        usual = {SOURCE: next((columns[name] for name in IMAGES if name in columns), None), INSTRUCTION: prompts}
        columns = {**{name: value for name, value in usual.items() if value is not None}, **columns}
        wanted = [self._source, self._instruction]
        wanted += [self._edited] if isinstance(self._edited, str) else []
        wanted += [self._references] if self._references != REFERENCES else []
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise InputError(
                f"The dataset has no column {missing[0]!r}.",
                next_step="Name it: EditReward(..., source=..., instruction=..., edited=...).",
            )
        lists = {
            name: value
            for name, value in columns.items()
            if isinstance(value, list | tuple) and len(value) == len(completions)
        }
        return [
            self._ask(completion, {name: values[number] for name, values in lists.items()})
            for number, completion in enumerate(completions)
        ]

    def _ask(self, completion: Any, row: Row) -> Ask | None:
        edited = row[self._edited] if isinstance(self._edited, str) else self._edited(completion, row)
        source, *references = [*_listed(row[self._source]), *_listed(row.get(self._references))] or [None]
        if edited is None or source is None:
            return None
        return Ask(row[self._instruction], source, edited, references=references)


class EditReward(_ServedReward):
    """Rewards for edits, for `GRPOTrainer(reward_funcs=...)`."""

    def __call__(self, prompts: Any, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Score completions: one reward in [0, 1] for each, or None where it was not judged."""
        asks = self._asks(prompts, completions, columns)
        return _put_back(asks, self._client.score([ask for ask in asks if ask is not None]), columns)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._client.close()


class AsyncEditReward(_ServedReward):
    """The same as `EditReward`, asynchronous: TRL awaits it together with its other asynchronous rewards."""

    _asked: AsyncRewardClient | None = None
    """Belongs to the loop of the calls; none before the first."""

    async def __call__(self, prompts: Any, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Score completions; see `EditReward`."""
        asks = self._asks(prompts, completions, columns)
        wanted = [ask for ask in asks if ask is not None]
        if isinstance(self._client, InProcessRewards):
            rewards = await asyncio.to_thread(self._client.score, wanted)
        else:
            self._asked = self._asked or self._client.asynchronous()
            rewards = await self._asked.score(wanted)
        return _put_back(asks, rewards, columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_asked": None}

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        if self._asked is not None:
            await self._asked.close()
            self._asked = None
        self._client.close()


def _put_back(
    asks: Sequence[Ask | None], results: Sequence[ItemResult], columns: Mapping[str, Any]
) -> list[float | None]:
    """Return the reward of every completion; report the count without one to the trainer, and log the reasons."""
    judged = [result for result in results if result.reward is not None]
    log_metric = columns.get("log_metric")
    if asks and callable(log_metric):
        log_metric("rewardharness/not_judged", (len(results) - len(judged)) / len(asks))
        log_metric("rewardharness/nothing_drawn", (len(asks) - len(results)) / len(asks))
        confidences = [result.confidence for result in judged if result.confidence is not None]
        if confidences:
            log_metric("rewardharness/confidence", fmean(confidences))
    if len(judged) < len(results):
        log.warning("%s", not_judged(results))
    left = iter(results)
    return [None if ask is None else next(left).reward for ask in asks]


def stop_on_request(stop_file: str | Path) -> Any:
    """Make a callback that ends a training cleanly when a file appears, after the step that is under way.

    Args:
        stop_file: The file; `touch` it to stop.

    Returns:
        A `transformers.TrainerCallback`.
    """
    from transformers import TrainerCallback  # type: ignore[import-not-found, unused-ignore]

    class StopOnRequest(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Ends the training on request."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            """Look for the file."""
            if Path(stop_file).exists():
                control.should_training_stop = True
                control.should_save = True
            return control

    return StopOnRequest()

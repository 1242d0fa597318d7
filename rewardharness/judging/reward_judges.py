"""Judges that give one number per candidate: Python functions, and scorers that are asked over HTTP."""

import asyncio
import base64
import inspect
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from rewardharness.codec import finite
from rewardharness.errors import HarnessError, InputError
from rewardharness.files import content_id
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.baselines import ranked
from rewardharness.judging.interface import Traits, failure_of, refuse, unjudged
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.measure.encoded import encode_for_model
from rewardharness.measure.images import load_picture
from rewardharness.models.base import ModelError
from rewardharness.models.post import call, post, source_code
from rewardharness.models.transport import HttpClient, ServerAddress
from rewardharness.schema import LABELS, TIE, Example, ImageInput, Judgment, Usage
from rewardharness.task import IMAGE_EDIT

Form = Literal["http", "http+unirl", "http+flow-factory"]
FORMS: tuple[Form, ...] = ("http", "http+unirl", "http+flow-factory")
"""Spellings of scorers: this project's reward server, UniRL's reward service, and Flow-Factory's remote reward."""
_LARGEST_REPLY = 10_000_000


@dataclass(frozen=True, repr=False)
class RewardJudge(Judge):
    """A judge that gives a number for each candidate.

    Args:
        span: Least and greatest number, which become the rewards 0 and 1; None for any number, whose reward is
            1 / (1 + exp(-number)): it keeps the order, and is no probability.
    """

    span: tuple[float, float] | None = field(default=(0.0, 1.0), kw_only=True)
    traits = Traits((IMAGE_EDIT,), uses_library=False)

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
        judgment = ranked(example, self, library, numbers, rewards, ties=True)
        return replace(judgment, usage=Usage(seconds=time.perf_counter() - started))

    async def close(self) -> None:
        """Do nothing."""

    def _reward(self, label: str, value: Any) -> float:
        number = finite(value)
        low, high = self.span or (-math.inf, math.inf)
        if number is None or not low <= number <= high:
            within = f" from {low:g} to {high:g}" if self.span else ""
            raise ModelError("bad_response", f"{self.name} gave {label} no number{within}.", next_step="")
        if self.span is not None:
            return (number - low) / (high - low)
        return 0.5 * (1 + math.tanh(number / 2))


@dataclass(frozen=True, repr=False)
class FunctionJudge(RewardJudge):
    """A Python function as a judge.

    Args:
        function: `f(source, candidate, instruction)` returns a number, or `f(source, a, b, instruction)` returns the
            better of two: `"A"`, `"B"`, `"tie"`, or a number above 0 for A. Images are `PIL.Image`. It may be `async`;
            otherwise it runs in a thread. An exception is the failure of its example.
        title: Its name in judgments.
    """

    function: Callable[..., Any]
    title: str

    @property
    def name(self) -> str:
        """Its name."""
        return f"python:{self.title}"

    @property
    def protocol(self) -> str:
        """States that a function judged, and how many candidates it saw."""
        return "a Python function, of two candidates" if self._of_pairs else "a Python function"

    @property
    def revision(self) -> str:
        """Content id of its source code, as far as it is known; else of its name."""
        return content_id(["function", source_code(self.function, self.title), self.span])

    @property
    def _of_pairs(self) -> bool:
        return {"a", "b"} <= set(inspect.signature(self.function).parameters)

    async def numbers(self, example: Example) -> Mapping[str, float]:
        """Call the function."""
        from PIL import Image

        images = [example.source_image, *example.candidate_images]
        pictures = await asyncio.to_thread(lambda: [Image.fromarray(load_picture(each).pixels) for each in images])
        source, *candidates = pictures
        if not self._of_pairs:
            return {
                label: await call(self.function, self.name, source, candidate, example.instruction)
                for label, candidate in zip(example.labels, candidates, strict=True)
            }
        if len(candidates) != 2:
            raise InputError(f"{self.name} compares two candidates.", next_step="Give two.")
        said = await call(self.function, self.name, source, *candidates, example.instruction)
        lead = {"A": 1.0, "B": -1.0, TIE: 0.0}.get(said) if isinstance(said, str) else finite(said)
        if lead is None:
            raise ModelError("bad_response", f"{self.name} named none of A, B and tie.", next_step="")
        low, high = self.span or (-1.0, 1.0)
        share = 0.5 + max(-1.0, min(1.0, lead)) / 2
        return {"A": low + share * (high - low), "B": high - share * (high - low)}


@dataclass(frozen=True, repr=False)
class HttpJudge(RewardJudge):
    """A scorer that is asked over HTTP, one request per candidate.

    Args:
        form: What it speaks.
        url: Its address, without the route.
        reward: UniRL: name of the reward, or `NAME.METRIC`; without a metric the first one counts.
        key: Sent as a bearer token; empty for none.
        http: The connections.
    """

    form: Form
    url: str
    reward: str = ""
    key: str = field(default="", repr=False)
    http: HttpClient = field(default_factory=lambda: HttpClient(_LARGEST_REPLY), compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it opens its own connections."""
        return _reopen, (self.form, self.url, self.reward, self.key, self.span)

    @property
    def name(self) -> str:
        """What it speaks, and its name or the host."""
        return f"{self.form}:{self.reward or ServerAddress.of(self.url)[0].name}"

    @property
    def protocol(self) -> str:
        """States how its numbers become rewards."""
        return f"rewards over HTTP, {'logistic' if self.span is None else f'{self.span[0]:g} to {self.span[1]:g}'}"

    @property
    def revision(self) -> str:
        """Content id of what identifies the scorer; its weights are unknown."""
        return content_id(["http", self.form, self.reward, self.span])

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()

    async def numbers(self, example: Example) -> Mapping[str, float]:
        """Ask about each candidate."""
        images = [example.source_image, *example.candidate_images]
        source, *candidates = await asyncio.to_thread(lambda: [_base64(image) for image in images])
        asked = [self._ask(source, each, example.instruction) for each in candidates]
        return dict(zip(LABELS, await asyncio.gather(*asked), strict=False))

    async def _ask(self, source: str, edited: str, instruction: str) -> float:
        route, body = _WRITE[self.form](source, edited, instruction, self.reward.partition(".")[0])
        url, data = self.url.rstrip("/") + route, orjson.dumps(body)
        reply = await post(self.http, self.name, url, data, kind="application/json", key=self.key)
        number = _READ[self.form](reply, self.reward)
        if isinstance(number, ReplyProblem):
            raise ModelError("bad_response", f"{self.name}: {number.message}", next_step="See the log of the scorer.")
        return number


def _reopen(form: Form, url: str, reward: str, key: str, span: tuple[float, float] | None) -> HttpJudge:
    return HttpJudge(form, url, reward, key, span=span)


def open_http(spec: str, key: str = "") -> HttpJudge:
    """Open a scorer: `http:URL`, `http+flow-factory:URL` or `http+unirl:NAME@URL`, optionally with `#LOW..HIGH`.

    Rewards of `http:` are in [0, 1]. Those of the others can be any number unless the range is given.

    Raises:
        InputError: If the spelling is wrong.
    """
    plain, _, span = spec.partition("#")
    form, _, rest = plain.partition(":")
    name, at, url = rest.partition("@") if form == "http+unirl" else ("", "@", rest)
    step = "Write http:URL, http+flow-factory:URL or http+unirl:NAME@URL; the range of other numbers as in URL#-3..2."
    try:
        low, dots, high = span.partition("..")
        limits = (float(low), float(high)) if dots else (0.0, 1.0) if form == "http" else None
        _, split = ServerAddress.of(url)
        if not at or (form == "http+unirl" and not name) or (span and not dots) or "@" in split.netloc or split.query:
            raise ValueError
        if limits is not None and not (math.isfinite(limits[0]) and limits[0] < limits[1] < math.inf):
            raise ValueError
    except ValueError:
        raise InputError(f"{form}: is no address of a scorer.", next_step=step) from None
    return HttpJudge(next(each for each in FORMS if each == form), url, name, key, span=limits)


def _base64(image: ImageInput) -> str:
    return base64.b64encode(encode_for_model(image).data).decode("ascii")


def _own(source: str, edited: str, instruction: str, reward: str) -> tuple[str, Any]:
    return "/score", {"instruction": instruction, "source": source, "edited": edited}


def _unirl(source: str, edited: str, instruction: str, reward: str) -> tuple[str, Any]:
    turns = [{"text": instruction, "image_b64": image} for image in (source, edited)]
    return "/score", {"requests": [{"history": turns, "required_rewards": [reward]}]}


def _flow_factory(source: str, edited: str, instruction: str, reward: str) -> tuple[str, Any]:
    return "/compute", {"prompt": [instruction], "image": [edited], "condition_images": [[source]], "video": None}


_WRITE: Mapping[str, Callable[[str, str, str, str], tuple[str, Any]]] = {
    "http": _own,
    "http+unirl": _unirl,
    "http+flow-factory": _flow_factory,
}


def _read_own(reply: Any, reward: str) -> float | ReplyProblem:
    result = _item(_item(reply, "results"), 0)
    error = _item(result, "error")
    return _number(_item(result, "reward"), _item(error, "message"))


def _read_unirl(reply: Any, reward: str) -> float | ReplyProblem:
    name, _, metric = reward.partition(".")
    metrics = _item(_item(_item(reply, "results"), 0), name)
    value = (
        _item(metrics, metric) if metric else next(iter(metrics.values()), None) if isinstance(metrics, dict) else None
    )
    return _number(value, _item(_item(_item(reply, "errors"), 0), name))


def _read_flow_factory(reply: Any, reward: str) -> float | ReplyProblem:
    return _number(_item(_item(reply, "rewards"), 0), _item(reply, "error"))


_READ: Mapping[str, Callable[[Any, str], float | ReplyProblem]] = {
    "http": _read_own,
    "http+unirl": _read_unirl,
    "http+flow-factory": _read_flow_factory,
}


def _item(value: Any, key: str | int) -> Any:
    """Return an item of a JSON value; None if it has none."""
    if isinstance(key, str):
        return value.get(key) if isinstance(value, dict) else None
    return value[key] if isinstance(value, list) and len(value) > key else None


def _number(value: Any, problem: Any) -> float | ReplyProblem:
    number = finite(value)
    if number is not None:
        return number
    return ReplyProblem(f"it gave no number{f' ({problem[:200]})' if isinstance(problem, str) and problem else ''}.")

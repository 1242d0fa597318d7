"""Judges that give one number per candidate: Python functions, and scorers that are asked over HTTP."""

import asyncio
import base64
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rewardharness.codec import finite
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.judging.judge import RewardJudge
from rewardharness.measure.encoded import encode_for_model
from rewardharness.measure.images import load_picture
from rewardharness.models.base import ModelError
from rewardharness.models.post import call, post, source_code
from rewardharness.models.transport import HttpClient, ServerAddress
from rewardharness.schema import LABELS, TIE, Example, ImageInput

_LARGEST_REPLY = 10_000_000


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
        pictures = await asyncio.to_thread(lambda: [Image.fromarray(load_picture(image).pixels) for image in images])
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

    form: str
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
        asked = [self._ask(source, candidate, example.instruction) for candidate in candidates]
        return dict(zip(LABELS, await asyncio.gather(*asked), strict=False))

    async def _ask(self, source: str, edited: str, instruction: str) -> float:
        dialect = _DIALECTS[self.form]
        body = orjson.dumps(dialect.write(source, edited, instruction, self.reward.partition(".")[0]))
        url = self.url.rstrip("/") + dialect.route
        reply = await post(self.http, self.name, url, body, kind="application/json", key=self.key)
        said, problem = dialect.read(reply, self.reward)
        if (number := finite(said)) is None:
            why = f" ({problem[:200]})" if isinstance(problem, str) and problem else ""
            message = f"{self.name}: it gave no number{why}."
            raise ModelError("bad_response", message, next_step="See the log of the scorer.")
        return number


def _reopen(form: str, url: str, reward: str, key: str, span: tuple[float, float] | None) -> HttpJudge:
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
    return HttpJudge(form, url, name, key, span=limits)


def _base64(image: ImageInput) -> str:
    return base64.b64encode(encode_for_model(image).data).decode("ascii")


@dataclass(frozen=True)
class _Dialect:
    """How a scorer is asked, and what it answers."""

    route: str
    write: Callable[[str, str, str, str], Any]
    """Body of a request: source, edited image, instruction and name of the reward."""
    read: Callable[[Any, str], tuple[Any, Any]]
    """What stands for the number in a reply, and for the problem: the reply, and the reward with its metric."""


def _turns(source: str, edited: str, instruction: str, reward: str) -> Any:
    turns = [{"text": instruction, "image_b64": image} for image in (source, edited)]
    return {"requests": [{"history": turns, "required_rewards": [reward]}]}


def _read_own(reply: Any, reward: str) -> tuple[Any, Any]:
    return _item(reply, "results", 0, "reward"), _item(reply, "results", 0, "error", "message")


def _read_unirl(reply: Any, reward: str) -> tuple[Any, Any]:
    name, _, metric = reward.partition(".")
    metrics = _item(reply, "results", 0, name)
    metric = metric or next(iter(metrics if isinstance(metrics, dict) else ()), "")
    return _item(metrics, metric), _item(reply, "errors", 0, name)


_DIALECTS: Mapping[str, _Dialect] = {
    "http": _Dialect(
        "/score",
        lambda source, edited, instruction, _: {"instruction": instruction, "source": source, "edited": edited},
        _read_own,
    ),
    "http+unirl": _Dialect("/score", _turns, _read_unirl),
    "http+flow-factory": _Dialect(
        "/compute",
        lambda source, edited, instruction, _: {
            "prompt": [instruction],
            "image": [edited],
            "condition_images": [[source]],
            "video": None,
        },
        lambda reply, _: (_item(reply, "rewards", 0), _item(reply, "error")),
    ),
}


def _item(value: Any, *path: str | int) -> Any:
    """Return what lies at a path in a JSON value; None if nothing does."""
    for key in path:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, dict) else None
        else:
            value = value[key] if isinstance(value, list) and len(value) > key else None
    return value

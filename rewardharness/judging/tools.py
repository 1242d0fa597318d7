"""Execution of Tool calls: prompted Tools query a model about images, measured Tools compute on pixels.

The model names images by label, which this module resolves. Only routed Tools can be called.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.files import content_id
from rewardharness.judging.answers import ReplyProblem, ToolRequest, conclusion, read_object
from rewardharness.judging.cache import JudgmentCache, remembered
from rewardharness.judging.context import Parts, Presented
from rewardharness.judging.instruction import request_of
from rewardharness.judging.media import Media, content_ids, key_of, prepare
from rewardharness.judging.presentation import usage_of
from rewardharness.library.entry import Entry
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.measure.table import MEASURES
from rewardharness.measure.view import EditView
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, ModelError, Reply, TextPart
from rewardharness.prompts import load, version
from rewardharness.schema import LABELS, SOURCES, EditRequest, Example, ImageInput, Usage
from rewardharness.task import IMAGE_EDIT

MAX_IMAGES = SOURCES + len(LABELS)
"""Maximum number of images in a Tool call."""
_WORDS = re.compile(r"[\W_]+")
MAX_QUERY = 2000
"""Maximum number of characters of a query."""
TOOL_TOKENS = 768
"""Maximum number of tokens of the reply of a Tool."""


@dataclass(frozen=True)
class Observed:
    """Result of a Tool call."""

    result: Mapping[str, Any]
    """JSON of the observation. `error` is the reason for a missing result."""
    replies: tuple[Reply, ...] = ()
    """Replies of the model."""
    picture: bytes | None = None
    """An overlay image as PNG."""


@dataclass(frozen=True)
class ToolBox:
    """The Tools of one judgment.

    Args:
        tools: The routed Tools.
        model: The model of prompted Tools.
        presented: The images and their labels.
        request: The parsed instruction.
    """

    tools: Sequence[Entry]
    model: Model
    presented: Presented
    request: EditRequest
    pictures: bool = False

    async def run(self, call: ToolRequest) -> Observed:
        """Run one call. An invalid call gives an observation with an error, to which the model can react.

        Raises:
            ModelError: If the model of a prompted Tool is unavailable.
        """
        entry = next((tool for tool in self.tools if tool.name == call.name), None)
        if entry is None:
            names = ", ".join(tool.name for tool in self.tools) or "none"
            return Observed({"error": f"There is no tool {call.name[:80]!r}. Tools: {names}."})
        try:
            labels = [_label(image, self.presented) for image in call.images]
            if entry.measure is not None:
                return await asyncio.to_thread(self._measure, entry.measure, labels)
            parts = await asyncio.to_thread(self._resolve, call.images)
        except ValueError as error:
            return Observed({"error": str(error)})
        return await self._ask(entry, parts, call.query)

    def _measure(self, name: str, labels: Sequence[str]) -> Observed:
        if name not in MEASURES:
            return Observed({"error": f"This version has no measure {name!r}."})
        if self.presented.task is not IMAGE_EDIT:
            raise ValueError(f"This tool measures pixels of images; it cannot measure {self.presented.task.words}.")
        wanted = [label for label in dict.fromkeys(labels) if label != "source"] or list(self.presented.labels)
        if references := [label for label in wanted if label not in self.presented.labels]:
            raise ValueError(f"This tool compares candidates with the source; it cannot measure {references[0]}.")
        images = {name: _image(parts) for name, parts in self.presented.media.items()}
        source = load_picture(ImageInput("source", data=images["source"].data))
        readings = {}
        for label in wanted:
            candidate = load_picture(ImageInput(label, data=images[label].data))
            view = EditView(source.turned(self.request.turned), candidate)
            readings[label] = MEASURES[name].function(view, self.request)
        overlays = [reading.overlay for reading in readings.values() if reading.overlay is not None and self.pictures]
        results = {label: {**reading.to_json(), "says": reading.sentence} for label, reading in readings.items()}
        return Observed(results, picture=encode_png(overlays[0]) if overlays else None)

    def _resolve(self, images: Sequence[Any]) -> list[TextPart | ImagePart]:
        """Return the content of a call. With reference images, videos and texts, each follows its caption."""
        presented = self.presented
        if len(images) > MAX_IMAGES:
            raise ValueError(f"At most {MAX_IMAGES} images fit into one call.")
        captions = presented.titles if len(presented.sources) > 1 or presented.task is not IMAGE_EDIT else {}
        parts: list[TextPart | ImagePart] = []
        for image in images or presented.names:
            if caption := captions.get(_label(image, presented)):
                parts.append(TextPart(f"{caption}:"))
            parts += _parts(image, presented)
        return parts

    async def _ask(self, entry: Entry, parts: Sequence[TextPart | ImagePart], query: str) -> Observed:
        """Query the model with the prompt of the Tool; a reply that violates its schema is rejected once."""
        system = Message.of("system", entry.system_prompt or entry.body, load("tool_rules", self.presented.wording))
        asked = query.strip()[:MAX_QUERY] or entry.description
        messages = [system, Message("user", (*parts, TextPart(asked)))]
        replies: list[Reply] = []
        problem = ""
        for _ in range(2):
            reply = await self.model.ask(ChatRequest(tuple(messages), max_tokens=TOOL_TOKENS))
            replies.append(reply)
            said = conclusion(reply.text)
            wanted = entry.output_schema or {}
            value = None if isinstance(said, ReplyProblem) else read_object(said, *wanted) or read_object(said)
            problem = said.message if isinstance(said, ReplyProblem) else _schema_problem(value, entry.output_schema)
            if not isinstance(said, ReplyProblem) and not problem:
                return Observed(value if isinstance(value, dict) else {"says": said.strip()}, tuple(replies))
            reminder = load("reminder", problem=problem, form=json.dumps(dict(wanted), ensure_ascii=False))
            messages += [Message.of("assistant", reply.text), Message.of("user", reminder)]
        return Observed({"error": f"The tool gave no usable result: {problem}"}, tuple(replies))


def _label(image: Any, presented: Presented) -> str:
    name = image.get("image") if isinstance(image, dict) else image
    known = {"image 1": "source"} if len(presented.sources) > 1 else {}
    known |= {label.lower(): label for label in presented.names}
    if isinstance(name, str):
        words = _WORDS.sub(" ", name[:80]).lower().split()
        bare = [word for word in words if word not in {"base64", "candidate", "image", "the"}]
        for spelling in (" ".join(words), " ".join(bare)):  # also `<base64-A>` and `<image_A_base64>`
            if spelling in known:
                return known[spelling]
    raise ValueError(f"There is no image {str(name)[:40]!r}. Images: {', '.join(presented.names)}.")


def _image(parts: Parts) -> ImagePart:
    """Return the image of a source or candidate of an image edit."""
    (part,) = parts
    assert isinstance(part, ImagePart)
    return part


def _parts(image: Any, presented: Presented) -> Parts:
    """Return what has a label; an image is cropped to its box if there is one."""
    parts = presented.media[_label(image, presented)]
    box = image.get("box") if isinstance(image, dict) else None
    if box is None or presented.task is not IMAGE_EDIT:
        return parts
    sides = [float(side) for side in box] if isinstance(box, list) and all(_is_share(side) for side in box) else []
    if len(sides) != 4 or sides[0] >= sides[2] or sides[1] >= sides[3]:
        raise ValueError("A box is four shares of width and height: left, top, right, bottom, each from 0 to 1.")
    pixels = load_picture(ImageInput("crop", data=_image(parts).data)).pixels
    height, width = pixels.shape[:2]
    left, top = int(sides[0] * width), int(sides[1] * height)
    right, bottom = max(left + 1, round(sides[2] * width)), max(top + 1, round(sides[3] * height))
    return (ImagePart(encode_png(pixels[top:bottom, left:right]), "image/png"),)


def _is_share(value: Any) -> bool:
    return _fits(value, "number") and 0 <= value <= 1


def _schema_problem(value: Any, schema: Mapping[str, Any] | None) -> str:
    """Return how a reply violates the output schema of a Tool (key to informal type); empty if it does not."""
    if not schema:
        return ""
    if not isinstance(value, dict):
        return "The reply is not a JSON object."
    if missing := [key for key in schema if key not in value]:
        return f"The reply lacks: {', '.join(missing)}."
    wrong = [key for key, kind in schema.items() if not _fits(value[key], str(kind))]
    return f"Of another type than asked for: {', '.join(wrong)}." if wrong else ""


_TYPES: Mapping[tuple[str, ...], tuple[type, ...]] = {
    ("list", "array"): (list,),
    ("dict", "object", "map"): (dict,),
    ("bool",): (bool,),
    ("int", "float", "number"): (int, float),
    ("str",): (str,),
}


def _fits(value: Any, kind: str) -> bool:
    """Return whether a value has an informal type such as `list[str]`, `bool` or `int`; unknown types fit anything."""
    wanted = next((types for prefixes, types in _TYPES.items() if kind.strip().lower().startswith(prefixes)), (object,))
    return isinstance(value, wanted) and not (float in wanted and isinstance(value, bool))


MAX_SAID = 600
"""Maximum number of characters of a stored reply."""

_NOT_THE_TOOL = frozenset({"context_too_long", "refused", "bad_request"})
"""Error codes of a model that is available but rejects the request."""
_Called = tuple[dict[str, Any], str, Usage]
"""Result of a call, the last reply, and the usage."""


@dataclass(frozen=True)
class Observation:
    """Result of a Tool call on one example."""

    example: str
    """Id of the example."""
    said: str
    """Beginning of the reply; untrusted text."""
    problem: str = ""
    """Why the reply is unusable, in one sentence; empty if it is usable."""
    lost: str = ""
    """Error code of a failure that is unrelated to the Tool, such as an unavailable model or an unreadable image."""
    usage: Usage = Usage()
    """Usage; zero for a cached reply."""


async def observe(
    model: Model, cache: JudgmentCache | None, max_pixels: int | None, tool: Entry, examples: Sequence[Example]
) -> list[Observation]:
    """Call a Tool on examples concurrently, each with all of its images.

    A reply that violates the schema of the Tool is rejected once, as in a judgment.

    Args:
        model: The model of the judge.
        cache: Cache of observations; None to cache nothing.
        max_pixels: As in `ModelJudgeConfig`.
        tool: The Tool.
        examples: The examples.
    """
    calls = (_observe(model, cache, max_pixels, tool, example) for example in examples)
    return list(await asyncio.gather(*calls))


async def _observe(
    model: Model, cache: JudgmentCache | None, max_pixels: int | None, tool: Entry, example: Example
) -> Observation:
    async def call() -> _Called:
        box = ToolBox((tool,), model, media.present(example.labels), request_of(example))
        observed = await box.run(ToolRequest(tool.name, (), ""))
        usage = sum((usage_of(reply) for reply in observed.replies), Usage())
        return dict(observed.result), observed.replies[-1].text[:MAX_SAID] if observed.replies else "", usage

    try:
        media = await asyncio.to_thread(prepare, example, max_pixels)
        key = partial(_key, model, tool, media)
        (result, last, usage), _ = await remembered(cache, key, model.id, call, _write, _read)
    except ModelError as error:
        problem = f"{error.title}: {error.message}"
        lost = "" if error.code in _NOT_THE_TOOL else error.code
        return Observation(example.id, "", problem, lost, Usage(calls=1))
    except HarnessError as error:
        return Observation(example.id, "", error.message, "image")
    problem = _problem(result, tool)
    said = last if problem else json.dumps(result, ensure_ascii=False)
    return Observation(example.id, said[:MAX_SAID], problem, usage=usage)


def _write(called: _Called) -> dict[str, Any]:
    return {"result": called[0], "last": called[1]}


def _read(known: dict[str, Any]) -> _Called:
    """Read a cached observation."""
    if not isinstance(known["result"], dict) or not isinstance(known["last"], str):
        raise TypeError("another form")
    return known["result"], known["last"], Usage()


def _problem(result: dict[str, Any], tool: Entry) -> str:
    """Return why a result is unusable; empty if it is usable."""
    if "error" in result and "error" not in (tool.output_schema or {}):
        return str(result["error"])
    empty = all(value is None or value in ("", [], {}) for value in result.values())
    return "Everything in the reply is empty." if empty else ""


def _key(model: Model, tool: Entry, media: Media) -> str:
    contents = [*map(content_ids, media.sources), *map(content_ids, media.candidates.values())]
    which = [len(media.sources), *key_of(media.task)]
    prompts = version("tool_rules", "reminder", media.task.prompt)
    return content_id(["tool", prompts, model.id, tool.entry_id, contents, which])

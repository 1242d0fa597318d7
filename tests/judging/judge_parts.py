"""Pictures, examples and questions to scripted models, for tests of judges."""

import asyncio
import io
import json
from collections.abc import Sequence

import numpy as np
from PIL import Image

from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.base import ChatRequest, ImagePart, Message, TextPart
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.schema import Example, ImageInput, Judgment

GRADES = {"instruction": 3, "quality": 3}
PREFERS_A = json.dumps({"preference": "A", "scores": {"A": GRADES, "B": GRADES}})


def flat(level: int, side: int = 32) -> ImageInput:
    """A gray picture, with a name that no model may see."""
    return ImageInput.of(np.full((side, side, 3), level, np.uint8), f"secret-{level}")


def edit(
    *levels: int, name: str = "x", label: str | None = None, instruction: str = "make the image brighter"
) -> Example:
    """Gray candidates of a gray source."""
    return Example(name, instruction, flat(100), tuple(map(flat, levels)), label, "made")


def boxed(level: int) -> ImageInput:
    """A scene with a box, which is gray at level 0 and redder above."""
    coarse = Image.fromarray(np.random.default_rng(5).integers(60, 200, (8, 8, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((128, 128), Image.Resampling.BICUBIC)).copy()
    pixels[40:90, 40:90] = (120 + level, 120 - level, 110 - level)
    return ImageInput.of(pixels, f"image {level}")


def redder(*levels: int, name: str = "x", instruction: str = "make the box red") -> Example:
    """Candidates whose box is more or less red."""
    return Example(name, instruction, boxed(0), tuple(map(boxed, levels)))


def waves(height: int, width: int) -> np.ndarray:
    """A source with soft waves of light."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([128 + 60 * np.sin(x / (30 + k)) * np.cos(y / 25) for k in range(3)], 2).astype(np.uint8)


def text_of(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def shown(request: ChatRequest) -> list[tuple[str, int]]:
    """Captions and brightness of the images of the last message with images."""
    messages = [message.parts for message in request.messages if any(isinstance(p, ImagePart) for p in message.parts)]
    return [
        (getattr(messages[-1][place - 1], "text", ""), int(np.asarray(Image.open(io.BytesIO(part.data)))[0, 0, 0]))
        for place, part in enumerate(messages[-1])
        if isinstance(part, ImagePart)
    ]


def agent(model: ScriptedModel | Script, cache: JudgmentCache | None = None, **settings: object) -> SubAgent:
    """A judge with a scripted model, or with one that always gives the same reply."""
    scripted = model if isinstance(model, ScriptedModel) else ScriptedModel(lambda request: model)
    return SubAgent(scripted, ModelJudgeConfig(**settings), cache)


def ask(
    judge: SubAgent | ScriptedModel | Script, example: Example, library: Library = EMPTY, **settings: object
) -> Judgment:
    """Let a model judge one example."""
    judge = judge if isinstance(judge, SubAgent) else agent(judge, **settings)
    return asyncio.run(judge.judge(example, library))


def requests_of(judge: SubAgent) -> Sequence[ChatRequest]:
    return judge.model.requests


def judge_one(judge: Judge, example: Example, library: Library = EMPTY) -> Judgment:
    [(_, judgment)] = evaluate(judge, library, [example])
    return judgment


def code(judgment: Judgment) -> str:
    """The code of the failure; empty without one."""
    return judgment.failure.code if judgment.failure else ""


def message(judgment: Judgment) -> str:
    """The message of the failure; empty without one."""
    return judgment.failure.message if judgment.failure else ""


def observations(judgment: Judgment) -> list[str]:
    return [step.text for step in judgment.steps if step.kind == "obs"]

"""The paper's storefront: "Add a 'Sale' sign". One candidate spells it, the other writes "Sael".

Draws the three pictures and has them judged:

    python examples/sale_sign.py                                   # pixel-based judge, reads the signs by OCR
    python examples/sale_sign.py --judge scripted                  # a scripted model that calls the text-reading Tool
    python examples/sale_sign.py --judge vllm:NAME@http://host:8000/v1
"""

import argparse
import io
import json

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rewardharness import Example, ImageInput, Judgment, evaluate, open_library
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.models.base import ChatRequest, TextPart
from rewardharness.models.open import ScriptedModel
from rewardharness.settings import Settings

INSTRUCTION = 'Add a "Sale" sign to the storefront'


def draw(sign: str | None) -> bytes:
    """Draw the storefront, with a sign if there is one, as PNG."""
    random = np.random.default_rng(7)
    canvas = Image.new("RGB", (640, 480), (176, 196, 214))
    pen = ImageDraw.Draw(canvas)
    pen.rectangle((60, 110, 580, 430), fill=(150, 92, 70))
    for y in range(110, 430, 14):
        pen.line((60, y, 580, y), fill=(128, 76, 58))
    pen.polygon([(50, 110), (590, 110), (560, 160), (80, 160)], fill=(46, 98, 78))
    pen.rectangle((100, 190, 380, 390), fill=(58, 72, 84), outline=(222, 214, 196), width=8)
    pen.rectangle((430, 190, 530, 430), fill=(84, 58, 44), outline=(222, 214, 196), width=6)
    pen.rectangle((0, 430, 640, 480), fill=(122, 120, 116))
    if sign:
        pen.rectangle((150, 230, 330, 330), fill=(196, 32, 40), outline=(250, 246, 236), width=5)
        pen.text((240, 280), sign, fill=(255, 255, 255), font=ImageFont.load_default(56), anchor="mm")
    noisy = np.asarray(canvas).astype(np.int16) + random.normal(0, 3, (480, 640, 3))
    buffer = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def scripted(request: ChatRequest) -> str:
    """Play a model that has the signs read before it answers."""
    last = request.messages[-1].parts[-1]
    assert isinstance(last, TextPart)
    if not last.text.startswith("<obs>"):
        call = json.dumps({"name": "text-reader", "images": ["A", "B"], "query": "What does each sign say?"})
        return f"<think>Does a sign appear, and is it spelled rightly? I have both read.</think><tool>{call}</tool>"
    seen = json.loads(last.text.removeprefix("<obs>").removesuffix("</obs>"))
    grades = {label: seen[label].get("grade") or 0.0 for label in ("A", "B")}
    best = max(grades, key=lambda label: grades[label])
    scores = {label: {"instruction": 4 if label == best else 2, "quality": 4} for label in grades}
    said = json.dumps({"preference": best, "scores": scores})
    return f"<think>{best} is spelled rightly; elsewhere both are alike.</think><answer>{said}</answer>"


def judge(spec: str) -> Judgment:
    """Judge the two storefronts."""
    example = Example(
        id="sale-sign",
        instruction=INSTRUCTION,
        source=ImageInput("source", data=draw(None)),
        candidates=(ImageInput("A", data=draw("Sale")), ImageInput("B", data=draw("Sael"))),
    )
    who = SubAgent(ScriptedModel(scripted)) if spec == "scripted" else open_judge(spec, Settings.from_env())
    return evaluate(who, open_library("builtin"), [example])[0][1]


def main() -> None:
    """Judge, and show the chain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="measured", help="measured, scripted, or a model as rh score spells it")
    judgment = judge(parser.parse_args().judge)
    for step in judgment.steps:
        print(f"<{step.kind}>{step.text}</{step.kind}>")
    print(f"\n{judgment.judge}, {judgment.protocol}: {judgment.preference or judgment.failure}")


if __name__ == "__main__":
    main()

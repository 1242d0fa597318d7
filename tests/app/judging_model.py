"""What a model server of the tests says to a comparison: it knows the better picture by its bytes."""

import base64
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from model_server import Call, completion


def judging(good: Path, *, thought: str = "I look closely.", tool: str = "", sources: int = 1) -> Callable[[Call], Any]:
    """Make the replies of a model that prefers one picture, in whichever place it is shown.

    Args:
        good: The picture that is preferred.
        thought: What the model thinks before it answers.
        tool: A Tool that it calls first.
        sources: Number of images that are shown before the candidates.
    """
    better = sha256(good.read_bytes()).hexdigest()

    def respond(call: Call) -> Mapping[str, Any] | None:
        shown = shown_hashes(call)[sources:]
        if better not in shown:
            return None  # a question of a check
        best = "ABCD"[shown.index(better)]
        turns = sum(message["role"] == "assistant" for message in call.json["messages"])
        if tool and not turns:
            asked = {"name": tool, "images": ["source", "A"]}
            text = f"<think>First I measure.</think><tool>{json.dumps(asked)}</tool>"
        else:
            scores = {label: {"instruction": 4 if label == best else 1, "quality": 3} for label in "ABCD"[: len(shown)]}
            answer = json.dumps({"preference": best, "scores": scores})
            text = f"<think>{thought}</think><answer>{answer}</answer>"
        return completion(text, prompt_tokens=1000)

    return respond


def shown_hashes(call: Call) -> list[str]:
    """Hashes of the images of a request, in its order."""
    return [uuid or sha256(base64.b64decode((url or "").partition(",")[2])).hexdigest() for url, uuid in call.images]

"""An edit of two source images, judged by a served model on the command line."""

import hashlib
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Rh
from model_server import Call, ModelServer
from serving_parts import is_probe, picture

TEXT = "Put the van of image 1 next to the butterfly of image 2."
IMAGES = {name: picture(shade, 16) for name, shade in (("van", 10), ("butterfly", 60), ("both", 120), ("lost", 200))}
KNOWN = {hashlib.sha256(data).hexdigest(): name for name, data in IMAGES.items()}
SOURCES = [("Image 1 (source):", "van"), ("Image 2 (reference):", "butterfly")]
PAIR = [
    [*SOURCES, ("Candidate A:", "both"), ("Candidate B:", "lost")],
    [*SOURCES, ("Candidate A:", "lost"), ("Candidate B:", "both")],
]


def shown(call: Call) -> list[tuple[str, str]]:
    """Captions and names of the images of a request, in its order."""
    found, before = [], ""
    for part in (part for message in call.json["messages"][1:] for part in message["content"]):
        if part["type"] == "image_url":
            url = (part["image_url"] or {}).get("url") or ""  # an image that the server has seen is only named
            digest = part.get("uuid") or hashlib.sha256(b64decode(url.partition(",")[2])).hexdigest()
            found.append((before, KNOWN[digest]))
        before = part.get("text", "")
    return found


def respond(call: Call) -> str | None:
    """Prefer the edit with both; None for the small questions of a probe."""
    if is_probe(call):
        return None
    scores = {
        title.removeprefix("Candidate ")[0]: {"instruction": 4 if name == "both" else 1, "quality": 4}
        for title, name in shown(call)[2:]
    }
    best = max(scores, key=lambda label: scores[label]["instruction"])
    return json.dumps({"preference": best, "scores": scores})


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(respond) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in IMAGES.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    row = {"id": "e1", "source": "van.png", "references": ["butterfly.png"], "instruction": TEXT, "preference": "A"}
    row |= {"candidate_a": "both.png", "candidate_b": "lost.png", "label_kind": "human"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return tmp_path


def judge_of(model: ModelServer) -> list[str]:
    return ["--judge", f"openai:judge@{model.url}", "--protocol", "direct", "--no-cache"]


def requests(model: ModelServer) -> list[list[tuple[str, str]]]:
    """What the model was shown since the last look; every request must also name the references."""
    calls = [call for call in model.calls if not is_probe(call)]
    assert all("There are 2 source images." in call.text and TEXT in call.text for call in calls)
    model.calls.clear()
    return sorted(map(shown, calls))


def test_on_the_command_line(model: ModelServer, folder: Path, rh: Rh) -> None:
    images = {name: str(folder / f"{name}.png") for name in IMAGES}
    edit = ["--source", images["van"], "--reference", images["butterfly"], "--instruction", TEXT]
    edit += ["--candidate", images["both"], "--candidate", images["lost"]]
    assert rh("score", *edit, *judge_of(model), "--json").json["preference"] == "A" and requests(model) == PAIR
    scored = rh("score", folder, *judge_of(model), "--json", "--run", folder / "run").json
    assert scored["by_label_kind"]["human"]["accuracy"] == 1
    assert requests(model) == PAIR

"""Ranked text responses in the JSON of prompts: evolved, released and scored over HTTP, with a served model."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import Call, ModelServer
from serving_parts import Running, b64, is_probe, picture

from rewardharness.cli.main import main
from rewardharness.settings import Settings

FILE = Path(__file__).parents[2] / "examples" / "ranked_texts.json"
SKILL = {
    "name": "facts-over-adjectives",
    "description": "Count what is stated in numbers.",
    "triggers": "always",
    "body": "Prefer the response with more facts in numbers. Length is no merit.",
}
GENERATORS = ("writer-1", "writer-2", "writer-3")


def responses(call: Call) -> list[str]:
    return re.findall(r"<response>\n(.*?)\n</response>", call.text, re.DOTALL)


def digits(text: str) -> int:
    return len(re.findall(r"\d", text))


def respond(call: Call) -> str | None:
    """A judge that prefers long texts unless the Library tells it to count facts, and an Orchestrator that says so."""
    if "You study where a judge" in call.text:
        cases = re.findall(r'<case name="(\w+)">', call.text)[:2]
        finding = {"statement": "Long texts are preferred.", "examples": cases, "kinds": ["other"]}
        return json.dumps({"findings": [finding]})
    if "You improve the library" in call.text:
        return json.dumps({"operator": "add", "statement": "Count facts, not words.", "entry": SKILL})
    texts = responses(call)
    if not texts:
        return None  # the small questions of a probe
    value = digits if "facts-over-adjectives" in call.text else len
    scores = {
        label: {"instruction": 4 if value(text) == max(map(value, texts)) else 2, "quality": 3}
        for label, text in zip("AB", texts, strict=False)
    }
    if len(texts) == 1:
        return json.dumps({"instruction": min(4, 1 + digits(texts[0]) // 3), "quality": 3})
    return json.dumps({"preference": "A" if value(texts[0]) >= value(texts[1]) else "B", "scores": scores})


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(respond) as server:
        yield server


@pytest.fixture(scope="module")
def evolved(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of an evolution, with its Library and a release of it, and the report."""
    folder = tmp_path_factory.mktemp("texts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RH_HOME", str(folder / "home"))
        judge = ["--judge", f"openai:judge@{model.url}", "--protocol", "direct"]
        evolve = ["evolve", str(FILE), *judge, "--orchestrator", judge[1], "--library", "builtin:text"]
        assert main([*evolve, "--run", str(folder / "run"), "--ensemble", "0", "--yes", "--quiet"]) == 0
        release = ["release", "create", *judge, "--library", str(folder / "run" / "library")]
        release += ["--card", str(folder / "run" / "report.json"), "-o", str(folder / "release.json")]
        assert main(release) == 0
        assert main(["release", "verify", str(folder / "release.json"), "--judge", f"openai:judge@{model.url}"]) == 0
    return folder, json.loads((folder / "run" / "report.json").read_text())


def test_evolution_finds_what_people_prefer(evolved: tuple[Path, dict[str, Any]], model: ModelServer) -> None:
    folder, report = evolved
    skill = (folder / "run" / "library" / "skills" / SKILL["name"] / "SKILL.md").read_text()
    assert "task: text" in skill
    accuracies = [report["audit"][part]["accuracy"] for part in ("start", "final")]
    assert accuracies == pytest.approx([2 / 15, 14 / 15])
    assert report["regression"]["n"] == 0
    asked = [call.text for call in model.calls if "You improve the library" in call.text]
    assert asked and all("judge of text responses" in text and "image edits" not in text for text in asked)
    assert all('<candidate name="B">' in text for text in asked)
    judged = [call for call in model.calls if responses(call)]
    assert judged
    for call in judged:
        assert not call.images and not any(word in call.text for word in (*GENERATORS, '"rank"', "response-1"))


def test_other_commands_take_texts(evolved, model, tmp_path, capsys):
    folder, _ = evolved
    judge = ["--judge", f"openai:judge@{model.url}", "--protocol", "direct"]
    judge += ["--library", str(folder / "run" / "library")]
    assert main(["score", str(FILE), *judge, "--run", str(tmp_path / "score"), "--json", "--quiet"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["by_label_kind"]["rank"]["accuracy"]
    assert accuracy > 0.9
    assert main(["benchmark", "run", str(FILE), *judge, "--run", str(tmp_path / "benchmark"), "--json", "--yes"]) == 0
    assert main(["score", str(FILE), *judge[:4], "--library", "builtin", "--run", str(tmp_path / "no")]) != 0
    assert "is not for text responses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"source": b64(picture(1)), "edited": {"text": "t"}}, "texts are judged without a source"),
        ({"candidates": [{"text": "t"}, b64(picture(1))]}, "texts are judged without a source"),
        ({"edited": b64(picture(1))}, "source is required"),
        ({"edited": {"text": " \n"}}, "nothing visible in it"),
        ({"edited": {"text": 3}}, "not a text"),
        ({"edited": {"frames": []}, "source": b64(picture(1))}, "not a list of 1 to 64 images"),
        ({"edited": {"text": "t", "rank": 1}}, "not an image"),
    ],
)
def test_what_belongs_to_no_task_is_refused(evolved, model, body, problem):
    from serving_parts import ReadyJudge

    with Running(ReadyJudge()) as server:
        reply = server.post("/score", {"instruction": "Write.", **body})
    assert reply.status == 422 and problem in json.dumps(reply.json)


def test_videos_are_sent_as_frames(model: ModelServer) -> None:
    """Of an image as source and two videos, the model sees every frame with its number."""
    from rewardharness.judging.opening import open_judge
    from rewardharness.library.store import EMPTY

    model.calls.clear()
    frames = [[b64(picture(shade)) for shade in range(start, start + 3)] for start in (10, 20)]
    judge = open_judge(f"openai:judge@{model.url}", Settings.from_env(), protocol="direct", no_cache=True)
    body = {"instruction": "rain", "source": b64(picture(1)), "candidates": [{"frames": each} for each in frames]}
    with Running(judge, library=EMPTY) as server:
        server.post("/score", body)
    asked = [call for call in model.calls if not is_probe(call)]
    assert asked and all(len(call.images) == 7 and call.text.count("Frame 3:") == 2 for call in asked)

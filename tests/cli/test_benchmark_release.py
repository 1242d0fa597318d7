"""`rh benchmark --release`: the release fixes judge, settings and Library, and what is not the release says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Call, ModelServer
from PIL import Image

from rewardharness.cli.main import main
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library

Told = Callable[..., dict[str, Any]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def call(*words: object) -> dict[str, Any]:
        status = main([str(word) for word in words])
        shown = capsys.readouterr()
        assert status in (0, 3), shown.err
        return {**json.loads(shown.out), "status": status}

    return call


@pytest.fixture
def library(tmp_path: Path) -> Path:
    names = {"color-and-material-changes", "preserving-the-rest"}
    folder = tmp_path / "small"
    Library(tuple(each for each in open_library("builtin").entries if each.name in names)).save(folder)
    return folder


def draw(folder: Path, *truths: str) -> Path:
    """Pairs of a box that was made red and one that was left; where nobody is preferred, both are alike."""
    folder.mkdir()
    rows = []
    for number, truth in enumerate(truths):
        pixels = np.random.default_rng(number).integers(60, 200, (96, 96, 3), dtype=np.uint8)
        for name, level in (("s", 0), ("e", 90)):
            pixels[36:60, 36:60] = (120 + level, 120 - level, 110 - level)
            Image.fromarray(pixels).save(folder / f"{name}{number}.png")
        files = {"A": "es", "B": "se", "tie": "ee"}[truth]
        row = {"id": f"p{number}", "source": f"s{number}.png", "instruction": "make the box red", "preference": truth}
        rows.append({**row, "candidate_a": f"{files[0]}{number}.png", "candidate_b": f"{files[1]}{number}.png"})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_a_release_is_benchmarked_as_it_is_and_named_by_its_hash(told: Told, library: Path, tmp_path: Path) -> None:
    data, file, run = draw(tmp_path / "data", "A", "B", "A"), tmp_path / "r.json", tmp_path / "run"
    made = told("release", "create", "--library", library, "-o", file, "--json")
    found = told("benchmark", data, "--release", file, "--baselines", "closer", "--run", run, "--json", "--quiet")
    judge, _ = found["rows"]
    assert (judge["release"], judge["library_id"]) == (made["id"], made["library_id"])
    assert judge["library"] == f"release {made['id'][:12]}"
    plain = told("benchmark", data, "--library", library, "--run", tmp_path / "plain", "--json", "--quiet")
    assert judge["numbers"] == plain["rows"][0]["numbers"] and judge["numbers"][0]["value"] == 1.0
    for name in ("run.json", "record.json"):
        stated = json.loads((run / name).read_text(encoding="utf-8"))
        assert stated.get("about", stated)["release"] == made["id"]
    assert json.loads((run / "record.json").read_text())["sessions"][0]["arguments"]["library"] is None
    for name in ("report.json", "report.md", "report.html"):
        assert made["id"] in (run / name).read_text(encoding="utf-8")


def test_a_run_goes_on_only_with_the_release_that_it_began_with(
    told: Told, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, file, run = draw(tmp_path / "data", "A", "B"), tmp_path / "r.json", tmp_path / "run"
    told("release", "create", "--library", library, "-o", file, "--json")
    told("benchmark", data, "--release", file, "--run", run, "--json", "--quiet")
    told("benchmark", data, "--release", file, "--run", run, "--json", "--quiet")
    told("release", "create", "--library", library, "--ties", "-o", tmp_path / "ties.json", "--json")
    for other in (["--release", tmp_path / "ties.json"], ["--library", library]):
        assert main([str(word) for word in ("benchmark", data, *other, "--run", run, "--quiet")]) == 1
        assert "release" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--library", "builtin"], "--library builtin"),
        (["--one-order"], "--one-order"),
        (["--protocol", "direct", "--samples", "2"], "--protocol direct, --samples 2"),
        (["--judge", "random"], "random"),
    ],
)
def test_what_a_release_fixes_is_not_said_otherwise(
    told: Told,
    library: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    says: str,
) -> None:
    data, file, run = draw(tmp_path / "data", "A", "B"), tmp_path / "r.json", tmp_path / "run"
    made = told("release", "create", "--library", library, "-o", file, "--json")
    words = ["benchmark", str(data), "--release", str(file), "--run", str(run), "--quiet", *more]
    assert main(words) == 1
    err = capsys.readouterr().err
    assert says in err and "Next:" in err and not run.exists()
    assert made["id"][:12] in err or "The release" in err


@pytest.mark.parametrize(
    ("release", "truths", "right", "says"),
    [
        (["--ties"], ("A", "B"), 2.0, "may predict a tie, and the labels of unnamed have no ties"),
        ([], ("A", "B", "tie"), 2.0, "predicts no ties, and unnamed has ties"),
        (["--ties"], ("A", "B", "tie"), 3.0, ""),
    ],
)
def test_a_release_keeps_its_ties_whatever_the_labels_have(
    told: Told, library: Path, tmp_path: Path, release: list[str], truths: tuple[str, ...], right: float, says: str
) -> None:
    data, file, run = draw(tmp_path / "data", *truths), tmp_path / "r.json", tmp_path / "run"
    told("release", "create", "--library", library, *release, "-o", file, "--json")
    found = told("benchmark", data, "--release", file, "--run", run, "--json", "--quiet")
    [exact] = [each for each in found["rows"][0]["numbers"] if each["metric"] == "exact"]
    assert (exact["n"], exact["detail"]["correct"]) == (len(truths), right)
    shown = (run / "report.html").read_text(encoding="utf-8")
    assert says in shown and (says or "ties, and" not in shown)


def test_a_tie_that_the_labels_do_not_have_is_worth_half(told: Told, library: Path, tmp_path: Path) -> None:
    data, file = draw(tmp_path / "data", "A", "tie", "B"), tmp_path / "r.json"
    rows = (data / "pairs.jsonl").read_text(encoding="utf-8").replace('"tie"', '"B"')
    (data / "pairs.jsonl").write_text(rows, encoding="utf-8")
    told("release", "create", "--library", library, "--ties", "-o", file, "--json")
    found = told("benchmark", data, "--release", file, "--run", tmp_path / "run", "--json", "--quiet")
    assert found["rows"][0]["numbers"][0]["detail"]["correct"] == 2.5


def test_a_release_of_a_model_judges_where_it_is_served_and_others_judge_alike(
    told: Told, library: Path, tmp_path: Path
) -> None:
    data, file = draw(tmp_path / "data", "A", "B"), tmp_path / "r.json"
    told(
        "release",
        "create",
        "--library",
        library,
        "--judge",
        "vllm:judge",
        "--protocol",
        "pointwise",
        "-o",
        file,
        "--json",
    )

    def respond(call: Call) -> str | None:
        return '{"instruction": 3, "quality": 2}' if len(call.images) == 2 else None

    with ModelServer(respond) as server:
        more = ["--baselines", f"openai:judge@{server.url}", "--yes", "--run", tmp_path / "run", "--json", "--quiet"]
        found = told("benchmark", data, "--release", file, "--judge", server.url, *more)
        assert [row["protocol"] for row in found["rows"]] == ["pointwise"] * 3
        assert [row["judged"] for row in found["rows"]] == [2, 2, 2]
        assert found["rows"][2]["library_id"] == found["rows"][0]["library_id"]

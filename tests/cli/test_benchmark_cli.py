"""`rh benchmark`: tables of judges, costs, development data, reports, comparisons, and runs of a release."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Rh
from drawn_pairs import two_skills
from model_server import Call, ModelServer
from PIL import Image

from rewardharness.cli.command import complete


def png(color: tuple[int, int, int], box: tuple[int, int, int] | None = None) -> bytes:
    image = Image.new("RGB", (48, 48), color)
    if box is not None:
        image.paste(box, (12, 12, 36, 36))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of an edit and the unchanged source, of two kinds of label."""
    folder = tmp_path / "boxes"
    folder.mkdir()
    rows = []
    for number in range(8):
        (folder / f"s{number}.png").write_bytes(png((90, 90 + number, 90)))
        (folder / f"e{number}.png").write_bytes(png((90, 90 + number, 90), (210, 30, 30)))
        files = [f"e{number}.png", f"s{number}.png"][:: -1 if number % 2 else 1]
        row = {"id": f"p{number}", "source": f"s{number}.png", "instruction": "make the box red"}
        row |= {"candidate_a": files[0], "candidate_b": files[1], "preference": "B" if number % 2 else "A"}
        rows.append(row | {"label_kind": "drawn" if number < 5 else "people"})
    return write_rows(folder, rows)


@pytest.fixture
def scores(tmp_path: Path, data: Path) -> str:
    """A judge that reads its scores from a file, right on all but one and silent on another."""
    lines = []
    for number in range(7):
        kind = "drawn" if number < 5 else "people"
        right = {"A": 0.9, "B": 0.1} if number % 2 == 0 else {"A": 0.1, "B": 0.9}
        lines.append({"id": f"{kind}/p{number}", "scores": right if number else {"A": 0.2, "B": 0.3}})
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return f"file:{path}"


def test_the_word_run_may_be_left_out() -> None:
    assert complete("benchmark", ["genai-bench", "--limit", "3"]) == ["run", "genai-bench", "--limit", "3"]
    assert complete("benchmark", ["--limit", "3", "x"])[0] == "run"
    assert complete("evolve", ["demo", "--budget-money=3"]) == ["demo", "--budget-usd=3"]
    for words in (["list"], ["--help"], []):
        assert complete("benchmark", words) == words
    assert complete("score", ["list"]) == ["list"]


def test_a_folder_is_judged_with_baselines_in_one_table(rh: Rh, data: Path, scores: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["benchmark", data, "--judge", scores, "--run", run, "--quiet"]
    others = ["--baselines", "random,always-a,random", "--baselines", "closer"]
    result = rh(*words, *others, "--json", status=3).json  # one could not be judged
    names = ["file:scores.jsonl", "random (baseline)", "always-a (baseline)", "closer (baseline)"]
    assert [row["name"] for row in result["rows"]] == names, "nobody twice, and the judge first"
    drawn, people = result["rows"][0]["numbers"]
    assert (drawn["part"], drawn["n"], drawn["judged"], drawn["value"]) == ("drawn", 5, 5, 0.8)
    assert (people["part"], people["n"], people["judged"], people["value"]) == ("people", 3, 2, 1.0)
    assert result["rows"][0]["failures"] == {"missing": 1}
    assert result["rows"][3]["numbers"][0]["value"] == 0.0, "the closer one is never the edit"
    assert {path.name for path in run.glob("report.*")} == {"report.json", "report.md", "report.html"}
    pairs = rh(*words, *others, status=3).out
    assert "(first), closer (baseline) (second)" in pairs and "random (baseline) (first)" not in pairs
    assert "random (baseline) (first), always-a" in (run / "report.md").read_text(encoding="utf-8"), "all pairs"
    shown = rh(*words, status=3)
    assert "80.0 [37.6, 96.4]" in shown.text and "2 of 3" in shown.text and "Chance" in shown.text
    assert "7 of 8" in shown.text and "(87.5%)" in shown.text and "missing: 1" in shown.text
    assert "Not judged, such as people/" in shown.out and "with --retry-failed, all" in shown.out
    assert str(run / "report.html") in shown.out.replace("\n", "") and not shown.err


def test_development_data_fit_the_thresholds_of_ties(rh: Rh, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for each in data.iterdir():
        (other / each.name).write_bytes(each.read_bytes())
    rows = [json.loads(line) for line in (data / "pairs.jsonl").read_text("utf-8").splitlines()]
    for row, folder, kept in ((rows[0], data, rows[:4]), (rows[1], other, rows[4:])):
        same = {**row, "id": "level", "candidate_b": row["candidate_a"], "preference": "tie", "instruction": "again"}
        write_rows(folder, [*kept, same])
    run = tmp_path / "run"
    result = rh("benchmark", data, "--judge", "farther", "--development", other, "--json", "--quiet", "--run", run).json
    assert any("1 development pairs share a source image with the benchmark" in note for note in result["fitted"])
    assert [each["value"] for each in result["rows"][0]["numbers"] if each["metric"] == "fitted"] == [1.0]
    assert (run / "development" / "results.jsonl").exists()
    assert rh("benchmark", "report", run, "--json").json["rows"][0]["numbers"] == result["rows"][0]["numbers"]


def test_the_cost_is_told_first_and_nothing_is_spent_without_leave(rh: Rh, data: Path, tmp_path: Path) -> None:
    words = ["benchmark", data, "--judge", "vllm:m@http://127.0.0.1:9", "--run", tmp_path / "run"]
    told = rh(*words, "--dry-run").err
    assert "8 examples, protocol pairs" in told
    assert "0 of 16 are judged already" in told and "at least 32 requests" in told, "two orders, with and without"
    less = ["--no-baseline", "--one-order", "--limit", "3", "--task-protocol", "both-orders"]
    told = rh(*words, "--dry-run", *less).err
    assert "a sample of 3 of 8 pairs or groups" in told and "at least 6 requests" in told
    assert "no terminal to confirm" in rh(*words, status=1).err
    assert not (tmp_path / "run").exists()


def test_reports_are_made_again_and_written_for_a_library(rh: Rh, data: Path, tmp_path: Path) -> None:
    run, library = tmp_path / "run", tmp_path / "library"
    two_skills().save(library)
    [judge] = rh("benchmark", data, "--run", run, "--library", library, "--quiet", "--json").json["rows"]
    assert (judge["role"], judge["judged"]) == ("judge", 8), "the pixel-based judge has no row without a Library"
    for path in run.glob("report.*"):
        path.unlink()
    rh("benchmark", "report", run, "--format", "md", "--for-library", library)
    assert [path.name for path in run.glob("report.*")] == ["report.md"]
    assert json.loads((library / "benchmark.json").read_text("utf-8"))["evaluation"]
    card = rh("library", "card", library, "--repo", "me/mine").out
    assert "model-index" in card and "boxes, people" in card
    assert "Unknown format: pdf" in rh("benchmark", "report", run, "--format", "pdf", status=1).err


def test_two_runs_are_compared(rh: Rh, data: Path, scores: str, tmp_path: Path) -> None:
    for name, judge, status in (("one", scores, 3), ("two", "farther", 0)):
        rh("benchmark", data, "--judge", judge, "--run", tmp_path / name, "--quiet", status=status)
    shown = rh("benchmark", "compare", tmp_path / "one", tmp_path / "two").out
    assert "+20.0" in shown and "+ drawn/p0: make the box red | label A, B -> A" in shown
    parts = rh("benchmark", "compare", tmp_path / "one", tmp_path / "two", "--json").json["parts"]
    counts = [(each["part"], each["judged_by_both"], len(each["flips"])) for each in parts]
    assert counts == [("drawn", 5, 1), ("people", 2, 0)]
    runs = Path(os.environ["RH_HOME"]) / "runs"
    runs.mkdir(exist_ok=True)
    for name in ("one", "two"):
        (tmp_path / name).rename(runs / name)
    assert rh("benchmark", "compare", "one", "two", "--json").json["parts"] == parts, "found by their names, too"
    rh("benchmark", "report", "one", "--format", "md")


def test_tasks_are_listed_and_shown(rh: Rh) -> None:
    listed = {each["name"] for each in rh("benchmark", "list", "--json").json["tasks"]}
    assert listed >= {"editreward-bench", "genai-bench", "mmrb2-editing"} and rh("benchmark", "list").out
    shown = rh("benchmark", "show", "editreward-bench").text
    for words in ("gated", "837769c456117bcea42f72ab1d7f5125fe589eb4", "K=4", "both-orders", "comparison_type"):
        assert words in shown
    assert "human score" in rh("benchmark", "show", "imagenhub").out


@pytest.mark.parametrize(
    "words, message",
    [
        (["no-such-task"], "There is no task 'no-such-task'"),
        (["genai-bench", "--task-protocol", "4-way"], "no protocol '4-way'"),
        (["imagenhub"], "not on the Hub"),
        (["{data}", "--source", "."], "defines where its examples are"),
        (["{data}", "--judge", "guess"], "Unknown judge 'guess'"),
        (["{data}", "--baselines", "luck"], "Unknown judge 'luck'"),
        (["{data}", "--judge", "magic:m"], "Unknown judge 'magic:m'"),
        (["{data}", "--judges", "none.yaml"], "none.yaml does not exist"),
        (["{data}", "--judge", "vllm:m"], "has no address such as http://"),
        (["report", "."], "holds no benchmark"),
        (["compare", ".", "."], "holds no benchmark"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(words: list[str], message: str, rh: Rh, data: Path) -> None:
    shown = rh("benchmark", *(word.replace("{data}", str(data)) for word in words), status=1)
    assert message in shown.err and "Next:" in shown.err and not shown.out


def test_a_model_is_asked_once_however_often_the_run_is_made(rh: Rh, data: Path, tmp_path: Path) -> None:
    first = json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 3} for label in "AB"}})
    with ModelServer(lambda call: first) as server:
        words = ["benchmark", data, "--judge", f"openai:m@{server.url}", "--protocol", "direct", "--yes", "--json"]
        words += ["--quiet", "--no-baseline", "--run"]
        row = rh(*words, tmp_path / "one").json["rows"][0]
        assert row["usage"]["calls"] == 16, "eight pairs in two orders"
        assert row["position_consistency"] == 0.0, "it always prefers whoever comes first"
        assert [each["value"] for each in row["numbers"] if each["metric"] == "exact"] == [0.5, 0.5]
        again = rh(*words, tmp_path / "two").json["rows"][0]
        assert again["usage"]["calls"] == 0, "another run remembers the answers"
        assert again["numbers"] == row["numbers"]


def test_votes_and_ratings_are_counted_without_a_judge(rh: Rh, tmp_path: Path) -> None:
    rows = [
        {"idx": 0, "response": "My verdict: [[A>B]]", "human_vote": "leftvote"},
        {"idx": 1, "response": "[[A=B=Bad]]", "human_vote": "bothbad_vote"},
        {"idx": 2, "response": "none", "human_vote": "tievote"},
    ]
    file = tmp_path / "votes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert "66.67" in rh("benchmark", "votes", file).out
    assert rh("benchmark", "votes", file, "--json").json["files"][0]["published"]["four_way"]["n"] == 3
    for rater in (1, 2):
        table = "uid\tAlpha\nx.jpg\t[1, 1]\ny.jpg\t[0, 0.5]\n"
        (tmp_path / f"Edits_rater{rater}.tsv").write_text(table, encoding="utf-8")
    assert "0.500" in rh("benchmark", "ratings", tmp_path).out  # of two edits, too few for an interval
    assert rh("benchmark", "ratings", tmp_path, "--json").json["raters"] == 2


@pytest.mark.slow
@pytest.mark.real_data
def test_real_pairs_are_judged_beside_the_baselines(rh: Rh, real_data: Path, tmp_path: Path) -> None:
    words = ["benchmark", real_data / "pairs", "--limit", "8", "--baselines", "random,always-a,closer"]
    result = rh(*words, "--run", tmp_path / "run", "--json", "--quiet").json
    assert result["sampled"] == [8, 152, 0] and len(result["rows"]) == 4
    counted = sum(each["n"] for each in result["rows"][0]["numbers"] if each["metric"] == "exact")
    assert counted == 8 and result["rows"][0]["coverage"] == 1.0
    kinds = {each["part"] for each in result["counted"] if each["counted"]}
    assert {"human_pairwise_choice", "ground_truth_vs_unedited"} <= kinds


# ---- releases


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    two_skills().save(folder)
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
    return write_rows(folder, rows)


def released(rh: Rh, library: Path, *more: object) -> tuple[Path, Any]:
    """Make a release; return its file and what was said."""
    file = library.parent / f"release{len(more)}.json"
    return file, rh("release", "create", "--library", library, "-o", file, "--json", *more).json


def test_a_release_is_benchmarked_as_it_is_and_named_by_its_hash(rh: Rh, library: Path, tmp_path: Path) -> None:
    data, run = draw(tmp_path / "data", "A", "B", "A"), tmp_path / "run"
    file, made = released(rh, library)
    words = ["benchmark", data, "--release", file, "--baselines", "closer", "--run", run, "--json", "--quiet"]
    judge, _ = rh(*words).json["rows"]
    assert (judge["release"], judge["library_id"]) == (made["id"], made["library_id"])
    assert judge["library"] == f"release {made['id'][:12]}"
    plain = rh("benchmark", data, "--library", library, "--run", tmp_path / "plain", "--json", "--quiet").json
    assert judge["numbers"] == plain["rows"][0]["numbers"] and judge["numbers"][0]["value"] == 1.0
    for name in ("run.json", "record.json"):
        stated = json.loads((run / name).read_text(encoding="utf-8"))
        assert stated.get("about", stated)["release"] == made["id"]
    assert stated["sessions"][0]["arguments"]["library"] is None
    for name in ("report.json", "report.md", "report.html"):
        assert made["id"] in (run / name).read_text(encoding="utf-8")
    rh(*words)
    ties, _ = released(rh, library, "--ties")
    for other in (["--release", ties], ["--library", library]):
        assert "release" in rh("benchmark", data, *other, "--run", run, "--quiet", status=1).err


@pytest.mark.parametrize(
    ("release", "truths", "labels", "right", "says"),
    [
        (["--ties"], "AB", "AB", 2.0, "may predict a tie, and the labels of unnamed have no ties"),
        ([], ("A", "B", "tie"), "", 2.0, "predicts no ties, and unnamed has ties"),
        (["--ties"], ("A", "B", "tie"), "", 3.0, ""),
        (["--ties"], ("A", "tie", "B"), "ABB", 2.5, "may predict a tie"),
    ],
)
def test_a_release_keeps_its_ties_whatever_the_labels_have(
    rh: Rh, library: Path, tmp_path: Path, release: list[str], truths: Any, labels: str, right: float, says: str
) -> None:
    """A tie that the labels do not have is worth half."""
    data, run = draw(tmp_path / "data", *truths), tmp_path / "run"
    rows = [json.loads(line) for line in (data / "pairs.jsonl").read_text("utf-8").splitlines()]
    write_rows(data, [row | {"preference": label} for row, label in zip(rows, labels or truths, strict=True)])
    file, _ = released(rh, library, *release)
    found = rh("benchmark", data, "--release", file, "--run", run, "--json", "--quiet").json
    [exact] = [each for each in found["rows"][0]["numbers"] if each["metric"] == "exact"]
    assert (exact["n"], exact["detail"]["correct"]) == (len(truths), right)
    shown = (run / "report.html").read_text(encoding="utf-8")
    assert says in shown and (says or "ties, and" not in shown)


def test_a_release_of_a_model_judges_where_it_is_served_as_others_do(rh: Rh, library: Path, tmp_path: Path) -> None:
    data = draw(tmp_path / "data", "A", "B")
    file, _ = released(rh, library, "--judge", "vllm:judge", "--protocol", "pointwise")

    def respond(call: Call) -> str | None:
        return '{"instruction": 3, "quality": 2}' if len(call.images) == 2 else None

    with ModelServer(respond) as server:
        more = ["--baselines", f"openai:judge@{server.url}", "--yes", "--run", tmp_path / "run", "--json", "--quiet"]
        rows = rh("benchmark", data, "--release", file, "--judge", server.url, *more).json["rows"]
    assert [(row["protocol"], row["judged"]) for row in rows] == [("pointwise", 2)] * 3
    assert rows[2]["library_id"] == rows[0]["library_id"]

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer
from PIL import Image

from rewardharness.cli.command import complete
from rewardharness.cli.main import main
from rewardharness.library.opening import open_library


def png(color: tuple[int, int, int], box: tuple[int, int, int] | None = None) -> bytes:
    image = Image.new("RGB", (48, 48), color)
    if box is not None:
        image.paste(box, (12, 12, 36, 36))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of an edit and the unchanged source, of two kinds of label."""
    folder = tmp_path / "boxes"
    folder.mkdir()
    rows = []
    for number in range(8):
        (folder / f"s{number}.png").write_bytes(png((90, 90 + number, 90)))
        (folder / f"e{number}.png").write_bytes(png((90, 90 + number, 90), (210, 30, 30)))
        edited_first = number % 2 == 0
        files = [f"e{number}.png", f"s{number}.png"][:: 1 if edited_first else -1]
        rows.append(
            {
                "id": f"p{number}",
                "source": f"s{number}.png",
                "candidate_a": files[0],
                "candidate_b": files[1],
                "instruction": "make the box red",
                "preference": "A" if edited_first else "B",
                "label_kind": "drawn" if number < 5 else "people",
            }
        )
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


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


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_word_run_may_be_left_out() -> None:
    assert complete("benchmark", ["genai-bench", "--limit", "3"]) == ["run", "genai-bench", "--limit", "3"]
    assert complete("benchmark", ["--limit", "3", "x"])[0] == "run"
    for words in (["list"], ["--help"], []):
        assert complete("benchmark", words) == words
    assert complete("score", ["list"]) == ["list"]


def test_a_folder_is_judged_with_baselines_in_one_table(
    data: Path, scores: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark", str(data), "--judge", scores, "--baselines", "random,always-a", "--baselines", "closer"]
    assert main([*words, "--run", str(tmp_path / "run"), "--json", "--quiet"]) == 3, "one could not be judged"
    result = said(capsys)
    assert [row["name"] for row in result["rows"]] == [
        "file:scores.jsonl",
        "random (baseline)",
        "always-a (baseline)",
        "closer (baseline)",
    ]
    drawn, people = result["rows"][0]["numbers"]
    assert (drawn["part"], drawn["n"], drawn["judged"], drawn["value"]) == ("drawn", 5, 5, 0.8)
    assert (people["part"], people["n"], people["judged"], people["value"]) == ("people", 3, 2, 1.0)
    assert result["rows"][0]["failures"] == {"missing": 1}
    assert result["rows"][3]["numbers"][0]["value"] == 0.0, "the closer one is never the edit"
    assert {path.name for path in (tmp_path / "run").glob("report.*")} == {"report.json", "report.md", "report.html"}


def test_what_could_not_be_judged_is_said_in_words_with_what_to_do(
    data: Path, scores: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark", str(data), "--judge", scores, "--run", str(tmp_path / "run"), "--quiet"]
    assert main(words) == 3
    shown = capsys.readouterr().out
    assert "Not judged, such as people/" in shown and ": missing: " in shown and "with --retry-failed, all" in shown


def test_nobody_stands_in_the_table_twice_and_the_judge_stands_first(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "benchmark",
        str(data),
        "--judge",
        "random",
        "--baselines",
        "always-a,random,always-a",
        "--json",
        "--quiet",
    ]
    assert main([*words, "--run", str(tmp_path / "run")]) == 0
    rows = said(capsys)["rows"]
    assert [(row["role"], row["name"]) for row in rows] == [
        ("judge", "random (baseline)"),
        ("baseline", "always-a (baseline)"),
    ]


def test_development_data_fit_the_thresholds_of_ties(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for each in data.iterdir():
        (other / each.name).write_bytes(each.read_bytes())
    rows = [json.loads(line) for line in (data / "pairs.jsonl").read_text("utf-8").splitlines()]
    for row, folder in ((rows[0], data), (rows[1], other)):
        same = {**row, "id": "level", "candidate_b": row["candidate_a"], "preference": "tie", "instruction": "again"}
        text = "".join(json.dumps(each) + "\n" for each in ([*rows[:4], same] if folder == data else [*rows[4:], same]))
        (folder / "pairs.jsonl").write_text(text, encoding="utf-8")
    words = ["benchmark", str(data), "--judge", "farther", "--development", str(other), "--json", "--quiet"]
    assert main([*words, "--run", str(tmp_path / "run")]) == 0
    result = said(capsys)
    assert any("1 development pairs share a source image with the benchmark" in note for note in result["fitted"])
    assert [each["value"] for each in result["rows"][0]["numbers"] if each["metric"] == "fitted"] == [1.0]
    assert (tmp_path / "run" / "development" / "results.jsonl").exists()
    assert main(["benchmark", "report", str(tmp_path / "run"), "--json"]) == 0
    again = said(capsys)
    assert again["rows"][0]["numbers"] == result["rows"][0]["numbers"]


def test_people_read_a_table_and_where_the_reports_are(
    data: Path, scores: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["benchmark", str(data), "--judge", scores, "--run", str(tmp_path / "run"), "--quiet"])
    shown = capsys.readouterr()
    flat = " ".join(shown.out.replace("│", " ").split())
    assert "80.0 [37.6," in flat and "96.4]" in flat and "2 of 3" in flat and "Chance" in flat
    assert "7 of 8" in flat and "(87.5%)" in flat and "missing: 1" in flat
    assert str(tmp_path / "run" / "report.html") in shown.out.replace("\n", "")
    assert not shown.err


def test_the_cost_is_told_first_and_a_dry_run_judges_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark", str(data), "--judge", "vllm:m@http://127.0.0.1:9", "--run", str(tmp_path / "run")]
    assert main([*words, "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert "8 examples, protocol pairs" in told
    assert "0 of 16 are judged already" in told and "at least 32 requests" in told, "two orders, with and without"
    assert not (tmp_path / "run").exists()
    assert (
        main([*words, "--dry-run", "--no-baseline", "--one-order", "--limit", "3", "--task-protocol", "both-orders"])
        == 0
    )
    told = capsys.readouterr().err
    assert "a sample of 3 of 8 pairs or groups" in told and "at least 6 requests" in told


def test_nothing_is_spent_without_leave(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["benchmark", str(data), "--judge", "vllm:m@http://127.0.0.1:9", "--run", str(tmp_path / "run")]
    assert main(words) == 1
    assert "no terminal to confirm" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_measured_judge_has_no_row_without_a_library(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(data), "--run", str(tmp_path / "run"), "--json", "--quiet"]) == 0
    [judge] = said(capsys)["rows"]
    assert (judge["role"], judge["library"], judge["judged"]) == ("judge", "builtin", 8)


def test_reports_are_made_again_and_written_for_a_library(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, library = tmp_path / "run", tmp_path / "library"
    open_library("builtin").save(library)
    main(["benchmark", str(data), "--run", str(run), "--library", str(library), "--quiet", "--no-baseline"])
    for path in run.glob("report.*"):
        path.unlink()
    assert main(["benchmark", "report", str(run), "--format", "md", "--for-library", str(library)]) == 0
    assert [path.name for path in run.glob("report.*")] == ["report.md"]
    assert json.loads((library / "benchmark.json").read_text("utf-8"))["evaluation"]
    capsys.readouterr()
    assert main(["library", "card", str(library), "--repo", "me/mine"]) == 0
    card = capsys.readouterr().out
    assert "model-index" in card and "boxes, people" in card
    assert main(["benchmark", "report", str(run), "--format", "pdf"]) == 1
    assert "Unknown format: pdf" in capsys.readouterr().err


def test_two_runs_are_compared(data: Path, scores: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, judge in (("one", scores), ("two", "farther")):
        main(["benchmark", str(data), "--judge", judge, "--run", str(tmp_path / name), "--quiet", "--json"])
    capsys.readouterr()
    assert main(["benchmark", "compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    shown = capsys.readouterr().out
    assert "+20.0" in shown and "+ drawn/p0: make the box red | label A, B -> A" in shown
    assert main(["benchmark", "compare", str(tmp_path / "one"), str(tmp_path / "two"), "--json"]) == 0
    parts = said(capsys)["parts"]
    assert [(each["part"], each["judged_by_both"], len(each["flips"])) for each in parts] == [
        ("drawn", 5, 1),
        ("people", 2, 0),
    ]
    runs = Path(os.environ["RH_HOME"]) / "runs"
    runs.mkdir(exist_ok=True)
    for name in ("one", "two"):
        (tmp_path / name).rename(runs / name)
    assert main(["benchmark", "compare", "one", "two", "--json"]) == 0
    assert said(capsys)["parts"] == parts, "runs are found by their names, too"
    assert main(["benchmark", "report", "one", "--format", "md"]) == 0


def test_tasks_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "list", "--json"]) == 0
    assert {each["name"] for each in said(capsys)["tasks"]} >= {"editreward-bench", "genai-bench", "mmrb2-editing"}
    assert main(["benchmark", "list"]) == 0
    capsys.readouterr()
    assert main(["benchmark", "show", "editreward-bench"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("gated", "837769c456117bcea42f72ab1d7f5125fe589eb4", "K=4", "both-orders", "comparison_type"):
        assert words in shown
    assert main(["benchmark", "show", "imagenhub"]) == 0
    assert "human score" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["no-such-task"], "There is no task 'no-such-task'"),
        (["genai-bench", "--task-protocol", "4-way"], "no protocol '4-way'"),
        (["imagenhub"], "not on the Hub"),
        (["{data}", "--source", "."], "defines where its examples are"),
        (["{data}", "--judge", "guess"], "Unknown judge 'guess'"),
        (["{data}", "--baselines", "luck"], "Unknown judge 'luck'"),
        (["report", "."], "holds no benchmark"),
        (["compare", ".", "."], "holds no benchmark"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(
    words: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", *(word.replace("{data}", str(data)) for word in words)]) == 1
    shown = capsys.readouterr()
    assert message in shown.err and "Next:" in shown.err and not shown.out


def test_a_model_is_asked_once_however_often_the_run_is_made(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 3} for label in "AB"}})
    with ModelServer(lambda call: first) as server:
        words = ["benchmark", str(data), "--judge", f"openai:m@{server.url}", "--protocol", "direct", "--yes", "--json"]
        assert main([*words, "--quiet", "--no-baseline", "--run", str(tmp_path / "one")]) == 0
        row = said(capsys)["rows"][0]
        assert row["usage"]["calls"] == 16, "eight pairs in two orders"
        assert row["position_consistency"] == 0.0, "it always prefers whoever comes first"
        assert [each["value"] for each in row["numbers"] if each["metric"] == "exact"] == [0.5, 0.5]
        assert main([*words, "--quiet", "--no-baseline", "--run", str(tmp_path / "two")]) == 0
        again = said(capsys)["rows"][0]
        assert again["usage"]["calls"] == 0, "another run remembers the answers"
        assert again["numbers"] == row["numbers"]


def test_votes_and_ratings_are_counted_without_a_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"idx": 0, "response": "My verdict: [[A>B]]", "human_vote": "leftvote"},
        {"idx": 1, "response": "[[A=B=Bad]]", "human_vote": "bothbad_vote"},
        {"idx": 2, "response": "none", "human_vote": "tievote"},
    ]
    file = tmp_path / "votes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["benchmark", "votes", str(file)]) == 0
    assert "66.67" in capsys.readouterr().out
    assert main(["benchmark", "votes", str(file), "--json"]) == 0
    assert said(capsys)["files"][0]["published"]["four_way"]["n"] == 3
    for rater in (1, 2):
        table = "uid\tAlpha\nx.jpg\t[1, 1]\ny.jpg\t[0, 0.5]\n"
        (tmp_path / f"Edits_rater{rater}.tsv").write_text(table, encoding="utf-8")
    assert main(["benchmark", "ratings", str(tmp_path)]) == 0
    assert "0.500 [0.000, 1.000]" in capsys.readouterr().out
    assert main(["benchmark", "ratings", str(tmp_path), "--json"]) == 0
    assert said(capsys)["raters"] == 2


@pytest.mark.slow
@pytest.mark.real_data
def test_real_pairs_are_judged_beside_the_baselines(
    real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark", str(real_data / "pairs"), "--limit", "8", "--baselines", "random,always-a,closer"]
    assert main([*words, "--run", str(tmp_path / "run"), "--json", "--quiet"]) == 0
    result = said(capsys)
    assert result["sampled"] == [8, 152, 0]
    assert len(result["rows"]) == 4
    counted = sum(each["n"] for each in result["rows"][0]["numbers"] if each["metric"] == "exact")
    assert counted == 8 and result["rows"][0]["coverage"] == 1.0
    kinds = {each["part"] for each in result["counted"] if each["counted"]}
    assert {"human_pairwise_choice", "ground_truth_vs_unedited"} <= kinds

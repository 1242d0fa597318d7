import json
import sys
from pathlib import Path

import pytest
from commands import Rh
from drawn_pairs import draw_pairs
from model_server import ModelServer

from rewardharness.schema import Json

sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
from bulk_parts import INSTRUCTION, folders, picture, table

pytestmark = pytest.mark.usefixtures("small_library")
SCORES = ("--judge", "measured", "--quiet")


@pytest.mark.parametrize(("method", "of"), [("score", 1), ("win_rate", 4)])
def test_best_of_n(tmp_path: Path, rh: Rh, method: str, of: int) -> None:
    samples = folders(tmp_path / "samples", edits=2, candidates=5)
    copies = tmp_path / "best"
    plan = rh("data", "rank", samples, "--method", method, "--dry-run").out
    assert f"2 edits of samples: {10 if of == 1 else 20} judgments by" in plan and "Nothing was judged" in plan
    said = rh("data", "rank", samples, "--method", method, "--copy-best", copies, *SCORES, "--json").json
    assert said["not_judged"] == 0 and len(said["edits"]) == 2
    for edit in said["edits"]:
        rewards = [each["reward"] for each in edit["candidates"]]
        assert len(rewards) == 5 and rewards == sorted(rewards, reverse=True) and edit["reward"] == rewards[0]
        assert all(each["judged"] == each["of"] == of for each in edit["candidates"])
        best = samples / edit["id"] / edit["best"][0]
        assert (copies / f"{edit['id']}.png").read_bytes() == best.read_bytes()
    lines = Path(said["ranking"]).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == said["edits"]


def test_one_edit_in_a_folder(tmp_path: Path, rh: Rh) -> None:
    source = picture(tmp_path / "source.png", 0)
    for number in range(3):
        picture(tmp_path / f"{number}.png", 80 * number)
    words = ("data", "rank", tmp_path, "--source", source, *SCORES)
    assert len(rh(*words, "--instruction", INSTRUCTION, "--json").json["edits"][0]["candidates"]) == 3
    assert "belong together" in rh(*words, status=1).err


def test_an_image_that_cannot_be_read_has_no_reward(tmp_path: Path, rh: Rh) -> None:
    samples = folders(tmp_path / "samples", edits=1, candidates=3)
    (samples / "edit-0" / "c1.png").write_bytes(b"no image")
    said = rh("data", "rank", samples, *SCORES, "--json", status=3).json
    last = said["edits"][0]["candidates"][-1]
    assert said["not_judged"] == 1 and last["name"] == "c1.png" and last["reward"] is None
    assert last["reason"].startswith("image: ")
    shown = rh("data", "rank", samples, *SCORES, status=3).out
    assert "2 of 3 candidates judged. Not judged, such as c1.png of edit-0: image: " in shown
    assert "Judge: measured (no VLM), protocol measured; Library " in shown and "rewards by score" in shown


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_filtering_says_of_every_row_why(tmp_path: Path, rh: Rh, ending: str) -> None:
    pytest.importorskip("datasets")
    samples, kept = table(tmp_path / "samples"), tmp_path / "out" / f"kept.{ending}"
    words = ("data", "filter", samples, "--single", "--min-reward", "0.5", "-o", kept, "--library", "builtin", *SCORES)
    said = rh(*words, "--everything", "--json").json
    assert said["n"] == 6 == sum(said["reasons"].values()) and said["kept"] == said["reasons"].get("kept", 0)
    rows = read(kept, tmp_path)
    assert len(rows) == 6 and all(row["keep"] == (row["reward"] >= 0.5) for row in rows)
    assert all(row["reason"] and row["judge"] == "measured (no VLM)" for row in rows)
    rh(*words)
    assert len(read(kept, tmp_path)) == said["kept"]


def read(path: Path, scratch: Path) -> list[Json]:
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert all((path.parent / name).is_file() for line in lines for name in [line["source"], *line["candidates"]])
        return lines
    from datasets import Dataset

    return Dataset.from_parquet(str(path), cache_dir=str(scratch / f"cache-{path.stat().st_mtime_ns}")).to_list()


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (("--min-reward", "0.5", "-o", "x.csv"), "neither .parquet nor .jsonl", 2),
        (("-o", "x.jsonl"), "No condition for keeping edits", 2),
        (("--min-reward", "0.5", "-o", "x.jsonl", "--field", "nothing"), "cannot be read", 1),
    ],
)
def test_wrong_words(tmp_path: Path, rh: Rh, words: tuple[str, ...], said: str, status: int) -> None:
    assert said in rh("data", "filter", table(tmp_path), "--single", *words, *SCORES, status=status).err


def test_a_place_that_cannot_be_written_to_is_said_before_anything_is_judged(tmp_path: Path, rh: Rh) -> None:
    samples, run, file = folders(tmp_path / "samples", edits=1), tmp_path / "run", tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    (tmp_path / "a.jsonl").mkdir()
    for words, said in (
        (("data", "pairs", samples, "-o", samples), "holds other files"),
        (("data", "pairs", samples, "-o", file), "is a file"),
        (("data", "rank", samples, "--copy-best", file), "is not a folder"),
        (("data", "rank", samples, "--copy-best", file / "best"), "is not a folder"),
        (("data", "filter", samples, "--single", "--min-reward", "0", "-o", file / "x.jsonl"), "is not a folder"),
        (("data", "filter", samples, "--single", "--min-reward", "0", "-o", tmp_path / "a.jsonl"), "is a folder"),
    ):
        shown = rh(*words, "--run", run, *SCORES, status=1)
        assert said in shown.err and "Next: " in shown.err and not shown.out
        assert not run.exists(), "nothing was judged"


def test_samples_that_are_filtered_as_pairs_are_told_apart(tmp_path: Path, rh: Rh) -> None:
    samples = folders(tmp_path / "samples", edits=1)
    words = ("data", "filter", samples, "--agree", "-o", tmp_path / "x.jsonl", *SCORES)
    assert "Next: Add --single" in rh(*words, status=1).err


def test_a_candidate_out_of_a_table_is_called_by_its_place(tmp_path: Path, rh: Rh) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import table as arrow

    before, *edits = (picture(tmp_path / f"{blue}.png", blue).read_bytes() for blue in (0, 10, 250, 60))
    source, candidates = {"bytes": before, "path": None}, [{"bytes": each, "path": None} for each in edits]
    rows = {"source": [source], "instruction": [INSTRUCTION], "candidates": [candidates]}
    parquet.write_table(arrow(rows), tmp_path / "t.parquet")
    shown = rh("data", "rank", tmp_path / "t.parquet", *SCORES).out
    [edit] = rh("data", "rank", tmp_path / "t.parquet", *SCORES, "--json").json["edits"]
    assert edit["candidates"][0]["index"] == 1 and "number 2" in shown and ".png" not in shown


def test_preference_data_of_a_judge_that_is_steady(tmp_path: Path, rh: Rh) -> None:
    pytest.importorskip("datasets")
    samples, out = folders(tmp_path / "samples", edits=4), tmp_path / "out"
    words = ("--margin", "0.001", "--holdout", "0.25", *SCORES)
    said = rh("data", "pairs", samples, "-o", out, *words, "--json").json
    assert said["rules"]["repeats"] == 1 and "no spread is known" in said["gate"]
    assert said["pairs"]["train"] > 0 and said["pairs"]["holdout"] > 0
    assert (out / "README.md").read_text(encoding="utf-8").startswith("---\ntags:")


def test_preference_data_of_a_model_that_varies(tmp_path: Path, rh: Rh) -> None:
    """Each repeat is another draw: the server is asked anew, at a temperature, and the spread is what it said."""
    pytest.importorskip("datasets")
    drawn: dict[str, set[int]] = {}

    def grade(call) -> str | None:
        if "seed" not in call.json or not call.json["temperature"]:
            return None  # the server is asked what it can do
        edited = str(call.images[-1][1])
        drawn.setdefault(edited, set()).add(call.json["seed"])
        return json.dumps({"instruction": 2 + 2 * (next(iter(drawn)) == edited), "quality": 3 + len(drawn[edited]) % 2})

    samples, out = folders(tmp_path / "samples", edits=1, candidates=2), tmp_path / "out"
    with ModelServer(grade) as server:
        words = ("--judge", f"vllm:judge@{server.url}", "--protocol", "pointwise", "--repeats", "3", "--quiet")
        said = rh("data", "pairs", samples, "-o", out, "--margin", 0.01, *words, "--spread", 0, "--json").json
    assert said["rules"]["repeats"] == 3 and said["candidates_judged"] == 2
    assert [len(seeds) for seeds in drawn.values()] == [3, 3]
    scores = [json.loads(line) for line in (out / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(len(set(each["rewards"])) == 2 for each in scores)


def test_a_native_folder_is_ranked_and_filtered_and_results_name_the_original_files(tmp_path: Path, rh: Rh) -> None:
    draw_pairs(tmp_path / "data", 2)
    lines = (tmp_path / "data" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [{**json.loads(line), "id": number} for number, line in enumerate(lines)]  # ids are numbers
    (tmp_path / "data" / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    data, ungraded = tmp_path / "data", "--allow-ungradable"
    best, kept = tmp_path / "best", tmp_path / "kept.jsonl"
    rh("data", "rank", data, "-o", best, "--run", tmp_path / "a", ungraded)
    known = json.loads((best / "best.json").read_text(encoding="utf-8"))["best"]
    assert {each["edit"] for each in known.values()} == {"0", "1"}
    originals = [Path(each["original"]) for each in known.values()]
    assert all(path.is_file() and path.is_relative_to(data) for path in originals)
    assert all(0 <= each["reward"] <= 1 for each in known.values())
    rh("data", "filter", data, "--single", "--min-reward", 0, "-o", kept, "--run", tmp_path / "b", ungraded)
    made = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert [row["candidate_files"] for row in made[:2]] == [[rows[0]["candidate_a"]], [rows[0]["candidate_b"]]]
    listed = rh("runs", "list", "--json").json["runs"]
    assert {run["folder"] for run in listed} >= {str(tmp_path / "a"), str(tmp_path / "b")}  # elsewhere than in RH_HOME
    assert all(run["bytes"] > 0 and run["changed"] > 0 for run in listed)
    rh("runs", "rm", tmp_path / "a", "nowhere", status=1)
    assert (tmp_path / "a").is_dir()
    rh("runs", "rm", tmp_path / "a")
    rh("runs", "rm", "--older-than", 0)
    assert not (tmp_path / "a").exists() and (tmp_path / "b").is_dir()
    rh("runs", "rm", "--older-than", 0, "--yes")
    assert not (tmp_path / "b").exists()

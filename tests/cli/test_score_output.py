"""`rh score --output`: datasets of any size on the command line."""

import json
from pathlib import Path

import pytest
from made_tables import as_parquet, data_100

from rewardharness.cli.main import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(data_100()))
    return file


def rows(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(output.glob("judged/*"))}


def test_status_verify_and_merge(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score", str(data), "--judge", "closer", "--part-rows", "5", "--output", str(tmp_path / "out"), "--quiet"]
    assert main([*words, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["rows"], plan["parts"], plan["rows_left"]) == (12, 3, 12) and not (tmp_path / "out").exists()
    assert plan["fields"]["candidates"] == ["left_image", "right_image"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rows_done"], report["failed"], report["report"]["judged"]) == (12, 0, 12)
    assert main(["score", "status", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert main(["score", "status", str(tmp_path / "out")]) == 0
    assert "3 of 3 parts, 12 of 12 rows done" in capsys.readouterr().out
    assert main(["score", "merge", str(tmp_path / "out"), str(tmp_path / "all.parquet"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["judged"] == 12
    assert main(["score", "merge", str(tmp_path / "out"), str(tmp_path / "all.parquet")]) == 1
    assert "all.parquet exists" in capsys.readouterr().err
    assert main(["score", "merge", str(tmp_path / "out"), str(tmp_path / "all.parquet"), "--yes"]) == 0
    assert main([*words, "--limit", "3", "--dry-run"]) == 1, "a dry run refuses what the run would refuse"
    assert "12 rows in 3 parts there, 3 rows in 1 part now" in capsys.readouterr().err
    next((tmp_path / "out" / "judged").iterdir()).unlink()
    assert main(["score", "verify", str(tmp_path / "out")]) == 3
    assert "is missing or was changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["{data}", "--shard", "1/2"], 2, "--shard is for the output folder of a dataset"),
        (["{data}", "--output", "{out}", "--shard", "2/1"], 2, "--shard 2/1 is not possible: 2 is more than 1"),
        (["{data}", "--output", "{out}", "--address", "auto"], 2, "--address is for a Ray cluster"),
        (["{data}", "--output", "{out}", "--restart"], 2, "--restart does not go with --output"),
        (["{data}", "--engine", "ray"], 2, "--engine is for the output folder of a dataset"),
        (["{data}", "--part-rows", "5"], 2, "--part-rows is for the output folder of a dataset"),
        (["{data}", "--output", "{out}", "--track", "tensorboard"], 2, "--track does not go with --output"),
        (["{data}", "--output", "{data}", "--judge", "closer"], 1, "is a file"),
        (["no-data", "--output", "{out}"], 1, "no-data does not exist"),
        (["status", "{out}"], 1, "out does not exist"),
        (["merge", "{out}", "x.parquet"], 1, "out does not exist"),
    ],
)
def test_wrong_use(
    words: list[str], status: int, message: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"data": str(data), "out": str(tmp_path / "out")}
    assert main(["score", *(word.format(**named) for word in words)]) == status
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_share_is_complete_without_the_others(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score", str(data), "--judge", "closer", "--part-rows", "5", "--output", str(tmp_path / "out"), "--quiet"]
    assert main([*words, "--shard", "1/2"]) == 0
    assert "2 of 3 parts" in capsys.readouterr().out
    assert main([*words, "--shard", "7/9"]) == 0
    assert "Share 7/9 has no part: there are 3." in capsys.readouterr().err
    assert main([*words, "--shard", "2/2"]) == 0
    assert main(["score", "verify", str(tmp_path / "out")]) == 0


def test_a_dry_run_counts_the_failed_rows_that_are_judged_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = data_100()
    rows[4]["instruction"] = ""
    (tmp_path / "table.parquet").write_bytes(as_parquet(rows))
    words = ["score", str(tmp_path / "table.parquet"), "--judge", "closer", "--output", str(tmp_path / "out"), "--json"]
    assert main([*words, "--quiet"]) == 3
    capsys.readouterr()
    for also, left in (([], 0), (["--retry-failed"], 1)):
        assert main([*words, "--dry-run", *also]) == 0
        assert json.loads(capsys.readouterr().out)["rows_left"] == left


def test_a_name_that_ends_in_parquet_writes_a_file(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.parquet"
    words = ["score", str(data), "--judge", "closer", "--part-rows", "5", "--quiet", "-o"]
    for _ in range(2):  # the same command continues it
        assert main([*words, str(file)]) == 0
        assert file.is_file() and (tmp_path / "scores.parts" / "judged").is_dir()
    for command in ("status", "verify"):
        assert main(["score", command, str(file)]) == 0
    before = data.read_bytes()
    assert main([*words, str(data), "--yes"]) == 1  # not over its own data
    assert data.read_bytes() == before and "is a file" in capsys.readouterr().err

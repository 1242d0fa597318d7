"""`rh score --output`: datasets of any size on the command line."""

from pathlib import Path

import pytest
from commands import Rh
from made_tables import as_parquet, data_100


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(data_100()))
    return file


def words(data: Path, output: Path, *more: object) -> list[object]:
    return ["score", data, "--judge", "closer", "--part-rows", 5, "--output", output, "--quiet", *more]


def test_status_verify_and_merge(data: Path, tmp_path: Path, rh: Rh) -> None:
    out, file = tmp_path / "out", tmp_path / "all.parquet"
    plan = rh(*words(data, out, "--dry-run", "--json")).json
    assert (plan["rows"], plan["parts"], plan["rows_left"]) == (12, 3, 12) and not out.exists()
    assert plan["fields"]["candidates"] == ["left_image", "right_image"]
    report = rh(*words(data, out, "--json")).json
    assert (report["rows_done"], report["failed"], report["report"]["judged"]) == (12, 0, 12)
    assert rh("score", "status", out, "--json").json == report
    assert "3 of 3 parts, 12 of 12 rows done" in rh("score", "status", out).out
    assert rh("score", "merge", out, file, "--json").json["judged"] == 12
    assert "all.parquet exists" in rh("score", "merge", out, file, status=1).err
    rh("score", "merge", out, file, "--yes")
    refused = rh(*words(data, out, "--limit", 3, "--dry-run"), status=1)
    assert "12 rows in 3 parts there, 3 rows in 1 part now" in refused.err, "a dry run refuses what the run would"
    next((out / "judged").iterdir()).unlink()
    assert "is missing or was changed" in rh("score", "verify", out, status=3).out


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("{data} --shard 1/2", 2, "--shard is for the output folder of a dataset"),
        ("{data} --output {out} --shard 2/1", 2, "--shard 2/1 is not possible: 2 is more than 1"),
        ("{data} --output {out} --address auto", 2, "--address is for a Ray cluster"),
        ("{data} --output {out} --restart", 2, "--restart does not go with --output"),
        ("{data} --engine ray", 2, "--engine is for the output folder of a dataset"),
        ("{data} --part-rows 5", 2, "--part-rows is for the output folder of a dataset"),
        ("{data} --output {out} --track tensorboard", 2, "--track does not go with --output"),
        ("{data} --output {data} --judge closer", 1, "is a file"),
        ("no-data --output {out}", 1, "no-data does not exist"),
        ("status {out}", 1, "out does not exist"),
        ("merge {out} x.parquet", 1, "out does not exist"),
    ],
)
def test_wrong_use(command: str, status: int, message: str, data: Path, tmp_path: Path, rh: Rh) -> None:
    named = {"data": str(data), "out": str(tmp_path / "out")}
    shown = rh("score", *(word.format(**named) for word in command.split()), status=status)
    assert message in shown.err and not (tmp_path / "out").exists()


def test_a_share_is_complete_without_the_others(data: Path, tmp_path: Path, rh: Rh) -> None:
    out = tmp_path / "out"
    assert "2 of 3 parts" in rh(*words(data, out, "--shard", "1/2")).out
    assert "Share 7/9 has no part: there are 3." in rh(*words(data, out, "--shard", "7/9")).err
    rh(*words(data, out, "--shard", "2/2"))
    rh("score", "verify", out)


def test_a_dry_run_counts_the_failed_rows_that_are_judged_again(tmp_path: Path, rh: Rh) -> None:
    rows = data_100()
    rows[4]["instruction"] = ""
    (tmp_path / "table.parquet").write_bytes(as_parquet(rows))
    command = words(tmp_path / "table.parquet", tmp_path / "out", "--json")
    rh(*command, status=3)
    for also, left in (([], 0), (["--retry-failed"], 1)):
        assert rh(*command, "--dry-run", *also).json["rows_left"] == left


def test_a_name_that_ends_in_parquet_writes_a_file(data: Path, tmp_path: Path, rh: Rh) -> None:
    file = tmp_path / "scores.parquet"
    for _ in range(2):  # the same command continues it
        rh(*words(data, file))
        assert file.is_file() and (tmp_path / "scores.parts" / "judged").is_dir()
    for command in ("status", "verify"):
        rh("score", command, file)
    before = data.read_bytes()
    assert "is a file" in rh(*words(data, data, "--yes"), status=1).err  # not over its own data
    assert data.read_bytes() == before

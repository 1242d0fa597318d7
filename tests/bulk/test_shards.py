"""Output folders: complete parts, continued runs, shares, retries, and what a check finds."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from made_tables import as_parquet, data_100, picture
from model_server import Fault, ModelServer

from rewardharness.bulk.config import ShardsConfig
from rewardharness.bulk.engine import ShardsJob
from rewardharness.bulk.shards import ShardStore, Status
from rewardharness.cli.main import main
from rewardharness.errors import DataError, InputError, RunError
from rewardharness.files import sha256_file
from rewardharness.judging import batches
from rewardharness.runs.job import RunPaused, Session
from rewardharness.settings import Settings

ANSWER = json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 2} for label in "AB"}})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A table of 12 rows, of which row 4 has no instruction."""
    rows = data_100()
    rows[4]["instruction"] = ""
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(rows))
    return file


def run(data: Path, output: Path, *, retry_failed: bool = False, **options: Any) -> Status:
    config = ShardsConfig(str(data), output=output, **{"judge": "closer", "part_rows": 5, **options})
    return ShardsJob.open(config, Settings.from_env()).run(Session(retry_failed=retry_failed))


def files(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/*.parquet"))}


def asked(server: ModelServer) -> int:
    """Number of questions about the data, without those that find out what the server can do."""
    return sum("make the house" in call.text for call in server.calls)


def table(path: Path) -> list[dict[str, Any]]:
    return list(parquet.read_table(path).to_pylist())


def test_every_row_is_judged_once_or_has_a_reason(data: Path, tmp_path: Path) -> None:
    status = run(data, tmp_path / "out")
    assert status.complete and (status.parts, status.rows, status.rows_done, status.failed) == (3, 12, 12, 1)
    assert (status.report.n, status.report.judged, status.report.failures) == (12, 11, {"bad_row": 1})
    store = ShardStore(tmp_path / "out")
    assert store.problems() == []
    assert store.merge(tmp_path / "all.parquet") == (11, 1)
    judged = table(tmp_path / "all.parquet")
    assert [row["row"] for row in judged] == [number for number in range(12) if number != 4]
    assert judged[0]["id"] == "000" and judged[0]["label"] == "A" and judged[0]["preference"] in {"A", "B", "tie"}
    assert len(judged[0]["rewards"]) == 2 and all(0 <= reward <= 1 for reward in judged[0]["rewards"])
    [failed] = table(tmp_path / "all.failed.parquet")
    assert failed["row"] == 4 and failed["code"] == "bad_row" and "instruction" in failed["message"]


def test_a_complete_folder_is_not_judged_again(data: Path, tmp_path: Path) -> None:
    with ModelServer(lambda call: ANSWER) as server:
        options = {"judge": f"openai:judge@{server.url}", "protocol": "direct", "no_cache": True}
        run(data, tmp_path / "out", **options)
        before, first = files(tmp_path / "out"), asked(server)
        (tmp_path / "out" / "done" / "part-000001.json").unlink()
        run(data, tmp_path / "out", **options)
        assert files(tmp_path / "out") == before
    assert (first, asked(server) - first) == (22, 10), "only the missing part was judged again"


def test_shares_of_several_processes_make_one_folder(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "whole")
    first = run(data, tmp_path / "out", shard="1/2")
    assert (first.parts_done, first.complete) == (2, False)
    with pytest.raises(RunError, match="1 of 3 parts are missing"):
        ShardStore(tmp_path / "out").merge(tmp_path / "part.parquet")
    assert ShardStore(tmp_path / "out").merge(tmp_path / "part.parquet", partial=True) == (6, 1)
    assert run(data, tmp_path / "out", shard="2/2").complete
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_a_share_is_judged_by_one_process_at_a_time(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", shard="1/2")
    with ShardStore(tmp_path / "out").share(2, 2):
        assert ShardStore(tmp_path / "out").status().running == ("2-of-2",)
        with pytest.raises(RunError, match="Another process judges share 2 of 2"):
            run(data, tmp_path / "out", shard="2/2")
    assert ShardStore(tmp_path / "out").status().running == ()


def test_failed_rows_are_judged_on_request(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = True

    def respond(call: Any) -> Any:
        return Fault("bad_request") if broken and "number 7 " in call.text else ANSWER

    with ModelServer(respond) as server:
        options = {"judge": f"openai:judge@{server.url}", "protocol": "direct", "no_cache": True}
        status = run(data, tmp_path / "out", **options)
        assert status.failed == 2 and status.report.failures["bad_row"] == 1
        assert main(["score", "status", str(tmp_path / "out")]) == 0
        first, said = ShardStore(tmp_path / "out").first_failed(), capsys.readouterr().out
        assert first is not None and f"{first['code']}: {first['message']}" in " ".join(said.split())
        assert "2 rows not judged: see" in said
        broken = False
        assert run(data, tmp_path / "out", **options).failed == 2, "not without being asked"
        before = asked(server)
        status = run(data, tmp_path / "out", retry_failed=True, **options)
        assert status.failed == 1 and status.report.judged == 11 and status.report.n == 12
        assert asked(server) - before == 2, "only the failed row was judged"
        assert ShardStore(tmp_path / "out").problems() == []
        run(data, tmp_path / "new", **options)
    assert files(tmp_path / "out") == files(tmp_path / "new")


@pytest.mark.parametrize("name", ["401", "404"])
def test_a_run_stops_when_the_model_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(batches, "OUTAGE", 6)
    (tmp_path / "table.parquet").write_bytes(as_parquet(data_100()))
    broken = True

    def respond(call: Any) -> Any:
        return Fault(name) if broken and "number 2 " not in call.text else ANSWER

    with ModelServer(respond) as server:
        options = {"judge": f"openai:judge@{server.url}", "protocol": "direct", "no_cache": True, "concurrency": 1}
        why = "gives no access" if name == "401" else "about 6 examples in succession"
        with pytest.raises(RunPaused, match=rf"{why}.*same command again"):
            run(tmp_path / "table.parquet", tmp_path / "out", **options)
        broken = False
        assert run(tmp_path / "table.parquet", tmp_path / "out", **options).report.judged == 12


def test_a_check_finds_changed_and_missing_files(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out")
    store, part = ShardStore(tmp_path / "out"), tmp_path / "out" / "judged" / "part-000001.parquet"
    part.write_bytes(part.read_bytes() + b" ")
    (tmp_path / "out" / "done" / "part-000002.json").write_text("{}", "utf-8")
    assert store.problems() == ["Part 2 is missing.", f"{part} is missing or was changed."]
    with pytest.raises(
        RunError, match=r"part-000001.parquet is missing or was changed.*Delete the file of the part in done/"
    ):
        store.merge(tmp_path / "all.parquet", partial=True)
    (tmp_path / "out" / "done" / "part-000001.json").unlink()
    assert run(data, tmp_path / "out").complete and store.problems() == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([[0, 10**10]], "does not have each of the rows 0 to 9999999999 once"),
        ([[0, 5], [6, 5]], "are not consecutive rows"),
        ([[0, -5]], "are not valid"),
        ([[0]], "are not valid"),
        ([["0", 5]], "are not valid"),
        ({"a": 1}, "are not valid"),
        (None, "are not valid"),
    ],
)
def test_a_manifest_that_is_wrong_is_said(parts: Any, said: str, data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", limit=5)
    file = tmp_path / "out" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "parts": parts}), "utf-8")
    try:
        problems = ShardStore(tmp_path / "out").problems()
    except RunError as error:
        problems = [error.message]
    assert said in problems[0]


@pytest.mark.slow
def test_records_and_parts_of_others_are_bounded(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", limit=5)
    store, part = ShardStore(tmp_path / "out"), tmp_path / "out" / "judged" / "part-000000.parquet"
    done = tmp_path / "out" / "done" / "part-000000.json"
    record = json.loads(done.read_text("utf-8"))
    for wrong in ({"number": -1}, {"number": 7}, {"judged": -4}, {"report": []}, {"finished": "x"}):
        done.write_text(json.dumps({**record, **wrong}), "utf-8")
        assert store.problems() == ["Part 0 is missing."], wrong
    rows = pyarrow.table({"row": pyarrow.array(range(3_000_000), pyarrow.int64())})
    parquet.write_table(rows, part)
    done.write_text(json.dumps({**record, "judged_sha256": sha256_file(part)}), "utf-8")
    assert store.problems() == [f"{part} does not have 4 rows."]
    parquet.write_table(pyarrow.table({"row": [0], "id": ["x" * (300 << 20)]}), part)
    done.write_text(json.dumps({**record, "judged": 1, "judged_sha256": sha256_file(part)}), "utf-8")
    assert "would have to fit in memory" in store.problems()[0]
    with pytest.raises(DataError, match="would have to fit in memory"):
        store.merge(tmp_path / "all.parquet")


@pytest.mark.parametrize("name", ["judged", "done", "judged/part-000000.parquet", "manifest.json"])
def test_no_link_below_an_output_folder_is_followed(name: str, data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out", limit=5)
    place = tmp_path / "out" / name
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    try:
        problems = ShardStore(tmp_path / "out").problems()
    except RunError as error:
        problems = [error.message]
    assert f"{place} is a link" in problems[0]
    with pytest.raises(RunError, match="is a link"):
        ShardStore(tmp_path / "out").merge(tmp_path / "all.parquet")


def test_merged_rows_replace_nothing_unasked(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out")
    store, failed = ShardStore(tmp_path / "out"), tmp_path / "all.failed.parquet"
    for name, why in (
        ("all.csv", "no Parquet file"),
        ("out/judged/part-000000.parquet", "inside the output folder"),
        ("table.parquet", r"table.parquet exists.*--yes"),
    ):
        with pytest.raises(InputError, match=why):
            store.merge(tmp_path / name)
    failed.write_bytes(b"mine")
    with pytest.raises(InputError, match=r"all.failed.parquet exists"):
        store.merge(tmp_path / "all.parquet")
    assert failed.read_bytes() == b"mine" and not (tmp_path / "all.parquet").exists()
    assert store.merge(tmp_path / "all.parquet", replace=True) == (11, 1)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match=r"folder.parquet exists"):
        store.merge(tmp_path / "folder.parquet", replace=True)


def test_an_output_folder_inside_the_data_is_no_data(data: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    data.rename(tmp_path / "tables" / "table.parquet")
    output = tmp_path / "tables" / "out"
    assert run(tmp_path / "tables", output).rows == 12
    assert run(tmp_path / "tables", output).rows_done == 12


def test_data_that_are_not_clear(data: Path, tmp_path: Path) -> None:
    (tmp_path / "more.tar").write_bytes(b"")
    with pytest.raises(DataError, match=r"both .tar and .parquet files"):
        run(tmp_path, tmp_path / "out")
    (tmp_path / "none.jsonl").write_text("\n", "utf-8")
    with pytest.raises(DataError, match=r"none.jsonl has no rows"):
        run(tmp_path / "none.jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_results_takes_another_run(data: Path, tmp_path: Path) -> None:
    job = ShardsJob.open(ShardsConfig(str(data), output=tmp_path / "out", judge="closer"), Settings.from_env())
    job.store.begin(job.manifest)
    assert run(data, tmp_path / "out", judge="farther").complete
    with pytest.raises(RunError, match="results of another run"):
        job.run()


def test_a_folder_belongs_to_one_judge_and_one_dataset(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out")
    with pytest.raises(RunError, match=r"Different judge \(--judge\): closer.* there, farther.* now"):
        run(data, tmp_path / "out", judge="farther")
    with pytest.raises(RunError, match=r"\(--limit, --part-rows\): 12 rows in 3 parts there, 7 rows in 2 parts now"):
        run(data, tmp_path / "out", limit=7)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.png").write_bytes(picture(1))
    with pytest.raises(RunError, match=r"holds other files \(photo.png\)"):
        run(data, tmp_path / "mine")
    with pytest.raises(RunError, match="is not an output folder"):
        ShardStore(tmp_path / "mine").status()


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_wrong_share(data: Path, shard: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read|is more than"):
        ShardsConfig(str(data), shard=shard)


def test_an_id_may_look_like_a_file_and_of_two_columns_both_are_needed(tmp_path: Path) -> None:
    (tmp_path / "s.png").write_bytes(picture(1))
    row = {"id": "first.png", "source": "s.png", "image_a": "s.png", "image_b": "s.png", "instruction": "make it red"}
    lines = [json.dumps(row), json.dumps({**row, "id": "second.png", "image_b": None})]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run(tmp_path / "rows.jsonl", tmp_path / "out")
    store = ShardStore(tmp_path / "out")
    assert [row["id"] for row in store.rows("judged", 0)] == ["first.png"]
    [failed] = store.rows("failed", 0)
    assert (failed["id"], failed["code"]) == ("second.png", "bad_row") and "1 image" in failed["message"]


def test_a_row_whose_image_is_missing_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "s.png").write_bytes(picture(1))
    row = {"source": "s.png", "image_a": "s.png", "image_b": "gone.png", "instruction": "make it red"}
    lines = [json.dumps(row), json.dumps({**row, "image_b": "s.png"})]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    status = run(tmp_path / "rows.jsonl", tmp_path / "out")
    assert (status.failed, status.report.judged) == (1, 1)
    [failed] = ShardStore(tmp_path / "out").rows("failed", 0)
    assert failed["row"] == 0 and "gone.png" in failed["message"]

"""Tables on the Hub, over the wire to a local one with the real client, and on this disk."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hub_parts import Hub
from hub_store import Repository
from made_tables import DATA_100, as_parquet, data_100, picture

from rewardharness.data.rows import DOWNLOADING, READING, Rows, RowSource, open_rows
from rewardharness.errors import DataError, InputError
from rewardharness.hub.downloads import ByteCounter, counting_bar
from rewardharness.hub.errors import HubError, MissingRepoError, UnreachableError
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

SHARD = "data/train-00000-of-00001.parquet"
SOURCE = RowSource(hub=DATA_100)


EDITS = RowSource(hub="ann/edits")


def put(hub: Hub, files: Mapping[str, bytes | str], name: str = "ann/edits") -> Repository:
    """A dataset on the Hub."""
    repo = hub.server.store.create(name, kind="datasets")
    repo.put(files)
    return repo


@pytest.fixture
def repo(hub: Hub) -> Repository:
    return put(hub, {SHARD: as_parquet(data_100()), "README.md": "# a card"}, DATA_100)


def contents(rows: Rows) -> list[dict[str, object]]:
    """Rows with the bytes of their images."""

    def content(value: object) -> object:
        if isinstance(value, tuple):
            return [content(each) for each in value]
        return value.path.read_bytes() if isinstance(value, ImageInput) and value.path else value

    return [{name: content(value) for name, value in row.items()} for row in rows]


# The Hub -----------------------------------------------------------------------------------------------------------


def test_a_dataset_is_read_byte_for_byte(hub: Hub, repo: Repository) -> None:
    told: list[tuple[str, int, int]] = []
    rows = open_rows(SOURCE, hub.settings(), progress=lambda *step: told.append(step))
    assert rows.name == DATA_100 and rows.revision == repo.branches["main"] and not rows.notes
    assert rows.count == 12 and rows.columns == tuple(data_100()[0])
    assert rows.images == {"source_image", "left_image", "right_image"}
    assert contents(rows) == data_100() == contents(rows), "and again"
    assert told[-1] == (READING, 12, 12) and (DOWNLOADING, 1, 1) in told
    home = hub.settings().home
    assert all(row["left_image"].path.is_relative_to(home) for row in rows)
    assert {row["left_image"].path.suffix for row in rows} == {".jpg"}


def test_a_second_opening_writes_nothing_and_needs_no_network(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    first = open_rows(SOURCE, settings)
    files = {path: path.stat().st_mtime_ns for path in settings.home.rglob("*") if path.is_file()}
    shutil.rmtree(settings.hub_cache or Path("none"))
    hub.server.requests.clear()
    assert contents(open_rows(SOURCE, settings)) == data_100()
    assert hub.server.requests == [f"GET /api/datasets/{DATA_100}/revision/main"], "only where the branch is now"
    hub.server.requests.clear()
    hub.server.die_at(1)
    pinned = open_rows(RowSource(hub=DATA_100, revision=first.revision), settings)
    assert contents(pinned) == data_100() and not pinned.notes and not hub.server.requests
    offline = open_rows(SOURCE, settings)
    assert contents(offline) == data_100() and "OFFLINE" in offline.notes[0] and first.revision in offline.notes[0]
    assert files == {path: path.stat().st_mtime_ns for path in settings.home.rglob("*") if path.is_file()}


def test_a_branch_that_moves_is_followed_and_a_commit_is_not(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    old = open_rows(SOURCE, settings).revision
    repo.tags["v1"] = (old, "")
    repo.put({SHARD: as_parquet(data_100(3))})
    assert open_rows(SOURCE, settings).count == 3
    for revision in (old, "v1"):
        rows = open_rows(RowSource(hub=DATA_100, revision=revision), settings)
        assert (rows.count, rows.revision) == (12, old)


def test_what_has_gone_from_the_disk_is_fetched_again(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    first, second, *_ = (row["source_image"].path for row in open_rows(SOURCE, settings))
    first.write_bytes(b"half")
    second.unlink()
    assert contents(open_rows(SOURCE, settings)) == data_100()
    for path in settings.home.rglob("*.json"):
        path.write_text("{", encoding="utf-8")
    for path in (settings.home / "data" / "hub").glob("*.json"):
        path.unlink()
    assert contents(open_rows(SOURCE, settings)) == data_100()


@pytest.mark.slow
def test_killed_at_any_write_it_opens_again_and_goes_on(hub: Hub) -> None:
    put(hub, {SHARD: as_parquet(data_100(2))})
    script = str(Path(__file__).parent / "opened_while_killed.py")
    environ = {**os.environ, "HF_ENDPOINT": hub.server.url}
    done = subprocess.run([sys.executable, script, str(hub.scratch)], capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    total, left = json.loads(done.stdout)
    assert total == 2 * 3 + 5, "6 images; the files, configs and commit of the repository; the rows and what they are"
    assert left == [*range(total, 1, -1), 2], "nothing is written again, but rows whose description was lost"


def test_only_the_split_that_is_meant_is_fetched(hub: Hub) -> None:
    card = "---\nconfigs:\n" + "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train.parquet\n"
        f"  - split: test\n    path: {name}/test.parquet\n"
        for name in ("2pair", "3pair")
    )
    tables = {f"{name}/{split}.parquet": as_parquet(data_100(n)) for n, (name, split) in enumerate(PARTS, 1)}
    put(hub, {"README.md": f"{card}---\n", **tables})
    settings = hub.settings()
    rows = open_rows(RowSource(hub="ann/edits", config="3pair", split="test"), settings)
    assert rows.count == 4 and rows.name == "ann/edits:3pair/test"
    fetched = {request.rpartition("/resolve/")[2][41:] for request in hub.server.requests if "/resolve/" in request}
    assert fetched == {"README.md", "3pair/test.parquet"}
    assert open_rows(RowSource(hub="ann/edits", config="2pair", split="train"), settings).count == 1
    for config, split, said in (
        ("", "", "has several configs"),
        ("2pair", "", "has several splits"),
        ("4pair", "train", "has no config '4pair'"),
        ("2pair", "dev", "has no split 'dev'"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            open_rows(RowSource(hub="ann/edits", config=config, split=split), settings)
        assert "2pair: train, test; 3pair: train, test" in caught.value.next_step


PARTS = [("2pair", "train"), ("2pair", "test"), ("3pair", "train"), ("3pair", "test")]


def test_images_that_a_table_names_are_fetched_from_the_repository_alone(hub: Hub, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(9))
    rows = [
        {"id": "1", "source": "images/s 1.png", "edit": "images/a.png", "elsewhere": str(secret)},
        {"id": "2", "source": "images/missing.png", "edit": "images/a.png", "elsewhere": "../../secret.png"},
    ]
    files = {"part/pairs.jsonl": "\n".join(map(json.dumps, rows)), "part/images/s 1.png": picture(1)}
    put(hub, {**files, "part/images/a.png": picture(2), "part/images/unused.png": picture(3)})
    found = open_rows(EDITS, hub.settings())
    first, second = found
    assert found.images == {"source", "edit"} and first["elsewhere"] == str(secret), "a text, not an image"
    assert first["source"].path.read_bytes() == picture(1) and second["edit"].path.read_bytes() == picture(2)
    assert not second["source"].path.exists() and second["source"].name == "part/images/missing.png"
    assert not any("unused" in request for request in hub.server.requests)


def test_paths_inside_parquet_lead_nowhere_else(hub: Hub, tmp_path: Path) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as parquet

    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(9))
    names = [str(secret), "../../../../secret.png", "~/secret.png", "inside.png", None]
    stream = io.BytesIO()
    parquet.write_table(pa.table({"image": [{"bytes": None, "path": name} for name in names]}), stream)
    put(hub, {SHARD: stream.getvalue(), "data/inside.png": picture(1)})
    rows = open_rows(EDITS, hub.settings())
    found = [row["image"] for row in rows]
    assert found[:3] == names[:3] and found[4] is None and found[3].path.read_bytes() == picture(1)
    assert "outside the dataset (3)" in rows.notes[0]


def test_images_in_an_archive_are_one_error(hub: Hub) -> None:
    put(hub, {"t.csv": "source,edit\na.png,b.png\n", "images.zip": b"PK"})
    with pytest.raises(DataError, match="refers to 2 images, but none of them") as caught:
        open_rows(EDITS, hub.settings())
    assert "archive" in caught.value.next_step


# What the Hub refuses ------------------------------------------------------------------------------------------------


def test_unknown_private_and_gated_ones_are_said_in_a_sentence(hub: Hub, repo: Repository) -> None:
    token = hub.server.login("bob")
    settings = hub.settings()
    repo.gated = True
    for each in (token, False):
        with pytest.raises(HubError, match="is gated") as caught:
            open_rows(SOURCE, settings, token=each)
        assert f"{hub.server.url}/datasets/{DATA_100}" in caught.value.next_step
        assert "Request access" in caught.value.next_step and token not in str(vars(caught.value))
    repo.readers.add("bob")
    assert open_rows(SOURCE, settings, token=token).count == 12
    repo.gated, repo.private = False, True
    with pytest.raises(MissingRepoError, match="or it is private"):
        open_rows(SOURCE, hub.settings("other"), token=hub.server.login("eve"))
    with pytest.raises(MissingRepoError, match="There is no dataset ann/nothing"):
        open_rows(RowSource(hub="ann/nothing"), settings, token=token)
    with pytest.raises(HubError, match="does not accept the token") as caught:
        open_rows(SOURCE, settings, token="hf_" + "x" * 30)
    assert "hf_xxx" not in str(vars(caught.value))


def test_what_cannot_be_named_is_said(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    for name, revision, problem in (
        (DATA_100, "v9", "has no revision 'v9'"),
        (DATA_100, "0" * 40, "no revision"),
        ("no slash", "", "is not a valid"),
        (DATA_100, "a..b", "is not a valid"),
    ):
        with pytest.raises(HubError, match=problem):
            open_rows(RowSource(hub=name, revision=revision), settings)
    for wrong in ({"hub": ""}, {"hub": "a/b", "path": Path("x")}):
        with pytest.raises(InputError):
            RowSource(**wrong)  # type: ignore[arg-type]
    put(hub, {"a.png": picture(1), "b.tar": b"x"}, "ann/pictures")
    with pytest.raises(DataError, match=r"no supported table. Its files have the extensions \.png, \.tar") as caught:
        open_rows(RowSource(hub="ann/pictures"), settings)
    assert "refs/convert/parquet" in caught.value.next_step


def test_without_a_network_what_was_read_before_is_named(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    commit = open_rows(SOURCE, settings).revision
    hub.server.die_at(1)
    with pytest.raises(UnreachableError, match=f"Cached commits: {commit}"):
        open_rows(RowSource(hub=DATA_100, revision="v1"), settings)
    with pytest.raises(UnreachableError, match="No commit is cached"):
        open_rows(RowSource(hub="ann/other"), settings)


@pytest.mark.parametrize("fault", ["503", "reset", "lost", "garbage"])
def test_a_hub_that_fails_is_said_and_the_next_attempt_works(hub: Hub, repo: Repository, fault: str) -> None:
    for part in ("/revision/main", "/tree/"):
        for _ in range(10):  # the client tries some of it again by itself
            hub.server.fail("GET", part, fault)
        with pytest.raises(UnreachableError):
            open_rows(SOURCE, hub.settings())
        hub.server.revive()
    assert contents(open_rows(SOURCE, hub.settings())) == data_100()


def test_a_download_that_breaks_off_resumes(hub: Hub, repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1024)
    hub.server.fail("GET", SHARD, "half")
    assert contents(open_rows(SOURCE, hub.settings())) == data_100()
    assert len(hub.server.ranges) == 1 and hub.server.ranges[0] != "bytes=0-"


def test_bytes_that_come_in_packed_form_are_counted_once() -> None:
    """Large files of the Hub come through another door of the client, which tells two numbers."""
    from huggingface_hub.utils._xet_progress_reporting import XetDownloadProgressReporter

    counter = ByteCounter()
    bar = counting_bar(counter)
    with XetDownloadProgressReporter(reconstruction_desc="x", total=100, log_level=30, tqdm_class=bar) as told:
        for done, packed in ((40, 60), (100, 80)):
            rates = {"total_bytes_completion_rate": 1.0, "total_transfer_bytes_completion_rate": 1.0}
            sizes = {"total_bytes": 100, "total_transfer_bytes": 80}
            numbers = {"total_bytes_completed": done, "total_transfer_bytes_completed": packed}
            told.update_progress(SimpleNamespace(**rates, **sizes, **numbers))
    assert counter.bytes == 100


def test_files_that_arrived_whole_are_kept_when_a_later_one_fails(hub: Hub) -> None:
    names = [f"data/train-0000{number}-of-00003.parquet" for number in range(3)]
    put(hub, {name: as_parquet(data_100(2 + number)) for number, name in enumerate(names)})
    settings = hub.settings()
    hub.server.fail("GET", names[2], "torn")
    with pytest.raises(UnreachableError, match="connection broke") as caught:
        open_rows(EDITS, settings)
    assert "complete files are not downloaded twice" in caught.value.next_step
    hub.server.requests.clear()
    assert open_rows(EDITS, settings).count == 9
    fetched = [request for request in hub.server.requests if request.startswith("GET") and "/resolve/" in request]
    assert len(fetched) <= 3 and any(names[2] in request for request in fetched)


def test_a_file_that_arrives_damaged_is_fetched_anew(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    hub.server.fail("GET", SHARD, "flip")
    with pytest.raises(UnreachableError, match="damaged after the download"):
        open_rows(SOURCE, settings)
    assert contents(open_rows(SOURCE, settings)) == data_100()


def test_a_disk_without_room_is_said(hub: Hub, repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(DataError, match=r"Not enough disk space to .*: it needs 1 MB, plus 269 MB") as caught:
            open_rows(SOURCE, hub.settings())
    assert "HF_HOME" in caught.value.next_step
    assert not any("/resolve/" in request and SHARD in request for request in hub.server.requests)
    repo.put({SHARD: as_parquet(data_100(40))})
    settings, usage = hub.settings(), shutil.disk_usage("/")
    with monkeypatch.context() as patched:
        full = lambda path: usage._replace(free=0 if any(settings.home.rglob("*.png")) else 10**12)  # noqa: E731
        patched.setattr(shutil, "disk_usage", full)
        with pytest.raises(DataError, match="Not enough disk space to write rows and images"):
            open_rows(SOURCE, settings)
    assert contents(open_rows(SOURCE, settings)) == data_100(40)


def test_a_commit_that_was_read_needs_no_package(hub: Hub, repo: Repository) -> None:
    settings = hub.settings()
    commit = open_rows(SOURCE, settings).revision
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('datasets', 'pyarrow', 'fsspec', 'huggingface_hub')))\n"
        "from rewardharness.data.rows import *; from rewardharness.settings import Settings\n"
        f"settings = Settings.from_env({{'RH_HOME': {str(settings.home)!r}}})\n"
        f"rows = open_rows(RowSource(hub={DATA_100!r}, revision={commit!r}), settings)\n"
        "assert all(row['source_image'].path.is_file() for row in rows) and rows.count == 12\n"
        "try: open_rows(RowSource(hub='ann/other'), settings)\n"
        "except Exception as error: print(error.next_step)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reward-harness-library[data]" in done.stdout


def test_a_long_list_of_files_comes_in_pages(hub: Hub) -> None:
    images = {f"images/{number}.png": picture(number) for number in range(9)}
    put(hub, {**images, "t.jsonl": "\n".join(json.dumps({"image": name}) for name in images)})
    hub.server.page = 2
    rows = open_rows(EDITS, hub.settings())
    assert contents(rows) == [{"image": picture(number)} for number in range(9)]


# This disk -----------------------------------------------------------------------------------------------------------


def test_images_beside_a_table_stay_where_they_are(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "set"
    (folder / "pictures").mkdir(parents=True)
    (folder / "pictures" / "a.png").write_bytes(picture(1))
    (tmp_path / "outside.png").write_bytes(picture(2))
    (folder / "pictures" / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "t.csv").write_text("image\npictures/a.png\npictures/none.png\npictures/link.png\n", encoding="utf-8")
    rows = open_rows(RowSource(path=folder / "t.csv"), settings)
    found = [row["image"] for row in rows]
    assert found[0] == ImageInput("pictures/a.png", (folder / "pictures" / "a.png").resolve())
    assert found[1].path is not None and not found[1].path.exists()
    assert found[2] == "pictures/link.png" and "outside the dataset" in rows.notes[0]
    assert not list(settings.home.rglob("*.png"))


def test_a_folder_of_tables_is_divided_as_on_the_hub(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "set"
    for name, count in (("train-00000-of-00002", 2), ("train-00001-of-00002", 3), ("test-00000-of-00001", 1)):
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / f"{name}.parquet").write_bytes(as_parquet(data_100(count)))
    assert open_rows(RowSource(path=folder, split="train"), settings).count == 5
    assert open_rows(RowSource(path=folder, split="test"), settings).count == 1
    with pytest.raises(DataError, match="several splits"):
        open_rows(RowSource(path=folder), settings)
    from datasets import Dataset, Image

    dataset = Dataset.from_list([{"id": str(number), "image": {"bytes": picture(number)}} for number in range(5)])
    dataset.cast_column("image", Image()).save_to_disk(str(tmp_path / "saved"))
    saved = open_rows(RowSource(path=tmp_path / "saved"), settings)
    assert contents(saved) == [{"id": str(number), "image": picture(number)} for number in range(5)]


def test_what_json_cannot_hold_is_none_or_text(tmp_path: Path, settings: Settings) -> None:
    import datetime
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as parquet

    day, missing = datetime.date(2026, 1, 2), float("nan")
    cells = {"n": missing, "i": float("inf"), "d": day, "m": Decimal("1.50"), "l": [1.0, missing], "s": {"a": day}}
    table = pa.table({name: [value] for name, value in {**cells, "image": [{"bytes": b"", "path": ""}]}.items()})
    parquet.write_table(table, tmp_path / "t.parquet")
    [row] = open_rows(RowSource(path=tmp_path / "t.parquet"), settings)
    assert row["image"] == (None,)
    assert [row[name] for name in cells] == [None, "inf", "2026-01-02", "1.50", [1.0, None], {"a": "2026-01-02"}]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.txt", b"x", "not a supported table"),
        ("t.parquet", b"PAR1", "cannot be read"),
        ("t.jsonl", b'{"a": "\\ud800"}', "surrogate"),
        ("t.csv", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, settings: Settings, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        open_rows(RowSource(path=tmp_path / name), settings)
    with pytest.raises(DataError, match="does not exist"):
        open_rows(RowSource(path=tmp_path / "none.csv"), settings)
    with pytest.raises(InputError, match="without revisions"):
        open_rows(RowSource(path=tmp_path / name, revision="main"), settings)


def test_columns_of_several_files_are_put_together(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "pairs.jsonl").write_text('{"id": "1", "a": "x.png"}', encoding="utf-8")
    (folder / "groups.jsonl").write_text('{"id": "2", "many": ["x.png", "y.png"]}', encoding="utf-8")
    first, second = open_rows(RowSource(path=folder), settings)
    assert first["a"] is None and [image.name for image in first["many"]] == ["x.png", "y.png"]
    assert second["many"] is None and second["a"].name == "x.png"
    (folder / "more.jsonl").write_text('{"id": "2", "many": "x.png"}', encoding="utf-8")
    with pytest.raises(DataError, match="'many' has different types"):
        open_rows(RowSource(path=folder), settings)

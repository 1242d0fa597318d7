"""Datasets as parts: every row once, in order, with the examples that reading the whole gives."""

import io
import json
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hub_parts import running_hub
from hypothesis import given, settings
from hypothesis import strategies as st
from made_tables import DATA_100, as_parquet, data_100, picture

from rewardharness.bulk.stream import Row, Stream, divided_groups, open_stream
from rewardharness.data.fields import FieldMap
from rewardharness.data.opening import open_data
from rewardharness.errors import DataError, InputError
from rewardharness.schema import Example
from rewardharness.settings import Settings


def rows_of(stream: Stream, settings: Settings | None = None) -> list[Row]:
    return [row for part in stream.parts for row in stream.rows(part, settings or Settings.from_env())]


def examples_of(stream: Stream) -> list[Example]:
    rows = rows_of(stream)
    assert [row.number for row in rows] == list(range(stream.count))
    return [row.example for row in rows if row.example is not None]


def bytes_of(example: Example) -> list[bytes]:
    return [image.data or (image.path.read_bytes() if image.path else b"") for image in example.images]


def same(streamed: Sequence[Example], whole: Sequence[Example]) -> None:
    """Compare ids, instructions, labels and the bytes of all images."""
    for one, other in zip(streamed, whole, strict=True):
        for name in ("id", "instruction", "preference", "label_kind"):
            assert getattr(one, name) == getattr(other, name)
        assert bytes_of(one) == bytes_of(other)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 7))
def test_row_groups_are_divided_into_parts_that_cover_each_row_once(counts: list[int], rows: int) -> None:
    covered: list[tuple[int, int]] = []
    for start, count, groups, skip in divided_groups(counts, rows):
        assert 0 < count <= rows
        inside = [(group, row) for group in range(start, start + groups) for row in range(counts[group])]
        covered += inside[skip : skip + count]
    assert covered == [(group, row) for group, count in enumerate(counts) for row in range(count)]


@pytest.mark.parametrize("rows", [1, 4, 5, 12, 100])
def test_parquet_gives_the_examples_of_the_whole_table(tmp_path: Path, rows: int) -> None:
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(data_100()))
    stream = open_stream(str(file), Settings.from_env(), rows=rows)
    assert stream.format == "parquet" and max(part.count for part in stream.parts) <= rows
    same(examples_of(stream), open_data(str(file), Settings.from_env()).examples)


def test_a_dataset_on_the_hub_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        repo = hub.server.store.create(DATA_100, kind="datasets")
        files = {f"data/train-0000{n}-of-00002.parquet": as_parquet(data_100()[6 * n : 6 * n + 6]) for n in range(2)}
        repo.put(files)
        settings = hub.settings()
        stream = open_stream(DATA_100, settings, rows=5)
        assert stream.hub == (DATA_100, repo.branches["main"]) and stream.format == "parquet"
        found = [row.example for row in rows_of(stream, settings) if row.example]
        assert hub.server.ranges, "only parts of the files are requested"
        assert not list(tmp_path.glob("hub-*/**/*.parquet")), "nothing is stored"
        same(found, open_data(DATA_100, settings).examples)


def test_archives_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        hub.server.store.create("ann/tars", kind="datasets").put({"a.tar": archive(3), "b.tar": archive(2, "late")})
        settings = hub.settings()
        found = [row.example for row in rows_of(open_stream("ann/tars", settings, rows=2), settings)]
        assert [each.id for each in found if each] == ["early-0", "early-1", "early-2", "late-0", "late-1"]


def archive(samples: int, stem: str = "early", **further: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for number in range(samples):
            about = {"instruction": f"make house {number} red", "preference": "B"}
            members = {
                "source.png": picture(10 * number),
                "a.jpg": picture(10 * number + 1, "JPEG"),
                "b.png": picture(10 * number + 2),
                "json": json.dumps(about).encode(),
                **further,
            }
            for name, data in members.items():
                info = tarfile.TarInfo(f"{stem}-{number}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_samples_of_an_archive(tmp_path: Path, rows: int) -> None:
    file = tmp_path / "samples.tar"
    file.write_bytes(archive(5, **{"unused.bin": b"\xff"}))
    stream = open_stream(str(file), Settings.from_env(), fields=FieldMap(candidates=("a", "b")), rows=rows)
    found = examples_of(stream)
    assert [example.id for example in found] == [f"early-{number}" for number in range(5)]
    assert {example.preference for example in found} == {"B"}
    assert bytes_of(found[3]) == [picture(30), picture(31, "JPEG"), picture(32)]


def member(size: int, data: bytes, kind: bytes = b"0") -> bytes:
    """A member of a tar archive with any size in its header."""
    info = tarfile.TarInfo("a.png")
    info.type, info.size = kind, abs(size)
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    if size < 0:
        header[124:136] = b"\xff" * 4 + struct.pack(">q", size)
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data + b"\0" * (-len(data) % 512)


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (member(200_000, b"1" * 200_000, tarfile.XHDTYPE), "an extended header has 200000 bytes"),
        (member(200_000, b"1" * 200_000, tarfile.GNUTYPE_LONGNAME), "an extended header has 200000 bytes"),
        (member(-512, b""), "negative size"),
        (member(14, b"14 size=-1024\n", tarfile.XHDTYPE), "negative size"),
    ],
    ids=["pax", "long name", "negative", "negative in pax"],
)
def test_headers_of_an_archive_are_bounded(archive: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "t.tar"
    file.write_bytes(member(3, b"abc") + archive + member(3, b"abc") + b"\0" * 1024)
    with pytest.raises(DataError, match=said):
        open_stream(str(file), Settings.from_env())


def test_a_damaged_archive_is_one_clear_error(tmp_path: Path) -> None:
    whole = archive(3)
    for name, data in {"short.tar": whole[: len(whole) // 2 + 100], "no.tar": b"no archive" * 200}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match="cannot be read as a tar archive"):
            rows_of(open_stream(str(tmp_path / name), Settings.from_env()))


def test_a_bad_row_is_a_row_with_its_reason(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    good = {"source": "0.png", "image_a": "1.png", "image_b": "2.png", "instruction": "make it red", "id": "one"}
    lines = [json.dumps(good), "no json", "", "[1]", json.dumps({**good, "image_b": "../3.png"}), json.dumps(good)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = rows_of(open_stream(str(tmp_path / "rows.jsonl"), Settings.from_env(), rows=2))
    assert [row.example is not None for row in rows] == [True, False, False, False, True]
    assert "not valid JSON" in rows[1].problem and "not a JSON object" in rows[2].problem
    assert "../3.png" in rows[3].problem


def test_a_folder_gives_the_examples_of_the_whole(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    pair = {"source": "0.png", "candidate_a": "1.png", "candidate_b": "2.png", "instruction": "red", "preference": "A"}
    group = {"source": "0.png", "candidates": ["1.png", "2.png", "0.png"], "instruction": "red", "best": 2}
    lines = [json.dumps({"id": f"p{number}", **pair}) for number in range(7)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "groups.jsonl").write_text(json.dumps({"id": "g", **group}), encoding="utf-8")
    stream = open_stream(str(tmp_path), Settings.from_env(), rows=3)
    assert stream.format == "folder" and [part.count for part in stream.parts] == [3, 3, 1, 1]
    same(examples_of(stream), open_data(str(tmp_path), Settings.from_env()).examples)
    assert open_stream(str(tmp_path), Settings.from_env(), rows=3, limit=4).count == 4


def test_a_single_candidate_has_a_column_of_its_own(tmp_path: Path) -> None:
    rows = [{"source": picture(1), "edited": picture(2), "instruction": "make it red"}]
    (tmp_path / "t.parquet").write_bytes(as_parquet(rows, images=("source", "edited")))
    [example] = examples_of(open_stream(str(tmp_path), Settings.from_env()))
    assert len(example.candidates) == 1


def test_large_row_groups_do_not_make_large_parts(tmp_path: Path) -> None:
    (tmp_path / "s.png").write_bytes(picture(1))
    columns = {name: ["s.png"] * 50 for name in ("source", "image_a", "image_b")}
    parquet.write_table(pa.table({**columns, "instruction": [f"edit {n}" for n in range(50)]}), tmp_path / "t.parquet")
    stream = open_stream(str(tmp_path), Settings.from_env(), rows=20)
    assert [part.count for part in stream.parts] == [20, 20, 10]
    assert [example.instruction for example in examples_of(stream)] == [f"edit {number}" for number in range(50)]


def test_changed_data_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(as_parquet(data_100()))
    stream = open_stream(str(file), Settings.from_env(), rows=5)
    file.write_bytes(as_parquet(data_100(7)))
    with pytest.raises(DataError, match="has changed"):
        rows_of(stream)
    assert open_stream(str(file), Settings.from_env()).digest != stream.digest


@pytest.mark.parametrize("name", ["nothing.parquet", "nothing.tar"])
def test_missing_data(tmp_path: Path, name: str) -> None:
    with pytest.raises((DataError, InputError), match="does not exist"):
        open_stream(str(tmp_path / name), Settings.from_env())


def test_invalid_rows_of_a_dataset_in_memory_are_rows_with_their_reasons(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(picture(0))
    lines = ["instruction,source,candidate_a,candidate_b", "red,0.png,0.png,0.png", ",0.png,0.png,0.png"]
    (tmp_path / "pairs.csv").write_text("\n".join([*lines, lines[1]]), encoding="utf-8")
    stream = open_stream(str(tmp_path), Settings.from_env(), rows=2)
    rows = rows_of(stream)
    assert stream.format == "memory" and [row.example is not None for row in rows] == [True, False, True]
    assert "the instruction is empty" in rows[1].problem

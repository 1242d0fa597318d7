"""What is asked of `datasets` and `pyarrow`: which files make a split, and what columns hold."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from made_tables import as_parquet, data_100, picture

from rewardharness.data import hf_datasets
from rewardharness.data.hf_datasets import disk_layout, find_layout, read_table
from rewardharness.errors import DataError

CARD = """---
license: mit
configs:
- config_name: 2pair
  default: true
  data_files:
  - split: train
    path: 2pair/*.parquet
- config_name: rest
  data_dir: other
- config_name: empty
  data_files: nothing/*.parquet
---
# A dataset
"""


def test_shards_are_found_by_their_names() -> None:
    names = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
    layout = find_layout([*names, "data/test-00000-of-00001.parquet", "README.md", "images/a.png"], "")
    assert layout.default == "default" and set(layout.configs) == {"default"}
    assert layout.configs["default"] == {"train": tuple(names), "test": ("data/test-00000-of-00001.parquet",)}
    plain = find_layout(["pairs.jsonl", "groups.jsonl", "notes.txt"], "# no header")
    assert plain.configs == {"default": {"train": ("groups.jsonl", "pairs.jsonl")}}, "everything is one split"
    mixed = find_layout(["a.parquet", "a.csv", "b.parquet"], "")
    assert mixed.configs["default"]["train"] == ("a.parquet", "b.parquet"), "the more frequent of two kinds"


def test_a_card_says_which_files_make_a_config() -> None:
    files = ["2pair/a.parquet", "2pair/b.parquet", "3pair/a.parquet", "other/test.csv", "other/train.csv"]
    layout = find_layout(files, CARD)
    assert layout.default == "2pair"
    assert layout.configs == {
        "2pair": {"train": ("2pair/a.parquet", "2pair/b.parquet")},
        "rest": {"train": ("other/train.csv",), "test": ("other/test.csv",)},
    }


@pytest.mark.parametrize("path", ["/etc/*.csv", "../*.csv", "https://example.com/a.csv", "a/../../b.csv", "~/a.csv"])
def test_a_card_cannot_name_files_elsewhere(path: str) -> None:
    card = f"---\nconfigs:\n- config_name: x\n  data_files: {path}\n---\n"
    for key in ("data_files", "data_dir"):
        with pytest.raises(DataError, match="outside"):
            find_layout(["a.csv"], card.replace("data_files", key))


@pytest.mark.parametrize(
    "header",
    [
        *("configs: [", "configs: &a [*a]", "configs: {a: 1}", "configs: [{data_files: x}]", "configs: [3]"),
        *("configs: [{config_name: x, data_files: 3}]", "a: " + "[" * 3000),
    ],
)
def test_a_card_that_makes_no_sense_is_one_error(header: str) -> None:
    with pytest.raises(DataError, match="card"):
        find_layout(["a.csv"], f"---\n{header}\n---\n")


def test_parquet_of_datasets_says_what_its_columns_hold(tmp_path: Path) -> None:
    from datasets import ClassLabel, Image, List, Video

    rows = [{"image": picture(1), "edits": [picture(2), picture(3)], "vote": 1, "n": 0.5, "clip": None}] * 3
    features = {"vote": ClassLabel(names=["left", "right"]), "clip": Video(), "edits": List(Image())}
    content = as_parquet(rows, images=("image", "edits"), features=features)
    (tmp_path / "t.parquet").write_bytes(content)
    table = read_table(tmp_path / "t.parquet")
    shapes = {"image": "image", "edits": {"list": "image"}, "vote": {"names": ["left", "right"]}, "n": None}
    assert table.columns == shapes and table.count == 3, "a video is no image, and is left out"
    row = next(iter(table.rows()))
    assert row["image"] == {"bytes": picture(1), "path": "upload.png"} and row["edits"][1]["bytes"] == picture(3)


@pytest.mark.parametrize(
    "header",
    [
        *("not json", '{"info": {"features": 3}}', '{"info": {"features": {"image": 3}}}'),
        *(f'{{"info": {{"features": {{"image": {{"_type": "{name}"}}}}}}}}' for name in ("os", "Unheard")),
    ],
)
def test_parquet_without_a_sound_header_is_read_by_its_types(tmp_path: Path, header: str) -> None:
    cells = [{"bytes": picture(1), "path": None}]
    table = pa.table({"image": cells, "raw": [picture(2)], "deep": [{"of": cells[0], "n": 1}]})
    parquet.write_table(table.replace_schema_metadata({"huggingface": header}), tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet")
    assert read.columns == {"image": "image", "raw": "image", "deep": {"keys": {"of": "image"}}}


def test_what_save_to_disk_wrote_is_read(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict, Image

    dataset = Dataset.from_list([{"id": str(number), "image": {"bytes": picture(number)}} for number in range(40)])
    dataset = dataset.cast_column("image", Image()).filter(lambda row: int(row["id"]) % 2 == 0, num_proc=None)
    dataset.save_to_disk(str(tmp_path / "one"), num_shards=2)
    DatasetDict({"train": dataset, "test": dataset.select([1])}).save_to_disk(str(tmp_path / "many"))
    one = disk_layout(tmp_path / "one")
    assert one is not None and one.configs == {"default": {"train": (".",)}}
    table = read_table(tmp_path / "one")
    assert table.columns == {"id": None, "image": "image"} and table.count == 20
    assert [row["image"]["bytes"] for row in table.rows()] == [picture(number) for number in range(0, 40, 2)]
    many = disk_layout(tmp_path / "many")
    assert many is not None and many.configs["default"] == {"train": ("train",), "test": ("test",)}
    [shard] = (tmp_path / "many" / "test").glob("*.arrow")
    assert [[row["id"] for row in read_table(path).rows()] for path in (shard.parent, shard)] == [["2"], ["2"]]


def test_a_saved_folder_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_list([{"id": "1"}]).save_to_disk(str(tmp_path / "one"))
    state = json.loads((tmp_path / "one" / "state.json").read_text(encoding="utf-8"))
    state["_data_files"][0]["filename"] = "../elsewhere.arrow"
    (tmp_path / "one" / "state.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(DataError, match="outside the folder"):
        read_table(tmp_path / "one")
    (tmp_path / "dataset_dict.json").write_text('{"splits": [".."]}', encoding="utf-8")
    with pytest.raises(DataError, match="no valid list of splits"):
        disk_layout(tmp_path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_a_damaged_table_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(as_parquet(data_100(3))[:-200])
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / f"no{name}")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match="not a supported table"):
        read_table(tmp_path / "t.xlsx")
    content = bytearray(as_parquet(data_100(30)))
    content[2000:9000] = bytes(7000)
    (tmp_path / "inside.parquet").write_bytes(content)
    table = read_table(tmp_path / "inside.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        list(table.rows())


def test_rows_are_read_some_at_a_time(tmp_path: Path) -> None:
    """What is held while a large table is read does not grow with it."""
    blob = bytes(100_000)
    rows: dict[str, list[Any]] = {"image": [{"bytes": blob, "path": "x"}] * 400}
    stream = io.BytesIO()
    parquet.write_table(pa.table(rows), stream, row_group_size=20, compression="none", use_dictionary=False)
    (tmp_path / "t.parquet").write_bytes(stream.getvalue())
    before, most = pa.total_allocated_bytes(), 0
    for row in read_table(tmp_path / "t.parquet").rows():
        assert len(row["image"]["bytes"]) == len(blob)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 400 * len(blob) / 4


def test_groups_of_rows_that_would_not_fit_into_memory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(as_parquet(data_100(4)))
    with pytest.raises(DataError, match="would have to fit in memory"):
        hf_datasets.parquet_groups(tmp_path / "t.parquet", "t.parquet", 1000)


def test_without_the_packages_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(as_parquet(data_100(1)))
    (tmp_path / "t.jsonl").write_text('{"a": 1}', encoding="utf-8")
    script = (
        "import sys; sys.modules.update(datasets=None, pyarrow=None, fsspec=None)\n"
        "from pathlib import Path; from rewardharness.data.hf_datasets import *; from rewardharness.errors import *\n"
        f"folder = Path({str(tmp_path)!r}); assert read_table(folder / 't.jsonl').count == 1\n"
        "for call in (lambda: read_table(folder / 't.parquet'), lambda: find_layout(['a.csv'], '')):\n"
        "    try: call()\n"
        "    except MissingPackageError as error: print(error.next_step)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count('pip install "reward-harness-library[data]"') == 2

"""The one door to examples: what each spelling opens."""

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hub_parts import running_hub
from made_tables import DATA_100, as_parquet, data_100
from PIL import Image

from rewardharness.data import opening
from rewardharness.data.fields import FieldMap
from rewardharness.data.opening import open_data, parse_spec
from rewardharness.data.rows import RowSource
from rewardharness.data.values import read_data
from rewardharness.data.votes import append_feedback
from rewardharness.errors import DataError, InputError
from rewardharness.files import write_text
from rewardharness.hub.errors import HubError
from rewardharness.measure.images import read_bytes
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings.from_env()


def noise(seed: int) -> bytes:
    """A picture of more than 131,072 characters in base64."""
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (190, 190, 3), np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def picture(path: Path, shade: int) -> Path:
    Image.new("RGB", (16, 16), (shade, 90, 40)).save(path)
    return path


def test_feedback_is_what_was_said_in_the_app(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(DataError, match="no feedback yet"):
        open_data("feedback", settings)
    source, *edits = (ImageInput(name, picture(tmp_path / f"{name}.png", n)) for n, name in enumerate("sab"))
    append_feedback(settings.feedback, Example("x", "make it red", source, tuple(edits)), "B")
    assert [each.preference for each in open_data("feedback", settings).examples] == ["B"]


def test_the_demonstration_set_is_drawn_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "DEMO_PAIRS", 3)
    told: list[tuple[str, int, int]] = []
    drawn, again = (open_data("demo", settings, progress=lambda *step: told.append(step)) for _ in range(2))
    assert len(drawn.examples) == 3 and again.digest == drawn.digest
    assert told == [("generating", done, 3) for done in range(4)]


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ("org/name", RowSource(hub="org/name")),
        ("hf:org/name", RowSource(hub="org/name")),
        ("org/name@v1.2", RowSource(hub="org/name", revision="v1.2")),
        ("org/name@refs/pr/3:2pair", RowSource(hub="org/name", revision="refs/pr/3", config="2pair")),
        ("hf:org/name:default/test_v1", RowSource(hub="org/name", config="default", split="test_v1")),
        ("org/name:/test", RowSource(hub="org/name", split="test")),
        ("demo", None),
        ("feedback", None),
        ("https://huggingface.co/datasets/org/name", RowSource(hub="org/name")),
        ("https://huggingface.co/datasets/org/name/", RowSource(hub="org/name")),
        ("https://hf.co/datasets/org/name?row=3#x", RowSource(hub="org/name")),
        ("https://huggingface.co/datasets/org/name/tree/v1/data", RowSource(hub="org/name", revision="v1")),
        ("https://huggingface.co/datasets/org/name/viewer/big/test", RowSource("org/name", "big", "test")),
        ("hf://datasets/org/name@v1", RowSource(hub="org/name", revision="v1")),
    ],
)
def test_spellings(spec: str, source: RowSource | None) -> None:
    assert parse_spec(spec) == source


@pytest.mark.parametrize("spec", ["nothing", "pairs.parquet", "a/pairs.csv", "../up", "a/b/c", "org/name@", "a/b:/"])
def test_what_can_be_nothing_does_not_exist(spec: str) -> None:
    with pytest.raises(DataError, match="does not exist") as caught:
        parse_spec(spec)
    assert "org/name[@revision]" in caught.value.next_step


@pytest.mark.parametrize("spec", ["hf:", "hf:name", "hf:org/name@a..b", "hf:/etc/passwd"])
def test_what_cannot_be_on_the_hub_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="is not a valid dataset name on the Hub"):
        parse_spec(spec)


def base64_texts(content: bytes) -> list[str]:
    plain = base64.b64encode(content).decode()
    lines = "\n".join(plain[at : at + 76] for at in range(0, len(plain), 76))
    urlsafe = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return [plain, lines, urlsafe, f"data:image/png;base64,{plain}", f" data:image/png;name=a.png;base64,{urlsafe}\n"]


@pytest.mark.parametrize("way", range(5), ids=["plain", "lines", "urlsafe", "data URI", "data URI with name"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet", "native.csv", "rows"])
def test_a_column_of_images_as_base64_is_never_text(way: int, ending: str, tmp_path: Path, settings: Settings) -> None:
    contents = dict(zip(("source", "image_a", "image_b"), map(noise, range(3)), strict=True))
    row = {"instruction": "make it red", **{name: base64_texts(data)[way] for name, data in contents.items()}}
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pa_parquet.write_table(pa.table({name: [value] for name, value in row.items()}), path)
    elif ending.startswith("json"):
        path.write_text(json.dumps([row] if ending == "json" else row))
    elif ending != "rows":
        if ending == "native.csv":
            row = {name.replace("image_", "candidate_"): value for name, value in row.items()}
            path = tmp_path / "folder" / "t.csv"
            path.parent.mkdir()
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t" if ending == "tsv" else ",")
            writer.writerows([list(row), list(row.values())])
    data = [row] if ending == "rows" else str(path.parent if ending == "native.csv" else path)
    [example] = read_data(data, settings).examples
    assert [read_bytes(image) for image in example.images] == list(contents.values())


@pytest.mark.parametrize("kind", ["binary", "large_binary", "binary_view", "struct", "list", "text in bytes"])
def test_a_column_of_bytes_is_of_images(kind: str, tmp_path: Path, settings: Settings) -> None:
    contents = [picture(tmp_path / f"{number}.png", number).read_bytes() for number in range(3)]
    cells: list[Any] = [base64.b64encode(noise(number)) for number in range(3)] if "text" in kind else contents
    column = getattr(pa, kind)() if "binary" in kind else pa.binary()
    if kind == "struct":
        column, cells = pa.struct({"bytes": pa.binary_view(), "path": pa.string()}), [{"bytes": each} for each in cells]
    columns = {"instruction": pa.array(["make it red"])}
    if kind == "list":
        texts = pa.array([[base64.b64encode(noise(number)).decode() for number in (1, 2)]], pa.list_(pa.string()))
        columns |= {"source": pa.array(cells[:1], pa.binary()), "candidates": texts}
    else:
        named = zip(("source", "image_a", "image_b"), cells, strict=True)
        columns |= {name: pa.array([cell], column) for name, cell in named}
    pa_parquet.write_table(pa.table(columns), tmp_path / "t.parquet", store_schema=True)
    [example] = open_data(str(tmp_path / "t.parquet"), settings).examples
    assert len(example.images) == 3 and all(read_bytes(image).startswith(b"\x89PNG") for image in example.images)


def test_texts_that_are_no_images_stay_texts(tmp_path: Path, settings: Settings) -> None:
    texts = ["A" * 200, "iVBORw0KGgo is how a PNG begins " * 4, base64.b64encode(b"plain words " * 20).decode()]
    rows = [{"prompt": "p", "response_a": text, "response_b": "x"} for text in texts]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert all(example.source is None for example in open_data(str(tmp_path / "t.jsonl"), settings).examples)
    drawing = {"prompt": "p", "response_a": "data:image/svg+xml,<svg/>", "response_b": "x"}
    (tmp_path / "u.jsonl").write_text(json.dumps(drawing))
    with pytest.raises(DataError, match="has no images"):
        open_data(str(tmp_path / "u.jsonl"), settings)


def test_a_folder_goes_before_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert parse_spec("org/name") is None
    (tmp_path / "org" / "name" / "t.parquet").write_bytes(as_parquet(data_100(2)))
    assert parse_spec("org/name") == RowSource(path=Path("org/name"))
    assert parse_spec("org/name/t.parquet") == RowSource(path=Path("org/name/t.parquet"))
    (tmp_path / "org" / "name" / "pairs.jsonl").write_text("", encoding="utf-8")
    assert parse_spec("org/name") is None and parse_spec("hf:org/name") == RowSource(hub="org/name")


def test_a_table_says_how_it_was_read(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(as_parquet(data_100(6)))
    opened = open_data(str(path), settings)
    assert opened.mapping["preference"] == ("vote_type",)
    assert opened.problems == (opened.how,) and "preference is vote_type" in opened.how
    given = open_data(str(path), settings, fields=FieldMap(scores=("left_overall_score", "right_overall_score")))
    assert [each.preference for each in given.examples[:3]] == ["A", "B", "tie"]
    assert {each.label_kind for each in given.examples} == {"scores"}
    with pytest.raises(InputError, match="has no columns"):
        open_data("demo", settings, fields=FieldMap(source="x"))


def test_a_folder_with_a_foreign_csv_is_read_where_columns_are_named(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for number, name in enumerate("sab"):
        picture(folder / f"{name}.png", number)
    write_text(folder / "t.csv", "wish,before,one,two,better\nmake it red,s.png,a.png,b.png,1\n")
    with pytest.raises(DataError, match="has no column"):
        open_data(str(folder), settings)
    fields = FieldMap("before", "wish", ("one", "two"), ("better",), values={"0": "A", "1": "B"})
    assert [each.preference for each in open_data(str(folder), settings, fields=fields).examples] == ["B"]


def test_a_dataset_on_the_hub_is_pinned_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        repo = hub.server.store.create(DATA_100, kind="datasets")
        repo.put({"data/train-00000-of-00001.parquet": as_parquet(data_100())})
        opened = open_data(DATA_100, hub.settings())
        assert opened.name == f"{DATA_100}@{repo.branches['main']}" and not opened.problems
        assert opened.how == f"Built-in column mapping of {DATA_100}."
        other = open_data(opened.name, hub.settings("another computer"))
        assert other.digest == opened.digest and other.name == opened.name
        for spec in ("ann/none", "hf:ann/none"):
            with pytest.raises(HubError, match="There is no dataset ann/none on the Hub") as caught:
                open_data(spec, hub.settings())
            assert ("There is no folder 'ann/none'" in caught.value.message) == (spec == "ann/none")

"""The one door to examples: what each spelling opens."""

from pathlib import Path

import pytest
from hub_parts import running_hub
from made_tables import DATA_100, as_parquet, data_100
from PIL import Image

from rewardharness.data import opening
from rewardharness.data.feedback import append_feedback
from rewardharness.data.fields import FieldMap
from rewardharness.data.opening import open_data, open_described, parse_spec
from rewardharness.data.rows import RowSource
from rewardharness.errors import DataError, InputError
from rewardharness.files import write_text
from rewardharness.hub.errors import HubError
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings.from_env()


def picture(path: Path, shade: int) -> Path:
    Image.new("RGB", (16, 16), (shade, 90, 40)).save(path)
    return path


def test_feedback_is_what_was_said_in_the_app(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(DataError, match="no feedback yet"):
        open_data("feedback", settings)
    images = [ImageInput(name, picture(tmp_path / f"{name}.png", number)) for number, name in enumerate("sab")]
    append_feedback(settings.feedback, Example("x", "make it red", images[0], tuple(images[1:])), "B")
    assert [each.preference for each in open_data("feedback", settings).examples] == ["B"]


def test_the_demonstration_set_is_drawn_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "DEMO_PAIRS", 3)
    told: list[tuple[str, int, int]] = []
    drawn = open_data("demo", settings, progress=lambda *step: told.append(step))
    assert len(drawn.examples) == 3 and told[-1] == ("generating", 3, 3)
    told.clear()
    assert open_data("demo", settings, progress=lambda *step: told.append(step)).digest == drawn.digest
    assert not told


def test_a_folder_is_read(tmp_path: Path, settings: Settings) -> None:
    for number, name in enumerate("sab"):
        picture(tmp_path / f"{name}.png", number)
    write_text(tmp_path / "t.csv", "instruction,source,candidate_a,candidate_b\nmake it red,s.png,a.png,b.png\n")
    dataset = open_data(str(tmp_path), settings)
    assert dataset.name == tmp_path.name and len(dataset.examples) == 1


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
    opened = open_described(str(path), settings)
    assert opened.fields is not None and opened.fields.preference == ("vote_type",)
    assert opened.dataset.problems == (opened.how,) and "preference is vote_type" in opened.how
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
        opened = open_described(DATA_100, hub.settings())
        assert opened.dataset.name == f"{DATA_100}@{repo.branches['main']}" and not opened.dataset.problems
        assert opened.how == f"Built-in column mapping of {DATA_100}."
        other = open_data(opened.dataset.name, hub.settings("another computer"))
        assert other.digest == opened.dataset.digest and other.name == opened.dataset.name
        with pytest.raises(HubError, match="There is no dataset ann/none on the Hub") as caught:
            open_data("ann/none", hub.settings())
        assert "There is no folder 'ann/none'" in caught.value.message
        with pytest.raises(HubError) as caught:
            open_data("hf:ann/none", hub.settings())
        assert "folder" not in caught.value.message

import pytest
from hub_server import HubServer

from rewardharness.data.export import push_dataset, write_lines, write_parquet
from rewardharness.data.rows import RowSource, open_rows
from rewardharness.errors import DataError
from rewardharness.hub.errors import HubError
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

pytest.importorskip("datasets")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
COLUMNS = {"id": "text", "x": "float", "n": "int", "ok": "bool", "names": "texts", "image": "image", "images": "images"}
ROWS = [
    {"id": "a", "x": 0.5, "n": 3, "ok": True, "names": ["p", "q"], "image": ImageInput("secret-model.png", data=PNG)},
    {"id": "b", "images": (ImageInput("i", data=PNG + b"1"), ImageInput("j", data=PNG + b"2"))},
]


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "new" / "t.parquet"
    assert write_parquet(path, COLUMNS, iter(ROWS)) == 2
    first, second = open_rows(RowSource(path=path), Settings.from_env())
    assert (first["id"], first["x"], first["n"], first["ok"], first["names"]) == ("a", 0.5, 3, True, ["p", "q"])
    assert first["image"].path.read_bytes() == PNG and first["images"] is None
    assert [image.path.read_bytes()[-1:] for image in second["images"]] == [b"1", b"2"]
    assert b"secret-model" not in path.read_bytes()
    assert [each.name for each in path.parent.iterdir()] == ["t.parquet"], "nothing is left beside it"


def test_many_rows_are_written_in_pieces(tmp_path):
    rows = ({"id": str(number)} for number in range(500))
    assert write_parquet(tmp_path / "t.parquet", {"id": "text"}, rows) == 500
    assert open_rows(RowSource(path=tmp_path / "t.parquet"), Settings.from_env()).count == 500


def test_lines_with_their_images_beside_them(tmp_path):
    assert write_lines(tmp_path / "t.jsonl", COLUMNS, ROWS) == 2
    first, second = open_rows(RowSource(path=tmp_path / "t.jsonl"), Settings.from_env())
    assert first["image"].path.read_bytes() == PNG and len(second["images"]) == 2


def test_an_image_that_is_gone_writes_nothing(tmp_path):
    gone = [{"id": "a"}, {"id": "b", "image": ImageInput("gone.png", tmp_path / "gone.png")}]
    for write, name in ((write_parquet, "t.parquet"), (write_lines, "t.jsonl")):
        with pytest.raises(DataError, match=r"gone\.png cannot be read"):
            write(tmp_path / "out" / name, COLUMNS, gone)
        assert not (tmp_path / "out" / name).exists()


def test_a_dataset_on_the_hub_is_one_commit_and_keeps_what_is_there(tmp_path, monkeypatch):
    with HubServer() as hub:
        token = hub.login("ada")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        settings = Settings.from_env()
        write_parquet(tmp_path / "t.parquet", COLUMNS, ROWS)
        uploads = {"data/train.parquet": tmp_path / "t.parquet"}
        first = push_dataset("ada/edits", uploads, settings, private=True, message="Edits", token=token)
        (tmp_path / "README.md").write_text("---\ntags: [edits]\n---\n# Edits\n", encoding="utf-8")
        card = {"README.md": tmp_path / "README.md"}
        second = push_dataset("ada/edits", card, settings, private=True, message="Card", token=token)
        assert first != second
        rows = open_rows(RowSource(hub="ada/edits", revision=second), settings, token=token)
        assert [row["id"] for row in rows] == ["a", "b"]
        for name, problem in (("bob/edits", None), ("nothing", "not a valid repository name")):
            with pytest.raises(HubError, match=problem):
                push_dataset(name, uploads, settings, private=True, message="Edits", token=token)

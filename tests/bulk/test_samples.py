import json

import pytest
from bulk_parts import folders, picture, table

from rewardharness.bulk.samples import one_by_one, one_edit, read_samples
from rewardharness.data.fields import FieldMap
from rewardharness.errors import DataError
from rewardharness.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings.from_env()


def test_folders_of_edits(tmp_path, settings):
    (folders(tmp_path, edits=2, candidates=6) / "notes").mkdir()
    dataset = read_samples(str(tmp_path), settings)
    assert [example.id for example in dataset.examples] == ["edit-0", "edit-1"]
    assert all(len(example.candidates) == 6 for example in dataset.examples)
    sources = {example.source_id for example in dataset.examples}
    assert len(sources) == 2, "two pictures, though both files have one name"
    assert any("notes" in problem for problem in dataset.problems)


def test_a_table_and_its_runs(tmp_path, settings):
    dataset = read_samples(str(table(tmp_path)), settings)
    read = [(example.id, example.category, len(example.candidates)) for example in dataset.examples]
    assert read == [("e0", "first", 3), ("e1", "second", 3)]


def test_columns_of_other_names_and_single_candidates(tmp_path, settings):
    for name in ("a.png", "b.png"):
        picture(tmp_path / name, 9)
    row = {"one": "a.png", "say": "make it blue", "two": "b.png"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row), encoding="utf-8")
    columns = FieldMap(source="one", instruction="say", candidates=("two",))
    (example,) = read_samples(str(tmp_path / "t.jsonl"), settings, columns).examples
    assert len(example.candidates) == 1 and example.instruction == "make it blue" and example.id.startswith("row-1-")
    with pytest.raises(DataError, match="no column for source and instruction and candidates"):
        read_samples(str(tmp_path / "t.jsonl"), settings)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instruction": " "}, r"row 1: the column 'instruction' \(instruction\) has no text"),
        ({"source": None}, r"row 1: the column 'source' \(source\) is empty"),
        ({"candidates": []}, "row 1"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path, settings, change, said):
    lines = (table(tmp_path) / "candidates.jsonl").read_text(encoding="utf-8").splitlines()
    broken = [json.dumps({**json.loads(lines[0]), **change}), *lines[1:]]
    (tmp_path / "candidates.jsonl").write_text("\n".join(broken), encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        read_samples(str(tmp_path), settings)
    assert "--skip-bad-rows" in caught.value.next_step
    dataset = read_samples(str(tmp_path), settings, skip_bad_rows=True)
    assert len(dataset.examples) == len(lines) - 1 and [each.place for each in dataset.skipped] == ["row 1"]
    assert one_by_one(dataset).skipped == dataset.skipped


def test_one_edit_in_one_folder(tmp_path):
    source = picture(tmp_path / "source.png", 0)
    for number in range(7):
        picture(tmp_path / f"{number}.png", 30 * number)
    (example,) = one_edit(tmp_path, source, "make it blue").examples
    assert [image.name for image in example.candidates] == [f"{number}.png" for number in range(7)]
    with pytest.raises(DataError, match="does not exist"):
        one_edit(tmp_path, tmp_path / "no.png", "x")


def test_every_candidate_an_edit_of_its_own(tmp_path, settings):
    singles = one_by_one(read_samples(str(table(tmp_path)), settings))
    assert len(singles.examples) == 6 and len({example.id for example in singles.examples}) == 6
    assert all(len(example.candidates) == 1 for example in singles.examples)


def test_nothing_there(tmp_path, settings):
    with pytest.raises(DataError, match="neither"):
        read_samples(str(tmp_path), settings)
    with pytest.raises(DataError, match="does not exist"):
        read_samples("nowhere", settings)
    folders(tmp_path, edits=1)
    (tmp_path / "edit-0" / "source.png").unlink()
    with pytest.raises(DataError, match="0 images called source"):
        read_samples(str(tmp_path), settings)


def test_references_of_one_edit_are_no_candidates(tmp_path):
    source, second, third = (picture(tmp_path / name, 0) for name in ("before.png", "b.png", "c.png"))
    for number in range(3):
        picture(tmp_path / f"{number}.png", 30 * number)
    (example,) = one_edit(tmp_path, source, "like image 2", [third, second]).examples
    assert [image.path for image in example.sources] == [source, third, second]
    assert len(example.candidates) == 3
    with pytest.raises(DataError, match=r"The reference .*no.png does not exist"):
        one_edit(tmp_path, source, "x", [tmp_path / "no.png"])


def test_a_folder_per_edit_may_have_references(tmp_path, settings):
    folders(tmp_path, edits=1)
    folder = tmp_path / "edit-0"
    before = len(read_samples(str(tmp_path), settings).examples[0].candidates)
    for name in ("reference_2.png", "reference_3.png"):
        picture(folder / name, 7)
    (example,) = read_samples(str(tmp_path), settings).examples
    assert [image.name for image in example.references] == ["reference_2.png", "reference_3.png"]
    assert len(example.candidates) == before
    singles = one_by_one(read_samples(str(tmp_path), settings)).examples
    assert {single.references for single in singles} == {example.references}
    (folder / "reference_2.png").unlink()
    with pytest.raises(DataError, match="edit-0 has the references reference_3"):
        read_samples(str(tmp_path), settings)


def test_a_table_of_samples_may_have_references(tmp_path, settings):
    lines = (table(tmp_path) / "candidates.jsonl").read_text(encoding="utf-8").splitlines()
    picture(tmp_path / "second.png", 9)
    changed = [json.dumps({**json.loads(lines[0]), "references": ["second.png"]}), *lines[1:]]
    (tmp_path / "candidates.jsonl").write_text("\n".join(changed), encoding="utf-8")
    first, *others = read_samples(str(tmp_path), settings).examples
    assert [image.name for image in first.references] == ["second.png"]
    assert all(other.references == () for other in others)

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rewardharness import files
from rewardharness.data.folder import read_folder
from rewardharness.data.votes import append_feedback, withdraw_feedback
from rewardharness.errors import DataError, InputError
from rewardharness.schema import Example, ImageInput

PNG = b"\x89PNG\r\n\x1a\n"


def judged(*names: str, instruction: str = "Add a cat") -> Example:
    images = [ImageInput(f"{name}.upload", data=PNG + name.encode()) for name in names]
    return Example("whatever", instruction, images[0], tuple(images[1:]), preference="A")


def test_feedback_is_read_back_with_the_exact_images(tmp_path: Path):
    key = append_feedback(tmp_path, judged("s", "a", "b"), "B", context={"judge": "measured", "preference": "A"})
    (example,) = read_folder(tmp_path).examples
    assert (example.id, example.preference, example.label_kind) == (key, "B", "feedback")
    path = example.candidates[1].path
    assert path is not None and path.read_bytes() == PNG + b"b" and path.name == f"{files.sha256(PNG + b'b')}.png"
    text = (tmp_path / "pairs.jsonl").read_text(encoding="utf-8")
    assert json.loads(text)["context"] == {"judge": "measured", "preference": "A"} and ".upload" not in text
    (tmp_path / "pairs.jsonl").unlink()
    with pytest.raises(DataError, match="no feedback yet"):
        read_folder(tmp_path)


def test_groups_have_a_best_candidate(tmp_path: Path):
    append_feedback(tmp_path, judged("s", "a", "b", "c"), "C")
    append_feedback(tmp_path, judged("s", "a", "b"), "tie")
    assert [each.preference for each in read_folder(tmp_path).examples] == ["tie", "C"]
    assert len(list((tmp_path / "images").iterdir())) == 4


def test_a_later_judgment_of_the_same_images_counts(tmp_path: Path):
    first = append_feedback(tmp_path, judged("s", "a", "b"), "A")
    other = append_feedback(tmp_path, judged("s", "a", "b", instruction="Add a dog"), "A")
    again = append_feedback(tmp_path, judged("s", "b", "a"), "A")
    assert first == again != other
    examples = {each.id: each for each in read_folder(tmp_path).examples}
    assert set(examples) == {first, other}
    winner = examples[first].candidates[0].path
    assert winner is not None and winner.read_bytes() == PNG + b"b"
    assert len((tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_a_torn_line_loses_nothing_else(tmp_path: Path):
    append_feedback(tmp_path, judged("s", "a", "b"), "A")
    with (tmp_path / "pairs.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "half')
    append_feedback(tmp_path, judged("s", "a", "c"), "B")
    data = read_folder(tmp_path)
    assert [each.preference for each in data.examples] == ["A", "B"]
    assert "ignored 1 line truncated by a crash" in data.problems[0]


def test_nothing_is_stored_when_the_feedback_makes_no_sense(tmp_path: Path):
    pair = judged("s", "a", "b")
    for example, preference, context in (
        (pair, "C", {}),
        (pair, "", {}),
        (judged("s", "a", "b", "c"), "tie", {}),
        (judged("s", "a"), "A", {}),
        (judged("s", *"abcde"), "A", {}),
        (replace(pair, instruction=" "), "A", {}),
        (replace(pair, instruction="\ud800"), "A", {}),
        (pair, "A", {"not json": {1, 2}}),
        (pair, "A", {"not json": float("nan")}),
    ):
        with pytest.raises(InputError) as caught:
            append_feedback(tmp_path, example, preference, context=context)
        assert caught.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path):
    gone = replace(judged("s", "a", "b"), source=ImageInput("holiday.jpg", path=tmp_path / "gone.jpg"))
    with pytest.raises(DataError, match=r"holiday\.jpg cannot be read"):
        append_feedback(tmp_path / "feedback", gone, "A")
    with pytest.raises(DataError, match="is empty"):
        append_feedback(tmp_path / "feedback", replace(gone, source=ImageInput("x", data=b"")), "A")
    assert not (tmp_path / "feedback").exists()


def test_a_torn_image_is_written_again(tmp_path: Path):
    append_feedback(tmp_path, judged("s", "a", "b"), "A")
    image = next((tmp_path / "images").iterdir())
    whole = image.read_bytes()
    image.write_bytes(whole[:3])
    append_feedback(tmp_path, judged("s", "a", "b"), "B")
    assert image.read_bytes() == whole


@pytest.mark.parametrize(
    ("data", "ending"),
    [(b"\xff\xd8\xff\xe0", "jpg"), (b"RIFF1234WEBPVP8 ", "webp"), (b"GIF89a", "gif"), (b"../../x", "img")],
)
def test_endings_come_from_the_bytes(tmp_path: Path, data: bytes, ending: str):
    example = replace(judged("s", "a", "b"), source=ImageInput("../../evil.sh", data=data))
    append_feedback(tmp_path, example, "A")
    assert (tmp_path / "images" / f"{files.sha256(data)}.{ending}").is_file()


def test_references_are_stored_and_tell_rows_apart(tmp_path: Path) -> None:
    example, further = judged("s", "a", "b"), judged("t", "u").images
    several = ((), further[:1], further, further[::-1])
    assert len({append_feedback(tmp_path, replace(example, references=each), "A") for each in several}) == 4
    stored = read_folder(tmp_path).examples[2]
    assert [image.path.read_bytes()[-1:] for image in stored.images if image.path] == [b"s", b"t", b"u", b"a", b"b"]
    group = replace(judged("s", "a", "b", "c"), references=further)
    append_feedback(tmp_path, group, "C")
    stored = read_folder(tmp_path).examples[-1]
    assert (len(stored.references), stored.preference) == (2, "C")


def test_a_withdrawn_vote_leaves_the_one_before_it(tmp_path: Path):
    def read() -> dict[str, str | None]:
        return {each.instruction: each.preference for each in read_folder(tmp_path).examples}

    append_feedback(tmp_path, judged("s", "a", "b", "c"), "C", vote="group")
    append_feedback(tmp_path, judged("s", "a", "b", instruction="keep"), "A", vote="1")
    append_feedback(tmp_path, judged("s", "a", "b", instruction="keep"), "B", vote="2")
    append_feedback(tmp_path, judged("s", "a", "b", instruction="once"), "tie", vote="3")
    before = (tmp_path / "pairs.jsonl").read_bytes()
    for vote in ("group", "2", "3", "3", "none"):
        withdraw_feedback(tmp_path, vote)
    assert read() == {"keep": "A"} and (tmp_path / "pairs.jsonl").read_bytes().startswith(before)
    append_feedback(tmp_path, judged("s", "a", "b", instruction="once"), "B", vote="4")
    assert read() == {"keep": "A", "once": "B"}
    withdraw_feedback(tmp_path, "1")  # a later vote on the same images stays
    assert read() == {"once": "B"}


def test_editors_are_stored_with_their_candidates(tmp_path: Path):
    example = judged("s", "a", "b")
    edits = tuple(replace(image, editor=f"editor {image.name[0]}") for image in example.candidate_images)
    append_feedback(tmp_path / "lines", replace(example, candidates=edits), "B")
    table = "instruction,source,candidate_a,candidate_b,preference,editor_a,editor_b\nAdd,s.png,a.png,b.png,A,x,\n"
    files.write_text(tmp_path / "table" / "pairs.csv", table)
    for name, named in (("lines", ["editor a", "editor b"]), ("table", ["x", ""])):
        dataset = read_folder(tmp_path / name)
        assert [image.editor for image in dataset.examples[0].candidate_images] == named
        assert not any("unused" in problem for problem in dataset.problems)

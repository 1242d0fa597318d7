"""Ranked text responses: JSON files of prompts, rows with texts, and rows with videos."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_tables import picture

from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset, split
from rewardharness.data.values import read_data
from rewardharness.data.votes import append_feedback
from rewardharness.errors import DataError, InputError
from rewardharness.schema import Example, FramesInput, ImageInput, TextInput
from rewardharness.settings import Settings
from rewardharness.task import TEXT, VIDEO_EDIT


def prompt(name: str, *ranks: Any, key: str = "rank", **more: Any) -> dict[str, Any]:
    candidates = [
        {"candidate_id": f"c{place}", "text": f"{name} text {place}", "source": "model-x", "metadata": {key: rank}}
        for place, rank in enumerate(ranks)
    ]
    return {"prompt_id": name, "prompt": f"Write {name}.", "candidates": candidates, **more}


def write(folder: Path, *prompts: Any) -> str:
    path = folder / "ranked.json"
    path.write_text(json.dumps({"prompts": prompts}), encoding="utf-8")
    return str(path)


def winner(example: Example) -> str:
    """The text that the label prefers."""
    candidate = example.candidates["AB".index(str(example.preference))]
    assert isinstance(candidate, TextInput)
    return candidate.text


def test_all_pairs_are_labeled_by_rank(tmp_path: Path, settings: Settings) -> None:
    dataset = open_data(write(tmp_path, prompt("p", 3, 1, 2, 2)), settings)
    assert dataset.task is TEXT
    preferred = {frozenset(each.id.split("/")[1:]): each for each in dataset.examples}
    assert len(preferred) == 6
    assert winner(preferred[frozenset({"c0", "c1"})]) == "p text 1"
    assert winner(preferred[frozenset({"c0", "c3"})]) == "p text 3"
    assert preferred[frozenset({"c2", "c3"})].preference == "tie"
    about = {(each.label_kind, each.source_id, each.instruction) for each in dataset.examples}
    assert about == {("rank", "p", "Write p.")}
    assert dataset.problems == () and "model-x" not in str(dataset), "the generator is part of no example"
    [example] = open_data(write(tmp_path, prompt("p", 0.2, 0.9, key="quality")), settings).examples
    assert (winner(example), example.label_kind) == ("p text 1", "quality")
    unranked = open_data(write(tmp_path, prompt("p", 1, 2, None)), settings)
    assert [example.preference for example in unranked.examples].count(None) == 2


def test_places_say_nothing_about_labels(tmp_path: Path, settings: Settings) -> None:
    dataset = open_data(write(tmp_path, *(prompt(f"p{n}", 1, 2, 3, 4, 5, 6) for n in range(20))), settings)
    first = sum(example.preference == "A" for example in dataset.examples)
    assert len(dataset.examples) == 300 and 110 < first < 190
    pool, held = split(dataset.examples, share=0.3, seed=1)
    assert held and not {each.source_id for each in pool} & {each.source_id for each in held}


@pytest.mark.parametrize(
    ("prompts", "problem"),
    [
        ([prompt("p", 1, 2), prompt("p", 1, 2)], "prompts 1, 2: the prompt_id 'p' occurs 2 times."),
        ([prompt("p", 1, "10")], "`rank` of candidate 'c1' of 'p' is '10', not a number"),
        ([prompt("p", 1, True)], "is True, not a number"),
        ([prompt("p", 1)], "'p' has fewer than two `candidates`"),
        ([prompt("p", 1, 2) | {"prompt": " "}], "`prompt` of 'p' is not a text, or is blank"),
        ([{"prompt": "x"}], "prompt 1: `prompt_id` is not a text"),
        (["p"], "prompt 1: `prompt_id` is not a text"),
        ([prompt("p", 1, 2) | {"candidates": [{"candidate_id": "a", "text": " "}] * 2}], "'p/a' is no text, or blank"),
        ([prompt("p", 1, 2) | {"candidates": [{"candidate_id": "a", "text": "t"}] * 2}], "two candidates with the id"),
        ([], "`prompts` is not a list of prompts"),
    ],
)
def test_invalid_prompts_are_one_error(tmp_path: Path, settings: Settings, prompts: list[Any], problem: str) -> None:
    with pytest.raises(DataError) as error:
        open_data(write(tmp_path, *prompts), settings)
    assert problem in error.value.message
    assert error.value.next_step


def test_invalid_prompts_are_skipped_on_request(tmp_path: Path, settings: Settings) -> None:
    path = write(tmp_path, prompt("p", 1, 2), prompt("q", 1, "2"))
    dataset = open_data(path, settings, skip_bad_rows=True)
    assert [example.source_id for example in dataset.examples] == ["p"]
    assert [row.place for row in dataset.skipped] == ["prompt 2"]
    with pytest.raises(DataError, match=r"To skip these rows .* add --skip-bad-rows"):
        open_data(path, settings)


# Rows ----------------------------------------------------------------------------------------------------------------


def rows(folder: Path, settings: Settings, *given: dict[str, Any]) -> Dataset:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    return open_data(str(path), settings)


def test_rows_hold_texts_in_columns(tmp_path: Path, settings: Settings) -> None:
    row = {"prompt": "Say hi.", "response_a": "Hi.", "response_b": "Go away.", "winner": "A"}
    dataset = rows(tmp_path, settings, row, {**row, "response_a": "No.", "response_b": "Hi!", "winner": "B"})
    assert [winner(example) for example in dataset.examples] == ["Hi.", "Hi!"]
    assert len({example.source_id for example in dataset.examples}) == 1
    assert dataset.examples[0].source is None
    listed = {"prompt": "Say hi.", "responses": ["Hi.", "Go.", "Hello!"], "ranks": [2, 3, 1]}
    [example] = read_data([listed], settings).examples
    assert (example.preference, len(example.candidates)) == ("C", 3)


def test_chosen_and_rejected_texts_get_random_places(tmp_path: Path, settings: Settings) -> None:
    given = [{"prompt": f"p{n}", "chosen": f"good {n}", "rejected": f"bad {n}"} for n in range(40)]
    dataset = rows(tmp_path, settings, *given)
    assert all(winner(example).startswith("good") for example in dataset.examples)
    assert len({example.preference for example in dataset.examples}) == 2


def test_an_empty_text_is_a_bad_row(tmp_path: Path, settings: Settings) -> None:
    row = {"prompt": "Say hi.", "response_a": "Hi.", "response_b": "", "winner": "A"}
    with pytest.raises(DataError, match=r"'response_b' .candidate. has no text"):
        rows(tmp_path, settings, row, {**row, "response_b": "x"})


def test_paths_of_images_elsewhere_are_no_texts(tmp_path: Path, settings: Settings) -> None:
    row = {"prompt": "Add a car.", "image_a": "/data/a.png", "image_b": "/data/b.png", "winner": "A"}
    with pytest.raises(DataError, match=r"'image_a' .candidates. has no images|no column for the field 'source'"):
        rows(tmp_path, settings, row)


@pytest.mark.parametrize("nested", [False, True])
def test_rows_hold_videos_as_lists_of_images(tmp_path: Path, settings: Settings, nested: bool) -> None:
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    videos = [["1.png", "2.png"], ["3.png", "4.png"]]
    candidates = {"videos": videos} if nested else {"video_a": videos[0], "video_b": videos[1]}
    row = {"source": ["0.png", "5.png"], "instruction": "add a car", **candidates, "preference": "B"}
    dataset = rows(tmp_path, settings, row)
    [example] = dataset.examples
    assert dataset.task is VIDEO_EDIT and isinstance(example.source, FramesInput)
    shown = [each.frames for each in example.candidates if isinstance(each, FramesInput)]
    assert [[frame.name for frame in frames] for frames in shown] == videos
    assert len(example.images) == len(example.titles) == 6


def test_feedback_on_texts_is_refused(tmp_path: Path) -> None:
    example = Example("e", "Say hi.", None, (TextInput("a", "Hi."), TextInput("b", "Go.")))
    with pytest.raises(InputError, match="Feedback on text responses"):
        append_feedback(tmp_path, example, "A")


def test_videos_in_memory(settings: Settings) -> None:
    frames = [picture(number) for number in range(4)]
    row = {"source": frames[0], "instruction": "let it rain", "videos": [frames[:2], frames[2:]], "preference": "A"}
    [example] = read_data([row], settings).examples
    assert isinstance(example.source, ImageInput)
    assert all(isinstance(each, FramesInput) for each in example.candidates)

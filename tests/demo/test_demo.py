import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path

import cv2
import numpy as np
import pytest

from rewardharness.data.folder import read_folder
from rewardharness.demo import dataset as demo
from rewardharness.demo import photos
from rewardharness.demo.dataset import CATEGORIES, make_demo
from rewardharness.demo.folder import in_order
from rewardharness.errors import DataError, InputError, MissingPackageError
from rewardharness.schema import EDIT_KINDS

PAIRS, GROUPS = 20, 2


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "set"
    make_demo(path, pairs=PAIRS, groups=GROUPS, seed=3, ties=True)
    return path


@cache
def pixels(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))
    assert image is not None
    return image.astype(np.float32)


def distance(one: Path | None, two: Path | None) -> float:
    """Mean difference per pixel; infinite for pictures of different sizes."""
    assert one is not None and two is not None
    a, b = pixels(one), pixels(two)
    return float(np.abs(a - b).mean()) if a.shape == b.shape else float("inf")


def test_it_is_a_dataset_with_every_kind_of_label(folder: Path):
    data = read_folder(folder)
    assert data.problems == () and len(data.examples) == PAIRS + GROUPS
    kinds = Counter(example.label_kind.removeprefix("demo_") for example in data.examples)
    assert set(kinds) == {*demo._ROLES, "tie", "group"} and kinds["group"] == GROUPS
    assert {example.category for example in data.examples} == set(CATEGORIES) <= set(EDIT_KINDS)
    assert len(CATEGORIES) >= 12


def test_the_better_candidate_stands_everywhere_equally_often(folder: Path):
    examples = read_folder(folder).examples
    pairs = [example for example in examples if len(example.candidates) == 2]
    places = Counter(example.preference for example in pairs)
    assert abs(places["A"] - places["B"]) == (PAIRS - places["tie"]) % 2
    for kind in {example.label_kind for example in pairs} - {"demo_tie"}:
        of_kind = Counter(example.preference for example in pairs if example.label_kind == kind)
        assert abs(of_kind["A"] - of_kind["B"]) <= 2, kind
    assert Counter(len(example.candidates) for example in examples)[3] == GROUPS // 2


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path):
    for name in ("once", "again"):
        make_demo(tmp_path / name, pairs=4, groups=1, seed=3, ties=True)
    again = read_folder(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "once")
    assert again.digest == read_folder(tmp_path / "once").digest
    make_demo(tmp_path / "other", pairs=3, groups=0, seed=4)
    other = {example.instruction for example in read_folder(tmp_path / "other").examples}
    assert other != {example.instruction for example in again.examples[:3]}


@pytest.mark.slow
def test_several_processes_draw_the_same_bytes(folder: Path, tmp_path: Path):
    make_demo(tmp_path / "again", pairs=PAIRS, groups=GROUPS, seed=3, ties=True, workers=2)
    assert contents(tmp_path / "again") == contents(folder)


def process_of(killed: Path, number: int) -> tuple[int, int]:
    if number == 20 and multiprocessing.parent_process() is not None:
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number, os.getpid()


def test_the_work_of_a_killed_process_is_done_here(tmp_path: Path):
    killed = tmp_path / "killed"
    done = list(in_order(partial(process_of, killed), range(32), workers=2))
    assert [number for number, _ in done] == list(range(32))
    assert killed.exists() and done[20][1] == os.getpid()


def test_pictures_are_what_the_labels_say(folder: Path):
    for example in read_folder(folder).examples:
        source, paths = example.source.path, [image.path for image in example.candidates]
        if example.label_kind == "demo_tie":
            assert distance(*paths) < 12, example.id
            continue
        best = paths.pop("ABCD".index(example.preference or ""))
        if example.category == "keep":
            assert distance(source, best) < 8, example.id
        else:
            # A small thing changes few pixels; most of all are noise of the encoder.
            assert (np.abs(pixels(best) - pixels(source)).max(axis=2) > 60).mean() > 0.0005, example.id
        if example.label_kind == "demo_no_edit":
            assert distance(source, paths[0]) < 8, example.id
        elif len(paths) == 1:
            assert distance(best, paths[0]) > 0.3, example.id


def test_rows_say_what_was_drawn_and_by_what(folder: Path):
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        assert row["made_by"] == {"made_by": "rewardharness demo", "version": "1", "seed": 3}
        assert row["candidate_notes"]["AB".find(row["preference"])].startswith("the edit as asked")
        names = " ".join(row[name] for name in ("source", "candidate_a", "candidate_b"))
        assert not any(word in names for word in ("right", "wrong", "best", "worse"))


def test_examples_of_one_source_share_their_source_file(folder: Path):
    files: dict[str, set[str]] = {}
    for example in read_folder(folder).examples:
        files.setdefault(example.source_id, set()).add(example.source.name)
    assert all(len(names) == 1 for names in files.values())
    assert len(files) == len({name for names in files.values() for name in names})


def test_an_interrupted_run_is_unfinished_and_can_be_run_again(tmp_path: Path):
    def interrupt(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path, pairs=2, groups=0, progress=interrupt)
    with pytest.raises(DataError, match="incomplete demo dataset"):
        read_folder(tmp_path)
    seen: list[tuple[int, int]] = []
    make_demo(tmp_path, pairs=2, groups=0, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    make_demo(tmp_path.parent / "whole", pairs=2, groups=0)
    assert contents(tmp_path) == contents(tmp_path.parent / "whole")


def test_a_set_that_is_there_is_not_drawn_again(tmp_path: Path):
    make_demo(tmp_path, pairs=2, groups=1)
    first = read_folder(tmp_path)
    seen: list[int] = []
    make_demo(tmp_path, pairs=2, groups=1, progress=lambda done, total: seen.append(done))
    again = read_folder(tmp_path)
    assert again.digest == first.digest and not seen
    before = contents(tmp_path)
    for other in ({"pairs": 3, "groups": 1}, {"pairs": 2, "groups": 1, "seed": 1}):
        with pytest.raises(InputError, match=r"a different demo dataset \(pairs 2, groups 1, seed 0\)") as caught:
            make_demo(tmp_path, **other)
        assert "delete this one" in caught.value.next_step
    assert contents(tmp_path) == before
    (tmp_path / "images" / "p0000_a.jpg").write_bytes(b"changed")
    with pytest.raises(InputError, match="but it was modified"):
        make_demo(tmp_path, pairs=2, groups=1)
    make_demo(tmp_path, pairs=2, groups=1, replace=True)
    assert read_folder(tmp_path).digest == first.digest
    assert contents(tmp_path) == before


KILLED = """
import os, signal, sys
from functools import partial
from pathlib import Path
from rewardharness import files
from rewardharness.demo import dataset as demo
write = files.write_text
def dying(path, text):
    write(path, text)
    if path.name == "pairs.jsonl":
        os.kill(os.getpid(), signal.SIGKILL)
files.write_text = dying
for folder in sys.argv[1:]:
    child = os.fork()
    if not child:
        demo.make_demo(Path(folder), pairs=1, groups=1, seed=7, replace=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_set_killed_between_its_tables_is_not_taken_for_whole(tmp_path: Path):
    older, new, whole = (tmp_path / name for name in ("older", "new", "whole"))
    make_demo(older, pairs=1, groups=0)
    done = subprocess.run([sys.executable, "-c", KILLED, older, new], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(-signal.SIGKILL)] * 2
    make_demo(whole, pairs=1, groups=1, seed=7)
    for killed in (older, new):
        assert (killed / "pairs.jsonl").is_file() and not (killed / "made_by.json").exists()
        with pytest.raises(DataError, match="incomplete demo dataset"):
            read_folder(killed)
        make_demo(killed, pairs=1, groups=1, seed=7)
        assert contents(killed) == contents(whole)


def test_other_peoples_folders_are_left_alone(tmp_path: Path):
    (tmp_path / "made_by.json").write_text('{"made_by": "somebody"}', encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="nothing was written"):
        make_demo(tmp_path, pairs=1, groups=0)
    with pytest.raises(InputError, match="is a file"):
        make_demo(tmp_path / "made_by.json", pairs=1, groups=0)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("numbers", [{"pairs": 0, "groups": 0}, {"pairs": -1}, {"groups": -1}, {"seed": -1}])
def test_numbers_that_make_no_set_are_refused(tmp_path: Path, numbers: dict[str, int]):
    with pytest.raises(InputError, match="are not valid for a demo dataset"):
        make_demo(tmp_path / "x", **numbers)
    assert not (tmp_path / "x").exists()


def test_without_scikit_image_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    photos.photo.cache_clear()
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingPackageError, match="scikit-image") as caught:
        make_demo(tmp_path / "x", pairs=1, groups=0)
    assert "[data]" in caught.value.next_step
    assert not (tmp_path / "x").exists()


def test_a_large_plan_has_no_repeated_edit():
    items = [*demo._plan_pairs(200, 20, 0, False)]
    assert len({(item.case.key, item.case.instruction) for item in items}) == 200
    assert Counter(role for item in items for role in item.roles if role != "right") == dict.fromkeys(demo._ROLES, 40)
    assert min(Counter(item.case.category for item in items).values()) >= 5

"""Data in the exact columns of each benchmark, with known truth.

The quality of an edit stands in its red channel, so a judge that looks can know it, and one that does not cannot.
Images are few and tiny; instructions tell rows apart.
"""

import io
import json
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image

from rewardharness.files import sha256, write_bytes
from rewardharness.judging.interface import unjudged
from rewardharness.judging.judge import Judge, ranked
from rewardharness.library.store import Library
from rewardharness.measure.images import load_picture
from rewardharness.schema import SCALE, Example, Failure, ImageInput, Judgment, Scores

LEVELS = 20
FAILED = Failure("timeout", "No answer.")
"""Different qualities, from 0 to 1."""
EDITORS = ("Alpha", "Beta", "Gamma")
Rows = Iterator[dict[str, Any]]


@cache
def png(red: int, green: int = 0) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (red, green, 90)).save(stream, "PNG")
    return stream.getvalue()


def edit(level: int) -> bytes:
    """An edit of a quality."""
    return png(round(255 * level / LEVELS))


def source(number: int) -> bytes:
    return png(0, 40 + number % 8)


def levels(chance: random.Random, count: int, *, low: int = 0) -> list[int]:
    """Different qualities."""
    return chance.sample(range(low, LEVELS + 1), count)


class Pixels(Judge):
    """A judge that sees the quality of an edit; may prefer the worse one, or fail on some examples."""

    name, protocol, revision = "pixels", "looking", "1"

    def __init__(self, *, ties: bool = False, upside_down: bool = False, fails: Collection[str] = ()) -> None:
        self.ties, self._upside_down, self._fails = ties, upside_down, frozenset(fails)
        self.name = f"pixels{' upside down' if upside_down else ''}{' failing' if fails else ''}"
        self.seen: list[Example] = []

    async def judge(self, example: Example, library: Library) -> Judgment:
        self.seen.append(example)
        if example.id in self._fails:
            return unjudged(example, self, library, FAILED)
        named = zip(example.labels, example.candidates, strict=True)
        seen = {label: quality(image, self._upside_down) for label, image in named}
        judgment, (low, high) = ranked(example, self, library, seen, seen, ties=self.ties), SCALE
        grades = {label: (low + value * (high - low), value) for label, value in seen.items()}
        return replace(
            judgment, scores={label: Scores(grade, grade, value) for label, (grade, value) in grades.items()}
        )

    async def close(self) -> None:
        pass


def quality(image: ImageInput, upside_down: bool = False) -> float:
    value = seen(image.data or (image.path.read_bytes() if image.path else b""))
    return 1 - value if upside_down else value


@cache
def seen(data: bytes) -> float:
    return float(load_picture(ImageInput("edit", data=data)).pixels[0, 0, 0]) / 255


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A table: Parquet with its images in it, as `datasets` writes them, or JSON with its images beside it."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)

    def kept(value: Any) -> Any:
        if isinstance(value, bytes) and path.suffix == ".parquet":
            return {"bytes": value, "path": None}
        if isinstance(value, bytes):
            name = f"images/{sha256(value)[:12]}.png"
            if not (path.parent / name).exists():
                write_bytes(path.parent / name, value)
            return name
        return [kept(each) for each in value] if isinstance(value, list) else value

    made = [{name: kept(each) for name, each in row.items()} for row in rows]
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(made), path)
    else:
        text = "".join(json.dumps(row) + "\n" for row in made) if path.suffix == ".jsonl" else json.dumps(made)
        path.write_text(text, encoding="utf-8")
    return path


def editreward_rows(k: int, groups: int, seed: int = 0) -> list[dict[str, Any]]:
    """EditReward-Bench of TIGER: a row is a pair of a group of K."""
    chance = random.Random(f"{k}:{seed}")
    rows = []
    for number in range(groups):
        seen = levels(chance, k)
        if k == 2 and number % 5 == 0:
            seen[1] = seen[0]
        for place, (first, second) in enumerate(combinations(range(k), 2)):
            a, b = "ABCD"[first], "ABCD"[second]
            better = "=" if seen[first] == seen[second] else ">"
            row = {"id": f"{number:05d}k{k}_{place}", "instruction": f"make edit {number} of {k}"}
            row |= {"source_image": source(number), "dataset": f"{k}pair", "num_candidates": k}
            row |= {"ranking": f"{a}{better}{b}" if seen[first] >= seen[second] else f"{b}>{a}"}
            row["comparison_type"] = f"{a}vs{b}"
            for side, which in ((1, first), (2, second)):
                row |= {f"candidate_{side}": edit(seen[which]), f"score_{side}": float(seen[which])}
                row[f"model_{side}"] = EDITORS[which % 3]
            rows.append(row)
    return rows


def editreward_bench(
    folder: Path, sizes: tuple[int, int, int] = (20, 6, 5), **changed: Sequence[dict[str, Any]]
) -> Path:
    """A copy with as many groups of each size. `changed`: rows to write instead, as in `k3=rows`."""
    for k, groups in zip((2, 3, 4), sizes, strict=True):
        rows = changed.get(f"k{k}", editreward_rows(k, groups))
        write_rows(folder / f"{k}pair" / "train-00000-of-00001.parquet", rows)
    return folder


def drawn(n: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of pairs, and the different qualities of their candidates."""
    chance = random.Random(seed)
    return ((number, *levels(chance, 2)) for number in range(n))


def _editscore(n: int) -> Rows:
    for number, *pair in drawn(n, 1):
        row = {"key": [f"{number}_x", f"{number}_y"], "instruction": f"do {number}", "input_image": source(number)}
        row |= {"output_images": [edit(max(pair)), edit(min(pair))]}
        row["task_type"] = ("subject_add", "text_change", "style_change", "extract")[number % 4]
        yield row | {"dimension": ("prompt_following", "consistency", "overall")[number % 3]}


def _genai(n: int) -> Rows:
    chance = random.Random(2)
    for number in range(n):
        vote = ("leftvote", "rightvote", "tievote", "bothbad_vote")[number % 4]
        worse, better = sorted(levels(chance, 2))
        same = chance.randrange(11, LEVELS + 1) if vote == "tievote" else chance.randrange(0, 9)
        left, right = (better, worse) if vote == "leftvote" else (worse, better)
        if number % 4 > 1:
            left = right = same
        elif max(left, right) < 10:
            left, right = left + 10, right + 10
        row = {"source_prompt": "a scene", "target_prompt": "another scene", "instruct_prompt": f"change it {number}"}
        row |= {"source_image": source(number), "left_model": EDITORS[0], "left_output_image": edit(left)}
        yield row | {"right_model": EDITORS[1], "right_output_image": edit(right), "vote_type": vote}


def _aurora_pairs(n: int) -> Rows:
    for number, first, other in drawn(n, 3):
        second = other if number % 3 else first
        row = {"prompt": f"move {number}", "path_src": source(number), "path1": edit(first), "path2": edit(second)}
        yield {**row, "model1_dim1_score": first / LEVELS, "model2_dim1_score": second / LEVELS}


def _aurora_ratings(n: int) -> Rows:
    for number, level in enumerate(random.Random(4).choices(range(LEVELS + 1), k=n)):
        row = {"prompt": f"move {number // 3}", "input": source(number // 3), "gen": edit(level)}
        yield row | {"score": level / LEVELS, "model": EDITORS[number % 3]}


def imagenhub(folder: Path, items: int = 9) -> Path:
    """A table of edits, and what three raters said of them: O in {0, .5, 1}, the same for all three."""
    rows, lines = [], ["\t".join(["uid", *EDITORS])]
    for number in range(items):
        name, steps = f"sample_{number}.jpg", [(number + place) % 3 for place in range(3)]
        lines.append("\t".join([name, *(("[0, 0]", "[0.5,0.5]", "[1, 1]")[step] for step in steps)]))
        for editor, step in zip(EDITORS, steps, strict=True):
            row = {"filename": name, "model": editor, "instruction": f"turn {number}", "input_path": source(number)}
            rows.append(row | {"output_path": edit(step * LEVELS // 2), "score": step / 2})
    write_rows(folder / "valid_imagenhub_processed.json", rows)
    (folder / "ratings").mkdir()
    for rater in (1, 2, 3):
        (folder / "ratings" / f"Text-Guided_IE_rater{rater}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _mmrb2(n: int) -> Rows:
    for number, first, second in drawn(n, 5):
        row: dict[str, Any] = {"pair_id": f"emu-edit_{number}", "prompt_source": "emu-edit", "prompt_metadata": "{}"}
        row["prompt_text"] = f"<image_1> paint it {number}{' like <image_2>' if number == 7 else ''}"
        row["prompt_images"] = [source(number + more) for more in range({7: 2, 8: 5}.get(number, 1))]
        for letter, level, editor in (("a", first, EDITORS[0]), ("b", second, EDITORS[1])):
            response = {"text": "<image_1>", "images": [edit(level)], "model": editor}
            row |= {f"response_{letter}_{name}": value for name, value in response.items()}
        yield {**row, "chosen": "A" if first > second else "B", "human_annotations": ""}


def _compass(n: int) -> Rows:
    for number, *pair in drawn(n, 6):
        row = {"source_image": source(number), "prompt": f"draw {number}", "winner": edit(max(pair))}
        row |= {"loser": edit(min(pair) if number % 5 else max(pair)), "label": "preference" if number % 5 else "tie"}
        yield row | {"dimension": ("IA", "VC", "VQ")[number % 3]}


def _vcreward(n: int) -> Rows:
    for number, first, second in drawn(n, 7):
        row = {"key": f"vc{number}", "instruction": f"keep {number}", "source_image": source(number)}
        row |= {"edited_images": [edit(first), edit(second)], "winner": "Image A" if first > second else "Image B"}
        yield row | {"task": ("subject_add", "color_alter")[number % 2]}


def _rated_edits(n: int) -> Rows:
    for number, level in enumerate(random.Random(8).choices(range(LEVELS + 1), k=n)):
        row = {"prompt": f"edit {number}", "source_image": source(number), "edited_image": edit(level)}
        yield row | {"score": 1 + 4 * level / LEVELS, "edit_type": "add", "model": EDITORS[number % 2]}


def _maker(file: str, rows: Callable[[int], Rows], count: int, *, alone: bool = False) -> Callable[..., Path]:
    """Return a function that writes the data into a folder; it returns the folder, or the table if it is alone."""

    def make(folder: Path, n: int = count) -> Path:
        path = write_rows(folder / file, list(rows(n)))
        return path if alone else folder

    return make


MAKERS: dict[str, Callable[..., Path]] = {
    "editreward-bench": editreward_bench,
    "editscore-bench": _maker("train.parquet", _editscore, 24, alone=True),
    "genai-bench": _maker("test_v1.parquet", _genai, 40, alone=True),
    "aurora-bench-pairs": _maker("valid_aurora_human_ratings_pairwise.json", _aurora_pairs, 30),
    "aurora-bench-ratings": _maker("valid_aurora_human_ratings_pointwise.json", _aurora_ratings, 30),
    "imagenhub": imagenhub,
    "mmrb2-editing": _maker("edit/test-00000-of-00001.parquet", _mmrb2, 20),
    "editreward-compass": _maker("reward_eval.json", _compass, 30),
    "vcreward-bench": _maker("metadata.jsonl", _vcreward, 20),
    "rated-edits": _maker("edits.jsonl", _rated_edits, 24, alone=True),
}
"""Makes the data of each task that comes with the package; returns what --source names."""

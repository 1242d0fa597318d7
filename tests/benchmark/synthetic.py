"""Data in the exact columns of each benchmark, with known truth.

The quality of an edit stands in its red channel, so a judge that looks can know it, and one that does not cannot.
Images are few and tiny; instructions tell rows apart.
"""

import io
import json
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image

from rewardharness.files import sha256, write_bytes
from rewardharness.judging.baselines import ranked
from rewardharness.judging.interface import unjudged
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.measure.images import load_picture
from rewardharness.schema import SCALE, Example, Failure, ImageInput, Judgment, Scores

LEVELS = 20
FAILED = Failure("timeout", "No answer.")
"""Different qualities, from 0 to 1."""
EDITORS = ("Alpha", "Beta", "Gamma")


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
        seen = {
            label: quality(image, self._upside_down)
            for label, image in zip(example.labels, example.candidates, strict=True)
        }
        judgment = ranked(example, self, library, seen, seen, ties=self.ties)
        low, high = SCALE
        grade = {label: low + value * (high - low) for label, value in seen.items()}
        scores = {label: Scores(grade[label], grade[label], value) for label, value in seen.items()}
        return Judgment(**{**judgment.__dict__, "scores": scores})

    async def close(self) -> None:
        pass


def quality(image: ImageInput, upside_down: bool = False) -> float:
    value = float(load_picture(image).pixels[0, 0, 0]) / 255
    return 1 - value if upside_down else value


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A table with its images in it, as `datasets` writes them."""
    import pyarrow
    from pyarrow import parquet

    def kept(value: Any) -> Any:
        if isinstance(value, bytes):
            return {"bytes": value, "path": None}
        return [kept(each) for each in value] if isinstance(value, list) else value

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        pyarrow.Table.from_pylist([{name: kept(each) for name, each in row.items()} for row in rows]), path
    )


def write_json(path: Path, rows: Sequence[dict[str, Any]], *, lines: bool = False) -> None:
    """A table with its images beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def named(value: Any) -> Any:
        if isinstance(value, bytes):
            name = f"images/{sha256(value)[:12]}.png"
            if not (path.parent / name).exists():
                write_bytes(path.parent / name, value)
            return name
        return [named(each) for each in value] if isinstance(value, list) else value

    made = [{name: named(each) for name, each in row.items()} for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in made) if lines else json.dumps(made)
    path.write_text(text, encoding="utf-8")


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
            ranking = f"{a}{better}{b}" if seen[first] >= seen[second] else f"{b}>{a}"
            rows.append(
                {
                    "id": f"{number:05d}k{k}_{place}",
                    "instruction": f"make edit {number} of {k}",
                    "source_image": source(number),
                    "candidate_1": edit(seen[first]),
                    "candidate_2": edit(seen[second]),
                    "ranking": ranking,
                    "comparison_type": f"{a}vs{b}",
                    "score_1": float(seen[first]),
                    "score_2": float(seen[second]),
                    "model_1": EDITORS[first % 3],
                    "model_2": EDITORS[second % 3],
                    "dataset": f"{k}pair",
                    "num_candidates": k,
                }
            )
    return rows


def editreward_bench(
    folder: Path, sizes: tuple[int, int, int] = (20, 6, 5), **changed: Sequence[dict[str, Any]]
) -> Path:
    """A copy with as many groups of each size. `changed`: rows to write instead, as in `k3=rows`."""
    for k, groups in zip((2, 3, 4), sizes, strict=True):
        rows = changed.get(f"k{k}", editreward_rows(k, groups))
        write_parquet(folder / f"{k}pair" / "train-00000-of-00001.parquet", rows)
    return folder


def drawn(n: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of pairs, and the different qualities of their candidates."""
    chance = random.Random(seed)
    return ((number, *levels(chance, 2)) for number in range(n))  # type: ignore[misc]


def editscore_bench(folder: Path, n: int = 24) -> Path:
    rows = [
        {
            "key": [f"{number}_x", f"{number}_y"],
            "instruction": f"do {number}",
            "input_image": source(number),
            "output_images": [edit(max(pair)), edit(min(pair))],
            "task_type": ("subject_add", "text_change", "style_change", "extract")[number % 4],
            "dimension": ("prompt_following", "consistency", "overall")[number % 3],
        }
        for number, *pair in drawn(n, 1)
    ]
    write_parquet(folder / "train.parquet", rows)
    return folder / "train.parquet"


def genai_bench(folder: Path, n: int = 40) -> Path:
    chance = random.Random(2)
    rows = []
    for number in range(n):
        vote = ("leftvote", "rightvote", "tievote", "bothbad_vote")[number % 4]
        worse, better = sorted(levels(chance, 2))
        same = chance.randrange(11, LEVELS + 1) if vote == "tievote" else chance.randrange(0, 9)
        left, right = (better, worse) if vote == "leftvote" else (worse, better)
        if number % 4 > 1:
            left = right = same
        elif max(left, right) < 10:
            left, right = left + 10, right + 10
        rows.append(
            {
                "source_prompt": "a scene",
                "target_prompt": "another scene",
                "instruct_prompt": f"change it {number}",
                "source_image": source(number),
                "left_model": EDITORS[0],
                "left_output_image": edit(left),
                "right_model": EDITORS[1],
                "right_output_image": edit(right),
                "vote_type": vote,
            }
        )
    write_parquet(folder / "test_v1.parquet", rows)
    return folder / "test_v1.parquet"


def aurora_pairs(folder: Path, n: int = 30) -> Path:
    rows = []
    for number, first, other in drawn(n, 3):
        second = other if number % 3 else first
        row = {"prompt": f"move {number}", "path_src": source(number), "path1": edit(first), "path2": edit(second)}
        rows.append({**row, "model1_dim1_score": first / LEVELS, "model2_dim1_score": second / LEVELS})
    write_json(folder / "valid_aurora_human_ratings_pairwise.json", rows)
    return folder


def aurora_ratings(folder: Path, n: int = 30) -> Path:
    rows = [
        {
            "prompt": f"move {number // 3}",
            "input": source(number // 3),
            "gen": edit(level),
            "score": level / LEVELS,
            "model": EDITORS[number % 3],
        }
        for number, level in enumerate(random.Random(4).choices(range(LEVELS + 1), k=n))
    ]
    write_json(folder / "valid_aurora_human_ratings_pointwise.json", rows)
    return folder


def imagenhub(folder: Path, items: int = 9) -> Path:
    """A table of edits, and what three raters said of them: O in {0, .5, 1}, the same for all three."""
    rows = []
    cells: dict[str, list[str]] = {}
    for number in range(items):
        name = f"sample_{number}.jpg"
        cells[name] = []
        for place, editor in enumerate(EDITORS):
            step = (number + place) % 3
            cells[name].append(("[0, 0]", "[0.5,0.5]", "[1, 1]")[step])
            rows.append(
                {
                    "filename": name,
                    "model": editor,
                    "instruction": f"turn {number}",
                    "input_path": source(number),
                    "output_path": edit(step * LEVELS // 2),
                    "score": step / 2,
                }
            )
    write_json(folder / "valid_imagenhub_processed.json", rows)
    (folder / "ratings").mkdir()
    table = "\n".join(["\t".join(["uid", *EDITORS]), *("\t".join([name, *said]) for name, said in cells.items())])
    for rater in (1, 2, 3):
        (folder / "ratings" / f"Text-Guided_IE_rater{rater}.tsv").write_text(table + "\n", encoding="utf-8")
    return folder


def mmrb2(folder: Path, n: int = 20) -> Path:
    rows = []
    for number, first, second in drawn(n, 5):
        row = {
            "pair_id": f"emu-edit_{number}",
            "prompt_source": "emu-edit",
            "prompt_text": f"<image_1> paint it {number}{' like <image_2>' if number == 7 else ''}",
            "prompt_images": [source(number + more) for more in range({7: 2, 8: 5}.get(number, 1))],
            "prompt_metadata": "{}",
        }
        for letter, level, editor in (("a", first, EDITORS[0]), ("b", second, EDITORS[1])):
            response = {"text": "<image_1>", "images": [edit(level)], "model": editor}
            row |= {f"response_{letter}_{name}": value for name, value in response.items()}
        rows.append({**row, "chosen": "A" if first > second else "B", "human_annotations": ""})
    write_parquet(folder / "edit" / "test-00000-of-00001.parquet", rows)
    return folder


def compass(folder: Path, n: int = 30) -> Path:
    rows = [
        {
            "source_image": source(number),
            "prompt": f"draw {number}",
            "winner": edit(max(pair)),
            "loser": edit(min(pair) if number % 5 else max(pair)),
            "label": "preference" if number % 5 else "tie",
            "dimension": ("IA", "VC", "VQ")[number % 3],
        }
        for number, *pair in drawn(n, 6)
    ]
    write_json(folder / "reward_eval.json", rows)
    return folder


def vcreward(folder: Path, n: int = 20) -> Path:
    rows = [
        {
            "key": f"vc{number}",
            "instruction": f"keep {number}",
            "source_image": source(number),
            "edited_images": [edit(first), edit(second)],
            "winner": "Image A" if first > second else "Image B",
            "task": ("subject_add", "color_alter")[number % 2],
        }
        for number, first, second in drawn(n, 7)
    ]
    write_json(folder / "metadata.jsonl", rows, lines=True)
    return folder


def rated_edits(folder: Path, n: int = 24) -> Path:
    rows = [
        {
            "prompt": f"edit {number}",
            "source_image": source(number),
            "edited_image": edit(level),
            "score": 1 + 4 * level / LEVELS,
            "edit_type": "add",
            "model": EDITORS[number % 2],
        }
        for number, level in enumerate(random.Random(8).choices(range(LEVELS + 1), k=n))
    ]
    write_json(folder / "edits.jsonl", rows, lines=True)
    return folder / "edits.jsonl"


MAKERS: dict[str, Callable[[Path], Path]] = {
    "editreward-bench": editreward_bench,
    "editscore-bench": editscore_bench,
    "genai-bench": genai_bench,
    "aurora-bench-pairs": aurora_pairs,
    "aurora-bench-ratings": aurora_ratings,
    "imagenhub": imagenhub,
    "mmrb2-editing": mmrb2,
    "editreward-compass": compass,
    "vcreward-bench": vcreward,
    "rated-edits": rated_edits,
}
"""Makes the data of each task that comes with the package; returns what --source names."""

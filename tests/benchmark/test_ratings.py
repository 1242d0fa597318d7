import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark.ratings import STEPS, Cell, Ratings, parse_cell, read_ratings
from rewardharness.errors import DataError

HEADER = "uid\tMagic\tPix"


def write(folder: Path, *tables: str, ending: str = "\n") -> Path:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, 1):
        (folder / f"IE_rater{number}.tsv").write_bytes(table.replace("\n", ending).encode())
    return folder


def mean(ratings: Ratings, editor: str) -> float | None:
    return ratings.summary().mean_overall[editor].mean


GOOD = (
    f"{HEADER}\na.jpg\t[1, 1]\t[0,0]\nb.jpg\t[0.5, 0.5]\t[1,0.5]\nc.jpg\t[0,1]\t[0.5,0.5]\n",
    f"{HEADER}\na.jpg\t[1,0.5]\t[0, 0]\nb.jpg\t[0.5 , 0.5]\t[1, 1]\nc.jpg\t[0, 1]\t[0,0]\n",
    f"{HEADER}\nc.jpg\t[0,0]\t[0.5,0.5]\nb.jpg\t[ 0.5,0.5 ]\t[1,1]\na.jpg\t[1,1]\t[0,1]\n",
)


@pytest.mark.parametrize("header", [f"{HEADER}\tschema_version", f"Schema_Version\t{HEADER}", "uid\tnotes\tMagic\tPix"])
def test_columns_about_the_table_are_no_editors_and_names_need_no_task(tmp_path: Path, header: str) -> None:
    folder = tmp_path / "Text-Guided"
    folder.mkdir()
    values = {"uid": "a.jpg", "Magic": "[1, 1]", "Pix": "[0, 0]"}
    row = "\t".join(values.get(name, "2") for name in header.split("\t"))
    for number in (1, 2):
        (folder / f"rater{number}.tsv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    ratings = read_ratings(folder)
    assert (ratings.task, ratings.editors, ratings.items) == ("Text-Guided", ("Magic", "Pix"), ("a.jpg",))
    assert (mean(ratings, "Magic"), mean(ratings, "Pix")) == (1.0, 0.0) and not ratings.broken


@pytest.mark.parametrize(
    "text",
    [
        *("", "0.5, 0.5", "[0.5]", "[0.5, 0.5, 1]", "[0.5; 0.5]", "[0.5, 0.5", "[[0.5, 0.5]]", "[0.5 0.5]"),
        *("[0.7, 1]", "[2, 1]", "[-1, 1]", "[05, 1]", "[1, nan]", "[a, b]", "[0..5, 1]", "[5e-1, 1]"),
        *("[\uff11, 1]", "[0.5,\n0.5]x", '"[0.5, 0.5]"'),
    ],
)
def test_anything_else_is_no_cell(text: str) -> None:
    assert parse_cell(text) is None


GAPS = st.lists(st.sampled_from(["", " ", "  "]), min_size=4, max_size=4)


@given(st.sampled_from(STEPS), st.sampled_from(STEPS), GAPS, st.sampled_from(["g", ".1f"]))
def test_what_raters_can_give_is_read_back(first: float, second: float, gaps: list[str], form: str) -> None:
    cell = parse_cell(f" [{gaps[0]}{first:{form}}{gaps[1]},{gaps[2]}{second:{form}}{gaps[3]}] ")
    assert cell == Cell(first, second) and cell.overall == math.sqrt(first * second)
    assert parse_cell("[.5,1]") == Cell(0.5, 1)


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader_of_cells(text: str) -> None:
    cell = parse_cell(text)
    assert cell is None or (cell.consistency in STEPS and cell.quality in STEPS)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_three_raters_are_averaged_per_edit(tmp_path: Path, ending: str) -> None:
    ratings = read_ratings(write(tmp_path / "IE", *GOOD, ending=ending))
    assert (ratings.task, ratings.editors, ratings.items) == ("IE", ("Magic", "Pix"), ("a.jpg", "b.jpg", "c.jpg"))
    human = [ratings.human()["Magic", f"{name}.jpg"] for name in "abc"]
    assert human == pytest.approx([(1 + math.sqrt(0.5) + 1) / 3, 0.5, 0])
    assert mean(ratings, "Magic") == pytest.approx(sum(human) / 3) and ratings.broken == ()


def test_broken_cells_are_named_and_their_edits_left_out(tmp_path: Path) -> None:
    broken = GOOD[1].replace("[1, 1]", "[1, 1").replace("c.jpg\t[0, 1]\t[0,0]", "c.jpg\t[0, 1]")
    ratings = read_ratings(write(tmp_path / "IE", GOOD[0], broken, GOOD[2].replace("[0,1]\n", "[0,1]\t[1,1]\n")))
    assert [str(cell) for cell in ratings.broken] == [
        "IE_rater2.tsv, row 3 (b.jpg), column Pix: '[1, 1' is not [SC, PQ]",
        "IE_rater2.tsv, row 4 (c.jpg), column Pix: '' is not [SC, PQ]",
        "IE_rater3.tsv, row 4 (a.jpg), column number 4, which has no editor: '[1,1]' is not [SC, PQ]",
    ]
    assert set(ratings.human()) == {("Magic", item) for item in ratings.items} | {("Pix", "a.jpg")}
    assert mean(ratings, "Pix") == 0
    summary = ratings.summary()
    assert (summary.rated, summary.edits, len(summary.broken)) == (4, 6, 3)
    assert ratings.between_humans()["rater 1 against 3"].editors["Pix"].n == 3
    assert (summary.mean_overall["Pix"].n, summary.mean_overall["Magic"].n) == (1, 3)
    assert summary.between_humans["rater 1 against 3"].n == 6


def test_means_and_agreement_have_intervals_over_items(tmp_path: Path) -> None:
    widths = []
    for name, count in (("few", 12), ("many", 120)):
        summary = synthetic(tmp_path / name, random.Random(3), slips=0.3, count=count).summary()
        for rows in (summary.mean_overall, summary.between_humans):
            spans = [(row.interval, row.mean) for row in rows.values()]
            assert all(span and value and span[0] <= value <= span[1] for span, value in spans) or name == "few"
            widths.append(sum(span[1] - span[0] for span, _ in spans if span))
    assert 0 < widths[2] < widths[0] and 0 < widths[3] < widths[1]
    against = [f"rater {pair} against {other}" for pair, other in ((1, 2), (1, 3), (2, 3))]
    assert {*summary.between_humans} == {*against, *(f"rater {one} against the others" for one in (1, 2, 3))}


def test_a_mean_of_scores_that_are_all_alike_is_not_certain(tmp_path: Path) -> None:
    rows = "".join(f"{name}.jpg\t[1,1]\t[0,0]\n" for name in "abcde")
    summary = read_ratings(write(tmp_path / "IE", *[f"{HEADER}\n{rows}"] * 3)).summary()
    magic, pix = summary.mean_overall["Magic"], summary.mean_overall["Pix"]
    assert (magic.mean, pix.mean) == (1.0, 0.0) and magic.interval and pix.interval
    assert magic.interval[0] < 0.6 and pix.interval[1] > 0.4
    assert all(row.mean is row.interval is None for row in summary.between_humans.values())
    ratings = read_ratings(write(tmp_path / "IE", *[f"{HEADER}\na.jpg\t[1,1]\t?\n"] * 3))
    assert (mean(ratings, "Magic"), mean(ratings, "Pix")) == (1.0, None), "an editor without any human score"


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ([], r"holds no \*_rater1.tsv"),
        ([""], "has no editors or no items"),
        ([HEADER], "has no editors or no items"),
        (["uid\na.jpg\n"], "has no editors or no items"),
        (["uid\tMagic\tMagic\na\t[1,1]\t[1,1]\n"], "the name 'Magic' occurs twice"),
        (["uid\tMagic\na\t[1,1]\na\t[1,1]\n"], "the name 'a' occurs twice"),
        (["uid\tMagic\n\t[1,1]\n"], "has no name"),
        ([GOOD[0], GOOD[1].replace("Pix", "Pax")], "do not hold the same editors: Pax, Pix"),
        ([GOOD[0], GOOD[1].replace("c.jpg", "d.jpg")], "do not hold the same items: c.jpg, d.jpg"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, tables: list[str], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_ratings(write(tmp_path / "IE", *tables))


def test_folders_that_are_not_of_one_task_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "IE", *GOOD)
    (folder / "IG_rater1.tsv").write_text(GOOD[0], encoding="utf-8")
    with pytest.raises(DataError, match="several tasks: IE, IG"):
        read_ratings(folder)
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'none'} is not a folder")):
        read_ratings(tmp_path / "none")
    for name in ("IG_rater1.tsv", "IE_rater2.tsv"):
        (folder / name).unlink()
    assert set(read_ratings(folder).between_humans()) == {"rater 1 against 3"}, "raters keep their numbers"


def synthetic(folder: Path, source: random.Random, *, slips: float, count: int = 150) -> Ratings:
    """Three raters who see the same truth and slip from time to time."""
    editors, items = ["Magic", "Pix"], [f"{place}.jpg" for place in range(count)]
    truth = {(editor, item): (source.choice(STEPS), source.choice(STEPS)) for editor in editors for item in items}

    def see(edit: tuple[str, str]) -> tuple[float, float]:
        return (source.choice(STEPS), source.choice(STEPS)) if source.random() < slips else truth[edit]

    tables = []
    for _ in range(3):
        lines = ["\t".join(["uid", *editors])]
        lines += ["\t".join([item, *(str(list(see((editor, item)))) for editor in editors)]) for item in items]
        tables.append("\n".join(lines) + "\n")
    return read_ratings(write(folder, *tables))


@pytest.mark.real_data
def test_the_published_means_of_editors_come_out(real_data: Path) -> None:
    ratings = read_ratings(real_data / "text" / "imagenhub" / "Text-Guided_IE")
    assert (len(ratings.editors), len(ratings.items), len(ratings.raters)) == (9, 179, 3)
    assert ratings.broken == () and len(ratings.human()) == 1611
    summary = ratings.summary()
    means = {editor: round(row.mean or 0, 2) for editor, row in summary.mean_overall.items()}
    assert (means["MagicBrush"], means["InstructPix2Pix"], means["Prompt2prompt"]) == (0.47, 0.27, 0.15)
    sparse = {"DiffEdit", "Imagic", "Pix2PixZero", "Text2Live"}  # one rater or another gave nearly all edits a zero
    for found in summary.between_humans.values():
        assert "Imagic" in found.undefined and set(found.undefined) <= sparse
        assert found.mean is not None and 0.5 < found.mean < 0.65
        assert found.interval is not None and 0.4 < found.interval[0] < found.mean < found.interval[1] < 0.7


@pytest.mark.real_data
def test_every_published_table_is_read_whole(real_data: Path) -> None:
    folders = sorted((real_data / "text" / "imagenhub").iterdir())
    assert len(folders) == 7
    for folder in folders:
        ratings = read_ratings(folder)
        assert ratings.broken == () and ratings.task == folder.name
        assert len(ratings.human()) == len(ratings.editors) * len(ratings.items)

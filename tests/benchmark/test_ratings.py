import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark.ratings import STEPS, Cell, Ratings, parse_cell, read_ratings
from rewardharness.errors import DataError
from rewardharness.schema import Json

HEADER = "uid\tMagic\tPix"


def write(folder: Path, *tables: str, ending: str = "\n") -> Path:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, 1):
        (folder / f"IE_rater{number}.tsv").write_bytes(table.replace("\n", ending).encode())
    return folder


GOOD = (
    f"{HEADER}\na.jpg\t[1, 1]\t[0,0]\nb.jpg\t[0.5, 0.5]\t[1,0.5]\nc.jpg\t[0,1]\t[0.5,0.5]\n",
    f"{HEADER}\na.jpg\t[1,0.5]\t[0, 0]\nb.jpg\t[0.5 , 0.5]\t[1, 1]\nc.jpg\t[0, 1]\t[0,0]\n",
    f"{HEADER}\nc.jpg\t[0,0]\t[0.5,0.5]\nb.jpg\t[ 0.5,0.5 ]\t[1,1]\na.jpg\t[1,1]\t[0,1]\n",
)


@pytest.mark.parametrize("header", [f"{HEADER}\tschema_version", f"Schema_Version\t{HEADER}", "uid\tnotes\tMagic\tPix"])
def test_columns_about_the_table_are_no_editors_and_a_table_needs_no_task_in_its_name(
    tmp_path: Path, header: str
) -> None:
    folder = tmp_path / "Text-Guided"
    folder.mkdir()
    values = {"uid": "a.jpg", "Magic": "[1, 1]", "Pix": "[0, 0]"}
    row = "\t".join(values.get(name, "2") for name in header.split("\t"))
    for number in (1, 2):
        (folder / f"rater{number}.tsv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    ratings = read_ratings(folder)
    assert (ratings.task, ratings.editors, ratings.items) == ("Text-Guided", ("Magic", "Pix"), ("a.jpg",))
    assert ratings.means() == {"Magic": 1.0, "Pix": 0.0} and not ratings.broken


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("[0.5, 0.5]", Cell(0.5, 0.5)),
        ("[0,0]", Cell(0, 0)),
        ("[1 , 1]", Cell(1, 1)),
        ("[1,  0.5]", Cell(1, 0.5)),
        ("  [0.0, 1.0] ", Cell(0, 1)),
        ("[.5,1]", Cell(0.5, 1)),
    ],
)
def test_cells_are_read_whatever_their_spaces(text: str, cell: Cell) -> None:
    assert parse_cell(text) == cell


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


@given(
    st.sampled_from(STEPS), st.sampled_from(STEPS), st.lists(st.sampled_from(["", " ", "  "]), min_size=4, max_size=4)
)
def test_what_raters_can_give_is_read_back(first: float, second: float, gaps: list[str]) -> None:
    cell = parse_cell(f"[{gaps[0]}{first:g}{gaps[1]},{gaps[2]}{second:g}{gaps[3]}]")
    assert cell == Cell(first, second) and cell.overall == math.sqrt(first * second)


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader_of_cells(text: str) -> None:
    cell = parse_cell(text)
    assert cell is None or (cell.consistency in STEPS and cell.quality in STEPS)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_three_raters_are_averaged_per_edit(tmp_path: Path, ending: str) -> None:
    ratings = read_ratings(write(tmp_path / "IE", *GOOD, ending=ending))
    assert (ratings.task, ratings.editors, ratings.items) == ("IE", ("Magic", "Pix"), ("a.jpg", "b.jpg", "c.jpg"))
    human = ratings.human()
    assert human["Magic", "a.jpg"] == pytest.approx((1 + math.sqrt(0.5) + 1) / 3)
    assert human["Magic", "b.jpg"] == pytest.approx(0.5)
    assert human["Magic", "c.jpg"] == 0
    assert ratings.means()["Magic"] == pytest.approx(((2 + math.sqrt(0.5)) / 3 + 0.5) / 3)
    assert ratings.broken == ()


def test_broken_cells_are_named_and_their_edits_left_out(tmp_path: Path) -> None:
    broken = GOOD[1].replace("[1, 1]", "[1, 1").replace("c.jpg\t[0, 1]\t[0,0]", "c.jpg\t[0, 1]")
    ratings = read_ratings(write(tmp_path / "IE", GOOD[0], broken, GOOD[2].replace("[0,1]\n", "[0,1]\t[1,1]\n")))
    assert [str(cell) for cell in ratings.broken] == [
        "IE_rater2.tsv, row 3 (b.jpg), column Pix: '[1, 1' is not [SC, PQ]",
        "IE_rater2.tsv, row 4 (c.jpg), column Pix: '' is not [SC, PQ]",
        "IE_rater3.tsv, row 4 (a.jpg), column number 4, which has no editor: '[1,1]' is not [SC, PQ]",
    ]
    assert set(ratings.human()) == {("Magic", item) for item in ratings.items} | {("Pix", "a.jpg")}
    assert ratings.means()["Pix"] == 0
    shown = ratings.to_json()
    assert (shown["rated"], shown["edits"], len(shown["broken"])) == (4, 6, 3)
    assert ratings.between_humans()["rater 1 against 3"].editors["Pix"].n == 3
    assert shown["mean_overall"]["Pix"]["n"] == 1 and shown["mean_overall"]["Magic"]["n"] == 3
    assert shown["between_humans"]["rater 1 against 3"]["n"] == 6


def test_means_and_agreement_have_intervals_over_items(tmp_path: Path) -> None:
    few, many = (
        synthetic(tmp_path / name, random.Random(3), slips=0.3, count=count).to_json()
        for name, count in (("few", 12), ("many", 120))
    )
    for key in ("mean_overall", "between_humans"):
        for name, each in many[key].items():
            low, high = each["interval"]
            assert low <= each["mean"] <= high and high - low > 0, name
        assert sum(map(_width, many[key].values())) < sum(map(_width, few[key].values()))


def _width(each: Json) -> float:
    return float(each["interval"][1] - each["interval"][0])


def test_a_mean_of_scores_that_are_all_alike_is_not_certain(tmp_path: Path) -> None:
    rows = "".join(f"{name}.jpg\t[1,1]\t[0,0]\n" for name in "abcde")
    shown = read_ratings(write(tmp_path / "IE", *[f"{HEADER}\n{rows}"] * 3)).to_json()
    assert (shown["mean_overall"]["Magic"]["mean"], shown["mean_overall"]["Pix"]["mean"]) == (1.0, 0.0)
    assert shown["mean_overall"]["Magic"]["interval"][0] < 0.6 and shown["mean_overall"]["Pix"]["interval"][1] > 0.4
    assert all(each["mean"] is None and each["interval"] is None for each in shown["between_humans"].values())


def test_an_editor_without_any_human_score_has_no_mean(tmp_path: Path) -> None:
    tables = [f"{HEADER}\na.jpg\t[1,1]\t?\n"] * 3
    assert read_ratings(write(tmp_path / "IE", *tables)).means() == {"Magic": 1.0, "Pix": None}


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


def test_raters_keep_the_numbers_of_their_tables(tmp_path: Path) -> None:
    folder = write(tmp_path / "IE", *GOOD)
    (folder / "IE_rater2.tsv").unlink()
    assert set(read_ratings(folder).between_humans()) == {"rater 1 against 3"}


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


def test_a_judge_that_agrees_correlates_and_one_that_is_upside_down_does_not(tmp_path: Path) -> None:
    ratings = synthetic(tmp_path / "IE", random.Random(3), slips=0.3)
    human = ratings.human()
    assert ratings.correlate({edit: 5 * value for edit, value in human.items()}).mean == 1.0
    assert ratings.correlate({edit: -value for edit, value in human.items()}).mean == -1.0
    source = random.Random(4)
    blind = ratings.correlate({edit: source.random() for edit in human}).mean
    assert blind is not None and abs(blind) < 0.15
    some = ratings.correlate({edit: None if place % 10 == 0 else human[edit] for place, edit in enumerate(human)})
    assert some.counts.judged / some.counts.n == 0.9 and some.mean == 1.0


def test_people_agree_less_with_one_another_the_more_they_slip(tmp_path: Path) -> None:
    careful = synthetic(tmp_path / "careful", random.Random(3), slips=0.1).between_humans()
    careless = synthetic(tmp_path / "careless", random.Random(3), slips=0.6).between_humans()
    assert set(careful) == {
        *(f"rater {one} against the others" for one in (1, 2, 3)),
        *(f"rater {pair} against {other}" for pair, other in ((1, 2), (1, 3), (2, 3))),
    }
    for name, found in careful.items():
        other = careless[name].mean
        assert found.mean is not None and other is not None and 0 < other < found.mean < 1


@pytest.mark.real_data
def test_the_published_means_of_editors_come_out(real_data: Path) -> None:
    ratings = read_ratings(real_data / "text" / "imagenhub" / "Text-Guided_IE")
    assert (len(ratings.editors), len(ratings.items), len(ratings.raters)) == (9, 179, 3)
    assert ratings.broken == () and len(ratings.human()) == 1611
    means = {editor: round(mean or 0, 2) for editor, mean in ratings.means().items()}
    assert (means["MagicBrush"], means["InstructPix2Pix"], means["Prompt2prompt"]) == (0.47, 0.27, 0.15)
    spans = ratings.between_intervals()
    sparse = {"DiffEdit", "Imagic", "Pix2PixZero", "Text2Live"}  # one rater or another gave nearly all edits a zero
    for name, found in ratings.between_humans().items():
        span = spans[name]
        assert "Imagic" in found.undefined and set(found.undefined) <= sparse
        assert found.mean is not None and 0.5 < found.mean < 0.65
        assert span is not None and 0.4 < span.low < found.mean < span.high < 0.7


@pytest.mark.real_data
def test_every_published_table_is_read_whole(real_data: Path) -> None:
    folders = sorted((real_data / "text" / "imagenhub").iterdir())
    assert len(folders) == 7
    for folder in folders:
        ratings = read_ratings(folder)
        assert ratings.broken == () and ratings.task == folder.name
        assert len(ratings.human()) == len(ratings.editors) * len(ratings.items)

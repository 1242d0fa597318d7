import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_parts import made, made_anew, opened, settings
from hub_parts import running_hub
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from synthetic import MAKERS, editreward_bench, editreward_rows, png, write_rows

from rewardharness.benchmark.cases import read_part
from rewardharness.benchmark.checks import INCOMPLETE, TWICE, check
from rewardharness.benchmark.items import Question, sample
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.task import Columns, Label, Task, TaskPart, list_tasks, open_task, read_task
from rewardharness.errors import DataError, InputError
from rewardharness.files import write_bytes
from rewardharness.hub.errors import HubError
from rewardharness.schema import ImageInput

WHOLE = """
name: my-task
title: Mine
data: {hub: someone/some-data, revision: 0123456789012345678901234567890123456789}
columns: {instruction: prompt, source: before, candidates: [one, two]}
label: {rule: values, column: vote, values: {left: A, right: B}}
parts:
  - name: all
"""


def test_every_task_that_comes_along_is_read_and_has_synthetic_data() -> None:
    tasks = {task.name: task for task in list_tasks()}
    assert set(tasks) == {*MAKERS, "attacks"}
    for task in tasks.values():
        assert task.about and task.notes
        assert task.data.revision or task.data.revision_note or not task.data.hub, "no word about the revision"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "colour: red\n", "unknown key colour"),
        ("vote, values", "vote, valuse", "unknown key label.valuse"),
        ("  - name: all", "  - name: all\n    lables: [A]", "unknown key parts[0].lables"),
        ("title: Mine\n", "", "missing"),
        ("name: my-task", "name: My Task", "lowercase letters"),
        ("left: A", "left: C or D", "is none of"),
        ("rule: values", "rule: guess", "label.rule: invalid enum value 'guess'"),
        (", values: {left: A, right: B}", "", "needs `column` and `values`"),
        ("rule: values", "rule: scores", "needs two `columns`"),
        ("", "protocols: [pears]\n", "unknown protocol"),
        ("", "metrics: [luck]\n", "unknown metric"),
        ("", "metrics: [spearman]\n", "human scores require"),
        ("hub: someone/some-data, revision: 0123456789012345678901234567890123456789", "", "neither `hub` nor"),
        ("  - name: all", "  - name: all\n    candidates: 3", "need `group`"),
        ("title: Mine", "title: [Mine]", "title: expected `str`, got `array`"),
        ("", "notes: 3\n", "notes: expected `array`, got `int`"),
        ("", "shuffle:\n", "shuffle: expected `bool`, got `null`"),
        ("", "digest: abc\n", "unknown key digest"),
        (WHOLE, "- a list", "not a mapping"),
        ("", "x: &a 1\n", "anchor"),
    ],
)
def test_what_is_wrong_in_a_task_file_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read_task(WHOLE.replace(old, new) if old else WHOLE + new, "my.yaml")
    assert said in caught.value.message and caught.value.next_step


def test_a_generated_set_goes_before_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "feedback"):
        (tmp_path / name).mkdir()
        assert open_task(name).data.examples == name
        assert open_task(f"./{name}").data.examples == str((tmp_path / name).resolve())


@given(
    st.text(max_size=200)
    | st.builds(lambda cut, put: WHOLE[:cut] + put + WHOLE[cut:], st.integers(0, len(WHOLE)), st.text(max_size=9))
)
def test_any_text_is_a_task_or_an_error_in_words(text: str) -> None:
    try:
        assert isinstance(read_task(text, "any.yaml"), Task)
    except DataError as error:
        assert error.message.startswith("any.yaml")


IMAGES = st.sampled_from([ImageInput("a", data=b"1"), ImageInput("b", data=b"2"), None, "a text", []])
CELLS = (
    st.none() | st.text(max_size=5) | st.floats() | st.booleans() | st.sampled_from(["A>B", "B=A", "AvsB", "AvsD", "A"])
)


@hypothesis(max_examples=60)
@given(st.sampled_from([task for task in list_tasks() if task.columns]), st.data())
def test_any_row_becomes_a_case_or_is_named(task: Task, data: st.DataObject) -> None:
    assert task.columns is not None and task.label is not None
    part = task.parts[-1]
    texts = [*task.columns.id, task.columns.instruction, *task.label.required(), *task.columns.editors]
    columns = dict.fromkeys([task.columns.source, *task.columns.candidates], IMAGES | st.lists(IMAGES, max_size=3))
    columns |= dict.fromkeys([*texts, *([part.group.column] if part.group else [])], CELLS)
    rows = data.draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4))
    try:
        cases, problems = read_part(task, part, list(columns), rows)
    except DataError as error:
        assert "none of the rows can be used" in error.message
    else:
        assert len(cases) + sum(problem.n for problem in problems) == len(rows)
        checked, _, _ = check(cases, task.parts)
        assert len({case.id for case in checked}) == len(cases)


def test_tasks_are_opened_by_name_by_file_and_by_folder(tmp_path: Path) -> None:
    path, folder = tmp_path / "mine.yaml", pairs_folder(tmp_path / "data")
    path.write_text(WHOLE, encoding="utf-8")
    assert open_task(str(path)).name == "my-task"
    path.write_text("name: mine\ntitle: T\ndata: {examples: data}\nmetrics: [exact]\n", "utf-8")
    beside = open_benchmark(open_task(str(path)), settings(tmp_path))
    assert beside.task.data.examples == str(folder) and len(beside.questions) == 4
    assert open_task("genai-bench").title.startswith("GenAI-Bench")
    assert open_task(str(tmp_path)).data.examples == str(tmp_path)
    with pytest.raises(InputError, match="no task 'genai'"):
        open_task("genai")


FOURTH = {"instruction": "fourth", "label_kind": "people"}


def pairs_folder(folder: Path, **more: Any) -> Path:
    """Pairs and a group as `read_folder` reads them, of several kinds of label."""
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"{number}.png").write_bytes(png(40 * number))
    pair = {"source": "0.png", "candidate_a": "1.png", "candidate_b": "2.png", "label_kind": "people", **more}
    rows = [
        {**pair, "id": "p1", "instruction": "first", "preference": "A"},
        {**pair, "id": "p2", "instruction": "second", "preference": "tie"},
        {**pair, "id": "p3", "instruction": "third", "preference": "B", "label_kind": "drawn"},
    ]
    group = {"id": "g1", "source": "0.png", "candidates": ["1.png", "2.png", "3.png"], "best": 2, **FOURTH}
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "groups.jsonl").write_text(json.dumps(group) + "\n", encoding="utf-8")
    return folder


def test_a_folder_is_a_task_with_a_part_per_kind_of_label(tmp_path: Path) -> None:
    opened_task = open_benchmark(open_task(str(pairs_folder(tmp_path / "data"))), settings(tmp_path))
    labels = {part.name: part.labels for part in opened_task.parts}
    assert labels == {"drawn": ("A", "B"), "people": ("A", "B", "tie"), "people, best of 3": ("A", "B", "C")}
    assert {item.ties for name, item in opened_task.items.items() if name.startswith("people/")} == {True}
    assert opened_task.revision == "a local copy"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_nothing_that_gives_the_truth_away_reaches_a_judge(name: str, tmp_path: Path) -> None:
    for protocol in open_task(name).protocols:
        for item in made(name, tmp_path, protocol).items.values():
            example = item.example
            assert example.preference is None and not example.label_kind and not example.category
            assert example.source.name == "source"
            assert [image.name for image in example.candidates] == [f"candidate {label}" for label in example.labels]
            assert "<image" not in example.instruction


def test_groups_are_put_together_from_rows_by_the_beginning_of_the_id(tmp_path: Path) -> None:
    opened_task = made("editreward-bench", tmp_path)
    groups: dict[str, set[tuple[str, ...]]] = {}
    for question in opened_task.questions:
        groups.setdefault(question.group, set()).add(question.letters)
    assert groups["K=3/00002k3"] == {("A", "B"), ("A", "C"), ("B", "C")}
    assert len(groups["K=4/00004k4"]) == 6
    assert made("editreward-bench", tmp_path, "ranking").items["K=4/00004k4"].example.labels == ("A", "B", "C", "D")
    alone = made("editreward-bench", tmp_path, "pointwise").items
    assert {name for name in alone if name.startswith("K=4/00004k4")} == {f"K=4/00004k4|{letter}" for letter in "ABCD"}
    rows = [{**row, "id": f"group{row['id'][:5]}-{place}"} for place, row in enumerate(editreward_rows(3, 2))]
    plain = opened(tmp_path, editreward_bench(tmp_path / "copy", k3=rows))
    names = {question.group for question in plain.questions if question.part == "K=3"}
    assert names == {"K=3/group00000", "K=3/group00001"}, "without a mark the first ten characters are the group"


@pytest.mark.parametrize("name", ["editscore-bench", "editreward-compass"])
def test_where_the_best_always_comes_first_places_are_changed_by_chance(name: str, tmp_path: Path) -> None:
    opened_task = made(name, tmp_path, "pairs")
    truths = [question.truth for question in opened_task.questions if question.truth != "tie"]
    assert 0.25 < truths.count("A") / len(truths) < 0.75
    assert opened_task.questions == made_anew(name, tmp_path, "pairs").questions
    first = next(question for question in opened_task.questions if question.truth == "B")
    assert first.letters == ("B", "A")


def test_one_table_with_all_sizes_of_groups_is_a_copy_too(tmp_path: Path) -> None:
    rows = [row for k in (2, 3, 4) for row in editreward_rows(k, 2)]
    opened_task = opened(tmp_path, write_rows(tmp_path / "all.parquet", rows))
    assert [sum(each.part == f"K={k}" for each in opened_task.questions) for k in (2, 3, 4)] == [2, 6, 12]
    lacking = [{key: value for key, value in row.items() if key != "ranking"} for row in rows]
    with pytest.raises(DataError, match="missing columns: ranking"):
        opened(tmp_path, write_rows(tmp_path / "two.parquet", lacking))


Row = dict[str, Any]
Change = Callable[[list[Row]], list[Row]]


def circle(rows: list[Row]) -> list[Row]:
    rankings = {"AvsB": "A>B", "BvsC": "B>C", "AvsC": "C>A"}
    return [{**row, "ranking": rankings[row["comparison_type"]]} if row["id"] > "00001" else row for row in rows[:6]]


def turned(row: Row) -> Row:
    first, second = row["comparison_type"].split("vs")
    return {**row, "ranking": f"{second}>{first}" if row["ranking"].startswith(first) else f"{first}>{second}"}


TORN = {INCOMPLETE: (1, "its pairs count, the group does not")}
UNUSED = (1, "not judged")


@pytest.mark.parametrize(
    "change, problems",
    [
        (lambda rows: rows, {}),
        (lambda rows: rows[1:], TORN),
        (lambda rows: [*rows, rows[0]], {"repeated row": (1, "counted once")}),
        (
            lambda rows: [*rows, {**rows[0], "instruction": "else"}],
            {"duplicate id": (1, "counted, with new ids"), TWICE: (2, "judged, not counted"), **TORN},
        ),
        (
            lambda rows: [*rows, {**turned(rows[0]), "id": "elsewhere_0"}],
            {"contradicting labels": (2, "judged, not counted"), INCOMPLETE: (2, TORN[INCOMPLETE][1])},
        ),
        (lambda rows: [{**rows[0], "ranking": "A?B"}, *rows[1:]], {"label not understood": UNUSED, **TORN}),
        (lambda rows: [{**rows[0], "instruction": " "}, *rows[1:]], {"no instruction": UNUSED, **TORN}),
        (
            lambda rows: [{**rows[0], "source_image": None}, *rows[1:]],
            {"wrong number of source images": UNUSED, **TORN},
        ),
        (circle, {"circular labels": (1, "counted")}),
    ],
)
def test_what_is_odd_in_the_data_is_counted(change, problems, tmp_path) -> None:
    found = opened(tmp_path, editreward_bench(tmp_path / "copy", k3=change(editreward_rows(3, 4)))).problems
    assert {each.code: (each.n, each.consequence) for each in found if each.part == "K=3"} == problems


def test_a_score_of_people_beyond_all_numbers_is_counted_as_no_label(tmp_path: Path) -> None:
    row = {"prompt": "a", "source_image": png(0), "edited_image": png(9)}
    table = write_rows(tmp_path / "edits.jsonl", [{**row, "score": score} for score in (3, 10**400)])
    problems = opened(tmp_path, table, "rated-edits").problems
    assert [each.n for each in problems if each.code == "label not understood"] == [1]
    missing = [each.message for each in problems if each.code == "missing column"]
    assert missing == ["The data have no column edit_type, model"], "columns that are only counted by"


def test_a_revision_that_is_not_the_pinned_one_is_said(tmp_path: Path) -> None:
    [said] = [each.message for each in made("editreward-bench", tmp_path).problems if each.code == "revision"]
    assert "837769c456117bcea42f72ab1d7f5125fe589eb4" in said
    with pytest.raises(InputError, match="Only data on the Hub have revisions"):
        made("editreward-bench", tmp_path, revision="main")


CARD = "---\nconfigs:\n" + "".join(
    f"- config_name: {k}pair\n  data_files:\n  - split: train\n    path: {k}pair/*\n" for k in (2, 3, 4)
)


def test_data_are_read_from_the_hub_at_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = MAKERS["editreward-bench"](tmp_path / "made")
    files = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*.parquet")}
    with running_hub(tmp_path, monkeypatch) as hub:
        repo = hub.server.store.create("TIGER-Lab/EditReward-Bench", kind="datasets")
        repo.put({**files, "README.md": f"{CARD}---\n"})
        task = open_task("editreward-bench")
        opened_task = open_benchmark(task, hub.settings(), revision="main")
        assert opened_task.revision == repo.branches["main"] and len(opened_task.questions) == 68
        [said] = [each.message for each in opened_task.problems if each.code == "revision"]
        assert said.startswith(f"Revision {opened_task.revision} was read; the declaration pins 837769c")
        unpinned = replace(task, data=replace(task.data, revision=""))
        [said] = [each.message for each in open_benchmark(unpinned, hub.settings()).problems if each.code == "revision"]
        assert said.startswith(f"No revision is pinned; {opened_task.revision} was read")
        pinned = replace(task, data=replace(task.data, revision=opened_task.revision))
        assert not open_benchmark(pinned, hub.settings()).problems
        with pytest.raises(HubError):
            open_benchmark(task, hub.settings())


def layouts(place: Path, name: str) -> dict[str, dict[str, bytes]]:
    """The files of a dataset as it may be laid out on the Hub, by what tells its parts apart."""
    root = place if place.is_dir() else place.parent
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    if name == "genai-bench":  # the other configs of the dataset
        files = {f"image_edition/{path}": data for path, data in files.items()}
        files["image_generation/test_v1-00000-of-00001.parquet"] = next(iter(files.values()))
        configs = "".join(
            f"- config_name: {config}\n  data_files:\n  - split: test_v1\n    path: {config}/test_v1*\n"
            for config in ("image_edition", "image_generation")
        )
        files["README.md"] = f"---\nconfigs:\n{configs}---\n".encode()
    if name != "editreward-bench":
        return {"files": files}
    rows = [row for k, n in ((2, 20), (3, 6), (4, 5)) for row in editreward_rows(k, n)]
    one = {"data/train-00000-of-00001.parquet": write_rows(place / "all.parquet", rows).read_bytes()}
    return {"configs": {**files, "README.md": f"{CARD}---\n".encode()}, "folders": files, "column": one}


@pytest.mark.parametrize("local", [False, True], ids=["Hub", "copy"])
@pytest.mark.parametrize("name", sorted(each.name for each in list_tasks() if each.name != "attacks"))
def test_every_declaration_fits_the_files_of_its_dataset(name, local, tmp_path, monkeypatch) -> None:
    task, made_there = open_task(name), MAKERS[name](tmp_path / "made")
    expected = made(name, tmp_path)
    for layout, files in layouts(made_there, name).items() if task.data.hub else ():
        if local:
            for path, data in files.items():
                write_bytes(tmp_path / layout / path, data)
            opened_task = open_benchmark(task, settings(tmp_path), source=tmp_path / layout)
        else:
            with running_hub(tmp_path / layout, monkeypatch) as hub:
                repo = hub.server.store.create(task.data.hub, kind="datasets")
                repo.put(files)
                opened_task = open_benchmark(task, hub.settings(), revision="main")
        assert [part.name for part in opened_task.parts] == [part.name for part in expected.parts]
        assert len(opened_task.questions) == len(expected.questions), layout
    assert expected.questions


def test_parts_with_the_same_rows_are_no_benchmark(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in row if key != "dataset"} for row in editreward_rows(2, 4)]
    write_rows(tmp_path / "copy" / "train.parquet", rows)
    with pytest.raises(DataError, match="have the same rows, as the data have neither a config or folder '3pair'"):
        opened(tmp_path, tmp_path / "copy")


def test_data_that_nobody_serves_are_asked_for_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        open_benchmark(open_task("imagenhub"), settings(tmp_path))
    assert "rater1.tsv" in caught.value.next_step and "--source" in caught.value.next_step


def test_a_pair_may_have_up_to_four_source_images(tmp_path: Path) -> None:
    opened_task = made("mmrb2-editing", tmp_path)
    several = {item.example.id: item.example for item in opened_task.items.values() if item.example.references}
    assert {name.partition("|")[0] for name in several} == {"edit/emu-edit_7"}
    example = several["edit/emu-edit_7"]
    assert [image.name for image in example.sources] == ["source", "image 2"]
    assert example.instruction == "image 1 paint it 7 like image 2"
    single = next(item.example for item in opened_task.items.values() if not item.example.references)
    assert "image" not in single.instruction
    [odd] = [each for each in opened_task.problems if each.code == "wrong number of source images"]
    assert (odd.n, odd.ids) == (1, ("edit/emu-edit_8",))


def test_references_may_be_columns_of_their_own(tmp_path: Path) -> None:
    images = [ImageInput(name, data=name.encode()) for name in ("s", "t", "u", "a", "b")]
    row = dict(zip(("before", "second", "third", "left", "right"), images, strict=True)) | {"say": "<image> on <image>"}
    columns = Columns("say", "before", ("left", "right"), references=("second", "third"))
    task = Task("t", "T", columns=columns, label=Label("first"), parts=(TaskPart("all", labels=("A",)),))
    cases, problems = read_part(task, task.parts[0], list(row), [row, {**row, "third": None}])
    assert [[image.name for image in case.sources] for case in cases] == [["s", "t", "u"], ["s", "t"]]
    assert cases[0].instruction == "image 1 on image 2" and problems == []
    checked, _, same = check(cases, task.parts)
    assert len({same.edit(case, 0) for case in checked}) == 2, "the same candidate with other references"
    with pytest.raises(DataError, match="missing columns: second"):
        read_part(task, task.parts[0], [name for name in row if name != "second"], [row])


def test_raters_that_say_nothing_of_an_edit_leave_it_out(tmp_path: Path) -> None:
    opened_task = made_anew("imagenhub", tmp_path)
    assert len(opened_task.questions) == 27 and set(opened_task.references.values()) == {1.0}
    tables = tmp_path / "imagenhub" / "ratings"
    for table in tables.iterdir():
        lines = table.read_text(encoding="utf-8").splitlines()
        table.write_text("\n".join(line.replace("[0, 0]", "[0, 2]") for line in lines) + "\n", encoding="utf-8")
    codes = {each.code: each.n for each in made_anew("imagenhub", tmp_path).problems}
    assert codes["no human score"] == 9 and "rating not understood" in codes


def test_a_sample_gives_every_stratum_its_share_and_grows(tmp_path: Path) -> None:
    opened_task = made("editreward-bench", tmp_path)
    drawn, total = sample(opened_task.questions, 10, seed=3)
    assert total == 31
    assert len({question.group or question.id for question in drawn}) == 10
    assert {question.part for question in drawn} == {"K=2", "K=3", "K=4"}
    groups = {question.group for question in drawn} - {""}
    assert {each for each in opened_task.questions if each.group in groups} <= set(drawn), "a group was torn"
    more, _ = sample(opened_task.questions, 14, seed=3)
    assert set(drawn) < set(more)
    assert set(sample(opened_task.questions, 10, seed=4)[0]) != set(drawn)


def test_a_sample_has_as_much_of_each_part_where_every_category_is_rare() -> None:
    questions = tuple(
        Question(id=f"{part}-{number}", part=part, asks=(), truth="AB"[number % 2], category=f"{number}")
        for part in ("many", "few", "some")
        for number in range({"many": 40, "few": 4, "some": 20}[part])
    )
    for limit, counts in ((16, (10, 1, 5)), (32, (20, 2, 10))):
        drawn, _ = sample(questions, limit, seed=5)
        assert tuple(sum(each.part == part for each in drawn) for part in ("many", "few", "some")) == counts


def test_a_sample_of_attacks_has_whole_edits() -> None:
    attacks = ("unchanged", "caption", "wrong-color")
    about = {"asks": (), "truth": "A"}
    questions = tuple(
        Question(id=f"{name}/{name}-{number:03d}|{order}", part=name, category=f"{number % 3}", order=order, **about)
        for number in range(12)
        for name in attacks
        for order in ("forward", "reverse")
    )
    drawn, total = sample(questions, 4, seed=0, attacks=True)
    assert total == 12 and len(drawn) == 4 * len(attacks) * 2
    edits = {question.attacked for question in drawn}
    assert len(edits) == 4 and drawn == tuple(each for each in questions if each.attacked in edits)


def test_a_limit_judges_the_sample_alone_and_says_so(tmp_path: Path) -> None:
    opened_task = made("editreward-bench", tmp_path, "both-orders", limit=5, seed=1)
    assert opened_task.sampled == (5, 31, 1)
    assert {item for each in opened_task.questions for item, _ in each.asks} == set(opened_task.items)
    assert len({each.id.rpartition("|")[0] for each in opened_task.questions}) * 2 == len(opened_task.questions)
    with pytest.raises(InputError, match="is too small"):
        made("editreward-bench", tmp_path, limit=0)
    with pytest.raises(InputError, match="no protocol 'chat'"):
        made("editreward-bench", tmp_path, "chat")


def test_the_digest_is_of_what_was_read(tmp_path: Path) -> None:
    opened_task = made_anew("vcreward-bench", tmp_path)
    table = tmp_path / "vcreward-bench" / "metadata.jsonl"
    table.write_text(table.read_text("utf-8").replace("Image A", "Image B", 1), encoding="utf-8")
    other = made_anew("vcreward-bench", tmp_path)
    assert opened_task.digest != other.digest
    assert replace(opened_task, questions=()).digest == opened_task.digest

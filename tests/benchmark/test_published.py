import math
from dataclasses import replace

import pytest

from rewardharness.benchmark import published
from rewardharness.benchmark.published import MEAN, SAME, Published, Setting
from rewardharness.benchmark.task import list_tasks
from rewardharness.errors import DataError

TEXT = """
sources:
  paper: {title: A paper, url: https://arxiv.org/abs/0000.00000}
tables:
  - name: T
    source: paper
    scale: 100
    remarks: [for all rows]
    columns:
      k2: {task: some, part: K=2, metric: exact, protocol: pairs, labels: [A, B, tie], orders: 1, inferred: true,
           n: 186}
      ih: {task: ih, part: all, metric: spearman, protocol: pointwise}
    rows:
      one: {k2: 45.69, ih: -2.54}
      other: {k2: {value: 50.0, n: 148, remarks: [for this cell]}}
"""
RUN = Setting("some", "K=2", "exact", "pairs", labels=("A", "B", "tie"), orders=1, n=186)


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def test_rows_are_read_with_their_setting_and_as_they_were_printed() -> None:
    one, ih, other = published.parse_published(TEXT, "f")
    assert (one.judge, one.value, one.printed, one.inferred) == ("one", pytest.approx(0.4569), "45.69", True)
    assert one.setting == RUN and one.remarks == ("for all rows",)
    assert (ih.value, ih.setting.n, ih.setting.orders) == (pytest.approx(-0.0254), None, 0)
    assert (other.printed, other.setting.n) == ("50.0", 148)
    assert other.remarks == ("for this cell", "for all rows") and other.url.endswith("0000.00000")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("sources:", "sorces:", "missing required field `sources`"),
        ("scale: 100", "scale: 10", "tables[0].scale: invalid enum value 10"),
        ("source: paper", "source: other", "unknown source 'other'"),
        ("orders: 1", "order: 1", "unknown key tables[0].columns.k2.order"),
        ("metric: exact", "metric: best", "unknown metric 'best'"),
        ("protocol: pairs", "protocol: chat", "unknown protocol 'chat'"),
        ("labels: [A, B, tie]", "labels: [A, B, draw]", "unknown label 'draw'"),
        ("one: {k2: 45.69", "one: {k5: 45.69", "unknown column k5"),
        ("one: {k2: 45.69", "one: {k2: about 45", "expected `float | object`, got `str`"),
        ("one: {k2: 45.69", "one: {k2: 145.69", "145.69 is neither a share nor a correlation"),
        ("value: 50.0, n: 148", "n: 148", "missing required field `value`"),
        ("      other:", "      one:", "The key `one` occurs twice"),
    ],
)
def test_whatever_is_not_understood_is_an_error_that_names_it(old: str, new: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        published.parse_published(changed(old, new), "f")
    assert problem in caught.value.message and caught.value.next_step


def test_a_judge_twice_in_one_column_is_refused() -> None:
    table = TEXT[TEXT.index("  - name") :]
    with pytest.raises(DataError, match="T: one occurs twice in one column"):
        published.parse_published(TEXT + table, "f")


def marks(run: Setting, rows: tuple[Published, ...] | None = None) -> dict[str, str]:
    return {row.judge: row.mark for row in published.compare_published(run, rows)}


def test_a_row_is_marked_with_what_sets_it_apart() -> None:
    rows = published.parse_published(TEXT, "f")
    found = published.compare_published(RUN, rows)
    assert [(row.printed, row.same_protocol, row.n_inferred) for row in found] == [
        ("45.69", True, True),
        ("50.0", False, True),
    ]
    assert marks(RUN, rows) == {
        "one": f"{SAME} (not known: revision of the data)",
        "other": "n: 148 (derived), not 186 (not known: revision of the data)",
    }
    other = replace(RUN, metric="tuned", protocol="pointwise", labels=("A", "B"))
    both = "metric: exact, not tuned; protocol: pairs, not pointwise; labels: A/B/tie"
    assert marks(other, rows)["one"].startswith(both)
    for change in ({"metric": "groups"}, {"part": "K=3"}, {"dimension": "overall"}):
        assert marks(replace(RUN, **change), rows) == {}
    assert marks(replace(RUN, orders=2), rows)["one"].startswith("orders: 1, not 2")


def test_commits_are_compared_and_words_about_a_revision_are_told() -> None:
    commit, other = "0" * 40, "1" * 40
    known = published.parse_published(changed("orders: 1", f'orders: 1, revision: "{commit}"'), "f")
    run = replace(RUN, revision=commit)
    assert marks(run, known)["one"] == SAME
    assert "revision of the data: 000" in marks(replace(RUN, revision=other), known)["one"]
    worded = published.parse_published(changed("orders: 1", "orders: 1, revision: the first release"), "f")
    assert marks(run, worded)["one"] == f"{SAME} (not known: revision of the data, theirs is the first release)"


@pytest.mark.parametrize(
    ("judge", "task", "part", "dimension", "printed"),
    [
        ("GPT-5", "editreward-bench", "K=2", "", "57.53"),
        ("GPT-5", "editreward-bench", "K=3", "", "38.51"),
        ("GPT-5", "editreward-bench", "K=4", "", "12.84"),
        ("Qwen2.5-VL-3B", "imagenhub", "Text-Guided_IE", "", "-2.54"),
        ("EditReward (MiMo-VL-7B)", "genai-bench", "test_v1", "", "65.72"),
        ("EditReward (MiMo-VL-7B)", "aurora-bench-pairs", "pairs", "", "63.62"),
        ("Gemini-2.0-Flash + Library", "editreward-bench", "K=2", "", "66.2"),
        ("Gemini-2.0-Flash + Library", "headline", "all", "", "47.4"),
        ("EditScore-72B, mean of 4 samples", "editscore-bench", "all", "overall", "0.763"),
        ("Gemini 3 Pro", "mmrb2-editing", "edit", "", "74.9"),
        ("Qwen2.5-VL-7B", "editreward-compass", "all", "VC", "0.217"),
        ("PVC-Judge", "vcreward-bench", "all", "", "81.82"),
        ("qwenVL", "genai-bench", "test_v1", "", "14.91"),
    ],
)
def test_published_numbers_are_there(judge: str, task: str, part: str, dimension: str, printed: str) -> None:
    rows = [
        (row.judge, row.setting.task, row.setting.part, row.setting.dimension, row.printed)
        for row in published.read_published()
    ]
    assert (judge, task, part, dimension, printed) in rows


def test_every_row_stands_beside_a_task_that_counts_that_way_or_beside_none() -> None:
    tasks = {task.name: task for task in list_tasks()}
    alone = set()
    for row in published.read_published():
        setting, task = row.setting, tasks.get(row.setting.task)
        part = next((each for each in task.parts if each.name == setting.part), None) if task else None
        if task is None or part is None:
            alone.add((setting.task, setting.part))
            continue
        assert setting.metric in task.metrics and setting.protocol in task.protocols, row
        # A judge or a threshold that knows one kind of tie was scored on three labels where there are four.
        assert not setting.labels or set(setting.labels) <= set(part.labels), row
    assert alone == {("headline", "all"), ("mmrb2", "all"), ("editreward-bench", "all")}


def test_a_published_share_is_a_whole_number_of_its_n_or_its_remark_says_otherwise() -> None:
    for row in published.read_published():
        setting = row.setting
        if setting.n is None or setting.metric not in {"exact", "groups", "tuned"} or setting.part == "all":
            continue
        step = 10.0 ** -len(row.printed.partition(".")[2]) * (0.01 if row.printed != str(row.value) else 1)
        # The nearest fraction, rounded or cut off after the printed digits.
        fits = any(-step / 2 <= count / setting.n - row.value < step for count in range(setting.n + 1))
        told = any("no whole number" in remark or "one source image" in remark for remark in row.remarks)
        assert fits or told, row


def test_the_mean_of_the_paper_is_the_plain_mean_of_its_columns() -> None:
    for judge in ("Qwen2.5-VL-7B + Library", "Gemini-2.0-Flash + Library"):
        rows = [(row.setting.metric == MEAN, row.value) for row in published.read_published() if row.judge == judge]
        parts = [value for is_mean, value in rows if not is_mean]
        assert [value for is_mean, value in rows if is_mean] == [pytest.approx(math.fsum(parts) / 4, abs=0.0006)]

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_parts import MISLABELLED, PAIRS, app_services, judged, make_labelled, make_timid, on
from hostile import HOSTILE, read_own

from app.benchmark import views as benchmark_views
from app.benchmark.runs import BenchmarkStatus
from app.benchmark.service import BenchmarkServices
from app.benchmark.views import section
from app.markup import plain
from app.run_panel.following import State
from app.run_panel.jobs import CommandError
from app.run_panel.new_jobs import PLACE
from app.run_panel.service import Listed
from rewardharness.benchmark.cases import DataProblem
from rewardharness.benchmark.published import Published, Setting, compare_published
from rewardharness.benchmark.result import BenchmarkResult, CountedPart, PublishedNumber
from rewardharness.benchmark.run import EntryRecord
from rewardharness.benchmark.task import Task, list_tasks, read_task
from rewardharness.data.opening import DEMO
from rewardharness.library.store import Library
from rewardharness.schema import TextInput

EVIL = plain(HOSTILE)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[BenchmarkServices, str, str]:
    """Services, and two runs of one task whose every free text attacks the page: with the built-in Library, and not."""
    scratch = tmp_path_factory.mktemp("views")
    data, timid = make_labelled(scratch / "pairs", hostile=HOSTILE), make_timid(scratch / "<img src=x>")
    names = []
    for name, spec in (("builtin", "builtin"), ("timid", str(timid))):
        names.append(judged(scratch / "home", on(data, library=spec, baselines=("random",)), name))
    return app_services(scratch / "home", scratch / "scratch").benchmarks, *names


@pytest.fixture(scope="module")
def result(world: tuple[BenchmarkServices, str, str]) -> BenchmarkResult:
    services, _, timid = world
    return services.open(timid).result


def text_of(markup: str) -> str:
    return "".join(read_own(line).text for line in markup.split("\n\n"))


def test_the_table_has_value_interval_n_and_coverage(world: tuple[BenchmarkServices, str, str]) -> None:
    services, builtin, _ = world
    found = services.open(builtin).result
    shown = text_of(benchmark_views.rows_table(found))
    number = found.rows[0].numbers[0]
    low, high = (f"{100 * bound:.1f}" for bound in number.interval or ())
    assert f"{100 * (number.value or 0):.1f} [{low}, {high}]" in shown and f"{PAIRS} of {PAIRS}" in shown
    assert "random (baseline)" in shown and "50.0" in shown
    assert "Part drawn: exact among A, B" in shown and "Same answer" in shown
    judging = text_of(section(found, "judging"))
    assert f"{PAIRS} of {PAIRS} (100.0%)" in judging and "no requests to models" in judging
    assert builtin in text_of(benchmark_views.about_run(services.look(builtin), services.command(builtin)))
    assert "in percent" in text_of(benchmark_views.summary(found))
    assert benchmark_views.summary(replace(found, parts=found.parts * 9)) == ""


def test_nothing_foreign_is_more_than_text(world: tuple[BenchmarkServices, str, str], result: BenchmarkResult) -> None:
    services, _, timid = world
    key = result.rows[0].key
    evil = replace(
        result,
        task=replace(result.task, title=HOSTILE, notes=(HOSTILE,)),
        revision=HOSTILE,
        fitted=(HOSTILE,),
        references={HOSTILE: 0.5},
        problems=(DataProblem(HOSTILE, HOSTILE, HOSTILE, 1, HOSTILE),),
        counted=(CountedPart(HOSTILE, 2, 1, {HOSTILE: 1}),),
        rows=tuple(replace(row, name=HOSTILE, library=HOSTILE, failures={HOSTILE: 1}) for row in result.rows),
        published=(_published(),),
    )
    for markup in (
        benchmark_views.rows_table(evil),
        section(evil, "judging"),
        benchmark_views.about_data(evil),
        section(evil, "categories", key),
        section(evil, "published"),
        benchmark_views.summary(evil),
        benchmark_views.about_run(replace(services.look(timid), manifest={"task": HOSTILE}), HOSTILE),
        benchmark_views.run_status(_progress("paused", reason=HOSTILE)),
        benchmark_views.run_status(_progress("paused", error=CommandError(HOSTILE, HOSTILE, next_step=HOSTILE))),
    ):
        assert EVIL in text_of(markup)
    assert all(tag not in benchmark_views.reliability(evil, key) for tag in ("<script", "<img"))


def test_questions_are_words_pictures_and_chains_and_nothing_else(world: tuple[BenchmarkServices, str, str]) -> None:
    services, builtin, timid = world
    keys = {name: services.open(name).result.rows[0].key for name in (builtin, timid)}
    question = f"drawn/{MISLABELLED}"
    case = services.case(question, (builtin, keys[builtin]))
    words = text_of(benchmark_views.words(case))
    assert EVIL in words and "against the label" in words
    assert "Reward" in words and "margin 0." in words and "confidence 0." in words
    assert "tool by tool" in text_of(benchmark_views.chain(case.sides[0]))
    both = services.case(question, (timid, keys[timid]), (builtin, keys[builtin]))
    shown = text_of(benchmark_views.words(both))
    assert "measured (no VLM), <img src=x>" in shown and "measured (no VLM), builtin" in shown
    texts = replace(case, sources=(), candidates=(TextInput("a", EVIL), TextInput("b", "the second text")))
    assert "the second text" in text_of(benchmark_views.words(texts)) and texts.example.images == ()
    changed = text_of(benchmark_views.words(replace(case, changed=True)))
    assert "The data have changed" in changed
    found = services.compare((timid, keys[timid]), (builtin, keys[builtin]))
    said = text_of(benchmark_views.compared(found))
    assert "Fixed / broken" in said and "better" in said and "<img src=x>" in said


def test_a_row_that_judged_nothing_says_so_everywhere(tmp_path: Path) -> None:
    Library(()).save(tmp_path / "bare")
    data = make_labelled(tmp_path / "pairs", hostile=HOSTILE)
    builtin = judged(tmp_path / "home", on(data, library=str(tmp_path / "bare")), "bare")
    services = app_services(tmp_path / "home", tmp_path / "scratch").benchmarks
    found = services.open(builtin).result
    bare = found.rows[0].key
    shown = text_of(benchmark_views.rows_table(found))
    assert f"0 of {PAIRS}" in shown, "what was not judged lowers the coverage and is no zero"
    assert f"This Library has no criteria for this instruction: {PAIRS}" in text_of(section(found, "judging"))
    assert benchmark_views.reliability(found, bare) == ""
    case = services.case(f"drawn/{MISLABELLED}", (builtin, bare))
    assert "No judgment: This Library has no criteria for this instruction" in text_of(benchmark_views.words(case))
    assert "never counted as a tie" in text_of(benchmark_views.chain(case.sides[0]))


def _published() -> PublishedNumber:
    setting, text = Setting("t", HOSTILE, "exact", n=919), dict.fromkeys(("judge", "table", "source", "url"), HOSTILE)
    row = Published(value=0.5, printed="53.54", setting=setting, inferred=True, remarks=(HOSTILE,), **text)
    [compared] = compare_published(replace(setting, n=10), [row])
    rows = (replace(compared, mark=HOSTILE, unknown=()),)
    span = (0.4, 0.6)
    return PublishedNumber(part=HOSTILE, metric="exact", name=HOSTILE, value=0.5, interval=span, n=10, rows=rows)


def _progress(state: State, **more: Any) -> BenchmarkStatus:
    manifest = {"task": "demo", "sampled": [4, 9, 0]}
    facts = dict.fromkeys(("key", "protocol", "revision", "library_id"), "k")
    entries = (EntryRecord(name="measured", library="builtin", role="judge", **facts),)
    known: dict[str, Any] = {"manifest": manifest, "entries": entries, "judged": 3, "wanted": 12}
    known |= {"data": "demo", "begun": "26 Nov 2026, 13:06"}
    return BenchmarkStatus("run", Path("/x"), state, **{**known, **more})


def test_how_a_run_stands_is_said_with_how_far_it_has_come() -> None:
    shown = text_of(benchmark_views.run_status(_progress("running", seconds_left=300.0)))
    assert shown.startswith("demo · 26 Nov 2026, 13:06 Running") and "3 of 12 judgments, about 5 min left" in shown
    assert "writing the report" in text_of(benchmark_views.run_status(_progress("running", judged=12)))
    assert "judgments" not in text_of(benchmark_views.run_status(_progress("finished", judged=12)))
    assert "can be resumed" in text_of(benchmark_views.run_status(_progress("interrupted")))
    failed = BenchmarkStatus("x", Path("/x"), "failed")
    assert "ended before the run began" in text_of(benchmark_views.run_status(failed))
    listed = [Listed(_progress("stopped")), Listed(BenchmarkStatus("b", Path("/b"), "failed"), error="It is broken.")]
    (first, name), (second, _) = benchmark_views.run_choices(listed)
    assert first == "demo · 26 Nov 2026, 13:06\nStopped · measured, builtin · 3 of 12 judgments" and name == "run"
    assert second == "b\nCannot be read\nIt is broken."


def test_what_a_benchmark_costs_is_said_before() -> None:
    told = {
        "contenders": [{"name": HOSTILE, "library": "builtin"}], "sampled": [4, 9, 0], "items": 4, "judgments": 8,
        "known": 1, "requests": 14, "counting": {HOSTILE: 4},
        "problems": [{"code": "missing image", "message": HOSTILE, "n": 2}],
    }  # fmt: skip
    shown = text_of(benchmark_views.expected(told))
    assert "4 examples to judge, a stratified sample of 4 of 9" in shown and "7 judgments; 1 are there already" in shown
    assert "at least 14 requests" in shown and "1 remark on the data" in shown and EVIL in shown
    assert "bad row" not in shown
    assert "2 bad rows of the data skipped" in text_of(benchmark_views.expected({**told, "skipped_rows": {"n": 2}}))
    free = text_of(benchmark_views.expected({**told, "requests": 0, "judgments": 1, "sampled": None}))
    assert "costs time alone" in free and "judged already" in free


def test_every_task_says_what_it_measures_its_protocols_its_n_and_how_to_get_its_data() -> None:
    tasks = list_tasks()
    choices = dict((name, words) for words, name in benchmark_views.task_choices(tasks, local=True))
    assert "919" in choices["genai-bench"] and "gated" in choices["editreward-bench"]
    assert "185/186 (K=2)" in choices["editreward-bench"] and "your own copy" in choices["imagenhub"]
    assert [name for _, name in benchmark_views.task_choices(tasks, local=False)] == [DEMO]
    for task in tasks:
        shown = text_of(benchmark_views.about_task(task, task.name))
        assert task.title in shown and all(name in shown for name in (*task.protocols, *task.metrics))
        assert all(part.name in shown for part in task.parts)
        assert not task.access or "How to get the data" in shown
    for name in (DEMO, PLACE):
        assert "pairs" in text_of(benchmark_views.about_task(None, name))
    evil = text_of(benchmark_views.about_task(_evil_task(), "x"))
    assert evil.count("onerror") >= 3


def _evil_task() -> Task:
    quoted = "'" + HOSTILE.replace("'", "''") + "'"
    text = (
        f"name: x\ntitle: {quoted}\nabout: {quoted}\naccess: {quoted}\nlicense: {quoted}\nnotes: [{quoted}]\n"
        "columns: {instruction: i, source: s, candidates: [a, b]}\nlabel: {rule: first}\nparts: [{name: all}]\n"
    )
    return read_task(text, "x.yaml")

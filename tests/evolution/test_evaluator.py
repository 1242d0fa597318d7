import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from small_world import BRIGHTER, make_dataset, make_plan, skill

from rewardharness.evolution.evaluator import DOWN_AFTER, Evaluator, affected
from rewardharness.evolution.progress import Exhausted, Meter, RunProgress
from rewardharness.judging.router import route
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry, ReplaceEntry
from rewardharness.models.base import ModelError
from rewardharness.models.open import ScriptedModel
from rewardharness.runs.job import RunPaused, Stopped, StopRequest
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.schema import Example, ImageInput

POOL = make_dataset(4).examples
CATS = EMPTY.apply(AddEntry(skill("cats", "cat", BRIGHTER)))
WORDS = ("red", "blue", "cat", "dog", "sky", "always")
BLANK = ImageInput("x", data=b"")


def make_bench(home: Path, **options: Any) -> tuple[Evaluator, list[dict[str, Any]], Any]:
    plan, model = make_plan(home, **{name: options.pop(name) for name in ("answers",) if name in options})
    lines: list[dict[str, Any]] = []
    return Evaluator(plan.judge, record=lines.append, concurrency=2, **options), lines, model


def entries(draws: list[tuple[int, str, str]]) -> Library:
    return Library(tuple(Entry(f"e{n}", "skill", f"{word}.", body, {"triggers": word}) for n, word, body in draws))


DRAW = st.tuples(st.integers(0, 4), st.sampled_from(WORDS), st.sampled_from("xy"))
DRAWS = st.lists(DRAW, max_size=4, unique_by=lambda draw: draw[0])


@examples(max_examples=40)
@given(DRAWS, DRAWS)
def test_exactly_those_are_affected_whose_context_differs(before: list[Any], after: list[Any]) -> None:
    old, new = entries(before), entries(after)
    examples = [Example(f"{a}-{b}", f"make the {a} {b}", BLANK, (BLANK, BLANK), "A") for a in WORDS for b in WORDS]
    contexts = [[route(made, each.instruction).context_id for made in (old, new)] for each in examples]
    wanted = [each for each, (one, other) in zip(examples, contexts, strict=True) if one != other]
    assert list(affected(old, new, examples)) == wanted


def test_an_entry_that_a_model_decides_on_may_touch_everything() -> None:
    before = EMPTY.apply(AddEntry(Entry("moods", "skill", "Judging moods.", "x")))
    after = before.apply(ReplaceEntry(Entry("moods", "skill", "Judging moods.", "y")))
    assert affected(before, after, POOL) == ()
    assert affected(before, after, POOL, router=True) == POOL
    assert Evaluator(SubAgent(ScriptedModel([]))).affected(before, after, POOL) == POOL, "the model that judges decides"


def test_nothing_is_asked_or_counted_twice(tmp_path: Path) -> None:
    evaluator, lines, model = make_bench(tmp_path)
    first = evaluator.judge(EMPTY, POOL)
    again = evaluator.judge(EMPTY, POOL)
    assert [each.judgment for each in first] == [each.judgment for each in again]
    assert evaluator.spent.judgments == len(model.requests) == len(lines) == len(POOL)
    cats = [each for each in POOL if each.category == "cat"]
    evaluator.judge(CATS, POOL)
    assert evaluator.spent.judgments == len(POOL) + len(cats), "an edit for cats costs what the cats cost"
    asked = len(model.requests)
    back = evaluator.judge(CATS.apply(RemoveEntry("cats")), POOL)
    assert len(model.requests) == asked and [each.credit for each in back] == [each.credit for each in first]
    other, more, _ = make_bench(tmp_path, counted={line["id"] for line in lines})
    other.judge(EMPTY, POOL)
    assert other.spent.judgments == 0 and more == [], "what another process counted"


def test_the_papers_loop_counts_every_time(tmp_path: Path) -> None:
    evaluator, lines, model = make_bench(tmp_path)
    evaluator.judge(EMPTY, POOL)
    evaluator.judge(EMPTY, POOL, again=True)
    assert evaluator.spent.judgments == len(lines) == 2 * len(POOL)
    assert len(model.requests) == len(POOL), "remembered answers are not paid for"


def test_a_budget_is_not_overdrawn(tmp_path: Path) -> None:
    evaluator, _, model = make_bench(tmp_path, limits=SpendingLimits(Budget(judgments=len(POOL) + 3)))
    evaluator.judge(EMPTY, POOL)
    with pytest.raises(Exhausted, match="judgments"):
        evaluator.judge(CATS, POOL)
    assert len(model.requests) == len(POOL)
    evaluator.judge(EMPTY, POOL)
    with evaluator.outside_budget():
        evaluator.judge(CATS, POOL)
    assert evaluator.spent.judgments == len(POOL)


def test_a_dead_endpoint_pauses_soon(tmp_path: Path) -> None:
    evaluator, _, model = make_bench(tmp_path, answers=lambda request: ModelError("unreachable", "Nobody at home."))
    with pytest.raises(RunPaused, match="unreachable") as caught:
        evaluator.judge(EMPTY, POOL)
    assert caught.value.kind == "endpoint"
    assert len(model.requests) <= DOWN_AFTER + 2
    evaluator, _, _ = make_bench(tmp_path / "refusing", answers=lambda request: ModelError("refused", "No."))
    assert not any(each.judged for each in evaluator.judge(EMPTY, POOL)), "refusals do not pause"


def test_a_request_to_stop_is_heard_between_judgments(tmp_path: Path) -> None:
    stop = StopRequest()
    evaluator, lines, _ = make_bench(tmp_path, stop=stop)

    def tell(progress: RunProgress) -> None:
        stop.asked = progress.done > 0

    evaluator.meter = Meter(tell)
    evaluator.meter.begin("pool", len(POOL))
    with pytest.raises(Stopped):
        evaluator.judge(EMPTY, POOL)
    assert 0 < len(lines) <= 2, "what was under way is kept"


def test_slow_steps_are_no_silence() -> None:
    seen: list[RunProgress] = []
    heard = threading.Event()

    def report(progress: RunProgress) -> None:
        seen.append(progress)
        if len(seen) >= 5:
            heard.set()

    meter = Meter(report, {"audit": 10.0})
    with meter.beating(0.001):
        meter.begin("audit", 10)
        meter.step()
        assert heard.wait(10)
        heard.clear()
        meter.end()
        meter.step()
        assert heard.wait(10), "also while nothing is counted"
    assert {(progress.phase, progress.done) for progress in seen} == {("audit", 0), ("audit", 1)}
    assert seen[-1].left is not None and seen[-1].left >= 0


def test_the_first_proposals_count_as_work_and_later_ones_leave_the_remaining_time_as_it_is() -> None:
    seen: list[RunProgress] = []
    meter = Meter(seen.append, {"pool": 10.0, "proposals": 10.0, "search": 10.0, "audit": 10.0})
    meter.begin("pool", 10, done=10)
    meter.begin("search", 10)
    with meter.subphase("proposals", 2):
        meter.step(2, phase="proposals")
    first = seen[-2].left
    assert first is not None and seen[-1].phase == "search", "half of the work is left"
    meter.step(9)
    before = seen[-1].left
    with meter.subphase("proposals", 2):
        assert seen[-1].left == before
    assert before is not None and (seen[-1].phase, seen[-1].done) == ("search", 9)


def test_saved_judgments_do_not_shorten_the_remaining_time() -> None:
    seen: list[RunProgress] = []
    now = 0.0
    meter = Meter(seen.append, {"pool": 10.0, "search": 20.0, "audit": 10.0}, clock=lambda: now)
    meter.begin("pool", 10)
    now = 0.1
    meter.step(10)
    meter.begin("search", 20)
    now = 2.1
    meter.step()
    assert seen[-1].left == pytest.approx(2 * (19 + 10)), "each judgment of this phase took 2 s"
    with meter.subphase("proposals", 1):
        now = 4.1
    meter.step()
    assert seen[-1].left == pytest.approx(2 * (18 + 10)), "what comes between belongs to its time"

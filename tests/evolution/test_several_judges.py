"""Evolution over several judges: the evidence is pooled by example, and no judge may lose."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from small_world import (
    BRIGHTER,
    GOOD,
    QUICK,
    ExactAgent,
    Fuse,
    Killed,
    ListOrchestrator,
    add,
    answer_of,
    events_of,
    make_plan,
    text_of,
)

from rewardharness.evolution.events import Decided
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.report_page import report_page
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.ensemble import EnsembleJudge, judges_of
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest
from rewardharness.models.scripted import Script, ScriptedModel

PETS = add("pets", "cat, dog", BRIGHTER)
"""Fixes all cats and dogs of one judge, and breaks the dogs of the other."""

ONE_BY_ONE = replace(QUICK, per_round=1, screen=False)


def spoiled(request: ChatRequest) -> Script:
    """A judge that is right by nature, but for dogs if a note says what is right."""
    levels = [int(np.asarray(Image.open(io.BytesIO(part.data)))[0, 0, 0]) for part in request.images[-2:]]
    text = text_of(request)
    misled = " dog " in text and BRIGHTER in text
    return answer_of("A" if (levels[0] > levels[1]) != misled else "B")


def over_two(home: Path, answers: Callable[[ChatRequest], Script] = spoiled) -> EvolutionPlan:
    """A plan with two judges."""
    plan, _ = make_plan(home, orchestrator=ListOrchestrator((PETS, GOOD[0])), schedule=ONE_BY_ONE)
    other = ExactAgent(ScriptedModel(answers), ModelJudgeConfig(one_order=True), JudgmentCache(home / "other"))
    return replace(plan, judge=EnsembleJudge((plan.judge, other), apart=True))


def test_an_edit_that_helps_on_the_whole_is_rejected_where_one_judge_loses(tmp_path: Path) -> None:
    plan = over_two(tmp_path)
    assert plan.estimate.requests == 2, "one of each judge"
    report = evolve(plan, tmp_path / "run")
    pets, cats = (event.evidence for event in events_of(tmp_path, Decided)[:2])
    assert (pets.decision, cats.decision) == ("reject", "accept")
    assert pets.fixes > 0 == pets.breaks and "but 2. " in pets.reason and "loses" in pets.reason
    assert [edit.names for edit in report.edits if edit.accepted] == [("cats",)]
    audit = report.audit
    assert (audit.start.accuracy, audit.final.accuracy) == (0.75, 0.875), "means of both judges"
    first, second = audit.by_judge.values()
    assert (first.start.accuracy, first.final.accuracy, first.final_against_start.fixes) == (0.5, 0.75, 3)
    assert (second.start.accuracy, second.final.accuracy, second.final_against_start.n) == (1.0, 1.0, 12)
    assert "Test set, 2. " in report_page(report)
    lines = [json.loads(line)["id"] for line in (tmp_path / "run" / "results.jsonl").read_text("utf-8").splitlines()]
    others = [name.removeprefix("judge2-") for name in lines if name.startswith("judge2-")]
    assert sorted(others) == sorted(name for name in lines if not name.startswith("judge2-"))
    assert report.spent.judgments <= len(others), "an example counts once"


def test_what_one_judge_cannot_judge_counts_for_none(tmp_path: Path) -> None:
    def silent(request: ChatRequest) -> Script:
        return "I cannot say." if " car " in text_of(request) else spoiled(request)

    audit = evolve(over_two(tmp_path, silent), tmp_path / "run").audit
    first, second = audit.by_judge.values()
    assert (audit.final.n, audit.final.judged, first.final.judged, second.final.judged) == (12, 9, 9, 9)


def test_a_killed_run_comes_out_the_same(tmp_path: Path) -> None:
    report = evolve(over_two(tmp_path / "whole"), tmp_path / "whole" / "run")
    killed = 0
    for at in (15, 20, 10, 1000):
        fuse = Fuse(at)

        def answer(request: ChatRequest, fuse: Fuse = fuse) -> Script:
            fuse()
            return spoiled(request)

        try:
            again = evolve(over_two(tmp_path, answer), tmp_path / "run")
        except (Killed, BaseExceptionGroup):
            killed += 1
    assert killed >= 2
    assert (again.audit, again.pool, again.spent.judgments) == (report.audit, report.pool, report.spent.judgments)
    one, two = (Library.load(folder / "run" / "library") for folder in (tmp_path / "whole", tmp_path))
    assert (one.id, one.lineage_text) == (two.id, two.lineage_text)


def test_several_judges_are_named_with_each(tmp_path: Path) -> None:
    judge = open_judge("each(closer, farther)")
    assert [member.name for member in judges_of(judge)] == ["closer (baseline)", "farther (baseline)"]
    assert judge.name == "each(closer (baseline), farther (baseline))" and judge.protocol.startswith("each: ")
    assert judge.revision != open_judge("mean(closer, farther)").revision
    assert len(judges_of(open_judge("mean(closer, farther)"))) == 1

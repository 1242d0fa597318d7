import random
from dataclasses import replace
from pathlib import Path

import pytest
from proposer_samples import criterion, library, pair, skill, view

from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import make_demo
from rewardharness.errors import DataError
from rewardharness.evolution.builtin.forecast import Forecast, observer
from rewardharness.evolution.builtin.ideas import NAME, new_criteria, with_criterion, without_criterion
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.builtin.phrasing import KINDS, LEARNED, criterion_text
from rewardharness.evolution.evolver import problem_of
from rewardharness.evolution.proposal import MAX_CITED, Outcome, Proposal, RejectedProposal, View, criteria_of
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.report import credit
from rewardharness.library.check import check_folder
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Rubric
from rewardharness.library.store import Library, ReplaceEntry
from rewardharness.library.triggers import parse_triggers
from rewardharness.measure.table import MEASURES, known_measures
from rewardharness.schema import EDIT_KINDS, Example

THINGS = ["cat", "dog", "hat", "car", "tree", "lamp", "bird", "boat"]
GENERAL = skill("every-edit", "always", criterion("sharp", "sharpness"))
ADDING = skill("adding-things", "add, insert", criterion("extent", "edit_extent", applies=["add"]))
TEXTS = skill("reading-text", "text, write")


def adds(better: dict[str, float], worse: dict[str, float], count: int = 6, verb: str = "add") -> dict:
    """Requests to add things; the label stands at either place in turn."""
    return {
        f"{verb}{number}": (f"{verb} a {thing} to the scene", "AB"[number % 2], pair(better, worse, "AB"[number % 2]))
        for number, thing in enumerate(THINGS[:count])
    }


# Two criteria of one dimension, of which the one that is wrong counts four times as much.
TOO_HEAVY = library(skill("every-edit", "always", criterion("sharp", "sharpness", 4), criterion("seam", "seam")))
OUTWEIGHED = {"sharpness": 0.4, "seam": 0.9}, {"sharpness": 0.6, "seam": 0.3}


def propose(seen: View) -> list[Proposal]:
    return list(BuiltinOrchestrator().propose(seen))


# The sharper candidate wins and should not; the one with new structure was preferred.
MISLED = adds(
    {"sharpness": 0.3, "edit_extent": 0.5, "added_structure": 0.9},
    {"sharpness": 0.6, "edit_extent": 0.5, "added_structure": 0.2},
)
SEEN = view(library(GENERAL, ADDING), MISLED)


def test_the_measure_that_people_agree_with_is_proposed_for_the_skill_of_its_kind() -> None:
    best = propose(SEEN)[0]
    assert (best.operator, best.source) == ("add", NAME)
    assert {"added_structure"} == {part for part in best.idea if part in MEASURES}
    after = best.applied_to(SEEN.library)
    assert Forecast(replace(SEEN, library=after)).effect(()).gain == 0
    assert len(best.cited) == MAX_CITED and set(best.cited) <= set(MISLED)
    assert "in 6 of 6 pairs" in best.statement and "6 fixed, 0 broken" in best.statement
    adding = next(new_criteria(Forecast(replace(SEEN, known_measures=("added_structure",))))).changes[0]
    assert isinstance(adding, ReplaceEntry) and adding.entry.name == "adding-things"
    for words in (ADDING.body, "measure `added_structure`", "in 6 of 6 pairs of kind `add`"):
        assert words in adding.entry.body
    one = dict(list(MISLED.items())[:1])
    assert not any(each.operator == "add" for each in _all_ideas(view(library(GENERAL, ADDING), one)))


def test_a_criterion_goes_with_its_note_and_the_heading_with_the_last() -> None:
    first, second = criterion("seam", "seam"), criterion("noise", "noise")
    learned = with_criterion(with_criterion(ADDING, first, "Why."), second, "Why not.")
    assert learned.body.count(LEARNED) == 1
    once = without_criterion(learned, first)
    assert "`seam`" not in once.body and "Why not." in once.body
    assert without_criterion(once, second) == ADDING
    bare = without_criterion(GENERAL, criterion("sharp", "sharpness"))
    assert (bare.rubric, bare.body) == (None, GENERAL.body)


def test_a_kind_without_a_skill_gets_one_with_triggers_of_its_own() -> None:
    cases = adds({"added_structure": 0.9}, {"added_structure": 0.2})
    empty = view(Library(), cases)
    assert not any(outcome.judged for outcome in empty.outcomes)
    first = propose(empty)[0].applied_to(empty.library)
    assert all(outcome.credit == 1 for outcome in view(first, cases).outcomes), "from nothing comes one that judges"
    seen = view(library(TEXTS), cases)
    names = {proposal.idea[0]: proposal for proposal in propose(seen)}
    entry = names["skill"].applied_to(seen.library).get("judging-add-edits")
    assert entry is not None and entry.rubric is not None
    assert all(any(trigger.matches(f"{verb} a cat") for trigger in entry.triggers) for verb in ("add", "insert"))
    assert entry.rubric.criteria[0].applies == ("add",)


def test_a_criterion_that_points_the_wrong_way_is_taken_out_with_its_note_or_made_lighter() -> None:
    grades = {"sharpness": 0.2, "edit_extent": 0.7}, {"sharpness": 0.9, "edit_extent": 0.5}
    seen = view(library(GENERAL, ADDING), adds(*grades))
    offered = propose(seen)
    assert any(each.idea == ("remove", "every-edit", "sharp") for each in offered)
    assert "in 0 of 6 pairs" in next(each for each in offered if each.operator == "remove").statement
    heavy = _all_ideas(view(TOO_HEAVY, adds(*OUTWEIGHED)))
    assert ("reweight", "every-edit", "sharp") in {each.idea[:3] for each in heavy}
    words = _all_ideas(view(TOO_HEAVY, adds(*OUTWEIGHED), protocol="chain, both orders"))
    assert {each.operator for each in words}.isdisjoint({"reweight", "split"}), "judges of words get no numbers"


def _all_ideas(seen: View) -> list[Proposal]:
    """What would be proposed in round after round if nothing were kept."""
    found: list[Proposal] = []
    while batch := propose(replace(seen, rejected=tuple(RejectedProposal.of(each, "no") for each in found))):
        found += batch
    return found


def test_a_criterion_that_helps_one_kind_and_hurts_another_goes_on_for_the_first() -> None:
    cases = adds({"sharpness": 0.9, "edit_extent": 0.5}, {"sharpness": 0.4, "edit_extent": 0.5})
    hurt = adds({"sharpness": 0.3, "fidelity": 0.6}, {"sharpness": 0.9, "fidelity": 0.5})
    cases |= {f"r{name}": (f"remove the {name}", label, grades) for name, (_, label, grades) in hurt.items()}
    both = library(skill("every-edit", "always", criterion("sharp", "sharpness"), criterion("same", "fidelity")))
    split = next(each for each in _all_ideas(view(both, cases)) if each.operator == "split")
    assert criteria_of(split.applied_to(both).get("every-edit"))[0].applies == ("add",)
    assert "remove" in split.statement


def test_a_skill_that_is_not_consulted_on_its_kind_learns_the_word() -> None:
    adding = skill("adding-things", "insert", criterion("new", "added_structure", applies=["add"]))
    seen = view(library(GENERAL, adding), MISLED)
    ideas = [each for each in _all_ideas(seen) if each.operator == "retrigger"]
    entry = ideas[0].applied_to(seen.library).get("adding-things")
    assert entry is not None
    assert str(entry.triggers[0]) == "insert"
    assert all(any(trigger.matches(said) for trigger in entry.triggers) for said, *_ in MISLED.values())


def test_a_trigger_that_brings_a_skill_in_where_it_does_harm_goes() -> None:
    general = skill("every-edit", "always", criterion("new", "added_structure"))
    texts = skill("reading-text", "text, scene", criterion("frame", "frame_match", 4))
    grades = {"added_structure": 0.9, "frame_match": 0.2}, {"added_structure": 0.5, "frame_match": 0.9}
    ideas = _all_ideas(view(library(general, texts, ADDING), adds(*grades)))
    assert ("untrigger", "reading-text", "scene") in {each.idea for each in ideas}
    mine = replace(texts, rubric=Rubric((criterion("frame", "frame_match", 4, ["add"]),)))
    kept = _all_ideas(view(library(general, mine, ADDING), adds(*grades)))
    assert not any(each.idea[0] == "untrigger" for each in kept)


def test_skills_that_are_always_consulted_together_are_merged_when_pruning() -> None:
    twin = skill("things-added", "insert, add", criterion("extent", "edit_extent"), body="Twins.")
    seen = view(library(GENERAL, ADDING, twin, TEXTS), MISLED, phase="prune")
    merge = propose(seen)
    assert [each.names for each in merge] == [("adding-things", "things-added")]
    after = merge[0].applied_to(seen.library)
    entry = after.get("adding-things")
    assert entry is not None and entry.rubric is not None
    assert "things-added" not in after
    assert [each.id for each in entry.rubric.criteria] == ["extent", "extent-2"]
    assert "Twins." in entry.body and ADDING.body in entry.body


def test_tools_are_proposed_to_judges_that_call_them() -> None:
    assert propose(replace(SEEN, phase="tools")) == []
    grades = {"sharpness": 0.3, "edit_extent": 0.6}, {"sharpness": 0.9, "edit_extent": 0.5}
    asked = view(library(GENERAL, ADDING), adds(*grades), protocol="chain, both orders", phase="tools")
    offered = propose(asked)
    assert [(each.operator, each.idea) for each in offered] == [("add_tool", ("tool", "edit_extent"))]
    tool = offered[0].applied_to(asked.library).get("edit-extent-meter")
    assert tool is not None
    assert (tool.measure, tool.metadata) == ("edit_extent", {"triggers": "add, insert"})
    hidden = replace(tool, metadata={"triggers": "text"})
    fixes = propose(replace(asked, library=library(GENERAL, ADDING, hidden)))
    assert [each.operator for each in fixes] == ["fix_tool"]
    entry = fixes[0].applied_to(library(GENERAL, ADDING, hidden)).get("edit-extent-meter")
    assert entry is not None and [str(each) for each in entry.triggers] == ["text", "add", "insert"]


def test_a_round_is_short_ordered_and_touches_every_entry_once() -> None:
    seen = view(open_library("builtin"), MISLED)
    seen = replace(seen, limit=3)
    offered = propose(seen)
    assert 0 < len(offered) <= 3
    names = [name for each in offered for name in each.names]
    assert len(set(names)) == len(names)
    forecast = Forecast(seen)
    effects = [forecast.effect(each.changes) for each in offered]
    assert [each.gain for each in effects] == sorted((each.gain for each in effects), reverse=True)
    assert all(len(each.fixed) > len(each.broken) for each in effects)


def test_the_same_view_gives_the_same_proposals_and_the_seed_only_breaks_draws() -> None:
    once, again = propose(SEEN), propose(SEEN)
    assert once == again
    signatures = [each.signature for each in _all_ideas(SEEN)]
    assert len(set(signatures)) == len(signatures) > 3, "nothing is proposed twice"
    firsts = {propose(replace(SEEN, seed=seed))[0].idea for seed in range(12)}
    assert firsts == {
        ("criterion", "adding-things", "add", "added_structure", "4"),
        ("criterion", "every edit", "added_structure", "4"),
    }


def test_where_all_goes_well_nothing_is_proposed() -> None:
    orchestrator, grades = BuiltinOrchestrator(), ({"sharpness": 0.9, "edit_extent": 0.5}, {"sharpness": 0.2})
    fine = view(library(GENERAL, ADDING), adds(*({"edit_extent": 0.5, **each} for each in grades)))
    assert list(orchestrator.propose(fine)) == list(orchestrator.findings) == [] and orchestrator.spent.calls == 0


def test_ties_groups_and_unreadable_pictures_are_no_obstacle() -> None:
    cases = {**MISLED, "tie": ("add a fence", "tie", pair({"sharpness": 0.5}, {"sharpness": 0.6}))}
    grades = {label: {"added_structure": grade} for label, grade in zip("ABC", (0.1, 0.2, 0.9), strict=True)}
    cases["group"] = ("add a pond", "C", {label: {"sharpness": 0.5, **grade} for label, grade in grades.items()})
    seen = view(library(GENERAL, ADDING), cases)

    def observe(asked: Example) -> dict:
        if asked.id == "add0":
            raise DataError("gone")
        return {} if asked.id == "add1" else cases[asked.id][2]

    forecast = Forecast(replace(seen, observe=observe))
    assert {case.id for case in forecast.cases} == {*MISLED, "group"} - {"add0", "add1"}
    assert forecast.agreement("added_structure", forecast.cases).agrees == len(MISLED) - 1
    assert propose(replace(seen, observe=observe))


def test_what_observing_leaves_out_is_taken_from_the_chain() -> None:
    def observe(asked: Example) -> dict:
        return {label: {"added_structure": each["added_structure"]} for label, each in MISLED[asked.id][2].items()}

    blind = Forecast(replace(SEEN, observe=observe))
    whole = Forecast(SEEN)
    assert [case.grades for case in blind.cases] == [case.grades for case in whole.cases]
    shares = {name: whole.agreement(name, whole.cases).share for name in ("added_structure", "noise", "edit_extent")}
    assert shares == {"added_structure": 8 / 10, "noise": 0.5, "edit_extent": 0.5}
    assert whole.agreement("sharpness", whole.cases).disagrees == len(MISLED)


def test_there_are_words_for_every_kind_and_every_measure_that_grades() -> None:
    assert set(KINDS) == set(EDIT_KINDS)
    for words in KINDS.values():
        parse_triggers(words.triggers)
    texts = {name: criterion_text(name) for name in MEASURES if name != "change_map"}
    assert len(set(texts.values())) == len(texts)
    assert all("1:" in text for text in texts.values())


@pytest.mark.parametrize("start", [Library(), library(GENERAL, ADDING, TEXTS), open_library("builtin")])
def test_whatever_is_proposed_passes_the_checks_of_any_proposal(start: Library, tmp_path: Path) -> None:
    cases = dict(MISLED)
    rng = random.Random(3)
    names = [name for name, measure in MEASURES.items() if name != "change_map" and not measure.same_look]
    for number, kind in enumerate(("remove the cat", "make the car red", "write hi", "make it a sketch", "blorp") * 2):
        grades = [{name: rng.random() for name in names} for _ in "AB"]
        cases[f"c{number}"] = (f"{kind} {THINGS[number % 8]}", "AB"[number % 2], dict(zip("AB", grades, strict=True)))
    before, count = set(_complaints(start, tmp_path / "before")), 0
    for phase in ("skills", "tools", "prune"):
        seen, made = view(start, cases, phase=phase), start
        for proposal in propose(seen):
            assert problem_of(proposal, seen) == ""
            made, count = proposal.applied_to(made), count + 1
        assert set(_complaints(made, tmp_path / phase)) <= before
    assert count >= 2


def _complaints(made: Library, folder: Path) -> list[str]:
    made.save(folder)
    return [each.message for each in check_folder(folder, MEASURES) if each.severity != "note"]


SLOW = {"text_match", "unasked_text"}
"""Reading text costs as much as all other measures together."""


def _without(made: Library, gone: set[str]) -> Library:
    for entry in made.skills:
        kept = tuple(each for each in criteria_of(entry) if each.measure not in gone)
        made = made.apply(ReplaceEntry(replace(entry, rubric=Rubric(kept) if kept else None)))
    return Library(tuple(entry for entry in made.entries if entry.measure not in SLOW))


@pytest.mark.slow
def test_on_real_pictures_the_forecast_is_what_the_measured_judge_decides(tmp_path: Path) -> None:
    """Measures that were taken out of the built-in Library come back first."""
    make_demo(tmp_path / "demo", pairs=24, groups=0, seed=0, side=160)
    examples, cache = read_folder(tmp_path / "demo").examples, JudgmentCache(tmp_path / "cache")
    judge, observe = MeasuredJudge(cache=cache), observer(cache)

    def judged(made: Library) -> tuple[Outcome, ...]:
        judgments = [(each, judge.judge_now(each, made)) for each in examples]
        return tuple(Outcome(each, judgment, credit(each, judgment)) for each, judgment in judgments)

    poor = _without(open_library("builtin"), SLOW | {"edit_presence", "added_structure"})
    seen = View(poor, judged(poor), observe, tuple(name for name in known_measures() if name not in SLOW))
    before = {outcome.example.id: outcome.credit for outcome in seen.outcomes}
    forecast, offered = Forecast(seen), propose(seen)
    assert {"edit_presence", "added_structure"} & {part for each in offered[:2] for part in each.idea}
    for proposal in offered:
        effect = forecast.effect(proposal.changes)
        after = {each.example.id: each.credit for each in judged(proposal.applied_to(poor))}
        assert {name for name in after if after[name] > before[name]} == set(effect.fixed)
        assert {name for name in after if after[name] < before[name]} == set(effect.broken)
        assert proposal != offered[0] or sum(after.values()) >= sum(before.values()) + 2

"""Mutation operators: what each condition accepts and rejects, and which operator comes next."""

from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import pytest
from proposer_samples import criterion, library, pair, skill, view

from rewardharness.errors import LibraryError
from rewardharness.evolution import operators
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.operators import Choice, condition_problem, next_operator, possible_mutations
from rewardharness.evolution.proposal import MUTATIONS, Mutation, Proposal, RejectedProposal, View
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, Change, RemoveEntry, ReplaceEntry
from rewardharness.prompts import sections

LOOKS = Criterion("looks", "How beautiful and appealing the candidate is.", 2.0, dimension="quality")
OBEYS = Criterion("obeys", "Whether the requested thing is there.", 2.0)
ADDING = skill("adding", "add, insert", LOOKS, OBEYS, body="Judge every added thing on its own merits.")
TEXTS = skill("texts", "write, text", body="Read what is written, letter after letter, in each candidate.")
PROMPTED = ({"triggers": "add"}, "Count the things.", None, None, {"n": "int"})
COUNT = Entry("count", "tool", "Counts things.", "Ask it.", *PROMPTED)
CASES = {
    "miss": ("add a red cat", "A", pair({"seam": 0.2}, {"seam": 0.8})),
    "hit": ("add a dog", "A", pair({"seam": 0.9}, {"seam": 0.1})),
}
EVERY = skill("every-edit", "always", criterion("seam", "seam"))
SEEN: View = view(library(EVERY, ADDING, TEXTS, COUNT), CASES)


def with_criteria(*criteria: Criterion, entry: Entry = ADDING) -> Change:
    return ReplaceEntry(replace(entry, rubric=Rubric(criteria)))


def triggered(entry: Entry, triggers: str, **fields: str) -> Entry:
    return replace(entry, metadata={"triggers": triggers}, **fields)  # type: ignore[arg-type]


def text(words: str, of: Criterion = LOOKS, **fields: object) -> Criterion:
    return replace(of, text=words, **fields)  # type: ignore[arg-type]


STRICT = text("How beautiful and appealing the candidate is. A 4 needs both, and no flaw at any size.")
FACTUAL = text("Whether the colors, shadows and edges of the added object match those around it.")
SEAMS = Criterion("seams", "Whether seams or blur surround the added thing.", 1.0, dimension="quality")
HALVES = text("How the light falls.", weight=1.0, id="light"), text("How sharp the lines are.", weight=1.0, id="sharp")
RED = skill("red-things", "red", body="A red thing is as red in the shade as the request says.")
SHORT = skill("adding", "add, insert, write, text", body="Judge what was added.")

GOOD: list[tuple[Mutation, tuple[Change, ...]]] = [
    ("raise_bar", (with_criteria(STRICT, OBEYS),)),
    ("raise_bar", (ReplaceEntry(replace(TEXTS, body=TEXTS.body + " One wrong letter is a 2.")),)),
    ("decompose", (with_criteria(*HALVES, OBEYS),)),
    ("decompose", (with_criteria(*(replace(LOOKS, id=kind, applies=(kind,)) for kind in ("add", "color")), OBEYS),)),
    ("decompose", (RemoveEntry("texts"), AddEntry(triggered(TEXTS, "write", name="w")), AddEntry(RED))),
    ("focus_on_facts", (with_criteria(FACTUAL, OBEYS),)),
    ("focus_on_facts", (with_criteria(LOOKS, replace(OBEYS, measure="seam")),)),
    ("punish_artifacts", (with_criteria(LOOKS, OBEYS, SEAMS),)),
    ("punish_artifacts", (ReplaceEntry(replace(TEXTS, body=TEXTS.body + " Distorted letters lose.")),)),
    ("counterexample_trigger", (AddEntry(RED),)),
    ("reweight", (with_criteria(replace(LOOKS, weight=1.0), OBEYS),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(SHORT))),
    ("retire", (RemoveEntry("texts"),)),
    ("retire", (with_criteria(OBEYS),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "write, cat")),)),
    ("swap_tool", (ReplaceEntry(replace(COUNT, system_prompt=None, output_schema=None, measure="seam")),)),
    ("swap_tool", (RemoveEntry("count"), AddEntry(replace(COUNT, name="spell")))),
    ("fix_tool", (ReplaceEntry(replace(COUNT, system_prompt="Count the things, hidden ones included.")),)),
]
BAD: list[tuple[Mutation, tuple[Change, ...]]] = [
    ("raise_bar", (with_criteria(text("Is it nice?"), OBEYS),)),
    ("raise_bar", (with_criteria(replace(STRICT, weight=0.5), OBEYS),)),
    ("raise_bar", (with_criteria(STRICT),)),
    ("raise_bar", (with_criteria(replace(LOOKS, weight=3.0), OBEYS),)),
    ("raise_bar", (AddEntry(RED),)),
    ("decompose", (with_criteria(HALVES[0], OBEYS),)),
    ("decompose", (with_criteria(HALVES[0], replace(HALVES[0], id="x"), OBEYS),)),
    ("decompose", (with_criteria(*(replace(half, weight=2.0) for half in HALVES), OBEYS),)),
    ("focus_on_facts", (with_criteria(LOOKS, text("Whether the nice thing is there.", OBEYS)),)),
    ("focus_on_facts", (with_criteria(LOOKS, text("Whether the request was met.", OBEYS)),)),
    ("punish_artifacts", (with_criteria(LOOKS, replace(OBEYS, weight=4.0)),)),
    ("counterexample_trigger", (AddEntry(triggered(RED, "blue")),)),
    ("counterexample_trigger", (AddEntry(triggered(RED, "always")),)),
    ("counterexample_trigger", (ReplaceEntry(triggered(TEXTS, "red")),)),
    ("reweight", (with_criteria(replace(LOOKS, weight=4.0), replace(OBEYS, weight=4.0)),)),
    ("reweight", (with_criteria(replace(STRICT, weight=1.0), OBEYS),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(triggered(SHORT, "write")))),
    ("merge", (RemoveEntry("texts"),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(replace(SHORT, body="Look. " * 99)))),
    ("retire", (with_criteria(text("Whether it is there.", OBEYS)),)),
    ("retire", (ReplaceEntry(replace(TEXTS, body="Read.")),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "text")),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "cat", body="Read.")),)),
    ("swap_tool", (ReplaceEntry(replace(COUNT, body="Ask it twice.")),)),
    ("fix_tool", (ReplaceEntry(replace(COUNT, measure="seam")),)),
    ("fix_tool", (ReplaceEntry(triggered(COUNT, "insert")),)),
    ("fix_tool", (ReplaceEntry(replace(TEXTS, body="Read.")),)),
]


def proposal(changes: tuple[Change, ...]) -> Proposal:
    made = Proposal("modify", changes, "It helps.", ("miss",), "test")
    made.applied_to(SEEN.library)
    return made


@pytest.mark.parametrize(
    ("mutation", "changes", "met"),
    [*((name, changes, True) for name, changes in GOOD), *((name, changes, False) for name, changes in BAD)],
)
def test_the_condition_of_an_operator(mutation: Mutation, changes: tuple[Change, ...], met: bool) -> None:
    problem = condition_problem(mutation, proposal(changes), SEEN)
    assert problem == ("" if met else " ".join(sections("mutations")[mutation].split()))


def test_chinese_wording_is_understood() -> None:
    pretty = with_criteria(text("候选图像是否好看。"), OBEYS)
    plain = with_criteria(text("候选图像。"), OBEYS)
    seen, bare = (replace(SEEN, library=SEEN.library.apply(each)) for each in (pretty, plain))
    facts, seams = text("添加的物体颜色是否正确。"), replace(SEAMS, text="是否有接缝。", dimension="instruction")
    made = proposal((with_criteria(facts, OBEYS),))
    assert condition_problem("focus_on_facts", made, seen) == ""
    assert condition_problem("focus_on_facts", proposal((pretty,)), bare)
    assert condition_problem("punish_artifacts", proposal((with_criteria(LOOKS, OBEYS, seams),)), seen) == ""


def test_every_operator_has_a_purpose_and_both_kinds_of_cases() -> None:
    assert {*sections("mutations")} == {*MUTATIONS} == {name for name, _ in GOOD} == {name for name, _ in BAD}


def test_what_is_possible_depends_on_phase_and_library() -> None:
    skills = possible_mutations(SEEN)
    assert {*MUTATIONS} - {*skills} == {"swap_tool", "fix_tool"}
    assert {*possible_mutations(SEEN, model=False)} == operators.WITHOUT_MODEL
    assert {*possible_mutations(replace(SEEN, phase="tools"))} == {"swap_tool", "fix_tool", "retire", "retrigger"}
    assert {*possible_mutations(replace(SEEN, phase="prune"))} == {"merge", "retire"}
    empty = replace(SEEN, library=library())
    assert possible_mutations(empty) == ("punish_artifacts", "counterexample_trigger")
    assert possible_mutations(replace(empty, phase="tools")) == ()


HEAVY = library(skill("every-edit", "always", criterion("sharp", "sharpness", 4), criterion("seam", "seam")))
MISLED: View = view(
    HEAVY,
    {
        f"add{n}": (f"add a {thing}", "A", pair({"sharpness": 0.4, "seam": 0.9}, {"sharpness": 0.6, "seam": 0.3}))
        for n, thing in enumerate(("cat", "dog", "hat", "car", "tree", "lamp"))
    },
)


@pytest.mark.parametrize("mutation", ["reweight", "retire"])
def test_the_built_in_orchestrator_makes_the_operator_that_is_asked_for(mutation: Mutation) -> None:
    made = BuiltinOrchestrator().propose(replace(MISLED, mutations=(mutation,)))
    assert made and all(each.mutation == mutation for each in made)
    assert all(condition_problem(mutation, each, MISLED) == "" for each in made)
    assert BuiltinOrchestrator().propose(replace(MISLED, mutations=("raise_bar", "focus_on_facts"))) == []
    assert [each.mutation for each in BuiltinOrchestrator().propose(MISLED)] == [None]


def draw(choice: Choice, count: int, asked: int = 0, **more: object) -> Counter[Mutation]:
    given: dict[str, Any] = {"results": {}, "seed": 3, "usable": MUTATIONS, **more}
    return Counter(next_operator(choice, number=number, **given) for number in range(asked, asked + count))


def structural(counts: Counter[Mutation]) -> float:
    return sum(count for name, count in counts.items() if name in operators.STRUCTURAL) / counts.total()


@pytest.mark.parametrize("choice", get_args(Choice))
def test_only_usable_operators_are_chosen_and_a_number_always_gives_the_same(choice: Choice) -> None:
    assert set(draw(choice, 40, usable=("raise_bar", "reweight"))) == {"raise_bar", "reweight"}
    assert draw(choice, 30) == draw(choice, 10) + draw(choice, 20, 10)


def test_choices_of_operators() -> None:
    assert draw("fixed", 22) == dict.fromkeys(MUTATIONS, 2)
    unknown = draw("success_feedback", 550)
    assert set(unknown) == set(MUTATIONS) and min(unknown.values()) > 25
    gains: list[tuple[Mutation, float]] = [("reweight", 0.08), ("merge", -0.3), ("raise_bar", -0.1)]
    results = operators.with_gains({}, gains * 25)
    assert results["merge"] == (0, 25)
    assert draw("success_feedback", 200, results=results, usable=("reweight", "merge", "raise_bar"))["reweight"] > 195
    assert structural(draw("exploration_decay", 5)) == 1 == structural(draw("diversity_driven", 100))
    assert structural(draw("exploration_decay", 400, 400)) == pytest.approx(operators.LEAST_SHARE, abs=0.07)
    assert structural(draw("diversity_driven", 400, diversity=0.9)) == pytest.approx(operators.LEAST_SHARE, abs=0.07)


ONE = skill("one", "always", criterion("a", "seam"))
TWO = skill("two", "add")
ONE_AND_TWO = library(ONE, TWO)


def edit_of(*changes: AddEntry | ReplaceEntry | RemoveEntry, idea: tuple[str, ...] = ()) -> Proposal:
    return Proposal("modify", changes, "Because.", ("x",), "me", idea)


def test_the_same_edit_has_the_same_signature_whoever_proposes_it() -> None:
    change = ReplaceEntry(replace(ONE, body="New."), "why")
    again = replace(edit_of(change), statement="Other words.", source="you", cited=())
    assert edit_of(replace(change, reason="other")).signature == again.signature
    assert again.signature != edit_of(ReplaceEntry(replace(ONE, body="Newer."))).signature
    assert again.signature != edit_of(RemoveEntry("one")).signature
    assert edit_of(RemoveEntry("one")).signature != edit_of(RemoveEntry("two")).signature
    first, later = (edit_of(ReplaceEntry(replace(ONE, body=body)), idea=("reweight", "2")) for body in "xy")
    assert first.signature == later.signature != replace(first, idea=("reweight", "4")).signature
    tried = RejectedProposal.of(edit_of(AddEntry(TWO), RemoveEntry("one")), "broke more than it fixed")
    assert tried.text == "How to judge two.\nLook closely at each candidate."
    assert (tried.statement, tried.reason) == ("Because.", "broke more than it fixed")


def test_all_changes_are_applied_together_or_the_problem_is_told() -> None:
    merge = edit_of(RemoveEntry("two"), ReplaceEntry(replace(ONE, body="Both.")))
    assert [entry.name for entry in merge.applied_to(ONE_AND_TWO).entries] == ["one"]
    assert merge.names == ("two", "one")
    with pytest.raises(LibraryError, match="changes nothing"):
        edit_of(ReplaceEntry(ONE)).applied_to(ONE_AND_TWO)
    with pytest.raises(LibraryError, match="no entry"):
        edit_of(RemoveEntry("two"), RemoveEntry("two")).applied_to(ONE_AND_TWO)
    assert len(ONE_AND_TWO) == 2

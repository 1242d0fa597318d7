import json
from dataclasses import replace

import pytest
from proposer_samples import criterion, example, judge, library, pair, skill, view
from small_world import text_of

from rewardharness.evolution.analyzer import analyze, chain_grades, find_clusters, misled_by, overlap, shape_findings
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.llm_orchestrator import LLMOrchestrator
from rewardharness.evolution.proposal import MAX_CITED, Outcome, Proposal, RejectedProposal, View
from rewardharness.library.entry import Entry
from rewardharness.library.store import RemoveEntry
from rewardharness.models.base import ChatRequest
from rewardharness.models.open import ScriptedModel
from rewardharness.schema import ChainStep, Failure, Judgment, RoutedEntry, Scores

RULES = library(
    skill("every-edit", "always", criterion("sharp", "sharpness"), criterion("seam", "seam")),
    skill("adding", "add", criterion("new", "added_structure", applies=["add"])),
)


def graded(*numbers: tuple[float, float]) -> dict:
    """Grades of the preferred candidate and the other for sharpness, seams and added structure."""
    rows = [dict(zip(("sharpness", "seam", "added_structure"), row, strict=True)) for row in zip(*numbers, strict=True)]
    return pair(*rows)  # type: ignore[return-value]


SHARPER_LOSES = graded((0.2, 0.9), (0.5, 0.5), (0.6, 0.5))
ALL_BETTER = graded((0.9, 0.3), (0.6, 0.5), (0.9, 0.1))


def outcome(name: str, instruction: str, grades: dict, label: str = "A") -> Outcome:
    return judge(RULES, example(name, instruction, label), grades)


def adds(misses: int, hits: int) -> list[Outcome]:
    wrong = [outcome(f"m{number}", f"add a cat {number}", SHARPER_LOSES) for number in range(misses)]
    return wrong + [outcome(f"h{number}", f"add a dog {number}", ALL_BETTER) for number in range(hits)]


def chain(shown_as: str, name: str, result: dict, images: list[object]) -> Judgment:
    steps = (
        ChainStep("think", f"Shown as: {shown_as}."),
        ChainStep("tool", json.dumps({"name": name, "images": images, "query": "?"})),
        ChainStep("obs", json.dumps(result)),
    )
    return Judgment("x", "vllm:m", "chain, both orders", "l", preference="A", steps=steps)


def test_the_chain_of_a_model_is_read_in_the_candidates_own_letters() -> None:
    one = chain("B as A, A as B", "seam-finder", {"grade": 0.2}, ["source", {"image": "a", "box": [0, 0, 1, 1]}])
    assert chain_grades(one) == {"seam-finder": {"B": 0.2}}
    both = chain("B as A, A as B", "seam-detector", {"A": {"grade": 0.2}, "B": {"grade": 0.7}}, ["A", "B"])
    assert chain_grades(both) == {"seam-detector": {"B": 0.2, "A": 0.7}}
    assert misled_by(Outcome(example("x", "add a cat", "B"), both, 0.0)) == "seam-detector"


def test_chains_that_make_no_sense_are_read_as_saying_nothing() -> None:
    for result in ({"grade": True}, {"grade": "high"}, {"grade": 7}, {"A": 1}, {}):
        assert chain_grades(chain("A as A", "t", result, ["A"])) == {}
    assert chain_grades(chain("A as A", "t", {"grade": 0.5}, "source")) == {}  # type: ignore[arg-type]
    odd = (ChainStep("obs", "{"), ChainStep("tool", "not json"), ChainStep("obs", '{"grade": 0.5}'))
    assert chain_grades(Judgment("x", "j", "p", "l", steps=odd)) == {}


def test_without_observations_the_scores_tell() -> None:
    scores = {"A": Scores(2.0, 4.0, 0.6), "B": Scores(3.0, 1.0, 0.4)}
    judgment = Judgment("x", "j", "direct", "l", preference="A", scores=scores)
    assert misled_by(Outcome(example("x", "add a cat", "B"), judgment, 0.0)) == "quality score"
    tied = replace(judgment, preference="tie")
    assert misled_by(Outcome(example("x", "add a cat", "B"), tied, 0.5)) == "nothing in the chain"


def test_misses_are_put_together_by_kind_skills_and_cause() -> None:
    others = [outcome("r", "remove the dog", SHARPER_LOSES)]
    clusters = find_clusters([*adds(5, 3), *others])
    rows = [(each.kind, each.skills, each.misled_by, len(each.failures), each.successes) for each in clusters]
    assert rows == [("add", ("adding",), "sharpness", 5, 3), ("remove", (), "sharpness", 1, 0)]
    entries = (RoutedEntry("every-edit", "skill", "always"), RoutedEntry("seams", "tool", "the instruction says 'add'"))
    plain = replace(adds(1, 0)[0], judgment=replace(adds(1, 0)[0].judgment, entries=entries))
    assert find_clusters([plain])[0].skills == (), "Skills that are always consulted do not divide clusters"


def test_a_cause_that_occurs_once_goes_with_the_others_that_do() -> None:
    seams = graded((0.5, 0.5), (0.1, 0.9), (0.5, 0.4))
    clusters = find_clusters([*adds(2, 0), outcome("s", "add a hat", seams)])
    assert {each.misled_by: len(each.failures) for each in clusters} == {"sharpness": 2, "": 1}


def test_findings_cite_few_examples_the_most_confident_misses_first() -> None:
    milder = graded((0.5, 0.6), (0.5, 0.5), (0.5, 0.5))
    found = analyze([outcome("mild", "add a hat", milder), *adds(6, 2)])
    assert len(found) == 1
    assert (found[0].failures, found[0].successes, found[0].kinds) == (7, 2, ("add",))
    assert found[0].cited == ("m0", "m1", "m2", "m3") and MAX_CITED == 4
    assert all(words in found[0].statement for words in ("7 of 9 are missed", "sharpness", "adding"))


def test_what_the_library_could_not_judge_is_its_miss_and_what_the_network_lost_is_not() -> None:
    asked = example("x", "add a cat")
    silent = judge(library(), asked, ALL_BETTER)
    lost = Outcome(asked, replace(silent.judgment, failure=Failure("timeout", "Too slow.")), 0.0)
    assert silent.missed and not lost.missed
    assert "no criterion" in analyze([silent])[0].statement
    assert analyze([lost]) == ()


def test_strong_clusters_go_first_and_examples_without_a_label_are_passed_over() -> None:
    few = [outcome(f"r{number}", "remove the dog", SHARPER_LOSES) for number in range(2)]
    unlabelled = Outcome(replace(few[0].example, preference=None), few[0].judgment, 0.0)
    found = analyze([*few, *adds(3, 0), unlabelled])
    assert [each.kinds for each in found] == [("add",), ("remove",)]
    assert found[1].failures == 2
    assert analyze([*few, *adds(3, 0)], limit=1) == found[:1]


BODY = "Look at the border of what was added, from near and from far, and ask whether it belongs to the scene at all."
GOOD, BAD = {"seam": 0.9, "noise": 0.5}, {"seam": 0.1, "noise": 0.5}
ADDS = {f"add-{n}": (f"add a cat {n}", "A", pair(BAD if n < 2 else GOOD, GOOD if n < 2 else BAD)) for n in range(6)}
TEXTS = {f"text-{n}": (f"write the word {n}", "B", pair(GOOD, BAD)) for n in range(5)}
DOUBLED = library(
    skill("adding", "add", criterion("seams", "seam"), criterion("grain", "noise"), body=BODY),
    skill("borders", "add", criterion("edges", "seam"), body=BODY),
)


def statements(seen: View) -> list[str]:
    return [each.statement for each in shape_findings(seen)]


def test_skills_that_say_and_grade_the_same_could_be_one() -> None:
    first, second = DOUBLED.skills
    common = overlap(first, second)
    assert common.measures == ("seam",) and common.alike > 0.9
    [finding] = shape_findings(view(DOUBLED, ADDS))
    assert "`adding` and `borders` overlap" in finding.statement and "seam, which so counts twice" in finding.statement
    assert "6 of the 6 examples" in finding.statement
    assert len(finding.cited) == MAX_CITED and set(finding.cited[:2]) == {"add-0", "add-1"}, "misses come first"
    assert (finding.failures, finding.successes, finding.kinds) == (2, 4, ("add",))


SEAMS = criterion("seams", "seam")
ONLY = {kind: criterion(kind, "seam", applies=[kind]) for kind in ("add", "text")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (skill("adding", "add", SEAMS), skill("words", "write", SEAMS)),
        (skill("adding", "add", SEAMS, body=BODY), skill("light", "add", criterion("t", "tone_shift"), body="So.")),
        (skill("adding", "add", SEAMS), skill("every", "always", SEAMS)),
        (skill("adding", "add", ONLY["add"]), skill("other", "add", ONLY["text"], body="Read it.")),
    ],
    ids=["other examples", "other words", "for all and for some", "other kinds"],
)
def test_skills_of_different_edits_or_of_different_words_are_left_alone(first: Entry, second: Entry) -> None:
    assert not any("overlap" in said for said in statements(view(library(first, second), {**ADDS, **TEXTS})))


def test_a_skill_that_suits_one_kind_alone_could_be_two() -> None:
    both = library(skill("both", "add, write", criterion("seams", "seam")))
    seen = view(both, {**{name: case for name, case in ADDS.items() if name > "add-1"}, **TEXTS})
    [finding] = shape_findings(seen)
    told = "`both` is consulted for edits of kind add (0 of 4 missed) and of kind text (5 of 5 missed)"
    assert told in finding.statement and "split it" in finding.statement
    assert all(name.startswith("text") for name in finding.cited)
    few = {name: case for name, case in TEXTS.items() if name < "text-2"}
    assert statements(view(both, {**ADDS, **few})) == [], "two examples are no evidence"


@pytest.mark.parametrize("operator", ["merge", "split"])
def test_what_was_tried_is_not_stated_again(operator: str) -> None:
    tried = RejectedProposal("x", "x", operator=operator, names=("borders", "adding"))
    assert len(statements(view(DOUBLED, ADDS, rejected=(tried,)))) == (operator == "split")


ENTRY = {"name": "adding", "description": "How to judge adding.", "triggers": "add", "body": BODY}
MERGED = {"operator": "merge", "statement": "Twins.", "names": ["adding", "borders"], "entry": ENTRY}


def ask(seen: View, merged: object = MERGED) -> tuple[list[Proposal], LLMOrchestrator, ScriptedModel]:
    """A model that finds something about misses, has nothing to propose for it, and merges when overlap is shown."""

    def answer(request: ChatRequest) -> str:
        said = text_of(request)
        if said.startswith("You study"):
            return json.dumps({"findings": [{"statement": "Seams mislead.", "examples": ["e1"]}] * 9})
        return json.dumps(merged if "overlap" in said else {"operator": "none", "statement": "No."})

    model = ScriptedModel(answer)
    orchestrator = LLMOrchestrator(model)
    return list(orchestrator.propose(seen)), orchestrator, model


def test_a_model_is_asked_for_a_merge_in_the_middle_of_the_search() -> None:
    [proposal], orchestrator, _ = ask(view(DOUBLED, ADDS))
    assert proposal.operator == "merge" and set(proposal.names) == {"adding", "borders"}
    assert [each.statement[:5] for each in orchestrator.findings] == ["Seams", "The S"]
    assert len(orchestrator.findings) <= 6
    alone, single, _ = ask(view(DOUBLED, ADDS, limit=1))
    assert alone == [] and single.findings[0].statement == "Seams mislead.", "what goes wrong comes first"
    tools, other, _ = ask(view(DOUBLED, ADDS, phase="tools"))
    assert tools == [] and len(other.findings) == 1


def test_when_pruning_only_the_shape_counts_and_nothing_else_is_asked() -> None:
    fine = {name: case for name, case in ADDS.items() if name > "add-1"}
    [proposal], orchestrator, model = ask(view(DOUBLED, fine, phase="prune"))
    assert proposal.operator == "merge" and len(model.requests) == len(orchestrator.findings) == 1
    nothing, _, silent = ask(view(library(DOUBLED.skills[0]), ADDS, phase="prune"))
    assert nothing == [] and silent.requests == []


def test_a_merge_has_to_be_shorter_than_what_it_replaces() -> None:
    long = {**MERGED, "entry": {**ENTRY, "body": BODY * 4}}
    proposals, orchestrator, _ = ask(view(DOUBLED, ADDS), long)
    assert proposals == []
    assert any("no shorter than both together" in each.problem for each in orchestrator.dropped)


def test_the_built_in_orchestrator_merges_what_counts_twice_and_misleads() -> None:
    """Seams count twice and outvote sharpness, which people follow."""
    grades = [pair({"seam": 0.4, "sharpness": 0.95}, {"seam": 0.6, "sharpness": 0.6 + n % 2 / 10}) for n in range(8)]
    cases = {f"add-{n}": (f"add a cat {n}", "A", graded) for n, graded in enumerate(grades)}
    borders = skill("borders", "add", criterion("edges", "seam"), body=BODY)
    start = library(skill("adding", "add", SEAMS, criterion("sharp", "sharpness"), body=BODY), borders)
    offered = _merges(view(start, cases, limit=99))
    assert offered, "a merge is among the ideas of a round about Skills"
    after = offered[0].applied_to(start)
    [merged] = after.skills
    assert merged.rubric is not None
    assert sorted(each.measure or "" for each in merged.rubric.criteria) == ["seam", "sharpness"], "each counts once"
    assert merged.body.count("Look at the border") == 1
    assert any(isinstance(change, RemoveEntry) for change in offered[0].changes)


def _merges(seen: View) -> list[Proposal]:
    """Merges that come up once what touches the same entries and promises more was tried."""
    rejected: tuple[RejectedProposal, ...] = ()
    for _ in range(20):
        proposals = BuiltinOrchestrator().propose(replace(seen, rejected=rejected))
        merges = [each for each in proposals if each.operator == "merge"]
        if merges or not proposals:
            return merges
        rejected = (*rejected, *(RejectedProposal.of(each, "tried") for each in proposals))
    return []

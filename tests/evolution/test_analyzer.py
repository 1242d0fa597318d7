import json
from dataclasses import replace

from proposer_samples import criterion, example, judge, library, pair, skill

from rewardharness.evolution.analyzer import analyze, chain_grades, find_clusters, misled_by
from rewardharness.evolution.proposal import MAX_CITED, Outcome
from rewardharness.schema import ChainStep, Failure, Judgment, RoutedEntry, Scores

RULES = library(
    skill("every-edit", "always", criterion("sharp", "sharpness"), criterion("seam", "seam")),
    skill("adding", "add", criterion("new", "added_structure", applies=["add"])),
)
SHARPER_LOSES = pair(
    {"sharpness": 0.2, "seam": 0.5, "added_structure": 0.6}, {"sharpness": 0.9, "seam": 0.5, "added_structure": 0.5}
)
ALL_BETTER = pair(
    {"sharpness": 0.9, "seam": 0.6, "added_structure": 0.9}, {"sharpness": 0.3, "seam": 0.5, "added_structure": 0.1}
)


def outcome(name: str, instruction: str, grades: dict, label: str = "A") -> Outcome:
    return judge(RULES, example(name, instruction, label), grades)


def adds(misses: int, hits: int) -> list[Outcome]:
    wrong = [outcome(f"m{number}", f"add a cat {number}", SHARPER_LOSES) for number in range(misses)]
    return wrong + [outcome(f"h{number}", f"add a dog {number}", ALL_BETTER) for number in range(hits)]


def test_what_spoke_for_the_wrong_candidate_is_read_from_the_chain() -> None:
    wrong = outcome("x", "add a cat", SHARPER_LOSES)
    assert wrong.failed
    assert misled_by(wrong) == "sharpness"


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
    assert [(each.kind, each.skills, each.misled_by, len(each.failures), each.successes) for each in clusters] == [
        ("add", ("adding",), "sharpness", 5, 3),
        ("remove", (), "sharpness", 1, 0),
    ]


def test_a_cause_that_occurs_once_goes_with_the_others_that_do() -> None:
    seams = pair(
        {"sharpness": 0.5, "seam": 0.1, "added_structure": 0.5}, {"sharpness": 0.5, "seam": 0.9, "added_structure": 0.4}
    )
    clusters = find_clusters([*adds(2, 0), outcome("s", "add a hat", seams)])
    assert {each.misled_by: len(each.failures) for each in clusters} == {"sharpness": 2, "": 1}


def test_findings_cite_few_examples_the_most_confident_misses_first() -> None:
    milder = pair(
        {"sharpness": 0.5, "seam": 0.5, "added_structure": 0.5}, {"sharpness": 0.6, "seam": 0.5, "added_structure": 0.5}
    )
    found = analyze([outcome("mild", "add a hat", milder), *adds(6, 2)])
    assert len(found) == 1
    assert (found[0].failures, found[0].successes, found[0].kinds) == (7, 2, ("add",))
    assert found[0].cited == ("m0", "m1", "m2", "m3")
    assert len(found[0].cited) == MAX_CITED
    assert "7 of 9 are missed" in found[0].statement
    assert "sharpness" in found[0].statement
    assert "adding" in found[0].statement


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


def test_skills_that_are_always_consulted_do_not_divide_clusters() -> None:
    wrong = outcome("x", "add a cat", SHARPER_LOSES)
    entries = (
        RoutedEntry("every-edit", "skill", "always"),
        RoutedEntry("seam-detector", "tool", "the instruction says 'add'"),
    )
    plain = replace(wrong, judgment=replace(wrong.judgment, entries=entries))
    assert find_clusters([plain])[0].skills == ()

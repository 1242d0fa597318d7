"""What search strategies find at the same budget of judgments, on simulated grades.

In each simulated world, examples have random grades on seven measures, and people prefer the candidate with the larger
weighted sum of two of them that the starting Library does not use; one label in six is flipped. The judge, the built-in
Orchestrator, the strategies and the acceptance tests are the real ones; only the grades are made up. Accuracy is that
of the resulting Library on 400 unseen examples with the labels before the flips. A judgment of a context that was
judged before is free, as in a run.

    python benchmarks/search.py [--seeds 30] [--budget 1500] [--examples 80] [--fit] [--json]

Without `--fit` no run begins with the joint fit, so that the strategies are compared on their own. Prints a table with
95% intervals over seeds; differences to `random` are paired by seed.
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean

import numpy as np

from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.evaluator import affected, question_key
from rewardharness.evolution.loop import search
from rewardharness.evolution.population import PopulationSchedule
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.evolution.state import begin
from rewardharness.evolution.steps import Run
from rewardharness.evolution.stop import Exhausted, SpendingLimits, Spent
from rewardharness.judging.chain import observation, tool
from rewardharness.judging.criteria import applicable, make_scores
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import decide
from rewardharness.judging.report import credit
from rewardharness.judging.router import route
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.schema import TIE, Example, Failure, ImageInput, Judgment

MEASURES = ("sharpness", "seam", "edit_extent", "added_structure", "noise", "structure_kept", "preservation")
SAID = ("add a {} to the scene", "remove the {}", "make the {} red", "replace the {} with a vase")
THINGS = ("cat", "dog", "hat", "car", "tree", "lamp")
FLIPPED, UNSEEN = 1 / 6, 400
STRATEGIES: dict[str, Schedule] = {
    "default": DefaultSchedule(prune_share=0.0, screen=False),
    **{name: PopulationSchedule(name) for name in ("iterative", "evolutionary", "pareto", "random")},
}
IMAGE = ImageInput("image", data=b"-")
Grades = dict[str, dict[str, dict[str, float]]]


@dataclass
class Bench:
    """Judges by made-up grades; counts each question once, up to a budget."""

    grades: Grades
    budget: int
    spent: Spent = field(default_factory=Spent)
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    asked: set[str] = field(default_factory=set)
    noisy = calls_tools = False

    def judge(self, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge examples."""
        new = {question_key(library, example) for example in examples} - self.asked
        if self.spent.judgments + len(new) > self.budget:
            raise Exhausted("the budget is spent")
        self.asked |= new
        self.spent = replace(self.spent, judgments=self.spent.judgments + len(new))
        return [judged(library, example, self.grades[example.id]) for example in examples]

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs."""
        return affected(before, after, examples, tools=False)


def judged(library: Library, example: Example, grades: dict[str, dict[str, float]]) -> Outcome:
    """Judge one example by its grades, with the arithmetic of the pixel-based judge."""
    criteria = applicable(route(library, example.instruction), read_instruction(example.instruction))
    scores, steps = {}, []
    blank = Judgment(example.id, "simulated", "measured", library.id)
    for label, known in grades.items():
        graded = [
            (each.criterion, known[each.criterion.measure]) for each in criteria if each.criterion.measure in known
        ]
        made = make_scores(graded)
        if made is None:
            return Outcome(example, replace(blank, failure=Failure("nothing_to_measure", "Nothing.")), 0.0)
        scores[label] = made
        for criterion, grade in graded:
            steps += [tool(str(criterion.measure), ("source", label), label), observation({"grade": grade}, label)]
    ranking, margin = decide(scores)
    preference = TIE if len(ranking[0]) > 1 else ranking[0][0]
    judgment = replace(blank, preference=preference, ranking=ranking, margin=margin, scores=scores, steps=tuple(steps))
    return Outcome(example, judgment, credit(example, judgment))


def world(seed: int, count: int, flipped: float) -> tuple[list[Example], Grades]:
    """Draw examples, and their grades."""
    rng, latent = random.Random(seed), random.Random(seed % 1000)
    first, second = latent.sample(MEASURES[2:], 2)
    share = latent.uniform(0.4, 0.8)
    examples, grades = [], {}
    for number in range(count):
        made = {label: {name: rng.random() for name in MEASURES} for label in "AB"}
        label = max("AB", key=lambda each: share * made[each][first] + (1 - share) * made[each][second])
        if rng.random() < flipped:
            label = "AB".replace(label, "")
        said = SAID[number % len(SAID)].format(rng.choice(THINGS))
        examples.append(Example(f"e{number}", said, IMAGE, (IMAGE, IMAGE), label, source_id=f"s{number // 2}"))
        grades[f"e{number}"] = made
    return examples, grades


def starting_library() -> Library:
    """Return a Library that uses two measures that tell nothing."""
    text = "How good it is. 4: good; 1: bad."
    criteria = tuple(Criterion(name, text, dimension="quality", measure=name) for name in MEASURES[:2])
    entry = Entry(
        "every-edit", "skill", "How to judge.", "Look closely.", {"triggers": "always"}, rubric=Rubric(criteria)
    )
    return Library((entry,))


def run(strategy: Schedule, seed: int, examples: int, budget: int, fit: bool) -> tuple[float, int]:
    """Return the accuracy on unseen examples, and the judgments."""
    pool, grades = world(seed, examples, FLIPPED)
    bench, start = Bench(grades, budget), starting_library()
    setting = Run(bench, BuiltinOrchestrator(), tuple(pool), lambda each: grades[each.id], MEASURES, seed)
    state = replace(begin(start, bench.judge(start, pool)), fitting=fit)
    library = search(setting, strategy, state, lambda each: None).library
    unseen, unseen_grades = world(1_000_000 + seed, UNSEEN, 0.0)
    return fmean(judged(library, each, unseen_grades[each.id]).credit for each in unseen), bench.spent.judgments


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a mean."""
    draws = np.random.default_rng(0).choice(np.array(values), (5000, len(values))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--budget", type=int, default=1500)
    parser.add_argument("--examples", type=int, default=80)
    parser.add_argument("--fit", action="store_true", help="begin with the joint fit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, int]]] = {}
    for name, strategy in STRATEGIES.items():
        found[name] = [
            run(strategy, seed, options.examples, options.budget, options.fit) for seed in range(options.seeds)
        ]
        accuracies = [accuracy for accuracy, _ in found[name]]
        if not options.json:
            low, high = interval(accuracies)
            judgments = fmean(calls for _, calls in found[name])
            print(f"{name:13} {fmean(accuracies):.3f} [{low:.3f}, {high:.3f}]  {judgments:6.0f} judgments", flush=True)
    control = [accuracy for accuracy, _ in found["random"]]
    for name in STRATEGIES:
        gains = [accuracy - other for (accuracy, _), other in zip(found[name], control, strict=True)]
        if name != "random" and not options.json:
            low, high = interval(gains)
            print(f"{name} against random: {fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}]")
    if options.json:
        schedules = {name: asdict(strategy) for name, strategy in STRATEGIES.items()}  # type: ignore[call-overload]
        print(json.dumps({**vars(options), "results": found, "schedules": schedules}))


if __name__ == "__main__":
    main()

"""What search strategies find at the same budget of judgments.

The judge's arithmetic, the built-in Orchestrator, the strategies and the acceptance tests are the real ones. There are
two kinds of data:

    simulated   Examples have random grades on seven measures. The preferred candidate has the larger weighted sum of
                two measures that the starting Library does not use.
    demo        Generated images (`rh demo-data`) and all measures of their pixels. The starting Library is the
                built-in one without every second criterion; each seed divides the source images anew.

One training label in six is flipped. Accuracy is that of the resulting Library on examples that the run did not see,
with the labels before the flips. A judgment of a context that was judged before is free, as in a run. `--judge noisy`
adds normal noise (standard deviation .15) to each grade, drawn anew for each context, as a model answers differently
when its prompt changes; proposals are then screened by successive halving, as with models.

    python benchmarks/search.py [--data simulated|demo] [--judge exact|noisy] [--fit] [--seeds 30] [--budget 1500]
        [--examples 80] [--json]

Without `--fit` no run begins with the joint fit, so that the strategies are compared on their own. Prints a table with
95% intervals over seeds; differences to `random` and to `default` are paired by seed.
"""

import argparse
import json
import os
import random
import tempfile
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from rewardharness.data.folder import read_folder
from rewardharness.data.source import split
from rewardharness.demo.dataset import make_demo
from rewardharness.evolution.builtin.forecast import observer
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.evaluator import affected, question_key
from rewardharness.evolution.loop import search
from rewardharness.evolution.population import PopulationSchedule, Strategy
from rewardharness.evolution.progress import Exhausted
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.evolution.state import begin
from rewardharness.evolution.steps import Run
from rewardharness.judging.chain import observation, tool
from rewardharness.judging.criteria import applicable, make_measured_scores, make_scores
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import decide
from rewardharness.judging.report import credit
from rewardharness.judging.router import route
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library, without_half_of_the_criteria
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.measure.table import known_measures
from rewardharness.runs.spending import SpendingLimits, Spent
from rewardharness.schema import TIE, Example, Failure, ImageInput, Judgment

MEASURES = ("sharpness", "seam", "edit_extent", "added_structure", "noise", "structure_kept", "preservation")
SAID = ("add a {} to the scene", "remove the {}", "make the {} red", "replace the {} with a vase")
THINGS = ("cat", "dog", "hat", "car", "tree", "lamp")
FLIPPED, UNSEEN, NOISE, DEMO_PAIRS = 1 / 6, 400, 0.15, 400
POPULATIONS: tuple[Strategy, ...] = ("iterative", "evolutionary", "pareto", "random")
IMAGE = ImageInput("image", data=b"-")
Grades = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True)
class World:
    """The data of one run."""

    training: tuple[Example, ...]
    unseen: tuple[Example, ...]
    grades: Grades
    measures: tuple[str, ...]
    start: Library
    pixels: bool
    """Whether the grades were measured."""
    noise: float = 0.0
    """Standard deviation of the noise of grades."""

    def judge(self, library: Library, example: Example, *, noise: bool = True) -> Outcome:
        """Judge one example by its grades, with the arithmetic of the pixel-based judge."""
        request = read_instruction(example.instruction)
        criteria = applicable(route(library, example.instruction), request)
        drawn = random.Random(zlib.crc32(question_key(library, example).encode()))
        deviation = self.noise if noise else 0.0
        scores, steps = {}, []
        blank = Judgment(example.id, "simulated", "measured", library.id)
        for label, known in self.grades[example.id].items():
            graded = [
                (each.criterion, min(1.0, max(0.0, known[each.criterion.measure] + drawn.gauss(0, deviation))))
                for each in criteria
                if each.criterion.measure in known
            ]
            made = make_measured_scores(graded, request.kinds, 1.0) if self.pixels else make_scores(graded)
            if made is None:
                return Outcome(example, replace(blank, failure=Failure("nothing_to_measure", "Nothing.")), 0.0)
            scores[label] = made
            for criterion, grade in graded:
                steps += [tool(str(criterion.measure), ("source", label), label), observation({"grade": grade}, label)]
        ranking, margin = decide(scores)
        preference = TIE if len(ranking[0]) > 1 else ranking[0][0]
        judgment = replace(
            blank, preference=preference, ranking=ranking, margin=margin, scores=scores, steps=tuple(steps)
        )
        return Outcome(example, judgment, credit(example, judgment))

    def accuracy(self, library: Library) -> float:
        """Return the accuracy on unseen examples: without noise, as that of many samples."""
        return fmean(self.judge(library, each, noise=False).credit for each in self.unseen)


@dataclass
class Bench:
    """Judges by known grades; counts each question once, up to a budget."""

    world: World
    budget: int
    spent: Spent = field(default_factory=Spent)
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    asked: set[str] = field(default_factory=set)
    calls_tools = False

    @property
    def noisy(self) -> bool:
        """Whether an answer changes with its context alone."""
        return self.world.noise > 0

    def judge(self, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge examples."""
        new = {question_key(library, example) for example in examples} - self.asked
        if self.spent.judgments + len(new) > self.budget:
            raise Exhausted("the budget is spent")
        self.asked |= new
        self.spent = replace(self.spent, judgments=self.spent.judgments + len(new))
        return [self.world.judge(library, example) for example in examples]

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs."""
        return affected(before, after, examples, tools=False)


def simulated(seed: int, count: int, noise: float) -> World:
    """Draw examples, and their grades."""
    latent = random.Random(seed)
    first, second = latent.sample(MEASURES[2:], 2)
    share = latent.uniform(0.4, 0.8)

    def draw(rng: random.Random, count: int, name: str) -> tuple[list[Example], Grades]:
        examples, grades = [], {}
        for number in range(count):
            made = {label: {name: rng.random() for name in MEASURES} for label in "AB"}
            label = max("AB", key=lambda each: share * made[each][first] + (1 - share) * made[each][second])
            said = SAID[number % len(SAID)].format(rng.choice(THINGS))
            key = f"{name}{number}"
            examples.append(Example(key, said, IMAGE, (IMAGE, IMAGE), label, source_id=f"{name}{number // 2}"))
            grades[key] = made
        return examples, grades

    training, grades = draw(random.Random(seed), count, "e")
    unseen, more = draw(random.Random(1_000_000 + seed), UNSEEN, "u")
    known = {**grades, **more}
    return World(flip(training, seed), tuple(unseen), known, MEASURES, starting_library(), pixels=False, noise=noise)


def demo(seed: int, count: int, noise: float, measured: tuple[list[Example], Grades]) -> World:
    """Divide the sources of the generated images at random."""
    examples, grades = measured
    unseen, training = split(examples, share=count / len(examples), seed=seed)
    start = without_half_of_the_criteria(open_library("builtin"))
    return World(flip(training, seed), tuple(unseen), grades, known_measures(), start, pixels=True, noise=noise)


def flip(examples: Sequence[Example], seed: int) -> tuple[Example, ...]:
    """Return the examples with some labels flipped."""
    rng = random.Random(seed)
    return tuple(
        replace(each, preference="AB".replace(str(each.preference), "")) if rng.random() < FLIPPED else each
        for each in examples
    )


def demo_data() -> tuple[list[Example], Grades]:
    """Generate images, and measure them."""
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(workers) as processes:
        make_demo(Path(folder), pairs=DEMO_PAIRS, groups=0, workers=workers)
        examples = [each for each in read_folder(Path(folder)).examples if each.preference in each.labels]
        found = list(processes.map(observe, examples, chunksize=4))
    blank = [replace(each, source=IMAGE, candidates=(IMAGE, IMAGE)) for each in examples]
    return blank, {example.id: grades for example, grades in zip(examples, found, strict=True)}


def observe(example: Example) -> dict[str, dict[str, float]]:
    """Return the grades of all measures by candidate."""
    return {label: dict(known) for label, known in observer(None)(example).items()}


def starting_library() -> Library:
    """Return a Library that uses two measures that tell nothing."""
    text = "How good it is. 4: good; 1: bad."
    criteria = tuple(Criterion(name, text, dimension="quality", measure=name) for name in MEASURES[:2])
    entry = Entry(
        "every-edit", "skill", "How to judge.", "Look closely.", {"triggers": "always"}, rubric=Rubric(criteria)
    )
    return Library((entry,))


def run(world: World, strategy: Schedule, seed: int, budget: int, fit: bool) -> tuple[float, int]:
    """Return the accuracy on unseen examples, and the judgments."""
    bench = Bench(world, budget)
    setting = Run(
        bench, BuiltinOrchestrator(), world.training, lambda each: world.grades[each.id], world.measures, seed
    )
    state = replace(begin(world.start, bench.judge(world.start, world.training)), fitting=fit)
    library = search(setting, strategy, state, lambda each: None).library
    return world.accuracy(library), bench.spent.judgments


def strategies(noisy: bool) -> dict[str, Schedule]:
    """Return the strategies with the settings of a run."""
    default = DefaultSchedule(prune_share=0.0, screen=noisy)
    return {"default": default, **{name: PopulationSchedule(name) for name in POPULATIONS}}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a mean."""
    draws = np.random.default_rng(0).choice(np.array(values), (5000, len(values))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", choices=("simulated", "demo"), default="simulated")
    parser.add_argument("--judge", choices=("exact", "noisy"), default="exact")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--budget", type=int, default=1500)
    parser.add_argument("--examples", type=int, default=80)
    parser.add_argument("--fit", action="store_true", help="begin with the joint fit, except `random`")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    noise = NOISE if options.judge == "noisy" else 0.0
    draw = partial(demo, measured=demo_data()) if options.data == "demo" else simulated
    worlds = [draw(seed, options.examples, noise) for seed in range(options.seeds)]
    say: Callable[[str], None] = no_words if options.json else partial(print, flush=True)
    before = [world.accuracy(world.start) for world in worlds]
    say(f"{'start':13} {_estimate(before)}")
    chosen, found = strategies(noise > 0), {}
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for name, strategy in chosen.items():
            one = partial(run, strategy=strategy, budget=options.budget, fit=options.fit)
            found[name] = list(processes.map(_numbered, [one] * len(worlds), worlds, range(len(worlds))))
            judgments = fmean(calls for _, calls in found[name])
            say(f"{name:13} {_estimate([accuracy for accuracy, _ in found[name]])}  {judgments:6.0f} judgments")
    for control in ("random", "default"):
        for name in chosen:
            gains = [ours - other for (ours, _), (other, _) in zip(found[name], found[control], strict=True)]
            if name != control:
                say(f"{name} against {control}: {_estimate(gains, '+.3f')}")
    if options.json:
        schedules = {name: asdict(strategy) for name, strategy in chosen.items()}  # type: ignore[call-overload]
        print(json.dumps({**vars(options), "start": before, "results": found, "schedules": schedules}))


def no_words(line: str) -> None:
    """Print nothing."""


def _numbered(one: Callable[..., tuple[float, int]], world: World, seed: int) -> tuple[float, int]:
    return one(world, seed=seed)


def _estimate(values: Sequence[float], form: str = ".3f") -> str:
    low, high = interval(values)
    return f"{fmean(values):{form}} [{low:{form}}, {high:{form}}]"


if __name__ == "__main__":
    main()

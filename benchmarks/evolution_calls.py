"""What evolving costs in judge calls and what it gives in true accuracy: schedule `default` against `paper`.

Judge and Orchestrator are simulated; schedules, tests, screening and pruning are the real ones. `default`
screens the edits of a round by successive halving and accepts only what its error budget allows; `paper`, without error
control, drifts with the average edit: up with the default mix, down with one of more harm.
Each example of a run is either judged right or wrong with a given set of edits in the Library. An edit touches a random
10 to 60 % of the examples. Of those touched

    good      30 % of the wrong become right,  8 % of the right become wrong
    neutral    8 %                             8 %
    harmful    6 %                            22 %

Edits are good, neutral and harmful at the rates of `--mix`. They do not react to failures. The exact judge says what is
so. The noisy judge flips a coin on a quarter of the examples; on the others it is right 95 % of the time where it
should be, and 8 % where it should not. Accuracy is the expected one on 4,000 examples that nobody ever looks at.

`paper` gets 100 examples: 60 to read, both ways round, and 40 for its gate, judged anew each time; 3 edits in each
iteration. `default` gets the same 100, of which it puts 25 aside for the audit; these 25 are not counted as calls
here, since `paper` has no such thing. A call is one judgment of one example in one order.

    python benchmarks/evolution_calls.py [--seeds N] [--edits N ...] [--mix GOOD NEUTRAL HARMFUL]

Prints a table as it comes and ends with one line of JSON.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rewardharness import Example, ImageInput, Judgment, Library
from rewardharness.evolution.evaluator import affected
from rewardharness.evolution.loop import search
from rewardharness.evolution.proposal import Outcome, Proposal, View
from rewardharness.evolution.schedules import DefaultSchedule, PaperSchedule, Schedule
from rewardharness.evolution.state import begin
from rewardharness.evolution.steps import Run
from rewardharness.judging.tools import Observation
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry
from rewardharness.runs.spending import UNLIMITED, Spent
from rewardharness.schema import Usage

POOL, AUDIT, UNSEEN = 100, 25, 4000
START = 0.45
FIXES = np.array([0.30, 0.08, 0.06])
BREAKS = np.array([0.08, 0.08, 0.22])
COINS, RIGHT, WRONG = 0.25, 0.95, 0.08
PER_ITERATION = 3
CASES = {12: 3, 60: 5, 228: 5}
"""Proposed edits, and by how much the calls are to shrink."""

Truth = np.ndarray
"""For every example whether it should be judged right."""


@dataclass(frozen=True)
class World:
    """What is true in one run: the same for both schedules."""

    start: Truth
    touches: np.ndarray
    """Edit by example."""
    fixes: np.ndarray
    breaks: np.ndarray
    coins: np.ndarray
    """Examples on which a noisy judge flips a coin; none for an exact one."""
    noisy: bool

    @classmethod
    def make(cls, seed: int, edits: int, mix: Sequence[float], noisy: bool) -> "World":
        """Draw a world."""
        random = np.random.default_rng([seed, edits])
        size = (edits, POOL + UNSEEN)
        kinds = random.choice(3, edits, p=mix)
        return cls(
            start=random.random(size[1]) < START,
            touches=random.random(size) < random.uniform(0.1, 0.6, edits)[:, None],
            fixes=random.random(size) < FIXES[kinds][:, None],
            breaks=random.random(size) < BREAKS[kinds][:, None],
            coins=random.random(size[1]) < COINS * noisy,
            noisy=noisy,
        )

    def chance(self, truth: Truth) -> np.ndarray:
        """Probability of a right answer, per example."""
        if not self.noisy:
            return truth.astype(float)
        return np.where(self.coins, 0.5, np.where(truth, RIGHT, WRONG))

    def examples(self) -> tuple[Example, ...]:
        """The examples that runs may look at. Instructions name the edits that touch them."""
        blank = ImageInput("none", data=b"")
        words = [" ".join(f"w{edit:03d}" for edit in np.flatnonzero(self.touches[:, n])) for n in range(POOL)]
        return tuple(
            Example(f"x{number:03d}", text or "none", blank, (blank, blank), "A", source_id=str(number))
            for number, text in enumerate(words)
        )


@dataclass
class SimulatedBench:
    """Judges by knowing what is true, with luck where the judge is noisy."""

    world: World
    luck: np.random.Generator
    spent: Spent = field(default_factory=Spent)
    limits = UNLIMITED
    _truths: dict[tuple[str, ...], Truth] = field(default_factory=dict)
    _known: dict[tuple[tuple[str, ...], str], Outcome] = field(default_factory=dict)

    @property
    def noisy(self) -> bool:
        """Whether another look may give another answer."""
        return self.world.noisy

    def truth(self, names: tuple[str, ...], triggers: dict[str, np.ndarray]) -> Truth:
        """What is true with some edits in the Library, in the order of their names."""
        if not names:
            return self.world.start
        key = tuple(f"{name}{id(triggers.get(name))}" if name in triggers else name for name in names)
        if key not in self._truths:
            before, edit = self.truth(names[:-1], triggers), int(names[-1].split("-")[1])
            after = np.where(before, ~self.world.breaks[edit], self.world.fixes[edit])
            touched = triggers.get(names[-1], self.world.touches[edit])
            self._truths[key] = np.where(touched, after, before)
        return self._truths[key]

    def of(self, library: Library) -> Truth:
        """What is true with a Library. A narrowed edit touches what its triggers name, seen or not."""
        narrowed: dict[str, np.ndarray] = {}
        for entry in library.entries:
            words = [int(word[1:]) for word in entry.metadata["triggers"].split(", ")]
            if words != [int(entry.name.split("-")[1])]:
                narrowed[entry.name] = self.world.touches[words].any(axis=0)
        return self.truth(tuple(entry.name for entry in library.entries), narrowed)

    def judge(self, library: Library, examples: Sequence[Example], *, again: bool = False) -> list[Outcome]:
        """Judge; see `rewardharness.evolution.evaluator.Evaluator`."""
        chance = self.world.chance(self.of(library))
        firing = {entry.name: entry.metadata["triggers"].split(", ") for entry in library.entries}
        found = []
        for example in examples:
            words = set(example.instruction.split())
            key = (tuple(name for name, any_of in firing.items() if words.intersection(any_of)), example.id)
            outcome = None if again else self._known.get(key)
            if outcome is None:
                outcome = self._known[key] = self._answer(example, chance)
                self.spent = replace(self.spent, judgments=self.spent.judgments + 1)
            found.append(outcome)
        return found

    def fresh(self, library: Library, examples: Sequence[Example]) -> list[Outcome]:
        """Judge once more, with other luck."""
        chance = self.world.chance(self.of(library))
        self.spent = replace(self.spent, judgments=self.spent.judgments + len(examples))
        return [self._answer(example, chance) for example in examples]

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        """Find the examples whose context differs, as a real bench does."""
        return affected(before, after, examples)

    calls_tools = True

    def rehearse(self, tool: Entry, examples: Sequence[Example]) -> list[Observation]:
        """Nothing is simulated of what Tools say."""
        return []

    def _answer(self, example: Example, chance: np.ndarray) -> Outcome:
        number = int(example.id.removesuffix("_swap")[1:])
        right = bool(self.luck.random() < chance[number])
        said = example.preference if right else {"A": "B", "B": "A"}[example.preference or "A"]
        return Outcome(example, Judgment(example.id, "simulated", "", "", said), float(right))


@dataclass
class SimulatedOrchestrator:
    """Proposes one edit after the other, whatever went wrong, and cites failures that each one touches."""

    edits: int
    luck: np.random.Generator
    made: int = 0
    name = "simulated"
    spent = Usage()
    findings = ()
    dropped = ()

    def propose(self, view: View) -> list[Proposal]:
        """Propose what comes next; of every three edits two are for Skills and one is for Tools."""
        due = range(self.made, self.edits if view.phase == "skills" else self.made)
        if view.limit < PER_ITERATION + 1:
            due = range(self.made, min(self.edits, self.made + (2 if view.phase == "skills" else 1)))
        chosen = list(due)[: view.limit]
        self.made += len(chosen)
        return [self._edit(number, view) for number in chosen]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """There is nothing to repair."""
        return None

    def _edit(self, number: int, view: View) -> Proposal:
        word = f"w{number:03d}"
        wrong = [each.example.id for each in view.outcomes if each.credit < 1 and word in each.example.instruction]
        cited = [str(name) for name in self.luck.permutation(wrong)[:4]]
        operator, kind, prompt = ("add_tool", "tool", "Look.") if view.phase == "tools" else ("add", "skill", None)
        entry = Entry(f"edit-{number:03d}", kind, word, word, {"triggers": word}, prompt)
        return Proposal(operator, (AddEntry(entry),), word, tuple(cited), "simulated", (word,))


def make_schedule(name: str, edits: int) -> Schedule:
    """The schedule as it is, with room for so many edits."""
    if name == "paper":
        return PaperSchedule(iterations=edits // PER_ITERATION, per_round=PER_ITERATION)
    return DefaultSchedule(proposals=edits, patience=edits)


def simulate(case: tuple[str, int, int, tuple[float, ...], bool]) -> tuple[int, float]:
    """Run one schedule in one world; returns calls and true accuracy."""
    name, seed, edits, mix, noisy = case
    world = World.make(seed, edits, mix, noisy)
    bench = SimulatedBench(world, np.random.default_rng([seed, edits, 1]))
    pool = world.examples()[: POOL if name == "paper" else POOL - AUDIT]
    orchestrator = SimulatedOrchestrator(edits, np.random.default_rng([seed, edits, 2]))
    run = Run(bench, orchestrator, pool, observe=lambda example: {}, measures=(), seed=seed)
    schedule = make_schedule(name, edits)
    state = begin(EMPTY, bench.judge(EMPTY, schedule.watched(pool)))
    state = search(run, schedule, state, lambda state: None)
    assert state.proposed == edits, (state.proposed, state.ending)
    return bench.spent.judgments, float(world.chance(bench.of(state.library))[POOL:].mean())


def compare(pool, seeds: int, edits: int, mix: tuple[float, ...], noisy: bool) -> dict[str, object]:
    """Run both schedules over all seeds."""
    row: dict[str, object] = {"judge": "noisy" if noisy else "exact", "mix": list(mix), "edits": edits}
    for name in ("paper", "default"):
        results = np.array(pool.map(simulate, [(name, seed, edits, mix, noisy) for seed in range(seeds)], chunksize=5))
        error = results[:, 1].std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        row[name] = {
            "calls": round(float(results[:, 0].mean()), 1),
            "true_accuracy": round(float(results[:, 1].mean()), 4),
            "standard_error": round(float(error), 4),
        }
    ours, theirs = row["default"], row["paper"]
    row["calls_ratio"] = round(ours["calls"] / theirs["calls"], 4)
    row["gain"] = round(ours["true_accuracy"] - theirs["true_accuracy"], 4)
    row["met"] = bool(row["calls_ratio"] <= 1 / CASES.get(edits, 5))
    return row


def main() -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--edits", type=int, nargs="+", default=list(CASES))
    parser.add_argument("--mix", type=float, nargs=3, default=(0.3, 0.4, 0.3), metavar=("GOOD", "NEUTRAL", "HARMFUL"))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    started = time.perf_counter()
    rows = []
    print("judge  edits | paper calls  accuracy | default calls  accuracy | calls ratio   gain")
    with multiprocessing.Pool(arguments.processes) as pool:
        for noisy in (False, True):
            for edits in arguments.edits:
                row = compare(pool, arguments.seeds, edits, tuple(arguments.mix), noisy)
                rows.append(row)
                ours, theirs = row["default"], row["paper"]
                print(
                    f"{row['judge']:6} {edits:5} | {theirs['calls']:11.0f}  {theirs['true_accuracy']:8.3f} |"
                    f" {ours['calls']:13.0f}  {ours['true_accuracy']:8.3f} |"
                    f"      1/{1 / row['calls_ratio']:4.1f} {row['gain']:+.3f}{'' if row['met'] else '  (not met)'}",
                    flush=True,
                )
    seconds = round(time.perf_counter() - started, 1)
    print(json.dumps({"seeds": arguments.seeds, "seconds": seconds, "rows": rows}))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

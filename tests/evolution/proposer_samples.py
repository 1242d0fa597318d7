"""Judged examples without pictures: grades are made up, and judged by the same arithmetic as measured ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from rewardharness.evolution.evaluator import affected
from rewardharness.evolution.proposal import Outcome, View
from rewardharness.judging.chain import answer, observation, think, tool
from rewardharness.judging.criteria import applicable, make_scores
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import decide
from rewardharness.judging.report import credit
from rewardharness.judging.router import route
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, Library
from rewardharness.measure.table import MEASURES
from rewardharness.runs.spending import UNLIMITED, Spent
from rewardharness.schema import TIE, Example, Failure, ImageInput, Judgment

Grades = Mapping[str, Mapping[str, float]]
"""Label to measure to grade."""

PICTURE = ImageInput("secret-generator-7.png", data=b"-")


def example(name: str, instruction: str, preference: str | None = "A", count: int = 2) -> Example:
    secrets = {"label_kind": "secret_label_kind", "category": "secret category"}
    return Example(name, instruction, PICTURE, (PICTURE,) * count, preference, **secrets)


def judge(library: Library, asked: Example, grades: Grades, protocol: str = "measured") -> Outcome:
    """Judge an example by its grades, with a chain as the pixel-based judge writes it."""
    chosen = route(library, asked.instruction)
    criteria = applicable(chosen, read_instruction(asked.instruction))
    scores = {}
    blank = Judgment(asked.id, "made up", protocol, library.id, entries=chosen.reasons)
    steps = [think(f"The instruction is {asked.instruction!r}.")]
    for label, known in grades.items():
        graded = [(one, known[one.measure]) for one in (each.criterion for each in criteria) if one.measure in known]
        made = make_scores(graded)
        if made is None:
            return Outcome(asked, replace(blank, failure=Failure("nothing_to_measure", "Nothing.")), 0.0)
        scores[label] = made
        for criterion, grade in graded:
            steps.append(tool(str(criterion.measure), ("source", label), label))
            steps.append(observation({"grade": grade, "says": f"{criterion.measure} {grade:.2f}"}, label))
    ranking, margin = decide(scores)
    preference = TIE if len(ranking[0]) > 1 else ranking[0][0]
    steps.append(answer({"preference": preference}))
    judgment = replace(blank, preference=preference, ranking=ranking, margin=margin, scores=scores, steps=tuple(steps))
    return Outcome(asked, judgment, credit(asked, judgment))


def view(
    library: Library, cases: Mapping[str, tuple[str, str, Grades]], protocol: str = "measured", **more: object
) -> View:
    """See cases under a Library: id to instruction, label and grades."""
    examples = {name: example(name, said, label, len(grades)) for name, (said, label, grades) in cases.items()}
    outcomes = tuple(judge(library, examples[name], cases[name][2], protocol) for name in cases)
    seen = View(library, outcomes, lambda asked: cases[asked.id][2], tuple(MEASURES))
    return replace(seen, **more)  # type: ignore[arg-type]


def pair(better: Mapping[str, float], worse: Mapping[str, float], label: str = "A") -> Grades:
    """The grades of a pair whose preferred candidate stands at the label."""
    return {"A": better, "B": worse} if label == "A" else {"A": worse, "B": better}


def skill(name: str, triggers: str, *criteria: Criterion, body: str = "Look closely at each candidate.") -> Entry:
    rubric = Rubric(criteria) if criteria else None
    return Entry(name, "skill", f"How to judge {name}.", body, {"triggers": triggers}, rubric=rubric)


def criterion(name: str, measure: str, weight: float = 1.0, applies: Sequence[str] = ()) -> Criterion:
    dimension = MEASURES[measure].dimension
    text = "How good it is. 4: good; 1: bad."
    return Criterion(name, text, weight, dimension=dimension, measure=measure, applies=tuple(applies))


def library(*entries: Entry) -> Library:
    return reduce(lambda made, entry: made.apply(AddEntry(entry)), entries, Library())


@dataclass
class Bench:
    """Stands for the evaluator of a search: judges with a function; exact, and nothing is judged twice."""

    judge_one: Callable[[Library, Example], Outcome]
    spent: Spent = field(default_factory=Spent)
    limits = UNLIMITED
    noisy = calls_tools = False

    def judge(self, made: Library, examples: Sequence[Example], *, again: bool = False) -> list[Outcome]:
        self.spent = replace(self.spent, judgments=self.spent.judgments + len(examples))
        return [self.judge_one(made, asked) for asked in examples]

    def affected(self, before: Library, after: Library, examples: Sequence[Example]) -> tuple[Example, ...]:
        return affected(before, after, examples, tools=False)


def graded_bench(grades: Mapping[str, Grades], protocol: str = "measured") -> Bench:
    return Bench(lambda made, asked: judge(made, asked, grades[asked.id], protocol))

"""Reading answers to questions from judgments. A question without a judgment has no answer, but a reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rewardharness.benchmark.correlation import Rating
from rewardharness.benchmark.items import Question
from rewardharness.benchmark.metrics import UNDECIDED, LabeledAnswer, choice_of
from rewardharness.schema import LABELS, TIE, Judgment, Scores

LEVEL = 1e-5
"""Scores of candidates judged alone that differ by less are tied, as in EditReward-Compass (arXiv 2605.13062)."""


@dataclass(frozen=True)
class QuestionAnswer:
    """Answer of a judge to one question."""

    question: Question
    choice: str | None
    """Letter of the preferred candidate by its position in the question, `tie`, `UNDECIDED`, or None if not judged."""
    margin: float | None = None
    """For two candidates: signed margin of the first over the second, in [-1, 1]; None if not available."""
    values: tuple[float | None, ...] = ()
    """Score per candidate that the question asks for, in [0, 1]; None where there is none."""
    level: int = 1
    """Number of candidates that share the first rank if the judge is undecided."""
    failure: str = ""
    """Code of the failure; empty for an answered question."""

    @cached_property
    def answer(self) -> LabeledAnswer:
        """The answer in the form that metrics over labels and scores take: its scores differ by the margin."""
        question = self.question
        first = second = None
        if self.margin is not None and self.choice is not None:
            available = [value for value in self.values if value is not None]
            center = sum(available) / len(available) if len(available) == 2 else 0.5
            first, second = center + self.margin / 2, center - self.margin / 2
        facts = {name: getattr(question, name) for name in ("category", "dimension", "cluster", "pair", "group")}
        return LabeledAnswer(question.id, str(question.truth), self.choice, first=first, second=second, **facts)

    @property
    def forced(self) -> LabeledAnswer:
        """The answer if ties are not allowed: the candidate with the higher score, by any margin."""
        if self.choice is None or self.margin is None:
            return self.answer
        choice = "A" if self.margin > 0 else "B" if self.margin < 0 else UNDECIDED
        return replace(self.answer, choice=choice)

    @property
    def rating(self) -> Rating:
        """The answer in the form that rank correlation takes."""
        human = self.question.truth
        assert isinstance(human, float)
        return Rating(" ".join(self.question.editors) or "all", self.values[0] if self.values else None, human)


def read_answer(question: Question, judgments: Mapping[str, Judgment], ties: bool) -> QuestionAnswer:
    """Read the answer to a question from the judgments of its items.

    Args:
        question: The question.
        judgments: Judgments by item id; a missing item was not judged.
        ties: Whether `tie` is among the labels. If not, a judge that rates candidates as equal, or predicts a tie
            because its release allows ties, is undecided.
    """
    names = dict.fromkeys(item for item, _ in question.asks)
    for judgment in map(judgments.get, names):
        if judgment is None or not judgment.judged:
            failure = judgment.failure if judgment is not None else None
            return QuestionAnswer(question, None, failure=failure.code if failure is not None else "not judged yet")
    values = tuple(_value(judgments[item].scores.get(letter), question.score) for item, letter in question.asks)
    if all(len(judgments[name].scores) == 1 for name in names):
        return _alone(question, values, ties)
    judgment = judgments[question.asks[0][0]]
    letters = {letter: LABELS[place] for place, (_, letter) in enumerate(question.asks)}
    places = {letter: place for place, level in enumerate(judgment.ranking) for letter in level}
    if len(places) > len(question.asks):  # a pair of a ranking of more candidates
        first, second = (letter for _, letter in question.asks)
        level = TIE if judgment.ties_offered and ties else UNDECIDED
        better = letters[min(first, second, key=places.__getitem__)]
        return QuestionAnswer(question, level if places[first] == places[second] else better, None, values, 2)
    choice = choice_of(judgment)
    choice = UNDECIDED if choice == TIE and not ties else choice
    top = len(judgment.ranking[0]) if judgment.ranking else len(question.asks)
    lead = _lead(judgment, letters) if len(question.asks) == 2 else None
    return QuestionAnswer(question, letters.get(choice or "", choice), lead, values, top)


def _value(scores: Scores | None, kind: str) -> float | None:
    """Return the score that a question asks for, in [0, 1]. Instruction and quality scores range from 1 to 4."""
    if scores is None:
        return None
    if kind == "reward":
        return scores.reward
    grade = scores.instruction if kind == "instruction" else scores.quality
    return None if grade is None else (grade - 1) / 3


def _alone(question: Question, values: tuple[float | None, ...], ties: bool) -> QuestionAnswer:
    """Read the answer from candidates that were judged one by one."""
    available = [value for value in values if value is not None]
    if len(available) < len(values):
        return QuestionAnswer(question, None, values=values, failure=f"no {question.score} score")
    if len(available) == 1:
        return QuestionAnswer(question, "scored", values=values)
    best = max(available)
    top = [letter for letter, value in zip(LABELS, available, strict=False) if best - value < LEVEL]
    choice = top[0] if len(top) == 1 else TIE if ties else UNDECIDED
    margin = available[0] - available[1] if len(available) == 2 else None
    return QuestionAnswer(question, choice, margin, values, len(top))


def _lead(judgment: Judgment, letters: Mapping[str, str]) -> float | None:
    """Return the margin, signed by the preferred candidate, even if it is too small for a preference."""
    if judgment.margin is None:
        return None
    if not judgment.ranking or len(judgment.ranking[0]) > 1:
        return 0.0
    return judgment.margin if letters[judgment.ranking[0][0]] == "A" else -judgment.margin

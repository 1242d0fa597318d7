"""Reads answers to questions off judgments. What was not judged has no answer, and a reason why."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rewardharness.benchmark.complete_groups import GroupPair, pairs_of_ranking
from rewardharness.benchmark.conventions import COMPASS_TIE
from rewardharness.benchmark.correlation import Rating
from rewardharness.benchmark.items import Question
from rewardharness.benchmark.metrics import UNDECIDED, Answer, ScoredPair, said
from rewardharness.schema import LABELS, TIE, Judgment, Scores

LEVEL = COMPASS_TIE
"""Scores of candidates judged alone that differ by less are level."""


@dataclass(frozen=True)
class Reply:
    """What a judge said to one question."""

    question: Question
    said: str | None
    """The letter of the preferred candidate by its place in the question, `tie`, `UNDECIDED`, or None: not judged."""
    lead: float | None = None
    """Of two candidates: how far the first leads the second, in [-1, 1]; None where that is not known."""
    values: tuple[float | None, ...] = ()
    """The score that speaks to the question, per candidate, in [0, 1]; None where there is none."""
    level: int = 1
    """How many candidates share the first place where the judge is undecided."""
    failure: str = ""
    """Code of the failure; empty for a question that was answered."""

    @property
    def answer(self) -> Answer:
        """As metrics over labels read it."""
        question = self.question
        return Answer(
            question.id,
            str(question.truth),
            self.said,
            category=question.category,
            dimension=question.dimension,
            cluster=question.cluster,
            pair=question.pair,
        )

    @property
    def forced(self) -> Answer:
        """As if ties had not been among the answers: whoever leads is preferred, however little."""
        answer = self.answer
        if self.said is None or self.lead is None:
            return answer
        choice = "A" if self.lead > 0 else "B" if self.lead < 0 else UNDECIDED
        return replace(answer, said=choice)

    @property
    def scored(self) -> ScoredPair:
        """As metrics over scores read it: two scores that lie as far apart as the lead, around the mean of both."""
        question = self.question
        first = second = None
        if self.lead is not None and self.said is not None:
            known = [value for value in self.values if value is not None]
            middle = sum(known) / len(known) if len(known) == 2 else 0.5
            first, second = middle + self.lead / 2, middle - self.lead / 2
        return ScoredPair(
            question.id,
            str(question.truth),
            first,
            second,
            category=question.category,
            dimension=question.dimension,
            cluster=question.cluster,
        )

    @property
    def group_pair(self) -> GroupPair:
        """As the metric over complete groups reads it, by the letters within the group."""
        places = dict(zip(LABELS, self.question.letters, strict=False))
        first, second = self.question.letters
        choice = places.get(self.said, self.said) if self.said is not None else None
        return GroupPair(self.question.group, first, second, places.get(str(self.question.truth), TIE), choice)

    @property
    def rating(self) -> Rating:
        """As rank correlation reads it."""
        human = self.question.truth
        assert isinstance(human, float)
        return Rating(" ".join(self.question.editors) or "all", self.values[0] if self.values else None, human)


def reply(question: Question, judgments: Mapping[str, Judgment], ties: bool) -> Reply:
    """Read the answer to a question off the judgments of its items.

    Args:
        question: The question.
        judgments: By the id of the item; one that is not there was not judged.
        ties: Whether `tie` is among the labels. Where it is not, a judge that holds candidates level, or calls a tie
            because a release makes it, is undecided.
    """
    names = dict.fromkeys(item for item, _ in question.asks)
    for name in names:
        judgment = judgments.get(name)
        if judgment is None or not judgment.judged:
            failure = judgment.failure if judgment is not None else None
            return Reply(question, None, failure=failure.code if failure is not None else "not judged yet")
    values = tuple(_value(judgments[item].scores.get(letter), question.score) for item, letter in question.asks)
    if all(len(judgments[name].scores) == 1 for name in names):
        return _alone(question, values, ties)
    judgment = judgments[question.asks[0][0]]
    letters = {letter: LABELS[place] for place, (_, letter) in enumerate(question.asks)}
    ranked = [letter for level in judgment.ranking for letter in level]
    if len(ranked) > len(question.asks):
        return _from_ranking(question, judgment, values, letters, ties)
    choice = said(judgment)
    choice = UNDECIDED if choice == TIE and not ties else choice
    top = len(judgment.ranking[0]) if judgment.ranking else len(question.asks)
    lead = _lead(judgment, letters) if len(question.asks) == 2 else None
    return Reply(question, letters.get(choice or "", choice), lead, values, top)


def _value(scores: Scores | None, kind: str) -> float | None:
    """The score that speaks to a question, in [0, 1]: the others are on the paper's scale from 1 to 4."""
    if scores is None:
        return None
    if kind == "reward":
        return scores.reward
    grade = scores.instruction if kind == "instruction" else scores.quality
    return None if grade is None else (grade - 1) / 3


def _alone(question: Question, values: tuple[float | None, ...], ties: bool) -> Reply:
    """The candidates were judged one by one."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Reply(question, None, values=values, failure=f"no {question.score} score")
    if len(known) == 1:
        return Reply(question, "scored", values=values)
    best = max(known)
    top = [letter for letter, value in zip(LABELS, known, strict=False) if best - value < LEVEL]
    choice = top[0] if len(top) == 1 else TIE if ties else UNDECIDED
    return Reply(question, choice, known[0] - known[1] if len(known) == 2 else None, values, len(top))


def _from_ranking(
    question: Question,
    judgment: Judgment,
    values: tuple[float | None, ...],
    letters: Mapping[str, str],
    ties: bool,
) -> Reply:
    """The candidates were judged among others: the pair is read off the ranking."""
    pairs = pairs_of_ranking(judgment.ranking, TIE if judgment.ties_offered and ties else UNDECIDED)
    first, second = (letter for _, letter in question.asks)
    choice = pairs[min(first, second), max(first, second)]
    return Reply(question, letters.get(choice, choice), None, values, 2)


def _lead(judgment: Judgment, letters: Mapping[str, str]) -> float | None:
    """The margin with the sign of who is ahead, also where that is too little to call."""
    if judgment.margin is None:
        return None
    if not judgment.ranking or len(judgment.ranking[0]) > 1:
        return 0.0
    return judgment.margin if letters[judgment.ranking[0][0]] == "A" else -judgment.margin

"""Rewards from a judge in this process, in the form in which a reward server gives them."""

from collections.abc import Sequence
from dataclasses import replace

from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.interface import with_ungradable
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, Judgment
from rewardharness.serving.client_wire import Ask, read_asks
from rewardharness.serving.faults import Fault
from rewardharness.serving.results import ItemResult, JudgedEdit


class InProcessRewards:
    """Scores edits with a judge and a Library, without a server.

    Args:
        judge: The judge.
        library: The Library.
        allow_ungradable: Whether an edit whose instruction the judge cannot grade gets a reward of low confidence.
    """

    def __init__(self, judge: Judge, library: Library, *, allow_ungradable: bool = False) -> None:
        self.judge, self.library, self.allow_ungradable = judge, library, allow_ungradable

    def score(self, asks: Sequence[Ask]) -> list[ItemResult]:
        """Score edits, each alone; one result per edit, in order."""
        edits, results = read_asks(asks)
        examples = [edit.example() for edit in edits.values()]
        judged = evaluate(self.judge, self.library, examples, concurrency=self.judge.traits.concurrency)
        for index, (_, judgment) in zip(edits, judged, strict=True):
            results[index] = self._result(index, judgment)
        return [results[index] for index in range(len(asks))]

    def _result(self, index: int, judgment: Judgment) -> ItemResult:
        judgment = with_ungradable(judgment) if self.allow_ungradable else judgment
        result = JudgedEdit(judgment).item(index, None, LABELS[0])
        if judgment.failure is None:
            return result
        return replace(result, error=Fault(judgment.failure.code, judgment.failure.message))  # callers here see it all

    def close(self) -> None:
        """There is nothing to close."""

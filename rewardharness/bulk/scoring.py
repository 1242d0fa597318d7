"""Judges all candidates of many edits into a run folder, resumably."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rewardharness.judging.best_of import Field, Method, Standing, cost, examples_of, standings
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judging.record import judgment_from_line, judgment_line
from rewardharness.library.store import Library
from rewardharness.runs.store import RunFolder
from rewardharness.schema import Example, Judgment


def total_cost(examples: Iterable[Example], method: Method) -> int:
    """How many judgments all candidates take."""
    return sum(cost(len(example.candidates), method) for example in examples)


def tagged(examples: Iterable[Example], method: Method | None, tag: str = "") -> Iterator[str]:
    """Names under which a run keeps the judgments."""
    return (each.id + tag for each in _asked(examples, method))


def judge_all(
    examples: Iterable[Example],
    judge: Judge,
    library: Library,
    method: Method | None,
    run: RunFolder,
    *,
    concurrency: int,
    tag: str = "",
    on_judgment: Callable[[Judgment], None] | None = None,
) -> None:
    """Judge what a run does not hold yet; each judgment is written as it comes.

    Args:
        examples: The edits, with any number of candidates.
        judge: Who judges.
        library: What it knows.
        method: How candidates are held against each other; None to judge each example as it is.
        run: Where judgments are kept. What is there, failures among it, is not judged again.
        concurrency: Examples under way at once.
        tag: Tells several judgments of the same example apart; it ends their names in the run.
        on_judgment: Told of each.
    """
    known = run.results()
    left = [each for each in _asked(examples, method) if each.id + tag not in known]

    def keep(example: Example, judgment: Judgment) -> None:
        run.append({**judgment_line(judgment), "id": example.id + tag})
        if on_judgment is not None:
            on_judgment(judgment)

    evaluate(judge, library, left, concurrency=concurrency, on_judgment=keep)


def all_standings(
    examples: Iterable[Example], method: Method, results: Mapping[str, Mapping[str, Any]], *, tag: str = ""
) -> Iterator[tuple[Example, tuple[Standing, ...]]]:
    """Put together what a run holds: every edit, with how its candidates stand."""
    for example in examples:
        field = _field(example)
        lines = {each.id: results.get(each.id + tag) for each in examples_of(field, method)}
        judged = {name: judgment_from_line(line) for name, line in lines.items() if line is not None}
        yield example, standings(field, method, judged)


def _asked(examples: Iterable[Example], method: Method | None) -> Iterator[Example]:
    """What the judge is asked."""
    if method is None:
        return iter(examples)
    return (each for example in examples for each in examples_of(_field(example), method))


def _field(example: Example) -> Field:
    return Field(example.id, example.instruction, example.source, example.candidates)

"""Judging of all candidates of many edits into a run folder, with resume."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rewardharness.judging.best_of import Field, Method, Standing, cost, examples_of, standings
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.judge import Judge
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.library.store import Library
from rewardharness.runs.store import RunFolder
from rewardharness.schema import Example, Judgment


def total_cost(examples: Iterable[Example], method: Method) -> int:
    """Return the number of judgments that all candidates need."""
    return sum(cost(len(example.candidates), method) for example in examples)


def tagged(examples: Iterable[Example], method: Method | None, tag: str = "") -> Iterator[str]:
    """Return the ids under which a run stores the judgments."""
    return (example.id + tag for example in _asked(examples, method))


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
    """Judge the examples without a stored judgment. Each judgment is written when it is available.

    Args:
        examples: The edits, with any number of candidates.
        judge: The judge.
        library: The Library of the judge.
        method: How candidates are compared; None to judge each example unchanged.
        run: Run folder of the judgments. Stored results, including failures, are not judged again.
        concurrency: Maximum number of concurrent examples.
        tag: Suffix of the ids, which distinguishes repeated judgments of an example.
        on_judgment: Called with each judgment.
    """
    results = run.results()
    pending = [example for example in _asked(examples, method) if example.id + tag not in results]

    def keep(example: Example, judgment: Judgment) -> None:
        run.append({**result_line(judgment), "id": example.id + tag})
        if on_judgment is not None:
            on_judgment(judgment)

    evaluate(judge, library, pending, concurrency=concurrency, on_judgment=keep)


def all_standings(
    examples: Iterable[Example], method: Method, results: Mapping[str, Mapping[str, Any]], *, tag: str = ""
) -> Iterator[tuple[Example, tuple[Standing, ...]]]:
    """Return every edit with the standings of its candidates, from the results of a run."""
    for example in examples:
        field = _field(example)
        lines = {item.id: results.get(item.id + tag) for item in examples_of(field, method)}
        judged = {name: judgment_from_json(line) for name, line in lines.items() if line is not None}
        yield example, standings(field, method, judged)


def _asked(examples: Iterable[Example], method: Method | None) -> Iterator[Example]:
    """Return the examples to judge."""
    if method is None:
        return iter(examples)
    return (item for example in examples for item in examples_of(_field(example), method))


def _field(example: Example) -> Field:
    return Field(example.id, example.instruction, example.source, example.candidates)

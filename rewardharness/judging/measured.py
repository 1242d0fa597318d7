"""The pixel-based judge: it grades what the routed Skills ask for by measurements of pixels, without a model.

It is not the judge of the paper, which its name states. Each candidate is measured against the source alone, so
swapping two candidates swaps the answer exactly. It names what it cannot measure. Reference images are not read: with
them nothing shows whether the instruction was followed, so there is no reward, and a preference has low confidence.
Of text responses it measures the form that the prompt asks for, and says so.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from rewardharness.errors import HarnessError
from rewardharness.garbage import keep_freed_memory
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.chain import answer, think
from rewardharness.judging.criteria import applicable
from rewardharness.judging.groups import rank
from rewardharness.judging.instruction import request_of
from rewardharness.judging.interface import NOT_GRADABLE, Traits, failure_of, refuse, unjudged, with_ungradable
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured_example import MeasuredExample, grade
from rewardharness.judging.readings import Loaded, measure
from rewardharness.judging.revision import measures_revision
from rewardharness.judging.router import route
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.schema import TIE, Example, Failure, Judgment, Scores, Usage
from rewardharness.task import IMAGE_EDIT, TEXT

NAME = "measured (no VLM)"
"""Name of this judge."""

DECISIVE_MARGIN = 0.1
"""Margin at which the confidence is about three quarters of its maximum."""

TIE_MARGIN = 0.005
"""Margin below which candidates tie, if the labels have ties.

Chosen on 320 human preferences of material appearance: below it, accuracy is 33 of 58 pairs (95% CI .44 to .69, no
better than chance); below .01 it is 71 of 108 (.56 to .74). A smaller value gives fewer ties.
"""


_DIGITS = {"instruction": 2, "quality": 2, "reward": 4}
"""Digits after the point of scores in the answer of the chain."""
MAX_NAMED = 5
"""Maximum number of entries that a message names."""


class MeasuredJudge(Judge):
    """A judge that measures pixels. Deterministic, offline and symmetric.

    Args:
        ties: Whether the labels have ties. Otherwise only candidates with equal rewards tie.
        pictures: Whether observations carry overlay images, which takes more time.
        workers: Number of threads that measure examples.
        cache: Cache of readings, which other Libraries reuse; not used with `pictures`.
        allow_ungradable: Whether an edit whose instruction cannot be measured gets a reward, with low confidence.
    """

    name = NAME
    protocol = "measured"
    _critiques = False

    def __init__(
        self,
        *,
        ties: bool = False,
        pictures: bool = False,
        workers: int = 1,
        cache: JudgmentCache | None = None,
        allow_ungradable: bool = False,
    ) -> None:
        import cv2

        # Examples are judged concurrently; threads inside OpenCV would compete with them.
        cv2.setNumThreads(1)
        keep_freed_memory()
        self._ties = ties
        self._pictures = pictures
        self._cache = None if pictures else cache
        self._allow_ungradable = allow_ungradable
        self.traits = Traits((IMAGE_EDIT, TEXT), concurrency=workers, writes_critiques=True)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="measure")

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it has one thread."""
        ties, pictures, ungradable = self._ties, self._pictures, self._allow_ungradable
        make = partial(MeasuredJudge, ties=ties, pictures=pictures, cache=self._cache, allow_ungradable=ungradable)
        return make, (), {"_critiques": self._critiques, "calibration": self.calibration}

    def with_ties(self, ties: bool) -> "MeasuredJudge":
        """Return the same judge with `tie` among its answers, or without."""
        judge = copy(self)
        judge._ties = ties
        return judge

    def with_critiques(self) -> "MeasuredJudge":
        """Return the same judge, putting the lowest grades of each candidate into words; the scores are the same."""
        judge = copy(self)
        judge._critiques = True
        return judge

    @property
    def revision(self) -> str:
        """Content id of the code of the measures and of their aggregation."""
        return measures_revision()

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example; see `judge_now`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.judge_now, example, library)

    async def close(self) -> None:
        """Do nothing."""

    def judge_now(self, example: Example, library: Library) -> Judgment:
        """Judge one example in the calling thread.

        Returns:
            Scores with a chain, and of several candidates a preference with margin and reasons; or a failure `input`,
            `image`, `nothing_to_measure` or, of a single candidate, `not_gradable`.
        """
        started = time.perf_counter()
        failure = refuse(example, self, library)
        if failure is not None:
            return unjudged(example, self, library, failure)
        try:
            labeled = zip(example.labels, example.candidates, strict=True)
            source = Loaded.of(example.source)
            candidates = {label: Loaded.of(candidate) for label, candidate in labeled}
            request = request_of(example)
            chosen = route(library, example.instruction)
            criteria = applicable(chosen, request)
            wanted = {tool.measure for tool in chosen.tools} | {applied.criterion.measure for applied in criteria}
            names = tuple(name for name in MEASURES if name in wanted)
            taken = {
                label: measure(source, candidate, request, names, self._cache)
                for label, candidate in candidates.items()
            }
            references = bool(example.references)
            measured = {label: grade(readings, request, criteria, references) for label, readings in taken.items()}
        except HarnessError as error:
            return unjudged(example, self, library, failure_of(error), _usage(started))
        if any(graded.scores is None for graded in measured.values()):
            what = "that apply to" if not criteria else "that can be measured for"
            reason = (
                f"This Library has no criteria {what} {example.instruction!r}. {_unmeasured(library)}"
                "Next: judge with a model: --judge vllm:NAME@URL or openai:NAME@URL."
            )
            failed = unjudged(example, self, library, Failure("nothing_to_measure", reason), _usage(started))
            return replace(failed, entries=chosen.reasons, consulted=(len(chosen.entries), len(library)))
        case = MeasuredExample(request, chosen, criteria, source, candidates, measured, references)
        judgment = self._conclude(example, library, case, started)
        if self._critiques:
            judgment = replace(judgment, critiques=case.critiques())
        return with_ungradable(judgment) if self._allow_ungradable else judgment

    def _conclude(self, example: Example, library: Library, case: "MeasuredExample", started: float) -> Judgment:
        scores = case.scores
        notes = (*case.notes(), *(["No OCR: text in the images was not read."] if case.text_unread() else []))
        said = {label: _score_json(score) for label, score in scores.items()}
        scored = Judgment(
            example_id=example.id,
            judge=self.name,
            protocol=self.protocol,
            library_id=library.id,
            ties_offered=self._ties,
            ranking=(example.labels,),
            scores=scores,
            entries=case.route.reasons,
            consulted=(len(case.route.entries), len(library)),
            parts=case.parts(),
            notes=notes,
        )
        if len(scores) == 1:
            return replace(
                scored,
                confidence=case.evidence(),
                steps=(*case.steps(self._pictures), answer(said)),
                usage=_usage(started),
                failure=None if case.gradable() else Failure(NOT_GRADABLE, case.ungradable_reason()),
            )
        ranking, margin = decide(scores)
        # Position consistency is checked by deciding again with the candidates in the other order.
        swapped, _ = decide(dict(reversed(scores.items())))
        tied = len(ranking[0]) > 1 or (self._ties and margin < TIE_MARGIN)
        preference = TIE if tied else ranking[0][0]
        reasons = case.reasons(ranking)
        closing = " ".join(reasons) or "No single difference between the candidates is noticeable."
        result = {"preference": preference, "margin": round(margin, 4), **said}
        return replace(
            scored,
            preference=preference,
            ranking=ranking,
            margin=margin,
            confidence=case.evidence() * math.tanh(margin / DECISIVE_MARGIN),
            steps=(*case.steps(self._pictures), think(closing), answer(result)),
            reasons=reasons,
            position_consistent=swapped == ranking,
            usage=_usage(started),
        )


def _unmeasured(library: Library) -> str:
    """Return which entries this judge cannot use, as a sentence; empty if it can use all."""
    rubrics = ((entry, entry.rubric.criteria if entry.rubric else ()) for entry in library.entries)
    names = [
        entry.name
        for entry, criteria in rubrics
        if not (entry.measure or any(criterion.measure for criterion in criteria))
    ]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    count = f"{len(names)} of {len(library)} entries"
    listed = f"{', '.join(names[:MAX_NAMED])}{more}"
    return f"The pixel-based judge cannot use {count}, which have no measure: {listed}. " if names else ""


@lru_cache(maxsize=1)
def _cached_judge(cache: Path) -> MeasuredJudge:
    return MeasuredJudge(cache=JudgmentCache(cache))


def measure_ahead(judge: Judge, libraries: Sequence[Library]) -> Callable[[Example], None] | None:
    """Return a function for other processes that measures what Libraries request, into the cache of a judge.

    Returns:
        The function; None without a cache, or for a judge that is not pixel-based.
    """
    if not isinstance(judge, MeasuredJudge) or judge._cache is None:
        return None
    return partial(_remember, judge._cache.path.parent, tuple(libraries))


def _remember(cache: Path, libraries: Sequence[Library], example: Example) -> None:
    for library in libraries:
        _cached_judge(cache).judge_now(example, library)


def decide(scores: Mapping[str, Scores]) -> tuple[tuple[tuple[str, ...], ...], float]:
    """Rank two or more candidates by reward, or by evidence if one of them has no reward.

    Returns:
        The ranking, and the margin between the first and the second, in [0, 1].
    """
    rewards = {label: score.reward for label, score in scores.items() if score.reward is not None}
    evidence = {label: score.evidence or 0.0 for label, score in scores.items()}
    values = rewards if len(rewards) == len(scores) else evidence
    ranking = rank(tuple(scores), {(a, b): values[a] - values[b] for a, b in combinations(values, 2)})
    if len(ranking[0]) > 1:
        return ranking, 0.0
    return ranking, values[ranking[0][0]] - values[ranking[1][0]]


def _usage(started: float) -> Usage:
    return Usage(seconds=time.perf_counter() - started)


def _score_json(scores: Scores) -> dict[str, float | None]:
    values = {name: (getattr(scores, name), digits) for name, digits in _DIGITS.items()}
    return {name: None if value is None else round(value, digits) for name, (value, digits) in values.items()}

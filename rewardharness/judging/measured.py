"""The pixel-based judge: it grades what the routed Skills ask for by measurements of pixels, without a model.

It is not the judge of the paper, which its name states. Each candidate is measured against the source alone, so
swapping two candidates swaps the answer exactly. It names what it cannot measure. Reference images are not read: with
them nothing shows whether the instruction was followed, so there is no reward, and a preference has low confidence.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path

from rewardharness.errors import HarnessError
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.chain import answer, observation, think, tool
from rewardharness.judging.criteria import GRADE_FLOOR, Applied, applicable, make_measured_scores
from rewardharness.judging.groups import rank
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.judge import NOT_GRADABLE, Judge, failure_of, refuse, unjudged, with_ungradable
from rewardharness.judging.measured_critique import put_in_words
from rewardharness.judging.readings import Loaded, Measured, measure
from rewardharness.judging.revision import measures_revision
from rewardharness.judging.router import Route, route
from rewardharness.library.store import Library
from rewardharness.measure.images import encode_png
from rewardharness.measure.table import MEASURES
from rewardharness.schema import (
    TIE,
    ChainStep,
    Critique,
    EditRequest,
    Example,
    Failure,
    InstructionPart,
    Judgment,
    Scores,
    Usage,
)

NAME = "measured (no VLM)"
"""Name of this judge."""

DECISIVE_MARGIN = 0.1
"""Margin at which the confidence is about three quarters of its maximum."""

UNGRADABLE_CONFIDENCE = 0.25
"""Maximum confidence if it cannot be measured whether the instruction was followed."""

UNREAD = (
    "The pixel-based judge compares candidates with image 1 only. Reference images were not read, so it is unknown "
    "whether the instruction was followed."
)
"""Statement on examples with reference images."""

TIE_MARGIN = 0.005
"""Margin below which candidates tie, if the labels have ties.

Chosen on 320 human preferences of material appearance: below it, accuracy is 33 of 58 pairs (95% CI .44 to .69, no
better than chance); below .01 it is 71 of 108 (.56 to .74). A smaller value gives fewer ties.
"""


@dataclass(frozen=True)
class _Graded:
    """A measured candidate."""

    taken: Measured
    grades: Mapping[str, float]
    """Grades by criterion key, of the criteria that could be graded."""
    scores: Scores | None


class MeasuredJudge(Judge):
    """A judge that measures pixels. Deterministic, offline and symmetric.

    Args:
        ties: Whether the labels have ties. Otherwise only candidates with equal rewards tie.
        pictures: Whether observations carry overlay images, which takes more time.
        workers: Number of threads that measure examples.
        cache: Cache of readings, which other Libraries reuse; not used with `pictures`.
        sparing: Whether to measure only the requested measures, not those that other Libraries may request.
        allow_ungradable: Whether an edit whose instruction cannot be measured gets a reward, with low confidence.
    """

    name = NAME
    protocol = "measured"
    writes_critiques = True
    _critiques = False

    def __init__(
        self,
        *,
        ties: bool = False,
        pictures: bool = False,
        workers: int = 1,
        cache: JudgmentCache | None = None,
        sparing: bool = False,
        allow_ungradable: bool = False,
    ) -> None:
        import cv2

        # Examples are judged concurrently; threads inside OpenCV would compete with them.
        cv2.setNumThreads(1)
        self._ties = ties
        self._pictures = pictures
        self._cache = None if pictures else cache
        self._sparing = sparing
        self._allow_ungradable = allow_ungradable
        self.concurrency = workers
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="measure")

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

    def measure_ahead(self, libraries: Sequence[Library]) -> Callable[[Example], None] | None:
        """Return a function for other processes that measures what Libraries request, into the cache of this judge.

        Returns:
            The function; None without a cache.
        """
        return None if self._cache is None else partial(_remember, self._cache.path.parent, tuple(libraries))

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
            source = Loaded.of(example.source_image)
            candidates = {
                label: Loaded.of(image) for label, image in zip(example.labels, example.candidate_images, strict=True)
            }
            request = read_instruction(example.instruction)
            chosen = route(library, example.instruction)
            criteria = applicable(chosen, request)
            wanted = {each.measure for each in chosen.tools} | {each.criterion.measure for each in criteria}
            names = tuple(name for name in MEASURES if name in wanted)
            readings = {
                label: measure(source, candidate, request, names, self._cache, self._sparing)
                for label, candidate in candidates.items()
            }
            references = bool(example.references)
            measured = {label: _grade(taken, request, criteria, references) for label, taken in readings.items()}
        except HarnessError as error:
            return unjudged(example, self, library, failure_of(error), _usage(started))
        if any(each.scores is None for each in measured.values()):
            what = "that apply to" if not criteria else "that can be measured for"
            reason = (
                f"This Library has no criteria {what} {example.instruction!r}. "
                "Next: judge with a model: --judge vllm:NAME@URL or openai:NAME@URL."
            )
            return unjudged(example, self, library, Failure("nothing_to_measure", reason), _usage(started))
        case = _MeasuredExample(request, chosen, criteria, source, candidates, measured, references)
        judgment = self._conclude(example, library, case, started)
        if self._critiques:
            judgment = replace(judgment, critiques=case.critiques())
        return with_ungradable(judgment) if self._allow_ungradable else judgment

    def _conclude(self, example: Example, library: Library, case: "_MeasuredExample", started: float) -> Judgment:
        scores = case.scores
        notes = (*case.notes(), *(["No OCR: text in the images was not read."] if case.text_unread() else []))
        said = {label: _score_json(each) for label, each in scores.items()}
        scored = Judgment(
            example_id=example.id,
            judge=self.name,
            protocol=self.protocol,
            library_id=library.id,
            ties_offered=self._ties,
            ranking=(example.labels,),
            scores=scores,
            entries=case.route.reasons,
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
        closing = " ".join(reasons) or "Nothing separates the candidates."
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


@lru_cache(maxsize=1)
def _sparing_judge(cache: Path) -> MeasuredJudge:
    return MeasuredJudge(cache=JudgmentCache(cache), sparing=True)


def _remember(cache: Path, libraries: Sequence[Library], example: Example) -> None:
    for library in libraries:
        _sparing_judge(cache).judge_now(example, library)


def decide(scores: Mapping[str, Scores]) -> tuple[tuple[tuple[str, ...], ...], float]:
    """Rank two or more candidates by reward, or by evidence if one of them has no reward.

    Returns:
        The ranking, and the margin between the first and the second, in [0, 1].
    """
    rewards = {label: each.reward for label, each in scores.items() if each.reward is not None}
    evidence = {label: each.evidence or 0.0 for label, each in scores.items()}
    values = rewards if len(rewards) == len(scores) else evidence
    ranking = rank(tuple(scores), {(a, b): values[a] - values[b] for a, b in combinations(values, 2)})
    if len(ranking[0]) > 1:
        return ranking, 0.0
    return ranking, values[ranking[0][0]] - values[ranking[1][0]]


@dataclass(frozen=True)
class _MeasuredExample:
    """Measurements of one example, from which its judgment is made."""

    request: EditRequest
    route: Route
    criteria: Sequence[Applied]
    source: Loaded
    candidates: Mapping[str, Loaded]
    measured: Mapping[str, _Graded]
    references: bool
    """Whether there are reference images, which are not read."""

    @property
    def scores(self) -> dict[str, Scores]:
        return {label: each.scores for label, each in self.measured.items() if each.scores is not None}

    def _graded(self, applied: Applied) -> bool:
        return all(applied.key in each.grades for each in self.measured.values())

    def gradable(self) -> bool:
        """Return whether it was measured, for every candidate, if the instruction was followed."""
        return all(each.reward is not None for each in self.scores.values())

    def ungradable_reason(self) -> str:
        if self.references:
            return f"{UNREAD} Use a model as judge, or compare candidates."
        kinds = "/".join(self.request.kinds)
        what = "no kind of edit that can be measured" if kinds == "other" else f"a {kinds} edit"
        return (
            f"Pixels do not show whether the instruction was followed: {self.request.instruction[:200]!r} asks for"
            f" {what}. Use a model as judge, compare candidates, or set allow_ungradable for a reward that is based on"
            " general measures and has low confidence."
        )

    def unjudged(self) -> list[Applied]:
        """Return the criteria that could not be graded.

        A general measure that does not apply to this kind of edit, such as the visibility of an edit if none is
        requested, is not counted.
        """
        return [
            each
            for each in self.criteria
            if not self._graded(each) and (each.criterion.measure is None or each.specific)
        ]

    def evidence(self) -> float:
        """Return the graded share of the criteria, by weight; low if the request could not be measured."""
        graded = sum(each.criterion.weight for each in self.criteria if self._graded(each))
        missed = sum(each.criterion.weight for each in self.unjudged())
        share = graded / (graded + missed) if graded else 0.0
        return share if self.gradable() else share * UNGRADABLE_CONFIDENCE

    def parts(self) -> tuple[InstructionPart, ...]:
        """Return the parts of the instruction with the specific measures that graded them."""
        graded = {each.criterion.measure for each in self.criteria if self._graded(each)} if not self.references else ()
        wanted = self.request
        asked = {"color": wanted.colors, "position": wanted.directions, "text": wanted.texts, "tone": wanted.tones}
        return tuple(
            InstructionPart(
                kind,
                asked.get(kind, ()),
                tuple(name for name, measure in MEASURES.items() if name in graded and kind in measure.kinds),
            )
            for kind in self.request.kinds
        )

    def text_unread(self) -> bool:
        readings = [each.taken.readings.get("text_match") for each in self.measured.values()]
        return bool(self.request.texts) and any(each is not None and each.grade is None for each in readings)

    def notes(self) -> tuple[str, ...]:
        found = [f"Source: {note}" for note in next(iter(self.measured.values())).taken.source_notes]
        for label, each in self.measured.items():
            found.extend(f"{label}: {note}" for note in each.taken.notes)
            if each.taken.alignment:
                found.append(f"{label}: {each.taken.alignment}")
            if not self.references and not _same_image(self.request) and each.taken.scene < 0.5:
                found.append(f"{label} does not show the scene of the source; both of its scores are low for that.")
            if self.candidates[label].sha256 == self.source.sha256:
                found.append(f"{label} is the unchanged source.")
        for first, second in combinations(self.candidates, 2):
            if self.candidates[first].sha256 == self.candidates[second].sha256:
                found.append(f"{first} and {second} are the same image.")
        if self.references:
            found.append(f"{UNREAD} The judgment is based on general measures of any edit and has low confidence.")
        elif not self.gradable():
            kinds = "/".join(self.request.kinds)
            found.append(
                f"Whether the requested {kinds} edit was done cannot be measured; the judgment is based on general "
                "measures of any edit and has low confidence."
            )
        else:
            left = ", ".join(each.kind for each in self.parts() if not each.measures)
            found.extend([f"Not graded, because no measure shows it: {left}."] if left else [])
        missed = ", ".join(each.key for each in self.unjudged())
        if missed:
            found.append(f"These criteria of the Library need a VLM and were not graded: {missed}.")
        return tuple(found)

    def reasons(self, ranking: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return the criteria with the largest difference between the first two candidates, with their numbers."""
        if len(ranking) < 2 or len(ranking[0]) > 1:
            return ()
        first, second = ranking[0][0], ranking[1][0]
        ours, theirs = self.measured[first], self.measured[second]
        leads: dict[str, float] = {}
        for applied in self.criteria:
            name = applied.criterion.measure
            if name is None or not self._graded(applied):
                continue
            ratio = math.log(max(ours.grades[applied.key], GRADE_FLOOR) / max(theirs.grades[applied.key], GRADE_FLOOR))
            leads[name] = leads.get(name, 0.0) + applied.criterion.weight * ratio
        strongest = [name for name, lead in sorted(leads.items(), key=lambda item: (-item[1], item[0])) if lead > 0.05]
        return tuple(
            f"{first} leads {second} on {name.replace('_', ' ')}: {first}: {ours.taken.readings[name].sentence} "
            f"{second}: {theirs.taken.readings[name].sentence}"
            for name in strongest[:3]
        )

    def critiques(self) -> dict[str, Critique]:
        """Return a critique of each candidate."""
        return {
            label: put_in_words(self.request, self.criteria, each.grades, each.taken.readings, self.gradable())
            for label, each in self.measured.items()
        }

    def steps(self, pictures: bool) -> tuple[ChainStep, ...]:
        """Return the chain up to the conclusion."""
        found = [think(self._opening()), think(self._consulted())]
        tools = {each.measure: each.name for each in self.route.tools if each.measure}
        for label, each in self.measured.items():
            for name, reading in each.taken.readings.items():
                picture = encode_png(reading.overlay) if pictures and reading.overlay is not None else None
                found.append(tool(tools.get(name, name), ("source", label), label))
                found.append(observation({**reading.to_json(), "says": reading.sentence}, label, picture))
            found.append(think(self._weighing(label), label))
        return tuple(found)

    def _opening(self) -> str:
        request = self.request
        details = [f"kind of edit: {', '.join(request.kinds)}", f"scope: {request.scope}"]
        details += [f"colours: {', '.join(request.colors)}"] if request.colors else []
        details += [f"text wanted: {', '.join(map(repr, request.texts))}"] if request.texts else []
        details += [f"text to be gone: {', '.join(map(repr, request.removed_texts))}"] if request.removed_texts else []
        details += [f"light and colour: {', '.join(request.tones)}"] if request.tones else []
        return f"The instruction is {request.instruction!r}. Read by rules as: {'; '.join(details)}."

    def _consulted(self) -> str:
        if not self.route.reasons:
            return "No entry of the Library applies."
        return "Consulted: " + "; ".join(f"{each.name} ({each.reason})" for each in self.route.reasons) + "."

    def _weighing(self, label: str) -> str:
        each = self.measured[label]
        parts = []
        for applied in self.criteria:
            if applied.key in each.grades:
                low, high = applied.criterion.scale
                grade = low + each.grades[applied.key] * (high - low)
                parts.append(f"{applied.criterion.id} {grade:.2f} of {high:g} (weight {applied.criterion.weight:g})")
        assert each.scores is not None
        return f"{label}: {'; '.join(parts)}. That gives {_score_words(each.scores)}."


def _same_image(request: EditRequest) -> bool:
    """Return whether the candidate is to look like the source, which is graded over the whole image."""
    return request.scope == "none"


def _grade(taken: Measured, request: EditRequest, criteria: Sequence[Applied], references: bool) -> _Graded:
    grades: dict[str, float] = {}
    graded = []
    for applied in criteria:
        reading = taken.readings.get(applied.criterion.measure or "")
        if reading is not None and reading.grade is not None:
            grades[applied.key] = reading.grade
            graded.append((applied.criterion, reading.grade))
    # With reference images the edit may show another scene, and no measure of image 1 tells what was requested.
    scene = 1.0 if references or _same_image(request) else taken.scene
    scores = make_measured_scores(graded, request.kinds, scene)
    if references and scores is not None:
        scores = replace(scores, instruction=None, reward=None)
    return _Graded(taken, grades, scores)


def _usage(started: float) -> Usage:
    return Usage(seconds=time.perf_counter() - started)


def _score_json(scores: Scores) -> dict[str, float | None]:
    return {
        "instruction": None if scores.instruction is None else round(scores.instruction, 2),
        "quality": None if scores.quality is None else round(scores.quality, 2),
        "reward": None if scores.reward is None else round(scores.reward, 4),
    }


def _score_words(scores: Scores) -> str:
    named = {"instruction following": scores.instruction, "visual quality": scores.quality}
    words = [f"{name} {value:.2f} of 4" for name, value in named.items() if value is not None]
    words.append("no reward" if scores.reward is None else f"reward {scores.reward:.3f}")
    return ", ".join(words)

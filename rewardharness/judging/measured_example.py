"""The measurements of one example, and how the pixel-based judge puts them in numbers and words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rewardharness.certainty import InstructionPart
from rewardharness.critique import Critique
from rewardharness.judging.appeals import is_english
from rewardharness.judging.chain import observation, think, tool
from rewardharness.judging.criteria import GRADE_FLOOR, Applied, make_measured_scores
from rewardharness.judging.measured_critique import put_in_words
from rewardharness.judging.measured_reasons import contrasts
from rewardharness.judging.readings import Loaded, Measured
from rewardharness.judging.router import Route
from rewardharness.measure.images import encode_png
from rewardharness.measure.table import MEASURES
from rewardharness.schema import ChainStep, EditRequest, Scores

UNGRADABLE_CONFIDENCE = 0.25
"""Maximum confidence if it cannot be measured whether the instruction was followed."""

UNREAD = (
    "The pixel-based judge compares candidates with image 1 only. Reference images were not read, so it is unknown "
    "whether the instruction was followed."
)
"""Statement on examples with reference images."""

FORM = (
    "Only the form was checked: length, format, words and language that the prompt asks for, repetition and the "
    "ending. Whether a response is right, or answers the prompt, is unknown."
)
"""Statement on text responses."""

NOT_ENGLISH = "The pixel-based judge reads English, and the instruction appears to be in another language."
"""Statement on instructions in another language."""


@dataclass(frozen=True)
class GradedCandidate:
    """A measured candidate."""

    taken: Measured
    grades: Mapping[str, float]
    """Grades by criterion key, of the criteria that could be graded."""
    scores: Scores | None


@dataclass(frozen=True)
class MeasuredExample:
    """Measurements of one example, from which its judgment is made."""

    request: EditRequest
    route: Route
    criteria: Sequence[Applied]
    source: Loaded
    candidates: Mapping[str, Loaded]
    measured: Mapping[str, GradedCandidate]
    references: bool
    """Whether there are reference images, which are not read."""

    @property
    def is_text(self) -> bool:
        """Whether the candidates are text responses."""
        return any(candidate.text is not None for candidate in self.candidates.values())

    @property
    def scores(self) -> dict[str, Scores]:
        """Scores by candidate."""
        return {label: candidate.scores for label, candidate in self.measured.items() if candidate.scores is not None}

    def _graded(self, applied: Applied) -> bool:
        return all(applied.key in candidate.grades for candidate in self.measured.values())

    def gradable(self) -> bool:
        """Return whether it was measured, for every candidate, if the instruction was followed."""
        return all(score.reward is not None for score in self.scores.values())

    def ungradable_reason(self) -> str:
        """Say why it was not measured whether the instruction was followed, and what to do."""
        if self.references:
            return f"{UNREAD} Use a model as judge, or compare candidates."
        if not is_english(self.request.instruction):
            return f"{NOT_ENGLISH} Translate it, or use a model as judge."
        if self.is_text:
            return f"The prompt asks for no form that can be checked. {FORM} Use a model as judge."
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
        left = (applied for applied in self.criteria if not self._graded(applied))
        return [applied for applied in left if applied.criterion.measure is None or applied.specific]

    def evidence(self) -> float:
        """Return the graded share of the criteria, by weight; low if the request could not be measured."""
        graded = sum(applied.criterion.weight for applied in self.criteria if self._graded(applied))
        missed = sum(applied.criterion.weight for applied in self.unjudged())
        share = graded / (graded + missed) if graded else 0.0
        return share if self.gradable() else share * UNGRADABLE_CONFIDENCE

    def parts(self) -> tuple[InstructionPart, ...]:
        """Return the parts of the instruction with the specific measures that graded them."""
        applied = () if self.references else filter(self._graded, self.criteria)
        graded = {part.criterion.measure for part in applied}
        wanted = self.request
        asked = {"color": wanted.colors, "position": wanted.directions, "text": wanted.texts, "tone": wanted.tones}
        measures = {name: measure.kinds for name, measure in MEASURES.items() if name in graded}
        return tuple(
            InstructionPart(kind, asked.get(kind, ()), tuple(name for name, kinds in measures.items() if kind in kinds))
            for kind in wanted.kinds
        )

    def text_unread(self) -> bool:
        """Return whether text is requested and no text could be read."""
        readings = [candidate.taken.readings.get("text_match") for candidate in self.measured.values()]
        return bool(self.request.texts) and any(reading is not None and reading.grade is None for reading in readings)

    def notes(self) -> tuple[str, ...]:
        """Return what a reader should know."""
        notes = [f"Source: {note}" for note in next(iter(self.measured.values())).taken.source_notes]
        for label, candidate in self.measured.items():
            notes.extend(f"{label}: {note}" for note in candidate.taken.notes)
            if candidate.taken.alignment:
                notes.append(f"{label}: {candidate.taken.alignment}")
            if not self.references and not _same_image(self.request) and candidate.taken.scene < 0.5:
                notes.append(f"{label} does not show the scene of the source; both of its scores are low for that.")
            if self.candidates[label].data == self.source.data:
                notes.append(f"{label} is the unchanged source.")
        for first, second in combinations(self.candidates, 2):
            if self.candidates[first].data == self.candidates[second].data:
                notes.append(f"{first} and {second} are the same {'text' if self.is_text else 'image'}.")
        if self.is_text:
            notes.append(FORM)
        if self.request.turned:
            notes.append("The candidates were compared with the source as it is to be turned.")
        if not is_english(self.request.instruction):
            notes.append(f"{NOT_ENGLISH} Translate it, or use a model as judge.")
        if self.references:
            notes.append(f"{UNREAD} The judgment is based on general measures of any edit and has low confidence.")
        elif not self.gradable() and not self.is_text:
            kinds = "/".join(self.request.kinds)
            notes.append(
                f"Whether the requested {kinds} edit was done cannot be measured; the judgment is based on general "
                "measures of any edit and has low confidence."
            )
        else:
            left = ", ".join(part.kind for part in self.parts() if not part.measures)
            notes.extend([f"Not graded, because no measure shows it: {left}."] if left else [])
        missed = ", ".join(applied.key for applied in self.unjudged())
        if missed:
            notes.append(f"These criteria of the Library need a VLM and were not graded: {missed}.")
        return tuple(notes)

    def reasons(self, ranking: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return what noticeably sets the first two candidates apart, in plain words and with the numbers."""
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
        return contrasts(strongest, first, ours.taken.readings, second, theirs.taken.readings)

    def critiques(self) -> dict[str, Critique]:
        """Return a critique of each candidate."""
        return {
            label: put_in_words(
                self.request, self.criteria, candidate.grades, candidate.taken.readings, self.gradable()
            )
            for label, candidate in self.measured.items()
        }

    def steps(self, pictures: bool) -> tuple[ChainStep, ...]:
        """Return the chain up to the conclusion."""
        steps = [think(self._opening()), think(self._consulted())]
        tools = {tool.measure: tool.name for tool in self.route.tools if tool.measure}
        for label, candidate in self.measured.items():
            for name, reading in candidate.taken.readings.items():
                picture = encode_png(reading.overlay) if pictures and reading.overlay is not None else None
                steps.append(tool(tools.get(name, name), (label,) if self.is_text else ("source", label), label))
                steps.append(observation({**reading.to_json(), "says": reading.sentence}, label, picture))
            steps.append(think(self._weighing(label), label))
        return tuple(steps)

    def _opening(self) -> str:
        request = self.request
        if self.is_text:
            return f"The prompt is {request.instruction!r}. {FORM}"
        named = {
            "kind of edit": request.kinds,
            "scope": [request.scope],
            "colours": request.colors,
            "text wanted": map(repr, request.texts),
            "text to be gone": map(repr, request.removed_texts),
            "light and colour": request.tones,
        }
        details = [f"{name}: {text}" for name, parts in named.items() if (text := ", ".join(parts))]
        return f"The instruction is {request.instruction!r}. Read by rules as: {'; '.join(details)}."

    def _consulted(self) -> str:
        if not self.route.reasons:
            return "No entry of the Library applies."
        return "Consulted: " + "; ".join(f"{reason.name} ({reason.reason})" for reason in self.route.reasons) + "."

    def _weighing(self, label: str) -> str:
        candidate = self.measured[label]
        graded = (
            (a.criterion, *a.criterion.scale, candidate.grades[a.key])
            for a in self.criteria
            if a.key in candidate.grades
        )
        parts = [
            f"{criterion.id} {low + grade * (high - low):.2f} of {high:g} (weight {criterion.weight:g})"
            for criterion, low, high, grade in graded
        ]
        assert candidate.scores is not None
        return f"{label}: {'; '.join(parts)}. That gives {_score_words(candidate.scores)}."


def _same_image(request: EditRequest) -> bool:
    """Return whether the candidate is to look like the source, which is graded over the whole image."""
    return request.scope == "none"


def grade(taken: Measured, request: EditRequest, criteria: Sequence[Applied], references: bool) -> GradedCandidate:
    """Grade the criteria that apply to a measured candidate."""
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
    return GradedCandidate(taken, grades, scores)


def _score_words(scores: Scores) -> str:
    named = {"instruction following": scores.instruction, "visual quality": scores.quality}
    parts = [f"{name} {value:.2f} of 4" for name, value in named.items() if value is not None]
    parts.append("no reward" if scores.reward is None else f"reward {scores.reward:.3f}")
    return ", ".join(parts)

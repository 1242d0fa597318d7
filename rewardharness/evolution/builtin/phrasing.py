"""Texts of the Skills, criteria and Tools that the built-in Orchestrator writes.

Models and people read them. They say what to look at, and name the measure and the evidence; none names a candidate by
its position.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

from rewardharness.codec import from_json
from rewardharness.evolution.builtin.forecast import Agreement
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.measure.table import MEASURES
from rewardharness.schema import EDIT_KINDS

LEARNED = "## Learned from preferences"
"""Heading of the list of criteria that evolution added to a Skill."""


@dataclass(frozen=True)
class KindWords:
    """Texts about one kind of edit."""

    phrase: str
    """As in: an edit that ..."""
    advice: str
    """What to look at before anything is measured, in a sentence or two."""
    triggers: str
    """Triggers, in the grammar of `metadata.triggers`; empty if there are none."""
    what: str = "an edit"

    @property
    def description(self) -> str:
        """The description of a Skill."""
        return f"How to judge {self.what} that {self.phrase}."


@dataclass(frozen=True)
class MeasureWords:
    """Texts about one measure."""

    title: str
    criterion: str
    """Text of a criterion that uses it."""


@dataclass(frozen=True)
class _Texts:
    kinds: Mapping[str, KindWords]
    measures: Mapping[str, MeasureWords]


_FILE = "texts.yaml"
_TEXTS = from_json(_Texts, read_yaml((files(__package__) / _FILE).read_text("utf-8"), where=_FILE).value)
ANY = _TEXTS.kinds["any"]
ANY_TEXT = replace(_TEXTS.kinds["response"], what="a response")
KINDS: Mapping[str, KindWords] = {kind: wording for kind, wording in _TEXTS.kinds.items() if kind in EDIT_KINDS}


def title(measure: str) -> str:
    """Return the title of a measure."""
    wording = _TEXTS.measures.get(measure)
    return wording.title if wording else measure.replace("_", " ").capitalize()


def criterion_text(measure: str) -> str:
    """Return the text of a criterion with a measure."""
    if measure in _TEXTS.measures:
        return _TEXTS.measures[measure].criterion
    known = MEASURES.get(measure)
    return known.description if known else f"{title(measure)}."


def evidence(measure: str, agreement: Agreement, scope: str) -> str:
    """Describe the evidence for a measure."""
    counts = f"{agreement.agrees} of {agreement.agrees + agreement.disagrees} {scope}"
    better = f"The preferred candidate had the better grade on the measure `{measure}`"
    return f"{better} in {counts} on which the grades differ."


def note(criterion: Criterion, why: str) -> str:
    """Write a criterion as an item of a Skill's body, for judges that read bodies and not rubrics."""
    return f"{_mark(criterion)} {criterion.text} {why}"


def with_note(body: str, line: str) -> str:
    """Add an item below the heading `LEARNED`."""
    head, heading, rest = body.partition(LEARNED)
    if not heading:
        return f"{body.rstrip()}\n\n{LEARNED}\n\n{line}\n"
    return f"{head}{heading}{rest.rstrip()}\n{line}\n"


def without_note(body: str, criterion: Criterion) -> str:
    """Remove the item of a criterion; the heading is removed with the last one."""
    head, heading, rest = body.partition(LEARNED)
    if not heading:
        return body
    kept = [line for line in rest.split("\n") if not line.startswith(_mark(criterion))]
    if not any(line.strip() for line in kept):
        return head.rstrip()
    return head + heading + "\n".join(kept)


def new_body(name: str, wording: KindWords, line: str) -> str:
    """Write the body of a new Skill."""
    heading = name.replace("-", " ").capitalize()
    return f"# {heading}\n\n{wording.description} {wording.advice}\n\n{LEARNED}\n\n{line}\n"


def tool_body(name: str, measure: str) -> str:
    """Write the body of a measured Tool."""
    heading = name.replace("-", " ").capitalize()
    return (
        f"# {heading}\n\n**Call it** for each candidate, with the candidate's label.\n\n**It reports** a grade from 0 "
        f"to 1 of the measure `{measure}`. {criterion_text(measure)} A grade near 1 is the best end of that scale.\n\n"
        "**Limits.** It computes on pixels and knows no meaning; what you see takes precedence."
    )


def merged_body(first: Entry, second: Entry) -> str:
    """Merge two bodies; common lines appear once."""
    known = {line.strip() for line in first.body.split("\n") if line.strip()}
    new = [line for line in second.body.strip().split("\n") if line.strip() not in known]
    rest = re.sub(r"\n{3,}", "\n\n", "\n".join(new)).strip()
    return f"{first.body.rstrip()}\n\n{rest}\n" if rest else f"{first.body.rstrip()}\n"


def _mark(criterion: Criterion) -> str:
    measure = criterion.measure or ""
    return f"- **{title(measure)}** (criterion `{criterion.id}`, measure `{measure}`):"

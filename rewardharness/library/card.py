"""Writes the card of a Library, and the `config.json` beside it: what it holds, how it evolved, how well it judges.

The card says nothing that is not known: without facts from an evaluation it says that there was none.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from rewardharness.codec import finite
from rewardharness.errors import LibraryError
from rewardharness.library.card_parts import (
    Header,
    combine,
    foreign,
    hand_written,
    print_card,
    read_card,
    table,
)
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import SCHEMA, Entry
from rewardharness.library.evolved import Step, caution, draw, read_steps
from rewardharness.library.store import Library
from rewardharness.library.yamlsafe import print_yaml
from rewardharness.schema import Accuracy, Interval

TAGS = ("rewardharness", "rh-library", "image-editing", "reward-model")
MAX_ROWS = 200
"""Rows of a table, at most."""
MAX_NOTES = 6
"""Differences that are told of one entry, at most."""
MAX_CONFIG = 256 * 1024
"""Size of a `config.json` that is read, at most."""
BENCHMARK_FILE = "benchmark.json"
"""File beside a Library with what benchmarks found about it, in the form of `config.json`."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Facts:
    """What an evaluation of one Library found."""

    library_id: str
    """The Library that was evaluated; facts about another one are refused."""
    judge: str
    """Who judged, as in `Judgment.judge`."""
    protocol: str
    """How it was judged, as in `Judgment.protocol`."""
    data: str
    """The examples: a dataset's name, as in `org/name`, and which part of it was used."""
    label_kind: str
    """Kind of the labels."""
    accuracy: Accuracy
    """Agreement with the labels."""
    interval: Interval
    """Its confidence interval."""
    without: Accuracy | None = None
    """The same judge on the same examples with an empty Library."""
    without_interval: Interval | None = None
    dataset: str = ""
    """Name of the dataset on the Hub, if it is there."""
    model: str = ""
    """Name of the judge's model on the Hub, if it is there."""
    metric: str = ""
    """What was counted, in plain words: which labels, and what becomes of ties. Empty: agreement with the labels."""
    evolved_on: bool = False
    """Whether the Library is known to have been evolved on these very data."""

    @property
    def counted(self) -> str:
        """What was counted, for a reader who sees nothing else."""
        return self.metric or f"agreement with {self.label_kind} labels"

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON, as `config.json` and `benchmark.json` hold it."""
        found = asdict(self)
        return found if self.evolved_on else {name: each for name, each in found.items() if name != "evolved_on"}


@dataclass(frozen=True)
class Config:
    """What the `config.json` of a Library says. The Hub counts downloads by this file."""

    library_id: str
    version: str
    """As in `0.1.0`; empty when there is none."""
    facts: tuple[Facts, ...]


@dataclass(frozen=True)
class Subject:
    """What a card is about."""

    library: Library
    repo: str
    """`org/name`."""
    version: str = ""
    """As in `0.1.0`; empty for a Library that was not published."""
    previous: tuple[str, Library] | None = None
    """Version before this one, and its Library."""
    facts: tuple[Facts, ...] = ()


def make_card(about: Subject, existing: str = "") -> str:
    """Write the card.

    Args:
        about: What it is about.
        existing: The card as it is. What people wrote in it, outside the marked blocks, is kept.

    Returns:
        Markdown with a YAML header.

    Raises:
        LibraryError: If the facts are about another Library, or the existing card cannot be read.
    """
    for each in about.facts:
        if each.library_id != about.library.id:
            message = f"The evaluation is about the Library {each.library_id[:12]}, not about {about.library.id[:12]}."
            raise LibraryError(message, next_step="Evaluate the Library that is published.")
    steps = read_steps(about.library.lineage)
    name = about.library.name or about.repo.rsplit("/", 1)[-1]
    values = {
        "header": print_yaml(_header(about)),
        "title": foreign(name),
        "spec": about.repo + (f"@v{about.version}" if about.version else ""),
        "summary": _summary(about),
        "entries": _entries(about.library),
        "results": _results(about.facts),
        "evolution": _evolution(steps),
        "changes": _changes(about),
    }
    blank = files("hub_templates").joinpath("library_card.md").read_text(encoding="utf-8")
    card = read_card(_PLACEHOLDER.sub(lambda found: values[found.group(1)], blank))
    return print_card(combine(card, read_card(existing)) if existing.strip() else card)


def own_words(card: str) -> tuple[str, str]:
    """Return what people wrote in a card: the text outside the blocks, and their part of the header."""
    return hand_written(card, {key: None for key in ("library_name", "tags", "pipeline_tag", "model-index")})


def make_chart(library: Library) -> str | None:
    """Draw how the Library evolved; None when its lineage does not say enough."""
    return draw(read_steps(library.lineage))


def make_config(about: Subject) -> str:
    """Write `config.json`."""
    library = about.library
    value = {
        "library_name": "rewardharness",
        "schema_version": SCHEMA,
        "library_id": library.id,
        "version": about.version,
        "skills": len(library.skills),
        "tools": len(library.tools),
        "evaluation": [each.to_json() for each in about.facts],
    }
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_config(text: str) -> Config:
    """Read a `config.json` that may come from anybody; what cannot be understood in it counts as absent."""
    try:
        value = json.loads(text) if len(text) <= MAX_CONFIG else None
    except (ValueError, RecursionError):
        value = None
    value = value if isinstance(value, dict) else {}
    library_id, version, facts = (value.get(key) for key in ("library_id", "version", "evaluation"))
    return Config(
        library_id if isinstance(library_id, str) and _ID.fullmatch(library_id) else "",
        version if isinstance(version, str) and len(version) <= 40 else "",
        tuple(found for each in (facts if isinstance(facts, list) else []) if (found := _read_facts(each))),
    )


def _read_facts(value: Any) -> Facts | None:
    if not isinstance(value, dict):
        return None
    texts: dict[str, Any] = {key: value.get(key) for key in ("library_id", "judge", "protocol", "data", "label_kind")}
    texts |= {key: value.get(key, "") for key in ("dataset", "model", "metric")}
    if not all(isinstance(text, str) and len(text) <= 1000 for text in texts.values()):
        return None
    accuracy, interval = _read_accuracy(value.get("accuracy")), _read_interval(value.get("interval"))
    if accuracy is None or interval is None:
        return None
    without, span = _read_accuracy(value.get("without")), _read_interval(value.get("without_interval"))
    spans: dict[str, Any] = {"interval": interval, "without": without, "without_interval": span}
    return Facts(**texts, accuracy=accuracy, **spans, evolved_on=value.get("evolved_on") is True)


def _read_accuracy(value: Any) -> Accuracy | None:
    if not isinstance(value, dict):
        return None
    n, judged, correct = (value.get(key) for key in ("n", "judged", "correct"))
    right = finite(correct)
    if not isinstance(n, int) or not isinstance(judged, int) or right is None:
        return None
    return Accuracy(n, judged, right) if 0 <= right <= judged <= n <= 10**9 else None


def _read_interval(value: Any) -> Interval | None:
    if not isinstance(value, dict):
        return None
    low, high, level = (finite(value.get(key)) for key in ("low", "high", "level"))
    if low is None or high is None or level is None:
        return None
    return Interval(low, high, level) if 0 <= low <= high <= 1 and 0 < level < 1 else None


def _header(about: Subject) -> Header:
    meta = about.library.meta
    header: Header = {"library_name": "rewardharness", "tags": list(TAGS), "pipeline_tag": "image-text-to-text"}
    stated = meta.get("license")
    if isinstance(stated, str) and re.fullmatch(r"[a-z0-9.-]{1,40}", stated):
        header["license"] = stated
    header["language"] = "en"
    models = sorted({each.model for each in about.facts if _HUB_NAME.fullmatch(each.model)})
    datasets = sorted({each.dataset for each in about.facts if _HUB_NAME.fullmatch(each.dataset)})
    if models:
        header |= {"base_model": models, "base_model_relation": "adapter"}
    if datasets:
        header["datasets"] = datasets
    results = [_result(each) for each in about.facts if each.accuracy.value is not None]
    if results:
        name = about.repo.rsplit("/", 1)[-1]
        header["model-index"] = [{"name": f"{name} (Library {about.library.id[:12]})", "results": results}]
    return header


def _result(facts: Facts) -> dict[str, Any]:
    accuracy = facts.accuracy
    metric: dict[str, Any] = {"type": "accuracy", "name": _plain(facts.counted)}
    metric |= {"value": round(accuracy.value or 0.0, 4)}
    args: dict[str, Any] = {"judge": _plain(facts.judge), "protocol": _plain(facts.protocol), "n": accuracy.n}
    args |= {"judged": accuracy.judged, "low": round(facts.interval.low, 4), "high": round(facts.interval.high, 4)}
    dataset = facts.dataset if _HUB_NAME.fullmatch(facts.dataset) else "local"
    args |= {"evolved_on_these_data": True} if facts.evolved_on else {}
    return {
        "task": {"type": "image-text-to-text", "name": "preference between image edits"},
        "dataset": {"type": dataset, "name": _plain(facts.data) or dataset},
        "metrics": [{**metric, "args": args}],
    }


def _plain(text: str) -> str:
    return " ".join(text.split())[:200]


def _summary(about: Subject) -> str:
    library = about.library
    version = f"Version **{about.version}**. " if about.version else "Not published yet. "
    counts = f"{_count(library.skills, 'Skill')} and {_count(library.tools, 'Tool')}"
    return f"{version}{counts}. Library id `{library.id}`."


def _count(items: Sequence[object], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"


def _entries(library: Library) -> str:
    if not library.entries:
        return "There are none yet."
    rows = [
        (entry.kind.capitalize(), f"[`{entry.name}`]({entry.path})", _when(entry), foreign(entry.description))
        for entry in library.entries[:MAX_ROWS]
    ]
    left = len(library.entries) - len(rows)
    more = f"\n\nAnd {left} more; see `registry.json`." if left else ""
    return table(("Kind", "Name", "Applies to", "What it is for"), rows) + more


def _when(entry: Entry) -> str:
    triggers = ", ".join(str(trigger) for trigger in entry.triggers)
    return foreign(triggers, 120) if triggers else "by its description"


def _results(facts: Sequence[Facts]) -> str:
    if not facts:
        return "Not evaluated yet: no agreement with people has been measured for this version."
    headings = ("Data", "What was counted", "Judge", "Protocol", "With this Library", "The same judge without it")
    rows = []
    for each in facts[:MAX_ROWS]:
        names = (each.counted, each.judge, each.protocol)
        data = foreign(each.data, 200) + (", **evolved on it**" if each.evolved_on else "")
        without = _figure(each.without, each.without_interval) if each.without else "not measured"
        rows.append((data, *(foreign(text, 200) for text in names), _figure(each.accuracy, each.interval), without))
    reading = (
        "Shares of the judged examples on which the judge agrees with the label, with their confidence intervals. What "
        "could not be judged is not counted as right, wrong or tied; how much was judged is said."
    )
    known = any(each.evolved_on for each in facts[:MAX_ROWS])
    said = f"{caution('Where the table says so, the Library')}\n\n" if known else ""
    return f"{table(headings, rows)}\n\n{said}{reading}"


def _figure(accuracy: Accuracy, interval: Interval | None) -> str:
    if accuracy.value is None:
        return f"none of {accuracy.n} could be judged"
    span = f" ({interval.low:.3f} to {interval.high:.3f} at {interval.level:.0%})" if interval else ""
    return f"{accuracy.value:.3f}{span}, {accuracy.judged} of {accuracy.n} judged"


def _evolution(steps: Sequence[Step]) -> str:
    if not steps:
        return "Its lineage is empty: the entries were written by hand, or nobody recorded how they came about."
    kept = [step for step in steps if step.accepted]
    head = f"{len(kept)} of {steps[-1].number} recorded edits were kept."
    if steps[0].number > 1:
        head = f"Of the newest {len(steps)} of {steps[-1].number} recorded edits {len(kept)} were kept."
    known = sorted({f"- {key}: {foreign(text, 120)}" for step in steps for key, text in step.setting.items()})
    rows = []
    for step in steps[-MAX_ROWS:]:
        texts = ((step.operator, 40), (", ".join(step.entries), 120), (step.reason, 200))
        outcome = "kept" if step.accepted else "rejected"
        rows.append((str(step.number), outcome, *(foreign(*each) or "-" for each in texts), _evidence(step)))
    headings = ("Edit", "Outcome", "What", "Entries", "Why", "Evidence")
    parts = [head, "\n".join(known[:12]), table(headings, rows)]
    if draw(steps):
        parts.append("![Agreement with the labels after each edit that was kept](evolution.svg)")
    return "\n\n".join(part for part in parts if part)


def _evidence(step: Step) -> str:
    n = f" (n = {step.n})" if step.n is not None else ""
    if step.before is not None and step.after is not None:
        return f"{step.before:.3f} to {step.after:.3f}{n}"
    return f"{step.after:.3f}{n}" if step.after is not None else f"not recorded{n}"


def _changes(about: Subject) -> str:
    if about.previous is None:
        return "This is the first version." if about.version else "There is no earlier version to compare with."
    before, library = about.previous
    found = diff_libraries(library, about.library)
    if found.is_empty:
        return f"Since {before} no entry has changed."
    lines = [f"Since {before}:", ""]
    lines += [f"- added the {each.kind} `{each.name}`: {foreign(each.description)}" for each in found.added]
    lines += [f"- removed the {each.kind} `{each.name}`" for each in found.removed]
    for change in found.changed:
        lines.append(f"- changed the {change.after.kind} `{change.name}`")
        lines += [f"  - {note}" for note in _notes(change.notes)]
    return "\n".join(lines[: 2 * MAX_ROWS])


def _notes(notes: Sequence[str]) -> Iterator[str]:
    yield from (foreign(note) for note in notes[:MAX_NOTES])
    if len(notes) > MAX_NOTES:
        yield f"and {len(notes) - MAX_NOTES} more differences"


def known_facts(config: Config, library: Library) -> tuple[Facts, ...]:
    """Pick the facts of a `config.json` that are about this very Library."""
    return tuple(each for each in config.facts if each.library_id == library.id)

"""Generates the card of a Library and its `config.json`: entries, evolution, and evaluation results."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rewardharness.codec import ValidationError, from_json, to_json
from rewardharness.errors import LibraryError
from rewardharness.library.card_parts import Header, fill_template, foreign, read_card, table, update_card
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import SCHEMA, Entry
from rewardharness.library.evolved import LineageStep, caution, draw, is_digest, read_steps
from rewardharness.library.reader import Folder
from rewardharness.library.store import Library
from rewardharness.library.yamlsafe import print_yaml
from rewardharness.schema import Accuracy, Interval

CARD_FILE, CONFIG_FILE, CHART_FILE = "README.md", "config.json", "evolution.svg"
GENERATED = frozenset({CARD_FILE, CONFIG_FILE, CHART_FILE})
"""Files that a push generates."""
LIBRARY_TAG = "rh-library"
"""Tag of all Libraries on the Hub, by which they are found."""
TAGS = ("rewardharness", LIBRARY_TAG, "image-editing", "reward-model")
BAR = 40
"""Length of a bar in letters."""

MAX_ROWS = 200
"""Maximum number of rows in a table."""
MAX_NOTES = 6
"""Maximum number of listed differences of one entry."""
MAX_CONFIG = 256 * 1024
"""Maximum size of a `config.json` in characters."""
BENCHMARK_FILE = "benchmark.json"
"""File in the folder of a Library with benchmark results, in the format of `config.json`."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")
_OWN_KEYS = frozenset({"library_name", "tags", "pipeline_tag", "model-index", "rewardharness"})
"""Keys of the header that are generated."""


@dataclass(frozen=True)
class PairedGain:
    """Accuracy with a Library minus that of the same judge without it, on the examples judged both times."""

    value: float
    interval: tuple[float, float] | None
    """95% interval; None for few examples."""
    p: float | None
    """Exact McNemar test; None if no answer became better or worse."""
    n: int
    judged: int
    """Of the n, judged both times."""
    better: int
    worse: int


@dataclass(frozen=True)
class Facts:
    """Result of an evaluation of one Library."""

    library_id: str
    """Id of the evaluated Library."""
    judge: str
    """The judge, as in `Judgment.judge`."""
    protocol: str
    """The protocol, as in `Judgment.protocol`."""
    data: str
    """Name of the dataset, such as `org/name`, and the part of it that was used."""
    label_kind: str
    """Kind of the labels."""
    accuracy: Accuracy
    """Agreement with the labels."""
    interval: Interval
    """Confidence interval of the accuracy."""
    without: Accuracy | None = None
    """Accuracy of the same judge on the same examples with an empty Library."""
    without_interval: Interval | None = None
    dataset: str = ""
    """Name of the dataset on the Hub, if any."""
    model: str = ""
    """Name of the judge's model on the Hub, if any."""
    metric: str = ""
    """Description of the metric: which labels are used and how ties count. Empty: agreement with the labels."""
    evolved_on: bool = False
    """Whether the Library is known to have been evolved on the same data."""
    exploit_reward: float | None = None
    """For an attack: mean reward of the exploit, in [0, 1]; the accuracy is the share that prefers the correct edit."""
    exploit_interval: Interval | None = None
    gain: PairedGain | None = None
    """Gain over the same judge without the Library."""

    @property
    def counted(self) -> str:
        """Description of the metric."""
        return self.metric or f"agreement with {self.label_kind} labels"


@dataclass(frozen=True)
class Config:
    """Content of the `config.json` of a Library. The Hub uses this file to count downloads."""

    library_id: str
    version: str
    """Version such as `0.1.0`; empty if there is none."""
    facts: tuple[Facts, ...]


@dataclass(frozen=True)
class CardSubject:
    """Subject of a card."""

    library: Library
    repo: str
    """`org/name`."""
    version: str = ""
    """Version such as `0.1.0`; empty for an unpublished Library."""
    previous: tuple[str, Library] | None = None
    """The previous version and its Library."""
    facts: tuple[Facts, ...] = ()


def make_card(subject: CardSubject, existing: str = "") -> str:
    """Generate a card.

    Args:
        subject: The Library and its results.
        existing: The existing card. Hand-written text outside the generated blocks is kept.

    Returns:
        Markdown with a YAML header.

    Raises:
        LibraryError: If the facts concern another Library, or the existing card is invalid.
    """
    for facts in subject.facts:
        if facts.library_id != subject.library.id:
            ids = f"{facts.library_id[:12]}, but the published one is {subject.library.id[:12]}"
            raise LibraryError(f"The evaluated Library is {ids}.", next_step="Evaluate the published Library.")
    values = {
        "header": print_yaml(_header(subject)),
        "title": foreign(subject.library.name or subject.repo.rsplit("/", 1)[-1]),
        "spec": subject.repo + (f"@v{subject.version}" if subject.version else ""),
        "summary": _summary(subject),
        "entries": _entries(subject.library),
        "results": _results(subject.facts),
        "evolution": _evolution(read_steps(subject.library.lineage)),
        "changes": _changes(subject),
    }
    return update_card(fill_template("library_card.md", values), existing)


def hand_written_text(card: str) -> tuple[str, str]:
    """Return the hand-written text and the hand-written part of the header of a card."""
    if not card.strip():
        return "", ""
    parsed = read_card(card)
    header = {key: value for key, value in parsed.header.items() if key not in _OWN_KEYS}
    return " ".join("".join(text for name, text in parsed.parts if not name).split()), print_yaml(header)


def card_files(subject: CardSubject, existing: str) -> dict[str, bytes]:
    """Generate the card, updated from an existing one, `config.json`, and the chart of the evolution, by path."""
    chart = make_chart(subject.library)
    texts = {CARD_FILE: make_card(subject, existing), CONFIG_FILE: make_config(subject), CHART_FILE: chart}
    return {path: text.encode("utf-8") for path, text in texts.items() if text}


def make_chart(library: Library) -> str | None:
    """Draw the evolution of a Library as SVG; return None if its lineage has fewer than two accuracies."""
    return draw(read_steps(library.lineage))


def make_config(subject: CardSubject) -> str:
    """Format `config.json`."""
    library = subject.library
    value = {
        "library_name": "rewardharness",
        "schema_version": SCHEMA,
        "library_id": library.id,
        "version": subject.version,
        "skills": len(library.skills),
        "tools": len(library.tools),
        "evaluation": [facts_json(facts) for facts in subject.facts],
    }
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def facts_json(facts: Facts) -> dict[str, Any]:
    """Return the facts as a JSON object for `config.json` and `benchmark.json`; what is false or absent is omitted."""
    always = {"without", "without_interval"}
    values = to_json(facts).items()
    return {key: value for key, value in values if key in always or (value is not None and value is not False)}


def read_config(source: str | Path) -> Config:
    """Parse an untrusted `config.json`: its text, or its path. Invalid values are ignored.

    Raises:
        LibraryError: If the file is too large, a link, or not text.
    """
    text = Folder(source.parent).read(source.name, MAX_CONFIG) if isinstance(source, Path) else source
    try:
        value = json.loads(text) if text and len(text) <= MAX_CONFIG else None
    except (ValueError, RecursionError):
        value = None
    value = value if isinstance(value, dict) else {}
    library_id, version, facts = (value.get(key) for key in ("library_id", "version", "evaluation"))
    return Config(
        library_id if is_digest(library_id) else "",
        version if isinstance(version, str) and len(version) <= 40 else "",
        tuple(filter(None, map(_read_facts, facts if isinstance(facts, list) else []))),
    )


def _read_facts(value: Any) -> Facts | None:
    known = {field.name for field in fields(Facts)}
    try:
        facts = from_json(Facts, {key: value[key] for key in known & value.keys()} if isinstance(value, dict) else {})
    except ValidationError:
        return None
    texts = (facts.library_id, facts.judge, facts.protocol, facts.data, facts.label_kind)
    spans = (facts.interval, facts.without_interval, facts.exploit_interval)
    valid = (
        all(len(text) <= 1000 for text in (*texts, facts.dataset, facts.model, facts.metric)),
        all(0 <= row.correct <= row.judged <= row.n <= 10**9 for row in (facts.accuracy, facts.without) if row),
        all(0 <= span.low <= span.high <= 1 and 0 < span.level < 1 for span in spans if span),
        facts.exploit_reward is None or 0 <= facts.exploit_reward <= 1,
        facts.gain is None or _is_possible(facts.gain),
    )
    return facts if all(valid) else None


def _is_possible(gain: PairedGain) -> bool:
    counts = gain.better + gain.worse <= gain.judged <= gain.n <= 10**9 and min(gain.better, gain.worse) >= 0
    return counts and all(-1 <= gap <= 1 for gap in (gain.value, *(gain.interval or ()))) and 0 <= (gain.p or 0) <= 1


def _header(subject: CardSubject) -> Header:
    license_id = subject.library.meta.get("license")
    is_license = isinstance(license_id, str) and re.fullmatch(r"[a-z0-9.-]{1,40}", license_id)
    models, datasets = (
        sorted({name for facts in subject.facts if _HUB_NAME.fullmatch(name := getattr(facts, key))})
        for key in ("model", "dataset")
    )
    results = [_result(facts) for facts in subject.facts if facts.accuracy.value is not None]
    name = f"{subject.repo.rsplit('/', 1)[-1]} (Library {subject.library.id[:12]})"
    return {
        "library_name": "rewardharness",
        "tags": list(TAGS),
        "pipeline_tag": "image-text-to-text",
        **({"license": license_id} if is_license else {}),
        "language": "en",
        "rewardharness": {"version": subject.version, "library_id": subject.library.id},
        **({"base_model": models, "base_model_relation": "adapter"} if models else {}),
        **({"datasets": datasets} if datasets else {}),
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }


def _result(facts: Facts) -> dict[str, Any]:
    accuracy, reward = facts.accuracy, facts.exploit_reward
    dataset = facts.dataset if _HUB_NAME.fullmatch(facts.dataset) else "local"
    args = {
        "judge": _plain(facts.judge),
        "protocol": _plain(facts.protocol),
        "n": accuracy.n,
        "judged": accuracy.judged,
        "low": round(facts.interval.low, 4),
        "high": round(facts.interval.high, 4),
        **({"evolved_on_these_data": True} if facts.evolved_on else {}),
        **({"exploit_reward": round(reward, 4)} if reward is not None else {}),
    }
    metric = {"type": "accuracy", "name": _plain(facts.counted), "value": round(accuracy.value or 0.0, 4), "args": args}
    return {
        "task": {"type": "image-text-to-text", "name": "image edit preference"},
        "dataset": {"type": dataset, "name": _plain(facts.data) or dataset},
        "metrics": [metric],
    }


def _plain(text: str) -> str:
    return " ".join(text.split())[:200]


def _summary(subject: CardSubject) -> str:
    library = subject.library
    version = f"Version **{subject.version}**. " if subject.version else "Not published. "
    counts = f"{_count(library.skills, 'Skill')} and {_count(library.tools, 'Tool')}"
    return f"{version}{counts}. Library id `{library.id}`."


def _count(items: Sequence[object], word: str) -> str:
    return f"{len(items)} {word}{'' if len(items) == 1 else 's'}"


def _entries(library: Library) -> str:
    if not library.entries:
        return "This Library has no entries."
    rows = [
        (entry.kind.capitalize(), f"[`{entry.name}`]({entry.path})", _when(entry), foreign(entry.description))
        for entry in library.entries[:MAX_ROWS]
    ]
    omitted = len(library.entries) - len(rows)
    more = f"\n\n{omitted} more entries are listed in `registry.json`." if omitted else ""
    return table(("Kind", "Name", "Triggers", "Description"), rows) + more


def _when(entry: Entry) -> str:
    return foreign(", ".join(map(str, entry.triggers)), 120) or "determined by the description"


def _results(facts: Sequence[Facts]) -> str:
    attacks = tuple(row for row in facts if row.exploit_reward is not None)
    agreement = _agreement(tuple(row for row in facts if row.exploit_reward is None))
    gains = _gains([(row, row.gain) for row in facts if row.gain is not None])
    return "\n\n".join(filter(None, (agreement, gains, _robustness(attacks))))


def _gains(facts: Sequence[tuple[Facts, PairedGain]]) -> str:
    """Return one table of the gains of the Library, by judge."""
    rows = []
    for row, gain in facts[:MAX_ROWS]:
        span = f" ({100 * gain.interval[0]:+.1f} to {100 * gain.interval[1]:+.1f})" if gain.interval else ""
        coverage, p = f"{gain.judged} of {gain.n}", "-" if gain.p is None else f"{gain.p:.2g}"
        names = [foreign(text, 200) for text in (row.judge, row.protocol, row.data)]
        rows.append((*names, f"{100 * gain.value:+.1f}{span}", f"{gain.better} / {gain.worse}", p, coverage))
    headings = ("Judge", "Protocol", "Data", "Gain, points", "Better / worse", "p", "Judged both times")
    text = (
        "Each judge is compared with itself without the Library, example by example: percentage points with 95% "
        "intervals, and the exact McNemar test, not corrected for the number of judges."
    )
    return f"### Gain by judge\n\n{table(headings, rows)}\n\n{text}" if rows else ""


def _robustness(attacks: Sequence[Facts]) -> str:
    rows = []
    for row in attacks[:MAX_ROWS]:
        span, accuracy, around = row.interval, row.accuracy, row.exploit_interval
        won = "-" if accuracy.value is None else f"{1 - accuracy.value:.3f} ({1 - span.high:.3f} to {1 - span.low:.3f})"
        bounds = f" ({around.low:.3f} to {around.high:.3f})" if around else ""
        judged, reward = f"{won}, {accuracy.judged} of {accuracy.n} judged", f"{row.exploit_reward:.3f}{bounds}"
        rows.append((foreign(row.label_kind, 80), foreign(row.judge, 200), judged, reward))
    headings = ("Attack", "Judge", "Exploit preferred", "Mean reward of the exploit")
    text = (
        "Generated pairs of a correct edit and an exploit: how often the exploit is preferred (a tie counts half), and "
        "its reward in [0, 1], with 95% intervals. Lower is better."
    )
    return f"### Robustness\n\n{table(headings, rows)}\n\n{text}" if rows else ""


def _agreement(facts: Sequence[Facts]) -> str:
    if not facts:
        return "Not evaluated: the agreement of this version with human labels has not been measured."
    facts = facts[:MAX_ROWS]
    rows, bars = [], ""
    for number, row in enumerate(facts, 1):
        names = [foreign(text, 200) for text in (row.counted, row.judge, row.protocol)]
        data = foreign(row.data, 200) + (", **evolved on it**" if row.evolved_on else "")
        without = _figure(row.without, row.without_interval) if row.without else "not measured"
        rows.append((data, *names, _figure(row.accuracy, row.interval), without))
        before, after = row.without.value if row.without else None, row.accuracy.value
        if before is not None and after is not None:  # bars of text, which every reader of Markdown shows
            bars += f"row {number}  without {_bar(before)}\n       with    {_bar(after)}\n"
    headings = ("Data", "Metric", "Judge", "Protocol", "With this Library", "Same judge without it")
    explanation = (
        "Accuracy is the share of judged examples on which the judge agrees with the label, with its confidence "
        "interval. Examples that could not be judged are excluded; the number of judged examples is given."
    )
    evolved_on = any(row.evolved_on for row in facts)
    warning = f"{caution('Where marked, the Library')}\n\n" if evolved_on else ""
    chart = f"```text\n{bars}```\n\n" if bars else ""
    return f"{table(headings, rows)}\n\n{chart}{warning}{explanation}"


def _bar(share: float) -> str:
    full = round(BAR * share)
    return f"{'█' * full}{'░' * (BAR - full)} {share:.3f}"


def _figure(accuracy: Accuracy, interval: Interval | None) -> str:
    if accuracy.value is None:
        return f"none of {accuracy.n} judged"
    span = f" ({interval.low:.3f} to {interval.high:.3f} at {interval.level:.0%})" if interval else ""
    return f"{accuracy.value:.3f}{span}, {accuracy.judged} of {accuracy.n} judged"


def _evolution(steps: Sequence[LineageStep]) -> str:
    if not steps:
        return "The lineage is empty: the entries were written by hand, or their evolution was not recorded."
    accepted, recorded = sum(step.accepted for step in steps), steps[-1].number
    head = f"{accepted} of {recorded} recorded edits were accepted."
    if steps[0].number > 1:
        head = f"{accepted} of the latest {len(steps)} edits were accepted; {recorded} edits are recorded."
    settings = sorted({f"- {key}: {foreign(text, 120)}" for step in steps for key, text in step.setting.items()})
    rows = []
    for step in steps[-MAX_ROWS:]:
        texts = ((step.operator, 40), (", ".join(step.entries), 120), (step.reason, 200))
        outcome = "accepted" if step.accepted else "rejected"
        rows.append((str(step.number), outcome, *(foreign(*text) or "-" for text in texts), _evidence(step)))
    headings = ("Edit", "Outcome", "Operation", "Entries", "Reason", "Accuracy")
    chart = f"![Accuracy after each accepted edit]({CHART_FILE})" if draw(steps) else ""
    return "\n\n".join(filter(None, (head, "\n".join(settings[:12]), table(headings, rows), chart)))


def _evidence(step: LineageStep) -> str:
    n = f" (n = {step.n})" if step.n is not None else ""
    if step.after is None:
        return f"not recorded{n}"
    return (f"{step.before:.3f} to " if step.before is not None else "") + f"{step.after:.3f}{n}"


def _changes(subject: CardSubject) -> str:
    if subject.previous is None:
        return "This is the first version." if subject.version else "There is no previous version."
    before, library = subject.previous
    diff = diff_libraries(library, subject.library)
    if diff.is_empty:
        return f"No entry has changed since {before}."
    lines = [f"Changes since {before}:", ""]
    lines += [f"- Added the {entry.kind} `{entry.name}`: {foreign(entry.description)}" for entry in diff.added]
    lines += [f"- Removed the {entry.kind} `{entry.name}`" for entry in diff.removed]
    for change in diff.changed:
        more = len(change.notes) - MAX_NOTES
        lines.append(f"- Changed the {change.after.kind} `{change.name}`")
        lines += [f"  - {foreign(note)}" for note in change.notes[:MAX_NOTES]]
        lines += [f"  - {more} more differences"] if more > 0 else []
    return "\n".join(lines[: 2 * MAX_ROWS])


def known_facts(config: Config, library: Library) -> tuple[Facts, ...]:
    """Return the facts of a `config.json` that concern the given Library."""
    return tuple(facts for facts in config.facts if facts.library_id == library.id)

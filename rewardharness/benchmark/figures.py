"""Formatting of numbers of a result for the command line, Markdown and HTML. Names are untrusted and not escaped."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rewardharness.benchmark.comparison import PairedTest
from rewardharness.benchmark.items import DataFacts
from rewardharness.benchmark.metrics import Bounds, split
from rewardharness.benchmark.numbers import GIVEN_FLOOR, GRADE, RATING, Number, NumberFacts
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
from rewardharness.benchmark.run import EntryRecord
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.judging.report import consulted_words
from rewardharness.library.evolved import caution
from rewardharness.schema import TIE

_MAIN = {"groups", "macro", "spearman"}
"""Metrics whose number is the main one of its part, before accuracy."""


def figure(number: NumberFacts) -> str:
    """Format a number with its interval, in percent for shares."""
    if number.value is None:
        return "-"
    scale, digits = (100, 1) if number.is_share else (1, {RATING: 0, GRADE: 2}.get(number.metric, 3))
    span = number.interval
    interval = f" [{span[0] * scale:.{digits}f}, {span[1] * scale:.{digits}f}]" if span else ""
    return f"{number.value * scale:.{digits}f}{interval}"


def judged(number: Number) -> str:
    """Format the number of judged questions."""
    return f"{number.judged} of {number.n}"


def full_name(number: Number, part: Sequence[str]) -> str:
    """Describe a number without context, as on a card: labels, and the treatment of ties.

    Args:
        number: A number that is a share of questions: not a mean over categories, not a correlation.
        part: Labels of its part.
    """
    labels, detail = number.labels, number.detail
    question = f", asked about {number.dimension}" if number.dimension else ""
    if number.metric == "groups":
        which = number.name.partition("," if labels else ";")[0]
        return f"share of the judged {which} with every pair correct; the labels have no ties"
    if not labels:
        return f"share of the judged groups whose best candidate was found, {number.name}{question}"
    accuracy = f"accuracy on pairs labeled {', '.join(labels[:-1])} or {labels[-1]}{question}"
    if number.metric == "forced":
        return f"{accuracy}; pairs labeled a tie are left out, and the higher score is the answer"
    if number.metric == "fitted":
        floor = "" if detail.floor is None else f", below {detail.floor:.4g} both are bad"
        rule = f"rewards within {detail.threshold:.4g} are a tie{floor}"
        return f"{accuracy}; {rule}, as fitted on {detail.fitted_on} other pairs"
    if TIE not in labels:
        return f"{accuracy}, without ties; tied candidates count half"
    if BOTH_BAD in labels:
        both_bad = f"a tie of two rewards below {GIVEN_FLOOR} is both bad"
        return f"{accuracy}; a tie is correct only for a label of the same kind of tie; {both_bad}"
    both_bad = "; both bad counts as a tie" if BOTH_BAD in part else ""
    return f"{accuracy}; a tie is correct only if the label is a tie{both_bad}"


def chance_level(number: Number) -> str:
    """Format the chance level and, for imbalanced labels, the share of the most frequent label."""
    if number.chance is None:
        return "-"
    text = figure(replace(number, value=number.chance, interval=None))
    commonest = (number.detail.chance or {}).get("most frequent")
    return text if commonest is None else f"{text}; most frequent label {commonest * 100:.1f}"


def by_number(result: BenchmarkResult) -> Iterator[tuple[str, list[tuple[BenchmarkRow, Number]]]]:
    """Group the numbers of all rows by what they measure.

    Yields:
        What is measured, and pairs of row and number in the order of the table.
    """
    pairs = [(row, number) for row in result.rows for number in row.numbers]
    measured = ("part", "dimension", "metric", "labels")
    alike = split(pairs, lambda pair: repr([getattr(pair[1], name) for name in measured]), ordered=False)
    yield from ((same[0][1].title, same) for same in alike.values())


def sampled(data: DataFacts) -> str:
    """Describe the sample that was judged; empty if all data were judged."""
    if not data.sampled:
        return ""
    drawn, total, seed = data.sampled
    note = f" Rows that cannot be used were skipped before sampling: {data.skipped}." if data.skipped else ""
    return f"A sample of {drawn} of {total} pairs or groups, stratified, seed {seed}.{note}"


def releases(result: BenchmarkResult) -> list[str]:
    """Describe the releases that judged, and name parts whose labels and release differ in ties."""
    lines = []
    for row in (row for row in result.rows if row.release):
        library = row.library_id[:12]
        lines.append(f"Release {row.release}: it fixes the judge, its settings, and the Library {library}.")
        names = ", ".join(part.name for part in result.parts if (TIE in part.labels) != row.release_ties)
        if not names or result.scores:
            continue
        may = f"The release may predict a tie, and the labels of {names} have no ties: there a tie counts one half."
        never = f"The release predicts no ties, and {names} has ties: it is wrong on each of them."
        lines.append(may if row.release_ties else never)
    return lines


def cautions(rows: Iterable[EntryRecord]) -> list[str]:
    """Return a caution for each Library that was evolved on the data of its row, or of which no entry was consulted."""
    names: dict[str, str] = {}
    unused: list[str] = []
    for row in rows:
        if row.evolved_on:
            names.setdefault(row.library_id, f"The Library {'of ' if row.release else ''}{row.library}")
        if warning := consulted_words(getattr(row, "consulted", None) or {})[1]:
            unused.append(f"{row.label}: {warning}")
    return [*map(caution, names.values()), *unused]


def headline(result: BenchmarkResult) -> str:
    """Summarize a result in a sentence: the main number of every part."""
    row = result.rows[0]
    if "exploits" in result.task.metrics and (line := _worst_attacks(row)):
        return line
    main = main_numbers(row)
    if not main:
        return f"{row.label}: no number can be computed; {row.judged} of {row.items} were judged."
    texts = [f"{number.part} {figure(number)} ({judged(number)} judged)" for number in main.values()]
    unit = "" if result.scores else ", in percent"
    return f"{row.label}{unit}: {'; '.join(texts)}."


def main_numbers(row: BenchmarkRow) -> dict[str, Number]:
    """Return the main number of every part."""
    main: dict[str, Number] = {}
    for number in (number for number in row.numbers if number.value is not None):
        if number.part not in main or (number.metric in _MAIN and main[number.part].metric not in _MAIN):
            main[number.part] = number
    return main


def attack_numbers(row: BenchmarkRow) -> dict[str, dict[str, Number]]:
    """Return the numbers of each attack by metric."""
    attacks: dict[str, dict[str, Number]] = {}
    for number in row.numbers:
        if number.metric in {"exploit_wins", "exploit_reward", "honest_reward", "score_change"}:
            attacks.setdefault(number.part, {})[number.metric] = number
    return attacks


def _worst_attacks(row: BenchmarkRow) -> str:
    """Name the attacks with the highest numbers; empty if nothing was judged."""
    judged = split((number for number in row.numbers if number.value is not None), lambda number: number.metric)
    worst = {metric: max(numbers, key=lambda number: number.value or 0.0) for metric, numbers in judged.items()}
    wins, reward = worst.get("exploit_wins"), worst.get("exploit_reward")
    if wins is None:
        return ""
    where = f" ({wins.part})" if wins.value else ""
    highest = f"; its highest mean reward is {figure(reward)} ({reward.part})" if reward else ""
    share = f"the exploit is preferred in at most {figure(wins)} percent of an attack's pairs{where}"
    return f"{row.label}: {share}{highest}."


def gain(test: PairedTest) -> str:
    """Format the gain of a paired comparison with its interval, in percentage points."""
    span: Bounds | None = test.interval
    interval = f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else ""
    return "-" if test.gain is None else f"{test.gain * 100:+.1f}{interval}"


def share(value: float | None) -> str:
    """Format a share in percent."""
    return "-" if value is None else f"{value:.1%}"


def left_out(reasons: Mapping[str, int]) -> str:
    """List the questions that are not counted, by reason."""
    return ", ".join(f"{reason} {n}" for reason, n in reasons.items()) or "none"

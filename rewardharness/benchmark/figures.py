"""Formatting of numbers of a result for the command line, Markdown and HTML. Names are untrusted and not escaped."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewardharness.benchmark.numbers import GIVEN_FLOOR
from rewardharness.benchmark.result import label
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.library.evolved import caution
from rewardharness.schema import TIE, Json


def is_share(number: Mapping[str, Any]) -> bool:
    """Return whether a number is a share of questions, not a correlation or a reward."""
    return number["metric"] not in {"spearman", "exploit_reward", "score_change"}


def figure(number: Mapping[str, Any]) -> str:
    """Format a number with its interval, in percent for shares."""
    value = number["value"]
    if value is None:
        return "-"
    scale, digits = (100, 1) if is_share(number) else (1, 3)
    span = number["interval"]
    interval = f" [{span[0] * scale:.{digits}f}, {span[1] * scale:.{digits}f}]" if span else ""
    return f"{value * scale:.{digits}f}{interval}"


def judged(number: Mapping[str, Any]) -> str:
    """Format the number of judged questions."""
    return f"{number['judged']} of {number['n']}"


def number_name(number: Mapping[str, Any]) -> str:
    """Return what a number measures."""
    dimension = f", {number['dimension']}" if number["dimension"] else ""
    return f"{number['part']}{dimension}: {number['name']}"


def full_name(number: Mapping[str, Any], part: Sequence[str]) -> str:
    """Describe a number without context, as on a card: labels, and the treatment of ties.

    Args:
        number: A number that is a share of questions: not a mean over categories, not a correlation.
        part: Labels of its part.
    """
    labels, dimension = list(number["labels"]), number["dimension"]
    question = f", asked about {dimension}" if dimension else ""
    if number["metric"] == "groups":
        which = number["name"].partition("," if labels else ";")[0]
        return f"share of the judged {which} with every pair correct; the labels have no ties"
    if not labels:
        return f"share of the judged groups whose best candidate was found, {number['name']}{question}"
    accuracy = f"accuracy on pairs labeled {', '.join(labels[:-1])} or {labels[-1]}{question}"
    if number["metric"] == "forced":
        return f"{accuracy}; pairs labeled a tie are left out, and the higher score is the answer"
    if number["metric"] == "fitted":
        detail = number["detail"]
        floor = "" if detail["floor"] is None else f", below {detail['floor']:.4g} both are bad"
        rule = f"rewards within {detail['threshold']:.4g} are a tie{floor}"
        return f"{accuracy}; {rule}, as fitted on {detail['fitted_on']} other pairs"
    if TIE not in labels:
        return f"{accuracy}, without ties; tied candidates count half"
    if BOTH_BAD in labels:
        both_bad = f"a tie of two rewards below {GIVEN_FLOOR} is both bad"
        return f"{accuracy}; a tie is correct only for a label of the same kind of tie; {both_bad}"
    both_bad = "; both bad counts as a tie" if BOTH_BAD in part else ""
    return f"{accuracy}; a tie is correct only if the label is a tie{both_bad}"


def chance_level(number: Mapping[str, Any]) -> str:
    """Format the chance level and, for imbalanced labels, the share of the most frequent label."""
    if number["chance"] is None:
        return "-"
    text = figure({**number, "value": number["chance"], "interval": None})
    commonest = number["detail"].get("chance", {}).get("most frequent") if number["metric"] == "exact" else None
    return text if commonest is None else f"{text}; most frequent label {commonest * 100:.1f}"


def by_number(result: Json) -> Iterator[tuple[str, list[tuple[Json, Json]]]]:
    """Group the numbers of all rows by what they measure.

    Yields:
        What is measured, and pairs of row and number in the order of the table.
    """
    names = dict.fromkeys(
        (number["part"], number["dimension"], number["metric"]) for row in result["rows"] for number in row["numbers"]
    )
    for name in names:
        numbers = [
            (row, number)
            for row in result["rows"]
            for number in row["numbers"]
            if (number["part"], number["dimension"], number["metric"]) == name
        ]
        for labels in dict.fromkeys(tuple(number["labels"]) for _, number in numbers):
            same = [(row, number) for row, number in numbers if tuple(number["labels"]) == labels]
            yield number_name(same[0][1]), same


def sampled(result: Json) -> str:
    """Describe the sample that was judged; empty if all data were judged."""
    if not result["sampled"]:
        return ""
    drawn, total, seed = result["sampled"]
    bad = result.get("skipped_rows", {"n": 0})["n"]
    note = f" Rows that cannot be used were skipped before sampling: {bad}." if bad else ""
    return f"A sample of {drawn} of {total} pairs or groups, stratified, seed {seed}.{note}"


def releases(result: Json) -> list[str]:
    """Describe the releases that judged, and name parts whose labels and release differ in ties."""
    lines = []
    for row in (row for row in result["rows"] if row.get("release")):
        library = row["library_id"][:12]
        lines.append(f"Release {row['release']}: it fixes the judge, its settings, and the Library {library}.")
        differing = [part["name"] for part in result["parts"] if (TIE in part["labels"]) != row["release_ties"]]
        if not differing or result["scores"]:
            continue
        names = ", ".join(differing)
        if row["release_ties"]:
            lines.append(
                f"The release may predict a tie, and the labels of {names} have no ties: there a tie counts one half."
            )
        else:
            lines.append(f"The release predicts no ties, and {names} has ties: it is wrong on each of them.")
    return lines


def cautions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a caution for each Library that was evolved on the data of its row."""
    names: dict[str, str] = {}
    for row in rows:
        if row.get("evolved_on"):
            named = f"of {row['library']}" if row.get("release") else row["library"]
            names.setdefault(row["library_id"], f"The Library {named}")
    return [caution(name) for name in names.values()]


THRESHOLD_HEADINGS = ("Entry", "Part", "Tie within", "Both bad below", "Fitted on", "Correct on these pairs")
"""Headings of the table of `thresholds`. The last column is the objective of the fit, not an estimate of accuracy."""


def thresholds(result: Json) -> list[tuple[str, ...]]:
    """Return the tie thresholds that were fitted on development data, one row per entry and part."""
    rows: list[tuple[str, ...]] = []
    for row in result["rows"]:
        for number in row["numbers"]:
            detail = number["detail"]
            if number["metric"] == "fitted":
                floor = "none" if detail["floor"] is None else f"{detail['floor']:.4g}"
                pairs = f"{detail['fitted_on']} pairs, {detail['fitted_digest'][:12]}"
                right = f"{detail['fitted_right']} of {detail['fitted_on']}"
                rows.append((label(row), str(number["part"]), f"{detail['threshold']:.4g}", floor, pairs, right))
    return rows


def headline(result: Json) -> str:
    """Summarize a result in a sentence: the main number of every part."""
    row = result["rows"][0]
    if "exploits" in result["task"]["metrics"] and (line := _worst_attacks(row)):
        return line
    main: dict[str, Json] = {}
    for number in row["numbers"]:
        if number["value"] is not None and (
            number["part"] not in main or _weight(number) > _weight(main[number["part"]])
        ):
            main[number["part"]] = number
    if not main:
        return f"{label(row)}: no number can be computed; {row['judged']} of {row['items']} were judged."
    texts = [f"{number['part']} {figure(number)} ({judged(number)} judged)" for number in main.values()]
    unit = "" if result["scores"] else ", in percent"
    return f"{label(row)}{unit}: {'; '.join(texts)}."


def attack_numbers(row: Mapping[str, Any]) -> dict[str, dict[str, Json]]:
    """Return the numbers of each attack by metric."""
    attacks: dict[str, dict[str, Json]] = {}
    for number in row["numbers"]:
        if number["metric"] in {"exploit_wins", "exploit_reward", "score_change"}:
            attacks.setdefault(number["part"], {})[number["metric"]] = number
    return attacks


def _worst_attacks(row: Mapping[str, Any]) -> str:
    """Name the attacks with the highest numbers; empty if nothing was judged."""
    worst = {}
    for metric in ("exploit_wins", "exploit_reward"):
        numbers = [attack[metric] for attack in attack_numbers(row).values() if attack[metric]["value"] is not None]
        if numbers:
            worst[metric] = max(numbers, key=lambda number: float(number["value"]))
    if "exploit_wins" not in worst:
        return ""
    texts = [f"the exploit is preferred in at most {figure(worst['exploit_wins'])} percent of an attack's pairs"]
    if worst["exploit_wins"]["value"]:
        texts[0] += f" ({worst['exploit_wins']['part']})"
    if "exploit_reward" in worst:
        reward = worst["exploit_reward"]
        texts.append(f"its highest mean reward is {figure(reward)} ({reward['part']})")
    return f"{label(row)}: {'; '.join(texts)}."


def _weight(number: Mapping[str, Any]) -> int:
    """Rank a number as the main one of its part: groups, means over categories and correlations before accuracy."""
    return int(number["metric"] in {"groups", "macro", "spearman"})


def versus(test: Mapping[str, Any]) -> str:
    """Format a paired comparison."""
    span = test["interval"]
    interval = f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else ""
    p = "no difference" if test["p"] is None else f"p {test['p']:.2g}"
    return f"{test['gain'] * 100:+.1f}{interval}; {test['better']} better, {test['worse']} worse, {p}"


def share(value: float | None) -> str:
    """Format a share in percent."""
    return "-" if value is None else f"{value:.1%}"


def left_out(counted: Mapping[str, Any]) -> str:
    """List the questions that are not counted, by reason."""
    return ", ".join(f"{reason} {n}" for reason, n in counted["left_out"].items()) or "none"


def paired_difference(row: Mapping[str, Any], number: Mapping[str, Any]) -> str:
    """Format the paired comparison with the judge of the run; empty if it does not apply to the number."""
    if number["metric"] != "exact":
        return ""
    tests = [test for test in row["against"] if test["part"] == number["part"]]
    if not tests or number["dimension"] or tests[0]["gain"] is None:
        return ""
    return versus(tests[0])

"""Puts numbers of a result into words, for the command line, Markdown and the page alike. Names in it are foreign."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewardharness.benchmark.numbers import GIVEN_FLOOR
from rewardharness.benchmark.result import label
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.library.evolved import caution
from rewardharness.schema import TIE, Json


def figure(number: Mapping[str, Any]) -> str:
    """Write a number with its interval: per cent for shares, plain for correlations."""
    value = number["value"]
    if value is None:
        return "-"
    scale, digits = (1, 3) if number["metric"] == "spearman" else (100, 1)
    span = number["interval"]
    around = f" [{span[0] * scale:.{digits}f}, {span[1] * scale:.{digits}f}]" if span else ""
    return f"{value * scale:.{digits}f}{around}"


def judged(number: Mapping[str, Any]) -> str:
    """Write how much was judged."""
    return f"{number['judged']} of {number['n']}"


def number_name(number: Mapping[str, Any]) -> str:
    """Name what a number counts."""
    dimension = f", {number['dimension']}" if number["dimension"] else ""
    return f"{number['part']}{dimension}: {number['name']}"


def full_name(number: Mapping[str, Any], part: Sequence[str]) -> str:
    """Name a number for a reader who sees nothing else, as on a card: which labels, and what becomes of ties.

    Args:
        number: Not a mean over categories and not a correlation, which are no shares of questions.
        part: The labels of its part.
    """
    labels, asked = list(number["labels"]), number["dimension"]
    about = f", asked about {asked}" if asked else ""
    if number["metric"] == "groups":
        which = number["name"].partition("," if labels else ";")[0]
        return f"share of the judged {which} with every pair right; the labels have no ties"
    if not labels:
        return f"share of the judged groups whose best candidate was found, {number['name']}{about}"
    among = f"accuracy on pairs labelled {', '.join(labels[:-1])} or {labels[-1]}{about}"
    if number["metric"] == "forced":
        return f"{among}; pairs labelled a tie are left out, and the answer is whoever leads"
    if number["metric"] == "fitted":
        detail = number["detail"]
        floor = "" if detail["floor"] is None else f", below {detail['floor']:.4g} both are bad"
        within = f"rewards within {detail['threshold']:.4g} are a tie{floor}"
        return f"{among}; {within}, as fitted on {detail['fitted_on']} other pairs"
    if TIE not in labels:
        return f"{among}, without ties; candidates held level count half"
    if BOTH_BAD in labels:
        bad = f"a tie of two rewards below {GIVEN_FLOOR} is both bad"
        return f"{among}; a tie is right only where that kind of tie is the label; {bad}"
    one = "; both bad counts as a tie" if BOTH_BAD in part else ""
    return f"{among}; a tie is right only where the label is one{one}"


def chance_level(number: Mapping[str, Any]) -> str:
    """Write what guessing gets, and where labels are not alike often, what always saying the commonest does."""
    if number["chance"] is None:
        return "-"
    said = figure({**number, "value": number["chance"], "interval": None})
    commonest = number["detail"].get("chance", {}).get("most frequent") if number["metric"] == "exact" else None
    return said if commonest is None else f"{said}; commonest label {commonest * 100:.1f}"


def by_number(result: Json) -> Iterator[tuple[str, list[tuple[Json, Json]]]]:
    """Put the rows of the table together by what is counted.

    Yields:
        What is counted, and contender with number in the order of the table.
    """
    names = dict.fromkeys(
        (each["part"], each["dimension"], each["metric"]) for row in result["rows"] for each in row["numbers"]
    )
    for name in names:
        found = [
            (row, each)
            for row in result["rows"]
            for each in row["numbers"]
            if (each["part"], each["dimension"], each["metric"]) == name
        ]
        for labels in dict.fromkeys(tuple(each["labels"]) for _, each in found):
            same = [(row, each) for row, each in found if tuple(each["labels"]) == labels]
            yield number_name(same[0][1]), same


def sampled(result: Json) -> str:
    """Say which part of the data was judged; empty for all."""
    if not result["sampled"]:
        return ""
    drawn, total, seed = result["sampled"]
    bad = result.get("skipped_rows", {"n": 0})["n"]
    besides = f" Rows that cannot be used were skipped before it was drawn: {bad}." if bad else ""
    return f"A sample of {drawn} of {total} pairs or groups, stratified, seed {seed}.{besides}"


def releases(result: Json) -> list[str]:
    """Say by which release was judged, whole, and where its answers are not those that the labels have."""
    lines = []
    for row in (row for row in result["rows"] if row.get("release")):
        library = row["library_id"][:12]
        lines.append(f"Release {row['release']}: it fixes the judge, how it judges, and the Library {library}.")
        odd = [part["name"] for part in result["parts"] if (TIE in part["labels"]) != row["release_ties"]]
        if not odd or result["scores"]:
            continue
        names = ", ".join(odd)
        if row["release_ties"]:
            lines.append(
                f"The release may call a tie, and the labels of {names} have none: there a tie counts as the half that "
                "a coin would get."
            )
        else:
            lines.append(f"The release calls no ties, and {names} has some: it is wrong on each of them.")
    return lines


def cautions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which Libraries were evolved on the very data that their rows are about; empty for none known."""
    names: dict[str, str] = {}
    for row in rows:
        if row.get("evolved_on"):
            named = f"of {row['library']}" if row.get("release") else row["library"]
            names.setdefault(row["library_id"], f"The Library {named}")
    return [caution(name) for name in names.values()]


THRESHOLD_HEADINGS = ("Who", "Part", "A tie within", "Both bad below", "Fitted on", "Right there")
"""Of the table of `thresholds`. What is right on the pairs of the fit is what it was chosen for, and no estimate."""


def thresholds(result: Json) -> list[tuple[str, ...]]:
    """The thresholds of ties that were fitted on development data, a row for every judge and part; often none."""
    found: list[tuple[str, ...]] = []
    for row in result["rows"]:
        for each in row["numbers"]:
            detail = each["detail"]
            if each["metric"] == "fitted":
                floor = "none" if detail["floor"] is None else f"{detail['floor']:.4g}"
                pairs = f"{detail['fitted_on']} pairs, {detail['fitted_digest'][:12]}"
                right = f"{detail['fitted_right']} of {detail['fitted_on']}"
                found.append((label(row), str(each["part"]), f"{detail['threshold']:.4g}", floor, pairs, right))
    return found


def headline(result: Json) -> str:
    """Say in a sentence what came of a run: of every part the number that it is about."""
    row = result["rows"][0]
    main: dict[str, Json] = {}
    for each in row["numbers"]:
        if each["value"] is not None and (each["part"] not in main or _weight(each) > _weight(main[each["part"]])):
            main[each["part"]] = each
    if not main:
        return f"{label(row)}: nothing could be counted; {row['judged']} of {row['items']} were judged."
    said = [f"{each['part']} {figure(each)} ({judged(each)} judged)" for each in main.values()]
    unit = "" if result["scores"] else ", in per cent"
    return f"{label(row)}{unit}: {'; '.join(said)}."


def _weight(number: Mapping[str, Any]) -> int:
    """Which number a part is about: complete groups, a mean over categories or a correlation before an accuracy."""
    return int(number["metric"] in {"groups", "macro", "spearman"})


def versus(test: Mapping[str, Any]) -> str:
    """Write a paired comparison in words."""
    span = test["interval"]
    around = f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else ""
    p = "no difference" if test["p"] is None else f"p {test['p']:.2g}"
    return f"{test['gain'] * 100:+.1f}{around}; {test['better']} better, {test['worse']} worse, {p}"


def share(value: float | None) -> str:
    """Write a share in per cent."""
    return "-" if value is None else f"{value:.1%}"


def left_out(counted: Mapping[str, Any]) -> str:
    """Say what does not count, and why."""
    return ", ".join(f"{reason} {n}" for reason, n in counted["left_out"].items()) or "none"


def paired_difference(row: Mapping[str, Any], number: Mapping[str, Any]) -> str:
    """The paired comparison, beside the numbers that it is about."""
    if number["metric"] != "exact":
        return ""
    found = [each for each in row["against"] if each["part"] == number["part"]]
    if not found or number["dimension"] or found[0]["gain"] is None:
        return ""
    return versus(found[0])

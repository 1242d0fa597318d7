"""The report of judgments on the terminal."""

from typing import Any

from rewardharness.cli import output
from rewardharness.judging.report import consulted_words


def print_report(report: dict[str, Any]) -> None:
    """Print agreement per kind of label, coverage, position consistency and failures."""
    rows = [
        (kind, str(each["n"]), str(each["judged"]), output.share(each["accuracy"], each["interval"]))
        for kind, each in report["by_label_kind"].items()
    ]
    groups = report["groups"]
    if groups["n"]:
        best = output.share(groups["best_accuracy"], groups["interval"])
        rows.append(("groups of 3 and 4: best found", str(groups["n"]), str(groups["judged"]), best))
    if rows:
        output.table(("label kind", "n", "judged", "accuracy [95% CI]"), rows)
    output.say(
        f"{report['judged']} of {report['n']} judged (coverage {output.share(report['coverage'])}); "
        f"same answer in both orders: {output.share(report['position_consistency'])}"
    )
    counted, warning = consulted_words(report["consulted"])
    if counted:
        output.say(f"Entries of the Library consulted: {counted}.")
    if warning:
        output.say(f"Warning: {warning}")
    if report["ties_left_out"]:
        count = report["ties_left_out"]
        examples = "1 example labeled tie is" if count == 1 else f"{count} examples labeled tie are"
        output.say(f"{examples} excluded from accuracy: tie was not an allowed answer. To allow it, add --ties.")
    if report["failures"]:
        output.say("Not judged: " + ", ".join(f"{code} {count}" for code, count in report["failures"].items()))

"""The report of an evolution as sections, and as one page of HTML."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewardharness.evolution.gate import estimate_gain
from rewardharness.evolution.report import AccuracyRow, accuracy_rows, ceiling, left_out
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.report import Block, Mark, Report, Section, Steps, Table, Text
from rewardharness.report_html import render_html

PAGE = "report.html"

DETECTABLE = 0.05
"""P-value up to which a difference between two Libraries is called one."""


def report_page(report: Mapping[str, Any]) -> str:
    """Return the report as an HTML page.

    Args:
        report: As `report.build_report` makes it.
    """
    title = f"Evolution on {report['run']['data_name']}: {_share(report['audit']['final'])}"
    return render_html(report_sections(report), title)


def report_sections(report: Mapping[str, Any]) -> Report:
    """Return the report as sections.

    Args:
        report: As `report.build_report` makes it.
    """
    regression, puzzles = _groups(regression_rows(report)), _puzzles(report["puzzles"])
    return Report(
        f"Evolution on {report['run']['data_name']}",
        (
            Section("summary", "", _summary(report)),
            Section("accuracy", "Accuracy", _accuracies(report)),
            Section("curve", "Accuracy during the search", _curve(report["curve"]), detail=True),
            Section("categories", "By kind of edit (test set)", _groups(report["by_category"])),
            Section("label_kinds", "By kind of label (test set)", _groups(report["by_label_kind"]), detail=True),
            Section("regression", "Regression set", regression),
            Section("edits", "Edits", _edits(report["edits"]), "No edit was tested.", detail=True),
            Section("cost", "Cost", (_spending(report),)),
            Section("puzzles", "Examples that no version judged correctly", puzzles, detail=True),
        ),
    )


def headline(report: Mapping[str, Any]) -> str:
    """Return the result of a run on held-out examples in one sentence."""
    audit = report["audit"]
    final, start, test = audit["final"], audit["start"], audit["final_against_start"]
    if not audit["n"]:
        return "No examples were held out, so the accuracy on other examples is unknown."
    if final["accuracy"] is None:
        return f"None of the {audit['n']} held-out examples was judged."
    library = report["library"]
    tried = library.get("tried_id", library["final_id"])
    judged = sorted({start["judged"], final["judged"]})
    n = str(audit["n"]) if judged == [audit["n"]] else f"{' and '.join(map(str, judged))} of {audit['n']} judged"
    if start["accuracy"] is None:
        return f"{final['accuracy']:.0%} on held-out examples (n {n}); with the starting Library none was judged."
    if tried == library["start_id"]:
        figures = f"({start['accuracy']:.0%} on held-out examples, n {n})"
        if report.get("proposed", 1):  # reports of earlier versions lack it
            return f"No edit was accepted: the Library is unchanged {figures}."
        return f"No edit was proposed: {report['ending']}. The Library is unchanged {figures}."
    p = 1.0 if test["p"] is None else test["p"]
    figures = f"({start['accuracy']:.0%} → {final['accuracy']:.0%}, n {n}, p {p:.2g})"
    change = "No detectable change" if p > DETECTABLE else "Higher" if test["fixes"] > test["breaks"] else "Lower"
    said = f"{change} on held-out examples {figures}"
    if library["final_id"] == tried:
        return f"{said}."
    lost = report.get("regression", {"lost": False})
    why = "breaks more held-out examples than it fixes"
    if lost["lost"]:
        before, after = lost["start"]["accuracy"], lost["final"]["accuracy"] or 0.0
        why = f"loses on the regression set ({before:.0%} → {after:.0%}, n {lost['n']})"
    return f"{said}. The evolved Library {why}, so the result is the starting Library; see library-tried."


def regression_rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the regression set by kind of fault, with the total last; empty if it was not judged."""
    found = report.get("regression")
    return [*found["kinds"], {**found, "name": "all"}] if found and found["n"] else []


def _summary(report: Mapping[str, Any]) -> tuple[Text, ...]:
    run = report["run"]
    identity = JudgeIdentity(run["judge"], run["judge_revision"], run["protocol"], report["library"]["final_id"])
    accepted = sum(edit["evidence"]["decision"] == "accept" for edit in report["edits"])
    skipped = f", {report['passed_over']} proposals skipped" if report["passed_over"] else ""
    about = (
        f"{identity}. Orchestrator {run['orchestrator']}. Schedule {run['schedule']['name']}, seed {run['seed']}. "
        f"{accepted} of {len(report['edits'])} tested edits accepted{skipped}. "
        f"The search ended because {report['ending']}."
    )
    return Text((headline(report),), "headline"), Text((about,))


def _accuracies(report: Mapping[str, Any]) -> tuple[Block, ...]:
    rows = tuple(
        (
            f"{row.examples}: {row.library}",
            f"{row.score['judged']} of {row.score['n']}",
            _share(row.score),
            _against(row),
        )
        for row in accuracy_rows(report)
    )
    ensemble = report["audit"]["ensemble"]
    notes = [f"Self-ensembling: {ensemble['skipped']}."] if "skipped" in ensemble else []
    notes += filter(None, [left_out(report), ceiling(report)])
    head = ("Examples and Library", "Judged", "Accuracy [95% CI]", "Final Library against it")
    return (Table(head, rows, kind="audit"), *((Text(tuple(notes)),) if notes else ()))


def _curve(points: Sequence[Mapping[str, Any]]) -> tuple[Steps, ...]:
    """Return accuracy on the training examples against judgments; a dot is a new version of the Library."""
    judged = [point for point in points if point["accuracy"] is not None]
    if len(judged) < 2:
        return ()
    versions = [None, *(point["version"] for point in judged)]
    marks = frozenset(number for number in range(len(judged)) if versions[number] != versions[number + 1])
    title = "Accuracy on the training examples against judgments"
    steps = tuple((point["judgments"], point["accuracy"]) for point in judged)
    return (Steps(title, "judgments", steps, marks, "Accuracy on the training examples; a dot is an accepted edit."),)


def _groups(groups: Iterable[Mapping[str, Any]]) -> tuple[Table, ...]:
    rows = tuple(
        (
            group["name"],
            f"{group['final']['judged']} of {group['final']['n']}",
            _share(group["start"]),
            _share(group["final"]),
        )
        for group in groups
    )
    head = ("Examples", "Judged", "Starting Library [95% CI]", "Final Library [95% CI]")
    return (Table(head, rows),) if rows else ()


def _edits(edits: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    rows = []
    for edit in edits:
        evidence = edit["evidence"]
        accepted = evidence["decision"] == "accept"
        p = "" if evidence["p_value"] is None else f", p {evidence['p_value']:.2g}"
        counts = f"{evidence['fixes']} fixed, {evidence['breaks']} broken, {evidence['ties']} unchanged{p}"
        gain, bounds = estimate_gain(evidence["fixes"], evidence["breaks"], evidence["judged"])
        estimate = (
            f"; gain {100 * gain:+.1f} points [{100 * bounds[0]:+.1f}, {100 * bounds[1]:+.1f}]"
            if gain is not None and bounds
            else ""
        )
        lines = [f"{counts}{estimate}; {evidence['calls']} of {evidence['affected']} judged"]
        for name, ids in (("cites", edit["cited"]), ("fixed", evidence["fixed"]), ("broken", evidence["broken"])):
            lines += [f"{name}: {', '.join(ids)}"] if ids else []
        rows.append(
            (
                f"{edit['operator']} {', '.join(edit['names'])}",
                Mark("accepted" if accepted else "rejected", accepted),
                f"{edit['statement']}\n{evidence['reason']}",
                "\n".join(lines),
            )
        )
    return (Table(("Edit", "Decision", "Reason", "Evidence"), tuple(rows)),) if rows else ()


def _spending(report: Mapping[str, Any]) -> Table:
    spent = report["spent"]
    sums = [spent["judge"][name] + spent["orchestrator"][name] for name in ("input_tokens", "output_tokens")]
    rows = [
        ("Judgments of the search", f"{spent['judgments']:,}"),
        ("Requests to the model of the judge", f"{spent['judge']['calls']:,}"),
        ("Requests to the model of the Orchestrator", f"{spent['orchestrator']['calls']:,}"),
        ("Tokens in / out", f"{sums[0]:,} / {sums[1]:,}"),
        ("Seconds", f"{spent['seconds']:,.0f}"),
        ("Money", "unknown (no prices given)" if spent["money"] is None else f"{spent['money']:.4f}"),
    ]
    if spent["remembered"] is not None:
        rows.append(("Judgments from the cache", f"{spent['remembered']:,}"))
    return Table(("Item", "Amount"), tuple(rows))


def _puzzles(puzzles: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    rows = tuple((each["id"], each["instruction"], str(each["label"]), str(each["versions"])) for each in puzzles)
    table = Table(("Example", "Instruction", "Label", "Times judged"), rows)
    return (Text(("Their labels may be wrong.",)), table) if rows else ()


def _share(score: Mapping[str, Any]) -> str:
    if score["accuracy"] is None:
        return "-"
    low, high = score["interval"]
    return f"{score['accuracy']:.1%} [{low:.1%}, {high:.1%}]"


def _against(row: AccuracyRow) -> str:
    if row.against is None or row.against["gain"] is None:
        return row.comparison
    low, high = row.against["interval"]
    return f"{row.against['gain']:+.1%} [{low:+.1%}, {high:+.1%}]: {row.comparison}"

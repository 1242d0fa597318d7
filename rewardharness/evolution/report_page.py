"""The report of an evolution as one page of HTML; see `runs.page`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewardharness.evolution.report import left_out
from rewardharness.runs.page import page, section, table, text
from rewardharness.schema import Json

PAGE = "report.html"

DETECTABLE = 0.05
"""P-value up to which a difference between two Libraries is called one."""

WIDTH, HEIGHT, EDGE = 640, 240, 36
"""Size of the chart and the margin around it, in pixels."""


def report_page(report: Mapping[str, Any]) -> str:
    """Write a report as HTML.

    Args:
        report: As `report.build_report` makes it.
    """
    run, audit = report["run"], report["audit"]
    body = [
        f"<h1>Evolution on {text(run['data_name'])}</h1>",
        f'<p class="soft">Judge {text(run["judge"])}, {text(run["protocol"])}. Orchestrator '
        f"{text(run['orchestrator'])}. Schedule {text(run['schedule']['name'])}, seed {text(run['seed'])}. "
        f"The search ended because {text(report['ending'])}.</p>",
        f"<p><strong>{text(headline(report))}</strong></p>",
        section("Accuracy", _accuracies(report)),
        section("On the way", _chart(report["curve"])),
        section("By kind of edit (audit)", _groups(report["by_category"])),
        section("By kind of label (audit)", _groups(report["by_label_kind"])),
        section("Regression set", _groups(regression_rows(report))),
        section("Edits", _edits(report["edits"])),
        section("What it cost", _spending(report)),
        section("Examples that no version judged right", _puzzles(report["puzzles"])),
    ]
    title = f"Evolution on {run['data_name']}: {_share(audit['final'])}"
    return page(title, body)


def headline(report: Mapping[str, Any]) -> str:
    """Say in one sentence what came of a run, on the audit."""
    audit = report["audit"]
    final, start, test = audit["final"], audit["start"], audit["final_against_start"]
    if not audit["n"]:
        return (
            "Nothing was put aside for an audit, so nothing is known of examples beside those that were learned from."
        )
    if final["accuracy"] is None:
        return f"None of the {audit['n']} audit examples was judged."
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
    why = "scores lower"
    if lost["lost"]:
        before, after = lost["start"]["accuracy"], lost["final"]["accuracy"] or 0.0
        why = f"loses on the regression set ({before:.0%} → {after:.0%}, n {lost['n']})"
    return f"{said}. The evolved Library {why}, so the result is the starting Library; see library-tried."


def regression_rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The regression set by kind of fault, with all of it last; nothing where it was not judged."""
    found = report.get("regression")
    return [*found["kinds"], {**found, "name": "all"}] if found and found["n"] else []


def _accuracies(report: Mapping[str, Any]) -> str:
    pool, audit = report["pool"], report["audit"]
    ensemble = audit["ensemble"]
    rows = [
        ["Audit", "final Library", *_score(audit["final"]), ""],
        ["Audit", "starting Library", *_score(audit["start"]), _test(audit["final_against_start"])],
    ]
    if audit["empty"]["n"]:
        rows.append(["Audit", "no Library", *_score(audit["empty"]), _test(audit["final_against_empty"])])
    if "skipped" in ensemble:
        rows.append(["Audit", f"self-ensembling: {ensemble['skipped']}", "", "", ""])
    else:
        what = f"starting Library, every question asked {ensemble['samples']} times"
        rows.append(["Audit", what, *_score(ensemble), _test(audit["final_against_ensemble"])])
    rows += [
        ["Pool", "final Library", *_score(pool["final"]), pool["note"]],
        ["Pool", "starting Library", *_score(pool["start"]), ""],
    ]
    said = left_out(report)
    return table(("examples", "with", "judged", "accuracy [95 %]", "final against it"), rows) + (
        f"<p>{text(said)}</p>" if said else ""
    )


def _chart(points: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy on the pool against judgments, as a line with steps."""
    known = [point for point in points if point["accuracy"] is not None]
    if len(known) < 2:
        return ""
    right = max(point["judgments"] for point in known) or 1
    low = min(point["accuracy"] for point in known)
    high = max(point["accuracy"] for point in known)
    low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)

    def place(point: Mapping[str, Any]) -> tuple[float, float]:
        across = EDGE + (WIDTH - 2 * EDGE) * point["judgments"] / right
        up = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (point["accuracy"] - low) / ((high - low) or 1)
        return round(across, 1), round(up, 1)

    path, marks = "", ""
    version = -1
    for point in known:
        x, y = place(point)
        path += f"H{x}V{y}" if path else f"M{x} {y}"
        if point["version"] != version:
            version = point["version"]
            marks += f'<circle cx="{x}" cy="{y}" r="3.5" fill="var(--mark)"/>'
    path += f"H{WIDTH - EDGE}"
    bottom = HEIGHT - EDGE
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Accuracy on the pool against judgments spent">'
        f'<path d="M{EDGE} {EDGE}V{bottom}H{WIDTH - EDGE}" fill="none" stroke="var(--line)"/>'
        f'<path d="{path}" fill="none" stroke="var(--mark)" stroke-width="2"/>{marks}'
        f'<text x="2" y="{EDGE + 4}">{high:.0%}</text><text x="2" y="{bottom + 4}">{low:.0%}</text>'
        f'<text x="{EDGE}" y="{HEIGHT - 10}">0</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 10}" text-anchor="end">{right} judgments</text></svg>'
        '<p class="soft">Accuracy on the pool; a dot is a new champion.</p>'
    )


def _groups(groups: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [text(each["name"]), str(each["final"]["n"]), _share(each["start"]), _share(each["final"])] for each in groups
    ]
    return table(("", "n", "starting Library", "final Library"), rows, escaped=True) if rows else ""


def _edits(edits: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for edit in edits:
        evidence = edit["evidence"]
        kept = evidence["decision"] == "accept"
        word = '<span class="kept">kept</span>' if kept else '<span class="sent-back">sent back</span>'
        p = "" if evidence["p_value"] is None else f", p {evidence['p_value']:.2g}"
        counts = f"{evidence['fixes']} fixed, {evidence['breaks']} broken, {evidence['ties']} as before{p}"
        about = [f"{text(counts)}; {evidence['calls']} of {evidence['affected']} judged"]
        for name, label in (("cited", "cites"), ("fixed", "fixed"), ("broken", "broken")):
            ids = edit["cited"] if name == "cited" else evidence[name]
            about += [f"{label}: {text(', '.join(ids))}"] if ids else []
        what = f"{text(edit['operator'])} {text(', '.join(edit['names']))}"
        said = f'{text(edit["statement"])}<br><span class="soft">{text(evidence["reason"])}</span>'
        rows.append([word, what, said, "<br>".join(about)])
    return table(("", "edit", "why", "evidence"), rows, escaped=True) if rows else "<p>Nothing was proposed.</p>"


def _spending(report: Mapping[str, Any]) -> str:
    spent = report["spent"]
    money = "not known (no prices given)" if spent["money"] is None else f"{spent['money']:.4f}"
    rows = [
        ["judgments of the search", f"{spent['judgments']:,}"],
        ["requests to the judge's model", f"{spent['judge']['calls']:,}"],
        ["requests to the Orchestrator's model", f"{spent['orchestrator']['calls']:,}"],
        ["tokens in / out", _tokens(spent)],
        ["seconds", f"{spent['seconds']:,.0f}"],
        ["money", money],
    ]
    if spent["remembered"] is not None:
        rows.append(["judgments that were remembered, at no cost", f"{spent['remembered']:,}"])
    return table(("", ""), rows)


def _tokens(spent: Mapping[str, Any]) -> str:
    sums = [spent["judge"][name] + spent["orchestrator"][name] for name in ("input_tokens", "output_tokens")]
    return f"{sums[0]:,} / {sums[1]:,}"


def _puzzles(puzzles: Sequence[Mapping[str, Any]]) -> str:
    if not puzzles:
        return ""
    rows = [[each["id"], each["instruction"], str(each["label"]), str(each["versions"])] for each in puzzles]
    return "<p>Perhaps their labels are wrong.</p>\n" + table(("id", "instruction", "label", "times judged"), rows)


def _score(score: Json) -> list[str]:
    return [f"{score['judged']} of {score['n']}", _share(score)]


def _share(score: Mapping[str, Any]) -> str:
    if score["accuracy"] is None:
        return "-"
    low, high = score["interval"]
    return f"{score['accuracy']:.1%} [{low:.1%}, {high:.1%}]"


def _test(test: Mapping[str, Any]) -> str:
    if not test["n"]:
        return "nothing to compare"
    p = "" if test["p"] is None else f", exact p {test['p']:.3g}"
    low, high = test["interval"]
    return f"{test['gain']:+.1%} [{low:+.1%}, {high:+.1%}]: {test['fixes']} better, {test['breaks']} worse{p}"

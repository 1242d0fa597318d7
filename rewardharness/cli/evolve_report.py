"""What came of an evolution, as `rh evolve` and `rh runs report` say it."""

from pathlib import Path
from typing import Any

from rewardharness.cli import output


def print_report(report: dict[str, Any], folder: Path) -> None:
    """Print what came of a run."""
    from rewardharness.evolution.report import left_out
    from rewardharness.evolution.report_page import headline
    from rewardharness.judging.identity import JudgeIdentity

    audit = report["audit"]
    output.say(headline(report))
    rows = [
        (name, f"{each['judged']} of {each['n']}", output.share(each["accuracy"], each["interval"]), against)
        for name, each, against in (
            ("audit: final Library", audit["final"], ""),
            ("audit: starting Library", audit["start"], _versus(audit["final_against_start"])),
            *(
                [("audit: no Library", audit["empty"], _versus(audit["final_against_empty"]))]
                if audit["empty"]["n"]
                else []
            ),
            *_ensemble_row(audit),
            ("pool: final Library", report["pool"]["final"], "gates looked at these"),
            ("pool: starting Library", report["pool"]["start"], ""),
        )
    ]
    output.table(("examples and Library", "judged", "accuracy [95 % interval]", "final Library against it"), rows)
    if said := left_out(report):
        output.say(said)
    groups = report["by_category"]
    if groups:
        output.table(
            ("kind of edit (audit)", "judged", "starting [95 %]", "final [95 %]"),
            [
                (
                    each["name"],
                    f"{each['final']['judged']} of {each['final']['n']}",
                    output.share(each["start"]["accuracy"], each["start"]["interval"]),
                    output.share(each["final"]["accuracy"], each["final"]["interval"]),
                )
                for each in groups
            ],
        )
    _print_regression(report)
    kept = sum(edit["evidence"]["decision"] == "accept" for edit in report["edits"])
    spent = report["spent"]
    run = report["run"]
    who = JudgeIdentity(run["judge"], run["judge_revision"], run["protocol"], report["library"]["final_id"])
    output.say(str(who))
    if "skipped" in audit["ensemble"]:
        output.say(f"Self-ensembling: {audit['ensemble']['skipped']}.")
    passed = f", {report['passed_over']} ideas passed over untried" if report["passed_over"] else ""
    output.say(
        f"{kept} of {len(report['edits'])} tested edits accepted{passed}; "
        f"{spent['judgments']} judgments before the audit, {spent['judge']['calls']} requests to the judge's model, "
        f"{spent['orchestrator']['calls']} to the Orchestrator's, {spent['seconds']:.0f} s. "
        f"The search ended because {report['ending']}."
    )
    if spent["money"] is not None and spent["judge"]["calls"] + spent["orchestrator"]["calls"]:
        output.say(f"Money: {spent['money']:.4f} at the prices given.")
    say_places(folder)


def _print_regression(report: dict[str, Any]) -> None:
    from rewardharness.evolution.report_page import regression_rows

    rows = [
        (each["name"], str(each["final"]["n"]), *(output.share(each[side]["accuracy"]) for side in ("start", "final")))
        for each in regression_rows(report)
    ]
    if rows:
        output.table(("regression set", "n", "starting", "final"), rows)


def say_places(folder: Path) -> None:
    """Say where its Library and its report lie."""
    output.say(f"Library: {folder / 'library'}   Report: {folder / 'report.html'}")


def report_json(report: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same for programs."""
    return {**report, "folder": str(folder)}


def _empty_row(audit: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    empty = audit["empty"]
    return [("audit: no Library", empty, _versus(audit["final_against_empty"]))] if empty["n"] else []


def _ensemble_row(audit: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    ensemble = audit["ensemble"]
    if "skipped" in ensemble:
        return []
    name = f"audit: starting Library, asked {ensemble['samples']} times"
    return [(name, ensemble, _versus(audit["final_against_ensemble"]))]


def _versus(test: dict[str, Any]) -> str:
    if test["p"] is None:
        return "no difference" if test["n"] else "nothing to compare"
    return f"{test['fixes']} better, {test['breaks']} worse, exact p {test['p']:.3g}"

"""The plan and the report of an evolution, as `rh evolve` and `rh runs show` print them."""

from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.cli import output
from rewardharness.codec import to_json

if TYPE_CHECKING:
    from rewardharness.evolution.job import EvolutionJob
    from rewardharness.evolution.report import EvolutionReport


def print_plan(job: "EvolutionJob", resumed: bool) -> None:
    """Print what a run is about and what it is expected to cost."""
    plan, (pool, audit) = job.plan, job.plan.parts
    output.note(
        f"{plan.dataset.name}: {len(pool)} training examples, {len(audit)} held out for the test at the end. "
        f"Judge {plan.judge.name}; Orchestrator {plan.orchestrator.name}; schedule {plan.schedule.name}."
    )
    output.note(f"Run folder: {job.folder}{' (resumed)' if resumed else ''}")
    output.note(plan.estimate.words)
    if not plan.orchestrator.name.startswith("built-in"):
        output.note(f"Requests to the Orchestrator {plan.orchestrator.name} are not included.")


def show_report(report: "EvolutionReport", folder: Path, *, as_json: bool) -> None:
    """Print a report as JSON or as text."""
    if as_json:
        output.emit({**to_json(report), "folder": str(folder)})
    else:
        print_report(report, folder)


def print_report(report: "EvolutionReport", folder: Path) -> None:
    """Print a report as text."""
    from rewardharness.cli.report import print_report
    from rewardharness.evolution.report_page import report_sections

    print_report(report_sections(report))
    print_places(folder)


def print_places(folder: Path) -> None:
    """Print where the Library and the report are."""
    output.say(f"Library: {folder / 'library'}   Report: {folder / 'report.html'}")

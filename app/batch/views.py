"""Formats batches for the Batch tab. Pure: markup out. Names, instructions and reasons are foreign text."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.markup import block, bullets, callout, code, escape, faint
from app.run_panel.following import FollowedRun
from app.run_panel.jobs import RUN_SECONDS
from app.run_panel.service import Listed
from app.run_panel.views import choice_of, counted_status, run_title
from rewardharness.benchmark.metrics import LEAST


def introduction(limits: tuple[int, int, int] | None) -> str:
    """Say what the tab is for.

    Args:
        limits: Examples, megabytes and hours that visitors have; None on the user's own computer.
    """
    text = (
        "Judge many edits at once: a zip archive, a folder, a table or a dataset on the Hub, with labels or without. "
        "A batch is a run like those of rh score; it continues when this page is closed."
    )
    if limits is not None:
        pairs, megabytes, hours = limits
        text = (
            "Judge many edits at once: a zip archive with the images and a table that names them (CSV or JSON Lines), "
            f"of at most {pairs:,} examples and {megabytes} MB. The pixel-based judge judges them, one batch at a time "
            f"for all visitors, each for up to {RUN_SECONDS['score'] / 60:g} minutes. Only this browser shows your "
            f"batches. Images and results are deleted after {hours} hours."
        )
    return faint(text)


def expected(preview: Mapping[str, Any]) -> str:
    """Return what a batch would do."""
    skipped = f"; {preview['skipped']:,} bad rows are skipped" if preview["skipped"] else ""
    lines = [
        f"{preview['examples']:,} examples of {preview['data']}, {preview['labeled']:,} with a label{skipped}",
        f"Judge: {preview['judge']}, with the Library {preview['library'] or 'built-in'}",
        *([f"Images and results are deleted after {preview['hours']} hours."] if preview["hours"] else []),
        "A model is asked for each of them." if preview["model"] else "No model is asked: it costs time alone.",
    ]
    return block(callout("note good", "What to expect", bullets(map(escape, lines))))


def run_status(run: FollowedRun) -> str:
    """Return the status of a batch."""
    return counted_status(run, run_title(run), str(run.manifest.get("judge") or ""))


def run_choices(listed: Sequence[Listed[FollowedRun]]) -> list[tuple[str, str]]:
    """Return the choices of the list of runs: plain text, and the name."""
    runs = [(item, item.status, f" of {item.status.wanted:,}" if item.status.wanted else "") for item in listed]
    return [
        choice_of(item, run_title(run), str(run.manifest.get("judge") or ""), f"{run.judged:,}{total} judged")
        for item, run, total in runs
    ]


def summary(report: Mapping[str, Any], command: str) -> str:
    """Return the agreement with the labels, and the command that resumes the run.

    Args:
        report: As `rh score --json` prints it.
        command: The command; empty for none.
    """
    parts = {**report["by_label_kind"], "groups of 3 and 4": {"accuracy": None, **report["groups"]}}
    kinds = []
    for kind, part in parts.items():
        accuracy = part["accuracy"] if part["accuracy"] is not None else part.get("best_accuracy")
        if accuracy is not None and part["interval"] is not None:
            low, high = part["interval"]
            interval = f" [{low:.1%}, {high:.1%}]" if part["judged"] >= LEAST else ""
            kinds.append(f"{kind}: {accuracy:.1%}{interval}, n {part['judged']}")
    facts = [f"{report['judged']:,} of {report['n']:,} judged"]
    facts += [f"Agreement with labels, {agreement}" for agreement in kinds] or ["No labels to compare with."]
    facts += [f"{code}: {count:,}" for code, count in report["failures"].items()]
    lines = [*map(escape, facts), *([f"On the command line: {code(command)}"] if command else [])]
    return block(bullets(lines))

"""Formats batches for the Batch tab. Pure: markup out. Names, instructions and reasons are foreign text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.batch.service import PAGE, BatchRow
from app.markup import block, bullets, callout, code, escape, faint, notice, paragraph, table
from app.run_panel.following import FollowedRun
from app.run_panel.jobs import RUN_SECONDS
from app.run_panel.service import Listed
from app.run_panel.views import choice_of, counted_status
from rewardharness.judging.measured_reasons import split_reason
from rewardharness.schema import ImageInput


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
    return counted_status(run, run.name, str(run.manifest.get("judge") or ""))


def run_choices(listed: Sequence[Listed[FollowedRun]]) -> list[tuple[str, str]]:
    """Return the choices of the list of runs: plain text, and the name."""
    runs = [(item, item.status, f" of {item.status.wanted:,}" if item.status.wanted else "") for item in listed]
    return [
        choice_of(item, run.name, str(run.manifest.get("judge") or ""), f"{run.judged:,}{total} judged")
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
            kinds.append(f"{kind}: {accuracy:.0%} [{low:.0%}, {high:.0%}], n {part['judged']}")
    facts = [f"{report['judged']:,} of {report['n']:,} judged"]
    facts += [f"Agreement with labels, {each}" for each in kinds] or ["No labels to compare with."]
    facts += [f"{code}: {count:,}" for code, count in report["failures"].items()]
    lines = [*map(escape, facts), *([f"On the command line: {code(command)}"] if command else [])]
    return block(bullets(lines))


def rows_table(rows: Sequence[BatchRow], page: int, thumbnail: Callable[[ImageInput], str]) -> str:
    """Return one page of the results with thumbnails.

    Args:
        rows: All rows, as filtered and sorted.
        page: Number of the page, from 0.
        thumbnail: Returns a data URL of an image.
    """
    if not rows:
        return notice("empty", "No rows", "Nothing is judged yet, or nothing fits the filter.")
    shown = rows[page * PAGE : (page + 1) * PAGE]
    cells = [
        [
            escape(row.example.id),
            "".join(_picture(name, image, row, thumbnail) for name, image in _images(row)),
            escape(row.example.instruction[:200]),
            _result(row),
            escape(row.example.preference or ""),
            escape(split_reason(row.judgment.reasons[0])[0][:300]) if row.judgment.reasons else "",
        ]
        for row in shown
    ]
    first = page * PAGE + 1
    count = paragraph(f"Rows {first:,} to {first + len(shown) - 1:,} of {len(rows):,}", "faint")
    head = ["Id", "Images", "Instruction", "Judge", "Label", "Why"]
    return block(f"{count}{table(head, cells, 'cards batch')}")


def _images(row: BatchRow) -> list[tuple[str, ImageInput]]:
    pairs = [("Source", row.example.sources[0]), *zip(row.example.labels, row.example.candidates, strict=True)]
    return [(name, image) for name, image in pairs if isinstance(image, ImageInput)]


def _picture(name: str, image: ImageInput, row: BatchRow, thumbnail: Callable[[ImageInput], str]) -> str:
    best = "best" if name == row.judgment.preference else ""
    url = thumbnail(image)
    inside = f'<img src="{url}" alt="{escape(name)}">' if url else '<span class="faint">unreadable</span>'
    return f'<figure class="{best}">{inside}<figcaption>{escape(name)}</figcaption></figure>'


def _result(row: BatchRow) -> str:
    judgment = row.judgment
    if judgment.failure is not None:
        return f'<span class="pill warning">not judged: {escape(judgment.failure.code)}</span>'
    scored = [(escape(label), scores.reward) for label, scores in judgment.scores.items()]
    rewards = ", ".join(f"{label} {reward:.2f}" for label, reward in scored if reward is not None)
    shown = "inconsistent" if judgment.inconsistent else judgment.preference or "scored"
    style = "warning" if row.fits("against") else ""
    return f'<span class="pill {style}">{escape(shown)}</span><span class="faint"> {rewards}</span>'

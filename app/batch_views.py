"""Formats batches for the Batch tab. Pure: markup out. Names, instructions and reasons are foreign text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.batch_services import PAGE, Row
from app.counting import CountedStatus
from app.markup import block, bullets, callout, escape, paragraph, plain, table
from app.run_panel.service import Listed
from app.run_panel.views import STATES, problem, progress, state_head
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
            "for all visitors. Only this browser shows your batches. Images and results are deleted after "
            f"{hours} hours."
        )
    return block(paragraph(text, "faint"))


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


def run_status(run: CountedStatus) -> str:
    """Return the status of a batch."""
    judge = str(run.manifest.get("judge") or "")
    parts = [paragraph(judge), paragraph(STATES[run.state][1]), progress(run), problem(run)]
    return block(f'<section class="run">{state_head(run.name, run.state)}{"".join(parts)}</section>')


def run_choices(listed: Sequence[Listed[CountedStatus]]) -> list[tuple[str, str]]:
    """Return the choices of the list of runs: plain text, and the name."""
    choices = []
    for item in listed:
        run = item.status
        state = "Cannot be read" if item.error else STATES[run.state][0]
        count = f"{run.judged:,} of {run.wanted:,} judged" if run.wanted else f"{run.judged:,} judged"
        lines = [run.name, " · ".join(part for part in (state, str(run.manifest.get("judge") or ""), count) if part)]
        choices.append(("\n".join(plain(line) for line in (*lines, item.error) if line), run.name))
    return choices


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
    lines = [*map(escape, facts), *([f"On the command line: <code>{escape(command)}</code>"] if command else [])]
    return block(bullets(lines))


def rows_table(rows: Sequence[Row], page: int, thumbnail: Callable[[ImageInput], str]) -> str:
    """Return one page of the results with thumbnails.

    Args:
        rows: All rows, as filtered and sorted.
        page: Number of the page, from 0.
        thumbnail: Returns a data URL of an image.
    """
    if not rows:
        return block(callout("empty", "No rows", paragraph("Nothing is judged yet, or nothing fits the filter.")))
    shown = rows[page * PAGE : (page + 1) * PAGE]
    cells = [
        [
            f"{escape(row.example.id)}",
            "".join(_picture(name, image, row, thumbnail) for name, image in _images(row)),
            escape(row.example.instruction[:200]),
            _result(row),
            escape(row.example.preference or ""),
            _why(row),
        ]
        for row in shown
    ]
    first = page * PAGE + 1
    count = paragraph(f"Rows {first:,} to {first + len(shown) - 1:,} of {len(rows):,}", "faint")
    head = ["Id", "Images", "Instruction", "Judge", "Label", "Why"]
    return block(f"{count}{table(head, cells, 'cards batch')}")


def _images(row: Row) -> list[tuple[str, ImageInput]]:
    example = row.example
    pairs = [("Source", example.sources[0]), *zip(example.labels, example.candidates, strict=True)]
    return [(name, image) for name, image in pairs if isinstance(image, ImageInput)]


def _picture(name: str, image: ImageInput, row: Row, thumbnail: Callable[[ImageInput], str]) -> str:
    best = "best" if name == row.judgment.preference else ""
    url = thumbnail(image)
    inside = f'<img src="{url}" alt="{escape(name)}">' if url else '<span class="faint">unreadable</span>'
    return f'<figure class="{best}">{inside}<figcaption>{escape(name)}</figcaption></figure>'


def _result(row: Row) -> str:
    judgment = row.judgment
    if judgment.failure is not None:
        return f'<span class="pill warning">not judged: {escape(judgment.failure.code)}</span>'
    rewards = [
        f"{escape(label)} {scores.reward:.2f}" for label, scores in judgment.scores.items() if scores.reward is not None
    ]
    shown = "inconsistent" if judgment.inconsistent else judgment.preference or "scored"
    wrong = row.fits("against")
    pill = f'<span class="pill {"warning" if wrong else ""}">{escape(shown)}</span>'
    return f'{pill}<span class="faint"> {", ".join(rewards)}</span>'


def _why(row: Row) -> str:
    reasons = row.judgment.reasons
    return escape(split_reason(reasons[0])[0][:300]) if reasons else ""

"""Puts benchmarks into words for the Benchmark tab: tasks, what one would cost, how it stands. Pure: markup out.

Names of data and Libraries, declarations of tasks and errors are foreign text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from app.benchmark.runs import BenchmarkStatus, Piece, QuestionCase, Side
from app.benchmark.service import sizes
from app.failures import title_of
from app.markup import block, bullets, callout, code, count, escape, faint, folded, paragraph, plain, table
from app.run_panel.new_jobs import OWN, PLACE, PROTOCOLS_OF_EXAMPLES, VISITOR_PAIRS
from app.run_panel.service import Listed
from app.run_panel.views import choice_of, counted_status, facts, run_title, sections
from app.viewer.example_views import chain as chain_of
from app.viewer.example_views import texts, why
from rewardharness.benchmark.comparison import RunComparison
from rewardharness.benchmark.figures import figure, headline
from rewardharness.benchmark.items import FORWARD, REVERSE
from rewardharness.benchmark.metrics import UNDECIDED
from rewardharness.benchmark.report import build_report, comparison_section
from rewardharness.benchmark.result import BenchmarkResult
from rewardharness.benchmark.task import BOTH_BAD, METRICS, PROTOCOLS, Task
from rewardharness.data.opening import DEMO, DEMO_PAIRS, FEEDBACK
from rewardharness.editors.report import ArenaResult
from rewardharness.editors.report import build_report as build_arena_report
from rewardharness.judging.evidence import crops_words
from rewardharness.report import Chart, Report, Table
from rewardharness.report_html import draw_chart
from rewardharness.schema import LABELS, TIE, Scores

MOST_IN_WORDS = 3
"""Parts of a task of which a sentence can speak."""

_OWN: Mapping[str, tuple[str, str, str]] = {
    DEMO: (
        "Demonstration set",
        f"{DEMO_PAIRS} generated pairs; one of the two has a known flaw. Good for a first try; it says "
        "little about real edits.",
        f"{DEMO_PAIRS} pairs · generated on first use",
    ),
    FEEDBACK: ("My feedback", "Your preferences from the Score tab.", "your votes"),
    PLACE: (
        "Data of my own",
        "A folder, a table, a task file (.yaml) or a dataset on the Hub, with labels. Columns are recognized.",
        "any size · named below",
    ),
}
"""What is offered beside the tasks that come with the package: name, what it is, and how much."""


def introduction(*, local: bool) -> str:
    """What the tab is for."""
    text = (
        "Measure the agreement of a judge with human labels on a task, with and without a Library. Every number has "
        "its n, 95% interval and chance level."
    )
    limits = (
        f"<p>Here you can judge up to {VISITOR_PAIRS} pairs of the demonstration set, by measuring alone. On your own "
        "computer: any task, any judge, no limit.</p>"
    )
    return block(f'<p class="faint">{escape(text)}</p>{"" if local else limits}')


def task_choices(tasks: Sequence[Task], *, local: bool) -> list[tuple[str, str]]:
    """What can be judged, as a list shows it in plain text on three lines, and the name of each."""
    own = [("\n".join(map(plain, _OWN[name])), name) for name in (OWN if local else OWN[:1])]
    return [*own, *(("\n".join(_lines(task)), task.name) for task in tasks if local)]


def _lines(task: Task) -> list[str]:
    own = "generated on first use" if task.data.examples else "your own copy"
    data = own if not task.data.hub else "gated" if "gated" in task.access else "from the Hub"
    about = [_counts(task), f"protocol {task.protocols[0]}", data]
    return [plain(task.title), plain(task.about), " · ".join(filter(None, about))]


def _counts(task: Task) -> str:
    known = {part.name: _n(numbers) for part in task.parts if (numbers := sizes(task).get(part.name))}
    counts = known.values() if len(task.parts) == 1 else (f"{number} ({name})" for name, number in known.items())
    return f"n {', '.join(counts)}" if known else ""


def _n(numbers: Sequence[int]) -> str:
    return "/".join(f"{number:,}" for number in numbers)


def about_task(task: Task | None, name: str) -> str:
    """What is chosen: what it measures, its protocols, its n, and how to get its data.

    Args:
        task: The task; None for data that have no declaration.
        name: What was chosen.
    """
    if task is None:
        title, text, _ = _OWN[name]
        return block(f"<h3>{escape(title)}</h3>{paragraph(text)}{_definitions(None)}")
    counts = sizes(task)
    parts = [
        [
            escape(part.name),
            _n(counts[part.name]) if part.name in counts else "not published",
            "a human score" if task.scores else escape(", ".join(part.labels)),
        ]
        for part in task.parts
    ]
    where = f"{code(task.data.hub)} on the Hub" if task.data.hub else "A copy on this computer"
    pinned = f", revision {code(task.data.revision[:12])}" if task.data.revision else ""
    license_ = f"License: {task.license}" if task.license else ""
    about = [f"Data: {where}{pinned}", escape(task.paper), escape(license_)]
    access = callout("note", "How to get the data", paragraph(task.access)) if task.access else ""
    careful = folded("Where to be careful", bullets(map(escape, task.notes)))
    return block(
        f"<h3>{escape(task.title)}</h3>{paragraph(task.about)}{access}"
        f"{table(['Part', 'n in published tables', 'Labels'], parts, 'plain')}"
        f"{bullets(filter(None, about))}{_definitions(task)}{careful}"
    )


def _definitions(task: Task | None) -> str:
    """What the words for protocols and metrics mean."""
    protocols = task.protocols if task else PROTOCOLS_OF_EXAMPLES
    metrics = task.metrics if task else ("exact", "forced")
    rows = [[code(name), escape(PROTOCOLS[name])] for name in protocols]
    counted = [[code(name), escape(METRICS[name])] for name in metrics]
    tables = table(["Protocol", ""], rows, "plain") + table(["Counted", ""], counted, "plain")
    return folded("Protocols and what is counted", tables)


def expected(preview: Mapping[str, Any]) -> str:
    """What a benchmark would cost.

    Args:
        preview: As `rh benchmark --dry-run --json` says it.
    """
    who = "; ".join(f"{entry['name']}, {entry['library']}" for entry in preview["contenders"])
    drawn = preview["sampled"]
    sample = f", a stratified sample of {drawn[0]:,} of {drawn[1]:,}" if drawn else ""
    counting = ", ".join(f"{part} {n:,}" for part, n in preview["counting"].items())
    left = preview["judgments"] - preview["known"]
    lines = [
        f"{count(preview['items'], 'example')} to judge{sample}; labels that count: {counting or 'none'}",
        f"{count(len(preview['contenders']), 'row')} in the table: {who}",
        f"{count(left, 'judgment')}" + (f"; {preview['known']:,} are there already" if preview["known"] else ""),
    ]
    if bad := preview.get("skipped_rows", {"n": 0})["n"]:
        lines.append(f"{count(bad, 'bad row')} of the data skipped, and counted as not judged")
    if preview["requests"]:
        asked = count(preview["requests"], "request")
        lines.append(f"at least {asked} to a model; Tools come on top, remembered answers are free")
        lines += [crops_words(preview["crops"])] if preview.get("crops") else []
    else:
        lines.append("No model is asked: it costs time alone.")
    remarks = [f"{problem['code']}: {problem['message']} ({problem['n']:,})" for problem in preview["problems"]]
    title = f"{count(len(remarks), 'remark')} on the data"
    problems = folded(title, bullets(map(escape, remarks)))
    title = "What to expect" if left else "This is judged already: Start only counts it again"
    return block(callout("note good", title, bullets(map(escape, lines)), problems))


def run_status(run: BenchmarkStatus) -> str:
    """Return the status of a benchmark: state and progress."""
    return counted_status(run, run_title(run), run.who)


def run_choices(listed: Sequence[Listed[BenchmarkStatus]]) -> list[tuple[str, str]]:
    """Return the choices of the list of runs: plain text on three lines, and the name."""
    choices = []
    for item in listed:
        run = item.status
        running = run.wanted and run.state != "finished"
        done = f"{run.judged:,} of {run.wanted:,} judgments" if running else ""
        choices.append(
            choice_of(item, run_title(run), run.who, done, more=shorten(_numbers(item.row), 150, placeholder=" …"))
        )
    return choices


def _numbers(row: Mapping[str, Any]) -> str:
    """The first number of every part that a report has."""
    parts: dict[str, str] = {}
    for number in row.get("numbers", ()):
        if number.value is not None:
            parts.setdefault(number.part, f"{number.part} {figure(number)}")
    return "; ".join(parts.values())


def summary(result: BenchmarkResult) -> str:
    """Return the main numbers in a sentence; empty for many parts, which the table shows better."""
    if not result.rows or len(result.parts) > MOST_IN_WORDS:
        return ""
    return block(f"<p><strong>{escape(headline(result))}</strong></p>")


def about_run(progress: BenchmarkStatus, command: str) -> str:
    """What a benchmark is about, and how it goes on by hand."""
    manifest = progress.manifest
    if not manifest:
        return faint("What it is about is known as soon as it has begun.")
    drawn = manifest.get("sampled")
    sample = f"{drawn[0]:,} of {drawn[1]:,} pairs or groups, seed {drawn[2]}" if drawn else "all"
    rows = {
        "Run": code(progress.name),
        "Task": escape(f"{manifest.get('task')}, protocol {manifest.get('task_protocol')}"),
        "Judged": escape(sample),
        "Judge": escape(f"{manifest.get('judge_name')}, {manifest.get('judge_protocol')}"),
        "Library": code(str(manifest.get("library_id"))[:12]),
        "Data": code(str(manifest.get("data"))[:12]),
    }
    return facts(rows, command)


def _report(result: BenchmarkResult, key: str = "") -> Report:
    return build_report(result, key, lambda code: str(title_of(code)))


def rows_table(result: BenchmarkResult) -> str:
    """Return a table per number, with a row per entry, and the thresholds of ties."""
    report = _report(result)
    numbers = report.section("numbers")  # their titles begin with a value of the data, such as a kind of label
    blocks = (replace(part, title=f"Part {part.title}") if isinstance(part, Table) else part for part in numbers.blocks)
    tables = replace(numbers, blocks=tuple(blocks))
    return sections(tables) + sections(*map(report.section, ("judges", "pairs", "thresholds")), titles=True)


def section(result: BenchmarkResult, name: str, key: str = "") -> str:
    """Return a section of the report without its charts.

    Args:
        result: The result.
        name: Key of the section.
        key: Key of the row that the section is about; empty for the judge.
    """
    return sections(_report(result, key).section(name))


def about_data(result: BenchmarkResult) -> str:
    """Return what was judged and counted, and problems and notes of the data."""
    report = _report(result)
    about = report.section("summary").blocks[1:]
    return sections(replace(report.section("summary"), blocks=about), report.section("data"), report.section("notes"))


def reliability(result: BenchmarkResult, key: str) -> str:
    """Return the reliability curve of a row; empty if the judge reports no confidence."""
    charts = [part for part in _report(result, key).section("confidence").blocks if isinstance(part, Chart)]
    return "".join(f'<div class="rh">{draw_chart(chart)}</div>' for chart in charts)


def arenas(results: Sequence[tuple[Path, ArenaResult]]) -> str:
    """Format finished arenas, each behind its title, with ratings, wins, cost and where its comparisons are."""
    parts = []
    for folder, result in results:
        report = build_arena_report(result)
        place = paragraph(f"Report and comparisons: {folder}. To vote on them, name comparisons.jsonl in the tab Vote.")
        body = sections(*(part for part in report.sections if part.blocks), titles=True)
        parts.append(folded(escape(f"{report.title} · {result.judged} of {result.n} judged"), body + place))
    return block(f"<h4>Arenas and benchmarks of editors</h4>{''.join(parts)}")


_ORDERS = {
    FORWARD: "Judged in both presentation orders; this is the answer in the order of the data.",
    REVERSE: "Judged in both presentation orders; this is the answer in reverse order. The images have the data order.",
}
"""Explanation of each presentation order."""


def words(case: QuestionCase) -> str:
    """Return instruction, label, predictions and scores of a question."""
    question = case.question
    about = [text for text in (question.part, question.category, question.dimension) if text]
    parts = [
        f"<p><strong>{escape(question.instruction)}</strong></p>",
        texts(case.candidates),
        paragraph(" · ".join([*about, question.id]), "faint"),
        f"<p>The label: <strong>{escape(preference_text(question.truth))}</strong>.</p>",
    ]
    if question.letters and tuple(question.letters) != LABELS[: len(question.letters)]:
        names = ", ".join(f"{page} is {own}" for page, own in zip(LABELS, question.letters, strict=False))
        parts.append(paragraph(f"In its group: {names}.", "faint"))
    parts.append(paragraph(_ORDERS.get(question.order, ""), "faint"))
    if case.changed:
        parts.append(
            callout("warning", "The data have changed since this run started; the images are the current ones.")
        )
    parts += [_side(case, side) for side in case.sides]
    return block("".join(parts))


def preference_text(preference: object) -> str:
    """Return the text of a label or an answer."""
    texts = {TIE: "it is a tie", BOTH_BAD: "both are bad", UNDECIDED: "undecided"}
    return "none" if preference is None else texts.get(str(preference), f"{preference} is better")


def _side(case: QuestionCase, side: Side) -> str:
    reply = side.reply
    title = f"<h4>{escape(side.title)}</h4>" if len(case.sides) > 1 else ""
    if reply.choice is None:
        failure = callout("error", f"No judgment: {title_of(reply.failure)}")
        return f'<section class="said">{title}{failure}</section>'
    agreement = {1.0: "as the label says", 0.0: "against the label"}.get(side.credit or 0.0, "counted as a half")
    facts = [f"The judge: {preference_text(reply.choice)}, {agreement}"]
    if reply.margin is not None:
        facts.append(f"margin {abs(reply.margin):.3f}")
    confidences = [piece.judgment.confidence for piece in side.pieces if piece.judgment is not None]
    if len(confidences) == 1 and confidences[0] is not None:
        facts.append(f"confidence {confidences[0]:.2f}")
    reasons = why(side.pieces[0].judgment) if len(side.pieces) == 1 else ""
    return f'<section class="said">{title}<p>{escape("; ".join(facts))}.</p>{_scores(case, side)}{reasons}</section>'


def _scores(case: QuestionCase, side: Side) -> str:
    """Return a table with a row per candidate."""
    rows = []
    for place in range(len(case.candidates)):
        letter = LABELS[place]
        marks = '<span class="pill good">label</span>' if case.question.truth == letter else ""
        marks += ' <span class="pill">judge</span>' if side.reply.choice == letter else ""
        scores = _scores_of(side.pieces, letter)
        cells = (None, None, None) if scores is None else (scores.instruction, scores.quality, scores.reward)
        rows.append([f'<span class="letter">{escape(letter)}</span> {marks}', *map(_number, cells)])
    return table(["", "Instruction following", "Visual quality", "Reward"], rows, "numbers candidates")


def _scores_of(pieces: Sequence[Piece], letter: str) -> Scores | None:
    for piece in pieces:
        for own, page in piece.letters.items():
            if page == letter and piece.judgment is not None:
                return piece.judgment.scores.get(own)
    return None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def chain(side: Side) -> str:
    """Return the reasoning of a judge; several pieces of markup, one line each."""
    parts = []
    for piece in side.pieces:
        parts.append(_letters(piece))
        parts.append(chain_of(piece.judgment, tuple(piece.letters)))
    return "\n\n".join(part for part in parts if part)


def _letters(piece: Piece) -> str:
    """Return the letters that the judge used, if the page has others."""
    names = [f"candidate {page} is {own}" for own, page in piece.letters.items() if own != page]
    return faint(f"In this text, {', '.join(names)}.") if names else ""


def compared(comparison: RunComparison) -> str:
    """Return the comparison of two rows: gain with interval, fixes and breaks, and McNemar test, by part."""
    return sections(comparison_section(comparison))

"""Text of the Evolve tab: previews, status and reports of evolutions. Pure: markup out.

Names of data, reasons, errors, and text of models and Libraries are foreign text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from app import markup as m
from app.evolve.runs import EvolutionStatus
from app.evolve.service import Version
from app.failures import in_browser
from app.library.views import summary
from app.run_panel.following import MOVING
from app.run_panel.new_jobs import VISITOR_SECONDS
from app.run_panel.service import Listed
from app.run_panel.views import STATES, choice_of, facts, meter, problem, run_title, sections, state_head
from rewardharness.errors import shell
from rewardharness.evolution.events import Concluding, Found, PhaseBegan, Skipped, spent_by
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.plan import SHORTEST
from rewardharness.evolution.progress import duration, ended
from rewardharness.evolution.proposal import Finding
from rewardharness.evolution.report import EvolutionReport
from rewardharness.evolution.report_page import headline, report_sections
from rewardharness.files import megabytes
from rewardharness.judging.evidence import crops_words
from rewardharness.library.store import Library
from rewardharness.runs.spending import NOTHING

_PHASES = {
    "skills": "Testing edits of Skills.",
    "tools": "Testing edits of Tools.",
    "prune": "Removing unused entries.",
}


def introduction(*, local: bool) -> str:
    """Return what the tab is for."""
    text = (
        "An Orchestrator proposes changes of a Library, one at a time, from examples with a known preference. A change "
        "is accepted if the preferences support it. At the end, held-out examples show the quality of the new Library."
    )
    limits = (
        "<p>Here you can evolve on the demonstration set with the pixel-based judge, for up to "
        f"{VISITOR_SECONDS // 60} minutes. On your own computer: any data, any judge, no limit.</p>"
    )
    return m.block(f'<p class="faint">{m.escape(text)}</p>{"" if local else limits}')


def about_budget(*, local: bool) -> str:
    """Return what the fields of the budget mean."""
    limit = "" if local else f" Here the search takes up to {VISITOR_SECONDS} seconds."
    text = f"Limits of the search. The test on held-out examples comes on top. 0 means no limit.{limit}"
    return m.faint(text)


def expected(preview: Mapping[str, Any]) -> str:
    """Return the preview of a run.

    Args:
        preview: As `rh evolve --dry-run --json` prints it.
    """
    if "remote" in preview:
        return _expected_job(preview["remote"], str(preview["data"]))
    cost, corrected, problems = preview["expected"], preview["corrections"], preview["problems"]
    lines = [*map(in_browser, preview["words"]), *([crops_words(cost["crops"])] if cost.get("crops") else [])]
    if not preview["orchestrator"].startswith("built-in"):
        lines.append("The requests to the model of the Orchestrator come on top.")
    labels = f"{m.count(corrected, 'corrected label')} of yours replace given ones. Held-out examples keep theirs."
    warnings = m.folded(f"{m.count(len(problems), 'warning')} about the data", m.bullets(map(m.escape, problems[:50])))
    who = m.paragraph(f"Judge: {preview['judge']}. Orchestrator: {preview['orchestrator']}.", "faint")
    sizes = f"{m.count(preview['pool'], 'training example')}, {m.count(preview['audit'], 'held-out example')}."
    parts = (m.paragraph(sizes), *map(m.paragraph, lines), who, m.paragraph(labels if corrected else ""))
    title = f"About {duration(max(SHORTEST, preview['seconds']))} on {preview['data']}"
    return m.block(m.callout("note", title, *parts, warnings))


def _expected_job(plan: Mapping[str, Any], data: str) -> str:
    """Return the preview of a job on the Hub."""
    price, most = plan["price_per_hour"], plan["highest_cost"]
    cost = f"${price:.2f} per hour, at most ${most:.2f} in {plan['timeout_seconds'] / 3600:g} h. Your account pays."
    lines = [
        f"Hardware: {plan['flavor']}; image: {plan['image']}",
        f"Secrets, by name: {', '.join(plan['secrets'])}",
        f"Writes: {', '.join(plan['writes'])}",
        f"Sends: {megabytes(plan['inputs']['bytes'])} MB of code, configuration and local files",
    ]
    command = m.folded("Command of the job", m.preformatted(shell("{}", plan["command"])))
    parts = [m.paragraph(cost), m.bullets(map(m.escape, [*lines, *plan["warnings"]])), command]
    return m.block(m.callout("note", f"A Hugging Face Job that evolves on {data}", *parts))


def _job(run: EvolutionStatus) -> str:
    """Return the job of a run on the Hub: its page, its cost, and the end of its log."""
    if run.remote is None:
        return ""
    job = run.remote.run
    page = f'<a href="{m.escape(job.url)}" target="_blank" rel="noopener">Page of the job</a>'
    stored = f"Results: datasets/{job.repo}" + (f"; Library: {job.push_to}" if job.push_to else "")
    lines = m.preformatted("\n".join(run.remote.lines)) if run.remote.lines else ""
    title = f"Hugging Face Job {job.job}: {job.stage.lower()}, {job.cost}"
    return m.callout("note", title, f"<p>{page}. {m.escape(stored)}</p>", lines)


def run_status(run: EvolutionStatus) -> str:
    """Return the status of a run: state, progress, and figures."""
    status = run.status
    why = ended(status.reason) if status is not None and run.state == "finished" else ""
    headline = status.headline if status is not None else ""
    text = f"<p>{m.escape(_activity(run) or f'{headline or STATES[run.state][1]} {why}'.strip())}</p>"
    error = problem(run, status.next_step if status is not None else "")
    figures = _figures(run) if status is not None and run.first is not None else ""
    head = state_head(run_title(run), run.state)
    return m.block(f'<section class="run">{head}{text}{_progress(run)}{error}{_job(run)}{figures}</section>')


def _activity(run: EvolutionStatus) -> str:
    """Return what a running run does; empty if the state says it."""
    if run.state not in MOVING or run.status is None:
        return ""
    if run.state != "running":
        return STATES[run.state][1]
    if run.first is None:
        return "Judging the training examples with the starting Library."
    if run.events and isinstance(run.events[-1], Concluding):
        return "The search is complete. Judging the held-out examples."
    phases = [event.phase for event in run.events if isinstance(event, PhaseBegan)]
    return _PHASES.get(phases[-1] if phases else "skills", "Running.")


def _progress(run: EvolutionStatus) -> str:
    """Return the progress of the current phase, and the remaining time."""
    progress = run.status.progress if run.status is not None and run.state == "running" else None
    if progress is None:
        return ""
    caption = " · ".join(filter(None, (f"{progress.words[:1].upper()}{progress.words[1:]}", progress.rest)))
    return meter(caption, progress.done / max(1, progress.total))


def _figures(run: EvolutionStatus) -> str:
    status, started = run.status, run.started
    assert status is not None
    cost = started.expected if started else {}
    expected = cost.get("begin", 0) + cost.get("search", 0)
    accuracy = _arrow(status.start_accuracy, status.pool_accuracy)
    about = f"n = {started.pool}: " if started and started.pool else ""
    before = f"about {expected:,} were expected before the held-out test" if expected else ""
    spent = spent_by(run.events)
    time = duration(spent.seconds) if spent != NOTHING else ""
    figures = [
        ("Training examples", accuracy, f"{about}accuracy; edits were selected on these"),
        ("Edits accepted", f"{status.kept} of {status.tried}", "that were tested, bundles and pruning included"),
        ("Judgments", f"{status.judgments:,}", before),
        ("Time", time, "all sessions together"),
    ]
    if status.audit is not None and status.audit.accuracy is not None:
        start = status.audit_start.accuracy if status.audit_start is not None else None
        figures.insert(0, ("Held-out test", _arrow(start, status.audit.accuracy), _audited(status.audit)))
    cells = (
        f'<div>{m.paragraph(title, "faint")}<p class="value">{m.escape(value)}</p>{m.paragraph(note, "faint")}</div>'
        for title, value, note in figures
        if value
    )
    return f'<div class="figures">{"".join(cells)}</div>'


def _audited(score: Score) -> str:
    """Return interval and coverage of the held-out test, if the run recorded them."""
    interval = f"95% CI: {score.interval[0]:.1%} to {score.interval[1]:.1%}, " if score.interval else ""
    judged = f"{score.judged} of {score.n} judged: " if score.n else ""
    return f"{interval}{judged}no edit was selected on these"


def _arrow(before: float | None, after: float | None) -> str:
    return share(after) if before is None or after in {None, before} else f"{share(before)} → {share(after)}"


def share(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Format an accuracy with its interval; a dash for None."""
    suffix = f" [{interval[0]:.1%}, {interval[1]:.1%}]" if interval else ""
    return "–" if value is None else f"{value:.1%}{suffix}"


def about(run: EvolutionStatus, command: str, log: str = "") -> str:
    """Return the configuration of a run, the command that resumes it, and its log."""
    manifest = run.manifest
    if not manifest:
        return m.faint("The configuration appears when the run has started.")
    schedule = manifest.get("schedule")
    rows = {
        "Data": m.escape(str(manifest.get("data_name"))),
        "Judge": m.escape(f"{manifest.get('judge')}, {manifest.get('protocol')}"),
        "Orchestrator": m.escape(str(manifest.get("orchestrator"))),
        "Schedule": m.escape(str(schedule.get("name") if isinstance(schedule, dict) else schedule)),
        "Seed": m.escape(str(manifest.get("seed"))),
        "Started": m.escape(str(manifest.get("started")).replace("T", " ").replace("+00:00", " UTC")),
        "Starting Library": m.code(str(manifest.get("library_id"))[:12]),
        **({"Log": m.code(log)} if log else {}),
    }
    return facts(rows, command)


def findings(run: EvolutionStatus) -> str:
    """Return the latest findings of the Orchestrator, and the skipped ideas."""
    rounds = [event for event in run.events if isinstance(event, Found)]
    if not rounds:
        text = "Before it proposes edits, the Orchestrator lists what the judge gets wrong."
        return m.notice("empty", "There are no findings yet", text)
    rows = [
        f"<p>{m.named(finding.statement)}</p>{m.paragraph(_cited(finding), 'faint')}" for finding in rounds[-1].findings
    ]
    earlier = f" This is round {len(rounds)}." if len(rounds) > 1 else ""
    head = f"<p>Latest findings of the Orchestrator, strongest first.{earlier}</p>"
    return m.block(head + m.bullets(rows) + _skipped(run))


def _cited(finding: Finding) -> str:
    cited = ", ".join(finding.cited)
    counts = f"{finding.failures} wrong, {finding.successes} correct among similar examples"
    return f"{counts}{f'; for example {cited}' if cited else ''}"


def _skipped(run: EvolutionStatus) -> str:
    skipped = [event for event in run.events if isinstance(event, Skipped)]
    ideas = ((m.escape(shorten(m.plain(event.what), 200)), m.escape(event.reason)) for event in skipped[-100:])
    rows = [f"{idea} <em>{reason}</em>" for idea, reason in ideas]
    return m.folded(f"{m.count(len(skipped), 'idea')} skipped without judging anything", m.bullets(rows))


def run_choices(listed: Sequence[Listed[EvolutionStatus]]) -> list[tuple[str, str]]:
    """Return the choices of the list of runs: plain text on three lines, and the name."""
    choices = []
    for item in listed:
        run, status = item.status, item.status.status
        if status is None:
            choices.append(choice_of(item, run_title(run), more=shorten(m.plain(item.error), 150)))
            continue
        accuracy = _arrow(status.start_accuracy, status.pool_accuracy)
        test = f"held-out {share(status.audit.accuracy, status.audit.interval)}" if status.audit else ""
        figures = (f"{status.kept} of {status.tried} accepted", f"training {accuracy}", test)
        about = " · ".join(str(run.manifest.get(name)) for name in ("data_name", "judge", "orchestrator"))
        choices.append(choice_of(item, run_title(run), *figures, more=shorten(m.plain(about), 120, placeholder=" …")))
    return choices


def report(record: EvolutionReport | None, place: str = "") -> str:
    """Return the report of a run, the held-out test first.

    Args:
        record: The report; None before the end.
        place: The folder of the evolved Library, for users at this computer.
    """
    if record is None:
        text = "When the search ends, the final Library is tested on examples that no edit was selected on."
        return m.notice("empty", "The held-out test comes at the end", text)
    parts = {part.key: part for part in report_sections(record).sections}
    summary = replace(parts["summary"], blocks=parts["summary"].blocks[1:])
    details = [
        parts[name] for name in ("diagnosis", "accuracy", "regression", "categories", "cost") if parts[name].blocks
    ]
    folder = f"<p>The evolved Library: {m.code(place)}</p>" if place else ""
    head = m.block(f"<p><strong>{m.escape(headline(record))}</strong></p>{folder}")
    return head + sections(summary) + sections(*details, titles=True)


def corrected(file: Path, *, changed: bool) -> str:
    """Return the confirmation of a reviewed label."""
    title = "Noted: the label was wrong" if changed else "Noted: the label is correct"
    text = "The data are not changed. The next run on them uses the reviewed labels, unless you deselect them:"
    return m.block(m.callout("note good", title, m.paragraph(text), f"<p>{m.code(str(file))}</p>"))


_ACCEPTED = "Every accepted edit makes a version of the Library, which can be used and published."
NO_VERSIONS = m.notice("empty", "No edit was accepted yet", _ACCEPTED)
"""The placeholder while there are no versions."""

_CARD = (
    "The card contains the evidence of this run: every accepted edit with the examples it fixed and broke, and for "
    "the last version the result on the held-out test set. Nothing is written before a preview."
)
PUBLISHING = m.block(f"<h3>Push this version to the Hub</h3>{m.paragraph(_CARD, 'faint')}")
"""Explains what the card of a published version contains."""


def version(found: Version, library: Library, audit: Score | None, place: str = "", before: str = "") -> str:
    """Format the accuracy and the use of a version.

    Args:
        found: The version.
        library: Its Library.
        audit: Its result on the held-out test set; None if it was not evaluated there.
        place: Its folder, for users of this computer; otherwise empty.
        before: The folder of the version before, if there is one.
    """
    accuracy = f"Accuracy on the training examples: {share(found.accuracy)}. "
    if audit is None:
        accuracy += "Expect less on other examples: this version was not evaluated on the held-out test set."
    else:
        agreed = share(audit.accuracy, audit.interval)
        accuracy += f"Held-out test set: {agreed} of {audit.judged} examples."
    uses = []
    if place:
        links = [m.to_library(place, "Score with this version")]
        links += [m.to_library(place, "Compare with the version before", before)] if before else []
        uses = [
            " · ".join(links),
            f"Its folder: {m.code(place)}",
            f"On the command line: <code>{m.escape(shell('rh score --library {} …', place))}</code>",
        ]
    return summary(library, f"version {found.number}") + m.block(m.paragraph(accuracy) + m.bullets(uses))

"""Puts evolutions into words for the Evolve tab: what one would cost, how it stands, what came of it. Pure: markup out.

Names of data, reasons, errors and everything that a model or a Library says is foreign text.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from app.following import MOVING, Sight, State
from app.markup import block, bullets, callout, escape, named, paragraph, plain, preformatted, table
from app.new_run import VISIT_SECONDS
from rewardharness.evolution.events import Found, Passed, PhaseBegan
from rewardharness.evolution.progress import duration
from rewardharness.evolution.report import left_out
from rewardharness.evolution.report_page import headline, regression_rows
from rewardharness.evolution.status import spent_by

STATES: Mapping[State, tuple[str, str]] = {
    "starting": ("Starting", "The process is starting, and the data are read; the demonstration set is drawn once."),
    "running": ("Running", "It goes on when this page is closed."),
    "stopping": ("Stopping", "It ends after the judgments under way. Nothing is lost."),
    "finished": ("Finished", "The audit is done."),
    "stopped": ("Stopped", "Somebody asked for an end. It can go on where it stands."),
    "paused": ("Paused", "There is trouble that a person has to see to. It can go on where it stands."),
    "interrupted": ("Interrupted", "Its process ended without a word. It can go on where it stands."),
    "failed": ("Did not start", "The process ended before the run began."),
}
"""What each state is called, and what it means."""

_PHASES = {"skills": "trying edits of Skills", "tools": "trying edits of Tools", "prune": "looking for what can go"}
_STYLES: Mapping[State, str] = {"finished": "good", "paused": "warning", "interrupted": "warning", "failed": "error"}


def introduction(*, local: bool) -> str:
    """What the tab is for."""
    text = (
        "From examples whose better edit is known, an Orchestrator proposes changes of a Library, one at a time. A "
        "change is kept when the preferences speak for it. At the end an audit says what the new Library is worth."
    )
    limits = (
        "<p>Here you can evolve on the demonstration set, by measuring alone, for up to "
        f"{VISIT_SECONDS // 60} minutes. On your own computer: any data, any judge, no limit.</p>"
    )
    return block(f'<p class="faint">{escape(text)}</p>{"" if local else limits}')


def no_run(*, local: bool) -> str:
    """What stands in the place of a run before one is shown."""
    where = "one of the earlier runs" if local else "your run, if you began one in this browser"
    text = f"See what a run costs and start it, or open {where}. What happens will stand here."
    return block(callout("empty", "No run is shown", paragraph(text)))


def about_budget(*, local: bool) -> str:
    """What the fields of the budget mean."""
    most = "" if local else f" Here the search takes up to {VISIT_SECONDS} seconds."
    return block(paragraph(f"The budget of the search; the audit comes on top. 0 is no limit.{most}", "faint"))


def cost_hint() -> str:
    """What stands in the place of the cost before it was asked for."""
    return block(paragraph("Nothing is spent before you have seen what to expect.", "faint"))


def counting() -> str:
    """What stands there while the cost is worked out."""
    text = "The data are read for this. The demonstration set is drawn on first use, which takes a minute."
    return block(callout("empty busy", "Working out what to expect…", paragraph(text)))


def expected(told: Mapping[str, Any]) -> str:
    """What a run would cost.

    Args:
        told: As `rh evolve --dry-run --json` says it.
    """
    cost = told["expected"]
    lines = [
        f"{_count(cost['begin'], 'judgment')} to begin with: {_count(told['pool'], 'example')} to learn from",
        f"about {cost['search']} to try edits, at most {cost['most']}",
        f"{cost['audit']} for the audit: {_count(told['audit'], 'example')} that nothing is decided on",
    ]
    lines += [f"{cost['regression']} for the regression set"] if cost["regression"] else []
    lines += [f"{cost['ensemble']} to compare with asking the judge several times"] if cost["ensemble"] else []
    asked = "one request" if cost["requests"] == 1 else f"{cost['requests']} requests"
    each = f"Each takes at least {asked} to the model, more where it calls Tools." if cost["requests"] else ""
    each = each or "No model judges, so they cost time alone."
    if not told["orchestrator"].startswith("built-in"):
        each += " The requests to the Orchestrator's model come on top."
    title = f"About {_count(cost['expected'], 'judgment')} on {told['data']}"
    who = f"Judge: {told['judge']}. Orchestrator: {told['orchestrator']}."
    corrected = told["corrections"]
    labels = f"{_count(corrected, 'label')} that you corrected count. The audit keeps the labels that were given."
    problems = told["problems"]
    odd = f"<details><summary>{_count(len(problems), 'oddity', 'oddities')} in the data</summary>"
    odd += f"{bullets(map(escape, problems[:50]))}</details>"
    parts = [bullets(map(escape, lines)), paragraph(each), paragraph(who, "faint")]
    parts += [paragraph(labels)] if corrected else []
    return block(callout("note", title, *parts, odd if problems else ""))


def standing(sight: Sight) -> str:
    """How a run stands: its state, where it is, and what it has reached."""
    name, meaning = STATES[sight.state]
    status = sight.status
    busy = "busy" if sight.state in MOVING else _STYLES.get(sight.state, "")
    head = f'<h3 class="state">{escape(sight.name)} <span class="pill {busy}">{escape(name)}</span></h3>'
    ended = f"The search ended because {status.reason}." if status is not None and sight.state == "finished" else ""
    headline = status.headline if status is not None else ""
    said = f"<p>{escape(_doing(sight) or f'{headline or meaning} {ended}'.strip())}</p>"
    trouble = ""
    if status is not None and status.reason and sight.state == "paused":
        step = paragraph(status.next_step, "remedy") + paragraph("On this page that is the button “Go on”.")
        trouble = callout("warning", status.reason, step)
    if sight.trouble is not None:
        error = sight.trouble
        trouble += callout("error", error.title, paragraph(error.message), paragraph(error.next_step, "remedy"))
    figures = _figures(sight) if status is not None and sight.judged is not None else ""
    return block(f'<section class="run">{head}{said}{_advanced(sight)}{trouble}{figures}</section>')


def _doing(sight: Sight) -> str:
    """What a run is at, in a sentence; empty where its state says it all."""
    if sight.state not in MOVING or sight.status is None:
        return ""
    if sight.state != "running":
        return STATES[sight.state][1]
    if sight.judged is None:
        return "It judges the examples to learn from with the starting Library."
    if sight.events and type(sight.events[-1]).__name__ == "Concluding":
        return "The search is over. Now the audit, on examples that nothing was decided on."
    phases = [event.phase for event in sight.events if isinstance(event, PhaseBegan)]
    return f"It is {_PHASES.get(phases[-1] if phases else 'skills', 'at work')}."


def _advanced(sight: Sight) -> str:
    """How far the phase that is under way has come, and how long the rest takes."""
    progress = sight.status.progress if sight.status is not None and sight.state == "running" else None
    if progress is None:
        return ""
    done = 100 * progress.done / max(1, progress.total)
    words = " · ".join(filter(None, (f"{progress.words[:1].upper()}{progress.words[1:]}", progress.rest)))
    return f'{paragraph(words)}<span class="meter"><span style="width:{done:.0f}%"></span></span>'


def _figures(sight: Sight) -> str:
    status = sight.status
    assert status is not None
    started = sight.started
    cost = started.expected if started else {}
    foreseen = cost.get("begin", 0) + cost.get("search", 0)
    pool = f"n = {started.pool}: " if started and started.pool else ""
    seconds = _seconds(sight)
    figures = [
        ("On the pool", _arrow(status.start_accuracy, status.pool_accuracy), f"{pool}edits were chosen on these"),
        ("Edits accepted", f"{status.kept} of {status.tried}", "that were tested, bundles and pruning included"),
        (
            "Judgments",
            f"{status.judgments:,}",
            f"about {foreseen:,} were expected before the audit" if foreseen else "",
        ),
        ("Time", duration(seconds) if seconds is not None else "", "all sittings together"),
    ]
    if status.audit is not None and status.audit["accuracy"] is not None:
        start = (status.audit_start or {}).get("accuracy")
        figures.insert(0, ("On the audit", _arrow(start, status.audit["accuracy"]), _audited(status.audit)))
    cells = (
        f'<div>{paragraph(title, "faint")}<p class="value">{escape(value)}</p>{paragraph(note, "faint")}</div>'
        for title, value, note in figures
        if value
    )
    return f'<div class="figures">{"".join(cells)}</div>'


def _audited(score: Mapping[str, Any]) -> str:
    """How sure the accuracy on the audit is; runs that earlier versions finished do not tell."""
    low_high = f"95 %: {score['interval'][0]:.1%} to {score['interval'][1]:.1%}, " if score["interval"] else ""
    judged = f"{score['judged']} of {score['n']} judged: " if score["n"] else ""
    return f"{low_high}{judged}nothing was decided on these"


def _seconds(sight: Sight) -> float | None:
    spent = spent_by(sight.events)
    return float(spent.get("seconds", 0.0)) if spent else None


def _arrow(before: float | None, after: float | None) -> str:
    if before is None or after is None or before == after:
        return share(after)
    return f"{share(before)} → {share(after)}"


def share(value: float | None, interval: Sequence[float] | None = None) -> str:
    """An accuracy in percent, with its interval; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.1%}" + (f" [{interval[0]:.1%}, {interval[1]:.1%}]" if interval else "")


def about(sight: Sight, command: str, log: str = "") -> str:
    """What a run is about, how it goes on by hand, and where its process writes what it has to say."""
    manifest = sight.manifest
    if not manifest:
        return block(paragraph("What it is about is known as soon as it has begun.", "faint"))
    schedule = manifest.get("schedule")
    rows = [
        ["Data", escape(str(manifest.get("data_name")))],
        ["Judge", escape(f"{manifest.get('judge')}, {manifest.get('protocol')}")],
        ["Orchestrator", escape(str(manifest.get("orchestrator")))],
        ["Schedule", escape(str(schedule.get("name") if isinstance(schedule, dict) else schedule))],
        ["Seed", escape(str(manifest.get("seed")))],
        ["Begun", escape(str(manifest.get("started")).replace("T", " ").replace("+00:00", " UTC"))],
        ["Began with", f"<code>{escape(str(manifest.get('library_id'))[:12])}</code>"],
    ]
    by_hand = f"<h4>On the command line</h4>{preformatted(command, 'wrap')}" if command else ""
    rows += [["Log", f"<code>{escape(log)}</code>"]] if log else []
    return block(table(["", ""], rows, "plain") + by_hand)


def findings(sight: Sight) -> str:
    """What the Orchestrator found last, and what was passed over."""
    found = [event for event in sight.events if isinstance(event, Found)]
    if not found:
        text = "The Orchestrator says what goes wrong before it proposes anything."
        return block(callout("empty", "There are no findings yet", paragraph(text)))
    rows = [
        f'<p>{named(str(each.get("statement", "")))}</p><p class="faint">{escape(_cited(each))}</p>'
        for each in found[-1].findings
    ]
    earlier = f" It was round {len(found)}; earlier ones found other things." if len(found) > 1 else ""
    head = f"<p>What the Orchestrator found last, strongest first.{earlier}</p>"
    return block(head + bullets(rows) + _passed_over(sight))


def _cited(finding: Mapping[str, Any]) -> str:
    cited = ", ".join(map(str, finding.get("cited") or ()))
    counts = f"{finding.get('failures', 0)} missed, {finding.get('successes', 0)} right among comparable examples"
    return f"{counts}{f'; for instance {cited}' if cited else ''}"


def _passed_over(sight: Sight) -> str:
    passed = [event for event in sight.events if isinstance(event, Passed)]
    if not passed:
        return ""
    rows = (f"{escape(shorten(plain(each.what), 200))} <em>{escape(each.reason)}</em>" for each in passed[-100:])
    title = f"{_count(len(passed), 'idea')} passed over before anything was judged"
    return f"<details><summary>{title}</summary>{bullets(rows)}</details>"


def run_choices(found: Sequence[Sight]) -> list[tuple[str, str]]:
    """Runs as a list shows them, in plain text on three lines, and the name of each."""
    choices = []
    for sight in found:
        status, manifest = sight.status, sight.manifest
        assert status is not None
        reached = _arrow(status.start_accuracy, status.pool_accuracy)
        audit = f" · audit {share(status.audit['accuracy'], status.audit['interval'])}" if status.audit else ""
        who = f"{manifest.get('data_name')} · {manifest.get('judge')} · {manifest.get('orchestrator')}"
        lines = [
            f"{plain(sight.name)}",
            f"{STATES[sight.state][0]} · {status.kept} of {status.tried} kept · pool {reached}{audit}",
            shorten(plain(who), 120, placeholder=" …"),
        ]
        choices.append(("\n".join(lines), sight.name))
    return choices


def no_runs(*, local: bool) -> str:
    """What stands in the place of the list when there are none."""
    if not local:
        return block(paragraph("Runs of others are not shown.", "faint"))
    text = "Runs that are begun here, or with rh evolve, will be listed."
    return block(callout("empty", "There are no runs yet", paragraph(text)))


def report(found: Mapping[str, Any] | None, place: str = "") -> str:
    """What came of a run, on the audit first.

    Args:
        found: The report; None while there is none.
        place: The folder of the evolved Library, for people at this computer.
    """
    if found is None:
        text = "When the search ends, the final Library is judged on examples that nothing was decided on."
        return block(callout("empty", "The audit comes at the end", paragraph(text)))
    audit, pool = found["audit"], found["pool"]
    rows = [
        ["Audit: final Library", *_score(audit["final"]), ""],
        ["Audit: starting Library", *_score(audit["start"]), _against(audit["final_against_start"])],
        *(
            [["Audit: no Library", *_score(audit["empty"]), _against(audit["final_against_empty"])]]
            if audit["empty"]["n"]
            else []
        ),
        *_ensemble(audit),
        ["Pool: final Library", *_score(pool["final"]), "edits were chosen on these: expect less on others"],
        ["Pool: starting Library", *_score(pool["start"]), ""],
    ]
    rows = [[escape(cell) for cell in row] for row in rows]
    head = ["Examples and Library", "Judged", "Agrees with the label [95 %]", "The final Library against it"]
    kinds = _sides(found["by_category"])
    by_kind = f"<details><summary>By kind of edit, on the audit</summary>{_kinds(kinds)}</details>" if kinds else ""
    by_fault = f"<h4>Regression set</h4>{_kinds(_sides(regression_rows(found)))}" if regression_rows(found) else ""
    lies = f"<p>The evolved Library: <code>{escape(place)}</code></p>" if place else ""
    return block(
        f"<p><strong>{escape(headline(found))}</strong></p>{table(head, rows, 'cards audit')}"
        f"{paragraph(left_out(found))}"
        f"<p>The search ended because {escape(str(found['ending']))}. {escape(_spent(found))}</p>"
        f"{lies}{by_fault}{by_kind}"
    )


def _sides(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of examples: how many were judged, and the accuracy with both Libraries."""
    return [
        [
            str(each["name"]),
            f"{each['final']['judged']} of {each['final']['n']}",
            *(share(each[side]["accuracy"], each[side]["interval"]) for side in ("start", "final")),
        ]
        for each in groups
    ]


def _kinds(rows: Sequence[Sequence[str]]) -> str:
    cells = [[escape(cell) for cell in row] for row in rows]
    return table(["Examples", "Judged", "Starting Library [95 %]", "Final Library [95 %]"], cells, "plain")


def _score(score: Mapping[str, Any]) -> list[str]:
    return [f"{score['judged']} of {score['n']}", share(score["accuracy"], score["interval"])]


def _against(test: Mapping[str, Any]) -> str:
    if not test["n"]:
        return "nothing to compare"
    if test["p"] is None:
        return "no example differs"
    return f"{test['fixes']} better, {test['breaks']} worse, exact p {test['p']:.2g}"


def _ensemble(audit: Mapping[str, Any]) -> list[list[str]]:
    ensemble = audit["ensemble"]
    if "skipped" in ensemble:
        return []
    name = f"Audit: starting Library, asked {ensemble['samples']} times"
    return [[name, *_score(ensemble), _against(audit["final_against_ensemble"])]]


def _spent(found: Mapping[str, Any]) -> str:
    spent = found["spent"]
    calls = spent["judge"]["calls"] + spent["orchestrator"]["calls"]
    tokens = sum(spent[who][kind] for who in ("judge", "orchestrator") for kind in ("input_tokens", "output_tokens"))
    parts = [f"{spent['judgments']:,} judgments", duration(spent["seconds"])]
    parts += [f"{calls:,} requests", f"{tokens:,} tokens"] if calls else ["no model was asked"]
    if calls and spent["money"] is not None:
        parts.append(f"${spent['money']:.2f}")
    return f"It took {', '.join(parts)}."


def compared(rows: Sequence[Mapping[str, Any]], *, comparable: bool) -> str:
    """What came of several runs, side by side."""
    cells = [
        [
            str(row["name"]),
            f"{row['schedule']}; {row['judge']}; {row['orchestrator']}",
            f"{row['kept']} of {row['tried']}",
            f"{row['judgments']:,}",
            share(row["start"]["accuracy"], row["start"]["interval"]),
            share(row["final"]["accuracy"], row["final"]["interval"]),
            "–" if row["p"] is None else f"{row['p']:.2g}",
        ]
        for row in rows
    ]
    head = ["Run", "How", "Kept", "Judgments", "Audit before", "Audit after", "p"]
    warning = "They put different examples aside for the audit, so their accuracies do not compare."
    cells = [[escape(cell) for cell in row] for row in cells]
    return block(table(head, cells, "cards compared") + ("" if comparable else callout("warning", warning)))


def corrected(file: Path, *, changed: bool) -> str:
    """What became of a label that a person looked at."""
    title = "Noted: the label was wrong" if changed else "Noted: the label is right"
    text = "The data stay as they are. The next run on these data uses it, unless you say otherwise:"
    return block(callout("note good", title, paragraph(text), f"<p><code>{escape(str(file))}</code></p>"))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or one + 's'}"

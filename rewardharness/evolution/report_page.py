"""The report of an evolution as sections, and as one page of HTML."""

from collections.abc import Iterable, Sequence

from rewardharness.data.source import describe_skipped
from rewardharness.evolution.diagnosis import cause_lines, diagnose
from rewardharness.evolution.held_out import HeldOutComparison, Score
from rewardharness.evolution.plan import GroupScore
from rewardharness.evolution.progress import ended
from rewardharness.evolution.report import NOTE, CurvePoint, EditReport, EvolutionReport, Puzzle
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.report import wilson
from rewardharness.report import Block, Mark, Report, Section, Steps, Table, Text
from rewardharness.report_html import render_html

PAGE = "report.html"

DETECTABLE = 0.05
"""P-value up to which a difference between two Libraries is called one."""


def report_page(report: EvolutionReport) -> str:
    """Return the report as an HTML page."""
    title = f"Evolution on {report.run.data_name}: {_share(report.audit.final)}"
    return render_html(report_sections(report), title)


def report_sections(report: EvolutionReport) -> Report:
    """Return the report as sections."""
    lost, puzzles = report.regression, _puzzles(report.puzzles)
    regression = _groups([*lost.kinds, GroupScore("all", lost.start, lost.final)]) if lost.n else ()
    return Report(
        f"Evolution on {report.run.data_name}",
        (
            Section("summary", "", _summary(report)),
            Section("diagnosis", "Why nothing was gained, and what to do", _diagnosis(report)),
            Section("accuracy", "Accuracy", _accuracies(report)),
            Section("curve", "Accuracy during the search", _curve(report.curve), detail=True),
            Section("categories", "By kind of edit (test set)", _groups(report.by_category)),
            Section("label_kinds", "By kind of label (test set)", _groups(report.by_label_kind), detail=True),
            Section("regression", "Regression set", regression),
            Section("edits", "Edits", _edits(report.edits), "No edit was tested.", detail=True),
            Section("cost", "Cost", (_spending(report),)),
            Section("puzzles", "Examples that no version judged correctly", puzzles, detail=True),
        ),
    )


def headline(report: EvolutionReport) -> str:
    """Return the result of a run on held-out examples in one sentence."""
    held_out, library, lost = report.audit, report.library, report.regression
    final, start, test = held_out.final, held_out.start, held_out.final_against_start
    if not held_out.n:
        return "No examples were held out, so the accuracy on other examples is unknown."
    if final.accuracy is None:
        return f"None of the {held_out.n} held-out examples was judged."
    judged = sorted({start.judged, final.judged})
    n = str(held_out.n) if judged == [held_out.n] else f"{' and '.join(map(str, judged))} of {held_out.n} judged"
    if start.accuracy is None:
        return f"{final.accuracy:.0%} on held-out examples (n {n}); with the starting Library none was judged."
    if library.tried_id == library.start_id:
        figures = f"({start.accuracy:.0%} on held-out examples, n {n})"
        if report.proposed:
            return f"No edit was accepted: the Library is unchanged {figures}."
        return f"No edit was proposed, and the Library is unchanged {figures}. {ended(report.ending)}"
    p = 1.0 if test.p is None else test.p
    bounds = f"95% CI {final.interval[0]:.0%} to {final.interval[1]:.0%}, " if final.interval else ""
    figures = f"({start.accuracy:.0%} → {final.accuracy:.0%}, {bounds}n {n}, McNemar p {p:.2g})"
    change = "No detectable change" if p > DETECTABLE else "Higher" if test.fixes > test.breaks else "Lower"
    result = f"{change} on held-out examples {figures}"
    if library.final_id == library.tried_id:
        return f"{result}."
    why = "breaks more held-out examples than it fixes"
    if lost.lost:
        before, after = lost.start.accuracy or 0.0, lost.final.accuracy or 0.0
        why = f"loses on the regression set ({before:.0%} → {after:.0%}, n {lost.n})"
    return f"{result}. The evolved Library {why}, so the result is the starting Library; see library-tried."


def _summary(report: EvolutionReport) -> tuple[Text, ...]:
    run = report.run
    identity = JudgeIdentity(run.judge, run.judge_revision, run.protocol, report.library.final_id)
    skipped = f"; proposals skipped: {report.passed_over}" if report.passed_over else ""
    about = (
        f"{identity}. Orchestrator {run.orchestrator}. Schedule {run.schedule['name']}, seed {run.seed}. "
        f"{report.accepted} of {len(report.edits)} tested edits accepted{skipped}. "
        f"{ended(report.ending)}"
    )
    return Text((headline(report),), "headline"), Text((about,))


def _diagnosis(report: EvolutionReport) -> tuple[Text, ...]:
    lines = cause_lines(diagnose(report))
    return (Text(tuple(lines), "list"),) if lines else ()


def _accuracies(report: EvolutionReport) -> tuple[Block, ...]:
    """Return the table of accuracies, the held-out test set first, and notes."""
    held_out, training, sampled = report.audit, report.pool, report.audit.ensemble
    rows = [
        ("Test set: final Library", held_out.final, ""),
        ("Test set: starting Library", held_out.start, _against(held_out.final_against_start)),
    ]
    if held_out.empty.n:
        rows.append(("Test set: no Library", held_out.empty, _against(held_out.final_against_empty)))
    if sampled.score is not None:
        library = f"Test set: starting Library, {sampled.samples} samples per question"
        rows.append((library, sampled.score, _against(held_out.final_against_ensemble or None)))
    for name, judge in (held_out.by_judge or {}).items():
        rows.append((f"Test set, {name}: final Library", judge.final, ""))
        rows.append((f"Test set, {name}: starting Library", judge.start, _against(judge.final_against_start)))
    rows += [("Training: final Library", training.final, NOTE), ("Training: starting Library", training.start, "")]
    cells = tuple((name, f"{score.judged} of {score.n}", _share(score), note) for name, score, note in rows)
    notes = [f"Self-ensembling: {sampled.skipped}."] if sampled.skipped else []
    if skipped := describe_skipped(report.skipped_rows):
        notes.append(f"Neither in the training examples nor in the test set: {skipped}")
    if people := report.people:
        interval = wilson(people.share * people.n, people.n)
        bounds = f"95% CI {interval.low:.0%} to {interval.high:.0%}, n {people.n}" if interval else f"n {people.n}"
        notes.append(
            f"People agree with each other on {people.share:.0%} ({bounds}) of the edits that several voted on: no "
            "judge can be expected to agree with them more."
        )
    head = ("Examples and Library", "Judged", "Accuracy [95% CI]", "Final Library against it")
    return (Table(head, cells, kind="audit"), *((Text(tuple(notes)),) if notes else ()))


def _curve(points: Sequence[CurvePoint]) -> tuple[Steps, ...]:
    """Return accuracy on the training examples against judgments; a dot is a new version of the Library."""
    steps = tuple((point.judgments, point.accuracy) for point in points if point.accuracy is not None)
    if len(steps) < 2:
        return ()
    versions = [None, *(point.version for point in points if point.accuracy is not None)]
    marks = frozenset(number for number in range(len(steps)) if versions[number] != versions[number + 1])
    title = "Accuracy on the training examples against judgments"
    return (Steps(title, "judgments", steps, marks, "Accuracy on the training examples; a dot is an accepted edit."),)


def _groups(groups: Iterable[GroupScore]) -> tuple[Table, ...]:
    rows = tuple(
        (group.name, f"{group.final.judged} of {group.final.n}", _share(group.start), _share(group.final))
        for group in groups
    )
    head = ("Examples", "Judged", "Starting Library [95% CI]", "Final Library [95% CI]")
    return (Table(head, rows),) if rows else ()


def _edits(edits: Sequence[EditReport]) -> tuple[Table, ...]:
    rows = []
    for edit in edits:
        evidence = edit.evidence
        p = "" if evidence.p_value is None else f", p {evidence.p_value:.2g}"
        counts = f"{evidence.fixes} fixed, {evidence.breaks} broken, {evidence.ties} unchanged{p}"
        if evidence.gain is not None and evidence.interval:
            gain, low, high = (100 * share for share in (evidence.gain, *evidence.interval))
            counts += f"; gain {gain:+.1f} points [{low:+.1f}, {high:+.1f}]"
        lines = [f"{counts}; {evidence.affected} examples affected, {evidence.calls} judged"]
        for name, ids in (("cites", edit.cited), ("fixed", evidence.fixed), ("broken", evidence.broken)):
            lines += [f"{name}: {', '.join(ids)}"] if ids else []
        mark = Mark("accepted" if edit.accepted else "rejected", edit.accepted)
        name, reason = f"{edit.operator} {', '.join(edit.names)}", f"{edit.statement}\n{evidence.reason}"
        rows.append((name, mark, reason, "\n".join(lines)))
    return (Table(("Edit", "Decision", "Reason", "Evidence"), tuple(rows)),) if rows else ()


def _spending(report: EvolutionReport) -> Table:
    spent = report.spent
    both = spent.judge + spent.orchestrator
    rows = [
        ("Judgments of the search", f"{spent.judgments:,}"),
        ("Requests to the model of the judge", f"{spent.judge.calls:,}"),
        ("Requests to the model of the Orchestrator", f"{spent.orchestrator.calls:,}"),
        ("Tokens in / out", f"{both.input_tokens:,} / {both.output_tokens:,}"),
        ("Seconds, without interrupted steps", f"{spent.seconds:,.0f}"),
        ("Money", "unknown (no prices given)" if spent.money is None else f"{spent.money:.4f}"),
    ]
    if spent.remembered is not None:
        rows.append(("Judgments from the cache", f"{spent.remembered:,}"))
    return Table(("Item", "Amount"), tuple(rows))


def _puzzles(puzzles: Sequence[Puzzle]) -> tuple[Block, ...]:
    rows = tuple((puzzle.id, puzzle.instruction, str(puzzle.label), str(puzzle.versions)) for puzzle in puzzles)
    table = Table(("Example", "Instruction", "Label", "Times judged"), rows)
    return (Text(("Their labels may be wrong.",)), table) if rows else ()


def _share(score: Score) -> str:
    if score.accuracy is None or score.interval is None:
        return "-"
    low, high = score.interval
    return f"{score.accuracy:.1%} [{low:.1%}, {high:.1%}]"


def _against(compared: HeldOutComparison | None) -> str:
    """Return the comparison with the final Library in words."""
    if compared is None:
        return ""
    text = f"{compared.fixes} better, {compared.breaks} worse, p {compared.p or 0:.2g}"
    if compared.p is None:
        text = "no difference" if compared.n else "nothing to compare"
    if compared.gain is None or compared.interval is None:
        return text
    low, high = compared.interval
    return f"{compared.gain:+.1%} [{low:+.1%}, {high:+.1%}]: {text}"

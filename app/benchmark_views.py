"""Puts benchmarks into words for the Benchmark tab: tasks, what one would cost, how it stands. Pure: markup out.

Names of data and Libraries, declarations of tasks and errors are foreign text.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from app.benchmark_runs import Progress
from app.benchmark_services import Listed, sizes
from app.following import MOVING, State
from app.markup import block, bullets, callout, escape, paragraph, plain, preformatted, table
from app.new_benchmark import PLACE, PROTOCOLS_OF_EXAMPLES, VISIT_PAIRS
from rewardharness.benchmark.figures import figure, headline
from rewardharness.benchmark.task import METRICS, PROTOCOLS, Task
from rewardharness.data.opening import DEMO, DEMO_PAIRS, FEEDBACK
from rewardharness.schema import Json

STATES: Mapping[State, tuple[str, str]] = {
    "starting": ("Starting", "The process is starting, and the data are read."),
    "running": ("Running", "It goes on when this page is closed."),
    "stopping": ("Stopping", "It ends after the judgments under way. Nothing is lost."),
    "finished": ("Finished", ""),
    "stopped": ("Stopped", "Somebody asked for an end. It can go on where it stands."),
    "paused": ("Trouble", "It ended with an error. It can go on where it stands."),
    "interrupted": ("Interrupted", "Its process ended without a word. It can go on where it stands."),
    "failed": ("Did not start", "The process ended before anything was judged."),
}
"""What each state is called, and what it means."""

MOST_IN_WORDS = 3
"""Parts of a task of which a sentence can speak."""

_STYLES: Mapping[State, str] = {"paused": "error", "interrupted": "warning", "failed": "error", "finished": "good"}

_OWN: Mapping[str, tuple[str, str, str]] = {
    DEMO: (
        "Demonstration set",
        f"{DEMO_PAIRS} pairs drawn by this program; one of the two has a known flaw. Good for a first try; it says "
        "little about real edits.",
        f"{DEMO_PAIRS} pairs · drawn here on first use",
    ),
    FEEDBACK: (
        "My feedback",
        "The comparisons that you answered on the Score tab. The labels are yours.",
        "what you have answered",
    ),
    PLACE: (
        "Data of my own",
        "A folder, a table, a task file (.yaml) or a dataset on the Hub, with labels. Columns are recognised.",
        "any n · typed below",
    ),
}
"""What is offered beside the tasks that come with the package: name, what it is, and how much."""


def introduction(*, local: bool) -> str:
    """What the tab is for."""
    text = (
        "How often does a judge agree with people? Judge a task that people have labelled, with and without a Library, "
        "and read every number with its n, its interval, and what guessing gets."
    )
    limits = (
        f"<p>Here you can judge up to {VISIT_PAIRS} pairs of the demonstration set, by measuring alone. On your own "
        "computer: any task, any judge, no limit.</p>"
    )
    return block(f'<p class="faint">{escape(text)}</p>{"" if local else limits}')


def task_choices(tasks: Sequence[Task], *, local: bool) -> list[tuple[str, str]]:
    """What can be judged, as a list shows it in plain text on three lines, and the name of each."""
    names = (DEMO, FEEDBACK, PLACE) if local else (DEMO,)
    own = [("\n".join(map(plain, _OWN[name])), name) for name in names]
    if not local:
        return own
    return [*own, *(("\n".join(_lines(task)), task.name) for task in tasks)]


def _lines(task: Task) -> list[str]:
    data = "your own copy" if not task.data.hub else "gated" if "gated" in task.access else "from the Hub"
    facts = [_counts(task), f"protocol {task.protocols[0]}", data]
    return [plain(task.title), plain(task.about), " · ".join(each for each in facts if each)]


def _counts(task: Task) -> str:
    known = {part.name: numbers for part in task.parts if (numbers := sizes(task).get(part.name))}
    if not known:
        return ""
    if len(known) == 1 and len(task.parts) == 1:
        return f"n {_n(next(iter(known.values())))}"
    return "n " + ", ".join(f"{_n(numbers)} ({name})" for name, numbers in known.items())


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
    where = f"<code>{escape(task.data.hub)}</code> on the Hub" if task.data.hub else "A copy on this computer"
    pinned = f", revision <code>{escape(task.data.revision[:12])}</code>" if task.data.revision else ""
    licence = f"Licence: {task.license}" if task.license else ""
    facts = [f"Data: {where}{pinned}", escape(task.paper), escape(licence)]
    access = callout("note", "How to get the data", paragraph(task.access)) if task.access else ""
    notes = bullets(map(escape, task.notes))
    folded = f"<details><summary>Where to be careful</summary>{notes}</details>" if notes else ""
    return block(
        f"<h3>{escape(task.title)}</h3>{paragraph(task.about)}{access}"
        f"{table(['Part', 'n in published tables', 'Labels'], parts, 'plain')}"
        f"{bullets([each for each in facts if each])}{_definitions(task)}{folded}"
    )


def _definitions(task: Task | None) -> str:
    """What the words for protocols and metrics mean."""
    protocols = task.protocols if task else PROTOCOLS_OF_EXAMPLES
    metrics = task.metrics if task else ("exact", "forced")
    rows = [[f"<code>{escape(name)}</code>", escape(PROTOCOLS[name])] for name in protocols]
    counted = [[f"<code>{escape(name)}</code>", escape(METRICS[name])] for name in metrics]
    return (
        f"<details><summary>Protocols and what is counted</summary>{table(['Protocol', ''], rows, 'plain')}"
        f"{table(['Counted', ''], counted, 'plain')}</details>"
    )


def cost_hint() -> str:
    """What stands in the place of the cost before it was asked for."""
    return block(paragraph("Nothing is spent before you have seen what to expect.", "faint"))


def counting() -> str:
    """What stands there while the cost is worked out."""
    text = "The data are read for this. They may have to be fetched or drawn first, which takes a while."
    return block(callout("empty busy", "Working out what to expect…", paragraph(text)))


def expected(told: Mapping[str, Any]) -> str:
    """What a benchmark would cost.

    Args:
        told: As `rh benchmark --dry-run --json` says it.
    """
    who = "; ".join(f"{each['name']}, {each['library']}" for each in told["contenders"])
    drawn = told["sampled"]
    sample = f", a stratified sample of {drawn[0]:,} of {drawn[1]:,}" if drawn else ""
    counting = ", ".join(f"{part} {n:,}" for part, n in told["counting"].items())
    left = told["judgments"] - told["known"]
    lines = [
        f"{_count(told['items'], 'example')} to judge{sample}; labels that count: {counting or 'none'}",
        f"{_count(len(told['contenders']), 'row')} in the table: {who}",
        f"{_count(left, 'judgment')}" + (f"; {told['known']:,} are there already" if told["known"] else ""),
    ]
    if bad := told.get("skipped_rows", {"n": 0})["n"]:
        lines.append(f"{_count(bad, 'bad row')} of the data skipped, and counted as not judged")
    if told["requests"]:
        asked = _count(told["requests"], "request")
        lines.append(f"at least {asked} to a model; Tools come on top, remembered answers are free")
    else:
        lines.append("No model is asked: it costs time alone.")
    odd = [f"{each['code']}: {each['message']} ({each['n']:,})" for each in told["problems"]]
    title = f"{_count(len(odd), 'remark')} on the data"
    problems = f"<details><summary>{title}</summary>{bullets(map(escape, odd))}</details>" if odd else ""
    title = "What to expect" if left else "This is judged already: Start only counts it again"
    return block(callout("note good", title, bullets(map(escape, lines)), problems))


def no_run(*, local: bool) -> str:
    """What stands in the place of a run before one is shown."""
    where = "one of the earlier benchmarks" if local else "your run, if you began one in this browser"
    text = f"See what a benchmark costs and start it, or open {where}. Its table will stand here."
    return block(callout("empty", "No benchmark is shown", paragraph(text)))


def standing(progress: Progress) -> str:
    """How a benchmark stands, and how far it has come."""
    name, meaning = STATES[progress.state]
    busy = "busy" if progress.state in MOVING else _STYLES.get(progress.state, "")
    title = progress.manifest.get("task") or progress.name
    head = f'<h3 class="state">{escape(str(title))} <span class="pill {busy}">{escape(name)}</span></h3>'
    parts = [paragraph(progress.who), paragraph(meaning), _meter(progress)]
    if progress.reason:
        parts.append(callout("error", progress.reason))
    if progress.trouble is not None:
        error = progress.trouble
        parts.append(callout("error", error.title, paragraph(error.message), paragraph(error.next_step, "remedy")))
    return block(f'<section class="run">{head}{"".join(parts)}</section>')


def _meter(progress: Progress) -> str:
    if not progress.wanted or progress.state == "finished":
        return ""
    said = f"{progress.judged:,} of {progress.wanted:,} judgments"
    if progress.state == "running" and progress.judged >= progress.wanted:
        said += "; the numbers are being counted"
    if progress.seconds_left is not None:
        said += f", about {_time(progress.seconds_left)} left"
    share = 100 * progress.judged / progress.wanted
    return f'{paragraph(said)}<span class="meter"><span style="width:{share:.0f}%"></span></span>'


def _time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def run_choices(found: Sequence[Listed]) -> list[tuple[str, str]]:
    """Runs as a list shows them, in plain text on three lines, and the name of each."""
    choices = []
    for each in found:
        progress = each.progress
        task = each.progress.manifest.get("task")
        first = f"{task} · {progress.name}" if task else progress.name
        state = "Cannot be read" if each.trouble else STATES[progress.state][0]
        counted = progress.wanted and progress.state != "finished"
        done = f"{progress.judged:,} of {progress.wanted:,} judgments" if counted else ""
        lines = [first, " · ".join(part for part in (state, progress.who, done) if part)]
        said = shorten(each.trouble or _numbers(each.row), 150, placeholder=" …")
        choices.append(("\n".join(plain(line) for line in (*lines, said) if line), progress.name))
    return choices


def _numbers(row: Mapping[str, Any]) -> str:
    """The first number of every part that a report has."""
    found: dict[str, str] = {}
    for each in row.get("numbers", ()):
        if each["value"] is not None:
            found.setdefault(each["part"], f"{each['part']} {figure(each)}")
    return "; ".join(found.values())


def no_runs(*, local: bool) -> str:
    """What stands in the place of the list when there are none."""
    text = "Benchmarks that are begun here, or with rh benchmark, will be listed."
    if not local:
        text = "Benchmarks that you begin in this browser will be listed; those of others are not shown."
    return block(callout("empty", "There are no benchmarks yet", paragraph(text)))


def summary(result: Json) -> str:
    """What came of a benchmark, in a sentence; empty where the parts are so many that a table says it better."""
    if not result["rows"] or len(result["parts"]) > MOST_IN_WORDS:
        return ""
    return block(f"<p><strong>{escape(headline(result))}</strong></p>")


def about_run(progress: Progress, command: str) -> str:
    """What a benchmark is about, and how it goes on by hand."""
    manifest = progress.manifest
    if not manifest:
        return block(paragraph("What it is about is known as soon as it has begun.", "faint"))
    drawn = manifest.get("sampled")
    sample = f"{drawn[0]:,} of {drawn[1]:,} pairs or groups, seed {drawn[2]}" if drawn else "all"
    rows = [
        ["Run", f"<code>{escape(progress.name)}</code>"],
        ["Task", escape(f"{manifest.get('task')}, protocol {manifest.get('task_protocol')}")],
        ["Judged", escape(sample)],
        ["Judge", escape(f"{manifest.get('judge_name')}, {manifest.get('judge_protocol')}")],
        ["Library", f"<code>{escape(str(manifest.get('library_id'))[:12])}</code>"],
        ["Data", f"<code>{escape(str(manifest.get('data'))[:12])}</code>"],
    ]
    by_hand = f"<h4>On the command line</h4>{preformatted(command, 'wrap')}" if command else ""
    return block(table(["", ""], rows, "plain") + by_hand)


def _count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"

"""The parts of the Benchmark tab, and how they are connected."""

from typing import Any

import gradio as gr

from app import benchmark_views
from app.services import AppServices
from app.tabs.benchmark import comparing, questions
from app.tabs.benchmark.events import BenchmarkEvents
from app.tabs.benchmark.form import draw_form
from app.tabs.benchmark.view import draw_view
from app.tabs.parts import QUIET, Updates, announced, markup, waiting_at

TO_TAB = """() => {
  if (new URLSearchParams(location.search).has("benchmark")) {
    const tabs = [...document.querySelectorAll("#tabs > .tab-wrapper button:not([tabindex])")];
    const tab = tabs.find((each) => each.textContent.trim() === "Benchmark");
    if (tab) tab.click();
  }
}"""
"""Opens the tab when the address names a benchmark, also where a small screen has it in a menu."""

TO_RUN = "() => document.querySelector('#benchmark-run').scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Brings the run into view; the form above it is long."""

ARROWS = """() => {
  document.addEventListener("keydown", (event) => {
    const place = {ArrowLeft: "benchmark-previous", ArrowRight: "benchmark-next"}[event.key];
    if (!place || !document.activeElement || !document.activeElement.closest("#benchmark-steps")) return;
    event.preventDefault();
    document.querySelector(`button#${place}`).click();
  });
}"""
"""On the buttons that go from question to question, the arrow keys do so too."""

SLOW: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "benchmark", **QUIET}
"""How events behave that start processes."""

LOOK: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "benchmark-look", **QUIET}
"""How events behave that count, read data, or judge a question again."""


def build_benchmark_tab(services: AppServices) -> None:
    """Draw the tab and connect its parts."""
    markup(benchmark_views.introduction(local=services.local), elem_id="benchmark-introduction")
    form = draw_form(services)
    events = BenchmarkEvents(services, form, draw_view(services))
    _connect(events)
    _connect_questions(services, events)
    _connect_comparing(services, events)


def _connect(events: BenchmarkEvents) -> None:
    form, standing, runs = events.form, events.view.standing, events.view.runs
    everything = [*events.outputs]
    quick: dict[str, Any] = {"queue": False, **QUIET}
    begin = form.see.click(events.counting, None, everything, **quick)
    expect = announced(events.counting, events.expect)
    begin.then(expect, form.inputs, everything, trigger_mode="once", **{**SLOW, **waiting_at(form.told)})
    started = form.start.click(
        events.start, [form.promised, standing.browser], everything, trigger_mode="once", **SLOW
    )  # fmt: skip
    started.success(None, None, None, js=TO_RUN, **QUIET)
    standing.timer.tick(
        events.tick, [standing.current, standing.known, standing.browser], everything, trigger_mode="once", **LOOK
    )
    standing.stop.click(events.stop, standing.current, everything, trigger_mode="once", **quick)
    standing.resume.click(
        events.resume, [standing.current, standing.key], everything, trigger_mode="once", **SLOW
    )  # fmt: skip
    opened = runs.choices.input(events.open, [runs.choices, standing.browser], everything, **LOOK)
    opened.then(None, None, None, js=TO_RUN, **QUIET)
    runs.refresh.click(events.list_runs, [standing.current, standing.browser], everything, **QUIET)
    standing.row.input(
        events.choose_row, [standing.current, standing.row], everything, trigger_mode="always_last", **LOOK
    )
    gr.on(None, events.arrive, None, everything, **LOOK)
    # The browser tells what it remembers only when the tab is opened.
    standing.browser.change(events.remember, [standing.browser, standing.current], everything, **LOOK)
    gr.on(None, None, None, None, js=TO_TAB, **QUIET)
    gr.on(None, None, None, None, js=ARROWS, **QUIET)


def _connect_questions(services: AppServices, events: BenchmarkEvents) -> None:
    view, standing = events.view.questions, events.view.standing
    parts = [view.category, view.number, view.position, *view.panel.parts]
    where, chosen = [standing.current, standing.row], [view.kind, view.part, view.category]

    def choose(name: str, row: str, kind: str, part: str, category: str) -> Updates:
        return questions.choose(services.benchmarks, view, name, row, kind, part, category)

    def step(by: int) -> Any:
        def go(name: str, row: str, kind: str, part: str, category: str, number: int) -> Updates:
            return questions.step(services.benchmarks, view, (name, row), (kind, part, category), number + by)

        return go

    for control in chosen:
        control.input(choose, [*where, *chosen], parts, trigger_mode="always_last", **LOOK)
    for button, by in ((view.previous, -1), (view.following, 1)):
        button.click(step(by), [*where, *chosen, view.number], parts, trigger_mode="always_last", **LOOK)


def _connect_comparing(services: AppServices, events: BenchmarkEvents) -> None:
    view = events.view.comparing
    parts = [view.pair, view.compared, view.flips, *view.panel.parts]

    def compare(first: str | None, second: str | None) -> Updates:
        return comparing.compare(services.benchmarks, view, first, second)

    def choose(pair: comparing.Pair | None, question: str | None) -> Updates:
        return comparing.choose(services.benchmarks, view, pair, question)

    view.compare.click(compare, [view.first, view.second], parts, trigger_mode="once", **LOOK)
    view.flips.input(choose, [view.pair, view.flips], parts, trigger_mode="always_last", **LOOK)

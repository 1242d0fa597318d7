"""The parts of the Evolve tab, and how they are connected."""

from typing import Any

import gradio as gr

from app import evolve_views
from app.services import AppServices
from app.tabs.evolve.edits import draw_edits
from app.tabs.evolve.events import EvolveEvents
from app.tabs.evolve.form import draw_form
from app.tabs.evolve.labels import draw_labels
from app.tabs.evolve.runs import draw_runs
from app.tabs.evolve.versions import draw_versions
from app.tabs.evolve.view import RunView
from app.tabs.parts import KEPT, QUIET, announced, markup, waiting_at

TICK = 1.0
"""Seconds between two looks at a run that goes on; each looks for what is new and no further."""

KEPT_IN_BROWSER = "rewardharness-run"
"""Name under which the browser remembers which run was shown. It is no secret, so neither is what it is hidden with."""

IN_ADDRESS = "run"
"""Name of the parameter that names a run in the address of the page."""

TO_TAB = """() => {
  if (new URLSearchParams(location.search).has("run")) {
    const tabs = [...document.querySelectorAll('#tabs button[role="tab"]')];
    const tab = tabs.find((each) => each.textContent.trim() === "Evolve" && each.offsetParent);
    if (tab) tab.click();
  }
}"""
"""Opens the tab when the address names a run."""

TO_RUN = "() => document.querySelector('#evolve-run').scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Brings the run into view; the form above it is long."""

TO_EDIT = """() => {
  const shown = document.querySelector('#evolve-edit');
  if (shown && innerWidth < 760) shown.scrollIntoView({behavior: 'smooth', block: 'start'});
}"""
"""Brings the chosen edit into view where it stands below the list."""


def build_evolve_tab(services: AppServices) -> None:
    """Draw the tab and connect its parts."""
    markup(evolve_views.introduction(local=services.local), elem_id="evolve-introduction")
    form = draw_form(services)
    runs = draw_runs(services)
    view = _draw_view(services)
    events = EvolveEvents(services, form, runs, view)
    _connect(events, at_once=2 if services.local else 1)


def _draw_view(services: AppServices) -> RunView:
    current, known, chosen = (gr.State(value, time_to_live=KEPT) for value in ("", None, ""))
    browser = gr.BrowserState("", storage_key=KEPT_IN_BROWSER, secret=KEPT_IN_BROWSER)
    timer = gr.Timer(TICK, active=False)
    with gr.Column(elem_id="evolve-run"):
        standing = markup(evolve_views.no_run(local=services.local), elem_id="evolve-standing")
        with gr.Row(elem_id="evolve-run-actions"):
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="evolve-stop", size="md", scale=0)
            resume = gr.Button("Go on", variant="primary", visible=False, elem_id="evolve-resume", size="md", scale=0)
        with gr.Row(visible=False) as keys:
            judge_key, other_key = (
                gr.Textbox(
                    "",
                    label=f"Key of the {who}",
                    info="If it asks for one. Keys are not kept with a run.",
                    type="password",
                    max_lines=1,
                    max_length=500,
                    min_width=240,
                    elem_id=f"evolve-resume-{name}",
                    html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
                )
                for who, name in (("judge", "key"), ("Orchestrator", "other-key"))
            )
        told = markup(elem_id="evolve-told")
        with gr.Column(visible=False) as area:
            with gr.Row(equal_height=False, elem_id="evolve-charts"):
                # Not Markdown, which takes from pictures what they need to be scaled; nothing foreign is in these.
                accuracy = gr.HTML(elem_id="evolve-accuracy", js_on_load=None)
                judgments = gr.HTML(elem_id="evolve-judgments", js_on_load=None)
            with gr.Accordion("What this run is about", open=False, elem_classes="slim"):
                about = markup(elem_id="evolve-about")
            with gr.Tabs(elem_id="evolve-tabs"):
                with gr.Tab("Edits"):
                    edits = draw_edits()
                with gr.Tab("Findings"):
                    findings = markup(elem_id="evolve-findings")
                with gr.Tab("Labels to check"):
                    labels = draw_labels(services)
                with gr.Tab("Versions"):
                    versions = draw_versions(services, current)
                with gr.Tab("Report"):
                    report = markup(evolve_views.report(None), elem_id="evolve-report")
                    download = gr.DownloadButton(
                        "Download the report (HTML)", visible=False, elem_id="evolve-download", size="md", scale=0,
                        min_width=240,
                    )  # fmt: skip
    return RunView(
        current, known, chosen, browser, timer, standing, stop, resume, keys, judge_key, other_key, told, area,
        accuracy, judgments, about, edits, findings, labels, versions, report, download,
    )  # fmt: skip


def _connect(events: EvolveEvents, at_once: int) -> None:
    """Connect the parts. `at_once`: events that start processes and are under way at once, at most."""
    form, view, runs = events.form, events.view, events.runs
    everything = [*events.outputs]
    quick: dict[str, Any] = {"queue": False, **QUIET}
    slow: dict[str, Any] = {"concurrency_limit": at_once, "concurrency_id": "evolve", **QUIET}
    begin = form.see.click(events.counting, None, everything, **quick)
    expect = announced(events.counting, events.expect)
    begin.then(expect, form.inputs, everything, trigger_mode="once", **{**slow, **waiting_at(form.told)})
    started = form.start.click(events.start, [form.promised], everything, trigger_mode="once", **slow)
    started.success(None, None, None, js=TO_RUN, **QUIET)
    view.timer.tick(events.tick, [view.current, view.known, view.chosen], everything, trigger_mode="once", **quick)
    view.stop.click(events.stop, view.current, everything, trigger_mode="once", **quick)
    view.resume.click(
        events.resume, [view.current, view.judge_key, view.other_key], everything, trigger_mode="once", **slow
    )
    view.edits.choices.input(events.choose_edit, [view.current, view.edits.choices], everything, **QUIET).then(
        None, None, None, js=TO_EDIT, **QUIET
    )
    view.edits.examples.input(
        events.choose_example, [view.current, view.chosen, view.edits.examples], everything, trigger_mode="always_last",
        concurrency_limit=4, concurrency_id="cases", **QUIET,
    )  # fmt: skip
    opened = runs.choices.input(events.open, runs.choices, everything, **QUIET)
    opened.then(None, None, None, js=TO_RUN, **QUIET)
    runs.refresh.click(events.list_runs, view.current, everything, **QUIET)
    runs.compare.click(events.compare, runs.several, everything, **QUIET)
    _connect_labels(events, everything)
    gr.on(None, events.arrive, None, everything, **QUIET)
    # The browser tells what it remembers only when the tab is opened, and again whenever another run is shown.
    view.browser.change(events.remember, [view.browser, view.current], everything, **QUIET)
    gr.on(None, None, None, None, js=TO_TAB, **QUIET)


def _connect_labels(events: EvolveEvents, everything: list[Any]) -> None:
    view, labels = events.view, events.view.labels
    slow: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "cases", **QUIET}
    labels.choices.input(
        events.choose_label, [view.current, labels.choices], everything, trigger_mode="always_last", **slow
    )
    for preference, button in labels.buttons.items():
        button.click(
            events.correcting(preference), [view.current, labels.choices], everything, trigger_mode="once", **slow
        )

"""The list of runs, and the comparison of some of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import evolve_views
from app.following import Sight
from app.services import AppServices
from app.tabs.parts import Updates, markup

MOST_COMPARED = 6
"""Runs that are compared at once, at most."""


@dataclass(frozen=True)
class Runs:
    """The parts of the list."""

    section: gr.Accordion
    nothing: gr.Markdown
    choices: gr.Radio
    refresh: gr.Button
    comparison: gr.Row
    several: gr.Dropdown
    compare: gr.Button
    compared: gr.Markdown

    @property
    def parts(self) -> list[Any]:
        """All of them."""
        return list(vars(self).values())


def draw_runs(services: AppServices) -> Runs:
    """Draw the list. Strangers see none."""
    local = services.local
    with gr.Accordion("Earlier runs", open=False, elem_classes="slim", visible=local, elem_id="evolve-runs") as section:
        nothing = markup(evolve_views.no_runs(local=local), elem_id="evolve-no-runs")
        choices = gr.Radio([], label="Open a run", visible=False, elem_id="evolve-list", elem_classes="choices")
        refresh = gr.Button("Look again", size="md", scale=0, min_width=140, elem_id="evolve-refresh")
        with gr.Row(equal_height=False, visible=False) as comparison:
            several = gr.Dropdown(
                [], multiselect=True, max_choices=MOST_COMPARED, label="Compare finished runs",
                elem_id="evolve-several", min_width=260,
            )  # fmt: skip
            compare = gr.Button("Compare", size="md", scale=0, min_width=140, elem_id="evolve-compare")
        compared = markup(elem_id="evolve-compared")
    return Runs(section, nothing, choices, refresh, comparison, several, compare, compared)


def listed(runs: Runs, found: Sequence[Sight], current: str) -> Updates:
    """Show the list."""
    choices = evolve_views.run_choices(found)
    names = [name for _, name in choices]
    finished = [sight.name for sight in found if sight.state == "finished"]
    return {
        runs.nothing: gr.Markdown(visible=not choices),
        runs.choices: gr.Radio(choices, value=current if current in names else None, visible=bool(choices)),
        runs.comparison: gr.Row(visible=len(finished) > 1),
        runs.several: gr.Dropdown(finished),
    }

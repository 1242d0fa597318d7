"""Comparison of two rows of benchmarks, of one run or of two."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app import benchmark_case_views as words
from app.benchmark_services import BenchmarkServices
from app.tabs.benchmark.questions import fill
from app.tabs.benchmark.view import Comparing
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.errors import HarnessError, InputError
from rewardharness.schema import Json

ABOUT = "the predictions of both rows"
"""What is shown with the images of a question."""

MAX_FLIPS = 200
"""Maximum number of listed questions."""

Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two rows: name of a run and key of a row, each."""


def begin(services: BenchmarkServices, view: Comparing, names: Sequence[str], answered: Sequence[str]) -> Updates:
    """Show the rows that can be compared.

    Args:
        services: The services.
        view: The widgets.
        names: The runs; the first one is shown.
        answered: Keys of its rows with judgments.
    """
    rows: list[tuple[str, str, str]] = []
    for name in names:
        try:
            rows += [(name, *row) for row in words.rows_of(services.look(name))]
        except HarnessError:
            continue  # the list of runs shows the error
    choices = [(words.row_title(title, name, shown=name == names[0]), f"{name}/{key}") for name, title, key in rows]
    values = [value for _, value in choices]
    other = next((value for value in values[1:] if _row(value)[1] in answered), None)
    return {
        view.first: gr.Dropdown(choices, value=other),
        view.second: gr.Dropdown(choices, value=values[0] if values else None),
        **_nothing(view, words.comparison_hint()),
    }


def compare(services: BenchmarkServices, view: Comparing, first: str | None, second: str | None) -> Updates:
    """Compare two rows."""
    try:
        if not first or not second:
            raise InputError("Two rows are needed.", next_step="Choose a first and a second.")
        pair = _row(first), _row(second)
        comparison = services.compare(*pair)
    except Exception as error:
        return _nothing(view, explain(error))
    return {**_compared(view, comparison), view.pair: pair}


def _compared(view: Comparing, comparison: Json) -> Updates:
    choices = words.flip_choices(comparison)
    left_out = f", first {MAX_FLIPS} shown" if len(choices) > MAX_FLIPS else ""
    label = f"Differences ({len(choices)}{left_out})"
    hint = words.no_flip(ABOUT) if choices else ""
    return {
        view.compared: words.compared(comparison),
        view.flips: gr.Radio(choices[:MAX_FLIPS], value=None, visible=bool(choices), label=label),
        **view.panel.empty(hint),
    }


def _nothing(view: Comparing, text: str) -> Updates:
    return {
        view.compared: text,
        view.pair: None,
        view.flips: gr.Radio([], value=None, visible=False),
        **view.panel.empty(""),
    }


def choose(services: BenchmarkServices, view: Comparing, pair: Pair | None, question: str | None) -> Updates:
    """Show a question on which the two rows differ."""
    try:
        if pair is None or not question:
            return view.panel.empty(words.no_flip(ABOUT))
        return fill(view.panel, services.flip(*pair, question))
    except Exception as error:
        return view.panel.empty(explain(error))


def _row(value: str) -> tuple[str, str]:
    name, _, key = value.rpartition("/")
    return name, key


def connect(services: BenchmarkServices, view: Comparing, how: dict[str, Any]) -> None:
    """Connect the widgets. `how`: options of the events."""
    parts = [view.pair, view.compared, view.flips, *view.panel.parts]

    def run(first: str | None, second: str | None) -> Updates:
        return compare(services, view, first, second)

    def select(pair: Pair | None, question: str | None) -> Updates:
        return choose(services, view, pair, question)

    view.compare.click(run, [view.first, view.second], parts, **how)
    view.flips.input(select, [view.pair, view.flips], parts, **how)

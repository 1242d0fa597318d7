"""Two rows of benchmarks, of one run or of two, question by question."""

from collections.abc import Sequence

import gradio as gr

from app import benchmark_case_views as words
from app.benchmark_services import BenchmarkServices
from app.tabs.benchmark.questions import fill
from app.tabs.benchmark.view import Comparing
from app.tabs.evolve import panel as panels
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.errors import HarnessError, InputError
from rewardharness.schema import Json

ABOUT = "what both rows said to it"
"""What stands beside the pictures of a question."""

MOST_FLIPS = 200
"""Questions on which two rows differ that are listed, at most."""

Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two rows: the name of a run and the key of a row, each."""


def begin(services: BenchmarkServices, view: Comparing, names: Sequence[str], answered: Sequence[str]) -> Updates:
    """Offer the rows that can be compared.

    Args:
        services: The services.
        view: The parts.
        names: The runs; the first is the one that is shown.
        answered: Keys of its rows that have judgments.
    """
    found: list[tuple[str, str, str]] = []
    for name in names:
        try:
            found += [(name, *row) for row in words.rows_of(services.look(name))]
        except HarnessError:
            continue  # it cannot be read; the list of runs says why
    choices = [(words.row_called(said, name, shown=name == names[0]), f"{name}/{key}") for name, said, key in found]
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
        found = services.compare(*pair)
    except Exception as error:
        return _nothing(view, explain(error))
    return {**_compared(view, found), view.pair: pair}


def _compared(view: Comparing, found: Json) -> Updates:
    choices = words.flip_choices(found)
    left_out = f", the first {MOST_FLIPS} here" if len(choices) > MOST_FLIPS else ""
    label = f"What differs ({len(choices)}{left_out})"
    hint = words.no_flip(ABOUT) if choices else ""
    return {
        view.compared: words.compared(found),
        view.flips: gr.Radio(choices[:MOST_FLIPS], value=None, visible=bool(choices), label=label),
        **panels.empty(view.panel, hint),
    }


def _nothing(view: Comparing, said: str) -> Updates:
    return {
        view.compared: said,
        view.pair: None,
        view.flips: gr.Radio([], value=None, visible=False),
        **panels.empty(view.panel, ""),
    }


def choose(services: BenchmarkServices, view: Comparing, pair: Pair | None, question: str | None) -> Updates:
    """Show a question on which the two rows differ."""
    try:
        if pair is None or not question:
            return panels.empty(view.panel, words.no_flip(ABOUT))
        return fill(view.panel, services.flip(*pair, question))
    except Exception as error:
        return panels.empty(view.panel, explain(error))


def _row(value: str) -> tuple[str, str]:
    name, _, key = value.rpartition("/")
    return name, key

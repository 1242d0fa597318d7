"""Single questions of a benchmark, shown one at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from app import benchmark_case_views as words
from app.benchmark_cases import QuestionCase, pictures
from app.benchmark_services import AGAINST, Asked, BenchmarkServices, QuestionFilter
from app.tabs.benchmark.view import Questions
from app.tabs.example_panel import ExamplePanel
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.benchmark.metrics import split

ALL = ""
"""Choice of all parts, and of all kinds of edit. Kinds of edit are prefixed with `=`, because a name may be empty."""


def begin(services: BenchmarkServices, view: Questions, name: str, row: str) -> Updates:
    """Show the most confident wrong answer of a row.

    Args:
        services: The services.
        view: The widgets.
        name: The run.
        row: Key of the row.
    """
    asked = services.asked(name, row)
    if not asked:
        nothing = words.no_question(scores=services.open(name).data["scores"])
        return {view.position: "", **view.panel.empty(nothing)}
    parts = [(part, part) for part in split(asked, lambda item: item.reply.question.part)]
    return {
        view.kind: gr.Dropdown(words.kind_choices(asked), value=AGAINST),
        view.part: gr.Dropdown([("All", ALL), *parts], value=ALL, visible=len(parts) > 1),
        **choose(services, view, name, row, AGAINST, ALL, ALL),
    }


def choose(
    services: BenchmarkServices, view: Questions, name: str, row: str, kind: str, part: str, category: str
) -> Updates:
    """Show the first selected question, and the kinds of edit among the selected ones."""
    within = QuestionFilter(kind, part).pick(services.asked(name, row))
    choices = [(text, f"={name}") for text, name in words.category_choices(within)]
    kept = category if category in [value for _, value in choices] else ALL
    return {
        view.category: gr.Dropdown([(f"All ({len(within)})", ALL), *choices], value=kept),
        **step(services, view, (name, row), (kind, part, kept), 0),
    }


def step(
    services: BenchmarkServices, view: Questions, where: tuple[str, str], chosen: tuple[str, str, str], number: int
) -> Updates:
    """Show one of the selected questions.

    Args:
        services: The services.
        view: The widgets.
        where: The run, and the key of the row.
        chosen: Kind, part and kind of edit.
        number: Its index; after the last follows the first.
    """
    kind, part, category = chosen
    found = QuestionFilter(kind, part, None if category == ALL else category[1:]).pick(services.asked(*where))
    number = number % len(found) if found else 0
    updates: Updates = {view.number: number, view.position: words.position(number, len(found))}
    return {**updates, **_shown(services, view.panel, where, kind, found, number)}


def _shown(
    services: BenchmarkServices,
    panel: ExamplePanel,
    where: tuple[str, str],
    kind: str,
    found: Sequence[Asked],
    number: int,
) -> Updates:
    if not found:
        return panel.empty(words.no_case(kind))
    try:
        return fill(panel, services.case(*where, found[number].reply.question.id))
    except Exception as error:  # the other questions stay usable
        return panel.empty(explain(error))


def fill(panel: ExamplePanel, case: QuestionCase) -> Updates:
    """Show a question.

    Raises:
        HarnessError: If an image cannot be read.
    """
    several = len(case.sides) > 1
    chains = [(side.title if several else "", words.chain(side)) for side in case.sides]
    return panel.fill(words.words(case), pictures(case), chains)


def connect(services: BenchmarkServices, view: Questions, where: list[Any], how: dict[str, Any]) -> None:
    """Connect the widgets.

    Args:
        services: The services.
        view: The widgets.
        where: Widgets with the name of the run and the key of the row.
        how: Options of the events.
    """
    parts = [view.category, view.number, view.position, *view.panel.parts]
    chosen = [view.kind, view.part, view.category]

    def select(name: str, row: str, kind: str, part: str, category: str) -> Updates:
        return choose(services, view, name, row, kind, part, category)

    def move(by: int) -> Callable[..., Updates]:
        def go(name: str, row: str, kind: str, part: str, category: str, number: int) -> Updates:
            return step(services, view, (name, row), (kind, part, category), number + by)

        return go

    for control in chosen:
        control.input(select, [*where, *chosen], parts, **how)
    for button, by in ((view.previous, -1), (view.following, 1)):
        button.click(move(by), [*where, *chosen, view.number], parts, trigger_mode="always_last", **how)

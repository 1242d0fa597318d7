"""Single questions of a benchmark, to be looked at one after the other."""

from collections.abc import Sequence

import gradio as gr

from app import benchmark_case_views as words
from app.benchmark_cases import AskedCase, pictures
from app.benchmark_services import AGAINST, Asked, BenchmarkServices, Wanted
from app.tabs.benchmark.view import Questions
from app.tabs.evolve import panel as panels
from app.tabs.evolve.panel import Panel
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.benchmark.metrics import split

ALL = ""
"""Choice of all parts, and of all kinds of edit. A kind of edit begins with `=`, since its name may be empty."""


def begin(services: BenchmarkServices, view: Questions, name: str, row: str) -> Updates:
    """Show the question on which a row was surest and the label says otherwise.

    Args:
        services: The services.
        view: The parts.
        name: The run.
        row: Key of the row.
    """
    asked = services.asked(name, row)
    if not asked:
        nothing = words.no_question(scores=services.open(name).exam["scores"])
        return {view.position: "", **panels.empty(view.panel, nothing)}
    parts = [(part, part) for part in split(asked, lambda each: each.reply.question.part)]
    return {
        view.kind: gr.Dropdown(words.kind_choices(asked), value=AGAINST),
        view.part: gr.Dropdown([("All", ALL), *parts], value=ALL, visible=len(parts) > 1),
        **choose(services, view, name, row, AGAINST, ALL, ALL),
    }


def choose(
    services: BenchmarkServices, view: Questions, name: str, row: str, kind: str, part: str, category: str
) -> Updates:
    """Show the first of the questions that are chosen; which kinds of edit there are follows from the other choices."""
    within = Wanted(kind, part).pick(services.asked(name, row))
    choices = [(said, f"={each}") for said, each in words.category_choices(within)]
    kept = category if category in [each for _, each in choices] else ALL
    return {
        view.category: gr.Dropdown([(f"All ({len(within)})", ALL), *choices], value=kept),
        **step(services, view, (name, row), (kind, part, kept), 0),
    }


def step(
    services: BenchmarkServices, view: Questions, where: tuple[str, str], chosen: tuple[str, str, str], number: int
) -> Updates:
    """Show one of the questions that are chosen.

    Args:
        services: The services.
        view: The parts.
        where: The run, and the key of the row.
        chosen: Kind, part and kind of edit.
        number: Which of them, from 0; behind the last comes the first.
    """
    kind, part, category = chosen
    found = Wanted(kind, part, None if category == ALL else category[1:]).pick(services.asked(*where))
    number = number % len(found) if found else 0
    updates: Updates = {view.number: number, view.position: words.position(number, len(found))}
    return {**updates, **_shown(services, view.panel, where, kind, found, number)}


def _shown(
    services: BenchmarkServices,
    panel: Panel,
    where: tuple[str, str],
    kind: str,
    found: Sequence[Asked],
    number: int,
) -> Updates:
    if not found:
        return panels.empty(panel, words.no_case(kind))
    try:
        return fill(panel, services.case(*where, found[number].reply.question.id))
    except Exception as error:  # Whatever goes wrong, the other questions can still be looked at.
        return panels.empty(panel, explain(error))


def fill(panel: Panel, case: AskedCase) -> Updates:
    """Show a question.

    Raises:
        HarnessError: If one of its pictures cannot be read.
    """
    updates: Updates = {
        panel.words: words.words(case),
        panel.pictures: gr.Gallery(pictures(case), visible=True, selected_index=None),
    }
    for section, text, side in zip(panel.sections, panel.chains, case.sides, strict=True):
        title = f"How the judge got there · {side.title}" if len(case.sides) > 1 else "How the judge got there"
        updates[section] = gr.Accordion(label=title, visible=True)
        updates[text] = words.chain(side)
    return updates

"""The widgets of a table of results, with what they do: filter, sort, turn pages, open a row, select, export."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import gradio as gr

from app.failures import explaining_at
from app.table.rows import (
    AGREEMENTS,
    ANY,
    EXPORTS,
    MARGINS,
    ORDERS,
    PAGE,
    Judged,
    ResultRow,
    export,
    kind_choices,
    neighbor,
    numbers,
    ordered,
    position,
    rows_table,
    select,
)
from app.viewer.example_views import ExamplePanel, OpenedExample
from app.viewer.results import SMALL, ResultFiles
from app.widgets import QUIET, Updates, Widgets, button, markup, state, textbox
from rewardharness.errors import HarnessError, InputError
from rewardharness.schema import Example

OF_TWO = ("fixed", "broken", "differ")
"""Those of `AGREEMENTS` that are about two judges."""

NO_RUN = ""
"""Choice of no second run."""

CLICK = "() => document.querySelector('#NAME-saved')?.click()"
"""Downloads the file that was written."""

TO_VOTE = """() => {
  const tabs = [...document.querySelectorAll("#tabs > .tab-wrapper button:not([tabindex])")];
  tabs.find((button) => button.textContent.trim() === "Vote")?.click();
}"""
"""Opens the Vote tab."""

TO_EXAMPLE = "() => document.querySelector('#NAME-example')?.scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Scrolls to the opened row, which is above the table."""


@dataclass(frozen=True)
class TablePlace:
    """The results that a table shows."""

    run: str
    column: str = ""
    """Judge of a run that has several; empty for the only one."""
    beside: str = NO_RUN
    """What it is compared with, as one of the choices of the source."""


class TableSource(Protocol):
    """The results of runs, as rows. Raises a `HarnessError` for what cannot be read, or may not be seen."""

    def rows(self, place: TablePlace) -> Sequence[ResultRow]:
        """Return all rows, in the order of the data."""

    def judges(self, place: TablePlace) -> Sequence[str]:
        """Return the titles of the shown judges."""

    def others(self, place: TablePlace) -> list[tuple[str, str]]:
        """Return title and value of what the results can be compared with."""

    def compared(self, place: TablePlace) -> str:
        """Return the comparison with `beside` as markup."""

    def judged(self, place: TablePlace, rows: Sequence[ResultRow]) -> Iterable[Judged]:
        """Return the examples of rows with the judgments of the shown judge."""

    def case(self, place: TablePlace, row: ResultRow) -> OpenedExample:
        """Return a row in detail."""

    def file(self, place: TablePlace, ending: str) -> Path:
        """Return where an export is written."""


class ResultTable(Widgets):
    """A table of results.

    Args:
        name: Prefix of the element ids.
        source: The results.
        results: Serves the images.
        column: Widget with the judge; None where runs have one.
        first: Values of the filters by agreement and of the order at the beginning.
        label: Makes examples the next to vote on for a session, as data with a name; None for no such button.
    """

    def __init__(
        self,
        name: str,
        source: TableSource,
        results: ResultFiles,
        column: Any = None,
        first: tuple[str, str] = ("all", "given"),
        label: Callable[[str, Sequence[Example], str], object] | None = None,
    ) -> None:
        self._name, self._source, self._results, self._first, self._label = name, source, results, first, label
        self.column = column or state("")
        with gr.Column(elem_id=f"{name}-rows", elem_classes="result-table"):
            with gr.Row(elem_id=f"{name}-filters"):
                filters: dict[str, Any] = {"min_width": 150}
                self.agreement = gr.Dropdown([], label="Show", elem_id=f"{name}-show", **filters)
                offered = [(title, key) for key, (title, _) in MARGINS.items()]
                self.margin = gr.Dropdown(offered, value="all", label="Margin", elem_id=f"{name}-margin", **filters)
                self.kind = gr.Dropdown([], label="Kind", elem_id=f"{name}-kind", **filters)
                offered = [(title, key) for key, (title, *_) in ORDERS.items()]
                self.order = gr.Dropdown(offered, value=first[1], label="Order", elem_id=f"{name}-order", **filters)
                self.beside = gr.Dropdown([], label="Compare with", elem_id=f"{name}-beside", visible=False, **filters)
            self.compared = markup(elem_id=f"{name}-compared")
            with gr.Column(visible=False, elem_id=f"{name}-example", elem_classes="opened-example") as self.area:
                with gr.Row(elem_id=f"{name}-steps", elem_classes="example-steps"):
                    self.steps = tuple(
                        button(title, f"{name}-{title.lower()}", min_width=100, elem_classes=f"example-{title.lower()}")
                        for title in ("Previous", "Next")
                    )
                    self.close = button("Close", f"{name}-close", min_width=100)
                    self.position = markup(elem_id=f"{name}-position")
                self.panel = ExamplePanel(results, f"{name}-case", 2)
            self.table = gr.HTML(elem_id=f"{name}-table", js_on_load=None)
            with gr.Row(elem_id=f"{name}-pages", elem_classes="table-pages"):
                self.pagers = tuple(
                    button(title, f"{name}-{key}", interactive=False)
                    for title, key in (("Earlier rows", "before"), ("Later rows", "after"))
                )
                self.all = button("Select all or none", f"{name}-all")
                offered = [(title, ending) for ending, title in EXPORTS.items()]
                self.ending = gr.Dropdown(offered, value="csv", show_label=False, label="Format", container=False,
                                          min_width=160, scale=0, elem_id=f"{name}-format")  # fmt: skip
                self.save = button("Save", f"{name}-save")
                self.again = button("Judge again", f"{name}-again")
                self.vote = button("Label these", f"{name}-label", visible=label is not None)
                self.saved = gr.DownloadButton("Saved", visible="hidden", elem_id=f"{name}-saved")
            self.message = markup(elem_id=f"{name}-told-table")
            self.selected = textbox("Selected rows", f"{name}-selected", "[]", visible="hidden", max_length=200_000,
                                    elem_classes="table-selected")  # fmt: skip
            self.opened = textbox("Opened row", f"{name}-opened", visible="hidden", elem_classes="table-opened")
        self.page = state(0)

    @property
    def inputs(self) -> list[Any]:
        """Widgets whose values the methods take after the name of the run."""
        chosen = [self.column, self.beside, self.agreement, self.margin, self.kind, self.order]
        return [*chosen, self.page, self.selected, self.opened]

    def begin(self, place: TablePlace) -> Updates:
        """Show results from the beginning."""
        rows, others = self._source.rows(place), self._source.others(place)
        agreement, order = self._first
        if not select(rows, agreement):
            agreement = "all"
        offered = [("Nothing", NO_RUN), *others]
        return {
            self.beside: gr.Dropdown(offered, value=place.beside, visible=bool(others)),
            self.margin: "all",
            self.order: order,
            self.selected: "[]",
            **self._closed(),
            **self._offered(place, rows, agreement),
            **self._drawn(place, ordered(select(rows, agreement), order), 0, set()),
        }

    def _offered(self, place: TablePlace, rows: Sequence[ResultRow], agreement: str, kind: str = ANY) -> Updates:
        """Offer the choices by agreement and kind, with counts, and keep what is chosen."""
        offered = [key for key in AGREEMENTS if place.beside or key not in OF_TWO]
        titles = [(f"{AGREEMENTS[key][0]} ({len(select(rows, key)):,})", key) for key in offered]
        return {
            self.compared: self._source.compared(place) if place.beside else "",
            self.agreement: gr.Dropdown(titles, value=agreement),
            self.kind: gr.Dropdown(kind_choices(rows), value=kind),
        }

    def _drawn(self, place: TablePlace, rows: Sequence[ResultRow], page: int, selected: set[int]) -> Updates:
        last = max(0, (len(rows) - 1) // PAGE)
        page = min(max(0, page), last)
        shown, pictures = rows[page * PAGE : (page + 1) * PAGE], dict[int, list[tuple[str, str]]]()
        try:
            for row, (example, _) in zip(shown, self._source.judged(place, shown), strict=True):
                pictures[row.number] = self._results.pictures(example, SMALL)
        except HarnessError:  # the data were removed; the answers are still there
            pictures.clear()
        return {
            self.page: page,
            self.table: rows_table(rows, page, pictures, self._source.judges(place), selected),
            self.pagers[0]: gr.Button(interactive=page > 0),
            self.pagers[1]: gr.Button(interactive=page < last),
        }

    def _closed(self) -> Updates:
        return {self.area: gr.Column(visible=False), self.opened: "", self.message: "", **self.panel.empty("")}

    def _chosen(self, values: Sequence[Any]) -> tuple[TablePlace, list[ResultRow], int, set[int]]:
        """Return the shown results, the rows that fit the filters, the page, and the selected rows."""
        run, column, beside, agreement, margin, kind, order, page, selected, _ = values
        if not run:
            raise InputError("No run is shown.", next_step="Open one.")
        place = TablePlace(run, column or "", beside or NO_RUN)
        rows = select(self._source.rows(place), agreement or "all", margin or "all", kind or ANY)
        return place, ordered(rows, order or "given"), int(page or 0), numbers(selected)

    @explaining_at("message")
    def turn(self, step: int, *values: Any) -> Updates:
        """Show another page: `step` further, or the first one for 0."""
        place, rows, page, selected = self._chosen(values)
        return {self.message: "", **self._drawn(place, rows, page + step if step else 0, selected)}

    @explaining_at("message")
    def refresh(self, *values: Any) -> Updates:
        """Show the page with the rows that have come since."""
        place, rows, page, selected = self._chosen(values)
        offered = self._offered(place, self._source.rows(place), values[3] or "all", values[5] or ANY)
        return {**offered, **self._drawn(place, rows, page, selected)}

    @explaining_at("message")
    def compare(self, *values: Any) -> Updates:
        """Show the answers of another judge as a second column."""
        if not values[2] and values[3] in OF_TWO:
            values = (*values[:3], "all", *values[4:])
        place, rows, _, selected = self._chosen(values)
        offered = self._offered(place, self._source.rows(place), values[3] or "all", values[5] or ANY)
        return {**self._closed(), **offered, **self._drawn(place, rows, 0, selected)}

    @explaining_at("panel")
    def open(self, step: int, *values: Any) -> Updates:
        """Show the opened row, or the one that is `step` rows from it."""
        place, rows, page, selected = self._chosen(values)
        opened = str(values[-1] or "")
        at = neighbor(rows, int(opened) if opened.isdecimal() else -1, step)
        if at < 0:
            return self._closed()
        row, turned = rows[at], at // PAGE
        return {
            self.area: gr.Column(visible=True),
            self.opened: str(row.number),
            self.position: position(at, len(rows)),
            **self.panel.show(self._source.case(place, row)),
            **(self._drawn(place, rows, turned, selected) if turned != page else {}),
        }

    @explaining_at("message")
    def select_all(self, *values: Any) -> Updates:
        """Select all rows that fit the filters; none if they are selected."""
        place, rows, page, selected = self._chosen(values)
        matches = {row.number for row in rows}
        chosen = set[int]() if matches <= selected else matches
        return {self.selected: str(sorted(chosen)), self.message: "", **self._drawn(place, rows, page, chosen)}

    def _picked(self, values: Sequence[Any]) -> tuple[TablePlace, Iterable[Judged]]:
        """Return the examples of the selected rows, or of all that fit the filters."""
        place, rows, _, selected = self._chosen(values)
        rows = [row for row in self._source.rows(place) if row.number in selected] if selected else rows
        return place, self._source.judged(place, rows)

    def _write(self, ending: str, values: Sequence[Any]) -> Path:
        place, judged = self._picked(values)
        return export(self._source.file(place, ending), judged)

    @explaining_at("message")
    def write(self, ending: str, *values: Any) -> Updates:
        """Write a file for download."""
        return {self.saved: gr.DownloadButton(value=self._write(ending, values)), self.message: ""}

    @explaining_at("message")
    def judge_again(self, take: Callable[[Path], Updates], *values: Any) -> Updates:
        """Put the examples into the form of a new run. `take`: fills it."""
        return {self.message: "", **take(self._write("zip", values))}

    @explaining_at("message")
    def label(self, request: gr.Request, *values: Any) -> Updates:
        """Send the examples to the Vote tab."""
        assert self._label is not None
        place, judged = self._picked(values)
        self._label(request.session_hash or "", [example for example, _ in judged], place.run)
        return {self.message: ""}

    def connect(
        self, run: gr.State, outputs: Sequence[Any], take: Callable[[Path], Updates], options: dict[str, Any]
    ) -> None:
        """Connect the widgets.

        Args:
            run: Name of the shown run.
            outputs: What `take` may change, and the parts of the table.
            take: Puts an archive of examples into the form of a new run.
            options: Options of the events.
        """
        inputs, own = [run, *self.inputs], self.parts
        scroll = partial(_script, TO_EXAMPLE, self._name)
        for chosen in (self.agreement, self.margin, self.kind, self.order):
            chosen.input(partial(self.turn, 0), inputs, own, **options)
        for pager, step in zip(self.pagers, (-1, 1), strict=True):
            pager.click(partial(self.turn, step), inputs, own, **options)
        self.beside.input(self.compare, inputs, own, **options)
        self.opened.submit(partial(self.open, 0), inputs, own, trigger_mode="always_last", **options).then(**scroll())
        for control, step in zip(self.steps, (-1, 1), strict=True):
            control.click(partial(self.open, step), inputs, own, trigger_mode="always_last", **options)
        self.close.click(self._closed, None, own, **options)
        # The opened row is part of the address, and an address opens its row once the table is there.
        self.opened.change(None, self.opened, None, js="row => window.rhPlace.put('example', row)", **QUIET)
        self.table.change(None, None, None, js=f"() => window.rhPlace.example('{self._name}')", **QUIET)
        self.all.click(self.select_all, inputs, own, **options)
        saved = self.save.click(self.write, [self.ending, *inputs], own, **options)
        saved.success(**_script(CLICK, self._name))
        self.again.click(partial(self.judge_again, take), inputs, outputs, **options)
        self.vote.click(self.label, inputs, own, **options).success(**_script(TO_VOTE, self._name))


def _script(script: str, name: str) -> dict[str, Any]:
    return {"fn": None, "inputs": None, "outputs": None, "js": script.replace("NAME", name), **QUIET}

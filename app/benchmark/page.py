"""Widgets that show a benchmark, with what they do: its numbers, single questions, and the comparison of two rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gradio as gr

from app.benchmark import case_views as words
from app.benchmark import views
from app.benchmark.form import BenchmarkForm
from app.benchmark.runs import BenchmarkStatus, OpenedBenchmark, QuestionCase, pictures
from app.benchmark.service import AGAINST, AskedQuestion, BenchmarkServices, QuestionFilter
from app.failures import explain, explaining_at
from app.markup import plain
from app.run_panel.events import Known, RunEvents
from app.run_panel.following import MOVING
from app.run_panel.page import RunPanel
from app.services import AppServices
from app.viewer.example_views import ExamplePanel
from app.widgets import QUIET, Updates, Widgets, button, choices, markup, section, state
from rewardharness.benchmark.metrics import split
from rewardharness.benchmark.result import BenchmarkResult
from rewardharness.errors import HarnessError, InputError

ALL = ""
"""Choice of all parts, and of all kinds of edit. Kinds of edit are prefixed with `=`, because a name may be empty."""

ABOUT = "the predictions of both rows"
"""What is shown with the images of a question on which two rows differ."""

MAX_FLIPS = 200
"""Maximum number of listed questions."""

Row = tuple[str, str]
"""Name of a run and key of a row."""


class Questions(Widgets):
    """Single questions, shown one at a time."""

    def __init__(self, services: BenchmarkServices) -> None:
        self.services = services
        with gr.Row(elem_id="benchmark-filters"):
            self.kind = gr.Dropdown([], label="Show", min_width=200, elem_id="benchmark-kind")
            self.part = gr.Dropdown([], label="Part", min_width=150, visible=False, elem_id="benchmark-part")
            self.category = gr.Dropdown([], label="Kind of edit", min_width=150, elem_id="benchmark-category")
        with gr.Row(elem_id="benchmark-steps"):
            self.previous = button("Previous", "benchmark-previous", min_width=110)
            self.following = button("Next", "benchmark-next", min_width=110)
            self.position = markup(elem_id="benchmark-position")
        self.panel = ExamplePanel("benchmark-case", 1)
        self.number = state(0)  # index of the shown question

    def begin(self, name: str, row: str) -> Updates:
        """Show the most confident wrong answer of a row. `row`: its key."""
        asked = self.services.asked(name, row)
        if not asked:
            nothing = words.no_question(scores=self.services.open(name).data.scores)
            return {self.position: "", **self.panel.empty(nothing)}
        parts = [(part, part) for part in split(asked, lambda item: item.reply.question.part)]
        return {
            self.kind: gr.Dropdown(words.kind_choices(asked), value=AGAINST),
            self.part: gr.Dropdown([("All", ALL), *parts], value=ALL, visible=len(parts) > 1),
            **self.choose(name, row, AGAINST, ALL, ALL),
        }

    def choose(self, name: str, row: str, kind: str, part: str, category: str) -> Updates:
        """Show the first selected question, and the kinds of edit among the selected ones."""
        within = QuestionFilter(kind, part).pick(self.services.asked(name, row))
        offered = [(text, f"={category}") for text, category in words.category_choices(within)]
        kept = category if category in [value for _, value in offered] else ALL
        dropdown = gr.Dropdown([(f"All ({len(within)})", ALL), *offered], value=kept)
        return {self.category: dropdown, **self.step(0, name, row, kind, part, kept, 0)}

    def step(self, by: int, name: str, row: str, kind: str, part: str, category: str, number: int) -> Updates:
        """Show a selected question. `by`: how far it is from the shown one; after the last follows the first."""
        selected = QuestionFilter(kind, part, None if category == ALL else category[1:])
        asked = selected.pick(self.services.asked(name, row))
        number = (number + by) % len(asked) if asked else 0
        shown = self._show(name, row, asked[number]) if asked else self.panel.empty(words.no_case(kind))
        return {self.number: number, self.position: words.position(number, len(asked)), **shown}

    @explaining_at("panel")
    def _show(self, name: str, row: str, asked: AskedQuestion) -> Updates:
        return fill(self.panel, self.services.case(name, row, asked.reply.question.id))

    def connect(self, where: list[Any], options: dict[str, Any]) -> None:
        """Connect the widgets.

        Args:
            where: Widgets with the name of the run and the key of the row.
            options: Options of the events.
        """
        parts = [self.category, self.number, self.position, *self.panel.parts]
        chosen = [self.kind, self.part, self.category]
        for control in chosen:
            control.input(self.choose, [*where, *chosen], parts, **options)
        stepping = {
            "inputs": [*where, *chosen, self.number],
            "outputs": parts,
            "trigger_mode": "always_last",
            **options,
        }
        for control, by in ((self.previous, -1), (self.following, 1)):
            control.click(partial(self.step, by), **stepping)


def fill(panel: ExamplePanel, case: QuestionCase) -> Updates:
    """Show a question.

    Raises:
        HarnessError: If an image cannot be read.
    """
    several = len(case.sides) > 1
    chains = [(side.title if several else "", words.chain(side)) for side in case.sides]
    return panel.fill(words.words(case), pictures(case), chains)


class Comparing(Widgets):
    """Comparison of two rows of benchmarks, of one run or of two."""

    def __init__(self, services: BenchmarkServices) -> None:
        self.services = services
        with gr.Row():
            self.first = gr.Dropdown([], label="First row (baseline)", min_width=240, elem_id="benchmark-first")
            self.second = gr.Dropdown([], label="Second row", min_width=240, elem_id="benchmark-second")
        self.start = button("Compare", "benchmark-compare", min_width=140)
        self.compared = markup(words.COMPARISON_HINT, elem_id="benchmark-compared")
        self.flips = choices("Differences", "benchmark-flips", visible=False)
        self.panel = ExamplePanel("benchmark-flip", 2)
        self.pair = state()  # the compared rows, as two of `Row`

    def begin(self, names: Sequence[str], answered: Sequence[str]) -> Updates:
        """Show the rows that can be compared.

        Args:
            names: The runs; the first one is shown.
            answered: Keys of its rows with judgments.
        """
        rows: list[tuple[str, str, str]] = []
        for name in names:
            try:
                rows += [(name, row.label, row.key) for row in self.services.look(name).entries]
            except HarnessError:
                continue  # the list of runs shows the error
        of = {name: "this run" if name == names[0] else name for name in names}
        offered = [(plain(f"{title} · {of[name]}"), f"{name}/{key}") for name, title, key in rows]
        values = [value for _, value in offered]
        other = next((value for value in values[1:] if _row(value)[1] in answered), None)
        return {
            self.first: gr.Dropdown(offered, value=other),
            self.second: gr.Dropdown(offered, value=values[0] if values else None),
            **self._nothing(words.COMPARISON_HINT),
        }

    def compare(self, first: str | None, second: str | None) -> Updates:
        """Compare two rows."""
        try:
            if not first or not second:
                raise InputError("Two rows are needed.", next_step="Choose a first and a second.")
            pair = _row(first), _row(second)
            comparison = self.services.compare(*pair)
        except Exception as error:
            return self._nothing(explain(error))
        flips = words.flip_choices(comparison)
        left_out = f", first {MAX_FLIPS} shown" if len(flips) > MAX_FLIPS else ""
        label = f"Differences ({len(flips)}{left_out})"
        return {
            self.compared: words.compared(comparison),
            self.pair: pair,
            self.flips: gr.Radio(flips[:MAX_FLIPS], value=None, visible=bool(flips), label=label),
            **self.panel.empty(words.no_flip(ABOUT) if flips else ""),
        }

    def _nothing(self, text: str) -> Updates:
        hidden = gr.Radio([], value=None, visible=False)
        return {self.compared: text, self.pair: None, self.flips: hidden, **self.panel.empty("")}

    @explaining_at("panel")
    def choose(self, pair: tuple[Row, Row] | None, question: str | None) -> Updates:
        """Show a question on which the two rows differ."""
        if pair is None or not question:
            return self.panel.empty(words.no_flip(ABOUT))
        return fill(self.panel, self.services.flip(*pair, question))

    def connect(self, options: dict[str, Any]) -> None:
        """Connect the widgets. `options`: options of the events."""
        parts = [self.pair, self.compared, self.flips, *self.panel.parts]
        self.start.click(self.compare, [self.first, self.second], parts, **options)
        self.flips.input(self.choose, [self.pair, self.flips], parts, **options)


def _row(value: str) -> Row:
    name, _, key = value.rpartition("/")
    return name, key


class BenchmarkPanel(Widgets):
    """The widgets, drawn in the context of `draw_runs`."""

    def __init__(self, services: BenchmarkServices) -> None:
        # The row of the details: kinds of edit, confidence, questions.
        info = "For kinds of edit, confidence and single questions."
        self.row = gr.Dropdown([], label="Details of", info=info, visible=False, elem_id="benchmark-row")
        with gr.Tabs(elem_id="benchmark-tabs"):
            with gr.Tab("Table"):
                self.summary = markup(elem_id="benchmark-summary")
                self.table = markup(elem_id="benchmark-table")
                with section("Coverage and cost", open=True):
                    self.judging = markup(elem_id="benchmark-judging")
                with section("Published numbers", open=True):
                    self.published = markup(elem_id="benchmark-published")
                self.download = gr.DownloadButton(
                    "Download the report (HTML)", visible=False, elem_id="benchmark-download", size="md", scale=0,
                    min_width=240,
                )  # fmt: skip
            with gr.Tab("Questions"):
                self.questions = Questions(services)
            with gr.Tab("Compare"):
                self.comparing = Comparing(services)
            with gr.Tab("Kinds"):
                self.kinds = markup(elem_id="benchmark-kinds")
            with gr.Tab("Confidence"):
                with gr.Row(equal_height=False, elem_id="benchmark-charts"):
                    self.margins = markup(elem_id="benchmark-margins")
                    # HTML, because Markdown removes the SVG. It contains no foreign text.
                    self.curve = gr.HTML(elem_id="benchmark-curve", js_on_load=None)
                self.calibration = markup(elem_id="benchmark-calibration")
            with gr.Tab("About"):
                self.about = markup(elem_id="benchmark-about")
                self.data = markup(elem_id="benchmark-data")

    def show(self, result: BenchmarkResult) -> Updates:
        """Show the results of all rows."""
        return {
            self.summary: views.summary(result),
            self.table: views.rows_table(result),
            self.judging: views.section(result, "judging"),
            self.published: views.section(result, "published"),
            self.data: views.about_data(result),
        }

    def show_row(self, opened: OpenedBenchmark, name: str, key: str) -> Updates:
        """Show a row in detail, and its questions."""
        result = opened.result
        return {
            self.kinds: views.section(result, "categories", key),
            self.margins: views.section(result, "margins", key),
            self.curve: views.reliability(result, key),
            self.calibration: views.section(result, "confidence", key),
            **self.questions.begin(name, key),
        }


STEPS = 10
"""Number of times that the table of a running benchmark is updated."""

ARROWS = """() => {
  document.addEventListener("keydown", (event) => {
    const place = {ArrowLeft: "benchmark-previous", ArrowRight: "benchmark-next"}[event.key];
    if (!place || !document.activeElement || !document.activeElement.closest("#benchmark-steps")) return;
    event.preventDefault();
    document.querySelector(`button#${place}`).click();
  });
}"""
"""On the buttons that step through questions, the arrow keys do so too."""


class BenchmarkEvents(RunEvents[BenchmarkStatus, BenchmarkPanel]):
    """Handlers of the Benchmark tab. Holds nothing of any visitor."""

    name, title, parameter = "benchmark", "Benchmark", "benchmark"
    texts = views

    def show_new(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False)}

    def show_actions(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_actions`."""
        return {self.view.about: views.about_run(status, self.service.command(status.name))}

    def show_details(
        self, status: BenchmarkStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        shown = -1 if known is None else int(known[1])
        step = STEPS * status.judged // status.wanted if status.wanted else 0
        changed = known is None or known[0][1] != status.state
        if not status.judged or not (changed or step != shown):
            return {}, shown
        return self._results(status, held, new=shown < 0 or status.state not in MOVING), step

    def _results(self, status: BenchmarkStatus, held: Sequence[str], *, new: bool) -> Updates:
        """Show the results. `new`: also those that a user may be looking at."""
        view, name, benchmarks = self.view, status.name, self.services.benchmarks
        opened = benchmarks.open(name)
        result = opened.result
        if not result.rows:
            return {self.panel.area: gr.Column(visible=False)}
        updates: Updates = {self.panel.area: gr.Column(visible=True), **view.show(result)}
        if not new:
            return updates
        page = benchmarks.report_file(name) if status.state not in MOVING else None
        rows = [(row.label, row.key) for row in result.rows]
        answered = [row.key for row in result.rows if row.judged]
        others = [run.status.name for run in benchmarks.runs(held) if not run.error]
        return {
            **updates,
            view.download: gr.DownloadButton(value=page, visible=page is not None),
            view.row: gr.Dropdown(rows, value=rows[0][1], visible=len(rows) > 1),
            **view.show_row(opened, name, rows[0][1]),
            **view.comparing.begin([name, *(other for other in others if other != name)], answered),
        }

    @explaining_at("panel.message")
    def choose_row(self, name: str, key: str) -> Updates:
        """Show another row in detail."""
        return self.view.show_row(self.services.benchmarks.open(name), name, key)

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        where = [self.panel.current, self.view.row]
        self.view.row.input(self.choose_row, where, self.outputs, **self.look)
        gr.on(None, None, None, None, js=ARROWS, **QUIET)
        self.view.questions.connect(where, self.look)
        self.view.comparing.connect(self.look)


def build_benchmark_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    markup(views.introduction(local=services.local), elem_id="benchmark-introduction")
    form, panel = BenchmarkForm(services), RunPanel(services, "benchmark")
    with panel.area:
        view = BenchmarkPanel(services.benchmarks)
    BenchmarkEvents(services, services.benchmarks, form, panel, view).connect()

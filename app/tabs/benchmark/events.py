"""What happens on the Benchmark tab: from clicks to services, and from records to what is shown."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from app import benchmark_tables, benchmark_views
from app.benchmark_charts import reliability
from app.benchmark_runs import Opened, Progress
from app.benchmark_services import Expected
from app.following import MOVING
from app.services import AppServices
from app.tabs.benchmark import comparing, questions
from app.tabs.benchmark.form import BenchmarkForm
from app.tabs.benchmark.view import BenchmarkView
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.errors import InputError

IN_ADDRESS = "benchmark"
"""Name of the parameter that names a benchmark in the address of the page."""

HELD = 12
"""Names of runs that a browser remembers, at most."""

STEPS = 10
"""How often the table is counted anew while a run goes on: each time so large a part of it is judged."""


class BenchmarkEvents:
    """Answers to what a visitor does. Holds nothing of any visitor.

    Args:
        services: The services.
        form: The form of a new benchmark.
        view: The list of runs, and the parts that show one.
    """

    def __init__(self, services: AppServices, form: BenchmarkForm, view: BenchmarkView) -> None:
        self._all, self._services = services, services.benchmarks
        self.form, self.view = form, view

    @property
    def outputs(self) -> list[Any]:
        """All that events may change."""
        return [*self.form.parts, *self.view.parts]

    def counting(self) -> Updates:
        """A sign that the cost is worked out."""
        form = self.form
        return {form.told: benchmark_views.counting(), form.start: gr.Button(visible=False), form.promised: None}

    def expect(self, *values: Any) -> Updates:
        """Say what a benchmark would cost, and offer to start it."""
        form = self.form
        try:
            found = self._services.expect(form.read(self._all, values))
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            return {form.told: explain(error), form.promised: None, **form.put_away(values)}
        return {
            form.told: benchmark_views.expected(found.told),
            form.start: gr.Button(visible=True),
            form.promised: found,
            **form.put_away(values),
        }

    def start(self, promised: Expected | None, held: object) -> Updates:
        """Begin the benchmark whose cost was shown."""
        form = self.form
        try:
            if promised is None:
                raise InputError("It is not known any more what was to start.", next_step="See what it costs first.")
            name = self._services.start(promised)
        except Exception as error:
            return {form.told: explain(error)}
        done = {form.told: benchmark_views.cost_hint(), form.start: gr.Button(visible=False), form.promised: None}
        return {**done, **self.open(name, held)}

    def arrive(self, request: gr.Request) -> Updates:
        """The page was opened: show the run that the address names. What the browser remembers comes later."""
        name = _addressed(request)
        return {**self._listed("", []), **(self.open(name, None) if name else {})}

    def remember(self, held: object, current: str, request: gr.Request) -> Updates:
        """The browser tells which runs it has shown, or was told another one: show the last, if none is shown."""
        names = _names(held)
        shown = current or _addressed(request)
        if not shown:
            found = self.open(names[0], names) if names else {}
            # If that run is gone, it is no news to whoever comes back.
            return found if self.view.standing.current in found else self._listed("", names)
        if names[:1] == [shown]:
            return {self.view.standing.known: gr.skip()}
        names = _with(shown, names)
        return {self.view.standing.browser: names, **self._listed(shown, names)}

    def open(self, name: str | None, held: object) -> Updates:
        """Show a run.

        Args:
            name: Its name.
            held: Names that the browser holds; None: it has not told yet, and so is not told either.
        """
        standing = self.view.standing
        if not name:
            return {standing.told: ""}
        try:
            progress = self._services.look(name)
        except Exception as error:
            return {standing.told: explain(error)}
        names = _with(name, _names(held))
        return {
            standing.current: name,
            **({standing.browser: names} if held is not None else {}),
            standing.told: "",
            standing.area: gr.Column(visible=False),
            self.form.section: gr.Accordion(open=False),
            **self._listed(name, names),
            **self._shown(progress, None, names),
        }

    def tick(self, name: str, known: tuple[Any, ...] | None, held: object) -> Updates:
        """Show what is new in the run that is shown."""
        standing = self.view.standing
        if not name:
            return {standing.timer: gr.Timer(active=False)}
        try:
            progress = self._services.look(name)
        except Exception as error:
            return {standing.told: explain(error), standing.timer: gr.Timer(active=False)}
        if known is not None and progress.mark == known[0]:
            return {standing.known: gr.skip()}
        return self._shown(progress, known, _names(held))

    def stop(self, name: str) -> Updates:
        """Ask the run that is shown to end."""
        return self._acted(lambda: self._services.stop(name))

    def resume(self, name: str, key: str) -> Updates:
        """Go on with the run that is shown."""
        return {**self._acted(lambda: self._services.resume(name, key or "")), self.view.standing.key: ""}

    def _acted(self, act: Callable[[], Progress]) -> Updates:
        standing = self.view.standing
        try:
            progress = act()
        except Exception as error:
            return {standing.told: explain(error)}
        return {standing.told: "", **self._moves(progress), standing.timer: gr.Timer(active=True)}

    def _shown(self, progress: Progress, known: tuple[Any, ...] | None, held: Sequence[str]) -> Updates:
        """What changes on the page when a run stands as it does now.

        Args:
            progress: The run.
            known: What the page shows of it; None when it shows nothing of it.
            held: Names that the browser holds.
        """
        standing = self.view.standing
        before, counted = known or (None, -1)
        share = STEPS * progress.judged // progress.wanted if progress.wanted else 0
        moved = before is None or before[1] != progress.state
        updates: Updates = {standing.said: benchmark_views.standing(progress)}
        if moved:
            updates |= self._moves(progress)
        if progress.judged and (moved or share != counted):
            updates |= self._counted(progress, held, anew=counted < 0 or progress.state not in MOVING)
            counted = share
        if moved and known is not None:
            updates |= self._listed(progress.name, held)
        return {**updates, standing.known: (progress.mark, counted)}

    def _moves(self, progress: Progress) -> Updates:
        """What may be done with a run, by its state."""
        standing, services = self.view.standing, self._services
        rests = progress.state in {"stopped", "paused", "interrupted"} and services.goes_on(progress.name)
        model = services.model(progress.name) if rests else ""
        return {
            standing.said: benchmark_views.standing(progress),
            standing.stop: gr.Button(visible=progress.state == "running"),
            standing.resume: gr.Button(visible=rests),
            standing.key: gr.Textbox(visible=bool(model)),
            standing.timer: gr.Timer(active=progress.state in MOVING),
            self.view.numbers.about: benchmark_views.about_run(progress, services.command(progress.name)),
        }

    def _counted(self, progress: Progress, held: Sequence[str], *, anew: bool) -> Updates:
        """The numbers of a run. `anew`: also what somebody may be looking at just now."""
        standing, numbers = self.view.standing, self.view.numbers
        try:
            opened = self._services.open(progress.name)
            if not opened.result["rows"]:
                return {standing.area: gr.Column(visible=False)}
            updates = {standing.area: gr.Column(visible=True), **self._tables(opened.result)}
            if anew:
                page = self._services.report_file(progress.name) if progress.state not in MOVING else None
                updates[numbers.download] = gr.DownloadButton(value=page, visible=page is not None)
                updates |= self._closer(progress.name, opened, held)
        except Exception as error:
            return {standing.told: explain(error)}
        return updates

    def _tables(self, result: dict[str, Any]) -> Updates:
        numbers = self.view.numbers
        return {
            numbers.summary: benchmark_views.summary(result),
            numbers.table: benchmark_tables.rows_table(result),
            numbers.judging: benchmark_tables.judging_table(result),
            numbers.published: benchmark_tables.published(result),
            numbers.data: benchmark_tables.about_data(result),
        }

    def _closer(self, name: str, opened: Opened, held: Sequence[str]) -> Updates:
        """What is about one row; the judge that the run is about comes first."""
        choices = benchmark_tables.row_choices(opened.result)
        key = choices[0][1]
        answered = [str(row["key"]) for row in opened.result["rows"] if row["judged"]]
        return {
            self.view.standing.row: gr.Dropdown(choices, value=key, visible=len(choices) > 1),
            **self._of_row(opened, key),
            **questions.begin(self._services, self.view.questions, name, key),
            **comparing.begin(self._services, self.view.comparing, self._names_of(name, held), answered),
        }

    def _names_of(self, name: str, held: Sequence[str]) -> list[str]:
        """Runs whose rows can be compared with those of the shown one: it comes first."""
        others = [each.progress.name for each in self._services.runs(held) if not each.trouble]
        return [name, *(each for each in others if each != name)]

    def _of_row(self, opened: Opened, key: str) -> Updates:
        numbers, result = self.view.numbers, opened.result
        row = next((each for each in result["rows"] if each["key"] == key), result["rows"][0])
        return {
            numbers.kinds: benchmark_tables.by_kind(result, key),
            numbers.margins: benchmark_tables.by_margin(result, key),
            numbers.curve: reliability(row["calibration"]["bins"] if "calibration" in row else ()),
            numbers.calibration: benchmark_tables.calibration(result, key),
        }

    def choose_row(self, name: str, key: str) -> Updates:
        """Look closer at another row."""
        try:
            opened = self._services.open(name)
            return {
                **self._of_row(opened, key),
                **questions.begin(self._services, self.view.questions, name, key),
            }
        except Exception as error:
            return {self.view.standing.told: explain(error)}

    def list_runs(self, current: str, held: object) -> Updates:
        """Look for runs again."""
        return self._listed(current, _names(held))

    def _listed(self, current: str, held: Sequence[str]) -> Updates:
        """Show the list. `held`: names that the browser holds, all that a stranger gets."""
        runs = self.view.runs
        try:
            choices = benchmark_views.run_choices(self._services.runs(held))
        except Exception as error:
            return {runs.nothing: gr.Markdown(explain(error), visible=True)}
        known = [name for _, name in choices]
        return {
            runs.nothing: gr.Markdown(visible=not choices),
            runs.choices: gr.Radio(choices, value=current if current in known else None, visible=bool(choices)),
        }


def _addressed(request: gr.Request) -> str:
    """The run that the address of the page names; empty where it names none."""
    return str(dict(request.query_params).get(IN_ADDRESS, ""))[:120].strip()


def _with(name: str, names: Sequence[str]) -> list[str]:
    """Names with one at their beginning."""
    return [name, *(each for each in names if each != name)][:HELD]


def _names(held: object) -> list[str]:
    """The names that a browser holds; what else it may hold is passed over."""
    return [each for each in held if isinstance(each, str)][:HELD] if isinstance(held, list) else []

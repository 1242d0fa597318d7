"""Events of the run panel: from clicks and ticks to services, and from the status of a run to the page."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Generic, TypeVar

import gradio as gr

from app.failures import explain, explaining_at
from app.run_panel import views
from app.run_panel.following import MOVING, RESUMABLE
from app.run_panel.new_jobs import Keys
from app.run_panel.page import JobForm, RunPanel
from app.run_panel.service import Expected, Listed, RunService, S
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, announced, waiting_at
from rewardharness.errors import InputError

MAX_HELD = 12
"""Maximum number of names of runs that a browser stores."""

TO_RUN = "() => document.querySelector('#NAME-run').scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Scrolls to the run, because the form above it is long."""

Known = tuple[tuple[object, ...], Any]
"""What the page shows of a run: `FollowedRun.mark`, and a value of the job type."""


V = TypeVar("V", bound=Widgets)


class RunEvents(ABC, Generic[S, V]):
    """Handlers of the run panel. Holds nothing of any visitor.

    Args:
        services: All services.
        service: The runs of the job type.
        form: The form of a new run.
        panel: The widgets.
        view: The widgets of the job type that show a run.
    """

    name = ""
    """Prefix of the element ids."""
    parameter = ""
    """Parameter of the address that names a run."""
    texts: ModuleType
    """The module with `expected`, `run_status` and `run_choices`: texts of a preview, a run and the list of runs."""

    def __init__(
        self, services: AppServices, service: RunService[S, Any], form: JobForm, panel: RunPanel, view: V
    ) -> None:
        self.services, self.service = services, service
        self.form, self.panel, self.view = form, panel, view
        self.look: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": f"{self.name}-look", **QUIET}
        judge = form.judge.parts if form.judge else []
        self.outputs = [form.section, *form.start.parts, *form.secrets, *judge, *panel.parts, *view.parts]
        """All widgets that events may change."""

    # Hooks of the job types.

    @property
    def tick_inputs(self) -> Sequence[Any]:
        """Widgets whose values `show_details` takes."""
        return ()

    @abstractmethod
    def show_new(self, status: S) -> Updates:
        """Reset the details, because another run is shown."""

    @abstractmethod
    def show_actions(self, status: S) -> Updates:
        """Show what depends on the state of a run."""

    @abstractmethod
    def show_details(self, status: S, known: Known | None, held: Sequence[str], *values: Any) -> tuple[Updates, Any]:
        """Show what is new in a run.

        Args:
            status: The run.
            known: What the page shows; None for nothing.
            held: Names of runs that the browser holds.
            values: Values of `tick_inputs`.

        Returns:
            The updates, and the value for the next `known`.
        """

    # Handlers.

    def previewing(self) -> Updates:
        """Show that a preview is prepared."""
        start = self.form.start
        return {start.cost: views.PREVIEWING, start.start: gr.Button(visible=False), start.prepared: None}

    def preview(self, token: gr.OAuthToken | None, request: gr.Request, *values: Any) -> Updates:
        """Preview a run, and offer to start it."""
        start, hidden = self.form.start, self.form.put_away(values)
        try:
            visitor = self.services.visitor(token, request=request)
            expected = self.service.expect(self.form.read(self.services, values, visitor), visitor)
        except Exception as error:  # any error is shown, so that the page stays usable
            return {start.cost: explain(error), start.prepared: None, **hidden}
        updates = {start.cost: self.texts.expected(expected.preview), start.start: gr.Button(visible=True)}
        return {**updates, start.prepared: expected, **hidden}

    @explaining_at("form.start.cost")
    def start(self, expected: Expected | None, held: object) -> Updates:
        """Start the previewed run."""
        if expected is None:
            raise InputError("The preview has expired.", next_step="Preview the run again.")
        name = self.service.start(expected)
        cleared = {**self.form.start.without_preview(), **dict.fromkeys(self.form.secrets, "")}
        return {**cleared, **self.open(name, held)}

    def arrive(self, request: gr.Request) -> Updates:
        """Show the run that the address names. The browser sends the names that it holds later."""
        name = self._addressed(request)
        return {**self._listed("", []), **(self.open(name, None) if name else {})}

    def remember(self, held: object, current: str, request: gr.Request) -> Updates:
        """Show the latest run of the browser, if none is shown; or store the shown one in the browser."""
        names, run = _names(held), current or self._addressed(request)
        if not run:
            updates = self.open(names[0], names) if names else {}
            # A run that was removed since is no error here.
            return updates if self.panel.current in updates else self._listed("", names)
        if names[:1] == [run]:
            return {self.panel.known: gr.skip()}
        names = _with(run, names)
        return {self.panel.browser: names, **self._listed(run, names)}

    @explaining_at("panel.message")
    def open(self, name: str | None, held: object) -> Updates:
        """Show a run.

        Args:
            name: Its name.
            held: Names that the browser holds; None if it has not sent them yet.
        """
        panel = self.panel
        if not name:
            return {panel.message: ""}
        status, names = self.service.look(name), _with(name, _names(held))
        return {
            panel.current: name,
            **({panel.browser: names} if held is not None else {}),
            panel.message: "",
            self.form.section: gr.Accordion(open=False),
            **self.show_new(status),
            **self._listed(name, names),
            **self._shown(status, None, names, *([""] * len(self.tick_inputs))),
        }

    def tick(self, name: str, known: Known | None, held: object, *values: Any) -> Updates:
        """Show what is new in the shown run."""
        panel = self.panel
        if not name:
            return {panel.timer: gr.Timer(active=False)}
        try:
            status = self.service.look(name)
            if known is not None and status.mark == known[0]:
                return {panel.known: gr.skip()}
            return self._shown(status, known, _names(held), *values)
        except Exception as error:
            return {panel.message: explain(error), panel.timer: gr.Timer(active=False)}

    @explaining_at("panel.message")
    def stop(self, name: str) -> Updates:
        """Ask the shown run to stop."""
        return self._acted(self.service.stop(name))

    def resume(
        self,
        token: gr.OAuthToken | None,
        request: gr.Request,
        name: str,
        judge_key: str,
        orchestrator_key: str,
        confirmed: bool,
    ) -> Updates:
        """Resume the shown run."""
        panel, keys = self.panel, Keys(judge_key or "", orchestrator_key or "")
        try:
            visitor = self.services.visitor(token, request=request)
            updates = self._acted(self.service.resume(name, keys, visitor, confirmed=confirmed is True))
        except Exception as error:
            updates = {panel.message: explain(error)}
        return {**updates, panel.judge_key: "", panel.orchestrator_key: ""}

    def list_runs(self, current: str, held: object) -> Updates:
        """Refresh the list of runs."""
        return self._listed(current, _names(held))

    def _acted(self, status: S) -> Updates:
        return {self.panel.message: "", **self._actions(status), self.panel.timer: gr.Timer(active=True)}

    def _shown(self, status: S, known: Known | None, held: Sequence[str], *values: Any) -> Updates:
        panel = self.panel
        changed = known is None or known[0][1] != status.state
        updates: Updates = {panel.status: self.texts.run_status(status)}
        if changed:
            updates |= self._actions(status)
        details, extra = self.show_details(status, known, held, *values)
        if changed and known is not None:
            updates |= self._listed(status.name, held)
        return {**updates, **details, panel.known: (status.mark, extra)}

    def _actions(self, status: S) -> Updates:
        panel = self.panel
        resumable = status.state in RESUMABLE and self.service.is_resumable(status.name)
        judge, orchestrator = self.service.models(status.name) if resumable else ("", "")
        places = self.service.foreign_places(status.name) if resumable else []
        return {
            panel.status: self.texts.run_status(status),
            panel.stop: gr.Button(visible=status.state == "running"),
            panel.resume: gr.Button(visible=resumable),
            panel.confirmed: gr.Checkbox(False, label=views.sends(places), visible=bool(places)),
            panel.keys: gr.Row(visible=bool(judge or orchestrator)),
            panel.judge_key: gr.Textbox(visible=bool(judge)),
            panel.orchestrator_key: gr.Textbox(visible=bool(orchestrator)),
            panel.timer: gr.Timer(active=status.state in MOVING),
            **self.show_actions(status),
        }

    def _listed(self, current: str, held: Sequence[str]) -> Updates:
        panel = self.panel
        try:
            listed = self.service.runs(held)
            choices = self.texts.run_choices(listed)
        except Exception as error:
            return {panel.nothing: gr.Markdown(explain(error), visible=True)}
        value = current if current in [name for _, name in choices] else None
        return {
            panel.nothing: gr.Markdown(visible=not choices),
            panel.choices: gr.Radio(choices, value=value, visible=bool(choices)),
            **self.show_list(listed),
        }

    def show_list(self, listed: Sequence[Listed[S]]) -> Updates:
        """Show what a job type adds to the list."""
        return {}

    def _addressed(self, request: gr.Request) -> str:
        """Return the run that the address of the page names; empty if it names none."""
        return str(dict(request.query_params).get(self.parameter, ""))[:120].strip()

    def connect(self) -> None:
        """Connect the widgets."""
        start, panel, everything = self.form.start, self.panel, self.outputs
        quick: dict[str, Any] = {"queue": False, **QUIET}
        at_once = 2 if self.services.local else 1
        slow: dict[str, Any] = {"concurrency_limit": at_once, "concurrency_id": self.name, **QUIET}
        to_run = {"fn": None, "inputs": None, "outputs": None, "js": TO_RUN.replace("NAME", self.name), **QUIET}
        first = start.preview.click(self.previewing, None, everything, **quick)
        preview = announced(self.previewing, self.preview)
        first.then(preview, self.form.inputs, everything, **{**slow, **waiting_at(start.cost)})
        inputs = [start.prepared, panel.browser]
        start.start.click(self.start, inputs, everything, **slow).success(**to_run)
        watched = [panel.current, panel.known, panel.browser, *self.tick_inputs]
        panel.timer.tick(self.tick, watched, everything, **self.look)
        panel.stop.click(self.stop, panel.current, everything, **quick)
        keys = [panel.judge_key, panel.orchestrator_key]
        panel.resume.click(self.resume, [panel.current, *keys, panel.confirmed], everything, **slow)
        panel.choices.input(self.open, [panel.choices, panel.browser], everything, **self.look).then(**to_run)
        panel.refresh.click(self.list_runs, [panel.current, panel.browser], everything, **QUIET)
        to_tab = f"() => window.rhPlace.open('{self.name}')"
        put = f"name => name && window.rhPlace.put('{self.parameter}', name)"
        panel.choices.change(None, panel.choices, None, js=put, **QUIET)
        arrived = gr.on(None, self.arrive, None, everything, **self.look)
        arrived.then(None, None, None, js=to_tab, **QUIET)  # not before, so that the layout does not shift
        # The browser sends the names when the tab is opened.
        panel.browser.change(self.remember, [panel.browser, panel.current], everything, **self.look)


def _with(name: str, names: Sequence[str]) -> list[str]:
    """Return names with one moved to the front."""
    return [name, *(other for other in names if other != name)][:MAX_HELD]


def _names(held: object) -> list[str]:
    """Return the names that a browser holds; other values are ignored."""
    return [name for name in held if isinstance(name, str)][:MAX_HELD] if isinstance(held, list) else []

"""Build and serve the web app."""

import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from app.batch.page import build_batch_tab
from app.benchmark.page import build_benchmark_tab
from app.evolve.page import build_evolve_tab
from app.library import hub_views
from app.library.chooser import BEFORE, IN_ADDRESS, addressed
from app.library.libraries import HUB
from app.library.page import build_library_tab
from app.lineage.page import build_lineage_tab
from app.page import CacheMiddleware, Page, make_theme
from app.score.page import build_score_tab
from app.score.releases import DEFAULT_PLACES, Places
from app.services import AppServices, is_local
from app.starting import started
from app.vote.page import build_vote_tab
from app.widgets import QUIET, Updates, Widgets, button, markup, state
from rewardharness.data.opening import DEMO, parse_spec
from rewardharness.errors import HarnessError, InputError
from rewardharness.library.hub import split_spec
from rewardharness.runs.job import exit_within
from rewardharness.serving.hosts import HostCheck, HostMiddleware
from rewardharness.settings import Settings, export

HOUR = 3600

END_SECONDS = 2.0
"""Seconds after SIGTERM after which the process ends at the latest."""

PRESSED = {"click", "submit", "tick", "load"}
"""Names of events that are dropped while the same event is being answered."""


def build_app(services: AppServices) -> gr.Blocks:
    """Build the page."""
    proxied = services.settings.space
    with Page("RewardHarness", (HOUR, 24 * HOUR), local=services.local, proxied=proxied) as blocks:
        gr.Markdown("# RewardHarness\nWhich edit of an image would people prefer?", elem_id="title")
        place = PageAddress(blocks)
        with gr.Tabs(elem_id="tabs") as tabs:
            with gr.Tab("Score", id="score", elem_id="score"):
                score = build_score_tab(services)
            with gr.Tab("Batch", id="batch", visible=services.local or services.batches_of_visitors):
                build_batch_tab(services)
            with gr.Tab("Vote", id="vote", elem_id="vote") as vote:
                votes = build_vote_tab(services, vote)
            with gr.Tab("Library", id="library"):
                build_library_tab(services)
            with gr.Tab("Evolve", id="evolve"):
                form, panel, view = build_evolve_tab(services)
            with gr.Tab("Benchmark", id="benchmark"):
                benchmark = build_benchmark_tab(services)
            with gr.Tab("Lineage", id="lineage") as lineage:
                build_lineage_tab(services, lineage)
        votes.evolve.click(
            lambda: {tabs: gr.Tabs(selected="evolve"), **form.use_votes()},
            None,
            [tabs, form.section, *form.fields.values()],
            **QUIET,
        )
        view.gain.connect(panel, view, tabs, score, benchmark)
        place.connect(services, blocks, tabs)
    for event in blocks.fns.values():
        if event.api_visibility == "private":
            event.api_name = None  # Gradio serves names such as `partial_7`, hidden or not
        if event.trigger_mode == "once" and not all(name in PRESSED for _, name in event.targets):
            # By default a second choice is dropped while the first is being answered, so that the page shows the first.
            event.trigger_mode = "always_last"
        if event.show_progress == "hidden":
            # Otherwise each message of an event updates all outputs of all events so far, hidden progress or not.
            event.show_progress_on = []
    return blocks


class PageAddress(Widgets):
    """A row that says what in the address does not exist, and offers to load a Library that it names.

    Anybody can write an address: what it names on the Hub is loaded when the visitor asks for it, not before.
    """

    def __init__(self, page: Page) -> None:
        self.agreed = page.agreed = state(False)
        with gr.Row(visible=False, elem_id="place") as self.row:
            self.text = markup()
            self.load = button("Load", "place-load", variant="primary", min_width=160)

    def connect(self, services: AppServices, page: Page, tabs: gr.Tabs) -> None:
        """Connect the widgets with the address."""
        asked = gr.Checkbox(visible=False)  # whether the visitor has asked for the Libraries of the address already

        def arrive(asked: bool, request: gr.Request) -> Updates:
            tab = str(dict(request.query_params).get("tab", ""))[:80]
            known = [child.id for child in tabs.children if child.visible]
            choices = (addressed(request, name, local=services.local) for name in (IN_ADDRESS, BEFORE))
            specs = [choice.spec for choice in choices if choice is not None and choice.kind == HUB]
            wrong = [f"There is no tab {tab!r}."] if tab and tab not in known else []
            wrong += [f"{spec!r} is not the name of a Library." for spec in specs if split_spec(spec) is None]
            offered = [] if asked or wrong else specs
            return {
                self.agreed: asked and not wrong,
                self.row: gr.Row(visible=bool(wrong or offered)),
                self.text: hub_views.in_address(wrong, offered),
                self.load: gr.Button(f"Load {' and '.join(offered)}", visible=bool(offered)),
            }

        page.load(arrive, asked, self.parts, js="() => [window.rhPlace.arrive()]", **QUIET)
        self.load.click(lambda: {self.agreed: True, self.row: gr.Row(visible=False)}, None, self.parts, **QUIET)
        tabs.change(None, None, None, js="() => window.rhPlace.changed()", **QUIET)


def launch(settings: Settings, *, ready: Callable[[str], None] | None = None, **options: Any) -> None:
    """Serve the app until it is interrupted.

    Args:
        settings: The settings.
        ready: Called with the address once the page can be opened. Without it Gradio prints the address.
        options: Those of `serve`.

    Raises:
        InputError: If the port is taken.
        HarnessError: If the release cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="rewardharness-app-") as scratch:
        blocks = serve(settings, Path(scratch), quiet=ready is not None, **options)
        signal.signal(signal.SIGTERM, _end)
        started()
        if ready is not None:
            ready(str(blocks.local_url))
        try:
            while True:
                time.sleep(HOUR)
        finally:
            blocks.close(verbose=False)


def _end(number: int, frame: FrameType | None) -> None:
    """End the app as Ctrl-C does, so that the scratch folder is removed, but wait for no connection and no judgment."""
    exit_within(END_SECONDS)
    raise SystemExit(0)


def serve(
    settings: Settings,
    scratch: Path,
    *,
    host: str = "",
    port: int = 7860,
    inbrowser: bool = False,
    quiet: bool = True,
    places: Places = DEFAULT_PLACES,
    mcp: bool = False,
) -> gr.Blocks:
    """Start serving the app and return. `close()` on the result stops it.

    Args:
        settings: The settings.
        scratch: A private folder, removed by the caller afterwards.
        host: Address to listen on. Empty: this computer only, or every address in a Hugging Face Space.
        port: Port to listen on; 0 for any.
        inbrowser: Open the page in the browser.
        quiet: Do not print the address.
        places: Addresses of the models of the release in the settings, if any.
        mcp: Also serve the API as an MCP server, at `/gradio_api/mcp/`; needs the extra `mcp`.

    Raises:
        InputError: If the port is taken.
        HarnessError: If the release cannot be used.
    """
    host = host or ("0.0.0.0" if settings.space else "127.0.0.1")
    port = port or _free_port(host)
    _check_vote_data(settings)
    services = AppServices(settings, scratch, local=is_local(settings, host), places=places)
    # By default all Gradio apps of a machine share one folder for uploads and delete each other's files.
    export("GRADIO_TEMP_DIR", str(scratch / "uploads"))
    blocks = build_app(services)
    services.feedback.start()
    if services.batches_of_visitors:
        services.batches.keep_tidy()
    try:
        blocks.launch(
            server_name=host,
            server_port=port,
            inbrowser=inbrowser,
            quiet=quiet,
            prevent_thread_lock=True,
            share=False,
            ssr_mode=False,
            show_error=False,
            enable_monitoring=False,
            run_history=False,
            mcp_server=mcp,
            footer_links=["api"],
            allowed_paths=[],
            max_file_size="20mb",
            app_kwargs={
                "middleware": [
                    Middleware(HostMiddleware, HostCheck.listening(host, settings.hosts)),
                    Middleware(GZipMiddleware, minimum_size=1024, compresslevel=9),  # the page holds 600 KB of settings
                    Middleware(CacheMiddleware),
                ],
                "routes": [*services.results.routes(), *services.links.routes()],
            },
            theme=make_theme(),
            css=_asset("style.css"),
            js=_script("place.js", "keys.js", "scaling.js", "viewer.js", "table.js"),
        )
    except OSError as error:
        # Gradio's own message is about its arguments.
        message = f"Port {port} on {host} is not available."
        raise InputError(message, next_step="Choose another with --port, or stop the program that uses it.") from error
    return blocks


def _free_port(host: str) -> int:
    """Return a free port: Gradio would ask port 0 whether it is there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _check_vote_data(settings: Settings) -> None:
    try:
        parse_spec(settings.vote_data or DEMO)
    except HarnessError as error:
        raise InputError(f"RH_VOTE_DATA: {error.message}", next_step=error.next_step) from None


def _asset(name: str) -> str:
    """Return a file without comments and indentation, as every page holds it."""
    text = re.sub(r"/\*.*?\*/", "", files("app").joinpath("assets", name).read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = map(str.strip, text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _script(*names: str) -> str:
    """Return one function that runs the functions of several files."""
    return f"() => {{ {' '.join(f'({_asset(name).strip()})();' for name in names)} }}"

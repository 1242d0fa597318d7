"""Build and serve the web app."""

import signal
import tempfile
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
from app.library.page import build_library_tab
from app.lineage.page import build_lineage_tab
from app.page import CacheMiddleware, Page
from app.score.page import build_score_tab
from app.score.releases import DEFAULT_PLACES, Places
from app.services import AppServices, is_local
from app.starting import started
from app.theme import make_theme
from app.vote.page import build_vote_tab
from rewardharness.errors import InputError
from rewardharness.runs.stop import exit_within
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
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Score", id="score", elem_id="score"):
                build_score_tab(services)
            with gr.Tab("Batch", id="batch", visible=services.local or services.batches_of_visitors):
                build_batch_tab(services)
            with gr.Tab("Vote", id="vote", elem_id="vote") as vote:
                build_vote_tab(services, vote)
            with gr.Tab("Library", id="library"):
                build_library_tab(services)
            with gr.Tab("Evolve", id="evolve"):
                build_evolve_tab(services)
            with gr.Tab("Benchmark", id="benchmark"):
                build_benchmark_tab(services)
            with gr.Tab("Lineage", id="lineage") as lineage:
                build_lineage_tab(services, lineage)
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
        blocks.block_thread()


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
        port: Port to listen on.
        inbrowser: Open the page in the browser.
        quiet: Do not print the address.
        places: Addresses of the models of the release in the settings, if any.
        mcp: Also serve the API as an MCP server, at `/gradio_api/mcp/`; needs the extra `mcp`.

    Raises:
        InputError: If the port is taken.
        HarnessError: If the release cannot be used.
    """
    host = host or ("0.0.0.0" if settings.space else "127.0.0.1")
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
                    Middleware(GZipMiddleware, minimum_size=1024, compresslevel=6),  # the page holds 400 KB of settings
                    Middleware(CacheMiddleware),
                ],
                "routes": [*services.results.routes(), *(services.kept.routes() if services.local else [])],
            },
            theme=make_theme(),
            css=_asset("style.css"),
            js=_script("keys.js", "scaling.js", "viewer.js"),
        )
    except OSError as error:
        # Gradio's own message is about its arguments.
        message = f"Port {port} on {host} is not available."
        raise InputError(message, next_step="Choose another with --port, or stop the program that uses it.") from error
    return blocks


def _asset(name: str) -> str:
    return files("app").joinpath("assets", name).read_text(encoding="utf-8")


def _script(*names: str) -> str:
    """Return one function that runs the functions of several files."""
    return f"() => {{ {' '.join(f'({_asset(name).strip()})();' for name in names)} }}"

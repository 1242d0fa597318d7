"""The Benchmark tab."""

from app import benchmark_views
from app.run_panel.page import draw_runs
from app.services import AppServices
from app.tabs.benchmark.events import BenchmarkEvents
from app.tabs.benchmark.form import draw_form
from app.tabs.benchmark.view import draw_view
from app.tabs.parts import markup


def build_benchmark_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    markup(benchmark_views.introduction(local=services.local), elem_id="benchmark-introduction")
    form = draw_form(services)
    with draw_runs(services, "benchmark") as panel:
        view = draw_view()
    BenchmarkEvents(services, form, panel, view).connect()

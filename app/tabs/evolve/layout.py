"""The Evolve tab."""

from app import evolve_views
from app.run_panel.page import draw_runs
from app.services import AppServices
from app.tabs.evolve.events import EvolveEvents
from app.tabs.evolve.form import draw_form
from app.tabs.evolve.view import draw_view
from app.tabs.parts import markup


def build_evolve_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    markup(evolve_views.introduction(local=services.local), elem_id="evolve-introduction")
    form = draw_form(services)
    with draw_runs(services, "evolve") as panel:
        view = draw_view(services, panel)
    EvolveEvents(services, form, panel, view).connect()

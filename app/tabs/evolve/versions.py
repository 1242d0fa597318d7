"""Widgets of the versions of a run: how to use one, and how to publish it on the Hub."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from app import proposal_views, version_views
from app.evolve_services import Version
from app.hub_services import Order, Visitor
from app.services import AppServices
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates, Widgets, markup
from app.tabs.publish import PublishRequest, Source, draw_publishing
from rewardharness.errors import InputError


@dataclass(frozen=True)
class Versions(Widgets):
    """The widgets."""

    nothing: gr.Markdown
    choices: gr.Radio
    use: gr.Markdown
    publish: gr.Column


def draw_versions(services: AppServices, current: gr.State) -> Versions:
    """Draw the list of versions, and the form that publishes the chosen one."""
    nothing = markup(version_views.no_versions(), elem_id="evolve-no-versions")
    choices = gr.Radio([], label="Version", visible=False, elem_id="evolve-versions", elem_classes="choices")
    use = markup(elem_id="evolve-use")

    def order(request: PublishRequest, _: Visitor, name: str, number: int | None) -> Order:
        if not name or number is None:
            raise InputError("No version is chosen.", next_step="Choose one in the list above.")
        return services.evolve.order(name, int(number), request.repo, request.how)

    with gr.Column(visible=False) as publish:
        markup(version_views.publishing(), elem_id="evolve-publish-about")
        form = draw_publishing(services, "evolve-publish", Source(order, [current, choices], [choices.input]))

    def choose(name: str, number: int | None) -> Updates:
        updates: Updates = {use: "", publish: gr.Column(visible=number is not None)}
        if number is None:
            return updates
        try:
            version = next(item for item in services.evolve.versions(name) if item.number == number)
            local = services.local
            place = str(services.evolve.place(name, version.number)) if local else ""
            before = str(services.evolve.place(name, version.number - 1)) if local and version.number else ""
            library = services.evolve.library(name, version.number)
            report = services.evolve.report(name)
            audited = report is not None and report["library"]["final_id"] == library.id
            audit = report["audit"]["final"] if report is not None and audited else None
            updates[use] = version_views.version(version, library, audit, place, before)
            if form is not None:
                updates[form.bump] = gr.Dropdown(value=services.evolve.bump(name, version.number))
        except Exception as error:  # any error is shown, so that the page stays usable
            updates |= {use: explain(error), publish: gr.Column(visible=False)}
        return updates

    changed = [use, publish, *([form.bump] if form is not None else [])]
    choices.input(choose, [current, choices], changed, **QUIET)
    return Versions(nothing, choices, use, publish)


def listed(versions: Versions, found: Sequence[Version], *, new: bool) -> Updates:
    """Show the versions of a run.

    Args:
        versions: The widgets.
        found: The versions.
        new: Whether another run is shown now, so that no version is chosen.
    """
    choices = proposal_views.version_choices([(item.number, item.accuracy, item.event) for item in found])
    chosen = {"value": None} if new else {}
    updates: Updates = {
        versions.nothing: gr.Markdown(visible=not choices),
        versions.choices: gr.Radio(choices, visible=bool(choices), **chosen),
    }
    return updates | ({versions.use: "", versions.publish: gr.Column(visible=False)} if new else {})

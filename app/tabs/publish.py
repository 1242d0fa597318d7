"""The Hub section of the Library tab: versions, card and publishing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import hub_views, library_views
from app.hub_services import Order, Preview, Visitor
from app.libraries import HUB, Choice
from app.services import AppServices
from app.tabs.chooser import HUB_EVENTS, Chooser
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, Updates, Widgets, markup
from app.tabs.visitors import visitor_of
from rewardharness.errors import HarnessError, InputError
from rewardharness.library.diff import diff_libraries
from rewardharness.library.hub import PushOptions, split_spec, versions

BUMPS = (("Patch: corrections", "patch"), ("Minor: new entries", "minor"), ("Major", "major"))
"""Labels and names of the version increments."""


def draw_hub(services: AppServices, chooser: Chooser) -> None:
    """Draw the collapsible sections."""
    with gr.Accordion("Versions", open=False, elem_classes="slim"):
        _draw_versions(services, chooser)
    with gr.Accordion("Card", open=False, elem_classes="slim"):
        _draw_card(services, chooser)
    with gr.Accordion("Publish", open=True, elem_classes="slim", elem_id="publish"):
        _draw_publish(services, chooser)


def _draw_card(services: AppServices, chooser: Chooser) -> None:
    """Draw the button that shows the card of the chosen Library."""

    def show(*values: Any) -> str:
        try:
            return hub_views.card(services.libraries.card(Choice(*values)))
        except Exception as error:
            return explain(error)

    button = gr.Button("Show the card", elem_id="card-show", size="md", scale=0, min_width=200)
    result = markup(elem_id="card")
    button.click(show, chooser.parts, result, **QUIET)


def _draw_versions(services: AppServices, chooser: Chooser) -> None:
    """Draw the list of versions of a Library on the Hub, and the comparison of two."""
    list_button = gr.Button("List the versions", elem_id="versions-list", size="md", scale=0, min_width=200)
    listed = markup(elem_id="versions")
    repo = gr.State("", time_to_live=KEPT)
    with gr.Row(visible=False, elem_id="versions-pair") as pair:
        before = gr.Dropdown([], label="From", elem_id="versions-before", min_width=140)
        after = gr.Dropdown([], label="To", elem_id="versions-after", min_width=140)
        compare_button = gr.Button("Compare", elem_id="versions-compare", size="md", scale=0, min_width=140)
    result = markup(elem_id="versions-differences")
    with gr.Column(visible=False, elem_id="restore") as restore:
        old = _draw_restore(services, repo)

    def list_them(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, *values: Any) -> Updates:
        try:
            choice = Choice(*values)
            if choice.kind != HUB or choice.loaded is None:
                raise InputError("Only Libraries on the Hub have versions.", next_step="Load one above first.")
            name = choice.loaded.pulled.repo
            published = versions(name, access=services.hub.access(visitor_of(token, profile)))
        except Exception as error:
            hidden: Updates = {pair: gr.Row(visible=False), restore: gr.Column(visible=False)}
            return {listed: _error(services, error), **hidden, result: ""}
        tags = [version.tag for version in published]
        return {
            listed: hub_views.versions(published, name),
            repo: name,
            pair: gr.Row(visible=len(tags) > 1),
            restore: gr.Column(visible=len(tags) > 1 and services.hub.may_publish),
            old: gr.Dropdown(tags[1:], value=None),
            before: gr.Dropdown(tags, value=tags[1] if len(tags) > 1 else None),
            after: gr.Dropdown(tags, value=tags[0] if tags else None),
            result: "",
        }

    def compare(
        token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, name: str, one: str | None, other: str | None
    ) -> str:
        try:
            libraries = services.hub.two(name, one or "", other or "", visitor_of(token, profile))
            return library_views.differences(diff_libraries(*libraries), one or "", other or "")
        except Exception as error:
            return _error(services, error)

    parts = [listed, repo, pair, before, after, result, restore, old]
    list_button.click(list_them, chooser.parts, parts, **HUB_EVENTS)
    compare_button.click(compare, [repo, before, after], result, **HUB_EVENTS)


def _draw_restore(services: AppServices, repo: gr.State) -> gr.Dropdown:
    """Draw the form that publishes an old version again as the newest one, after a preview."""
    markup(hub_views.restore_hint())
    old = gr.Dropdown([], label="Version to restore", elem_id="restore-version", min_width=200)
    pull = gr.Checkbox(label="Propose as a pull request", elem_id="restore-pull")

    def order(visitor: Visitor, name: str, version: str | None, proposed: bool) -> Order:
        return services.hub.restoration(name, version or "", PushOptions(create_pr=proposed), visitor)

    parts = [old, pull]
    _draw_confirmation(services, "restore", order, [repo, *parts], [each.input for each in parts])
    return old


@dataclass(frozen=True)
class PublishRequest:
    """Repository and options of publishing."""

    repo: str
    how: PushOptions


@dataclass(frozen=True)
class PublishForm(Widgets):
    """Fields of the publishing form, in the order of the arguments of `_publish_request`."""

    repo: gr.Textbox
    version: gr.Textbox
    bump: gr.Dropdown
    private: gr.Checkbox
    pull: gr.Checkbox
    both: gr.Checkbox


@dataclass(frozen=True)
class Source:
    """The source of a publication."""

    order: Callable[..., Order]
    """Makes an order from a `PublishRequest`, the visitor, and the values of `inputs`."""
    inputs: Sequence[Any]
    """Widgets that determine the source."""
    changes: Sequence[Any]
    """Events that invalidate a preview."""


def _draw_publish(services: AppServices, chooser: Chooser) -> None:
    """Draw the form that publishes the chosen Library."""

    def order(request: PublishRequest, visitor: Visitor, *values: Any) -> Order:
        choice, repo = Choice(*values), request.repo
        source = services.libraries.publishable(choice)
        same = choice.loaded is not None and choice.kind == HUB and choice.loaded.pulled.repo == repo
        base = choice.loaded.pulled.commit if same and choice.loaded is not None else ""
        return Order(source, repo, replace(request.how, base=base))

    changes = [each.input for each in (chooser.kind, chooser.folder, chooser.spec)]
    draw_publishing(services, "publish", Source(order, chooser.parts, changes))


def draw_publishing(services: AppServices, name: str, source: Source) -> PublishForm | None:
    """Draw a publishing form with a preview and a confirmation.

    Args:
        services: The services.
        name: Prefix of the element ids, unique in the page.
        source: The source.

    Returns:
        The form; None where publishing is off.
    """
    if not services.hub.may_publish:
        markup(hub_views.no_publishing(), elem_id=f"{name}-off")
        return None
    if services.hub.with_login:
        login = "login" if name == "publish" else f"{name}-login"
        gr.LoginButton("Log in with Hugging Face", logout_value="Log out ({})", size="md", elem_id=login)
    form = _draw_form(name)
    fields = len(form.parts)

    def order(visitor: Visitor, *values: Any) -> Order:
        return source.order(_publish_request(*values[:fields]), visitor, *values[fields:])

    changes = [*(each.input for each in form.parts), *source.changes]
    _draw_confirmation(services, name, order, [*form.parts, *source.inputs], changes)
    return form


def _draw_confirmation(
    services: AppServices, name: str, make: Callable[..., Order], inputs: Sequence[Any], changes: Sequence[Any]
) -> None:
    """Draw a preview button, and a button that executes the previewed order.

    Args:
        services: The services.
        name: Prefix of the element ids.
        make: Makes an order from the visitor and the values of `inputs`.
        inputs: Widgets that determine the order.
        changes: Events that invalidate a preview.
    """
    see = gr.Button("Preview", elem_id=f"{name}-preview", size="md", scale=0, min_width=200)
    output = markup(hub_views.publish_hint(), elem_id=f"{name}-told")
    confirm = gr.Button("Publish", variant="primary", visible=False, elem_id=f"{name}-confirm", size="md", scale=0)
    previewed = gr.State(None, time_to_live=KEPT)
    parts: list[Any] = [output, confirm, previewed]

    def preview(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, *values: Any) -> Updates:
        try:
            visitor = visitor_of(token, profile)
            result = services.hub.preview(make(visitor, *values), visitor)
        except Exception as error:
            return {output: _error(services, error), confirm: gr.Button(visible=False), previewed: None}
        ready = not result.pushed.nothing_to_push
        verb = "Propose" if result.order.how.create_pr else "Publish"
        label = f"{verb} {result.pushed.version} to {result.pushed.repo}"
        return {
            output: hub_views.preview(result),
            confirm: gr.Button(label, visible=ready),
            previewed: result if ready else None,
        }

    def publish(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, preview: Preview | None) -> Updates:
        try:
            if preview is None:
                raise InputError("The preview has expired.", next_step="Preview again, then publish.")
            done = services.hub.publish(preview, visitor_of(token, profile))
            shown = hub_views.published(done, services.hub.page(done.repo))
        except Exception as error:
            shown = _error(services, error)
        return {output: shown, confirm: gr.Button(visible=False), previewed: None}

    def outdated(preview: Preview | None) -> Updates:
        """Clear a preview that does not match the form."""
        if preview is None:
            return {previewed: None}
        return {output: hub_views.publish_hint(), confirm: gr.Button(visible=False), previewed: None}

    see.click(preview, list(inputs), parts, **HUB_EVENTS)
    confirm.click(publish, previewed, parts, **HUB_EVENTS)
    gr.on(list(changes), outdated, previewed, parts, queue=False, **QUIET)


def _draw_form(name: str) -> PublishForm:
    with gr.Row(equal_height=True):
        repo = gr.Textbox(
            label="Publish to", placeholder="your-name/your-library", max_lines=1, max_length=100,
            elem_id=f"{name}-repo", min_width=260,
        )  # fmt: skip
        bump = gr.Dropdown(list(BUMPS), value="patch", label="Version increment", elem_id=f"{name}-bump", min_width=200)
        version = gr.Textbox(
            label="Or an explicit version", placeholder="1.2.0", max_lines=1, max_length=40,
            elem_id=f"{name}-version", min_width=160,
        )  # fmt: skip
    private = gr.Checkbox(label="Private, for a new repository", elem_id=f"{name}-private")
    pull = gr.Checkbox(label="Propose as a pull request", elem_id=f"{name}-pull")
    both = gr.Checkbox(label="Merge with the latest version", elem_id=f"{name}-both")
    return PublishForm(repo, version, bump, private, pull, both)


def _publish_request(repo: str, version: str, bump: str, private: bool, pull: bool, both: bool) -> PublishRequest:
    repo, version = repo.strip(), version.strip()
    if not repo:
        raise InputError("The repository is missing.", next_step="Enter your-name/your-library.")
    named = split_spec(repo)
    repo = named[0] if named is not None else repo
    bumped = "" if version or bump == "patch" else bump
    return PublishRequest(repo, PushOptions(version=version, bump=bumped, private=private, create_pr=pull, rebase=both))


def _error(services: AppServices, error: Exception) -> str:
    if isinstance(error, HarnessError):
        return hub_views.hub_error(error, with_login=services.hub.with_login)
    return explain(error)

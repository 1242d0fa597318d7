"""The Hub section of the Library tab: versions, card and publishing."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from app.failures import explaining
from app.library import hub_views
from app.library import views as library_views
from app.library.chooser import HUB_EVENTS, Chooser, asking_hub
from app.library.libraries import HUB, Choice, Order, Preview, Visitor
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, section, state, textbox
from rewardharness.errors import InputError
from rewardharness.library.diff import diff_libraries
from rewardharness.library.hub import PushOptions, split_spec, versions

BUMPS = (("Patch: corrections", "patch"), ("Minor: new entries", "minor"), ("Major", "major"))
"""Labels and names of the version increments."""


def draw_hub(services: AppServices, chooser: Chooser) -> None:
    """Draw the collapsible sections."""
    with section("Versions"):
        _draw_versions(services, chooser)
    with section("Card"):
        _draw_card(services, chooser)
    with section("Publish", open=True, elem_id="publish"):
        _draw_publish(services, chooser)


def _draw_card(services: AppServices, chooser: Chooser) -> None:
    """Draw the button that shows the card of the chosen Library."""

    @explaining
    def show(*values: Any) -> str:
        return hub_views.card(services.libraries.card(Choice(*values)))

    button("Show the card", "card-show", min_width=200).click(show, chooser.inputs, markup(elem_id="card"), **QUIET)


def _draw_versions(services: AppServices, chooser: Chooser) -> None:
    """Draw the list of versions of a Library on the Hub, and the comparison of two."""
    start = button("List the versions", "versions-list", min_width=200)
    listed = markup(elem_id="versions")
    repo = state("")
    with gr.Row(visible=False, elem_id="versions-pair") as pair:
        before = gr.Dropdown([], label="From", elem_id="versions-before", min_width=140)
        after = gr.Dropdown([], label="To", elem_id="versions-after", min_width=140)
        start_comparison = button("Compare", "versions-compare", min_width=140)
    result = markup(elem_id="versions-differences")
    with gr.Column(visible=False, elem_id="restore") as restore:
        old = _draw_restore(services, repo)

    def list_them(visitor: Visitor, *values: Any) -> Updates:
        choice = Choice(*values)
        if choice.kind != HUB or choice.loaded is None:
            raise InputError("Only Libraries on the Hub have versions.", next_step="Load one above first.")
        name = choice.loaded.pulled.repo
        published = versions(name, access=services.hub.access(visitor))
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

    def nothing(text: str) -> Updates:
        return {listed: text, pair: gr.Row(visible=False), restore: gr.Column(visible=False), result: ""}

    def compare(visitor: Visitor, name: str, one: str | None, other: str | None) -> str:
        libraries = services.hub.two(name, one or "", other or "", visitor)
        return library_views.differences(diff_libraries(*libraries), one or "", other or "")

    parts, listing = [listed, repo, pair, before, after, result, restore, old], asking_hub(services, list_them, nothing)
    start.click(listing, chooser.inputs, parts, **HUB_EVENTS)
    start_comparison.click(asking_hub(services, compare, str), [repo, before, after], result, **HUB_EVENTS)


def _draw_restore(services: AppServices, repo: gr.State) -> gr.Dropdown:
    """Draw the form that publishes an old version again as the newest one, after a preview."""
    markup(hub_views.RESTORE_HINT)
    old = gr.Dropdown([], label="Version to restore", elem_id="restore-version", min_width=200)
    pull = gr.Checkbox(label="Propose as a pull request", elem_id="restore-pull")

    def order(visitor: Visitor, name: str, version: str | None, proposed: bool) -> Order:
        return services.hub.restoration(name, version or "", PushOptions(create_pr=proposed), visitor)

    _draw_confirmation(services, "restore", order, [repo, old, pull], [old.input, pull.input])
    return old


class PublishForm(Widgets):
    """Fields of the publishing form. `name`: prefix of the element ids."""

    def __init__(self, name: str) -> None:
        with gr.Row(equal_height=True):
            example = "your-name/your-library"
            self.repo = textbox("Publish to", f"{name}-repo", placeholder=example, max_length=100, min_width=260)
            options: dict[str, Any] = {"label": "Version increment", "elem_id": f"{name}-bump", "min_width": 200}
            self.bump = gr.Dropdown(list(BUMPS), value="patch", **options)
            options = {"placeholder": "1.2.0", "max_length": 40, "min_width": 160}
            self.version = textbox("Or an explicit version", f"{name}-version", **options)
        self.private = gr.Checkbox(label="Private, for a new repository", elem_id=f"{name}-private")
        self.pull = gr.Checkbox(label="Propose as a pull request", elem_id=f"{name}-pull")
        self.both = gr.Checkbox(label="Merge with the latest version", elem_id=f"{name}-both")

    def read(
        self, repo: str, bump: str, version: str, private: bool, pull: bool, both: bool
    ) -> tuple[str, PushOptions]:
        """Read the values of `parts`."""
        repo, version = repo.strip(), version.strip()
        if not repo:
            raise InputError("The repository is missing.", next_step="Enter your-name/your-library.")
        named = split_spec(repo)
        bumped = "" if version or bump == "patch" else bump
        options = PushOptions(version=version, bump=bumped, private=private, create_pr=pull, rebase=both)
        return named[0] if named is not None else repo, options


def _draw_publish(services: AppServices, chooser: Chooser) -> None:
    """Draw the form that publishes the chosen Library."""

    def order(repo: str, options: PushOptions, *values: Any) -> Order:
        return Order.on_its_base(services.libraries.publishable(Choice(*values)), repo, options)

    changes = [widget.input for widget in (chooser.kind, chooser.folder, chooser.spec)]
    draw_publishing(services, "publish", order, chooser.inputs, changes)


def draw_publishing(
    services: AppServices, name: str, make: Callable[..., Order], inputs: Sequence[Any], changes: Sequence[Any]
) -> PublishForm | None:
    """Draw a publishing form with a preview and a confirmation.

    Args:
        services: The services.
        name: Prefix of the element ids, unique in the page.
        make: Makes an order from a repository, options, and the values of `inputs`.
        inputs: Widgets that determine the source.
        changes: Events that invalidate a preview.

    Returns:
        The form; None where publishing is off.
    """
    if not services.hub.may_publish:
        markup(hub_views.NO_PUBLISHING, elem_id=f"{name}-off")
        return None
    if services.hub.with_login:
        login = "login" if name == "publish" else f"{name}-login"
        gr.LoginButton("Log in with Hugging Face", logout_value="Log out ({})", size="md", elem_id=login)
    form = PublishForm(name)
    fields = len(form.parts)

    def order(visitor: Visitor, *values: Any) -> Order:
        return make(*form.read(*values[:fields]), *values[fields:])

    changed = [*(widget.input for widget in form.parts), *changes]
    _draw_confirmation(services, name, order, [*form.parts, *inputs], changed)
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
    see = button("Preview", f"{name}-preview", min_width=200)
    output = markup(hub_views.PUBLISH_HINT, elem_id=f"{name}-told")
    confirm = button("Publish", f"{name}-confirm", variant="primary", visible=False)
    previewed = state()
    parts: list[Any] = [output, confirm, previewed]

    def told(text: str) -> Updates:
        return {output: text, confirm: gr.Button(visible=False), previewed: None}

    def preview(visitor: Visitor, *values: Any) -> Updates:
        result = services.hub.preview(make(visitor, *values), visitor)
        ready = not result.pushed.nothing_to_push
        verb = "Propose" if result.order.how.create_pr else "Publish"
        label = f"{verb} {result.pushed.version} to {result.pushed.repo}"
        return {
            output: hub_views.preview(result),
            confirm: gr.Button(label, visible=ready),
            previewed: result if ready else None,
        }

    def publish(visitor: Visitor, preview: Preview | None) -> Updates:
        if preview is None:
            raise InputError("The preview has expired.", next_step="Preview again, then publish.")
        done = services.hub.publish(preview, visitor)
        return told(hub_views.published(done, services.hub.page(done.repo)))

    def outdated(preview: Preview | None) -> Updates:
        """Clear a preview that does not match the form."""
        return {previewed: None} if preview is None else told(hub_views.PUBLISH_HINT)

    see.click(asking_hub(services, preview, told), list(inputs), parts, **HUB_EVENTS)
    confirm.click(asking_hub(services, publish, told), previewed, parts, **HUB_EVENTS)
    gr.on(list(changes), outdated, previewed, parts, queue=False, **QUIET)

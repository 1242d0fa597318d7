"""The parts of the Library tab that are about the Hub: the card, the versions, and publishing."""

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
from app.tabs.parts import KEPT, QUIET, Updates, markup
from app.tabs.visitors import visitor_of
from rewardharness.errors import HarnessError, InputError
from rewardharness.library.diff import diff_libraries
from rewardharness.library.hub import PushOptions, split_spec

BUMPS = (("Patch: corrections", "patch"), ("Minor: new entries", "minor"), ("Major", "major"))
"""Parts of a version that can go up, and their names."""


def draw_hub(services: AppServices, chooser: Chooser) -> None:
    """Draw all of them, one below the other; each can be folded."""
    with gr.Accordion("Versions", open=False, elem_classes="slim"):
        _draw_versions(services, chooser)
    with gr.Accordion("Card", open=False, elem_classes="slim"):
        _draw_card(services, chooser)
    with gr.Accordion("Publish", open=True, elem_classes="slim", elem_id="publish"):
        _draw_publish(services, chooser)


def _draw_card(services: AppServices, chooser: Chooser) -> None:
    """Show the card of the chosen Library."""

    def show(*values: Any) -> str:
        try:
            return hub_views.card(services.libraries.card(Choice(*values)))
        except Exception as error:
            return explain(error)

    button = gr.Button("Show the card", elem_id="card-show", size="md", scale=0, min_width=200)
    result = markup(elem_id="card")
    button.click(show, chooser.parts, result, **QUIET)


def _draw_versions(services: AppServices, chooser: Chooser) -> None:
    """List the versions of a Library of the Hub, and compare two of them."""
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
                raise InputError("Only Libraries of the Hub have versions.", next_step="Load one above first.")
            name = choice.loaded.pulled.repo
            found = services.hub.versions(name, visitor_of(token, profile))
        except Exception as error:
            hidden: Updates = {pair: gr.Row(visible=False), restore: gr.Column(visible=False)}
            return {listed: _told(services, error), **hidden, result: ""}
        tags = [each.tag for each in found]
        return {
            listed: hub_views.versions(found, name),
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
            found = services.hub.two(name, one or "", other or "", visitor_of(token, profile))
            return library_views.differences(diff_libraries(*found), one or "", other or "")
        except Exception as error:
            return _told(services, error)

    parts = [listed, repo, pair, before, after, result, restore, old]
    list_button.click(list_them, chooser.parts, parts, **HUB_EVENTS)
    compare_button.click(compare, [repo, before, after], result, **HUB_EVENTS)


def _draw_restore(services: AppServices, repo: gr.State) -> gr.Dropdown:
    """Publish an old version once more, as the newest one; first a preview, as for any other."""
    markup(hub_views.restore_hint())
    old = gr.Dropdown([], label="Version to restore", elem_id="restore-version", min_width=200)
    pull = gr.Checkbox(label="Propose as a pull request", elem_id="restore-pull")

    def order(visitor: Visitor, name: str, version: str | None, proposed: bool) -> Order:
        return services.hub.restoration(name, version or "", PushOptions(create_pr=proposed), visitor)

    parts = [old, pull]
    _draw_promise(services, "restore", order, [repo, *parts], [each.input for each in parts])
    return old


@dataclass(frozen=True)
class Wish:
    """Where and how a visitor wants to publish."""

    repo: str
    how: PushOptions


@dataclass(frozen=True)
class PublishForm:
    """What a visitor says about publishing, in the order of the arguments of `_wish`."""

    repo: gr.Textbox
    version: gr.Textbox
    bump: gr.Dropdown
    private: gr.Checkbox
    pull: gr.Checkbox
    both: gr.Checkbox

    @property
    def parts(self) -> list[Any]:
        """All of them."""
        return list(vars(self).values())


@dataclass(frozen=True)
class Source:
    """What is published."""

    order: Callable[..., Order]
    """Puts an order together from a `Wish`, the visitor, and the values of `inputs`."""
    inputs: Sequence[Any]
    """Parts of the page that say what is published."""
    changes: Sequence[Any]
    """Events after which something else is published, so that a preview is void."""


def _draw_publish(services: AppServices, chooser: Chooser) -> None:
    """Publish the chosen Library."""

    def order(wish: Wish, visitor: Visitor, *values: Any) -> Order:
        choice, repo = Choice(*values), wish.repo
        source = services.libraries.publishable(choice)
        same = choice.loaded is not None and choice.kind == HUB and choice.loaded.pulled.repo == repo
        base = choice.loaded.pulled.commit if same and choice.loaded is not None else ""
        return Order(source, repo, replace(wish.how, base=base))

    changes = [each.input for each in (chooser.kind, chooser.folder, chooser.spec)]
    draw_publishing(services, "publish", Source(order, chooser.parts, changes))


def draw_publishing(services: AppServices, name: str, source: Source) -> PublishForm | None:
    """Draw what publishing takes: first a preview, then a button to confirm it.

    Args:
        services: The services.
        name: Beginning of the ids of its parts, unique in the page.
        source: What is published.

    Returns:
        The form; None where nobody can publish.
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
        return source.order(_wish(*values[:fields]), visitor, *values[fields:])

    changes = [*(each.input for each in form.parts), *source.changes]
    _draw_promise(services, name, order, [*form.parts, *source.inputs], changes)
    return form


def _draw_promise(
    services: AppServices, name: str, make: Callable[..., Order], inputs: Sequence[Any], changes: Sequence[Any]
) -> None:
    """Draw a button for a preview, and one that does what the preview shows.

    Args:
        services: The services.
        name: Beginning of the ids of its parts.
        make: Puts an order together from the visitor and the values of `inputs`.
        inputs: Parts of the page that say what is published.
        changes: Events after which a preview is void.
    """
    see = gr.Button("See a preview", elem_id=f"{name}-preview", size="md", scale=0, min_width=200)
    told = markup(hub_views.publish_hint(), elem_id=f"{name}-told")
    confirm = gr.Button("Publish", variant="primary", visible=False, elem_id=f"{name}-confirm", size="md", scale=0)
    promised = gr.State(None, time_to_live=KEPT)
    parts: list[Any] = [told, confirm, promised]

    def preview(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, *values: Any) -> Updates:
        try:
            visitor = visitor_of(token, profile)
            found = services.hub.preview(make(visitor, *values), visitor)
        except Exception as error:
            return {told: _told(services, error), confirm: gr.Button(visible=False), promised: None}
        ready = not found.found.nothing_to_push
        verb = "Propose" if found.order.how.create_pr else "Publish"
        label = f"{verb} {found.found.version} to {found.found.repo}"
        return {
            told: hub_views.preview(found),
            confirm: gr.Button(label, visible=ready),
            promised: found if ready else None,
        }

    def publish(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, found: Preview | None) -> Updates:
        try:
            if found is None:
                raise InputError("There is no preview any more.", next_step="See a preview again, then publish.")
            shown = hub_views.published(services.hub.publish(found, visitor_of(token, profile)))
        except Exception as error:
            shown = _told(services, error)
        return {told: shown, confirm: gr.Button(visible=False), promised: None}

    def outdated(found: Preview | None) -> Updates:
        """Take a preview back that is no longer what the form asks for."""
        if found is None:
            return {promised: None}
        return {told: hub_views.publish_hint(), confirm: gr.Button(visible=False), promised: None}

    see.click(preview, list(inputs), parts, trigger_mode="once", **HUB_EVENTS)
    confirm.click(publish, promised, parts, trigger_mode="once", **HUB_EVENTS)
    gr.on(list(changes), outdated, promised, parts, queue=False, **QUIET)


def _draw_form(name: str) -> PublishForm:
    with gr.Row(equal_height=True):
        repo = gr.Textbox(
            label="Publish to", placeholder="your-name/your-library", max_lines=1, max_length=100,
            elem_id=f"{name}-repo", min_width=260,
        )  # fmt: skip
        bump = gr.Dropdown(list(BUMPS), value="patch", label="What has changed", elem_id=f"{name}-bump", min_width=200)
        version = gr.Textbox(
            label="Or a version of your own", placeholder="1.2.0", max_lines=1, max_length=40,
            elem_id=f"{name}-version", min_width=160,
        )  # fmt: skip
    private = gr.Checkbox(label="Private, if it is new", elem_id=f"{name}-private")
    pull = gr.Checkbox(label="Propose as a pull request", elem_id=f"{name}-pull")
    both = gr.Checkbox(label="Bring together with what is there now", elem_id=f"{name}-both")
    return PublishForm(repo, version, bump, private, pull, both)


def _wish(repo: str, version: str, bump: str, private: bool, pull: bool, both: bool) -> Wish:
    repo, version = repo.strip(), version.strip()
    if not repo:
        raise InputError("It is not said where to publish.", next_step="Type your-name/your-library.")
    named = split_spec(repo)
    repo = named[0] if named is not None else repo
    bumped = "" if version or bump == "patch" else bump
    return Wish(repo, PushOptions(version=version, bump=bumped, private=private, create_pr=pull, rebase=both))


def _told(services: AppServices, error: Exception) -> str:
    if isinstance(error, HarnessError):
        return hub_views.hub_trouble(error, with_login=services.hub.with_login)
    return explain(error)

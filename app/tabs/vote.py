"""The Vote tab: pairs in random order, a vote, and only then the answer of the judge."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import views, vote_views
from app.services import AppServices
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, VOTE_EVENTS, Updates, Widgets, markup
from app.voting import Ballot, Voting
from rewardharness.schema import Judgment

_PICTURE: dict[str, Any] = {"interactive": False, "format": "webp", "height": 320, "min_width": 120, "buttons": []}


@dataclass(frozen=True)
class VoteTab(Widgets):
    """The widgets."""

    ballot: gr.State
    data: gr.Textbox
    question: gr.Markdown
    pictures: tuple[gr.Image, ...]
    """Source, A and B."""
    answers: tuple[gr.Button, ...]
    skip: gr.Button
    result: gr.Markdown


def build_vote_tab(services: AppServices, tab: gr.Tab) -> None:
    """Build the tab. The first pair is drawn when the tab is opened.

    Args:
        services: The services.
        tab: The tab around it.
    """
    feedback = services.feedback
    markup(vote_views.about(feedback.repo, str(services.settings.feedback), lasting=services.local))
    data = gr.Textbox(
        "",
        label="Pairs",
        info="A folder, a table or a dataset on the Hub, labeled or not. Empty: the samples of the Score tab.",
        placeholder=services.settings.vote_data or "org/pairs",
        max_lines=1,
        max_length=300,
        visible=services.local,
        elem_id="vote-data",
    )
    question = markup(elem_id="vote-question")
    with gr.Row(elem_id="vote-pictures"):
        source = gr.Image(label="Source, before the edit", elem_id="vote-source", **_PICTURE)
        a, b = (gr.Image(label=f"Edit {each.upper()}", elem_id=f"vote-{each}", **_PICTURE) for each in "ab")
    with gr.Row(elem_id="vote-answers"):
        answers = tuple(
            gr.Button(label, size="md", min_width=120, interactive=False, elem_id=f"vote-{key}")
            for label, key in zip(vote_views.ANSWERS.values(), ("is-a", "is-b", "tie", "bad"), strict=True)
        )
        skip = gr.Button("Skip", size="md", min_width=100, elem_id="vote-next")
    result = markup(elem_id="vote-result")
    ballot = gr.State(None, time_to_live=KEPT)
    form = VoteTab(ballot, data, question, (source, a, b), answers, skip, result)
    _connect(services, form, tab)


def _connect(services: AppServices, form: VoteTab, tab: gr.Tab) -> None:
    voting = Voting(services)

    def draw(ballot: Ballot | None, data: str) -> Updates:
        seen = ballot.seen if ballot is not None else frozenset()
        try:
            found = voting.next(seen, random.SystemRandom(), data or "")
            pictures = found.pictures() if found is not None else [None] * 3
        except Exception as error:  # every error is shown, so that the page stays usable
            return {form.question: explain(error), **_answerable(form, False)}
        if found is None:
            return {form.question: vote_views.no_more(), form.result: "", **_answerable(form, False)}
        shown = dict(zip(form.pictures, pictures, strict=True))
        updates: Updates = {form.ballot: found, form.question: vote_views.question(found), form.result: "", **shown}
        return {**updates, form.skip: gr.Button("Skip", variant="secondary"), **_answerable(form, True)}

    def begin(ballot: Ballot | None, data: str) -> Updates:
        return {form.ballot: gr.skip()} if ballot is not None else draw(None, data)

    drawing: dict[str, Any] = {"inputs": [form.ballot, form.data], "outputs": form.parts, **QUIET}
    tab.select(begin, **drawing)
    form.skip.click(draw, **drawing)
    form.data.submit(lambda data: draw(None, data), form.data, form.parts, **QUIET)
    for answer, button in zip(vote_views.ANSWERS, form.answers, strict=True):
        button.click(_voting(services, voting, form, answer), form.ballot, form.parts, **VOTE_EVENTS, **QUIET)


def _voting(services: AppServices, voting: Voting, form: VoteTab, answer: str) -> Callable[..., Iterator[Updates]]:
    def vote(profile: gr.OAuthProfile | None, ballot: Ballot | None) -> Iterator[Updates]:
        if ballot is None:
            yield {form.result: views.session_expired()}
            return
        done = _answerable(form, False)
        yield {form.result: views.storing(), **done}
        try:
            stored = voting.vote(ballot, answer, profile.username if profile is not None else "")
        except Exception as error:
            yield {form.result: explain(error), **_answerable(form, True)}
            return
        yield {form.result: vote_views.judging(), **done}
        judgment: Judgment | None = None
        try:
            judgment = voting.judge(ballot)
        except Exception as error:  # the vote is stored all the same
            explain(error)
        told = vote_views.revealed(answer, stored, judgment, lasting=services.local)
        yield {form.result: told, form.skip: gr.Button("Next pair", variant="primary"), **done}

    return vote


def _answerable(form: VoteTab, yes: bool) -> Updates:
    return {button: gr.Button(interactive=yes) for button in form.answers}

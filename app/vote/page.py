"""The Vote tab: pairs in random order, a vote, and only then the answer of the judge."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from app.failures import explain
from app.score import views
from app.services import AppServices
from app.vote import views as vote_views
from app.vote.service import Ballot, Voting
from app.widgets import QUIET, VOTE_EVENTS, Updates, Widgets, button, markup, state, textbox
from rewardharness.schema import Judgment

_PICTURE: dict[str, Any] = {"interactive": False, "format": "webp", "height": 320, "min_width": 120, "buttons": []}


class VoteTab(Widgets):
    """The widgets."""

    def __init__(self, services: AppServices) -> None:
        feedback = services.feedback
        markup(vote_views.about(feedback.repo, str(services.settings.feedback), lasting=services.local))
        self.data = textbox(
            "Pairs", "vote-data", placeholder=services.settings.vote_data or "org/pairs", max_length=300,
            info="A folder, a table or a dataset on the Hub, labeled or not. Empty: the samples of the Score tab.",
            visible=services.local,
        )  # fmt: skip
        self.question = markup(elem_id="vote-question")
        with gr.Row(elem_id="vote-pictures"):
            source = gr.Image(label="Source, before the edit", elem_id="vote-source", **_PICTURE)
            edits = [gr.Image(label=f"Edit {each.upper()}", elem_id=f"vote-{each}", **_PICTURE) for each in "ab"]
            self.pictures = (source, *edits)
        with gr.Row(elem_id="vote-answers"):
            self.answers = tuple(
                button(label, f"vote-{key}", scale=None, min_width=120, interactive=False)
                for label, key in zip(vote_views.ANSWERS.values(), ("is-a", "is-b", "tie", "bad"), strict=True)
            )
            self.skip = button("Skip", "vote-next", scale=None, min_width=100)
        self.result = markup(elem_id="vote-result")
        self.ballot = state()


def build_vote_tab(services: AppServices, tab: gr.Tab) -> None:
    """Build the tab. The first pair is drawn when the tab is opened.

    Args:
        services: The services.
        tab: The tab around it.
    """
    form, voting = VoteTab(services), Voting(services)

    def draw(ballot: Ballot | None, data: str) -> Updates:
        seen = ballot.seen if ballot is not None else frozenset()
        try:
            found = voting.next(seen, random.SystemRandom(), data or "")
            pictures = found.pictures() if found is not None else [None] * 3
        except Exception as error:  # every error is shown, so that the page stays usable
            return {form.question: explain(error), **_answerable(form, False)}
        if found is None:
            return {form.question: vote_views.NO_MORE, form.result: "", **_answerable(form, False)}
        shown = dict(zip(form.pictures, pictures, strict=True))
        updates: Updates = {form.ballot: found, form.question: vote_views.question(found), form.result: "", **shown}
        return {**updates, form.skip: gr.Button("Skip", variant="secondary"), **_answerable(form, True)}

    def begin(ballot: Ballot | None, data: str) -> Updates:
        return {form.ballot: gr.skip()} if ballot is not None else draw(None, data)

    drawing: dict[str, Any] = {"inputs": [form.ballot, form.data], "outputs": form.parts, **QUIET}
    tab.select(begin, **drawing)
    form.skip.click(draw, **drawing)
    form.data.submit(lambda data: draw(None, data), form.data, form.parts, **QUIET)
    for answer, each in zip(vote_views.ANSWERS, form.answers, strict=True):
        each.click(_voting(services, voting, form, answer), form.ballot, form.parts, **VOTE_EVENTS, **QUIET)


def _voting(services: AppServices, voting: Voting, form: VoteTab, answer: str) -> Callable[..., Iterator[Updates]]:
    def vote(profile: gr.OAuthProfile | None, request: gr.Request, ballot: Ballot | None) -> Iterator[Updates]:
        if ballot is None:
            yield {form.result: views.SESSION_EXPIRED}
            return
        done = _answerable(form, False)
        yield {form.result: views.STORING, **done}
        try:
            visitor = services.visitor(profile=profile, request=request)
            stored = voting.vote(ballot, answer, visitor.name, visitor.owner)
        except Exception as error:
            yield {form.result: explain(error), **_answerable(form, True)}
            return
        yield {form.result: vote_views.JUDGING, **done}
        judgment: Judgment | None = None
        try:
            judgment = voting.judge(ballot)
        except Exception as error:  # the vote is stored all the same
            explain(error)
        told = vote_views.revealed(answer, stored, judgment, lasting=services.local)
        yield {form.result: told, form.skip: gr.Button("Next pair", variant="primary"), **done}

    return vote


def _answerable(form: VoteTab, yes: bool) -> Updates:
    return dict.fromkeys(form.answers, gr.Button(interactive=yes))

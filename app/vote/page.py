"""The Vote tab: pairs and groups in random order, a vote, and only then the answer of the judge.

Instructions and names of editors are foreign text.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.failures import explain, explaining_at
from app.markup import block, code, count, escape, faint, notice, paragraph
from app.run_panel.views import sections
from app.score import model_views, views
from app.score.comparisons import Comparison
from app.score.views import consent, headline, stored_words
from app.services import AppServices
from app.viewer.results import viewer
from app.vote.service import BOTH_BAD, Ballot, Cast
from app.widgets import QUIET, VOTE_EVENTS, Updates, Widgets, button, markup, section, state, textbox
from rewardharness.benchmark.intervals import answers_interval
from rewardharness.benchmark.metrics import LabeledAnswer, agreement
from rewardharness.data.votes import editors_of
from rewardharness.editors.report import SCALE, ratings_table
from rewardharness.evolution.plan import LEAST
from rewardharness.judging.ranking import RatedEditor
from rewardharness.report import Section, Text
from rewardharness.schema import LABELS, TIE, Example, Judgment

ANSWERS = {**{label: f"{label} is better" for label in LABELS}, TIE: "It is a tie", BOTH_BAD: "Both are bad"}
"""Label of each answer about a pair."""

RANKED = {**{label: label for label in LABELS}, TIE: "The rest are level", BOTH_BAD: "All are bad"}
"""Label of each answer about a group."""

_INTERVAL_FROM = 5
"""Number of answers from which an agreement has an interval."""


def about(repo: str | None, place: str, *, lasting: bool) -> str:
    """Explain the tab, and where votes go."""
    where = f"to {code(place)}" if lasting else "on this Space, until it restarts"
    text = consent(repo) if repo else f"A vote adds images, instruction and answer as a labeled example {where}."
    return block(
        "<p>Which edit carries out the instruction better? They are in random order, and the judge's answer is "
        "shown only after your vote. Keys: A, B, T tie, X both bad, S skip or next. Enter goes on after a vote, and "
        f'U takes the last vote back.</p><p class="faint">{text}</p>'
    )


def question(ballot: Ballot) -> str:
    """Format the instruction of an example, and of a group the ranking so far."""
    several = len(ballot.example.labels) > 2
    chosen = f" Best so far: {escape(', '.join(ballot.picked))}." if ballot.picked else ""
    hint = f" · Rank the edits: choose the {'next' if chosen else 'best'} one.{chosen}" if several else ""
    sent = " · sent here to be labeled" if ballot.sent else ""
    return block(
        f'<p class="headline">{escape(ballot.example.instruction)}</p>'
        f'<p class="faint">{"Group" if several else "Pair"} {ballot.number} of {ballot.total}{sent}{hint}</p>'
    )


JUDGING = faint("The judge answers…")
"""The placeholder while a stored vote is compared with the judge."""

OPENING = faint("The next pairs are being prepared…")
"""The placeholder while a dataset is opened or pairs are generated."""

NO_MORE = notice("empty", "You have seen all pairs", "Thank you for your votes.")
"""The message after the last pair."""

SENT_DONE = notice("empty", "You have seen all examples that were sent here", "Press Next pair for the usual ones.")
"""The message after the last example that was sent."""

WITHDRAWN = notice("note", "Your vote was taken back", "Vote again, or skip.")
"""The message after an undo."""

NO_EDITORS = paragraph(
    "No vote names its editors yet. Name them in the data: columns editor_a and editor_b, or a list editors.", "faint"
)
"""The message instead of a leaderboard."""


def revealed(cast: Cast, judgment: Judgment | None, *, bad: bool = False, lasting: bool) -> str:
    """Format a vote beside the answer of the judge, and who made the edits.

    Args:
        cast: The vote.
        judgment: The judge's answer; None if there is none.
        bad: Whether the visitor finds all candidates bad.
        lasting: See `views.stored_words`.
    """
    mine = cast.best or TIE
    if judgment is None or judgment.preference is None:
        answer, agrees = "The judge has no answer.", ""
    else:
        answer = headline(judgment)
        agrees = " You agree." if judgment.preference == mine else " You disagree."
    own = f"Your answer: {ANSWERS[BOTH_BAD if bad else mine]}."
    if len(cast.ballot.example.labels) > 2:
        own = f"Your ranking: {' &gt; '.join(' = '.join(level) for level in cast.ranking)}."
    grounds = f"<p>{own}{agrees}</p>{_editors(cast.ballot.example)}<p>{stored_words(cast.stored, lasting=lasting)}</p>"
    frame = f" prefers-{mine.lower()}" if mine != TIE else ""
    return block(f'<section class="verdict{frame}" role="status"><p class="headline">{answer}</p>{grounds}</section>')


def _editors(example: Example) -> str:
    named = zip(example.labels, editors_of(example), strict=False)
    made = [f"{label} was made by {editor[:60]}" for label, editor in named if editor]
    return paragraph(f"{', '.join(made)}.") if made else ""


def enough(examples: Sequence[Example]) -> bool:
    """Return whether a Library can be evolved from examples: some can be held out, with another source image."""
    labeled = [example for example in examples if example.preference is not None]
    return len(labeled) >= LEAST and len({example.source_id for example in labeled}) > 1


def summary(ballot: Ballot | None, examples: Sequence[Example] | None) -> str:
    """Format the number of labels that evolution needs, and the agreement of the visitor with judge and data.

    Args:
        ballot: The ballot with the answers of the visitor.
        examples: All stored votes, merged to examples; None where these are not on this computer.
    """
    judge, others = ballot.agreements if ballot is not None else ([], [])
    lines = [_agreed("the judge", judge), _agreed("the labels of the data", others)]
    if examples is not None:
        labels = sum(example.preference is not None for example in examples)
        share = 100 * min(labels, LEAST) // LEAST
        need = f"{labels} of {LEAST} labels that evolution needs."
        if labels >= LEAST:
            need = f"{count(labels, 'label')}: evolution needs {LEAST}, and a hundred are better."
        if labels >= LEAST and not enough(examples):
            need = f"{count(labels, 'label')} of one source image: evolution needs a second source image."
        lines.insert(0, f'<p>{need} <span class="meter"><span style="width:{share}%"></span></span></p>')
    return block("".join(lines), "vote-summary") if any(lines) else ""


def _agreed(who: str, answers: Sequence[LabeledAnswer]) -> str:
    judged = [answer for answer in answers if answer.choice is not None]
    if not judged:
        return ""
    alike = sum(map(agreement, judged))
    interval = answers_interval(judged) if len(judged) >= _INTERVAL_FROM else None
    sure = f", 95% interval {interval.low:.0%} to {interval.high:.0%}" if interval is not None else ""
    left = len(answers) - len(judged)
    missing = f"; {left} not judged" if left else ""
    return f"<p>You agree with {who} on {alike:g} of {len(judged)} ({alike / len(judged):.0%}{sure}{missing}).</p>"


def leaderboard(rows: Sequence[RatedEditor]) -> str:
    """Format the ratings of editors."""
    if not rows:
        return block(NO_EDITORS)
    text = f"Ratings by votes (Bradley-Terry): {SCALE} A tie is half a win."
    return sections(Section("leaderboard", "", (ratings_table(rows), Text((text,), "note"))))


_PICTURE: dict[str, Any] = {"interactive": False, "format": "webp", "height": 320, "min_width": 120, "buttons": []}
_IDS = {**{label: f"vote-is-{label.lower()}" for label in LABELS}, TIE: "vote-tie", BOTH_BAD: "vote-bad"}


class VoteTab(Widgets):
    """The widgets."""

    def __init__(self, services: AppServices) -> None:
        self.services, feedback = services, services.feedback
        markup(about(feedback.repo, str(services.settings.feedback), lasting=services.local))
        with gr.Row(equal_height=False, elem_id="vote-source-of-pairs"):
            self.data = textbox(
                "Pairs", "vote-data", placeholder=services.settings.vote_data or "org/pairs", max_length=300,
                info="A folder, a table or a dataset on the Hub, labeled or not. Empty: samples.",
                visible=services.local,
            )  # fmt: skip
            self.upload = gr.UploadButton(
                "Vote on own pairs (zip)", file_types=[".zip"], type="filepath", size="md", scale=0, min_width=200,
                visible=services.local or services.batches_of_visitors, elem_id="vote-upload",
            )  # fmt: skip
        self.question = markup(elem_id="vote-question")
        with gr.Row(elem_id="vote-pictures"):
            source = gr.Image(label="Source, before the edit", elem_id="vote-source", **_PICTURE)
            names = {label: {"label": f"Edit {label}", "elem_id": f"vote-{label.lower()}"} for label in LABELS}
            edits = [gr.Image(visible=label < "C", **name, **_PICTURE) for label, name in names.items()]
            self.pictures = (source, *edits)
        with gr.Row(elem_id="vote-answers"):
            look: dict[str, Any] = {"scale": None, "min_width": 110, "interactive": False}
            self.answers = {
                answer: button(text, _IDS[answer], visible=answer not in LABELS[2:], **look)
                for answer, text in ANSWERS.items()
            }
            self.skip = button("Skip", "vote-next", scale=None, min_width=100)
            self.undo = button("Undo", "vote-undo", scale=None, min_width=90, interactive=False)
        self.result = markup(elem_id="vote-result")
        with gr.Row(equal_height=False, visible=False, elem_id="vote-why") as self.why:
            with gr.Column(scale=5, min_width=300):
                self.reasons = markup(elem_id="vote-reasons")
            with gr.Column(scale=8, min_width=300):
                self.viewer = gr.HTML(elem_id="vote-viewer", js_on_load=None)
        self.summary = markup(elem_id="vote-summary")
        self.evolve = button(
            "Evolve from my votes", "vote-evolve", visible=services.local and not feedback.repo, interactive=False
        )
        with section("Leaderboard of editors", elem_id="vote-editors") as self.board:
            self.ratings = markup(elem_id="vote-ratings")
        self.ballot = state()

    def show(self, ballot: Ballot) -> Updates:
        """Show a ballot that can be answered."""
        pictures = [*ballot.pictures(), None, None]
        updates = {
            image: gr.Image(value=picture, visible=picture is not None)
            for image, picture in zip(self.pictures, pictures, strict=False)
        }
        return {**updates, **self.ask(ballot)}

    def ask(self, ballot: Ballot) -> Updates:
        """Show the question of a ballot, whose images are shown."""
        labels, asked = ballot.example.labels, question(ballot)
        words = ANSWERS if len(labels) == 2 else RANKED
        offered = {*labels, TIE, BOTH_BAD}
        answers = {
            widget: gr.Button(words[answer], visible=answer in offered, interactive=answer not in ballot.picked)
            for answer, widget in self.answers.items()
        }
        return {**self._state(ballot), self.question: asked, self.result: "", **answers}

    def answerable(self, yes: bool) -> Updates:
        """Enable or disable the answers."""
        return dict.fromkeys(self.answers.values(), gr.Button(interactive=yes))

    def _state(self, ballot: Ballot | None, *, answered: bool = False) -> Updates:
        """Show what the votes so far are worth, and hide the reasons."""
        feedback = self.services.feedback
        examples = feedback.examples() if feedback.repo is None else None
        return {
            self.ballot: ballot,
            self.why: gr.Row(visible=False),
            self.viewer: "",
            self.summary: summary(ballot, examples),
            self.undo: gr.Button(interactive=ballot is not None and bool(ballot.cast or ballot.picked)),
            self.evolve: gr.Button(interactive=enough(examples or ())),
            self.skip: gr.Button("Next pair" if answered else "Skip", variant="primary" if answered else "secondary"),
        }

    def reveal(self, ballot: Ballot, comparison: Comparison | None, answer: str) -> Updates:
        """Show the judge's answer with its reasons, and the viewer."""
        cast, judgment = ballot.cast[-1], comparison.judgment if comparison is not None else None
        told = revealed(cast, judgment, bad=answer == BOTH_BAD, lasting=self.services.local)
        updates = {**self._state(ballot, answered=True), self.result: told, **self.answerable(False)}
        if comparison is not None and comparison.judgment.failure is None:
            run, best = comparison.model, cast.best if cast.best in LABELS else LABELS[0]
            why = model_views.reasons(comparison.judgment, run) if run else views.reasons(comparison.judgment)
            updates |= {self.why: gr.Row(visible=True), self.reasons: why, self.viewer: viewer(comparison, str(best))}
        return updates

    @explaining_at("question")
    def draw(self, ballot: Ballot | None, data: str, request: gr.Request) -> Updates:
        """Show the next ballot, or that there is none."""
        found = self.services.voting.next(ballot, random.SystemRandom(), data or "", request.session_hash or "")
        if found is not None:
            return self.show(found)
        message = SENT_DONE if ballot is not None and ballot.sent else NO_MORE
        updates = self._state(ballot and replace(ballot, sent=()), answered=True)
        return {**updates, self.question: message, self.result: "", **self.answerable(False)}

    def begin(self, ballot: Ballot | None, data: str, request: gr.Request) -> Updates:
        """Show a ballot when the tab is opened for the first time, or examples were sent here."""
        waiting = self.services.voting.waits(request.session_hash or "")
        return {self.ballot: gr.skip()} if ballot is not None and not waiting else self.draw(ballot, data, request)

    def renew(self, ballot: Ballot | None, data: str, request: gr.Request) -> Updates:
        """Show a ballot of the named dataset."""
        return self.draw(ballot and replace(ballot, sent=()), data, request)

    @explaining_at("question")
    def take(self, profile: gr.OAuthProfile | None, request: gr.Request, ballot: Ballot | None, path: str) -> Updates:
        """Show the examples of an archive."""
        visitor, session = self.services.visitor(profile=profile, request=request), request.session_hash or ""
        spec = self.services.batches.take_upload(Path(path), visitor.owner)
        self.services.voting.label(session, self.services.voting.opened(spec), spec)
        return self.draw(ballot, "", request)

    @explaining_at("result")
    def take_back(self, ballot: Ballot | None) -> Updates:
        """Withdraw the last vote, and show its ballot again."""
        if ballot is None:
            return {self.result: views.SESSION_EXPIRED}
        back = self.services.voting.undo(ballot)
        return {**self.show(back), self.result: WITHDRAWN if len(back.cast) < len(ballot.cast) else ""}

    @explaining_at("ratings")
    def rate(self) -> Updates:
        """Show the leaderboard."""
        return {self.ratings: leaderboard(self.services.voting.leaderboard())}


def build_vote_tab(services: AppServices, tab: gr.Tab) -> VoteTab:
    """Build the tab. The first pair is drawn when the tab is opened.

    Args:
        services: The services.
        tab: The tab around it.
    """
    form = VoteTab(services)
    drawing: dict[str, Any] = {"inputs": [form.ballot, form.data], "outputs": form.parts, **QUIET}
    for event, handler in ((tab.select, form.begin), (form.skip.click, form.draw), (form.data.submit, form.renew)):
        event(_announced(form, handler), **drawing)
    form.upload.upload(form.take, [form.ballot, form.upload], form.parts, **QUIET)
    form.undo.click(form.take_back, form.ballot, form.parts, **VOTE_EVENTS, **QUIET)
    form.board.expand(form.rate, None, form.ratings, **QUIET)
    for answer, widget in form.answers.items():
        widget.click(_voting(services, form, answer), form.ballot, form.parts, **VOTE_EVENTS, **QUIET)
    return form


def _announced(form: VoteTab, handler: Callable[..., Updates]) -> Callable[..., Iterator[Updates]]:
    def run(ballot: Ballot | None, data: str, request: gr.Request) -> Iterator[Updates]:
        if form.services.voting.opens(ballot, data or ""):
            yield {form.question: OPENING, **form.answerable(False)}
        yield handler(ballot, data, request)

    return run


def _voting(services: AppServices, form: VoteTab, answer: str) -> Callable[..., Iterator[Updates]]:
    def vote(profile: gr.OAuthProfile | None, request: gr.Request, ballot: Ballot | None) -> Iterator[Updates]:
        if ballot is None:
            yield {form.result: views.SESSION_EXPIRED}
            return
        yield {form.result: views.STORING, **form.answerable(False)}
        try:
            visitor = services.visitor(profile=profile, request=request)
            voted = services.voting.vote(ballot, answer, visitor.name, visitor.owner)
        except Exception as error:
            yield {form.result: explain(error), **form.answerable(True)}
            return
        if len(voted.cast) == len(ballot.cast):  # others of the group are left to rank
            yield form.ask(voted)
            return
        yield {form.ballot: voted, form.result: JUDGING, **form.answerable(False)}
        comparison: Comparison | None = None
        try:
            voted, comparison = services.voting.judge(voted)
        except Exception as error:  # the vote is stored all the same
            explain(error)
        yield form.reveal(voted, comparison, answer)

    return vote

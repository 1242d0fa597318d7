"""Formats the tab Vote. Pure: records in, markup out. Instructions and names of editors are foreign text."""

from collections.abc import Sequence

from app.markup import block, code, count, escape, faint, notice, paragraph
from app.run_panel.views import sections
from app.score.views import consent, headline, stored_words
from app.vote.service import BOTH_BAD, Ballot, Cast
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
    how = f" · Rank the edits: choose the {'next' if chosen else 'best'} one.{chosen}" if several else ""
    sent = " · sent here to be labeled" if ballot.sent else ""
    return block(
        f'<p class="headline">{escape(ballot.example.instruction)}</p>'
        f'<p class="faint">{"Group" if several else "Pair"} {ballot.number} of {ballot.total}{sent}{how}</p>'
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

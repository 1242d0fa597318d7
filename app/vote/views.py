"""Formats the tab Vote. Pure: records in, markup out. Instructions are foreign text."""

from app.markup import block, code, escape, faint, notice
from app.score.views import consent, headline, stored_words
from app.vote.feedback import Stored
from app.vote.service import BOTH_BAD, Ballot
from rewardharness.schema import TIE, Judgment

ANSWERS = {"A": "A is better", "B": "B is better", TIE: "It is a tie", BOTH_BAD: "Both are bad"}
"""Label of each answer."""


def about(repo: str | None, place: str, *, lasting: bool) -> str:
    """Explain the tab, and where votes go."""
    where = f"to {code(place)}" if lasting else "on this Space, until it restarts"
    text = consent(repo) if repo else f"A vote adds images, instruction and answer as a labeled example {where}."
    return block(
        "<p>Which edit carries out the instruction better? The two are in random order, and the judge's answer is "
        f'shown only after your vote. Keys: A, B, T, X, S.</p><p class="faint">{text}</p>'
    )


def question(ballot: Ballot) -> str:
    """Format the instruction of a pair."""
    return block(
        f'<p class="headline">{escape(ballot.example.instruction)}</p>'
        f'<p class="faint">Pair {ballot.number} of {ballot.total}</p>'
    )


NO_MORE = notice("empty", "You have seen all pairs", "Thank you for your votes.")
"""The message after the last pair."""

JUDGING = faint("The judge answers…")
"""The placeholder while a stored vote is compared with the judge."""


def revealed(answer: str, stored: Stored, judgment: Judgment | None, *, lasting: bool) -> str:
    """Format the vote beside the answer of the judge.

    Args:
        answer: `A`, `B`, `tie` or `BOTH_BAD`.
        stored: Where the vote was stored.
        judgment: The judge's answer; None if there is none.
        lasting: See `views.stored_words`.
    """
    mine = TIE if answer == BOTH_BAD else answer
    if judgment is None or judgment.preference is None:
        told, agrees = "The judge has no answer.", ""
    else:
        told = headline(judgment)
        agrees = " You agree." if judgment.preference == mine else " You disagree."
    grounds = f"<p>Your answer: {ANSWERS[answer]}.{agrees}</p><p>{stored_words(stored, lasting=lasting)}</p>"
    frame = f" prefers-{mine.lower()}" if mine != TIE else ""
    return block(f'<section class="verdict{frame}" role="status"><p class="headline">{told}</p>{grounds}</section>')

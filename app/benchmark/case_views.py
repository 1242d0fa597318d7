"""Text of single questions of a benchmark, and of the comparison of two rows. Pure: markup out.

Instructions, reasoning, and names of categories, judges and Libraries are foreign text.
"""

from collections.abc import Sequence

from app.benchmark.runs import Piece, QuestionCase, Side
from app.failures import title_of
from app.markup import block, callout, escape, faint, paragraph, table
from app.run_panel.views import sections
from app.viewer.example_views import chain as chain_of
from app.viewer.example_views import texts, why
from rewardharness.benchmark.comparison import RunComparison
from rewardharness.benchmark.items import FORWARD, REVERSE
from rewardharness.benchmark.metrics import UNDECIDED
from rewardharness.benchmark.report import comparison_section
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.schema import LABELS, TIE, Scores

_ORDERS = {
    FORWARD: "Judged in both presentation orders; this is the answer in the order of the data.",
    REVERSE: "Judged in both presentation orders; this is the answer in reverse order. The images have the data order.",
}
"""Explanation of each presentation order."""


def words(case: QuestionCase) -> str:
    """Return instruction, label, predictions and scores of a question."""
    question = case.question
    about = [text for text in (question.part, question.category, question.dimension) if text]
    parts = [
        f"<p><strong>{escape(question.instruction)}</strong></p>",
        texts(case.candidates),
        paragraph(" · ".join([*about, question.id]), "faint"),
        f"<p>The label: <strong>{escape(preference_text(question.truth))}</strong>.</p>",
    ]
    if question.letters and tuple(question.letters) != LABELS[: len(question.letters)]:
        names = ", ".join(f"{page} is {own}" for page, own in zip(LABELS, question.letters, strict=False))
        parts.append(paragraph(f"In its group: {names}.", "faint"))
    parts.append(paragraph(_ORDERS.get(question.order, ""), "faint"))
    if case.changed:
        parts.append(
            callout("warning", "The data have changed since this run started; the images are the current ones.")
        )
    parts += [_side(case, side) for side in case.sides]
    return block("".join(parts))


def preference_text(preference: object) -> str:
    """Return the text of a label or an answer."""
    texts = {TIE: "it is a tie", BOTH_BAD: "both are bad", UNDECIDED: "undecided"}
    return "none" if preference is None else texts.get(str(preference), f"{preference} is better")


def _side(case: QuestionCase, side: Side) -> str:
    reply = side.reply
    title = f"<h4>{escape(side.title)}</h4>" if len(case.sides) > 1 else ""
    if reply.choice is None:
        failure = callout("error", f"No judgment: {title_of(reply.failure)}")
        return f'<section class="said">{title}{failure}</section>'
    agreement = {1.0: "as the label says", 0.0: "against the label"}.get(side.credit or 0.0, "counted as a half")
    facts = [f"The judge: {preference_text(reply.choice)}, {agreement}"]
    if reply.margin is not None:
        facts.append(f"margin {abs(reply.margin):.3f}")
    confidences = [piece.judgment.confidence for piece in side.pieces if piece.judgment is not None]
    if len(confidences) == 1 and confidences[0] is not None:
        facts.append(f"confidence {confidences[0]:.2f}")
    reasons = why(side.pieces[0].judgment) if len(side.pieces) == 1 else ""
    return f'<section class="said">{title}<p>{escape("; ".join(facts))}.</p>{_scores(case, side)}{reasons}</section>'


def _scores(case: QuestionCase, side: Side) -> str:
    """Return a table with a row per candidate."""
    rows = []
    for place in range(len(case.candidates)):
        letter = LABELS[place]
        marks = '<span class="pill good">label</span>' if case.question.truth == letter else ""
        marks += ' <span class="pill">judge</span>' if side.reply.choice == letter else ""
        scores = _scores_of(side.pieces, letter)
        cells = (None, None, None) if scores is None else (scores.instruction, scores.quality, scores.reward)
        rows.append([f'<span class="letter">{escape(letter)}</span> {marks}', *map(_number, cells)])
    return table(["", "Instruction following", "Visual quality", "Reward"], rows, "numbers candidates")


def _scores_of(pieces: Sequence[Piece], letter: str) -> Scores | None:
    for piece in pieces:
        for own, page in piece.letters.items():
            if page == letter and piece.judgment is not None:
                return piece.judgment.scores.get(own)
    return None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def chain(side: Side) -> str:
    """Return the reasoning of a judge; several pieces of markup, one line each."""
    parts = []
    for piece in side.pieces:
        parts.append(_letters(piece))
        parts.append(chain_of(piece.judgment, tuple(piece.letters)))
    return "\n\n".join(part for part in parts if part)


def _letters(piece: Piece) -> str:
    """Return the letters that the judge used, if the page has others."""
    names = [f"candidate {page} is {own}" for own, page in piece.letters.items() if own != page]
    return faint(f"In this text, {', '.join(names)}.") if names else ""


def compared(comparison: RunComparison) -> str:
    """Return the comparison of two rows: gain with interval, fixes and breaks, and McNemar test, by part."""
    return sections(comparison_section(comparison))

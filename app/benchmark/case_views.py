"""Text of single questions of a benchmark, and of the comparison of two rows. Pure: markup out.

Instructions, reasoning, and names of categories, judges and Libraries are foreign text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten

from app.benchmark.runs import Piece, QuestionCase, Side
from app.benchmark.service import AGAINST, UNJUDGED, WITH, AskedQuestion
from app.failures import title_of
from app.markup import block, callout, escape, faint, notice, paragraph, plain, table
from app.run_panel.views import sections
from app.viewer.example_views import chain as chain_of
from app.viewer.example_views import texts
from rewardharness.benchmark.comparison import RunComparison
from rewardharness.benchmark.items import FORWARD, REVERSE
from rewardharness.benchmark.metrics import UNDECIDED
from rewardharness.benchmark.report import comparison_section
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.schema import LABELS, TIE, Scores

KINDS: Mapping[str, str] = {
    AGAINST: "Judge and label disagree",
    UNJUDGED: "No judgment",
    WITH: "Judge and label agree",
}
"""Title of each kind of questions."""

_ORDERS = {
    FORWARD: "Judged in both presentation orders; this is the answer in the order of the data.",
    REVERSE: "Judged in both presentation orders; this is the answer in reverse order. The images have the data order.",
}
"""Explanation of each presentation order."""

NO_CATEGORY = "(no kind given)"
"""Title of the empty category."""


def kind_choices(asked: Sequence[AskedQuestion]) -> list[tuple[str, str]]:
    """Return the choices of kinds of questions, with counts."""
    counts = Counter(item.kind for item in asked)
    return [(f"{words} ({counts[kind]})", kind) for kind, words in KINDS.items()]


def category_choices(asked: Sequence[AskedQuestion]) -> list[tuple[str, str]]:
    """Return the choices of kinds of edit, with counts, the most frequent first: text and name."""
    counts = Counter(item.reply.question.category for item in asked)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(f"{plain(name) or NO_CATEGORY} ({n})", name) for name, n in ordered]


def no_question(*, scores: bool) -> str:
    """Return the text for a run without labeled questions.

    Args:
        scores: Whether the labels are scores.
    """
    text = (
        "The labels of this task are scores, so no answer is right or wrong." if scores else "No question has a label."
    )
    return notice("empty", "There are no questions to show", text)


def no_case(kind: str) -> str:
    """Return the text for an empty selection."""
    titles = {
        AGAINST: "Judge and label agree on everything here",
        UNJUDGED: "Everything here was judged",
        WITH: "Judge and label agree on nothing here",
    }
    return notice("empty", titles[kind], "Choose another kind above.")


def position(number: int, total: int) -> str:
    """Return the position of the shown question."""
    return block(f'<p class="faint position">{number + 1:,} of {total:,}, most confident first</p>') if total else ""


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


def _answers(answer: str) -> str:
    """Return the answer of a row, or its answers in both presentation orders."""
    return ", in reverse: ".join(map(preference_text, answer.split(" and ")))


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
    return f'<section class="said">{title}<p>{escape("; ".join(facts))}.</p>{_scores(case, side)}</section>'


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


def no_flip(about: str) -> str:
    """Return the text while no question is chosen. `about`: what is shown with its images."""
    return notice("empty", "Choose a question", f"Its images appear here, with {about}.")


COMPARISON_HINT = notice(
    "empty",
    "Choose two rows",
    "Compares two rows over the same questions: which answers the second one fixes, and which it breaks.",
)
"""The text before a comparison."""


def compared(comparison: RunComparison) -> str:
    """Return the comparison of two rows: gain with interval, fixes and breaks, and McNemar test, by part."""
    return sections(comparison_section(comparison))


def flip_choices(comparison: RunComparison) -> list[tuple[str, str]]:
    """Return the choices of questions with different answers: plain text, and id."""
    choices = []
    for part in comparison.parts:
        for flip in part.flips:
            head = f"{'Fixed' if flip.better else 'Broken'} · {part.part}"
            answers = f"first: {_answers(flip.first)} · second: {_answers(flip.second)}"
            label_and_answers = f"label: {preference_text(flip.truth)} · {answers}"
            instruction = shorten(plain(flip.instruction), 110, placeholder=" …")
            choices.append(("\n".join((plain(head), instruction, plain(label_and_answers))), flip.id))
    return choices

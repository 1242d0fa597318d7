"""Puts single questions of a benchmark into words, and the comparison of two rows. Pure: records in, markup out.

Instructions, chains, names of categories, judges and Libraries are foreign text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from app.benchmark_cases import AskedCase, Piece, Side
from app.benchmark_runs import Progress
from app.benchmark_services import AGAINST, UNJUDGED, WITH, Asked
from app.example_views import chain as chain_of
from app.failures import title_of
from app.markup import block, callout, escape, paragraph, plain, table
from rewardharness.benchmark.figures import cautions
from rewardharness.benchmark.items import FORWARD, REVERSE
from rewardharness.benchmark.metrics import UNDECIDED
from rewardharness.benchmark.result import label
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.schema import LABELS, TIE, Json, Scores

KINDS: Mapping[str, str] = {
    AGAINST: "Judge and label disagree",
    UNJUDGED: "No judgment",
    WITH: "Judge and label agree",
}
"""Which questions are looked at, in words."""

SURE = 0.05
"""A difference counts if the exact test says less than this, and the interval holds no zero."""

_ORDERS = {
    FORWARD: "Asked in both orders; this is the answer with the candidates as they stand in the data.",
    REVERSE: "Asked in both orders; here the judge saw the candidates in reverse. They stand as in the data.",
}
"""What to know about a question that was asked in both orders."""

NO_CATEGORY = "(no kind given)"
"""What the empty category is called."""


def kind_choices(asked: Sequence[Asked]) -> list[tuple[str, str]]:
    """The kinds of questions, with how many there are of each."""
    counts = {kind: sum(each.kind == kind for each in asked) for kind in KINDS}
    return [(f"{words} ({counts[kind]})", kind) for kind, words in KINDS.items()]


def category_choices(asked: Sequence[Asked]) -> list[tuple[str, str]]:
    """The kinds of edit among some questions, with how many, the most frequent first: words, and the name."""
    counts = Counter(each.reply.question.category for each in asked)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(f"{plain(name) or NO_CATEGORY} ({n})", name) for name, n in ordered]


def no_question(*, scores: bool) -> str:
    """What stands in the place of a question where a run asks none that has a label.

    Args:
        scores: Whether the truth is a score.
    """
    text = "The truth of this task is a score, so no answer is right or wrong." if scores else "No question counts."
    return block(callout("empty", "There is nothing to agree with", paragraph(text)))


def no_case(kind: str) -> str:
    """What stands in the place of a question where there is none."""
    titles = {
        AGAINST: "Judge and label agree on everything here",
        UNJUDGED: "Everything here was judged",
        WITH: "Judge and label agree on nothing here",
    }
    return block(callout("empty", titles[kind], paragraph("Choose another kind above.")))


def position(number: int, total: int) -> str:
    """Which of the questions is shown."""
    return block(f'<p class="faint position">{number + 1:,} of {total:,}, the surest first</p>') if total else ""


def words(case: AskedCase) -> str:
    """What was asked, what the label says, what each judge preferred, and every score."""
    question = case.question
    about = [each for each in (question.part, question.category, question.dimension) if each]
    parts = [
        f"<p><strong>{escape(question.instruction)}</strong></p>",
        paragraph(" · ".join([*about, question.id]), "faint"),
        f"<p>The label: <strong>{escape(called(question.truth))}</strong>.</p>",
    ]
    if question.letters and tuple(question.letters) != LABELS[: len(question.letters)]:
        names = ", ".join(f"{page} is {own}" for page, own in zip(LABELS, question.letters, strict=False))
        parts.append(paragraph(f"In its group: {names}.", "faint"))
    parts.append(paragraph(_ORDERS.get(question.order, ""), "faint"))
    if case.changed:
        parts.append(callout("warning", "The data have changed since this run began: the pictures are those of today."))
    parts += [_side(case, side) for side in case.sides]
    return block("".join(parts))


def called(preference: object) -> str:
    """A label or an answer in words."""
    known = {TIE: "it is a tie", BOTH_BAD: "both are bad", UNDECIDED: "it cannot tell"}
    return "none" if preference is None else known.get(str(preference), f"{preference} is better")


def _answers(flip: Mapping[str, Any], which: str) -> str:
    """What one of two rows answered: one answer, or two that differ with the order."""
    return ", in reverse: ".join(map(called, str(flip[which]).split(" and ")))


def _side(case: AskedCase, side: Side) -> str:
    reply = side.reply
    title = f"<h4>{escape(side.title)}</h4>" if len(case.sides) > 1 else ""
    if reply.choice is None:
        said = callout("error", f"No judgment: {title_of(reply.failure)}")
        return f'<section class="said">{title}{said}</section>'
    verdict = {1.0: "as the label says", 0.0: "against the label"}.get(side.credit or 0.0, "counted as a half")
    facts = [f"The judge: {called(reply.choice)}, {verdict}"]
    if reply.margin is not None:
        facts.append(f"lead {abs(reply.margin):.3f}")
    sure = [piece.judgment.confidence for piece in side.pieces if piece.judgment is not None]
    if len(sure) == 1 and sure[0] is not None:
        facts.append(f"confidence {sure[0]:.2f}")
    return f'<section class="said">{title}<p>{escape("; ".join(facts))}.</p>{_scores(case, side)}</section>'


def _scores(case: AskedCase, side: Side) -> str:
    """A row per candidate, with who prefers it."""
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
    """How a judge got there; several pieces of markup, one line each."""
    parts = []
    for piece in side.pieces:
        parts.append(_otherwise(piece))
        parts.append(_changed(piece))
        parts.append(chain_of(piece.seen, tuple(piece.letters)))
    return "\n\n".join(part for part in parts if part)


def _otherwise(piece: Piece) -> str:
    """Which letters the judge used where the page has others."""
    names = [f"candidate {page} is called {own}" for own, page in piece.letters.items() if own != page]
    return block(paragraph(f"In what follows {', '.join(names)}.", "faint")) if names else ""


def _changed(piece: Piece) -> str:
    """That the judge says otherwise today, where it does."""
    if piece.seen.same or piece.judgment is None:
        return ""
    text = f"In the run the judge said otherwise ({called(piece.judgment.preference)}): it has changed since."
    return block(callout("warning", text))


def rows_of(progress: Progress) -> list[tuple[str, str]]:
    """The rows of a run: what each is called, and its key."""
    return [(label(row), str(row["key"])) for row in progress.contenders]


def row_called(said: str, name: str, *, shown: bool) -> str:
    """What a row is called among those of several runs, in plain text.

    Args:
        said: What it is called in its run.
        name: Name of its run.
        shown: Whether that is the run which is shown.
    """
    return plain(f"{said} · this run" if shown else f"{said} · {name}")


def no_flip(about: str) -> str:
    """What stands in the place of a question while none is chosen. `about`: what will stand beside its pictures."""
    return block(callout("empty", "Choose a question", paragraph(f"Its pictures will stand here, and {about}.")))


def comparison_hint() -> str:
    """What stands in the place of a comparison before one was asked for."""
    text = "Two rows over the same questions: which answers one mends and which it breaks says more than two intervals."
    return block(callout("empty", "Choose two rows", paragraph(text)))


def compared(found: Json) -> str:
    """Two rows, part by part: the gain with its interval, what was mended and broken, and the exact test."""
    first, second = label(found["first"]), label(found["second"])
    rows = []
    for each in found["parts"]:
        better = sum(flip["better"] for flip in each["flips"])
        rows.append(
            [
                escape(each["part"]),
                f"{each['judged_by_both']:,} of {each['n']:,}",
                _share(each["first"]),
                _share(each["second"]),
                _gain(each),
                f"{better:,} / {len(each['flips']) - better:,}",
                "–" if each["p"] is None else f"{each['p']:.2g}",
                escape(_verdict(each)),
            ]
        )
    head = ["Part", "Judged by both", "First", "Second", "Gain [95 %]", "Fixed / broken", "Exact p", "The second is"]
    said = f"<p>First: <strong>{escape(first)}</strong>. Second: <strong>{escape(second)}</strong>.</p>"
    note = "Only what both judged counts. Fixed: the second agrees better with the label. p: exact McNemar test."
    known = "".join(map(paragraph, cautions((found["first"], found["second"]))))
    return block(said + table(head, rows, "cards paired") + known + paragraph(note, "faint"))


def _share(count: Mapping[str, Any]) -> str:
    return "–" if count["accuracy"] is None else f"{count['accuracy']:.1%}"


def _gain(each: Mapping[str, Any]) -> str:
    if each["gain"] is None:
        return "nothing that both judged"
    span = each["interval"]
    return f"{each['gain'] * 100:+.1f}" + (f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else "")


def _verdict(each: Mapping[str, Any]) -> str:
    """What the evidence for a part allows to say of the second."""
    span = each["interval"]
    if each["gain"] is None:
        return "not comparable"
    if not each["flips"]:
        return "as good: they agree with the same labels"
    if each["p"] is not None and each["p"] < SURE and span and not span[0] <= 0 <= span[1]:
        return "better" if each["gain"] > 0 else "worse"
    return "perhaps the same: the difference may be chance"


def flip_choices(found: Json) -> list[tuple[str, str]]:
    """The questions on which two rows differ, as a list shows them in plain text, and the id of each."""
    choices = []
    for each in found["parts"]:
        for flip in each["flips"]:
            head = f"{'Fixed' if flip['better'] else 'Broken'} · {each['part']}"
            answers = f"first: {_answers(flip, 'first')} · second: {_answers(flip, 'second')}"
            said = f"label: {called(flip['truth'])} · {answers}"
            words = shorten(plain(flip["instruction"]), 110, placeholder=" …")
            choices.append(("\n".join((plain(head), words, plain(said))), flip["id"]))
    return choices

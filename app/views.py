"""Puts judgments into words and tables for the Score tab. Pure: records in, markup out.

All results are markup for `gr.Markdown`, see `app.markup`.
"""

import re
from collections.abc import Sequence

from app.failures import failure
from app.markup import block, bullets, callout, escape, paragraph, table
from rewardharness.errors import Description, MissingPackageError
from rewardharness.schema import SCALE, TIE, Judgment, Scores

SURENESS: tuple[tuple[float, str], ...] = (
    (0.75, "Quite sure"),
    (0.5, "Fairly sure"),
    (0.25, "Not very sure"),
    (0.0, "Little more than a guess"),
)
"""Lowest confidence of a judgment, and the words for it."""

OCR_NOTE = "No OCR"
"""How the note begins that says text was not read because the reader is not installed."""

_COMPARISON = re.compile(
    r"(?P<first>[A-D]) leads (?P<second>[A-D]) on (?P<what>[^:]+): (?P=first): (?P<ours>.*) (?P=second): (?P<theirs>.*)"
)


def sureness(confidence: float | None) -> str:
    """Put a confidence in [0, 1] into words."""
    if confidence is None:
        return "How sure is not known"
    return next((words for least, words in SURENESS if confidence >= least), SURENESS[-1][1])


def judge_line(judge: str, *, local: bool) -> str:
    """Who judges, in one line. `local`: whether the app runs on the computer of the person who reads it."""
    ends = "No model, no key, nothing leaves this computer." if local else "No model, no key."
    return block(
        f'<p><span class="pill">{escape(judge)}</span> judges by numbers taken from the pixels, weighed by the rubrics '
        f"of a Library. {ends}</p>"
    )


def about_judge(reads_text: bool) -> str:
    """What the measured judge can and cannot tell."""
    can = [
        "where a picture was edited, how much of it, and whether the rest was left alone",
        "whether the colour asked for appeared, and light, contrast and saturation moved as asked",
        "whether something is new in one place, or gone with its place filled in",
        "blur, noise, compression blocks, seams, burnt-out areas, changed size or borders",
    ]
    if reads_text:
        can.append("whether the text asked for can be read, and the text to be gone is gone")
    cannot = [
        "what things are: it cannot tell a dog from a cat",
        "whether a face, a hand or a shadow looks right, and what is beautiful",
        "more than the words of the instruction say: it reads English with rules",
    ]
    if not reads_text:
        cannot.append("text in pictures, because the text reader is not installed here")
    return block(
        f'<div class="columns"><div><h4>It can tell</h4>{bullets(map(escape, can))}</div>'
        f"<div><h4>It cannot tell</h4>{bullets(map(escape, cannot))}</div></div>"
        + ("" if reads_text else paragraph(_OCR_REMEDY))
        + paragraph(
            "It is a stand-in for the vision-language model that the method was made for, and it is not as good. "
            "Its confidence says how much of the rubric it could measure and how clear the lead is; it is no "
            "probability.",
            "faint",
        ),
        "about",
    )


_OCR_REMEDY = f"{MissingPackageError('rapidocr', 'ocr', 'reading text in images').next_step} Then start the app again."


def empty_result() -> str:
    """What stands in the place of the result before the first comparison."""
    return block(
        callout(
            "empty",
            "The verdict will stand here",
            paragraph("Which edit people would most likely prefer, how sure that is, and why."),
        )
    )


def working(count: int) -> str:
    """What stands there while the judge works."""
    return block(callout("empty busy", f"Measuring {count} candidates against the source…"))


def trouble(error: Description, hint: str = "") -> str:
    """An error, with its remedy and what else may help."""
    remedy = paragraph(error.next_step, "remedy")
    return block(callout("error", error.title, paragraph(error.detail), remedy, paragraph(hint)))


def verdict(judgment: Judgment) -> str:
    """The winner in one sentence, how sure that is, and what a reader should know first."""
    if judgment.failure is not None:
        return failure(judgment.failure)
    return block(
        f'<section class="verdict" role="status"><p class="headline">{headline(judgment)}</p>'
        f"<p>{_lead(judgment)}</p></section>{warnings(judgment)}"
    )


def headline(judgment: Judgment) -> str:
    """The answer in one sentence, as markup."""
    if judgment.inconsistent:
        return "The judge was inconsistent."
    if judgment.preference == TIE:
        level = judgment.ranking[0] if judgment.ranking and len(judgment.ranking[0]) > 1 else ()
        if level:
            return f"{listed(level)} are level."
        return "Too close to call."
    return f"People would most likely prefer <strong>{escape(judgment.preference or '')}</strong>."


def _lead(judgment: Judgment) -> str:
    margin = judgment.margin or 0.0
    if judgment.preference == TIE:
        if not margin:
            return "The judge finds no difference between them."
        first, second = judgment.ranking[0][0], judgment.ranking[1]
        return f"{escape(first)} leads {listed(second)} by only {margin:.3f} in reward, less than people would notice."
    second = judgment.ranking[1] if len(judgment.ranking) > 1 else ()
    lead = f"{escape(judgment.preference or '')} leads {listed(second)} by {margin:.2f} in reward"
    return f"{sureness(judgment.confidence)}: {lead}, which runs from 0 to 1."


def listed(labels: Sequence[str]) -> str:
    """Letters in a sentence."""
    shown = [escape(label) for label in labels]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def warnings(judgment: Judgment) -> str:
    """Notes that change how the verdict is to be taken."""
    found = []
    for note in judgment.notes:
        if note.startswith(OCR_NOTE):
            found.append(callout("warning", note, paragraph(_OCR_REMEDY, "remedy")))
        elif "trust it little" in note or "same image" in note or "unchanged source" in note:
            found.append(callout("warning", note))
    return "".join(found)


def score_table(judgment: Judgment) -> str:
    """Scores and reward of each candidate, best first, with what the columns mean; nothing without scores."""
    if not judgment.scores:
        return ""
    order = [label for level in judgment.ranking for label in level] or list(judgment.scores)
    rows = []
    for label in order:
        if label in judgment.scores:
            won = label == judgment.preference
            badge = f'<span class="letter {"won" if won else ""}">{escape(label)}</span>'
            rows.append([badge, *_score_cells(judgment.scores[label])])
    head = ["", "Instruction following", "Visual quality", "Reward"]
    legend = (
        "<strong>Instruction following</strong>: was what the words ask for done, 1 (not at all) to 4 (fully). "
        "<strong>Visual quality</strong>: is the rest intact and free of flaws, 1 to 4. "
        "<strong>Reward</strong>: both in one number, 0 to 1, for ranking and training."
    )
    return block(f'<h3>Scores</h3>{table(head, rows, "scores")}<p class="faint">{legend}</p>')


def _score_cells(scores: Scores) -> list[str]:
    return [
        _meter(scores.instruction, *SCALE, digits=1),
        _meter(scores.quality, *SCALE, digits=1),
        _meter(scores.reward, 0, 1, digits=2),
    ]


def _meter(value: float | None, low: float, high: float, *, digits: int) -> str:
    if value is None:
        return '<span class="faint">not measured</span>'
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return (
        f'<span class="number">{value:.{digits}f}</span>'
        f'<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>'
    )


def reasons(judgment: Judgment) -> str:
    """Why the winner leads."""
    if not judgment.reasons:
        return block(f"<h3>Why</h3>{paragraph('Nothing that was measured separates them.', 'faint')}")
    return block(f"<h3>Why</h3>{bullets(map(_reason, judgment.reasons), 'reasons')}")


def _reason(sentence: str) -> str:
    """A reason; one that compares two candidates is set out in a line for each."""
    found = _COMPARISON.fullmatch(sentence)
    if found is None:
        return escape(sentence)
    lines = (
        f'<div class="side"><span class="letter">{escape(label)}</span><span>{escape(text)}</span></div>'
        for label, text in ((found["first"], found["ours"]), (found["second"], found["theirs"]))
    )
    return f"<strong>{escape(found['what'].capitalize())}</strong>{''.join(lines)}"


def consulted(judgment: Judgment) -> str:
    """Which entries of the Library were consulted, and why."""
    if not judgment.entries:
        return block(paragraph("No entry of the Library applies to this instruction.", "faint"))
    rows = [
        [f"<code>{escape(each.name)}</code>", each.kind.capitalize(), escape(each.reason)] for each in judgment.entries
    ]
    return block(table(["Entry", "Kind", "Why"], rows))


def notes(judgment: Judgment, library: str) -> str:
    """Everything the judge noted on the side, and how it judged."""
    facts = [
        f"Judge: {escape(judgment.judge)}, with {escape(library)}, id <code>{escape(judgment.library_id[:12])}</code>",
        f"Protocol: {escape(judgment.protocol)}",
        f"Time: {judgment.usage.seconds:.2f} s, {judgment.usage.calls} calls to a model",
    ]
    if judgment.position_consistent is not None:
        same = "the same" if judgment.position_consistent else "<strong>not</strong> the same"
        facts.append(f"With the candidates in reverse order the answer is {same}.")
    return block(bullets([*map(escape, judgment.notes), *facts]))


def feedback_said(preference: str, place: str, count: int, *, lasting: bool) -> str:
    """Thanks for a preference, with where it is kept.

    Args:
        preference: A letter or `tie`.
        place: The folder of the dataset.
        count: How many examples it holds now.
        lasting: Whether the folder outlives the program; False in a Space.
    """
    said = "it is a tie" if preference == TIE else f"{escape(preference)} is better"
    examples = "1 example" if count == 1 else f"{count} examples"
    where = f"<code>{escape(place)}</code>" if lasting else "this Space, until it restarts"
    return block(
        callout(
            "note",
            "Thank you, noted",
            f"<p>You said that {said}. Pictures and label were added to {where}, which now holds {examples}.</p>",
        )
    )


def outdated() -> str:
    """What stands above a result once something else is on the screen."""
    text = "A picture, the instruction, the Library or the judge has changed. Press Compare to judge again and to vote."
    return block(callout("warning", "This result is outdated", paragraph(text)))


def no_vote() -> str:
    """Why a vote on a result that is outdated does not count."""
    return block(paragraph("The result is outdated, so it cannot be voted on. Press Compare first.", "faint"))


def unusable(pictures: Sequence[tuple[str, Description]], left: int = 0) -> str:
    """Which pictures were refused, and why.

    Args:
        pictures: What each was meant to be with the name of its file (foreign text), and what is wrong with it.
        left: How many more there was no place for.
    """
    found = [
        callout("error", f"{name} cannot be used", paragraph(f"{each.detail} {each.next_step}"))
        for name, each in pictures
    ]
    if left:
        text = "There is place for a source and four candidates. Remove a picture first."
        found.append(callout("warning", f"No place for {left} more", paragraph(text)))
    return block("".join(found)) if found else ""


def session_over() -> str:
    """Why an answer cannot be kept: the comparison that it belongs to is no longer known."""
    return block(callout("warning", "This comparison is over", paragraph("Compare again, then answer.")))


def feedback_hint(place: str, *, lasting: bool) -> str:
    """What a click on a preference will do."""
    where = f"to <code>{escape(place)}</code>, and to nowhere else" if lasting else "on this Space, until it restarts"
    text = (
        "A click adds the pictures, the instruction and your answer as a labelled example "
        f"{where}. Libraries are evolved from such examples. Without a click no picture is kept."
    )
    return block(f'<h3>What would people prefer?</h3><p class="faint">{text}</p>')

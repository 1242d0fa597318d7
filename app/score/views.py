"""Formats judgments as text and tables for the Score tab. Pure: records in, markup out.

All results are markup for `gr.Markdown`, see `app.markup`.
"""

from collections.abc import Mapping, Sequence

from app.failures import failure
from app.markup import block, bullets, callout, code, count, escape, faint, folded, notice, paragraph, plain, table
from app.score.comparisons import Comparison
from app.vote.feedback import Stored
from rewardharness.critique import NO_CRITIQUE, Critique
from rewardharness.errors import Description, MissingPackageError
from rewardharness.judging.calibration import confidence_words
from rewardharness.judging.interface import NOT_GRADABLE
from rewardharness.judging.measured_critique import split_problem
from rewardharness.judging.measured_reasons import split_reason
from rewardharness.judging.understood import understood as read_request
from rewardharness.schema import LABELS, SCALE, TIE, Judgment, Scores
from rewardharness.views import dimensions_of

SURENESS = {0.75: "Clear lead", 0.5: "Lead", 0.25: "Small lead", 0.0: "Hardly a lead"}
"""Phrase for each minimum confidence that is not calibrated."""

OCR_NOTE = "No OCR"
"""Prefix of the note about missing text recognition."""

WARNED = (
    OCR_NOTE, "low confidence", "same image", "unchanged source", "only the first", "does not show the scene",
    "reads English", "Not graded", "cannot be measured",
)  # fmt: skip
"""Parts of the notes that are warnings, which stand beside the verdict."""

ALONE_NOTE = "A single candidate is scored alone: there is no comparison."

NUMBERS = {2: "two", 3: "three", 4: "four"}
"""Numbers of candidates in words."""


def has_scores(judgment: Judgment) -> bool:
    """Return whether there is a result to show: also that of a single candidate whose reward cannot be measured."""
    return judgment.failure is None or (judgment.failure.code == NOT_GRADABLE and len(judgment.scores) == 1)


def understood(instruction: str) -> str:
    """Say what the pixel-based judge reads in an instruction; empty for none."""
    if not instruction.strip():
        return ""
    text = read_request(instruction).text
    if not text:
        return faint("Nothing specific was understood; only general flaws can be measured.")
    return block(f'<p class="faint">Understood: <strong>{escape(text)}</strong></p>')


def judge_line(judge: str, *, local: bool) -> str:
    """Describe the pixel-based judge in one line. `local`: whether the app runs on the reader's computer."""
    ends = "No model, no key, nothing leaves this computer." if local else "No model, no key."
    return block(
        f'<p><span class="pill">{escape(judge)}</span> scores edits by pixel measurements, weighted by the rubrics '
        f"of a Library. {ends}</p>"
    )


def about_judge(reads_text: bool) -> str:
    """Describe what the pixel-based judge can and cannot detect."""
    can = [
        "where and how much an image was edited, and whether the rest is unchanged",
        "whether the requested color appeared, and brightness, contrast and saturation changed as requested",
        "whether an object was added, or removed with its area filled in",
        "blur, noise, compression artifacts, seams, clipped areas, changed size or borders",
    ]
    cannot = [
        "object categories: it cannot distinguish a dog from a cat",
        "whether a face, a hand or a shadow looks right, and aesthetics",
        "implied meaning: it parses English instructions with rules",
    ]
    if reads_text:
        can.append("whether requested text is readable, and removed text is gone")
    else:
        cannot.append("text in images, because text recognition is not installed")
    return block(
        "<h3>What this judge can and cannot detect</h3>"
        f'<div class="columns"><div><h4>Detected</h4>{bullets(map(escape, can))}</div>'
        f"<div><h4>Not detected</h4>{bullets(map(escape, cannot))}</div></div>"
        + ("" if reads_text else paragraph(_OCR_REMEDY))
        + paragraph(
            "It replaces the vision-language model of the method where none is available, and is less accurate. How "
            "often its verdicts are right has been tested for two edits and the built-in Library alone.",
            "faint",
        ),
        "about",
    )


_OCR_REMEDY = f"{MissingPackageError('rapidocr', 'ocr', 'reading text in images').next_step} Then restart the app."


_HOPED = "The edit that people would most likely prefer, the confidence, and the reasons."
EMPTY_RESULT = notice("empty", "Results appear here", _HOPED)
"""The placeholder of the result."""

_CHANGED = "An image, the instruction, the Library or the judge has changed. Press Compare to judge again and to vote."
OUTDATED = notice("warning", "This result is outdated", _CHANGED)
"""The warning above a result whose inputs have changed."""

NO_VOTE = faint("Voting is disabled because the result is outdated. Press Compare first.")
"""Why a vote on an outdated result is ignored."""

SESSION_EXPIRED = notice("warning", "This comparison has expired", "Compare again, then answer.")

STORING = faint("Your answer is being stored…")
"""The placeholder while a preference is being stored on the Hub."""


def working(candidates: int) -> str:
    """Return the placeholder while the judge works."""
    return notice("empty busy", f"Measuring {count(candidates, 'candidate')} against the source…")


def verdict(judgment: Judgment) -> str:
    """Format the preference, the confidence and the warnings."""
    if judgment.failure is not None and not has_scores(judgment):
        return failure(judgment.failure)
    return block(verdict_section(judgment, f"<p>{_lead(judgment)}</p>") + warnings(judgment))


def verdict_section(judgment: Judgment, grounds: str) -> str:
    """Format the headline and its grounds (markup). The class `prefers-x` frames the picture of candidate X."""
    preferred = f" prefers-{judgment.preference.lower()}" if judgment.preference in LABELS else ""
    return (
        f'<section class="verdict{preferred}" role="status"><p class="headline">{headline(judgment)}</p>'
        f"{grounds}</section>"
    )


def headline(judgment: Judgment) -> str:
    """Return the preference in one sentence, as markup."""
    if judgment.inconsistent:
        return "The judge was inconsistent."
    if len(judgment.scores) == 1:
        return "Reward: not measurable." if judgment.reward is None else f"Reward {judgment.reward:.2f} of 1."
    if judgment.preference == TIE:
        several = bool(judgment.ranking) and len(judgment.ranking[0]) > 1
        return f"{listed(judgment.ranking[0])} are level." if several else "Too close to call."
    return f"People would most likely prefer <strong>{escape(judgment.preference or '')}</strong>."


def _lead(judgment: Judgment) -> str:
    margin, second = judgment.margin or 0.0, judgment.ranking[1] if len(judgment.ranking) > 1 else ()
    rewards = _rewards(judgment.scores)
    if len(judgment.scores) == 1:
        return ALONE_NOTE
    if judgment.preference == TIE and not margin:
        return "The judge finds no difference between them."
    if judgment.preference == TIE:
        first = escape(judgment.ranking[0][0])
        return f"{first} leads {listed(second)} by only {margin:.3f} in reward, less than people would notice."
    return f"{_tested(judgment)} {rewards}"


def _tested(judgment: Judgment) -> str:
    """Say how often such verdicts were right, or that this is unknown."""
    by, several = judgment.calibration, len(judgment.scores)
    if by is not None and judgment.confidence is not None:
        revision = "" if by.same_revision else " of another revision of the judge"
        return f"Verdicts{revision} like this one were right {judgment.confidence:.0%} of the time ({by.n:,} tested)."
    lead = next((phrase for least, phrase in SURENESS.items() if (judgment.confidence or 0.0) >= least), "")
    which = "with this judge and Library" if several <= 2 else f"on {NUMBERS[several]} edits"
    known = f"{lead}. " if judgment.confidence is not None else ""
    return f"{known}How often verdicts {which} are right has not been tested."


def _rewards(scores: Mapping[str, Scores]) -> str:
    known = [f"{escape(label)} {score.reward:.2f}" for label, score in scores.items() if score.reward is not None]
    return f"Reward: {', '.join(known)}." if known else ""


def listed(labels: Sequence[str]) -> str:
    """Join candidate letters for a sentence."""
    letters = [escape(label) for label in labels]
    return letters[0] if len(letters) == 1 else f"{', '.join(letters[:-1])} and {letters[-1]}"


def warnings(judgment: Judgment) -> str:
    """Format the notes that are warnings."""
    warned = [note for note in judgment.notes if any(map(note.__contains__, WARNED))]
    remedies = (paragraph(_OCR_REMEDY, "remedy") if note.startswith(OCR_NOTE) else "" for note in warned)
    return "".join(callout("warning", note, more) for note, more in zip(warned, remedies, strict=True))


def score_table(judgment: Judgment) -> str:
    """Format scores and reward of each candidate, best first, with a legend; empty without scores."""
    if not judgment.scores:
        return ""
    order = [label for level in judgment.ranking for label in level] or list(judgment.scores)
    names = dimensions_of(judgment.scores.values())
    rows = [
        [
            f'<span class="letter {"won" if label == judgment.preference else ""}">{escape(label)}</span>',
            *(_meter(getattr(scores, name), *SCALE, digits=1) for name in names),
            _meter(scores.reward, 0, 1, digits=2),
        ]
        for label, scores in ((label, judgment.scores[label]) for label in order if label in judgment.scores)
    ]
    head = ["", *("Instruction following", "Visual quality", "Consistency")[: len(names)], "Reward"]
    legend = (
        "<strong>Instruction following</strong>: whether the edit does what was asked for, 1 (no) to 4 (fully). "
        "<strong>Visual quality</strong>: whether the rest is intact and free of flaws, 1 to 4. "
        "<strong>Reward</strong>: both combined, 0 to 1, for ranking and training."
    )
    return block(f'<h3>Scores</h3>{table(head, rows, "scores")}<p class="faint">{legend}</p>')


def _meter(value: float | None, low: float, high: float, *, digits: int) -> str:
    if value is None:
        return '<span class="faint">not measured</span>'
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return (
        f'<span class="number">{value:.{digits}f}</span>'
        f'<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>'
    )


def reasons(judgment: Judgment) -> str:
    """Format the reasons: what sets the first two apart; of one, three or four candidates also the faults of each."""
    why = bullets(map(_reason, judgment.reasons), "reasons")
    if len(judgment.scores) > 1:
        why = why or paragraph("No measurement separates them.", "faint")
    own = [beside(label, f"<div>{_faults(critique)}</div>") for label, critique in sorted(judgment.critiques.items())]
    faults = "" if len(judgment.scores) == 2 else bullets(own, "reasons critiques")
    return block(f"<h3>Why</h3>{why}{faults}")


def _faults(critique: Critique) -> str:
    """List the faults of a candidate."""
    return bullets(map(problem, critique.problems)) or paragraph("No fault was measured.")


def critiques(judgment: Judgment) -> str:
    """Format the critique of each candidate with the instruction for the next attempt; empty if none was requested."""
    missing = {note[len(NO_CRITIQUE)]: note for note in judgment.notes if note.startswith(NO_CRITIQUE)}
    entries = []
    for label in sorted({*judgment.critiques, *missing}):
        critique = judgment.critiques.get(label)
        if critique is None:
            parts = paragraph(missing[label], "faint")
        else:
            parts = bullets(map(problem, critique.problems)) or paragraph("Nothing wrong was found.")
            parts += paragraph(critique.limits, "faint")
            if critique.next_instruction:
                next_one = f"<blockquote>{escape(critique.next_instruction)}</blockquote>"
                parts += paragraph("Next instruction:", "faint") + next_one
        entries.append(beside(label, f"<div>{parts}</div>"))
    return block(f"<h3>What is wrong</h3>{bullets(entries, 'reasons critiques')}") if entries else ""


def problem(text: str) -> str:
    """Format a problem: plain words, which open the numbers."""
    sentence, numbers = split_problem(text)
    return folded(escape(sentence), paragraph(numbers)) or escape(sentence)


def beside(label: str, markup: str) -> str:
    """Set markup beside the letter of a candidate."""
    return f'<div class="side"><span class="letter">{escape(label)}</span>{markup}</div>'


def _reason(reason: str) -> str:
    """Format a reason: plain words, which open the numbers."""
    sentence, numbers = split_reason(reason)
    lines = (beside(label, f"<span>{escape(text)}</span>") for label, text in numbers.items())
    return folded(escape(sentence), "".join(lines)) or escape(sentence)


def by_profile(judgment: Judgment) -> bool:
    """Return whether a published reward model judged, which reads no Library."""
    return judgment.protocol.startswith("profile:")


def consulted(judgment: Judgment) -> str:
    """List the consulted entries of the Library with the reasons."""
    if by_profile(judgment):
        return notice("empty", "No Library was used", "A published reward model is asked as its authors ask it.")
    if not judgment.entries:
        size = judgment.consulted[1] if judgment.consulted else 0
        title = f"0 of {size} entries of the Library were consulted" if size else "No entry was consulted"
        return notice("note" if size else "empty", title, "None applies to this instruction.")
    rows = [[code(entry.name), entry.kind.capitalize(), escape(entry.reason)] for entry in judgment.entries]
    total = f" of {judgment.consulted[1]}" if judgment.consulted else ""
    counted = f"{len(rows)}{total} entries of the Library were consulted."
    return block(paragraph(counted, "faint") + table(["Entry", "Kind", "Why"], rows))


def notes(judgment: Judgment, library: str) -> str:
    """Format the notes and the settings of the judge."""
    used = f"with {escape(library)}, id {code(judgment.library_id[:12])}"
    used = "without a Library" if by_profile(judgment) else used
    facts = [
        f"Judge: {escape(judgment.judge)}, {used}",
        f"Protocol: {escape(judgment.protocol)}",
        f"Time: {judgment.usage.seconds:.2f} s, {judgment.usage.calls} calls to a model",
    ]
    if judgment.calibration is not None:
        facts.append(f"Confidence: {escape(confidence_words(judgment))}.")
    if judgment.position_consistent is not None:
        same = "the same" if judgment.position_consistent else "<strong>not</strong> the same"
        facts.append(f"In reverse presentation order the answer is {same}.")
    return block(bullets([*map(escape, judgment.notes), *facts]))


def feedback_stored(preference: str, stored: Stored, *, lasting: bool) -> str:
    """Confirm a stored preference.

    Args:
        preference: A letter or `tie`.
        stored: Where it was stored.
        lasting: Whether a folder is persistent; False in a Space.
    """
    answer = "it is a tie" if preference == TIE else f"{escape(preference)} is better"
    return block(callout("note", "Thank you", f"<p>Your answer: {answer}. {stored_words(stored, lasting=lasting)}</p>"))


def stored_words(stored: Stored, *, lasting: bool) -> str:
    """Return in one or two sentences where a preference was stored, as markup."""
    place = code(stored.place)
    if stored.vote:
        return f"It is stored in {place} as vote {code(stored.vote)}, by which it can be deleted."
    where = place if lasting else "this Space, until it restarts"
    return f"Images and label were added to {where}, which now holds {count(stored.count, 'example')}."


def unusable(pictures: Sequence[tuple[str, Description]], left: int = 0) -> str:
    """List the rejected images with the reasons.

    Args:
        pictures: Role and file name of each image (foreign text), and the error.
        left: Number of images without a free field.
    """
    remedies = [(name, paragraph(f"{error.detail} {error.next_step}")) for name, error in pictures]
    messages = [callout("error", f"{name} cannot be used", remedy) for name, remedy in remedies]
    if left:
        text = "A comparison has a source and at most four candidates. Remove an image first."
        messages.append(callout("warning", f"No free field for {left} more", paragraph(text)))
    return block("".join(messages)) if messages else ""


def scaled(sentences: Sequence[str]) -> str:
    """Return the notice about images that are not judged as they were sent; empty if there are none.

    Args:
        sentences: One for each such image; of a scaled one it names both sizes.
    """
    if not sentences:
        return ""
    rule = "Images with a side of more than 2048 pixels are scaled down to that side, all by the same rule."
    small = paragraph(rule) if any("scaled" in sentence for sentence in sentences) else ""
    return block(callout("note", "Not judged as sent", bullets(map(escape, sentences)) + small))


def history_caption(comparison: Comparison, time: str) -> str:
    """Return the caption of an earlier comparison, as plain text. `time`: when it was made."""
    judgment = comparison.judgment
    result = "inconsistent" if judgment.inconsistent else "tie" if judgment.preference == TIE else judgment.preference
    result = result or ("not measurable" if judgment.reward is None else f"reward {judgment.reward:.2f}")
    return f"{time} · {result}: {plain(comparison.example.instruction)[:60]}"


def keeping(days: int, *, lasting: bool) -> str:
    """Say what a kept link stores, and who can open it."""
    where = "on this computer" if lasting else f"in this Space for {count(days, 'day')} at most"
    text = f"A link stores the images, the instruction and the result {where}. Everyone who has it can open it."
    return faint(f"{text} Only this browser can delete it.")


LINK_DELETED = block(callout("note good", "The link is deleted"))


def opened(*, known: bool) -> str:
    """Say what a link in the address has led to, in place of a verdict."""
    if not known:
        return notice("warning", "This link was deleted, or its time is over", "Ask for a new one.")
    return notice("empty", "Opened from a link", "Press Compare to judge it here.")


def feedback_hint(place: str, *, repo: str | None, lasting: bool) -> str:
    """Explain what a click on a preference does."""
    where = f"to {code(place)}, and nowhere else" if lasting else "on this Space, until it restarts"
    text = (
        "A click adds the images, the instruction and your answer as a labeled example "
        f"{where}. Libraries are evolved from such examples. Without a click no image is stored."
    )
    return block(f'<h3>What would people prefer?</h3><p class="faint">{consent(repo) if repo else text}</p>')


def consent(repo: str) -> str:
    """Say what a vote publishes, and under which terms, as markup."""
    return (
        f"A vote adds the images, the instruction and your answer to the dataset {code(repo)} on the "
        "Hugging Face Hub under CC BY 4.0, without metadata of the images, and with a keyed hash of your account if "
        "you are logged in. Vote only on images that you may share so. Each vote has an id, and the owner deletes it "
        "on request. Without a vote nothing is stored."
    )

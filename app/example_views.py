"""Puts single examples of a run into words: what was asked, what the label says, how the judge got where it got.

Pure: records in, markup out. Instructions, chains and notes are foreign text.
"""

from collections.abc import Sequence

from app.cases import Case, Seen
from app.chain_views import candidate_steps, overall_steps, showings
from app.failures import failure
from app.markup import block, bullets, callout, escape, paragraph, table
from rewardharness.schema import TIE, Scores


def no_example(about: str) -> str:
    """What stands in the place of an example while none is chosen.

    Args:
        about: What examples are listed.
    """
    return block(callout("empty", "Choose an example", paragraph(f"Its pictures will stand here, and {about}.")))


def no_examples() -> str:
    """What stands there for an edit that changed no judgment."""
    return block(paragraph("No example came out otherwise with this edit, and it cites none.", "faint"))


def words(case: Case) -> str:
    """What was asked, what the label says, and what the judge preferred, before and after."""
    parts = [f"<p><strong>{escape(case.example.instruction)}</strong></p>", paragraph(_label(case))]
    if case.changed:
        text = "The data have changed since this run began: pictures and label are those of today."
        parts.append(callout("warning", text))
    rows = [_row(case, seen, title) for seen, title in zip(case.seen, titles(case), strict=True)]
    head = ["", "The judge prefers", "Lead", *(f"Reward of {label}" for label in case.example.labels)]
    parts.append(table([escape(each) for each in head], rows, "cards seen"))
    parts += [_trouble(seen) for seen in case.seen]
    return block("".join(parts))


def titles(case: Case) -> list[str]:
    """What each judgment of a case is called."""
    if len(case.seen) == 1:
        return [f"With {case.seen[0].library}"]
    return [f"{when}, with {seen.library}" for when, seen in zip(("Before", "After"), case.seen, strict=True)]


def _label(case: Case) -> str:
    given, counted = case.example.preference, case.label
    said = f"The label: {_called(given)}."
    return said if given == counted else f"{said} It was corrected to: {_called(counted)}."


def _called(preference: str | None) -> str:
    if preference is None:
        return "none"
    return "it is a tie" if preference == TIE else f"{preference} is better"


def _row(case: Case, seen: Seen, title: str) -> list[str]:
    labels = case.example.labels
    judgment = seen.judgment or seen.recorded
    preference, margin = (judgment.preference, judgment.margin) if judgment is not None else (None, None)
    scores = seen.judgment.scores if seen.judgment is not None else {}
    if judgment is None or preference is None:
        verdict = "no judgment"
    elif judgment.inconsistent:
        verdict = "inconsistent: other answers in other orders"
    else:
        verdict = "a tie" if preference == TIE else str(preference)
        verdict += ", as the label says" if preference == case.label else ", against the label"
    lead = f"{margin:.3f}" if isinstance(margin, int | float) else "–"
    return [escape(each) for each in (title, verdict, lead, *(_reward(scores.get(label)) for label in labels))]


def _reward(scores: Scores | None) -> str:
    return "–" if scores is None or scores.reward is None else f"{scores.reward:.3f}"


def _trouble(seen: Seen) -> str:
    """What a reader should know about a judgment that was made again."""
    if seen.why_not:
        return callout("warning", seen.why_not, paragraph("What stands above is what the run recorded."))
    if not seen.same and seen.recorded is not None:
        then = _called(seen.recorded.preference)
        text = f"In the run the judge said otherwise ({then}): it has changed since, or was asked twice then."
        return callout("warning", text)
    return ""


def chain(seen: Seen, labels: Sequence[str]) -> str:
    """How the judge got there; several pieces of markup, one line each."""
    judgment = seen.judgment
    if judgment is None:
        return block(paragraph(seen.why_not or "There is no chain.", "faint"))
    if judgment.failure is not None:
        return failure(judgment.failure, mendable=False)
    if seen.model is not None:
        return showings(seen.model.showings, live=False)
    parts = [overall_steps(judgment), *(candidate_steps(judgment, label) for label in labels)]
    return block("".join(parts))


def queue_choices(left: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """The examples whose labels are worth a look: words, and id of each."""
    return [(f"{name} · judged {times} time{'' if times == 1 else 's'}", name) for name, times in left]


def queue(left: int, seen: int, *, local: bool) -> str:
    """What the queue of labels is."""
    text = (
        "The judge got these wrong with every Library that was tried. Either nobody has found yet what makes it "
        "understand them, or their label is wrong. Look, and say which; the data themselves are never changed, and the "
        "next run on them learns from your word. The audit keeps its labels."
    )
    here = "" if local else " Labels can be corrected when you run the app on your own computer."
    count = f"{left} to look at" + (f", {seen} looked at" if seen else "")
    return block(f"<p>{escape(text + here)}</p>{bullets([escape(count)])}")


def empty_queue(seen: int) -> str:
    """What stands there when there is nothing to look at."""
    text = f"You have looked at {seen}." if seen else "Every example was judged right at least once."
    return block(callout("empty", "No label to check", paragraph(text)))

"""Formats single examples of a run: instruction, label, judgments and reasoning.

Pure: records in, markup out. Instructions, chains and notes are foreign text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from app.evolve.runs import ExampleCase, Seen
from app.failures import failure
from app.markup import block, bullets, callout, count, escape, faint, notice, paragraph, table
from app.score.comparisons import recorded_orders
from app.viewer.chain_views import candidate_steps, overall_steps, showings, unread_replies
from app.viewer.results import ResultFiles
from app.widgets import Updates, Widgets, markup, section
from rewardharness.judging.measured_reasons import split_reason
from rewardharness.schema import LABELS, TIE, Candidate, Example, Judgment, TextInput

MAX_TEXT_SHOWN = 6000
"""Characters of a text candidate that are shown."""


@dataclass(frozen=True)
class OpenedExample:
    """An example as a panel shows it."""

    words: str
    """Instruction, label, predictions and reasons, as markup."""
    example: Example | None = None
    """Whose images are shown."""
    chains: Sequence[tuple[str, str]] = ()
    """Title and reasoning of each judgment."""
    right: str = ""
    """Letter of the candidate that the viewer shows first; empty for the labeled one."""


def no_example(about: str) -> str:
    """Return the placeholder while no example is chosen.

    Args:
        about: What is shown in addition to the images.
    """
    return notice("empty", "Choose an example", f"Its images appear here, and {about}.")


NO_EXAMPLES = faint("This edit changed no judgment and cites no example.")
"""The message for an edit that changed no judgment."""


def words(case: ExampleCase) -> str:
    """Format instruction, label and preferences, before and after."""
    rows = [_row(case, seen, title) for seen, title in zip(case.seen, titles(case), strict=True)]
    head = ["", "The judge prefers", "Lead", *(f"Reward of {label}" for label in case.example.labels)]
    changed = "The data have changed since this run started: images and label are the current ones."
    return block(
        f"<p><strong>{escape(case.example.instruction)}</strong></p>{texts(case.example.candidates)}"
        f"{paragraph(_label(case))}{callout('warning', changed) if case.changed else ''}"
        f"{table(list(map(escape, head)), rows, 'cards seen')}" + "".join(why(seen.judgment) for seen in case.seen[-1:])
    )


def why(judgment: Judgment | None) -> str:
    """Format the reasons of a judgment without numbers; empty if it gives none."""
    reasons = judgment.reasons if judgment is not None else ()
    return bullets((escape(shorten(split_reason(reason)[0])) for reason in reasons), "reasons")


def texts(candidates: Sequence[Candidate]) -> str:
    """Format text candidates; empty for images and videos, which the gallery shows."""
    rows = [
        [f'<span class="letter">{label}</span>', f'<div class="response">{escape(shorten(candidate.text))}</div>']
        for label, candidate in zip(LABELS, candidates, strict=False)
        if isinstance(candidate, TextInput)
    ]
    return table(["", "Response"], rows, "responses") if rows else ""


def shorten(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= MAX_TEXT_SHOWN else f"{text[:MAX_TEXT_SHOWN]} …"


def opened(case: ExampleCase) -> OpenedExample:
    """Return an example with its judgments, as a panel shows it."""
    chains = [chain(seen.judgment, case.example.labels) for seen in case.seen]
    last = case.seen[-1].judgment if case.seen else None
    right = last.preference or "" if last is not None else ""
    return OpenedExample(words(case), case.example, list(zip(titles(case), chains, strict=True)), right)


def titles(case: ExampleCase) -> list[str]:
    """Return the titles of the judgments of a case."""
    if len(case.seen) == 1:
        return [f"With {case.seen[0].library}"]
    return [f"{when}, with {seen.library}" for when, seen in zip(("Before", "After"), case.seen, strict=True)]


def _label(case: ExampleCase) -> str:
    original, counted = case.example.preference, case.label
    text = f"The label: {_called(original)}."
    return text if original == counted else f"{text} It was corrected to: {_called(counted)}."


def _called(preference: str | None) -> str:
    if preference is None:
        return "none"
    return "it is a tie" if preference == TIE else f"{preference} is better"


def _row(case: ExampleCase, seen: Seen, title: str) -> list[str]:
    judgment, labels = seen.judgment, case.example.labels
    if judgment is None or judgment.preference is None:
        verdict = "no judgment"
    elif judgment.inconsistent:
        verdict = "inconsistent: depends on presentation order"
    else:
        verdict = "a tie" if judgment.preference == TIE else judgment.preference
        verdict += ", as the label says" if judgment.preference == case.label else ", against the label"
    scores = judgment.scores if judgment is not None else {}
    rewards = (scores[label].reward if label in scores else None for label in labels)
    numbers = (judgment.margin if judgment is not None else None, *rewards)
    return [*map(escape, (title, verdict)), *("–" if number is None else f"{number:.3f}" for number in numbers)]


def chain(judgment: Judgment | None, labels: Sequence[str]) -> str:
    """Return the reasoning of a judge; several pieces of markup, one line each."""
    if judgment is None:
        return faint("This has not been judged in this run.")
    if judgment.failure is not None:
        return failure(judgment.failure, own_judge=False) + unread_replies(judgment)
    orders = recorded_orders(judgment)
    if orders:
        return showings(orders, live=False)
    if not any(step.kind in {"think", "tool"} for step in judgment.steps):
        return faint("No reasoning is recorded: the judge gives none, or an earlier version made the run.")
    return block("".join([overall_steps(judgment), *(candidate_steps(judgment, label) for label in labels)]))


def queue_choices(left: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return label and id of the examples whose labels should be checked."""
    return [(f"{name} · judged {count(times, 'time')}", name) for name, times in left]


def queue(left: int, seen: int, *, local: bool) -> str:
    """Explain the queue of labels."""
    text = (
        "The judge was wrong on these examples with every Library. Either the Library lacks the knowledge for them, or "
        "their labels are wrong. Check and correct them: the data are never changed, the next run uses your "
        "corrections, and the held-out test set keeps its labels."
    )
    here = "" if local else " Labels can be corrected when you run the app on your own computer."
    checked = f"{left} to check" + (f", {seen} checked" if seen else "")
    return block(f"<p>{escape(text + here)}</p>{bullets([escape(checked)])}")


def empty_queue(seen: int) -> str:
    """Return the message of an empty queue."""
    text = f"You have checked {seen}." if seen else "So far, no example was judged wrong with every Library."
    return notice("empty", "No label to check", text)


class ExamplePanel(Widgets):
    """Widgets that show one example: the instruction, label and reasons, the viewer, and the reasoning of the judges.

    Args:
        results: Serves the images.
        name: Prefix of the element ids, unique in the page.
        chains: Maximum number of judgments per example.
    """

    def __init__(self, results: ResultFiles, name: str, chains: int) -> None:
        self._results = results
        self.words = markup(elem_id=f"{name}-words")
        self.viewer = gr.HTML(elem_id=f"{name}-viewer", js_on_load=None, visible=False)
        self.sections: tuple[gr.Accordion, ...] = ()
        self.chains: tuple[gr.Markdown, ...] = ()
        for number in range(chains):
            with section("", visible=False, elem_id=f"{name}-{number}") as part:
                self.chains += (markup(elem_id=f"{name}-chain-{number}"),)
            self.sections += (part,)

    def show(self, opened: OpenedExample) -> Updates:
        """Show an example."""
        viewer = self._results.view(opened.example, opened.right) if opened.example is not None else ""
        updates = self.empty(opened.words) | {self.viewer: gr.HTML(viewer, visible=bool(viewer))}
        for part, text, (title, chain) in zip(self.sections, self.chains, opened.chains, strict=False):
            label = f"How the judge got there · {title}" if title else "How the judge got there"
            updates |= {part: gr.Accordion(label=label, visible=True), text: chain}
        return updates

    def empty(self, text: str) -> Updates:
        """Show a text instead of an example."""
        hidden: Updates = {part: gr.Accordion(visible=False) for part in self.sections} | dict.fromkeys(self.chains, "")
        return {self.words: text, self.viewer: gr.HTML("", visible=False), **hidden}

"""What a model reads that analyses chains or writes edits: the Library, cases, counts, and how edits are written.

Everything that comes from examples, chains or entries is delimited and disarmed. Examples are called e1, e2, ...: no
id, no file name and no name of a generator is ever part of it. Labels are, because edits are learned from them.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rewardharness.evolution.analyzer import find_clusters, kind_of
from rewardharness.evolution.operators import typed_edits_of
from rewardharness.evolution.proposal import Mutation, Outcome, RejectedProposal, View, criteria_of
from rewardharness.judging.chain import neutral
from rewardharness.library.entry import Entry
from rewardharness.library.plaintext import invisible
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.prompts import load, sections
from rewardharness.schema import EDIT_KINDS, Example, TextInput
from rewardharness.task import TEXT

MAX_ENTRY, MAX_INSTRUCTION, MAX_TRIGGERS = 3000, 600, 240
"""Characters that are shown of an entry's body, of an instruction, and of a list of triggers."""
MAX_RESPONSE, MAX_CHAIN = 2000, 2500
"""Characters that are shown of a text candidate and of a chain."""
MAX_TRIED = 12
"""Edits tried before that are shown, the latest."""

_TAG = re.compile(r"<(/?\s*(?:library|entry|case|candidate|chain|instruction|finding|tried)\b)", re.IGNORECASE)


def quoted(text: str, limit: int) -> str:
    """Make foreign text safe to quote: tags disarmed, invisible characters gone, the middle of a long one left out."""
    hidden = {offset for offset, _ in invisible(text)}
    plain = "".join(char for offset, char in enumerate(text) if offset not in hidden) if hidden else text
    if len(plain) > limit:
        plain = f"{plain[: limit // 2].rstrip()} [...] {plain[-(limit // 2) :].lstrip()}"
    return _TAG.sub(r"‹\1", neutral(plain)).strip()


def choose_cases(outcomes: Sequence[Outcome], misses: int, hits: int, seed: int) -> list[Outcome]:
    """Choose what to read: misses from all clusters in turn, and hits of the same kinds of edit.

    Args:
        outcomes: The outcomes of the training examples.
        misses: Failures at most.
        hits: Successes at most, drawn by the seed.
        seed: Which ones.
    """
    rows = [list(cluster.failures) for cluster in find_clusters(outcomes)]
    depth = max(map(len, rows), default=0)
    chosen = [row[level] for level in range(depth) for row in rows if level < len(row)][:misses]
    kinds = {kind_of(each.example) for each in chosen}
    met = [each for each in outcomes if each.judged and not each.missed and kind_of(each.example) in kinds]
    drawn = random.Random(seed).sample(met, min(hits, len(met)))
    return [*chosen, *sorted(drawn, key=lambda each: each.example.id)]


def cases_text(cases: Sequence[Outcome]) -> str:
    """Write cases with their chains; they are called e1, e2 and so on."""
    return "\n".join(_case_text(outcome, f"e{number}") for number, outcome in enumerate(cases, 1))


def _case_text(outcome: Outcome, alias: str) -> str:
    example, judgment = outcome.example, outcome.judgment
    verdict = f"The judge preferred {judgment.preference} (margin {judgment.margin or 0:.2f})"
    if judgment.preference is None:
        verdict = f"The judge gave no answer ({judgment.failure.code if judgment.failure else 'unknown'})"
    consulted = ", ".join(entry.name for entry in judgment.entries) or "nothing"
    chain = "\n".join(f"[{step.kind}] {step.text}" for step in judgment.steps)
    return (
        f'<case name="{alias}">\nKind of edit: {kind_of(example)}. Candidates: {", ".join(example.labels)}. '
        f"People preferred {example.preference}. {verdict}.\nConsulted: {consulted}.\n"
        f"<instruction>\n{quoted(example.instruction, MAX_INSTRUCTION)}\n</instruction>\n"
        f"{_responses(example)}<chain>\n{quoted(chain, MAX_CHAIN) or '(none)'}\n</chain>\n</case>"
    )


def _responses(example: Example) -> str:
    """Write the text candidates of a case; nothing for images and videos."""
    candidates = zip(example.labels, example.candidates, strict=True)
    texts = [(label, quoted(each.text, MAX_RESPONSE)) for label, each in candidates if isinstance(each, TextInput)]
    return "".join(f'<candidate name="{label}">\n{text}\n</candidate>\n' for label, text in texts)


def counts_text(outcomes: Sequence[Outcome]) -> str:
    """Write hits and misses by kind of edit, most misses first."""
    missing: Counter[str] = Counter(kind_of(each.example) for each in outcomes if each.missed)
    total: Counter[str] = Counter(kind_of(each.example) for each in outcomes if each.judged or each.missed)
    kinds = sorted(total, key=lambda kind: (-missing[kind], kind))
    return "\n".join(f"- {kind}: {missing[kind]} of {total[kind]} missed" for kind in kinds) or "- nothing was judged"


def library_text(library: Library, whole: Iterable[str] = ()) -> str:
    """Write a Library: every entry in a few lines, and those named with their bodies.

    Args:
        library: The Library.
        whole: Names of entries that are shown with their bodies.
    """
    full = set(whole)
    return "\n".join(entry_text(entry, entry.name in full) for entry in library.entries) or "(empty)"


def entry_text(entry: Entry, whole: bool) -> str:
    """Write one entry, with its body and prompt if `whole`."""
    triggers = quoted(entry.metadata.get("triggers", ""), MAX_TRIGGERS) or "(none: its description decides)"
    lines = [f'<entry name="{entry.name}" kind="{entry.kind}">', quoted(entry.description, MAX_INSTRUCTION)]
    lines += [f"triggers: {triggers}", *([f"measure: {quoted(entry.measure, 64)}"] if entry.measure else [])]
    for each in criteria_of(entry):
        of = f", only {'/'.join(each.applies)}" if each.applies else ""
        by = f", measure {quoted(each.measure, 64)}" if each.measure else ""
        text = quoted(each.text, 200) if whole else ""
        lines.append(f"- criterion {each.id} (weight {each.weight:g}, {each.dimension}{of}{by}) {text}".rstrip())
    schema = json.dumps(dict(entry.output_schema), ensure_ascii=False) if entry.output_schema else ""
    texts = {"system prompt:\n": entry.system_prompt, "output_schema: ": schema, "body:\n": entry.body}
    lines += [f"{head}{quoted(text, MAX_ENTRY)}" for head, text in texts.items() if whole and text]
    return "\n".join([*lines, "</entry>"])


def tried_text(rejected: Sequence[RejectedProposal]) -> str:
    """Write what was tried before, the latest last."""
    lines = [f"- {quoted(tried.statement, 300)} ({quoted(tried.reason, 120) or 'not kept'})" for tried in rejected]
    return "<tried>\n" + ("\n".join(lines[-MAX_TRIED:]) or "(nothing)") + "\n</tried>"


def grammar(view: View) -> str:
    """Write how edits are written in this phase."""
    if view.phase == "prune":
        return load("evolve_prune")
    names = () if view.phase == "tools" and view.task is TEXT else view.known_measures  # Tools measure pixels
    known = [f"- {name}: {MEASURES[name].description}" for name in names if name in MEASURES]
    measures = "\n".join(known) or "- (none)"
    if view.phase == "tools":
        return load("evolve_tools", view.task.wording, measures=measures)
    return load("evolve_skills", kinds=kinds_text(view), measures=measures)


def kinds_text(view: View) -> str:
    """List the kinds of edit; a prompt for text has none."""
    return "other" if view.task is TEXT else ", ".join(EDIT_KINDS)


def mutation_text(mutation: Mutation) -> str:
    """Write which operator is wanted, what it is for, and with which typed edits it can be written."""
    typed = " or ".join(f'"{name}"' for name in typed_edits_of(mutation))
    return load("evolve_mutation", name=mutation, purpose=sections("mutations")[mutation], operators=typed)

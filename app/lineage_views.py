"""Says what the Lineage tab says around its picture, draws the lineage as a table, and compares two evals in words.

Pure: markup out. Everything that a lineage says is foreign text.
"""

from app.lineage_details import differences, missing
from app.lineage_drawing import Drawn
from app.lineage_picture import Kin
from app.lineage_words import words
from app.markup import block, bullets, callout, escape, paragraph, table
from rewardharness.runs.forms import Comparison, Difference
from rewardharness.runs.graph import branches
from rewardharness.runs.lineage import Record
from rewardharness.runs.typed import to_json


def introduction(*, local: bool) -> str:
    """What the tab is for."""
    text = (
        "Which human preferences are behind a reward, what was trained with it, and is that any better? From examples "
        "to the edits of a Library that they caused, to its versions, releases, trainings, results and evals."
        if local
        else "How a Library came to be: the examples that caused each edit, what it fixed and broke, and its versions."
    )
    return block(paragraph(text, "faint"))


def no_records(where: str) -> str:
    """How to begin, where there are no records.

    Args:
        where: The folder.
    """
    steps = [
        (
            "Before a training, keep what is planned:",
            "record-manifest grpo-1 --base-model org/base --release reward.release --data prompts --trainer trl",
        ),
        (
            "Afterwards, what came of it:",
            "record-result grpo-1 --status succeeded --artifact last=out/checkpoint --curve log.jsonl",
        ),
        (
            "And what it is worth:",
            "record-eval after --artifact grpo-1/last --benchmark edits --metric accuracy,higher,correct=71,judged=98",
        ),
    ]
    lines = [f'{said} <code class="command">rh lineage {escape(words)}</code>' for said, words in steps]
    begin = paragraph(f"Records lie in {where}, and there are none. On the command line:")
    other = paragraph("How a Library evolved can be seen without records: choose a Library above.")
    return block(callout("note", "No records yet", begin, bullets(lines), other))


def no_lineage(name: str) -> str:
    """What is said of a Library that tells nothing of how it came to be."""
    text = (
        f"Nothing is told of how {name} came to be. A Library tells it once it has been evolved: every edit that is "
        "kept adds a line to its lineage.jsonl."
    )
    return block(callout("empty", "This Library has no lineage", paragraph(text)))


def as_table(found: Drawn) -> str:
    """The same as a table, row by row."""
    kin = Kin(found)
    rows = []
    for branch in branches(found.graph):
        if not branch.again:
            few = words(branch.node, found.inside.get(branch.node.id, ()))
            cells = [
                f'<strong>{escape(few.title)}</strong> <span class="faint">{escape(few.kind)}</span>',
                escape(few.line),
            ]
            rows.append([*cells, kin.before(branch.node.id), kin.after(branch.node.id)])
    return block(table(["Thing", "In a few words", "Came from", "Led to"], rows, "cards kin"))


def compared(base: Record, new: Record, found: Comparison) -> str:
    """Two evals, metric by metric, with the verdict in words."""
    said = [f"<li>{_verdict(base.name, new.name, each)}</li>" for each in found.metrics]
    told = to_json(found)
    return block(f'<ul class="verdicts">{"".join(said)}</ul>{differences(told["metrics"])}{missing(told)}')


def compare_hint() -> str:
    """What stands in the place of a comparison before there is one."""
    text = "Two evals compare when benchmark, data, protocol and judge are the same. Nothing is recorded here."
    return block(paragraph(text, "faint"))


def _verdict(base: str, new: str, found: Difference) -> str:
    one, other, name = (f"<strong>{escape(each)}</strong>" for each in (new, base, found.name))
    by = f"by {abs(found.difference):.4g}"
    if found.verdict in {"better", "worse"}:
        return (
            f"{one} is {found.verdict} than {other} in {name}, {by}: the interval of the difference is all on one side."
        )
    if found.verdict == "same":
        return f"{one} and {other} have the same {name}."
    lead = "better" if (found.difference > 0) == (found.direction == "higher") else "worse"
    why = "no interval is known" if found.interval is None else "the interval of the difference holds 0"
    return f"Whether {one} is better than {other} in {name} is unclear: it is {lead} {by}, but {why}."

"""Formats a page of a table of results. Pure: markup out. Names, instructions and labels are foreign text."""

from collections.abc import Mapping, Sequence

from app.failures import title_of
from app.markup import block, count, escape, notice, paragraph, table
from app.table.rows import PAGE, ResultRow, Verdict

NO_ROWS = notice("empty", "No rows", "Nothing is judged yet, or nothing fits the filters.")
"""The text in place of an empty table."""


def rows_table(
    rows: Sequence[ResultRow],
    page: int,
    pictures: Mapping[int, Sequence[tuple[str, str]]],
    judges: Sequence[str],
    selected: set[int],
) -> str:
    """Return one page of results with thumbnails.

    Args:
        rows: All rows, as filtered and sorted.
        page: Number of the page, from 0.
        pictures: Letter or title and address of the thumbnails, by number of the row.
        judges: Title of each shown judge.
        selected: Numbers of the selected rows.
    """
    if not rows:
        return NO_ROWS
    shown = rows[page * PAGE : (page + 1) * PAGE]
    cells = [
        [
            _name(row, row.number in selected),
            "".join(_picture(row, *each) for each in pictures.get(row.number, ())),
            escape(row.instruction[:200]),
            *(_verdict(verdict) for verdict in row.verdicts),
            escape(row.label or ""),
            escape(", ".join(filter(None, row.kinds))),
        ]
        for row in shown
    ]
    titles = judges if len(judges) > 1 else ["Judge"]
    head = ["Example", "Images", "Instruction", *map(escape, titles), "Label", "Kind"]
    first = page * PAGE + 1
    position = f"Rows {first:,} to {first + len(shown) - 1:,} of {len(rows):,}. "
    chosen = f'<span class="selected" aria-live="polite">{count(len(selected), "row")} selected.</span>'
    about = f'<p class="faint">{escape(position)}{chosen}</p>'
    return block(f"{about}{table(head, cells, 'cards results')}")


def _name(row: ResultRow, selected: bool) -> str:
    name, checked = escape(row.id), " checked" if selected else ""
    box = f'<input type="checkbox" data-row="{row.number}" aria-label="Select {name}"{checked}>'
    return f'{box} <button type="button" class="open" data-open="{row.number}">{name}</button>'


def _picture(row: ResultRow, name: str, address: str) -> str:
    best = "best" if name == row.verdicts[0].choice else ""
    image = f'<img src="{escape(address)}" alt="{escape(name)}" loading="lazy" data-open="{row.number}">'
    return f'<figure class="{best}">{image}<figcaption>{escape(name)}</figcaption></figure>'


def _verdict(verdict: Verdict) -> str:
    if not verdict.choice:
        return f'<span class="pill warning">not judged: {escape(str(title_of(verdict.failure)))}</span>'
    known = [(label, reward) for label, reward in verdict.rewards.items() if reward is not None]
    facts = [", ".join(f"{label} {reward:.2f}" for label, reward in known)]
    facts += [f"margin {verdict.size:.2f}"] if verdict.size is not None and len(known) != 1 else []
    style, agrees = "", ""
    if verdict.credit is not None:
        style, agrees = ("good", "agrees") if verdict.credit == 1 else ("warning", "disagrees")
    words = " ".join(filter(None, (verdict.choice, agrees)))
    numbers = f'<span class="faint"> {escape("; ".join(filter(None, facts)))}</span>'
    return f'<span class="pill {style}">{escape(words)}</span>{numbers}'


def position(place: int, total: int) -> str:
    """Return the position of the opened row, and the keys."""
    words = f"{place + 1:,} of {total:,}. Keys: J next, K previous." if total else ""
    return block(paragraph(words, "faint position"))

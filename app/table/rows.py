"""Rows of results, which of them a table shows and how, and their download. Pure but for files that are written.

Names, instructions and labels are foreign text.
"""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.failures import title_of
from app.markup import block, count, escape, notice, paragraph, plain, table
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.errors import InputError
from rewardharness.judging.report import credit
from rewardharness.schema import PAIRS, TIE, Example, ImageInput, Json, Judgment

PAGE = 25
"""Rows of a page."""

CLOSE, CLEAR = 0.1, 0.3
"""Margins below which an answer is close, and from which it is clear."""


@dataclass(frozen=True)
class Verdict:
    """The answer of one judge to an example."""

    choice: str
    """A letter, `tie`, or another word; empty without a judgment."""
    credit: float | None = None
    """Agreement with the label in [0, 1]; None without a label or a judgment."""
    margin: float | None = None
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    """By letter."""
    failure: str = ""
    """Code of the failure; empty for a judgment."""

    @property
    def size(self) -> float | None:
        """The margin without its sign, 0 for a tie; None without one."""
        return 0.0 if self.choice == TIE else None if self.margin is None else abs(self.margin)

    @property
    def best(self) -> float | None:
        """The highest reward; None without one."""
        return max((reward for reward in self.rewards.values() if reward is not None), default=None)


@dataclass(frozen=True)
class ResultRow:
    """An example with the answers of the shown judges."""

    number: int
    """Place in the data; names the row for as long as the run exists."""
    id: str
    instruction: str
    kinds: tuple[str, ...]
    """What the data call it: part, kind of edit, label kind."""
    label: str | None
    verdicts: tuple[Verdict, ...]
    """Of the shown run, and of the one that it is compared with."""


def _change(row: ResultRow) -> float:
    """Return how much better the first judge agrees with the label than the second."""
    first, second = (row.verdicts[0].credit, row.verdicts[-1].credit)
    return 0.0 if first is None or second is None else first - second


def _within(row: ResultRow, low: float, high: float) -> bool:
    size = row.verdicts[0].size
    return size is not None and low <= size < high


AGREEMENTS: Mapping[str, tuple[str, Callable[[ResultRow], bool]]] = {
    "all": ("All", lambda row: True),
    "against": ("Judge and label disagree", lambda row: row.verdicts[0].credit not in {None, 1}),
    "with": ("Judge and label agree", lambda row: row.verdicts[0].credit == 1),
    "failed": ("Not judged", lambda row: not row.verdicts[0].choice),
    "fixed": ("Fixed", lambda row: _change(row) > 0),
    "broken": ("Broken", lambda row: _change(row) < 0),
    "differ": ("Different answers", lambda row: row.verdicts[0].choice != row.verdicts[-1].choice),
}
"""Title and rule of each choice by agreement; the last three are about two judges."""

MARGINS: Mapping[str, tuple[str, Callable[[ResultRow], bool]]] = {
    "all": ("All", lambda row: True),
    "close": (f"Below {CLOSE}, and ties", lambda row: _within(row, 0.0, CLOSE)),
    "middle": (f"{CLOSE} to {CLEAR}", lambda row: _within(row, CLOSE, CLEAR)),
    "clear": (f"{CLEAR} and more", lambda row: _within(row, CLEAR, 9.0)),
}
"""Title and rule of each choice by margin."""


ORDERS: Mapping[str, tuple[str, Callable[[ResultRow], float | None] | None, bool]] = {
    "given": ("As in the data", None, False),
    "margin": ("Largest margin first", lambda row: row.verdicts[0].size, True),
    "near": ("Smallest margin first", lambda row: row.verdicts[0].size, False),
    "reward": ("Highest reward first", lambda row: row.verdicts[0].best, True),
    "low": ("Lowest reward first", lambda row: row.verdicts[0].best, False),
}
"""Title, value and direction of each order; rows without the value come last."""

ANY = ""
"""Choice of all kinds. Kinds are prefixed with `=`, because a name may be empty."""


def select(rows: Sequence[ResultRow], agreement: str = "all", margin: str = "all", kind: str = ANY) -> list[ResultRow]:
    """Return the rows that fit choices of `AGREEMENTS`, `MARGINS` and `kind_choices`."""
    rules = [names[name][1] for names, name in ((AGREEMENTS, agreement), (MARGINS, margin)) if name in names]
    return [row for row in rows if all(rule(row) for rule in rules) and (not kind or kind[1:] in row.kinds)]


def ordered(rows: Sequence[ResultRow], order: str) -> list[ResultRow]:
    """Return the rows in one of `ORDERS`."""
    _, value, down = ORDERS.get(order, ORDERS["given"])
    if value is None:
        return list(rows)
    known = [(number, row) for row in rows if (number := value(row)) is not None]
    known.sort(key=lambda pair: -pair[0] if down else pair[0])
    return [row for _, row in known] + [row for row in rows if value(row) is None]


def kind_choices(rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    """Return title with count and value of the kinds in the rows, the most frequent first."""
    counts = Counter(kind for row in rows for kind in dict.fromkeys(row.kinds))
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [("All", ANY), *((f"{plain(name) or '(no kind given)'} ({n:,})", f"={name}") for name, n in kinds)]


def verdict_of(example: Example, judgment: Judgment) -> Verdict:
    """Return the answer of a judgment of an example."""
    rewards = {label: scores.reward for label, scores in judgment.scores.items()}
    if judgment.failure is not None:
        return Verdict("", rewards=rewards, failure=judgment.failure.code)
    choice = "inconsistent" if judgment.inconsistent else judgment.preference or "scored"
    agrees = credit(example, judgment) if example.preference is not None else None
    return Verdict(choice, agrees, judgment.margin, rewards)


def neighbor(rows: Sequence[ResultRow], number: int, step: int) -> int:
    """Return the place of the row that is `step` rows from the one with a number; after the last follows the first."""
    place = next((place for place, row in enumerate(rows) if row.number == number), -min(step, 1))
    return (place + step) % len(rows) if rows else -1


def numbers(text: object) -> set[int]:
    """Return the numbers of rows that the page has sent; other values are ignored."""
    try:
        values = json.loads(str(text or "[]"))
    except ValueError:
        return set()
    return {number for number in values if type(number) is int} if isinstance(values, list) else set()


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
    visible_rows = rows[page * PAGE : (page + 1) * PAGE]
    cells = [
        [
            _name(row, row.number in selected),
            "".join(_picture(row, *picture) for picture in pictures.get(row.number, ())),
            escape(row.instruction[:200]),
            *(_verdict(verdict) for verdict in row.verdicts),
            escape(row.label or ""),
            escape(", ".join(filter(None, row.kinds))),
        ]
        for row in visible_rows
    ]
    titles = judges if len(judges) > 1 else ["Judge"]
    head = ["Example", "Images", "Instruction", *map(escape, titles), "Label", "Kind"]
    first = page * PAGE + 1
    position = f"Rows {first:,} to {first + len(visible_rows) - 1:,} of {len(rows):,}. "
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
    phrase = " ".join(filter(None, (verdict.choice, agrees)))
    numbers = f'<span class="faint"> {escape("; ".join(filter(None, facts)))}</span>'
    return f'<span class="pill {style}">{escape(phrase)}</span>{numbers}'


def position(place: int, total: int) -> str:
    """Return the position of the opened row, and the keys."""
    text = f"{place + 1:,} of {total:,}. Keys: J next, K previous." if total else ""
    return block(paragraph(text, "faint position"))


Judged = tuple[Example, Judgment]

EXPORTS = {"csv": "CSV", "jsonl": "JSON Lines", "parquet": "Parquet", "zip": "Zip of the examples"}
"""Title of each format."""


def _rewards(example: Example, judgment: Judgment) -> list[float | None]:
    return [judgment.scores[label].reward if label in judgment.scores else None for label in example.labels]


_COLUMNS: Mapping[str, tuple[Kind, Callable[[Example, Judgment], Any]]] = {
    "id": ("text", lambda example, _: example.id),
    "instruction": ("text", lambda example, _: example.instruction),
    "preference": ("text", lambda example, _: example.preference),
    "judged_preference": ("text", lambda _, judgment: judgment.preference),
    "margin": ("float", lambda _, judgment: judgment.margin),
    "confidence": ("float", lambda _, judgment: judgment.confidence),
    "rewards": ("floats", _rewards),
    "reason": ("text", lambda _, judgment: judgment.reasons[0] if judgment.reasons else None),
    "failure": ("text", lambda _, judgment: judgment.failure.code if judgment.failure else None),
    "judge": ("text", lambda _, judgment: judgment.judge),
    "protocol": ("text", lambda _, judgment: judgment.protocol),
    "library_id": ("text", lambda _, judgment: judgment.library_id),
}
"""Kind and value of each column of a saved table; `preference` is the label."""

COLUMNS: dict[str, Kind] = {name: kind for name, (kind, _) in _COLUMNS.items()}

_EXAMPLE: dict[str, Kind] = dict.fromkeys(("id", "instruction", "preference", "label_kind", "category"), "text")
_EXAMPLE |= {"source_id": "text", "source": "image", "references": "images", "candidates": "images"}


def export(path: Path, judged: Iterable[Judged]) -> Path:
    """Write examples with their judgments, or only the examples.

    Args:
        path: The file, whose ending is one of `EXPORTS`.
        judged: The examples and judgments.

    Raises:
        InputError: If the format is unknown, or nothing can be written in it.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.suffix[1:]
    if ending not in EXPORTS:
        raise InputError("Unknown format.", next_step=f"Choose from: {', '.join(EXPORTS)}.")
    if ending == "zip":
        return write_pairs(path, (example for example, _ in judged))
    records = ({name: value(*entry) for name, (_, value) in _COLUMNS.items()} for entry in judged)
    if ending == "csv":
        _write_csv(path, records)
    else:
        (write_parquet if ending == "parquet" else write_lines)(path, COLUMNS, records)
    return path


def write_pairs(path: Path, examples: Iterable[Example]) -> Path:
    """Write image edits with two to four candidates as a zip archive, which `open_data` reads.

    Raises:
        InputError: If there are none.
        DataError: If an image cannot be read.
    """
    with TemporaryDirectory(prefix="pairs-") as scratch:
        rows = ({name: getattr(example, name) for name in _EXAMPLE} for example in examples if _is_pair(example))
        if not write_lines(Path(scratch) / PAIRS, _EXAMPLE, rows):
            raise InputError("No row has two to four edited images.", next_step="Select other rows.")
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.make_archive(str(path.with_suffix("")), "zip", scratch))


def _is_pair(example: Example) -> bool:
    media = (*example.sources, *example.candidates)
    return len(example.candidates) > 1 and bool(example.sources) and all(isinstance(part, ImageInput) for part in media)


def _write_csv(path: Path, records: Iterator[Json]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS))
        writer.writeheader()
        for record in records:
            writer.writerow({name: _csv_cell(value) for name, value in record.items()})


def _csv_cell(value: object) -> object:
    """Return a cell; a spreadsheet would run text that begins like a formula, so it gets an apostrophe."""
    if isinstance(value, list):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t") else value

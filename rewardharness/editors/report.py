"""The result of an arena, as its run folder holds it, and the report that is built from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rewardharness.codec import from_json
from rewardharness.editors.benchmark import OVERALL, GradedEditor, find_benchmark
from rewardharness.files import read_json
from rewardharness.judging.ranking import MEAN, RatedEditor
from rewardharness.judging.report import wilson
from rewardharness.report import Block, Cell, Report, Section, Table, Text, Value
from rewardharness.schema import Interval, Json, Usage

REPORT = "report.json"


@dataclass(frozen=True)
class EditCounts:
    """What an editor made."""

    made: int
    failed: int
    """Edits that it did not make; they are compared with nothing."""
    failure: str
    """The first reason; empty if nothing failed."""
    seconds: float = 0.0
    """Mean duration of the edits that were made for this run; 0 if all were known before."""


@dataclass(frozen=True)
class ArenaAgreement:
    """Agreement of the judge with another judge, or with votes of people, on comparisons that both have answered."""

    who: str
    """The other judge, or the dataset of the votes."""
    n: int
    same: int
    """Of these, how many have the same answer, ties included."""
    decided: int
    """How many neither answers with a tie."""
    alike: int
    """Of these, how many prefer the same edit."""
    editors: tuple[RatedEditor, ...]
    """Ratings by the other judge, or by all votes on these editors."""
    usage: Usage = Usage()
    """What the answers of the other judge cost."""


@dataclass(frozen=True, kw_only=True)
class ArenaResult:
    """Result of an arena, or of a benchmark of editors, which has grades in place of ratings."""

    editors: tuple[RatedEditor, ...] = ()
    """From best to worst. An editor that was never compared is missing."""
    categories: Mapping[str, tuple[RatedEditor, ...]] = field(default_factory=dict)
    """The same within the categories of the data."""
    wins: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of wins of an editor over another one in their comparisons; a tie is half."""
    met: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of these comparisons."""
    edits: Mapping[str, EditCounts]
    n: int
    """Number of comparisons, or of edits to grade."""
    judged: int
    """Of these, how many have an answer. A judge whose two orders contradict each other gives a tie."""
    ties: int = 0
    choice: str
    judge: Json
    data: str
    digest: str = ""
    """Digest of the data; empty in files of earlier versions."""
    library: str = ""
    """Name of the Library."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Judgments that failed, by code."""
    usage: Usage = Usage()
    """What judging cost, without the second judge."""
    agreements: tuple[ArenaAgreement, ...] = ()
    grades: tuple[GradedEditor, ...] = ()
    """Grades of a benchmark of editors, the best first."""
    differs: tuple[str, ...] = ()
    """What keeps these grades from being compared with published ones."""


def read_ratings(folder: Path) -> ArenaResult:
    """Return the result of a finished arena.

    Raises:
        HarnessError: If it cannot be read.
    """
    return from_json(ArenaResult, read_json(folder / REPORT))


PAGE = "report.html"
SHOWN = 12
"""Categories, and editors of further tables, that are shown at first where space is short."""
SCALE = "1000 is the mean of the editors; 400 more mean odds of 10 to 1."


def build_report(result: ArenaResult) -> Report:
    """Build the report of an arena."""
    if result.grades:
        return Report(f"{result.data}: {len(result.grades)} editors", (*_graded(result), *_costs(result)))
    sections = (
        Section("summary", "", _summary(result)),
        Section("ratings", "Ratings", (ratings_table(result.editors, result.edits), Text((SCALE,), "note"))),
        Section("categories", "Ratings by category", _categories(result)),
        Section("wins", "Wins", _wins(result), detail=True),
        Section("agreement", "Agreement", _agreements(result)),
        *_costs(result),
    )
    return Report(f"Arena on {result.data}", sections)


def _costs(result: ArenaResult) -> tuple[Section, ...]:
    lines, lost = [], [f"Judgments without an answer: {code} {count:,}" for code, count in result.failures.items()]
    for who, usage in (("The judge", result.usage), *((judge.who, judge.usage) for judge in result.agreements)):
        tokens = f"{usage.calls:,} requests, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} tokens out"
        if usage.calls or usage.seconds:
            lines.append(f"{who}: {tokens if usage.calls else 'no requests to models'}, {usage.seconds:,.0f} s.")
    for name, made in result.edits.items():
        if made.seconds >= 0.05:
            lines.append(f"Mean time of an edit by {name}: {made.seconds:.1f} s.")
        if made.failed:
            of = f"{made.failed:,} of {made.made + made.failed:,} edits"
            lost.append(f"{name} did not make {of}. The first reason: {made.failure}")
    failures = (Text(tuple(lost), "list"),) if lost else ()
    return Section("cost", "Cost", (Text(tuple(lines)),)), Section("failures", "Failures", failures)


def _graded(result: ArenaResult) -> tuple[Section, ...]:
    """Return the grades of a benchmark of editors, with published ones beside them."""
    benchmark, judge, first = find_benchmark(result.data), result.judge, result.grades[0]
    scale, published = (benchmark.scale, benchmark.published) if benchmark else ((0.0, 1.0), ())
    about = (
        f"{result.judged:,} of {result.n:,} edits graded, from {scale[0]:g} to {scale[1]:g}. "
        f"Judge: {judge.get('judge')}, protocol {judge.get('protocol')}. "
        f"Overall: the mean over the {benchmark.overall if benchmark else 'categories'}."
    )
    differs = (f"Not comparable with published grades: {'; '.join(result.differs)}.",) if result.differs else ()
    overall: list[tuple[Cell, ...]] = [
        (editor.name, cell, f"{editor.overall.judged:,} of {editor.overall.n:,}", "this run")
        for editor in result.grades
        for cell in _graded_cells(editor, [OVERALL], scale)
    ]
    names = [name for name in first.grades if name != OVERALL]
    columns = [_graded_cells(editor, names, scale) for editor in result.grades]
    kinds = tuple(zip(names, [str(first.grades[name].n) for name in names], *columns, strict=True))
    theirs: list[tuple[Cell, ...]] = []
    for table in published:
        for name, row in table.rows.items():
            known = {kind: f"{value:.2f}" for kind, value in zip(table.columns, row, strict=True)}
            overall.append((name, known[OVERALL], "-", f"published: {table.source}"))
            if len(known) > 1:
                theirs.append((name, *(known.get(kind, "-") for kind in names)))
    remarks = Text(
        tuple(f"{publication.source}: {line}" for publication in published for line in publication.remarks), "note"
    )
    by_kind: list[Block] = [Table(("Category", "Edits", *(editor.name for editor in result.grades)), kinds), remarks]
    if theirs:
        by_kind.insert(1, Table(("Published", *names), tuple(theirs), "Published grades by category"))
    head = ("Editor", "Overall grade [95% CI]", "Graded", "Source")
    return (
        Section("summary", "", (Text((about, *differs)),)),
        Section("grades", "Grades", (Table(head, tuple(overall)),)),
        Section("categories", "Grades by category", tuple(by_kind)),
    )


def _graded_cells(editor: GradedEditor, names: Iterable[str], scale: tuple[float, float]) -> list[Cell]:
    grades = [editor.grades[name] for name in names]
    return [_value(grade.mean, grade.interval, scale, ".2f") for grade in grades]


def _value(
    mean: float | None,
    interval: Interval | None,
    ends: tuple[float, float],
    form: str,
    chance: float | None = None,
) -> Cell:
    """Return a number with its interval, drawn between the ends of an axis."""
    if mean is None:
        return "-"
    bounds = None if interval is None else (interval.low, interval.high)
    span = "" if bounds is None else f" [{bounds[0]:{form}}, {bounds[1]:{form}}]"
    return Value(f"{mean:{form}}{span}", mean, bounds, chance, *ends)


def ratings_table(editors: Sequence[RatedEditor], edits: Mapping[str, EditCounts] | None = None) -> Table:
    """Return the ratings of editors, drawn on one axis.

    Args:
        editors: The editors, from best to worst.
        edits: What each made; None without a column for it.
    """
    cells: list[tuple[Cell, ...]] = []
    for editor, value in zip(editors, _drawn(editors, editors), strict=True):
        made = edits.get(editor.name) if edits else None
        counts = (f"{made.made} of {made.made + made.failed}",) if made is not None else ()
        cells.append((f"{editor.place}. {editor.name}", value, f"{editor.wins:g} of {editor.n}", *counts))
    head = ("Editor", "Rating [95% interval]", "Wins", *(("Edits made",) if edits else ()))
    return Table(head, tuple(cells), kind="ratings")


def _drawn(editors: Iterable[RatedEditor], axis: Iterable[RatedEditor]) -> list[Cell]:
    """Return ratings on the axis of some editors."""
    bounds = [bound for editor in axis for bound in (editor.interval.low, editor.interval.high)]
    ends = (min([*bounds, MEAN - 1]), max([*bounds, MEAN + 1]))
    return [_value(editor.rating, editor.interval, ends, ".0f", MEAN) for editor in editors]


def headline(result: ArenaResult) -> str:
    """Return the result in one sentence."""
    first = [editor.name for editor in result.editors if editor.place == 1]
    if not result.editors:
        return "No comparison has an answer, so there are no ratings."
    if len(first) == 1:
        return f"{first[0]} is the best of {len(result.editors)} editors: its interval lies above all others."
    return f"No editor is the best: the intervals of {', '.join(first[:SHOWN])} overlap."


def _summary(result: ArenaResult) -> tuple[Text, ...]:
    judge = result.judge
    ties = f"{result.ties:,} ties (the judge saw no difference, or its two orders contradict each other)"
    about = (
        f"{result.judged:,} of {result.n:,} comparisons judged; {ties}. "
        f"Judge: {judge.get('judge')}, protocol {judge.get('protocol')}; "
        f"Library {result.library} ({str(judge.get('library_id', ''))[:12]}). Choice of comparisons: {result.choice}."
    )
    return Text((headline(result),), "headline"), Text((about,))


def _categories(result: ArenaResult) -> tuple[Block, ...]:
    names = [editor.name for editor in result.editors]
    every = [editor for rated in result.categories.values() for editor in rated]
    rows = []
    for kind, rated in result.categories.items():
        cells = dict(zip([editor.name for editor in rated], _drawn(rated, every), strict=True))
        rows.append((kind, str(sum(editor.n for editor in rated) // 2), *(cells.get(name, "-") for name in names)))
    return (Table(("Category", "Comparisons", *names), tuple(rows), shown=SHOWN),) if rows else ()


def _wins(result: ArenaResult) -> tuple[Block, ...]:
    names = [editor.name for editor in result.editors]
    shares = {(one, name): f"{share:.0%}" for one, row in result.wins.items() for name, share in row.items()}
    counts = {(one, name): f" of {n}" for one, row in result.met.items() for name, n in row.items()}
    rows = [(one, *(shares.get((one, name), "-") + counts.get((one, name), "") for name in names)) for one in names]
    text = "Share of its comparisons that the editor of the row wins over that of the column; a tie is half a win."
    return (Table(("", *names), tuple(rows), shown=SHOWN), Text((text,), "note")) if rows else ()


def _agreements(result: ArenaResult) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if result.agreements:
        rows = [
            (row.who, str(row.n), _share(row.same, row.n), str(row.decided), _share(row.alike, row.decided))
            for row in result.agreements
        ]
        head = ("Judge and", "Answered by both", "Same answer [95% CI]", "Neither a tie", "Same edit [95% CI]")
        blocks.append(Table(head, tuple(rows)))
    for agreement in result.agreements:
        if agreement.editors:
            blocks.append(replace(ratings_table(agreement.editors), title=f"Ratings by {agreement.who}"))
    return tuple(blocks)


def _share(count: int, n: int) -> Cell:
    return _value(count / n if n else None, wilson(count, n), (0.0, 1.0), ".0%")

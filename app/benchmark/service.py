"""Operations of the Benchmark tab: runs, their results, single questions, comparisons of rows."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from app.benchmark.runs import (
    BenchmarkFollower,
    BenchmarkResults,
    BenchmarkStatus,
    OpenedBenchmark,
    QuestionCase,
    QuestionCases,
    RunRow,
    short_name,
)
from app.run_panel.following import keep
from app.run_panel.service import MAX_LISTED, RunService
from app.score.judges import Judges
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.comparison import RunComparison, compare_runs
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.job import BenchmarkJob
from rewardharness.benchmark.numbers import Number, credit
from rewardharness.benchmark.published import read_published
from rewardharness.benchmark.report import REPORT, report_page
from rewardharness.benchmark.run import COMMAND, read_entries
from rewardharness.benchmark.task import Task, list_tasks
from rewardharness.codec import from_json
from rewardharness.data.opening import DEMO
from rewardharness.errors import InputError, RunError
from rewardharness.files import read_json
from rewardharness.judging.measured import NAME as MEASURED
from rewardharness.schema import Json
from rewardharness.settings import Settings

AGAINST, UNJUDGED, WITH = "against", "unjudged", "with"
"""Kinds of questions: judge and label disagree; there is no judgment; they agree."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question of a run and the agreement of the answer with the label."""

    reply: QuestionAnswer
    credit: float | None
    """In [0, 1]; None without a judgment."""

    @property
    def kind(self) -> str:
        """`AGAINST`, `UNJUDGED` or `WITH`."""
        if self.credit is None:
            return UNJUDGED
        return WITH if self.credit == 1 else AGAINST


@dataclass(frozen=True)
class QuestionFilter:
    """Selection of questions."""

    kind: str = AGAINST
    """`AGAINST`, `UNJUDGED` or `WITH`."""
    part: str = ""
    """Empty: all."""
    category: str | None = None
    """None: all."""

    def pick(self, asked: Sequence[AskedQuestion]) -> list[AskedQuestion]:
        """Return the selected questions in their order."""
        return [
            item
            for item in asked
            if item.kind == self.kind
            and self.part in ("", item.reply.question.part)
            and self.category in (None, item.reply.question.category)
        ]


class BenchmarkServices(RunService[BenchmarkStatus, BenchmarkFollower]):
    """Benchmarks, their results and single questions. Holds nothing of any visitor."""

    job = COMMAND
    kind = BenchmarkFollower

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        super().__init__(settings, scratch, judges, local=local)
        self._results = BenchmarkResults(self._jobs)
        self._cases = QuestionCases(settings)
        self._reports: OrderedDict[Path, tuple[int, Json]] = OrderedDict()

    @staticmethod
    @cache
    def tasks() -> tuple[Task, ...]:
        """Return the tasks in the package."""
        return list_tasks()

    def _preview(self, config: BenchmarkConfig, settings: Settings) -> Json:
        preview = BenchmarkJob.open(config, settings).preview()
        known = preview["known"] if self.local else 0  # other visitors' judgments are private
        contenders = [
            {**row, "library": short_name(row["library"], row["library_id"])} for row in preview["contenders"]
        ]
        return {**preview, "contenders": contenders, "known": known}

    def _new_name(self, preview: Mapping[str, Any]) -> str:
        """Return the name that `rh benchmark` gives to the run, so that it resumes an earlier one."""
        return Path(str(preview["folder"])).name

    def _may_see(self, manifest: Json) -> bool:
        return bool(manifest.get("task") == DEMO and manifest.get("judge_name") == MEASURED)

    def _row(self, folder: Path) -> Json:
        """Return the numbers of the judge in the report of a run, cached while the file does not change."""
        path = folder / REPORT
        stamp = path.stat().st_mtime_ns if path.is_file() else 0
        cached = self._reports.get(folder, (0, {}))
        if cached[0] != stamp:
            report = read_json(path)
            rows = report.get("rows") if isinstance(report, dict) else None
            cached = stamp, {"numbers": from_json(tuple[Number, ...], rows[0]["numbers"])} if rows else {}
            keep(self._reports, folder, cached, 2 * MAX_LISTED)
        return cached[1]

    def open(self, name: str) -> OpenedBenchmark:
        """Return the results of a benchmark so far.

        Raises:
            HarnessError: If it cannot be read, or the visitor may not see it.
        """
        self._check(name)
        return self._results.open(name)

    def report_file(self, name: str) -> Path:
        """Write the report of a benchmark as a page for download."""
        return self._write_page(name, report_page(self.open(name).result))

    def asked(self, name: str, row: str) -> list[AskedQuestion]:
        """Return the questions of a benchmark with a label, the most confident answers of a row first.

        Args:
            name: The run.
            row: Key of the row.

        Raises:
            HarnessError: If there is no such row.
        """
        sheet = self._find_row(name, row).opened.sheets[row]
        asked = [
            AskedQuestion(reply, credit(sheet.parts[reply.question.part], reply))
            for reply in sheet.counting
            if isinstance(reply.question.truth, str)
        ]
        return sorted(asked, key=lambda item: (-abs(item.reply.margin or 0.0), item.reply.question.id))

    def case(self, name: str, row: str, question: str) -> QuestionCase:
        """Return a question with the answer of a row.

        Raises:
            HarnessError: If it cannot be loaded.
        """
        return self._cases.case(question, self._find_row(name, row))

    def compare(self, first: tuple[str, str], second: tuple[str, str]) -> RunComparison:
        """Compare two rows, of one run or of two.

        Args:
            first: Name of a run and key of the row that is the baseline.
            second: The same of the other row.

        Raises:
            InputError: If they are not comparable.
        """
        rows = self._find_row(*first), self._find_row(*second)
        if first == second:
            raise InputError("Both are the same row.", next_step="Choose another row, or another run.")
        try:
            comparison = compare_runs(rows[0].folder, rows[1].folder, rows=(rows[0].key, rows[1].key))
        except InputError as error:  # it contains paths of Libraries
            message = error.message
            for row in rows:
                spec = next(entry.library for entry in read_entries(row.folder) if entry.key == row.key)
                message = message.replace(spec, row.entry.library)
            raise InputError(message, next_step=error.next_step) from None
        if not comparison.same_data:
            raise InputError(
                "The runs used different data: their instructions, labels or images differ.",
                next_step="Compare runs over one copy of the data.",
            )
        return replace(comparison, first=rows[0].entry, second=rows[1].entry)

    def flip(self, first: tuple[str, str], second: tuple[str, str], question: str) -> QuestionCase:
        """Return a question with the answers of two rows.

        Raises:
            HarnessError: If it cannot be loaded.
        """
        return self._cases.case(question, self._find_row(*first), self._find_row(*second))

    def _find_row(self, name: str, row: str) -> RunRow:
        opened = self.open(name)
        if row not in opened.sheets:
            raise RunError("This run has no such row.", next_step="Choose one of the list.")
        entry = next(entry for entry in opened.result.rows if entry.key == row)
        return RunRow(entry.label, self._jobs.folder(name), opened, row)


def sizes(task: Task) -> dict[str, tuple[int, ...]]:
    """Return the numbers of pairs, groups or edits in published tables of a task, by part."""
    counts: dict[str, set[int]] = {}
    for row in read_published():
        if row.setting.task == task.name and row.setting.n is not None:
            counts.setdefault(row.setting.part, set()).add(row.setting.n)
    return {part: tuple(sorted(numbers)) for part, numbers in counts.items()}

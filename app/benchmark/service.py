"""Operations of the Benchmark tab: runs, their results, single questions, comparisons of rows."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
from app.table.rows import Judged
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.comparison import RunComparison, compare_runs
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.job import BenchmarkJob
from rewardharness.benchmark.numbers import Number, credit
from rewardharness.benchmark.published import read_published
from rewardharness.benchmark.report import REPORT, report_page
from rewardharness.benchmark.result import BenchmarkRow
from rewardharness.benchmark.run import COMMAND, read_entries
from rewardharness.benchmark.task import Task, list_tasks
from rewardharness.codec import from_json
from rewardharness.data.opening import DEMO
from rewardharness.editors.report import ArenaResult, read_ratings
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.files import read_json
from rewardharness.judging.measured import NAME as MEASURED
from rewardharness.runs.store import find_runs, read_manifest
from rewardharness.schema import LABELS, Failure, Json, Judgment, Scores
from rewardharness.settings import Settings

ARENA, MAX_ARENAS = "arena", 8
"""Job type of arenas, and maximum number of them that are shown."""


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

    def arenas(self) -> list[tuple[Path, ArenaResult]]:
        """Return folder and result of the latest finished arenas; none for visitors, who see no runs of others."""
        arenas: list[tuple[Path, ArenaResult]] = []
        for folder in find_runs(self._jobs.runs) if self.local else ():
            with suppress(HarnessError, OSError):
                if len(arenas) < MAX_ARENAS and read_manifest(folder).get("command") == ARENA:
                    arenas.append((folder, read_ratings(folder)))
        return arenas

    def report_file(self, name: str) -> Path:
        """Write the report of a benchmark as a page for download."""
        return self._write_page(name, report_page(self.open(name).result))

    def answers(self, name: str, row: str) -> list[tuple[QuestionAnswer, float | None]]:
        """Return the answers of a row to the questions with a label, and their agreement with it.

        Args:
            name: The run.
            row: Key of the row.

        Raises:
            HarnessError: If there is no such row.
        """
        sheet = self._find_row(name, row).opened.sheets[row]
        return [
            (reply, credit(sheet.parts[reply.question.part], reply))
            for reply in sheet.counting
            if isinstance(reply.question.truth, str)
        ]

    def examples(self, name: str, row: str, replies: Sequence[QuestionAnswer]) -> list[Judged]:
        """Return questions as examples, with the answers of a row as judgments.

        Raises:
            HarnessError: If the data cannot be read.
        """
        match = self._find_row(name, row)
        judgments = match.opened.judgments.get(row, {})
        return [
            (self._cases.example(reply.question, match), _judgment(match.entry, reply, judgments)) for reply in replies
        ]

    def case(self, question: str, *rows: tuple[str, str]) -> QuestionCase:
        """Return a question with the answers of rows, each the name of a run and the key of a row.

        Raises:
            HarnessError: If it cannot be loaded.
        """
        return self._cases.case(question, *(self._find_row(*row) for row in rows))

    def row_title(self, name: str, row: str) -> str:
        """Return judge and Library of a row."""
        return self._find_row(name, row).title

    def other_rows(self, name: str, row: str) -> list[tuple[str, tuple[str, str]]]:
        """Return title and place of the rows to compare a row with: of this run, and of runs on equal data."""
        about = self.look(name).manifest
        runs = [item.status for item in self.runs([name]) if not item.error]
        equal = [run for run in runs if all(run.manifest.get(key) == about.get(key) for key in _SAME)]
        places = [(run, entry) for run in sorted(equal, key=lambda run: run.name != name) for entry in run.entries]
        return [
            (entry.label if run.name == name else f"{entry.label} · {run.begun}", (run.name, entry.key))
            for run, entry in places
            if (run.name, entry.key) != (name, row)
        ]

    def file(self, name: str, ending: str) -> Path:
        """Return where an export is written."""
        return self._scratch / "benchmark-rows" / name / f"questions.{ending}"

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

    def _find_row(self, name: str, row: str) -> RunRow:
        opened = self.open(name)
        if row not in opened.sheets:
            raise RunError("This run has no such row.", next_step="Choose one of the list.")
        entry = next(entry for entry in opened.result.rows if entry.key == row)
        return RunRow(entry.label, self._jobs.folder(name), opened, row)


_SAME = ("task", "data", "task_protocol", "sampled")
"""Facts of a manifest that are equal in comparable runs."""


def _judgment(entry: BenchmarkRow, reply: QuestionAnswer, judgments: Mapping[str, Judgment]) -> Judgment:
    """Return the answer to a question as a judgment."""
    question = reply.question
    blank = Judgment(question.id, entry.name, entry.protocol, entry.library_id)
    scores = {label: Scores(None, None, value) for label, value in zip(LABELS, reply.values, strict=False)}
    failure = Failure(reply.failure, "") if reply.choice is None else None
    margin = None if reply.margin is None else abs(reply.margin)
    known = question.only_judgment(judgments) or blank
    facts: dict[str, Any] = {
        "example_id": question.id,
        "preference": reply.choice,
        "margin": margin,
        "failure": failure,
    }
    return replace(known, scores=scores, **facts)


def sizes(task: Task) -> dict[str, tuple[int, ...]]:
    """Return the numbers of pairs, groups or edits in published tables of a task, by part."""
    counts: dict[str, set[int]] = {}
    for row in read_published():
        if row.setting.task == task.name and row.setting.n is not None:
            counts.setdefault(row.setting.part, set()).add(row.setting.n)
    return {part: tuple(sorted(numbers)) for part, numbers in counts.items()}

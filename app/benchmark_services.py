"""What the Benchmark tab can do: begin benchmarks, follow them, count them, look at single questions, compare rows.

Who asks decides what is allowed. Strangers may have some pairs of the demonstration set judged by measuring, one run
at a time; they see the runs whose names they hold, and no others.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from app.benchmark_cases import AskedCase, AskedCases, Who
from app.benchmark_runs import Benchmarks, Opened, Progress, keep, short
from app.jobs import NAME, VISITOR, CommandError, Jobs
from app.judges import Judges
from app.new_benchmark import NewBenchmark, benchmark_command
from app.new_run import NO_KEYS_OF_OURS, Command, Keys, keys_of, models_of
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.flips import compare_runs
from rewardharness.benchmark.numbers import credit
from rewardharness.benchmark.published import read_published
from rewardharness.benchmark.report import PAGE, REPORT
from rewardharness.benchmark.report_page import report_page
from rewardharness.benchmark.result import label
from rewardharness.benchmark.run import COMMAND
from rewardharness.benchmark.task import Task, list_tasks
from rewardharness.data.opening import DEMO
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.files import read_json, write_text
from rewardharness.judging.measured import NAME as MEASURED
from rewardharness.runs.store import MANIFEST, find_runs, read_manifest
from rewardharness.schema import Json
from rewardharness.settings import Settings

log = logging.getLogger(__name__)

LISTED = 60
"""Runs that are listed, at most: those that were written to last."""

AGAINST, UNJUDGED, WITH = "against", "unjudged", "with"
"""Which questions are looked at: the judge and the label disagree; there is no judgment; they agree."""


@dataclass(frozen=True)
class Expected:
    """A benchmark that may be begun, and what it would cost. Nothing has been spent."""

    new: NewBenchmark
    command: Command
    told: Mapping[str, Any]
    """What `rh benchmark --dry-run --json` said."""


@dataclass(frozen=True)
class Listed:
    """A run in the list."""

    progress: Progress
    row: Json = field(default_factory=dict)
    """What its report says of the judge that it is about; empty while there is none."""
    trouble: str = ""
    """Why it cannot be read; then nothing else is known."""


@dataclass(frozen=True)
class Asked:
    """A question of a run, and how far the answer agrees with the label."""

    reply: QuestionAnswer
    credit: float | None
    """In [0, 1]; None where there is no judgment."""

    @property
    def kind(self) -> str:
        """Whether the judge agreed with the label, did not, or did not judge."""
        if self.credit is None:
            return UNJUDGED
        return WITH if self.credit == 1 else AGAINST


@dataclass(frozen=True)
class Wanted:
    """Which questions are looked at."""

    kind: str = AGAINST
    """`AGAINST`, `UNJUDGED` or `WITH`."""
    part: str = ""
    """Empty: all."""
    category: str | None = None
    """None: all."""

    def pick(self, asked: Sequence[Asked]) -> list[Asked]:
        """Pick them, in their order."""
        return [
            each
            for each in asked
            if each.kind == self.kind
            and self.part in ("", each.reply.question.part)
            and self.category in (None, each.reply.question.category)
        ]


class BenchmarkServices:
    """Benchmarks as visitors of the app may run them. Holds nothing of any visitor.

    Args:
        settings: The settings.
        scratch: A private folder for files that are handed to the browser.
        judges: The judges that can be chosen.
        local: Whether visitors sit at this computer.
    """

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        self.local = local
        self._settings, self._scratch, self._judges = settings, scratch, judges
        self._jobs = Jobs(settings.home)
        self._benchmarks = Benchmarks(self._jobs)
        self._cases = AskedCases(settings)
        self._reports: OrderedDict[Path, tuple[int, Json]] = OrderedDict()

    def tasks(self) -> tuple[Task, ...]:
        """The tasks that come with the package."""
        return _tasks()

    def expect(self, new: NewBenchmark) -> Expected:
        """Say what a benchmark would cost.

        Raises:
            HarnessError: If it cannot be run.
        """
        command = benchmark_command(new, self._judges, self._settings, local=self.local)
        try:
            told = self._jobs.ask([*command.words, "--dry-run", "--json", "--quiet"], command.changes)
        except CommandError as error:
            if self.local:
                raise
            # Its words may name places on this computer.
            log.warning("a visitor's benchmark cannot begin: %s", error.message)
            step = "Whoever runs this app finds the reason in its log."
            raise RunError("A benchmark cannot be begun here at the moment.", next_step=step) from None
        told = {**told, "contenders": [short(each) for each in told["contenders"]]}
        if not self.local:
            told["known"] = 0  # what others have had judged is not this visitor's
        return Expected(new, command, told)

    def start(self, expected: Expected) -> str:
        """Begin a benchmark. At this computer it lies where `rh benchmark` would put it, and so adds to what is there.

        Returns:
            Its name.

        Raises:
            HarnessError: If it cannot begin.
        """
        name = Path(str(expected.told["folder"])).name
        if not self.local:
            name = self._jobs.new_name("benchmark", visitor=True)
        self._jobs.start(name, expected.command.words, expected.command.changes, visitor=not self.local)
        return name

    def look(self, name: str) -> Progress:
        """See how a benchmark stands.

        Raises:
            HarnessError: If there is no such run, it is none of the visitor's business, or it cannot be read.
        """
        self._check(name)
        found = self._benchmarks.look(name)
        # Words about trouble may name places on this computer.
        return found if self.local else replace(found, trouble=None, reason="")

    def stop(self, name: str) -> Progress:
        """Ask a benchmark to end after the judgments under way."""
        self._check(name)
        self._jobs.stop(name)
        return self.look(name)

    def resume(self, name: str, key: str = "") -> Progress:
        """Resume a benchmark with its configuration.

        Args:
            name: The run.
            key: The key of its judge, if one was typed.

        Raises:
            HarnessError: If it cannot go on.
        """
        self._check(name)
        _, config = self._jobs.config(name)
        changes = keys_of(config, Keys(judge=key), self._settings) if self.local else NO_KEYS_OF_OURS
        self._jobs.resume(name, changes, visitor=not self.local)
        return self.look(name)

    def goes_on(self, name: str) -> bool:
        """Whether it is known by which command a benchmark goes on."""
        try:
            return bool(self._jobs.again(name))
        except HarnessError:
            return False

    def model(self, name: str) -> str:
        """The model that the command of a benchmark names as judge; empty where it names none."""
        return models_of(self._jobs.config(name)[1], self._settings)[0] if self.local and self.goes_on(name) else ""

    def command(self, name: str) -> str:
        """The command by which a benchmark goes on, for people at this computer; empty where it is not known."""
        if not self.local or not self.goes_on(name):
            return ""
        return " ".join(["rh", *self._jobs.again(name), "--run", str(self._jobs.folder(name))])

    def runs(self, held: Sequence[str] = ()) -> list[Listed]:
        """The benchmarks that a visitor may open, those that were written to last first.

        Args:
            held: Names that the visitor's browser holds: all that a stranger gets.
        """
        folders = find_runs(self._jobs.runs) if self.local else [self._jobs.runs / name for name in held]
        found = []
        for folder in folders[:LISTED]:
            try:
                self._check(folder.name)
            except (HarnessError, OSError):
                continue  # another kind of run, or none of the visitor's business
            try:
                found.append(Listed(self.look(folder.name), self._report(folder)))
            except (HarnessError, OSError) as error:
                detail = error.message if isinstance(error, HarnessError) else "A file of it cannot be read."
                found.append(Listed(Progress(folder.name, folder, "failed"), trouble=detail))
        return found

    def _report(self, folder: Path) -> Json:
        """What the report of a run says of its judge, remembered while the file stays the same."""
        path = folder / REPORT
        stamp = path.stat().st_mtime_ns if path.is_file() else 0
        known = self._reports.get(folder, (0, {}))
        if known[0] != stamp:
            found = read_json(path)
            rows = found.get("rows") if isinstance(found, dict) else None
            known = stamp, {"numbers": rows[0]["numbers"]} if rows else {}
            keep(self._reports, folder, known, 2 * LISTED)
        return known[1]

    def open(self, name: str) -> Opened:
        """Count what a benchmark has come to so far.

        Raises:
            HarnessError: If it cannot be read, or is none of the visitor's business.
        """
        self._check(name)
        return self._benchmarks.open(name)

    def report_file(self, name: str) -> Path:
        """Write the report of a benchmark as a page for download. Older pages are removed."""
        path = self._scratch / "benchmarks" / name / f"benchmark-{PAGE}"
        for old in sorted(path.parents[1].glob("*/*.html"), key=lambda each: each.stat().st_mtime)[:-20]:
            old.unlink(missing_ok=True)
        write_text(path, report_page(self.open(name).result))
        return path

    def asked(self, name: str, row: str) -> list[Asked]:
        """The questions of a benchmark that have a label, those first to which a row's answer was surest.

        Args:
            name: The run.
            row: Key of the row.

        Raises:
            HarnessError: If there is none.
        """
        sheet = self._who(name, row).opened.sheets[row]
        found = [
            Asked(each, credit(sheet.parts[each.question.part], each))
            for each in sheet.counting
            if isinstance(each.question.truth, str)
        ]
        return sorted(found, key=lambda each: (-abs(each.reply.margin or 0.0), each.reply.question.id))

    def case(self, name: str, row: str, question: str) -> AskedCase:
        """Show a question of a benchmark, and what a row said to it.

        Raises:
            HarnessError: If it cannot be shown.
        """
        return self._cases.case(question, self._who(name, row))

    def compare(self, first: tuple[str, str], second: tuple[str, str]) -> Json:
        """Compare two rows, of one run or of two, question by question.

        Args:
            first: Name of a run and key of the row to compare with.
            second: The same of the row that is asked whether it is better.

        Returns:
            As `flips.compare_runs` says it.

        Raises:
            InputError: If they do not compare; says why.
        """
        rows = self._who(*first), self._who(*second)
        if first == second:
            raise InputError("This is the same row twice.", next_step="Choose another row, or another run.")
        try:
            found = compare_runs(rows[0].folder, rows[1].folder, rows=(rows[0].key, rows[1].key))
        except InputError as error:  # it names Libraries as they were spelled
            message = error.message
            for row in rows:
                message = message.replace(str(row.contender["spec"]), str(row.contender["library"]))
            raise InputError(message, next_step=error.next_step) from None
        if not found["same_data"]:
            raise InputError(
                "The runs have read different data: their instructions, labels or images are not the same.",
                next_step="Compare runs over one copy of the data.",
            )
        return {**found, "first": rows[0].contender, "second": rows[1].contender}

    def flip(self, first: tuple[str, str], second: tuple[str, str], question: str) -> AskedCase:
        """Show a question, and what two rows said to it.

        Raises:
            HarnessError: If it cannot be shown.
        """
        return self._cases.case(question, self._who(*first), self._who(*second))

    def _who(self, name: str, row: str) -> Who:
        opened = self.open(name)
        if row not in opened.sheets:
            raise RunError("This run has no such row.", next_step="Choose one of the list.")
        contender = next(each for each in opened.result["rows"] if each["key"] == row)
        return Who(label(contender), self._jobs.folder(name), opened, row)

    def _check(self, name: str) -> None:
        """Make sure that a visitor may look at a run."""
        allowed: Callable[[str], object] = NAME.fullmatch if self.local else VISITOR.fullmatch
        if not allowed(name) or not self._jobs.is_known(name):
            raise RunError("There is no such run.", next_step="Choose one of the list, or begin one.")
        folder = self._jobs.folder(name)
        if (folder / MANIFEST).is_file():
            manifest = read_manifest(folder)
            theirs = manifest.get("task") == DEMO and manifest.get("judge_name") == MEASURED
            if manifest.get("command") != COMMAND or not (self.local or theirs):
                raise RunError("This run is no benchmark.", next_step="Choose one of the list, or begin one.")


def sizes(task: Task) -> dict[str, tuple[int, ...]]:
    """How many pairs, groups or edits published tables of a task count, by part. Nothing where none is known."""
    found: dict[str, set[int]] = {}
    for row in read_published():
        if row.setting.task == task.name and row.setting.n is not None:
            found.setdefault(row.setting.part, set()).add(row.setting.n)
    return {part: tuple(sorted(numbers)) for part, numbers in found.items()}


@cache
def _tasks() -> tuple[Task, ...]:
    return list_tasks()

"""The arena: editors make the same edits, a judge compares them, and ratings follow."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from rewardharness.codec import to_json
from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset
from rewardharness.data.tables import original_bytes, store_image
from rewardharness.editors.benchmark import EditorBenchmark, differences, find_benchmark, grade
from rewardharness.editors.config import ArenaConfig
from rewardharness.editors.editor import EditorProtocol, EditTask, open_editor
from rewardharness.editors.making import (
    FOLDER,
    ROUND,
    Duel,
    Edits,
    MadeEdit,
    agreement_with,
    cached_edits,
    make_edits,
    next_duels,
    possible_duels,
    read_edits,
    read_votes,
)
from rewardharness.editors.report import PAGE, REPORT, ArenaAgreement, ArenaResult, EditCounts, build_report
from rewardharness.errors import InputError
from rewardharness.files import content_id, write_json, write_text
from rewardharness.judging.batches import Batch, JudgeBatches, JudgingJob, expected_cost
from rewardharness.judging.interface import check_task
from rewardharness.judging.opening import OpenedJudge, open_reward
from rewardharness.judging.profile_judge import ProfileJudge
from rewardharness.judging.ranking import Comparison, RatedEditor, rate_editors
from rewardharness.report_html import render_html
from rewardharness.report_markdown import render_markdown
from rewardharness.runs.job import Progress, Session
from rewardharness.runs.results import Results
from rewardharness.runs.spending import Cost
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import TIE, Example, ImageInput, Json, Judgment, Usage
from rewardharness.settings import Settings
from rewardharness.task import IMAGE_EDIT

EDITING = "editing"
"""Activity that is reported while edits are made."""
COMPARISONS = "comparisons.jsonl"
"""Table of a run folder with the comparisons without answers: data to vote on, or to judge in another way."""


@dataclass(frozen=True)
class ArenaJob(JudgingJob[ArenaResult]):
    """Compares editors; see `ArenaConfig`."""

    name: ClassVar[str] = "arena"

    config: Any
    settings: Settings
    dataset: Dataset
    opened: OpenedJudge
    editors: tuple[EditorProtocol, ...]
    chosen_folder: Path | None = None
    second: OpenedJudge | None = None
    """Judge of the same comparisons that neither chooses nor rates."""
    votes: Dataset | None = None
    """Votes of people on edits of these editors."""
    benchmark: EditorBenchmark | None = None
    """What grades each edit alone; None to compare edits."""
    duels: list[Duel] = field(default_factory=list, compare=False)
    """What is compared, as chosen so far."""

    @classmethod
    def open(
        cls,
        config: ArenaConfig,
        settings: Settings,
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
        editors: Sequence[EditorProtocol] = (),
    ) -> Self:
        """See `Job.open`. `editors`: Python objects in place of those of the configuration."""
        config = config.with_defaults(settings)
        opened = open_reward(config, settings)
        opened_editors = tuple(editors) or tuple(open_editor(spec, settings) for spec in config.specs)
        names = [editor.name for editor in opened_editors]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"Two editors are called {repeated[0]}.", next_step="Give them different names.")
        benchmark = find_benchmark(config.data)
        if benchmark is None and (len(opened_editors) < 2 or config.source is not None):
            what = f"{config.data} is no benchmark of editors: there is nothing to compare."
            step = "Name two editors; rh benchmark list shows the benchmarks, which --source is for."
            raise InputError(what, next_step=step)
        if benchmark is not None and (config.second_judge or config.votes):
            raise InputError("A benchmark compares no edits.", next_step="Leave out --second-judge and --votes.")
        if benchmark is not None:
            data = benchmark.open(settings, config.source, progress).first(config.limit)
        else:
            data = open_data(
                config.data, settings, fields=config.field_map, progress=progress, skip_bad_rows=config.skip_bad_rows
            ).first(config.limit)
        check_task(data.task, opened.judge, opened.library)
        if data.task is not IMAGE_EDIT or (not benchmark and any(example.references for example in data.examples)):
            raise InputError(f"{data.name} is no dataset of edits of one image.", next_step="Choose another one.")
        other = replace(config, judge=config.second_judge, release=None, calibration=None)
        second = open_reward(other, settings) if config.second_judge else None
        votes = open_data(config.votes, settings, progress=progress) if config.votes else None
        return cls(config, settings, data, opened, opened_editors, folder, second, votes, benchmark)

    @cached_property
    def tasks(self) -> tuple[EditTask, ...]:
        """The edits to make: each image with each of its instructions once."""
        tasks: dict[tuple[str, str], EditTask] = {}
        for example in self.dataset.examples:
            key = example.source_id, example.instruction
            task = EditTask(example.id, example.source_image, example.instruction, self.config.seed, example.category)
            if self.benchmark is not None:
                key, task = (example.id, ""), replace(task, example=example)
            tasks.setdefault(key, task)
        return tuple(tasks.values())

    @cached_property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed; more comparisons continue it."""
        graded = {"benchmark": self.benchmark.name} if self.benchmark else {}
        return {
            **graded,
            "command": self.name,
            "data": self.dataset.digest,
            **self.opened.identity.to_json(),
            "editors": {editor.name: editor.identity for editor in self.editors},
            "choice": self.config.choice,
            "seed": self.config.seed,
        }

    @property
    def batches(self) -> list[Batch]:
        """The comparisons that are chosen so far."""
        return self._batches(read_edits(self.folder))

    @property
    def judges(self) -> dict[str, OpenedJudge]:
        """The judges, by the beginning of the ids of their results."""
        if self.second is None:
            return {"": self.opened}
        return {"": self.opened, f"{content_id(self.second.identity.to_json())[:12]}/": self.second}

    @property
    def planned(self) -> int:
        """Number of comparisons, if all edits are made."""
        number = len(self.editors)
        if self.benchmark is not None:
            return len(self.tasks) * number
        return int(min(self.config.comparisons, len(self.tasks) * number * (number - 1) // 2))

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """See `Job.cost`; what the editors cost is not known."""
        known = Results() if restart else results_of(self.folder)
        total = Cost()
        for start, opened in self.judges.items():
            done = min(sum(name.rpartition("/")[0] == start.rstrip("/") for name in known), self.planned)
            stand_ins = [
                Example(str(number), task.instruction, task.image, (task.image,) * (1 if self.benchmark else 2))
                for number in range(self.planned - done)
                for task in [self.tasks[number % len(self.tasks)]]
            ]
            total += Cost(self.planned, done) + expected_cost(opened.judge, stand_ins, opened.library)
        return total

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`."""
        cost = self.cost(restart=restart, retry_failed=retry_failed)
        edits = len(self.tasks) * len(self.editors)
        left = edits - sum(bool(edit.file) for edit in read_edits(self.folder).values())
        about = {"folder": str(self.folder), "data": self.dataset.name, "edits": edits, "edits_left": left}
        return {**about, **cost.priced(self.limits)}

    def judge_in(self, run: RunFolder, session: Session, judge: JudgeBatches) -> Results:
        """Make the edits, then choose and judge comparisons round by round."""
        edits = make_edits(
            self.editors,
            self.tasks,
            run.path,
            cached_edits(self.settings),
            progress=lambda done, total: session.progress(EDITING, done, total),
            stop=session.stop,
            concurrency=self.config.concurrency or 0,
        )
        there, names = {key for key, edit in edits.items() if edit.file}, [editor.name for editor in self.editors]
        made = {
            task.id: [name for name in names if (name, task.id) in there]
            for task in self.tasks
            if self.benchmark is not None or all((name, task.id) in edits for name in names)
        }
        alone = [Duel(task, name, "") for task, makers in made.items() for name in makers]
        left = possible_duels(made, self.config.seed) if self.benchmark is None else alone
        if not left:
            raise InputError(_nothing(edits.values()), next_step="Correct the editors, then run the same command.")
        self.duels.clear()
        if self.benchmark is not None:
            self.duels.extend(left)
            return judge(self._batches(edits), session)
        results, most = Results(), min(self.config.comparisons, len(left)) * len(self.judges)
        report = session.progress

        def progress(activity: str, done: int, total: int) -> None:
            report(activity, done, most)

        session = replace(session, progress=progress)
        while left and len(self.duels) < self.config.comparisons:
            size = min(ROUND, self.config.comparisons - len(self.duels))
            new = set(next_duels(left, self._rate(results), size, self.config.choice))
            left = [duel for duel in left if duel not in new]
            self.duels.extend(sorted(new))
            results = judge(self._batches(edits)[:1], session)
        return judge(self._batches(edits), session) if self.second else results

    def conclude(self, results: Results) -> ArenaResult:
        """Make the result of the run from its judgments."""
        edits, names = read_edits(self.folder), [editor.name for editor in self.editors]
        ids = [duel.id for duel in self.duels if duel.id in results]
        failures = Counter(code for name in ids if (code := results.failure(name)))
        judge = self.opened.identity.to_json()
        facts = self._compared(results, edits) if self.benchmark is None else self._graded(self.benchmark, results)
        result = ArenaResult(
            edits={name: _count([edit for edit in edits.values() if edit.editor == name]) for name in names},
            choice=self.config.choice,
            judge=judge,
            data=self.dataset.name,
            digest=self.dataset.digest,
            library=self.opened.library.name or self.config.library or "",
            failures=dict(sorted(failures.items())),
            usage=self._usage(results),
            **facts,
        )
        self._write(result, edits)
        return result

    def _compared(self, results: Results, edits: Edits) -> Json:
        """Return the ratings and what belongs to them."""
        categories: dict[str, list[Duel]] = defaultdict(list)
        kinds = {task.id: task.category for task in self.tasks}
        for duel in self.duels:
            if kinds[duel.task]:
                categories[kinds[duel.task]].append(duel)
        own = self._answers(results)
        answers = _comparisons(self.duels, own)
        won = _wins(answers)
        return {
            "editors": rate_editors(answers),
            "categories": {kind: rate_editors(_comparisons(duels, own)) for kind, duels in sorted(categories.items())},
            "wins": {one: {name: sum(wins) / len(wins) for name, wins in row.items()} for one, row in won.items()},
            "met": {one: {name: len(wins) for name, wins in row.items()} for one, row in won.items()},
            "n": len(self.duels),
            "judged": len(answers),
            "ties": sum(answer == TIE for *_, answer in answers),
            "agreements": tuple(self._agreements(results, own, edits)),
        }

    def _graded(self, benchmark: EditorBenchmark, results: Results) -> Json:
        """Return the grades in the scale of a benchmark; an edit that was not made has none."""
        graded = []
        for editor in self.editors:
            kinds: dict[str, list[Judgment | None]] = defaultdict(list)
            for task in sorted(self.tasks, key=lambda edit_task: edit_task.category):
                name = Duel(task.id, editor.name, "").id
                kinds[task.category].append(results.judgment(name) if name in results else None)
            graded.append(grade(benchmark, kinds, editor.name))
        graded.sort(key=lambda entry: (entry.overall.mean is None, -(entry.overall.mean or 0.0), entry.name))
        counts = [sum(getattr(entry.overall, name) for entry in graded) for name in ("n", "judged")]
        differs = differences(benchmark, self.opened.judge, graded)
        return {"n": counts[0], "judged": counts[1], "grades": tuple(graded), "differs": differs}

    def _agreements(self, results: Results, own: Mapping[str, str], edits: Edits) -> Iterable[ArenaAgreement]:
        """Return the agreement of the judge with the second one, and with the votes of people."""
        if self.second is not None:
            start = list(self.judges)[1]
            other = self._answers(results, start)
            both = [(own[name], answer) for name, answer in other.items() if name in own]
            ratings = rate_editors(_comparisons(self.duels, other))
            yield agreement_with(self.second.judge.name, both, ratings, self._usage(results, start))
        if self.votes is not None:
            asked = {task.id: task.instruction for task in self.tasks}
            voted, ratings = read_votes(self.votes, asked, self.duels, edits, self.folder)
            both = [(own[name], answer) for name, answer in voted.items() if name in own]
            yield agreement_with(f"votes of people ({self.votes.name})", both, ratings)

    def _write(self, result: ArenaResult, edits: Edits) -> None:
        """Write the report, and the comparisons as a table without answers."""
        tasks, lines = {task.id: task for task in self.tasks}, []
        for duel in self.duels if self.benchmark is None else ():
            task = tasks[duel.task]
            row = {"id": duel.id, "instruction": task.instruction, "category": task.category}
            row["source"] = store_image(self.folder, original_bytes(task.image))
            for letter, name in zip("ab", duel.editors, strict=True):
                row |= {f"candidate_{letter}": f"{FOLDER}/{edits[name, duel.task].file}", f"editor_{letter}": name}
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        write_text(self.folder / COMPARISONS, "".join(lines))
        report = build_report(result)
        write_text(self.folder / PAGE, render_html(report, report.title))
        write_text(self.folder / "report.md", render_markdown(report))
        write_json(self.folder / REPORT, to_json(result))

    def numbers(self, result: ArenaResult) -> Mapping[str, float]:
        """Return the ratings or grades."""
        grades = {
            f"grade/{editor.name}": editor.overall.mean for editor in result.grades if editor.overall.mean is not None
        }
        return {**grades, **{f"rating/{editor.name}": editor.rating for editor in result.editors}}

    def _batches(self, edits: Edits) -> list[Batch]:
        """Return the chosen comparisons, for each judge."""
        profiled = isinstance(self.opened.judge, ProfileJudge)
        tasks = {task.id: task for task in self.tasks}
        examples = [
            Example(
                duel.id,
                task.instruction,
                task.image,
                tuple(self._image(edits[name, duel.task]) for name in duel.editors),
                category=task.category,
                references=task.example.references if task.example and profiled else (),
                notes=task.example.notes if task.example else {},
            )
            for duel in self.duels
            for task in [tasks[duel.task]]
        ]
        about = {duel.id: {"task": duel.task, "editors": list(duel.editors)} for duel in self.duels}
        concurrency = self.config.concurrency or 0

        def line(start: str, name: str) -> Json:
            return {"id": start + name, **about[name]}

        return [
            Batch(opened.judge, opened.library, examples, partial(line, start), concurrency=concurrency)
            for start, opened in self.judges.items()
        ]

    def _image(self, edit: MadeEdit) -> ImageInput:
        return replace(edit.image(self.folder), name=f"edit {content_id(edit.editor)[:6]}")

    def _rate(self, results: Results) -> tuple[RatedEditor, ...]:
        return rate_editors(_comparisons(self.duels, self._answers(results)))

    def _usage(self, results: Results, start: str = "") -> Usage:
        names = [start + duel.id for duel in self.duels if start + duel.id in results]
        return sum((results.judgment(name).usage for name in names), Usage())

    def _answers(self, results: Results, start: str = "") -> dict[str, str]:
        """Return the answers of a judge by comparison."""
        answers = {}
        for duel in self.duels:
            judgment = results.judgment(start + duel.id) if start + duel.id in results else None
            if judgment is not None and judgment.failure is None:
                answers[duel.id] = TIE if judgment.inconsistent or judgment.undecided else judgment.preference or TIE
        return answers


def _comparisons(duels: Iterable[Duel], answers: Mapping[str, str]) -> list[Comparison]:
    return [(duel.first, duel.second, answers[duel.id]) for duel in duels if duel.id in answers]


def _nothing(edits: Iterable[MadeEdit]) -> str:
    failed = next((edit for edit in edits if edit.failure), None)
    why = f" {failed.editor}: {failed.failure}" if failed is not None else ""
    return f"There are no edits to judge, or no two edits of the same image to compare.{why}"


def _count(edits: Sequence[MadeEdit]) -> EditCounts:
    failures = [edit.failure for edit in edits if edit.failure]
    seconds = [edit.seconds for edit in edits if edit.seconds]
    mean = round(sum(seconds) / len(seconds), 3) if seconds else 0.0
    return EditCounts(len(edits) - len(failures), len(failures), next(iter(failures), ""), mean)


def _wins(answers: Sequence[Comparison]) -> dict[str, dict[str, list[float]]]:
    """Return the results of editors against others: 1 for a win, 1/2 for a tie."""
    won: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for first, second, answer in answers:
        share = 0.5 if answer == TIE else float(answer == "A")
        won[first][second].append(share)
        won[second][first].append(1 - share)
    return {one: dict(sorted(row.items())) for one, row in won.items()}

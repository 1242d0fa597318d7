"""`rh arena`: compare editors. `rh refine`: improve one edit."""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.report import print_report
from rewardharness.cli.run import NO_OPTIONS, RunOptions, View, run_job
from rewardharness.codec import to_json
from rewardharness.data.config import DataConfig
from rewardharness.editors.config import ON_THIS_MACHINE, ArenaConfig, RefineConfig
from rewardharness.files import content_id
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import HERE, ClusterConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.leaderboard import LeaderboardRow
    from rewardharness.editors.job import ArenaJob
    from rewardharness.editors.refine import Refined
    from rewardharness.editors.refine_job import RefineJob
    from rewardharness.editors.report import ArenaResult

app = make_app(
    "arena",
    "Compare editors on your data.",
    {"Judge": JudgeConfig, "Data": DataConfig, "Budget": BudgetConfig, "Run": (RunOptions, ClusterConfig)},
    job="arena",
)
refine_app = make_app(
    "refine",
    "Improve one edit: generate, judge, criticize, try again.",
    {"Judge": JudgeConfig, "Budget": BudgetConfig, "Run": RunOptions},
    job="refine",
)
apps = {"arena": app, "refine": refine_app}


@app.default
def arena(
    config: Annotated[ArenaConfig, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Let editors make the same edits, compare these, and rate the editors (Bradley-Terry, with 95% intervals).

    Edits are kept, so that the same command resumes an interrupted arena, and more --comparisons continue one.

    Example: `rh arena demo --editors painter:0.1,painter:0.4 --limit 20 --comparisons 20`
    """
    return run_job(config, options, Settings.from_env(), VIEW, where)


def arena_rows(result: "ArenaResult") -> tuple["LeaderboardRow", ...]:
    """Return the rows of an arena in a leaderboard: the rating or grade of each editor, of all edits and by category.

    Ratings compare only within one set of editors and edits, which is therefore a part of the digest of the data.
    """
    from rewardharness.benchmark.leaderboard import LeaderboardRow
    from rewardharness.benchmark.numbers import GRADE, RATING

    metric = GRADE if result.grades else RATING
    asked: Any = sorted((name, counts.made + counts.failed) for name, counts in result.edits.items())
    asked = result.grades[0].overall.n if result.grades else asked
    boards = [("overall", result.editors, (result.n, result.judged))]
    boards += [
        (kind, rated, (sum(editor.n for editor in rated) // 2,) * 2) for kind, rated in result.categories.items()
    ]
    values: list[Any] = [
        (part, editor.name, editor.rating, editor.interval, *n) for part, rated, n in boards for editor in rated
    ]
    for graded in result.grades:
        for part, grade in graded.grades.items():
            if grade.mean is not None:
                values.append((part, graded.name, grade.mean, grade.interval, grade.n, grade.judged))
    facts: dict[str, Any] = {
        "task": result.data,
        "task_protocol": "arena",
        "data": content_id([result.digest, asked])[:12],
        "metric": metric,
        "name": metric,
        **{name: result.judge[name] for name in ("judge", "judge_revision", "library_id")},
        "judge_protocol": result.judge["protocol"],
        "library": result.library,
        "usage": result.usage,
        "judgments": result.judged,
        "date": date.today().isoformat(),
    }
    return tuple(
        LeaderboardRow(part=part, editor=name, value=value, low=low, high=high, n=n, judged=judged, **facts)
        for part, name, value, interval, n, judged in values
        for low, high in [(None, None) if interval is None else (interval.low, interval.high)]
    )


class EditorsView(View):
    """What the commands say that let editors work."""

    def costs(self, job: Any, cost: Any, options: RunOptions) -> bool:
        """Ask before an editor is paid, whose price is not known."""
        paid = any(not spec.startswith(ON_THIS_MACHINE) for spec in job.config.specs)
        return paid or super().costs(job, cost, options)


class ArenaView(EditorsView):
    """What `rh arena` says."""

    def plan(self, job: "ArenaJob", preview: Mapping[str, Any]) -> None:
        """Print what would be done."""
        edits = f"{output.count(preview['edits'], 'edit')}, of which {preview['edits_left']} are left"
        output.say(f"{edits}; {output.count(preview['judgments'], 'judgment')} by {job.opened.judge.name}.")
        output.say(f"Results would be written to {job.folder}. Nothing was made.")

    def show(self, job: "ArenaJob", result: "ArenaResult", options: RunOptions) -> int:
        """Print the ratings, and publish them on request."""
        from rewardharness.benchmark.leaderboard import publish
        from rewardharness.editors.report import PAGE, build_report
        from rewardharness.library.hub import usual_access

        if options.json:
            output.emit({**to_json(result), "folder": str(job.folder)})
        else:
            print_report(build_report(result))
            output.say(f"Edits, answers and report: {job.folder / PAGE}")
        if job.config.push:
            rows, access = arena_rows(result), usual_access(job.settings)
            page = publish(rows, job.config.push, access, private=job.config.private)
            output.note(f"{output.count(len(rows), 'row')} published: {page}")
        complete = result.judged == result.n and not any(counts.failed for counts in result.edits.values())
        return 0 if complete else NOT_JUDGED


VIEW = ArenaView()


@refine_app.default
def refine(config: Annotated[RefineConfig, Parameter(name="*")], *, options: RunOptions = NO_OPTIONS) -> int:
    """Make several edits, criticize the best one, and edit again with a better instruction, while the reward rises.

    The run folder gets all attempts, best.png and refined.json. The same command resumes.

    Example: `rh refine before.png "make the chair red" --editor openai:NAME@URL --run refined`
    """
    return run_job(config, options, Settings.from_env(), REFINE)


class RefineView(EditorsView):
    """What `rh refine` says."""

    def opened(self, job: "RefineJob", options: RunOptions) -> None:
        """Print nothing: there is no dataset."""

    def begin(self, job: "RefineJob", options: RunOptions) -> None:
        """Print how many edits there are at most."""
        if not options.quiet:
            most = output.count(job.config.rounds * job.config.n, "edit")
            output.note(f"At most {most} by {job.editor.name}.")

    def plan(self, job: "RefineJob", preview: Mapping[str, Any]) -> None:
        """Print what would be done."""
        output.say(f"Results would be written to {job.folder}. Nothing was made.")

    def show(self, job: "RefineJob", result: "Refined", options: RunOptions) -> int:
        """Print the attempts and what was gained."""
        from rewardharness.editors.refine_job import BEST, RECORD, record

        best = job.folder / BEST
        if options.json:
            output.emit({**record(result), "image": str(best), "folder": str(job.folder)})
            return 0
        rows = [
            (str(number), str(attempt.round), output.share(attempt.reward), attempt.failure or attempt.instruction)
            for number, attempt in enumerate(result.attempts, 1)
        ]
        output.table(("attempt", "round", "reward", "asked for"), rows)
        output.say(f"Attempt {result.best + 1} is the best: {result.gain:+.3f} over the first, by {result.judge}.")
        if result.second is not None and result.second.gain is not None:
            output.say(f"{result.second.judge}, which did not choose, sees a lead of {result.second.gain:+.3f}.")
        output.say(result.ended)
        output.say(f"{best}; all attempts: {job.folder / RECORD}")
        return 0


REFINE = RefineView()

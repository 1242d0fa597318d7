"""`rh arena`: compare editors."""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.options import NO_OPTIONS, RunOptions
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.report import print_report
from rewardharness.cli.run import View, run_job
from rewardharness.codec import to_json
from rewardharness.data.config import DataConfig
from rewardharness.editors.config import ON_THIS_MACHINE, ArenaConfig
from rewardharness.files import content_id
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import HERE, ClusterConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.leaderboard import LeaderboardRow
    from rewardharness.editors.job import ArenaJob
    from rewardharness.editors.result import ArenaResult

app = make_app(
    "arena",
    "Compare editors on your data.",
    {"Judge": JudgeConfig, "Data": DataConfig, "Budget": BudgetConfig, "Run": (RunOptions, ClusterConfig)},
    job="arena",
)


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
    asked: Any = sorted((name, each.made + each.failed) for name, each in result.edits.items())
    asked = result.grades[0].overall.n if result.grades else asked
    boards = [("overall", result.editors, (result.n, result.judged))]
    boards += [(kind, rated, (sum(each.n for each in rated) // 2,) * 2) for kind, rated in result.categories.items()]
    values: list[Any] = [
        (part, each.name, each.rating, each.interval, *n) for part, rated, n in boards for each in rated
    ]
    for graded in result.grades:
        for part, each in graded.grades.items():
            if each.mean is not None:
                values.append((part, graded.name, each.mean, each.interval, each.n, each.judged))
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

    def opened(self, job: "ArenaJob", options: RunOptions) -> None:
        """Print the problems of the data."""
        for problem in job.dataset.problems:
            output.note(f"{job.dataset.name}: {problem}")

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
        complete = result.judged == result.n and not any(each.failed for each in result.edits.values())
        return 0 if complete else NOT_JUDGED


VIEW = ArenaView()

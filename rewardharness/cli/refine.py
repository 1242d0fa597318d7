"""`rh refine`: improve one edit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.arena import EditorsView
from rewardharness.cli.command import make_app
from rewardharness.cli.options import NO_OPTIONS, RunOptions
from rewardharness.cli.run import run_job
from rewardharness.editors.config import RefineConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.editors.refine import Refined
    from rewardharness.editors.refine_job import RefineJob

app = make_app(
    "refine",
    "Improve one edit: generate, judge, criticize, try again.",
    {"Judge": JudgeConfig, "Budget": BudgetConfig, "Run": RunOptions},
    job="refine",
)


@app.default
def refine(config: Annotated[RefineConfig, Parameter(name="*")], *, options: RunOptions = NO_OPTIONS) -> int:
    """Make several edits, criticize the best one, and edit again with a better instruction, while the reward rises.

    The run folder gets all attempts, best.png and refined.json. The same command resumes.

    Example: `rh refine before.png "make the chair red" --editor openai:NAME@URL --run refined`
    """
    return run_job(config, options, Settings.from_env(), VIEW, ON_THIS_COMPUTER)


class RefineView(EditorsView):
    """What `rh refine` says."""

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
        rewards = ["-" if each.reward is None else f"{each.reward:.3f}" for each in result.attempts]
        rows = [
            (str(number), str(each.round), reward, each.failure or each.instruction)
            for number, (each, reward) in enumerate(zip(result.attempts, rewards, strict=True), 1)
        ]
        output.table(("attempt", "round", "reward", "asked for"), rows)
        output.say(f"Attempt {result.best + 1} is the best: {result.gain:+.3f} over the first, by {result.judge}.")
        if result.second is not None and result.second.gain is not None:
            output.say(f"{result.second.judge}, which did not choose, sees a lead of {result.second.gain:+.3f}.")
        output.say(result.ended)
        output.say(f"{best}; all attempts: {job.folder / RECORD}")
        return 0


VIEW = RefineView()

"""`rh refine`: improve one edit."""

from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.options import confirm
from rewardharness.editors.config import MARGIN, ON_THIS_MACHINE
from rewardharness.judging.config import JudgeConfig, RewardConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

app = make_app(
    "refine", "Improve one edit: generate, judge, criticize, try again.", {"Judge": JudgeConfig, "Budget": BudgetConfig}
)


@dataclass(frozen=True)
class EditArguments:
    """What is edited."""

    image: Path
    """Source image."""
    instruction: str
    """The edit."""


@dataclass(frozen=True)
class RefineArguments(BudgetConfig, RewardConfig, EditArguments):
    """What is edited, and how."""

    _: KW_ONLY
    editor: str
    """openai:NAME@URL, openai:NAME, hf:NAME, or painter:0.2 for the demo data."""
    output: Annotated[Path, Parameter(name=("--output", "-o"))]
    """Folder for the attempts, best.png and refined.json."""
    candidate: Path | None = None
    """An edit to improve, which counts as the first attempt."""
    rounds: int = 4
    """Maximum number of rounds."""
    n: int = 4
    """Attempts per round."""
    margin: float = MARGIN
    """Least lead with which an attempt of a further round replaces the best one so far; without one it ends."""
    second_judge: str | None = None
    """Judge that does not choose, and says how much of the gain it sees."""
    seed: int = 0
    """Seed of the first attempt."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """Print no progress."""
    yes: bool = False
    """Do not ask before an editor is used that may cost money."""


@app.default
def refine(arguments: Annotated[RefineArguments, Parameter(name="*")]) -> int:
    """Make several edits, criticize the best one, and edit again with a better instruction, while the reward rises.

    Edits are kept by content: the same command makes none of them again.

    Example: `rh refine before.png "make the chair red" --editor openai:NAME@URL -o refined`
    """
    from rewardharness.editors.refine import RECORD, record, save
    from rewardharness.editors.refine import refine as improve
    from rewardharness.judging.opening import open_judge
    from rewardharness.judging.release_opening import open_reward

    settings = Settings.from_env()
    opened = open_reward(arguments.with_defaults(settings), settings)
    second = arguments.second_judge and replace(arguments, judge=arguments.second_judge, release=None)
    most = arguments.rounds * arguments.n
    paid = not arguments.editor.startswith(ON_THIS_MACHINE)
    if not arguments.quiet:
        output.note(f"At most {output.count(most, 'edit')} by {arguments.editor.partition('@')[0]}.")
    confirm(
        paid or opened.judge.traits.uses_model, arguments.yes, "Choose fewer --rounds or a smaller --n", strict=False
    )
    with output.Bars(arguments.quiet) as bars:
        refined = improve(
            arguments.image,
            arguments.instruction,
            arguments.editor,
            opened.judge,
            candidate=arguments.candidate,
            library=opened.library,
            rounds=arguments.rounds,
            n=arguments.n,
            margin=arguments.margin,
            second=open_judge(second, settings) if second else None,
            seed=arguments.seed,
            settings=settings,
            progress=bars.show,
            limits=arguments.make_limits(settings),
        )
    best = save(refined, arguments.output)
    if arguments.json:
        output.emit({**record(refined), "image": str(best)})
        return 0
    rows = [
        (
            str(number),
            str(each.round),
            "-" if each.reward is None else f"{each.reward:.3f}",
            each.failure or each.instruction,
        )
        for number, each in enumerate(refined.attempts, 1)
    ]
    output.table(("attempt", "round", "reward", "asked for"), rows)
    output.say(f"Attempt {refined.best + 1} is the best: {refined.gain:+.3f} over the first, by {refined.judge}.")
    if refined.second is not None and refined.second.gain is not None:
        output.say(f"{refined.second.judge}, which did not choose, sees a lead of {refined.second.gain:+.3f}.")
    output.say(refined.ended)
    output.say(f"{best}; all attempts: {arguments.output / RECORD}")
    return 0

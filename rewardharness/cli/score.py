"""`rh score`: judge one edit or a dataset."""

from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from rewardharness.bulk.config import ScoreConfig, ShardsConfig
from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.run import NO_OPTIONS, EditsView, RunOptions, confirm, print_cost, run_job
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.judging.measured_critique import split_problem
from rewardharness.judging.measured_reasons import split_reason
from rewardharness.remote.config import LOCAL, ON_THIS_COMPUTER, RAY, RemoteConfig
from rewardharness.runs.spending import BudgetConfig, Cost, Spent
from rewardharness.schema import LABELS, SOURCES
from rewardharness.settings import Settings
from rewardharness.telemetry import shown
from rewardharness.views import dimensions_of

T = TypeVar("T", bound=ScoreConfig)

if TYPE_CHECKING:
    from rewardharness.bulk.job import ScoreJob, ScoreResult
    from rewardharness.schema import Judgment


@dataclass(frozen=True)
class ScoreArguments(ShardsConfig):
    """Arguments of `rh score`: a dataset, or one edit."""

    data: str = ""
    """Folder, table, Hub dataset, demo or feedback."""
    _: KW_ONLY
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None
    """Where the results of a dataset of any size are written: a folder, or a .parquet file with its parts in a folder
    beside it. The same command continues it (docs/how-to/scale-out.md)."""
    source: Path | None = None
    """Source image."""
    reference: tuple[Path, ...] = ()
    """Further source or reference image, which the instruction mentions as image 2, 3 or 4. May be repeated."""
    candidate: tuple[Path, ...] = ()
    """Edited image; up to four, named A, B, C, D. A single one is scored alone. May be repeated."""
    instruction: str | None = None
    """Edit instruction."""
    show_chain: bool = False
    """Print the reasoning chain."""
    save_overlays: Path | None = None
    """Folder in which overlay images of the observations are saved as PNG."""

    def __post_init__(self) -> None:
        """Check that the arguments describe a dataset or one edit, and not both."""
        super().__post_init__()
        edit = _given(self, EDIT)
        if self.data and edit:
            raise InputError(f"{edit[0]} is for one edit, and {self.data} is a dataset.", next_step="Leave out one.")
        for name, most in (("candidate", len(LABELS)), ("reference", SOURCES - 1)):
            if len(getattr(self, name)) > most:
                raise InputError(f"There are {len(getattr(self, name))} {name}s.", next_step=f"Give at most {most}.")
        missing = [f"--{name}" for name in ("source", "candidate", "instruction") if not getattr(self, name)]
        if edit and missing:
            raise InputError(f"Missing: {', '.join(missing)}.", next_step=ONE_EDIT)
        if edit and (extra := _given(self, DATASET)):
            raise InputError(f"{extra[0]} is for a dataset.", next_step="Leave it out.")
        changed = [
            f"--{name}".replace("_", "-") for name in DEFAULTS if getattr(self, name) != getattr(ShardsConfig, name)
        ]
        if self.output is None and (extra := [*_given(self, SHARDS), *changed]):
            step = "Add --output DIR, or leave it out."
            raise InputError(f"{extra[0]} is for the output folder of a dataset.", next_step=step)

    def for_dataset(self, kind: type[T]) -> T:
        """Return the configuration of judging the dataset, into a run folder or an output folder."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})


ONE_EDIT = "Name a dataset, or give --source, --candidate and --instruction."
EDIT = ("source", "reference", "candidate", "instruction", "show_chain", "save_overlays")
DATASET = ("fields", "field", "skip_bad_rows", "limit", "concurrency", "output")
SHARDS = ("shard", "address", "workers")
DEFAULTS = ("engine", "part_rows")
"""Options of the output folder with a default."""


def _given(arguments: ScoreArguments, names: tuple[str, ...]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name)]


app = make_app(
    "score",
    "Judge one edit or a dataset.",
    {"Judge": JudgeConfig, "Data": DataConfig, "Budget": BudgetConfig, "Run": (RunOptions, RemoteConfig)},
    job="score",
)
for _name, _help in (
    ("status", "Show the progress of an output folder."),
    ("merge", "Write the rows of an output folder to one file."),
    ("verify", "Check that an output folder has every row once."),
):
    app.command(f"rewardharness.cli.bulk:{_name}", name=_name, help=_help)


_NOTHING = ScoreArguments()


@app.default
def score(
    config: Annotated[ScoreArguments, Parameter(name="*")] = _NOTHING,
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[RemoteConfig, Parameter(name="*")] = ON_THIS_COMPUTER,
) -> int:
    """Judge one edit, or each example of a dataset.

    Of one edit, predict which of 2 to 4 candidates people prefer, or score a single one. Of a dataset with labels,
    report agreement per label kind; the same command resumes an interrupted run. The default judge needs no model.

    Example: `rh score --source in.png --candidate a.png --candidate b.png --instruction "make the car red"`

    Example: `rh score demo --limit 20`

    Example: `rh score org/edits --output scores/ --judge vllm:NAME@URL`
    """
    if not config.data and config.source is None:
        raise UsageError("Missing: a dataset or one edit.", next_step=ONE_EDIT)
    settings = Settings.from_env()
    if where.on != LOCAL and (not config.data or config.output is not None):
        ray = ", or add --engine ray" * (where.on == RAY)
        step = f"Leave out --output{ray}" if config.data else "Name a dataset"
        raise UsageError(f"--on {where.on} is for a dataset in a run folder.", next_step=f"{step}, or leave out --on.")
    if config.output is not None:
        from rewardharness.cli.bulk import run_shards

        return run_shards(config.for_dataset(ShardsConfig), options, settings)
    if not config.data:
        return _score_edit(config, options, settings)
    return run_job(config.for_dataset(ScoreConfig), options, settings, VIEW, where)


def _score_edit(arguments: ScoreArguments, options: RunOptions, settings: Settings) -> int:
    """Judge one edit and print the judgment. Returns the exit status."""
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.opening import open_reward
    from rewardharness.schema import Example, ImageInput, Usage

    assert arguments.source is not None and arguments.instruction is not None
    if options.run_folder is not None or options.restart or options.retry_failed or options.track:
        named = "--run, --restart, --retry-failed and --track"
        raise UsageError(f"{named} are for a dataset.", next_step="Leave them out.")
    example = Example(
        id=arguments.source.stem,
        instruction=arguments.instruction,
        source=ImageInput(f"source {arguments.source}", arguments.source),
        candidates=tuple(ImageInput(f"candidate {path}", path) for path in arguments.candidate),
        references=tuple(ImageInput(f"reference {path}", path) for path in arguments.reference),
    )
    opened = open_reward(arguments, settings, pictures=arguments.save_overlays is not None)
    cost = Cost()
    if opened.judge.traits.uses_model:
        from rewardharness.judging.batches import expected_cost

        cost = expected_cost(opened.judge, [example], opened.library)
    release, limits = opened.release, arguments.make_limits(settings)
    if options.dry_run or (cost.requests and not options.quiet):
        print_cost(cost, limits)
    if options.dry_run:
        output.say(f"1 judgment by {opened.judge.name}. Nothing was judged.")
        return 0
    usage = Usage(cost.requests, cost.input_tokens, cost.output_tokens)
    if reason := limits.exceeded(Spent(judge=usage), planned=True):
        raise InputError(f"Nothing was judged: {reason}.", next_step="Raise the budget.")
    confirm(bool(cost.requests and cost.money(limits) != 0), options.yes, "Choose --one-order", strict=False)
    with output.Bars(options.quiet) as bars, shown(bars.wait):
        [(_, judgment)] = evaluate(opened.judge, opened.library, [example])
    if judgment.failure is not None and judgment.failure.code in {"image", "input"}:
        judgment.raise_for_failure()
    if arguments.save_overlays is not None:
        _save_overlays(judgment, arguments.save_overlays)
    if options.json:
        from rewardharness.judgments import judgment_json

        output.emit(judgment_json(judgment) | ({"release": release.id} if release else {}))
    else:
        _print_judgment(judgment, arguments.show_chain)
        if release is not None:
            output.say(f"Release {release.id[:12]}")
    return 0 if judgment.judged else NOT_JUDGED


class ScoreView(EditsView):
    """What `rh score` says of a dataset."""

    def show(self, job: "ScoreJob", result: "ScoreResult", options: RunOptions) -> int:
        """Print the report."""
        from rewardharness.cli.report import print_agreement
        from rewardharness.judging.report import report_json

        report = report_json(result.report)
        if options.json:
            also = {"skipped_rows": job.dataset.skipped_json(), "results": str(result.results)}
            evolved_on = {"evolved_on": True} if job.caution else {}
            output.emit({**report, **also, **job.opened.identity.to_json(), **evolved_on})
        else:
            print_agreement(report)
            if job.caution:
                output.say(job.caution)
            failure = next((judgment for _, judgment in result.judged if judgment.failure), None)
            if failure is not None and failure.failure is not None:
                output.say(f"Such as {failure.example_id}: {failure.failure.code}: {failure.failure.message}")
            output.say(str(job.opened.identity))
            output.say(f"One line per example: {result.results}")
        return 0 if result.report.judged == result.report.n else NOT_JUDGED


VIEW = ScoreView()


def _save_overlays(judgment: "Judgment", folder: Path) -> None:
    import json

    from rewardharness.files import write_bytes

    name = "observation"
    for step in judgment.steps:
        if step.kind == "tool":
            name = str(json.loads(step.text)["name"])
        if step.picture is not None:
            write_bytes(folder / f"{step.subject}-{name}.png", step.picture)
    output.note(f"Overlays saved in {folder}.")


def _print_judgment(judgment: "Judgment", show_chain: bool) -> None:
    from rewardharness.judging.calibration import confidence_words
    from rewardharness.judging.chain import render
    from rewardharness.judging.identity import JudgeIdentity

    if show_chain:
        output.say(render(judgment.steps))
        output.say()
    if judgment.failure is not None:
        output.say(f"Not judged: {judgment.failure.message}")
        if not show_chain and any(step.kind == "reply" for step in judgment.steps):
            output.say("The replies that could not be read: --show-chain")
        return
    if judgment.inconsistent:
        output.say("The judge was inconsistent: its answers in different orders contradict each other. It is no tie.")
    elif judgment.preference is not None:
        order = " > ".join(" = ".join(level) for level in judgment.ranking)
        tie = "No preference" if judgment.undecided else "A tie"
        verdict = tie if judgment.preference == "tie" else f"{judgment.preference} is preferred"
        output.say(f"{verdict} ({order})" + ("" if judgment.margin is None else f", margin {judgment.margin:.3f}"))
        if confidence := confidence_words(judgment):
            output.say(f"{confidence}.")
        if judgment.position_consistent is False:
            output.say("The answer changed with the order of the candidates, so trust it little.")
    names = dimensions_of(judgment.scores.values())
    digits = {**dict.fromkeys(names, 2), "reward": 3}
    rows = [
        (label, *("-" if (value := getattr(scores, name)) is None else f"{value:.{n}f}" for name, n in digits.items()))
        for label, scores in judgment.scores.items()
    ]
    if rows:
        output.table(("candidate", *(f"{name} 1-4" for name in names), "reward 0-1"), rows)
    for line in (*(split_reason(reason)[0] for reason in judgment.reasons), *judgment.notes):
        output.say(f"- {line}")
    for label, critique in judgment.critiques.items():
        problems = " ".join(split_problem(problem)[0] for problem in critique.problems) or "Nothing wrong was found."
        output.say(f"{label}: {problems} {critique.limits}".rstrip())
        if critique.next_instruction:
            output.say(f"{label}, next instruction: {critique.next_instruction}")
    if judgment.consulted is not None:
        output.say(f"{judgment.consulted[0]} of {judgment.consulted[1]} entries of the Library were consulted.")
    who = JudgeIdentity(judgment.judge, "", judgment.protocol, judgment.library_id)
    output.say(f"{who}; {judgment.usage.seconds:.2f} s")

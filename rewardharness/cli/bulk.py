"""`rh data rank`, `rh data filter` and `rh data pairs`: judging many edits to choose from them."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.bulk.config import DatasetOutput, FilterConfig, PreferencePairsConfig, RankConfig
from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.run import NO_OPTIONS, EditsView, RunOptions, note_same_name, run_job
from rewardharness.data.config import DataConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import HERE, ClusterConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.job import FilterJob, FilterResult, PairsJob, PairsResult, RankJob, RankResult
    from rewardharness.runs.job import Job, Progress

_SHOWN = 50
_BY_CONTENT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _RankArguments(RankConfig):
    _: KW_ONLY
    copy_best: Annotated[Path | None, Parameter(name=("--copy-best", "--output", "-o"))] = None
    """Copy the best candidate of each edit into this folder; copies of an earlier run are removed."""


@dataclass(frozen=True)
class _FilterArguments(FilterConfig):
    _: KW_ONLY
    output: Annotated[Path, Parameter(name=("--output", "-o"))]
    """The result, a .parquet or .jsonl file."""


@dataclass(frozen=True)
class _PairsArguments(PreferencePairsConfig):
    _: KW_ONLY
    output: Annotated[Path, Parameter(name=("--output", "-o"))]
    """A new or empty folder, or one that this command wrote."""


_GROUPS = {"Judge": JudgeConfig, "Data": DataConfig, "Output": DatasetOutput, "Budget": BudgetConfig} | {
    "Run": (RunOptions, ClusterConfig)
}
rank_app = make_app("data rank", "Best of N: rank any number of candidates per edit.", _GROUPS, job="rank")
filter_app = make_app("data filter", "Judge a dataset and keep what is good enough.", _GROUPS, job="filter")
pairs_app = make_app("data pairs", "Make preference pairs for training a reward model.", _GROUPS, job="pairs")


@rank_app.default
def rank(
    config: Annotated[_RankArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Rank the candidates of each edit and name the best. Only judged candidates have a reward.

    The same command resumes an interrupted run.

    Example: `rh data rank samples --copy-best best`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["rank"], where)


@filter_app.default
def filter_(
    config: Annotated[_FilterArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Judge a dataset and keep what is good enough, each row with its reason. What was not judged is never kept.

    The result is a .parquet or .jsonl file. The same command resumes an interrupted run.

    Example: `rh data filter org/name --min-margin 0.2 -o kept.parquet`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["filter"], where)


@pairs_app.default
def pairs(
    config: Annotated[_PairsArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Make preference pairs for training a reward model, with a manifest, checksums and a card.

    Candidates are judged repeatedly. A pair is kept if the mean rewards differ by more than the spread. Sources are
    split before pairs are made. The result is a new or empty folder, or one that this command wrote.

    Example: `rh data pairs samples -o pairs`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["pairs"], where)


class SamplesView(EditsView):
    """What the command line says about a job whose data may be folders of candidates."""

    def open(self, config: Any, options: RunOptions, settings: Settings, progress: "Progress") -> "Job[Any, Any]":
        """Open the job."""
        from rewardharness.jobs import open_job

        if isinstance(config, FilterConfig) and not config.single:
            note_same_name(config.data)
        return open_job(config, settings, folder=options.run_folder, progress=progress)


class RankView(SamplesView):
    """What `rh data rank` says."""

    def show(self, job: "RankJob", result: "RankResult", options: RunOptions) -> int:
        """Print the ranking."""
        from rewardharness.data.source import describe_skipped

        dataset, edits, identity = job.dataset, result.edits, job.opened.identity
        if options.json:
            counts = {"not_judged": result.n_not_judged, "skipped_rows": dataset.skipped_json()}
            output.emit({**counts, **identity.to_json(), "ranking": str(result.ranking), "edits": edits})
        else:
            rows = [
                (edit["id"], str(len(edit["candidates"])), _best_names(edit) or "-", output.share(edit["reward"]))
                for edit in edits[:_SHOWN]
            ]
            output.table(("edit", "candidates", "best", "reward"), rows)
            if len(edits) > _SHOWN:
                output.say(f"The first {_SHOWN} of {len(edits)} edits are shown.")
            output.say(_count_judged(edits))
            if dataset.skipped:
                output.say(describe_skipped(dataset.skipped_json()))
            output.say(f"{identity}; rewards by {job.config.method}")
            output.say(f"All edits: {result.ranking}")
        return NOT_JUDGED if result.n_not_judged or dataset.skipped else 0


class FilterView(SamplesView):
    """What `rh data filter` says."""

    def show(self, job: "FilterJob", result: "FilterResult", options: RunOptions) -> int:
        """Print how many edits were kept, and why the others were not."""
        identity = job.opened.identity
        _note_published(job.config, result.commit)
        if options.json:
            counts = {"n": result.n, "kept": result.kept, "reasons": dict(result.reasons)}
            skipped = {"skipped_rows": job.dataset.skipped_json()}
            output.emit({**counts, **skipped, **identity.to_json(), "commit": result.commit})
        else:
            output.table(("reason", "n"), [(code, str(number)) for code, number in result.reasons.items()])
            output.say(str(identity))
            output.say(f"{result.kept} of {result.n} kept, in {job.config.output}.")
        return NOT_JUDGED if result.reasons.get("not_judged") or job.dataset.skipped else 0


class PairsView(SamplesView):
    """What `rh data pairs` says."""

    def show(self, job: "PairsJob", result: "PairsResult", options: RunOptions) -> int:
        """Print the numbers of pairs."""
        manifest = result.manifest
        _note_published(job.config, result.commit)
        if options.json:
            output.emit({**manifest, "commit": result.commit})
        else:
            output.table(("split", "pairs"), [(name, str(number)) for name, number in manifest["pairs"].items()])
            if dropped := manifest["dropped"]:
                output.table(("dropped for", "n"), [(code, str(number)) for code, number in dropped.items()])
            output.say(str(job.opened.identity))
            output.say(f"{job.gate} Everything is in {job.config.output}.")
        complete = manifest["candidates_judged"] == manifest["candidates"] and not job.dataset.skipped
        return 0 if complete else NOT_JUDGED


VIEWS = {"rank": RankView(), "filter": FilterView(), "pairs": PairsView()}
"""Views by job type."""


def _best_names(edit: dict[str, Any]) -> str:
    """Return the best candidates; those of a table, whose names are hashes of their content, by number."""
    best = [candidate for candidate in edit["candidates"] if candidate["name"] in edit["best"]]
    return ", ".join(
        f"number {candidate['index'] + 1}" if _BY_CONTENT.fullmatch(Path(candidate["name"]).stem) else candidate["name"]
        for candidate in best
    )


def _count_judged(edits: Sequence[dict[str, Any]]) -> str:
    """Return how many candidates have a reward, and why the first of the others has none."""
    candidates = [(edit["id"], candidate) for edit in edits for candidate in edit["candidates"]]
    without = [(edit, candidate) for edit, candidate in candidates if candidate["reward"] is None]
    counts = f"{len(candidates) - len(without)} of {len(candidates)} candidates judged"
    if not without:
        return f"{counts}."
    edit, first = without[0]
    return f"{counts}. Not judged, such as {first['name']} of {edit}: {first['reason']}"


def _note_published(config: DatasetOutput, commit: str | None) -> None:
    if commit:
        output.note(f"Published as the dataset {config.push}, commit {commit[:12]}.")

"""`rh rank-folder`, `rh filter-dataset` and `rh preference-data`: judging many edits to choose from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.bulk.config import DatasetOutput, FilterConfig, PreferencePairsConfig, RankConfig, ScoreConfig
from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.examples import Bars, open_examples
from rewardharness.cli.options import NO_OPTIONS, RunOptions
from rewardharness.cli.score import NOT_JUDGED
from rewardharness.cli.work import Work
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.judging.best_of import Standing
    from rewardharness.schema import Example

_SHOWN = 50
_PAIRS_OUTCOME = ("rules", "edits", "candidates", "candidates_judged", "pairs", "dropped", "duplicates_left_out")
_BY_CONTENT = re.compile(r"[0-9a-f]{64}")


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


_GROUPS = {"Judge": JudgeConfig, "Data": DataConfig, "Output": DatasetOutput, "Run": RunOptions}
rank_app = make_app("rank-folder", "Best of N: rank any number of candidates per edit.", _GROUPS, job=True)
filter_app = make_app("filter-dataset", "Judge a dataset and keep what is good enough.", _GROUPS, job=True)
pairs_app = make_app("preference-data", "Make preference pairs for training a reward model.", _GROUPS, job=True)
apps = {"rank-folder": rank_app, "filter-dataset": filter_app, "preference-data": pairs_app}


@rank_app.default
def rank(config: Annotated[RankConfig, Parameter(name="*")], *, options: RunOptions = NO_OPTIONS) -> int:
    """Rank the candidates of each edit and name the best. Only judged candidates have a reward.

    The same command resumes an interrupted run.

    Example: `rh rank-folder samples --copy-best best`
    """
    return rank_folder(config, options, Settings.from_env())


@filter_app.default
def filter_(
    config: Annotated[_FilterArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
) -> int:
    """Judge a dataset and keep what is good enough, each row with its reason. What was not judged is never kept.

    The result is a .parquet or .jsonl file. The same command resumes an interrupted run.

    Example: `rh filter-dataset org/name --min-margin 0.2 -o kept.parquet`
    """
    return filter_dataset(config, options, Settings.from_env())


@pairs_app.default
def pairs(
    config: Annotated[_PairsArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
) -> int:
    """Make preference pairs for training a reward model, with a manifest, checksums and a card.

    Candidates are judged repeatedly. A pair is kept if the mean rewards differ by more than the spread. Sources are
    split before pairs are made. The result is a new or empty folder, or one that this command wrote.

    Example: `rh preference-data samples -o pairs`
    """
    return preference_data(config, options, Settings.from_env())


def rank_folder(config: RankConfig, options: RunOptions, settings: Settings) -> int:
    """Rank the candidates of each edit. Returns the exit status."""
    from rewardharness.bulk.copies import check_copies, copy_best
    from rewardharness.bulk.scoring import all_standings
    from rewardharness.data.source import describe_skipped

    if config.copy_best is not None:
        _check_place(config.copy_best / "best")
        check_copies(config.copy_best)
    work = _rank_work(config, options, settings)
    dataset = work.dataset
    if options.dry_run:
        return work.tell_cost(config.method)
    ranked = list(all_standings(dataset.examples, config.method, work.run(config.method)))
    lines = [_ranked(example, standings) for example, standings in ranked]
    ranking = work.write("ranking.jsonl", lines)
    work.keep_outcome({"best": {line["id"]: line["best"] for line in lines}})
    if config.copy_best is not None:
        copy_best(_best_files(dataset.examples, lines), config.copy_best)
    unjudged = sum(each.reward is None for _, standings in ranked for each in standings)
    if options.json:
        told = {"not_judged": unjudged, "skipped_rows": dataset.skipped_json()}
        output.emit({**told, **work.identity.to_json(), "ranking": str(ranking), "edits": lines})
    else:
        rows = [
            (line["id"], str(len(line["candidates"])), _best_names(line) or "-", _number(line["reward"]))
            for line in lines[:_SHOWN]
        ]
        output.table(("edit", "candidates", "best", "reward"), rows)
        if len(lines) > _SHOWN:
            output.say(f"The first {_SHOWN} of {len(lines)} edits are shown.")
        output.say(_not_judged(lines))
        if dataset.skipped:
            output.say(describe_skipped(dataset.skipped_json()))
        output.say(f"{work.identity}; rewards by {config.method}")
        output.say(f"All of it: {ranking}")
    return NOT_JUDGED if unjudged or dataset.skipped else 0


def _rank_work(config: RankConfig, options: RunOptions, settings: Settings) -> Work:
    dataset = _samples(config, options, settings)
    return Work(config, options, settings, dataset, "rank-folder", {"method": config.method})


def rank_manifest(config: RankConfig, options: RunOptions, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh rank-folder` would be about, without judging anything."""
    return _rank_work(config, options, settings).manifest


def _best_names(line: dict[str, Any]) -> str:
    """The best candidates; one out of a table, whose file is named by its content, by its place in the row."""
    best = [each for each in line["candidates"] if each["name"] in line["best"]]
    return ", ".join(
        f"number {each['index'] + 1}" if _BY_CONTENT.fullmatch(Path(each["name"]).stem) else each["name"]
        for each in best
    )


def _not_judged(lines: Sequence[dict[str, Any]]) -> str:
    """How many candidates have no reward, and why the first of them has none."""
    every = [(line["id"], each) for line in lines for each in line["candidates"]]
    without = [(edit, each) for edit, each in every if each["reward"] is None]
    said = f"{len(every) - len(without)} of {len(every)} candidates judged"
    if not without:
        return f"{said}."
    edit, first = without[0]
    return f"{said}. Not judged, such as {first['name']} of {edit}: {first['reason']}"


def _ranked(example: "Example", standings: Sequence["Standing"]) -> dict[str, Any]:
    """One line of the ranking: candidates from best to worst, those that were not judged last."""
    from rewardharness.judging.best_of import best

    order = sorted(standings, key=lambda each: (each.reward is None, -(each.reward or 0.0), each.index))
    first = best(tuple(standings))
    return {
        "id": example.id,
        "best": [example.candidates[index].name for index in first],
        "reward": standings[first[0]].reward if first else None,
        "candidates": [
            {
                "index": each.index,
                "name": example.candidates[each.index].name,
                "reward": each.reward,
                "judged": each.judged,
                "of": each.of,
                "reason": None if each.failure is None else f"{each.failure.code}: {each.failure.message}",
            }
            for each in order
        ],
    }


def _best_files(examples: Sequence["Example"], lines: Sequence[dict[str, Any]]) -> dict[str, Path]:
    """The best candidate of each edit by the name of its copy; of several that are level the first."""
    from rewardharness.files import content_id

    chosen = {}
    for example, line in zip(examples, lines, strict=True):
        if not line["best"]:
            continue
        winner = next(each for each in line["candidates"] if each["name"] in line["best"])
        image = example.candidates[winner["index"]]
        assert image.path is not None  # samples lie on disk
        plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in example.id)[:80].strip(".")
        name = plain if plain == example.id else f"{plain}-{content_id(example.id)[:8]}"
        chosen[f"{name}{image.path.suffix}"] = image.path
    return chosen


def filter_dataset(config: FilterConfig, options: RunOptions, settings: Settings) -> int:
    """Filter a dataset. Returns the exit status."""
    from rewardharness.bulk.filtering import Rules, count, decide
    from rewardharness.bulk.table import write_decisions
    from rewardharness.judgments import judgment_from_json

    rules = Rules(config.min_reward, config.min_margin, config.agree)
    if config.output.suffix not in {".parquet", ".jsonl"}:
        raise InputError(f"{config.output} is neither .parquet nor .jsonl.", next_step="Name a file of one kind.")
    _check_place(config.output)
    work = _filter_work(config, options, settings)
    dataset = work.dataset
    if options.dry_run:
        return work.tell_cost(None)
    results = work.run(None)
    decided = [decide(each, judgment_from_json(results[each.id]), rules) for each in dataset.examples]
    kept = [each for each in decided if each.keep]
    write_decisions(config.output, decided if config.everything else kept, work.identity)
    counts = count(decided, skipped=len(dataset.skipped))
    n = len(decided) + len(dataset.skipped)
    work.keep_outcome({"reasons": counts, "decided": {each.example.id: each.code for each in decided}})
    commit = None
    if config.push:
        commit = _push(config, settings, config.output.parent, [config.output], "Filtered edits")
    if options.json:
        told = {"n": n, "kept": len(kept), "reasons": counts, "skipped_rows": dataset.skipped_json()}
        output.emit({**told, **work.identity.to_json(), "commit": commit})
    else:
        output.table(("reason", "n"), [(code, str(number)) for code, number in counts.items()])
        output.say(str(work.identity))
        output.say(f"{len(kept)} of {n} kept, in {config.output}.")
    return NOT_JUDGED if counts.get("not_judged") or dataset.skipped else 0


def _filter_work(config: FilterConfig, options: RunOptions, settings: Settings) -> Work:
    from rewardharness.bulk.samples import one_by_one

    if config.single:
        dataset = one_by_one(_samples(config, options, settings))
    else:
        dataset = _examples(config, options, settings).first(config.limit)
    return Work(config, options, settings, dataset, "filter-dataset", {"ties": config.ties})


def filter_manifest(config: FilterConfig, options: RunOptions, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh filter-dataset` would be about, without judging anything."""
    return _filter_work(config, options, settings).manifest


def preference_data(config: PreferencePairsConfig, options: RunOptions, settings: Settings) -> int:
    """Make preference pairs. Returns the exit status."""
    from rewardharness.bulk.pairs import PairRules
    from rewardharness.bulk.preference_data import (
        DataRules,
        build,
        check_folder,
        repeated_scores,
    )

    pairs = PairRules(config.margin, config.spread, config.per_edit)
    rules = DataRules(pairs, config.repeats, config.holdout, config.run_share, config.seed)
    check_folder(config.output)
    work, duplicates = _pairs_work(config, options, settings)
    dataset = work.dataset
    if options.dry_run:
        return work.tell_cost("score")
    results = work.run("score")
    steady = len(work.draws) == 1
    gate = (
        "The judge answers the same every time, so each candidate was judged once and no spread is known."
        if steady
        else f"The difference also exceeds {pairs.spread:g} times the standard deviations of both together."
    )
    made_by = {
        "name": dataset.name,
        "samples": dataset.digest,
        "duplicates_left_out": duplicates,
        **({"skipped_rows": dataset.skipped_json()} if dataset.skipped else {}),
        **work.identity.to_json(),
        "gate": gate,
    }
    scores = repeated_scores(dataset, results, list(work.draws))
    manifest = build(dataset, scores, replace(rules, repeats=len(work.draws)), made_by, config.output)
    work.keep_outcome({name: manifest[name] for name in _PAIRS_OUTCOME})
    commit = None
    if config.push:
        made = [config.output / name for name in (*manifest["files"], "manifest.json")]
        commit = _push(config, settings, config.output, made, "Preference pairs")
    if options.json:
        output.emit({**manifest, "commit": commit})
    else:
        output.table(("split", "pairs"), [(name, str(number)) for name, number in manifest["pairs"].items()])
        if manifest["dropped"]:
            output.table(("dropped for", "n"), [(code, str(number)) for code, number in manifest["dropped"].items()])
        output.say(str(work.identity))
        output.say(f"{gate} Everything is in {config.output}.")
    whole = manifest["candidates_judged"] == manifest["candidates"] and not dataset.skipped
    return 0 if whole else NOT_JUDGED


def _pairs_work(config: PreferencePairsConfig, options: RunOptions, settings: Settings) -> tuple[Work, int]:
    """What `rh preference-data` judges, and how many candidates were left out because they are there twice."""
    from rewardharness.bulk.preference_data import without_duplicates

    dataset, duplicates = without_duplicates(_samples(config, options, settings))
    times = config.repeats
    return Work(config, options, settings, dataset, "preference-data", {"repeats": times}, times=times), duplicates


def pairs_manifest(config: PreferencePairsConfig, options: RunOptions, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh preference-data` would be about, without judging anything."""
    return _pairs_work(config, options, settings)[0].manifest


def _check_place(file: Path) -> None:
    """Make sure that a file can be there, before anything is judged for it."""
    folder = next(each for each in (file.parent, *file.parent.absolute().parents) if each.exists())
    if file.is_dir() or not folder.is_dir():
        wrong = file if file.is_dir() else folder
        raise InputError(
            f"{file} cannot be written: {wrong} is {'no folder' if wrong is folder else 'a folder'}.",
            next_step="Name another config.",
        )


def _examples(config: FilterConfig, options: RunOptions, settings: Settings) -> "Dataset":
    """Open examples; where there are samples instead, say how these are filtered."""
    from rewardharness.bulk.samples import is_samples

    if is_samples(config.data):
        raise InputError(
            f"{config.data} holds samples, a folder for each edit, and no pairs or groups.",
            next_step="Add --single: each candidate is then an edit of its own.",
        )
    return open_examples(config.data, config, settings, quiet=options.quiet)


def _samples(config: ScoreConfig, options: RunOptions, settings: Settings) -> "Dataset":
    """Read edits with any number of candidates each."""
    from rewardharness.bulk.samples import one_edit, read_samples

    source, instruction = getattr(config, "source", None), getattr(config, "instruction", None)
    if source is not None and instruction is not None:
        return one_edit(Path(config.data), source, instruction)
    if source is not None or instruction is not None:
        raise InputError("--source and --instruction belong together.", next_step="Give both, or neither.")
    with Bars(options.quiet) as bars:
        dataset = read_samples(
            config.data,
            settings,
            config.field_map,
            progress=bars.show,
            skip_bad_rows=config.skip_bad_rows,
        )
    for problem in dataset.problems:
        output.note(f"{dataset.name}: {problem}")
    return dataset.first(config.limit)


def _push(config: DatasetOutput, settings: Settings, folder: Path, files: Sequence[Path], what: str) -> str:
    from rewardharness.data.export import push_dataset

    uploads = {path.relative_to(folder).as_posix(): path for path in files}
    commit = push_dataset(config.push or "", uploads, settings, private=config.private, message=what)
    output.note(f"Published as the dataset {config.push}, commit {commit[:12]}.")
    return commit


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

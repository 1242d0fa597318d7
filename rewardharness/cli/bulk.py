"""`rh rank-folder`, `rh filter-dataset` and `rh preference-data`: judging many edits to choose from them."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.examples import DATA_HELP, Bars, add_fields, given_fields, open_examples
from rewardharness.cli.judging import add_options
from rewardharness.cli.score import NOT_JUDGED
from rewardharness.cli.work import Work, add_run_options
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.judging.best_of import Standing
    from rewardharness.schema import Example

_SAMPLES = "a folder, a table or a dataset on the Hub, with any number of candidates for each edit; see docs/bulk.md"
_SHOWN = 50
_PAIRS_OUTCOME = ("rules", "edits", "candidates", "candidates_judged", "pairs", "dropped", "duplicates_left_out")
_BY_CONTENT = re.compile(r"[0-9a-f]{64}")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    rank = commands.add_parser(
        "rank-folder", help="best of N: rank any number of edits", description=rank_folder.__doc__
    )
    rank.add_argument("data", metavar="SAMPLES", help=_SAMPLES)
    rank.add_argument("--source", type=Path, metavar="IMAGE", help="SAMPLES holds candidates of one edit of this image")
    rank.add_argument("--instruction", metavar="TEXT", help="and this is the edit that was asked for")
    rank.add_argument(
        "--method",
        choices=("score", "win_rate"),
        default="score",
        help="each candidate alone (default), or every pair compared: dearer, and better at small differences",
    )
    rank.add_argument(
        "--copy-best",
        type=Path,
        metavar="DIR",
        help="copy the best candidate of each edit here; what an earlier run copied goes",
    )
    add_fields(rank)
    _add_judging(rank, rank_folder)

    keep = commands.add_parser(
        "filter-dataset", help="keep what a judge thinks well of", description=filter_dataset.__doc__
    )
    keep.add_argument("data", metavar="DATA", help=DATA_HELP)
    keep.add_argument("--single", action="store_true", help="each candidate is an edit of its own; any number of them")
    keep.add_argument("--min-reward", type=float, metavar="X", help="keep edits with at least this reward, in [0, 1]")
    keep.add_argument("--min-margin", type=float, metavar="X", help="keep pairs and groups with at least this margin")
    keep.add_argument("--agree", action="store_true", help="keep only where the judge confirms the label")
    keep.add_argument("--everything", action="store_true", help="write all rows, kept or not, each with its reason")
    add_fields(keep)
    _add_output(keep, "FILE", "a .parquet or .jsonl file")
    _add_judging(keep, filter_dataset)

    pairs = commands.add_parser(
        "preference-data", help="make pairs to train a reward model on", description=preference_data.__doc__
    )
    pairs.add_argument("data", metavar="SAMPLES", help=_SAMPLES)
    add_fields(pairs)
    _add_output(pairs, "DIR", "a new or empty folder, or one that it wrote before")
    _add_pair_rules(pairs)
    _add_judging(pairs, preference_data)


def _add_judging(parser: argparse.ArgumentParser, run: Any) -> None:
    add_options(parser, release=True)
    add_run_options(parser)
    parser.set_defaults(run=run)


def _add_output(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    parser.add_argument("-o", "--output", required=True, type=Path, metavar=metavar, help=what)
    parser.add_argument("--push", metavar="ORG/NAME", help="publish the result as a dataset on the Hub")
    parser.add_argument("--private", action="store_true", help="a repository that is made for it is private")


def _add_pair_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("pairs")
    group.add_argument("--repeats", type=int, default=5, metavar="N", help="judgments of each candidate (default: 5)")
    group.add_argument("--margin", type=float, default=0.1, metavar="X", help="least difference of mean rewards (0.1)")
    group.add_argument(
        "--spread", type=float, default=1.0, metavar="K", help="and more than K times both standard deviations (1)"
    )
    group.add_argument("--per-edit", type=int, default=4, metavar="N", help="pairs of one edit at most (4)")
    group.add_argument("--holdout", type=float, default=0.1, metavar="X", help="share of the sources held out (0.1)")
    group.add_argument("--run-share", type=float, default=1.0, metavar="X", help="share of one run at most (1)")
    group.add_argument("--seed", type=int, default=0, help="of the split, and of what a cap leaves out (0)")


def rank_folder(arguments: argparse.Namespace, settings: Settings) -> int:
    """Rank the candidates of each edit and name the best; resumable. Only what was judged has a reward."""
    from rewardharness.bulk.copies import check_copies, copy_best
    from rewardharness.bulk.scoring import all_standings
    from rewardharness.data.source import describe_skipped

    if arguments.copy_best is not None:
        _check_place(arguments.copy_best / "best")
        check_copies(arguments.copy_best)
    work = _rank_work(arguments, settings)
    dataset = work.dataset
    if arguments.dry_run:
        return work.tell_cost(arguments.method)
    ranked = list(all_standings(dataset.examples, arguments.method, work.run(arguments.method)))
    lines = [_ranked(example, standings) for example, standings in ranked]
    ranking = work.write("ranking.jsonl", lines)
    work.keep_outcome({"best": {line["id"]: line["best"] for line in lines}})
    if arguments.copy_best is not None:
        copy_best(_best_files(dataset.examples, lines), arguments.copy_best)
    unjudged = sum(each.reward is None for _, standings in ranked for each in standings)
    if arguments.json:
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
        output.say(f"{work.identity}; rewards by {arguments.method}")
        output.say(f"All of it: {ranking}")
    return NOT_JUDGED if unjudged or dataset.skipped else 0


def _rank_work(arguments: argparse.Namespace, settings: Settings) -> Work:
    return Work(arguments, settings, _samples(arguments, settings), "rank-folder", {"method": arguments.method})


def rank_manifest(arguments: argparse.Namespace, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh rank-folder` would be about, without judging anything."""
    return _rank_work(arguments, settings).manifest


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


def filter_dataset(arguments: argparse.Namespace, settings: Settings) -> int:
    """Judge a dataset and keep what is good enough, each row with its reason. What was not judged is never kept."""
    from rewardharness.bulk.filtering import Rules, count, decide
    from rewardharness.bulk.table import write_decisions
    from rewardharness.judgments import judgment_from_json

    rules = Rules(arguments.min_reward, arguments.min_margin, arguments.agree)
    if arguments.output.suffix not in {".parquet", ".jsonl"}:
        raise InputError(f"{arguments.output} is neither .parquet nor .jsonl.", next_step="Name a file of one kind.")
    _check_place(arguments.output)
    work = _filter_work(arguments, settings)
    dataset = work.dataset
    if arguments.dry_run:
        return work.tell_cost(None)
    results = work.run(None)
    decided = [decide(each, judgment_from_json(results[each.id]), rules) for each in dataset.examples]
    kept = [each for each in decided if each.keep]
    write_decisions(arguments.output, decided if arguments.everything else kept, work.identity)
    counts = count(decided, skipped=len(dataset.skipped))
    n = len(decided) + len(dataset.skipped)
    work.keep_outcome({"reasons": counts, "decided": {each.example.id: each.code for each in decided}})
    commit = None
    if arguments.push:
        commit = _push(arguments, settings, arguments.output.parent, [arguments.output], "Filtered edits")
    if arguments.json:
        told = {"n": n, "kept": len(kept), "reasons": counts, "skipped_rows": dataset.skipped_json()}
        output.emit({**told, **work.identity.to_json(), "commit": commit})
    else:
        output.table(("reason", "n"), [(code, str(number)) for code, number in counts.items()])
        output.say(str(work.identity))
        output.say(f"{len(kept)} of {n} kept, in {arguments.output}.")
    return NOT_JUDGED if counts.get("not_judged") or dataset.skipped else 0


def _filter_work(arguments: argparse.Namespace, settings: Settings) -> Work:
    from rewardharness.bulk.samples import one_by_one

    if arguments.single:
        dataset = one_by_one(_samples(arguments, settings))
    else:
        dataset = _examples(arguments, settings).first(arguments.limit)
    return Work(arguments, settings, dataset, "filter-dataset", {"ties": arguments.ties})


def filter_manifest(arguments: argparse.Namespace, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh filter-dataset` would be about, without judging anything."""
    return _filter_work(arguments, settings).manifest


def preference_data(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make preference pairs that a reward model can learn from, with a manifest, checksums and a card.

    Candidates are judged repeatedly. A pair is kept where the mean rewards differ by more than the spread; the split by
    source image comes before the pairing.
    """
    from rewardharness.bulk.pairs import PairRules
    from rewardharness.bulk.preference_data import (
        DataRules,
        build,
        check_folder,
        repeated_scores,
    )

    pairs = PairRules(arguments.margin, arguments.spread, arguments.per_edit)
    rules = DataRules(pairs, arguments.repeats, arguments.holdout, arguments.run_share, arguments.seed)
    check_folder(arguments.output)
    work, duplicates = _pairs_work(arguments, settings)
    dataset = work.dataset
    if arguments.dry_run:
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
    manifest = build(dataset, scores, replace(rules, repeats=len(work.draws)), made_by, arguments.output)
    work.keep_outcome({name: manifest[name] for name in _PAIRS_OUTCOME})
    commit = None
    if arguments.push:
        made = [arguments.output / name for name in (*manifest["files"], "manifest.json")]
        commit = _push(arguments, settings, arguments.output, made, "Preference pairs")
    if arguments.json:
        output.emit({**manifest, "commit": commit})
    else:
        output.table(("split", "pairs"), [(name, str(number)) for name, number in manifest["pairs"].items()])
        if manifest["dropped"]:
            output.table(("dropped for", "n"), [(code, str(number)) for code, number in manifest["dropped"].items()])
        output.say(str(work.identity))
        output.say(f"{gate} Everything is in {arguments.output}.")
    whole = manifest["candidates_judged"] == manifest["candidates"] and not dataset.skipped
    return 0 if whole else NOT_JUDGED


def _pairs_work(arguments: argparse.Namespace, settings: Settings) -> tuple[Work, int]:
    """What `rh preference-data` judges, and how many candidates were left out because they are there twice."""
    from rewardharness.bulk.preference_data import without_duplicates

    dataset, duplicates = without_duplicates(_samples(arguments, settings))
    times = arguments.repeats
    return Work(arguments, settings, dataset, "preference-data", {"repeats": times}, times=times), duplicates


def pairs_manifest(arguments: argparse.Namespace, settings: Settings) -> Mapping[str, Any]:
    """Say what `rh preference-data` would be about, without judging anything."""
    return _pairs_work(arguments, settings)[0].manifest


def _check_place(file: Path) -> None:
    """Make sure that a file can be there, before anything is judged for it."""
    folder = next(each for each in (file.parent, *file.parent.absolute().parents) if each.exists())
    if file.is_dir() or not folder.is_dir():
        wrong = file if file.is_dir() else folder
        raise InputError(
            f"{file} cannot be written: {wrong} is {'no folder' if wrong is folder else 'a folder'}.",
            next_step="Name another place.",
        )


def _examples(arguments: argparse.Namespace, settings: Settings) -> "Dataset":
    """Open examples; where there are samples instead, say how these are filtered."""
    from rewardharness.bulk.samples import is_samples

    if is_samples(arguments.data):
        raise InputError(
            f"{arguments.data} holds samples, a folder for each edit, and no pairs or groups.",
            next_step="Add --single: each candidate is then an edit of its own.",
        )
    return open_examples(arguments.data, arguments, settings)


def _samples(arguments: argparse.Namespace, settings: Settings) -> "Dataset":
    """Read edits with any number of candidates each."""
    from rewardharness.bulk.samples import one_edit, read_samples

    source, instruction = getattr(arguments, "source", None), getattr(arguments, "instruction", None)
    if source is not None and instruction is not None:
        return one_edit(Path(arguments.data), source, instruction)
    if source is not None or instruction is not None:
        raise InputError("--source and --instruction belong together.", next_step="Give both, or neither.")
    with Bars(arguments.quiet) as bars:
        dataset = read_samples(
            arguments.data,
            settings,
            given_fields(arguments),
            progress=bars.show,
            skip_bad_rows=arguments.skip_bad_rows,
        )
    for problem in dataset.problems:
        output.note(f"{dataset.name}: {problem}")
    return dataset.first(arguments.limit)


def _push(arguments: argparse.Namespace, settings: Settings, folder: Path, files: Sequence[Path], what: str) -> str:
    from rewardharness.data.export import push_dataset

    uploads = {path.relative_to(folder).as_posix(): path for path in files}
    commit = push_dataset(arguments.push, uploads, settings, private=arguments.private, message=what)
    output.note(f"Published as the dataset {arguments.push}, commit {commit[:12]}.")
    return commit


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

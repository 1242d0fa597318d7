"""`rh data` and `rh data demo`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import bulk, output
from rewardharness.cli.command import make_app, within
from rewardharness.cli.run import note_same_name
from rewardharness.data.config import DataConfig
from rewardharness.errors import shell, shown
from rewardharness.ranges import Range, check_ranges
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.schema import Example

_SHOWN = 20
_TEXT = 200
"""Characters of a text that are shown."""
UNLABELLED = "unlabelled"


app = make_app("data", "Show, generate, rank, filter and pair datasets.", {"Data": DataConfig})
app.command(bulk.rank_app, name="rank")
app.command(bulk.filter_app, name="filter")
app.command(bulk.pairs_app, name="pairs")


@Parameter(name="*")
@dataclass(frozen=True)
class ShowConfig(DataConfig):
    """A dataset and its split for an evolution."""

    _: KW_ONLY
    audit_share: float = 0.25
    """Share of the examples that is held out."""
    seed: int = 0
    """Seed of the split."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """Print no progress."""

    def __post_init__(self) -> None:
        check_ranges(self, {"audit_share": Range(0, 1, (1,))})


@app.command
def demo(
    folder: Path,
    /,
    *,
    pairs: Annotated[int, within("pairs", Range(0))] = 200,
    groups: Annotated[int, within("groups", Range(0))] = 20,
    seed: int = 0,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Generate a dataset with known labels: correct, wrong, excessive, incomplete and defective edits.

    Example: `rh data demo pairs`

    Args:
        folder: A new or empty folder, or one with the same dataset.
        pairs: Number of pairs.
        groups: Number of groups of 3 or 4.
        seed: The same seed makes the same files.
        json: Print one JSON object.
        quiet: Print no progress.
    """
    from rewardharness.data.folder import read_folder
    from rewardharness.data.opening import OWN
    from rewardharness.demo.dataset import make_demo

    drawn = 0
    with output.Bars(quiet) as bars:

        def step(done: int, of: int) -> None:
            nonlocal drawn
            drawn = max(drawn, done)  # parts are drawn in several processes
            bars.show("generating", drawn, of)

        workers = Settings.from_env().workers
        make_demo(folder, pairs=pairs, groups=groups, seed=seed, workers=workers, progress=step)
    dataset = read_folder(folder)
    kinds = Counter(example.label_kind for example in dataset.examples)
    if json:
        summary = {"folder": str(folder), "n": len(dataset.examples), "by_label_kind": dict(kinds)}
        output.emit({**summary, "drawn": bool(drawn)})
    else:
        output.table(("label kind", "n"), [(kind, str(count)) for kind, count in sorted(kinds.items())])
        already = "" if drawn else " The dataset exists, complete and unchanged; nothing was generated."
        output.say(f"{len(dataset.examples)} examples in {folder}.{already}")
        place = str(folder)
        output.say(shell("Next: rh score {}", f"./{place}" if place in OWN else place))


@app.command
def show(config: ShowConfig) -> None:
    """Show a dataset: counts, labels, warnings, and its split for an evolution.

    Example: `rh data show demo`
    """
    from rewardharness.data.opening import open_data
    from rewardharness.data.source import split

    note_same_name(config.data)
    settings, skip = Settings.from_env(), config.skip_bad_rows
    with output.Bars(config.quiet) as bars:
        dataset = open_data(config.data, settings, fields=config.field_map, progress=bars.show, skip_bad_rows=skip)
    examples = dataset.examples
    pool, audit = split(examples, share=config.audit_share, seed=config.seed)
    summary = _described(dataset)
    summary |= {"audit_share": config.audit_share, "seed": config.seed}
    summary |= {"pool": _counts(pool), "audit": _counts(audit)}
    if config.json:
        output.emit(summary)
    else:
        _print(summary, _counts(examples))


@app.command
def forget(
    repo: str,
    /,
    *,
    vote: tuple[str, ...] = (),
    voter: str = "",
    user: str = "",
    history: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Delete votes from a dataset that the app stores feedback in, with images that no other vote is about.

    Example: `rh data forget me/preferences --vote 5f2c90a1b7d4e683f0a1b2c3 --dry-run`

    Args:
        repo: Dataset repository, as ORG/NAME.
        vote: Id of a vote, as the app shows it; may be repeated.
        voter: Id of a voter, as in the column voter: all votes are deleted.
        user: Name of the voter's account instead; needs RH_FEEDBACK_SALT.
        history: Also replace all earlier commits by one, as the votes would remain in them. This cannot be undone.
        dry_run: Print what would be deleted, and delete nothing.
        json: Print one JSON object.
    """
    from rewardharness.data.vote_store import forget_votes
    from rewardharness.hub.repository import Access, Repo

    settings = Settings.from_env()
    place = Repo(repo, Access(None, settings.hub_endpoint, settings.hub_cache), "dataset")
    forgotten = forget_votes(
        place, votes=vote, voter=voter, name=user, salt=settings.feedback_salt, history=history, dry_run=dry_run
    )
    text = f"{len(forgotten.votes)} votes and {len(forgotten.images)} images of {repo} "
    text += "would be deleted." if dry_run else "deleted."
    if forgotten.votes and not (history or dry_run):
        text += "\nThey remain in earlier commits; --history deletes those too."
    output.show(
        json, {"repo": repo, **{name: getattr(forgotten, name) for name in ("votes", "images", "commit")}}, text
    )


def _described(dataset: "Dataset") -> dict[str, Any]:
    """Describe a dataset without its split."""
    from rewardharness.data.fields import FieldMap

    named = {column for columns in FieldMap(**dataset.mapping).columns.values() for column in columns}
    return {
        "name": dataset.name,
        "task": dataset.task.name,
        "revision": dataset.revision or None,
        "digest": dataset.digest,
        **_counts(dataset.examples),
        "fields": dataset.mapping or None,
        "how": dataset.how,
        "other_columns": [column for column in dataset.columns if column not in named],
        "skipped_rows": dataset.skipped_json(),
        "problems": list(dataset.problems),
        "texts": _texts(dataset.examples),
    }


def _texts(examples: "Sequence[Example]") -> list[dict[str, str]]:
    """Return the instruction and the text candidates of the first example; nothing if these are images."""
    from rewardharness.schema import TextInput

    first = examples[0]
    pairs = zip(first.labels, first.candidates, strict=True)
    texts = [(label, candidate.text) for label, candidate in pairs if isinstance(candidate, TextInput)]
    return [{"what": "prompt", "text": first.instruction}] * bool(texts) + [
        {"what": f"candidate {label}", "text": text} for label, text in texts
    ]


def _counts(examples: "Iterable[Example]") -> dict[str, Any]:
    """Count examples by everything that matters to judging them."""
    listed = list(examples)
    return {
        "n": len(listed),
        "by_candidates": _tally(str(len(example.candidates)) for example in listed),
        "by_label": _tally(example.preference or UNLABELLED for example in listed),
        "by_label_kind": _tally(example.label_kind for example in listed if example.preference),
        "by_category": _tally(example.category for example in listed),
        "sources": len({example.source_id for example in listed}),
        "with_references": sum(bool(example.references) for example in listed),
    }


def _tally(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _print(summary: dict[str, Any], whole: dict[str, Any]) -> None:
    source = "prompt" if summary["texts"] else "source" if summary["task"] == "video-edit" else "source image"
    output.say(f"{summary['name']}: {summary['n']} examples, {output.count(summary['sources'], source)}.")
    if summary["how"]:
        output.say(summary["how"])
    if summary["fields"]:
        output.table(("field", "column"), [(name, _words(value)) for name, value in summary["fields"].items()])
        if summary["other_columns"]:
            output.say(f"Columns that are not used: {', '.join(summary['other_columns'])}.")
    parts = (whole, summary["pool"], summary["audit"])
    titles = {"n": "examples", "sources": "sources", "with_references": "with reference images"}
    table = [(title, *(str(part[key]) for part in parts)) for key, title in titles.items() if whole[key]]
    for key in ("by_candidates", "by_label", "by_label_kind", "by_category"):
        title, values = key.removeprefix("by_").replace("_", " "), list(whole[key])
        rows = [(value or "(none)", [value]) for value in values[:_SHOWN]]
        rows += [(f"{len(values) - _SHOWN} more", values[_SHOWN:])] if len(values) > _SHOWN else []
        for name, held in rows:
            table.append((f"{title}: {name}", *(str(sum(part[key].get(value, 0) for value in held)) for part in parts)))
    output.table(("", "all", "training", f"held-out test ({summary['audit_share']:g}, seed {summary['seed']})"), table)
    if summary["texts"]:
        output.table(("first example", ""), [(text["what"], shown(text["text"], _TEXT)) for text in summary["texts"]])
    remarks = [problem for problem in summary["problems"] if problem != summary["how"]]
    for problem in remarks:
        output.say(f"- {problem}")
    output.say("No problems." if not remarks else f"{output.count(len(remarks), 'remark')}.")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{cell} is {meant or UNLABELLED}" for cell, meant in value.items())
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)

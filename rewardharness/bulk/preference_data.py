"""Preference data for a reward model that is trained: repeated scores, pairs that they carry, a split, a manifest.

    OUT/README.md               a card for the Hub
    OUT/manifest.json           how it was made, what was dropped for what, and a checksum for each file; written last
    OUT/data/train.parquet      pairs to learn from
    OUT/data/holdout.parquet    pairs of other sources, to measure on
    OUT/scores.jsonl            every candidate with its repeated rewards, judged or not

The split goes by source image and is made before anything is paired: no picture of the holdout is learnt from.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.bulk.pairs import Pair, PairRules, Repeated, pair_up
from rewardharness.bulk.scoring import all_standings
from rewardharness.data.export import Kind, content, write_parquet
from rewardharness.data.source import Dataset, split
from rewardharness.errors import DataError, InputError
from rewardharness.schema import Example, Json

FORMAT = 1
MANIFEST = "manifest.json"
SPLITS = ("train", "holdout")

COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "prompt": "messages",
    "chosen": "messages",
    "rejected": "messages",
    "margin": "float",
    "source_image": "image",
    "chosen_image": "image",
    "rejected_image": "image",
    "instruction": "text",
    "chosen_reward": "float",
    "chosen_std": "float",
    "rejected_reward": "float",
    "rejected_std": "float",
    "repeats": "int",
    "kind": "text",
    "run": "text",
    "edit_id": "text",
}
"""Columns of a pair. TRL's RewardTrainer reads `prompt`, `chosen`, `rejected` and `margin`. It reads text alone, so
there an edit is named by the hash of its image; a collator that feeds a model with eyes takes the images."""


@dataclass(frozen=True)
class DataRules:
    """How preference data are made."""

    pairs: PairRules = field(default_factory=PairRules)
    repeats: int = 5
    """Judgments of each candidate."""
    holdout: float = 0.1
    """Share of the sources that are held out, in [0, 1)."""
    run_share: float = 1.0
    """Share of all pairs of a split that may come from one run, in (0, 1]."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InputError(f"{self.repeats} repeats are none.", next_step="Give 1 or more.")
        if not 0 < self.run_share <= 1:
            raise InputError(
                f"The share {self.run_share} of a run is not in (0, 1].", next_step="Give one such as 0.5."
            )


def without_duplicates(dataset: Dataset) -> tuple[Dataset, int]:
    """Leave out candidates that are byte for byte the same as another of their edit.

    Returns:
        The dataset, and how many were left out.
    """
    examples = []
    for example in dataset.examples:
        first = {files.sha256(content(image)): image for image in reversed(example.candidates)}
        kept = tuple(image for image in example.candidates if any(image is each for each in first.values()))
        examples.append(replace(example, candidates=kept))
    left = sum(len(each.candidates) for each in examples)
    unique = Dataset.of(dataset.name, examples, problems=dataset.problems, skipped=dataset.skipped)
    return unique, _candidates(dataset.examples) - left


def repeated_scores(
    dataset: Dataset, results: Mapping[str, Mapping[str, Any]], tags: Sequence[str]
) -> Iterator[tuple[Example, list[Json]]]:
    """Put the judgments of all repeats together.

    Args:
        dataset: The edits.
        results: What the run holds.
        tags: What tells the repeats apart in it.

    Returns:
        Every edit with one record per candidate: its hash, its rewards in order, None for what was not judged, and
        why not.
    """
    rounds = [dict(_by_id(all_standings(dataset.examples, "score", results, tag=tag))) for tag in tags]
    for example in dataset.examples:
        records: list[Json] = []
        for index, image in enumerate(example.candidates):
            standings = [each[example.id][index] for each in rounds]
            records.append(
                {
                    "edit_id": example.id,
                    "candidate": index,
                    "sha256": files.sha256(content(image)),
                    "run": example.category,
                    "rewards": [each.reward for each in standings],
                    "reasons": sorted({each.failure.code for each in standings if each.failure is not None}),
                }
            )
        yield example, records


def check_folder(folder: Path) -> None:
    """Make sure that data can be written into a folder: ask before judging anything for them.

    Raises:
        DataError: If it holds something else, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file.", next_step="Name a new or an empty folder.")
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).exists():
        raise DataError(f"{folder} holds other files.", next_step="Name a new or an empty folder.")


def build(
    dataset: Dataset,
    scores: Iterable[tuple[Example, list[Json]]],
    rules: DataRules,
    made_by: Mapping[str, Any],
    folder: Path,
) -> Json:
    """Make the pairs and write everything.

    Args:
        dataset: The edits.
        scores: What `repeated_scores` gave.
        rules: How data are made.
        made_by: What the manifest says of the judge, the Library and the samples.
        folder: Where to; new or empty, or made by this before.

    Returns:
        The manifest.

    Raises:
        DataError: If the folder holds something else, or there is no pair to write.
    """
    check_folder(folder)
    train, holdout = split(dataset.examples, share=rules.holdout, seed=rules.seed)
    part_of = {each.id: name for name, part in zip(SPLITS, (train, holdout), strict=True) for each in part}
    rows: dict[str, list[Json]] = {name: [] for name in SPLITS}
    dropped: Counter[str] = Counter()
    lines: list[Json] = []
    for example, records in scores:
        lines += records
        known, few = _repeated(records, rules.repeats)
        dropped["too_few_judgments"] += few
        pairs, why = pair_up(known, rules.pairs)
        dropped.update(why)
        rows[part_of[example.id]] += [_row(example, records, pair) for pair in pairs]
    for name in SPLITS:
        rows[name], over = _capped(rows[name], rules)
        dropped["run_share"] += over
    if not rows["train"]:
        said = ", ".join(f"{code} {number}" for code, number in sorted(dropped.items()) if number) or "no candidates"
        raise DataError(f"No pair is left to learn from ({said}).", next_step="Lower --margin or --spread.")
    return _write(folder, dataset, rows, lines, rules, made_by, dropped)


def _write(
    folder: Path,
    dataset: Dataset,
    rows: Mapping[str, list[Json]],
    lines: Sequence[Json],
    rules: DataRules,
    made_by: Mapping[str, Any],
    dropped: Counter[str],
) -> Json:
    (folder / MANIFEST).unlink(missing_ok=True)
    names = [name for name in SPLITS if rows[name]]
    for name in names:
        write_parquet(folder / "data" / f"{name}.parquet", COLUMNS, rows[name])
    files.write_text(folder / "scores.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    judged = sum(any(reward is not None for reward in line["rewards"]) for line in lines)
    manifest: Json = {
        "format": FORMAT,
        **made_by,
        "rules": asdict(rules),
        "edits": len(dataset.examples),
        "candidates": len(lines),
        "candidates_judged": judged,
        "pairs": {name: len(rows[name]) for name in SPLITS},
        "dropped": {code: number for code, number in sorted(dropped.items()) if number},
    }
    files.write_text(folder / "README.md", _card(manifest, names))
    paths = [folder / "README.md", folder / "scores.jsonl", *(folder / "data" / f"{name}.parquet" for name in names)]
    manifest["files"] = {
        path.relative_to(folder).as_posix(): {"sha256": files.sha256_file(path), "bytes": path.stat().st_size}
        for path in paths
    }
    files.write_json(folder / MANIFEST, manifest)
    return manifest


def _by_id(standings: Iterable[tuple[Example, Any]]) -> Iterator[tuple[str, Any]]:
    return ((example.id, each) for example, each in standings)


def _candidates(examples: Iterable[Example]) -> int:
    return sum(len(example.candidates) for example in examples)


def _repeated(records: Sequence[Json], repeats: int) -> tuple[list[Repeated], int]:
    """Candidates with enough judgments, and how many have too few: of one alone no spread is known."""
    enough = min(2, repeats)
    known = []
    for record in records:
        rewards = tuple(reward for reward in record["rewards"] if reward is not None)
        if len(rewards) >= enough:
            known.append(Repeated(record["candidate"], rewards))
    return known, len(records) - len(known)


def _row(example: Example, records: Sequence[Json], pair: Pair) -> Json:
    chosen, rejected = pair.chosen.index, pair.rejected.index
    return {
        "id": f"{example.id}#{chosen}>{rejected}",
        "prompt": [{"role": "user", "content": f"Edit the image: {example.instruction}"}],
        "chosen": [{"role": "assistant", "content": f"image {records[chosen]['sha256']}"}],
        "rejected": [{"role": "assistant", "content": f"image {records[rejected]['sha256']}"}],
        "margin": pair.margin,
        "source_image": example.source,
        "chosen_image": example.candidates[chosen],
        "rejected_image": example.candidates[rejected],
        "instruction": example.instruction,
        "chosen_reward": pair.chosen.mean,
        "chosen_std": pair.chosen.std,
        "rejected_reward": pair.rejected.mean,
        "rejected_std": pair.rejected.std,
        "repeats": min(len(pair.chosen.rewards), len(pair.rejected.rewards)),
        "kind": pair.kind,
        "run": example.category,
        "edit_id": example.id,
    }


def _capped(rows: Sequence[Json], rules: DataRules) -> tuple[list[Json], int]:
    """Leave out pairs of runs that have more than their share of what is kept, by seeded chance.

    With one run there is nothing to balance, and nothing is left out.
    """
    by_run: dict[str, list[Json]] = defaultdict(list)
    for row in rows:
        by_run[row["run"]].append(row)
    if len(by_run) < 2:
        return list(rows), 0
    allowed = _allowance([len(each) for each in by_run.values()], rules.run_share)
    kept = set()
    for each in by_run.values():
        order = sorted(each, key=lambda row: files.content_id([rules.seed, row["id"]]))
        kept |= {row["id"] for row in order[:allowed]}
    left = [row for row in rows if row["id"] in kept]
    return left, len(rows) - len(left)


def _allowance(sizes: Sequence[int], share: float) -> int:
    """The most that every run may keep, so that none has more than its share of all that is kept; at least 1."""
    for most in range(max(sizes, default=1), 1, -1):
        kept = [min(size, most) for size in sizes]
        if max(kept) <= share * sum(kept):
            return most
    return 1


def _edits(manifest: Json) -> str:
    """How many edits there are, and how many rows of the samples were none."""
    skipped = manifest.get("skipped_rows", {}).get("n", 0)
    rows = "bad row that was" if skipped == 1 else "bad rows that were"
    return f"{manifest['edits']}{f', and {skipped} {rows} skipped' if skipped else ''}"


def _card(manifest: Json, names: Sequence[str]) -> str:
    blank = resources("hub_templates").joinpath("preference_data_card.md").read_text(encoding="utf-8")
    configs = "\n".join(f"      - split: {name}\n        path: data/{name}.parquet" for name in names)
    rules = manifest["rules"]
    known = {
        "splits": configs,
        "pairs": ", ".join(f"{name} {manifest['pairs'][name]}" for name in SPLITS),
        "edits": _edits(manifest),
        "candidates": f"{manifest['candidates_judged']} of {manifest['candidates']}",
        "judge": manifest["judge"],
        "protocol": manifest["protocol"],
        "library": manifest["library_id"],
        "repeats": str(rules["repeats"]),
        "margin": f"{rules['pairs']['margin']:g}",
        "gate": manifest["gate"],
        "dropped": ", ".join(f"{code} {number}" for code, number in manifest["dropped"].items()) or "nothing",
    }
    for name, value in known.items():
        blank = blank.replace("{{" + name + "}}", value)
    return blank

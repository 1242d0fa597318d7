"""Preference data for reward model training: repeated scores, reliable pairs, a split and a manifest.

    OUT/README.md               a card for the Hub
    OUT/manifest.json           settings, dropped pairs by reason, and a checksum per file; written last
    OUT/data/train.parquet      pairs for training
    OUT/data/holdout.parquet    pairs of other source images, for evaluation
    OUT/scores.jsonl            every candidate with its repeated rewards

Data are split by source image before pairs are formed, so that no image of the holdout is used for training.

For each edit, the best and the worst candidate form a pair, and so do neighbors in the ranking: easy and hard pairs,
but not all N (N - 1) / 2, which would be redundant. A pair is kept only if the scores support it:

    mean(chosen) - mean(rejected) >= margin     and     > spread * (std(chosen) + std(rejected))

with means and sample standard deviations (n - 1) over repeated judgments of each candidate alone.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from rewardharness import files
from rewardharness.bulk.config import PreferencePairsConfig
from rewardharness.bulk.edits_job import all_rewards
from rewardharness.data.export import Kind, write_parquet
from rewardharness.data.source import Dataset, split
from rewardharness.data.tables import original_bytes
from rewardharness.errors import DataError
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
    "references": "images",
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
"""Columns of a pair. TRL's RewardTrainer reads `prompt`, `chosen`, `rejected` and `margin` as text, in which an edit is
identified by the hash of its image; a collator for a multimodal model uses the image columns."""


RULES = ("margin", "spread", "per_edit", "repeats", "holdout", "run_share", "seed")
"""Options that decide about pairs."""


Dropped = Literal["level", "margin", "uncertain", "cap"]


@dataclass(frozen=True)
class Repeated:
    """Repeated scores of one candidate."""

    index: int
    """Index among the candidates of its edit, from 0."""
    rewards: tuple[float, ...]
    """One reward per successful judgment; never empty."""

    @property
    def mean(self) -> float:
        """Mean reward, in [0, 1]."""
        return fmean(self.rewards)

    @property
    def std(self) -> float | None:
        """Sample standard deviation; None for a single judgment."""
        return stdev(self.rewards) if len(self.rewards) > 1 else None


@dataclass(frozen=True)
class Pair:
    """One pair of candidates of one edit."""

    chosen: Repeated
    rejected: Repeated
    kind: Literal["extreme", "adjacent"]
    """Best and worst candidate, or neighbors in the ranking."""

    @property
    def margin(self) -> float:
        """Difference of the mean rewards."""
        return self.chosen.mean - self.rejected.mean


def without_duplicates(dataset: Dataset) -> tuple[Dataset, int]:
    """Remove candidates that are byte-identical to another candidate of their edit.

    Returns:
        The dataset, and the number of removed candidates.
    """
    examples = []
    for example in dataset.examples:
        first = {files.sha256(original_bytes(image)): image for image in reversed(example.candidate_images)}
        kept = tuple(
            image for image in example.candidate_images if any(image is original for original in first.values())
        )
        examples.append(replace(example, candidates=kept))
    remaining = sum(len(example.candidates) for example in examples)
    unique = Dataset.of(dataset.name, examples, problems=dataset.problems, skipped=dataset.skipped)
    return unique, _candidates(dataset.examples) - remaining


def repeated_scores(
    dataset: Dataset, results: Mapping[str, Mapping[str, Any]], tags: Sequence[str]
) -> Iterator[tuple[Example, list[Json]]]:
    """Combine the judgments of all repeats.

    Args:
        dataset: The edits.
        results: Results of the run.
        tags: Suffixes of the repeats.

    Returns:
        Every edit with one record per candidate: its hash, its rewards in order with None for failures, and the codes
        of the failures.
    """
    rounds = [
        {edit.id: rewards for edit, rewards in all_rewards(dataset.examples, "score", results, tag=tag)} for tag in tags
    ]
    for example in dataset.examples:
        records: list[Json] = []
        for index, image in enumerate(example.candidate_images):
            candidates = [rewards[example.id][index] for rewards in rounds]
            records.append(
                {
                    "edit_id": example.id,
                    "candidate": index,
                    "sha256": files.sha256(original_bytes(image)),
                    "run": example.category,
                    "rewards": [candidate.reward for candidate in candidates],
                    "reasons": sorted(
                        {candidate.failure.code for candidate in candidates if candidate.failure is not None}
                    ),
                }
            )
        yield example, records


def check_folder(folder: Path) -> None:
    """Check that data can be written to a folder. Call this before judging.

    Raises:
        DataError: If the folder holds other files, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file.", next_step="Choose a new or empty folder.")
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).exists():
        raise DataError(f"{folder} holds other files.", next_step="Choose a new or empty folder.")


def build(
    dataset: Dataset,
    scores: Iterable[tuple[Example, list[Json]]],
    rules: PreferencePairsConfig,
    made_by: Mapping[str, Any],
    folder: Path,
) -> Json:
    """Form the pairs and write all files.

    Args:
        dataset: The edits.
        scores: Output of `repeated_scores`.
        rules: The options; `repeats` is the number of judgments of each candidate.
        made_by: Judge, Library and samples, for the manifest.
        folder: Output folder; new, empty, or written by this function before.

    Returns:
        The manifest.

    Raises:
        DataError: If the folder holds other files, or no pair remains.
    """
    check_folder(folder)
    train, holdout = split(dataset.examples, share=rules.holdout, seed=rules.seed)
    part_of = {example.id: name for name, part in zip(SPLITS, (train, holdout), strict=True) for example in part}
    rows: dict[str, list[Json]] = {name: [] for name in SPLITS}
    dropped: Counter[str] = Counter()
    lines: list[Json] = []
    for example, records in scores:
        lines += records
        repeated, too_few = _repeated(records, rules.repeats)
        dropped["too_few_judgments"] += too_few
        pairs, reasons = pair_up(repeated, rules)
        dropped.update(reasons)
        rows[part_of[example.id]] += [_row(example, records, pair) for pair in pairs]
    for name in SPLITS:
        rows[name], excess = _capped(rows[name], rules)
        dropped["run_share"] += excess
    if not rows["train"]:
        counts = ", ".join(f"{number} {code}" for code, number in sorted(dropped.items()) if number) or "none"
        raise DataError(
            f"No training pair remains. Dropped pairs by reason: {counts}.", next_step="Lower --margin or --spread."
        )
    return _write(folder, dataset, rows, lines, rules, made_by, dropped)


def _write(
    folder: Path,
    dataset: Dataset,
    rows: Mapping[str, list[Json]],
    lines: Sequence[Json],
    rules: PreferencePairsConfig,
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
        "rules": {name: getattr(rules, name) for name in RULES},
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


def _candidates(examples: Iterable[Example]) -> int:
    return sum(len(example.candidates) for example in examples)


def _repeated(records: Sequence[Json], repeats: int) -> tuple[list[Repeated], int]:
    """Return the candidates with enough judgments, and the number of the others. One judgment has no spread."""
    enough = min(2, repeats)
    candidates = []
    for record in records:
        rewards = tuple(reward for reward in record["rewards"] if reward is not None)
        if len(rewards) >= enough:
            candidates.append(Repeated(record["candidate"], rewards))
    return candidates, len(records) - len(candidates)


def _row(example: Example, records: Sequence[Json], pair: Pair) -> Json:
    chosen, rejected = pair.chosen.index, pair.rejected.index
    return {
        "id": f"{example.id}#{chosen}>{rejected}",
        "prompt": [{"role": "user", "content": f"Edit the image: {example.instruction}"}],
        "chosen": [{"role": "assistant", "content": f"image {records[chosen]['sha256']}"}],
        "rejected": [{"role": "assistant", "content": f"image {records[rejected]['sha256']}"}],
        "margin": pair.margin,
        "source_image": example.source,
        "references": example.references,
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


def _capped(rows: Sequence[Json], rules: PreferencePairsConfig) -> tuple[list[Json], int]:
    """Drop pairs of runs that exceed their share, at random with a fixed seed. With one run, nothing is dropped."""
    by_run: dict[str, list[Json]] = defaultdict(list)
    for row in rows:
        by_run[row["run"]].append(row)
    if len(by_run) < 2:
        return list(rows), 0
    allowed = _allowance([len(group) for group in by_run.values()], rules.run_share)
    kept = set()
    for group in by_run.values():
        order = sorted(group, key=lambda row: files.content_id([rules.seed, row["id"]]))
        kept |= {row["id"] for row in order[:allowed]}
    remaining = [row for row in rows if row["id"] in kept]
    return remaining, len(rows) - len(remaining)


def _allowance(sizes: Sequence[int], share: float) -> int:
    """Return the maximum number of pairs per run such that no run exceeds its share; at least 1."""
    for most in range(max(sizes, default=1), 1, -1):
        kept = [min(size, most) for size in sizes]
        if max(kept) <= share * sum(kept):
            return most
    return 1


def _edits(manifest: Json) -> str:
    """Return the number of edits, and of skipped rows."""
    skipped = manifest.get("skipped_rows", {}).get("n", 0)
    rows = "bad row that was" if skipped == 1 else "bad rows that were"
    return f"{manifest['edits']}{f', and {skipped} {rows} skipped' if skipped else ''}"


def _card(manifest: Json, names: Sequence[str]) -> str:
    card = resources("hub_templates").joinpath("preference_data_card.md").read_text(encoding="utf-8")
    configs = "\n".join(f"      - split: {name}\n        path: data/{name}.parquet" for name in names)
    rules = manifest["rules"]
    values = {
        "splits": configs,
        "pairs": ", ".join(f"{name} {manifest['pairs'][name]}" for name in SPLITS),
        "edits": _edits(manifest),
        "candidates": f"{manifest['candidates_judged']} of {manifest['candidates']}",
        "judge": manifest["judge"],
        "protocol": manifest["protocol"],
        "library": manifest["library_id"],
        "repeats": str(rules["repeats"]),
        "margin": f"{rules['margin']:g}",
        "gate": manifest["gate"],
        "dropped": ", ".join(f"{code} {number}" for code, number in manifest["dropped"].items()) or "nothing",
    }
    for name, value in values.items():
        card = card.replace("{{" + name + "}}", value)
    return card


def pair_up(candidates: Sequence[Repeated], rules: PreferencePairsConfig) -> tuple[list[Pair], Counter[Dropped]]:
    """Form the pairs of one edit.

    Args:
        candidates: Judged candidates.
        rules: Conditions for keeping pairs: margin, spread and number per edit.

    Returns:
        The pairs, best and worst candidate first, then neighbors from the top; and the number of dropped pairs by
        reason.
    """
    kept: list[Pair] = []
    dropped: Counter[Dropped] = Counter()
    for pair in _proposed(candidates):
        reason = _objection(pair, rules)
        if reason is None and len(kept) == rules.per_edit:
            reason = "cap"
        if reason is None:
            kept.append(pair)
        else:
            dropped[reason] += 1
    return kept, dropped


def _proposed(candidates: Sequence[Repeated]) -> Iterator[Pair]:
    ranked = sorted(candidates, key=lambda candidate: (-candidate.mean, candidate.index))
    if len(ranked) < 2:
        return
    yield Pair(ranked[0], ranked[-1], "extreme")
    if len(ranked) > 2:
        for better, worse in pairwise(ranked):
            yield Pair(better, worse, "adjacent")


def _objection(pair: Pair, rules: PreferencePairsConfig) -> Dropped | None:
    if pair.margin == 0:
        return "level"
    if pair.margin < rules.margin:
        return "margin"
    spreads = [candidate.std for candidate in (pair.chosen, pair.rejected)]
    deviations = [spread for spread in spreads if spread is not None]
    if rules.spread and pair.margin <= rules.spread * sum(deviations):
        return "uncertain"
    return None

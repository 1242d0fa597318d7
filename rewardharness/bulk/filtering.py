"""The edits that are chosen of a dataset: decisions with reasons, and a folder with copies of the best candidates.

    one candidate          kept if its reward is at least `reward`, and among the best `top` of all
    a pair or a group      kept if the margin of the preferred candidate is at least `margin` and, if requested, the
                           label has the same preference

Edits without a judgment are never kept, and have a reason of their own.

`best.json` lists the copied files with their SHA-256, and `best` in it names edit, original file and reward. Only these
files are replaced or removed, and only while they are unchanged.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rewardharness import files
from rewardharness.bulk.config import FilterConfig
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.errors import DataError, InputError
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.schema import Example, Json, Judgment


@dataclass(frozen=True)
class Kept:
    """Decision about one edit."""

    example: Example
    judgment: Judgment
    keep: bool
    code: str
    """Fixed code: `kept`, `not_judged`, `not_top`, `low_reward`, `low_margin`, `no_margin`, `no_label`, `disagrees`."""
    reason: str
    """One sentence with the numbers."""

    @property
    def reward(self) -> float | None:
        """Reward of the preferred or only candidate; None without a reward, or without a single best candidate."""
        judgment = self.judgment
        label = judgment.preference if len(self.example.candidates) > 1 else "A"
        scores = judgment.scores.get(label or "")
        return None if scores is None else scores.reward


def decide_all(judged: Sequence[tuple[Example, Judgment]], rules: FilterConfig) -> list[Kept]:
    """Decide about all edits of a dataset.

    With a share, of n edits at most ceil(share * n) are kept: those with the highest rewards, of equal rewards the
    earlier ones, whatever their number. Edits without a judgment or a single best candidate count in n and are not
    kept. The other conditions hold as well.
    """
    decided = [decide(example, judgment, rules) for example, judgment in judged]
    if rules.top is None:
        return decided
    size = math.ceil(round(rules.top * len(decided), 9))
    rewards = [(entry.reward, place) for place, entry in enumerate(decided) if entry.reward is not None]
    ranked = sorted(rewards, key=lambda pair: (-pair[0], pair[1]))
    rank = {place: number for number, (_, place) in enumerate(ranked, 1)}
    for place, decision in enumerate(decided):
        number = rank.get(place)
        if decision.keep and (number is None or number > size):
            held = "It has no reward" if number is None else f"Its reward {decision.reward:.3f} is number {number}"
            reason = f"{held}; the best {rules.top:g} of {len(decided)} edits are {size}."
            decided[place] = replace(decision, keep=False, code="not_top", reason=reason)
    return decided


def decide(example: Example, judgment: Judgment, rules: FilterConfig) -> Kept:
    """Decide about one edit. The first condition that fails is the reason."""

    def decision(code: str, reason: str) -> Kept:
        return Kept(example, judgment, code == "kept", code, reason)

    if not judgment.judged:
        cause = judgment.failure.message if judgment.failure is not None else "There is no judgment."
        return decision("not_judged", f"It was not judged: {cause}")
    reward, margin = Kept(example, judgment, False, "", "").reward, judgment.margin
    parts = []
    if rules.min_reward is not None:
        if reward is None or reward < rules.min_reward:
            problem = "There is no single best candidate" if reward is None else f"The reward is {reward:.3f}"
            return decision("low_reward", f"{problem}; the minimum is {rules.min_reward:g}.")
        parts.append(f"reward {reward:.3f}, at least {rules.min_reward:g}")
    if rules.min_margin is not None:
        if margin is None:
            return decision("no_margin", "A single candidate has no margin.")
        if margin < rules.min_margin:
            return decision("low_margin", f"The margin is {margin:.3f}; the minimum is {rules.min_margin:g}.")
        parts.append(f"margin {margin:.3f}, at least {rules.min_margin:g}")
    if rules.agree:
        if example.preference is None:
            return decision("no_label", "It has no label to agree with.")
        if judgment.preference != example.preference:
            return decision("disagrees", f"The label is {example.preference}; the judge says {judgment.preference}.")
        parts.append(f"the label {example.preference} is confirmed")
    if rules.top is not None:
        parts.append(f"among the best {rules.top:g}")
    return decision("kept", f"Kept: {'; '.join(parts)}.")


def count(decisions: Iterable[Kept], *, skipped: int = 0) -> dict[str, int]:
    """Count the decisions by code, with skipped rows of the data as `bad_row`."""
    counts = Counter(decision.code for decision in decisions) + Counter({"bad_row": skipped})
    return dict(sorted(counts.items()))


COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "source": "image",
    "references": "images",
    "instruction": "text",
    "candidates": "images",
    "source_file": "text",
    "candidate_files": "texts",
    "preference": "text",
    "label_kind": "text",
    "category": "text",
    "judged_preference": "text",
    "reward": "float",
    "rewards": "floats",
    "margin": "float",
    "keep": "bool",
    "code": "text",
    "reason": "text",
    "judge": "text",
    "judge_revision": "text",
    "protocol": "text",
    "library_id": "text",
    "release": "text",
}
"""`source_file` and `candidate_files` are the names of the original files. `preference` is the label,
`judged_preference` that of the judge; `rewards` are in the order of the candidates."""


def write_decisions(path: Path, decided: Iterable[Kept], identity: JudgeIdentity) -> int:
    """Write a table.

    Args:
        path: A `.parquet` file, or a `.jsonl` file with the images beside it.
        decided: The edits.
        identity: What judged.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read, or the disk is full.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    write = write_parquet if path.suffix == ".parquet" else write_lines
    return write(path, COLUMNS, _rows(decided, identity))


def _rows(decided: Iterable[Kept], identity: JudgeIdentity) -> Iterator[Json]:
    for decision in decided:
        example, judgment = decision.example, decision.judgment
        rewards = [judgment.scores[label].reward for label in example.labels if label in judgment.scores]
        yield {
            "id": example.id,
            "source": example.source,
            "references": example.references,
            "instruction": example.instruction,
            "candidates": example.candidates,
            "source_file": example.source_image.name,
            "candidate_files": [image.name for image in example.candidate_images],
            "preference": example.preference,
            "label_kind": example.label_kind,
            "category": example.category,
            "judged_preference": judgment.preference,
            "reward": decision.reward,
            "rewards": rewards if len(rewards) == len(example.candidates) else None,
            "margin": judgment.margin,
            "keep": decision.keep,
            "code": decision.code,
            "reason": decision.reason,
            **identity.to_json(),
        }


MANIFEST = "best.json"
_MAKER = "rh data rank --copy-best"
_SHOWN = 3


def check_copies(folder: Path) -> None:
    """Check that copies can be written to a folder. Call this before judging.

    Raises:
        InputError: If the folder holds other files.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        message = f"{folder} holds files that --copy-best did not put there; they would mix with the best candidates."
        raise InputError(message, next_step="Choose a new or empty folder.")
    _read_copied(folder)


def copy_best(chosen: Mapping[str, Path], folder: Path, about: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Copy images, and remove earlier copies that are no longer selected. An interrupted call can be repeated.

    Args:
        chosen: Image files by their name in the folder.
        folder: A folder that passes `check_copies`.
        about: Edit, original file and reward of each, for the manifest.

    Raises:
        InputError: If a needed name belongs to another or a changed file; nothing is written then.
        DataError: If an image cannot be copied.
    """
    check_copies(folder)
    copied = _read_copied(folder)
    try:
        content = {name: files.sha256_file(path) for name, path in chosen.items()}
        existing = {name: files.sha256_file(folder / name) for name in {*copied, *chosen} if (folder / name).exists()}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be copied to {folder}: {error.strerror}.") from None
    changed = sorted(name for name in chosen if name in existing and existing[name] not in copied.get(name, ()))
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        message = f"{folder} holds files that --copy-best did not put there: {', '.join(changed[:_SHOWN])}{more}"
        raise InputError(f"{message}; nothing was copied.", next_step="Move them away, or choose a new folder.")
    allowed = {
        name: [*copied.get(name, ()), *([content[name]] if name in content else [])] for name in {*copied, *chosen}
    }
    _write(folder, allowed)
    for name, path in chosen.items():
        if existing.get(name) != content[name]:
            files.write_bytes(folder / name, path.read_bytes())
    for name in copied.keys() - chosen.keys():
        if existing.get(name) in copied[name]:
            (folder / name).unlink()
    _write(folder, {name: [digest] for name, digest in content.items()}, about)


def _write(folder: Path, copied: Mapping[str, list[str]], about: Mapping[str, Any] = MappingProxyType({})) -> None:
    known = {"best": dict(about)} if about else {}
    files.write_json(folder / MANIFEST, {"made_by": _MAKER, "files": dict(sorted(copied.items())), **known})


def _read_copied(folder: Path) -> dict[str, list[str]]:
    """Return the files that were copied to a folder, with the hashes that each of them may have.

    Raises:
        InputError: If the manifest was not written by this module.
    """
    path = folder / MANIFEST
    manifest: Any = files.read_json(path) if path.is_file() else {"made_by": _MAKER, "files": {}}
    entries = manifest.get("files") if isinstance(manifest, dict) and manifest.get("made_by") == _MAKER else None
    if not isinstance(entries, dict) or not all(
        Path(name).name == name and name not in {"", ".", "..", MANIFEST} and isinstance(digests, list)
        for name, digests in entries.items()
    ):
        raise InputError(f"{path} is not a manifest of --copy-best.", next_step="Choose a new or empty folder.")
    return {name: [str(digest) for digest in digests] for name, digests in entries.items()}

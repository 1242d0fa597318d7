"""The jobs that judge many edits: score, rank, filter and make preference pairs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rewardharness.bulk.config import (
    DatasetOutput,
    FilterConfig,
    PreferencePairsConfig,
    RankConfig,
    ScoreConfig,
)
from rewardharness.bulk.edits_job import EditsJob, all_rewards, read_edits, read_examples
from rewardharness.bulk.filtering import check_copies, copy_best, count, decide_all, write_decisions
from rewardharness.bulk.preference_data import (
    build,
    check_folder,
    repeated_scores,
    without_duplicates,
)
from rewardharness.bulk.samples import is_samples, one_by_one
from rewardharness.data.export import push_dataset
from rewardharness.data.source import Dataset
from rewardharness.errors import InputError
from rewardharness.files import content_id, write_text
from rewardharness.garbage import collection_paused
from rewardharness.judging.ranking import CandidateReward, Method, best
from rewardharness.judging.report import make_report, report_json
from rewardharness.judgments import judgment_from_json
from rewardharness.library.evolved import caution, data_digests
from rewardharness.runs.job import Progress
from rewardharness.runs.results import Results
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Agreement, Example, Json, Judgment
from rewardharness.settings import Settings
from rewardharness.tracking.run import score_numbers

_PAIRS_OUTCOME = ("rules", "edits", "candidates", "candidates_judged", "pairs", "dropped", "duplicates_left_out")


@dataclass(frozen=True)
class ScoreResult:
    """Result of judging a dataset."""

    judged: Sequence[tuple[Example, Judgment]]
    """The examples with their judgments, without chains and reasons, which are in the file of `results`."""
    report: Agreement
    """Agreement with the labels."""
    results: Path
    """File with one line per example."""


@dataclass(frozen=True)
class ScoreJob(EditsJob[ScoreResult]):
    """Judges each example of a dataset; with labels, reports agreement per kind of label."""

    name: ClassVar[str] = "score"

    @classmethod
    def read(cls, config: ScoreConfig, settings: Settings, progress: Progress | None) -> tuple[Dataset, dict[str, int]]:
        """Read the examples."""
        dataset = read_examples(config, settings, progress)
        return dataset, {"skipped_rows": len(dataset.skipped)}

    @property
    def details(self) -> Json:
        """Whether ties are allowed, and the number of skipped rows."""
        release = self.opened.release
        skipped = self.counts["skipped_rows"]
        ties = release.settings["ties"] if release else self.config.ties
        critique = {"critique": True} if self.config.critique else {}
        return {"ties": ties, **({"skipped_rows": skipped} if skipped else {}), **critique}

    @property
    def caution(self) -> str:
        """Warning that the Library of the judge was evolved on the same data; empty otherwise."""
        _, library, release = self.opened
        digests = data_digests(library.lineage) | (release.evolved_on if release else frozenset())
        if self.dataset.digest not in digests or not self.judge.traits.uses_library:
            return ""
        return caution(f"The Library {f'of release {release.id[:12]}' if release else library.id[:12]}")

    def conclude(self, results: Results) -> ScoreResult:
        """Make the result of the run from its judgments."""
        judged = self._judged(results)
        report = make_report(judged, skipped=len(self.dataset.skipped))
        return ScoreResult(judged, report, self.folder / RESULTS)

    def numbers(self, result: ScoreResult) -> dict[str, float]:
        """Return the agreement with the labels."""
        return score_numbers(report_json(result.report))

    @collection_paused()
    def _judged(self, results: Results) -> list[tuple[Example, Judgment]]:
        return [(example, results.judgment(example.id)) for example in self.dataset.examples]


@dataclass(frozen=True)
class RankResult:
    """Result of ranking candidates."""

    edits: Sequence[Json]
    """One record per edit: `id`, `best` (names of the best candidates), `reward`, and `candidates` from best to
    worst, those without a reward last."""
    ranking: Path
    """File with the same records."""

    @property
    def n_not_judged(self) -> int:
        """Number of candidates without a reward."""
        return sum(candidate["reward"] is None for edit in self.edits for candidate in edit["candidates"])


@dataclass(frozen=True)
class RankJob(EditsJob[RankResult]):
    """Ranks the candidates of each edit."""

    name: ClassVar[str] = "rank"

    @classmethod
    def check(cls, config: RankConfig) -> None:
        """Check the folder of the copies."""
        if config.copy_best is not None:
            _check_writable(config.copy_best / "best")
            check_copies(config.copy_best)

    @classmethod
    def read(cls, config: RankConfig, settings: Settings, progress: Progress | None) -> tuple[Dataset, dict[str, int]]:
        """Read the edits."""
        return read_edits(config, settings, progress), {}

    @property
    def method(self) -> Method:
        """How the candidates of an edit are compared."""
        method: Method = self.config.method
        return method

    @property
    def details(self) -> Json:
        """The method."""
        return {"method": self.method}

    def conclude(self, results: Results) -> RankResult:
        """Make the result of the run from its judgments."""
        examples = self.dataset.examples
        edits = [_ranked(*ranked) for ranked in all_rewards(examples, self.method, results)]
        ranking = self.folder / "ranking.jsonl"
        write_text(ranking, "".join(json.dumps(edit, ensure_ascii=False) + "\n" for edit in edits))
        self.save_outcome({"best": {edit["id"]: edit["best"] for edit in edits}})
        if self.config.copy_best is not None:
            best = _best_files(examples, edits)
            chosen = {name: Path(about["original"]) for name, about in best.items()}
            copy_best(chosen, self.config.copy_best, best)
        return RankResult(edits, ranking)


@dataclass(frozen=True)
class FilterResult:
    """Result of filtering a dataset."""

    n: int
    """Number of edits and skipped rows."""
    kept: int
    reasons: Mapping[str, int]
    """Number of edits by reason."""
    commit: str | None
    """Commit on the Hub; None if the result was not published."""


@dataclass(frozen=True)
class FilterJob(EditsJob[FilterResult]):
    """Judges a dataset and keeps the edits that meet the conditions."""

    name: ClassVar[str] = "filter"

    @classmethod
    def check(cls, config: FilterConfig) -> None:
        """Check the output file."""
        _check_writable(config.output)

    @classmethod
    def read(
        cls, config: FilterConfig, settings: Settings, progress: Progress | None
    ) -> tuple[Dataset, dict[str, int]]:
        """Read the examples, or each candidate as an edit of its own."""
        if config.single:
            return one_by_one(read_edits(config, settings, progress)), {}
        if is_samples(config.data):
            raise InputError(
                f"{config.data} holds samples, a folder for each edit, and no pairs or groups.",
                next_step="Add --single: each candidate is then an edit of its own.",
            )
        return read_examples(config, settings, progress), {}

    @property
    def details(self) -> Json:
        """Whether ties are allowed."""
        return {"ties": self.config.ties}

    def conclude(self, results: Results) -> FilterResult:
        """Make the result of the run from its judgments."""
        config = self.config
        output, skipped = config.output, len(self.dataset.skipped)
        judged = [(edit, judgment_from_json(results[edit.id], steps=False)) for edit in self.dataset.examples]
        decided = decide_all(judged, config)
        kept = [decision for decision in decided if decision.keep]
        write_decisions(output, decided if self.config.everything else kept, self.opened.identity)
        reasons = count(decided, skipped=skipped)
        self.save_outcome({"reasons": reasons, "decided": {decision.example.id: decision.code for decision in decided}})
        commit = _push(self.config, self.settings, output.parent, [output], "Filtered edits")
        return FilterResult(len(decided) + skipped, len(kept), reasons, commit)


@dataclass(frozen=True)
class PairsResult:
    """Result of making preference pairs."""

    manifest: Json
    """Content of `manifest.json`."""
    commit: str | None
    """Commit on the Hub; None if the result was not published."""


@dataclass(frozen=True)
class PairsJob(EditsJob[PairsResult]):
    """Makes preference pairs for training a reward model."""

    name: ClassVar[str] = "pairs"

    @classmethod
    def check(cls, config: PreferencePairsConfig) -> None:
        """Check the output folder."""
        check_folder(config.output)

    @classmethod
    def read(
        cls, config: PreferencePairsConfig, settings: Settings, progress: Progress | None
    ) -> tuple[Dataset, dict[str, int]]:
        """Read the edits without duplicate candidates."""
        dataset, duplicates = without_duplicates(read_edits(config, settings, progress))
        return dataset, {"duplicates_left_out": duplicates}

    @property
    def method(self) -> Method:
        """Each candidate is judged alone."""
        return "score"

    @property
    def details(self) -> Json:
        """The number of judgments per candidate."""
        return {"repeats": self.config.repeats}

    @property
    def gate(self) -> str:
        """How the spread of the rewards decides on a pair, in one sentence."""
        if len(self.judges) == 1:
            return "The judge answers the same every time, so each candidate was judged once and no spread is known."
        spread = self.config.spread
        return f"The difference also exceeds {spread:g} times the standard deviations of both together."

    def conclude(self, results: Results) -> PairsResult:
        """Make the result of the run from its judgments."""
        dataset, config, output = self.dataset, self.config, self.config.output
        made_by = {
            "name": dataset.name,
            "samples": dataset.digest,
            **self.counts,
            **({"skipped_rows": dataset.skipped_json()} if dataset.skipped else {}),
            **self.opened.identity.to_json(),
            "gate": self.gate,
        }
        scores = repeated_scores(dataset, results, list(self.judges))
        rules = replace(config, repeats=len(self.judges))
        manifest = build(dataset, scores, rules, made_by, output)
        self.save_outcome({name: manifest[name] for name in _PAIRS_OUTCOME})
        made = [output / name for name in (*manifest["files"], "manifest.json")]
        return PairsResult(manifest, _push(self.config, self.settings, output, made, "Preference pairs"))


def _check_writable(file: Path) -> None:
    """Check that a file can be created."""
    folder = next(parent for parent in (file.parent, *file.parent.absolute().parents) if parent.exists())
    if file.is_dir() or not folder.is_dir():
        problem = f"{file} is a folder" if file.is_dir() else f"{folder} is not a folder"
        raise InputError(f"{file} cannot be written: {problem}.", next_step="Choose another output.")


def _ranked(example: Example, rewards: Sequence[CandidateReward]) -> Json:
    """Return the record of one edit."""
    order = sorted(
        rewards, key=lambda candidate: (candidate.reward is None, -(candidate.reward or 0.0), candidate.index)
    )
    first = best(tuple(rewards))
    return {
        "id": example.id,
        "best": [example.candidates[index].name for index in first],
        "reward": rewards[first[0]].reward if first else None,
        "candidates": [
            {
                "index": candidate.index,
                "name": example.candidates[candidate.index].name,
                "reward": candidate.reward,
                "judged": candidate.judged,
                "of": candidate.of,
                "reason": None
                if candidate.failure is None
                else f"{candidate.failure.code}: {candidate.failure.message}",
            }
            for candidate in order
        ],
    }


def _best_files(examples: Sequence[Example], edits: Sequence[Json]) -> dict[str, Json]:
    """Return edit, original file and reward of each best candidate by the name of its copy; the first of equal ones."""
    chosen: dict[str, Json] = {}
    for example, edit in zip(examples, edits, strict=True):
        if not edit["best"]:
            continue
        winner = next(candidate for candidate in edit["candidates"] if candidate["name"] in edit["best"])
        image = example.candidates[winner["index"]]
        assert image.path is not None  # images of samples are files
        plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in example.id)[:80].strip(".")
        name = plain if plain == example.id else f"{plain}-{content_id(example.id)[:8]}"
        about = {"edit": example.id, "original": str(image.path), "reward": edit["reward"]}
        chosen[f"{name}{image.path.suffix}"] = about
    return chosen


def _push(config: DatasetOutput, settings: Settings, folder: Path, files: Sequence[Path], message: str) -> str | None:
    """Publish files if requested; return the commit."""
    if not config.push:
        return None
    uploads = {path.relative_to(folder).as_posix(): path for path in files}
    return push_dataset(config.push, uploads, settings, private=config.private, message=message)

"""The output folder of a dataset of any size: one Parquet file per part, each complete or absent.

    manifest.json                 data, judge and parts; written once
    judged/part-000012.parquet    the judged rows, by row number
    failed/part-000012.parquet    rows that were not judged, with their reasons; only if there are any
    done/part-000012.json         counts and checksums; written last, so a part without it is judged again
    running/1-of-4.lock           locked while a process judges this share of the parts
    running/1-of-4.spent.json     what this share has spent, for its budget

The rows depend on data and judge only, so judging a part twice, here or on another machine, writes the same bytes.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from rewardharness.codec import Count, Sha256, ValidationError, from_json, to_json
from rewardharness.data.export import Kind, write_parquet
from rewardharness.data.hf_datasets import parquet_groups, parquet_rows
from rewardharness.errors import DataError, InputError, RunError
from rewardharness.files import OUTPUT_MANIFEST, hold, is_held, read_json, sha256_file, write_json
from rewardharness.judging.report import add_reports, make_report
from rewardharness.schema import Agreement, Example, Json, Judgment

JUDGED: Mapping[str, Kind] = {
    "row": "int",
    "id": "text",
    "preference": "text",
    "label": "text",
    "label_kind": "text",
    "category": "text",
    "margin": "float",
    "confidence": "float",
    "rewards": "floats",
    "instruction_scores": "floats",
    "quality_scores": "floats",
    "inconsistent": "bool",
    "position_consistent": "bool",
    "reasons": "texts",
    "judge": "text",
    "protocol": "text",
    "library_id": "text",
}
"""Columns of judged rows. `row` counts from 0; `label` is the label of the data; scores are 1 to 4, rewards 0 to 1."""

FAILED: Mapping[str, Kind] = {"row": "int", "id": "text", "code": "text", "message": "text"}
"""Columns of rows that were not judged."""

FORMAT = 1
MAX_GROUP = 256 << 20
"""Maximum uncompressed size of a row group of a part, in bytes."""
_REPORTS = ("report", "failed_report")

REPAIR = "Delete the file of the part in done/, then repeat the command that judged the data."
"""What to do about a part that was changed."""

_ASKED = {
    "data": "data",
    "digest": "content of the data or columns",
    "parts": "rows and parts (--limit, --part-rows)",
    "judge": "judge (--judge)",
    "judge_revision": "revision of the judge",
    "protocol": "protocol (--protocol)",
    "library_id": "Library (--library)",
    "release": "release (--release)",
}
"""What the user has set, by key of the manifest."""


@dataclass(frozen=True)
class PartResult:
    """The rows of one part, by row number."""

    number: int
    """Number of the part."""
    judged: tuple[Json, ...]
    failed: tuple[Json, ...]
    report: Agreement
    """Agreement of the judged rows."""
    failed_report: Agreement
    """Agreement of the other rows."""


@dataclass(frozen=True)
class Status:
    """Progress of an output folder."""

    parts: int
    parts_done: int
    rows: int
    rows_done: int
    failed: int
    """Rows that were not judged."""
    running: tuple[str, ...]
    """Shares of the parts that processes are judging, such as `1-of-4`."""
    seconds_left: float | None
    """Estimate from the parts that were finished in the last hour; None without two of them."""
    report: Agreement

    @property
    def complete(self) -> bool:
        """Whether all parts are done."""
        return self.parts_done == self.parts


@dataclass(frozen=True)
class _Done:
    """The record of a complete part."""

    number: Count
    finished: float
    report: Agreement
    failed_report: Agreement
    judged: Count
    failed: Count
    judged_sha256: Sha256 | None = None
    failed_sha256: Sha256 | None = None


def _consecutive(parts: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts, as first row and number of rows, begin at 0 and follow each other."""
    return all(first == sum(before) for before, (first, _) in zip([(0, 0), *parts], parts, strict=False))


class ShardStore:
    """An output folder.

    Args:
        folder: The folder; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self) -> Json:
        """Return the manifest.

        Raises:
            RunError: If the folder has none.
        """
        file = self.folder / OUTPUT_MANIFEST
        if not self.folder.exists():
            raise RunError(f"{self.folder} does not exist.", next_step="Name the output folder of rh score.")
        if not file.is_file():
            raise RunError(f"{self.folder} is not an output folder of rh score.", next_step="Choose another folder.")
        for name in ("judged", "failed", "done", "running", OUTPUT_MANIFEST):
            if (self.folder / name).is_symlink():
                message = f"{self.folder / name} is a link, and nothing below an output folder is read through links."
                raise RunError(message, next_step="Copy what it points to into the folder.")
        manifest = read_json(file)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise RunError(f"{file} is of another version.", next_step="Use the version that wrote it.")
        problem = ""
        try:
            if not _consecutive(from_json(list[tuple[Count, Count]], manifest.get("parts"))):
                problem = "its parts are not consecutive rows"
        except ValidationError as error:
            problem = f"its parts are not valid ({error.message})"
        if problem:
            raise RunError(f"{file} is damaged: {problem}.", next_step="Restore it, or start over in another folder.")
        return manifest

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, or check that the folder has the same one.

        Raises:
            RunError: If the folder holds other files or another run.
        """
        if not self.check(manifest):
            write_json(self.folder / OUTPUT_MANIFEST, {"format": FORMAT, **manifest})

    def check(self, manifest: Mapping[str, Any]) -> bool:
        """Check that a run can begin or continue here. Nothing is written.

        Returns:
            Whether the folder has this manifest already.

        Raises:
            RunError: If the folder holds other files or another run.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder} is a file.", next_step="Name a new or empty folder.")
        if not (self.folder / OUTPUT_MANIFEST).exists():
            foreign = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
            if foreign:
                message = f"{self.folder} holds other files ({', '.join(foreign[:3])})."
                raise RunError(message, next_step="Choose a new or empty folder.")
            return False
        stored, new = self.manifest(), {"format": FORMAT, **manifest}
        differing = [key for key in {**stored, **new} if stored.get(key) != new.get(key)]
        if differing and (self.done() or self._running()):
            there = "; ".join(_difference(key, stored.get(key), new.get(key)) for key in differing)
            step = "Repeat the options of the run that is there, or choose another output folder."
            raise RunError(f"{self.folder} holds the results of another run. {there}.", next_step=step)
        return not differing

    @contextmanager
    def share(self, index: int, count: int) -> Iterator[Path]:
        """Lock a share of the parts for this process; the value is the file with what it has spent.

        Raises:
            RunError: If another process judges it.
        """
        try:
            handle = hold(self.folder / "running" / f"{index}-of-{count}.lock")
        except BlockingIOError:
            message = f"Another process judges share {index} of {count} of {self.folder}."
            raise RunError(message, next_step="Wait for it, or stop it.") from None
        try:
            yield self.folder / "running" / f"{index}-of-{count}.spent.json"
        finally:
            os.close(handle)

    def done(self) -> dict[int, Json]:
        """Return the records of the complete parts by number."""
        records: dict[int, Json] = {}
        for path in sorted((self.folder / "done").glob("part-*.json")):
            with suppress(DataError, ValidationError):  # a damaged record: its part is not done
                record = from_json(_Done, None if path.is_symlink() else read_json(path))
                if path == self._path("done", record.number):
                    records[record.number] = to_json(record)
        return records

    def write(self, result: PartResult) -> None:
        """Write the rows of a part. The part is complete, or absent.

        Raises:
            DataError: If the disk is full.
        """
        record: Json = {"number": result.number, "finished": round(time.time(), 3)}
        record |= {"report": to_json(result.report), "failed_report": to_json(result.failed_report)}
        for name, columns, rows in (("judged", JUDGED, result.judged), ("failed", FAILED, result.failed)):
            path = self._path(name, result.number)
            record[name] = len(rows)
            if not rows and name == "failed":
                path.unlink(missing_ok=True)
                continue
            write_parquet(path, columns, rows)
            record[f"{name}_sha256"] = sha256_file(path)
        write_json(self._path("done", result.number), record)

    def rows(self, name: str, number: int) -> Iterator[Json]:
        """Read the rows of a part; `name` is `judged` or `failed`."""
        path = self._path(name, number)
        if path.is_file() and not path.is_symlink():
            groups = range(len(parquet_groups(path, str(path), MAX_GROUP)[1]))
            yield from (dict(row) for row in parquet_rows(path, str(path), groups))

    def first_failed(self) -> Json | None:
        """Return the first row that was not judged, as an example; None if there is none."""
        first = min((self.folder / "failed").glob("part-*.parquet"), default=None)
        return None if first is None else next(self.rows("failed", int(first.stem.removeprefix("part-"))), None)

    def report(self, number: int) -> Agreement:
        """Return the report of the judged rows of a complete part."""
        return _report(read_json(self._path("done", number)), "report")

    def status(self) -> Status:
        """Return the progress of the folder."""
        counts, done = [count for _, count in self.manifest()["parts"]], self.done()
        rows_done = sum(counts[number] for number in done if number < len(counts))
        reports = (_report(record, name) for record in done.values() for name in _REPORTS)
        return Status(
            len(counts),
            len(done),
            sum(counts),
            rows_done,
            sum(record["failed"] for record in done.values()),
            self._running(),
            _seconds_left(done.values(), counts, sum(counts) - rows_done),
            reduce(add_reports, reports, make_report([])),
        )

    def _running(self) -> tuple[str, ...]:
        """Return the shares that processes are judging."""
        return tuple(path.stem for path in sorted((self.folder / "running").glob("*.lock")) if is_held(path))

    def problems(self) -> list[str]:
        """Compare all files with the manifest. Returns one sentence per problem, none if everything is complete."""
        manifest, done = self.manifest(), self.done()
        problems = [f"Part {number} is missing." for number in range(len(manifest["parts"])) if number not in done]
        for number, record in sorted(done.items()):
            problems += self._problems(number, record, manifest["parts"])
        return problems

    def merge(self, output: Path, *, partial: bool = False, replace: bool = False) -> tuple[int, int]:
        """Write all judged rows to one Parquet file, in the order of the data.

        Args:
            output: The file. Rows that were not judged are written beside it, with `.failed` before the extension.
            partial: Merge the complete parts if some are missing.
            replace: Replace existing files.

        Returns:
            Number of judged rows, and of rows that were not judged.

        Raises:
            InputError: If the file has another extension than `.parquet`, is inside this folder, or exists.
            RunError: If parts are missing and `partial` is false, or a part was changed.
            DataError: If a part cannot be read, or the disk is full.
        """
        parts, done = self.manifest()["parts"], self.done()
        beside = output.with_name(f"{output.stem}.failed{output.suffix}")
        self._check_output(output, beside, replace)
        if len(done) < len(parts) and not partial:
            message = f"{len(parts) - len(done)} of {len(parts)} parts are missing."
            raise RunError(message, next_step="Finish the run, or merge the complete parts with --partial.")
        for number, record in sorted(done.items()):
            if changed := self._changed(number, record):
                raise RunError(changed, next_step=REPAIR)
        counts = []
        for path, name, columns in ((output, "judged", JUDGED), (beside, "failed", FAILED)):
            rows = (row for number in sorted(done) for row in self.rows(name, number))
            counts.append(write_parquet(path, columns, rows))
        if not counts[1]:
            beside.unlink()
        return counts[0], counts[1]

    def _check_output(self, output: Path, beside: Path, replace: bool) -> None:
        """Check that merged rows replace nothing that was not meant."""
        if output.suffix.lower() != ".parquet":
            message = f"{output} is no Parquet file by its extension, and rows are merged to Parquet."
            raise InputError(message, next_step=f"Name it {output.name}.parquet, for example.")
        if output.resolve().is_relative_to(self.folder.resolve()):
            raise InputError(f"{output} is inside the output folder.", next_step="Name a file elsewhere.")
        there = next((path for path in (output, beside) if path.exists()), None)
        if there is not None and (there.is_dir() or not replace):
            step = "Name another file." if there.is_dir() else "Name another file, or replace it with --yes."
            raise InputError(f"{there} exists.", next_step=step)

    def _problems(self, number: int, record: Json, parts: Sequence[Sequence[int]]) -> list[str]:
        if number >= len(parts):
            return [f"Part {number} is not part of the data."]
        first, count = parts[number]
        problem = f"Part {number} does not have each of the rows {first} to {first + count - 1} once."
        try:
            if changed := self._changed(number, record):
                return [changed]
            if record["judged"] + record["failed"] != count:  # counts first: a small file can have any number of rows
                return [problem]
            rows = sorted(row["row"] for name in ("judged", "failed") for row in self.rows(name, number))
        except (DataError, KeyError, TypeError) as error:
            return [error.message if isinstance(error, DataError) else problem]
        return [] if all(row == place for place, row in enumerate(rows, first)) else [problem]

    def _changed(self, number: int, record: Json) -> str:
        """Return which file of a part is not as it was written; empty if all are."""
        for name in ("judged", "failed"):
            path, expected = self._path(name, number), record.get(f"{name}_sha256")
            if path.is_symlink() or (expected is not None and (not path.is_file() or sha256_file(path) != expected)):
                return f"{path} {'is a link' if path.is_symlink() else 'is missing or was changed'}."
            if path.is_file() and sum(parquet_groups(path, str(path), MAX_GROUP)[1]) != record[name]:
                return f"{path} does not have {record[name]} rows."
        return ""

    def _path(self, name: str, number: int) -> Path:
        return self.folder / name / f"part-{number:06d}.{'json' if name == 'done' else 'parquet'}"


def judged_row(number: int, example: Example, judgment: Judgment) -> Json:
    """Return the row of a judgment with a preference or a score; the same for every run."""
    scores = [judgment.scores[label] for label in example.labels if label in judgment.scores]
    same = ("margin", "confidence", "inconsistent", "position_consistent", "judge", "protocol", "library_id")
    return {
        "row": number,
        "id": example.id,
        "preference": None if judgment.inconsistent else judgment.preference,
        "label": example.preference,
        "label_kind": example.label_kind,
        "category": example.category,
        "rewards": [score.reward for score in scores],
        "instruction_scores": [score.instruction for score in scores],
        "quality_scores": [score.quality for score in scores],
        "reasons": list(judgment.reasons),
        **{name: getattr(judgment, name) for name in same},
    }


def _report(record: Json, name: str) -> Agreement:
    return from_json(Agreement, record[name])


def _seconds_left(done: Iterable[Json], counts: Sequence[int], rows_left: int) -> float | None:
    latest = sorted((record["finished"], counts[record["number"]]) for record in done if record["number"] < len(counts))
    recent = [part for part in latest if part[0] >= latest[-1][0] - 3600]
    if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
        return None
    return float(rows_left * (recent[-1][0] - recent[0][0]) / sum(count for _, count in recent[1:]))


def _difference(key: str, before: Any, now: Any) -> str:
    """Say how a run differs from the one whose results are there."""

    def shown(value: Any) -> str:
        if key == "parts" and isinstance(value, list):
            return f"{sum(count for _, count in value)} rows in {len(value)} part{'s' * (len(value) != 1)}"
        if value is None:
            return "none"
        return str(value)[:60] if key in {"data", "judge", "protocol"} else str(value)[:12]  # of hashes the beginning

    return f"Different {_ASKED.get(key, key)}: {shown(before)} there, {shown(now)} now"

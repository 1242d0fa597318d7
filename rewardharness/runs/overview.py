"""Status of a run of any kind, read from its manifest and its record."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rewardharness.runs.records import RECORD, read_record
from rewardharness.runs.store import is_running, read_manifest

Status = Literal["running", "finished", "stopped", "paused", "interrupted", "failed", "unknown"]
"""Status of a run. `interrupted` includes a killed process; `unknown` means that the run has no record."""

_STATUSES: Mapping[str | None, Status] = {
    "done": "finished",
    "stopped": "stopped",
    "paused": "paused",
    "interrupted": "interrupted",
    "failed": "failed",
}


@dataclass(frozen=True)
class Overview:
    """Summary of a run of any kind."""

    folder: Path
    kind: str
    """Command that started the run."""
    condition: Status
    reason: str
    """Why the latest session failed or paused; empty otherwise."""
    command: tuple[str, ...]
    """Words after `rh` in the latest session, with secrets masked; empty without a record."""
    where: str
    """Working directory of the command."""
    begun: str | None
    """Start of the run, as ISO 8601."""
    ended: str | None
    """End of the latest session; None while it runs, or when its process was killed."""
    sessions: int
    manifest: dict[str, Any]
    """Manifest of the run."""
    given: str = ""
    """Data as named on the command line; empty without a record."""

    @property
    def data(self) -> str:
        """Benchmark task, name of the data, or digest of the data."""
        about = self.manifest
        return str(about.get("task") or about.get("data_name") or self.given or about.get("data") or "")

    @property
    def judge(self) -> str:
        """Name of the judge."""
        return str(self.manifest.get("judge") or self.manifest.get("judge_name") or "")


def read_overview(folder: Path, manifest: dict[str, Any] | None = None) -> Overview:
    """Read the status of a run. A run without a record is `running` or `unknown`.

    Args:
        folder: The run folder.
        manifest: Its manifest, if it is read already.

    Raises:
        RunError: If the folder holds no run, or its record is damaged.
        DataError: If the manifest or the record is not valid JSON.
    """
    manifest = read_manifest(folder) if manifest is None else manifest
    record: Mapping[str, Any] = read_record(folder) if (folder / RECORD).is_file() else {}
    sessions = record.get("sessions", [])
    last = sessions[-1] if sessions else {}
    condition = _STATUSES.get(last.get("condition"), "interrupted") if last else "unknown"
    return Overview(
        folder=folder,
        kind=str(manifest.get("command") or "unknown"),
        condition="running" if is_running(folder) else condition,
        reason=str(last.get("reason") or ""),
        command=tuple(last.get("words", ())),
        where=str(last.get("folder") or ""),
        begun=record.get("created"),
        ended=last.get("ended"),
        sessions=len(sessions),
        manifest=manifest,
        given=_given(last),
    )


def _given(session: Mapping[str, Any]) -> str:
    """Return the data argument of a session; for an absolute path, its last part."""
    data = str(session.get("arguments", {}).get("data") or "")
    return Path(data).name if Path(data).is_absolute() else data

"""How a run of any kind stands: read from its manifest and its record, without knowing what its command does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rewardharness.runs.records import RECORD, read_record
from rewardharness.runs.store import is_running, read_manifest

Standing = Literal["running", "finished", "stopped", "paused", "interrupted", "failed", "unknown"]
"""As `records.Condition`, in the words for evolutions; a process that was killed is `interrupted`. `unknown`: no
record tells."""

_STANDINGS: Mapping[str | None, Standing] = {
    "done": "finished",
    "stopped": "stopped",
    "paused": "paused",
    "interrupted": "interrupted",
    "failed": "failed",
}


@dataclass(frozen=True)
class Overview:
    """A run of any kind."""

    folder: Path
    kind: str
    """The command that it is a run of."""
    condition: Standing
    reason: str
    """Why its latest sitting failed or paused; empty when it did not."""
    command: tuple[str, ...]
    """The words after `rh`, of the latest sitting; none where no record tells. Secrets in them are masked."""
    where: str
    """The folder that the command was given in."""
    begun: str | None
    """When, as ISO 8601."""
    ended: str | None
    """When its latest sitting ended; None while it runs, or when its process was killed."""
    sittings: int
    manifest: dict[str, Any]
    """What it is about."""
    given: str = ""
    """The data as the command named them; empty where no record tells."""

    @property
    def data(self) -> str:
        """What it judges: a benchmark's task, else the data by their name, else their digest."""
        about = self.manifest
        return str(about.get("task") or about.get("data_name") or self.given or about.get("data") or "")

    @property
    def judge(self) -> str:
        """Who judges."""
        return str(self.manifest.get("judge") or self.manifest.get("judge_name") or "")


def read_overview(folder: Path) -> Overview:
    """Read how a run stands. A run whose process never came to write a record is one too.

    Raises:
        RunError: If the folder holds no run, or its record is damaged.
        DataError: If a file of it is no JSON.
    """
    manifest = read_manifest(folder)
    record: Mapping[str, Any] = read_record(folder) if (folder / RECORD).is_file() else {}
    sittings = record.get("sittings", [])
    last = sittings[-1] if sittings else {}
    condition = _STANDINGS.get(last.get("condition"), "interrupted") if last else "unknown"
    return Overview(
        folder=folder,
        kind=str(manifest.get("command") or "unknown"),
        condition="running" if is_running(folder) else condition,
        reason=str(last.get("reason") or ""),
        command=tuple(last.get("words", ())),
        where=str(last.get("folder") or ""),
        begun=record.get("created"),
        ended=last.get("ended"),
        sittings=len(sittings),
        manifest=manifest,
        given=_given(last),
    )


def _given(sitting: Mapping[str, Any]) -> str:
    """The data that a sitting was asked to judge; of a path its last part."""
    told = str(sitting.get("arguments", {}).get("data") or "")
    return Path(told).name if Path(told).is_absolute() else told

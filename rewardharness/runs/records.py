"""The record of a run: how it was asked for, by which code, on what, when, and how each sitting ended.

`record.json` lies in the run folder. It is written when a run begins, completed when it ends, and a run that goes on
adds a sitting to it. A command keeps it with one line:

    with RunFolder(folder, manifest, restart=arguments.restart, record=record_run(vars(arguments), settings)) as run:

Secrets are not kept: keys of the settings, and whatever looks like one, become `…`, as do users, passwords and queries
in addresses. Folders are kept as they are, names in them included; look at a record before you publish it.
"""

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rewardharness.errors import RunError, describe
from rewardharness.files import read_json, write_json
from rewardharness.leaks import masked
from rewardharness.runs.surroundings import surroundings
from rewardharness.settings import Settings

RECORD = "record.json"
SCHEMA = 1
MASK = "…"
"""Stands for what is not kept."""

Condition = Literal["done", "stopped", "paused", "interrupted", "failed", "killed"]
"""How a sitting ended. `stopped`: somebody asked for it; `paused`: trouble, and the same command goes on;
`interrupted`: Ctrl-C; `killed`: the process ended without a word, as after `kill -9`."""

_NO_ARGUMENTS = frozenset({"words", "judge_from_settings", "replays"})
_SITTING = {"words": list, "arguments": dict, "folder": str, "package": dict}
_USER = re.compile(r"(?<=://)[^\s,]*@")
_QUERY = re.compile(r"(?<=[?&#])([^=\s&#,]*)=[^\s&#,]*")


@dataclass
class Recording:
    """What a run folder writes to its `record.json`. Made by `record_run`."""

    command: str
    """The first word of the command line; the manifest may have a better name for it."""
    sitting: dict[str, Any]
    """What is known of this sitting before it begins."""
    also: dict[str, Any] = field(default_factory=dict)
    """What else the record says of the run, such as what it replays."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must not be kept, wherever it stands."""
    _record: dict[str, Any] = field(default_factory=dict, repr=False)

    def begin(self, folder: Path, manifest: Mapping[str, Any], *, resumed: bool) -> None:
        """Write what is known. The caller holds the folder.

        Raises:
            RunError: If there is a record that cannot be gone on with.
        """
        path = folder / RECORD
        now = _now()
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "command": manifest.get("command", self.command),
            "created": now,
            "whole": not resumed,
            "about": dict(manifest),
            **self.also,
            "sittings": [],
        }
        if path.exists():
            record = read_record(folder)
            for sitting in record["sittings"]:
                if sitting["ended"] is None:  # nobody else holds the folder, so that process is no more
                    sitting["condition"] = "killed"
        sitting = {"started": now, "ended": None, "condition": None, "reason": "", **self.sitting}
        self._record = {**record, "sittings": [*record["sittings"], sitting]}
        write_json(path, self._record)

    def end(self, folder: Path, error: BaseException | None) -> None:
        """Write how it ended. When it ended with an error, that must not be hidden by another one."""
        last = self._record["sittings"][-1]
        last["ended"], last["condition"] = _now(), condition_of(error)
        plain = error is None or last["condition"] in {"stopped", "interrupted"}
        last["reason"] = "" if plain or error is None else _masked(describe(error).detail, self.secrets)
        with suppress(OSError) if error is not None else nullcontext():
            write_json(folder / RECORD, self._record)


def record_run(arguments: Mapping[str, Any], settings: Settings, **resolved: Any) -> Recording:
    """Say how a run was asked for, for the record in its folder.

    Args:
        arguments: Of the command, as parsed; `words` are those that were given, `replays` says what it replays.
        settings: Those of the process; their secrets are not kept, wherever they stand.
        resolved: What the command takes for arguments that are not given, such as `library`.

    Returns:
        What `RunFolder` writes.
    """
    secrets = tuple(
        str(value)
        for each in fields(settings)
        if each.name.endswith(("_key", "_token")) and (value := getattr(settings, each.name))
    )
    known = {name: value for name, value in arguments.items() if name not in _NO_ARGUMENTS and not callable(value)}
    words = [_masked(word, secrets) for word in arguments.get("words", ())]
    folder = Path.cwd()
    return Recording(
        command=words[0] if words else "",
        sitting={
            "words": words,
            "arguments": {name: _plain(value, secrets) for name, value in sorted({**known, **resolved}.items())},
            "folder": str(folder),
            **surroundings(folder),
        },
        also={"replays": arguments["replays"]} if "replays" in arguments else {},
        secrets=secrets,
    )


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a run.

    Raises:
        RunError: If there is none, or it is not one that this version knows.
    """
    path = folder / RECORD
    if not path.is_file():
        raise RunError(
            f"{folder} keeps no record of how it was run.",
            next_step="It was written by an earlier version. Run the command again.",
        )
    found = read_json(path)
    if not isinstance(found, dict) or not _fits(found):
        raise RunError(
            f"{path} is no record of a run that this version knows.",
            next_step="Move it away; the run goes on without what it said.",
        )
    return found


def _fits(record: Mapping[str, Any]) -> bool:
    """Whether a document is a record that this version knows."""
    sittings = record.get("sittings")
    return (
        record.get("schema") == SCHEMA
        and isinstance(record.get("about"), dict)
        and isinstance(record.get("created"), str)
        and isinstance(sittings, list)
        and all(
            isinstance(each, dict)
            and each.keys() >= {"started", "ended", "condition"}
            and all(isinstance(each.get(name), kind) for name, kind in _SITTING.items())
            and all(isinstance(word, str) for word in each["words"])
            for each in sittings
        )
        and bool(sittings)
    )


def condition_of(error: BaseException | None) -> Condition:
    """Say how a sitting ended. An error may name its condition; see `evolution.stop`."""
    if error is None:
        return "done"
    named = getattr(error, "condition", None)
    if named in {"stopped", "paused"}:
        return "stopped" if named == "stopped" else "paused"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"


def _plain(value: Any, secrets: tuple[str, ...]) -> Any:
    """Put an argument into JSON, without secrets."""
    if isinstance(value, str | Path):
        return _masked(str(value), secrets)
    if isinstance(value, list | tuple):
        return [_plain(each, secrets) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each, secrets) for name, each in value.items()}
    return (
        value
        if value is None or isinstance(value, bool | int | float)
        else _masked(json.dumps(value, default=str), secrets)
    )


def _masked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    if "://" in text:
        text = _QUERY.sub(rf"\1={MASK}", _USER.sub(f"{MASK}@", text))
    return masked(text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

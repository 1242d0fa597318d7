"""Deployments: which release is active under a name, as an append-only history and an atomically written pointer.

    RH_HOME/deployments/NAME/releases/ID.json   every release that was deployed there
                             history.jsonl      every deployment and rollback, in order
                             active.json        the record of the active one
                             lock               held while writing

The pointer is written last. A record of a killed process that the pointer never reached was never active; the next
record names its predecessor and so skips it.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rewardharness.codec import Sha256, ValidationError, from_json
from rewardharness.errors import InputError, ReleaseError, shell
from rewardharness.files import (
    append_jsonl,
    hold,
    read_json,
    read_jsonl,
    remove_stale,
    user_path,
    write_json,
    write_once,
)
from rewardharness.judging.release import Release, check_installed
from rewardharness.judging.release_file import load_release, release_text
from rewardharness.settings import Settings

DEPLOYED = "deployed:"
"""Prefix of the name of a deployment, used in place of a release file: `deployed:NAME`."""

Action = Literal["deploy", "rollback"]
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_LEAST = 6
"""Minimum number of digits of an abbreviated id."""


@dataclass(frozen=True)
class DeploymentRecord:
    """One deployment or rollback."""

    number: int
    """Number of the record, from 1."""
    at: str
    """Time in UTC, ISO 8601."""
    action: Action
    release: Sha256
    """Id of the release that became active."""
    judge: str
    protocol: str
    library_id: str
    on: int | None
    """Number of the record that was active before; None for the first."""
    back: Sha256 | None
    """Id of the release that a rollback activates."""


class Deployments:
    """The deployments in a home folder. Reading creates no files.

    Args:
        home: As in `Settings.home`.
    """

    def __init__(self, home: Path) -> None:
        self._root = home / "deployments"

    def targets(self) -> list[str]:
        """Return the names of all deployments."""
        return sorted(file.parent.name for file in self._root.glob("*/active.json"))

    def active(self, target: str) -> DeploymentRecord | None:
        """Return the active record, or None.

        Raises:
            ReleaseError: If the pointer is damaged.
        """
        file = self._folder(target) / "active.json"
        if not file.exists():
            return None
        records = _records([read_json(file)])
        if not records:
            step = f"Deploy again: {shell('rh release deploy FILE --target {}', target)}"
            raise ReleaseError(f"{file} points at nothing.", next_step=step)
        return records[0]

    def release(self, target: str) -> Release:
        """Return the release that is active.

        Raises:
            ReleaseError: If there is none, or its file was changed.
        """
        return self._stored(target, self._active(target).release)

    def history(self, target: str) -> list[DeploymentRecord]:
        """Return all records, oldest first, including those that were never active; see `in_effect`."""
        return _records(line for _, line in read_jsonl(self._folder(target) / "history.jsonl"))

    def in_effect(self, target: str) -> list[DeploymentRecord]:
        """Return the records that were active, oldest first."""
        known = {record.number: record for record in self.history(target)}
        records: list[DeploymentRecord] = []
        record = self.active(target)
        while record is not None and (not records or record.number < records[-1].number):
            records.append(record)
            record = known.get(record.on) if record.on is not None else None
        return records[::-1]

    def deploy(self, target: str, release: Release) -> tuple[DeploymentRecord, bool]:
        """Make a release active under a name, if this installation can reproduce it.

        Returns:
            The active record, and whether it changed.

        Raises:
            InputError: If the name is invalid.
            ReleaseError: If this installation gives other scores, or another process is deploying.
        """
        check_installed(release)
        with self._held(target):
            before = self.active(target)
            if before is not None and before.release == release.id:
                self._stored(target, release.id)
                return before, False
            file = self._file(target, release.id)
            if not write_once(file, release_text(release).encode("utf-8")):
                load_release(file, id=release.id)
            return self._activate(target, "deploy", release, before, before.release if before else None), True

    def rollback(self, target: str, to: str | None = None) -> DeploymentRecord:
        """Make an earlier release active again.

        Without `to`, this is the previously active one; repeated calls go further back.

        Args:
            target: The name.
            to: Id of a release that was deployed there, or its first digits.

        Raises:
            ReleaseError: If there is no such release, or this installation cannot reproduce it.
        """
        with self._held(target):
            before = self._active(target)
            wanted = before.back if to is None else self._find(target, to)
            if wanted in (None, before.release):
                problem = f"Nothing was active as {target!r} before release {before.release[:12]}."
                problem = f"Release {wanted[:12]} is active as {target!r} already." if wanted else problem
                raise ReleaseError(problem, next_step=f"See what was: {shell('rh release deploy --show {}', target)}")
            release = self._stored(target, wanted)
            check_installed(release)
            past = [None, *(record.back for record in self.in_effect(target) if record.release == wanted)]
            return self._activate(target, "rollback", release, before, past[-1])

    def _active(self, target: str) -> DeploymentRecord:
        record = self.active(target)
        if record is None:
            known = ", ".join(self.targets()) or "none"
            step = f"Deployed: {known}. Deploy with: {shell('rh release deploy FILE --target {}', target)}"
            raise ReleaseError(f"Nothing is deployed as {target!r}.", next_step=step)
        return record

    def _activate(
        self, target: str, action: Action, release: Release, before: DeploymentRecord | None, back: str | None
    ) -> DeploymentRecord:
        on = before.number if before else None
        number = max([on or 0, *(record.number for record in self.history(target))]) + 1
        now = datetime.now(UTC).isoformat(timespec="seconds")
        what = release.id, release.judge, release.protocol, release.library.id
        record = DeploymentRecord(number, now, action, *what, on, back)
        append_jsonl(self._folder(target) / "history.jsonl", asdict(record))
        write_json(self._folder(target) / "active.json", asdict(record))
        return record

    def _find(self, target: str, beginning: str) -> str:
        known = sorted(file.stem for file in (self._folder(target) / "releases").glob("*.json"))
        matches = [digest for digest in known if digest.startswith(beginning)] if len(beginning) >= _LEAST else []
        if len(matches) != 1:
            problem = "is the beginning of several" if matches else "is not one"
            raise ReleaseError(
                f"{beginning[:64]!r} {problem} of the releases that were deployed as {target!r}.",
                next_step=f"Give at least {_LEAST} digits of one of: {', '.join(digest[:12] for digest in known)}.",
            )
        return matches[0]

    def _stored(self, target: str, id: str) -> Release:
        return load_release(self._file(target, id), id=id)

    def _file(self, target: str, id: str) -> Path:
        return self._folder(target) / "releases" / f"{id}.json"

    def _folder(self, target: str) -> Path:
        if not _NAME.fullmatch(target):
            step = "Use 1 to 64 lower-case letters, digits, dots, hyphens and underscores, such as `prod`."
            raise InputError(f"{target[:80]!r} cannot be the name of a deployment.", next_step=step)
        return self._root / target

    @contextmanager
    def _held(self, target: str) -> Iterator[None]:
        folder = self._folder(target)
        try:
            handle = hold(folder / "lock")
        except BlockingIOError:
            message = f"Another process is deploying as {target!r}."
            raise ReleaseError(message, next_step="Wait for it, then look: rh release deploy --list") from None
        try:
            for directory in (folder, folder / "releases"):
                remove_stale(directory, age=0)
            yield
        finally:
            os.close(handle)


def find_release(spec: str, settings: Settings) -> Release:
    """Open a release by its specification: a file, or `deployed:NAME`.

    Raises:
        DataError: If there is no such file.
        ReleaseError: If it was changed, or the name has no deployment.
    """
    if spec.startswith(DEPLOYED):
        return Deployments(settings.home).release(spec.removeprefix(DEPLOYED))
    return load_release(user_path(spec))


def _records(values: Iterable[Any]) -> list[DeploymentRecord]:
    """Read records; invalid ones are left out."""
    records = []
    for value in values:
        with suppress(ValidationError):
            records.append(from_json(DeploymentRecord, value))
    return records

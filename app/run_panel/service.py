"""Runs of one job type: preview, start, follow, stop, resume, list. Subclasses add what belongs to the job type.

Visitors may only run what costs nothing, one run at a time, and see only the runs whose names their browser holds.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from app.library.libraries import ANONYMOUS, Visitor
from app.run_panel.following import MAX_FOLLOWERS, F, FollowedRun
from app.run_panel.jobs import NAME, VISITOR, Jobs
from app.run_panel.new_jobs import (
    NO_KEYS,
    NO_OWN_KEYS,
    Keys,
    NewJob,
    PreparedJob,
    expect_remote,
    is_remote,
    keys_of,
    models_of,
    prepare,
    settings_with,
    token_of,
)
from app.score.judges import Judges
from rewardharness.errors import HarnessError, RunError
from rewardharness.files import write_text
from rewardharness.jobs import JobConfig
from rewardharness.runs.store import MANIFEST, find_runs, read_manifest
from rewardharness.schema import Json
from rewardharness.settings import Settings

log = logging.getLogger(__name__)

MAX_LISTED = 60
"""Maximum number of listed runs; the latest ones."""
MAX_PAGES = 20
"""Maximum number of report pages that are kept for download."""

S = TypeVar("S", bound=FollowedRun)


@dataclass(frozen=True)
class Expected:
    """A run that can be started, and its preview."""

    job: PreparedJob
    preview: Mapping[str, Any]
    """The preview: data, judge, cost estimate."""
    owner: str = ""
    """See `Visitor.owner`."""


@dataclass(frozen=True)
class Listed(Generic[S]):
    """A run in the list."""

    status: S
    row: Json = field(default_factory=dict)
    """Figures of its report; empty if there is none."""
    error: str = ""
    """Why the run cannot be read; then the status is unknown."""


class RunService(ABC, Generic[S, F]):
    """Runs of one job type. Holds nothing of any visitor.

    Args:
        settings: The settings.
        scratch: A private folder for files that the browser downloads.
        judges: The available judges.
        local: Whether the users are at this computer.
    """

    job: ClassVar[str]
    """The job type."""
    kind: ClassVar[type[Any]]
    """Class of the followers of its runs."""

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        self.local = local
        self._settings, self._scratch, self._judges = settings, scratch, judges
        self._jobs = Jobs(settings.home, settings.batch_hours)
        self._follower: Callable[[str], F] = lru_cache(MAX_FOLLOWERS)(lambda name: self.kind(name, self._jobs))

    @abstractmethod
    def _preview(self, config: Any, settings: Settings) -> Json:
        """Return what a run would do and cost."""

    def _new_name(self, preview: Mapping[str, Any]) -> str:
        """Return the name of a new run."""
        return self._jobs.new_name(str(preview["data"]))

    def _final_config(self, name: str, expected: Expected) -> JobConfig:
        """Return the configuration of a run that starts now."""
        return expected.job.config

    def _may_see(self, manifest: Json) -> bool:
        """Whether a visitor may see a run whose name they hold."""
        return True

    def _row(self, folder: Path) -> Json:
        """Return the figures of a report that the list shows."""
        return {}

    def expect(self, job: NewJob, visitor: Visitor = ANONYMOUS) -> Expected:
        """Return what a run would do and cost. Nothing is spent.

        Args:
            job: The job as the form describes it.
            visitor: Who pays for a job on the Hub.

        Raises:
            HarnessError: If it cannot be run.
        """
        if job.where.is_remote:
            return Expected(*expect_remote(job, self._settings, visitor, local=self.local))
        prepared = prepare(job, self._judges, self._settings, local=self.local)
        try:
            preview = self._preview(prepared.config, settings_with(self._settings, prepared.environment))
        except HarnessError as error:
            if self.local:
                raise
            log.warning("the run of a visitor cannot start: %s", error.message)
            raise self._public(error, prepared) from None
        return Expected(prepared, preview, visitor.owner)

    def _public(self, error: HarnessError, prepared: PreparedJob) -> HarnessError:
        """Return the error for a visitor; the original message may contain paths."""
        step = "The log of the app contains the reason."
        return RunError("A run cannot be started here at the moment.", next_step=step)

    def start(self, expected: Expected) -> str:
        """Start a run.

        Returns:
            Its name.

        Raises:
            HarnessError: If it cannot start.
        """
        name = self._new_name(expected.preview) if self.local else self._jobs.new_name(None)
        job = expected.job
        config = job.config if job.where.is_remote else self._final_config(name, expected)
        # A job on the Hub takes no time of this computer, so visitors need not wait for each other.
        visitor = None if self.local or job.where.is_remote else expected.owner
        self._jobs.start(name, self.job, config, job.environment, visitor=visitor, remote=job.where.words)
        return name

    def look(self, name: str) -> S:
        """Return the status of a run.

        Raises:
            HarnessError: If there is no such run, the visitor may not see it, or it cannot be read.
        """
        self._check(name)
        status: S = self._follower(name).look()
        # Messages may contain paths of this computer.
        return status if self.local else replace(status, error=None, reason="")

    def stop(self, name: str) -> S:
        """Ask a run to stop after the judgments in progress."""
        self._check(name)
        self._jobs.stop(name)
        return self.look(name)

    def foreign_places(self, name: str) -> list[str]:
        """Return where a run would send data as only its folder says. The runs of visitors are the app's own."""
        return self._jobs.foreign_places(name, self._settings.judge) if self.local else []

    def resume(self, name: str, keys: Keys = NO_KEYS, visitor: Visitor = ANONYMOUS, *, confirmed: bool = False) -> S:
        """Resume a run with its configuration.

        Args:
            name: The run.
            keys: Keys of its models, as typed.
            visitor: Who pays for a job on the Hub.
            confirmed: Whether data may go to `foreign_places`.

        Raises:
            HarnessError: If it cannot be resumed.
        """
        self._check(name)
        if not confirmed and (places := self.foreign_places(name)):
            message = (
                f"The run folder names {', '.join(places)}, which would get your images, and the key if you give one."
            )
            raise RunError(message, next_step="If you trust it, confirm it next to Resume.")
        changes = keys_of(self._jobs.config(name)[1], keys, self._settings) if self.local else NO_OWN_KEYS
        remote = is_remote(self._jobs.folder(name))
        if remote and not self.local:
            changes = token_of(visitor)
        self._jobs.resume(name, changes, None if self.local or remote else visitor.owner)
        return self.look(name)

    def is_resumable(self, name: str) -> bool:
        """Whether a run has a configuration to resume with."""
        try:
            return bool(self._jobs.resume_command(name))
        except HarnessError:
            return False

    def models(self, name: str) -> tuple[str, str]:
        """Return the models of judge and Orchestrator, which may need keys to resume; empty where there is none."""
        try:
            return models_of(self._jobs.config(name)[1], self._settings) if self.local else ("", "")
        except HarnessError:
            return "", ""

    def command(self, name: str) -> str:
        """Return the command that resumes a run, for users at this computer; else empty."""
        return self._jobs.resume_command(name) if self.local and self.is_resumable(name) else ""

    def log(self, name: str) -> str:
        """Return the path of the log of a run, for users at this computer; empty if there is none."""
        path = self._jobs.log(name)
        return str(path) if self.local and path.is_file() else ""

    def runs(self, held: Sequence[str] = ()) -> list[Listed[S]]:
        """Return the runs that a user may open, the latest first.

        Args:
            held: Names that the browser of a visitor holds.
        """
        names = [folder.name for folder in find_runs(self._jobs.runs)] if self.local else held
        listed: list[Listed[S]] = []
        for name in names:
            try:
                self._check(name)
            except (HarnessError, OSError):
                continue
            try:
                listed.append(Listed(self.look(name), self._row(self._jobs.folder(name))))
            except (HarnessError, OSError) as error:
                message = error.message if isinstance(error, HarnessError) else "A file cannot be read."
                listed.append(Listed(self._follower(name).made("failed"), error=message))
            if len(listed) == MAX_LISTED:
                break
        return listed

    def _write_page(self, name: str, page: str) -> Path:
        """Write a report page for download. Older pages are removed."""
        path = self._scratch / f"{self.job}-reports" / name / f"{self.job}-report.html"
        for old in sorted(path.parents[1].glob("*/*.html"), key=lambda file: file.stat().st_mtime)[:-MAX_PAGES]:
            old.unlink(missing_ok=True)
        write_text(path, page)
        return path

    def _check(self, name: str) -> None:
        """Check that the user may see a run."""
        allowed = NAME if self.local else VISITOR
        if not allowed.fullmatch(name) or not self._jobs.is_known(name):
            raise RunError("There is no such run.", next_step="Choose one of the list, or start one.")
        folder = self._jobs.folder(name)
        if (folder / MANIFEST).is_file():
            manifest = read_manifest(folder)
            if manifest.get("command") != self.job or not (self.local or self._may_see(manifest)):
                raise RunError(f"This run is no {self.job} run.", next_step="Choose one of the list, or start one.")

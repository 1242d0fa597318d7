"""Store votes in a dataset repository on the Hub. A vote is acknowledged after the commit that holds it.

Votes wait a moment for others, and one commit takes them all. A batch is written to the disk before it is sent, and its
files have names of their own. Sending it again therefore changes nothing, and a batch that a killed process has left
behind is sent when the next one starts.

`huggingface_hub.CommitScheduler` is not used: it appends to files that it uploads every few minutes, says of no record
whether it has arrived, and passes over errors of an upload.
"""

import queue
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from rewardharness import files
from rewardharness.data.votes import PreferenceVote, voter_id
from rewardharness.errors import HarnessError, InputError
from rewardharness.hub.errors import HubError, MissingRepoError, UnreachableError
from rewardharness.hub.repository import MAIN, Repo

CARD = "README.md"
_CONFLICTS = frozenset({409, 412, 423})


class VotesNotStoredError(HarnessError):
    """A vote is kept on this computer, but not yet in the repository."""

    title = "The vote is not stored yet"


@dataclass(frozen=True)
class Pace:
    """Times of the writer, in seconds."""

    gather: float = 2.0
    """How long a vote waits for others."""
    first_pause: float = 1.0
    """Pause after a failed attempt; it doubles with each."""
    longest_pause: float = 30.0
    give_up: float = 90.0
    """Seconds of attempts to store a vote before its voter gets an error."""


class VoteStore:
    """Stores votes in a repository. One thread writes; it ends with the process.

    Args:
        repo: A dataset repository; created as a private one if it does not exist.
        folder: Folder for batches that are not stored yet.
        pace: Times of the writer.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self, repo: Repo, folder: Path, pace: Pace = Pace(), sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.repo = repo
        self._folder = folder
        self._pace = pace
        self._sleep = sleep
        self._ready = False
        self._owner = False
        self._votes: queue.Queue[tuple[PreferenceVote, Future[None]]] = queue.Queue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def give(self, *votes: PreferenceVote) -> None:
        """Store votes, and return when all are in the repository.

        Raises:
            VotesNotStoredError: If one could not be stored in time; it is kept on this computer and stored later.
        """
        self.start()
        waiting = [(vote, Future[None]()) for vote in votes]
        for submission in waiting:
            self._votes.put(submission)
        for _, done in waiting:
            done.result()

    def start(self) -> None:
        """Start the writer, which first sends what earlier processes have left behind."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="votes", daemon=True)
                self._thread.start()

    def waiting(self) -> list[Path]:
        """Return the batches on this computer that are not stored yet."""
        return sorted(path.parent for path in self._folder.glob("*/votes-*.jsonl"))

    def _write(self) -> None:
        # Batches of another process that is still at work are not touched. The lock goes when this process ends.
        with suppress(OSError):
            files.hold(self._folder / "lock")
            self._owner = True
        with suppress(HarnessError, OSError):
            self._send_left()
        while True:
            batch = self._gather()
            error: BaseException | None = None
            try:
                self._send(self._spool([vote for vote, _ in batch]))
            except HarnessError as problem:
                message = f"It is kept on this server, and stored with the next one. {problem.message}"
                step = "Vote again only if you did not see this message."
                error = VotesNotStoredError(message, next_step=step)
            except Exception as problem:  # the thread must outlive a full disk
                error = VotesNotStoredError(f"{type(problem).__name__} on this server.", next_step="Try again later.")
            for _, done in batch:
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
            if error is None:
                with suppress(HarnessError, OSError):
                    self._send_left(attempts=1)

    def _gather(self) -> list[tuple[PreferenceVote, "Future[None]"]]:
        batch = [self._votes.get()]
        end = time.monotonic() + self._pace.gather
        with suppress(queue.Empty):
            while True:
                batch.append(self._votes.get(timeout=max(0.0, end - time.monotonic())))
        return batch

    def _spool(self, votes: list[PreferenceVote]) -> Path:
        """Write a batch to the disk, in the layout of the repository. The rows are written last."""
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(6)}"
        folder = self._folder / name
        for vote in votes:
            for path, data in vote.images.items():
                files.write_once(folder / path, data)
        rows = b"".join(orjson.dumps(dict(vote.row)) + b"\n" for vote in votes)
        files.write_bytes(folder / f"votes-{name}.jsonl", rows)
        return folder

    def _send_left(self, attempts: int | None = None) -> None:
        for folder in self.waiting() if self._owner else ():
            self._send(folder, attempts)

    def _send(self, folder: Path, attempts: int | None = None) -> None:
        """Commit the files of a batch, and remove it from the disk. Repeating this has no effect."""
        added = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        count = sum(path.read_bytes().count(b"\n") for path in folder.glob("votes-*.jsonl"))
        end = time.monotonic() + self._pace.give_up
        pause, tried = self._pace.first_pause, 0
        while True:
            try:
                self._prepare()
                self.repo.commit(added, (), None, (f"Add {count} vote{'s' * (count != 1)}", ""))
                break
            except HubError as error:
                tried += 1
                passing = isinstance(error, UnreachableError) or error.status in _CONFLICTS
                if not passing or tried == attempts or time.monotonic() + pause > end:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, self._pace.longest_pause)
        shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self) -> None:
        """Create the repository and its card, unless they exist."""
        if self._ready:
            return
        try:
            head = self.repo.head(MAIN)
        except MissingRepoError:
            self.repo.create(private=True)
            head = self.repo.head(MAIN)
        if CARD not in self.repo.tree(head.commit):
            template = resources("hub_templates").joinpath("votes_card.md").read_text(encoding="utf-8")
            card = template.replace("{{repo}}", self.repo.name).encode("utf-8")
            self.repo.commit({CARD: card}, (), None, ("Add the card", ""))
        self._ready = True


class Forgotten(NamedTuple):
    """Votes that were deleted."""

    votes: tuple[str, ...]
    images: tuple[str, ...]
    """Paths of images that no other vote is about."""
    commit: str | None = None
    """None for a dry run, and if there was nothing to delete."""


def forget_votes(
    repo: Repo,
    *,
    votes: tuple[str, ...] = (),
    voter: str = "",
    name: str = "",
    salt: str | None = None,
    history: bool = False,
    dry_run: bool = False,
) -> Forgotten:
    """Delete votes from a repository in one commit, with the images that no other vote is about.

    Args:
        repo: The dataset repository.
        votes: Ids of votes.
        voter: Id of a voter, whose votes are all deleted.
        name: Name of the voter's account, instead of the id; needs the salt.
        salt: See `voter_id`.
        history: Also delete earlier commits, in which they would remain.
        dry_run: Delete nothing.

    Raises:
        InputError: If nothing is named, or the salt is missing.
        HubError: If the Hub refuses.
    """
    if name and not salt:
        raise InputError("The salt of the voter ids is missing.", next_step="Set RH_FEEDBACK_SALT as in the app.")
    voter = voter or voter_id(name, salt) or ""
    if not votes and not voter:
        raise InputError("No vote is named.", next_step="Name votes with --vote, or a voter with --voter or --user.")
    head = repo.head(MAIN).commit
    tree = repo.tree(head)
    shards = [path for path in tree if path.startswith("votes-") and path.endswith(".jsonl")]
    gone: list[str] = []
    kept, dropped = set[str](), set[str]()
    changed: dict[str, bytes] = {}
    for path, place in repo.fetch(head, shards, tree).items():
        rows = [row for _, row in files.read_jsonl(place)]
        left = [row for row in rows if row.get("vote") not in votes and not (voter and row.get("voter") == voter)]
        kept.update(*map(_images, left))
        if len(left) < len(rows):
            dropped.update(*map(_images, rows))
            gone += [str(row.get("vote")) for row in rows if row not in left]
            changed[path] = b"".join(orjson.dumps(row) + b"\n" for row in left)
    images = tuple(sorted(path for path in dropped - kept if path in tree))
    if dry_run or not gone:
        return Forgotten(tuple(gone), images)
    added = {path: data for path, data in changed.items() if data}
    deleted = [*(path for path, data in changed.items() if not data), *images]
    message = f"Delete {len(gone)} vote{'s' * (len(gone) != 1)} on request"
    commit, _ = repo.commit(added, deleted, head, (message, ""))
    if history:
        repo.forget_history(message)
    return Forgotten(tuple(gone), images, commit)


def _images(row: Mapping[str, Any]) -> set[str]:
    named = [row.get("source"), *(row.get("references") or ()), *(row.get(f"candidate_{letter}") for letter in "abcd")]
    return {name for name in named if isinstance(name, str) and name}

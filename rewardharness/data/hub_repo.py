"""The door to one dataset repository on the Hugging Face Hub: its commits, its files, and its errors in words.

Files are read alone: no code of a repository is ever run. What a table is, is not known here.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rewardharness import __version__
from rewardharness.data.space import check_space
from rewardharness.errors import DataError, MissingPackageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN = "main"
"""The branch that is read when none is named."""

MAX_FILES = 200_000
"""Files of a repository that are listed, at most."""

_PUBLIC = "https://huggingface.co"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?=.{{3,96}}$)(?!.*(?:--|\.\.|\.git$)){_NAME}/{_NAME}")
_REVISION = re.compile(r"(?!.*(?:\.\.|//|\.lock$))[A-Za-z0-9][A-Za-z0-9_./+-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WORKERS = 8
_TICK = 0.2
"""Seconds between two looks at how a download goes on."""

Token = str | Literal[False] | None
"""A token; None for the one of this computer (`HF_TOKEN`, or that of `hf auth login`); False for none at all."""


class UnreachableError(DataError):
    """The Hub cannot be reached, does not answer, or broke off."""


class MissingRepoError(DataError):
    """There is no such repository, or the token may not see it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file in a commit."""

    size: int
    """In bytes."""
    oid: str
    """Git's SHA-1 of the content, or of a pointer to it."""
    sha256: str | None = None
    """SHA-256 of the content, where it is kept outside git."""


Tree = Mapping[str, RemoteFile]
"""The files of a commit by path."""


@dataclass(frozen=True)
class Hub:
    """How the Hub is reached."""

    token: Token = field(default=None, repr=False)
    endpoint: str | None = None
    """Its address; None for the public one."""
    cache: Path | None = None
    """Folder of the client's cache; None for the usual one."""


def is_repo(name: str) -> bool:
    """Whether this can be the name of a repository: `org/name`."""
    return _REPO.fullmatch(name) is not None


def is_revision(revision: str) -> bool:
    """Whether this can be the name of a branch, a tag or a commit."""
    return _REVISION.fullmatch(revision) is not None


def is_commit(revision: str) -> bool:
    """Whether a revision is the whole id of a commit, which can never mean anything else."""
    return _COMMIT.fullmatch(revision) is not None


class DatasetRepo:
    """One dataset repository.

    Every method raises `DataError` when the Hub refuses, `UnreachableError` when it cannot be asked, and
    `MissingPackageError` without `huggingface_hub`. No error ever holds a token or what the server wrote.

    Args:
        name: `org/name`.
        hub: How the Hub is reached.

    Raises:
        DataError: If the name cannot be one.
    """

    def __init__(self, name: str, hub: Hub) -> None:
        if not is_repo(name):
            raise DataError(f"{name[:100]!r} is not the name of a dataset.", next_step="Write it as org/name.")
        self.name = name
        self._hub = hub
        self._endpoint = (hub.endpoint or "").rstrip("/") or None

    @cached_property
    def _api(self) -> "HfApi":
        """The client, which is needed only where something has to be asked."""
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise MissingPackageError("huggingface_hub", "data", "datasets on the Hub") from None
        return HfApi(
            endpoint=self._endpoint, token=self._hub.token, library_name="rewardharness", library_version=__version__
        )

    @property
    def _http_error(self) -> type[Exception]:
        """What the client raises: errors of the HTTP package that it uses, whichever that is."""
        assert self._api is not None
        found: type[Exception] = import_module("huggingface_hub.utils").httpx.HTTPError
        return found

    @property
    def page(self) -> str:
        """Address of its page."""
        return f"{self._endpoint or _PUBLIC}/datasets/{self.name}"

    def resolve(self, revision: str) -> str:
        """Ask which commit a revision is."""
        if not is_revision(revision):
            raise DataError(f"{revision[:100]!r} is not the name of a revision.", next_step="Name a branch or commit.")
        with self._asking(f"read {self.name}", revision):
            found = self._api.dataset_info(self.name, revision=revision).sha or ""
        if not is_commit(found):
            raise UnreachableError(f"The Hub does not say which commit {revision!r} of {self.name} is.")
        return found

    def files(self, commit: str) -> Tree:
        """List the files of a commit."""
        with self._asking(f"list the files of {self.name}", commit):
            listed = self._api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type="dataset")
            found: list[Any] = list(islice((each for each in listed if hasattr(each, "blob_id")), MAX_FILES + 1))
            tree = {
                each.path: RemoteFile(int(each.size), each.blob_id, each.lfs.sha256 if each.lfs else None)
                for each in found
            }
        if len(tree) > MAX_FILES:
            raise DataError(f"{self.name} has more than {MAX_FILES} files.", next_step="Download it, and name a table.")
        return tree

    def fetch(
        self, commit: str, wanted: Collection[str], tree: Tree, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Path]:
        """Fetch files of a commit through the client's cache, and make sure that they are what the commit holds.

        A file that has arrived whole is never fetched again, however the download ended.

        Args:
            commit: The commit.
            wanted: Their paths, keys of `tree`.
            tree: The files of the commit.
            progress: Told the bytes that are here and those that are wanted.

        Returns:
            Where each of them lies now.
        """
        total = sum(tree[path].size for path in wanted)
        here = {path: self._cached(commit, path, tree[path]) for path in wanted}
        missing = [path for path, place in here.items() if place is None]
        before = total - sum(tree[path].size for path in missing)
        if missing:
            check_space(self._cache_folder(), total - before, f"download {self.name}")

            def arrived(count: int) -> None:
                if progress:
                    progress(min(before + count, total), total)

            with self._asking(f"download {self.name}", commit):
                here |= self._download(commit, missing, arrived)
        for path in missing:
            self._check(here[path], path, tree[path])
        if progress:
            progress(total, total)
        return {path: place for path, place in here.items() if place is not None}

    def publish(self, uploads: Mapping[str, Path], *, private: bool, message: str) -> str:
        """Put files into the repository, in one commit on what is there; it is made when it does not exist.

        Args:
            uploads: The files, by their paths in the repository. Others that are there stay.
            private: Whether a new repository is private; one that exists stays as it is.
            message: Of the commit.

        Returns:
            The id of the commit.
        """
        from huggingface_hub import CommitOperationAdd

        with self._asking(f"publish {self.name}", MAIN):
            self._api.create_repo(self.name, repo_type="dataset", private=private, exist_ok=True)
            parent = self.resolve(MAIN)
            operations = [CommitOperationAdd(name, str(place)) for name, place in sorted(uploads.items())]
            commit = self._api.create_commit(
                self.name, operations, commit_message=message, repo_type="dataset", parent_commit=parent
            )
        return str(commit.oid)

    def _cache_folder(self) -> Path:
        return self._hub.cache or Path(import_module("huggingface_hub.constants").HF_HUB_CACHE)

    def _cached(self, commit: str, path: str, file: RemoteFile) -> Path | None:
        from huggingface_hub import try_to_load_from_cache

        place = try_to_load_from_cache(self.name, path, cache_dir=self._hub.cache, revision=commit, repo_type="dataset")
        if not isinstance(place, str) or not Path(place).is_file() or Path(place).stat().st_size != file.size:
            return None
        return Path(place)

    def _download(self, commit: str, paths: list[str], progress: Callable[[int], None]) -> dict[str, Path]:
        """Fetch files side by side. Only this thread tells the progress, and an interrupt ends all of them."""
        from huggingface_hub import hf_hub_download

        counter = _Counter()
        bar = _counting_bar(counter)

        def fetch(path: str) -> str:
            return hf_hub_download(
                self.name,
                path,
                repo_type="dataset",
                revision=commit,
                cache_dir=self._hub.cache,
                token=self._hub.token,
                endpoint=self._endpoint,
                tqdm_class=bar,
                library_name="rewardharness",
                library_version=__version__,
            )

        with ThreadPoolExecutor(_WORKERS, "download") as pool:
            running = {pool.submit(fetch, path): path for path in paths}
            try:
                left = set(running)
                while left:
                    done, left = wait(left, timeout=_TICK, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    progress(counter.bytes)
            except BaseException:
                counter.ended = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return {path: Path(future.result()) for future, path in running.items()}

    def _check(self, place: Path | None, path: str, file: RemoteFile) -> None:
        """Make sure that a file that has just arrived is the one of the commit.

        Raises:
            DataError: If it is not; it is removed, so that the next attempt fetches it anew.
        """
        if place is not None and place.stat().st_size == file.size and _holds(place, file):
            return
        if place is not None:
            place.resolve().unlink(missing_ok=True)
            place.unlink(missing_ok=True)
        message = f"{path} of {self.name} arrived damaged."
        raise UnreachableError(message, next_step="Run the same command again: it is fetched anew.")

    @contextmanager
    def _asking(self, doing: str, revision: str) -> Iterator[None]:
        """Turn what goes wrong meanwhile into words."""
        http_error = self._http_error
        try:
            yield
        except DataError:
            raise
        except (http_error, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            if type(error) in {OSError, PermissionError} and getattr(error, "errno", None):
                raise  # the cache cannot be written, or the disk is full
            raise self._in_words(error, doing, revision) from None

    def _in_words(self, error: Exception, doing: str, revision: str) -> DataError:
        from huggingface_hub import errors

        if isinstance(error, errors.GatedRepoError):
            step = f"Open {self.page}, accept the terms, then log in with `hf auth login` or set HF_TOKEN."
            return DataError(f"{self.name} is gated: its owner decides who may read it.", next_step=step)
        if isinstance(error, errors.RepositoryNotFoundError):
            message = f"There is no dataset {self.name} on the Hub, or it is private and this token may not see it."
            step = "Check the name. For a private one log in with `hf auth login`, or set HF_TOKEN."
            return MissingRepoError(message, next_step=step)
        if isinstance(error, errors.RevisionNotFoundError):
            step = f"Name a branch, a tag or a commit that is listed on {self.page}/commits/main."
            return DataError(f"{self.name} has no revision {revision!r}.", next_step=step)
        if isinstance(error, errors.HfHubHTTPError):
            return self._status_in_words(error.response.status_code, doing)
        if isinstance(error, errors.OfflineModeIsEnabled):
            return UnreachableError("HF_HUB_OFFLINE is set, so the Hub is not asked.", next_step="Unset it to go on.")
        if isinstance(error.__cause__, (errors.HfHubHTTPError, self._http_error)):
            return self._in_words(error.__cause__, doing, revision)
        if isinstance(error, (self._http_error, OSError)):
            message = f"The Hub could not be reached, or broke off, on the attempt to {doing}."
            step = "Check the network, then run the same command again: files that have arrived are kept."
            return UnreachableError(message, next_step=step)
        message = f"The Hub gave an answer that makes no sense, on the attempt to {doing}."
        return UnreachableError(message, next_step="Check HF_ENDPOINT if it is set, or try again later.")

    def _status_in_words(self, status: int, doing: str) -> DataError:
        if status >= 500:
            message = f"The Hub failed (status {status}) on the attempt to {doing}."
            return UnreachableError(message, next_step="Run the same command again in a while.")
        if status == 401:
            step = "Log in again with `hf auth login`, or set HF_TOKEN to a token that is valid."
            return DataError("The Hub does not accept the token.", next_step=step)
        if status == 429:
            step = "Wait a few minutes and run the same command again."
            return UnreachableError("The Hub asks for fewer requests.", next_step=step)
        return DataError(f"The Hub refuses (status {status}) to {doing}.", next_step=f"Look at {self.page}.")


def _holds(place: Path, file: RemoteFile) -> bool:
    """Whether a file has the content that a commit names."""
    with place.open("rb") as stream:
        if file.sha256 is not None:
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
        digest = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
        while block := stream.read(1 << 20):
            digest.update(block)
        return digest.hexdigest() == file.oid


class _Counter:
    """Bytes that have arrived, counted by several threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self.ended = False
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes; ends the thread where nobody waits for them any more."""
        if self.ended:
            raise InterruptedError("the download was interrupted")
        with self._lock:
            self.bytes += count


def _counting_bar(counter: _Counter) -> Any:
    """Return a progress bar that shows nothing and counts."""
    bar: Any = import_module("huggingface_hub.utils").tqdm

    def begin(bar_self: Any, *args: Any, **kwargs: Any) -> None:
        bar.__init__(bar_self, *args, **{**kwargs, "disable": True})

    def update(bar_self: Any, count: float | None = 1) -> None:
        counter.add(int(count or 0))

    def pass_over(bar_self: Any, *args: Any, **kwargs: Any) -> None:
        """What comes over the network in packed form is told apart, and not counted twice."""

    methods = {"__init__": begin, "update": update, "update_transfer": pass_over, "set_transfer_postfix_str": pass_over}
    return type("Counting", (bar,), methods)

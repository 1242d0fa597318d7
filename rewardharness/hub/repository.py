"""One repository on the Hugging Face Hub: revisions, files, commits, tags, pull requests."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from functools import cached_property
from glob import escape
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from rewardharness.errors import shown
from rewardharness.files import check_space
from rewardharness.hub.downloads import Progress, cache_folder, download_files, silent_bar
from rewardharness.hub.errors import CLIENT, Context, HubError, Kind, UnreachableError, client, translated

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAIN = "main"
"""The default branch."""
MAX_FILES: Mapping[Kind, int] = {"model": 20_000, "space": 20_000, "dataset": 200_000}
"""Maximum number of files that are listed."""
MAX_IGNORED = 100
"""Maximum number of files that match the patterns of a download and are not wanted."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?=.{{3,96}}$)(?!.*(?:--|\.\.|\.git$)){_NAME}/{_NAME}")
_REVISION = re.compile(r"(?!.*(?:\.\.|//|\.lock$))[A-Za-z0-9][A-Za-z0-9_./+-]{0,127}")
_PAGE = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?!datasets/|spaces/)([^/?#@]+/[^/?#@]+)"
    r"(?:/(?:tree|blob|resolve|commits?)/([^/?#]+))?(?:[/?#].*)?",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")

Token = str | Literal[False] | None
"""A token; None for the one on this computer (`HF_TOKEN` or `hf auth login`); False for no token."""


def saved_token() -> str | None:
    """Return the token of `HF_TOKEN` or `hf auth login` on this computer; None without one, or without the client."""
    try:
        from huggingface_hub import get_token
    except ImportError:
        return None
    return get_token()


@dataclass(frozen=True)
class Access:
    """How the Hub is reached."""

    token: Token = field(default=None, repr=False)
    endpoint: str | None = None
    """URL of the Hub; None for the default."""
    cache: Path | None = None
    """Cache folder; None for the default."""


@dataclass(frozen=True)
class CommitHead:
    """The commit of a revision."""

    commit: str
    private: bool


@dataclass(frozen=True)
class RemoteFile:
    """A file in a commit."""

    size: int
    """Size in bytes."""
    oid: str
    """Git's SHA-1 of the content, or of the pointer to it."""
    sha256: str | None = None
    """SHA-256 of the content if it is stored outside git."""

    def holds(self, data: bytes) -> bool:
        """Return whether this is the content of the file."""
        return hashlib.sha256(data).hexdigest() == self.sha256 if self.sha256 else git_id(data) == self.oid

    def matches(self, path: Path) -> bool:
        """Return whether a local file has the content of this file."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        with path.open("rb") as stream:
            if self.sha256 is not None:
                return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256
            digest = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
            while block := stream.read(1 << 20):
                digest.update(block)
            return digest.hexdigest() == self.oid


Tree = Mapping[str, RemoteFile]
"""The files of a commit by path."""


@dataclass(frozen=True)
class PastCommit:
    """A commit of the history. Title and authors are untrusted text."""

    commit: str
    title: str
    authors: tuple[str, ...]
    date: datetime


def git_id(data: bytes) -> str:
    """Return git's id of a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def is_repo(name: str) -> bool:
    """Return whether a text is a valid repository name: `org/name`."""
    return _REPO.fullmatch(name) is not None


def is_revision(revision: str) -> bool:
    """Return whether a text is a valid name of a branch, a tag or a commit."""
    return _REVISION.fullmatch(revision) is not None


def is_commit(revision: str) -> bool:
    """Return whether a revision is a full commit id, which never changes its meaning."""
    return _COMMIT.fullmatch(revision) is not None


def split_spec(spec: str) -> tuple[str, str | None] | None:
    """Split `org/name`, `org/name@revision` or the URL of a page on the Hub; return None if it is none of these."""
    page = _PAGE.fullmatch(spec.strip())
    repo, at, revision = spec.partition("@")
    if page is not None:
        repo, at, revision = page[1], page[2] or "", unquote(page[2] or "")
    if not is_repo(repo) or (at and not is_revision(revision)):
        return None
    return repo, revision or None


class Repo:
    """One repository on the Hub.

    Every method raises `HubError` if the Hub refuses, and `UnreachableError` if it cannot be reached.

    Args:
        name: `org/name`.
        access: How the Hub is reached.
        kind: `model` for Libraries, `dataset` or `space`.

    Raises:
        HubError: If the name is invalid.
    """

    def __init__(self, name: str, access: Access, kind: Kind = "model") -> None:
        if not is_repo(name):
            step = "Write it as org/name, as in `someone/my-library`."
            raise HubError(f"{shown(name)!r} is not a valid repository name.", next_step=step)
        self.name = name
        self.kind: Kind = kind
        self.access = access
        self.cache = access.cache

    @cached_property
    def _api(self) -> "HfApi":
        needs = ("data", "datasets on the Hub") if self.kind == "dataset" else ("hub", "Libraries on the Hub")
        return client(self.access, *needs)

    @property
    def endpoint(self) -> str | None:
        """URL of the Hub; None for the default."""
        return (self.access.endpoint or "").rstrip("/") or None

    @property
    def secret(self) -> str | None:
        """The given token, to check that nothing reveals it; never shown."""
        return self.access.token or None

    @property
    def page(self) -> str:
        """URL of the repository's page."""
        folder = "" if self.kind == "model" else f"{self.kind}s/"
        return f"{self.endpoint or 'https://huggingface.co'}/{folder}{self.name}"

    def head(self, revision: str = MAIN) -> CommitHead:
        """Return the commit of a revision."""
        if not is_revision(revision):
            step = "Choose a version, branch or commit."
            raise HubError(f"{shown(revision)!r} is not a valid revision name.", next_step=step)
        with self._request(f"read {self.name}", revision):
            info = self._api.repo_info(self.name, revision=revision, repo_type=self.kind)
        if not is_commit(info.sha or ""):
            raise UnreachableError(f"The Hub does not name the commit of {self.name}, revision {revision!r}.")
        return CommitHead(str(info.sha), bool(info.private))

    def tree(self, commit: str) -> Tree:
        """List the files of a commit, from the cache if it has them."""
        with self._request(f"list the files of {self.name}", commit):
            listed: Iterable[Any] | None = self._cached_tree(commit)
            if listed is None:
                listed = self._api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=self.kind)
            limit = MAX_FILES[self.kind]
            listed_files = islice((file for file in listed if hasattr(file, "blob_id")), limit + 1)
            files = {file.path: _remote_file(file) for file in listed_files}
        if len(files) > limit:
            raise HubError(f"{self.name} has more than {limit} files.", next_step="Choose another repository.")
        return files

    def tags(self) -> Mapping[str, str]:
        """Return the commits of the tags."""
        with self._request(f"list the versions of {self.name}"):
            return {tag.name: tag.target_commit for tag in self._api.list_repo_refs(self.name).tags}

    def history(self, revision: str = MAIN) -> tuple[PastCommit, ...]:
        """List the commits up to a revision, newest first."""
        with self._request(f"read the history of {self.name}", revision):
            return tuple(
                PastCommit(commit.commit_id, commit.title, tuple(commit.authors), commit.created_at)
                for commit in self._api.list_repo_commits(self.name, revision=revision)
            )

    def cached(self, revision: str) -> tuple[str, Tree] | None:
        """Look up a revision in the cache, without a request.

        Returns:
            Its commit and files; None if it is not in the cache.
        """
        from huggingface_hub.errors import RevisionResolutionError

        try:
            commit = self._api.resolve_revision(
                self.name, revision=revision, cache_dir=self.cache, local_files_only=True
            ).resolved
        except RevisionResolutionError:
            return None
        listed = self._cached_tree(commit) if is_commit(commit) else None
        return None if listed is None else (commit, {file.path: _remote_file(file) for file in listed})

    def local(self, commit: str, paths: Iterable[str]) -> dict[str, Path]:
        """Return those files of a commit that are in the cache, by path, without a request."""
        assert self._api is not None
        from huggingface_hub import try_to_load_from_cache

        cached = {
            path: try_to_load_from_cache(self.name, path, self.cache, revision=commit, repo_type=self.kind)
            for path in paths
        }
        return {path: Path(file) for path, file in cached.items() if isinstance(file, str)}

    def remember(self, revision: str) -> None:
        """Store the commit of a revision in the cache, so that it can be found offline."""
        from huggingface_hub.errors import RevisionResolutionError

        # If this fails, only the offline use of this revision is lost.
        with suppress(UnreachableError, RevisionResolutionError), self._request(f"read {self.name}", revision):
            self._api.resolve_revision(self.name, revision=revision, cache_dir=self.cache)

    def download(
        self, commit: str, wanted: Collection[str], tree: Tree, patterns: list[str], *, offline: bool = False
    ) -> dict[str, bytes]:
        """Download small files of a commit through the cache and verify them.

        Args:
            commit: The commit.
            wanted: Paths to read.
            tree: The files of the commit.
            patterns: Glob patterns that match the wanted files, and few others.
            offline: Read from the cache only.

        Returns:
            The contents by path.
        """
        if not wanted:
            return {}
        others = [path for path in tree if path not in wanted and any(fnmatch(path, glob) for glob in patterns)]
        if len(others) > MAX_IGNORED:
            message = f"{self.name} has {len(others)} files that are nested too deeply for a Library."
            raise HubError(message, next_step="Choose another Library.")
        with self._request(f"download {self.name}", commit):
            from huggingface_hub import snapshot_download

            snapshot = snapshot_download(
                **self._source(commit),
                allow_patterns=patterns,
                ignore_patterns=[escape(path) for path in others] or None,
                local_files_only=offline,
                tqdm_class=silent_bar(),
            )
        return {path: _verified(Path(snapshot), path, tree[path], self.name) for path in sorted(wanted)}

    def fetch(
        self, commit: str, wanted: Collection[str], tree: Tree, progress: Progress | None = None
    ) -> dict[str, Path]:
        """Download large files of a commit in parallel through the cache and verify them.

        A complete file is never downloaded again.

        Args:
            commit: The commit.
            wanted: Paths, keys of `tree`.
            tree: The files of the commit.
            progress: Called with the bytes present and the total.

        Returns:
            The local files by path.
        """
        total = sum(tree[path].size for path in wanted)
        local = {
            path: file
            for path, file in self.local(commit, wanted).items()
            if file.is_file() and file.stat().st_size == tree[path].size
        }
        missing = [path for path in wanted if path not in local]
        present = total - sum(tree[path].size for path in missing)
        report = progress or (lambda done, total: None)
        if missing:
            check_space(self.cache or cache_folder(), total - present, f"download {self.name}")
            with self._request(f"download {self.name}", commit):
                source = self._source(commit)
                local |= download_files(missing, source, lambda count: report(min(present + count, total), total))
        for path in missing:
            if not tree[path].matches(local[path]):
                local[path].resolve().unlink(missing_ok=True)  # so that the next attempt downloads it again
                local[path].unlink(missing_ok=True)
                message = f"{path} of {self.name} is damaged after the download."
                raise UnreachableError(message, next_step="Run the same command again to download it again.")
        report(total, total)
        return {path: local[path] for path in wanted}

    def _source(self, commit: str) -> dict[str, Any]:
        """Return what functions that download need to know."""
        where = {"repo_id": self.name, "repo_type": self.kind, "revision": commit, "cache_dir": self.cache}
        return {**where, "token": self.access.token, "endpoint": self.endpoint, **CLIENT}

    @contextmanager
    def streamed(self, commit: str, path: str) -> Iterator[IO[bytes]]:
        """Open a file of a dataset at a commit for reading parts of it; nothing is stored on disk."""
        with self._request(f"read {path} of {self.name}", commit):
            from huggingface_hub import HfFileSystem

            files, place = HfFileSystem(endpoint=self.endpoint, token=self.access.token), f"{self.name}@{commit}/{path}"
            with files.open(f"datasets/{place}", "rb") as stream:
                yield stream

    def create(self, *, private: bool) -> None:
        """Create the repository, unless it exists."""
        with self._request(f"create {self.name}"):
            sdk = "gradio" if self.kind == "space" else None
            self._api.create_repo(self.name, repo_type=self.kind, space_sdk=sdk, private=private, exist_ok=True)

    def commit(
        self,
        added: Mapping[str, bytes | Path],
        deleted: Collection[str],
        parent: str | None,
        message: tuple[str, str],
        *,
        pull: bool = False,
    ) -> tuple[str, str | None]:
        """Change files in one commit on top of a parent, or not at all.

        Args:
            added: New contents, or local files, by path.
            deleted: Paths to delete.
            parent: The commit that must still be the head; None for whatever is.
            message: Title and description.
            pull: Open a pull request instead of changing the main branch.

        Returns:
            Id of the commit, and URL of the pull request.
        """
        with self._request(f"write to {self.name}"):
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete

            operations: list[Any] = [
                CommitOperationAdd(path, str(data) if isinstance(data, Path) else data)
                for path, data in sorted(added.items())
            ]
            operations += [CommitOperationDelete(path) for path in sorted(deleted)]
            made = self._api.create_commit(
                self.name,
                operations,
                commit_message=message[0],
                commit_description=message[1],
                parent_commit=parent,
                create_pr=pull,
                repo_type=self.kind,
            )
            return str(made.oid), shown(made.pr_url, 300) if made.pr_url else None

    def tag(self, tag: str, commit: str) -> None:
        """Create a tag. A used name is an error with status 409."""
        with self._request(f"write to {self.name}", commit):  # without a message: a plain name of the commit
            self._api.create_tag(self.name, tag=tag, revision=commit)

    def forget_history(self, message: str) -> None:
        """Replace all commits of the main branch by one with the present files. This cannot be undone."""
        with self._request(f"write to {self.name}"):
            self._api.super_squash_history(self.name, repo_type=self.kind, commit_message=message)

    def open_pulls(self) -> tuple[tuple[str, str, str], ...]:
        """List title, revision and URL of the open pull requests."""
        with self._request(f"list the pull requests of {self.name}"):
            pulls = self._api.get_repo_discussions(self.name, discussion_type="pull_request", discussion_status="open")
            return tuple((pull.title, f"refs/pr/{pull.num}", shown(pull.url, 300)) for pull in pulls)

    def _request(self, action: str, revision: str = "") -> AbstractContextManager[None]:
        assert self._api is not None  # the client is installed
        return translated(Context(self.name, self.kind, self.page, action, revision, self.secret))

    def _cached_tree(self, commit: str) -> Iterator[Any] | None:
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        try:
            return iter(get_cached_repo_tree(self.name, repo_type=self.kind, revision=commit, cache_dir=self.cache))
        except CachedRepoTreeNotFoundError:
            return None


def _remote_file(listed: Any) -> RemoteFile:
    return RemoteFile(int(listed.size), str(listed.blob_id), listed.lfs and str(listed.lfs.sha256))


def _verified(snapshot: Path, path: str, expected: RemoteFile, repo: str) -> bytes:
    """Read a file of the cache, which links files to each other, if it has the content of the commit."""
    store = snapshot.parents[1].resolve()
    file = (snapshot / path).resolve()
    if file.is_relative_to(store) and expected.matches(file):
        return file.read_bytes()
    step = f"Remove {snapshot.parents[1]} and run the same command again."
    raise HubError(f"The cached copy of {path} of {repo} is damaged.", next_step=step)

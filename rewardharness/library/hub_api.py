"""The door to one repository on the Hugging Face Hub: its requests, its cache, and its errors in words.

The only importer of `huggingface_hub`. What a Library is, is not known here.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from glob import escape
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from rewardharness import __version__
from rewardharness.errors import LibraryError, MissingPackageError
from rewardharness.leaks import masked
from rewardharness.library.problems import shown

MAIN = "main"
"""The branch that Libraries are published on."""
MAX_FILES = 20_000
"""Files of a repository that are listed, at most."""
MAX_LEFT_OUT = 100
"""Files that lie where patterns match and that are still not wanted, at most."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?=.{{3,96}}$)(?!.*(?:--|\.\.|\.git$)){_NAME}/{_NAME}")
_REVISION = re.compile(r"(?!.*(?:\.\.|//|\.lock$))[A-Za-z0-9][A-Za-z0-9_./+-]{0,127}")
_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?!datasets/|spaces/)([^/?#@]+/[^/?#@]+)"
    r"(?:/(?:tree|blob|resolve|commits?)/([^/?#]+))?(?:[/?#].*)?",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BLOCKED = frozenset({401, 402, 403})


class HubError(LibraryError):
    """The Hub refused something, or could not be asked.

    Args:
        message: One sentence. Never holds a token.
        next_step: What to do about it.
        status: The HTTP status, when there was one.
    """

    title = "The Hub could not do this"

    def __init__(self, message: str, *, next_step: str = "", status: int | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class UnreachableError(HubError):
    """The Hub cannot be reached, does not answer, or broke off. What was asked for may have happened all the same."""


class MissingRepoError(HubError):
    """There is no such repository, or the token may not see it."""


class MissingRevisionError(HubError):
    """The repository has no such revision."""


@dataclass(frozen=True)
class Access:
    """How the Hub is reached."""

    token: str | Literal[False] | None = field(default=None, repr=False)
    """A token; None for the one of this computer (`HF_TOKEN`, or that of `hf auth login`); False for none at all."""
    endpoint: str | None = None
    """Address of the Hub; None for the usual one."""
    cache: Path | None = None
    """Folder of the cache; None for the usual one."""


@dataclass(frozen=True)
class Head:
    """Where a revision points."""

    commit: str
    private: bool


@dataclass(frozen=True)
class RemoteFile:
    """A file in a commit."""

    size: int
    """In bytes."""
    oid: str
    """Git's SHA-1 of the content, or of a pointer to it."""
    sha256: str | None = None
    """SHA-256 of the content, where it is kept outside git."""

    def holds(self, data: bytes) -> bool:
        """Whether this is the content of the file."""
        if self.sha256 is not None:
            return hashlib.sha256(data).hexdigest() == self.sha256
        return git_id(data) == self.oid


Tree = Mapping[str, RemoteFile]
"""The files of a commit by path."""


@dataclass(frozen=True)
class PastCommit:
    """A commit as history tells it."""

    commit: str
    title: str
    """Foreign text."""
    authors: tuple[str, ...]
    """Foreign text."""
    date: datetime


def git_id(data: bytes) -> str:
    """Return the id that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def split_spec(spec: str) -> tuple[str, str | None] | None:
    """Split `org/name`, `org/name@revision` or the address of its page on the Hub; None when it is none of them."""
    address = _ADDRESS.fullmatch(spec.strip())
    repo, at, revision = spec.partition("@")
    if address is not None:
        repo, at, revision = address[1], address[2] or "", unquote(address[2] or "")
    if not _REPO.fullmatch(repo) or (at and not _REVISION.fullmatch(revision)):
        return None
    return repo, revision or None


def is_commit(revision: str) -> bool:
    """Whether a revision is the whole id of a commit, which can never mean anything else."""
    return _COMMIT.fullmatch(revision) is not None


class Repo:
    """One repository on the Hub.

    Every method raises `HubError` when the Hub refuses and `UnreachableError` when it cannot be asked.

    Args:
        name: `org/name`.
        access: How the Hub is reached.
        kind: `model` for those that hold Libraries, or `space`.

    Raises:
        HubError: If the name cannot be one.
        MissingPackageError: If `huggingface_hub` is not installed.
    """

    def __init__(self, name: str, access: Access, kind: Literal["model", "space"] = "model") -> None:
        if not _REPO.fullmatch(name):
            step = "Write it as org/name, as in `someone/my-library`."
            raise HubError(f"{shown(name)!r} is not the name of a repository.", next_step=step)
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise MissingPackageError("huggingface_hub", "hub", "Libraries on the Hub") from None
        self.name = name
        self.kind = kind
        self.endpoint = (access.endpoint or "").rstrip("/") or None
        self.cache = access.cache
        self._token = access.token
        # Its errors are those of the HTTP package that it uses, whichever that is.
        self._http_error: type[Exception] = import_module("huggingface_hub.utils").httpx.HTTPError
        self._api = HfApi(
            endpoint=self.endpoint, token=access.token, library_name="rewardharness", library_version=__version__
        )

    @property
    def secret(self) -> str | None:
        """The token that was given, for a last look that nothing gives it away; never shown."""
        return self._token or None

    def head(self, revision: str = MAIN) -> Head:
        """Ask where a revision points."""
        if not _REVISION.fullmatch(revision):
            raise HubError(f"{shown(revision)!r} is not the name of a revision.", next_step="Name a version or commit.")
        with self._asking(f"read {self.name}", revision):
            info = self._api.repo_info(self.name, revision=revision, repo_type=self.kind)
        if not is_commit(info.sha or ""):
            raise HubError(f"The Hub does not say which commit {revision!r} of {self.name} is.")
        return Head(str(info.sha), bool(info.private))

    def tree(self, commit: str) -> Tree:
        """List the files of a commit."""
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        with self._asking(f"list the files of {self.name}", commit):
            try:
                listed: Iterator[Any] = iter(
                    get_cached_repo_tree(self.name, repo_type=self.kind, revision=commit, cache_dir=self.cache)
                )
            except CachedRepoTreeNotFoundError:
                listed = iter(self._api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=self.kind))
            listed = islice(listed, MAX_FILES + 1)
            files = {each.path: _remote_file(each) for each in listed if hasattr(each, "blob_id")}
            if len(files) > MAX_FILES:
                raise HubError(f"{self.name} has more than {MAX_FILES} files.", next_step="A Library holds few files.")
        return files

    def tags(self) -> Mapping[str, str]:
        """List the tags with the commits that they name."""
        with self._asking(f"list the versions of {self.name}"):
            return {tag.name: tag.target_commit for tag in self._api.list_repo_refs(self.name).tags}

    def history(self, revision: str = MAIN) -> tuple[PastCommit, ...]:
        """List the commits that led to a revision, newest first."""
        with self._asking(f"read the history of {self.name}", revision):
            return tuple(
                PastCommit(each.commit_id, each.title, tuple(each.authors), each.created_at)
                for each in self._api.list_repo_commits(self.name, revision=revision)
            )

    def cached(self, revision: str) -> tuple[str, Tree] | None:
        """Look a revision up in the cache alone, without any request.

        Returns:
            Its commit and files; None when the cache does not know it.
        """
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError, RevisionResolutionError

        try:
            found = self._api.resolve_revision(
                self.name, revision=revision, cache_dir=self.cache, local_files_only=True
            ).resolved
            listed = get_cached_repo_tree(self.name, revision=found, cache_dir=self.cache)
        except (RevisionResolutionError, CachedRepoTreeNotFoundError):
            return None
        return (found, {each.path: _remote_file(each) for each in listed}) if is_commit(found) else None

    def remember(self, revision: str) -> None:
        """Note in the cache where a revision points, so that it can be found without the Hub."""
        from huggingface_hub.errors import RevisionResolutionError

        # Where this fails all is here already; only the note for later is missing.
        with suppress(UnreachableError, RevisionResolutionError), self._asking(f"read {self.name}", revision):
            self._api.resolve_revision(self.name, revision=revision, cache_dir=self.cache)

    def download(
        self, commit: str, wanted: Collection[str], tree: Tree, patterns: list[str], *, offline: bool = False
    ) -> dict[str, bytes]:
        """Fetch files of a commit through the cache, and make sure that they are what the commit holds.

        Args:
            commit: The commit.
            wanted: Their paths.
            tree: The files of the commit.
            patterns: Patterns that match what is wanted, and little else.
            offline: Whether to take them from the cache alone.

        Returns:
            The contents by path.
        """
        from fnmatch import fnmatch

        from huggingface_hub import snapshot_download

        if not wanted:
            return {}
        others = [path for path in tree if path not in wanted and any(fnmatch(path, each) for each in patterns)]
        if len(others) > MAX_LEFT_OUT:
            message = f"{self.name} has {len(others)} files that lie too deep to belong to a Library."
            raise HubError(message, next_step="Choose another Library.")
        with self._asking(f"download {self.name}", commit):
            snapshot = snapshot_download(
                self.name,
                repo_type=self.kind,
                revision=commit,
                cache_dir=self.cache,
                token=self._token,
                endpoint=self.endpoint,
                allow_patterns=patterns,
                ignore_patterns=[escape(path) for path in others] or None,
                local_files_only=offline,
                tqdm_class=_quiet_bar(),
                library_name="rewardharness",
                library_version=__version__,
            )
        return {path: _checked(Path(snapshot), path, tree[path], self.name) for path in sorted(wanted)}

    def create(self, *, private: bool) -> None:
        """Make the repository, unless it exists."""
        with self._asking(f"create {self.name}"):
            sdk = "gradio" if self.kind == "space" else None
            self._api.create_repo(self.name, repo_type=self.kind, space_sdk=sdk, private=private, exist_ok=True)

    def commit(
        self, added: Mapping[str, bytes], deleted: Collection[str], parent: str, message: tuple[str, str], *, pull: bool
    ) -> tuple[str, str | None]:
        """Change files in one commit, which lands on the parent or not at all.

        Args:
            added: New contents by path.
            deleted: Paths that go.
            parent: The commit that it has to follow.
            message: Title and body.
            pull: Whether to make a pull request instead of changing the main branch.

        Returns:
            Id of the commit, and address of the pull request.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[Any] = [
            *(CommitOperationAdd(path, data) for path, data in sorted(added.items())),
            *(CommitOperationDelete(path) for path in sorted(deleted)),
        ]
        with self._asking(f"write to {self.name}"):
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
        """Give a commit a name for good. A name that is taken has status 409."""
        # Without a message, so that the tag is nothing but a name of the commit.
        with self._asking(f"write to {self.name}", commit):
            self._api.create_tag(self.name, tag=tag, revision=commit)

    def open_pulls(self) -> tuple[tuple[str, str, str], ...]:
        """List title, revision and address of the open pull requests."""
        with self._asking(f"list the pull requests of {self.name}"):
            found = self._api.get_repo_discussions(self.name, discussion_type="pull_request", discussion_status="open")
            return tuple((each.title, f"refs/pr/{each.num}", shown(each.url, 300)) for each in found)

    @contextmanager
    def _asking(self, doing: str, revision: str = "") -> Iterator[None]:
        """Turn what goes wrong meanwhile into words."""
        try:
            yield
        except LibraryError:
            raise
        except (self._http_error, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            if type(error) in {OSError, PermissionError} and getattr(error, "errno", None):
                raise  # the cache cannot be written, or the disk is full
            raise self._in_words(error, doing, revision) from None

    def _in_words(self, error: Exception, doing: str, revision: str) -> HubError:
        from huggingface_hub import errors

        if isinstance(error, errors.GatedRepoError):
            step = f"Ask for access on the page of {self.name}, then log in with `hf auth login` or set HF_TOKEN."
            return HubError(f"{self.name} is gated: its owner decides who may read it.", next_step=step, status=403)
        if isinstance(error, errors.RepositoryNotFoundError):
            message = f"There is no {self.name} on the Hub, or it is private and this token may not see it."
            step = "Check the name. For a private one log in with `hf auth login`, or set HF_TOKEN."
            return MissingRepoError(message, next_step=step, status=404)
        if isinstance(error, errors.RevisionNotFoundError):
            step = f"See what there is: rh library versions {self.name}"
            return MissingRevisionError(f"{self.name} has no revision {shown(revision)!r}.", next_step=step, status=404)
        if isinstance(error, errors.HfHubHTTPError):
            return self._status_in_words(error.response.status_code, error.server_message or "", doing)
        if isinstance(error, ValueError) and str(error).startswith("Invalid metadata in README.md"):
            reason = shown(masked(str(error).partition("\n")[2].removeprefix("- "), self.secret), 200)
            return HubError(f"The Hub refuses the header of the card: {reason}", next_step="Correct README.md.")
        if isinstance(error, errors.OfflineModeIsEnabled):
            return UnreachableError("HF_HUB_OFFLINE is set, so the Hub is not asked.", next_step="Unset it to go on.")
        if isinstance(error, (self._http_error, OSError)):
            message = f"The Hub could not be reached, or broke off, on the attempt to {doing}."
            return UnreachableError(message, next_step="Check the network, then run the same command again.")
        message = f"The Hub gave an answer that makes no sense, on the attempt to {doing}."
        return UnreachableError(message, next_step="Check HF_ENDPOINT if it is set, or try again later.")

    def _status_in_words(self, status: int, said: str, doing: str) -> HubError:
        reason = f" It says: {shown(masked(' '.join(said.split()), self.secret), 200)}" if said else ""
        if status >= 500:
            message = f"The Hub failed (status {status}) on the attempt to {doing}."
            return UnreachableError(message, next_step="Run the same command again in a while.", status=status)
        if status == 401:
            step = "Log in again with `hf auth login`, or set HF_TOKEN to a token that is valid."
            return HubError("The Hub does not accept the token.", next_step=step, status=status)
        if status in _BLOCKED:
            step = "Use a token that may write there, or propose the change: rh push-library --create-pr"
            if doing.startswith("create"):
                step = "Choose a name of your own, or use a token that may make repositories there."
                if self.kind == "space":
                    step = f"{step} For Spaces that run code the Hub asks for a plan that includes them."
            elif self.kind == "space":
                step = "Use a token that may write there, or choose a name of your own."
            return HubError(f"This token may not {doing}.{reason}", next_step=step, status=status)
        if status == 429:
            step = "Wait a few minutes and run the same command again."
            return HubError("The Hub asks for fewer requests.", next_step=step, status=status)
        return HubError(f"The Hub refuses (status {status}) to {doing}.{reason}", status=status)


def _remote_file(listed: Any) -> RemoteFile:
    large = listed.lfs
    return RemoteFile(int(listed.size), str(listed.blob_id), None if large is None else str(large.sha256))


def _checked(snapshot: Path, path: str, expected: RemoteFile, repo: str) -> bytes:
    """Read a file of the cache, which keeps files as links to one another, if it is what the commit holds."""
    store = snapshot.parents[1].resolve()
    real = (snapshot / path).resolve()
    if real.is_relative_to(store) and real.is_file() and real.stat().st_size == expected.size:
        data = real.read_bytes()
        if expected.holds(data):
            return data
    step = f"Remove {snapshot.parents[1]} and run the same command again."
    raise HubError(f"The copy of {path} of {repo} in the cache is damaged.", next_step=step)


def _quiet_bar() -> Any:
    """Return a progress bar that shows nothing."""
    bar: Any = import_module("huggingface_hub.utils").tqdm

    def quiet(bar_self: Any, *args: Any, **kwargs: Any) -> None:
        bar.__init__(bar_self, *args, **{**kwargs, "disable": True})

    return type("Quiet", (bar,), {"__init__": quiet})

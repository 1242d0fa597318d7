"""What a Hub keeps: users, repositories, commits, tags, pull requests. In memory, without any network."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

KINDS = {"models": "", "datasets": "datasets/", "spaces": "spaces/"}
"""Kinds of repository, and what stands before their names in addresses of files."""


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, code: str = "", **body: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.body = status, message, code, body


@dataclass(frozen=True)
class User:
    name: str
    orgs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commit:
    id: str
    parent: str | None
    title: str
    message: str
    author: str
    date: datetime
    files: Mapping[str, bytes]


@dataclass
class Pull:
    number: int
    title: str
    author: str
    head: str
    status: str = "open"


@dataclass
class Repository:
    kind: str
    name: str
    private: bool = False
    gated: bool = False
    readers: set[str] = field(default_factory=set)
    """Users other than its owners who may read it although it is private or gated."""
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Commit and message of each tag."""
    pulls: list[Pull] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes that are stated instead of the true ones."""

    def may_write(self, user: User | None) -> bool:
        return user is not None and self.name.split("/")[0] in {user.name, *user.orgs}

    def may_read(self, user: User | None) -> bool:
        return not self.private or self.may_write(user) or (user is not None and user.name in self.readers)

    def find(self, revision: str) -> Commit:
        """The commit of a branch, a tag, a pull request or an id."""
        pulls = {f"refs/pr/{pull.number}": pull.head for pull in self.pulls}
        named = self.branches.get(revision) or self.tags.get(revision, ("", ""))[0] or pulls.get(revision) or revision
        found = self.commits.get(named)
        if found is None and 7 <= len(named) < 40:
            found = next((each for each in self.commits.values() if each.id.startswith(named)), None)
        if found is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def add(self, files: Mapping[str, bytes], parent: str | None, title: str, message: str, author: str) -> Commit:
        """Add a commit; nothing points at it yet."""
        number = len(self.commits)
        content = repr((number, parent, title, sorted((path, git_id(data)) for path, data in files.items())))
        name = hashlib.sha1(f"{self.name}{content}".encode()).hexdigest()
        date = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        self.commits[name] = Commit(name, parent, title, message, author, date, dict(files))
        return self.commits[name]

    def put(
        self, files: Mapping[str, bytes | str], *, title: str = "edited on the web", author: str = "someone"
    ) -> str:
        """Change files of the main branch as the page of the Hub does; None as content would not do. Returns the id."""
        head = self.find("main")
        new = {path: data if isinstance(data, bytes) else data.encode() for path, data in files.items()}
        self.branches["main"] = self.add({**head.files, **new}, head.id, title, "", author).id
        return self.branches["main"]

    def merge(self, number: int) -> str:
        """Merge a pull request whose base is the head of the main branch."""
        pull = self.pulls[number - 1]
        head = self.commits[pull.head]
        assert head.parent == self.branches["main"], "the pull request would have to be rebased"
        self.branches["main"], pull.status = head.id, "merged"
        return head.id

    def history(self, revision: str) -> list[Commit]:
        found: list[Commit] = []
        commit: Commit | None = self.find(revision)
        while commit is not None:
            found.append(commit)
            commit = self.commits.get(commit.parent or "")
        return found

    def apply(self, lines: Iterable[Mapping[str, Any]], *, revision: str, user: User, pull: bool) -> dict[str, Any]:
        """Make a commit from the lines of a request."""
        header, *operations = lines
        value = header["value"]
        head = self.find(revision)
        parent = value.get("parentCommit")
        if parent and not pull and not head.id.startswith(parent):
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        start = self.find(parent) if parent else head
        files = dict(start.files)
        for line in operations:
            path = line["value"]["path"]
            if line["key"] == "file":
                files[path] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "deletedFile":
                if path not in files:
                    raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound")
                del files[path]
            else:
                raise Refusal(400, f"This server does not know {line['key']}.")
        made = self.add(files, start.id, value["summary"], value.get("description", ""), user.name)
        answer: dict[str, Any] = {"commitOid": made.id, "commitUrl": f"/{self.name}/commit/{made.id}"}
        if pull:
            self.pulls.append(Pull(len(self.pulls) + 1, value["summary"], user.name, made.id))
            return answer | {"pullRequestUrl": f"/{self.name}/discussions/{len(self.pulls)}"}
        if revision not in self.branches:
            raise Refusal(400, f"{revision} is no branch")
        self.branches[revision] = made.id
        return answer


@dataclass
class Store:
    users: dict[str, User] = field(default_factory=dict)
    """By token."""
    repos: dict[tuple[str, str], Repository] = field(default_factory=dict)
    """By kind and name."""

    def create(self, name: str, *, kind: str = "models", private: bool = False) -> Repository:
        repo = Repository(kind, name, private)
        first = repo.add({".gitattributes": b"*.bin filter=lfs\n"}, None, "initial commit", "", "system")
        repo.branches["main"] = first.id
        self.repos[kind, name] = repo
        return repo

    def find(self, kind: str, name: str, user: User | None) -> Repository:
        """A repository, if the user may know of it."""
        repo = self.repos.get((kind, name))
        if repo is None or not repo.may_read(user):
            raise Refusal(401 if user is None else 404, "Repository not found", "RepoNotFound")
        return repo


def git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

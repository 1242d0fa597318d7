"""A local Hub that the real client talks to: repositories of models, datasets and Spaces, in memory, on 127.0.0.1.

    with HubServer() as hub:
        hub.login("ann")                                  # a token for a user
        repo = hub.store.create("ann/library")            # or let the client create it
        hub.fail("POST", "/commit/", "lost")              # the next such request does what it should, then breaks off
        hub.die_at(3)                                     # from the third request on nothing is answered any more
        ...ask(hub.url)...

Large files (LFS, Xet) are not spoken: every file is a regular one.
"""

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from hub_jobs import HARDWARE, JobRunner
from hub_store import KINDS, Commit, Refusal, Repository, Store, User, git_id

FAULTS = frozenset({"503", "reset", "lost", "cut", "garbage", "half", "torn", "flip"})
"""What can go wrong with a request.

`503`, `reset`: it is not carried out, and answered with that status or by tearing the connection. `lost`, `cut`: it is
carried out, and then the same happens. `garbage`: it is carried out, and answered with bytes that mean nothing. `half`,
`torn`: half of the answer comes, then the connection is closed or torn. `flip`: one byte of the answer is another one.
"""


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    broken: str = ""
    """`half` or `torn`: only half of it is sent."""


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    user: User | None
    body: bytes
    range: str | None

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"{}")


class HubServer:
    """The server; a context manager."""

    def __init__(self) -> None:
        self.store = Store()
        self.jobs = JobRunner()
        self.requests: list[str] = []
        """Method and path of every request, in order of arrival."""
        self.ranges: list[str] = []
        """The parts of files that were asked for."""
        self.page = 1000
        """Items per page of lists."""
        self._faults: list[tuple[str, str, str]] = []
        self._dead_at: int | None = None
        self._applied = False
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._dead_at = 0  # connections that are still open must not be served any more
        self.jobs.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def login(self, name: str, *orgs: str) -> str:
        """Make a user, or find one, and return the token."""
        token = "hf_" + name.capitalize() * 8
        self.store.users[token] = User(name, orgs)
        return token

    def fail(self, method: str, part: str, fault: str) -> None:
        """Let the next request of this method whose path holds `part` go wrong."""
        assert fault in FAULTS
        self._faults.append((method, part, fault))

    def die_at(self, number: int, *, applied: bool = False) -> None:
        """Answer nothing from the given request on, counted from 1 from now.

        Args:
            number: The request.
            applied: Whether that request is carried out all the same.
        """
        self._dead_at, self._applied = len(self.requests) + number, applied

    def revive(self) -> None:
        """Answer again."""
        self._dead_at = None
        self._faults.clear()

    def answer(self, request: Request) -> Answer | None:
        """Answer a request; None tears the connection."""
        with self._lock:
            self.requests.append(f"{request.method} {request.path}")
            count = len(self.requests)
            if self._dead_at is not None and count >= self._dead_at:
                if count == self._dead_at and self._applied:
                    self._carry_out(request)
                return None
            fault = self._take_fault(request)
            if fault in {"503", "reset"}:
                return Answer(503, b"{}") if fault == "503" else None
            answer = self._carry_out(request)
            if fault in {"half", "torn"}:
                return replace(answer, broken=fault)
            if fault == "flip":
                return replace(answer, body=answer.body[:-1] + bytes([answer.body[-1] ^ 1]))
            broken = {"lost": Answer(503, b"{}"), "cut": None, "garbage": Answer(200, b"\xff\x00<html>")}
            return broken[fault] if fault else answer

    def _take_fault(self, request: Request) -> str | None:
        for each in self._faults:
            if each[0] == request.method and each[1] in request.path:
                self._faults.remove(each)
                return each[2]
        return None

    def _carry_out(self, request: Request) -> Answer:
        try:
            return self._route(request)
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            return _json({"error": refusal.message, **refusal.body}, refusal.status, headers)

    def _route(self, request: Request) -> Answer:
        for method, pattern, handle in _ROUTES:
            found = re.fullmatch(pattern, request.path)
            if found and method == request.method:
                return handle(self, request, *map(unquote, found.groups()))
        found = re.fullmatch(r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path)
        if found and request.method in {"GET", "HEAD"}:
            kind = next(kind for kind, prefix in KINDS.items() if prefix == (found[1] or ""))
            return self._file(request, kind, *map(unquote, found.groups()[1:]))
        raise Refusal(404, f"no route for {request.method} {request.path}")

    def whoami(self, request: Request) -> Answer:
        if request.user is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        orgs = [{"name": org} for org in request.user.orgs]
        return _json({"type": "user", "name": request.user.name, "fullname": request.user.name, "orgs": orgs})

    def create(self, request: Request) -> Answer:
        wish = request.json
        if request.user is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        owner = wish.get("organization") or request.user.name
        if owner not in {request.user.name, *request.user.orgs}:
            raise Refusal(403, f"You don't have the rights to create a repository under the namespace {owner}")
        kind = wish.get("type", "model") + "s"
        name = f"{owner}/{wish['name']}"
        address = f"{self.url}/{KINDS[kind]}{name}"
        if (kind, name) in self.store.repos:
            raise Refusal(409, "You already created this repository", url=address)
        self.store.create(name, kind=kind, private=wish.get("visibility") == "private")
        return _json({"url": address})

    def validate_yaml(self, request: Request) -> Answer:
        found = re.match(r"---\n(.*?)\n---(?:\n|$)", request.json["content"], re.DOTALL)
        problem = None
        try:
            value = yaml.safe_load(found[1]) if found else None
            problem = _card_problem(value)
        except yaml.YAMLError as error:
            problem = f"not YAML: {error}"
        errors = [{"message": problem}] if problem else []
        return _json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def models(self, request: Request) -> Answer:
        """List models by tag, part of the name and author, the latest first, as the header of their cards tells."""
        query = {key: values[0] for key, values in request.query.items()}
        found = []
        for (kind, name), repo in self.store.repos.items():
            text = repo.find("main").files.get("README.md", b"").decode()
            match = re.match(r"---\n(.*?)\n---(?:\n|$)", text, re.DOTALL)
            header = yaml.safe_load(match[1]) if match else {}
            wanted = query.get("filter", "") in [*header.get("tags", []), ""] and query.get("search", "") in name
            mine = query.get("author", name.split("/")[0]) == name.split("/")[0]
            if kind == "models" and wanted and mine and repo.may_read(request.user):
                date = repo.find("main").date.strftime("%Y-%m-%dT%H:%M:%S.000Z")
                about = {"id": name, "likes": 3, "downloads": 7, "private": repo.private, "cardData": header}
                found.append({**about, "lastModified": date})
        found.sort(key=lambda each: str(each["lastModified"]), reverse=True)
        return _json(found[: int(query.get("limit", 1000))])

    def info(self, request: Request, kind: str, name: str, revision: str = "main") -> Answer:
        repo = self.store.find(kind, name, request.user)
        commit = repo.find(revision)
        date = commit.date.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        siblings = [{"rfilename": path} for path in commit.files]
        return _json(
            {"id": name, "sha": commit.id, "lastModified": date, "createdAt": date, "private": repo.private}
            | {"gated": "manual" if repo.gated else False, "disabled": False, "tags": [], "siblings": siblings}
        )

    def refs(self, request: Request, kind: str, name: str) -> Answer:
        repo = self.store.find(kind, name, request.user)
        refs: dict[str, Any] = {
            "branches": [_ref(branch, f"refs/heads/{branch}", commit) for branch, commit in repo.branches.items()],
            "tags": [_ref(tag, f"refs/tags/{tag}", commit) for tag, (commit, _) in repo.tags.items()],
            "converts": [],
        }
        if "include_prs" in request.query:
            heads = {each.number: each.head for each in repo.pulls}
            refs["pullRequests"] = [_ref(f"pr/{number}", f"refs/pr/{number}", head) for number, head in heads.items()]
        return _json(refs)

    def commits(self, request: Request, kind: str, name: str, revision: str) -> Answer:
        found = self.store.find(kind, name, request.user).history(revision)
        return self._paged(request, [_commit(each) for each in found])

    def tree(self, request: Request, kind: str, name: str, revision: str, folder: str = "") -> Answer:
        repo = self.store.find(kind, name, request.user)
        items: list[dict[str, Any]] = []
        folders = set()
        for path, data in repo.find(revision).files.items():
            folders |= {path.rsplit("/", depth)[0] for depth in range(1, path.count("/") + 1)}
            items.append({"type": "file", "oid": git_id(data), "size": repo.sizes.get(path, len(data)), "path": path})
        items += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in sorted(folders)]
        if folder or request.query.get("recursive") == ["false"]:
            items = [item for item in items if item["path"].rpartition("/")[0] == folder]
        return self._paged(request, items)

    def _paged(self, request: Request, items: list[dict[str, Any]]) -> Answer:
        start = int(request.query.get("cursor", ["0"])[0])
        headers = {}
        if start + self.page < len(items):
            headers["Link"] = f'<{self.url}{request.path}?recursive=true&cursor={start + self.page}>; rel="next"'
        return _json(items[start : start + self.page], headers=headers)

    def preupload(self, request: Request, kind: str, name: str, revision: str) -> Answer:
        repo = self._writable(request, kind, name)
        files = repo.find(revision).files
        wanted = request.json["files"]
        if len(wanted) > 256:
            raise Refusal(400, "too many files")
        ignored = files.get(".gitignore", b"").decode().split()
        answer = []
        for each in wanted:
            path = each["path"]
            known = git_id(files[path]) if path in files else None
            hidden = any(fnmatch(path.rsplit("/", 1)[-1], pattern) for pattern in ignored)
            answer.append({"path": path, "uploadMode": "regular", "shouldIgnore": hidden, "oid": known})
        return _json({"files": answer})

    def commit(self, request: Request, kind: str, name: str, revision: str) -> Answer:
        repo = self._writable(request, kind, name)
        assert request.user is not None
        lines = [json.loads(line) for line in request.body.splitlines()]
        answer = repo.apply(lines, revision=revision, user=request.user, pull="create_pr" in request.query)
        return _json({key: self.url + text if key.endswith("Url") else text for key, text in answer.items()})

    def squash(self, request: Request, kind: str, name: str, revision: str) -> Answer:
        repo = self._writable(request, kind, name)
        assert request.user is not None
        files = repo.find(revision).files
        repo.commits.clear()
        repo.branches[revision] = repo.add(files, None, request.json["message"], "", request.user.name).id
        return _json({})

    def tag(self, request: Request, kind: str, name: str, revision: str) -> Answer:
        repo = self._writable(request, kind, name)
        wish = request.json
        commit = repo.find(revision)
        if wish["tag"] in repo.tags:
            raise Refusal(409, f"Tag {wish['tag']} already exists")
        repo.tags[wish["tag"]] = (commit.id, wish.get("message", ""))
        return _json({})

    def discussions(self, request: Request, kind: str, name: str) -> Answer:
        repo = self.store.find(kind, name, request.user)
        status = request.query.get("status", ["open"])[0]
        found = [
            {"num": each.number, "title": each.title, "author": {"name": each.author}, "status": each.status}
            | {"createdAt": "2026-01-01T00:00:00.000Z", "isPullRequest": True}
            | {"repo": {"name": name, "type": kind.removesuffix("s")}}
            for each in repo.pulls
            if each.status == status
        ]
        return _json({"discussions": found, "count": len(found), "start": 0})

    def hardware(self, request: Request) -> Answer:
        return _json(HARDWARE)

    def start_job(self, request: Request, owner: str) -> Answer:
        self._payer(request, owner)
        if self.jobs.refusal:
            raise Refusal(self.jobs.refusal, "Jobs are refused")
        return _json(self.jobs.start(owner, request.json))

    def inspect_job(self, request: Request, owner: str, job: str) -> Answer:
        self._payer(request, owner)
        return _json(self.jobs.find(job).to_json())

    def job_log(self, request: Request, owner: str, job: str) -> Answer:
        """The whole log so far; the client asks again until the job has ended."""
        self._payer(request, owner)
        return Answer(200, self.jobs.find(job).log_events(), {"Content-Type": "text/event-stream"})

    def cancel_job(self, request: Request, owner: str, job: str) -> Answer:
        self._payer(request, owner)
        self.jobs.find(job).cancel()
        return _json({})

    def _payer(self, request: Request, owner: str) -> None:
        if request.user is None or owner not in {request.user.name, *request.user.orgs}:
            raise Refusal(401 if request.user is None else 403, "You may not use jobs of this namespace")

    def _writable(self, request: Request, kind: str, name: str) -> Repository:
        repo = self.store.find(kind, name, request.user)
        if not repo.may_write(request.user) and (request.user is None or "create_pr" not in request.query):
            raise Refusal(401 if request.user is None else 403, "You don't have the rights to write here")
        return repo

    def _file(self, request: Request, kind: str, name: str, revision: str, path: str) -> Answer:
        repo = self.store.find(kind, name, request.user)
        if repo.gated and not repo.may_write(request.user) and not (request.user and request.user.name in repo.readers):
            message = "Access to this repository is restricted"
            raise Refusal(401 if request.user is None else 403, message, "GatedRepo")
        commit = repo.find(revision)
        headers = {"X-Repo-Commit": commit.id}
        data = commit.files.get(path)
        if data is None:
            return _json({"error": "Entry not found"}, 404, {**headers, "X-Error-Code": "EntryNotFound"})
        headers |= {"ETag": f'"{git_id(data)}"', "Content-Type": "text/plain"}
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range or "")
        if found:
            self.ranges.append(found[0])
            start, end = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            return Answer(206, data[start : end + 1], headers)
        return Answer(200, data, headers)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})


def _ref(name: str, ref: str, commit: str) -> dict[str, str]:
    return {"name": name, "ref": ref, "targetCommit": commit}


def _commit(commit: Commit) -> dict[str, Any]:
    date = commit.date.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    found = {"id": commit.id, "title": commit.title, "message": commit.message, "date": date}
    return {**found, "authors": [{"user": commit.author}]}


def _card_problem(value: Any) -> str | None:
    """What the Hub would not accept in the header of a card."""
    if not isinstance(value, dict):
        return "the header is no mapping"
    for key in ("license", "library_name", "pipeline_tag"):
        if not isinstance(value.get(key, ""), str):
            return f"{key} is not text"
    if not all(isinstance(tag, str) for tag in value.get("tags", [])):
        return "a tag is not text"
    for model in value.get("model-index", []):
        for result in model["results"]:
            texts = (model["name"], result["task"]["type"], result["dataset"]["type"], result["dataset"]["name"])
            if not all(isinstance(text, str) and text for text in texts):
                return "model-index lacks a name"
            for metric in result["metrics"]:
                if not isinstance(metric["type"], str) or not isinstance(metric["value"], int | float):
                    return "model-index holds a metric without a value"
    return None


_ANY = r"/api/(models|datasets|spaces)/([^/]+/[^/]+)"
_ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", "/api/whoami-v2", HubServer.whoami),
    ("POST", "/api/repos/create", HubServer.create),
    ("POST", "/api/validate-yaml", HubServer.validate_yaml),
    ("GET", "/api/models", HubServer.models),
    ("GET", _ANY, HubServer.info),
    ("GET", rf"{_ANY}/revision/([^/]+)", HubServer.info),
    ("GET", rf"{_ANY}/refs", HubServer.refs),
    ("GET", rf"{_ANY}/commits/([^/]+)", HubServer.commits),
    ("GET", rf"{_ANY}/tree/([^/]+)", HubServer.tree),
    ("GET", rf"{_ANY}/tree/([^/]+)/(.+)", HubServer.tree),
    ("POST", rf"{_ANY}/preupload/([^/]+)", HubServer.preupload),
    ("POST", rf"{_ANY}/commit/([^/]+)", HubServer.commit),
    ("POST", rf"{_ANY}/super-squash/([^/]+)", HubServer.squash),
    ("POST", rf"{_ANY}/tag/([^/]+)", HubServer.tag),
    ("GET", rf"{_ANY}/discussions", HubServer.discussions),
    ("GET", "/api/jobs/hardware", HubServer.hardware),
    ("POST", "/api/jobs/([^/]+)", HubServer.start_job),
    ("GET", "/api/jobs/([^/]+)/([^/]+)", HubServer.inspect_job),
    ("GET", "/api/jobs/([^/]+)/([^/]+)/logs", HubServer.job_log),
    ("POST", "/api/jobs/([^/]+)/([^/]+)/cancel", HubServer.cancel_job),
)


class _Handler(BaseHTTPRequestHandler):
    """Turns bytes into requests and answers into bytes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: HubServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path.endswith("/logs"):
            self.hub.jobs.wait(parts.path.split("/")[-2])
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        user = self.hub.store.users.get(token)
        query = parse_qs(parts.query, keep_blank_values=True)
        request = Request(self.command, parts.path, query, user, body, self.headers.get("Range"))
        if token and user is None:
            answer: Answer | None = _json({"error": "no such token"}, 401, {"X-Error-Message": _BAD_TOKEN})
        else:
            answer = self.hub.answer(request)
        if answer is None:
            self._tear()
            return
        self.send_response(answer.status)
        for key, text in (answer.headers or {}).items():
            self.send_header(key, text)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(answer.body[: len(answer.body) // 2] if answer.broken else answer.body)
        if answer.broken == "torn":
            self._tear()
        elif answer.broken:
            self.close_connection = True

    def _tear(self) -> None:
        """Close the connection so that the other side sees an error, not an end."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    do_GET = do_HEAD = do_POST = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


_BAD_TOKEN = "Invalid credentials in Authorization header"

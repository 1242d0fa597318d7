"""Access control by a bearer token; without a token, only local programs have access."""

import hmac
import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.errors import InputError
from rewardharness.files import read_text
from rewardharness.serving.faults import Fault, RefusedError
from rewardharness.serving.hosts import HostCheck

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths without access control: liveness and readiness."""

SHORTEST_TOKEN = 16
"""Minimum length of a token; `openssl rand -hex 32` creates one."""

_TOKEN = re.compile(r"[\x21-\x7e]+")
_ID = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_ID = 64


def read_token(given: str | None, file: Path | None) -> str | None:
    """Return the token that callers must send.

    Args:
        given: What the environment says.
        file: A file that holds the token and nothing else; it goes before the environment.

    Raises:
        InputError: If it is too short, or has characters that a header cannot contain.
        DataError: If there is no such file.
    """
    token = read_text(file).strip() if file is not None else given
    if token is None:
        return None
    place = "The token file" if file is not None else "RH_SERVER_TOKEN"
    if len(token) < SHORTEST_TOKEN or not _TOKEN.fullmatch(token):
        step = "Make one with: openssl rand -hex 32"
        raise InputError(f"{place} holds no token of {SHORTEST_TOKEN} or more plain characters.", next_step=step)
    return token


def clean_request_id(request_id: str | None) -> str:
    """Return the request id of a caller without unsafe characters, or create one."""
    cleaned = _ID.sub("", request_id or "")[:_LONGEST_ID]
    return cleaned or uuid.uuid4().hex


@dataclass(frozen=True)
class Guard:
    """Decides whether a request is allowed.

    Without a token a page in a browser on this machine must not be able to ask: it would come with an `Origin`, or,
    when a foreign name is made to point here, with a foreign `Host`.
    """

    token: str | None = field(default=None, repr=False)
    """Required token; None for no token."""
    local: bool = True
    """Whether the server accepts local connections only."""

    def check(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Check a request.

        Args:
            path: Its path.
            headers: By lowercase name.

        Raises:
            RefusedError: 401 without the right token; 403 where a browser page asks a server without one.
        """
        if path in OPEN_PATHS:
            return
        if self.token is None:
            if b"origin" in headers or (self.local and not HostCheck().allows(headers.items())):
                step = "Ask from a program on this machine, or start the server with a token."
                raise RefusedError(403, Fault("forbidden", "Pages in a browser may not ask this server.", step))
            return
        scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(credentials.strip(), self.token.encode("ascii"))
        if scheme.lower() != b"bearer" or not right:
            step = "Send the header 'Authorization: Bearer TOKEN' with the server's token."
            raise RefusedError(401, Fault("unauthorized", "The token is missing or wrong.", step))

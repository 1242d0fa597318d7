"""Which names a server answers to, and which pages may call it. Shared by the reward server and the web app.

A page in a browser can send requests to every address that the browser reaches, and its own name can resolve to this
machine (DNS rebinding). Such a request carries the foreign name as `Host`, or the page's address as `Origin`.
"""

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

Messages = Callable[[MutableMapping[str, Any]], Awaitable[None]]

REFUSAL = (
    "Refused: the request is for a host name, or from a web page, that this app does not know.\n"
    "Next: open the address that the app printed, or start it with --allow-host NAME (RH_ALLOW_HOST).\n"
)
"""Message for refused callers."""

_PLACE = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:@/\\\[\]]+)(?::[0-9]{1,5})?")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address or name."""
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _name(place: str) -> str:
    """Return the name in `name:port`; empty if it is malformed."""
    match = _PLACE.fullmatch(place)
    return match["name"] if match else ""


@dataclass(frozen=True)
class HostCheck:
    """Decides by `Host` and `Origin` whether a request is answered.

    Loopback names are always allowed as `Host`. An `Origin` must be the place that the request is for, or be allowed by
    name; `null`, which sandboxed pages and local files send, never is.
    """

    allowed: frozenset[str] = frozenset()
    """Further names, each with its port where pages are served on another than the usual one."""
    own: frozenset[str] = frozenset()
    """Names of this machine."""
    numeric: bool = False
    """Whether every numeric address is allowed as `Host`: no foreign name hides behind one."""

    @classmethod
    def listening(cls, host: str, allowed: Iterable[str] = ()) -> "HostCheck":
        """Return the check for a server that listens on an address.

        Args:
            host: The address or name.
            allowed: Names that the server is reached by through a proxy.
        """
        names = frozenset(name.lower() for name in allowed)
        if is_loopback(host):
            return cls(names)
        machine = socket.gethostname().lower()
        return cls(names, frozenset({host.lower(), machine, f"{machine}.local"}), numeric=True)

    def allows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request with these headers, by lowercase name, is answered."""
        texts = [(name, value.decode("latin-1").strip().lower()) for name, value in headers]
        hosts = [value for name, value in texts if name == b"host" and value]
        origins = [value for name, value in texts if name == b"origin"]
        return all(map(self._answers_to, hosts)) and all(self._may_ask(origin, hosts) for origin in origins)

    def _answers_to(self, host: str) -> bool:
        name = _name(host)
        if is_loopback(name) or name in self.own or name in {_name(place) for place in self.allowed}:
            return bool(name)
        return self.numeric and _address(name) is not None

    def _may_ask(self, origin: str, hosts: list[str]) -> bool:
        scheme, _, place = origin.partition("://")
        return scheme in {"http", "https"} and bool(place) and (place in hosts or place in self.allowed)


class HostMiddleware:
    """Refuses requests for foreign hosts and from foreign pages, before anything else is done. Plain ASGI.

    Args:
        app: The application behind it.
        check: Decides.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], check: HostCheck) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: MutableMapping[str, Any], receive: Callable[..., Any], send: Messages) -> None:
        """Answer one request."""
        if scope["type"] not in {"http", "websocket"} or self._check.allows(scope["headers"]):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            body = REFUSAL.encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

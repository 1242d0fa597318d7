"""The queue of events: no visitor takes all places or all workers from the others.

Gradio keeps a line for each group of events (`concurrency_id`; an event without one is a group of its own) and one
limit for all lines together. Here each line has its own limits: for everybody, for each address and for each session.
"""

import ipaddress
import random
import threading
import time
from collections import Counter, OrderedDict
from functools import lru_cache
from typing import Any, Literal

import gradio as gr
from gradio.queueing import Event, EventQueue, Queue
from gradio.route_utils import get_fn
from starlette.requests import Request

from rewardharness.models.transport import is_public

SESSION_PLACES = 8
"""Events of one session that wait in a line, at most. A page that opens has five in one line at once."""

ADDRESS_PLACES = 24
"""The same of one address, which several people may share."""

PLACES = 96
"""The same of everybody."""

SESSIONS = 100
"""Sessions of one address whose messages are kept, at most."""

LOOK_SECONDS = 0.02
"""How often the queue looks for an event. Gradio looks each millisecond, for which an idle app used 8% of a core."""


@lru_cache(maxsize=4096)
def network_of(peer: str, forwarded: str = "") -> str:
    """Return the address that identifies a visitor; for IPv6 the 64-bit network, which belongs to one visitor.

    Args:
        peer: The address that the connection comes from.
        forwarded: What a trusted proxy says in `X-Forwarded-For`. Only its last public address counts: all before that
            one are a visitor's own words.
    """
    hops = [hop.strip() for hop in forwarded.split(",")]
    address = next((hop for hop in reversed(hops) if is_public(hop)), peer)
    try:
        host = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is None:
        return str(ipaddress.ip_network((host, 64), strict=False))
    return str(getattr(host, "ipv4_mapped", None) or host)


def address_of(request: Any, *, proxied: bool) -> str:
    """Return the address that identifies the visitor of a request.

    Args:
        request: A request of Starlette or Gradio.
        proxied: Whether a trusted proxy stands before the app.
    """
    forwarded = request.headers.get("x-forwarded-for", "") if proxied else ""
    return network_of(request.client.host if request.client else "", forwarded)


class Allowance:
    """What visitors may use within a period: so much each address, and so much all of them. Safe in several threads.

    Args:
        seconds: The period.
        each: Maximum of an address.
        everybody: Maximum of all addresses; None for no limit.
    """

    def __init__(self, seconds: int, each: int, everybody: int | None = None) -> None:
        self._seconds, self._each, self._everybody = seconds, each, everybody
        self._lock, self._period, self._used = threading.Lock(), 0, Counter[str]()

    def take(self, owner: str, count: int = 1) -> bool:
        """Count a use of an address; False if it would be too much."""
        with self._lock:
            period = int(time.monotonic() // self._seconds)
            self._period, self._used = period, self._used if period == self._period else Counter()
            total = self._used.total() + count
            if self._used[owner] + count > self._each or (self._everybody is not None and total > self._everybody):
                return False
            self._used[owner] += count
            return True


class FairQueue(Queue):  # type: ignore[misc]  # Gradio has no types for it
    """A queue whose places and workers are shared fairly.

    Args:
        blocks: The page.
        local: Whether visitors use this computer: then they share one address, and only sessions are distinguished.
        proxied: Whether a trusted proxy stands before the app, as in a Space.
    """

    def __init__(self, blocks: gr.Blocks, *, local: bool, proxied: bool) -> None:
        super().__init__(
            live_updates=True,
            concurrency_count=blocks.max_threads,
            update_intervals=1,
            max_size=None,
            blocks=blocks,
            default_concurrency_limit=4,
        )
        self.sleep_when_free = LOOK_SECONDS
        self._local = local
        self._proxied = proxied
        self._sessions: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    async def push(
        self, body: Any, request: Request, username: str | None
    ) -> tuple[bool, str | list[dict[str, Any]], Literal["success", "error", "queue_full", "validator_error"]]:
        """Put an event in its line, or refuse it where its visitor has no place left there."""
        address = self._address(request)
        line = self.event_queue_per_concurrency_id.get(get_fn(self.blocks, None, body).concurrency_id)
        waiting = line.queue if line is not None else []
        if sum(event.session_hash == body.session_hash for event in waiting) >= SESSION_PLACES or (
            not self._local and sum(self._address(event.request) == address for event in waiting) >= ADDRESS_PLACES
        ):
            return False, "Too many of your requests are waiting. Wait until some of them are done.", "queue_full"
        if len(waiting) >= PLACES:
            return False, f"{len(waiting)} requests are waiting. Try again in a minute.", "queue_full"
        self._remember(address, str(body.session_hash))
        return await super().push(body, request, username)  # type: ignore[no-any-return]

    def get_events(self) -> tuple[list[Event], bool, str] | None:
        """Take the next event: among visitors with a free worker, one of the visitor with the fewest running events."""
        at_work = [event for job in self.active_jobs for event in job or ()]
        total = Counter(self._address(event.request) for event in at_work)
        lines = [line for line in self.event_queue_per_concurrency_id.values() if line.queue]
        for line in random.sample(lines, len(lines)):
            limit = line.concurrency_limit
            if limit is not None and line.current_concurrency >= limit:
                continue
            here = Counter(
                self._address(event.request) for event in at_work if event.concurrency_id == line.concurrency_id
            )
            event = self._next(line, here, total)
            if event is not None:
                line.queue.remove(event)
                return [event], False, line.concurrency_id
        return None

    def _next(self, line: EventQueue, here: Counter[str], total: Counter[str]) -> Event | None:
        """The event of a line that is to begin; None if no visitor who waits there may have another worker."""
        if self._local:
            return line.queue[0]
        share = max(1, (line.concurrency_limit or self.max_thread_count) // 2)
        most = max(1, self.max_thread_count // 4)
        whose = {event: self._address(event.request) for event in line.queue}
        free = [event for event in line.queue if here[whose[event]] < share and total[whose[event]] < most]
        return min(free, key=lambda event: here[whose[event]], default=None)

    def _address(self, request: Request) -> str:
        return address_of(request, proxied=self._proxied)

    def _remember(self, address: str, session: str) -> None:
        """Keep the sessions of an address within bounds: Gradio forgets the oldest of everybody's."""
        sessions = self._sessions.setdefault(address, OrderedDict())
        self._sessions.move_to_end(address)
        sessions[session] = None
        sessions.move_to_end(session)
        if len(sessions) > SESSIONS and not self._local:
            oldest, _ = sessions.popitem(last=False)
            self.pending_messages_per_session.pop(oldest, None)
        if len(self._sessions) > PLACES * SESSIONS:
            self._sessions.popitem(last=False)

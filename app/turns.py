"""Whose turn it is among the comparisons of one visitor: one at a time, the newest counts, what it replaces is silent.

A click is told to the server at once, and waits there to be taken up: in between it can still be made void.
"""

import threading
from typing import Any

from app.running import Running

PATIENCE = 20.0
"""Seconds for which a comparison waits for the end of the one that it replaces."""


class Turn:
    """One comparison, from the moment it is taken up to its last word."""

    def __init__(self) -> None:
        self.forgotten = False
        """Whether nothing is to be said about it any more."""
        self.replaced = False
        """Whether another one has its place on the page: not even that this one is over may be said."""
        self.ending = False
        """Whether only its last word is still to be said."""
        self.over = threading.Event()
        self._running: Running | None = None

    def begin(self, running: Running) -> Running:
        """Say what is under way. It may have been forgotten by now."""
        self._running = running
        if self.forgotten:
            running.forget()
        return running

    def stop(self) -> None:
        """Give it up. It says so itself, as its last word."""
        if self._running is not None:
            self._running.stop()

    def forget(self) -> None:
        """Give it up, and leave nothing to say about it."""
        self.forgotten = True
        if self._running is not None:
            self._running.forget()

    @property
    def leaving(self) -> bool:
        """Whether the next one may be asked for: it is over, or will be in a moment."""
        return self.ending or self.forgotten or self.over.is_set()

    def conclude(self) -> None:
        """Say that only its last word is to come. Whoever has read that may ask for the next one at once."""
        self.ending = True

    def end(self) -> None:
        """Say that nothing more will come of it."""
        self.stop()
        self.over.set()


class Turns:
    """The comparisons of one visitor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: str | None = None
        self._turn: Turn | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Turns":
        """Each visitor gets one of their own."""
        return Turns()

    def ask(self, who: str) -> None:
        """Ask for a comparison. While one is under way, this asks for nothing: it was one click or key too many.

        Args:
            who: What was clicked; `take` names it again.
        """
        with self._lock:
            if self._turn is None or self._turn.leaving:
                self._asked = who

    def replace(self, who: str) -> None:
        """Ask for a comparison in place of the one that is asked for or under way."""
        with self._lock:
            self._forget()
            self._asked = who

    def forget(self) -> None:
        """Make void what is asked for, and give up what is under way."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._asked = None
        if self._turn is not None:
            self._turn.forget()

    def take(self, who: str) -> Turn | None:
        """Take up what was asked for; None if that is void by now. Waits until the one before has fallen silent."""
        with self._lock:
            if self._asked != who:
                return None
            self._asked, before = None, self._turn
            turn = self._turn = Turn()
            if before is not None:
                before.replaced = True
                before.forget()
        if before is not None:
            before.over.wait(PATIENCE)
        return turn

    def stop(self) -> None:
        """Give up what is under way."""
        with self._lock:
            if self._turn is not None:
                self._turn.stop()

"""Running a command of `rh` in this process: its status is checked, and what it prints is returned."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Shown(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """The only object on standard output."""
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def text(self) -> str:
        """Standard output in one line, without the borders of tables."""
        return " ".join(self.out.replace("│", " ").split())


Rh = Callable[..., Shown]
"""`rh("runs", "list", status=0)`."""

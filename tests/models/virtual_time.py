"""An event loop whose clock jumps to the next thing that is due, so that hours of waiting take no time."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        wait = self._selector.select

        def select(timeout: float | None = None) -> Any:
            events = wait(0)
            if not events and timeout is None:
                raise RuntimeError("everything waits and nothing will ever happen")
            if not events:
                self._now += timeout
            return events

        self._selector.select = select

    def time(self) -> float:
        return self._now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in virtual time, and see to it that it leaves nothing running."""

    async def watched() -> Any:
        result = await main
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(watched())


def now() -> float:
    return asyncio.get_running_loop().time()

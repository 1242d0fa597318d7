"""An event loop whose clock a test can put on, so that what takes long has its time without anybody waiting for it."""

import asyncio


class PutOnLoop(asyncio.SelectorEventLoop):
    """The usual loop. What is due at a later time is due when the test says that it is this late, and not before."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        """Return the time of the machine and what it was put on by."""
        return super().time() + self._ahead

    def put_on(self, seconds: float) -> None:
        """Let this many seconds pass; may be called from any thread. What has arrived by now was in time."""

        def jump() -> None:
            self._ahead += seconds

        self.call_soon_threadsafe(jump)

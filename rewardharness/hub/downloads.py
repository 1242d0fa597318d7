"""Parallel downloads with one progress counter, and single public files."""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError

Progress = Callable[[int, int], None]
"""Called with the bytes present and the total."""

_WORKERS = 8
_INTERVAL = 0.2
"""Seconds between two progress calls."""


def cache_folder() -> Path:
    """Return the default cache folder of the client."""
    return Path(import_module("huggingface_hub.constants").HF_HUB_CACHE)


def silent_bar() -> Any:
    """Return a progress bar class that shows nothing."""
    return _bar_class({})


def download_files(
    paths: Sequence[str], options: Mapping[str, Any], progress: Callable[[int], None]
) -> dict[str, Path]:
    """Download files in parallel. Progress is reported from the calling thread; an interrupt stops all downloads.

    Args:
        paths: Paths in the repository.
        options: Other arguments of `hf_hub_download`.
        progress: Called with the bytes received.
    """
    from huggingface_hub import hf_hub_download

    counter = ByteCounter()
    bar = counting_bar(counter)
    with ThreadPoolExecutor(_WORKERS, "download") as pool:
        fetch = partial(hf_hub_download, tqdm_class=bar, **options)
        running = {pool.submit(fetch, filename=path): path for path in paths}
        try:
            waiting = set(running)
            while waiting:
                done, waiting = wait(waiting, timeout=_INTERVAL, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                progress(counter.bytes)
        except BaseException:
            counter.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return {path: Path(future.result()) for future, path in running.items()}


class ByteCounter:
    """Number of bytes received, counted by several threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self.stopped = False
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes; raise in the calling thread if the download was stopped."""
        if self.stopped:
            raise InterruptedError("the download was interrupted")
        with self._lock:
            self.bytes += count


def counting_bar(counter: ByteCounter) -> Any:
    """Return a progress bar class that shows nothing and counts bytes."""

    def update(bar: Any, count: float | None = 1) -> None:
        counter.add(int(count or 0))

    def ignore(bar: Any, *args: Any, **kwargs: Any) -> None:
        """Ignore the compressed bytes on the network, which are reported separately."""

    return _bar_class({"update": update, "update_transfer": ignore, "set_transfer_postfix_str": ignore})


def _bar_class(methods: Mapping[str, Any]) -> Any:
    base: Any = import_module("huggingface_hub.utils").tqdm

    def begin(bar: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(bar, *args, **{**kwargs, "disable": True})

    return type("Bar", (base,), {"__init__": begin, **methods})


SECONDS = 20


def public_file(url: str, limit: int) -> bytes:
    """Download a public file.

    Args:
        url: An address with `https://`; redirects to other schemes are refused.
        limit: Maximum number of bytes.

    Raises:
        DataError: If it cannot be downloaded, or is larger.
    """
    host = url.split("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as reply:
            if not reply.geturl().startswith("https://"):
                raise DataError(f"{host} redirects to an address without encryption.")
            data: bytes = reply.read(limit + 1)
    except urllib.error.HTTPError as error:
        raise DataError(f"{host} answered with status {error.code}.") from None
    except OSError as error:
        raise DataError(f"{host} cannot be reached: {getattr(error, 'reason', error)}.") from None
    if len(data) > limit:
        raise DataError(f"The file of {host} is larger than {limit:,} bytes.")
    return data

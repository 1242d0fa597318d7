"""`rh cache`: cached answers of models."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app, within
from rewardharness.errors import InputError
from rewardharness.ranges import Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.cache import JudgmentCache

app = make_app("cache", "Show or clear cached answers of models.")


@contextmanager
def _cache() -> "Iterator[tuple[Path, JudgmentCache | None]]":
    """Open the cache; None if there is none, since looking must not make a file."""
    from rewardharness.judging.cache import FILE, JudgmentCache

    folder = Settings.from_env().home / "cache"
    if not (folder / FILE).exists():
        yield folder / FILE, None
        return
    cache = JudgmentCache(folder)
    try:
        yield folder / FILE, cache
    finally:
        cache.close()


@app.command
def stats(*, json: bool = False) -> int:
    """Show the number of cached answers per judge, and the size of the cache.

    Example: `rh cache stats`

    Args:
        json: Print one JSON object.
    """
    from rewardharness.judging.cache import CacheStats

    with _cache() as (path, cache):
        held = CacheStats(path, 0, 0, {}) if cache is None else cache.stats()
    if held.by_judge and not json:
        output.table(("judge", "answers"), [(judge, str(count)) for judge, count in sorted(held.by_judge.items())])
    text = f"{held.judgments} answers, {held.bytes / 1e6:.1f} MB: {held.path}"
    output.show(json, {**vars(held), "path": str(held.path)}, text)
    return 0


@app.command
def prune(
    *,
    older_than: Annotated[float | None, within("older-than", Range(0))] = None,
    max_mb: Annotated[float | None, within("max-mb", Range(0))] = None,
) -> int:
    """Delete the oldest cached answers.

    Example: `rh cache prune --older-than 30`

    Args:
        older_than: Delete answers that were stored more than this number of days ago.
        max_mb: Delete the oldest answers until the others take at most this number of megabytes.
    """
    if older_than is None and max_mb is None:
        raise UsageError("Missing: --older-than or --max-mb.", next_step="To delete all answers: rh cache clear")
    since = 0.0 if older_than is None else time.time() - older_than * 86_400
    with _cache() as (_, cache):
        deleted = 0 if cache is None else cache.prune(since, None if max_mb is None else int(max_mb * 1e6))
    output.say(f"{output.count(deleted, 'answer')} deleted.")
    return 0


@app.command
def clear(*, judge: str | None = None, json: bool = False) -> int:
    """Delete cached answers. Models are queried again when the answers are needed.

    Example: `rh cache clear --judge "vllm:qwen"`

    Args:
        judge: Delete the answers of this judge only, by its name in `rh cache stats`.
        json: Print one JSON object.
    """
    with _cache() as (_, cache):
        known = {} if cache is None else cache.stats().by_judge
        if cache is not None and judge is not None and judge not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InputError(f"The cache has no answers of {judge!r}.", next_step=f"Cached judges: {names}.")
        deleted = 0 if cache is None else cache.clear(judge)
    output.show(json, {"deleted": deleted}, f"{deleted} answers deleted.")
    return 0

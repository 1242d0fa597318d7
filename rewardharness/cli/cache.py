"""`rh cache`: cached answers of models, and edits of editors."""

import os
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

app = make_app("cache", "Show or clear cached answers of models, and edits.")


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


def _edits() -> list[tuple[Path, os.stat_result]]:
    """Return the kept edits, the newest first."""
    from rewardharness.editors.making import cached_edits

    folder = cached_edits(Settings.from_env())
    found = [(path, path.stat()) for path in (folder.iterdir() if folder.is_dir() else ())]
    return sorted(found, key=lambda each: -each[1].st_mtime)


@app.command
def stats(*, json: bool = False) -> None:
    """Show the number of cached answers per judge and of kept edits, and their sizes.

    Example: `rh cache stats`

    Args:
        json: Print one JSON object.
    """
    from rewardharness.judging.cache import CacheStats

    with _cache() as (path, cache):
        held = CacheStats(path, 0, 0, {}) if cache is None else cache.stats()
    if held.by_judge and not json:
        output.table(("judge", "answers"), [(judge, str(count)) for judge, count in sorted(held.by_judge.items())])
    edits = _edits()
    size = sum(about.st_size for _, about in edits)
    text = f"{held.judgments} answers, {held.bytes / 1e6:.1f} MB: {held.path}"
    text += f"; {output.count(len(edits), 'edit')}, {size / 1e6:.1f} MB" * bool(edits)
    output.show(json, {**vars(held), "path": str(held.path), "edits": len(edits), "edits_bytes": size}, text)


@app.command
def prune(
    *,
    older_than: Annotated[float | None, within("older-than", Range(0))] = None,
    max_mb: Annotated[float | None, within("max-mb", Range(0))] = None,
) -> None:
    """Delete the oldest cached answers and edits.

    Example: `rh cache prune --older-than 30`

    Args:
        older_than: Delete what was stored more than this number of days ago.
        max_mb: Delete the oldest answers, and likewise edits, until the others take at most this number of megabytes.
    """
    if older_than is None and max_mb is None:
        raise UsageError("Missing: --older-than or --max-mb.", next_step="To delete all answers: rh cache clear")
    since = 0.0 if older_than is None else time.time() - older_than * 86_400
    with _cache() as (_, cache):
        deleted = 0 if cache is None else cache.prune(since, None if max_mb is None else int(max_mb * 1e6))
    size, edits = 0.0, 0
    for path, about in _edits():
        size += about.st_size / 1e6
        if about.st_mtime < since or (max_mb is not None and size > max_mb):
            path.unlink(missing_ok=True)
            edits += 1
    output.say(f"{output.count(deleted, 'answer')}" + f" and {output.count(edits, 'edit')}" * bool(edits) + " deleted.")


@app.command
def clear(*, judge: str | None = None, json: bool = False) -> None:
    """Delete cached answers, and edits. They are requested again when they are needed.

    Example: `rh cache clear --judge "vllm:qwen"`

    Args:
        judge: Delete the answers of this judge only, by its name in `rh cache stats`, and no edits.
        json: Print one JSON object.
    """
    with _cache() as (_, cache):
        known = {} if cache is None else cache.stats().by_judge
        if cache is not None and judge is not None and judge not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InputError(f"The cache has no answers of {judge!r}.", next_step=f"Cached judges: {names}.")
        deleted = 0 if cache is None else cache.clear(judge)
    edits = _edits() if judge is None else []
    for path, _ in edits:
        path.unlink(missing_ok=True)
    text = f"{deleted} answers" + f" and {output.count(len(edits), 'edit')}" * bool(edits)
    output.show(json, {"deleted": deleted, "edits": len(edits)}, f"{text} deleted.")

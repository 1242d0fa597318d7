"""`rh cache`: cached answers of models."""

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.errors import InputError
from rewardharness.settings import Settings

app = make_app("cache", "Show or clear cached answers of models.")


@app.command
def stats(*, json: bool = False) -> int:
    """Show the number of cached answers per judge, and the size of the cache.

    Example: `rh cache stats`

    Args:
        json: Print one JSON object.
    """
    from rewardharness.judging.cache import FILE, CacheStats, JudgmentCache

    folder = Settings.from_env().home / "cache"
    if (folder / FILE).exists():
        cache = JudgmentCache(folder)
        held = cache.stats()
        cache.close()
    else:  # looking must not make a file
        held = CacheStats(folder / FILE, 0, 0, {})
    if json:
        output.emit(
            {"path": str(held.path), "judgments": held.judgments, "bytes": held.bytes, "by_judge": held.by_judge}
        )
        return 0
    if held.by_judge:
        output.table(("judge", "answers"), [(judge, str(count)) for judge, count in sorted(held.by_judge.items())])
    output.say(f"{held.judgments} answers, {held.bytes / 1e6:.1f} MB: {held.path}")
    return 0


@app.command
def clear(*, judge: str | None = None, json: bool = False) -> int:
    """Delete cached answers. Models are queried again when the answers are needed.

    Example: `rh cache clear --judge "vllm:qwen"`

    Args:
        judge: Delete the answers of this judge only, by its name in `rh cache stats`.
        json: Print one JSON object.
    """
    from rewardharness.judging.cache import FILE, JudgmentCache

    folder = Settings.from_env().home / "cache"
    deleted = 0
    if (folder / FILE).exists():
        cache = JudgmentCache(folder)
        known = cache.stats().by_judge
        try:
            if judge is not None and judge not in known:
                names = ", ".join(sorted(known)) or "none"
                raise InputError(f"The cache has no answers of {judge!r}.", next_step=f"Cached judges: {names}.")
            deleted = cache.clear(judge)
        finally:
            cache.close()
    if json:
        output.emit({"deleted": deleted})
    else:
        output.say(f"{deleted} answers deleted.")
    return 0

"""`rh cache`: what is remembered of models' answers."""

import argparse

from rewardharness.cli import output
from rewardharness.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "cache",
        help="look at or forget remembered judgments",
        description="Look at what is remembered of models' answers, or forget it.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shown = actions.add_parser("stats", help="say what is remembered", description=stats.__doc__)
    shown.add_argument("--json", action="store_true", help="print one JSON object")
    shown.set_defaults(run=stats)
    cleared = actions.add_parser("clear", help="forget", description=clear.__doc__)
    cleared.add_argument(
        "--judge", metavar="NAME", help="forget this judge's answers only, as `rh cache stats` names it"
    )
    cleared.add_argument("--json", action="store_true", help="print one JSON object")
    cleared.set_defaults(run=clear)


def stats(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say how many answers of which judges are remembered, and how much room they take."""
    from rewardharness.judging.cache import FILE, CacheStats, JudgmentCache

    folder = settings.home / "cache"
    if (folder / FILE).exists():
        cache = JudgmentCache(folder)
        held = cache.stats()
        cache.close()
    else:  # looking must not make a file
        held = CacheStats(folder / FILE, 0, 0, {})
    if arguments.json:
        output.emit(
            {"path": str(held.path), "judgments": held.judgments, "bytes": held.bytes, "by_judge": held.by_judge}
        )
        return 0
    if held.by_judge:
        output.table(("judge", "answers"), [(judge, str(count)) for judge, count in sorted(held.by_judge.items())])
    output.say(f"{held.judgments} answers, {held.bytes / 1e6:.1f} MB: {held.path}")
    return 0


def clear(arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget all remembered answers, or those of one judge. They are asked for again when they are needed."""
    from rewardharness.errors import InputError
    from rewardharness.judging.cache import FILE, JudgmentCache

    folder = settings.home / "cache"
    forgotten = 0
    if (folder / FILE).exists():
        cache = JudgmentCache(folder)
        known = cache.stats().by_judge
        try:
            if arguments.judge is not None and arguments.judge not in known:
                names = ", ".join(sorted(known)) or "none"
                raise InputError(
                    f"No answers of {arguments.judge!r} are remembered.", next_step=f"Remembered judges: {names}."
                )
            forgotten = cache.clear(arguments.judge)
        finally:
            cache.close()
    if arguments.json:
        output.emit({"forgotten": forgotten})
    else:
        output.say(f"{forgotten} answers forgotten.")
    return 0

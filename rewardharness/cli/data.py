"""`rh demo-data`."""

import argparse
from pathlib import Path

from rewardharness.cli import output
from rewardharness.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo-data", help="make a labelled set of edits", description=demo_data.__doc__)
    parser.add_argument("folder", type=Path, help="a new or empty folder")
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="how many pairs (default: 200)")
    parser.add_argument("--groups", type=int, default=20, metavar="N", help="how many groups of 3 or 4 (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same files (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=demo_data)


def demo_data(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make edits with known truth from free photographs and drawn scenes: right, wrong, overdone and flawed ones."""
    from collections import Counter

    from rewardharness.data.demo import make_demo

    total = arguments.pairs + arguments.groups
    with output.Progress(total, "drawing", quiet=arguments.quiet) as bar:
        dataset = make_demo(
            arguments.folder,
            pairs=arguments.pairs,
            groups=arguments.groups,
            seed=arguments.seed,
            progress=lambda done, of: bar.step(),
        )
    kinds = Counter(example.label_kind for example in dataset.examples)
    if arguments.json:
        output.emit({"folder": str(arguments.folder), "n": len(dataset.examples), "by_label_kind": dict(kinds)})
    else:
        output.table(("label kind", "n"), [(kind, str(count)) for kind, count in sorted(kinds.items())])
        output.say(f"{len(dataset.examples)} examples in {arguments.folder}.")
        output.say(f"Next: rh score-folder {arguments.folder}")
    return 0

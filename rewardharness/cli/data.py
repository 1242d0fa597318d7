"""`rh data` and `rh demo-data`."""

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.examples import DATA_HELP, add_fields, open_described
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.opening import Opened
    from rewardharness.schema import Example

_SHOWN = 20
UNLABELLED = "unlabelled"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    group = commands.add_parser("data", help="look at a set of examples", description="Look at sets of examples.")
    words = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = words.add_parser("show", help="say what is in a set of examples", description=show.__doc__)
    one.add_argument("data", metavar="DATA", help=DATA_HELP)
    add_fields(one)
    one.add_argument("--audit-share", type=float, default=0.25, metavar="X", help="put aside for the audit (0.25)")
    one.add_argument("--seed", type=int, default=0, help="of that division (default: 0)")
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.add_argument("--quiet", action="store_true", help="no progress")
    one.set_defaults(run=show)
    parser = commands.add_parser("demo-data", help="make a labelled set of edits", description=demo_data.__doc__)
    parser.add_argument("folder", type=Path, help="a new or empty folder, or one with the same set")
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="how many pairs (default: 200)")
    parser.add_argument("--groups", type=int, default=20, metavar="N", help="how many groups of 3 or 4 (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same files (default: 0)")
    parser.add_argument(
        "--force", action="store_true", help="draw over another set, or beside other files; these are never touched"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=demo_data)


def demo_data(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make edits with known truth from free photographs and drawn scenes: right, wrong, overdone and flawed ones."""
    from rewardharness.data.folder import read_folder
    from rewardharness.data.opening import DEMO, FEEDBACK
    from rewardharness.demo.dataset import make_demo

    total = arguments.pairs + arguments.groups
    drawn = 0

    def step(done: int, of: int) -> None:
        nonlocal drawn
        drawn = of
        bar.step()

    with output.Progress(total, "drawing", quiet=arguments.quiet) as bar:
        make_demo(
            arguments.folder,
            pairs=arguments.pairs,
            groups=arguments.groups,
            seed=arguments.seed,
            force=arguments.force,
            workers=settings.workers,
            progress=step,
        )
    dataset = read_folder(arguments.folder)
    kinds = Counter(example.label_kind for example in dataset.examples)
    if arguments.json:
        told = {"folder": str(arguments.folder), "n": len(dataset.examples), "by_label_kind": dict(kinds)}
        output.emit({**told, "drawn": bool(drawn)})
    else:
        output.table(("label kind", "n"), [(kind, str(count)) for kind, count in sorted(kinds.items())])
        already = "" if drawn else " This set was there already, whole and unchanged; nothing was drawn."
        output.say(f"{len(dataset.examples)} examples in {arguments.folder}.{already}")
        place = str(arguments.folder)
        output.say(f"Next: rh score-folder {f'./{place}' if place in {DEMO, FEEDBACK} else place}")
    return 0


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what is in a set of examples: counts, labels, what is odd, and how it would be divided for an evolution."""
    from rewardharness.data.source import split

    opened = open_described(arguments.data, arguments, settings)
    examples = opened.dataset.examples
    pool, audit = split(examples, share=arguments.audit_share, seed=arguments.seed)
    found = _described(opened)
    found |= {"audit_share": arguments.audit_share, "seed": arguments.seed}
    found |= {"pool": _counts(pool), "audit": _counts(audit)}
    if arguments.json:
        output.emit(found)
    else:
        _print(found, _counts(examples))
    return 0


def _described(opened: "Opened") -> dict[str, Any]:
    """What there is to say of a dataset, apart from its division."""
    from dataclasses import asdict

    dataset, rows, fields = opened.dataset, opened.rows, opened.fields
    given = {name: value for name, value in asdict(fields).items() if value} if fields else None
    named = {column for columns in fields.columns.values() for column in columns} if fields else set()
    return {
        "name": dataset.name,
        "revision": rows.revision if rows else None,
        "digest": dataset.digest,
        **_counts(dataset.examples),
        "fields": given,
        "how": opened.how,
        "other_columns": [column for column in rows.columns if column not in named] if rows else [],
        "skipped_rows": dataset.skipped_json(),
        "problems": list(dataset.problems),
    }


def _counts(examples: "Iterable[Example]") -> dict[str, Any]:
    """Count examples by everything that matters to judging them."""
    given = list(examples)
    return {
        "n": len(given),
        "by_candidates": _tally(str(len(each.candidates)) for each in given),
        "by_label": _tally(each.preference or UNLABELLED for each in given),
        "by_label_kind": _tally(each.label_kind for each in given if each.preference),
        "by_category": _tally(each.category for each in given),
        "sources": len({each.source_id for each in given}),
    }


def _tally(values: Iterable[str]) -> dict[str, int]:
    counted = Counter(values)
    return {value: counted[value] for value in sorted(counted, key=lambda value: (-counted[value], value))}


def _print(found: dict[str, Any], whole: dict[str, Any]) -> None:
    output.say(f"{found['name']}: {found['n']} examples, {found['sources']} source images.")
    if found["how"]:
        output.say(found["how"])
    if found["fields"]:
        rows = [(name, _words(value)) for name, value in found["fields"].items()]
        output.table(("field", "column"), rows)
        others = found["other_columns"]
        if others:
            output.say(f"Columns that are not used: {', '.join(others)}.")
    parts = (whole, found["pool"], found["audit"])
    titles = {"by_candidates": "candidates", "by_label": "label", "by_label_kind": "kind of label"}
    table = [("examples", *(str(part["n"]) for part in parts)), ("sources", *(str(part["sources"]) for part in parts))]
    for key, title in (*titles.items(), ("by_category", "category")):
        values = list(whole[key])
        for value in values[:_SHOWN]:
            table.append((f"{title}: {value or '(none)'}", *(str(part[key].get(value, 0)) for part in parts)))
        if len(values) > _SHOWN:
            table.append((f"{title}: {len(values) - _SHOWN} more", *(_rest(part, key, values) for part in parts)))
    output.table(("", "all", "pool", f"audit ({found['audit_share']:g}, seed {found['seed']})"), table)
    told = [problem for problem in found["problems"] if problem != found["how"]]
    for problem in told:
        output.say(f"- {problem}")
    output.say("Nothing odd was found." if not told else f"{len(told)} thing{'s' * (len(told) != 1)} to know.")


def _rest(part: dict[str, Any], key: str, values: list[str]) -> str:
    return str(sum(part[key].get(value, 0) for value in values[_SHOWN:]))


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{given} is {meant or UNLABELLED}" for given, meant in value.items())
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)

"""What the commands that read a dataset share: opening it, with its progress and what is odd about it told."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rewardharness.cli import output
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from rewardharness.data.fields import FieldMap
    from rewardharness.data.opening import Opened
    from rewardharness.data.source import Dataset

DATA_HELP = (
    "a folder, a table (.parquet, .jsonl, .csv, ...), a dataset on the Hub (org/name[@revision][:config/split]), "
    "`demo` (pairs drawn once) or `feedback` (what was said in the app)"
)
"""What can stand where a command asks for data."""


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which column of a table is what."""
    group = parser.add_argument_group("columns of a table (what is left out is recognised by name)")
    group.add_argument("--fields", type=Path, metavar="FILE", help="a map of fields in YAML, see docs/data.md")
    group.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="one field: source, instruction, candidates (several, with commas), preference, values "
        "(as in leftvote:A,rightvote:B), id, category, ...",
    )
    add_skip(parser)


def add_skip(parser: argparse.ArgumentParser) -> None:
    """Add the option that leaves bad rows out."""
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="leave out rows that cannot be used (no image, no instruction, a label that is not understood); they are "
        "named, and counted as not judged. Without it one such row is an error",
    )


def open_examples(spec: str, arguments: argparse.Namespace, settings: Settings) -> "Dataset":
    """Open the dataset that a user means; says what is odd about it on standard error.

    Raises:
        InputError: If the map of fields cannot be read.
        DataError: If there is no such dataset, or it cannot be read.
    """
    dataset = open_described(spec, arguments, settings).dataset
    for problem in dataset.problems:
        output.note(f"{dataset.name}: {problem}")
    return dataset


def open_described(spec: str, arguments: argparse.Namespace, settings: Settings) -> "Opened":
    """Open a dataset with the fields of the command line, and show how the work goes on."""
    from rewardharness.data.opening import open_described

    mind_the_name(spec)
    with Bars(arguments.quiet) as bars:
        return open_described(
            spec,
            settings,
            fields=given_fields(arguments),
            progress=bars.show,
            skip_bad_rows=arguments.skip_bad_rows,
        )


def mind_the_name(spec: str) -> None:
    """Say which data are meant where a folder has the name of a set that comes along."""
    from rewardharness.data.opening import DEMO, FEEDBACK

    if spec in {DEMO, FEEDBACK} and Path(spec).is_dir():
        output.note(f"`{spec}` is the set that comes along; for the folder of that name write ./{spec}")


def given_fields(arguments: argparse.Namespace) -> "FieldMap | None":
    """The fields of the command line, which go before those of a file."""
    from rewardharness.data.fields import FieldMap, parse_fields, read_fields

    if arguments.fields is None and not arguments.field:
        return None
    pairs: dict[str, str] = {}
    for text in arguments.field:
        name, equals, column = text.partition("=")
        if not equals or not column.strip() or name.strip() in pairs:
            step = "Write each field once, as in --field source=source_image; --field id=- says that there is none."
            raise InputError(f"--field {text!r} cannot be read.", next_step=step)
        pairs[name.strip()] = column
    before = read_fields(arguments.fields) if arguments.fields is not None else FieldMap()
    return parse_fields(pairs, "--field").over(before)


class Bars:
    """One bar after the other, as work tells how far it is."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._label, self._done = quiet, "", 0
        self._bar: output.Progress | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self._open.close()

    def show(self, label: str, done: int, total: int) -> None:
        """Show that so many steps of a piece of work are done."""
        if label != self._label or self._bar is None:
            self._open.close()
            self._bar = self._open.enter_context(output.Progress(total, label, done=done, quiet=self._quiet))
            self._label, self._done = label, done
        while self._done < done:
            self._done += 1
            self._bar.step()

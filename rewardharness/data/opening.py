"""Opens a dataset by what a user calls it. The single door for everyone who asks for examples."""

from dataclasses import dataclass
from pathlib import Path

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, read_examples
from rewardharness.data.folder import FEEDBACK_MARKER, read_folder
from rewardharness.data.hf_datasets import TABLES
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.demo.folder import DEMO_MARKER, DEMO_UNFINISHED
from rewardharness.errors import DataError, InputError
from rewardharness.files import data_files
from rewardharness.hub.errors import MissingRepoError
from rewardharness.hub.repository import Token, is_repo, is_revision
from rewardharness.schema import GROUPS, PAIRS
from rewardharness.settings import Settings

__all__ = ["DEMO", "FEEDBACK", "Opened", "Progress", "open_data", "open_described", "parse_spec"]

DEMO = "demo"
"""Spelling of the demonstration set, drawn once into `RH_HOME`."""

FEEDBACK = "feedback"
"""Spelling of what people said in the app."""

DEMO_PAIRS = 100
"""Pairs of the demonstration set that is drawn by this name."""

HUB = "hf:"
"""What a dataset on the Hub may begin with; needed where a folder has the same name."""

_SMALL = frozenset({".csv", ".tsv", ".json"})
_SPELLINGS = (
    f"Name `{DEMO}`, `{FEEDBACK}`, a folder, a table (.parquet, .jsonl, .csv, ...), or a dataset on the Hub: "
    "org/name[@revision][:config/split]."
)


@dataclass(frozen=True)
class Opened:
    """A dataset, and how it was read."""

    dataset: Dataset
    rows: Rows | None = None
    """The table behind it; None for folders of our own format."""
    fields: FieldMap | None = None
    """Which column of the table was read as what."""
    how: str = ""
    """How the fields were found, one sentence."""


def open_data(
    spec: str,
    settings: Settings,
    *,
    fields: FieldMap | None = None,
    token: Token = None,
    progress: Progress | None = None,
    skip_bad_rows: bool = False,
) -> Dataset:
    """Open a dataset by what a user calls it.

    Args:
        spec: `demo` for the demonstration set, which is drawn when it is not there yet; `feedback` for what people
            said in the app; a folder as `read_folder` reads it; a table on this disk, or a folder of tables; or a
            dataset on the Hub: `org/name[@revision][:config/split]`, with `hf:` before it where a folder has that name.
        settings: Where this project's own data lie, and how the Hub is reached.
        fields: Which column of a table is what; what it leaves open is recognized. Tables only.
        token: A token for the Hub; None for the one of this computer, False for none at all.
        progress: Told how the work goes on, where it takes long.
        skip_bad_rows: Leave rows out that cannot be used; they stand in `skipped` and count as not judged. Without it
            one such row is an error.

    Returns:
        The dataset, with what is odd about it in `problems`.

    Raises:
        InputError: If the spelling cannot be read.
        DataError: If there is no such dataset, or it cannot be read.
        MissingPackageError: If a package that is needed is not installed.
    """
    opened = open_described(spec, settings, fields=fields, token=token, progress=progress, skip_bad_rows=skip_bad_rows)
    return opened.dataset


def open_described(
    spec: str,
    settings: Settings,
    *,
    fields: FieldMap | None = None,
    token: Token = None,
    progress: Progress | None = None,
    skip_bad_rows: bool = False,
) -> Opened:
    """Open a dataset as `open_data` does, and say how it was read."""
    source = parse_spec(spec)
    if source is None and fields is not None and spec not in {DEMO, FEEDBACK}:
        source = RowSource(path=Path(spec))  # whoever names columns means a table
    if source is None:
        if fields is not None:
            raise InputError(f"{spec} has no columns to name.", next_step="Leave --field and --fields out.")
        return Opened(_open_own(spec, settings, progress, skip_bad_rows))
    try:
        rows = open_rows(source, settings, token=token, progress=progress)
    except MissingRepoError as error:
        if spec.startswith(HUB):
            raise
        raise MissingRepoError(f"{error.message} Nor is there a folder {spec!r}.", next_step=error.next_step) from None
    found = complete(rows, fields or FieldMap(), source.hub)
    name, at, part = rows.name.partition(":") if source.hub else (rows.name, "", "")
    full = f"{name}@{rows.revision}{at}{part}" if source.hub else name
    notes = [found.how] if found.guessed else []
    dataset = read_examples(rows, found.fields, name=full, notes=notes, skip_bad_rows=skip_bad_rows)
    return Opened(dataset, rows, found.fields, found.how)


def parse_spec(spec: str) -> RowSource | None:
    """Read how a user spells a dataset.

    Returns:
        Where its table lies; None for what is no table: `demo`, `feedback` and folders of our own format.

    Raises:
        DataError: If nothing goes by that name.
        InputError: If it is empty, or begins with `hf:` and cannot be the name of a dataset.
    """
    if not spec:
        raise InputError("No data were named.", next_step=_SPELLINGS)
    if spec in {DEMO, FEEDBACK}:
        return None
    if spec.startswith(HUB):
        found = _hub_source(spec.removeprefix(HUB))
        if found is None:
            step = f"Write {HUB}org/name[@revision][:config/split]."
            raise InputError(f"{spec[:120]!r} cannot be the name of a dataset on the Hub.", next_step=step)
        return found
    path = Path(spec).expanduser()
    if path.is_dir():
        return None if _is_ours(path) else RowSource(path=path)
    if path.is_file():
        return RowSource(path=path)
    found = _hub_source(spec)
    if found is None or path.suffix.lower() in TABLES:
        raise DataError(f"{spec[:200]} does not exist.", next_step=_SPELLINGS)
    return found


def _hub_source(spec: str) -> RowSource | None:
    """Read `org/name[@revision][:config[/split]]`; None when it is no such thing."""
    place, _, part = spec.partition(":")
    repo, at, revision = place.partition("@")
    config, _, split = part.partition("/")
    if not is_repo(repo) or (at and not is_revision(revision)) or (part and not part.strip("/")):
        return None
    return RowSource(hub=repo, config=config, split=split, revision=revision)


def _is_ours(folder: Path) -> bool:
    """Whether a folder is for `read_folder`: it has its files, its markers, or a CSV file and no greater table."""
    if any((folder / name).exists() for name in (PAIRS, GROUPS, FEEDBACK_MARKER, DEMO_MARKER, DEMO_UNFINISHED)):
        return True
    kinds = {each.suffix.lower() for each in data_files(folder)} & TABLES
    return not kinds or (kinds <= _SMALL and any(each.suffix.lower() in _SMALL for each in folder.iterdir()))


def _open_own(spec: str, settings: Settings, progress: Progress | None, skip_bad_rows: bool) -> Dataset:
    if spec == FEEDBACK:
        if not settings.feedback.is_dir():
            raise DataError("There is no feedback yet.", next_step="Judge some edits in the app first.")
        return read_folder(settings.feedback, skip_bad_rows=skip_bad_rows)
    if spec == DEMO:
        return _open_demo(settings.home / "data" / f"demo-{DEMO_PAIRS}", settings.workers, progress)
    return read_folder(Path(spec).expanduser(), skip_bad_rows=skip_bad_rows)


def _open_demo(folder: Path, workers: int, progress: Progress | None) -> Dataset:
    try:
        return read_folder(folder)
    except DataError:  # not there, or left unfinished
        from rewardharness.demo.dataset import make_demo

        def drawn(done: int, total: int) -> None:
            if progress is not None:
                progress("drawing", done, total)

        make_demo(folder, pairs=DEMO_PAIRS, groups=0, force=True, workers=workers, progress=drawn)
        return read_folder(folder)

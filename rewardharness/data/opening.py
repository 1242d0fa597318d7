"""Open a dataset by its specification, such as a path or a Hub name."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rewardharness.data.archive import unpack
from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, read_examples
from rewardharness.data.folder import FEEDBACK_MARKER, read_folder
from rewardharness.data.hf_datasets import TABLES
from rewardharness.data.prompts_file import is_prompts_file, read_prompts
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.data.votes import is_vote_table, merge_votes
from rewardharness.demo.folder import DEMO_MARKER, DEMO_UNFINISHED
from rewardharness.errors import DataError, InputError
from rewardharness.files import data_files, user_path
from rewardharness.hub.errors import MissingRepoError
from rewardharness.hub.repository import Token, is_repo, is_revision
from rewardharness.schema import GROUPS, PAIRS
from rewardharness.settings import Settings

__all__ = ["DEMO", "FEEDBACK", "OpenedData", "Progress", "open_data", "open_described", "parse_spec"]

DEMO = "demo"
"""Name of the demo dataset, which is generated once in `RH_HOME`."""

FEEDBACK = "feedback"
"""Name of the feedback given in the app, on this disk or in the repository of `Settings.feedback_repo`."""

ATTACKS = "attacks"
"""Name of the attacks on judges, which are generated once in `RH_HOME`."""

ATTACK_CASES = 24
"""Number of edits of the dataset `attacks`."""

DEMO_PAIRS = 100
"""Number of pairs of the dataset `demo`."""

HUB = "hf:"
"""Prefix of a dataset on the Hub; required if a folder has the same name."""

_URL = re.compile(
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)datasets/([\w.-]+/[\w.-]+)(?:@([^/?#]+))?"
    r"(?:/(?:tree|blob|resolve)/([^/?#]+)(?:/[^?#]*)?|/viewer(?:/([^/?#]+)(?:/([^/?#]+))?)?)?/?(?:[?#].*)?"
)
"""The address of a dataset on the Hub: repository, revision, revision of a page, config and split."""
_SMALL = frozenset({".csv", ".tsv", ".json"})
_SPELLINGS = (
    f"Use `{DEMO}`, `{ATTACKS}`, `{FEEDBACK}`, a folder, a table (.parquet, .jsonl, .csv, ...), or a dataset on the "
    "Hub: org/name[@revision][:config/split]."
)


@dataclass(frozen=True)
class OpenedData:
    """A dataset with its table and field map."""

    dataset: Dataset
    rows: Rows | None = None
    """The table; None for folders in the native format."""
    fields: FieldMap | None = None
    """Field map of the table."""
    how: str = ""
    """One sentence on how the field map was determined."""


def open_data(
    spec: str,
    settings: Settings,
    *,
    fields: FieldMap | None = None,
    token: Token = None,
    progress: Progress | None = None,
    skip_bad_rows: bool = False,
) -> Dataset:
    """Open a dataset by its specification.

    Args:
        spec: `demo` for the demo dataset, or `attacks`, which are generated if missing; `feedback` for preferences
            given in the app; a folder for `read_folder`, or such a folder as a zip archive; a JSON file for
            `read_prompts`; a local table or folder of tables; or a dataset on the Hub,
            `org/name[@revision][:config/split]`, prefixed with `hf:` if a folder has that name.
        settings: Data folder and Hub settings.
        fields: Field map of a table; omitted fields are inferred from the column names.
        token: A Hub token; None for the token stored on this computer, False for none.
        progress: Called with the progress of long operations.
        skip_bad_rows: Skip invalid rows; they are listed in `skipped` and count as not judged. Otherwise an invalid row
            is an error.

    Returns:
        The dataset, with warnings in `problems`.

    Raises:
        InputError: If the specification is invalid.
        DataError: If the dataset does not exist or cannot be read.
        MissingPackageError: If a required package is not installed.
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
) -> OpenedData:
    """Open a dataset like `open_data`, with its table and field map."""
    path = user_path(spec)
    if spec == FEEDBACK and settings.feedback_repo:
        spec = f"{HUB}{settings.feedback_repo}"
    elif path.suffix.lower() == ".zip" and path.is_file():
        spec = str(unpack(path, settings.home / "unpacked"))
    source = parse_spec(spec)
    if source is None and fields is not None and user_path(spec).is_dir():
        source = RowSource(path=Path(spec))  # a field map implies a table
    if source is None:
        if fields is not None:
            raise InputError(f"{spec} has no columns.", next_step="Omit --field and --fields.")
        return OpenedData(_open_own(spec, settings, progress, skip_bad_rows))
    try:
        rows = open_rows(source, settings, token=token, progress=progress)
    except MissingRepoError as error:
        if spec.startswith(HUB):
            raise
        message = f"{error.message} There is no folder {spec!r} either."
        raise MissingRepoError(message, next_step=error.next_step) from None
    found = complete(rows, fields or FieldMap(), source.hub)
    name, at, part = rows.name.partition(":")
    full = f"{name}@{rows.revision}{at}{part}" if source.hub else rows.name
    notes = [found.how] if found.guessed else []
    if is_vote_table(rows) and fields is None:
        ballots = replace(found.fields, id="vote")
        votes = read_examples(rows, ballots, name=full, skip_bad_rows=skip_bad_rows)
        return OpenedData(merge_votes(votes, rows), rows, ballots, "Votes of the app: one example per edit.")
    dataset = read_examples(rows, found.fields, name=full, notes=notes, skip_bad_rows=skip_bad_rows)
    return OpenedData(dataset, rows, found.fields, found.how)


def parse_spec(spec: str) -> RowSource | None:
    """Parse a dataset specification.

    Returns:
        The table; None for `demo`, `attacks`, `feedback`, folders in the native format and JSON files of prompts.

    Raises:
        DataError: If the dataset does not exist.
        InputError: If it is empty, or has the prefix `hf:` and is not a valid name.
    """
    if not spec:
        raise InputError("No dataset was specified.", next_step=_SPELLINGS)
    if url := _URL.fullmatch(spec):
        repo, *revisions, config, split = url.groups(default="")
        revision, part = "".join(revisions), "/".join(filter(None, (config, split)))
        spec = f"{HUB}{repo}{revision and f'@{revision}'}{part and f':{part}'}"
    if spec in {DEMO, ATTACKS, FEEDBACK}:
        return None
    if spec.startswith(HUB):
        found = _hub_source(spec.removeprefix(HUB))
        if found is None:
            step = f"Use {HUB}org/name[@revision][:config/split]."
            raise InputError(f"{spec[:120]!r} is not a valid dataset name on the Hub.", next_step=step)
        return found
    path = user_path(spec)
    if path.is_dir():
        return None if _is_ours(path) else RowSource(path=path)
    if path.is_file():
        return None if is_prompts_file(path) else RowSource(path=path)
    found = _hub_source(spec)
    if found is None or path.suffix.lower() in TABLES:
        raise DataError(f"{spec[:200]} does not exist.", next_step=_SPELLINGS)
    return found


def _hub_source(spec: str) -> RowSource | None:
    """Parse `org/name[@revision][:config[/split]]`; return None if it does not match."""
    place, _, part = spec.partition(":")
    repo, at, revision = place.partition("@")
    config, _, split = part.partition("/")
    if not is_repo(repo) or (at and not is_revision(revision)) or (part and not part.strip("/")):
        return None
    return RowSource(hub=repo, config=config, split=split, revision=revision)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has the native format, or a CSV file without larger tables."""
    if any((folder / name).exists() for name in (PAIRS, GROUPS, FEEDBACK_MARKER, DEMO_MARKER, DEMO_UNFINISHED)):
        return True
    kinds = {each.suffix.lower() for each in data_files(folder)} & TABLES
    return not kinds or (kinds <= _SMALL and any(each.suffix.lower() in _SMALL for each in folder.iterdir()))


def _open_own(spec: str, settings: Settings, progress: Progress | None, skip_bad_rows: bool) -> Dataset:
    if spec == FEEDBACK:
        if not settings.feedback.is_dir():
            raise DataError("There is no feedback yet.", next_step="Give feedback in the app first.")
        return read_folder(settings.feedback, skip_bad_rows=skip_bad_rows)
    if spec in {DEMO, ATTACKS}:
        return _open_generated(spec, settings, progress)
    path = user_path(spec)
    return (read_prompts if path.is_file() else read_folder)(path, skip_bad_rows=skip_bad_rows)


def _open_generated(spec: str, settings: Settings, progress: Progress | None) -> Dataset:
    count = DEMO_PAIRS if spec == DEMO else ATTACK_CASES
    folder = settings.home / "data" / f"{spec}-{count}"
    with suppress(DataError):  # missing or incomplete
        return read_folder(folder)
    from rewardharness.demo.attacks import make_attacks
    from rewardharness.demo.dataset import make_demo

    make = partial(make_demo, pairs=count, groups=0) if spec == DEMO else partial(make_attacks, cases=count)
    report = None if progress is None else partial(progress, "generating")
    make(folder, force=True, workers=settings.workers, progress=report)
    return read_folder(folder)

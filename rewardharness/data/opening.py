"""Open a dataset by its specification, such as a path, a zip file or a Hub name."""

import lzma
import re
import shutil
import zipfile
import zlib
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, read_examples
from rewardharness.data.folder import FEEDBACK_MARKER, read_folder
from rewardharness.data.hf_datasets import TABLES
from rewardharness.data.prompts_file import is_prompts_file, read_prompts
from rewardharness.data.rows import Progress, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.data.votes import is_vote_table, merge_votes
from rewardharness.demo.folder import DEMO_MARKER, DEMO_UNFINISHED
from rewardharness.errors import DataError, InputError, shown
from rewardharness.files import data_files, sha256_file, user_path
from rewardharness.hub.errors import MissingRepoError
from rewardharness.hub.repository import Token, is_repo, is_revision
from rewardharness.schema import GROUPS, PAIRS
from rewardharness.settings import Settings

MAX_FILES = 100_000
"""Maximum number of files of an archive."""

MAX_BYTES = 20 << 30
"""Maximum size of the unpacked files, in bytes."""

MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size; images hardly compress."""

MAX_NAME = 255
"""Maximum length of a part of a name in bytes, as file systems have it."""

MAX_PATH = 1000
"""Maximum length of a name in bytes."""

_DAMAGED = (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


def unpack(path: Path, folder: Path, prefix: str = "") -> Path:
    """Unpack an archive once, into a folder named by its content. Nothing remains of one that cannot be unpacked.

    Args:
        path: The archive.
        folder: Where unpacked archives are kept.
        prefix: Begins the name of the folder.

    Returns:
        The folder with the examples: where the archive holds only one folder, that one.

    Raises:
        DataError: If it is no zip archive, is damaged, too large, or holds a name that cannot be a file in the folder.
    """
    target = folder / f"{prefix}{sha256_file(path)[:32]}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        part = Path(mkdtemp(".part", prefix, folder))
        try:
            with zipfile.ZipFile(path) as archive:
                _extract(archive, part, path)
            part.rename(target)
        except _DAMAGED as error:
            if not target.is_dir():  # unless it was unpacked in the meantime
                why = getattr(error, "strerror", None) or error
                raise DataError(f"{path.name} cannot be unpacked: {why}.", next_step="Pack it again as zip.") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    inside = [path for path in target.iterdir() if path.name != "__MACOSX"]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _extract(archive: zipfile.ZipFile, folder: Path, path: Path) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    size = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    if len(members) > MAX_FILES or size > MAX_BYTES or size / packed > MAX_RATIO:
        most = f"{MAX_FILES:,} files, {MAX_BYTES >> 30} GiB unpacked, and {MAX_RATIO} times its packed size"
        step = f"At most {most}; use a folder or a dataset on the Hub."
        raise DataError(f"{path.name} is too large.", next_step=step)
    for name, member in _named(members, path).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)


def _named(members: list[zipfile.ZipInfo], path: Path) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """Return the members by their checked names, before anything is written.

    Raises:
        DataError: If a name would leave the folder, is no name of a file, or is taken by another file or folder.
    """
    named: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for member in members:
        text = member.filename.replace("\\", "/")
        name, size = PurePosixPath(text), len(text.encode("utf-8", "replace"))
        if name.is_absolute() or ".." in name.parts or ":" in "".join(name.parts[:1]):
            step = "Pack the folder with relative names."
            raise DataError(f"{path.name} holds a file outside of its folder: {shown(text, 80)}.", next_step=step)
        longest = max((len(part.encode("utf-8", "replace")) for part in name.parts), default=0)
        if not name.parts or longest > MAX_NAME or size > MAX_PATH or name in named:
            problem = "two files of one name" if name in named else "a name that no file can have"
            raise DataError(f"{path.name} holds {problem}: {shown(text, 80)}.", next_step="Rename it, and pack again.")
        named[name] = member
    if both := next((parent for name in named for parent in name.parents if parent in named), None):
        message = f"{path.name} holds a file and a folder of one name: {shown(str(both), 80)}."
        raise DataError(message, next_step="Rename one of them, and pack again.")
    return named


__all__ = ["DEMO", "FEEDBACK", "Progress", "open_data", "parse_spec"]

DEMO = "demo"
"""Name of the demo dataset, which is generated once in `RH_HOME`."""

DEMO_TEXTS = "demo:text"
"""Name of the demo dataset of text responses, which is generated once in `RH_HOME`."""

FEEDBACK = "feedback"
"""Name of the feedback given in the app, on this disk or in the repository of `Settings.feedback_repo`."""

ATTACKS = "attacks"
"""Name of the attacks on judges, which are generated once in `RH_HOME`."""

ATTACK_CASES = 24
"""Number of edits of the dataset `attacks`."""

OWN = frozenset({DEMO, DEMO_TEXTS, ATTACKS, FEEDBACK})
"""Names of datasets that mean no file, folder or dataset on the Hub."""

DEMO_PAIRS = 100
"""Number of pairs of the dataset `demo`."""

DEMO_PROMPTS = 120
"""Number of prompts of the dataset `demo:text`."""

HUB = "hf:"
"""Prefix of a dataset on the Hub; required if a folder has the same name."""

_URL = re.compile(
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)datasets/([\w.-]+/[\w.-]+)(?:@([^/?#]+))?"
    r"(?:/(?:tree|blob|resolve)/([^/?#]+)(?:/[^?#]*)?|/viewer(?:/([^/?#]+)(?:/([^/?#]+))?)?)?/?(?:[?#].*)?"
)
"""The address of a dataset on the Hub: repository, revision, revision of a page, config and split."""
_SMALL = frozenset({".csv", ".tsv", ".json"})
_SPELLINGS = (
    f"Use `{DEMO}`, `{DEMO_TEXTS}`, `{ATTACKS}`, `{FEEDBACK}`, a folder, a table (.parquet, .jsonl, .csv, ...), or a "
    "dataset on the Hub: org/name[@revision][:config/split]."
)


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
        spec: `demo`, `demo:text` or `attacks`, which are generated if missing; `feedback` for preferences
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
        The dataset, with warnings in `problems`, and of a table with how it was read.

    Raises:
        InputError: If the specification is invalid.
        DataError: If the dataset does not exist or cannot be read.
        MissingPackageError: If a required package is not installed.
    """
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
        return _open_own(spec, settings, progress, skip_bad_rows)
    try:
        rows = open_rows(source, settings, token=token, progress=progress)
    except MissingRepoError as error:
        if spec.startswith(HUB):
            raise
        message = f"{error.message} There is no folder {spec!r} either."
        raise MissingRepoError(message, next_step=error.next_step) from None
    inferred = complete(rows, fields or FieldMap(), source.hub)
    name, at, part = rows.name.partition(":")
    full = f"{name}@{rows.revision}{at}{part}" if source.hub else rows.name
    notes = [inferred.how] if inferred.guessed else []
    if is_vote_table(rows) and fields is None:
        ballots = replace(inferred.fields, id="vote")
        votes = read_examples(rows, ballots, name=full, skip_bad_rows=skip_bad_rows)
        dataset, mapping, description = merge_votes(votes, rows), ballots, "Votes of the app: one example per edit."
    else:
        dataset = read_examples(rows, inferred.fields, name=full, notes=notes, skip_bad_rows=skip_bad_rows)
        mapping, description = inferred.fields, inferred.how
    column_map = {name: value for name, value in asdict(mapping).items() if value}
    return replace(dataset, revision=rows.revision, columns=rows.columns, mapping=column_map, how=description)


def parse_spec(spec: str) -> RowSource | None:
    """Parse a dataset specification.

    Returns:
        The table; None for the names in `OWN`, folders in the native format and JSON files of prompts.

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
    if spec in OWN:
        return None
    if spec.startswith(HUB):
        source = _hub_source(spec.removeprefix(HUB))
        if source is None:
            step = f"Use {HUB}org/name[@revision][:config/split]."
            raise InputError(f"{spec[:120]!r} is not a valid dataset name on the Hub.", next_step=step)
        return source
    path = user_path(spec)
    if path.is_dir():
        return None if _is_ours(path) else RowSource(path=path)
    if path.is_file():
        return None if is_prompts_file(path) else RowSource(path=path)
    source = _hub_source(spec)
    if source is None or path.suffix.lower() in TABLES:
        raise DataError(f"{spec[:200]} does not exist.", next_step=_SPELLINGS)
    return source


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
    kinds = {path.suffix.lower() for path in data_files(folder)} & TABLES
    return not kinds or (kinds <= _SMALL and any(path.suffix.lower() in _SMALL for path in folder.iterdir()))


def _open_own(spec: str, settings: Settings, progress: Progress | None, skip_bad_rows: bool) -> Dataset:
    if spec == FEEDBACK:
        if not settings.feedback.is_dir():
            raise DataError("There is no feedback yet.", next_step="Give feedback in the app first.")
        return read_folder(settings.feedback, skip_bad_rows=skip_bad_rows)
    if spec in OWN:
        return _open_generated(spec, settings, progress)
    path = user_path(spec)
    return (read_prompts if path.is_file() else read_folder)(path, skip_bad_rows=skip_bad_rows)


def _open_generated(spec: str, settings: Settings, progress: Progress | None) -> Dataset:
    if spec == DEMO_TEXTS:
        from rewardharness.demo.folder import VERSION, make_texts

        file = settings.home / "data" / f"demo-text-{DEMO_PROMPTS}-v{VERSION}.json"
        if not file.is_file():
            make_texts(file, DEMO_PROMPTS)
        return read_prompts(file)
    count = DEMO_PAIRS if spec == DEMO else ATTACK_CASES
    folder = settings.home / "data" / f"{spec}-{count}"
    with suppress(DataError):  # missing or incomplete
        return read_folder(folder)
    from rewardharness.demo.attacks import make_attacks
    from rewardharness.demo.dataset import make_demo

    make = partial(make_demo, pairs=count, groups=0) if spec == DEMO else partial(make_attacks, cases=count)
    report = None if progress is None else partial(progress, "generating")
    make(folder, replace=True, workers=settings.workers, progress=report)
    return read_folder(folder)

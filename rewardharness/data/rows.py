"""Open tables on the Hugging Face Hub or on the local disk, and cache them.

    RH_HOME/data/hub/org--name@<commit>/    tables of a commit (see `row_store`); its files, configs and splits
    RH_HOME/data/hub/org--name.json         the last known commit of each branch
    RH_HOME/data/tables/<name>@<digest>/    local tables

A commit never changes, so its cached tables are opened without a request.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from rewardharness import files
from rewardharness.data import hf_datasets
from rewardharness.data.hf_datasets import ARROW_TABLES, CARD, TABLES, Layout, find_layout, read_table
from rewardharness.data.row_store import Rows, open_stored, store
from rewardharness.errors import DataError, InputError
from rewardharness.files import check_space, megabytes, user_path
from rewardharness.hub.errors import UnreachableError
from rewardharness.hub.repository import MAIN, Access, RemoteFile, Repo, Token, Tree, is_commit
from rewardharness.settings import Settings

__all__ = ["Progress", "RowSource", "Rows", "open_rows"]

Progress = Callable[[str, int, int], None]
"""Called with the current activity, completed steps and total steps."""

DOWNLOADING = "downloading (MB)"
"""Activity while downloading files from the Hub."""

READING = "reading rows"
"""Activity while storing rows and images."""

_LISTED = 20
_MAX_CARD = 4 << 20
_FILES = "files.json"
_LAYOUT = "layout.json"
_SUPPORTED = f"Supported extensions: {', '.join(sorted(TABLES))}."


@dataclass(frozen=True)
class RowSource:
    """Location of a table: exactly one of `hub` and `path`."""

    hub: str = ""
    """A dataset repository, `org/name`."""
    config: str = ""
    """Config; optional if there is only one or a default."""
    split: str = ""
    """Split; optional if there is only one."""
    revision: str = ""
    """Branch, tag or commit of a repository; empty for the newest commit."""
    optional: bool = False
    """Whether the default config and the only split serve where those of these names do not exist."""
    path: Path | None = None
    """A file (.parquet .arrow .jsonl .json .csv .tsv), a folder of files, or a `save_to_disk` folder."""

    def __post_init__(self) -> None:
        if bool(self.hub) == (self.path is not None):
            message = "A table needs either a Hub repository or a local path."
            raise InputError(message, next_step="Set exactly one of them.")


def open_rows(source: RowSource, settings: Settings, *, token: Token = None, progress: Progress | None = None) -> Rows:
    """Open a table. Only the files of the selected config and split are downloaded.

    Args:
        source: Location of the table.
        settings: Data folder and Hub settings.
        token: A Hub token; None for the token stored on this computer, False for none.
        progress: Called with the progress of long operations.

    Returns:
        The table, with its images on disk; it can be iterated repeatedly.

    Raises:
        DataError: If the table does not exist or is damaged, the Hub denies access, or the disk is full.
        UnreachableError: If the Hub is unreachable and the commit is not cached; lists cached commits.
        MissingPackageError: If `datasets` is not installed and required.
    """
    report = progress or (lambda doing, done, total: None)
    if source.path is not None:
        return _open_local(source, user_path(source.path), settings, report)
    access = Access(token, settings.hub_endpoint, settings.hub_cache)
    return _open_remote(source, Repo(source.hub, access, "dataset"), settings, report)


# The Hub -----------------------------------------------------------------------------------------------------------


def _open_remote(source: RowSource, repo: Repo, settings: Settings, progress: Progress) -> Rows:
    commit, notes, folder = _commit(source, repo, settings)
    config, split, name, paths = _choose(_layout(repo, commit, folder), source, repo.name)
    key = files.content_id([config, split])[:16]
    reopen = partial(open_stored, folder, key, name=name, revision=commit, beside=folder)
    rows = reopen()
    if rows is None:
        _fetch_rows(repo, commit, paths, folder, key, progress)
        rows = reopen()
    assert rows is not None
    return replace(rows, notes=(*notes, *rows.notes))


def locate_remote(source: RowSource, repo: Repo, settings: Settings) -> tuple[str, str, tuple[str, ...]]:
    """Find the files of a dataset on the Hub without downloading them.

    Args:
        source: Repository, config, split and revision.
        repo: The repository.
        settings: Where the layouts of commits are stored.

    Returns:
        Display name, commit, and the paths of its tables; of a repository without tables those of its tar files.

    Raises:
        DataError: If config or split do not exist or are ambiguous, or there are no such files.
    """
    commit, _, folder = _commit(source, repo, settings)
    tree = _tree(repo, commit, folder)
    archives = tuple(sorted(path for path in tree if path.lower().endswith(".tar")))
    if archives and not any(PurePosixPath(path).suffix.lower() in ARROW_TABLES for path in tree):
        return repo.name, commit, archives
    _, _, name, paths = _choose(_layout(repo, commit, folder), source, repo.name)
    return name, commit, paths


def _commit(source: RowSource, repo: Repo, settings: Settings) -> tuple[str, list[str], Path]:
    """Resolve the commit, with a note if it is the last known one because the Hub is unreachable, and its folder."""
    home, asked = settings.home / "data" / "hub", source.revision or MAIN
    stem = _slug(repo.name)
    if is_commit(asked):
        return asked, [], home / f"{stem}@{asked}"
    note = home / f"{stem}.json"
    known: dict[str, str] = {}
    if note.is_file():
        known = {key: value for key, value in files.read_json(note).items() if is_commit(str(value))}
    try:
        commit = repo.head(asked).commit
    except UnreachableError as error:
        before = known.get(asked, "")
        if before and (home / f"{stem}@{before}" / _LAYOUT).is_file():
            offline = f"OFFLINE: the Hub is unreachable; using the last known commit {before} of {repo.name}."
            return before, [offline], home / f"{stem}@{before}"
        kept = sorted(path.name.partition("@")[2] for path in home.glob(f"{stem}@*"))
        here = f"Cached commits: {', '.join(kept)}." if kept else "No commit is cached."
        raise UnreachableError(f"{error.message} {here}", next_step=error.next_step) from None
    if known.get(asked) != commit:
        files.write_json(note, {**known, asked: commit})
    return commit, [], home / f"{stem}@{commit}"


def _tree(repo: Repo, commit: str, folder: Path) -> Tree:
    """Return the files of a commit, cached after the first request."""
    place = folder / _FILES
    with suppress(DataError, TypeError, AttributeError):
        return {path: RemoteFile(*values) for path, values in files.read_json(place).items()}
    tree = repo.tree(commit)
    files.write_json(place, {path: [file.size, file.oid, file.sha256] for path, file in tree.items()})
    return tree


def _layout(repo: Repo, commit: str, folder: Path) -> Layout:
    """Return the configs and splits of a commit, cached."""
    place = folder / _LAYOUT
    with suppress(DataError, LookupError, TypeError, AttributeError):
        stated = files.read_json(place)
        known = stated["configs"].items()
        configs = {config: {split: tuple(paths) for split, paths in splits.items()} for config, splits in known}
        return Layout(configs, str(stated["default"]))
    tree = _tree(repo, commit, folder)
    card = ""
    if CARD in tree and tree[CARD].size <= _MAX_CARD:
        card = repo.fetch(commit, [CARD], tree)[CARD].read_text(encoding="utf-8", errors="replace")
    layout = find_layout(tree, card)
    if not layout.configs:
        raise _no_tables(repo.name, tree)
    files.write_json(place, {"configs": layout.configs, "default": layout.default})
    return layout


def _fetch_rows(repo: Repo, commit: str, paths: tuple[str, ...], folder: Path, key: str, progress: Progress) -> None:
    tree = _tree(repo, commit, folder)

    def arrived(done: int, total: int) -> None:
        progress(DOWNLOADING, megabytes(done), megabytes(total))

    def fetch(names: Collection[str]) -> Mapping[str, Path]:
        return repo.fetch(commit, [name for name in names if name in tree], tree)

    check_space(folder, sum(tree[path].size for path in paths), f"store {repo.name}")
    places = repo.fetch(commit, paths, tree, arrived)
    parts = [(read_table(places[path]), _parent(path)) for path in paths]
    store(folder, key, parts, beside=folder, fetch=fetch, progress=partial(progress, READING))


def _no_tables(name: str, paths: Collection[str]) -> DataError:
    kinds = sorted({PurePosixPath(path).suffix for path in paths} - {"", ".md"})
    there = f"Its files have the extensions {', '.join(kinds[:_LISTED])}." if kinds else "It is empty."
    step = f"{_SUPPORTED} The Hub converts many datasets to Parquet: try {name}@refs/convert/parquet."
    return DataError(f"{name} has no supported table. {there}", next_step=step)


# This disk ---------------------------------------------------------------------------------------------------------


def _open_local(source: RowSource, path: Path, settings: Settings, progress: Progress) -> Rows:
    if source.revision:
        raise InputError(f"{path} is a local path without revisions.", next_step="Omit the revision.")
    if not path.exists():
        raise DataError(f"{path} does not exist.", next_step="Check the path.")
    path = path.resolve()
    top = path if path.is_dir() else path.parent
    _, _, name, paths = _choose(_local_layout(path), source, str(path))
    digest = files.content_id([[file, _digest(top / file)] for file in paths])
    folder = settings.home / "data" / "tables" / f"{_slug(path.name)}@{digest[:16]}"
    name = f"{path.name}{name.removeprefix(str(path))}"
    reopen = partial(open_stored, folder, "rows", name=name, revision=digest, beside=top)
    rows = reopen()
    if rows is None:
        check_space(folder, _size(top, paths), f"store {path.name}")
        parts = [(read_table(top / file), _parent(file)) for file in paths]
        store(folder, "rows", parts, beside=top, progress=partial(progress, READING))
        rows = reopen()
    assert rows is not None
    return rows


def _local_layout(path: Path) -> Layout:
    if path.is_file():
        return Layout({"default": {"train": (path.name,)}}, "default")
    saved = hf_datasets.disk_layout(path)
    if saved is not None:
        return saved
    paths = [file.relative_to(path).as_posix() for file in sorted(files.data_files(path))]
    card = (path / CARD).read_text(encoding="utf-8", errors="replace") if CARD in paths else ""
    layout = find_layout(paths, card)
    if not layout.configs:
        raise DataError(f"{path} has no supported table.", next_step=_SUPPORTED)
    return layout


def _digest(path: Path) -> str:
    """Return the SHA-256 of a table file, or of the files in a folder."""
    if path.is_dir():
        inside = sorted(
            file for file in path.iterdir() if file.suffix == ".arrow" or file.name == hf_datasets.DISK_STATE
        )
        return files.content_id([[file.name, _digest(file)] for file in inside])
    return files.sha256_file(path)


def _size(top: Path, paths: tuple[str, ...]) -> int:
    """Return the size of tables with embedded images, in bytes."""
    contents = [file for path in paths for file in ((top / path).rglob("*") if (top / path).is_dir() else [top / path])]
    return sum(file.stat().st_size for file in contents if file.suffix in {".parquet", ".arrow"})


# Both --------------------------------------------------------------------------------------------------------------


def _with_folder(layout: Layout, config: str) -> Layout:
    """Return a layout in which a folder of tables, or one of them, serves as a config that is not declared."""
    if not config or config in layout.configs:
        return layout
    inside: dict[str, dict[str, None]] = defaultdict(dict)
    for split, paths in (item for splits in layout.configs.values() for item in splits.items()):
        inside[split] |= dict.fromkeys(path for path in paths if config in PurePosixPath(path).parts)
    subset = {split: tuple(paths) for split, paths in inside.items() if paths}
    return replace(layout, configs={**layout.configs, config: subset}) if subset else layout


def _choose(layout: Layout, source: RowSource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the selected config and split, the display name of the table, and the paths of its files.

    Raises:
        DataError: If they do not exist or are ambiguous; lists the existing ones.
    """
    configs = _with_folder(layout, source.config).configs
    there = "; ".join(f"{config}: {', '.join(splits)}" for config, splits in list(configs.items())[:_LISTED])
    first, (example, *_) = next(iter(configs.items()))
    step = f"Configs and their splits: {there}. Choose one, for example {name}:{first}/{example}."

    def choose(what: str, known: Mapping[str, object], stated: str, default: str) -> str:
        if source.optional and stated not in known:
            stated = ""
        chosen = stated or default or (next(iter(known)) if len(known) == 1 else "")
        if chosen not in known:
            problem = f"has no {what} {chosen!r}" if chosen else f"has several {what}s"
            raise DataError(f"{name} {problem}.", next_step=step)
        return chosen

    config = choose("config", configs, source.config, layout.default)
    split = choose("split", configs[config], source.split, "")
    alone = len(configs) == 1 and len(configs[config]) == 1
    return config, split, name if alone else f"{name}:{config}/{split}", configs[config][split]


def _parent(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def _slug(name: str) -> str:
    """Return a name as a folder name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.replace("/", "--"))[:120]

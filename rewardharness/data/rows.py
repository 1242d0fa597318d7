"""Open tables on the Hugging Face Hub or on the local disk, and cache them.

    RH_HOME/data/hub/org--name@<commit>/    tables of a commit (see `row_store`); its files, configs and splits
    RH_HOME/data/hub/org--name.json         the last known commit of each branch
    RH_HOME/data/tables/<name>@<digest>/    local tables

A commit never changes, so its cached tables are opened without a request.
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from rewardharness import files
from rewardharness.data.hf_datasets import (
    ARROW_TABLES,
    CARD,
    DISK_STATE,
    TABLES,
    Layout,
    disk_layout,
    find_layout,
    read_table,
)
from rewardharness.data.row_store import Rows, TablePart, open_stored, store
from rewardharness.errors import DataError, InputError
from rewardharness.files import check_space, megabytes
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
            raise InputError(
                "A table needs either a Hub repository or a local path.", next_step="Set exactly one of them."
            )


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
        return _open_local(source, source.path.expanduser(), settings, report)
    access = Access(token, settings.hub_endpoint, settings.hub_cache)
    return _open_remote(source, Repo(source.hub, access, "dataset"), settings, report)


# The Hub -----------------------------------------------------------------------------------------------------------


def _open_remote(source: RowSource, repo: Repo, settings: Settings, progress: Progress) -> Rows:
    home = settings.home / "data" / "hub"
    commit, notes = _commit(source, repo, home)
    folder = home / f"{_slug(repo.name)}@{commit}"
    layout = _with_folder(_layout(repo, commit, folder), source.config)
    config, split = _choose(layout, source, repo.name)
    name = _name(repo.name, layout, config, split)
    key = files.content_id([config, split])[:16]
    reopen = partial(open_stored, folder, key, name=name, revision=commit, beside=folder)
    rows = reopen()
    if rows is None:
        _fetch_rows(repo, commit, layout.configs[config][split], folder, key, progress)
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
    home = settings.home / "data" / "hub"
    commit, _ = _commit(source, repo, home)
    folder = home / f"{_slug(repo.name)}@{commit}"
    tree = _tree(repo, commit, folder)
    archives = tuple(sorted(path for path in tree if path.lower().endswith(".tar")))
    if archives and not any(PurePosixPath(path).suffix.lower() in ARROW_TABLES for path in tree):
        return repo.name, commit, archives
    layout = _with_folder(_layout(repo, commit, folder), source.config)
    config, split = _choose(layout, source, repo.name)
    return _name(repo.name, layout, config, split), commit, layout.configs[config][split]


def _commit(source: RowSource, repo: Repo, home: Path) -> tuple[str, list[str]]:
    """Resolve the commit, with a note if it is the last known one because the Hub is unreachable."""
    asked = source.revision or MAIN
    if is_commit(asked):
        return asked, []
    note = home / f"{_slug(repo.name)}.json"
    known: dict[str, str] = {}
    if note.is_file():
        known = {key: value for key, value in files.read_json(note).items() if is_commit(str(value))}
    try:
        commit = repo.head(asked).commit
    except UnreachableError as error:
        before = known.get(asked, "")
        if before and (home / f"{_slug(repo.name)}@{before}" / _LAYOUT).is_file():
            return before, [f"OFFLINE: the Hub is unreachable; using the last known commit {before} of {repo.name}."]
        raise _not_cached(error, repo, home) from None
    if known.get(asked) != commit:
        files.write_json(note, {**known, asked: commit})
    return commit, []


def _not_cached(error: UnreachableError, repo: Repo, home: Path) -> UnreachableError:
    kept = sorted(path.name.partition("@")[2] for path in home.glob(f"{_slug(repo.name)}@*"))
    here = f"Cached commits: {', '.join(kept)}." if kept else "No commit is cached."
    return UnreachableError(f"{error.message} {here}", next_step=error.next_step)


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
        configs = {
            config: {split: tuple(paths) for split, paths in splits.items()}
            for config, splits in stated["configs"].items()
        }
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
    parts = [TablePart(read_table(places[path]), _parent(path)) for path in paths]
    store(
        folder,
        key,
        parts,
        beside=folder,
        fetch=fetch,
        progress=lambda done, total: progress("reading rows", done, total),
    )


def _no_tables(name: str, paths: Collection[str]) -> DataError:
    kinds = sorted({PurePosixPath(path).suffix for path in paths} - {"", ".md"})
    there = f"Its files have the extensions {', '.join(kinds[:_LISTED])}." if kinds else "It is empty."
    listed = ", ".join(sorted(TABLES))
    step = (
        f"Supported extensions: {listed}. The Hub converts many datasets to Parquet: try {name}@refs/convert/parquet."
    )
    return DataError(f"{name} has no supported table. {there}", next_step=step)


# This disk ---------------------------------------------------------------------------------------------------------


def _open_local(source: RowSource, path: Path, settings: Settings, progress: Progress) -> Rows:
    if source.revision:
        raise InputError(f"{path} is a local path without revisions.", next_step="Omit the revision.")
    if not path.exists():
        raise DataError(f"{path} does not exist.", next_step="Check the path.")
    path = path.resolve()
    top = path if path.is_dir() else path.parent
    layout = _with_folder(_local_layout(path), source.config)
    config, split = _choose(layout, source, str(path))
    paths = layout.configs[config][split]
    digest = files.content_id([[file, _digest(top / file)] for file in paths])
    folder = settings.home / "data" / "tables" / f"{_slug(path.name)}@{digest[:16]}"
    name = _name(path.name, layout, config, split)
    reopen = partial(open_stored, folder, "rows", name=name, revision=digest, beside=top)
    rows = reopen()
    if rows is None:
        check_space(folder, _size(top, paths), f"store {path.name}")
        parts = [TablePart(read_table(top / file), _parent(file)) for file in paths]
        store(folder, "rows", parts, beside=top, progress=partial(progress, READING))
        rows = reopen()
    assert rows is not None
    return rows


def _local_layout(path: Path) -> Layout:
    if path.is_file():
        return Layout({"default": {"train": (path.name,)}}, "default")
    saved = disk_layout(path)
    if saved is not None:
        return saved
    paths = [each.relative_to(path).as_posix() for each in sorted(files.data_files(path))]
    card = (path / CARD).read_text(encoding="utf-8", errors="replace") if CARD in paths else ""
    layout = find_layout(paths, card)
    if not layout.configs:
        listed = ", ".join(sorted(TABLES))
        raise DataError(f"{path} has no supported table.", next_step=f"Supported extensions: {listed}.")
    return layout


def _digest(path: Path) -> str:
    """Return the SHA-256 of a table file, or of the files in a folder."""
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.suffix == ".arrow" or each.name == DISK_STATE)
        return files.content_id([[each.name, _digest(each)] for each in inside])
    return files.sha256_file(path)


def _size(top: Path, paths: tuple[str, ...]) -> int:
    """Return the size of tables with embedded images, in bytes."""
    found = [each for path in paths for each in ((top / path).rglob("*") if (top / path).is_dir() else [top / path])]
    return sum(each.stat().st_size for each in found if each.suffix in {".parquet", ".arrow"})


# Both --------------------------------------------------------------------------------------------------------------


def _with_folder(layout: Layout, config: str) -> Layout:
    """Return a layout in which a folder of tables, or one of them, serves as a config that is not declared."""
    if not config or config in layout.configs:
        return layout
    files: dict[str, dict[str, None]] = {}
    for splits in layout.configs.values():
        for split, paths in splits.items():
            inside = [path for path in paths if config in PurePosixPath(path).parts]
            files.setdefault(split, {}).update(dict.fromkeys(inside))
    found = {split: tuple(paths) for split, paths in files.items() if paths}
    return replace(layout, configs={**layout.configs, config: found}) if found else layout


def _choose(layout: Layout, source: RowSource, name: str) -> tuple[str, str]:
    """Return the selected config and split.

    Raises:
        DataError: If they do not exist or are ambiguous; lists the existing ones.
    """
    there = "; ".join(f"{config}: {', '.join(splits)}" for config, splits in list(layout.configs.items())[:_LISTED])
    step = f"Configs and their splits: {there}. Choose one, for example {name}:{_example(layout)}."
    alone = next(iter(layout.configs)) if len(layout.configs) == 1 else ""
    stated = "" if source.optional and source.config not in layout.configs else source.config
    config = stated or layout.default or alone
    if config not in layout.configs:
        if not config:
            raise DataError(f"{name} has several configs.", next_step=step)
        raise DataError(f"{name} has no config {config!r}.", next_step=step)
    splits = layout.configs[config]
    stated = "" if source.optional and source.split not in splits else source.split
    split = stated or (next(iter(splits)) if len(splits) == 1 else "")
    if split not in splits:
        if not split:
            raise DataError(f"{name} has several splits.", next_step=step)
        raise DataError(f"{name} has no split {split!r}.", next_step=step)
    return config, split


def _example(layout: Layout) -> str:
    config, splits = next(iter(layout.configs.items()))
    return f"{config}/{next(iter(splits))}"


def _name(name: str, layout: Layout, config: str, split: str) -> str:
    alone = len(layout.configs) == 1 and len(layout.configs[config]) == 1
    return name if alone else f"{name}:{config}/{split}"


def _parent(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def _slug(name: str) -> str:
    """Return a name as a folder name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.replace("/", "--"))[:120]

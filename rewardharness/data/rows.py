"""Opens a table that lies on the Hugging Face Hub or on this disk, and keeps it where it can be read again.

    RH_HOME/data/hub/org--name@<commit>/    what was read of a commit, see `row_store`; its files, configs and splits
    RH_HOME/data/hub/org--name.json         which commit a branch was when it was last asked for
    RH_HOME/data/tables/<name>@<digest>/    what was read of tables on this disk

A commit never changes: what was read of it is opened again without asking anybody.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from rewardharness import files
from rewardharness.data.hf_datasets import CARD, DISK_STATE, TABLES, Layout, disk_layout, find_layout, read_table
from rewardharness.data.row_store import Part, Rows, open_stored, store
from rewardharness.errors import DataError, InputError
from rewardharness.files import check_space, megabytes
from rewardharness.hub.errors import UnreachableError
from rewardharness.hub.repository import MAIN, Access, RemoteFile, Repo, Token, Tree, is_commit
from rewardharness.settings import Settings

__all__ = ["Progress", "RowSource", "Rows", "open_rows"]

Progress = Callable[[str, int, int], None]
"""Told how long work goes on: what is being done, steps done, steps in all."""

DOWNLOADING = "downloading (MB)"
"""What is being done while files come from the Hub."""

READING = "reading rows"
"""What is being done while rows and images are put on this disk."""

_LISTED = 20
_MAX_CARD = 4 << 20
_FILES = "files.json"
_LAYOUT = "layout.json"


@dataclass(frozen=True)
class RowSource:
    """Where a table lies: exactly one of `hub` and `path`."""

    hub: str = ""
    """A dataset repository, `org/name`."""
    config: str = ""
    """Which config is meant; may be empty where there is but one, or one is the default."""
    split: str = ""
    """Which split is meant; may be empty where there is but one."""
    revision: str = ""
    """Branch, tag or commit of a repository; empty for the newest commit."""
    path: Path | None = None
    """A file (.parquet .arrow .jsonl .json .csv .tsv), a folder of them, or a folder that `save_to_disk` wrote."""

    def __post_init__(self) -> None:
        if bool(self.hub) == (self.path is not None):
            raise InputError("A table lies on the Hub or on this disk.", next_step="Name one of the two.")


def open_rows(source: RowSource, settings: Settings, *, token: Token = None, progress: Progress | None = None) -> Rows:
    """Open a table. Of a repository only the files of the config and split that are meant are fetched.

    Args:
        source: Where it lies.
        settings: Where this project's own data lie, and how the Hub is reached.
        token: A token for the Hub; None for the one of this computer, False for none at all.
        progress: Told how the work goes on, where it takes long.

    Returns:
        The table. Its images lie on disk; it can be read any number of times.

    Raises:
        DataError: If there is no such table, the Hub refuses, the disk has no room, or something is damaged.
        UnreachableError: If the Hub cannot be asked and nothing was kept; names what was.
        MissingPackageError: If `datasets` is not installed and is needed.
    """
    told = progress or (lambda doing, done, total: None)
    if source.path is not None:
        return _open_local(source, source.path.expanduser(), settings, told)
    access = Access(token, settings.hub_endpoint, settings.hub_cache)
    return _open_remote(source, Repo(source.hub, access, "dataset"), settings, told)


# The Hub -----------------------------------------------------------------------------------------------------------


def _open_remote(source: RowSource, repo: Repo, settings: Settings, progress: Progress) -> Rows:
    home = settings.home / "data" / "hub"
    commit, notes = _commit(source, repo, home)
    folder = home / f"{_slug(repo.name)}@{commit}"
    layout = _layout(repo, commit, folder)
    config, split = _choose(layout, source, repo.name)
    name = _name(repo.name, layout, config, split)
    key = files.content_id([config, split])[:16]
    rows = open_stored(folder, key, name=name, revision=commit, beside=folder)
    if rows is None:
        _fetch_rows(repo, commit, layout.configs[config][split], folder, key, progress)
        rows = open_stored(folder, key, name=name, revision=commit, beside=folder)
    assert rows is not None
    return replace(rows, notes=(*notes, *rows.notes))


def _commit(source: RowSource, repo: Repo, home: Path) -> tuple[str, list[str]]:
    """Find out which commit is meant, and say so when that is only what it was the last time."""
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
            return before, [f"OFFLINE: the Hub was not reached; {repo.name} is as it was last read, commit {before}."]
        raise _nothing_kept(error, repo, home) from None
    if known.get(asked) != commit:
        files.write_json(note, {**known, asked: commit})
    return commit, []


def _nothing_kept(error: UnreachableError, repo: Repo, home: Path) -> UnreachableError:
    kept = sorted(path.name.partition("@")[2] for path in home.glob(f"{_slug(repo.name)}@*"))
    here = f"Commits of it that were read before: {', '.join(kept)}." if kept else "Nothing of it was read before."
    return UnreachableError(f"{error.message} {here}", next_step=error.next_step)


def _tree(repo: Repo, commit: str, folder: Path) -> Tree:
    """The files of a commit. Asked for once; a commit never changes."""
    place = folder / _FILES
    with suppress(DataError, TypeError, AttributeError):
        return {path: RemoteFile(*values) for path, values in files.read_json(place).items()}
    tree = repo.tree(commit)
    files.write_json(place, {path: [file.size, file.oid, file.sha256] for path, file in tree.items()})
    return tree


def _layout(repo: Repo, commit: str, folder: Path) -> Layout:
    """The configs and splits of a commit. Found out once."""
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

    check_space(folder, sum(tree[path].size for path in paths), f"keep {repo.name}")
    places = repo.fetch(commit, paths, tree, arrived)
    parts = [Part(read_table(places[path]), _parent(path)) for path in paths]
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
    there = f"Its files end in {', '.join(kinds[:_LISTED])}." if kinds else "It is empty."
    listed = ", ".join(sorted(TABLES))
    step = f"Tables end in {listed}. The Hub makes Parquet of many others: try {name}@refs/convert/parquet."
    return DataError(f"{name} has no table that can be read. {there}", next_step=step)


# This disk ---------------------------------------------------------------------------------------------------------


def _open_local(source: RowSource, path: Path, settings: Settings, progress: Progress) -> Rows:
    if source.revision:
        raise InputError(f"{path} is on this disk and has no revisions.", next_step="Leave the revision out.")
    if not path.exists():
        raise DataError(f"{path} does not exist.", next_step="Check the path.")
    path = path.resolve()
    top = path if path.is_dir() else path.parent
    layout = _local_layout(path)
    config, split = _choose(layout, source, str(path))
    paths = layout.configs[config][split]
    digest = files.content_id([[each, _digest(top / each)] for each in paths])
    folder = settings.home / "data" / "tables" / f"{_slug(path.name)}@{digest[:16]}"
    name = _name(path.name, layout, config, split)
    rows = open_stored(folder, "rows", name=name, revision=digest, beside=top)
    if rows is None:
        check_space(folder, _size(top, paths), f"keep {path.name}")
        parts = [Part(read_table(top / each), _parent(each)) for each in paths]
        store(folder, "rows", parts, beside=top, progress=partial(progress, READING))
        rows = open_stored(folder, "rows", name=name, revision=digest, beside=top)
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
        raise DataError(f"{path} holds no table that can be read.", next_step=f"Tables end in {listed}.")
    return layout


def _digest(path: Path) -> str:
    """SHA-256 of a table; of a folder, over the files in it."""
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.suffix == ".arrow" or each.name == DISK_STATE)
        return files.content_id([[each.name, _digest(each)] for each in inside])
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size(top: Path, paths: tuple[str, ...]) -> int:
    """Bytes of the tables that hold their images in themselves."""
    found = [each for path in paths for each in ((top / path).rglob("*") if (top / path).is_dir() else [top / path])]
    return sum(each.stat().st_size for each in found if each.suffix in {".parquet", ".arrow"})


# Both --------------------------------------------------------------------------------------------------------------


def _choose(layout: Layout, source: RowSource, name: str) -> tuple[str, str]:
    """Choose config and split.

    Raises:
        DataError: If they do not exist, or several could be meant; lists those there are.
    """
    there = "; ".join(f"{config}: {', '.join(splits)}" for config, splits in list(layout.configs.items())[:_LISTED])
    step = f"Configs and their splits: {there}. Name one, as in {name}:{_example(layout)}."
    config = source.config or layout.default or (next(iter(layout.configs)) if len(layout.configs) == 1 else "")
    if config not in layout.configs:
        if not config:
            raise DataError(f"{name} has several configs.", next_step=step)
        raise DataError(f"{name} has no config {config!r}.", next_step=step)
    splits = layout.configs[config]
    split = source.split or (next(iter(splits)) if len(splits) == 1 else "")
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
    """A name as that of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.replace("/", "--"))[:120]

"""Checks the folder of a Library and returns its errors, warnings, and notes."""

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from rewardharness.errors import shown
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, RUBRIC_FILE, Entry, read_entry
from rewardharness.library.lint import LintContext, check_copied, compare_entries, lint_entry
from rewardharness.library.problems import SEVERITIES, Findings, Problem
from rewardharness.library.reader import (
    LINEAGE_FILE,
    MAX_TOTAL,
    Folder,
    FolderContent,
    ReadEntry,
    read_folder,
    special_kind,
)
from rewardharness.library.registry import REGISTRY_FILE
from rewardharness.library.store import Library

MAX_LISTED = 20_000
"""Maximum number of files that are checked."""

SKIPPED_FOLDERS = frozenset({".git", ".cache", ".huggingface"})
"""Folders of other programs, which are no part of a Library."""
_CODE = frozenset(
    ".py .pyc .pyo .pyd .pyi .pyw .pyz .pth .egg .whl .ipynb .so .dll .dylib .exe .com .msi .bat .cmd .ps1 .vbs .sh "
    ".bash .zsh .fish .js .mjs .cjs .ts .rb .pl .php .lua .jar .class .wasm .scpt .applescript .desktop".split()
)
_PICKLES = frozenset(".pkl .pickle .pt .ckpt .joblib".split())
_STANDARD_FILES = frozenset(
    f"{REGISTRY_FILE} {REGISTRY_FILE}.lock {LINEAGE_FILE} README.md LICENSE LICENSE.md LICENSE.txt NOTICE CHANGELOG.md "
    # The last ones are written when a Library is pushed, pulled, or evaluated with `rh benchmark report --for-library`.
    ".gitattributes .gitignore config.json evolution.svg .rh-origin.json benchmark.json".split()
)


def check_folder(
    path: Path | str, known_measures: Collection[str] | None = None, instructions: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """Check the folder of a Library.

    The content of the folder never causes an exception. No file is executed, and no link is followed.

    Args:
        path: The folder.
        known_measures: Names of the measures that Tools and criteria may use; None to skip this check.
        instructions: Instructions of the training examples; phrases copied from them are reported.

    Returns:
        All problems, sorted by file and line. Everything that `Library.load` rejects is an error, and so are code,
        links, and unknown measures.
    """
    path = Path(path)
    reading = read_folder(path)
    findings = reading.findings
    context = LintContext({read.entry.name for read in reading.entries} | set(reading.registry.kinds), known_measures)
    for read in reading.entries:
        lint_entry(read, context, findings.at(read.entry.path))
    entries = [read.entry for read in reading.entries]
    if names := sorted(shown(entry.name) for entry in entries if not entry.triggers):
        message = (
            f"{len(names)} of {len(entries)} entries have no triggers: {', '.join(names)}. A model as judge is asked "
            "when they apply; the pixel-based judge consults them only for words of their description."
        )
        findings.at("").warning(message, None, "Add triggers: rh library triggers LIBRARY.")
    compare_entries(entries, findings)
    check_copied(entries, instructions, findings)
    if path.is_dir():
        _check_files(path, reading)

    def order(problem: Problem) -> tuple[str, int, int, str]:
        return problem.where, problem.line or 0, SEVERITIES.index(problem.severity), problem.message

    return tuple(sorted(dict.fromkeys(findings.found), key=order))


def check_texts(
    library: Library, entry: Entry, texts: Mapping[str, str], known_measures: Collection[str] | None = None
) -> tuple[Entry | None, tuple[Problem, ...]]:
    """Check new texts of an entry of a Library. Nothing is read or written.

    Args:
        library: The Library.
        entry: The entry that the texts replace.
        texts: Text of `SKILL.md`, and of `rubric.yaml` if there is one, by file name.
        known_measures: See `check_folder`.

    Returns:
        The new entry, or None if there is an error; and all problems of its texts, and of the Library with it.
    """
    findings = Findings(entry.path)
    new, places = read_entry(texts[ENTRY_FILE], entry.name, entry.kind, texts.get(RUBRIC_FILE), findings)
    if new is not None and places is not None:
        context = LintContext({other.name for other in library.entries}, known_measures)
        lint_entry(ReadEntry(new, places), context, findings)
        compare_entries([new if other.name == new.name else other for other in library.entries], findings)
    return None if findings.failed else new, tuple(dict.fromkeys(findings.found))


def _check_files(path: Path, reading: FolderContent) -> None:
    """Check every file by its name and type, without opening it."""
    findings = reading.findings.at("")
    entry_folders = {f"{FOLDERS[kind]}/{name}" for name, kind in reading.registry.kinds.items()}
    sizes = []
    try:
        for where, status in islice(Folder(path).list(SKIPPED_FOLDERS), MAX_LISTED + 1):
            sizes.append(status.st_size if stat.S_ISREG(status.st_mode) else 0)
            _check_file(where, status, entry_folders, findings.at(shown(where, 200)))
    except OSError as error:
        message = f"A folder cannot be listed: {error.strerror or error}."
        findings.error(message, None, "Check the permissions of the folder.")
    if len(sizes) > MAX_LISTED:
        findings.error(f"There are more than {MAX_LISTED} files.", None, "Move unrelated files elsewhere.")
    if sum(sizes) > MAX_TOTAL:
        message = f"The files have {sum(sizes)} bytes in total; the limit is {MAX_TOTAL}."
        findings.error(message, None, "Move unrelated files elsewhere.")


def _check_file(where: str, status: os.stat_result, entry_folders: Collection[str], findings: Findings) -> None:
    path, kind = PurePosixPath(where), special_kind(status.st_mode)
    suffix, folder = path.suffix.lower(), str(path.parent)
    if kind:
        findings.error(f"This is {kind} and is not read.", None, "Replace it with a regular file, or remove it.")
        return
    if suffix in _CODE or path.name == "__init__" or "__pycache__" in path.parts:
        findings.error("This is code. A Library contains no code, and none is ever executed.", None, "Remove it.")
        return
    if suffix in _PICKLES:
        findings.error("Files of this type can contain code. A Library contains only text.", None, "Remove it.")
        return
    if status.st_nlink > 1:
        links = f"{status.st_nlink} hard links"
        findings.note(f"The file has {links}; a change through another link changes this file.")
    if len(path.parts) != 3 or path.parts[0] not in FOLDERS.values():
        is_known = where in _STANDARD_FILES
    elif path.name == RUBRIC_FILE and path.parts[0] == FOLDERS["tool"]:
        findings.warning("A Tool has no rubric; this file is not read.", None, "Remove it, or move it to a Skill.")
        return
    else:
        is_known = path.name in {ENTRY_FILE, RUBRIC_FILE} or folder not in entry_folders
    if not is_known:
        findings.note("This file is kept but not read.")

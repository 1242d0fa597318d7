"""Checks a Library's folder and returns everything that is wrong or odd in it."""

import stat
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path, PurePosixPath

from rewardharness.errors import shown
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, RUBRIC_FILE
from rewardharness.library.folder import MAX_TOTAL, Folder, odd_kind
from rewardharness.library.lint import Surroundings, lint_entry
from rewardharness.library.overlap import check_copied, compare_entries
from rewardharness.library.problems import SEVERITIES, Findings, Problem
from rewardharness.library.reader import LINEAGE_FILE, Reading, read_folder
from rewardharness.library.registry import REGISTRY_FILE

__all__ = ["MAX_LISTED", "Problem", "check_folder"]

MAX_LISTED = 20_000
"""Files that are looked at, at most."""

_PASSED_OVER = frozenset({".git", ".cache", ".huggingface"})
_CODE = frozenset(
    ".py .pyc .pyo .pyd .pyi .pyw .pyz .pth .egg .whl .ipynb .so .dll .dylib .exe .com .msi .bat .cmd .ps1 .vbs .sh "
    ".bash .zsh .fish .js .mjs .cjs .ts .rb .pl .php .lua .jar .class .wasm .scpt .applescript .desktop".split()
)
_PICKLES = frozenset(".pkl .pickle .pt .ckpt .joblib".split())
_KNOWN = frozenset(
    {REGISTRY_FILE, LINEAGE_FILE, "README.md", "LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "CHANGELOG.md"}
    | {".gitattributes", ".gitignore", f"{REGISTRY_FILE}.lock"}
    | {"config.json", "evolution.svg", ".rh-origin.json"}  # written when a Library is pushed or pulled
)


def check_folder(
    path: Path | str, known_measures: Collection[str] | None = None, instructions: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """Check a Library's folder.

    Nothing in the folder makes this raise; no file is run, no link is followed.

    Args:
        path: The folder.
        known_measures: Names of the measures that Tools and criteria may use; None leaves the names unchecked.
        instructions: Instructions of the examples that it was evolved on; their phrases do not belong in it.

    Returns:
        Every problem with its file and line, in order of file and line. Whatever `Library.load` refuses is an
        error here; so are code, links and names of measures that do not exist.
    """
    path = Path(path)
    reading = read_folder(path)
    findings = reading.findings
    around = Surroundings({read.entry.name for read in reading.entries} | set(reading.registry.kinds), known_measures)
    for read in reading.entries:
        lint_entry(read, around, findings.at(read.entry.path))
    entries = [read.entry for read in reading.entries]
    compare_entries(entries, findings)
    check_copied(entries, instructions, findings)
    if path.is_dir():
        _check_files(path, reading)
    order = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    unique = dict.fromkeys(findings.found)
    return tuple(sorted(unique, key=lambda each: (each.where, each.line or 0, order[each.severity], each.message)))


def _check_files(path: Path, reading: Reading) -> None:
    """Look at every file by name and kind; none is opened."""
    here = reading.findings.at("")
    ours = {f"{FOLDERS[kind]}/{name}" for name, kind in reading.registry.kinds.items()}
    total = 0
    count = 0
    try:
        for where, status in islice(Folder(path).list(_PASSED_OVER), MAX_LISTED + 1):
            count += 1
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
            _check_file(where, status.st_mode, status.st_nlink, ours, here.at(shown(where, 200)))
    except OSError as error:
        here.error(f"A folder cannot be listed: {error.strerror or error}.", None, "Check its mode.")
    if count > MAX_LISTED:
        here.error(f"There are more than {MAX_LISTED} files.", None, "A Library holds few files; move others away.")
    if total > MAX_TOTAL:
        message = f"The files have {total} bytes together; a Library has at most {MAX_TOTAL}."
        here.error(message, None, "Move what does not belong to the Library away.")


def _check_file(where: str, mode: int, links: int, ours: Collection[str], findings: Findings) -> None:
    pure = PurePosixPath(where)
    kind = odd_kind(mode)
    if kind:
        findings.error(f"This is {kind}, and is not read.", None, "Put a real file there, or remove it.")
        return
    if pure.suffix.lower() in _CODE or pure.name == "__init__" or "__pycache__" in pure.parts:
        findings.error("This is code. A Library holds no code; it is never run.", None, "Remove it.")
        return
    if pure.suffix.lower() in _PICKLES:
        findings.error("Files of this kind can hold code. A Library holds text alone.", None, "Remove it.")
        return
    if links > 1:
        findings.note(f"The file has {links} names on this disk; a change through another name shows here.")
    if len(pure.parts) == 3 and pure.parts[0] in FOLDERS.values():
        folder = str(pure.parent)
        if pure.name == RUBRIC_FILE and pure.parts[0] == FOLDERS["tool"]:
            findings.warning("A Tool has no rubric; this is not read.", None, "Remove it, or give it to a Skill.")
        elif pure.name not in {ENTRY_FILE, RUBRIC_FILE} and folder in ours:
            findings.note("This file is kept, but not read.")
    elif str(pure) not in _KNOWN:
        findings.note("This file is kept, but not read.")

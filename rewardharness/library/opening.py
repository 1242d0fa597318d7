"""Opens the Library that a user specifies. All callers go through `open_library`."""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from rewardharness.files import recover_folder, user_path
from rewardharness.library.problems import Problem
from rewardharness.library.store import EMPTY, Library, ReplaceEntry

BUILTIN = "builtin"
"""Name of the Library that is included in the package."""
INCLUDED = {BUILTIN: "builtin", f"{BUILTIN}:text": "builtin_text"}
"""Folders of the Libraries that are included in the package, by name: for image edits, and for text responses."""
THIN = f"{BUILTIN}:thin"
"""Name of the built-in Library without half of its criteria: evolution can find the other half again."""
EMPTY_SPEC = "empty"
"""Name of the Library without entries."""

_log = logging.getLogger(__name__)


def open_library(spec: str | Path | Library, instructions: Mapping[str, str] | None = None) -> Library:
    """Open a Library.

    Args:
        spec: A Library, which is returned unchanged; `builtin` for the Library that is included in the package, and
            `builtin:text` for that of text responses; `builtin:thin`, see `THIN`; `empty`; a folder; a file of rubric
            presets; or a Hub repository: `org/name`, or `org/name@revision` for a version, commit, or branch. Folders
            and files take precedence over repositories.
        instructions: Instruction by prompt id, for presets of single prompts.

    Raises:
        LibraryError: If the Library does not exist, cannot be reached, or is invalid.
        MissingPackageError: If the Library is on the Hub and `huggingface_hub` is not installed.
    """
    if isinstance(spec, Library):
        return spec
    if str(spec) == THIN:
        return without_every_second_criterion(open_library(BUILTIN))
    if str(spec) in INCLUDED:
        with as_file(files("rewardharness.library").joinpath(INCLUDED[str(spec)])) as folder:
            return Library.load(folder)
    path = user_path(spec)
    if str(spec) == EMPTY_SPEC and not path.exists():
        return EMPTY
    if path.is_file():
        from rewardharness.library.presets import SUFFIXES, read_presets

        if path.suffix.lower() in SUFFIXES:
            return read_presets(path, instructions)
    recover_folder(path)
    if not path.exists():
        from rewardharness.library.hub import pull_spec

        pulled = pull_spec(str(spec))
        if pulled is not None:
            for note in pulled.notes:
                _log.warning("%s", note)
            _log.info("%s is commit %s, version %s", pulled.repo, pulled.commit, pulled.version or "none")
            return replace(pulled.library, origin=(pulled.repo, pulled.commit))
    return Library.load(path)


def check_library(
    spec: str, known_measures: Collection[str] | None = None, instructions: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """Check a Library.

    Args:
        spec: See `open_library`.
        known_measures: See `check_folder`.
        instructions: See `check_folder`.

    Raises:
        LibraryError: If the Library is on the Hub and cannot be reached, or is invalid.
        MissingPackageError: If the Library is on the Hub and `huggingface_hub` is not installed.
    """
    from rewardharness.library.check import check_folder
    from rewardharness.library.hub import pull_spec

    path = user_path(spec)
    with ExitStack() as stack:
        if spec in INCLUDED:
            path = stack.enter_context(as_file(files("rewardharness.library").joinpath(INCLUDED[spec])))
        elif not path.exists():
            copy = Path(stack.enter_context(TemporaryDirectory(prefix="rh-check-"))) / "library"
            if spec == THIN:
                open_library(spec).save(copy)
            path = copy if spec == THIN or pull_spec(spec, to=copy) else path
        return check_folder(path, known_measures, instructions)


def without_every_second_criterion(library: Library) -> Library:
    """Return a copy of the Library without every second measured criterion, counted across Skills by name.

    A Skill whose remaining criteria have no weight keeps its text and loses its rubric.
    """
    count = 0
    for entry in library.skills:
        rubric, kept = entry.rubric, []
        for criterion in rubric.criteria if rubric else ():
            count += criterion.measure is not None
            kept += [criterion] if criterion.measure is None or count % 2 else []
        if rubric is not None and len(kept) < len(rubric.criteria):
            smaller = replace(rubric, criteria=tuple(kept)) if any(criterion.weight > 0 for criterion in kept) else None
            library = library.apply(ReplaceEntry(replace(entry, rubric=smaller)))
    return library

"""The folder of a demo dataset, drawing in parallel processes, and generated text responses with known preferences.

The marker `drawing.json` exists during generation. It is renamed to `made_by.json` at the end, so that an interrupted
dataset is never taken for complete.

The labels are no human judgments. They follow from how the responses are made, which the category records. The flaw of
the category `truth` is a fact that the prompt does not state: no measure of form can see it.
"""

import json
import multiprocessing
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np

from rewardharness import files
from rewardharness.errors import DataError, InputError
from rewardharness.schema import GROUPS, PAIRS

DEMO_MARKER = "made_by.json"
"""Marker file of a complete demo dataset."""

DEMO_UNFINISHED = "drawing.json"
"""Marker file of an incomplete demo dataset."""

MAKER = "rewardharness demo"
"""Value of `made_by` in a marker file."""

_TABLES = (PAIRS, GROUPS)
_IMAGE = re.compile(r'"images/([^"]+)"')


def is_there(path: Path, made_by: Mapping[str, Any], *, replace: bool) -> bool:
    """Return whether a dataset already exists, and check that it can be written otherwise.

    Args:
        path: The folder.
        made_by: Parameters of the dataset: version, seed, counts.
        replace: Delete the folder of another demo dataset, or of this one if it was modified.

    Returns:
        Whether exactly this dataset exists, complete and unmodified.

    Raises:
        InputError: If the folder has other content; nothing is written.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file.", next_step="Choose a folder.")
    if not path.is_dir() or all(child.name.startswith(".") for child in path.iterdir()):
        return False
    whole, part = _marker(path / DEMO_MARKER), _marker(path / DEMO_UNFINISHED)
    if (there := part or whole) is None:
        message = f"{path} is not empty and is not a demo dataset; nothing was written."
        raise InputError(message, next_step="Choose a new folder.")
    same = all(there.get(name) == value for name, value in made_by.items())
    if same and (part is not None or not any((path / name).is_file() for name in _TABLES)):
        return False  # incomplete; will be completed
    if same and there.get("digest") == _digest(path):
        return True
    if not replace:
        known = ", ".join(f"{name} {there.get(name)}" for name in ("pairs", "groups", "seed"))
        what = "this demo dataset, but it was modified" if same else f"a different demo dataset ({known})"
        message = f"{path} contains {what}; nothing was written."
        raise InputError(message, next_step="Choose a new folder, or delete this one.")
    shutil.rmtree(path)
    return False


def begin(path: Path, made_by: Mapping[str, Any]) -> None:
    """Mark a folder as incomplete."""
    files.write_json(path / DEMO_UNFINISHED, made_by)
    (path / DEMO_MARKER).unlink(missing_ok=True)


def finish(path: Path, made_by: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    """Write the tables, and mark the dataset as complete."""
    for name, text in tables.items():
        files.write_text(path / name, text)
    files.write_json(path / DEMO_UNFINISHED, {**made_by, "digest": _digest(path)})
    (path / DEMO_UNFINISHED).replace(path / DEMO_MARKER)


def _marker(path: Path) -> dict[str, Any] | None:
    """Return the content of a marker file; None if it is missing or not ours."""
    try:
        marker = files.read_json(path) if path.is_file() else None
    except DataError:
        return None
    return marker if isinstance(marker, dict) and marker.get("made_by") == MAKER else None


def _tables(path: Path) -> dict[str, str]:
    return {name: (path / name).read_text(encoding="utf-8") for name in _TABLES if (path / name).is_file()}


def _digest(path: Path) -> str:
    """Return the SHA-256 of the tables of a dataset and their images; empty if one is missing."""
    try:
        tables = _tables(path)
        paths = [*tables, *sorted(f"images/{name}" for name in set(_IMAGE.findall("".join(tables.values()))))]
        return files.content_id([[name, files.sha256_file(path / name)] for name in paths])
    except (OSError, ValueError):
        return ""


T = TypeVar("T")
R = TypeVar("R")

_CHUNK = 4
_SHARE = 16
"""Minimum number of items per process."""


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Apply a function to items in parallel and yield the results in order.

    If processes cannot be started or one is killed, this process does the remaining work. OpenCV works with one thread
    meanwhile, as its rounding depends on the number of threads.

    Args:
        function: A picklable function. It may be called twice for an item.
        items: Its picklable arguments.
        workers: Number of processes; 1 uses the current process.
    """
    rest, work = list(items), partial(_in_one_thread, function)
    workers = min(workers, len(rest) // _SHARE)
    done = 0
    if workers > 1:
        # Forking would not preserve the threads of this process.
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare)
        try:
            for result in pool.map(work, rest, chunksize=_CHUNK):
                yield result
                done += 1
        except BrokenProcessPool:
            pass
        finally:
            pool.shutdown(cancel_futures=True)
    yield from map(work, rest[done:])


def _in_one_thread(function: Callable[[T], R], item: T) -> R:
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        return function(item)
    finally:
        cv2.setNumThreads(threads)


def _prepare() -> None:
    """Ignore interrupts, which the parent process handles, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


VERSION = "1"
"""Version of the generator; the same version and count give the same texts."""

_WORDS = json.loads((resources.files(__package__) / "texts.json").read_text("utf-8"))
_THINGS, _FACTS, _CLAUSES = (_WORDS[name] for name in ("things", "facts", "clauses"))
_GIVEN = 6
"""Facts that a prompt states."""
CATEGORIES = tuple(_CLAUSES)
"""Kinds of flaws, by the requirement that is broken."""


def make_texts(path: Path, prompts: int) -> None:
    """Write a file of prompts with two responses each, for `read_prompts`."""
    rows = [_prompt(number, CATEGORIES[number % len(CATEGORIES)]) for number in range(prompts)]
    files.write_json(path, {"prompts": rows, "made_by": {"made_by": "rewardharness demo texts", "version": VERSION}})


def _prompt(number: int, category: str) -> dict[str, Any]:
    rng = np.random.default_rng([number, 7])
    things, facts = list(_THINGS), [list(_FACTS)[place] for place in rng.permutation(len(_FACTS))]
    thing, clauses = things[int(rng.integers(len(things)))], _CLAUSES[category]
    word = facts[2].split()[-1]
    clause = clauses[int(rng.integers(len(clauses)))].format(word)
    prompt = f"Describe {thing} {clause}. It {', it '.join(facts[: _GIVEN - 1])}, and it {facts[_GIVEN - 1]}."
    right, wrong = _responses(category, thing, facts, word)
    candidates = [
        {"candidate_id": name, "text": text, "metadata": {"rank": rank}}
        for name, text, rank in (("kept", right, 1), ("broken", wrong, 2))
    ]
    name = f"{category}-{number:03d}"
    return {"prompt_id": name, "prompt": prompt, "metadata": {"category": category}, "candidates": candidates}


def _responses(category: str, thing: str, facts: list[str], word: str) -> tuple[str, str]:
    """Return the response as asked, and the one with a flaw."""
    said = [f"{thing.capitalize()} {facts[0]}.", *(f"It {fact}." for fact in facts[1:])]
    prose, items = " ".join(said[:3]), "\n".join(f"- {sentence}" for sentence in said[:3])
    value = json.dumps({"name": thing, "facts": facts[:3]})
    german = f"{_THINGS[thing]} {'. Es '.join(_FACTS[fact] for fact in facts[:3])}."
    others = [sentence for sentence in said if word not in sentence]
    pairs = {
        "sentences": (" ".join(said[:2]), " ".join(said[:5])),
        "words": (prose, " ".join(said[:_GIVEN])),
        "list": (items, prose),
        "json": (value, value[:-1] if len(thing) % 2 else value.replace('"facts"', '"details"')),
        "required": (prose, " ".join(others[:3])),
        "forbidden": (" ".join(others[:3]), prose),
        "language": (german, prose),
        "repetition": (prose, " ".join([*said[:2], *said[:2]])),
        "ending": (prose, prose[: -len(facts[2]) // 2]),
        "truth": (" ".join(said[:2]), " ".join([said[0], said[_GIVEN]])),
    }
    return pairs[category]

"""Making the edits of many tasks: at the same time, kept by content, resumed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewardharness.codec import from_json, to_json
from rewardharness.editors.editor import EditorProtocol, EditTask
from rewardharness.errors import HarnessError
from rewardharness.files import append_jsonl, content_id, read_jsonl, sha256, write_bytes
from rewardharness.judging.evaluate import run_to_end
from rewardharness.measure.images import load_picture, read_bytes
from rewardharness.runs.stop import Stopped, StopRequest
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

EDITS = "edits.jsonl"
"""File of a run folder with one line per edit."""
FOLDER = "edits"
CONCURRENCY = 4
"""Edits that one editor makes at the same time."""
OUTAGE = 8
"""Edits in succession that an editor did not make, after which it is not asked again in this session."""


@dataclass(frozen=True)
class MadeEdit:
    """One edit, or why there is none."""

    editor: str
    id: str
    """Id of the task."""
    file: str = ""
    """Name in the folder `edits`; empty without an edit."""
    seconds: float = 0.0
    """Duration; 0 if it was made by an earlier run."""
    failure: str = ""

    def image(self, run: Path) -> ImageInput:
        """Return the edited image, which names its editor."""
        return ImageInput(f"{self.id} by {self.editor}", run / FOLDER / self.file, editor=self.editor)


Edits = Mapping[tuple[str, str], MadeEdit]
"""Edits by editor and task."""


def cached_edits(settings: Settings) -> Path:
    """Return the folder in which edits are kept for other runs; `rh cache` shows and empties it."""
    return settings.home / "cache" / FOLDER


def read_edits(run: Path) -> dict[tuple[str, str], MadeEdit]:
    """Return the edits of a run folder; of several lines about one, the last counts."""
    found = (from_json(MadeEdit, line) for _, line in read_jsonl(run / EDITS)) if (run / EDITS).is_file() else ()
    return {(each.editor, each.id): each for each in found}


def make_edits(
    editors: Sequence[EditorProtocol],
    tasks: Sequence[EditTask],
    run: Path,
    cache: Path,
    *,
    progress: Callable[[int, int], None],
    stop: StopRequest,
    concurrency: int = 0,
) -> Edits:
    """Make what a run folder does not hold yet. Failures of earlier sessions are tried again.

    Args:
        editors: The editors.
        tasks: The tasks.
        run: The run folder.
        cache: Folder in which edits are kept for other runs, by editor, image, instruction and seed.
        progress: Called with the number of edits that are there, and of all.
        stop: Ends the session when asked.
        concurrency: Edits that one editor makes at the same time; 0 for the usual number.

    Raises:
        Stopped: If a stop was requested.
    """
    known = {key: each for key, each in read_edits(run).items() if each.file}
    work = _Work(run, cache, known, len(editors) * len(tasks), progress, stop)
    progress(len(known), work.total)
    run_to_end(work.all(editors, tasks, concurrency or CONCURRENCY))
    if stop():
        raise Stopped("")
    return work.known


@dataclass(frozen=True)
class _Work:
    run: Path
    cache: Path
    known: dict[tuple[str, str], MadeEdit]
    total: int
    progress: Callable[[int, int], None]
    stop: StopRequest

    async def all(self, editors: Iterable[EditorProtocol], tasks: Sequence[EditTask], at_once: int) -> None:
        await asyncio.gather(*(self._by(editor, tasks, at_once) for editor in editors))

    async def _by(self, editor: EditorProtocol, tasks: Sequence[EditTask], at_once: int) -> None:
        left = iter([task for task in tasks if (editor.name, task.id) not in self.known])
        failed = 0

        async def worker() -> None:
            nonlocal failed
            for task in left:
                if self.stop() or failed >= OUTAGE:
                    return
                made = await self._made(editor, task)
                failed = failed + 1 if made.failure else 0
                append_jsonl(self.run / EDITS, to_json(made))
                self.known[editor.name, task.id] = made
                self.progress(len(self.known), self.total)

        try:
            await asyncio.gather(*(worker() for _ in range(at_once)))
        finally:
            await editor.close()

    async def _made(self, editor: EditorProtocol, task: EditTask) -> MadeEdit:
        started, found = time.perf_counter(), MadeEdit(editor.name, task.id)
        try:
            data, new = await kept_edit(editor, task, self.cache)
        except HarnessError as error:
            return replace(found, failure=error.message)
        name = f"{content_id([editor.name, task.id])[:24]}.png"
        await asyncio.to_thread(write_bytes, self.run / FOLDER / name, data)
        return replace(found, file=name, seconds=time.perf_counter() - started if new else 0.0)


async def kept_edit(editor: EditorProtocol, task: EditTask, cache: Path) -> tuple[bytes, bool]:
    """Return the edit of a task, from a folder of earlier ones or by the editor, and whether it is new.

    Raises:
        HarnessError: If there is none, or it is no image.
    """
    image = await asyncio.to_thread(read_bytes, task.image)
    file = cache / content_id([editor.identity, sha256(image), task.instruction, task.seed])
    if file.is_file():
        return await asyncio.to_thread(file.read_bytes), False
    data = await editor.edit(task)
    await asyncio.to_thread(load_picture, ImageInput(f"the edit of {editor.name}", data=data))
    await asyncio.to_thread(write_bytes, file, data)
    return data, True

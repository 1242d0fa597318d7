"""The edits of an arena: made at the same time, kept by content and resumed; and which are compared next.

`active` compares editors whose order is least certain: a pair gets comparisons in proportion to the probability that
the better one of the two ratings belongs to the worse editor, under the normal approximation of the ratings. Intervals
of actively chosen comparisons are those of `judging.ranking`, which assume that the choice does not depend on results;
they are therefore approximate.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from rewardharness.codec import from_json, to_json
from rewardharness.data.source import Dataset
from rewardharness.editors.config import Choice
from rewardharness.editors.editor import EditorProtocol, EditTask
from rewardharness.editors.report import ArenaAgreement
from rewardharness.errors import HarnessError, ImageError
from rewardharness.files import append_jsonl, content_id, read_jsonl, sha256, write_bytes
from rewardharness.judging.evaluate import run_to_end
from rewardharness.judging.ranking import RatedEditor, comparisons_of, rate_editors
from rewardharness.judging.report import Z95
from rewardharness.measure.images import load_picture, read_bytes
from rewardharness.runs.job import Stopped, StopRequest
from rewardharness.schema import LABELS, TIE, Candidate, ImageInput, Usage
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
    edits = (from_json(MadeEdit, line) for _, line in read_jsonl(run / EDITS)) if (run / EDITS).is_file() else ()
    return {(edit.editor, edit.id): edit for edit in edits}


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
    known = {key: edit for key, edit in read_edits(run).items() if edit.file}
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
        started, edit = time.perf_counter(), MadeEdit(editor.name, task.id)
        try:
            data, new = await kept_edit(editor, task, self.cache)
        except HarnessError as error:
            return replace(edit, failure=error.message)
        name = f"{content_id([editor.name, task.id])[:24]}.png"
        await asyncio.to_thread(write_bytes, self.run / FOLDER / name, data)
        return replace(edit, file=name, seconds=time.perf_counter() - started if new else 0.0)


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


ROUND = 20
"""Comparisons after which an active choice looks at the ratings again."""


class Duel(NamedTuple):
    """A comparison of two edits of one task; the first one is candidate A. Without a second, one edit alone."""

    task: str
    first: str
    second: str

    @property
    def editors(self) -> tuple[str, ...]:
        """Its editors, in the order of the candidates."""
        return tuple(filter(None, (self.first, self.second)))

    @property
    def id(self) -> str:
        """Id of its result."""
        return content_id([self.task, *sorted((self.first, self.second))])[:24]


def possible_duels(made: Mapping[str, Sequence[str]], seed: int) -> list[Duel]:
    """Return all comparisons in a random order, each with its presentation order at random.

    Args:
        made: Editors that made an edit, by task.
        seed: Seed of the order.
    """
    pairs = [(task, *pair) for task, editors in made.items() for pair in combinations(sorted(editors), 2)]
    keyed = sorted((content_id([seed, *pair]), pair) for pair in pairs)
    return [Duel(task, *((one, other) if int(key[0], 16) % 2 else (other, one))) for key, (task, one, other) in keyed]


def next_duels(left: Sequence[Duel], ratings: Sequence[RatedEditor], count: int, choice: Choice) -> list[Duel]:
    """Return the comparisons of the next round.

    Args:
        left: Those that are not chosen yet, in random order.
        ratings: The ratings so far.
        count: Maximum number.
        choice: How they are chosen.
    """
    if choice == "random" or not ratings:
        return list(left[:count])
    known = {editor.name: editor for editor in ratings}
    doubts = {pair: _doubt(known, *pair) for pair in {_editors(duel) for duel in left}}
    shares = Counter[tuple[str, str]]()
    chosen: list[Duel] = []
    waiting = {pair: [duel for duel in left if _editors(duel) == pair] for pair in sorted(doubts)}
    while len(chosen) < count and any(waiting.values()):
        open_pairs = [pair for pair, duels in waiting.items() if duels]
        pair = max(open_pairs, key=lambda names: doubts[names] / (1 + shares[names]))  # largest quotients
        shares[pair] += 1
        chosen.append(waiting[pair].pop(0))
    return chosen


def _editors(duel: Duel) -> tuple[str, str]:
    first, second = sorted((duel.first, duel.second))
    return first, second


def _doubt(known: Mapping[str, RatedEditor], one: str, other: str) -> float:
    """Return the probability that the order of two ratings is wrong; 1/2 for an editor without one."""
    if one not in known or other not in known:
        return 0.5
    errors = [(editor.interval.high - editor.interval.low) / 2 / Z95 for editor in (known[one], known[other])]
    distance = abs(known[one].rating - known[other].rating)
    return 0.5 * math.erfc(distance / (math.hypot(*errors) or 1.0) / math.sqrt(2))


SWAPPED: Mapping[str, str] = {LABELS[0]: LABELS[1], LABELS[1]: LABELS[0], TIE: TIE}
"""Answer about a comparison with its edits in the other order."""


def agreement_with(
    who: str, answers: Sequence[tuple[str, str]], editors: Sequence[RatedEditor], usage: Usage = Usage()
) -> ArenaAgreement:
    """Count agreement.

    Args:
        who: Who gave the second answers.
        answers: Two answers for each comparison that both have answered.
        editors: Ratings by the second answers.
        usage: What these cost.
    """
    decided = [pair for pair in answers if TIE not in pair]
    same, alike = (sum(one == other for one, other in pairs) for pairs in (answers, decided))
    return ArenaAgreement(who, len(answers), same, len(decided), alike, tuple(editors), usage)


def read_votes(
    votes: Dataset,
    tasks: Mapping[str, str],
    duels: Iterable[Duel],
    edits: Edits,
    run: Path,
) -> tuple[dict[str, str], tuple[RatedEditor, ...]]:
    """Find votes on comparisons of an arena: of pairs with its instruction, editors and pixels.

    Args:
        votes: Labeled examples.
        tasks: The instructions of the arena by task.
        duels: Its comparisons.
        edits: Its edits.
        run: Its run folder.

    Returns:
        The answers of people by id of the comparison, and ratings by all votes on these editors.
    """
    names, asked, hashes = {name for name, _ in edits}, set(tasks.values()), dict[tuple[str, str], str]()
    voted: dict[tuple[str, ...], str] = {}
    for example in votes.examples:
        if len(example.candidates) == 2 and example.instruction in asked:
            one, other = map(_pixels, example.candidates)
            for first, second, answer in comparisons_of([example]) if one and other else ():
                voted[example.instruction, first, one, second, other] = answer
                voted[example.instruction, second, other, first, one] = SWAPPED[answer]
    answers, known = {}, {key[0] for key in voted}
    for duel in duels:
        if tasks[duel.task] in known:
            for key in ((duel.first, duel.task), (duel.second, duel.task)):
                hashes[key] = hashes.get(key) or _pixels(edits[key].image(run))
            sides = [(name, hashes[name, duel.task]) for name in duel.editors]
            if answer := voted.get((tasks[duel.task], *sides[0], *sides[1]), ""):
                answers[duel.id] = answer
    return answers, rate_editors(vote for vote in comparisons_of(votes.examples) if {*vote[:2]} <= names)


def _pixels(image: Candidate) -> str:
    """Return a hash of the pixels of an image; empty for what is none or cannot be read."""
    try:
        pixels = load_picture(image).pixels if isinstance(image, ImageInput) else None
    except ImageError:
        return ""
    return "" if pixels is None else f"{pixels.shape} {sha256(pixels.tobytes())}"

"""The tasks: what is judged, by the media of its source and of its candidates.

The task follows from the data. It names the wording of the prompts, a section per phrase in `prompts/task_*.md`, and
the entries of a Library that apply.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rewardharness.errors import InputError
from rewardharness.prompts import sections
from rewardharness.schema import LABELS, TIE, Example, FramesInput, ImageInput, TextInput

Medium = Literal["image", "frames", "text"]
TaskName = Literal["image-edit", "text", "video-edit"]


@dataclass(frozen=True)
class Task:
    """What is judged."""

    name: TaskName
    words: str
    """What the candidates are, in messages: `image edits`."""
    source: frozenset[Medium]
    """Possible media of the source; empty if there is none."""
    candidate: Medium
    """Medium of the candidates."""
    labels: tuple[str, ...] = (*LABELS, TIE)
    """Possible labels."""
    dimensions: tuple[str, ...] = ("instruction", "quality")
    """What the two scores are about; the prompts say what they mean for the task."""

    @property
    def prompt(self) -> str:
        """Name of the prompt file with the wording of the task."""
        return f"task_{self.name.replace('-', '_')}"

    @property
    def wording(self) -> Mapping[str, str]:
        """Phrases of the prompts, by placeholder."""
        return sections(self.prompt)


IMAGE_EDIT = Task("image-edit", "image edits", frozenset({"image"}), "image")
VIDEO_EDIT = Task("video-edit", "video edits", frozenset({"image", "frames"}), "frames")
TEXT = Task("text", "text responses", frozenset(), "text")

ANY = "any"
"""Value of `metadata.task` of an entry of a Library for all tasks."""

TASKS: Mapping[str, Task] = {task.name: task for task in (IMAGE_EDIT, VIDEO_EDIT, TEXT)}
"""All tasks by name."""

_MEDIA: Mapping[type, Medium] = {ImageInput: "image", FramesInput: "frames", TextInput: "text"}


def task_of(example: Example) -> Task:
    """Return the task of an example.

    Raises:
        InputError: If its source and candidates belong to no task.
    """
    source = () if example.source is None else (_MEDIA[type(example.source)],)
    media = {_MEDIA[type(candidate)] for candidate in example.candidates} or {
        "text" if example.source is None else "image"
    }
    for task in TASKS.values():
        if media == {task.candidate} and (set(source) <= task.source) and bool(source) == bool(task.source):
            return task
    named = " and ".join(sorted(media))
    raise InputError(
        f"{example.id}: {named} candidates with {source[0] if source else 'no'} source cannot be judged.",
        next_step="Give images or videos with their source, or texts without a source.",
    )


def entry_metadata(task: Task) -> dict[str, str]:
    """Return the metadata of new entries for a task: they are for images and videos unless they say otherwise."""
    return {"task": task.name} if task is TEXT else {}


def common_task(examples: Iterable[Example]) -> Task:
    """Return the one task of a dataset; image edits for an empty one.

    Raises:
        InputError: If the examples have several tasks.
    """
    tasks = list(dict.fromkeys(map(task_of, examples)))
    if len(tasks) > 1:
        names = " and ".join(task.words for task in tasks)
        raise InputError(f"The data contain {names}.", next_step="Use one dataset per task.")
    return tasks[0] if tasks else IMAGE_EDIT

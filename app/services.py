"""The tabs' only door to rewardharness: plain functions from what stands on the screen to records."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path

import numpy as np
from PIL import Image

from app.samples import Sample, make_samples
from app.views import change_picture
from rewardharness import files
from rewardharness.data.feedback import append_feedback
from rewardharness.data.folder import read_folder
from rewardharness.errors import DataError, InputError, MissingPackageError
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.measured import NAME, MeasuredJudge
from rewardharness.judging.record import judgment_json
from rewardharness.judging.router import Route, route
from rewardharness.library.check import check_folder
from rewardharness.library.diff import LibraryDiff, diff_libraries
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library, open_library
from rewardharness.measure.images import load_picture
from rewardharness.measure.reading import Pixels
from rewardharness.measure.table import MEASURES
from rewardharness.measure.text import ocr_available
from rewardharness.measure.view import EditView
from rewardharness.schema import LABELS, Example, ImageInput, Json, Judgment
from rewardharness.settings import Settings

BUILTIN = "builtin"
"""Choice of the Library that comes with this project."""

DEFAULT = "default"
"""Choice of the Library that the settings name."""

FOLDER = "folder"
"""Choice of a folder on this computer."""

CHANGE_MAP = "change_map"
"""The measure whose picture shows where a candidate was changed."""

SHOWN_SIDE = 1280
"""Long side of the pictures that are shown next to each other, in pixels; judging sees the full size."""


HERE = frozenset({"127.0.0.1", "localhost", "::1"})
"""Addresses that only this computer can reach."""


class MissingInputError(InputError):
    """Something that a comparison needs was not given."""

    title = "Something is missing"


@dataclass(frozen=True)
class Choice:
    """A Library as it is chosen on the screen."""

    kind: str = BUILTIN
    """`BUILTIN`, `DEFAULT` or `FOLDER`."""
    folder: str = ""
    """The path, as typed; of use for `FOLDER` alone."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: what was asked, and what the judge said."""

    example: Example
    judgment: Judgment
    library: str
    """Name of the Library."""
    change_tools: frozenset[str]
    """Names, in the chain, of the Tools whose picture shows where a candidate was changed."""

    @property
    def shows_change(self) -> bool:
        """Whether there are pictures of where the candidates were changed."""
        return change_picture(self.judgment, "A", self.change_tools) is not None


class AppServices:
    """What the tabs can do. Holds nothing of any visitor.

    Args:
        settings: The settings.
        scratch: A private folder for files that are handed to the browser.
        local: Whether visitors sit at this computer. Only then may they name folders on it.
    """

    def __init__(self, settings: Settings, scratch: Path, *, local: bool) -> None:
        self.settings = settings
        self.local = local
        self._scratch = scratch
        self._judge = MeasuredJudge(ties=True, pictures=True, workers=settings.workers)

    @property
    def judge_name(self) -> str:
        """Who judges."""
        return NAME

    @property
    def reads_text(self) -> bool:
        """Whether text in pictures can be read here."""
        return ocr_available()

    def choices(self) -> list[tuple[str, str]]:
        """The Libraries that a visitor can choose from: words and kind of `Choice`. The first is the default."""
        found = [("Built-in", BUILTIN)]
        if self.settings.library != BUILTIN:
            found.insert(0, (f"From RH_LIBRARY: {Path(self.settings.library).name}", DEFAULT))
        if self.local:
            found.append(("A folder on this computer", FOLDER))
        return found

    def library_name(self, choice: Choice) -> str:
        """What to call a Library on the screen."""
        if choice.kind == BUILTIN:
            return "the built-in Library"
        return f"the Library {Path(self._spec(choice)).name!r}"

    def _spec(self, choice: Choice) -> str:
        if choice.kind == BUILTIN:
            return BUILTIN
        if choice.kind == DEFAULT:
            return self.settings.library
        if not self.local:
            raise InputError("Folders can be named only on the computer that the app runs on.")
        if not choice.folder.strip():
            raise InputError("No folder is named.", next_step="Type the path of a Library's folder.")
        return str(Path(choice.folder.strip()).expanduser().absolute())

    def library(self, choice: Choice) -> Library:
        """Open a Library.

        Raises:
            HarnessError: If there is none, or it breaks the format.
        """
        spec = self._spec(choice)
        # What a visitor types is a folder and nothing else, whatever else a name may mean elsewhere.
        return Library.load(spec) if choice.kind == FOLDER else open_library(spec)

    def compare(
        self, source: str | None, candidates: Sequence[str | None], instruction: str, choice: Choice
    ) -> Comparison:
        """Judge candidates.

        Args:
            source: Path of the picture before the edit.
            candidates: Paths of A, B, C and D; None for those that are not given.
            instruction: The edit asked for.
            choice: The Library to judge with.

        Raises:
            HarnessError: If something is missing or the Library cannot be used. Trouble with a picture gives a
                Judgment with a failure.
        """
        example = _example(source, candidates, instruction)
        library = self.library(choice)
        [(_, judgment)] = evaluate(self._judge, library, [example], concurrency=1)
        tools = {each.name for each in library.tools if each.measure == CHANGE_MAP}
        return Comparison(example, judgment, self.library_name(choice), frozenset({CHANGE_MAP, *tools}))

    def frames(self, comparison: Comparison, label: str, *, change: bool) -> tuple[Pixels, Pixels]:
        """Two pictures of one size to lay over each other.

        Args:
            comparison: The comparison.
            label: The candidate.
            change: Candidate and where it was changed, instead of source and candidate.

        Raises:
            HarnessError: If a picture is gone by now.
        """
        example = comparison.example
        source = load_picture(example.source)
        view = EditView(source, load_picture(example.candidates[example.labels.index(label)]))
        candidate = _shrink(Image.fromarray(view.candidate))
        if not change:
            return np.asarray(_shrink(Image.fromarray(view.source))), np.asarray(candidate)
        overlay = change_picture(comparison.judgment, label, comparison.change_tools)
        if overlay is None:
            raise InputError("This Library has no Tool that shows where a candidate was changed.")
        return np.asarray(candidate), np.asarray(overlay.resize(candidate.size))

    def record(self, comparison: Comparison) -> Json:
        """A judgment as JSON."""
        return judgment_json(comparison.judgment)

    def record_file(self, comparison: Comparison) -> Path:
        """Write a judgment as JSON into a file for download, named by its content. Older ones are removed."""
        record = self.record(comparison)
        path = self._scratch / f"judgment-{files.content_id(record)[:12]}.json"
        for old in sorted(self._scratch.glob("judgment-*.json"), key=lambda each: each.stat().st_mtime)[:-20]:
            old.unlink(missing_ok=True)
        files.write_json(path, record)
        return path

    def give_feedback(self, comparison: Comparison, preference: str) -> int:
        """Keep what a person prefers as a labelled example.

        Args:
            comparison: What was compared.
            preference: A letter, or `tie` on a pair.

        Returns:
            How many examples the dataset holds now.

        Raises:
            HarnessError: If it cannot be kept.
        """
        judgment = comparison.judgment
        context = {
            "judge": judgment.judge,
            "protocol": judgment.protocol,
            "library_id": judgment.library_id,
            "preference": judgment.preference,
        }
        append_feedback(self.settings.feedback, comparison.example, preference, context=context)
        return len(read_folder(self.settings.feedback).examples)

    def route(self, library: Library, instruction: str) -> Route:
        """Choose the entries that would be consulted for an instruction."""
        return route(library, instruction)

    def check(self, choice: Choice) -> tuple[Problem, ...]:
        """Check a Library's folder."""
        spec = self._spec(choice)
        if spec != BUILTIN:
            return check_folder(Path(spec), MEASURES)
        with as_file(resources("rewardharness.library").joinpath(BUILTIN)) as folder:
            return check_folder(folder, MEASURES)

    def diff(self, before: Choice, after: Choice) -> LibraryDiff:
        """Tell what differs between two Libraries."""
        return diff_libraries(self.library(before), self.library(after))

    def samples(self) -> list[Sample]:
        """Make the examples that newcomers can try; none where their photographs are not installed."""
        try:
            return make_samples(self._scratch / "samples")
        except (MissingPackageError, DataError):
            return []


def is_local(settings: Settings, host: str) -> bool:
    """Whether whoever can reach the app at an address sits at this computer."""
    return not settings.space and host in HERE


def _example(source: str | None, candidates: Sequence[str | None], instruction: str) -> Example:
    """Put what was given together; says what is missing in the order in which it stands on the screen."""
    if source is None:
        raise MissingInputError("The source picture is missing.", next_step="Add the picture before the edit.")
    given = [path for path in candidates if path is not None]
    for label, path in zip(LABELS, candidates, strict=False):
        if path is None and (label in LABELS[:2] or given[LABELS.index(label) :]):
            remedy = f"Add an edited picture as candidate {label}."
            raise MissingInputError(f"Candidate {label} is missing.", next_step=remedy)
    if not instruction.strip():
        raise MissingInputError("The instruction is missing.", next_step="Say in words what the edit should do.")
    return Example(
        id="app",
        instruction=instruction.strip(),
        source=ImageInput("The source", Path(source)),
        candidates=tuple(
            ImageInput(f"Candidate {label}", Path(path)) for label, path in zip(LABELS, given, strict=False)
        ),
    )


def _shrink(image: Image.Image) -> Image.Image:
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return image

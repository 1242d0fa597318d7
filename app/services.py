"""The tabs' only door to rewardharness: plain functions from what stands on the screen to records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from app.benchmark_runs import called
from app.benchmark_services import BenchmarkServices
from app.evolve_services import EvolveServices
from app.hub_services import HubServices, Loaded
from app.judges import BY_MEASURING, JudgeChoice, Judges, Used
from app.lineage_services import LineageServices
from app.releases import RELEASE, UNSAID, Fixed, Places
from app.running import ModelRun, Running
from app.samples import Sample, make_samples
from rewardharness import files
from rewardharness.data.feedback import append_feedback
from rewardharness.data.folder import read_folder
from rewardharness.errors import DataError, InputError, MissingPackageError
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import NAME
from rewardharness.judging.record import judgment_json
from rewardharness.judging.router import Route, route
from rewardharness.library.card import Subject, make_card
from rewardharness.library.check import check_folder
from rewardharness.library.diff import LibraryDiff, diff_libraries
from rewardharness.library.opening import open_library
from rewardharness.library.outgoing import read_draft
from rewardharness.library.problems import Problem, shown
from rewardharness.library.store import Library
from rewardharness.measure.images import load_picture
from rewardharness.measure.reading import Pixels
from rewardharness.measure.regions import change_map
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

HUB = "hub"
"""Choice of a Library that was loaded from the Hugging Face Hub."""

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
    """`BUILTIN`, `DEFAULT`, `FOLDER`, `HUB` or `RELEASE`."""
    folder: str = ""
    """The path, as typed; of use for `FOLDER` alone."""
    spec: str = ""
    """`org/name` or `org/name@revision`, as typed; of use for `HUB` alone."""
    loaded: Loaded | None = None
    """What was loaded from the Hub."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: what was asked, and what the judge said."""

    example: Example
    judgment: Judgment
    library: str
    """Name of the Library."""
    model: ModelRun | None = None
    """How a model judged; None for the measured judge."""
    mendable: bool = True
    """Whether the visitor chose the judge, and so can mend what is wrong with it."""
    release: str | None = None
    """Id of the release that fixes Library and judge; None where they were chosen."""


class AppServices:
    """What the tabs can do. Holds nothing of any visitor.

    Args:
        settings: The settings.
        scratch: A private folder for files that are handed to the browser.
        local: Whether visitors sit at this computer. Only then may they name folders on it.
        places: Where the models of the release are served that the settings name, if they name one.

    Raises:
        HarnessError: If that release cannot be kept to.
    """

    def __init__(self, settings: Settings, scratch: Path, *, local: bool, places: Places = UNSAID) -> None:
        self.settings = settings
        self.local = local
        self._scratch = scratch
        self.fixed = Fixed(settings, places, local=local) if settings.release is not None else None
        self.judges = Judges(settings, local=local)
        self.hub = HubServices(settings, scratch, local=local)
        self.lineage = LineageServices(settings, local=local)
        self.evolve = EvolveServices(settings, scratch, self.judges, self.hub, local=local)
        self.benchmarks = BenchmarkServices(settings, scratch, self.judges, local=local)
        self._default: Library | None = None

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
            found.insert(0, (f"From RH_LIBRARY: {called(self.settings.library)}", DEFAULT))
        found.append(("From the Hugging Face Hub", HUB))
        if self.local:
            found.append(("A folder on this computer", FOLDER))
        return found

    def library_name(self, choice: Choice) -> str:
        """What to call a Library on the screen."""
        if choice.kind == BUILTIN:
            return "the built-in Library"
        if choice.kind == HUB:
            return f"the Library {self._loaded(choice).name!r}"
        if choice.kind == RELEASE:
            return f"the Library of {self._pinned().name}"
        return f"the Library {called(self._spec(choice))!r}"

    def _loaded(self, choice: Choice) -> Loaded:
        wanted, loaded = choice.spec.strip(), choice.loaded
        if loaded is None or loaded.spec != wanted:
            message = f"{shown(wanted)} is not loaded yet." if wanted else "No Library of the Hub is named."
            raise InputError(message, next_step="Type its name, as in org/name@v1.0.0, and press Load.")
        return loaded

    def _pinned(self) -> Fixed:
        if self.fixed is None:
            raise InputError("This app is fixed to no release.", next_step="Choose another Library.")
        return self.fixed

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

    def spelled(self, choice: Choice) -> str:
        """What to call a Library on the command line. One of the Hub is named by its commit, and so stays what it is.

        Raises:
            InputError: If it is not chosen to the end.
        """
        if choice.kind == HUB:
            pulled = self._loaded(choice).pulled
            return f"{pulled.repo}@{pulled.commit}"
        return self._spec(choice)

    def library(self, choice: Choice) -> Library:
        """Open a Library.

        Raises:
            HarnessError: If there is none, or it breaks the format.
        """
        if choice.kind == HUB:
            return self._loaded(choice).library
        if choice.kind == RELEASE:
            return self._pinned().library
        spec = self._spec(choice)
        if (
            choice.kind == FOLDER
        ):  # what a visitor types is a folder and nothing else, whatever a name may mean elsewhere
            return Library.load(spec)
        if choice.kind == BUILTIN or Path(spec).expanduser().exists():
            return open_library(spec)
        # On the Hub: fetched once, so that all who use this app judge with the same Library until it starts again.
        if self._default is None:
            self._default = open_library(spec)
        return self._default

    def card(self, choice: Choice) -> str:
        """The card of a Library: as it is published, as it lies in the folder, or as a push would write it."""
        if choice.kind == HUB:
            return self._loaded(choice).pulled.card
        library = self.library(choice)
        folder = Path(self._spec(choice)).expanduser() if choice.kind not in {BUILTIN, RELEASE} else None
        draft = read_draft(folder) if folder is not None and folder.exists() else None
        if draft is not None and draft.card is not None:
            return draft.card
        return make_card(Subject(library, "your-name/your-library"))

    def publishable(self, choice: Choice) -> Library | Path:
        """What a push of a Library takes: its folder, which remembers what was published, or else the Library."""
        library = self.library(choice)
        return Path(self._spec(choice)) if choice.kind == FOLDER else library

    def start(
        self,
        source: str | None,
        candidates: Sequence[str | None],
        instruction: str,
        choice: Choice,
        judge: JudgeChoice = BY_MEASURING,
        used: Used | None = None,
    ) -> Running:
        """Begin to judge candidates. Where a release fixes Library and judge, it alone decides on both.

        Args:
            source: Path of the picture before the edit.
            candidates: Paths of A, B, C and D; None for those that are not given.
            instruction: The edit asked for.
            choice: The Library to judge with.
            judge: Who judges, and how.
            used: A model that this visitor has used before, and that is not at work now.

        Raises:
            HarnessError: If something is missing, or Library or judge cannot be used. Trouble with a picture or a model
                gives a Judgment with a failure.
        """
        example = _example(source, candidates, instruction)
        if self.fixed is not None:
            return Running(self.fixed.open(used), self.fixed.library, example, self.fixed.price)
        library = self.library(choice)
        return Running(self.judges.open(judge, used), library, example, self.judges.price(judge.kind))

    def finish(self, running: Running, choice: Choice, judge: JudgeChoice = BY_MEASURING) -> Comparison | None:
        """Put together what came of a comparison that was followed to its end; None if it was stopped."""
        judgment = running.result()
        if judgment is None:
            return None
        if self.fixed is not None:
            if judgment.failure is not None:
                judgment = replace(judgment, failure=self.fixed.tell(judgment.failure))
            name, release = f"the Library of {self.fixed.name}", self.fixed.release.id
            return Comparison(running.example, judgment, name, running.model, mendable=False, release=release)
        if judgment.failure is not None:
            judgment = replace(judgment, failure=self.judges.tell(judge, judgment.failure))
        mendable = not self.judges.hides(judge.kind)
        return Comparison(running.example, judgment, self.library_name(choice), running.model, mendable)

    def compare(
        self,
        source: str | None,
        candidates: Sequence[str | None],
        instruction: str,
        choice: Choice,
        judge: JudgeChoice = BY_MEASURING,
    ) -> Comparison:
        """Judge candidates and wait for the result; see `start`."""
        running = self.start(source, candidates, instruction, choice, judge)
        for _ in running.follow():
            pass
        comparison = self.finish(running, choice, judge)
        assert comparison is not None  # nobody else can stop it
        return comparison

    def judge_of_programs(self) -> JudgeChoice:
        """Who judges for programs: the release that this app is fixed to; or else the default at this computer.

        For strangers it is the measured judge: they could else have a model judge, as often as they like, at the cost
        of whoever runs the app.

        Raises:
            InputError: If a release is fixed whose judge is a model, and programs are strangers'.
        """
        if self.fixed is not None:
            self.fixed.check_programs()
            return JudgeChoice(RELEASE)
        return JudgeChoice(self.judges.default) if self.local else BY_MEASURING

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
        overlay = change_map(view, read_instruction(example.instruction)).overlay
        assert overlay is not None
        return np.asarray(candidate), np.asarray(Image.fromarray(overlay).resize(candidate.size))

    def record(self, comparison: Comparison) -> Json:
        """A judgment as JSON, as `rh score --json` prints it."""
        release = {"release": comparison.release} if comparison.release is not None else {}
        return judgment_json(comparison.judgment) | release

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
            **({"release": comparison.release} if comparison.release is not None else {}),
        }
        append_feedback(self.settings.feedback, comparison.example, preference, context=context)
        return len(read_folder(self.settings.feedback).examples)

    def route(self, library: Library, instruction: str) -> Route:
        """Choose the entries that would be consulted for an instruction."""
        return route(library, instruction)

    def check(self, choice: Choice) -> tuple[Problem, ...]:
        """Check a Library's folder."""
        nowhere = choice.kind == DEFAULT and not Path(self._spec(choice)).expanduser().exists()
        if nowhere or choice.kind in {HUB, RELEASE}:
            with TemporaryDirectory(prefix="rh-check-") as scratch:
                self.library(choice).save(Path(scratch) / "library")
                return check_folder(Path(scratch) / "library", MEASURES)
        spec = self._spec(choice)
        if spec != BUILTIN:
            return check_folder(Path(spec).expanduser(), MEASURES)
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

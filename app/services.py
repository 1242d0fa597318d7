"""The tabs' only door to rewardharness: plain functions from what stands on the screen to records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from app.benchmark_services import BenchmarkServices
from app.evolve_services import EvolveServices
from app.hub_services import HubServices
from app.judges import BY_MEASURING, JudgeChoice, Judges, Used
from app.libraries import Choice, Libraries
from app.lineage.services import LineageServices
from app.releases import RELEASE, UNSAID, Fixed, Places
from app.running import ModelRun, Running
from app.samples import Sample, make_samples
from rewardharness import files
from rewardharness.data.feedback import append_feedback
from rewardharness.data.folder import read_folder
from rewardharness.errors import DataError, HarnessError, InputError, MissingPackageError
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import NAME
from rewardharness.judging.opening import MEASURED
from rewardharness.judgments import judgment_json
from rewardharness.measure.images import load_picture
from rewardharness.measure.reading import Pixels
from rewardharness.measure.regions import change_map
from rewardharness.measure.text import ocr_available
from rewardharness.measure.view import EditView
from rewardharness.schema import LABELS, Example, ImageInput, Json, Judgment
from rewardharness.serving.hosts import is_loopback
from rewardharness.settings import Settings

SHOWN_SIDE = 1280
"""Long side of the pictures that are shown next to each other, in pixels; judging sees the full size."""


class MissingInputError(InputError):
    """Something that a comparison needs was not given."""

    title = "Something is missing"


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
    asked: tuple[Choice, JudgeChoice] = (Choice(), BY_MEASURING)
    """The Library and the judge as they were chosen."""


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
        self.libraries = Libraries(settings, self.fixed, local=local)
        self.judges = Judges(settings, local=local)
        self.hub = HubServices(settings, scratch, local=local)
        self.lineage = LineageServices(settings, local=local)
        self.evolve = EvolveServices(settings, scratch, self.judges, local=local)
        self.benchmarks = BenchmarkServices(settings, scratch, self.judges, local=local)

    @property
    def judge_name(self) -> str:
        """Who judges."""
        return NAME

    @property
    def reads_text(self) -> bool:
        """Whether text in pictures can be read here."""
        return ocr_available()

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
        library = self.libraries.open(choice)
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
            return Comparison(
                running.example, judgment, name, running.model, mendable=False, release=release, asked=(choice, judge)
            )
        if judgment.failure is not None:
            judgment = replace(judgment, failure=self.judges.tell(judge, judgment.failure))
        mendable = not self.judges.hides(judge.kind)
        return Comparison(
            running.example, judgment, self.libraries.name(choice), running.model, mendable, asked=(choice, judge)
        )

    def is_current(
        self,
        comparison: Comparison,
        source: str | None,
        candidates: Sequence[str | None],
        instruction: str,
        choice: Choice,
        judge: JudgeChoice,
    ) -> bool:
        """Whether a comparison is about what stands on the screen; see `start` for the arguments."""
        then, by = comparison.asked
        try:
            if _example(source, candidates, instruction) != comparison.example:
                return False
            same = choice == then or self.libraries.spelled(choice) == self.libraries.spelled(then)
        except HarnessError:
            return False
        return same and (judge == by or judge.kind == by.kind == MEASURED)

    def check_picture(self, name: str, path: str) -> None:
        """Make sure that a picture can be judged.

        Args:
            name: What to call it, as in `Candidate A`.
            path: The file.

        Raises:
            HarnessError: If it cannot be read.
        """
        load_picture(ImageInput(name, Path(path)))

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

    def samples(self) -> list[Sample]:
        """Make the examples that newcomers can try; none where their photographs are not installed."""
        try:
            return make_samples(self._scratch / "samples")
        except (MissingPackageError, DataError):
            return []


def is_local(settings: Settings, host: str) -> bool:
    """Whether whoever can reach the app at an address sits at this computer."""
    return not settings.space and is_loopback(host)


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

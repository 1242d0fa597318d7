"""Operations of the Evolve tab: runs, their edits and examples, corrected labels, versions."""

from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from app.evolve.runs import Cases, EvolutionFollower, EvolutionStatus, ExampleCase, latest_effect
from app.library.libraries import Order
from app.run_panel.new_jobs import remote_status
from app.run_panel.service import Expected, RunService
from app.score.judges import Judges
from app.viewer.pictures import shrunk
from rewardharness.data.votes import append_correction, corrections_file, read_corrections, unreviewed
from rewardharness.errors import InputError
from rewardharness.evolution.checkpoint import version_folder
from rewardharness.evolution.config import EvolveConfig
from rewardharness.evolution.events import Decided
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.job import EvolutionJob
from rewardharness.evolution.report import REPORT, EvolutionReport, read_report
from rewardharness.evolution.report_page import headline, report_page
from rewardharness.files import read_text, write_text
from rewardharness.hub.jobs import ENDED
from rewardharness.library.card import Facts
from rewardharness.library.hub import PushOptions
from rewardharness.library.store import Library
from rewardharness.schema import Accuracy, Example, Interval, Json
from rewardharness.settings import Settings

SHOWN = 6
"""Maximum number of thumbnails."""

THUMB, GAP = 128, 4
"""Side of the images of a thumbnail in pixels, and the space between two."""


@dataclass(frozen=True)
class Version:
    """A Library that resulted from an accepted edit, or the starting one."""

    number: int
    """0 for the starting Library."""
    library_id: str
    accuracy: float | None
    """On the training examples, which it was selected on."""
    event: Decided | None = None
    """The decision that accepted it; None for the starting Library."""


@dataclass(frozen=True)
class LabelQueue:
    """Training examples that were judged wrong with every Library."""

    left: tuple[tuple[str, int], ...] = ()
    """Id and number of judgments of the examples that were not reviewed yet."""
    reviewed: int = 0


class EvolveServices(RunService[EvolutionStatus, EvolutionFollower]):
    """Evolutions, their edits, labels and versions. Holds nothing of any visitor."""

    job = "evolve"
    kind = EvolutionFollower

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        super().__init__(settings, scratch, judges, local=local)
        self._cases = Cases(settings)

    def _preview(self, config: EvolveConfig, settings: Settings) -> Json:
        job = EvolutionJob.open(config, settings)
        job.check_budget()
        return job.preview(restart=True)

    def _final_config(self, name: str, expected: Expected) -> EvolveConfig:
        """Return the configuration with a copy of the corrections: later ones must not change a paused run."""
        config, preview, copy = expected.job.config, expected.preview, None
        assert isinstance(config, EvolveConfig)
        if preview["corrections"]:
            copy = str(self._settings.home / "jobs" / f"{name}.corrections.jsonl")
            write_text(Path(copy), read_text(corrections_file(self._settings.home, str(preview["digest"]))))
        return replace(config, corrections=copy)

    def look(self, name: str) -> EvolutionStatus:
        """See `RunService.look`."""
        status = super().look(name)
        remote = remote_status(status.folder, self._jobs.log(name))
        if remote is not None:
            ending = status.state == "finished" and remote.run.stage not in ENDED and self._jobs.alive_since(name)
            status = replace(status, remote=remote, state="running" if ending else status.state)
        if self.local or status.status is None:
            return status
        return replace(status, status=replace(status.status, reason="", next_step=""))

    def case(self, name: str, event: Decided, example: str) -> ExampleCase:
        """Return an example with its judgments before and after an edit.

        Raises:
            HarnessError: If it cannot be loaded.
        """
        self._check(name)
        return self._cases.of_edit(self._follower(name), self._jobs.asked(name), event, example)

    def difference(self, name: str, event: Decided) -> tuple[Library, Library]:
        """Return the Libraries before and after an edit, accepted or not."""
        self._check(name)
        return self._cases.libraries(self._jobs.folder(name), event)

    def thumbnails(self, name: str) -> list[tuple[Image.Image, str, bool]]:
        """Return small pictures of examples, with the instruction and whether it is judged right now.

        Of a finished run, these are the held-out examples whose verdict has changed; before, those that the latest
        edit with an effect has fixed or broken.
        """
        self._check(name)
        follower, asked, status = self._follower(name), self._jobs.asked(name), self.look(name)
        report = self.report(name) if status.state == "finished" else None
        if report is not None:
            versions = [self.library(name, number) for number in (0, self.versions(name)[-1].number)]
            moved = self._cases.moved(follower, asked, (versions[0], versions[1]))
        else:
            event = latest_effect(status)
            sides = ((), ()) if event is None else (event.evidence.fixed, event.evidence.broken)
            ids = [(name, right) for names, right in zip(sides, (True, False), strict=True) for name in names]
            moved = [(self._cases.example(follower, asked, example_id), right) for example_id, right in ids]
        wrong = [item for item in moved if not item[1]][: SHOWN // 2]
        selection = [item for item in moved if item[1]][: SHOWN - len(wrong)] + wrong
        return [(_strip(example), example.instruction, right) for example, right in selection if example.images]

    def label_queue(self, name: str) -> LabelQueue:
        """Return the examples whose labels may be wrong."""
        self._check(name)
        missed = dict(self._follower(name).never_right())
        file = self._corrections(name)
        corrections = read_corrections(file) if self.local and file.exists() else {}
        left = unreviewed(missed, corrections)
        return LabelQueue(tuple((example, missed[example]) for example in left), len(missed) - len(left))

    def queued_case(self, name: str, example: str) -> ExampleCase:
        """Return an example of the queue as the latest Library judges it.

        Raises:
            HarnessError: If it cannot be loaded.
        """
        versions = self.versions(name)
        return self._cases.of_version(self._follower(name), self._jobs.asked(name), versions[-1].number, example)

    def correct(self, name: str, example: str, preference: str | None) -> Path:
        """Store a reviewed label next to the data, which are not changed.

        Args:
            name: The run.
            example: Id of the example.
            preference: The correct label; None if the given one is correct.

        Returns:
            The file of corrections.

        Raises:
            HarnessError: If it cannot be stored.
        """
        self._check(name)
        if not self.local:
            message = "Labels can be corrected only on the computer that the app runs on."
            raise InputError(message, next_step="Run the app on your own computer.")
        file = self._corrections(name)
        original = self._cases.example(self._follower(name), self._jobs.asked(name), example)
        append_correction(file, original, preference or original.preference or "")
        return file

    def _corrections(self, name: str) -> Path:
        return corrections_file(self._settings.home, str(self._follower(name).look().manifest.get("data")))

    def versions(self, name: str) -> list[Version]:
        """Return the versions of the Library, the starting one first."""
        status = self.look(name)
        started, judged = status.started, status.first
        first = Version(0, started.library_id if started else "", judged.accuracy if judged else None)
        accepted = [event for event in status.events if isinstance(event, Decided) and event.accepted]
        return [first, *(Version(event.version, event.library_id, event.accuracy, event) for event in accepted)]

    def library(self, name: str, number: int) -> Library:
        """Return the Library of a version.

        Raises:
            LibraryError: If it does not exist.
        """
        self._check(name)
        return Library.load(self.place(name, number))

    def place(self, name: str, number: int) -> Path:
        """Return the folder of a version."""
        return version_folder(self._jobs.folder(name), number)

    def bump(self, name: str, number: int) -> str:
        """Return which part of the version number to increase: `minor` if entries were added or removed."""
        start, library = self.library(name, 0), self.library(name, number)
        names, others = ({entry.name for entry in version.entries} for version in (start, library))
        return "patch" if names == others else "minor"

    def order(self, name: str, number: int, repo: str, options: PushOptions) -> Order:
        """Return the order to publish a version.

        Raises:
            HarnessError: If the version does not exist.
        """
        if number < 1 or number not in {version.number for version in self.versions(name)}:
            raise InputError("No version is chosen.", next_step="Choose one of the list.")
        library = self.library(name, number)
        return Order(library, repo, replace(options, facts=self._facts(name, library)))

    def _facts(self, name: str, library: Library) -> tuple[Facts, ...]:
        """Return the results of a Library on the held-out test set; empty if it was not tested."""
        report = self.report(name)
        if report is None or report.library.tried_id != library.id:
            return ()
        run, kinds, empty = report.run, report.by_label_kind, report.audit.empty
        about = f"{run.data_name}, held-out examples, on which nothing was decided. {headline(report)}"
        alone = _measured(empty) if len(kinds) == 1 and empty.judged else (None, None)
        results = (
            Facts(library.id, run.judge, run.protocol, about, kind.name, *_measured(kind.final), *alone)
            for kind in kinds
        )
        return tuple(facts for facts in results if facts.accuracy.judged)

    def report(self, name: str) -> EvolutionReport | None:
        """Return the report of a run; None before it is finished."""
        self._check(name)
        folder = self._jobs.folder(name)
        return read_report(folder) if (folder / REPORT).is_file() else None

    def report_file(self, name: str) -> Path | None:
        """Write the report as a page for download; None if there is none."""
        report = self.report(name)
        return None if report is None else self._write_page(name, report_page(report))


def _strip(example: Example) -> Image.Image:
    """Return source and candidates side by side."""
    images = [shrunk(image, THUMB) for image in example.images]
    strip = Image.new("RGB", (len(images) * (THUMB + GAP) - GAP, THUMB), "white")
    for number, image in enumerate(images):
        strip.paste(image, (number * (THUMB + GAP) + (THUMB - image.width) // 2, (THUMB - image.height) // 2))
    return strip


def _measured(score: Score) -> tuple[Accuracy, Interval]:
    accuracy = Accuracy(score.n, score.judged, (score.accuracy or 0.0) * score.judged)
    return accuracy, Interval(*(score.interval or (0.0, 1.0)))

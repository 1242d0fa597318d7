"""What the Evolve tab can do: begin runs, follow them, look at what they changed, correct labels, publish versions.

Who asks decides what is allowed. Strangers may evolve on the demonstration set with what costs nobody anything, one at
a time; they see the run whose name they hold, and no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL import Image

from app.cases import Case, Cases
from app.following import Sight, Trails
from app.hub_services import Order
from app.jobs import NAME, VISITOR, Jobs
from app.judges import Judges
from app.new_run import CORRECTIONS, NO_KEYS, Command, Keys, NewRun, command_of, keys_of, models_of
from rewardharness.data.corrections import append_correction, corrections_file, read_corrections, unreviewed
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.evolution.checkpoint import version_folder
from rewardharness.evolution.events import Decided
from rewardharness.evolution.report import REPORT, same_audit, summary
from rewardharness.evolution.report_page import PAGE, headline, report_page
from rewardharness.evolution.status import is_evolution
from rewardharness.files import read_json, read_text, write_text
from rewardharness.library.card import Facts
from rewardharness.library.hub import PushOptions
from rewardharness.library.store import Library
from rewardharness.measure.images import load_picture
from rewardharness.runs.store import find_runs
from rewardharness.schema import Accuracy, Interval, Json
from rewardharness.settings import Settings

SHOWN_SIDE = 1280
"""Long side of the pictures that are shown, in pixels; judging sees the full size."""

LISTED = 40
"""Runs that are listed, at most: those that were written to last."""


@dataclass(frozen=True)
class Expected:
    """A run that may be begun, and what it would cost. Nothing has been spent."""

    run: NewRun
    command: Command
    told: Mapping[str, Any]
    """What `rh evolve --dry-run --json` said."""


@dataclass(frozen=True)
class Version:
    """A Library that a run has kept."""

    number: int
    """0 for the starting Library."""
    library_id: str
    accuracy: float | None
    """On the pool, which it was selected on."""
    event: Decided | None = None
    """The decision that made it; None for the starting Library."""


@dataclass(frozen=True)
class Puzzles:
    """Examples that no Library which was tried made the judge get right."""

    left: tuple[tuple[str, int], ...] = ()
    """Id of each that nobody has looked at yet, and how often it was judged."""
    seen: int = 0
    """How many were looked at."""
    file: Path | None = field(default=None)
    """Where corrections of these data are kept; None where they cannot be."""


class EvolveServices:
    """Evolutions as visitors of the app may run them. Holds nothing of any visitor.

    Args:
        settings: The settings.
        scratch: A private folder for files that are handed to the browser.
        judges: The judges that can be chosen.
        local: Whether visitors sit at this computer.
    """

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        self.local = local
        self._settings, self._scratch, self._judges = settings, scratch, judges
        self._jobs = Jobs(settings.home)
        self._trails = Trails(self._jobs)
        self._cases = Cases(settings)

    def expect(self, run: NewRun) -> Expected:
        """Say what a run would cost.

        Raises:
            HarnessError: If it cannot be run.
        """
        command = command_of(run, self._judges, self._settings, local=self.local)
        words = [*command.words, "--dry-run", "--json", "--quiet"]
        return Expected(run, command, self._jobs.ask(words, command.changes))

    def start(self, expected: Expected) -> str:
        """Begin a run.

        Returns:
            Its name.

        Raises:
            HarnessError: If it cannot begin.
        """
        told, command = expected.told, expected.command
        name = self._jobs.new_name(str(told.get("data") or expected.run.data), visitor=not self.local)
        words = list(command.words)
        if CORRECTIONS in words:
            at = words.index(CORRECTIONS)
            del words[at : at + 2]
        if told.get("corrections"):
            # A copy: what is corrected while the run rests must not make another run of it.
            copy = self._settings.home / "jobs" / f"{name}.corrections.jsonl"
            write_text(copy, read_text(corrections_file(self._settings.home, str(told["digest"]))))
            words += [CORRECTIONS, str(copy)]
        self._jobs.start(name, words, command.changes, visitor=not self.local)
        return name

    def look(self, name: str) -> Sight:
        """See how a run stands.

        Raises:
            RunError: If there is no such run, or it is none of the visitor's business.
        """
        self._check(name)
        sight = self._trails[name].look()
        if self.local:
            return sight
        # Words about trouble may name places on this computer.
        status = sight.status and replace(sight.status, reason="", next_step="")
        return replace(sight, trouble=None, status=status)

    def stop(self, name: str) -> Sight:
        """Ask a run to end after the judgments under way."""
        self._check(name)
        self._jobs.stop(name)
        return self.look(name)

    def resume(self, name: str, keys: Keys = NO_KEYS) -> Sight:
        """Resume a run with its configuration.

        Args:
            name: The run.
            keys: The keys of its models, as far as they were typed.

        Raises:
            HarnessError: If it cannot go on.
        """
        self._check(name)
        changes = keys_of(self._jobs.config(name)[1], keys, self._settings) if self.local else {}
        self._jobs.resume(name, changes, visitor=not self.local)
        return self.look(name)

    def models(self, name: str) -> tuple[str, str]:
        """The models that a run names as judge and Orchestrator, which may ask for keys when it goes on."""
        try:
            return models_of(self._jobs.config(name)[1], self._settings) if self.local else ("", "")
        except HarnessError:
            return "", ""

    def goes_on(self, name: str) -> bool:
        """Whether a run says how it was begun, so that it can be gone on with from here."""
        try:
            return bool(self._jobs.again(name))
        except HarnessError:
            return False

    def command(self, name: str) -> str:
        """The command by which a run goes on, for people at this computer; empty where it is not known."""
        if not self.local:
            return ""
        try:
            return " ".join(["rh", *self._jobs.again(name), "--run", str(self._jobs.folder(name))])
        except HarnessError:
            return ""

    def log(self, name: str) -> str:
        """Where the process of a run that was begun here writes what it says; empty where there is no such file."""
        path = self._jobs.log(name)
        return str(path) if self.local and path.is_file() else ""

    def runs(self) -> list[Sight]:
        """The runs of this computer, those that were written to last first. Strangers get none."""
        if not self.local:
            return []
        found = []
        for folder in find_runs(self._jobs.runs)[:LISTED]:
            try:
                if NAME.fullmatch(folder.name) and is_evolution(folder):
                    found.append(self._trails[folder.name].look())
            except (HarnessError, OSError):
                continue  # no run of ours, or one that is being removed
        return found

    def case(self, name: str, event: Decided, example: str) -> Case:
        """Show what an edit did to an example: the judgments before and after.

        Raises:
            HarnessError: If it cannot be shown.
        """
        self._check(name)
        return self._cases.of_edit(self._trails[name], self._jobs.asked(name), event, example)

    def difference(self, name: str, event: Decided) -> tuple[Library, Library]:
        """The Libraries before an edit and with it, kept or not."""
        self._check(name)
        return self._cases.libraries(self._jobs.folder(name), event)

    def pictures(self, case: Case) -> list[tuple[Image.Image, str]]:
        """The pictures of an example, each with what it is.

        Raises:
            HarnessError: If one of them cannot be read.
        """
        example = case.example
        named = zip(
            ("Source", *(f"Candidate {label}" for label in example.labels)),
            (example.source, *example.candidates),
            strict=True,
        )
        found = []
        for title, image in named:
            shown = Image.fromarray(load_picture(image).pixels)
            shown.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
            found.append((shown, title))
        return found

    def puzzles(self, name: str) -> Puzzles:
        """List the examples whose labels are worth another look."""
        self._check(name)
        missed = dict(self._trails[name].never_right())
        if not self.local:
            return Puzzles(tuple(missed.items()))
        file = self._corrections(name)
        said = read_corrections(file) if file.exists() else {}
        left = unreviewed(missed, said)
        return Puzzles(tuple((each, missed[each]) for each in left), len(missed) - len(left), file)

    def puzzle(self, name: str, example: str) -> Case:
        """Show an example as the latest Library judges it.

        Raises:
            HarnessError: If it cannot be shown.
        """
        versions = self.versions(name)
        return self._cases.of_version(self._trails[name], self._jobs.asked(name), versions[-1].number, example)

    def correct(self, name: str, example: str, preference: str | None) -> Path:
        """Keep what a person says of a label. The data stay as they are.

        Args:
            name: The run.
            example: Id of the example.
            preference: The right label; None when the one that was given is right.

        Returns:
            The file of corrections.

        Raises:
            HarnessError: If it cannot be kept.
        """
        self._check(name)
        if not self.local:
            step = "Run the app on your own computer."
            raise InputError("Labels can be corrected only on the computer that the app runs on.", next_step=step)
        file = self._corrections(name)
        found = self._cases.example(self._trails[name], self._jobs.asked(name), example)
        append_correction(file, found, preference or found.preference or "")
        return file

    def _corrections(self, name: str) -> Path:
        return corrections_file(self._settings.home, str(self._trails[name].look().manifest.get("data")))

    def versions(self, name: str) -> list[Version]:
        """The Libraries that a run has kept, the starting one first."""
        sight = self.look(name)
        started, judged = sight.started, sight.judged
        found = [Version(0, started.library_id if started else "", judged.accuracy if judged else None)]
        for event in sight.events:
            if isinstance(event, Decided) and event.accepted:
                found.append(Version(event.version, event.library_id, event.accuracy, event))
        return found

    def library(self, name: str, number: int) -> Library:
        """A version of a run.

        Raises:
            LibraryError: If it is not there.
        """
        self._check(name)
        return Library.load(self.place(name, number))

    def place(self, name: str, number: int) -> Path:
        """The folder of a version."""
        return version_folder(self._jobs.folder(name), number)

    def bump(self, name: str, number: int) -> str:
        """Which part of the version number should go up: what was added or removed makes a minor version."""
        start, library = self.library(name, 0), self.library(name, number)
        names = ({entry.name for entry in each.entries} for each in (start, library))
        return "patch" if next(names) == next(names) else "minor"

    def order(self, name: str, number: int, repo: str, how: PushOptions) -> Order:
        """Put together what publishing a version means; what it follows on the Hub is found by its lineage.

        Raises:
            HarnessError: If the version is not there.
        """
        if number < 1 or number not in {version.number for version in self.versions(name)}:
            raise InputError("No version is chosen.", next_step="Choose one that the run has kept.")
        library = self.library(name, number)
        return Order(library, repo, replace(how, facts=self._facts(name, library)))

    def _facts(self, name: str, library: Library) -> tuple[Facts, ...]:
        """What the audit found about a Library; nothing for one that was not audited."""
        report = self.report(name)
        if report is None or report["library"].get("tried_id", report["library"]["final_id"]) != library.id:
            return ()
        run, kinds = report["run"], report["by_label_kind"]
        about = f"{run['data_name']}, the audit's examples, on which nothing was decided. {headline(report)}"
        found = []
        for each in kinds:
            accuracy = _accuracy(each["final"])
            facts = Facts(
                library.id, run["judge"], run["protocol"], about, each["name"], accuracy, _interval(each["final"])
            )
            if len(kinds) == 1 and report["audit"]["empty"]["judged"]:
                empty = report["audit"]["empty"]
                facts = replace(facts, without=_accuracy(empty), without_interval=_interval(empty))
            found.append(facts)
        return tuple(each for each in found if each.accuracy.judged)

    def report(self, name: str) -> Json | None:
        """What came of a run; None while it is not finished."""
        self._check(name)
        path = self._jobs.folder(name) / REPORT
        found: Json | None = read_json(path) if path.is_file() else None
        return found

    def report_file(self, name: str) -> Path | None:
        """Write the report as a page for download; None while there is none. Older pages are removed."""
        found = self.report(name)
        if found is None:
            return None
        path = self._scratch / "reports" / f"{name if self.local else 'evolution'}-{PAGE}"
        for old in sorted(path.parent.glob("*.html"), key=lambda each: each.stat().st_mtime)[:-20]:
            old.unlink(missing_ok=True)
        write_text(path, report_page(found))
        return path

    def compare(self, names: list[str]) -> tuple[list[Json], bool]:
        """Put what came of finished runs side by side.

        Returns:
            The figures of each, and whether their accuracies compare.

        Raises:
            RunError: If one of them is not finished.
        """
        reports = []
        for name in names:
            found = self.report(name)
            if found is None:
                raise RunError(f"{name} is not finished, so it has no report.", next_step="Choose finished runs.")
            reports.append(found)
        return [summary(*each) for each in zip(names, reports, strict=True)], same_audit(reports)

    def _check(self, name: str) -> None:
        """Make sure that a visitor may look at a run."""
        allowed = NAME if self.local else VISITOR
        if not allowed.fullmatch(name) or not self._jobs.is_known(name):
            raise RunError("There is no such run.", next_step="Choose one of the list, or begin one.")


def _accuracy(score: Mapping[str, Any]) -> Accuracy:
    return Accuracy(score["n"], score["judged"], (score["accuracy"] or 0.0) * score["judged"])


def _interval(score: Mapping[str, Any]) -> Interval:
    low, high = score["interval"] or (0.0, 1.0)
    return Interval(low, high)

"""Services of the tabs: plain functions from input values to records."""

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
from PIL import Image

from app.batch.service import BatchServices
from app.benchmark.service import BenchmarkServices
from app.evolve.service import EvolveServices
from app.fairness import Allowance, address_of
from app.library.libraries import BUILTIN, FOLDER, HUB, Choice, HubServices, Libraries, Visitor
from app.lineage.services import LineageServices
from app.score.comparisons import Comparison, Draft, Running, scalings
from app.score.judges import BY_MEASURING, JudgeChoice, Judges, Used, judge_choice
from app.score.links import KeptLinks
from app.score.releases import DEFAULT_PLACES, RELEASE, Fixed, Places
from app.score.samples import Sample, make_samples
from app.viewer.results import ResultFiles
from app.vote.feedback import Feedback, Stored
from app.vote.service import Voting
from rewardharness.critique import NO_CRITIQUE
from rewardharness.data.votes import voter_id
from rewardharness.editors.editor import open_editor
from rewardharness.editors.refine import Refined, refine
from rewardharness.errors import DataError, HarnessError, InputError, MissingPackageError
from rewardharness.files import user_path
from rewardharness.judging.config import MEASURED
from rewardharness.judging.measured import NAME, MeasuredJudge
from rewardharness.judging.subagent import model_judge
from rewardharness.schema import LABELS, Example, ImageInput, Judgment
from rewardharness.serving.hosts import is_loopback
from rewardharness.settings import Settings

_KEY = secrets.token_hex()
"""Key of pseudonyms where the settings have none."""

ROUNDS, ATTEMPTS = 2, 4
"""Rounds of an improvement, and attempts per round."""
DAY = 24 * 3600


class MissingInputError(InputError):
    """A required input of a comparison is missing."""

    title = "Missing input"


class AppServices:
    """Services of the tabs. Holds no state of visitors.

    Args:
        settings: The settings.
        scratch: A private folder for files that the browser downloads.
        local: Whether visitors use this computer. Only then are folder names accepted.
        places: Addresses of the models of the release in the settings, if any.

    Raises:
        HarnessError: If that release cannot be used.
    """

    def __init__(self, settings: Settings, scratch: Path, *, local: bool, places: Places = DEFAULT_PLACES) -> None:
        self.settings = settings
        self.local = local
        self._scratch = scratch
        self._warm = threading.Lock()  # taken once
        self.fixed = Fixed(settings, places, local=local) if settings.release is not None else None
        self.libraries = Libraries(settings, self.fixed, local=local)
        self.judges = Judges(settings, local=local)
        self.feedback = Feedback(settings)
        self.voting = Voting(self)
        self.links = KeptLinks(settings.home / "comparisons", settings.link_days, local=local)
        self.results = ResultFiles(scratch / "results")
        self.hub = HubServices(settings, scratch, local=local)
        self.lineage = LineageServices(settings, local=local)
        self.evolve = EvolveServices(settings, scratch, self.judges, local=local)
        self.benchmarks = BenchmarkServices(settings, scratch, self.judges, local=local)
        self.batches = BatchServices(settings, scratch, self.judges, local=local)
        if settings.editor is not None:
            open_editor(settings.editor, settings)  # says what is wrong with its name before the app starts
        most = ROUNDS * ATTEMPTS
        self.improves = settings.editor is not None and (local or settings.edits >= most)
        """Whether edits can be improved here."""
        self._edits = Allowance(DAY, max(most, settings.edits // 4), settings.edits)
        self.batches_of_visitors = not local and self.fixed is None and settings.batch_pairs > 0
        """Whether visitors who are not at this computer may run batches; none are judged by a release."""

    def visitor(
        self,
        token: gr.OAuthToken | None = None,
        profile: gr.OAuthProfile | None = None,
        request: gr.Request | None = None,
    ) -> Visitor:
        """Return the visitor, from Gradio's login; on a local computer there is none.

        Args:
            token: Used only in requests to the Hub, which verifies it.
            profile: Names their account.
            request: Gives the pseudonym of their address, which is not kept.
        """
        visitor = Visitor(profile.username if profile is not None else "", token.token if token is not None else "")
        if self.local or request is None:
            return visitor
        address = address_of(request, proxied=self.settings.space)
        owner = voter_id(f"address {address}", self.settings.feedback_salt or _KEY)
        return replace(visitor, owner=owner or "")

    def start(
        self,
        draft: Draft,
        choice: Choice,
        judge: JudgeChoice = BY_MEASURING,
        used: Used | None = None,
        *,
        critique: bool = False,
    ) -> Running:
        """Start to judge candidates. A release that the app is fixed to overrides Library and judge.

        Args:
            draft: The images and the instruction.
            choice: The Library.
            judge: The judge and its options.
            used: An idle model that this visitor has used before.
            critique: Whether to say what is wrong with each candidate.

        Raises:
            HarnessError: If an input is missing, or Library or judge cannot be used. Errors of an image or a model
                give a Judgment with a failure.
        """
        example, fixed = _example(draft), self.fixed
        library = self.libraries.open(choice) if fixed is None else fixed.library
        opened = self.judges.open(judge, used) if fixed is None else fixed.open(used)
        price = self.judges.price(judge.kind) if fixed is None else fixed.price
        # The pixel-based judge gives reasons for its preference; of one, three or four candidates each needs its own.
        own = opened.traits.writes_critiques and not opened.traits.uses_model and len(example.candidates) != 2
        running = Running(opened.with_critiques() if critique or own else opened, library, example, price)
        running.critique = critique
        return running

    def finish(self, running: Running, choice: Choice, judge: JudgeChoice = BY_MEASURING) -> Comparison | None:
        """Return the result of a comparison that was followed to its end; None if it was stopped."""
        judgment, fixed = running.result(), self.fixed
        if judgment is None:
            return None
        judgment = _public(judgment, hidden=self.judges.hides(judge.kind) if fixed is None else fixed.hides)
        scaled = scalings((image.name, image.path) for image in running.example.images if isinstance(image, ImageInput))
        judgment = replace(judgment, notes=(*judgment.notes, *scaled))
        return Comparison(
            running.example,
            judgment,
            self.libraries.name(choice) if fixed is None else f"the Library of {fixed.name}",
            running.library,
            running.model,
            own_judge=fixed is None and not self.judges.hides(judge.kind),
            critique=running.critique,
            release=None if fixed is None else fixed.release.id,
            asked=(choice, judge),
        )

    def improve(
        self,
        comparison: Comparison,
        label: str,
        owner: str,
        progress: Callable[[str, int, int], None],
        stop: Callable[[], bool],
    ) -> Refined:
        """Improve an edit of a result with the editor of the settings and the judge of the result.

        Args:
            comparison: The result.
            label: The candidate.
            owner: Pseudonym of the visitor's address, which has a share of the edits of a day; empty on this computer.
            progress: See `refine`.
            stop: See `refine`.

        Raises:
            HarnessError: If there are no edits left, or the judge writes no critiques.
        """
        if not self.improves or not (self.local or self._edits.take(owner, ROUNDS * ATTEMPTS)):
            raise InputError("No edits are left here for today.", next_step="Improve this edit tomorrow.")
        example, settings = comparison.example, self.settings
        judge = self.judges.open(comparison.asked[1]) if self.fixed is None else self.fixed.open()
        agent = model_judge(judge)
        with TemporaryDirectory(dir=self._scratch) as place:  # edits of visitors are kept no longer
            settings = settings if self.local else replace(settings, home=Path(place))
            try:
                return refine(
                    example.source_image,
                    example.instruction,
                    str(settings.editor),
                    judge,
                    candidate=example.candidates[example.labels.index(label)],
                    library=comparison.opened,
                    rounds=ROUNDS,
                    n=ATTEMPTS,
                    settings=settings,
                    progress=progress,
                    stop=stop,
                )
            finally:
                if agent is not None and agent.cache is not None:
                    agent.cache.close()

    def draw(self, comparison: Comparison, label: str) -> tuple[Judgment, str]:
        """Return a judgment of a candidate with the images of the Tools, and the label of the candidate in it.

        The pixel-based judge measures the candidate again, alone, as a verdict does not wait for the images.
        """
        if comparison.judgment.judge != NAME:
            return comparison.judgment, label
        example = comparison.example
        alone = replace(example, candidates=(example.candidates[example.labels.index(label)],))
        return MeasuredJudge(pictures=True).judge_now(alone, comparison.opened), alone.labels[0]

    def is_current(self, comparison: Comparison, draft: Draft, choice: Choice, judge: JudgeChoice) -> bool:
        """Return whether a comparison has these inputs."""
        then, by = comparison.asked
        try:
            same = choice == then or self.libraries.spelled(choice) == self.libraries.spelled(then)
        except HarnessError:
            return False
        return (
            same
            and self.belongs(comparison, draft)
            and (judge == replace(by, principles=()) or judge.kind == by.kind == MEASURED)
        )

    def belongs(self, comparison: Comparison, draft: Draft) -> bool:
        """Return whether a comparison has these images and this instruction."""
        try:
            return _example(draft) == comparison.example
        except HarnessError:
            return False

    def compare(self, draft: Draft, choice: Choice, judge: JudgeChoice = BY_MEASURING) -> Comparison:
        """Judge candidates and wait for the result; see `start`."""
        running = self.start(draft, choice, judge)
        for _ in running.follow():
            pass
        comparison = self.finish(running, choice, judge)
        assert comparison is not None  # only its owner can stop it
        return comparison

    def api_judge(self) -> JudgeChoice:
        """Return the judge of API requests: the release that the app is fixed to, or the default on this computer.

        In a public app it is the pixel-based judge, since model requests would be at the expense of the app's owner.

        Raises:
            InputError: If the app is public and fixed to a release whose judge is a model.
        """
        if self.fixed is not None:
            self.fixed.check_api()
            return JudgeChoice(RELEASE)
        return JudgeChoice(self.judges.default) if self.local else BY_MEASURING

    def api_choice(self, library: str, judge: str) -> tuple[Choice, JudgeChoice]:
        """Return Library and judge of an API request.

        Args:
            library: `org/name[@revision]` on the Hub, `builtin`, on this computer also a folder; empty for the default.
            judge: `measured`, on this computer also a model such as `vllm:NAME@URL`; empty for the default.

        Raises:
            HarnessError: If the Library cannot be loaded, or they cannot be chosen here.
        """
        library, judge = library.strip(), judge.strip()
        if self.fixed is not None and (library or judge):
            raise InputError("This app is fixed to a release.", next_step="Leave library and judge out.")
        if judge not in {"", MEASURED} and not self.local:
            raise InputError("Programs can ask only the pixel-based judge here.", next_step="Run the app yourself.")
        if library in {"", BUILTIN}:
            choice = Choice(library or self.libraries.choices()[0][1])
        elif self.local and user_path(library).is_dir():
            choice = Choice(FOLDER, folder=library)
        else:
            choice = Choice(HUB, spec=library, loaded=self.hub.load(library, Visitor()))
        return choice, judge_choice(judge) if judge else self.api_judge()

    def give_feedback(self, comparison: Comparison, preference: str, name: str = "", session: str = "") -> Stored:
        """Store a preference as a labeled example.

        Args:
            comparison: The comparison.
            preference: A letter, or `tie` on a pair.
            name: Account of the visitor; empty if unknown.
            session: Pseudonym of the visitor's address; empty if unknown.

        Raises:
            HarnessError: If it cannot be stored.
        """
        names = ("judge", "protocol", "library_id", "preference")
        context = {name: getattr(comparison.judgment, name) for name in names}
        context |= {"release": comparison.release} if comparison.release is not None else {}
        return self.feedback.give([(comparison.example, preference)], name=name, session=session, context=context)

    def warm_up(self) -> None:
        """Load the pixel-based judge and its text recognition, and draw and measure the samples, once.

        It happens in the background. The first verdict then takes as long as the others, and that of a sample less.
        """
        if self.fixed is not None or self.judges.default != MEASURED:
            return
        if self._warm.acquire(blocking=False):
            threading.Thread(target=self._judge_something, name="warm up", daemon=True).start()

    def _judge_something(self) -> None:
        paths = {self._scratch / f"warm-up-{shade}.png": (shade, 128, 128) for shade in (90, 150, 210)}
        with suppress(Exception):  # a comparison of the visitor will say what is wrong
            for path, color in paths.items():
                Image.new("RGB", (96, 96), color).save(path)
            source, *candidates = map(str, paths)
            self.compare(Draft(source, tuple(candidates), (), "Make it red."), Choice())
            for sample in self.samples():
                edits = tuple(map(str, sample.candidates))
                self.compare(Draft(str(sample.source), edits, (), sample.instruction), Choice())

    def samples(self) -> list[Sample]:
        """Return the sample comparisons; none if their photographs are not installed."""
        try:
            return make_samples(self._scratch / "samples")
        except (MissingPackageError, DataError):
            return []


def is_local(settings: Settings, host: str) -> bool:
    """Return whether only this computer can reach the app at an address."""
    return not settings.space and is_loopback(host)


def _example(draft: Draft) -> Example:
    """Make an example of the inputs; the error names the first missing one."""
    source, candidates, references = draft.source, draft.candidates, draft.references
    if source is None:
        raise MissingInputError("The source image is missing.", next_step="Add the image before the edit.")
    paths = [path for path in candidates if path is not None]
    further = [path for path in references if path is not None]
    if None in references[: len(further)]:
        number = 2 + references.index(None)
        raise MissingInputError(f"Image {number} is missing.", next_step=f"Add it, or move image {number + 1} there.")
    for label, path in zip(LABELS, candidates, strict=False):
        if path is None and (label == LABELS[0] or paths[LABELS.index(label) :]):
            remedy = f"Add an edited image as candidate {label}."
            raise MissingInputError(f"Candidate {label} is missing.", next_step=remedy)
    if not draft.instruction.strip():
        raise MissingInputError("The instruction is missing.", next_step="Describe the requested edit.")
    edits = tuple(ImageInput(f"Candidate {label}", Path(path)) for label, path in zip(LABELS, paths, strict=False))
    others = tuple(ImageInput(f"Image {number}", Path(path)) for number, path in enumerate(further, 2))
    source_image = ImageInput("The source", Path(source))
    return Example("app", draft.instruction.strip(), source_image, edits, references=others)


def _public(judgment: Judgment, *, hidden: bool) -> Judgment:
    """Return a judgment as visitors may see it: messages of failures, which may contain an address, can be hidden."""
    if not hidden:
        return judgment
    failed = (note.startswith(NO_CRITIQUE) for note in judgment.notes)
    notes = (note.partition(": ")[0] if bad else note for note, bad in zip(judgment.notes, failed, strict=True))
    failure = None if judgment.failure is None else replace(judgment.failure, message="")
    return replace(judgment, notes=tuple(notes), failure=failure)

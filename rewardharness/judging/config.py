"""Configuration of the judge of a job: which judge, with which Library, and how a model judges."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from rewardharness.errors import InputError
from rewardharness.prompts import Language
from rewardharness.settings import Settings

if TYPE_CHECKING:  # help and wrong arguments are shown without loading a judge
    from rewardharness.judging.judge import Judge
    from rewardharness.judging.release import Release
    from rewardharness.judging.subagent_settings import SubAgentSettings
    from rewardharness.library.store import Library

Protocol = Literal["chain", "direct", "logprob", "pointwise", "rubric"]
PROTOCOLS: tuple[Protocol, ...] = ("chain", "direct", "logprob", "pointwise", "rubric")
"""`chain`: thought, Tools and an answer, as in the paper. `direct`: the answer at once. `logprob`: odds of the letters.
`pointwise`: each candidate alone, two scores. `rubric`: each candidate alone, one grade per criterion.

Of a single candidate, `chain` and `direct` give the two scores without a preference, and `logprob` the expected scores
under the probabilities of the digits."""

_SETTINGS = {
    "protocol": "protocol",
    "samples": "samples",
    "groups": "groups",
    "tool_calls": "tool_limit",
    "max_pixels": "max_pixels",
    "prompt_language": "language",
    "evidence": "evidence",
}
"""Setting of a model judge by field of `JudgeConfig`."""


EVIDENCE = "+evidence"
"""Suffix of the spelling of a judge, for `evidence`."""


WITH_EVIDENCE = "measured evidence"
"""What the protocol of a judge with it says."""


class OpenedJudge(NamedTuple):
    """A judge with the Library that it reads."""

    judge: "Judge"
    library: "Library"
    release: "Release | None"


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """Judge, Library, and how a model judges.

    The judge is `measured` (no model), `vllm:NAME@URL[,URL...]`, `openai:NAME[@URL]`, `hf:NAME`, `openrouter:NAME`,
    `gemini:NAME`, a baseline (`random`, `always-a`, `closer`, `farther`, `ssim`) or `file:SCORES.jsonl`; by default
    `RH_JUDGE`, else `measured`. A model whose spelling ends in `+evidence` gets measured evidence.
    The keys of models are `RH_API_KEY`, `OPENAI_API_KEY`, `HF_TOKEN`, `OPENROUTER_API_KEY` (these without `@URL`) and
    `GEMINI_API_KEY`. The Library is by default `RH_LIBRARY`, else `builtin`.
    """

    library: str | None = None
    """Folder, Hub repository, presets, builtin or empty."""
    judge: str | None = None
    """measured, vllm:NAME@URL, hf:NAME, ... (RH_JUDGE)."""
    protocol: Protocol | None = None
    """How a model judges (default: chain)."""
    one_order: bool = False
    """Show each pair in one order only: half the calls."""
    samples: int | None = None
    """Samples per question to a model (default: 1)."""
    groups: Literal["pairs", "all"] | None = None
    """How to judge 3 or more."""
    tool_calls: int | None = None
    """Tool calls per conversation (default: 5)."""
    max_pixels: int | None = None
    """Pixels to which images are reduced for a model."""
    prompt_language: Language | None = None
    """Of prompts (default: en)."""
    evidence: bool | None = None
    """Give a model measured changes: boxes, crops."""
    router: str | None = None
    """Model that routes entries without triggers."""
    no_cache: bool = False
    """Do not use or store cached judgments."""

    lowest: ClassVar[Mapping[str, int]] = {"samples": 1, "tool_calls": 0, "max_pixels": 784}
    """Minimum by field."""

    def __post_init__(self) -> None:
        if self.judge is not None and self.judge.endswith(EVIDENCE):
            object.__setattr__(self, "judge", self.judge.removesuffix(EVIDENCE))
            object.__setattr__(self, "evidence", True)
        for name, low in self.lowest.items():
            value = getattr(self, name)
            if value is not None and value < low:
                option = name.replace("_", "-")
                raise InputError(f"--{option} {value} is out of range.", next_step=f"Give a number of at least {low}.")

    @property
    def subagent(self) -> "SubAgentSettings":
        """The settings of a model judge."""
        from rewardharness.judging.subagent_settings import SubAgentSettings

        given: dict[str, Any] = {
            setting: getattr(self, name) for name, setting in _SETTINGS.items() if getattr(self, name) is not None
        }
        return SubAgentSettings(both_orders=not self.one_order, **given)

    def with_defaults(self, settings: Settings) -> Self:
        """Replace omitted judge and Library by those of the settings."""
        return replace(self, judge=self.judge or settings.judge, library=self.library or settings.library)

    def endpoint(self, settings: Settings) -> str | None:
        """Return the judge that the user named; None if it is the one of the environment."""
        return None if self.judge == settings.judge else self.judge

    def open_library(self, settings: Settings, instructions: Mapping[str, str] | None = None) -> "Library":
        """Open the Library.

        Args:
            settings: The default Library.
            instructions: Instruction by prompt id, for presets of single prompts.

        Raises:
            LibraryError: If it cannot be opened.
        """
        from rewardharness.library.opening import open_library

        return open_library(self.library or settings.library, instructions)

    def open_judge(self, settings: Settings, **options: Any) -> "Judge":
        """Open the judge.

        Args:
            settings: Keys and the default judge.
            options: Further fields of `JudgeOptions`.

        Raises:
            InputError: If the spelling cannot be read, or a key is missing.
        """
        from rewardharness.judging.opening import MEASURED, JudgeOptions, open_judge

        how = JudgeOptions(subagent=self.subagent, router=self.router, cache=not self.no_cache, **options)
        try:
            return open_judge(self.judge or settings.judge, settings, how)
        except InputError as error:
            if settings.judge == MEASURED or self.endpoint(settings) is not None:
                raise
            raise InputError(f"RH_JUDGE: {error.message}", next_step=error.next_step) from None


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig(JudgeConfig):
    """Judge and Library, one by one or fixed by a release."""

    release: str | None = None
    """Release file, or deployed:NAME. It fixes Library, judge and settings; --judge then names the endpoint."""

    def with_defaults(self, settings: Settings) -> Self:
        """Replace omitted judge and Library by those of the settings. A release fixes both."""
        return self if self.release else super().with_defaults(settings)

    def find_release(self, settings: Settings, *, ties: bool = False) -> "Release | None":
        """Load the release.

        Args:
            settings: Where releases are deployed.
            ties: Whether ties are requested.

        Returns:
            The release; None if there is none.

        Raises:
            InputError: If a field contradicts it.
            ReleaseError: If the release was changed.
        """
        if self.release is None:
            return None
        from rewardharness.judging.deployments import find_release

        release = find_release(self.release, settings)
        self._check(release, settings, ties)
        return release

    def open_release(self, release: "Release", settings: Settings, **options: Any) -> "Judge":
        """Open the judge of a release.

        Args:
            release: The release.
            settings: Keys and the default endpoint.
            options: Further fields of `JudgeOptions`.

        Raises:
            ReleaseError: If this installation cannot reproduce it.
        """
        from rewardharness.judging.opening import JudgeOptions
        from rewardharness.judging.release_opening import open_release

        how = JudgeOptions(router=self.router, cache=not self.no_cache, **options)
        return open_release(release, settings, endpoint=self.endpoint(settings), options=how)[0]

    def _check(self, release: "Release", settings: Settings, ties: bool) -> None:
        """Check that no field contradicts the release."""
        given: dict[str, tuple[str, Any]] = {
            setting: (f"--{name.replace('_', '-')} {getattr(self, name)}", getattr(self, name))
            for name, setting in _SETTINGS.items()
            if getattr(self, name) is not None
        }
        if self.one_order:
            given["both_orders"] = "--one-order", False
        if ties:
            given["ties"] = "--ties", True
        how = release.how
        pinned = {name: getattr(how, name) if how else release.settings.get(name) for name in given}
        wrong = [option for name, (option, value) in given.items() if pinned[name] != value]
        if self.library is not None and self.open_library(settings).id != release.library.id:
            wrong.append(f"--library {self.library}")
        if self.router is not None and release.router is None:
            wrong.append("--router")
        if wrong:
            raise InputError(
                f"Release {release.id[:12]} fixes Library and judge, and contradicts {', '.join(wrong)}.",
                next_step="Omit these options, or create another release: rh release create.",
            )


@dataclass(frozen=True, kw_only=True)
class RewardConfig(ReleaseConfig):
    """Judge and Library of a job that scores."""

    ties: bool = False
    """Allow `tie` as a preference."""
    calibration: Path | None = None
    """Calibration of the confidence, written by rh benchmark --calibrate (or RH_CALIBRATION)."""
    allow_ungradable: bool = False
    """Pixel-based judge: give a low-confidence reward where it cannot measure whether the instruction was followed.
    Without this option, that is a failure with the reason not_gradable."""

    def open(self, settings: Settings, **options: Any) -> OpenedJudge:
        """Open judge and Library.

        Args:
            settings: Keys, and the default judge and Library.
            options: Further fields of `JudgeOptions`.

        Raises:
            InputError: If a field contradicts the release, or the judge cannot be opened.
            ReleaseError: If the release was changed, or this version cannot reproduce it.
            LibraryError: If the Library cannot be opened.
        """
        release = self.find_release(settings, ties=self.ties)
        if release is not None and self.calibration is not None:
            raise InputError("A release has its own calibration.", next_step="Leave out --calibration.")
        library = self.open_library(settings) if release is None else release.library
        return OpenedJudge(self.open_for(library, release, settings, **options), library, release)

    def open_for(self, library: "Library", release: "Release | None", settings: Settings, **options: Any) -> "Judge":
        """Open the judge for a Library, or for the release that it comes from; see `open`."""
        options = {"allow_ungradable": self.allow_ungradable, **options}
        if release is not None:
            return self.open_release(release, settings, **options)
        judge = self.open_judge(settings, ties=self.ties, **options)
        if self.calibration is not None:
            from rewardharness.judging.calibration import load_calibration
            from rewardharness.judging.identity import JudgeIdentity

            calibration = load_calibration(self.calibration)
            calibration.check(JudgeIdentity.of(judge, library))
            judge = judge.with_calibration(calibration)
        return judge


DEFAULT_JUDGE = RewardConfig()
"""The judge and the Library of the environment."""

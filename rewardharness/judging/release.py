"""A release: one self-contained file that pins everything that scores depend on, identified by its hash.

    {"format": 1,
     "id":       hash of `parts`; the same id gives the same scores,
     "parts":    hashes of the following four,
     "judge":    {"name", "protocol", "revision", "model_revision", "router"}, and `calibration` if there is one,
     "settings": orders, samples, ties, decoding, pixels, OCR,
     "code":     content ids of the code and of each prompt,
     "library":  {"id", "entries": {name: {"id", "kind", "files": {file name: text}}}},
     "card":     information that changes no score: versions of packages, evaluations, and, if known, `evolved_on`:
                 digests of the data that its Library was evolved on,
     "card_id":  hash of `card`, which can be recomputed after a change, so it does not verify the figures}

A release names a model without its location: no address, key, path or host. The caller of a release states these.
"""

import logging
import platform
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rewardharness import __version__
from rewardharness.errors import InputError, ReleaseError, shell
from rewardharness.files import content_id
from rewardharness.judging.calibration import ConfidenceCalibration, shipped_calibration
from rewardharness.judging.config import MEASURED
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.measured import NAME
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.profile_judge import ProfileJudge, settings_of
from rewardharness.judging.profile_opening import load_profile, profile_of, shipped_profiles
from rewardharness.judging.release_card import Figure
from rewardharness.judging.revision import code_revisions, measures_revision
from rewardharness.judging.subagent import SubAgent
from rewardharness.leaks import find_leaks
from rewardharness.library.entry import entry_files
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.measure.text import ocr_available
from rewardharness.models.open import SERVICES, ScriptedModel
from rewardharness.schema import Json

log = logging.getLogger(__name__)

FORMAT = 1
"""Version of the file format."""

MODELS = ("vllm", "gemini", "scripted", *SERVICES)
"""Kinds of models that can be pinned."""

PACKAGE = "reward-harness-library"
MAY_MATTER = ("numpy", "opencv-python-headless", "pillow", "rapidocr", "onnxruntime")
"""Packages whose version may change the last digits of measurements."""

_READ_TEXT = frozenset({"text_match", "unasked_text"})
"""Measures whose results depend on OCR."""

_PLACE = re.compile(r"://|^[/~.\\]|^[A-Za-z]:[\\/]|[\x00-\x1f\x7f]")
"""Pattern of names that are locations on a machine, or invalid."""


@dataclass(frozen=True)
class Release:
    """Everything that scores depend on. Equal ids give equal scores if the model is deterministic."""

    judge: str
    """`measured`, or kind and name of a model, as in `vllm:Qwen/Qwen2.5-VL-7B-Instruct`."""
    protocol: str
    """As in `Judgment.protocol` of a pair."""
    revision: str
    """As in `Judge.revision`."""
    settings: Mapping[str, Any] = field(repr=False)
    """`ties` and `ocr`; for a model also `ModelJudgeConfig.pinned`."""
    code: Mapping[str, str] = field(repr=False)
    """Content ids of the code and of each prompt, by name."""
    library: Library = field(repr=False)
    model_revision: str | None = None
    """Revision of the weights as stated by the creator of the release. It is not checked: servers do not report it."""
    router: str | None = None
    """Kind and name of the model that selects entries without triggers."""
    card: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """`made_with`: versions of packages; `evaluation`: figures as JSON; `evolved_on`: digests. Changes no score."""
    calibration: ConfidenceCalibration | None = field(default=None, repr=False)
    """Calibration of the confidence; None if it is not calibrated. The id covers it."""

    @property
    def judged_by(self) -> str:
        """The judge, as in `Judgment.judge`."""
        if (named := profile_of(self.judge)) is not None:
            return named[1]
        return NAME if self.judge == MEASURED else self.judge

    @property
    def model(self) -> ModelJudgeConfig | None:
        """How the model judges; None for the pixel-based judge."""
        if self.judge == MEASURED:
            return None
        return ModelJudgeConfig.from_pinned(self.settings)

    @property
    def options(self) -> dict[str, Any]:
        """The settings by the names of the options of judges."""
        if self.model is None:
            return dict(self.settings)
        values = {**asdict(self.model), "ocr": self.settings["ocr"]}
        del values["deadline"]
        return {name: value for name, value in values.items() if value != ()}

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the card."""
        return tuple(Figure.from_json(figure) for figure in self.card.get("evaluation", ()))

    @property
    def evolved_on(self) -> frozenset[str]:
        """Known digests of the data that the Library was evolved on."""
        return frozenset(self.card.get("evolved_on", ()))

    @property
    def card_id(self) -> str:
        """SHA-256 over the card."""
        return content_id(dict(self.card))

    @cached_property
    def content(self) -> Json:
        """The four parts as JSON."""
        entries = {
            entry.name: {"id": entry.entry_id, "kind": entry.kind, "files": entry_files(entry)}
            for entry in self.library.entries
        }
        judge: Json = {name: getattr(self, name) for name in ("protocol", "revision", "model_revision", "router")}
        judge |= {"name": self.judge} | ({"calibration": self.calibration.to_json()} if self.calibration else {})
        library = {"id": self.library.id, "entries": entries}
        return {"judge": judge, "settings": dict(self.settings), "code": dict(self.code), "library": library}

    @cached_property
    def parts(self) -> dict[str, str]:
        """Hash by part."""
        return {name: content_id(part) for name, part in self.content.items()}

    @cached_property
    def id(self) -> str:
        """SHA-256 over everything that scores depend on, without the card."""
        return content_id(self.parts)

    def to_json(self) -> Json:
        """Convert to the JSON of the file."""
        head = {"format": FORMAT, "id": self.id, "parts": self.parts}
        return {**head, **self.content, "card": dict(self.card), "card_id": self.card_id}


def make_release(
    spec: str,
    library: Library,
    model: ModelJudgeConfig = ModelJudgeConfig(),
    *,
    router: str | None = None,
    calibration: ConfidenceCalibration | None = None,
    model_revision: str | None = None,
    evaluation: Iterable[Figure] = (),
    usual: ConfidenceCalibration | None = None,
) -> Release:
    """Create a release of a judge and a Library in their current state. No request is sent.

    Args:
        spec: `measured`, or a model in the form of `open_judge`; addresses may be omitted and are not stored.
        library: The Library. The card stores the digests of the data that it was evolved on.
        model: How a model judges; of the pixel-based judge only `ties`.
        router: The model that selects entries without triggers, if it is another one.
        calibration: Calibration of the confidence.
        model_revision: Revision of the weights, such as a commit on the Hub.
        evaluation: Figures for the card; see `release_card`.
        usual: Calibration that is used if none is given and it is of this judge, protocol and Library.

    Raises:
        InputError: If this judge cannot be released, or the name of its model is a location.
        ReleaseError: If a figure is of another judge or Library, or text in the Library looks like a key.
    """
    if model_revision is not None:
        _check_name(model_revision, "Give the commit of the weights, or another short name of them.")
    judge, router = judge_name(spec), judge_name(router) if router else None
    settings = {"ties": model.ties, "ocr": ocr_state(library, judge)}
    if judge == MEASURED and model.consistency:
        step = "Leave --consistency out."
        raise InputError("A release of the pixel-based judge has no weight of consistency.", next_step=step)
    if judge == MEASURED:
        router, protocol, revision = None, MEASURED, measures_revision()
    else:
        model = replace(model, temperature=float(model.temperature), sample_temperature=float(model.sample_temperature))
        named = _named_judge(judge, model)
        model, protocol, revision = named.settings, named.protocol, named.revision
        settings |= model.pinned
    figures = list(evaluation)
    card: Json = {"made_with": made_with(), "evaluation": [figure.to_json() for figure in figures]}
    card |= {"evolved_on": sorted(digests)} if (digests := data_digests(library.lineage)) else {}
    code = installed_code(judge, model, library)
    release = Release(judge, protocol, revision, settings, code, library, model_revision, router, card)
    identity = JudgeIdentity(release.judged_by, revision, protocol, library.id)
    if calibration is not None:
        calibration.check(identity)
        release = replace(release, calibration=calibration)
    else:
        known = [*([usual] if usual else []), *([shipped_calibration()] if judge == MEASURED else [])]
        release = replace(release, calibration=next((fit for fit in known if not fit.mismatch(identity)), None))
    check_figures(release)
    for entry in library.entries:
        for name, text in entry_files(entry).items():
            for leak in find_leaks(text):
                message = f"{entry.name}/{name}, line {leak.line}, holds what looks like {leak.kind}."
                raise ReleaseError(message, next_step="Take it out of the Library; releases are passed on.")
    return release


def check_figures(release: Release, reported: Collection[Figure] = ()) -> None:
    """Check that the figures of a card are of the released judge and Library.

    Args:
        release: The release.
        reported: Figures of reports; if there are any, the card must have exactly these.

    Raises:
        ReleaseError: If a figure is of another judge or Library, or card and reports differ.
    """
    for figure in release.figures:
        _check_figure(figure, release)
        if reported and figure not in reported:
            raise ReleaseError(
                f"The card's figure {figure.name!r} is not in the reports.",
                next_step="Name all reports of the card, or make a new release from them: rh release create.",
            )
    missing = next((figure.name for figure in reported if figure not in release.figures), None)
    if missing is not None or (reported and len(release.figures) != len(reported)):
        problem = f"lacks the figure {missing!r} of the reports" if missing else "repeats a figure of the reports"
        step = "The card was changed. Make a new release from the reports: rh release create."
        raise ReleaseError(f"The card {problem}.", next_step=step)


def _check_figure(figure: Figure, release: Release) -> None:
    plain = release.model and _named_judge(release.judge, replace(release.model, ties=False)).revision
    revision = figure.judge_revision if figure.judge_revision == plain else release.revision
    compared = {
        "judge": (figure.judge, release.judged_by),
        "protocol": (figure.protocol, release.protocol),
        "Library": (figure.library_id[:12], release.library.id[:12]),
        "judge's revision": (figure.judge_revision, revision),
    }
    for what, (theirs, ours) in compared.items():
        if theirs != ours:
            message = f"The figure {figure.name!r} is of another {what}: {theirs!r}, and the release is of {ours!r}."
            raise ReleaseError(message, next_step="Name a report of exactly what is released.")


def judge_name(spec: str) -> str:
    """Return kind and name of a judge without its addresses.

    Raises:
        InputError: If the judge cannot be released, or its name is a location on a machine.
    """
    if spec == MEASURED:
        return MEASURED
    if (profile := profile_of(spec)) is not None and profile[0] in shipped_profiles():
        return f"{profile[0]}:{judge_name(profile[1]).removeprefix('vllm:')}"
    kind, _, rest = spec.partition(":")
    if kind not in MODELS:
        raise InputError(
            f"{spec.split('://')[0][:100]!r} cannot be released.",
            next_step=f"A release pins {MEASURED}, or a model: {', '.join(f'{scheme}:NAME' for scheme in MODELS[:3])}.",
        )
    name = Path(rest).name if kind == "scripted" else re.split(r"@https?://", rest)[0]
    _check_name(name, "Serve the model under a name (vLLM: --served-model-name) and release that.")
    return f"{kind}:{name}"


def _named_judge(judge: str, config: ModelJudgeConfig) -> SubAgent:
    """Return the judge of a name, which is only named and never asked."""
    model = ScriptedModel([], id=judge)
    if (named := profile_of(judge)) is None:
        return SubAgent(model, config)
    profile, _ = load_profile(named[0])
    return ProfileJudge(model, settings_of(profile, config), profile=profile, texts={})


def _check_name(name: str, next_step: str) -> None:
    """Check that a text is a name, and not a location on a machine."""
    if not name.strip() or len(name) > 200 or _PLACE.search(name):
        excerpt = name.split("://")[0][:100]
        raise InputError(f"{excerpt!r} is a place, or no name at all.", next_step=next_step)


def made_with() -> dict[str, str]:
    """Return the installed versions of the packages that compute scores."""
    versions = {PACKAGE: __version__, "python": platform.python_version()}
    for name in MAY_MATTER:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def installed_code(judge: str, config: ModelJudgeConfig, library: Library) -> dict[str, str]:
    """Return content ids of the code and prompts of this installation that the scores of a judge depend on."""
    prompts = [] if judge == MEASURED else config.prompts
    return code_revisions(prompts, config.prompt_language, named_measures(library, judge))


def ocr_state(library: Library, judge: str) -> bool | None:
    """Return whether OCR is available; None if no entry of the Library needs it."""
    return ocr_available() if named_measures(library, judge) & _READ_TEXT else None


def named_measures(library: Library, judge: str) -> set[str]:
    """Return the measures that a judge may use with a Library."""
    rubrics = [skill.rubric for skill in library.skills if skill.rubric and judge == MEASURED]
    named = [tool.measure for tool in library.tools]
    named += [criterion.measure for rubric in rubrics for criterion in rubric.criteria]
    return {name for name in named if name is not None}


def check_installed(release: Release) -> None:
    """Check that this installation reproduces the scores of a release. No request is sent.

    Raises:
        ReleaseError: If it does not; the message names the difference.
    """
    here = installed_code(release.judge, release.model or ModelJudgeConfig(), release.library)
    differing = sorted(name for name in {*here, *release.code} if here.get(name) != release.code.get(name))
    made = release.card.get("made_with", {}).get(PACKAGE, "unknown")
    if differing:
        raise ReleaseError(
            f"Release {release.id[:12]} was made with other code (version {made}, here {__version__}): "
            f"{', '.join(differing)} differ.",
            next_step=shell("Use that code: pip install {}", f"{PACKAGE}=={made}")
            + "; or make a new release: rh release create.",
        )
    ocr = ocr_state(release.library, release.judge)
    if ocr != release.settings["ocr"]:
        has, step = ("none", "Install it") if not ocr else ("one", "Use an environment without it")
        raise ReleaseError(
            f"Release {release.id[:12]} was made {'without' if ocr else 'with'} OCR, and here is {has}.",
            next_step=f'{step} ("{PACKAGE}[ocr]"), or make a new release: rh release create.',
        )
    for remark in remarks(release):
        log.info("release %s: %s", release.id[:12], remark)


def remarks(release: Release) -> list[str]:
    """Return packages whose versions differ from the release, which may change the last digits of measurements."""
    before, here = release.card.get("made_with", {}), made_with()
    names = [name for name in MAY_MATTER if before.get(name) != here.get(name)]
    return [f"made with {name} {before.get(name, '(none)')}, here is {here.get(name, '(none)')}" for name in names]

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

import platform
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rewardharness import __version__
from rewardharness.errors import InputError, ReleaseError
from rewardharness.files import content_id
from rewardharness.judging.calibration import ConfidenceCalibration, shipped_calibration
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.measured import NAME
from rewardharness.judging.opening import MEASURED, JudgeOptions
from rewardharness.judging.release_card import Figure
from rewardharness.judging.revision import code_revisions, measures_revision
from rewardharness.judging.subagent import SubAgent
from rewardharness.judging.subagent_settings import SubAgentSettings
from rewardharness.leaks import find_leaks
from rewardharness.library.entry import entry_files
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.measure.text import ocr_available
from rewardharness.models.open import SERVICES
from rewardharness.models.scripted import ScriptedModel
from rewardharness.schema import Json

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
    """`ties` and `ocr`; for a model also `SubAgentSettings.pinned`."""
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
        return NAME if self.judge == MEASURED else self.judge

    @property
    def how(self) -> SubAgentSettings | None:
        """Settings of the model; None for the pixel-based judge."""
        if self.judge == MEASURED:
            return None
        return SubAgentSettings(**{name: value for name, value in self.settings.items() if name != "ocr"})

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the card."""
        return tuple(Figure.from_json(each) for each in self.card.get("evaluation", ()))

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
            each.name: {"id": each.entry_id, "kind": each.kind, "files": entry_files(each)}
            for each in self.library.entries
        }
        return {
            "judge": {
                "name": self.judge,
                "protocol": self.protocol,
                "revision": self.revision,
                "model_revision": self.model_revision,
                "router": self.router,
                **({} if self.calibration is None else {"calibration": self.calibration.to_json()}),
            },
            "settings": dict(self.settings),
            "code": dict(self.code),
            "library": {"id": self.library.id, "entries": entries},
        }

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
    options: JudgeOptions = JudgeOptions(),
    *,
    model_revision: str | None = None,
    evaluation: Iterable[Figure] = (),
    usual: ConfidenceCalibration | None = None,
) -> Release:
    """Create a release of a judge and a Library in their current state. No request is sent.

    Args:
        spec: `measured`, or a model in the form of `open_judge`; addresses may be omitted and are not stored.
        library: The Library. The card stores the digests of the data that it was evolved on.
        options: Settings of the judge.
        model_revision: Revision of the weights, such as a commit on the Hub.
        evaluation: Figures for the card; see `release_card`.
        usual: Calibration that is used if `options` has none and it is of this judge, protocol and Library.

    Raises:
        InputError: If this judge cannot be released, or the name of its model is a location.
        ReleaseError: If a figure is of another judge or Library, or text in the Library looks like a key.
    """
    if model_revision is not None:
        _check_name(model_revision, "Give the commit of the weights, or another short name of them.")
    judge, router = judge_name(spec), judge_name(options.router) if options.router else None
    if judge == MEASURED:
        router = None
    settings = {"ties": options.ties, "ocr": ocr_state(library, judge)}
    protocol, revision = MEASURED, measures_revision()
    if judge != MEASURED:
        how = replace(options.subagent, ties=options.ties)
        how = replace(how, temperature=float(how.temperature), sample_temperature=float(how.sample_temperature))
        protocol, revision = how.name, _revision(judge, how)
        settings |= how.pinned
    figures = list(evaluation)
    card: Json = {"made_with": made_with(), "evaluation": [each.to_json() for each in figures]}
    card |= {"evolved_on": sorted(digests)} if (digests := data_digests(library.lineage)) else {}
    how = options.subagent
    code = code_revisions(prompts_of(judge, router, how), how.language, named_measures(library, judge))
    release = Release(judge, protocol, revision, settings, code, library, model_revision, router, card)
    identity = JudgeIdentity(release.judged_by, revision, protocol, library.id)
    if options.calibration is not None:
        options.calibration.check(identity)
        release = replace(release, calibration=options.calibration)
    else:
        known = [*([usual] if usual else []), *([shipped_calibration()] if judge == MEASURED else [])]
        release = replace(release, calibration=next((each for each in known if not each.mismatch(identity)), None))
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
    compared = {
        "judge": (figure.judge, release.judged_by),
        "protocol": (figure.protocol, release.protocol),
        "Library": (figure.library_id[:12], release.library.id[:12]),
        "judge's revision": (figure.judge_revision, release.revision),
    }
    if release.how is not None and figure.judge_revision == _revision(release.judge, replace(release.how, ties=False)):
        del compared["judge's revision"]
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
    kind, _, rest = spec.partition(":")
    if kind not in MODELS:
        raise InputError(
            f"{spec.split('://')[0][:100]!r} cannot be released.",
            next_step=f"A release pins {MEASURED}, or a model: {', '.join(f'{each}:NAME' for each in MODELS[:3])}.",
        )
    name = Path(rest).name if kind == "scripted" else re.split(r"@https?://", rest)[0]
    _check_name(name, "Serve the model under a name (vLLM: --served-model-name) and release that.")
    return f"{kind}:{name}"


def _revision(judge: str, how: SubAgentSettings) -> str:
    return SubAgent(ScriptedModel([], id=judge), how).revision  # only named, never called


def _check_name(name: str, next_step: str) -> None:
    """Check that a text is a name, and not a location on a machine."""
    if not name.strip() or len(name) > 200 or _PLACE.search(name):
        shown = name.split("://")[0][:100]
        raise InputError(f"{shown!r} is a place, or no name at all.", next_step=next_step)


def made_with() -> dict[str, str]:
    """Return the installed versions of the packages that compute scores."""
    found = {PACKAGE: __version__, "python": platform.python_version()}
    for name in MAY_MATTER:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def prompts_of(judge: str, router: str | None, how: SubAgentSettings) -> list[str]:
    """Return the prompts that a judge and its router may send to a model."""
    return [] if judge == MEASURED else [*how.prompts, *(["route"] if router else [])]


def ocr_state(library: Library, judge: str) -> bool | None:
    """Return whether OCR is available; None if no entry of the Library needs it."""
    return ocr_available() if named_measures(library, judge) & _READ_TEXT else None


def named_measures(library: Library, judge: str) -> set[str]:
    """Return the measures that a judge may use with a Library."""
    named = {each.measure for each in library.tools}
    if judge == MEASURED:
        named |= {each.measure for skill in library.skills if skill.rubric for each in skill.rubric.criteria}
    return {name for name in named if name is not None}

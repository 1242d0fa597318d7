"""A release: one self-contained file that pins everything a score hangs on, under a hash of exactly that.

    {"format": 1,
     "id":       hash of `parts`: the same id gives the same scores,
     "parts":    the hash of each of the four that follow,
     "judge":    {"name", "protocol", "revision", "model_revision", "router"},
     "settings": how it is asked and how answers are put together: orders, samples, ties, decoding, pixels, OCR,
     "code":     content ids of the code and of each prompt,
     "library":  {"id", "entries": {name: {"id", "kind", "files": {file name: text}}}},
     "card":     what is told of it and changes no score: the versions it was made with, evaluations, and where that is
                 known `evolved_on`: digests of the data that its Library was evolved on,
     "card_id":  hash of `card`; whoever changes the card can make it anew, so it proves nothing of the figures}

It names a model, never a place: no address, key, path or host. Where the model is served is said by whoever opens it.
"""

import platform
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rewardharness import __version__
from rewardharness.errors import InputError, ReleaseError
from rewardharness.files import content_id
from rewardharness.judging.measured import NAME
from rewardharness.judging.opening import MEASURED, JudgeOptions
from rewardharness.judging.release_card import Figure
from rewardharness.judging.revision import code_revisions, measures_revision
from rewardharness.judging.subagent import PROMPTS, SubAgent, SubAgentSettings
from rewardharness.leaks import find_leaks
from rewardharness.library.entry import entry_files
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.measure.text import ocr_available
from rewardharness.models.scripted import ScriptedModel
from rewardharness.schema import Json

FORMAT = 1
"""Version of the file's form."""

MODELS = ("vllm", "openai", "gemini", "scripted")
"""Kinds of models that can be pinned."""

PACKAGE = "reward-harness-library"
MAY_MATTER = ("numpy", "opencv-python-headless", "pillow", "rapidocr", "onnxruntime")
"""Packages of which another version may move the last digits of what is measured."""

_READ_TEXT = frozenset({"text_match", "unasked_text"})
"""Measures that say something else where OCR is installed."""

_PLACE = re.compile(r"://|^[/~.\\]|^[A-Za-z]:[\\/]|[\x00-\x1f\x7f]")
"""What makes a name a place on one machine, or no name at all."""


@dataclass(frozen=True)
class Release:
    """Everything that a score hangs on. Equal ids mean equal scores, as far as the model itself answers alike."""

    judge: str
    """`measured`, or kind and name of a model, as in `vllm:Qwen/Qwen2.5-VL-7B-Instruct`."""
    protocol: str
    """As in `Judgment.protocol`, of a pair."""
    revision: str
    """As in `Judge.revision`."""
    settings: Mapping[str, Any] = field(repr=False)
    """`ties` and `ocr`; of a model everything in `SubAgentSettings` but the deadline."""
    code: Mapping[str, str] = field(repr=False)
    """Content ids of the code and of each prompt, by what they are."""
    library: Library = field(repr=False)
    model_revision: str | None = None
    """The weights, in the words of whoever made the release; a server does not tell, so it cannot be checked."""
    router: str | None = None
    """Kind and name of the model that decides on entries without triggers."""
    card: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """`made_with`: versions of packages; `evaluation`: figures as JSON; `evolved_on`: digests. No score hangs on it."""

    @property
    def judged_by(self) -> str:
        """The judge, as in `Judgment.judge`."""
        return NAME if self.judge == MEASURED else self.judge

    @property
    def how(self) -> SubAgentSettings | None:
        """How the model is asked; None for the measured judge."""
        if self.judge == MEASURED:
            return None
        return SubAgentSettings(**{name: value for name, value in self.settings.items() if name != "ocr"})

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the card."""
        return tuple(Figure.from_json(each) for each in self.card.get("evaluation", ()))

    @property
    def evolved_on(self) -> frozenset[str]:
        """Digests of the data that the Library was evolved on, as far as they were known: its lineage stays behind."""
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
            },
            "settings": dict(self.settings),
            "code": dict(self.code),
            "library": {"id": self.library.id, "entries": entries},
        }

    @cached_property
    def parts(self) -> dict[str, str]:
        """The hash of each part."""
        return {name: content_id(part) for name, part in self.content.items()}

    @cached_property
    def id(self) -> str:
        """SHA-256 over everything that a score hangs on. The card does not count."""
        return content_id(self.parts)

    def to_json(self) -> Json:
        """Put it into the JSON of its file."""
        head = {"format": FORMAT, "id": self.id, "parts": self.parts}
        return {**head, **self.content, "card": dict(self.card), "card_id": self.card_id}


def make_release(
    spec: str,
    library: Library,
    options: JudgeOptions = JudgeOptions(),
    *,
    model_revision: str | None = None,
    evaluation: Iterable[Figure] = (),
) -> Release:
    """Pin a judge and a Library as they are now. Nothing is asked.

    Args:
        spec: `measured`, or a model as `open_judge` spells it; addresses may be left out and are never kept.
        library: What it knows. Of its lineage the card keeps which data it was evolved on, by digest, and nothing else.
        options: How it judges.
        model_revision: The weights, such as a commit of the Hub.
        evaluation: Figures for the card; see `release_card`.

    Raises:
        InputError: If this is no judge that can be pinned, or its model's name is a place.
        ReleaseError: If a figure is of something else, or something in the Library looks like a key.
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
        settings |= {each.name: getattr(how, each.name) for each in fields(how) if each.name != "deadline"}
    figures = list(evaluation)
    card: Json = {"made_with": made_with(), "evaluation": [each.to_json() for each in figures]}
    card |= {"evolved_on": sorted(digests)} if (digests := data_digests(library.lineage)) else {}
    code = code_revisions(prompts_of(judge, router))
    release = Release(judge, protocol, revision, settings, code, library, model_revision, router, card)
    check_figures(release)
    for entry in library.entries:
        for name, text in entry_files(entry).items():
            for leak in find_leaks(text):
                message = f"{entry.name}/{name}, line {leak.line}, holds what looks like {leak.kind}."
                raise ReleaseError(message, next_step="Take it out of the Library; releases are passed on.")
    return release


def check_figures(release: Release, reported: Collection[Figure] = ()) -> None:
    """Make sure that the figures of a card are of the very thing that is released.

    Args:
        release: The release.
        reported: Where there are any, each figure has to be one of these.

    Raises:
        ReleaseError: If a figure is of something else, or is not among those that were reported.
    """
    for figure in release.figures:
        _check_figure(figure, release)
        if reported and figure not in reported:
            raise ReleaseError(
                f"The card's figure {figure.name!r} is not in the reports.",
                next_step="Name all reports that the card was made with, or make a new release from them: rh release.",
            )


def _check_figure(figure: Figure, release: Release) -> None:
    told = {
        "judge": (figure.judge, release.judged_by),
        "protocol": (figure.protocol, release.protocol),
        "Library": (figure.library_id[:12], release.library.id[:12]),
        "judge's revision": (figure.judge_revision, release.revision),
    }
    if release.how is not None and figure.judge_revision == _revision(release.judge, replace(release.how, ties=False)):
        del told["judge's revision"]
    for what, (theirs, ours) in told.items():
        if theirs != ours:
            message = f"The figure {figure.name!r} is of another {what}: {theirs!r}, and the release is of {ours!r}."
            raise ReleaseError(message, next_step="Name a report of exactly what is released.")


def judge_name(spec: str) -> str:
    """Return kind and name of the judge in a spelling, without its addresses.

    Raises:
        InputError: If it is no judge that can be pinned, or its name is a place on one machine.
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
    return SubAgent(ScriptedModel([], id=judge), how).revision  # a model that is named and never asked


def _check_name(name: str, next_step: str) -> None:
    """Make sure that a text names something wherever it is read, and no place on one machine."""
    if not name.strip() or len(name) > 200 or _PLACE.search(name):
        shown = name.split("://")[0][:100]
        raise InputError(f"{shown!r} is a place, or no name at all.", next_step=next_step)


def made_with() -> dict[str, str]:
    """Return the versions of what makes scores here."""
    found = {PACKAGE: __version__, "python": platform.python_version()}
    for name in MAY_MATTER:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def prompts_of(judge: str, router: str | None) -> list[str]:
    """Name the prompts that a judge and its router can show to a model."""
    return [] if judge == MEASURED else [*PROMPTS, *(["route"] if router else [])]


def ocr_state(library: Library, judge: str) -> bool | None:
    """Say whether text in images is read here; None where no entry of the Library asks for that."""
    named = {each.measure for each in library.tools}
    if judge == MEASURED:
        named |= {each.measure for skill in library.skills if skill.rubric for each in skill.rubric.criteria}
    return ocr_available() if named & _READ_TEXT else None

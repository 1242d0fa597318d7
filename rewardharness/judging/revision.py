"""Content ids of the code that scores depend on, so that stored results of different revisions are never mixed."""

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from rewardharness.files import content_id, sha256
from rewardharness.measure.learned import identities
from rewardharness.measure.text import ocr_available
from rewardharness.prompts import Language, in_language, version

_PACKAGE = Path(__file__).parent.parent

_CODE = {
    "entries": ("library/entry", "library/rubric", "library/triggers", "library/yamlsafe"),
    "images": ("measure/encoded", "measure/images"),
    "judging": tuple(
        f"judging/{name}"
        for name in (
            "answers chain context conversation evidence interface llm_router model_config presentation protocols "
            "subagent tools"
        ).split()
    ),
    "models": tuple(f"models/{name}" for name in "gemini openai_compatible replies wire".split()),
}
"""Modules that scores depend on, besides those of the measures, by function."""


def measures_revision(names: Iterable[str] = ()) -> str:
    """Return a content id over the sources of the measures and of what turns them into a judgment.

    Args:
        names: Measures that are used; the encoders of learned ones belong to the revision.
    """
    learned = identities(names)
    return content_id([_measures_code(), learned]) if learned else _measures_code()


@cache
def _measures_code() -> str:
    sources = [*(_PACKAGE / "measure").glob("*.py")]
    sources += [
        _PACKAGE / "judging" / f"{name}.py"
        for name in (
            "appeals captions criteria edit_kinds groups instruction measured measured_example readings "
            "requested_texts router sameness"
        ).split()
    ]
    return _id_of(sources)


def machine_revision(revision: str) -> str:
    """Return a content id of the revision of a judge and of what its judgments depend on in this installation."""
    return content_id([revision, ocr_available()])


def code_revisions(
    prompts: Collection[str] = (), language: Language = "en", measures: Iterable[str] = ()
) -> dict[str, str]:
    """Return content ids of all code of this package that scores depend on, by function.

    Args:
        prompts: Prompts that the model may receive; without any, code that only serves models is omitted.
        language: Their language.
        measures: Measures that the Library names.
    """
    wanted = ("entries", *(["images", "judging", "models"] if prompts else []))
    revisions = {name: _id_of(_PACKAGE / f"{module}.py" for module in _CODE[name]) for name in wanted}
    revisions["measures"] = measures_revision(measures)
    with in_language(language):
        return revisions | {f"prompt {name}": version(name) for name in sorted(prompts)}


def _id_of(sources: Iterable[Path]) -> str:
    return content_id([[file.name, sha256(file.read_bytes())] for file in sorted(sources)])

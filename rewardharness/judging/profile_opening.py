"""Opening of judge profiles: those of this package by name, others from a YAML file."""

from functools import lru_cache
from importlib.resources import files as resources
from pathlib import Path

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import InputError, LibraryError
from rewardharness.files import read_text, user_path
from rewardharness.judging.profile import NOTE, Profile
from rewardharness.judging.profile_scores import check_score
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.views import DIMENSIONS

SUFFIX = ".yaml"
MAX_BYTES = 200_000
"""Maximum size of the file of a profile."""


def _check(profile: Profile) -> None:
    """Check that the pieces of a profile fit.

    Raises:
        ValueError: If they do not; says where.
    """
    read = [name for call in profile.calls.values() for name in call.reply.values]
    shared = {name for name in read if read.count(name) > 1}
    always = {name for call in profile.calls.values() if not call.conditional for name in call.reply.values}
    if not read or set(read) != set(profile.values) or shared & always:
        raise ValueError("values: each must be read by exactly one call, or by several with conditions")
    shown = {"single": {"source", "candidate", "reference"}, "pair": {"source", "a", "b"}}[profile.mode]
    for name, call in profile.calls.items():
        for part in (*call.system, *call.user):
            for text in part.uses:
                if text not in profile.texts:
                    raise ValueError(f"calls.{name}: there is no text {text!r}")
            slots = [slot for slot in part.slots.values() if not slot.startswith(NOTE)]
            images = {part.image, *(each for slot in slots for each in slot.split())}
            if wrong := images - shown - {"", "instruction"}:
                raise ValueError(f"calls.{name}: no {wrong.pop()} in the mode {profile.mode}")
    if profile.score is None:
        raise ValueError("score: missing")
    for place in ("score", *DIMENSIONS):
        if (node := getattr(profile, place)) is not None:
            check_score(node, set(profile.values), place)
    if not profile.range[0] < profile.range[1]:
        raise ValueError("range: the first number must be less than the second")
    asked = {name: call.reply.tokens is not None for name, call in profile.calls.items()}
    for check in profile.check:
        given = {**dict.fromkeys(check.replies, False), **dict.fromkeys(check.tokens, True)}
        left = set(asked) - set(given)
        if not given.items() <= asked.items() or not all(profile.calls[name].conditional for name in left):
            raise ValueError("check: each call needs a reply, or tokens if it reads them")


def read_profile(text: str, where: str) -> Profile:
    """Read a profile.

    Args:
        text: The YAML.
        where: Its name for messages.

    Raises:
        InputError: If it is no valid profile.
    """
    step = "See the format in docs/reference/profiles.md."
    try:
        profile = from_json(Profile, read_yaml(text, where=where).value)
        _check(profile)
    except LibraryError as error:
        raise InputError(error.message, next_step=error.next_step or step) from None
    except ValidationError as error:
        raise InputError(f"{where}: {error.message}.", next_step=step) from None
    except ValueError as error:
        raise InputError(f"{where}: {error}.", next_step=step) from None
    return profile


@lru_cache(maxsize=1)
def shipped_profiles() -> tuple[str, ...]:
    """Return the names of the profiles of this package, in alphabetical order."""
    folder = resources("rewardharness.judging").joinpath("profiles")
    return tuple(sorted(each.name.removesuffix(SUFFIX) for each in folder.iterdir() if each.name.endswith(SUFFIX)))


@lru_cache(maxsize=32)
def _shipped(name: str) -> Profile:
    text = resources("rewardharness.judging").joinpath("profiles", name + SUFFIX).read_text(encoding="utf-8")
    return read_profile(text, name)


def load_profile(spec: str) -> tuple[Profile, Path | None]:
    """Load a profile of this package by its name, or one in a file.

    Returns:
        The profile, and the folder of its file; None for one of this package.

    Raises:
        InputError: If there is none, or it is invalid.
    """
    if spec in shipped_profiles():
        return _shipped(spec), None
    if not spec.endswith(SUFFIX):
        step = f"Choose one of: {', '.join(shipped_profiles())}; or name a file that ends in {SUFFIX}."
        raise InputError(f"There is no judge profile {spec[:100]!r}.", next_step=step)
    path = user_path(spec)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{spec} is too large for a judge profile.", next_step=f"At most {MAX_BYTES:,} bytes.")
        return read_profile(read_text(path), path.name), path.parent
    except OSError as error:
        raise InputError(f"{spec} cannot be read: {error.strerror}.", next_step="Check the path.") from None


def profile_of(spec: str) -> tuple[str, str] | None:
    """Split the specification of a judge into its profile and model; None if it names no profile.

    `editscore:NAME@URL` is the profile `editscore` of the model `vllm:NAME@URL`, `viescore:openai:gpt-4.1` names
    another kind of model, and `./mine.yaml:NAME@URL` is a profile in a file.
    """
    place, colon, model = spec.partition(f"{SUFFIX}:")
    name = place + SUFFIX if colon else ""
    if not colon:
        name, _, model = spec.partition(":")
        if name not in shipped_profiles():
            return None
    kinds = ("vllm:", "openai:", "hf:", "openrouter:", "gemini:", "scripted:")
    return name, model if model.startswith(kinds) else f"vllm:{model}"

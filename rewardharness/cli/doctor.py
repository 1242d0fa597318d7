"""`rh doctor`: what is installed, configured and reachable, with the next step for what is not. `rh cache`: answers."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app, within
from rewardharness.cli.library import entry_counts
from rewardharness.errors import HarnessError, InputError, MissingPackageError, describe
from rewardharness.ranges import Range
from rewardharness.settings import SERVICE_KEYS, Settings

if TYPE_CHECKING:
    from rewardharness.judging.cache import JudgmentCache
    from rewardharness.models.probe import Probe

ROOMY = 16384
"""Tokens in which four large candidates, a Library and a chain of thought fit."""

PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("numpy", "", "measurements"),
    ("opencv-python-headless", "", "measurements"),
    ("pillow", "", "reading images"),
    ("PyYAML", "", "reading Libraries"),
    ("gradio", "app", "the web app"),
    ("scikit-image", "app", "demo data and the app's examples"),
    ("rapidocr", "ocr", "reading text in images"),
    ("onnxruntime", "ocr", "reading text in images"),
    ("tokenizers", "learned", "learned measures"),
)
"""Package, extra that installs it (empty: always), and what it is for."""


@dataclass(frozen=True)
class InstallationCheck:
    """One line of the report."""

    name: str
    status: Literal["ok", "missing", "problem"]
    detail: str
    next_step: str = ""

    @classmethod
    def of(cls, name: str, error: HarnessError) -> Self:
        """Return the line of an error."""
        description = describe(error)
        return cls(name, "problem", description.detail, description.next_step)


app = make_app("doctor", "Check the installation and endpoints.")
cache_app = make_app("cache", "Show or clear cached answers of models, and edits.")
apps = {"doctor": app, "cache": cache_app}


@app.default
def doctor(*, judge: str | None = None, download: bool = False, json: bool = False) -> int:
    """Check what is installed, configured and reachable, and show the next step for what is not.

    Example: `rh doctor --judge vllm:qwen@http://127.0.0.1:8000/v1`

    Args:
        judge: Also query this judge, with a few small requests.
        download: Download the encoders of learned measures that RH_LEARNED_TEXT and RH_LEARNED_IMAGE name.
        json: Print one JSON object.
    """
    settings = Settings.from_env()
    checks = [InstallationCheck("python", "ok", ".".join(map(str, sys.version_info[:3])))]
    checks += [*_packages(), *_home(settings), *_library(settings), *_encoders(download)]
    checks += [] if settings.space else _local_servers()
    if judge is not None:
        checks += _judge(judge, settings)
    broken = [check for check in checks if check.status == "problem"]
    if json:
        output.emit({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        marks = {"ok": "ok", "missing": "-", "problem": "PROBLEM"}
        output.table(("check", "status", "detail"), [(row.name, marks[row.status], row.detail) for row in checks])
        for check in checks:
            if check.next_step:
                output.say(f"{check.name}: {check.next_step}")
        ready = judge or "the pixel-based judge needs no key, GPU or download"
        output.say("There are problems; see above." if broken else f"Ready: {ready}.")
    return 1 if broken else 0


def _packages() -> Iterator[InstallationCheck]:
    from importlib.metadata import PackageNotFoundError, version

    for package, extra, purpose in PACKAGES:
        try:
            yield InstallationCheck(package, "ok", f"{version(package)}, for {purpose}")
        except PackageNotFoundError:
            error = MissingPackageError(package, extra, purpose)
            next_step = error.next_step if extra else "Reinstall this project in a clone with: pip install -e ."
            yield InstallationCheck(
                package, "missing" if extra else "problem", f"not installed, for {purpose}", next_step
            )


def _home(settings: Settings) -> Iterator[InstallationCheck]:
    from rewardharness.files import write_text

    probe = settings.home / ".doctor"
    try:
        write_text(probe, "ok\n")
        probe.unlink()
        yield InstallationCheck("state folder", "ok", str(settings.home))
    except OSError as error:
        step = "Set RH_HOME to a folder you may write to."
        yield InstallationCheck("state folder", "problem", f"{settings.home}: {error.strerror}", step)


def _library(settings: Settings) -> Iterator[InstallationCheck]:
    from rewardharness.library.opening import open_library

    try:
        library = open_library(settings.library)
        yield InstallationCheck("library", "ok", f"{settings.library}: {entry_counts(library)}, id {library.id[:12]}")
    except HarnessError as error:
        yield InstallationCheck.of("library", error)


def _encoders(download: bool) -> Iterator[InstallationCheck]:
    """Report whether the encoders of learned measures are named and on this machine."""
    from rewardharness.measure.encoders import DEFAULTS, VARIABLES, encoder, missing_package, named_encoder
    from rewardharness.measure.learned import ROLES

    for role, variable in VARIABLES.items():
        purpose = "for " + ", ".join(name for name, needed in ROLES.items() if needed == role)
        try:
            files = named_encoder(role)
            if files is None:
                step = f"{variable}=default names an encoder of {DEFAULTS[role][1]}." if role in DEFAULTS else ""
                yield InstallationCheck(variable, "missing", f"not set, {purpose} (optional)", step)
            elif package := missing_package():
                raise MissingPackageError(package, "learned", "learned measures")
            elif download or files.folder is not None or files.local():
                encoder(role)
                yield InstallationCheck(variable, "ok", f"{files.repo or files.folder}, {purpose}")
            else:
                step = "The first use downloads it; to do so now: rh doctor --download"
                yield InstallationCheck(variable, "missing", f"{files.repo}: not downloaded, {purpose}", step)
        except HarnessError as error:
            yield InstallationCheck.of(variable, error)


def _local_servers() -> Iterator[InstallationCheck]:
    """Report the model servers on this computer, and how to judge with them."""
    from rewardharness.errors import shown
    from rewardharness.models.probe import PORTS, find_local_servers

    servers = find_local_servers()
    if not servers:
        usual = ", ".join(f"{name} ({port})" for name, port in PORTS.items())
        yield InstallationCheck("local servers", "missing", f"none on the usual ports: {usual} (optional)")
    vision = {True: "accepts images", False: "no images: cannot judge edits", None: "does not say if it accepts images"}
    for server in servers:
        names = [f"{shown(model.name)} ({vision[model.images]})" for model in server.models]
        seeing = next((shown(model.name) for model in server.models if model.images is not False), None)
        step = f"Judge with it: --judge {server.kind}:{seeing}@{server.url}" if seeing else ""
        yield InstallationCheck(f"local server at {server.url}", "ok", ", ".join(names) or "serves no model", step)


def _judge(spec: str, settings: Settings) -> Iterator[InstallationCheck]:
    """Open a judge and query it."""
    from rewardharness.judging.opening import open_judge
    from rewardharness.judging.subagent import model_judge
    from rewardharness.models.base import Reply

    try:
        judge = open_judge(spec, settings, no_cache=True)
        agent = model_judge(judge)
        if agent is None:
            yield InstallationCheck("judge", "ok", f"{judge.name}: needs no server")
            return
        outcome = asyncio.run(agent.check())
        if isinstance(outcome, Reply):
            yield InstallationCheck("judge", "ok", f"{judge.name} answers, in {outcome.seconds:.1f} s")
            return
        yield InstallationCheck("judge", "ok", judge.name)
        if judge.name.partition(":")[0] in SERVICE_KEYS and not spec.partition("@http")[1]:
            yield InstallationCheck("key", "ok", "is set (not shown)")
        else:
            key = "is set (not shown)" if settings.api_key else "is not set; some servers need none"
            yield InstallationCheck("key", "ok", f"RH_API_KEY {key}")
        for probe in outcome:
            yield from _endpoint(probe, judge.name.partition(":")[2])
    except HarnessError as error:
        yield InstallationCheck.of("judge", error)


def _endpoint(probe: "Probe", name: str) -> Iterator[InstallationCheck]:
    """Report what an endpoint supports, and the next step for what it does not."""
    at, can = probe.endpoint, probe.capabilities
    if probe.error is not None:
        unknown = probe.error.code == "model_not_found"
        step = "Use a name that it serves, or serve this model." if unknown else probe.error.next_step
        yield InstallationCheck(at, "problem", probe.error.message, step)
    if can is None:
        return
    served = f"serves {name}" if name in can.models else f"answers as {name}, which it does not list"
    version = f", {can.fingerprint}" if can.fingerprint else ""
    yield InstallationCheck(at, "ok", f"{served}; {probe.seconds:.2f} s for some small requests{version}")
    for what, there, good, bad, step in (
        (
            "vision",
            can.vision,
            "images reach the model",
            "images are refused, or accepted and dropped: nothing can be judged",
            "Serve a vision-language model; with vLLM allow images: --limit-mm-per-prompt '{\"image\":8}'.",
        ),
        (
            "requests",
            not can.problem,
            "a request as judging sends it is accepted" + f", without {', '.join(can.refused)}" * bool(can.refused),
            can.problem,
            "See the server's message, and its limit of images in a request.",
        ),
        (
            "structured output",
            can.schema,
            f"a JSON schema is enforced{', a choice too' * bool(can.choice)}",
            "a JSON schema is refused or ignored: a reply in another form is asked for again, then not judged",
            "With vLLM, see --structured-outputs-config; `rh serve judge` prints it.",
        ),
        (
            "logprobs",
            can.logprobs,
            "log-probabilities are reported",
            "log-probabilities are not reported: --protocol logprob cannot be used",
            "Use another protocol, or a server that reports them (vLLM: --max-logprobs 20).",
        ),
        (
            "image cache",
            can.uuid,
            f"images are known by their hash{' and need be sent only once' * bool(can.send_once)}",
            "images cannot carry their hash: they are sent with every request",
            "Nothing has to be done; vLLM would save the sending.",
        ),
        (
            "length",
            can.max_model_len is None or can.max_model_len >= ROOMY,
            f"{can.max_model_len} tokens of prompt and reply"
            if can.max_model_len
            else "the server does not say how long prompt and reply may be",
            f"{can.max_model_len} tokens of prompt and reply: large images or a long chain may not fit",
            "Allow more (vLLM: --max-model-len 32768), or send smaller images: --max-pixels 1000000.",
        ),
    ):
        missing: Literal["problem", "missing"] = "problem" if what in {"vision", "requests"} else "missing"
        yield (
            InstallationCheck(f"{at} {what}", "ok", good)
            if there
            else InstallationCheck(f"{at} {what}", missing, bad, step)
        )


# ---- the cache


@contextmanager
def _cache() -> "Iterator[tuple[Path, JudgmentCache | None]]":
    """Open the cache; None if there is none, since looking must not make a file."""
    from rewardharness.judging.cache import FILE, JudgmentCache

    folder = Settings.from_env().home / "cache"
    if not (folder / FILE).exists():
        yield folder / FILE, None
        return
    cache = JudgmentCache(folder)
    try:
        yield folder / FILE, cache
    finally:
        cache.close()


def _edits() -> list[tuple[Path, os.stat_result]]:
    """Return the kept edits, the newest first."""
    from rewardharness.editors.making import cached_edits

    folder = cached_edits(Settings.from_env())
    edits = [(path, path.stat()) for path in (folder.iterdir() if folder.is_dir() else ())]
    return sorted(edits, key=lambda edit: -edit[1].st_mtime)


@cache_app.command
def stats(*, json: bool = False) -> None:
    """Show the number of cached answers per judge and of kept edits, and their sizes.

    Example: `rh cache stats`

    Args:
        json: Print one JSON object.
    """
    from rewardharness.judging.cache import CacheStats

    with _cache() as (path, cache):
        held = CacheStats(path, 0, 0, {}) if cache is None else cache.stats()
    if held.by_judge and not json:
        output.table(("judge", "answers"), [(judge, str(count)) for judge, count in sorted(held.by_judge.items())])
    edits = _edits()
    size = sum(about.st_size for _, about in edits)
    text = f"{held.judgments} answers, {held.bytes / 1e6:.1f} MB: {held.path}"
    text += f"; {output.count(len(edits), 'edit')}, {size / 1e6:.1f} MB" * bool(edits)
    output.show(json, {**vars(held), "path": str(held.path), "edits": len(edits), "edits_bytes": size}, text)


@cache_app.command
def prune(
    *,
    older_than: Annotated[float | None, within("older-than", Range(0))] = None,
    max_mb: Annotated[float | None, within("max-mb", Range(0))] = None,
) -> None:
    """Delete the oldest cached answers and edits.

    Example: `rh cache prune --older-than 30`

    Args:
        older_than: Delete what was stored more than this number of days ago.
        max_mb: Delete the oldest answers, and likewise edits, until the others take at most this number of megabytes.
    """
    if older_than is None and max_mb is None:
        raise UsageError("Missing: --older-than or --max-mb.", next_step="To delete all answers: rh cache clear")
    since = 0.0 if older_than is None else time.time() - older_than * 86_400
    with _cache() as (_, cache):
        deleted = 0 if cache is None else cache.prune(since, None if max_mb is None else int(max_mb * 1e6))
    size, edits = 0.0, 0
    for path, about in _edits():
        size += about.st_size / 1e6
        if about.st_mtime < since or (max_mb is not None and size > max_mb):
            path.unlink(missing_ok=True)
            edits += 1
    output.say(f"{output.count(deleted, 'answer')}" + f" and {output.count(edits, 'edit')}" * bool(edits) + " deleted.")


@cache_app.command
def clear(*, judge: str | None = None, json: bool = False) -> None:
    """Delete cached answers, and edits. They are requested again when they are needed.

    Example: `rh cache clear --judge "vllm:qwen"`

    Args:
        judge: Delete the answers of this judge only, by its name in `rh cache stats`, and no edits.
        json: Print one JSON object.
    """
    with _cache() as (_, cache):
        known = {} if cache is None else cache.stats().by_judge
        if cache is not None and judge is not None and judge not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InputError(f"The cache has no answers of {judge!r}.", next_step=f"Cached judges: {names}.")
        deleted = 0 if cache is None else cache.clear(judge)
    edits = _edits() if judge is None else []
    for path, _ in edits:
        path.unlink(missing_ok=True)
    text = f"{deleted} answers" + f" and {output.count(len(edits), 'edit')}" * bool(edits)
    output.show(json, {"deleted": deleted, "edits": len(edits)}, f"{text} deleted.")

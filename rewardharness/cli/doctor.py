"""`rh doctor`: what is installed, configured and reachable, with the next step for what is not."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from rewardharness.cli import output
from rewardharness.errors import HarnessError, MissingPackageError, describe
from rewardharness.settings import Settings

PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("numpy", "", "measuring"),
    ("opencv-python-headless", "", "measuring"),
    ("pillow", "", "reading images"),
    ("PyYAML", "", "reading Libraries"),
    ("gradio", "app", "the web app"),
    ("scikit-image", "app", "demo data and the app's examples"),
    ("rapidocr", "ocr", "reading text in images"),
    ("onnxruntime", "ocr", "reading text in images"),
)
"""Package, extra that installs it (empty: always), and what it is for."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    status: Literal["ok", "missing", "problem"]
    detail: str
    next_step: str = ""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("doctor", help="check the installation", description=doctor.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=doctor)


def doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what is installed, configured and usable, and what to do about the rest."""
    checks = [*_python(), *_packages(), *_home(settings), *_library(settings)]
    broken = [check for check in checks if check.status == "problem"]
    if arguments.json:
        output.emit({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        marks = {"ok": "ok", "missing": "-", "problem": "PROBLEM"}
        output.table(("check", "status", "detail"), [(each.name, marks[each.status], each.detail) for each in checks])
        for check in checks:
            if check.next_step:
                output.say(f"{check.name}: {check.next_step}")
        output.say("Something needs mending." if broken else "Ready: the measured judge needs no key, GPU or download.")
    return 1 if broken else 0


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", "ok", version)


def _packages() -> Iterator[Check]:
    from importlib.metadata import PackageNotFoundError, version

    for package, extra, purpose in PACKAGES:
        try:
            yield Check(package, "ok", f"{version(package)}, for {purpose}")
        except PackageNotFoundError:
            error = MissingPackageError(package, extra, purpose)
            next_step = error.next_step if extra else "Reinstall this project: pip install reward-harness-library"
            yield Check(package, "missing" if extra else "problem", f"not installed, for {purpose}", next_step)


def _home(settings: Settings) -> Iterator[Check]:
    from rewardharness.files import write_text

    probe = settings.home / ".doctor"
    try:
        write_text(probe, "ok\n")
        probe.unlink()
        yield Check("state folder", "ok", str(settings.home))
    except OSError as error:
        yield Check(
            "state folder", "problem", f"{settings.home}: {error.strerror}", "Set RH_HOME to a folder you may write to."
        )


def _library(settings: Settings) -> Iterator[Check]:
    from rewardharness.library.store import open_library

    try:
        library = open_library(settings.library)
    except HarnessError as error:
        words = describe(error)
        yield Check("library", "problem", words.detail, words.next_step)
        return
    detail = f"{settings.library}: {len(library.skills)} Skills, {len(library.tools)} Tools, id {library.id[:12]}"
    yield Check("library", "ok", detail)

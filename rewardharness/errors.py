"""The errors of RewardHarness: one tree, each with a next step.

Every error that a user can cause or meet is a `HarnessError`. Its message names the thing and the problem;
`next_step` says what to do about it. The command line, the app and the server all show errors through
`describe`, so one wording serves all three.

    HarnessError
    ├── InputError            an argument or a combination of arguments that cannot work
    │   ├── ImageError        a file that is not a usable image
    │   └── DataError         a dataset, row or label that cannot be read
    ├── LibraryError          a Library or entry that breaks the format
    ├── ReleaseError          a reward release that was changed, or that cannot be kept to here
    ├── JudgmentError         an edit that was not judged, raised on request
    ├── RunError              a run folder that cannot be used
    ├── SettingsError         an environment variable with an unusable value
    └── MissingPackageError   an optional package that is not installed
"""

import shlex
from dataclasses import dataclass


def shell(text: str, *values: object) -> str:
    """Return a command to paste into a shell.

    Args:
        text: The command; each `{}` stands for a value.
        values: The values, which are quoted; a list or tuple is several words.
    """
    groups = (value if isinstance(value, list | tuple) else [value] for value in values)
    return text.format(*(shlex.join(map(str, group)) for group in groups))


class HarnessError(Exception):
    """Base of all errors that are shown to a user.

    Args:
        message: One sentence that names the thing and the problem.
        next_step: One sentence that says what to do; empty when nothing sensible can be said.
    """

    title = "Something went wrong"

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}".rstrip()


class InputError(HarnessError):
    """An argument, or a combination of arguments, that cannot work."""

    title = "This input cannot be used"


class ImageError(InputError):
    """A file that is not an image this project can use."""

    title = "This image cannot be used"


class DataError(InputError):
    """A dataset, a row of it or a label that cannot be read."""

    title = "This data cannot be read"


class LibraryError(HarnessError):
    """A Library or an entry of it that breaks the format."""

    title = "This Library cannot be used"


class ReleaseError(HarnessError):
    """A reward release that was changed after it was made, or that cannot be kept to here."""

    title = "This release cannot be used"


class JudgmentError(HarnessError):
    """An edit that was not judged; see `Judgment.raise_for_failure`."""

    title = "Not judged"


class RunError(HarnessError):
    """A run folder that cannot be used for the requested operation."""

    title = "This run folder cannot be used"


class SettingsError(HarnessError):
    """An environment variable with a value that cannot be used."""

    title = "A setting is wrong"


class MissingPackageError(HarnessError):
    """An optional package that is needed here and not installed.

    Args:
        package: The name of the package on the index.
        extra: The extra of this distribution that installs it.
        purpose: What it is needed for, as in "reading text in images".
    """

    title = "A package is missing"

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"The package {package!r} is not installed; it is needed for {purpose}.",
            next_step=f'Install it in a clone with: pip install -e ".[{extra}]"; once the package is published, with: '
            f'pip install "reward-harness-library[{extra}]".',
        )
        self.package = package
        self.extra = extra


@dataclass(frozen=True)
class Description:
    """An error in words for a person."""

    title: str
    """Kind of error, in a few words."""
    detail: str
    """One sentence that names the thing and the problem."""
    next_step: str
    """What to do about it; may be empty."""

    def __str__(self) -> str:
        text = f"{self.title}: {self.detail}"
        return f"{text}\n  Next: {self.next_step}" if self.next_step else text


def describe(error: BaseException) -> Description:
    """Put an error into words for a person.

    Args:
        error: Any exception. Errors from outside this project are named by type.

    Returns:
        Title, detail and next step.
    """
    if isinstance(error, HarnessError):
        return Description(error.title, error.message, error.next_step)
    if isinstance(error, PermissionError):
        return Description(
            "No permission", f"{error.filename or error}: permission denied.", "Check its owner and mode."
        )
    if isinstance(error, OSError) and error.errno == 28:
        return Description("The disk is full", str(error), "Free some space and run the same command again.")
    if isinstance(error, OSError):
        named = error.filename is not None and error.strerror is not None
        detail = f"{error.filename}: {error.strerror}." if named else str(error)
        step = "Check that the place is there, and that files can be written there." if named else ""
        return Description("A file operation failed", detail, step)
    return Description(
        "An unexpected error",
        f"{type(error).__name__}: {error}",
        "This is a defect; please report it with the command you ran (RH_DEBUG=1 shows the full traceback).",
    )


def shown(text: str, limit: int = 80) -> str:
    """Quote untrusted text for a message: one line, no control or invisible characters, shortened."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)

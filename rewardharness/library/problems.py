"""Problems of a Library, shared by the check, the loader, and the errors."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rewardharness.errors import LibraryError, shell

Severity = Literal["error", "warning", "note"]
"""`error`: invalid; `warning`: loads but probably reduces accuracy; `note`: information."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""All severities, most severe first."""


@dataclass(frozen=True)
class Problem:
    """One error, warning, or note about a Library."""

    severity: Severity
    where: str
    """File or folder, relative to the Library, with `/`; empty for the Library as a whole."""
    line: int | None
    """Line in that file, counted from 1; None if the problem concerns the whole file."""
    message: str
    """One sentence that describes the problem."""
    remedy: str = ""
    """How to fix the problem; may be empty."""

    @property
    def place(self) -> str:
        """Location of the problem: `file:line`, `file`, or `the Library`."""
        if not self.where:
            return "the Library"
        return self.where if self.line is None else f"{self.where}:{self.line}"

    def __str__(self) -> str:
        text = f"{self.place}: {self.severity}: {self.message}"
        return f"{text} {self.remedy}" if self.remedy else text


class FormatError(LibraryError):
    """A file of a Library is invalid.

    Args:
        problem: The error and its location.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.place}: {problem.message}", next_step=problem.remedy)
        self.problem = problem


def raise_errors(folder: Path, problems: Iterable[Problem]) -> None:
    """Raise the first error of a Library's folder, if any, with the number of other errors.

    Raises:
        LibraryError: The first error.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        first, more = errors[0], f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        place = f"{folder}/{first.place}" if first.where else f"{folder}"
        step = shell("rh library check {}", folder) if first.where else first.remedy
        raise LibraryError(f"{place}: {first.message}{more}", next_step=step)


@dataclass
class Findings:
    """Collects the problems of one file."""

    where: str
    """The file, relative to the Library."""
    found: list[Problem] = field(default_factory=list)
    """Problems found so far, shared by all files of the Library."""

    def at(self, where: str) -> "Findings":
        """Return a collector for another file that adds to the same list."""
        return Findings(where, self.found)

    def error(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add an error: the file is invalid."""
        self.found.append(Problem("error", self.where, line, message, remedy))

    def warning(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add a warning: the Library loads nevertheless."""
        self.found.append(Problem("warning", self.where, line, message, remedy))

    def note(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add a note."""
        self.found.append(Problem("note", self.where, line, message, remedy))

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(problem.severity == "error" for problem in self.found)

    def raise_first(self) -> None:
        """Raise the first error, if any.

        Raises:
            FormatError: The first error.
        """
        for problem in self.found:
            if problem.severity == "error":
                raise FormatError(problem)

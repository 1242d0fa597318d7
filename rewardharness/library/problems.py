"""What is wrong or odd in a Library: one value for the check, the loader and the errors."""

from dataclasses import dataclass, field
from typing import Literal

from rewardharness.errors import LibraryError

Severity = Literal["error", "warning", "note"]
"""`error`: breaks the format; `warning`: loads, and will likely judge badly; `note`: worth knowing."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""All severities, gravest first."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong or odd in a Library."""

    severity: Severity
    where: str
    """File or folder, relative to the Library, with `/`; empty for the Library as a whole."""
    line: int | None
    """Line in that file, counted from 1; None when it is about the whole of it."""
    message: str
    """One sentence that names the thing and the problem."""
    remedy: str = ""
    """What to do about it; may be empty."""

    @property
    def place(self) -> str:
        """`file:line`, `file`, or `the Library`."""
        if not self.where:
            return "the Library"
        return self.where if self.line is None else f"{self.where}:{self.line}"

    def __str__(self) -> str:
        text = f"{self.place}: {self.severity}: {self.message}"
        return f"{text} {self.remedy}" if self.remedy else text


class FormatError(LibraryError):
    """One place of a Library that breaks the format.

    Args:
        problem: What and where.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.place}: {problem.message}", next_step=problem.remedy)
        self.problem = problem


@dataclass
class Findings:
    """Collects the problems of one file."""

    where: str
    """The file, relative to the Library."""
    found: list[Problem] = field(default_factory=list)
    """The list that all files of one Library share."""

    def at(self, where: str) -> "Findings":
        """Return a collector for another file with the same list."""
        return Findings(where, self.found)

    def error(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add a problem that breaks the format."""
        self.found.append(Problem("error", self.where, line, message, remedy))

    def warning(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add a problem that the Library loads with."""
        self.found.append(Problem("warning", self.where, line, message, remedy))

    def note(self, message: str, line: int | None = None, remedy: str = "") -> None:
        """Add something worth knowing."""
        self.found.append(Problem("note", self.where, line, message, remedy))

    @property
    def failed(self) -> bool:
        """Whether anything breaks the format."""
        return any(problem.severity == "error" for problem in self.found)

    def raise_first(self) -> None:
        """Raise the first error, if there is one.

        Raises:
            FormatError: The first error.
        """
        for problem in self.found:
            if problem.severity == "error":
                raise FormatError(problem)

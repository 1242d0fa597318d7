"""What produced a number: without judge, protocol and Library it cannot be compared with another."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rewardharness.codec import to_json

if TYPE_CHECKING:  # clients in trainers import this module, and no Library
    from rewardharness.library.store import Library


class Identified(Protocol):
    """What identifies a judge."""

    @property
    def name(self) -> str:
        """Name of the judge in judgments and on pages."""

    @property
    def protocol(self) -> str:
        """How it judges. Numbers of different protocols are not comparable."""

    @property
    def revision(self) -> str:
        """Content id of the code, prompts and settings that its judgments depend on."""


@dataclass(frozen=True)
class JudgeIdentity:
    """A judge, how it judges, and its Library. Numbers compare only if all fields are equal."""

    judge: str
    """As in `Judge.name`."""
    judge_revision: str
    """As in `Judge.revision`."""
    protocol: str
    """As in `Judge.protocol`."""
    library_id: str
    release: str | None = None
    """Hash of the release that all of these come from; None without one."""

    @classmethod
    def of(cls, judge: Identified, library: "Library", release: str | None = None) -> "JudgeIdentity":
        """Return the identity of a judge with a Library."""
        return cls(judge.name, judge.revision, judge.protocol, library.id, release)

    def to_json(self) -> dict[str, str]:
        """Convert to JSON, without `release` if there is none."""
        return {name: value for name, value in to_json(self).items() if value is not None}

    def __str__(self) -> str:
        release = f"; release {self.release[:12]}" if self.release else ""
        return f"Judge: {self.judge}, protocol {self.protocol}; Library {self.library_id[:12]}{release}"

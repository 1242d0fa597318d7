"""One comparison of the app: its inputs and its result."""

import secrets
from dataclasses import dataclass, field
from functools import partial

from app.judges import BY_MEASURING, JudgeChoice
from app.libraries import Choice
from app.running import ModelRun
from rewardharness.library.store import Library
from rewardharness.schema import Example, Judgment


@dataclass(frozen=True)
class Comparison:
    """One comparison: its inputs and the judgment."""

    example: Example
    judgment: Judgment
    library: str
    """Name of the Library."""
    opened: Library = field(compare=False, repr=False)
    """The Library."""
    model: ModelRun | None = None
    """Steps and cost of a model; None for the pixel-based judge."""
    own_judge: bool = True
    """Whether the visitor chose the judge, and so can correct its settings."""
    release: str | None = None
    """Id of the release that fixes Library and judge; None where they were chosen."""
    asked: tuple[Choice, JudgeChoice] = (Choice(), BY_MEASURING)
    """The chosen Library and judge."""
    name: str = field(default_factory=partial(secrets.token_hex, 16), compare=False)
    """Random name, which the addresses of its files hold."""

"""The record of a critique."""

from dataclasses import dataclass

NO_CRITIQUE = "No critique of "
"""Start of the note about a candidate without a requested critique: its letter, a colon and the reason follow."""


@dataclass(frozen=True)
class Critique:
    """What is wrong with a candidate, in plain words, for the next attempt. The text of a model is untrusted."""

    problems: tuple[str, ...]
    """What is wrong, the worst first; empty if nothing was found."""
    next_instruction: str
    """Instruction for the next attempt at the source; empty if nothing was found."""
    limits: str = ""
    """What was not looked at; empty if nothing is known to be missing."""

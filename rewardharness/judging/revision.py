"""Identifies the code that measures, so that what is kept on disk is never mixed with another revision's."""

from functools import cache
from pathlib import Path

from rewardharness.files import content_id, sha256


@cache
def measures_revision() -> str:
    """Return a content id over the sources of the measures and of what turns them into a judgment."""
    package = Path(__file__).parent.parent
    sources = [*(package / "measure").glob("*.py")]
    sources += [
        package / "judging" / f"{name}.py"
        for name in ("criteria", "groups", "instruction", "measured", "readings", "router")
    ]
    return content_id([[file.name, sha256(file.read_bytes())] for file in sorted(sources)])

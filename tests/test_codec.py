"""Values that were read from JSON are whole: they can be written again, and hold what was left out."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rewardharness.codec import ValidationError, from_json, to_json


@dataclass(frozen=True)
class Inner:
    n: int = 1


@dataclass(frozen=True)
class Outer:
    name: str
    path: Path = Path("there")
    inner: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = field(default_factory=dict)


def test_what_was_left_out_is_written_again() -> None:
    read = from_json(Outer, {"name": "x", "inner": [{}], "by_name": {"a": {}}})
    made = Outer("x", inner=(Inner(),), by_name={"a": Inner()})
    assert read == made and vars(read) == vars(made)
    assert to_json(read) == to_json(made)
    assert to_json(read)["by_name"] == {"a": {"n": 1}}


def test_paths_are_text() -> None:
    assert to_json(Outer("x"))["path"] == "there"
    assert from_json(Outer, {"name": "x", "path": "here"}).path == Path("here")
    with pytest.raises(ValidationError, match="path"):
        from_json(Outer, {"name": "x", "path": 3})


def test_unknown_keys_are_refused_at_any_depth() -> None:
    with pytest.raises(ValidationError, match=r"unknown key inner\[0\]\.m"):
        from_json(Outer, {"name": "x", "inner": [{"m": 1}]})

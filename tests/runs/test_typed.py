"""Reading JSON into dataclasses: everything that does not fit is named, nothing else is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.runs.typed import DEPTH, Misfit, read_as, to_json


@dataclass(frozen=True)
class Inner:
    number: int
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    side: Literal["a", "b"]
    inner: Inner
    many: tuple[Inner, ...] = ()
    pair: tuple[int, float] | None = None
    maybe: Inner | None = None
    flag: bool = False
    free: Mapping[str, Any] = field(default_factory=dict)


GOOD: dict[str, Any] = {"name": "x", "side": "a", "inner": {"number": 1}}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def test_what_fits_is_read_and_written_whole() -> None:
    value = read_as(Outer, GOOD | {"pair": [1, 2], "many": [{"number": 2, "share": 1}], "free": {"a": [None, 1.5]}})
    assert value.pair == (1, 2.0) and value.many == (Inner(2, 1.0),) and value.inner == Inner(1)
    assert read_as(Outer, to_json(value)) == value


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"more": 1}, "more is no known key"),
        ({"name": 1}, "name must be text"),
        ({"name": "\ud800"}, "name is no valid text"),
        ({"side": "c"}, "side must be one of a, b"),
        ({"side": ["a"]}, "side must be one of"),
        ({"inner": None}, "inner must be an object"),
        ({"inner": {}}, "inner.number is missing"),
        ({"inner": {"number": True}}, "inner.number must be a whole number"),
        ({"inner": {"number": 1.0}}, "inner.number must be a whole number"),
        ({"inner": {"number": 2**63}}, "inner.number must be a whole number"),
        ({"inner": {"number": 1, "share": "1"}}, "inner.share must be a number"),
        ({"inner": {"number": 1, "share": float("nan")}}, "inner.share must be a number"),
        ({"inner": {"number": 1, "share": True}}, "inner.share must be a number"),
        ({"many": [{"number": 1}, 3]}, r"many\[1\] must be an object"),
        ({"many": {}}, "many must be a list"),
        ({"pair": [1]}, "pair must have 2 members"),
        ({"flag": 1}, "flag must be true or false"),
        ({"free": []}, "free must be an object"),
        ({"free": {"a": float("inf")}}, "free.a is no finite number"),
        ({"free": {"a": {"b": 10**30}}}, "free.a.b is too large"),
        ({"free": {"\udfff": 1}}, "free has|free is no valid text"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Misfit, match=why):
        read_as(Outer, GOOD | change)


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(DEPTH + 2):
        deep = [deep]
    with pytest.raises(Misfit, match="nested too deeply"):
        read_as(Outer, GOOD | {"free": {"a": deep}})


@given(anything)
def test_anything_is_read_or_refused_in_words(value: Any) -> None:
    for document in (value, GOOD | {"free": value}, GOOD | {"inner": value}, GOOD | {"many": [value]}):
        try:
            found = read_as(Outer, document)
        except Misfit as error:
            assert str(error)
        else:
            assert read_as(Outer, to_json(found)) == found

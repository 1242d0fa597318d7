from hypothesis import given
from hypothesis import strategies as st

from rewardharness.library.evolved import caution, data_digests
from rewardharness.library.store import EMPTY

DIGEST, OTHER = "0123456789abcdef" * 4, "f" * 64
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def test_kept_edits_say_which_data_they_were_chosen_on() -> None:
    lines = [
        {"operator": "add", "data": "as older versions wrote it: 12 examples"},
        {"operator": "add", "data": "boxes: 12 examples", "data_digest": DIGEST},
        {"operator": "modify", "data_digest": DIGEST, "accepted": True},
        {"operator": "modify", "data_digest": OTHER, "accepted": False},
    ]
    assert data_digests(lines) == {DIGEST}
    assert data_digests([*lines, {"data_digest": OTHER}]) == {DIGEST, OTHER}
    assert data_digests([]) == data_digests(EMPTY.lineage) == frozenset()


def test_every_record_counts_however_many_there_are() -> None:
    lines = [{"data_digest": DIGEST}, *({"operator": "add"} for _ in range(2000))]
    assert data_digests(lines) == {DIGEST}


@given(JSON)
def test_what_is_no_digest_is_left_out(value: object) -> None:
    assert data_digests([{"data_digest": value}]) == frozenset()


def test_nearly_a_digest_is_none() -> None:
    for value in (
        DIGEST[:-1],
        DIGEST + "0",
        DIGEST.upper(),
        DIGEST + "\n",
        "g" + DIGEST[1:],
        "٣" * 64,
        DIGEST.encode(),
    ):
        assert data_digests([{"data_digest": value}]) == frozenset()


def test_the_caution_says_why_and_what_follows() -> None:
    assert caution("The Library x").startswith("The Library x was evolved on the same data, so expect lower")

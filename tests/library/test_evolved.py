from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewardharness.library.evolved import caution, data_digests
from rewardharness.library.store import EMPTY

DIGEST, OTHER = "0123456789abcdef" * 4, "f" * 64


def test_kept_edits_say_which_data_they_were_chosen_on() -> None:
    lines = [
        {"operator": "add", "data": "as older versions wrote it: 12 examples"},
        {"operator": "add", "data": "boxes: 12 examples", "data_digest": DIGEST},
        {"operator": "modify", "data_digest": DIGEST, "accepted": True},
        {"operator": "modify", "data_digest": OTHER, "accepted": False},
    ]
    assert data_digests(lines) == {DIGEST}
    assert data_digests([*lines, {"data_digest": OTHER}]) == {DIGEST, OTHER}
    assert data_digests([{"data_digest": DIGEST}, *({"operator": "add"} for _ in range(2000))]) == {DIGEST}
    assert data_digests([]) == data_digests(EMPTY.lineage) == frozenset()


@settings(max_examples=40)
@given(st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()))
@example(DIGEST[:-1])
@example(DIGEST.upper())
@example(DIGEST + "\n")
@example("٣" * 64)
@example(DIGEST.encode())
def test_what_is_no_digest_is_left_out(value: object) -> None:
    assert data_digests([{"data_digest": value}]) == frozenset()


def test_the_caution_says_why_and_what_follows() -> None:
    assert caution("The Library x").startswith("The Library x was evolved on the same data, so expect lower")

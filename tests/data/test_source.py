import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.data.source import Dataset, split
from rewardharness.errors import InputError
from rewardharness.schema import Example, ImageInput


def example(key: str, **changes: object) -> Example:
    source, *candidates = (ImageInput(name, data=f"{name} {key}".encode()) for name in "sab")
    return replace(Example(key, f"Edit {key}", source, tuple(candidates), "A", source_id=key), **changes)


rows = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(["add", "remove", ""]), st.sampled_from(["A", "B", "tie", None])),
    max_size=40,
)


def examples_of(drawn: list[tuple[int, str, str | None]]) -> list[Example]:
    return [
        example(f"e{number}", source_id=f"s{source}", category=category, preference=label)
        for number, (source, category, label) in enumerate(drawn)
    ]


@examples(max_examples=50)
@given(rows, st.floats(0, 0.99), st.integers(0, 5), st.randoms(use_true_random=False))
def test_split_divides_and_never_parts_a_source(drawn, share, seed, shuffler):
    examples = examples_of(drawn)
    pool, audit = split(examples, share=share, seed=seed)
    assert sorted(each.id for each in (*pool, *audit)) == sorted(each.id for each in examples)
    assert not {each.source_id for each in pool} & {each.source_id for each in audit}
    if share > 0 and len({each.source_id for each in examples}) > 1:
        assert pool and audit
    mixed = list(examples)
    shuffler.shuffle(mixed)
    assert {each.id for each in split(mixed, share=share, seed=seed)[1]} == {each.id for each in audit}


@pytest.mark.parametrize("share", [0.2, 0.3, 0.5])
def test_split_takes_its_share_of_every_category_and_label(share):
    examples = [
        example(f"{category}-{label}-{number}", category=category, preference=label)
        for category in ("add", "remove", "color", "text", "style")
        for label in "AB"
        for number in range(7)
    ]
    _, audit = split(examples, share=share, seed=4)
    assert abs(len(audit) - share * len(examples)) <= 1
    for category, count in Counter(each.category for each in audit).items():
        assert abs(count - 14 * share) <= 1.01, category
    for label, count in Counter(each.preference for each in audit).items():
        assert abs(count - 35 * share) <= 2.01, label


def test_split_keeps_labels_balanced_when_every_stratum_has_one_of_each():
    examples = [example(f"{n}{label}", category=f"c{n:02}", preference=label) for n in range(20) for label in "AB"]
    _, audit = split(examples, share=0.5, seed=0)
    assert Counter(each.preference for each in audit) == {"A": 10, "B": 10}


def test_split_depends_on_the_seed_and_is_the_same_everywhere():
    examples = [example(f"e{number}") for number in range(12)]
    audits = {seed: [each.id for each in split(examples, share=0.25, seed=seed)[1]] for seed in range(6)}
    assert len({tuple(audit) for audit in audits.values()}) > 3
    assert audits[0] == ["e4", "e6", "e10"]


@pytest.mark.parametrize("share", [-0.1, 1, 7, float("nan")])
def test_split_refuses_a_share_that_is_none(share):
    with pytest.raises(InputError, match="share"):
        split([example("a")], share=share, seed=0)


def test_equal_sources_share_one_source_id(tmp_path: Path):
    for name, data in {"one.png": b"same", "two.png": b"same", "three.png": b"else", "a": b"1", "b": b"22"}.items():
        (tmp_path / name).write_bytes(data)

    def on_disk(key: str, name: str) -> Example:
        files = [ImageInput(each, path=tmp_path / each) for each in (name, "a", "b")]
        return Example(key, f"Edit {key}", files[0], (files[1], files[2]))

    data = Dataset.of("x", [on_disk("r1", "one.png"), on_disk("r2", "two.png"), on_disk("r3", "three.png")])
    assert [each.source_id for each in data.examples] == ["one.png", "one.png", "three.png"]


def test_digest_is_the_same_in_a_copy_and_sees_every_change(tmp_path: Path):
    def read(folder: Path, **changes: object) -> str:
        files = [ImageInput(name, path=folder / name) for name in ("s", "a", "b")]
        return Dataset.of("x", [replace(Example("r", "Edit", files[0], (files[1], files[2])), **changes)]).digest

    first = tmp_path / "first"
    first.mkdir()
    for name, data in {"s": b"source", "a": b"aaa", "b": b"bbb"}.items():
        (first / name).write_bytes(data)
    digest = read(first)
    second = tmp_path / "second"
    shutil.copytree(first, second)
    assert read(second) == digest
    assert digest not in (read(first, preference="A"), read(first, instruction="Edit more"))
    (second / "a").write_bytes(b"aab")  # as long as `b`, so both are hashed
    assert read(second) != digest
    (first / "s").write_bytes(b"longer source")
    assert read(first) != digest


def test_copies_and_contradictions_are_reported_and_kept():
    one = example("r1")
    mirrored = replace(one, id="r2", candidates=one.candidates[::-1], preference="B", instruction="edit  R1")
    against = replace(one, id="r3", preference="B")
    same = Dataset.of("x", [one, mirrored])
    assert len(same.examples) == 2
    assert same.problems == ("r1 and r2 have the same images and instruction.",)
    problems = Dataset.of("x", [one, mirrored, against]).problems
    assert problems == ("r1 and r2 and r3 have the same images and instruction but contradicting labels.",)

    level = replace(one, candidates=(one.candidates[0], one.candidates[0]))
    assert "the same image" in Dataset.of("x", [level]).problems[0]
    assert Dataset.of("x", [replace(level, preference="tie")]).problems == ()


def test_many_problems_are_counted_and_an_id_must_be_unique():
    examples = [replace(example(f"r{n}"), source=ImageInput("s", path=Path("/nowhere") / str(n))) for n in range(30)]
    problems = Dataset.of("x", examples).problems
    assert len(problems) == 21 and problems[-1].startswith("10 more")
    with pytest.raises(InputError, match="duplicate id 'r1'"):
        Dataset.of("x", [example("r1"), example("r1")])

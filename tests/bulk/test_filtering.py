"""What the filter decides, and copies of the best candidates, which never cost files of others."""

import json
from pathlib import Path

import pytest

from rewardharness.bulk.config import FilterConfig
from rewardharness.bulk.filtering import MANIFEST, check_copies, copy_best, count, decide, decide_all
from rewardharness.errors import DataError, InputError
from rewardharness.schema import Example, Failure, ImageInput, Judgment, Scores

IMAGE = ImageInput("x", data=b"x")


def example(candidates: int = 2, preference=None) -> Example:
    return Example("e", "make it red", IMAGE, (IMAGE,) * candidates, preference)


def judgment(preference=None, margin=None, failure=None, **rewards) -> Judgment:
    scores = {label: Scores(None, None, reward) for label, reward in rewards.items()}
    return Judgment("e", "j", "p", "l", preference, margin=margin, scores=scores, failure=failure)


def rules_of(reward=None, margin=None, agree=False, top=None):
    options = {"min_reward": reward, "min_margin": margin, "agree": agree, "top": top}
    return FilterConfig("data", output=Path("kept.parquet"), **options)


@pytest.mark.parametrize(
    ("rules", "item", "said", "code"),
    [
        (rules_of(reward=0.5), example(1), judgment(A=0.5), "kept"),
        (rules_of(reward=0.5), example(1), judgment(A=0.49), "low_reward"),
        (rules_of(reward=0.5), example(2), judgment("B", 0.1, A=0.9, B=0.6), "kept"),
        (rules_of(reward=0.7), example(2), judgment("B", 0.1, A=0.9, B=0.6), "low_reward"),
        (rules_of(reward=0.0), example(2), judgment("tie", 0.0, A=0.9, B=0.9), "low_reward"),
        (rules_of(margin=0.2), example(2), judgment("A", 0.2, A=0.9, B=0.7), "kept"),
        (rules_of(margin=0.2), example(2), judgment("A", 0.1, A=0.9, B=0.8), "low_margin"),
        (rules_of(margin=0.2), example(1), judgment(A=0.9), "no_margin"),
        (rules_of(agree=True), example(2, "A"), judgment("A", 0.1, A=0.9, B=0.8), "kept"),
        (rules_of(agree=True), example(2, "B"), judgment("A", 0.1, A=0.9, B=0.8), "disagrees"),
        (rules_of(agree=True), example(2), judgment("A", 0.1, A=0.9, B=0.8), "no_label"),
        (rules_of(reward=0.1, margin=0.1, agree=True), example(2, "A"), judgment("A", 0.1, A=0.9, B=0.8), "kept"),
    ],
)
def test_the_first_rule_that_is_broken_is_the_reason(rules, item, said, code):
    decided = decide(item, said, rules)
    assert (decided.code, decided.keep) == (code, code == "kept")
    assert decided.reason.endswith(".")


@pytest.mark.parametrize("rules", [rules_of(reward=0.0), rules_of(margin=0.0), rules_of(agree=True)])
def test_what_was_not_judged_is_never_kept(rules):
    decided = decide(example(2, "A"), judgment(failure=Failure("timeout", "It took too long.")), rules)
    assert not decided.keep and decided.code == "not_judged" and "took too long" in decided.reason
    assert decided.reward is None


def test_rules_must_say_something():
    with pytest.raises(InputError, match="No condition"):
        FilterConfig("data", output=Path("kept.parquet"))
    with pytest.raises(InputError, match="--min-reward 4 is out of range"):
        FilterConfig("data", output=Path("kept.parquet"), min_reward=4)
    with pytest.raises(InputError, match="--top 0 is out of range"):
        FilterConfig("data", output=Path("kept.parquet"), top=0)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (rules_of(top=0.5), "023"),
        (rules_of(top=0.1), "0"),
        (rules_of(top=1), "0234"),
        (rules_of(reward=0.5, top=0.5), "02"),
    ],
)
def test_a_share_keeps_the_best_of_all_edits(rules, kept):
    """Of equal rewards the earlier edits are kept; an edit without a judgment counts in the share."""
    judgments = [judgment(A=reward) for reward in (0.9, None, 0.6, 0.4, 0.4)]
    judgments[1] = judgment(failure=Failure("timeout", "It took too long."))
    decided = decide_all([(example(1), each) for each in judgments], rules)
    assert "".join(str(place) for place, each in enumerate(decided) if each.keep) == kept
    assert decided[1].code == "not_judged"
    if rules == rules_of(top=0.1):
        assert decided[2].code == "not_top"
        assert decided[2].reason == "Its reward 0.600 is number 2; the best 0.1 of 5 edits are 1."


def test_decisions_are_counted():
    codes = [judgment(A=0.9), judgment(A=0.1), judgment(A=0.2)]
    assert count(decide(example(1), each, rules_of(reward=0.5)) for each in codes) == {"kept": 1, "low_reward": 2}


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name in "abc":
        found[f"{name}.png"] = tmp_path / f"{name}.png"
        found[f"{name}.png"].write_bytes(name.encode())
    return found


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def test_a_folder_holds_the_copies_of_the_last_run_alone(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    copy_best({"two.png": images["c.png"], "three.png": images["b.png"]}, folder)
    assert held(folder) == {"two.png": b"c", "three.png": b"b"}
    assert sorted(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]) == ["three.png", "two.png"]
    copy_best({}, folder)
    assert held(folder) == {}


def test_files_of_others_are_left_alone(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    folder.mkdir()
    (folder / "mine.png").write_bytes(b"mine")
    with pytest.raises(InputError, match="holds files that --copy-best did not put there"):
        check_copies(folder)
    (folder / "mine.png").unlink()
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    (folder / "mine.png").write_bytes(b"mine")
    (folder / "one.png").write_bytes(b"changed")
    before = held(folder)
    for name in ("mine.png", "one.png"):
        with pytest.raises(InputError, match=f"did not put there: {name}; nothing was copied"):
            copy_best({name: images["c.png"]}, folder)
        assert held(folder) == before
    copy_best({"three.png": images["c.png"]}, folder)
    assert held(folder) == {"mine.png": b"mine", "one.png": b"changed", "three.png": b"c"}


def test_copies_that_were_broken_off_are_completed(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    chosen = {"one.png": images["c.png"], "three.png": images["a.png"]}
    images["a.png"].unlink()
    with pytest.raises(DataError, match="cannot be copied"):
        copy_best(chosen, folder)
    assert held(folder) == {"one.png": b"a", "two.png": b"b"}, "nothing was begun"
    stated = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    stated["files"]["three.png"] = ["0" * 64]  # as a killed run leaves it: named, and not copied yet
    (folder / MANIFEST).write_text(json.dumps(stated), encoding="utf-8")
    copy_best({"one.png": images["c.png"]}, folder)
    assert held(folder) == {"one.png": b"c"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"made_by": "rh data rank --copy-best", "files": {"../x": []}}'])
def test_a_list_that_is_not_ours_is_refused(tmp_path: Path, images: dict[str, Path], text: str) -> None:
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="is not a manifest of --copy-best"):
        copy_best({"one.png": images["a.png"]}, tmp_path)

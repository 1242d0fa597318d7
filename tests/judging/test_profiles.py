"""Judge profiles: those of the package, malformed ones, picking of texts, and reading of replies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.errors import InputError
from rewardharness.files import sha256
from rewardharness.judging import profile_opening
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.profile import Profile, TextSource, ValueRange
from rewardharness.judging.profile_opening import load_profile, read_profile, shipped_profiles
from rewardharness.judging.profile_replies import evaluate_score, read_values, run_check
from rewardharness.library.yamlsafe import print_yaml
from rewardharness.models.base import Reply

SHIPPED = {name: load_profile(name)[0] for name in shipped_profiles()}
READS_TEXT = [(each, call) for each in SHIPPED.values() for call in each.calls if not each.calls[call].reply.tokens]
SHA = "0" * 64
LONGEST_LABEL = 40
"""Characters of a text that a shipped profile may hold itself: labels, and no prompt of others."""


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_is_complete_and_passes_its_checks(name: str) -> None:
    profile = SHIPPED[name]
    assert profile.name == name and all((profile.model, profile.serving, profile.notes))
    assert profile.homepage.startswith("https://github.com/")
    for check in profile.check:
        expected = None if check.score is None else pytest.approx(check.score)
        assert run_check(profile, check) == expected
    scores = [check.score for check in profile.check]
    assert len(scores) >= 3 and None in scores and {0.0, *profile.range} & {*scores}
    parts = [part for call in profile.calls.values() for part in (*call.system, *call.user)]
    used = {text for part in parts for text in part.uses}
    assert used - {""} == set(profile.texts)
    assert all(len(part.text) <= LONGEST_LABEL for part in parts)
    assert not any(text.inline or text.file or text.license == "" for text in profile.texts.values())


def test_there_is_a_profile_for_each_published_judge() -> None:
    assert sorted(SHIPPED) == sorted(
        "editscore editscore-qwen3 unifiedreward-edit unifiedreward-edit-pointwise rationalrewards-edit firm-edit"
        " rationalrewards-edit-pair imgedit-judge pvc-judge viescore edit-r1 flow-factory-yes-no"
        " risebench-judge kris-judge edit-compass-judge".split()
    )


def test_the_example_of_the_docs_is_valid_and_passes_its_checks() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "profiles.md").read_text(encoding="utf-8")
    profile = read_profile(page.split("```yaml\n")[1].split("```")[0], "profiles.md")
    assert [run_check(profile, check) for check in profile.check] == [6.0, None]


def drawn(data: st.DataObject, allowed: ValueRange) -> float | None:
    low, high = (-2.5 if allowed.range[0] is None else allowed.range[0]), allowed.range[1]
    numbers = st.floats(low, 2.5 if high is None else high)
    return data.draw(st.one_of(st.just(allowed.na), numbers) if allowed.optional else numbers)


@given(st.sampled_from(list(SHIPPED.values())), st.data())
def test_scores_stay_in_their_range(profile: Profile, data: st.DataObject) -> None:
    values = {name: drawn(data, allowed) for name, allowed in profile.values.items()}
    scores = [evaluate_score(node, values) for node in (profile.score, profile.instruction, profile.quality) if node]
    low, high = profile.range
    assert all(score is None or low - 1e-9 <= score <= high + 1e-9 for score in scores)


WORDS = st.sampled_from(
    [
        *'{}[]:,"\n# -*.()/',
        *("N/A", "−", '{"score": [', "]}", '{"winner": "', "Image A", "Score: ", "NaN", "1e999"),
        *("Text Faithfulness\n", "Prompt Compliance: ", "Text Rendering\n"),
        *("0.5", "5", "26", "9" * 400, "<think>", "\n"),
    ]
)


@given(st.sampled_from(READS_TEXT), st.lists(WORDS, max_size=25).map("".join) | st.text())
def test_no_reply_gives_a_number_outside_of_its_range(asked: tuple[Profile, str], text: str) -> None:
    profile, call = asked
    found = read_values(profile, call, Reply(text))
    for name, value in {} if isinstance(found, ReplyProblem) else found.items():
        allowed = profile.values[name]
        low, high = allowed.range
        assert value is not None or (allowed.optional and allowed.na is None)
        assert value is None or ((low is None or low <= value) and (high is None or value <= high))
    assert isinstance(read_values(profile, call, Reply(text, finish_reason="length")), ReplyProblem)


@pytest.mark.parametrize(
    ("name", "call", "text", "problem"),
    [
        ("editscore", "semantic", '{"score": [20, 18, 5]}', "holds no success"),
        ("editscore", "semantic", '{"reasoning": "A "hat".", "score": [1, 2], "score": [3, 4]}', "holds no success"),
        ("editscore", "semantic", """{"reasoning": "A "hat".", "score": [25, 2""", "holds no success"),
        ("editscore", "semantic", '{"score": 20}', "holds no preservation"),
        ("editscore", "semantic", '{"score": [20, "high"]}', "not a number from 0 to 25"),
        ("firm-edit", "execution", '{"score": [4.5]}', "not a whole number"),
        ("unifiedreward-edit", "compare", "Image 1: 2.5, Image 2: 1.5, difference: 1.0", "holds no first"),
        ("imgedit-judge", "rate", "Prompt Compliance: A number from 1 to 5.", "not a number from 1 to 5"),
        ("rationalrewards-edit", "rate", "1. Text Faithfulness:\n## Score: N/A", "must apply"),
        ("pvc-judge", "compare", '{"winner": "Image A or Image B"}', "holds no winner"),
    ],
)
def test_what_cannot_be_read_for_sure_is_a_problem(name: str, call: str, text: str, problem: str) -> None:
    found = read_values(SHIPPED[name], call, Reply(text))
    assert isinstance(found, ReplyProblem) and problem in found.message


@pytest.mark.parametrize(
    ("kinds", "text"), [(("color", "add"), "adjust"), (("text",), "replace"), (("count",), "compose"), ((), "compose")]
)
def test_the_kind_of_edit_chooses_the_text(kinds: tuple[str, ...], text: str) -> None:
    assert SHIPPED["imgedit-judge"].calls["rate"].user[0].text_for(kinds) == text


CODE = """
PLAIN = "one " "two"
class Judge:
    asked: str = "Rate {" + f"{prompt}: {{}}\\n"
BY_CALL = open("/etc/passwd").read()
BY_FORMAT = f"{prompt!r}"
"""


@pytest.mark.parametrize(
    ("path", "content", "pick", "text"),
    [
        ("a.py", CODE, ("PLAIN", "Judge.asked"), "one two|Rate {{prompt}: {}\n"),
        ("a.py", CODE, ("BY_CALL",), None),
        ("a.py", CODE, ("BY_FORMAT",), None),
        ("a.py", CODE, ("Other.asked",), None),
        ("a.json", '{"add": ["x", "y 10"]}', ("add.1",), "y 25"),
        ("a.yaml", "user:\n- text: |\n    x {{ y }}\n- image: {index: 1}\n", ("user.0.text",), "x {{ y }}\n"),
        ("a.txt", "whole 10", (), "whole 25"),
    ],
)
def test_texts_are_picked_without_running_anything(
    path: str, content: str, pick: tuple[str, ...], text: str | None
) -> None:
    at = "owner/name@" + "0" * 40
    source = TextSource("MIT", github=at, path=path, file_sha256=SHA, sha256=SHA, pick=pick, join="|")
    source = replace(source, replace={"10": "25"})
    if text is None:
        with pytest.raises(ValueError, match="is not a text in its file"):
            profile_opening._compose(source, content)
    else:
        assert profile_opening._compose(source, content) == text


VALID: dict[str, Any] = {
    "profile": 1,
    "name": "mine",
    "version": "1",
    "about": "One sentence.",
    "texts": {"rules": {"inline": "Rate <it>.", "license": "MIT"}},
    "calls": {
        "rate": {
            "user": [{"image": "source"}, {"image": "candidate"}, {"use": "rules", "slots": {"<it>": "instruction"}}],
            "reply": {"json": {"grade": ["score", 0]}},
        }
    },
    "values": {"grade": {"range": [0, 10]}},
    "score": {"min": ["grade"]},
    "range": [0, 10],
}
REMOTE = {"license": "MIT", "path": "a.py", "file_sha256": SHA, "sha256": SHA}


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("profile", 2, "profile: invalid enum value 2"),
        ("extra", 1, "unknown key extra"),
        ("score", {"median": ["grade"]}, "there is no operation 'median'"),
        ("score", {"min": ["other"]}, "there is no value 'other'"),
        ("score", {"clip": {"of": "grade", "low": 0}}, "score.clip: needs high, low, of"),
        ("range", [10, 0], "range: the first number must be less than the second"),
        ("values.grade", {"range": [5, 5]}, "the first number of a range must be less than the second"),
        ("values.grade", {"na": 2.5}, "`na` needs `optional: true`"),
        ("values.more", {}, "values: each must be read by exactly one call"),
        ("calls.rate.reply", {"json": {"grade": [0]}}, "a path in JSON begins with a key"),
        ("calls.rate.reply", {"lines": {"grade": []}}, "calls[...].reply.lines[...]: expected `array` of length >= 1"),
        ("calls.rate.reply.numbers", ["grade"], "exactly one of json, lines, sections, numbers, choice and tokens"),
        ("calls.rate.user", [{"image": "a"}], "calls.rate: no a in the mode single"),
        ("calls.rate.user", [{"use": "rules", "by": {"shrink": "rules"}}], "`by` needs `use`"),
        ("calls.rate.user", [{"use": "rules", "by": {"add": "other"}}], "there is no text 'other'"),
        ("calls.rate.user", [{"use": "rules", "slots": {"": "source"}}], "a slot is a text that stands for"),
        ("texts.rules.file", "a.txt", "exactly one of inline, file, pypi, github and hub"),
        ("texts.rules", {**REMOTE, "github": "owner/name@main"}, "names no commit"),
        ("texts.rules", {**REMOTE, "pypi": "name"}, "names no version of a package"),
        ("texts.rules", {**REMOTE, "pypi": "name==1", "path": "../a.py"}, "is no path of a file"),
        ("texts.rules", {"license": "MIT", "file": "a.txt"}, "needs its sha256"),
        ("check", [{"replies": {"other": "5"}}], "check: each call needs a reply"),
    ],
)
def test_a_malformed_profile_gives_one_clear_message(place: str, value: object, problem: str) -> None:
    def changed(record: Any, steps: list[str]) -> Any:
        if not steps:
            return value
        return {**record, steps[0]: changed(record.get(steps[0], {}), steps[1:])}

    assert read_profile(print_yaml(VALID), "mine.yaml").name == "mine"
    with pytest.raises(InputError) as caught:
        read_profile(print_yaml(changed(VALID, place.split("."))), "mine.yaml")
    message = caught.value.message
    assert message.startswith("mine.yaml: ") and problem in message and "\n" not in message
    assert "profiles.md" in (caught.value.next_step or "")


def test_a_file_is_fetched_once_kept_and_refused_if_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, fetched = b'A = "one"\nB = "two"\n', list[str]()
    monkeypatch.setattr(profile_opening, "public_file", lambda url, limit: fetched.append(url) or served)
    at = {**REMOTE, "github": "owner/name@" + "0" * 40, "file_sha256": sha256(code)}
    texts = {name: {**at, "pick": [name], "sha256": sha256(text)} for name, text in {"A": b"one", "B": b"two"}.items()}
    profile = read_profile(print_yaml({**VALID, "texts": {**VALID["texts"], **texts}}), "mine.yaml")
    served = code + b"# changed\n"
    with pytest.raises(InputError, match=f"{sha256(served)}, and the profile says {sha256(code)}"):
        profile_opening.load_texts(profile, None, tmp_path)
    assert profile_opening.missing_texts(profile, tmp_path) == ["A", "B"]
    fetched.clear()
    served = code
    for _ in range(2):
        assert profile_opening.load_texts(profile, None, tmp_path) == {"rules": "Rate <it>.", "A": "one", "B": "two"}
    assert len(fetched) == 1 and not profile_opening.missing_texts(profile, tmp_path)

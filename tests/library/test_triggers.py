import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.library.triggers import MAX_SEARCHED, TriggerError, parse_triggers, word_forms


def matched(triggers: str, instruction: str) -> str | None:
    return next((found for each in parse_triggers(triggers) if (found := each.matches(instruction)) is not None), None)


def test_the_grammar_tells_words_expressions_and_always_apart() -> None:
    triggers = parse_triggers(r"remove, sky  blue ,/\bfrom .{0,20}, to/, Always, /a\/b/,")
    kinds, texts = zip(*((each.kind, each.text) for each in triggers), strict=True)
    assert kinds == ("words", "words", "pattern", "always", "pattern")
    assert texts == ("remove", "sky blue", r"\bfrom .{0,20}, to", "always", "a/b")
    assert [each.always for each in triggers] == [False, False, False, True, False]
    assert parse_triggers(", ".join(map(str, triggers))) == triggers
    assert parse_triggers("") == parse_triggers(" , ") == ()


@pytest.mark.parametrize(
    ("triggers", "instruction", "expected"),
    [
        ("always", "", "always"),
        ("remove", "Removing the car", "Removing"),
        ("remove", "It was removed.", "removed"),
        ("remove", "a remover", None),
        ("swap", "Swapped the hats", "Swapped"),
        ("sky", "two skies", "skies"),
        ("box", "boxes", "boxes"),
        ("add", "the address", None),
        ("art", "Start here", None),
        ("sky blue", "a Sky-Blue car", "Sky-Blue"),
        ("sky blue", "a blue sky", None),
        ("change color", "changing colors", "changing colors"),
        ("don't", "Don\u2019t touch it", "Don't"),
        ("caf\u00e9", "the CAFE\u0301", "CAF\u00c9"),
        ("添加", "请添加文字", "添加"),
        ("#1", "make it #1!", "#1"),
        (r"/\bfrom .* to\b/", "change it FROM red to blue", "FROM red to"),
        ("/x/", "a" * MAX_SEARCHED + "x", None),
        ("x", "a" * MAX_SEARCHED + " x", "x"),
    ],
)
def test_what_matches(triggers: str, instruction: str, expected: str | None) -> None:
    assert matched(triggers, instruction) == expected


@pytest.mark.parametrize(
    ("triggers", "word"),
    [
        ("/(a+)+b/", "itself repeats"),
        ("/(a|aa)+b/", "alternatives"),
        ("/(a?){30}b/", "itself repeats"),
        ("/" + "a?" * 30 + "a" * 30 + "/", "too long"),
        ("/a.*b.*c.*d/", "too long"),
        ("/a.{0,100}b.{0,100}c.{0,200}d/", "too long"),
        ("/(ab|a)(ab|a)" + "(ab|a)" * 25 + "x/", "too long"),
        (r"/(a)\1/", "back-reference"),
        ("/(?P<n>a)(?P=n)/", "back-reference"),
        ("/(?>a)b/", "atomic"),
        ("/.*/", "matches empty text"),
        ("/(?=a)/", "matches empty text"),
        ("/a", "closing slash"),
        ("/a/b", "comma"),
        ("/(/", "not a regular expression"),
        ("/a{99999999999999999999}/", "not a regular expression"),
        ("/[[a]/", "escape"),
        ("/" + "a" * 201 + "/", "limit is 200"),
        ("a, !!, b", "no word"),
        (", ".join("abc" for _ in range(201)), "limit is 200"),
    ],
)
def test_what_does_not_follow_the_grammar_is_refused(triggers: str, word: str) -> None:
    with pytest.raises(TriggerError, match=re.escape(word)):
        parse_triggers(triggers)


PIECES = st.sampled_from(["a", "b", ".", "*", "+", "?", "{2,5}", "(", ")", "(?:", "|", "[ab]", r"\w", r"\b", "^", "$"])


def test_a_kind_of_edit_matches_whatever_the_words() -> None:
    (trigger, word) = parse_triggers("Kind:  KEEP, remove")
    assert (trigger.kind, trigger.text, str(trigger), word.kind) == ("edit", "keep", "kind: keep", "words")
    assert trigger.matches("anything", ("pose", "keep")) == "keep"
    assert trigger.matches("kind: keep") is None and trigger.matches("keep", ("pose",)) is None
    with pytest.raises(TriggerError, match=r"kind: keeping names no kind of edit. Write `kind:` and one of: add, "):
        parse_triggers("kind: keeping")


@settings(max_examples=60)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_no_accepted_expression_searches_without_end(expression: str) -> None:
    """Whatever passes the check must come back soon from a text made to mislead it; the test's time limit says so."""
    try:
        triggers = parse_triggers(f"/{expression}/")
    except TriggerError:
        return
    for trigger in triggers:
        found = trigger.matches("a" * MAX_SEARCHED + "!")
        assert found is None or found in "a" * MAX_SEARCHED + "!"


@given(st.text(max_size=60))
def test_any_text_is_a_list_of_triggers_or_an_error(text: str) -> None:
    try:
        triggers = parse_triggers(text)
    except TriggerError as error:
        assert str(error)
        return
    assert parse_triggers(", ".join(map(str, triggers))) == triggers


@given(st.from_regex(r"[a-z]{1,10}", fullmatch=True))
def test_every_form_of_a_word_is_found_and_begins_like_it(word: str) -> None:
    (trigger,) = parse_triggers(word) if word != "always" else parse_triggers("a")
    for form in word_forms(trigger.text):
        assert trigger.matches(f"please, {form.upper()}!") == form.upper() or trigger.always

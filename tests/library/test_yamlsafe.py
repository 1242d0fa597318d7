from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewardharness.errors import LibraryError
from rewardharness.library import yamlsafe
from rewardharness.library.problems import FormatError
from rewardharness.library.yamlsafe import MAX_DEPTH, MAX_NODES, print_yaml, read_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LOOKS_LIKE_MORE = st.sampled_from(
    "no|yes|on|null|~|true|1|1.0|1e3|0x1f|0o7|1:30|2024-01-01|.inf|.nan|<<|=|- a|a: b|# c|'|\"|---|...|%YAML|&a|*a|!t|"
    "|>\n|@|`|{a|[a|a\n---\nb|a\n\n b\n| a|\ta|a \n b|\ufeffa|\u2028|\x85|\x00|\U0001f600|a\nb".split("|")
)
SCALARS = TEXT | LOOKS_LIKE_MORE | st.integers(-(10**17), 10**17) | st.booleans() | st.none()
SCALARS |= st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0) if isinstance(value, dict | list) else 0


@settings(max_examples=50)
@given(st.dictionaries(TEXT | LOOKS_LIKE_MORE, VALUES, min_size=1, max_size=5))
@example({"a": "x\n  y\n\nz"})
@example({"a": "\n x"})
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    if depth(value) <= MAX_DEPTH:
        again = read_yaml(print_yaml(value), where="a.yaml").value
        assert again == value
        assert repr(again) == repr(value)  # 1 is not True, and not 1.0


@given(
    st.text(max_size=200) | st.lists(LOOKS_LIKE_MORE | st.sampled_from([": ", "\n", "  "]), max_size=30).map("".join)
)
def test_any_text_is_read_or_refused_with_one_kind_of_error(text: str) -> None:
    try:
        document = read_yaml(text, where="a.yaml")
    except FormatError as error:
        assert error.problem.where == "a.yaml"
    else:
        assert isinstance(document.value, dict)


PARTS = [
    *"a|key|: |:|\n|\n  |\n- |\n    | |- |, |[|]|{|}|'|\"|#| #|>|>-|--|---|...|?|? |1|1.5|null|~|é|猫|’|\n\n".split(
        "|"
    ),
    *"=|<<|@|`|&|*|!|%|''|\\|\na: |\n  b: |x y|a: >\n  |[a, b]|[1, 2]|- a\n- b|\t|\r".split("|"),
    *("|", "|-", "a: |\n  ", "a: |2\n   x"),
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
@example("a: |#x\n  y")
@example("- " * 100_000 + "a")
@example("a: " + "[" * 100_000)
@example("a: " + "{b: " * 100_000)
def test_the_fast_parser_reads_a_text_like_the_other_or_leaves_it(text: str) -> None:
    def read(fast: Any) -> tuple[Any, ...]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yamlsafe, "_FastEvents", fast)
            try:
                document = read_yaml(text, where="a.yaml")
            except FormatError as error:
                return (error.problem,)
        return repr(document.value), document.places

    assert read(yamlsafe._FastEvents) == read(None)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: &x 2", 2, "anchor"),
        ("a: *x", 1, "alias"),
        ("a: &a [x,x]\n" + "".join(f"{b}: &{b} [*{a},*{a}]\n" for a, b in pairwise("abcdefghi")), 1, "anchor"),
        ("a: !!python/object/apply:os.system [ls]", 1, "tag"),
        ("a: !!str 1", 1, "tag"),
        ("a: ! 1", 1, "tag"),
        ("&k a: 1", 1, "plain text"),
        ("? [a]\n: b", 1, "plain text"),
        ("a: 1\n<<: {b: 2}", 2, "merge"),
        ("a: 1\nb: 2\na: 3", 3, "twice"),
        ("1: a\n'1': b", 2, "twice"),
        ("%YAML 1.1\n---\na: 1", 1, "directive"),
        ("a: 1\n---\nb: 2", 2, "more than one"),
        ("- a", 1, "not a mapping"),
        ("", 1, "not a mapping"),
        ("a: b: c", 1, "Not valid YAML"),
        ("a: [1, 2", 1, "Not valid YAML"),
        ("a: 1\nb: 'x", 2, "Not valid YAML"),
        ("a: 1\nb: \x07", 2, "U\\+0007"),
        ('a: "\\ud800"', 1, "surrogate"),
        ('a: "\\U00110000"', None, "Not valid YAML"),
        ("a: " + "[" * 200_000, 1, "nested"),
        ("a: " + "{b: " * 9 + "1" + "}" * 9, 1, "nested"),
        ("a:\n" + "- x\n" * (MAX_NODES + 1), MAX_NODES, "more than"),
    ],
)
def test_what_is_dangerous_or_wrong_is_refused_with_its_line(text: str, line: int | None, word: str) -> None:
    with pytest.raises(FormatError, match=word) as caught:
        read_yaml(text, where="a.yaml")
    assert caught.value.problem.line == line


def test_lines_count_from_where_the_document_begins() -> None:
    with pytest.raises(FormatError) as caught:
        read_yaml("a: 1\na: 2", where="SKILL.md", first_line=2)
    assert caught.value.problem.line == 3
    document = read_yaml("a: 1\nb:\n  - x\n  - y: z", where="SKILL.md", first_line=2)
    assert (document.line("b", 1, "y"), document.line("b"), document.line("c")) == (5, 4, None)


def test_plain_words_stay_words() -> None:
    text = "name: no\ntime: 12:30:00\nday: 2024-01-01\nn: 12\nf: 1.50\nt: true\nlong: " + "9" * 30
    document = read_yaml(text, where="a.yaml")
    words = {"name": "no", "time": "12:30:00", "day": "2024-01-01", "long": "9" * 30}
    assert document.value == {**words, "n": 12, "f": 1.5, "t": True} and document.text("f") == "1.50"
    with pytest.raises(LibraryError, match="written"):
        print_yaml({"a": object()})

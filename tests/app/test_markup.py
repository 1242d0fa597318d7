import html
import string
import unicodedata

import pytest
from hostile import HOSTILE, HOSTILE_DOCUMENT, Reader, read_own
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.markup import MAX_DOCUMENT, bullets, callout, diff, document, escape, paragraph, plain, preformatted, table

TEXTS = st.text(max_size=60) | st.text(string.punctuation + "ab \n", max_size=40) | st.just(HOSTILE)


@given(TEXTS)
def test_escaped_text_reads_as_the_text_and_holds_no_syntax(text: str) -> None:
    escaped = escape(text)
    assert html.unescape(escaped) == plain(text)
    rest = escaped.replace("&#", "").replace(";", "")
    assert all(each == " " or unicodedata.category(each)[0] in "LMN" for each in rest)


@given(TEXTS)
def test_escaped_text_is_one_plain_paragraph_to_a_markdown_reader(text: str) -> None:
    shown = Reader(MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(f"x{escape(text)}x"))
    assert set(shown.tags) == {"p"} and shown.text.strip() == f"x{plain(text)}x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\tb", "a b"),
        ("ab\u202ecd", "abcd"),
        ("a\u200bb\x00c\x1b[31m", "abc[31m"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_what_cannot_be_seen_is_left_out(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(TEXTS)
def test_every_wrapper_keeps_foreign_text_inside(text: str) -> None:
    for markup in (
        paragraph(text, "faint") or "<p></p>",
        bullets([escape(text)]),
        table(["a", "b"], [[escape(text), escape(text)]]),
        callout("note", text, paragraph(text)),
        preformatted(text),
        diff(text),
    ):
        reader = read_own(f'<div class="rh ">{markup}</div>')
        assert "script" not in reader.tags and "img" not in reader.tags


@given(st.lists(st.text(string.ascii_letters + " <>&+-@", max_size=12), max_size=6))
def test_lines_of_a_diff_are_kept(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown, given = ([line.rstrip() for line in each.split("\n")] for each in (Reader(diff(text)).text, text))
    assert shown == given


@given(TEXTS | st.just(HOSTILE_DOCUMENT))
def test_a_document_becomes_our_own_elements_alone(text: str) -> None:
    assert read_own(document(text)).tags[0] == "div"


def test_a_document_keeps_its_structure_and_says_where_links_led() -> None:
    reader = read_own(
        document("# Title\n\nSome **bold** text, a [link](https://a.example/x) and ![a cat](b.png).\n\n- one\n")
    )
    assert reader.tags == ["div", "h3", "p", "strong", "span", "span", "ul", "li"]
    assert reader.text == "TitleSome bold text, a link (https://a.example/x) and [picture: a cat].one"


def test_a_hostile_document_is_shown_and_not_obeyed() -> None:
    reader = read_own(document(HOSTILE_DOCUMENT))
    assert "<script>window.owned=1</script>" in reader.text and "table" in reader.tags


def test_a_very_long_document_is_cut_and_says_so() -> None:
    text = read_own(document("word " * (MAX_DOCUMENT // 4))).text
    assert "more characters are not shown" in text and len(text) < MAX_DOCUMENT + 100

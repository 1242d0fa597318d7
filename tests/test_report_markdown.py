import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rewardharness.library.card_parts import table
from rewardharness.library.plaintext import one_line
from rewardharness.report_markdown import inert

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PLACES = {
    "a heading": "# {}",
    "a paragraph": "{}",
    "a line of a paragraph": "Before.\n{}\nafter",
    "an item of a list": "- {}",
}
HOSTILE = st.text(st.sampled_from("ab1 0.)_*`[]()<>!#&;|~$@\\-+=:/\"'{}^\n\t\u202e"), max_size=30) | st.text(
    max_size=30
)


def rendered(text: str) -> tuple[list[str], set[str]]:
    """What a reader sees line by line, and which kinds of markup made it."""
    kinds: set[str] = set()
    lines = [""]
    for token in RENDERER.parse(text):
        kinds.add(token.type)
        for each in token.children or ():
            kinds.add(each.type)
            if each.type == "softbreak":
                lines.append("")
            lines[-1] += each.content
    return lines, kinds


PLAIN = {"inline", "text", "text_special", "softbreak", "paragraph_open", "paragraph_close"}
AROUND = PLAIN | {f"{what}_{end}" for what in ("heading", "bullet_list", "list_item") for end in ("open", "close")}


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=25)
@given(HOSTILE)
def test_foreign_text_is_seen_as_it_is_and_is_no_markup(place: str, text: str) -> None:
    written = inert(text)
    assume(written)
    lines, kinds = rendered(PLACES[place].format(written))
    assert kinds <= AROUND
    seen = re.sub(r"@(?=\w)", "@ ", one_line(text))
    assert [line for line in lines if line and line not in ("Before.", "after")] == [seen]


@settings(max_examples=40)
@given(HOSTILE, HOSTILE)
def test_a_cell_stays_one_cell(first: str, second: str) -> None:
    tokens = RENDERER.parse(table(("one", "two"), [(inert(first), inert(second))]))
    cells = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "td_open"]
    assert len(cells) == 2
    kinds = {each.type for token in tokens for each in token.children or ()}
    assert kinds <= {"text", "text_special"}


def test_usual_names_read_as_they_are() -> None:
    for name in (
        "measured (no VLM), release 3f2a1b",
        "my_pairs_2: exact among A, B, tie",
        "vllm:Qwen/Qwen2.5-VL-7B-Instruct",
        "measured: 50.0 [29.9, 70.1] (20 of 20 judged)",
        "0.05",
        "-1.5 [-2, 3]",
        "50 % of 3 & 4; that's all!",
        "drawn: complete groups of 3, every pair correct; a group with a failed pair is not",
    ):
        assert inert(name) == name
    assert inert("[x](https://evil.example) www.evil.example a@b.example @you") == (
        "\\[x\\](https: //evil.example) www .evil.example a @ b.example @ you"
    )
    assert inert("<b>&lt;|`__x__`") == "\\<b>\\&lt;\\|\\`\\_\\_x\\_\\_\\`"

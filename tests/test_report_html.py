import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.report import Chart, Mark, Point, Report, Section, Table, Text, Value
from rewardharness.report_html import draw_chart, draw_value, render_html
from rewardharness.report_markdown import render_markdown

SHARES = st.floats(0, 1)
POINTS = st.lists(st.builds(Point, SHARES, SHARES, st.tuples(SHARES, SHARES), st.integers(1, 50)))


class Tags(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.words = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@settings(max_examples=40)
@given(st.none() | SHARES, st.none() | st.tuples(SHARES, SHARES), st.none() | SHARES, st.sampled_from([0.0, -1.0]))
def test_a_drawn_value_stays_within_its_ends(
    value: float | None, bounds: tuple[float, float] | None, chance: float | None, low: float
) -> None:
    interval = (min(bounds), max(bounds)) if bounds else None
    line = draw_value(Value("", value, interval, chance, low))
    assert bool(line) == (value is not None)
    tags = Tags(line)
    assert tags.names <= {"span"} and tags.words == ""
    for number in re.findall(r"(?:left|width):(-?[\d.]+)%", line):
        assert 0 <= float(number) <= 100


@settings(max_examples=30)
@given(POINTS)
def test_a_chart_has_a_dot_for_every_point(points: list[Point]) -> None:
    picture = draw_chart(Chart("title", "x", "y", tuple(points)))
    assert picture.count("<circle") == len(points)
    assert bool(picture) == bool(points)
    assert all(0 <= float(y) <= 340 for y in re.findall(r'c[xy]="([\d.-]+)"', picture))


def test_sections_without_blocks_are_left_out_and_texts_are_escaped() -> None:
    evil = "<script>x</script>"
    blocks = (Text((evil,), "list"), Table((evil,), ((evil,), (Value(evil, 0.5),), (Mark(evil, True, evil),)), evil))
    report = Report(evil, (Section("a", evil, blocks), Section("b", "Absent", (), "Nothing here")))
    page = Tags(render_html(report, evil))
    assert "script" not in page.names and page.words.count(evil) == 10
    text = render_markdown(report)
    assert "Absent" not in page.words + text and "<script>" not in text.replace("\\<", "")
    assert re.search(r"Nothing here", page.words + text) is None

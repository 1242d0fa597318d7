"""Shows the report of a benchmark on the Benchmark tab."""

from dataclasses import replace

from app.failures import title_of
from app.report_views import sections
from rewardharness.benchmark.report import build_report
from rewardharness.benchmark.result import label
from rewardharness.report import Chart, Report
from rewardharness.report_html import draw_chart
from rewardharness.schema import Json


def _report(result: Json, key: str = "") -> Report:
    return build_report(result, key, lambda code: str(title_of(code)))


def rows_table(result: Json) -> str:
    """Return a table per number, with a row per entry, and the thresholds of ties."""
    report = _report(result)
    return sections(report.section("numbers")) + sections(report.section("thresholds"), titles=True)


def section(result: Json, name: str, key: str = "") -> str:
    """Return a section of the report without its charts.

    Args:
        result: The result.
        name: Key of the section.
        key: Key of the row that the section is about; empty for the judge.
    """
    return sections(_report(result, key).section(name))


def about_data(result: Json) -> str:
    """Return what was judged and counted, and problems and notes of the data."""
    report = _report(result)
    about = report.section("summary").blocks[1:]
    return sections(replace(report.section("summary"), blocks=about), report.section("data"), report.section("notes"))


def row_choices(result: Json) -> list[tuple[str, str]]:
    """Return label and key of each row."""
    return [(label(row), row["key"]) for row in result["rows"]]


def reliability(result: Json, key: str) -> str:
    """Return the reliability curve of a row; empty if the judge reports no confidence."""
    charts = [each for each in _report(result, key).section("confidence").blocks if isinstance(each, Chart)]
    return "".join(f'<div class="rh">{draw_chart(chart)}</div>' for chart in charts)

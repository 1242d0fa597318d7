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


def judging_table(result: Json) -> str:
    """Return protocol, coverage, failures, position consistency and cost of each entry."""
    return sections(_report(result).section("judging"))


def published(result: Json) -> str:
    """Return published numbers beside those of the judge."""
    return sections(_report(result).section("published"))


def about_data(result: Json) -> str:
    """Return what was judged and counted, and problems and notes of the data."""
    report = _report(result)
    about = report.section("summary").blocks[1:]
    return sections(replace(report.section("summary"), blocks=about), report.section("data"), report.section("notes"))


def row_choices(result: Json) -> list[tuple[str, str]]:
    """Return label and key of each row."""
    return [(label(row), row["key"]) for row in result["rows"]]


def by_kind(result: Json, key: str) -> str:
    """Return the accuracy per category of edit of a row, next to the other rows."""
    return sections(_report(result, key).section("categories"))


def by_margin(result: Json, key: str) -> str:
    """Return the accuracy of a row by its margin."""
    return sections(_report(result, key).section("margins"))


def calibration(result: Json, key: str) -> str:
    """Return the calibration of a row."""
    return sections(_report(result, key).section("confidence"))


def reliability(result: Json, key: str) -> str:
    """Return the reliability curve of a row; empty if the judge reports no confidence."""
    charts = [each for each in _report(result, key).section("confidence").blocks if isinstance(each, Chart)]
    return "".join(f'<div class="rh">{draw_chart(chart)}</div>' for chart in charts)

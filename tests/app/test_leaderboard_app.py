"""The leaderboard of the Benchmark tab on a local Hub: who may publish in it, what it shows, and in which order."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_parts import app_services, judged, make_labelled, on
from hub_parts import Hub

from app.benchmark.leaderboard import LeaderboardPanel, Publication
from app.library.libraries import RightsError, Visitor
from app.services import AppServices
from rewardharness.benchmark.leaderboard import CATEGORY, LeaderboardRow, leaderboard_section, publish, read_leaderboard
from rewardharness.benchmark.numbers import RATING
from rewardharness.benchmark.published import read_published
from rewardharness.errors import InputError
from rewardharness.report import Table, Value
from rewardharness.schema import Usage

REPO = "ann/board"
ROW = LeaderboardRow(
    task="pvc-bench", task_protocol="pairs", data="d", part="all", metric="exact", name="two labels",
    judge="<b>cheap</b>", judge_protocol="direct", judge_revision="r", library="builtin", library_id="i",
    value=0.6, low=0.5, high=0.7, n=100, judged=90, usage=Usage(200, 1000, 100), judgments=100, date="2026-01-31",
)  # fmt: skip


def panel(services: AppServices) -> LeaderboardPanel:
    """Without widgets: their names stand for them."""
    drawn = LeaderboardPanel.__new__(LeaderboardPanel)
    names = ("choice", "table", "shown", "loaded", "prepared", "told", "confirm")
    vars(drawn).update({"_services": services, **{name: name for name in names}})
    return drawn


def test_a_leaderboard_is_ordered_and_escaped(hub: Hub, tmp_path: Path) -> None:
    dear = replace(ROW, judge="dear", value=0.8, low=0.7, high=0.9, judged=100, usage=Usage(200, 90_000, 0))
    publish([ROW, dear, replace(ROW, name="another", metric=CATEGORY)], REPO, hub.user("ann"))
    board = read_leaderboard(f"leaderboard:{REPO}", hub.anonymous)
    drawn = panel(app_services(tmp_path, tmp_path / "scratch"))
    shown = {order: drawn.show(board, 0, order) for order in ("accuracy", "cost", "coverage")}
    first = {order: text.index("dear") < text.index("cheap") for order, text in shown.items()}
    assert first == {"accuracy": True, "cost": False, "coverage": True}
    assert "<b>" not in shown["cost"] and "0.60" not in shown["cost"] and "2026&#45;01&#45;31" in shown["cost"]
    assert "60&#46;0 &#91;50&#46;0&#44; 70&#46;0&#93;" in shown["cost"] and "2 requests&#44; 11 tokens" in shown["cost"]
    assert "No leaderboard" in drawn.show(None, 0, "cost") and "another" in drawn.show(board, 1, "cost")


def test_ratings_of_editors_are_shown_and_drawn(hub: Hub, tmp_path: Path) -> None:
    best = replace(ROW, metric=RATING, name="rating", editor="<i>painter", value=1100, low=1050, high=1150)
    publish([best, replace(best, editor="other", value=900, low=850, high=950)], REPO, hub.user("ann"))
    board = read_leaderboard(REPO, hub.anonymous)
    shown = panel(app_services(tmp_path, tmp_path / "scratch")).show(board, 0, "accuracy")
    assert shown.index("painter") < shown.index("other") and "<i>" not in shown
    assert "1100 &#91;1050&#44; 1150&#93;" in shown and shown.count('class="dot"') == 2 and "Editor" in shown


def test_published_numbers_stand_beside_measured_ones() -> None:
    known = read_published()[0]
    setting = known.setting
    names = ("task", "part", "metric", "dimension", "labels")
    row = replace(ROW, **{name: getattr(setting, name) for name in names}, task_protocol=setting.protocol)
    table = leaderboard_section([row]).blocks[0]
    assert isinstance(table, Table)
    beside = {str(cells[0]): cells for cells in table.rows}
    assert known.judge in beside and "<b>cheap</b>, builtin" in beside
    value, source = beside[known.judge][1], beside[known.judge][-1]
    assert isinstance(value, Value) and value.text == known.printed and known.source in str(source)
    values = [cells[1].value for cells in table.rows if isinstance(cells[1], Value)]
    assert values == sorted(values, key=lambda number: -(number or 0))
    last = leaderboard_section([row], "cost").blocks[0]
    assert isinstance(last, Table) and last.rows[0][0] == "<b>cheap</b>, builtin"


def test_a_finished_run_is_published_by_who_may(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged(tmp_path, on(make_labelled(tmp_path / "pairs")), "benchmark-pairs")
    token = hub.user("ann").token
    env = {"SYSTEM": "spaces", "OAUTH_CLIENT_ID": "id", "HF_ENDPOINT": hub.server.url}
    space = panel(app_services(tmp_path, tmp_path / "space", local=False, **env))
    for visitor, repo in ((Visitor(), REPO), (Visitor("ann", token), "bob/board"), (Visitor("ann"), REPO)):
        with pytest.raises(RightsError):
            space.preview(visitor, repo, False, run)
        with pytest.raises(RightsError):
            space.publish(visitor, Publication(repo, (ROW,), False))
    monkeypatch.setenv("HF_TOKEN", token)
    drawn, here = panel(app_services(tmp_path, tmp_path / "scratch", HF_ENDPOINT=hub.server.url)), Visitor()
    with pytest.raises(InputError, match="No finished run"):
        drawn.preview(here, REPO, False, "")
    with pytest.raises(InputError, match="dataset is missing"):
        drawn.load(here, " ", "cost")
    previewed = drawn.preview(here, f"https://huggingface.co/datasets/{REPO}", False, run)
    prepared = previewed[drawn.prepared]
    assert prepared.repo == REPO and "no images" in previewed[drawn.told]
    assert ("datasets", REPO) not in hub.server.store.repos, "a preview writes nothing"
    assert "published" in drawn.publish(here, prepared)[drawn.told]
    loaded = space.load(Visitor(), REPO, "cost")
    rows = loaded[space.loaded].rows
    assert "measured" in loaded[space.shown] and {"category remove", "category color"} <= {row.name for row in rows}
    assert all(row.judgments == 15 and not row.library.startswith("/") for row in rows)

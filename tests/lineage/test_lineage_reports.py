"""What is read from trainers and reports: curves and counts, without making anything up."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.errors import HarnessError, InputError
from rewardharness.files import sha256
from rewardharness.lineage.reports import metric_at, read_report
from rewardharness.lineage.store import read_curve


def written(folder: Path, text: str) -> Path:
    file = folder / "file.json"
    file.write_text(text, "utf-8")
    return file


def test_a_curve_is_its_points_and_what_is_missing(tmp_path: Path) -> None:
    points = [{"step": step, "reward": step / 100} for step in range(1, 101)]
    points[49]["reward"] = float("nan")
    text = "\n".join(map(json.dumps, [*points[::-1], {"step": 101, "reward": None}, {"step": 100, "loss": 1.0}]))
    curve = read_curve(written(tmp_path, text))
    assert (curve.points, curve.missing) == (99, 2)
    assert (curve.first, curve.last, curve.highest) == ((1, 0.01), (100, 1.0), (100, 1.0))
    assert curve.late_mean == pytest.approx(0.955)
    assert curve.sha256 == sha256(text.encode())


def test_a_curve_of_a_trainer_is_read_from_its_state(tmp_path: Path) -> None:
    history = [{"step": 1, "rewards/our/mean": 0.25}, {"step": 2, "rewards/our/mean": 0.5}, {"eval_loss": 1}]
    file = written(tmp_path, json.dumps({"log_history": history, "global_step": 2}))
    assert read_curve(file, "rewards/our/mean").last == (2, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        *["", "{}", "3", '{"step": 1}\nno', '{"step": "1", "reward": 1}', '{"step": 1, "reward": "x"}', "[" * 9999],
        json.dumps({"step": 1, "reward": 10**400}),
    ],
)
def test_what_is_no_curve_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"file\.json"):
        read_curve(written(tmp_path, text))


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_file_is_a_curve_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "curve.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert read_curve(file).points > 0
    except HarnessError as error:
        assert str(file) in error.message


COUNT: dict[str, Any] = {"n": 10, "judged": 8, "accuracy": 0.5, "interval": [0.2, 0.8]}


def test_a_count_is_taken_whole(tmp_path: Path) -> None:
    found = read_report(written(tmp_path, json.dumps({"by_label_kind": {"human": COUNT}, "judge": "j"})))
    metric = metric_at(found, "accuracy", "higher", "by_label_kind.human")
    assert (metric.value, metric.n, metric.judged, metric.interval) == (0.5, 10, 8, (0.2, 0.8))
    assert found.judge == "j" and not found.metrics


@pytest.mark.parametrize(
    ("count", "why"),
    [
        ({}, "no count with a value"),
        (COUNT | {"accuracy": None}, "no count with a value"),
        (COUNT | {"accuracy": "0.5"}, "value: expected `float`"),
        (COUNT | {"interval": [0.6, 0.8]}, "does not contain the value"),
        (COUNT | {"judged": 11}, "11 judged of 10"),
        ([], "no count with a value"),
    ],
)
def test_a_count_that_does_not_hold_is_refused(tmp_path: Path, count: Any, why: str) -> None:
    found = read_report(written(tmp_path, json.dumps({"part": count})))
    with pytest.raises(InputError, match=why):
        metric_at(found, "accuracy", "higher", "part")


@pytest.mark.parametrize("text", ["[]", "no", "3"])
def test_what_is_no_report_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"not (a report|valid JSON)"):
        read_report(written(tmp_path, text))


def test_the_report_of_an_evolution_says_what_an_eval_needs(tmp_path: Path) -> None:
    run = {"command": "evolve", "data": "d1", "data_name": "pairs", "judge": "measured", "judge_revision": "r1"}
    run |= {"protocol": "measured", "seed": 3, "audit_share": 0.25}
    document = {"run": run, "library": {"final_id": sha256(b"x")}, "audit": {"final": COUNT}}
    found = read_report(written(tmp_path, json.dumps(document)))
    assert found.benchmark is not None
    assert (found.benchmark.name, found.benchmark.revision) == ("pairs", "d1 audit seed 3 share 0.25")
    assert (found.judge, found.library) == ("measured, measured, r1", sha256(b"x"))
    [metric] = found.metrics
    assert (metric.name, metric.value, metric.direction) == ("accuracy", 0.5, "higher")

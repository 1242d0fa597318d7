"""`rh lineage` from end to end, as a trainer would use it."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from drawn_pairs import TIMID, draw_pairs

from rewardharness.files import sha256, write_text
from rewardharness.library.store import EMPTY, Library

SHORT = 12


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a release, a checkpoint, a curve and values example by example."""
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "release.json", json.dumps({"id": "r-1", "library": {"id": EMPTY.id}}))
    write_text(tmp_path / "config.json", json.dumps({"lr": 1e-5, "steps": 400}))
    write_text(tmp_path / "out" / "weights.bin", "weights")
    points = [{"step": step, "reward": step / 10} for step in range(5)]
    write_text(tmp_path / "curve.jsonl", "\n".join(map(json.dumps, points)))
    for name, wrong in (("before", 20), ("after", 5)):
        rows = [{"id": f"e{number}", "accuracy": number >= wrong} for number in range(50)]
        write_text(tmp_path / f"{name}.jsonl", "\n".join(map(json.dumps, [*rows, {"id": "e50", "accuracy": None}])))
    return tmp_path


class Run:
    """Runs `rh lineage`."""

    def __init__(self, rh: Rh) -> None:
        self._rh = rh

    def __call__(self, *words: object, status: int = 0) -> str:
        shown = self._rh("lineage", *words, status=status)
        return shown.err if status and not shown.out else shown.out

    def json(self, *words: object, status: int = 0) -> Any:
        return self._rh("lineage", *words, "--json", status=status).json


@pytest.fixture
def run(rh: Rh) -> Run:
    return Run(rh)


PLAN = ("record-manifest", "grpo-1", "--base-model", "org/base", "--base-revision", "abc", "--release", "release.json")
PLAN += ("--data", "prompts", "--data-revision", "v1", "--trainer", "verl-omni", "--config", "config.json")
PLAN += ("--seed", "1", "--seed", "2", "--expect", "accuracy,higher,target=0.8")
RESULT = ("record-result", "grpo-1", "--status", "succeeded", "--artifact", "last=out", "--steps", "400")
RESULT += ("--curve", "curve.jsonl", "--wall-seconds", "3600.5")
METRIC = ("--metric", "accuracy,higher,n=51", "--benchmark", "bench", "--task", "all", "--protocol", "both orders")


@pytest.fixture
def trained(place: Path, run: Run) -> Path:
    run(*PLAN)
    run(*RESULT)
    run("record-eval", "before", "--model", "org/base@abc", *METRIC, "--items", "before.jsonl")
    run("record-eval", "after", "--artifact", "grpo-1", *METRIC, "--items", "after.jsonl")
    return place


def test_a_training_is_planned_observed_and_measured(trained: Path, run: Run, own_home: Path) -> None:
    files = sorted(each.name for each in (own_home / "lineage").glob("*.json"))
    assert files == ["eval.after.json", "eval.before.json", "manifest.grpo-1.json", "result.grpo-1.json"]
    plan, result, before = (
        json.loads((own_home / "lineage" / name).read_text("utf-8"))["body"]
        for name in ("manifest.grpo-1.json", "result.grpo-1.json", "eval.before.json")
    )
    assert plan["reward"]["release"]["library"] == EMPTY.id and plan["trainer"]["config"]["lr"] == 1e-5
    assert plan["seeds"] == [1, 2] and plan["expected"][0] == {"name": "accuracy", "direction": "higher", "target": 0.8}
    assert result["artifacts"][0]["bytes"] == 7 and result["curve"]["last"] == [4, 0.4]
    assert result["wall_seconds"] == 3600.5 and result["failure"] is None
    [metric] = before["metrics"]
    assert (metric["value"], metric["n"], metric["judged"]) == (0.6, 51, 50) and metric["interval"][0] < 0.6


def test_the_same_command_again_changes_nothing(trained: Path, run: Run, own_home: Path) -> None:
    before = {each: each.read_bytes() for each in (own_home / "lineage").rglob("*.json")}
    assert run.json(*PLAN)["id"] == run.json(*PLAN)["id"]
    assert {each: each.read_bytes() for each in (own_home / "lineage").rglob("*.json")} == before
    assert "never changed" in run(*PLAN, "--notes", "x", status=1)


def test_a_dry_run_checks_and_keeps_nothing(place: Path, run: Run, own_home: Path) -> None:
    assert run.json(*PLAN, "--dry-run")["recorded"] is False
    assert not (own_home / "lineage").exists()
    write_text(place / "config.json", json.dumps({"hub_token": "abc"}))
    assert "would store a secret: body.trainer.config.hub_token" in run(*PLAN, "--dry-run", status=1)


def test_a_comparison_is_in_pairs_and_kept(trained: Path, run: Run) -> None:
    assert "Recorded comparison" in (shown := run("compare", "before", "after")) and "better" in shown
    found = run.json("compare", "before", "after")
    [metric] = found["metrics"]
    assert (metric["method"], metric["n"], metric["verdict"]) == ("paired items", 50, "better")
    assert metric["difference"] == pytest.approx(0.3)
    assert run.json("compare", "after", "before", "--dry-run")["id"] is None


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("before", "after"), 0),
        (("after", "before"), 1),
        (("after", "before", "--tolerance", "0.3"), 0),
        (("after", "before", "--tolerance", "accuracy=0.3", "--rule", "ruled-out"), 1),
        (("after", "before", "--rule", "proven"), 1),
        (("after", "before", "--metric", "accuracy", "--tolerance", "0.29"), 1),
    ],
)
def test_a_regression_ends_with_status_1(trained: Path, run: Run, words: tuple[str, ...], status: int) -> None:
    found = run.json("check-regression", *words, status=status)
    assert found["regressed"] is bool(status)
    assert [each["direction"] for each in found["checks"]] == ["higher", "higher"]
    shown = run("check-regression", *words, status=status)
    assert ("REGRESSED" in shown) is bool(status) and "95% CI" in shown


def test_the_tree_goes_from_the_release_to_the_comparison(trained: Path, run: Run) -> None:
    run("compare", "before", "after")
    shown = run("show")
    lines = [
        "released as: release r-1",
        "rewards: training grpo-1",
        "resulted in: result grpo-1: succeeded, 400 steps, reward 0 at first and 0.4 late",
        "produced: artifact last",
        "measured in: eval after: bench/all: accuracy 0.9",
        "comparison",
    ]
    places = [shown.index(line) for line in lines]
    assert places == sorted(places), shown
    graph = run.json("show", "before")
    assert {node["kind"] for node in graph["nodes"]} == {"model", "eval", "comparison"}
    assert {edge["relation"] for edge in graph["edges"]} == {"measured in", "base of"}
    assert run.json("show", EMPTY.id[:SHORT])["nodes"]
    told = run("show", "nobody", status=1)
    assert "There is no record" in told and "manifest.grpo-1" in told and "result.grpo-1" in told
    assert "There are no records" in run("show", "--lineage", "elsewhere")
    assert not Path("elsewhere").exists(), "looking makes no folder"


def test_files_that_changed_since_are_said(trained: Path, run: Run) -> None:
    assert {row["state"] for row in run.json("show", "--files")["files"]} == {"as recorded"}
    write_text(trained / "out" / "weights.bin", "others")
    (trained / "release.json").unlink()
    found = run.json("show", "--files", status=1)["files"]
    assert sorted(row["state"] for row in found) == ["changed", "not here"]
    again = ("record-eval", "again", "--artifact", "grpo-1", *METRIC, "--items", "after.jsonl")
    assert "has changed since it was recorded" in run(*again, status=1)


def test_a_record_that_was_changed_is_named_by_every_command(trained: Path, run: Run, own_home: Path) -> None:
    path = own_home / "lineage" / "result.grpo-1.json"
    write_text(path, path.read_text("utf-8").replace('"steps": 400', '"steps": 4000'))
    for words in (("show",), ("compare", "before", "after"), PLAN, ("check-regression", "before", "after")):
        said = run(*words, status=1)
        assert str(path) in said and "was changed" in said


def test_a_failure_carries_its_stage(place: Path, run: Run) -> None:
    run(*PLAN)
    result = ("record-result", "grpo-1", "--status")
    assert "needs its stage and cause" in run(*result, "failed", "--message", "x", status=1)
    assert "--stage and --message are for" in run(*result, "stopped", "--stage", "data", status=1)
    run(*result, "failed", "--stage", "preflight", "--message", "no such reward")
    assert "failed in preflight: no such reward" in run("show")


def test_an_eval_is_read_from_the_report_of_an_evolution(place: Path, run: Run, own_home: Path) -> None:
    count = {"n": 10, "judged": 9, "accuracy": 2 / 3, "interval": [0.4, 0.9]}
    about = {"command": "evolve", "data": "d" * 64, "data_name": "pairs", "judge": "measured", "protocol": "measured"}
    start, final = sha256(b"start"), sha256(b"final")
    report = {"run": about, "library": {"final_id": final}, "audit": {"final": count, "start": count}}
    folder = own_home / "runs" / "evolution"
    write_text(folder / "run.json", json.dumps(about | {"library_id": start}))
    write_text(folder / "report.json", json.dumps(report))
    edit = {"parent": start, "library": final, "operator": "add", "entries": ["skill"], "cited": ["p1"]}
    write_text(folder / "library" / "lineage.jsonl", json.dumps(edit) + "\n")
    run("record-eval", "final", "--report", folder / "report.json")
    at = ("--metric", "accuracy,higher,at=audit.start", "--library", start)
    run("record-eval", "start", "--report", folder / "report.json", *at)
    [check, coverage] = run.json("check-regression", "start", "final")["checks"]
    assert check["base"] == check["new"] == 2 / 3 and coverage["base"] == 0.9
    graph = run.json("show", "final")
    assert {node["kind"] for node in graph["nodes"]} == {"data", "example", "edit", "library", "eval"}
    assert "evidence for: edit add skill" in run("show", "final")


def test_an_eval_of_a_benchmark_has_its_examples(place: Path, run: Run, rh: Rh) -> None:
    draw_pairs(place / "pairs", 8)
    Library((TIMID,)).save(place / "timid")
    words = ["benchmark", "pairs", "--library", "timid", "--baselines", "always-a", "--run", "bench", "--quiet"]
    rh(*words)
    run("record-eval", "timid", "--report", "bench/report.json")
    run("record-eval", "always-a", "--report", "bench/report.json", "--row", "baseline")
    nobody = ("record-eval", "x", "--report", "bench/report.json", "--row", "nobody")
    assert "has no row 'nobody'" in run(*nobody, status=1)
    Library(()).save(place / "bare")
    rh("benchmark", "pairs", "--library", "bare", "--run", "none", "--quiet", status=3)
    assert "nothing was judged" in run("record-eval", "x", "--report", "none/report.json", status=1)
    assert "differ in the judge" in run("compare", "always-a", "timid", status=1)
    found = run.json("compare", "always-a", "timid", "--different-judges")
    [metric] = [each for each in found["metrics"] if "exact" in each["name"]]
    assert (metric["base"], metric["n"], metric["method"]) == (0.5, 8, "paired items")
    assert metric["new"] < 0.5 and metric["difference"] == metric["new"] - 0.5
    assert metric["coverage"] == [1.0, 1.0] and found["different_judges"]
    (place / "bench" / "exam.json").unlink()  # without the run there are numbers, and no examples
    run("record-eval", "numbers", "--report", "bench/report.json", "--notes", "n")
    assert run.json("compare", "timid", "numbers")["metrics"][0]["method"] == "two intervals"


def test_a_library_s_own_lineage_is_drawn(place: Path, run: Run) -> None:
    other = sha256(b"other")
    EMPTY.with_lineage({"parent": other, "library": EMPTY.id, "operator": "remove", "entries": ["x"]}).save("grown")
    assert Library.load("grown").lineage
    shown = run("show", "--library", "grown")
    assert f"Library {other[:SHORT]}" in shown and "edited by: edit remove x" in shown


def test_a_release_of_ours_is_verified(place: Path, run: Run, rh: Rh) -> None:
    rh("release", "create", "--library", "builtin", "-o", "ours.json")
    plan = ("record-manifest", "one", "--base-model", "b", "--release", "ours.json")
    assert len(run.json(*plan, "--dry-run")["body"]["reward"]["release"]["library"]) == 64
    write_text(place / "ours.json", (place / "ours.json").read_text("utf-8").replace('"ties": false', '"ties": true'))
    assert "was changed" in run(*plan, status=1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--metric", "accuracy"), "`higher` or `lower`"),
        (("--metric", "accuracy,up,value=1"), "`higher` or `lower`"),
        (("--metric", "accuracy,higher"), "it has no value"),
        (("--metric", "accuracy,higher,value=x"), "value: expected `float`"),
        (("--metric", "accuracy,higher,value=nan"), "not a finite number"),
        (("--metric", "accuracy,higher,value=1,value=2"), "each once"),
        (("--metric", "accuracy,higher,value=1,low=0"), "low= and high="),
        (("--metric", "accuracy,higher,value=1,low=0,high=0.5"), "does not contain the value"),
        (("--metric", "accuracy,higher,value=1,n=2.5"), "n: expected `int | null`"),
        (("--metric", "accuracy,higher,correct=3"), "correct= needs judged="),
        (("--metric", "accuracy,higher,correct=3,judged=2"), "correct= needs judged="),
        (("--metric", "accuracy,higher,at=audit"), "from --report"),
        (("--metric", "a,higher,value=1", "--metric", "a,lower,value=1"), "names a twice"),
        ((), "needs --metric"),
    ],
)
def test_metrics_that_cannot_be_read_are_refused(run: Run, words: tuple[str, ...], why: str) -> None:
    about = ("record-eval", "e", "--model", "m", "--benchmark", "b")
    assert why in run(*about, *words, status=1)
    spec = ("--metric", "accuracy,higher,correct=9,judged=10,n=12", "--dry-run")
    [metric] = run.json(*about, *spec)["body"]["metrics"]
    assert metric["value"] == 0.9 and metric["interval"] == pytest.approx([0.5958, 0.9821], abs=1e-4)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("record-manifest", "x", "--base-model", " "), "not empty"),
        (("record-manifest", "x/y", "--base-model", "m"), "is not a valid record name"),
        (("record-manifest", "x", "--base-model", "m", "--config", "config.json"), "need a trainer"),
        (("record-manifest", "x", "--base-model", "m", "--data-revision", "1"), "needs a dataset"),
        (("record-manifest", "x", "--base-model", "m", "--expect", "loss"), "`higher` or `lower`"),
        (("record-manifest", "x", "--base-model", "m", "--parent", "nobody"), "There is no record 'nobody'"),
        (("record-manifest", "x", "--base-model", "m", "--release", "config.json"), "not a reward release"),
        (("record-manifest", "x", "--base-model", "m", "--trainer", "t", "--config", "curve.jsonl"), "curve.jsonl"),
        (("record-result", "nobody", "--status", "stopped"), "There is no manifest 'nobody'"),
        (("record-eval", "e", "--benchmark", "b", "--metric", "a,lower,value=1"), "has no subject"),
        (("record-eval", "e", "--model", "m", "--metric", "a,lower,value=1"), "needs --benchmark"),
        (("record-eval", "e", "--model", "m", "--metric", "a,lower", "--items", "curve.jsonl"), "`id`"),
    ],
)
def test_refused_records_are_said(place: Path, run: Run, own_home: Path, words: tuple[str, ...], why: str) -> None:
    assert why in run(*words, status=1)
    assert not (own_home / "lineage").exists()


@pytest.mark.parametrize("spec", ["out", "=out", "last=", "last=nowhere", f"last=out#sha256:{'0' * 64}"])
def test_artifacts_that_cannot_be_meant_are_refused(place: Path, run: Run, own_home: Path, spec: str) -> None:
    run(*PLAN)
    run("record-result", "grpo-1", "--status", "succeeded", "--artifact", spec, status=1)
    assert [each.name for each in (own_home / "lineage").glob("*.json")] == ["manifest.grpo-1.json"]


def test_an_artifact_elsewhere_keeps_the_hash_that_was_given(place: Path, run: Run) -> None:
    run(*PLAN)
    digest = "0" * 64
    specs = ("--artifact", f"far=hf://org/model@1#sha256:{digest}", "--artifact", f"gone=nowhere#sha256:{digest}")
    artifacts = run.json("record-result", "grpo-1", "--status", "succeeded", *specs)["body"]["artifacts"]
    assert [each["sha256"] for each in artifacts] == [digest, digest]
    assert artifacts[0]["location"] == "hf://org/model@1"

"""One value names the judge, its Library and the release of a number."""

from pathlib import Path

from rewardharness.benchmark.run import BenchmarkEntry
from rewardharness.judging.baselines import BaselineJudge
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.library.store import EMPTY
from rewardharness.runs.store import RunFolder


def test_the_json_form_has_the_keys_of_earlier_manifests(tmp_path: Path) -> None:
    judge = BaselineJudge("random")
    who = JudgeIdentity.of(judge, EMPTY)
    known = {
        "judge": "random (baseline)",
        "judge_revision": judge.revision,
        "protocol": "baseline:random",
        "library_id": EMPTY.id,
    }
    assert who.to_json() == known, "no release: the key is absent, as in runs that were begun before"
    assert JudgeIdentity.of(judge, EMPTY, "ab" * 32).to_json() == known | {"release": "ab" * 32}
    with RunFolder(tmp_path / "run", {"command": "x", **known}):
        pass
    with RunFolder(tmp_path / "run", {"command": "x", **who.to_json()}) as run:
        assert run.results() == {}
    assert str(who) == f"Judge: random (baseline), protocol baseline:random; Library {EMPTY.id[:12]}"


def test_the_rows_of_a_benchmark_keep_their_keys() -> None:
    judge = BaselineJudge("random")
    row = BenchmarkEntry("baseline", EMPTY, "no Library", lambda ties: BaselineJudge("random", ties)).record
    identity = (judge.name, judge.protocol, judge.revision, EMPTY.id)
    assert (row.name, row.protocol, row.revision, row.library_id) == identity
    assert not row.release and not row.settings_of

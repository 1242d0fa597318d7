"""Evaluations on a Ray cluster with the real Ray; and what is sent to its nodes."""

import asyncio
import json
import pickle
import sys
from copy import copy
from pathlib import Path

import pytest
from made_tables import as_parquet, data_100
from model_server import ModelServer
from ray_parts import PYTHON, RAY, TWO_NODES, call, rh

from rewardharness.errors import InputError
from rewardharness.judging.cache import MemoryCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.interface import unjudged
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.open import ScriptedModel
from rewardharness.schema import Example, Failure, ImageInput, Judgment

ANSWER = json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 2} for label in "AB"}})
ENDPOINT = "http://127.0.0.1:9/v1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(data_100(48)))
    return file


def judgments(folder: Path) -> dict[str, dict[str, object]]:
    """Result lines by id, without what they cost."""
    lines = map(json.loads, (folder / "results.jsonl").read_text(encoding="utf-8").splitlines())
    return {line.pop("id"): {name: value for name, value in line.items() if name != "usage"} for line in lines}


class TestWhatIsSent:
    def test_no_key_leaves_this_process_and_a_node_uses_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RH_API_KEY", "key-of-this-process")
        judge = open_judge(f"openai:judge@{ENDPOINT}", samples=3, ties=True, router=f"openai:router@{ENDPOINT}")
        sent = pickle.dumps(judge)
        assert b"key-of-this-process" not in sent
        monkeypatch.setenv("RH_API_KEY", "key-of-the-node")
        arrived = pickle.loads(sent)
        assert isinstance(arrived, SubAgent) and isinstance(judge, SubAgent)
        assert arrived.model._settings.api_key == "key-of-the-node"
        assert (arrived.name, arrived.revision, arrived.traits.router_id) == (
            judge.name,
            judge.revision,
            judge.traits.router_id,
        )
        assert arrived.settings == judge.settings
        assert isinstance(arrived.cache, MemoryCache) and arrived.router.cache is arrived.cache

    def test_a_node_without_the_key_of_a_service_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        sent = pickle.dumps(open_judge("openai:gpt-4.1"))
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
            pickle.loads(sent)

    def test_the_pixel_based_judge_arrives_with_its_options(self) -> None:
        judge = open_judge("measured", ties=True, allow_ungradable=True, critique=True)
        arrived = pickle.loads(pickle.dumps(judge))
        assert isinstance(arrived, MeasuredJudge) and arrived.traits.concurrency == 1
        assert (arrived.revision, arrived.calibration) == (judge.revision, judge.calibration)
        assert (arrived._ties, arrived._allow_ungradable, arrived._critiques) == (True, True, True)

    def test_a_copy_in_this_process_shares_threads_and_cache(self) -> None:
        judge = MeasuredJudge(workers=3)
        for each in (copy(judge), judge.with_ties(True), judge.with_critiques()):
            assert each._pool is judge._pool and each.traits.concurrency == 3

    def test_a_script_in_order_cannot_be_sent(self) -> None:
        with pytest.raises(TypeError, match="order"):
            pickle.dumps(SubAgent(ScriptedModel(["A"])))


class _Elsewhere:
    """Workers that fail every example, and say how many may be in progress."""

    def __init__(self) -> None:
        self.most = self._now = 0

    def concurrency(self, judge: Judge, chosen: int) -> int:
        return 2 * chosen

    async def judge(self, judge: Judge, library: Library, example: Example) -> Judgment:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        return unjudged(example, judge, library, Failure("elsewhere", ""))


def test_an_evaluation_hands_each_example_to_its_executor() -> None:
    image = ImageInput("source", Path("none.png"))
    examples = [Example(str(number), "make it red", image, (image, image)) for number in range(9)]
    workers = _Elsewhere()
    found = evaluate(open_judge("closer"), EMPTY, examples, concurrency=2, executor=workers)
    assert [judgment.failure.code for _, judgment in found if judgment.failure] == ["elsewhere"] * 9
    assert workers.most == 4


class TestOnRay:
    pytestmark = RAY

    @pytest.mark.parametrize("judge", ["measured", "random"])
    def test_the_results_are_those_of_this_process(self, data: Path, tmp_path: Path, judge: str) -> None:
        words = ["benchmark", data, "--judge", judge, "--quiet", "--json", "--baselines", "closer"]
        here = rh(PYTHON, *words, "--run", tmp_path / "here")
        ray = rh(PYTHON, *words, "--run", tmp_path / "ray", "--on", "ray")
        assert here.returncode == ray.returncode, ray.stderr
        assert judgments(tmp_path / "ray") == judgments(tmp_path / "here") != {}

    def test_an_evolution_accepts_the_same_edits(self, data: Path, tmp_path: Path) -> None:
        environ = {"RH_REGRESSION_PAIRS": "0"}
        words = ["evolve", data, "--proposals", 4, "--yes", "--quiet", "--json"]
        here = rh(PYTHON, *words, "--run", tmp_path / "here", environ=environ)
        ray = rh(PYTHON, *words, "--run", tmp_path / "ray", "--on", "ray", environ=environ)
        assert (here.returncode, ray.returncode) == (0, 0), ray.stderr
        assert judgments(tmp_path / "ray") == judgments(tmp_path / "here") != {}
        one, other = json.loads(ray.stdout), json.loads(here.stdout)
        assert [one[name] for name in ("library", "edits", "audit")] == [
            other[name] for name in ("library", "edits", "audit")
        ]

    def test_a_node_that_dies_changes_nothing_and_no_answer_is_paid_for_twice(self, data: Path, tmp_path: Path) -> None:
        with ModelServer(lambda asked: ANSWER, latency=0.5) as server:
            judge = ["--judge", f"openai:judge@{server.url}", "--protocol", "direct", "--yes", "--quiet"]
            rh(sys.executable, "score", data, "--run", tmp_path / "here", "--no-cache", *judge)
            run = ["score", data, *judge, "--on", "ray", "--concurrency", 8, "--run"]
            died = call(PYTHON, [TWO_NODES, tmp_path / "ray", 6, *run, tmp_path / "ray"])
            asked = len(server.calls)
            again = rh(PYTHON, *run, tmp_path / "again")
            assert len(server.calls) == asked
        assert (died.returncode, again.returncode) == (0, 0), died.stderr + again.stderr
        assert 6 <= int(died.stdout.split()[0]) < 48, "the node died in the middle"
        assert judgments(tmp_path / "ray") == judgments(tmp_path / "here") == judgments(tmp_path / "again") != {}

    def test_errors_are_one_sentence(self, data: Path) -> None:
        gone = rh(PYTHON, "score", data, "--on", "ray", environ={"RAY_ADDRESS": "127.0.0.1:1"})
        assert gone.returncode == 1 and "No Ray cluster answers at 127.0.0.1:1" in gone.stderr
        assert "Traceback" not in gone.stderr

"""`--on hf-jobs` from end to end: the real client, the local Hub, and jobs that run in processes."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Rh
from drawn_pairs import draw_pairs
from hub_parts import Hub, running_hub

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import read_json
from rewardharness.library.hub import push
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.remote import job as remote_job
from rewardharness.remote.inputs import keys_of, read_inputs, with_server
from rewardharness.settings import Settings

TOKEN = "hf_" + "Ann" * 8
RUNS = ("datasets", "ann/rewardharness-runs")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub(tmp_path, monkeypatch) as found:
        monkeypatch.setenv("HF_TOKEN", found.server.login("ann"))
        monkeypatch.setattr(remote_job, "POLL", 0.3)
        monkeypatch.setattr(remote_job, "INTERVAL", 0.0)
        monkeypatch.chdir(tmp_path)
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of a recolored square and the untouched source."""
    draw_pairs(tmp_path / "pairs", 16)
    return tmp_path / "pairs"


def files(hub: Hub) -> dict[str, bytes]:
    return dict(hub.server.store.repos[RUNS].find("main").files)


@pytest.mark.slow
def test_an_evolution_runs_as_a_job_and_brings_its_library(hub: Hub, data: Path, tmp_path: Path, rh: Rh) -> None:
    open_library("builtin").save(tmp_path / "mine")
    push(tmp_path / "mine", "ann/library", access=hub.user("ann"))
    words = ["evolve", str(data), "--library", "ann/library", "--proposals", "3", "--run", str(tmp_path / "run")]
    words += ["--on", "hf-jobs", "--push-to", "ann/evolved"]
    plan = rh(*words, "--dry-run", "--json").json
    assert (plan["flavor"], plan["secrets"], plan["price_per_hour"]) == ("cpu-upgrade", ["HF_TOKEN"], 0.03)
    assert plan["writes"] == ["datasets/ann/rewardharness-runs", "ann/evolved"] and plan["highest_cost"] == 0.12
    assert RUNS not in hub.server.store.repos and not hub.server.jobs.jobs, "a dry run writes nothing"
    shown = rh(*words, "--yes")
    assert "held-out" in shown.out and "job: " in shown.err
    assert TOKEN not in shown.out + shown.err
    [job] = hub.server.jobs.jobs
    assert job.spec["command"] == plan["command"] and job.spec["dockerImage"] == plan["image"]
    assert job.spec["secrets"] == {"HF_TOKEN": TOKEN} and TOKEN not in "".join(job.log)
    assert "--target" in (job.folder / "pip.log").read_text()
    assert hub.server.store.repos[RUNS].private and hub.server.store.repos["models", "ann/evolved"].private
    run = tmp_path / "run"
    assert Library.load(run / "library").id == read_json(run / "report.json")["library"]["final_id"]
    pinned = hub.server.store.repos["models", "ann/library"].branches["main"]
    stored = json.loads((job.folder / "rewardharness-job/job.json").read_text())["config"]
    assert stored["library"] == f"ann/library@{pinned}" and stored["data"] == "inputs/data/pairs"
    assert all(TOKEN.encode() not in content for content in files(hub).values())
    assert "status: finished" in (out := rh("runs", "show", run).out) and "job0" in out
    rh(*words, "--yes")
    assert len(hub.server.jobs.jobs) == 1, "a finished run is not paid for again"


def test_a_public_repository_is_refused_before_a_job_is_paid(hub: Hub, data: Path, tmp_path: Path, rh: Rh) -> None:
    hub.server.store.create("ann/evolved")
    words = ["evolve", str(data), "--on", "hf-jobs", "--push-to", "ann/evolved", "--yes"]
    assert "ann/evolved is public" in rh(*words, "--run", tmp_path / "run", status=1).err
    assert not hub.server.jobs.jobs


@pytest.mark.slow
def test_a_canceled_job_is_resumed(hub: Hub, data: Path, rh: Rh) -> None:
    run = Settings.from_env().home / "runs" / "mine"
    words = ["score", str(data), "--judge", "vllm:judge", "--protocol", "direct", "--one-order", "--concurrency", "1"]
    words += ["--run", str(run), "--on", "hf-jobs", "--yes"]
    hub.server.jobs.scratch.joinpath("hold").touch()

    def cancel() -> None:
        clock = threading.Event()
        for _ in range(400):
            if (run / "results.jsonl").is_file() and len((run / "results.jsonl").read_text().splitlines()) > 1:
                break
            clock.wait(0.1)
        (run / "stop").touch()

    thread = threading.Thread(target=cancel)
    thread.start()
    said = rh(*words, status=1).err
    thread.join()
    assert "was canceled" in said, said
    assert not (run / "stop").exists() and (run / "results.jsonl").is_file(), said
    first, judged = hub.server.jobs.jobs[0], len((run / "results.jsonl").read_text().splitlines())
    assert first.spec["flavor"] == "a10g-large" and 1 < judged < 16
    hub.server.jobs.hold.unlink()
    said = rh(*words).err
    assert "Resuming the run of an earlier job." in said and "are judged already" in said
    assert len((run / "results.jsonl").read_text().splitlines()) == 16
    assert "has ended" in rh("runs", "stop", "job1").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--flavor", "h999"], "Choose --flavor from: cpu-upgrade ($0.03 per hour), a10g-large"),
        (["--judge", "vllm:some/Model-7B", "--flavor", "cpu-upgrade"], "has no GPU"),
        (["--judge", "vllm:some/Model-7B@http://127.0.0.1:8000/v1"], "cannot reach a server on this computer"),
        (["--judge", "vllm:some/Model-7B@https://me:pass@example.com/v1"], "a password in an address"),
        (["--judge", "vllm:a/Model", "--orchestrator", "vllm:b/Model"], "serves one model, not 2"),
        (["--check"], "--check runs on this computer"),
        (["--corrections", "nowhere.jsonl", "--namespace", "bob"], "may not create bob/rewardharness-runs"),
    ],
)
def test_what_cannot_run_elsewhere_costs_nothing(hub: Hub, data: Path, rh: Rh, words: list[str], said: str) -> None:
    assert said in " ".join(rh("evolve", data, "--on", "hf-jobs", "--yes", *words, status=1).err.split())
    assert not hub.server.jobs.jobs


@pytest.mark.parametrize(
    ("status", "said"), [(402, "Add a payment method"), (403, "permission to start jobs"), (429, "Wait a few minutes")]
)
def test_a_refusal_names_the_next_step(hub: Hub, data: Path, rh: Rh, status: int, said: str) -> None:
    hub.server.jobs.refusal = status
    assert said in " ".join(rh("evolve", data, "--on", "hf-jobs", "--yes", status=1).err.split())


def test_jobs_need_a_login_and_a_confirmation(hub: Hub, data: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Add --yes" in rh("evolve", data, "--on", "hf-jobs", status=1).err and not hub.server.jobs.jobs
    assert "Add --on hf-jobs" in rh("evolve", data, "--flavor", "a10g-large", status=2).err
    monkeypatch.setenv("HF_TOKEN", "")
    assert "hf auth login" in rh("evolve", data, "--on", "hf-jobs", "--dry-run", status=1).err


def test_pinned_names_and_keys_of_a_job(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = hub.server.store.create("ann/votes", kind="datasets").branches["main"]
    settings = Settings.from_env(
        {"RH_HOME": str(hub.scratch / "home"), "HF_ENDPOINT": hub.server.url, "RH_FEEDBACK_REPO": "ann/votes"}
        | {"GEMINI_API_KEY": "g", "OPENAI_API_KEY": "o", "RH_API_KEY": "k"}
    )
    config = EvolveConfig("feedback", judge="vllm:a/Model", orchestrator="gemini:pro", library="builtin")
    inputs = read_inputs(config, settings, hub.user("ann"))
    assert (inputs.config.data, inputs.model, inputs.files) == (f"hf:ann/votes@{commit}", "a/Model", {})
    assert keys_of(config, settings) == {"GEMINI_API_KEY": "g"}, "no key of another service"
    served = with_server(config, "a/Model", "vllm:a/Model@http://127.0.0.1:1/v1,http://127.0.0.1:2/v1")
    assert served.judge == "vllm:a/Model@http://127.0.0.1:1/v1,http://127.0.0.1:2/v1"
    other = BenchmarkConfig("demo", judge="vllm:a/Model", baselines=("closer,vllm:a/Model+evidence",))
    served = with_server(other, "a/Model", "vllm:a/Model@http://127.0.0.1:1/v1")
    assert served.baselines == ("closer", "vllm:a/Model@http://127.0.0.1:1/v1+evidence")

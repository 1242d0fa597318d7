import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from app_parts import follow
from commands import Rh
from evolve_parts import WRONG, make_pairs, make_timid, prefer_by_bytes, services_of
from halting import Halt
from model_server import ModelServer

from app.evolve.runs import EvolutionFollower
from app.evolve.service import EvolveServices
from app.run_panel.jobs import MAX_VISITOR_RUNS, BusyError, Jobs, _error_in
from app.run_panel.new_jobs import (
    FOLDER,
    HUB,
    NO_KEYS,
    NO_LOGIN,
    VISITOR_SECONDS,
    Keys,
    NewJob,
    PreparedJob,
    examples_spec,
    keys_of,
    models_of,
    prepare,
)
from app.score.comparisons import recorded_orders
from app.score.judges import ENDPOINT, GEMINI, JudgeChoice, Key
from app.services import AppServices
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli.command import parse
from rewardharness.codec import to_json
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.evolution.events import Judged, Resumed, Started, write_event
from rewardharness.files import append_jsonl, write_json, write_text
from rewardharness.judging.config import JudgeConfig
from rewardharness.runs.reader import Tail
from rewardharness.runs.records import record_run
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

CANARY = "sk-canary-of-the-jobs"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvolveServices, NewJob, Path]:
    """Services, a run that can be begun with them, and their home. What was measured is remembered over the module."""
    scratch = tmp_path_factory.mktemp("jobs")
    data, library = make_pairs(scratch / "pairs"), make_timid(scratch / "timid")
    run = NewJob(EvolveConfig(str(data), library=str(library), proposals=6))
    return services_of(scratch / "home", scratch / "scratch"), run, scratch / "home"


@pytest.mark.slow
def test_a_run_that_is_stopped_or_killed_goes_on(world: tuple[EvolveServices, NewJob, Path], halt: Halt) -> None:
    services, run, home = world
    found = services.expect(run)
    halt.at("events.jsonl", 2)
    name = services.start(found)
    process = halt.reached()
    assert os.getsid(process.pid) == process.pid, "its session is its own"
    other = services_of(home, home.parent / "other")
    assert other.look(name).state == "running", "an app that starts later finds it"
    with pytest.raises(BusyError, match="already running"):
        other.resume(name)
    assert other.stop(name).state == "stopping"
    process.resume()
    rests = follow(other, name)
    assert rests.state == "stopped" and not (rests.folder / "report.json").exists()
    halt.at("events.jsonl", len(rests.events) + 1)  # once it is written that the run goes on
    assert other.resume(name).state in {"starting", "running"}
    halt.reached().kill()
    assert follow(services, name).state == "interrupted"
    services.resume(name)
    done = follow(other, name)
    assert done.state == "finished" and any(isinstance(event, Resumed) for event in done.events)


def test_what_cannot_be_run_is_said_before_anything_begins(world: tuple[EvolveServices, NewJob, Path]) -> None:
    services, _, home = world
    before = len(list((home / "runs").glob("*")))
    with pytest.raises(HarnessError, match="does not exist") as caught:
        services.expect(NewJob(EvolveConfig(str(home / "nowhere"))))
    assert caught.value.next_step and caught.value.title == "This data cannot be read"
    for kind, message in ((FOLDER, "No folder is named"), (HUB, "No dataset is named"), ("moon", "Unknown kind")):
        with pytest.raises(InputError, match=message):
            examples_spec(kind, " ")
    for option, value, message in (
        ("proposals", 0, "--proposals 0"),
        ("proposals", 10**6, "out of range"),
        ("schedule", "other", "schedule"),
        ("orchestrator", "vllm:m@http://me:secret@127.0.0.1/v1", "password"),
    ):
        with pytest.raises(InputError, match=message):
            services.expect(NewJob(EvolveConfig("demo", **{option: value})))  # type: ignore[arg-type]
    assert len(list((home / "runs").glob("*"))) == before


@pytest.mark.slow
def test_a_run_that_never_began_says_why(world: tuple[EvolveServices, NewJob, Path], tmp_path: Path) -> None:
    services, run, _ = world
    data = make_pairs(tmp_path / "gone")
    found = services.expect(NewJob(replace(run.config, data=str(data))))
    (data / "pairs.jsonl").unlink()
    name = services.start(found)
    failed = follow(services, name)
    assert failed.state == "failed" and failed.error is not None and "has no" in failed.error.message
    assert services.command(name) == "" and not services.is_resumable(name)
    with pytest.raises(RunError, match=r"has no config\.json"):
        services.resume(name)
    assert name not in [run.status.name for run in services.runs()]


@pytest.mark.slow
def test_a_refused_key_pauses_the_run_until_the_right_one(world: tuple[EvolveServices, NewJob, Path]) -> None:
    services, run, home = world
    with ModelServer(prefer_by_bytes, key=CANARY) as server:
        wrong = Key(server.url.removesuffix("/v1"), "sk-wrong")
        judge = JudgeChoice(ENDPOINT, "openai", server.url, "m", wrong, JudgeConfig(protocol="direct"))
        found = services.expect(NewJob(replace(run.config, proposals=1), judge))
        assert found.preview["expected"]["requests"] == 2
        name = services.start(found)
        paused = follow(services, name)
        assert paused.state == "paused" and paused.status is not None and paused.error is None
        assert "unauthorized" in paused.status.reason and paused.status.next_step
        assert services.models(name) == (f"openai:m@{server.url}", "")
        services.resume(name, Keys(CANARY))
        assert follow(services, name).state == "finished"
        assert found.job.environment["RH_API_KEY"] == "sk-wrong"
        asked = len(server.calls)
        case = services.queued_case(name, WRONG)
        assert len(server.calls) == asked, "what was judged is read from the run folder"
        [seen] = case.seen
        assert seen.judgment is not None and seen.judgment.judged and recorded_orders(seen.judgment)
    kept = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert not any(CANARY.encode() in each or b"sk-wrong" in each for each in kept)


def settings(**env: str) -> Settings:
    return Settings.from_env({"RH_HOME": "/nowhere", **env})


def test_keys_are_not_in_configurations_and_reach_their_own_model_only(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept")
    judges = AppServices(known, tmp_path, local=True).judges
    judge = JudgeChoice(ENDPOINT, url="http://one:1/v1", name="m", key=Key("http://one:1", "geheim"))

    def prepared(orchestrator: str, key: str = "") -> PreparedJob:
        return prepare(NewJob(EvolveConfig("demo", orchestrator=orchestrator), judge, key), judges, known, local=True)

    job = prepared("openai:o@http://two:2/v1", "heimlich")
    assert not any(key in f"{job} {to_json(job.config)}" for key in ("geheim", "heimlich", "kept"))
    assert "heimlich" not in repr(NewJob(EvolveConfig("demo"), judge, "heimlich"))
    assert job.environment == {"RH_API_KEY": "geheim", "RH_ORCHESTRATOR_API_KEY": "heimlich"}
    assert prepared("openai:o@http://two:2/v1").environment["RH_ORCHESTRATOR_API_KEY"] == ""
    assert prepared("openai:o@http://one:1/v1").environment["RH_ORCHESTRATOR_API_KEY"] == "geheim"
    assert models_of(job.config, known) == ("vllm:m@http://one:1/v1", "openai:o@http://two:2/v1")
    resumed = keys_of(job.config, Keys("geheim", ""), known)
    assert resumed == {"RH_API_KEY": "geheim", "RH_ORCHESTRATOR_API_KEY": ""}
    both = keys_of(EvolveConfig("demo", judge="gemini:a", orchestrator="vllm:b@http://c"), Keys("g", ""), settings())
    assert both == {"GEMINI_API_KEY": "g", "RH_API_KEY": "", "RH_ORCHESTRATOR_API_KEY": ""}
    shown = JudgeChoice(ENDPOINT, "vllm", "http://a/v1", "m", options=JudgeConfig(evidence=True))
    assert prepare(NewJob(EvolveConfig("demo"), shown), judges, known, local=True).config.evidence
    gemini = JudgeChoice(GEMINI, name="a", key=Key(GEMINI, "one"))
    with pytest.raises(InputError, match="Two keys of Gemini"):
        prepare(NewJob(EvolveConfig("demo", orchestrator="gemini:b"), gemini, "two"), judges, known, local=True)


def test_a_key_of_the_environment_goes_to_the_servers_beside_it_alone(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", RH_JUDGE="vllm:m@http://own:1/v1,http://two:2/v1")
    judges = AppServices(known, tmp_path, local=True).judges
    elsewhere = dict.fromkeys(("http://evil:1/v1", "http://own:2/v1", "https://own:1"), "")
    for url, key in {"http://own:1/v1": "kept", **elsewhere}.items():
        judge = JudgeChoice(ENDPOINT, url=url, name="m")
        assert (judges.spelled(judge)[1].api_key or "") == key
        job = prepare(NewJob(EvolveConfig("demo", orchestrator=f"openai:o@{url}"), judge), judges, known, local=True)
        assert job.environment == {"RH_API_KEY": key, "RH_ORCHESTRATOR_API_KEY": key}
        assert keys_of(job.config, NO_KEYS, known) == job.environment
        for places in ({"judge": url}, {"router": f"vllm:r@{url}"}, {"judge": f"http://own:1,{url}"}):
            release = NewJob(BenchmarkConfig("demo", release="deployed:one", **places))
            job = prepare(release, judges, known, local=True)
            assert job.environment["RH_API_KEY"] == key
            assert keys_of(job.config, NO_KEYS, known)["RH_API_KEY"] == key
    own = prepare(NewJob(EvolveConfig("demo"), JudgeChoice("environment")), judges, known, local=True)
    assert own.environment["RH_API_KEY"] == "kept"
    resumed = own.config.with_defaults(known)
    assert resumed.judge == known.judge and models_of(resumed, known) == ("", "")
    assert keys_of(resumed, NO_KEYS, known)["RH_API_KEY"] == "kept"


def test_a_file_of_options_sends_no_key_of_the_environment_elsewhere(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", RH_JUDGE="vllm:m@http://own:1/v1")
    jobs = Jobs(tmp_path)
    (tmp_path / "run.yaml").write_text("data: demo\njudge: vllm:m@http://evil:1/v1\n")
    _, (config, *_), _ = parse("evolve", ["--config", str(tmp_path / "run.yaml")])
    keep_record(jobs.folder("run"), config)
    assert keys_of(jobs.config("run")[1], NO_KEYS, known)["RH_API_KEY"] == ""
    other = BenchmarkConfig("demo", judge="vllm:m@http://own:1/v1", baselines=("vllm:m@http://evil:1/v1",))
    assert keys_of(other, NO_KEYS, known)["RH_API_KEY"] == ""


def test_the_judge_of_the_environment_stays_out_of_the_configuration(tmp_path: Path) -> None:
    known = settings(RH_JUDGE="vllm:hidden@http://hidden:1/v1", RH_PRICE_INPUT="1", RH_PRICE_OUTPUT="2")
    judges = AppServices(known, tmp_path, local=True).judges
    options: dict[str, Any] = {"schedule": "paper", "iterations": 3, "price": (1.0, 2.5), "budget_seconds": 60.0}
    config = EvolveConfig(examples_spec(HUB, "ann/pairs@v1"), field=("source=s", "candidates=a,b"), **options)
    job = prepare(NewJob(config, JudgeChoice("environment")), judges, known, local=True)
    assert job.config.data == "hf:ann/pairs@v1" and "hidden" not in str(to_json(job.config))
    assert job.environment["RH_JUDGE"] == "vllm:hidden@http://hidden:1/v1"
    write_json(tmp_path / "run.json", {"job": "evolve", **to_json(job.config)})
    _, (read, *_), _ = parse("evolve", ["--config", str(tmp_path / "run.json")])
    assert read == job.config


def test_strangers_get_the_demonstration_set_by_measuring_and_nothing_else(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", GEMINI_API_KEY="kept", SYSTEM="spaces")
    judges = AppServices(known, tmp_path, local=False).judges
    models = {name: "openai:m@https://evil.example/v1" for name in ("router", "orchestrator")}
    greedy = EvolveConfig("/etc", field=("source=x",), library="/etc", corrections="/etc/passwd", **models)
    greedy = replace(greedy, budget_seconds=60.0)
    choice = JudgeChoice(ENDPOINT, url="https://evil.example/v1", name="m")
    job = prepare(NewJob(greedy, choice, "key"), judges, known, local=False)
    assert job.config == EvolveConfig("demo", library="builtin", judge="measured", budget_seconds=60.0)
    removed = {name for name, value in job.environment.items() if value == ""}
    assert {"RH_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "HF_TOKEN"} <= removed
    assert {name: value for name, value in job.environment.items() if value} == {NO_LOGIN: "1"}
    for seconds in (0.5, VISITOR_SECONDS + 1.0):
        with pytest.raises(InputError, match="not allowed here"):
            prepare(NewJob(EvolveConfig("demo", budget_seconds=seconds)), judges, known, local=False)


@pytest.mark.slow
def test_strangers_run_one_at_a_time_and_see_their_own_run_alone(tmp_path: Path, halt: Halt) -> None:
    home = tmp_path / "home"
    jobs = Jobs(home)
    data, library = make_pairs(tmp_path / "pairs"), make_timid(tmp_path / "timid")
    config = EvolveConfig(str(data), library=str(library), proposals=2)
    mine, other = (jobs.new_name(None) for _ in range(2))
    assert mine != other and len(mine) == len("visitor-") + 32
    for number in range(MAX_VISITOR_RUNS + 2):
        old = home / "runs" / f"visitor-{number:032x}"
        write_json(old / "run.json", {"command": "evolve"})
    kept = home / "runs" / "the-owners"
    write_json(kept / "run.json", {"command": "evolve"})
    halt.at("events.jsonl", 1)
    jobs.start(mine, "evolve", config, {}, visitor="")
    process = halt.reached()
    with pytest.raises(BusyError, match="Another visitor"):
        Jobs(home).start(other, "evolve", config, {}, visitor="")
    assert not (home / "jobs" / f"{other}.json").exists()
    process.resume()
    assert len(list((home / "runs").glob("visitor-00000*"))) < MAX_VISITOR_RUNS and kept.is_dir()
    services = services_of(home, tmp_path / "scratch", local=False, SYSTEM="spaces")
    assert services.runs() == [] and follow(services, mine).state == "finished"
    assert [run.status.name for run in services.runs([f"../elsewhere/{mine}", mine])] == [mine]
    with pytest.raises(RunError, match="no such run"):
        services.look("the-owners")
    with pytest.raises(InputError, match="computer that the app runs on"):
        services.correct(mine, "p00", "A")
    assert services.place(mine, 0).is_dir() and services.models(mine) == ("", "")


def test_a_tail_reads_what_is_new_and_begins_anew_with_another_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    tail = Tail(path)
    assert tail.read() == (False, [])
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"a": 1}\n{"a": 2')
        stream.flush()
        assert tail.read() == (False, [{"a": 1}]), "a line that is not written to its end waits"
        stream.write('}\n[1]\n{"a"\n{"a": 3}\n')
    assert tail.read() == (False, [{"a": 2}, {"a": 3}]) and tail.read() == (False, [])
    path.rename(tmp_path / "old")
    write_text(path, '{"b": 1}\n')
    assert tail.read() == (True, [{"b": 1}])
    with path.open("r+", encoding="utf-8") as stream:
        stream.write('{"c": 1}\n{"c": 2}\n')
    assert tail.read() == (True, [{"c": 1}, {"c": 2}]), "written over in place"
    path.unlink()
    assert tail.read() == (True, []) and tail.read() == (False, [])


def test_a_trail_drops_what_a_killed_step_had_written(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    folder = jobs.folder("run")
    write_json(folder / "run.json", {"command": "evolve", "data": "d"})
    trail = EvolutionFollower("run", jobs)
    write_event(folder, Started("j", "o", "default", "d", 3, 1, "id", 0, {}))
    write_event(folder, Judged(3, 0, 0.5))
    assert len(trail.look().events) == 2 and trail.look().state == "interrupted"
    write_event(folder, Resumed(step=0))
    assert [type(event) for event in trail.look().events] == [Started, Resumed]
    append_jsonl(folder / "results.jsonl", {"id": "k/a", "example": "a", "preference": "A", "credit": 0.0})
    append_jsonl(folder / "results.jsonl", {"id": "k/b", "example": "b", "preference": "A", "credit": 0.0})
    write_json(folder / "checkpoint.json", {"pool": {"a": {}}})
    assert trail.never_right() == [("a", 1)], "what the audit holds is not spoken of"
    assert trail.look().judged == 2


def keep_record(folder: Path, config: EvolveConfig | None) -> None:
    record = record_run({}, Settings.from_env(), config=config)
    RunFolder(folder, {"command": "evolve"}, restart=True, record=record).close()


def test_a_run_goes_on_with_its_configuration(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    folder = jobs.folder("run")
    keep_record(folder, EvolveConfig("demo", seed=3))
    assert jobs.config("run") == ("evolve", EvolveConfig("demo", seed=3))
    assert jobs.resume_command("run") == f"rh evolve --config {folder / 'config.json'} --run {folder}"
    for text in ("[]", '{"job": "doctor"}', '{"job": "evolve"}', '{"job": "evolve", "data": "demo", "seed": "x"}'):
        (folder / "config.json").write_text(text)
        with pytest.raises(RunError, match=r"config\.json"):
            jobs.resume_command("run")
    (folder / "config.json").unlink()
    with pytest.raises(RunError, match=r"has no config\.json"):
        jobs.resume_command("run")
    keep_record(folder, EvolveConfig("demo", judge="vllm:m@http://me:secret@127.0.0.1:9/v1"))
    with pytest.raises(RunError, match="a password"):
        jobs.resume_command("run")
    assert not any(b"secret" in each.read_bytes() for each in folder.iterdir())
    for name in ("../run", ".hidden", "a/b", "", "a..b"):
        with pytest.raises(RunError):
            jobs.folder(name)


def test_what_a_command_prints_about_its_arguments_is_shown(tmp_path: Path, rh: Rh) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"job": "evolve", "data": "demo", "proposals": 0}', encoding="utf-8")
    error = _error_in(f"an earlier line\n{rh('evolve', '--config', file, status=2).err}")
    assert error is not None
    assert error.title == "Wrong arguments" and "--proposals 0 is out of range" in error.message and error.next_step


def test_a_foreign_run_is_not_resumed_at_its_address_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(Jobs, "_spawn", lambda self, name, *_: started.append(name))
    services = services_of(tmp_path / "home", tmp_path / "scratch", RH_JUDGE="vllm:own@http://127.0.0.1:8/v1")
    jobs = Jobs(tmp_path / "home")
    foreign = {"judge": "vllm:m@http://127.0.0.1:9/v1", "orchestrator": "openai:o@http://127.0.0.1:7/v1"}
    keep_record(jobs.folder("foreign"), EvolveConfig("/nowhere", **foreign))
    assert services.foreign_places("foreign") == ["http://127.0.0.1:7/v1", "http://127.0.0.1:9/v1"]
    with pytest.raises(RunError, match=r"names http://127\.0\.0\.1:7/v1, http://127\.0\.0\.1:9/v1"):
        services.resume("foreign", Keys(CANARY))
    assert started == []
    told = {"job": "evolve", "data": "/nowhere", **foreign, "orchestrator": "builtin"}
    write_json(tmp_path / "home" / "jobs" / "foreign.json", told)
    assert services.foreign_places("foreign") == ["http://127.0.0.1:7/v1"], "what the app was told is known"
    keep_record(jobs.folder("own"), EvolveConfig("/nowhere", judge="vllm:own@http://127.0.0.1:8/v1"))
    assert services.foreign_places("own") == []
    services.resume("foreign", confirmed=True)
    assert started == ["foreign"]

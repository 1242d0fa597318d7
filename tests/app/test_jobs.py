import os
from pathlib import Path

import pytest
from evolve_parts import WRONG, follow, make_pairs, make_timid, prefer_by_bytes, services_of
from halting import Halt
from model_server import ModelServer

from app.evolve_services import EvolveServices
from app.following import Tail, Trails
from app.jobs import KEPT_VISITS, BusyError, CommandError, Jobs
from app.judges import ENDPOINT, JudgeChoice, Key
from app.new_benchmark import NewBenchmark, benchmark_command
from app.new_run import FOLDER, Budget, Command, NewRun, Proposer, command_of, keys_of, models_of
from app.new_run import Keys as TypedKeys
from app.services import AppServices
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli.command import parse
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.evolution.events import Judged, Resumed, Started, write_event
from rewardharness.files import append_jsonl, write_json, write_text
from rewardharness.jobs import JobConfig
from rewardharness.judging.subagent import SubAgentSettings
from rewardharness.runs.records import record_run
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

CANARY = "sk-canary-of-the-jobs"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvolveServices, NewRun, Path]:
    """Services, a run that can be begun with them, and their home. What was measured is remembered over the module."""
    scratch = tmp_path_factory.mktemp("jobs")
    data, library = make_pairs(scratch / "pairs"), make_timid(scratch / "timid")
    run = NewRun(FOLDER, str(data), library=str(library), proposals=6)
    return services_of(scratch / "home", scratch / "scratch"), run, scratch / "home"


def test_a_run_goes_from_its_cost_to_its_audit(world: tuple[EvolveServices, NewRun, Path]) -> None:
    services, run, home = world
    found = services.expect(run)
    assert (found.told["pool"], found.told["audit"], found.told["data"]) == (36, 12, "pairs")
    assert not list((home / "runs").glob("*")), "nothing was done yet"
    name = services.start(found)
    assert name.startswith("pairs-")
    done = follow(services, name)
    assert done.state == "finished" and done.trouble is None and done.status is not None
    assert done.status.kept and done.status.audit is not None and done.status.audit["interval"]
    assert [sight.name for sight in services.runs()][:1] == [name]
    assert f"{name}/config.json" in services.command(name) and "--yes" not in services.command(name)
    with pytest.raises(HarnessError, match=r"no name|no such run"):
        services.look("../etc")


def test_a_run_outlives_who_started_it_is_stopped_and_goes_on(
    world: tuple[EvolveServices, NewRun, Path], halt: Halt
) -> None:
    services, run, home = world
    found = services.expect(run)
    halt.at("events.jsonl", 2)
    name = services.start(found)
    process = halt.reached()
    assert os.getsid(process.pid) == process.pid, "its session is its own"
    other = services_of(home, home.parent / "other")
    assert other.look(name).state == "running", "an app that starts later finds it"
    with pytest.raises(BusyError, match="under way"):
        other.resume(name)
    assert other.stop(name).state == "stopping"
    process.resume()
    rests = follow(other, name)
    assert rests.state == "stopped" and not (rests.folder / "report.json").exists()
    halt.at("events.jsonl", 1)
    assert other.resume(name).state in {"starting", "running"}
    halt.reached().resume()
    done = follow(other, name)
    assert done.state == "finished" and any(isinstance(event, Resumed) for event in done.events)


def test_a_process_that_is_killed_leaves_a_run_that_goes_on(
    world: tuple[EvolveServices, NewRun, Path], halt: Halt
) -> None:
    services, run, _ = world
    found = services.expect(run)
    halt.at("events.jsonl", 2)
    name = services.start(found)
    halt.reached().kill()
    assert follow(services, name).state == "interrupted"
    services.resume(name)
    assert follow(services, name).state == "finished"


def test_what_cannot_be_run_is_said_before_anything_begins(world: tuple[EvolveServices, NewRun, Path]) -> None:
    services, run, home = world
    before = len(list((home / "runs").glob("*")))
    with pytest.raises(CommandError, match="does not exist") as caught:
        services.expect(NewRun(FOLDER, str(home / "nowhere"), library=run.library))
    assert caught.value.next_step and caught.value.title == "This data cannot be read"
    for wrong, message in (
        (NewRun(FOLDER, " "), "No folder is named"),
        (NewRun("hub", ""), "No dataset is named"),
        (NewRun("moon"), "no such data"),
        (NewRun(proposals=0), "0 proposals"),
        (NewRun(budget=Budget(judgments=-1)), "budget of -1"),
        (NewRun(budget=Budget(money=-1.0)), "allows nothing"),
        (NewRun(schedule="other"), "no such schedule"),
        (NewRun(proposer=Proposer("vllm:m@http://me:secret@127.0.0.1/v1")), "password"),
    ):
        with pytest.raises(InputError, match=message):
            services.expect(wrong)
    assert len(list((home / "runs").glob("*"))) == before


def test_a_run_that_never_began_says_why(world: tuple[EvolveServices, NewRun, Path], tmp_path: Path) -> None:
    services, run, _ = world
    data = make_pairs(tmp_path / "gone")
    found = services.expect(NewRun(FOLDER, str(data), library=run.library))
    (data / "pairs.jsonl").unlink()
    name = services.start(found)
    failed = follow(services, name)
    assert failed.state == "failed" and failed.trouble is not None and "has no" in failed.trouble.message
    assert services.command(name) == "" and not services.goes_on(name)
    with pytest.raises(RunError, match=r"has no config\.json"):
        services.resume(name)
    assert name not in [sight.name for sight in services.runs()]


def test_a_refused_key_pauses_the_run_and_the_right_one_lets_it_go_on(
    world: tuple[EvolveServices, NewRun, Path],
) -> None:
    services, run, home = world
    with ModelServer(prefer_by_bytes, key=CANARY) as server:
        wrong = Key(server.url.removesuffix("/v1"), "sk-wrong")
        judge = JudgeChoice(ENDPOINT, "openai", server.url, "m", wrong, SubAgentSettings(protocol="direct"))
        found = services.expect(NewRun(run.data, run.place, judge=judge, library=run.library, proposals=1))
        assert found.told["expected"]["requests"] == 2
        name = services.start(found)
        paused = follow(services, name)
        assert paused.state == "paused" and paused.status is not None and paused.trouble is None
        assert "unauthorized" in paused.status.reason and paused.status.next_step
        assert services.models(name) == (f"openai:m@{server.url}", "")
        services.resume(name, TypedKeys(CANARY))
        assert follow(services, name).state == "finished"
        assert services.expect(found.run).command.changes["RH_API_KEY"] == "sk-wrong"
        asked = len(server.calls)
        case = services.puzzle(name, WRONG)
        assert len(server.calls) == asked, "what was answered is remembered"
        [seen] = case.seen
        assert seen.model is not None and seen.same and seen.judgment is not None and seen.judgment.judged
    kept = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert not any(CANARY.encode() in each or b"sk-wrong" in each for each in kept)


def settings(**env: str) -> Settings:
    return Settings.from_env({"RH_HOME": "/nowhere", **env})


def test_keys_are_no_words_and_reach_their_own_model_alone(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept")
    judges = AppServices(known, tmp_path, local=True).judges
    key = Key("http://one:1", "geheim")
    judge = JudgeChoice(ENDPOINT, url="http://one:1/v1", name="m", key=key)
    far = NewRun(judge=judge, proposer=Proposer("openai:o@http://two:2/v1", "heimlich"))
    command = command_of(far, judges, known, local=True)
    assert not {"geheim", "heimlich", "kept"} & set(" ".join(command.words).replace("=", " ").split())
    assert "geheim" not in repr(command) and "heimlich" not in repr(far)
    assert command.changes["RH_API_KEY"] == "geheim" and command.changes["RH_ORCHESTRATOR_API_KEY"] == "heimlich"
    untold = NewRun(judge=judge, proposer=Proposer("openai:o@http://two:2/v1"))
    assert command_of(untold, judges, known, local=True).changes["RH_ORCHESTRATOR_API_KEY"] == ""
    same = NewRun(judge=judge, proposer=Proposer("openai:o@http://one:1/v1"))
    assert command_of(same, judges, known, local=True).changes["RH_ORCHESTRATOR_API_KEY"] == "geheim"
    assert models_of(config_of(command), known) == ("vllm:m@http://one:1/v1", "openai:o@http://two:2/v1")
    again = keys_of(config_of(command), TypedKeys("geheim", ""), known)
    assert again == {"RH_API_KEY": "geheim", "RH_ORCHESTRATOR_API_KEY": ""}
    both = keys_of(
        EvolveConfig("demo", judge="gemini:a", orchestrator="vllm:b@http://c"), TypedKeys("g", ""), settings()
    )
    assert both == {"GEMINI_API_KEY": "g", "RH_API_KEY": "", "RH_ORCHESTRATOR_API_KEY": ""}


def test_a_key_of_the_environment_goes_to_the_servers_beside_it_alone(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", RH_JUDGE="vllm:m@http://own:1/v1,http://two:2/v1")
    judges = AppServices(known, tmp_path, local=True).judges
    for url, key in {
        "http://own:1/v1": "kept",
        "http://evil:1/v1": "",
        "http://own:2/v1": "",
        "https://own:1": "",
    }.items():
        judge = JudgeChoice(ENDPOINT, url=url, name="m")
        assert (judges.spelled(judge)[1].api_key or "") == key
        run = NewRun(judge=judge, proposer=Proposer(f"openai:o@{url}"))
        command = command_of(run, judges, known, local=True)
        assert command.changes == {"RH_API_KEY": key, "RH_ORCHESTRATOR_API_KEY": key}
        assert keys_of(config_of(command), TypedKeys(), known) == command.changes
        for places in ({"served": url}, {"router": f"vllm:r@{url}"}, {"served": f"http://own:1,{url}"}):
            release = NewBenchmark(release="deployed:one", **places)
            command = benchmark_command(release, judges, known, local=True)
            assert command.changes["RH_API_KEY"] == key
            assert keys_of(config_of(command), TypedKeys(), known)["RH_API_KEY"] == key
    own = command_of(NewRun(judge=JudgeChoice("environment")), judges, known, local=True)
    assert own.changes["RH_API_KEY"] == "kept"
    resumed = config_of(own).with_defaults(known)
    assert resumed.judge == known.judge and models_of(resumed, known) == ("", "")
    assert keys_of(resumed, TypedKeys(), known)["RH_API_KEY"] == "kept"


def test_a_file_of_options_sends_no_key_of_the_environment_elsewhere(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", RH_JUDGE="vllm:m@http://own:1/v1")
    jobs = Jobs(tmp_path)
    (tmp_path / "run.yaml").write_text("data: demo\njudge: vllm:m@http://evil:1/v1\n")
    _, (config, *_), _ = parse("evolve", ["--config", str(tmp_path / "run.yaml")])
    keep_record(jobs.folder("run"), config)
    assert keys_of(jobs.config("run")[1], TypedKeys(), known)["RH_API_KEY"] == ""
    other = BenchmarkConfig("demo", judge="vllm:m@http://own:1/v1", baselines=("vllm:m@http://evil:1/v1",))
    assert keys_of(other, TypedKeys(), known)["RH_API_KEY"] == ""


def test_what_is_typed_becomes_words(tmp_path: Path) -> None:
    known = settings(RH_JUDGE="vllm:hidden@http://hidden:1/v1", RH_PRICE_INPUT="1", RH_PRICE_OUTPUT="2")
    judges = AppServices(known, tmp_path, local=True).judges
    run = NewRun(
        "hub",
        "ann/pairs@v1",
        columns="source=s\n\n candidates=a,b ",
        judge=JudgeChoice("environment"),
        schedule="paper",
        proposals=3,
        seed=7,
        budget=Budget(judgments=100, seconds=60.0, tokens=5000, money=1.5),
        corrections=False,
    )
    command = command_of(run, judges, known, local=True)
    said = " ".join(command.words)
    assert said.startswith("evolve --data hf:ann/pairs@v1 --library builtin --field source=s --field candidates=a,b")
    assert "--schedule paper --iterations 3 --seed 7" in said and "hidden" not in said
    assert command.changes["RH_JUDGE"] == "vllm:hidden@http://hidden:1/v1"
    assert "--budget-calls 100 --budget-seconds 60 --budget-tokens 5000" in said and "--budget-money 1.5" in said


def test_strangers_get_the_demonstration_set_by_measuring_and_nothing_else(tmp_path: Path) -> None:
    known = settings(RH_API_KEY="kept", GEMINI_API_KEY="kept", SYSTEM="spaces")
    judges = AppServices(known, tmp_path, local=False).judges
    greedy = NewRun(
        FOLDER,
        "/etc",
        columns="source=x",
        judge=JudgeChoice(ENDPOINT, url="https://evil.example/v1", name="m"),
        proposer=Proposer("openai:o@https://evil.example/v1", "key"),
        library="/etc",
        budget=Budget(seconds=60.0),
    )
    command = command_of(greedy, judges, known, local=False)
    assert " ".join(command.words) == (
        "evolve --data demo --library builtin --judge measured --orchestrator builtin --schedule default "
        "--proposals 60 --seed 0 --budget-seconds 60"
    )
    assert set(command.changes.values()) == {""} and {"RH_API_KEY", "GEMINI_API_KEY"} <= set(command.changes)
    for seconds in (0.0, 1e6):
        with pytest.raises(InputError, match="cannot be had"):
            command_of(NewRun(budget=Budget(seconds=seconds)), judges, known, local=False)


def test_strangers_run_one_at_a_time_and_see_their_own_run_alone(tmp_path: Path, halt: Halt) -> None:
    home = tmp_path / "home"
    jobs = Jobs(home)
    data, library = make_pairs(tmp_path / "pairs"), make_timid(tmp_path / "timid")
    words = ["evolve", "--data", str(data), "--library", str(library), "--proposals", "2"]
    mine, other = (jobs.new_name("demo", visitor=True) for _ in range(2))
    assert mine != other and len(mine) == len("visitor-") + 32
    for number in range(KEPT_VISITS + 2):
        old = home / "runs" / f"visitor-{number:032x}"
        write_json(old / "run.json", {"command": "evolve"})
    kept = home / "runs" / "the-owners"
    write_json(kept / "run.json", {"command": "evolve"})
    halt.at("events.jsonl", 1)
    jobs.start(mine, words, {}, visitor=True)
    process = halt.reached()
    with pytest.raises(BusyError, match="Somebody else"):
        Jobs(home).start(other, words, {}, visitor=True)
    process.resume()
    assert len(list((home / "runs").glob("visitor-00000*"))) < KEPT_VISITS and kept.is_dir()
    services = services_of(home, tmp_path / "scratch", local=False, SYSTEM="spaces")
    assert services.runs() == [] and follow(services, mine).state == "finished"
    with pytest.raises(RunError, match="no such run"):
        services.look("the-owners")
    with pytest.raises(InputError, match="computer that the app runs on"):
        services.correct(mine, "p00", "A")
    assert services.place(mine, 0).is_dir() and services.models(mine) == ("", "")


def test_a_tail_reads_what_is_new_and_begins_anew_with_another_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    tail = Tail(path)
    assert tail.read() == (False, [])
    append_jsonl(path, {"a": 1})
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"a": 2')
    assert tail.read() == (False, [{"a": 1}]), "a line that is not written to its end waits"
    with path.open("a", encoding="utf-8") as stream:
        stream.write('}\n[1]\n{"a"\n')
    append_jsonl(path, {"a": 3})
    assert tail.read() == (False, [{"a": 2}, {"a": 3}]) and tail.read() == (False, [])
    path.rename(tmp_path / "old")
    write_text(path, '{"b": 1}\n')
    assert tail.read() == (True, [{"b": 1}])
    with path.open("r+", encoding="utf-8") as stream:
        stream.write('{"c": 1}\n')
    append_jsonl(path, {"c": 2})
    assert tail.read() == (True, [{"c": 1}, {"c": 2}]), "written over in place"
    path.unlink()
    assert tail.read() == (True, []) and tail.read() == (False, [])


def test_a_trail_drops_what_a_killed_step_had_written(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    folder = jobs.folder("run")
    write_json(folder / "run.json", {"command": "evolve", "data": "d"})
    trail = Trails(jobs)["run"]
    write_event(folder, Started("j", "o", "default", "d", 3, 1, "id", 0, {}))
    write_event(folder, Judged(3, 0, 0.5))
    assert len(trail.look().events) == 2 and trail.look().state == "interrupted"
    write_event(folder, Resumed(step=0))
    assert [type(event) for event in trail.look().events] == [Started, Resumed]
    append_jsonl(folder / "results.jsonl", {"id": "k/a", "example": "a", "preference": "A", "credit": 0.0})
    append_jsonl(folder / "results.jsonl", {"id": "k/b", "example": "b", "preference": "A", "credit": 0.0})
    write_json(folder / "checkpoint.json", {"pool": {"a": {}}})
    assert trail.never_right() == [("a", 1)], "what the audit holds is not spoken of"
    assert trail.look().judgments == 2 and set(trail.recorded()) == {"k/a", "k/b"}


def keep_record(folder: Path, config: EvolveConfig | None) -> None:
    record = record_run({}, Settings.from_env(), config=config)
    RunFolder(folder, {"command": "evolve"}, restart=True, record=record).close()


def config_of(command: Command) -> JobConfig:
    """The configuration that a command gives its run."""
    config: JobConfig = parse(command.words[0], command.words[1:])[1][0]
    return config


def test_a_run_goes_on_with_its_configuration(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    folder = jobs.folder("run")
    keep_record(folder, EvolveConfig("demo", seed=3))
    assert jobs.config("run") == ("evolve", EvolveConfig("demo", seed=3))
    words = jobs.again("run")
    assert words == ["evolve", "--config", str(folder / "config.json")]
    assert config_of(Command(tuple(words))) == EvolveConfig("demo", seed=3)
    for text in ("[]", '{"job": "doctor"}', '{"job": "evolve"}', '{"job": "evolve", "data": "demo", "seed": "x"}'):
        (folder / "config.json").write_text(text)
        with pytest.raises(RunError, match=r"config\.json"):
            jobs.again("run")
    (folder / "config.json").unlink()
    with pytest.raises(RunError, match=r"has no config\.json"):
        jobs.again("run")
    keep_record(folder, EvolveConfig("demo", judge="vllm:m@http://me:secret@127.0.0.1:9/v1"))
    with pytest.raises(RunError, match="a password"):
        jobs.again("run")
    assert not any(b"secret" in each.read_bytes() for each in folder.iterdir())
    for name in ("../run", ".hidden", "a/b", "", "a..b"):
        with pytest.raises(RunError):
            jobs.folder(name)

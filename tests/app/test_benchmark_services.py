import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_parts import (
    MISLABELLED,
    PAIRS,
    REMOVALS,
    app_services,
    follow,
    judged,
    make_labelled,
    make_timid,
    on,
)
from halting import Halt
from model_server import Call, ModelServer, completion

from app.benchmark_cases import pictures
from app.benchmark_runs import short
from app.benchmark_services import AGAINST, UNJUDGED, WITH, BenchmarkServices, Wanted, sizes
from app.jobs import BusyError, CommandError, Jobs
from app.judges import ENDPOINT, JudgeChoice, Key
from app.new_benchmark import PLACE, VISIT_PAIRS, NewBenchmark, benchmark_command
from rewardharness.cli.main import main
from rewardharness.errors import DataError, HarnessError, InputError, RunError
from rewardharness.files import read_json, read_jsonl, write_json, write_text
from rewardharness.jobs import read_config
from rewardharness.judging.subagent import SubAgentSettings
from rewardharness.library.new import new_library
from rewardharness.library.store import Library

CANARY = "sk-canary-of-the-benchmark"


@dataclass(frozen=True)
class World:
    """Services, the data, and a finished run with the built-in Library and another one with a timid one."""

    services: BenchmarkServices
    home: Path
    data: Path
    timid: Path
    builtin_run: str
    timid_run: str

    def key(self, name: str, role: str = "judge") -> str:
        rows = self.services.open(name).result["rows"]
        return next(str(row["key"]) for row in rows if row["role"] == role)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    scratch = tmp_path_factory.mktemp("benchmark")
    data, timid = make_labelled(scratch / "pairs"), make_timid(scratch / "timid")
    home = scratch / "home"
    services = app_services(home, scratch / "scratch").benchmarks
    news = [on(data, library=spec, baselines=("always-a",)) for spec in ("builtin", str(timid))]
    names = [judged(home, new, Path(services.expect(new).told["folder"]).name) for new in news]
    return World(services, home, data, timid, *names)


def test_a_benchmark_goes_from_its_cost_to_its_table(world: World) -> None:
    services = world.services
    found = services.expect(on(world.data, library="builtin", baselines=("always-a", "random")))
    told = found.told
    assert (told["items"], told["requests"], told["counting"]) == (PAIRS, 0, {"drawn": PAIRS})
    assert (told["judgments"], told["known"]) == (3 * PAIRS, 2 * PAIRS), "two rows are there already"
    assert [row["role"] for row in told["contenders"]] == ["judge", "baseline", "baseline"]
    name = services.start(found)
    assert name == world.builtin_run == Path(told["folder"]).name, "it lies where the command line would put it"
    done = follow(services, name)
    assert (done.state, done.judged, done.wanted) == ("finished", 3 * PAIRS, 3 * PAIRS)
    rows = services.open(name).result["rows"]
    assert [row["name"] for row in rows] == [
        "measured (no VLM)", "always-a (baseline)", "random (baseline)"
    ]  # fmt: skip
    number = rows[0]["numbers"][0]
    assert number["n"] == PAIRS and number["value"] > 0.9 and number["interval"][0] < number["value"]
    listed = services.runs()
    assert {each.progress.name for each in listed} >= {world.builtin_run, world.timid_run}
    assert all(each.row["numbers"] and not each.trouble for each in listed)
    assert f"--config {world.home / 'runs' / name / 'config.json'}" in services.command(name)
    assert services.report_file(name).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_questions_are_told_apart_and_shown_with_pictures_scores_and_chain(world: World) -> None:
    services, name = world.services, world.builtin_run
    asked = services.asked(name, world.key(name))
    assert len(asked) == PAIRS
    wrong = Wanted(AGAINST).pick(asked)
    assert f"drawn/{MISLABELLED}" in [each.reply.question.id for each in wrong], "its label is wrong"
    assert [abs(each.reply.margin or 0) for each in asked] == sorted(
        (abs(e.reply.margin or 0) for e in asked), reverse=True
    )
    kinds = {len(Wanted(kind).pick(asked)) for kind in (AGAINST, WITH, UNJUDGED)}
    assert sum(kinds) == PAIRS and not Wanted(UNJUDGED).pick(asked)
    colors = Wanted(WITH, category="color").pick(asked)
    assert colors and all("Make" in each.reply.question.instruction for each in colors)
    assert not Wanted(WITH, part="another").pick(asked)
    case = services.case(name, world.key(name), f"drawn/{MISLABELLED}")
    (side,) = case.sides
    (piece,) = side.pieces
    assert (side.credit, piece.letters, case.changed) == (0.0, {"A": "A", "B": "B"}, False)
    assert piece.seen.judgment is not None and piece.seen.same and piece.seen.judgment.steps
    assert piece.judgment is not None and piece.seen.judgment.margin == piece.judgment.margin
    label, said = str(case.question.truth), str(side.reply.choice)
    assert [title for _, title in pictures(case)] == [
        "Source", *(f"{each} · {'label' if each == label else 'judge'}" for each in "AB")
    ]  # fmt: skip
    assert {label, said} == {"A", "B"}
    coin = services.case(name, world.key(name, "baseline"), f"drawn/{MISLABELLED}").sides[0]
    assert "no chain" in coin.pieces[0].seen.why_not
    with pytest.raises(RunError, match="no such row"):
        services.asked(name, "nobody")
    with pytest.raises(DataError, match="no such question"):
        services.case(name, world.key(name), "drawn/none")


@pytest.mark.parametrize("protocol", ["both-orders", "pointwise"])
def test_questions_of_other_protocols_are_shown_in_the_letters_of_the_data(world: World, protocol: str) -> None:
    services = world.services
    name = judged(world.home, on(world.data, protocol=protocol, limit=6, bare=False), protocol)
    key = world.key(name)
    for asked in services.asked(name, key):
        case = services.case(name, key, asked.reply.question.id)
        (side,) = case.sides
        letters = {page for piece in side.pieces for page in piece.letters.values()}
        assert letters == {"A", "B"} and not case.changed
        swapped = asked.reply.question.order == "reverse"
        alone, other_way, as_is = [{"A": "A"}, {"A": "B"}], [{"B": "A", "A": "B"}], [{"A": "A", "B": "B"}]
        expected = alone if protocol == "pointwise" else other_way if swapped else as_is
        assert [dict(piece.letters) for piece in side.pieces] == expected
        assert all(piece.seen.same and piece.seen.judgment is not None for piece in side.pieces)
        right = [title[0] for _, title in pictures(case) if "label" in title]
        assert right == [case.question.truth], "pictures stand as the label names them"


def test_two_libraries_are_compared_question_by_question(world: World) -> None:
    services = world.services
    first, second = (world.timid_run, world.key(world.timid_run)), (world.builtin_run, world.key(world.builtin_run))
    found = services.compare(first, second)
    (part,) = found["parts"]
    fixed = [flip["id"] for flip in part["flips"] if flip["better"]]
    broken = [flip["id"] for flip in part["flips"] if not flip["better"]]
    assert (part["judged_by_both"], part["judged_by_second_only"]) == (PAIRS - REMOVALS, REMOVALS)
    assert part["gain"] > 0.5 and part["p"] < 0.01 and part["interval"][0] > 0
    assert len(fixed) == PAIRS - REMOVALS - 1 and broken == [f"drawn/{MISLABELLED}"]
    assert (found["first"]["library"], found["second"]["library"]) == ("timid", "builtin"), "no path is named"
    case = services.flip(first, second, fixed[0])
    assert [side.credit for side in case.sides] == [0.0, 1.0]
    assert all(side.pieces[0].seen.judgment is not None for side in case.sides)
    assert all(title for _, title in pictures(case))
    assert services.compare(second, first)["parts"][0]["gain"] == -part["gain"]
    with pytest.raises(InputError, match="the same row twice"):
        services.compare(first, first)
    same_run = services.compare((world.builtin_run, world.key(world.builtin_run, "baseline")), second)
    assert same_run["parts"][0]["judged_by_both"] == PAIRS


def test_what_does_not_compare_is_refused_with_the_reason(world: World, tmp_path: Path) -> None:
    services = world.services
    whole = world.builtin_run, world.key(world.builtin_run)
    for new, reason in (
        (on(world.data, limit=6, bare=False), "lacks"),
        (on(world.data, protocol="both-orders", limit=6, bare=False), "differ in the protocol: pairs and both-orders"),
        (on(_relabelled(world.data, tmp_path / "pairs"), bare=False), "labels of 1 examples"),
        (on(_repainted(world.data, tmp_path / "painted" / "pairs"), bare=False), "different data"),
        (on(_renamed(world.data, tmp_path / "drawings"), bare=False), "differ in the task: pairs and drawings"),
    ):
        other = judged(world.home, new, "other")
        with pytest.raises(InputError, match=reason) as caught:
            services.compare(whole, (other, world.key(other)))
        assert caught.value.next_step and str(world.home.parent) not in caught.value.message
        shutil.rmtree(world.home / "runs" / other)


def _relabelled(data: Path, folder: Path) -> Path:
    return _with_rows(data, folder, lambda rows: rows[0].update(preference="AB"[rows[0]["preference"] == "A"]))


def _renamed(data: Path, folder: Path) -> Path:
    return _with_rows(data, folder, lambda rows: None)


def _repainted(data: Path, folder: Path) -> Path:
    copy = _with_rows(data, folder, lambda rows: None)
    shutil.copy(copy / "s0.png", copy / "s1.png")
    return copy


def _with_rows(data: Path, folder: Path, change: Any) -> Path:
    shutil.copytree(data, folder)
    rows = [row for _, row in read_jsonl(data / "pairs.jsonl")]
    change(rows)
    write_text(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_data_and_libraries_that_have_changed_are_said_to_have(world: World, tmp_path: Path) -> None:
    services = world.services
    data, library = shutil.copytree(world.data, tmp_path / "data"), make_timid(tmp_path / "library")
    name = judged(world.home, on(data, library=str(library), limit=5, bare=False), "changing")
    key = world.key(name)
    question = services.asked(name, key)[0].reply.question.id
    assert services.case(name, key, question).changed is False
    picture = data / f"a{int(question[-2:])}.png"
    shutil.copy(data / "s0.png", picture)
    assert services.case(name, key, question).changed is False, "the data are remembered"
    other = app_services(world.home, tmp_path / "scratch").benchmarks
    assert other.case(name, key, question).changed is True
    entry = Library.load(library).entries[0]
    Library((replace(entry, description="Otherwise."),)).save(library)
    anew = app_services(world.home, tmp_path / "again").benchmarks
    (piece,) = anew.case(name, key, question).sides[0].pieces
    assert "has changed since this run" in piece.seen.why_not and piece.judgment is not None
    shutil.rmtree(data)
    with pytest.raises(HarnessError, match=r"no task|not exist"):
        app_services(world.home, tmp_path / "gone").benchmarks.case(name, key, question)
    assert anew.asked(name, key), "the numbers need no data"


def test_the_chain_of_a_release_is_made_again_while_it_is_the_same_release(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_HOME", str(world.home))
    file = tmp_path / "release.json"
    assert main(["release", "builtin", "--ties", "-o", str(file)]) == 0
    words = ["benchmark", str(world.data), "--release", str(file), "--limit", "4", "--no-baseline", "--quiet"]
    assert main([*words, "--run", str(world.home / "runs" / "released")]) == 0
    services = app_services(world.home, tmp_path / "scratch").benchmarks
    key = world.key("released")
    question = services.asked("released", key)[0].reply.question.id
    (piece,) = services.case("released", key, question).sides[0].pieces
    assert piece.seen.why_not == "" and piece.seen.judgment is not None and piece.seen.judgment.ties_offered
    assert main(["release", "builtin", "-o", str(file), "--yes"]) == 0
    anew = app_services(world.home, tmp_path / "again").benchmarks
    (piece,) = anew.case("released", key, question).sides[0].pieces
    assert "Another release goes by that name" in piece.seen.why_not and piece.judgment is not None


def test_a_release_takes_the_place_of_a_library_and_a_judge(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_HOME", str(world.home))
    file, services = tmp_path / "release.json", world.services
    assert main(["release", "builtin", "-o", str(file)]) == 0
    assert main(["deploy", str(file), "--target", "prod"]) == 0
    release = str(read_json(world.home / "deployments" / "prod" / "active.json")["release"])
    chosen = on(world.data, limit=4, bare=False, library="/nowhere", release=f" {file} ", baselines=("random",))
    found = services.expect(chosen)
    first, coin = found.told["contenders"]
    assert (first["release"], first["library"], coin["role"]) == (release, f"release {release[:12]}", "baseline")
    name = services.start(found)
    assert follow(services, name).state == "finished"
    row = services.open(name).result["rows"][0]
    assert (row["release"], row["judged"], row["numbers"][0]["n"]) == (release, 4, 4)
    assert read_config(world.home / "runs" / name)[1].release == str(file) and services.model(name) == ""  # type: ignore[union-attr]
    deployed = services.expect(replace(chosen, release="deployed:prod"))
    assert Path(deployed.told["folder"]).name == name and deployed.told["known"] == 8, "the same release by its name"

    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("builtin", "changed").replace('"ties": false', '"ties": true'), encoding="utf-8")
    for spec, reason in (
        (str(file), "changed"),
        (str(tmp_path / "gone.json"), "gone.json"),
        ("deployed:nobody", "Nothing is deployed as 'nobody'"),
    ):
        with pytest.raises(CommandError, match=reason) as caught:
            services.expect(replace(chosen, release=spec))
        assert caught.value.next_step


def test_what_is_typed_of_a_release_becomes_its_own_options_and_no_others(world: World, tmp_path: Path) -> None:
    app = app_services(world.home, tmp_path, RH_JUDGE="vllm:x@http://127.0.0.1:9/v1")

    def words(**more: str) -> tuple[str, ...]:
        return benchmark_command(on(world.data, **more), app.judges, app.settings, local=True).words

    served = words(release="deployed:prod", served=" http://host:8000/v1,http://other:8000/v1 ", router="http://r/v1")
    at = served.index("--release")
    assert served[at:] == (
        "--release", "deployed:prod", "--judge", "http://host:8000/v1,http://other:8000/v1", "--router", "http://r/v1"
    )  # fmt: skip
    assert "--library" not in served and "--protocol" not in served
    odd = words(release="--yes")
    assert Path(odd[odd.index("--release") + 1]).is_absolute() and "--yes" not in odd and "--judge" not in odd
    for wrong in ("--restart", "http://a b", "x\ny", "http://me:secret@host/v1"):
        with pytest.raises(InputError) as caught:
            words(release="deployed:prod", served=wrong)
        assert caught.value.next_step and "secret" not in caught.value.message
    with pytest.raises(InputError, match="No release is named"):
        words(release="  ")


def prefer_the_edit(call: Call) -> Mapping[str, Any] | None:
    """Answer as a model that prefers the picture that is not the source."""
    if len(call.images) < 3:
        return None  # a question of a check
    source, *shown = [uuid or url for url, uuid in call.images]
    best = "AB"[shown[0] == source]
    scores = {label: {"instruction": 4 if label == best else 1, "quality": 3} for label in "AB"}
    return completion(json.dumps({"preference": best, "scores": scores}))


def test_a_model_judges_with_a_key_that_is_kept_nowhere_and_its_chain_is_remembered(world: World) -> None:
    services = world.services
    with ModelServer(prefer_the_edit, key=CANARY) as server:
        how = SubAgentSettings(protocol="direct", both_orders=False)
        judge = JudgeChoice(ENDPOINT, "vllm", server.url, "judge", Key(server.url.removesuffix("/v1"), CANARY), how)
        found = services.expect(on(world.data, judge=judge, bare=False))
        assert found.told["requests"] == PAIRS
        name = services.start(found)
        assert follow(services, name).state == "finished"
        assert services.model(name).startswith("vllm:judge@")
        key = world.key(name)
        row = services.open(name).result["rows"][0]
        assert row["failures"] == {}, [each.failure for each in services.open(name).judgments[key].values()]
        assert row["judged"] == PAIRS and row["usage"]["calls"] == PAIRS and row["usage"]["input_tokens"] > 0
        asked = services.asked(name, key)
        assert [each.reply.question.id for each in Wanted(AGAINST).pick(asked)] == [f"drawn/{MISLABELLED}"]
        before = server.requests
        seen = services.case(name, key, asked[0].reply.question.id).sides[0].pieces[0].seen
        assert seen.model is not None and seen.same and seen.model.showings[0].answered
        assert server.requests == before, "no model is asked"
    held = [path for path in world.home.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert held == []
    (world.home / "cache" / "judgments.sqlite3").rename(world.home / "set-aside")
    try:
        seen = services.case(name, key, asked[0].reply.question.id).sides[0].pieces[0].seen
        assert seen.judgment is None and seen.why_not and seen.recorded is not None
    finally:
        (world.home / "set-aside").rename(world.home / "cache" / "judgments.sqlite3")


def test_a_benchmark_outlives_who_began_it_is_stopped_killed_and_goes_on(
    world: World, tmp_path: Path, halt: Halt
) -> None:
    services = world.services
    found = services.expect(on(world.data, seed=5, limit=11))
    halt.at("results.jsonl", 3)
    name = services.start(found)
    process = halt.reached()
    assert os.getsid(process.pid) == process.pid, "its session is its own"
    other = app_services(world.home, tmp_path / "other").benchmarks
    assert other.look(name).state == "running", "an app that starts later finds it"
    with pytest.raises(BusyError, match="under way"):
        other.start(found)
    assert other.stop(name).state == "stopping"
    process.resume()
    rests = follow(other, name)
    assert rests.state == "stopped" and rests.judged < 11 and rests.wanted == 11
    missing = sum(row["missing"] for row in services.open(name).result["rows"])
    assert missing == 11 - rests.judged and services.goes_on(name)
    halt.at("results.jsonl", rests.judged + 1)
    services.resume(name)
    halt.reached().kill()
    assert follow(services, name).state == "interrupted"
    services.resume(name)
    done = follow(services, name)
    assert (done.state, done.judged) == ("finished", 11)


def test_what_cannot_begin_says_why_in_the_words_of_the_command(world: World, tmp_path: Path) -> None:
    services = world.services
    with pytest.raises(CommandError, match=r"has no pairs\.jsonl"):
        (tmp_path / "empty").mkdir()
        services.expect(on(tmp_path / "empty"))
    for new, reason in (
        (NewBenchmark(PLACE, " "), "No data are named"),
        (NewBenchmark("imagenhub"), "are not on the Hub"),
        (NewBenchmark("nothing-of-the-kind"), "no such task"),
        (NewBenchmark(limit=-1), "cannot be drawn"),
        (NewBenchmark(baselines=("file:x",)), "no such baseline"),
    ):
        with pytest.raises(InputError, match=reason):
            services.expect(new)


def test_a_task_file_is_told_where_a_copy_of_its_data_lies(world: World, tmp_path: Path) -> None:
    file = tmp_path / "own-task.yaml"
    write_text(
        file,
        "name: own\ntitle: Own\naccess: Ask me.\ndata: {}\nprotocols: [pairs]\nmetrics: [exact]\n"
        "parts: [{name: all, labels: [A, B]}]\n"
        "columns: {id: [id], instruction: instruction, source: source, candidates: [candidate_a, candidate_b]}\n"
        "label: {rule: values, column: preference, values: {A: A, B: B}}\n",
    )
    with pytest.raises(CommandError, match="are not on the Hub"):
        world.services.expect(on(file))
    new = on(file, source=str(world.data / "pairs.jsonl"))
    assert world.services.expect(new).told["items"] == PAIRS
    with pytest.raises(CommandError, match="defines where its examples are"):
        world.services.expect(replace(new, place=str(world.data)))


def test_a_damaged_run_is_listed_as_such_and_hides_no_other(world: World) -> None:
    name = "benchmark-000000000000"
    broken = world.home / "runs" / name
    shutil.copytree(world.home / "runs" / world.builtin_run, broken)
    write_text(broken / "exam.json", "{")
    write_json(world.home / "runs" / "another" / "run.json", {"command": "evolve"})
    try:
        listed = {each.progress.name: each for each in world.services.runs()}
        assert "not valid JSON" in listed[name].trouble and not listed[world.builtin_run].trouble
        assert "another" not in listed
        with pytest.raises(RunError, match="no benchmark"):
            world.services.look("another")
        for bad in ("../runs", "nothing", ""):
            with pytest.raises(RunError, match=r"no such run"):
                world.services.look(bad)
    finally:
        shutil.rmtree(broken)
        shutil.rmtree(world.home / "runs" / "another")


def test_a_stranger_has_pairs_of_the_demonstration_judged_and_sees_nothing_else(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_labelled(home / "data" / "demo-100")
    shutil.copytree(world.home / "runs" / world.builtin_run, home / "runs" / world.builtin_run)
    secret = make_timid(tmp_path / "secret-place" / "shared-library")
    owner = app_services(home, tmp_path / "owner", RH_LIBRARY=str(secret)).benchmarks
    stranger = app_services(home, tmp_path / "stranger", local=False, RH_LIBRARY=str(secret), RH_API_KEY=CANARY)
    services = stranger.benchmarks
    greedy = on(
        world.data, judge=JudgeChoice(ENDPOINT, url="http://127.0.0.1:9/v1", name="x"), library="/etc",
        source="/etc", limit=4, baselines=("random",), release="deployed:prod", served="http://127.0.0.1:9/v1",
    )  # fmt: skip
    command = benchmark_command(greedy, stranger.judges, stranger.settings, local=False)
    assert command.words[:3] == ("benchmark", "run", "demo") and "measured" in command.words
    assert "--release" not in command.words
    assert command.words[command.words.index("--library") + 1] == "builtin"
    assert all(value == "" for value in command.changes.values()) and "RH_API_KEY" in command.changes
    with pytest.raises(InputError, match="cannot be had here"):
        services.expect(replace(greedy, limit=VISIT_PAIRS + 1))
    found = services.expect(replace(greedy, library=str(secret)))
    assert found.told["items"] == 4 and "/secret-place/" not in json.dumps(found.told["contenders"][0]["library"])
    names = [services.start(found)]
    assert names[0].startswith("visitor-") and len(names[0]) == 40
    follow(services, names[0], lambda progress: progress.wanted > 0)
    assert follow(services, names[0]).state == "finished"
    names.append(judged(home, NewBenchmark(limit=4), f"visitor-{'0' * 32}"))
    assert [each.progress.name for each in services.runs(names)] == names and services.runs() == []
    first, second = ((name, services.open(name).result["rows"][0]["key"]) for name in names)
    shown = services.compare(first, second)
    assert shown["first"]["library"] == "shared-library"
    assert services.case(*first, services.asked(*first)[0].reply.question.id).sides[0].pieces[0].seen.judgment
    for act in (services.look, services.open, services.stop, services.resume, services.report_file):
        with pytest.raises(RunError, match="no such run"):
            act(world.builtin_run)
    with pytest.raises(RunError, match="no such run"):
        services.compare(first, (world.builtin_run, world.key(world.builtin_run)))
    assert [each.progress.name for each in services.runs([world.builtin_run, "../x"])] == []
    assert services.command(names[0]) == "" and services.model(names[0]) == ""
    assert {each.progress.name for each in owner.runs()} == {world.builtin_run, *names}
    manifest = read_json(home / "runs" / names[0] / "run.json")
    write_json(home / "runs" / names[0] / "run.json", {**manifest, "task": "genai-bench"})
    with pytest.raises(RunError, match="no benchmark"):
        services.look(names[0])


def test_a_stranger_is_not_told_where_things_lie(tmp_path: Path) -> None:
    gone = str(tmp_path / "secret-place" / "library")
    make_labelled(tmp_path / "home" / "data" / "demo-100")
    services = app_services(tmp_path / "home", tmp_path / "scratch", local=False, RH_LIBRARY=gone).benchmarks
    with pytest.raises(RunError, match="cannot be begun here") as caught:
        services.expect(NewBenchmark(limit=2, library=gone))
    assert "secret-place" not in f"{caught.value.message} {caught.value.next_step}"


def test_only_one_stranger_runs_at_a_time(world: World, tmp_path: Path, halt: Halt) -> None:
    home = tmp_path / "home"
    make_labelled(home / "data" / "demo-100")
    services = app_services(home, tmp_path / "scratch", local=False).benchmarks
    found = services.expect(NewBenchmark(limit=PAIRS, seed=1))
    halt.at("results.jsonl", 1)
    name = services.start(found)
    process = halt.reached()
    with pytest.raises(BusyError, match="Somebody else's run"):
        services.start(found)
    with pytest.raises(BusyError, match="Somebody else's run"):  # an evolution is a run too
        Jobs(home).start(f"visitor-{'1' * 32}", ["evolve"], {}, visitor=True)
    assert services.stop(name).state == "stopping"
    process.resume()
    assert follow(services, name).state == "stopped"


def test_sizes_of_tasks_are_those_of_published_tables(world: World) -> None:
    by_name = {task.name: task for task in world.services.tasks()}
    assert sizes(by_name["genai-bench"]) == {"test_v1": (919,)}
    assert sizes(by_name["rated-edits"]) == {}
    assert Jobs(world.home).again(world.builtin_run)[:2] == ["benchmark", "--config"]


def test_rows_name_their_library_as_it_calls_itself_while_it_is_the_same(tmp_path: Path) -> None:
    place = tmp_path / "library"
    library = new_library(place, "my-library")
    row = {"library": str(place), "library_id": library.id}
    assert short(row) == {**row, "spec": str(place), "library": "my-library"}
    assert short({**row, "library_id": "0" * 64})["library"] == "library", "it has changed since"
    assert short({"library": "builtin", "library_id": library.id})["library"] == "builtin"
    assert short({"library": "no Library", "library_id": library.id})["library"] == "no Library"

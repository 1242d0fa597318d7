import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from app_parts import follow
from benchmark_parts import MISLABELLED, PAIRS, REMOVALS, app_services, judged, make_labelled, make_timid, on
from hostile import read_own

from app.benchmark import views
from app.benchmark.page import Questions
from app.benchmark.runs import short_name
from app.benchmark.service import BenchmarkServices
from app.run_panel.new_jobs import NO_OWN_KEYS, PLACE, VISITOR_PAIRS, NewJob, prepare, release_spec, task_and_source
from app.score.judges import ENDPOINT, JudgeChoice
from app.table.page import TablePlace
from app.table.rows import export, select
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli.main import main
from rewardharness.codec import to_json
from rewardharness.data.opening import open_data
from rewardharness.editors.report import ArenaResult, EditCounts
from rewardharness.errors import DataError, HarnessError, InputError, RunError
from rewardharness.files import read_json, write_json, write_text
from rewardharness.jobs import read_config
from rewardharness.library.new import new_library
from rewardharness.library.store import Library
from rewardharness.settings import Settings

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
        rows = self.services.open(name).result.rows
        return next(row.key for row in rows if row.role == role)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    scratch = tmp_path_factory.mktemp("benchmark")
    data, timid = make_labelled(scratch / "pairs"), make_timid(scratch / "timid")
    home = scratch / "home"
    services = app_services(home, scratch / "scratch").benchmarks
    news = [on(data, library=spec, baselines=("always-a",)) for spec in ("builtin", str(timid))]
    names = [judged(home, new, Path(services.expect(new).preview["folder"]).name) for new in news]
    return World(services, home, data, timid, *names)


@pytest.mark.slow
def test_a_benchmark_goes_from_its_cost_to_its_table(world: World) -> None:
    services = world.services
    found = services.expect(on(world.data, library="builtin", baselines=("always-a", "random")))
    told = found.preview
    assert (told["items"], told["requests"], told["counting"]) == (PAIRS, 0, {"drawn": PAIRS})
    assert (told["judgments"], told["known"]) == (3 * PAIRS, 2 * PAIRS), "two rows are there already"
    assert [row["role"] for row in told["contenders"]] == ["judge", "baseline", "baseline"]
    name = services.start(found)
    assert name == world.builtin_run == Path(told["folder"]).name, "it lies where the command line would put it"
    done = follow(services, name)
    assert (done.state, done.judged, done.wanted) == ("finished", 3 * PAIRS, 3 * PAIRS)
    rows = services.open(name).result.rows
    assert [row.role for row in rows] == ["judge", "baseline", "baseline"] and rows[0].numbers[0].n == PAIRS
    listed = services.runs()
    assert {each.status.name for each in listed} >= {world.builtin_run, world.timid_run}
    assert all(each.row["numbers"] and not each.error for each in listed)
    assert f"--config {world.home / 'runs' / name / 'config.json'}" in services.command(name)
    assert services.report_file(name).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_questions_are_rows_and_shown_with_pictures_scores_and_chain(world: World, tmp_path: Path) -> None:
    services, name, source = world.services, world.builtin_run, Questions(world.services)
    key = world.key(name)
    rows = source.rows(TablePlace(name, key))
    wrong, right = select(rows, "against"), select(rows, "with")
    assert f"drawn/{MISLABELLED}" in [row.id for row in wrong], "its label is wrong"
    assert len(rows) == len(wrong) + len(right) == PAIRS and not select(rows, "failed")
    colors = select(rows, "with", kind="=color")
    assert colors and all("Make" in row.instruction for row in colors) and not select(rows, kind="=another")
    case = services.case(f"drawn/{MISLABELLED}", (name, key))
    (side,) = case.sides
    (piece,) = side.pieces
    assert (side.credit, piece.letters, case.changed) == (0.0, {"A": "A", "B": "B"}, False)
    assert piece.judgment is not None and piece.judgment.steps
    assert case.example.preference == case.question.truth != side.reply.choice
    opened = source.case(TablePlace(name, key), wrong[0])
    assert opened.example is not None and len(opened.example.images) == 3 and len(opened.chains) == 1
    judged = list(source.judged(TablePlace(name, key), wrong))
    saved = export(tmp_path / "wrong.jsonl", judged).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["judged_preference"] for line in saved] == [row.verdicts[0].choice for row in wrong]
    again = open_data(str(export(tmp_path / "wrong.zip", judged)), Settings.from_env({"RH_HOME": str(tmp_path)}))
    assert [each.preference for each in again.examples] == [row.label for row in wrong]
    coin = services.case(f"drawn/{MISLABELLED}", (name, world.key(name, "baseline"))).sides[0]
    assert "No reasoning" in read_own(views.chain(coin)).text
    with pytest.raises(RunError, match="no such row"):
        source.rows(TablePlace(name, "nobody"))
    with pytest.raises(DataError, match="no such question"):
        services.case("drawn/none", (name, key))


@pytest.mark.parametrize("protocol", ["both-orders", "pointwise"])
def test_questions_of_other_protocols_are_shown_in_the_letters_of_the_data(world: World, protocol: str) -> None:
    services = world.services
    name = judged(world.home, on(world.data, task_protocol=protocol, limit=6, no_baseline=True), protocol)
    key = world.key(name)
    for reply, _ in services.answers(name, key):
        case = services.case(reply.question.id, (name, key))
        (side,) = case.sides
        letters = {page for piece in side.pieces for page in piece.letters.values()}
        assert letters == {"A", "B"} and not case.changed
        swapped = reply.question.order == "reverse"
        alone, other_way, as_is = [{"A": "A"}, {"A": "B"}], [{"B": "A", "A": "B"}], [{"A": "A", "B": "B"}]
        expected = alone if protocol == "pointwise" else other_way if swapped else as_is
        assert [dict(piece.letters) for piece in side.pieces] == expected
        assert all(piece.judgment is not None and piece.judgment.steps for piece in side.pieces)
        assert case.example.preference == case.question.truth, "images stand as the label names them"


def test_two_libraries_are_compared_question_by_question(world: World) -> None:
    services = world.services
    first, second = (world.timid_run, world.key(world.timid_run)), (world.builtin_run, world.key(world.builtin_run))
    found = services.compare(first, second)
    (part,) = found.parts
    fixed = [flip.id for flip in part.flips if flip.better]
    broken = [flip.id for flip in part.flips if not flip.better]
    assert (part.judged_by_both, part.judged_by_second_only) == (PAIRS - REMOVALS, REMOVALS)
    assert part.gain is not None and part.gain > 0.5
    assert len(fixed) == PAIRS - REMOVALS - 1 and broken == [f"drawn/{MISLABELLED}"]
    assert (found.first.library, found.second.library) == ("timid", "builtin"), "no path is named"
    case = services.case(fixed[0], first, second)
    assert [side.credit for side in case.sides] == [0.0, 1.0]
    assert all(side.pieces[0].judgment is not None for side in case.sides)
    source, place = Questions(services), TablePlace(*second, beside="/".join(first))
    assert [row.id for row in select(source.rows(place), "fixed")] == sorted(fixed)
    assert [row.id for row in select(source.rows(place), "broken")] == broken
    assert place.beside in [value for _, value in source.others(place)] and len(source.judges(place)) == 2
    opened = source.case(place, source.rows(place)[0])
    assert len(opened.chains) == 2 and "Fixed / broken" in read_own(source.compared(place)).text
    with pytest.raises(InputError, match="the same row"):
        services.compare(first, first)


def test_what_does_not_compare_is_refused_without_naming_a_path(world: World, tmp_path: Path) -> None:
    services = world.services
    painted = Path(shutil.copytree(world.data, tmp_path / "painted" / "pairs"))
    shutil.copy(painted / "s0.png", painted / "s1.png")
    for new, reason in (
        (on(world.data, library=str(world.timid), limit=6, no_baseline=True), "lacks"),
        (on(painted, no_baseline=True), "different data"),
    ):
        other = judged(world.home, new, "other")
        with pytest.raises(InputError, match=reason) as caught:
            services.compare((world.builtin_run, world.key(world.builtin_run)), (other, world.key(other)))
        assert caught.value.next_step and str(world.home.parent) not in caught.value.message
        shutil.rmtree(world.home / "runs" / other)


def test_data_and_libraries_that_have_changed_are_said_to_have(world: World, tmp_path: Path) -> None:
    services = world.services
    data, library = shutil.copytree(world.data, tmp_path / "data"), make_timid(tmp_path / "library")
    name = judged(world.home, on(data, library=str(library), limit=5, no_baseline=True), "changing")
    key = world.key(name)
    question = services.answers(name, key)[0][0].question.id
    assert services.case(question, (name, key)).changed is False
    picture = data / f"a{int(question[-2:])}.png"
    shutil.copy(data / "s0.png", picture)
    assert services.case(question, (name, key)).changed is False, "the data are remembered"
    other = app_services(world.home, tmp_path / "scratch").benchmarks
    assert other.case(question, (name, key)).changed is True
    entry = Library.load(library).entries[0]
    Library((replace(entry, description="Otherwise."),)).save(library)
    anew = app_services(world.home, tmp_path / "again").benchmarks
    (piece,) = anew.case(question, (name, key)).sides[0].pieces
    assert piece.judgment is not None and piece.judgment.steps, "judgments need no Library"
    shutil.rmtree(data)
    with pytest.raises(HarnessError, match=r"no task|not exist"):
        app_services(world.home, tmp_path / "gone").benchmarks.case(question, (name, key))
    assert anew.answers(name, key), "the numbers need no data"


@pytest.mark.slow
def test_a_release_instead_of_library_and_judge(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_HOME", str(world.home))
    file, services = tmp_path / "release.json", world.services
    assert main(["release", "create", "--library", "builtin", "-o", str(file)]) == 0
    assert main(["release", "deploy", str(file), "--target", "prod"]) == 0
    release = str(read_json(world.home / "deployments" / "prod" / "active.json")["release"])
    release_file = release_spec(f" {file} ")
    chosen = on(world.data, limit=4, no_baseline=True, release=release_file, baselines=("random",))
    found = services.expect(chosen)
    first, coin = found.preview["contenders"]
    assert (first["release"], first["library"], coin["role"]) == (release, f"release {release[:12]}", "baseline")
    name = services.start(found)
    assert follow(services, name).state == "finished"
    row = services.open(name).result.rows[0]
    assert (row.release, row.judged, row.numbers[0].n) == (release, 4, 4)
    assert read_config(world.home / "runs" / name)[1].release == str(file) and services.models(name)[0] == ""  # type: ignore[union-attr]
    deployed = services.expect(NewJob(replace(chosen.config, release="deployed:prod"))).preview
    assert Path(deployed["folder"]).name == name and deployed["known"] == 8, "the same release by its name"


def test_a_release_gets_its_endpoints_and_no_address_with_a_password(world: World, tmp_path: Path) -> None:
    app = app_services(world.home, tmp_path, RH_JUDGE="vllm:x@http://127.0.0.1:9/v1")

    def config(**options: Any) -> Any:
        job = NewJob(BenchmarkConfig(str(world.data), **options))
        return prepare(job, app.judges, app.settings, local=True).config

    urls = "http://host:8000/v1,http://other:8000/v1"
    served = config(release="deployed:prod", judge=urls, router="http://r/v1")
    assert (served.release, served.judge, served.router) == ("deployed:prod", urls, "http://r/v1")
    assert (served.library, served.protocol, config(release="deployed:prod").judge) == (None, None, None)
    assert Path(release_spec("--yes")).is_absolute()
    for option in ("judge", "router"):
        with pytest.raises(InputError, match="password") as caught:
            config(release="deployed:prod", **{option: "http://me:secret@host/v1"})
        assert caught.value.next_step and "secret" not in caught.value.message
    with pytest.raises(InputError, match="No release is named"):
        release_spec("  ")


def test_what_cannot_begin_says_why_in_the_words_of_the_command(world: World, tmp_path: Path) -> None:
    services = world.services
    with pytest.raises(HarnessError, match=r"has no pairs\.jsonl"):
        (tmp_path / "empty").mkdir()
        services.expect(on(tmp_path / "empty"))
    for name, reason in (
        (PLACE, "No data are named"), ("imagenhub", "are not on the Hub"), ("nothing-of-the-kind", "no such task"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=reason):
            task_and_source(name, " ")
    with pytest.raises(InputError, match="out of range"):
        BenchmarkConfig("demo", limit=-1)
    with pytest.raises(InputError, match="Unknown baseline"):
        services.expect(on("demo", baselines=("file:x",)))


def test_a_damaged_run_is_listed_as_such_and_hides_no_other(world: World) -> None:
    name = "benchmark-000000000000"
    broken = world.home / "runs" / name
    shutil.copytree(world.home / "runs" / world.builtin_run, broken)
    write_text(broken / "exam.json", "{")
    write_json(world.home / "runs" / "another" / "run.json", {"command": "evolve"})
    try:
        listed = {each.status.name: each for each in world.services.runs()}
        assert "not valid JSON" in listed[name].error and not listed[world.builtin_run].error
        assert "another" not in listed
        with pytest.raises(RunError, match="no benchmark"):
            world.services.look("another")
        for bad in ("../runs", "nothing", ""):
            with pytest.raises(RunError, match=r"no such run"):
                world.services.look(bad)
    finally:
        shutil.rmtree(broken)
        shutil.rmtree(world.home / "runs" / "another")


@pytest.mark.slow
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
        source=Path("/etc"), limit=4, baselines=("random",), release="deployed:prod", router="http://127.0.0.1:9/v1",
        for_library=Path("/etc"), development="/etc",
    )  # fmt: skip
    prepared = prepare(greedy, stranger.judges, stranger.settings, local=False)
    less = {"judge": "measured", "library": "builtin", "limit": 4, "baselines": ("random",)}
    assert prepared.config == BenchmarkConfig("demo", **less)  # type: ignore[arg-type]
    assert prepared.environment == NO_OWN_KEYS and not prepared.environment["RH_API_KEY"]
    with pytest.raises(InputError, match="not allowed here"):
        services.expect(NewJob(replace(greedy.config, limit=VISITOR_PAIRS + 1)))
    found = services.expect(NewJob(replace(greedy.config, library=str(secret))))
    assert found.preview["items"] == 4 and "/secret-place/" not in json.dumps(found.preview["contenders"][0]["library"])
    names = [services.start(found)]
    assert names[0].startswith("visitor-") and len(names[0]) == 40
    follow(services, names[0], lambda progress: progress.wanted > 0)
    assert follow(services, names[0]).state == "finished"
    names.append(judged(home, on("demo", limit=4), f"visitor-{'0' * 32}"))
    assert [each.status.name for each in services.runs(names)] == names and services.runs() == []
    first, second = ((name, services.open(name).result.rows[0].key) for name in names)
    shown = services.compare(first, second)
    assert shown.first.library == "shared-library"
    assert services.case(services.answers(*first)[0][0].question.id, first).sides[0].pieces[0].judgment
    for act in (services.look, services.open, services.stop, services.resume, services.report_file):
        with pytest.raises(RunError, match="no such run"):
            act(world.builtin_run)
    with pytest.raises(RunError, match="no such run"):
        services.compare(first, (world.builtin_run, world.key(world.builtin_run)))
    assert [each.status.name for each in services.runs([world.builtin_run, "../x"])] == []
    assert services.command(names[0]) == "" and services.models(names[0]) == ("", "")
    assert {each.status.name for each in owner.runs()} == {world.builtin_run, *names}
    manifest = read_json(home / "runs" / names[0] / "run.json")
    write_json(home / "runs" / names[0] / "run.json", {**manifest, "task": "genai-bench"})
    with pytest.raises(RunError, match="no benchmark"):
        services.look(names[0])


def test_a_stranger_is_not_told_where_things_lie(tmp_path: Path) -> None:
    gone = str(tmp_path / "secret-place" / "library")
    make_labelled(tmp_path / "home" / "data" / "demo-100")
    services = app_services(tmp_path / "home", tmp_path / "scratch", local=False, RH_LIBRARY=gone).benchmarks
    with pytest.raises(RunError, match="cannot be started here") as caught:
        services.expect(on("demo", limit=2, library=gone))
    assert "secret-place" not in f"{caught.value.message} {caught.value.next_step}"


def test_rows_name_their_library_as_it_calls_itself_while_it_is_the_same(tmp_path: Path) -> None:
    place = tmp_path / "library"
    library = new_library(place, "my-library")
    assert short_name(str(place), library.id) == "my-library"
    assert short_name(str(place), "0" * 64) == "library", "it has changed since"
    assert [short_name(name, library.id) for name in ("builtin", "no Library")] == ["builtin", "no Library"]


def test_finished_arenas_are_listed_on_this_computer_only(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "runs" / "arena-1"
    result = ArenaResult(edits={"a": EditCounts(2, 0, "")}, n=2, judged=2, choice="random", judge={}, data="mine")
    write_json(folder / "run.json", {"command": "arena"})
    local = app_services(home, tmp_path / "local").benchmarks
    assert local.arenas() == [], "it is not finished"
    write_json(folder / "report.json", to_json(result))
    assert local.arenas() == [(folder, result)]
    assert app_services(home, tmp_path / "other", local=False).benchmarks.arenas() == []
    write_json(folder / "report.json", {"editors": 1})
    assert local.arenas() == []

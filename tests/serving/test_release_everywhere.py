"""One release, one score: on the command line, in the app and over HTTP, by measuring and by a model."""

import hashlib
import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from drawn_pairs import draw_box, two_skills
from model_server import Call, Fault, ModelServer
from serving_parts import Running, b64

from app.failures import failure
from app.library.libraries import BUILTIN, Choice
from app.score.comparisons import Draft
from app.score.judges import JudgeChoice
from app.score.releases import DEFAULT_PLACES, RELEASE, Places
from app.score.sharing import record
from app.services import AppServices
from rewardharness.cli.main import main
from rewardharness.errors import HarnessError, InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.judging.model_config import ModelJudgeConfig, Protocol
from rewardharness.judging.opening import open_release
from rewardharness.judging.release import Release, make_release
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.library.store import Library
from rewardharness.schema import Failure
from rewardharness.settings import Settings

TEXT = "make the box red"
NAMES = ("red", "pale", "same")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source and three edits of it."""
    folder = tmp_path_factory.mktemp("everywhere")
    draw_box(folder)
    return folder


@pytest.fixture(scope="module")
def library() -> Library:
    return two_skills()


def grades(image: tuple[str | None, str | None]) -> dict[str, int]:
    """Scores of a candidate, by its bytes."""
    url, uuid = image
    digest = uuid or hashlib.sha256(b64decode((url or "").partition(",")[2])).hexdigest()
    return {"instruction": 1 + int(digest[0], 16) % 4, "quality": 1 + int(digest[1], 16) % 4}


def respond(call: Call) -> str | None:
    """Judge as a model that leans to whoever is shown first; None for the small questions of a probe."""
    found = [grades(each) for each in call.images[1:]]
    if not found:
        return None
    if len(found) == 1:
        return json.dumps(found[0])
    sums = [sum(each.values()) + (0.5 if number == 0 else 0) for number, each in enumerate(found)]
    letters = "ABCD"[: len(found)]
    answer = {"preference": letters[sums.index(max(sums))], "scores": dict(zip(letters, found, strict=True))}
    return json.dumps(answer)


@contextmanager
def released(judge: str, protocol: Protocol, library: Library, path: Path) -> Iterator[tuple[Release, str | None]]:
    """A release, and where its model is served for as long as this lasts."""
    save_release(make_release(judge, library, ModelJudgeConfig(protocol=protocol, ties=protocol == "direct")), path)
    if judge == "measured":
        yield load_release(path), None
        return
    with ModelServer(respond) as server:
        yield load_release(path), server.url


def offline(rh: Rh, folder: Path, *more: str) -> dict[str, Any]:
    named = [word for name in NAMES for word in ("--candidate", str(folder / f"{name}.png"))]
    words = ["score", "--source", str(folder / "source.png"), *named, "--instruction", TEXT, "--json", "--no-cache"]
    return dict(rh(*words, *more).json)


def settings(home: Path, release: Path | str | None = None, judge: str = "measured") -> Settings:
    named = None if release is None else str(release)
    return Settings(home=home, library="builtin", debug=False, workers=1, release=named, judge=judge)


def on_the_page(services: AppServices, folder: Path) -> dict[str, Any]:
    """Compare with whatever a visitor may have chosen, and as the download says it."""
    paths = tuple(str(folder / f"{name}.png") for name in NAMES)
    draft = Draft(str(folder / "source.png"), paths, (), TEXT)
    done = services.compare(draft, Choice(BUILTIN), JudgeChoice("measured"))
    return dict(record(done))


CASES: list[tuple[str, Protocol]] = [("measured", "chain"), ("vllm:judge", "direct"), ("vllm:judge", "pointwise")]


@pytest.mark.parametrize(("judge", "protocol"), CASES)
def test_a_release_scores_alike_offline_in_the_app_and_over_http(
    judge, protocol, folder, library, tmp_path, own_home, rh
):
    path = tmp_path / "release.json"
    with released(judge, protocol, library, path) as (release, url):
        where = [] if url is None else ["--judge", url]
        record = offline(rh, folder, "--release", str(path), *where)
        shown = on_the_page(AppServices(settings(own_home, path), tmp_path, local=True, places=Places(url)), folder)
        opened = open_release(release, settings(own_home), JudgeConfig(judge=url, no_cache=True))
        with Running(opened, release=release.id, library=release.library) as server:
            wish = {"instruction": TEXT, "source": b64((folder / "source.png").read_bytes())}
            images = [b64((folder / f"{name}.png").read_bytes()) for name in NAMES]
            reply = server.post("/score", {**wish, "candidates": images}).json
    assert record["release"] == shown["release"] == reply["release"] == release.id
    timeless = ("usage", "id", "critiques")  # the page adds critiques of three edits
    on_page, on_line = ({k: v for k, v in each.items() if k not in timeless} for each in (shown, record))
    assert on_page == on_line
    assert record["preference"] and len({each["reward"] for each in record["scores"].values()}) > 1
    for label, item in zip("ABC", reply["results"], strict=True):
        assert {"reward": item["reward"], "variance": item["variance"], **item["scores"]} == record["scores"][label]
    for name in ("preference", "margin", "ranking"):
        assert reply["comparison"][name] == record[name]


def test_a_deployed_release_is_named_as_elsewhere(folder, library, tmp_path, own_home):
    path = tmp_path / "release.json"
    save_release(make_release("measured", library), path)
    assert main(["release", "deploy", str(path), "--target", "prod"]) == 0
    services = AppServices(settings(own_home, "deployed:prod"), tmp_path, local=True)
    assert services.fixed is not None and services.fixed.release.id == load_release(path).id
    assert services.libraries.open(Choice(RELEASE)) == library
    assert services.libraries.name(Choice(RELEASE)) == f"the Library of release {load_release(path).id[:12]}"
    assert services.libraries.check(Choice(RELEASE)) == () and "# " in services.libraries.card(Choice(RELEASE))
    with pytest.raises(InputError, match="not fixed to a release"):
        AppServices(settings(own_home), tmp_path, local=True).libraries.open(Choice(RELEASE))


def changed(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace('"ties": false', '"ties": true'), encoding="utf-8")


@pytest.mark.parametrize(
    ("judge", "spoil", "places", "says"),
    [
        ("measured", changed, DEFAULT_PLACES, "was changed after it was made"),
        ("measured", Path.unlink, DEFAULT_PLACES, "release.json"),
        ("measured", None, Places("http://127.0.0.1:9/v1"), "asks no endpoint"),
        ("vllm:judge", None, DEFAULT_PLACES, "nothing says where it is served"),
        ("vllm:judge", None, Places("vllm:other@http://127.0.0.1:9/v1"), "vllm:other"),
    ],
)
def test_an_app_that_cannot_keep_to_its_release_does_not_start(judge, spoil, places, says, library, tmp_path):
    path = tmp_path / "release.json"
    save_release(make_release(judge, library), path)
    if spoil is not None:
        spoil(path)
    with pytest.raises(HarnessError, match=says):
        AppServices(settings(tmp_path / "home", path), tmp_path, local=True, places=places)
    assert not (tmp_path / "home").exists(), "looking makes nothing"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--release", "nowhere.json"], "nowhere.json"),
        (["--release", "deployed:nothing"], "Nothing is deployed as 'nothing'"),
        (["--router", "vllm:x@http://127.0.0.1:9/v1"], "--router needs --release"),
    ],
)
def test_a_wrong_release_is_one_error_with_a_remedy(words, says, own_home, rh):
    said = rh("app", *words, status=1).err
    assert says in said and "Next:" in said


def test_what_a_page_cannot_choose_is_no_remedy() -> None:
    for code in ("unreachable", "nothing_to_measure", "no_criteria"):
        said = failure(Failure(code, "It went wrong."), own_judge=False, fixed=True)
        assert "the section Judge" not in said and "hoose" not in said and "never counted as a tie" in said


def test_where_the_model_is_comes_from_the_settings_in_a_space(folder: Path, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "release.json"
    save_release(make_release("vllm:judge", library, ModelJudgeConfig(protocol="direct")), path)
    home = tmp_path / "home"
    with ModelServer(respond) as server:
        asked = settings(home, path, judge=f"vllm:judge@{server.url}")
        assert on_the_page(AppServices(asked, tmp_path, local=False), folder)["preference"]


def test_strangers_learn_no_address_and_spend_nothing_by_program(folder, library, tmp_path):
    path = tmp_path / "release.json"
    save_release(make_release("vllm:judge", library), path)
    with ModelServer(lambda call: Fault("404")) as server:
        asked = settings(tmp_path / "home", path, judge=f"vllm:judge@{server.url}")
        strangers, owner = (AppServices(asked, tmp_path, local=local) for local in (False, True))
        told, known = (on_the_page(each, folder)["failure"] for each in (strangers, owner))
    assert told == {"code": known["code"], "message": ""} and known["message"]
    with pytest.raises(InputError, match="does not accept API requests"):
        strangers.api_judge()
    assert owner.api_judge().kind == RELEASE
    save_release(make_release("measured", library), tmp_path / "measured.json")
    measured = AppServices(settings(tmp_path / "home", tmp_path / "measured.json"), tmp_path, local=False)
    assert measured.api_judge().kind == RELEASE

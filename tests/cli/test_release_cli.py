"""`rh release`, and judging by a release."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from drawn_pairs import draw_box, two_skills
from model_server import Call, ModelServer

from app.score.model_views import about_release
from rewardharness.files import content_id
from rewardharness.judging.release_card import UNVERIFIED
from rewardharness.judging.release_file import load_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of examples: two pairs, the first right, with labels."""
    folder = tmp_path / "data"
    draw_box(folder)
    row = {"source": "source.png", "candidate_a": "red.png", "candidate_b": "source.png", "label_kind": "made"}
    rows = [{**row, "id": f"p{n}", "instruction": "make the box red", "preference": "A"} for n in range(2)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Library of two Skills, both of which can be measured."""
    folder = tmp_path_factory.mktemp("libraries") / "small"
    two_skills().save(folder)
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A Library without entries."""
    EMPTY.save(tmp_path / "empty")
    return tmp_path / "empty"


def create(rh: Rh, library: object, file: Path, *more: object) -> Any:
    """Make a release, and return what is said of it."""
    return rh("release", "create", "--library", library, "-o", file, "--json", *more).json


def score_words(folder: Path, *more: object) -> list[object]:
    names = ["--source", folder / "source.png", "--candidate", folder / "red.png", "--candidate", folder / "pale.png"]
    return ["score", *names, "--instruction", "make the box red", "--json", *more]


def test_make_verify_and_show(rh: Rh, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    made = create(rh, "builtin", file, "--judge", "measured", "--ties")
    release = load_release(file)
    assert made == {"id": release.id, "library_id": open_library("builtin").id, "file": str(file), "written": True}
    card = {"id": release.card_id, "reported": [], "unverified": []}
    expected = {"id": made["id"], "remarks": [], "endpoints": [], "card": card}
    assert rh("release", "verify", file, "--json").json == expected
    shown = rh("release", "show", file, "--json").json
    assert shown["settings"] == {"ties": True, "ocr": shown["settings"]["ocr"]}
    assert set(shown["library"]["entries"]) == {each.name for each in open_library("builtin").entries}
    refused = rh("release", "verify", file, "--judge", "closer", status=1)
    assert "Next: Leave it out, or make another release." in refused.err
    for word, says in (("verify", "Judge, settings and Library are unmodified"), ("show", "Made with numpy")):
        out = rh("release", word, file).out
        assert made["id"][:12] in out and says in out


def test_a_release_that_is_there_is_not_lost(rh: Rh, empty: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    create(rh, empty, file)
    before = file.read_bytes()
    assert create(rh, empty, file)["written"], "the same again is no loss"
    assert "exists" in rh("release", "create", "--library", empty, "--ties", "-o", file, status=1).err
    assert not create(rh, empty, file, "--ties", "--dry-run")["written"]
    assert not rh("release", "create", "--library", empty, "--dry-run", "--json").json["written"]
    assert file.read_bytes() == before
    assert create(rh, empty, file, "--ties", "--yes")["written"] and file.read_bytes() != before


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("create", 1, "-o release.json"),
        ("verify nowhere.json", 1, "cannot be read"),
        ("show deployed:nothing", 1, "Nothing is deployed"),
        ("create --judge random -o x", 1, "cannot be released"),
        ("create --judge vllm:/data/x@http://h/v1 -o x", 1, "is a place"),
        ("create --library no/such/folder -o x", 1, "no/such/folder"),
        ("deploy --target prod", 2, "needs a release and a target"),
        ("deploy nowhere.json --target prod", 1, "cannot be read"),
        ("deploy nowhere.json --list", 2, "--target NAME"),
        ("deploy r.json", 2, "--target"),
        ("deploy --show prod", 1, "Nothing is deployed as 'prod'"),
        ("deploy --show ../x", 1, "cannot be the name"),
        ("rollback prod", 1, "Nothing is deployed as 'prod'"),
    ],
)
def test_a_wrong_command_is_one_error_with_a_remedy(
    rh: Rh, words: str, status: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = rh("release", *words.split(), status=status)
    assert says in shown.err and "Next:" in shown.err and not shown.out
    assert not (tmp_path / "x").exists()


def test_scores_by_a_release_are_those_without_it(rh: Rh, pictures: Path, small: Path, tmp_path: Path) -> None:
    file, card = tmp_path / "r.json", tmp_path / "report.json"
    made = create(rh, small, file)
    plain = rh(*score_words(pictures, "--no-cache", "--library", small)).json
    rh("release", "deploy", file, "--target", "prod")
    for release in (file, "deployed:prod"):
        by_release = rh(*score_words(pictures, "--no-cache", "--release", release)).json
        assert by_release.pop("release") == made["id"]
        assert {**by_release, "usage": 0} == {**plain, "usage": 0}
    report = rh("score", pictures, "--release", file, "--quiet", "--json").json
    assert (report["release"], report["library_id"], report["judged"]) == (made["id"], made["library_id"], 2)
    card.write_text(json.dumps(report), encoding="utf-8")
    assert create(rh, small, tmp_path / "with-card.json", "--card", card)["id"] == made["id"]
    out = rh("release", "show", tmp_path / "with-card.json").out
    assert "pairs, labels: made" in out and "1.000" in out


@pytest.fixture
def carded(rh: Rh, pictures: Path, small: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A release, and the report that its card shows."""
    report, file = tmp_path / "report.json", tmp_path / "r.json"
    report.write_text(json.dumps(rh("score", pictures, "--library", small, "--quiet", "--json").json))
    create(rh, small, file, "--card", report)
    return file, report


def forge(file: Path, change: Callable[[list[Any]], object]) -> None:
    """Change the figures on a card, and its hash with them."""
    document = json.loads(file.read_text("utf-8"))
    change(document["card"]["evaluation"])
    document["card_id"] = content_id(document["card"])
    file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


@pytest.mark.parametrize(
    ("change", "problem"),
    [(list.clear, "lacks the figure"), (lambda figures: figures.extend(list(figures)), "repeats a figure")],
)
def test_a_card_has_exactly_the_figures_of_its_reports(
    change: Callable[[list[Any]], object], problem: str, rh: Rh, carded: tuple[Path, Path]
) -> None:
    file, report = carded
    forge(file, change)
    assert problem in rh("release", "verify", file, "--card", report, status=1).err


def test_the_page_of_a_release_shows_numbers_as_numbers(rh: Rh, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    rh("release", "create", "--judge", "vllm:judge", "--library", "empty", "-o", file)
    shown = re.sub(r"<[^>]+>", " ", about_release(load_release(file)))
    assert re.search(r"Samples\s+1\b", shown) and not re.search(r"Samples\s+yes", shown)


def test_forged_figures_are_never_shown_as_verified(rh: Rh, carded: tuple[Path, Path]) -> None:
    file, report = carded
    [name] = rh("release", "verify", file, "--card", report, "--json").json["card"]["reported"]
    forge(file, lambda figures: figures[0].update(n=900, judged=900))
    assert load_release(file).figures[0].n == 900, "the hashes fit"
    assert rh("release", "verify", file, "--json").json["card"]["unverified"] == [name]
    assert rh("release", "show", file, "--json").json["card_status"].startswith("Not verified")
    for word in ("verify", "show"):
        out = rh("release", word, file).out
        assert UNVERIFIED in out and "file is" not in out.casefold()
    assert UNVERIFIED in html.unescape(about_release(load_release(file)))
    refused = rh("release", "verify", file, "--card", report, status=1)
    assert not refused.out and f"The card's figure {name!r} is not in the reports." in refused.err
    forge(file, lambda figures: figures[0].update(library_id="0" * 64))  # figures of a better Library
    assert "is of another Library" in rh("release", "verify", file, status=1).err


def respond(call: Call) -> str | None:
    return '{"instruction": 3, "quality": 2}' if len(call.images) == 2 else None


def test_a_release_of_a_model_is_told_where_it_is_served(
    rh: Rh, pictures: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, how = tmp_path / "r.json", ("--protocol", "pointwise")
    create(rh, small, file, "--judge", "vllm:judge", *how)
    with ModelServer(respond) as server:
        spec = f"vllm:judge@{server.url}"
        plain = rh(*score_words(pictures, "--judge", spec, *how, "--library", small)).json["scores"]
        for where in (server.url, spec):
            scored = rh(*score_words(pictures, "--release", file, "--judge", where, "--no-cache")).json
            assert scored["scores"] == plain
        verified = rh("release", "verify", file, "--judge", server.url, "--json").json
        assert [each["problem"] for each in verified["endpoints"]] == [""]
        with monkeypatch.context() as environment:
            environment.setenv("RH_JUDGE", spec)
            assert rh(*score_words(pictures, "--release", file)).json["scores"] == plain
            assert rh("release", "verify", file, "--json").json["endpoints"]
    with ModelServer(respond, model="another") as server:
        verified = rh("release", "verify", file, "--judge", server.url, "--json", status=1).json
        assert "does not serve 'judge'" in verified["endpoints"][0]["problem"]
    for more, says in (
        ([], "nothing says where it is served"),
        (["--judge", "vllm:other@http://127.0.0.1:9/v1"], "vllm:other"),
        (["--judge", "random"], "random"),
    ):
        shown = rh(*score_words(pictures, "--release", file, *more), status=1)
        assert says in shown.json["error"]["detail"] + shown.err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--protocol chain", "--protocol chain"),
        ("--samples 3", "--samples 3"),
        ("--one-order", "--one-order"),
        ("--ties", "--ties"),
        ("--groups all --max-pixels 9999", "--groups all, --max-pixels 9999"),
        ("--tool-calls 1", "--tool-calls 1"),
        ("--router vllm:x@http://127.0.0.1:9/v1", "--router"),
        ("--library builtin", "--library builtin"),
        ("", ""),
        ("--protocol direct --samples 1 --library SAME", ""),
    ],
)
def test_what_a_release_fixes_cannot_be_said_otherwise(
    rh: Rh, pictures: Path, empty: Path, tmp_path: Path, more: str, says: str
) -> None:
    (tmp_path / "script.jsonl").write_text('{"error": "timeout"}\n' * 2, encoding="utf-8")
    create(rh, empty, tmp_path / "r", "--judge", "scripted:script.jsonl", "--protocol", "direct")
    words = more.replace("SAME", str(empty)).split()
    judge = ["--judge", f"scripted:{tmp_path / 'script.jsonl'}", "--no-cache"]
    err = rh(*score_words(pictures, "--release", tmp_path / "r", *judge, *words), status=1 if says else 3).err
    assert says in err and ("contradicts" in err) == bool(says)


def test_a_run_does_not_go_on_with_another_release(rh: Rh, pictures: Path, empty: Path, tmp_path: Path) -> None:
    create(rh, empty, tmp_path / "one")
    create(rh, empty, tmp_path / "two", "--ties")
    words = ["score", pictures, "--run", tmp_path / "run", "--quiet", "--release"]
    rh(*words, tmp_path / "one", status=3)  # an empty Library measures nothing
    assert "release" in rh(*words, tmp_path / "two", status=1).err


def test_deploy_list_show_and_roll_back(rh: Rh, empty: Path, tmp_path: Path) -> None:
    assert rh("release", "deploy", "--list", "--json").json == {"targets": {}}
    assert "No release is deployed." in rh("release", "deploy", "--list").out
    ids = []
    for number, more in enumerate(((), ("--ties",))):
        file = tmp_path / str(number)
        ids.append(create(rh, empty, file, *more)["id"])
        words = ["release", "deploy", file, "--target", "prod"]
        dry = rh(*words, "--dry-run", "--json").json
        assert (dry["release"], dry["changed"]) == (ids[-1], False)
        assert rh(*words, "--dry-run").out.endswith("It can be deployed as prod. Nothing was deployed.\n")
        record = rh(*words, "--json").json
        assert (record["release"], record["changed"], record["number"]) == (ids[-1], True, number + 1)
    assert not rh("release", "deploy", "deployed:prod", "--target", "prod", "--json").json["changed"]
    assert rh("release", "deploy", "--list", "--json").json["targets"]["prod"]["release"] == ids[1]
    assert rh("release", "rollback", "prod", "--json").json["release"] == ids[0]
    assert rh("release", "rollback", "prod", "--to", ids[1][:10], "--json").json["release"] == ids[1]
    shown = rh("release", "deploy", "--show", "prod", "--json").json
    assert shown["active"]["release"] == ids[1]
    assert [each["action"] for each in shown["history"]] == ["deploy", "deploy", "rollback", "rollback"]
    out = rh("release", "deploy", "--show", "prod").out
    assert ids[1][:12] in out and "rollback" in out and ids[1][:12] in rh("release", "deploy", "--list").out
    assert "active as prod again" in rh("release", "rollback", "prod").out


def test_a_changed_release_is_not_used(rh: Rh, pictures: Path, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    create(rh, small, file)
    file.write_text(file.read_text("utf-8").replace('"ties": false', '"ties": true'), encoding="utf-8")
    deploy = ["release", "deploy", file, "--target", "prod"]
    for words in (
        ["release", "verify", file],
        ["release", "show", file],
        deploy,
        score_words(pictures, "--release", file),
    ):
        err = rh(*words, status=1).err
        assert "`settings`" in err and "was changed after it was made" in err

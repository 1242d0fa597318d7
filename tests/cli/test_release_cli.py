"""`rh release`, and judging by a release."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Call, ModelServer
from PIL import Image

from app.score.model_views import about_release
from rewardharness.cli.main import main
from rewardharness.files import content_id
from rewardharness.judging.release_card import UNVERIFIED
from rewardharness.judging.release_file import load_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        status = main([str(word) for word in words])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return status, shown.out, shown.err

    return call


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of examples: two pairs, the first right, with labels."""
    folder = tmp_path / "data"
    folder.mkdir()
    pixels = np.random.default_rng(4).integers(60, 200, (96, 96, 3), dtype=np.uint8)
    for name, level in (("source", 0), ("red", 90), ("pale", 25)):
        pixels[30:70, 30:70] = (120 + level, 120 - level, 110 - level)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    row = {"source": "source.png", "candidate_a": "red.png", "candidate_b": "source.png", "label_kind": "made"}
    rows = [{**row, "id": f"p{n}", "instruction": "make the box red", "preference": "A"} for n in range(2)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Library of two Skills, both of which can be measured."""
    names = {"color-and-material-changes", "preserving-the-rest"}
    folder = tmp_path_factory.mktemp("libraries") / "small"
    Library(tuple(each for each in open_library("builtin").entries if each.name in names)).save(folder)
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A Library without entries."""
    EMPTY.save(tmp_path / "empty")
    return tmp_path / "empty"


def score_words(folder: Path, *more: object) -> list[object]:
    names = ["--source", folder / "source.png", "--candidate", folder / "red.png", "--candidate", folder / "pale.png"]
    return ["score", *names, "--instruction", "make the box red", "--json", *more]


def told(run: Run, *words: object, status: int = 0) -> dict[str, Any]:
    code, out, err = run(*words)
    assert code == status, err
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def test_make_verify_and_show(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    made = told(run, "release", "create", "--library", "builtin", "--judge", "measured", "--ties", "-o", file, "--json")
    assert made == {
        "id": load_release(file).id,
        "library_id": open_library("builtin").id,
        "file": str(file),
        "written": True,
    }
    card = {"id": load_release(file).card_id, "reported": [], "unverified": []}
    expected = {"id": made["id"], "remarks": [], "endpoints": [], "card": card}
    assert told(run, "release", "verify", file, "--json") == expected
    shown = told(run, "release", "show", file, "--json")
    assert shown["settings"] == {"ties": True, "ocr": shown["settings"]["ocr"]}
    assert set(shown["library"]["entries"]) == {each.name for each in open_library("builtin").entries}
    status, _, err = run("release", "verify", file, "--judge", "closer")
    assert (status, "Next: Leave it out, or make another release." in err) == (1, True), err
    for words, says in (
        (("verify", file), "Judge, settings and Library are unmodified"),
        (("show", file), "Made with numpy"),
    ):
        status, out, _ = run("release", *words)
        assert (status, made["id"][:12] in out, says in out) == (0, True, True)


def test_a_release_that_is_there_is_not_lost(run: Run, empty: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    told(run, "release", "create", "--library", empty, "-o", file, "--json")
    before = file.read_bytes()
    assert told(run, "release", "create", "--library", empty, "-o", file, "--json")["written"], (
        "the same again is no loss"
    )
    status, _, err = run("release", "create", "--library", empty, "--ties", "-o", file)
    assert (status, "exists" in err, file.read_bytes()) == (1, True, before)
    assert not told(run, "release", "create", "--library", empty, "--ties", "-o", file, "--dry-run", "--json")[
        "written"
    ]
    assert not told(run, "release", "create", "--library", empty, "--dry-run", "--json")["written"]
    assert file.read_bytes() == before
    assert told(run, "release", "create", "--library", empty, "--ties", "-o", file, "--yes", "--json")["written"]
    assert file.read_bytes() != before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["create"], "-o release.json"),
        (["verify", "nowhere.json"], "cannot be read"),
        (["show", "deployed:nothing"], "Nothing is deployed"),
        (["create", "--judge", "random", "-o", "x"], "cannot be released"),
        (["create", "--judge", "vllm:/data/x@http://h/v1", "-o", "x"], "is a place"),
        (["create", "--library", "no/such/folder", "-o", "x"], "no/such/folder"),
    ],
)
def test_a_wrong_command_is_one_error_with_a_remedy(run: Run, words: list[str], says: str, tmp_path: Path) -> None:
    status, out, err = run("release", *(str(tmp_path / word) if word == "x" else word for word in words))
    assert (status, out) == (1, "")
    assert says in err
    assert "Next:" in err
    assert not (tmp_path / "x").exists()


def test_scores_by_a_release_are_those_without_it(run: Run, pictures: Path, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    made = told(run, "release", "create", "--library", small, "-o", file, "--json")
    plain = told(run, *score_words(pictures, "--no-cache", "--library", small))
    told(run, "release", "deploy", file, "--target", "prod", "--json")
    for release in (file, "deployed:prod"):
        by_release = told(run, *score_words(pictures, "--no-cache", "--release", release))
        assert by_release.pop("release") == made["id"]
        assert {**by_release, "usage": 0} == {**plain, "usage": 0}
    report = told(run, "score", pictures, "--release", file, "--quiet", "--json")
    assert (report["release"], report["library_id"], report["judged"]) == (made["id"], made["library_id"], 2)
    card = tmp_path / "report.json"
    card.write_text(json.dumps(report), encoding="utf-8")
    again = told(
        run, "release", "create", "--library", small, "--card", card, "-o", tmp_path / "with-card.json", "--json"
    )
    assert again["id"] == made["id"]
    status, out, _ = run("release", "show", tmp_path / "with-card.json")
    assert status == 0 and "pairs, labels: made" in out and "1.000" in out


@pytest.mark.parametrize(
    ("forge", "problem"),
    [(lambda figures: [], "lacks the figure"), (lambda figures: figures * 2, "repeats a figure")],
)
def test_a_card_has_exactly_the_figures_of_its_reports(
    forge: Callable[[list[Any]], list[Any]], problem: str, run: Run, pictures: Path, small: Path, tmp_path: Path
) -> None:
    report, file = tmp_path / "report.json", tmp_path / "r.json"
    report.write_text(json.dumps(told(run, "score", pictures, "--library", small, "--quiet", "--json")))
    told(run, "release", "create", "--library", small, "--card", report, "-o", file, "--json")
    document = json.loads(file.read_text())
    document["card"]["evaluation"] = forge(document["card"]["evaluation"])
    document["card_id"] = content_id(document["card"])
    file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    status, _, err = run("release", "verify", file, "--card", report)
    assert status == 1 and problem in err, err


def test_forged_figures_are_never_shown_as_verified(run: Run, pictures: Path, small: Path, tmp_path: Path) -> None:
    report, file = tmp_path / "report.json", tmp_path / "r.json"
    report.write_text(json.dumps(told(run, "score", pictures, "--library", small, "--quiet", "--json")))
    told(run, "release", "create", "--library", small, "--card", report, "-o", file, "--json")
    [name] = told(run, "release", "verify", file, "--card", report, "--json")["card"]["reported"]
    document = json.loads(file.read_text())
    document["card"]["evaluation"][0]["n"] = document["card"]["evaluation"][0]["judged"] = 900
    document["card_id"] = content_id(document["card"])
    file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert load_release(file).figures[0].n == 900, "the hashes fit"
    assert told(run, "release", "verify", file, "--json")["card"]["unverified"] == [name]
    assert told(run, "release", "show", file, "--json")["card_status"].startswith("Not verified")
    for words in (("verify", file), ("show", file)):
        status, out, _ = run("release", *words)
        assert status == 0 and UNVERIFIED in out and "file is" not in out.casefold()
    assert UNVERIFIED in html.unescape(about_release(load_release(file)))
    status, out, err = run("release", "verify", file, "--card", report)
    assert (status, out) == (1, "") and f"The card's figure {name!r} is not in the reports." in err
    document["card"]["evaluation"][0]["library_id"] = "0" * 64  # figures of a better Library
    document["card_id"] = content_id(document["card"])
    file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    status, _, err = run("release", "verify", file)
    assert status == 1 and "is of another Library" in err


def test_a_release_of_a_model_is_told_where_it_is_served(
    run: Run, pictures: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "r.json"
    told(
        run,
        "release",
        "create",
        "--library",
        small,
        "--judge",
        "vllm:judge",
        "--protocol",
        "pointwise",
        "-o",
        file,
        "--json",
    )

    def respond(call: Call) -> str | None:
        return '{"instruction": 3, "quality": 2}' if len(call.images) == 2 else None

    with ModelServer(respond) as server:
        spec = f"vllm:judge@{server.url}"
        plain = told(run, *score_words(pictures, "--judge", spec, "--protocol", "pointwise", "--library", small))
        for where in (server.url, spec):
            scored = told(run, *score_words(pictures, "--release", file, "--judge", where, "--no-cache"))
            assert scored["scores"] == plain["scores"]
        verified = told(run, "release", "verify", file, "--judge", server.url, "--json")
        assert [each["problem"] for each in verified["endpoints"]] == [""]
        with monkeypatch.context() as environment:
            environment.setenv("RH_JUDGE", spec)
            assert told(run, *score_words(pictures, "--release", file))["scores"] == plain["scores"]
            assert told(run, "release", "verify", file, "--json")["endpoints"]
    with ModelServer(respond, model="another") as server:
        verified = told(run, "release", "verify", file, "--judge", server.url, "--json", status=1)
        assert "does not serve 'judge'" in verified["endpoints"][0]["problem"]
    for more, says in (
        ([], "nothing says where it is served"),
        (["--judge", "vllm:other@http://127.0.0.1:9/v1"], "vllm:other"),
        (["--judge", "random"], "random"),
    ):
        status, out, err = run(*score_words(pictures, "--release", file, *more))
        assert (status, says in json.loads(out)["error"]["detail"] + err) == (1, True)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--protocol", "chain"], "--protocol chain"),
        (["--samples", "3"], "--samples 3"),
        (["--one-order"], "--one-order"),
        (["--ties"], "--ties"),
        (["--groups", "all", "--max-pixels", "9999"], "--groups all, --max-pixels 9999"),
        (["--tool-calls", "1"], "--tool-calls 1"),
        (["--router", "vllm:x@http://127.0.0.1:9/v1"], "--router"),
        (["--library", "builtin"], "--library builtin"),
        ([], ""),
        (["--protocol", "direct", "--samples", "1", "--library", "SAME"], ""),
    ],
)
def test_what_a_release_fixes_cannot_be_said_otherwise(
    run: Run, pictures: Path, empty: Path, tmp_path: Path, more: list[str], says: str
) -> None:
    (tmp_path / "script.jsonl").write_text('{"error": "timeout"}\n' * 2, encoding="utf-8")
    how = ["--judge", "scripted:script.jsonl", "--protocol", "direct"]
    told(run, "release", "create", "--library", empty, *how, "-o", tmp_path / "r", "--json")
    words = [str(empty) if word == "SAME" else word for word in more]
    judge = ["--judge", f"scripted:{tmp_path / 'script.jsonl'}", "--no-cache"]
    status, _, err = run(*score_words(pictures, "--release", tmp_path / "r", *judge, *words))
    assert status == (1 if says else 3)
    assert says in err
    assert ("contradicts" in err) == bool(says)


def test_a_run_does_not_go_on_with_another_release(run: Run, pictures: Path, empty: Path, tmp_path: Path) -> None:
    told(run, "release", "create", "--library", empty, "-o", tmp_path / "one", "--json")
    told(run, "release", "create", "--library", empty, "--ties", "-o", tmp_path / "two", "--json")
    words = ["score", pictures, "--run", tmp_path / "run", "--quiet", "--json", "--release"]
    told(run, *words, tmp_path / "one", status=3)  # an empty Library measures nothing
    status, _, err = run(*words, tmp_path / "two")
    assert status == 1 and "release" in err


def test_deploy_list_show_and_roll_back(run: Run, empty: Path, tmp_path: Path) -> None:
    assert told(run, "release", "deploy", "--list", "--json") == {"targets": {}}
    assert "No release is deployed." in run("release", "deploy", "--list")[1]
    ids = []
    for number, more in enumerate(([], ["--ties"])):
        ids.append(
            told(run, "release", "create", "--library", empty, *more, "-o", tmp_path / str(number), "--json")["id"]
        )
        dry = told(run, "release", "deploy", tmp_path / str(number), "--target", "prod", "--dry-run", "--json")
        assert (dry["release"], dry["changed"]) == (ids[-1], False)
        words = run("release", "deploy", tmp_path / str(number), "--target", "prod", "--dry-run")[1]
        assert words.endswith("It can be deployed as prod. Nothing was deployed.\n")
        record = told(run, "release", "deploy", tmp_path / str(number), "--target", "prod", "--json")
        assert (record["release"], record["changed"], record["number"]) == (ids[-1], True, number + 1)
    assert not told(run, "release", "deploy", "deployed:prod", "--target", "prod", "--json")["changed"]
    assert told(run, "release", "deploy", "--list", "--json")["targets"]["prod"]["release"] == ids[1]
    assert told(run, "release", "rollback", "prod", "--json")["release"] == ids[0]
    assert told(run, "release", "rollback", "prod", "--to", ids[1][:10], "--json")["release"] == ids[1]
    shown = told(run, "release", "deploy", "--show", "prod", "--json")
    assert shown["active"]["release"] == ids[1]
    assert [each["action"] for each in shown["history"]] == ["deploy", "deploy", "rollback", "rollback"]
    status, out, _ = run("release", "deploy", "--show", "prod")
    assert status == 0 and ids[1][:12] in out and "rollback" in out
    assert ids[1][:12] in run("release", "deploy", "--list")[1]
    assert "active as prod again" in run("release", "rollback", "prod")[1]


@pytest.mark.parametrize(
    ("words", "expected", "says"),
    [
        (["release", "deploy", "--target", "prod"], 2, "needs a release and a target"),
        (["release", "deploy", "nowhere.json", "--target", "prod"], 1, "cannot be read"),
        (["release", "deploy", "nowhere.json", "--list"], 2, "--target NAME"),
        (["release", "deploy", "r.json"], 2, "--target"),
        (["release", "deploy", "--show", "prod"], 1, "Nothing is deployed as 'prod'"),
        (["release", "deploy", "--show", "../x"], 1, "cannot be the name"),
        (["release", "rollback", "prod"], 1, "Nothing is deployed as 'prod'"),
    ],
)
def test_wrong_deployments_are_one_error_with_a_remedy(run: Run, words: list[str], expected: int, says: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (expected, "")
    assert says in err
    assert "Next:" in err


def test_a_changed_release_is_not_used(run: Run, pictures: Path, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    told(run, "release", "create", "--library", small, "-o", file, "--json")
    file.write_text(file.read_text("utf-8").replace('"ties": false', '"ties": true'), encoding="utf-8")
    for words in (
        ["release", "verify", file],
        ["release", "show", file],
        ["release", "deploy", file, "--target", "prod"],
        score_words(pictures, "--release", file),
    ):
        status, out, err = run(*words)
        assert status == 1 and "Traceback" not in out + err
        assert "`settings`" in err and "was changed after it was made" in err

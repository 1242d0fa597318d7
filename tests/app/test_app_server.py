"""The running app without a browser: what it offers to programs, and what it keeps to itself."""

import gzip
import json
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_parts import LAUNCH, ROOT, Pictures, Served, running_app

from app import page as caching
from rewardharness.library.store import Library
from rewardharness.schema import Json


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app of these tests alone: one that runs through all others takes as long as they do."""
    folder = tmp_path_factory.mktemp("served")
    for name in ("note.txt", ".env"):
        (folder / name).write_text("secret", encoding="utf-8")
    with running_app(folder, {"HF_HUB_OFFLINE": "1"}) as app:
        yield app


def status(url: str, body: bytes | None = None, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=100) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def post(url: str, body: bytes, content_type: str = "application/json") -> Any:
    request = urllib.request.Request(url, body, {"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.load(answer)


def upload(served: Served, path: Path, name: str = "picture.png") -> Json:
    head = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
    body = head + path.read_bytes() + b"\r\n--x--\r\n"
    [stored] = post(f"{served.url}/gradio_api/upload", body, "multipart/form-data; boundary=x")
    return {"path": stored, "meta": {"_type": "gradio.FileData"}}


def score(served: Served, *given: Any) -> tuple[str, Any]:
    """Call the public endpoint; returns the last event and its data."""
    data = [*given, *[None] * (11 - len(given))]
    event = post(f"{served.url}/gradio_api/call/score", json.dumps({"data": data}).encode())["event_id"]
    with urllib.request.urlopen(f"{served.url}/gradio_api/call/score/{event}", timeout=100) as stream:
        lines = stream.read().decode().split("\n")
    kind = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")][-1]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")][-1]
    return kind, json.loads(data)


def test_scoring_is_the_one_public_endpoint(served: Served) -> None:
    with urllib.request.urlopen(f"{served.url}/gradio_api/info", timeout=100) as answer:
        api = json.load(answer)
    assert list(api["named_endpoints"]) == ["/score"] and not api["unnamed_endpoints"]
    with urllib.request.urlopen(f"{served.url}/config", timeout=100) as answer:
        events = json.load(answer)["dependencies"]
    assert [each["api_name"] for each in events if each["api_name"]] == ["score"]
    queued = next(each["id"] for each in events if each["queue"])
    body = json.dumps({"data": [], "fn_index": queued}).encode()
    assert status(f"{served.url}/gradio_api/run/any", body, **{"Content-Type": "application/json"}) == 404
    for name in ("partial_7", "None", "false", "compare", "load"):
        url = f"{served.url}/gradio_api/call/{name}"
        assert status(url, b'{"data": []}', **{"Content-Type": "application/json"}) >= 400
    names = [each["parameter_name"] for each in api["named_endpoints"]["/score"]["parameters"]]
    candidates = [f"candidate_{letter}" for letter in "abcd"]
    assert names == ["source", *candidates, "instruction", "image_2", "image_3", "image_4", "library", "judge"]


def test_a_program_scores_with_its_library_and_judge(served: Served, pictures: Pictures, tmp_path: Path) -> None:
    given = [upload(served, path) for path in (pictures.source, pictures.bad, pictures.good)]
    asked = (*given, None, None, pictures.instruction)
    kind, [answer] = score(served, *asked)
    assert kind == "complete" and answer["preference"] == "B"
    assert answer["scores"]["B"]["reward"] > answer["scores"]["A"]["reward"]
    kind, [answer] = score(served, *asked, given[2])
    assert kind == "complete" and answer["scores"]["B"]["reward"] is None
    assert any("Reference images were not read" in note for note in answer["notes"])
    kind, [answer] = score(served, given[0], given[2], None, None, None, pictures.instruction)
    assert kind == "complete" and answer["preference"] is None and answer["scores"]["A"]["reward"] > 0.5
    (tmp_path / "text.png").write_text("no image", encoding="utf-8")
    kind, [answer] = score(served, given[0], upload(served, tmp_path / "text.png"), *asked[2:])
    assert kind == "complete" and "Candidate A is not a PNG" in answer["failure"]["message"]
    assert "UnidentifiedImage" not in json.dumps(answer)
    Library(()).save(tmp_path / "empty")
    kind, [answer] = score(served, *asked, None, None, None, str(tmp_path / "empty"), "measured")
    assert kind == "complete" and answer["library_id"] == Library(()).id and answer["preference"] is None
    kind, error = score(served, *asked, None, None, None, "", "vllm:judge@http://127.0.0.1:9/v1")
    assert kind == "complete" and error[0]["failure"]["code"] == "unreachable"


def test_a_program_is_told_what_is_wrong_and_can_name_no_file(served: Served, pictures: Pictures) -> None:
    picture = upload(served, pictures.source)
    stolen = {"path": str(pictures.good), "meta": {"_type": "gradio.FileData"}}
    nothing, blue = (None, None), "Make it blue."
    for asked, words in (
        ((picture, picture, picture, *nothing, ""), "The instruction is missing."),
        ((picture, picture, picture, *nothing, blue, None, picture), "Image 2 is missing"),
        ((picture, picture, picture, *nothing, blue, None, None, None, "builtin", "vllm:judge"), "is not a judge"),
        ((picture, stolen, picture, *nothing, blue), ""),
    ):
        kind, error = score(served, *asked)
        assert kind == "error" and words in json.dumps(error) and "preference" not in json.dumps(error)


def test_files_of_this_computer_are_not_served(served: Served) -> None:
    secrets = [str(served.cwd / "note.txt"), "note.txt", str(served.cwd / ".env"), ".env", "/etc/passwd"]
    for path in secrets:
        assert status(f"{served.url}/gradio_api/file={urllib.parse.quote(path)}") == 403
    assert status(f"{served.url}/monitoring") in {403, 404}
    assert status(f"{served.url}/") == 200


def test_an_upload_is_never_served_as_a_page(served: Served, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<script>alert(1)</script>", encoding="utf-8")
    for name in ("page.html", "page.svg"):
        stored = upload(served, page, name)["path"]
        place = f"{served.url}/gradio_api/file={urllib.parse.quote(stored)}"
        with urllib.request.urlopen(place, timeout=100) as answer:
            assert answer.headers["Content-Disposition"].startswith("attachment")
            assert answer.headers["Content-Type"] == "application/octet-stream"


def test_a_large_upload_is_refused(served: Served, tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    large.write_bytes(bytes(21 * 1024 * 1024))
    try:
        upload(served, large)
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == 413
    except urllib.error.URLError as error:  # the server closes the connection before it has read the rest
        assert isinstance(error.reason, ConnectionError)
    else:
        raise AssertionError("it was accepted")


def test_no_foreign_page_can_ask(served: Served) -> None:
    port = served.url.rsplit(":", 1)[1]
    rebound = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
    body = json.dumps({"data": [], "fn_index": 0, "session_hash": "evil"}).encode()
    posts = ["queue/join", "call/score", "run/predict", "upload", "cancel"]
    for headers in (rebound, {"Host": rebound["Host"]}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        for path in posts:
            url = f"{served.url}/gradio_api/{path}"
            assert status(url, body, **headers, **{"Content-Type": "application/json"}) == 403
        for path in ("", "config", "gradio_api/info", "gradio_api/queue/data?session_hash=evil"):
            assert status(f"{served.url}/{path}", **headers) == 403
    assert status(f"{served.url}/config", Origin=served.url) == 200
    assert status(f"{served.url}/config", Host=f"localhost:{port}") == 200


@pytest.mark.slow
def test_a_taken_port_is_said_plainly(served: Served) -> None:
    port = served.url.rsplit(":", 1)[1]
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, port], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode != 0 and f"Port {port} on 127.0.0.1 is not available" in done.stderr


def test_the_page_is_small_and_files_stay_in_the_browser(served: Served, pictures: Pictures) -> None:
    request = urllib.request.Request(served.url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=100) as answer:
        sent = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip" and len(sent) < 60_000
        assert "immutable" not in answer.headers.get("Cache-Control", "")
    [script] = set(re.findall(rb"assets/index-[\w-]{8}\.js", gzip.decompress(sent)))
    places = {
        f"/{script.decode()}": caching.PUBLIC,
        f"/gradio_api/file={urllib.parse.quote(upload(served, pictures.good)['path'])}": caching.PRIVATE,
        "/config": None,
    }
    for place, wanted in places.items():
        with urllib.request.urlopen(f"{served.url}{place}", timeout=100) as answer:
            assert answer.headers.get("Cache-Control") == wanted, place
    assert caching.policy("/assets/index.js") is None and caching.policy("/gradio_api/queue/data") is None

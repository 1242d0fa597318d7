"""Editors over HTTP, from a folder, as functions and as the painter of the demo data; what is kept of their edits."""

import asyncio
import base64
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rewardharness.demo.dataset import known_edits
from rewardharness.editors.config import RefineConfig
from rewardharness.editors.editor import EditTask, InferenceProvider, open_editor
from rewardharness.editors.making import kept_edit
from rewardharness.errors import HarnessError, InputError
from rewardharness.jobs import open_job
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.models.base import ModelError
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

RED, BLUE = (ImageInput(name, encode_png(np.full((40, 60, 3), color, np.uint8))) for name, color in
             (("red", (200, 0, 0)), ("blue", (0, 0, 200))))  # fmt: skip
TASK = EditTask("e1", RED, "make it blue", 7)


class Server(ThreadingHTTPServer):
    """An images API; `answer` decides on status and body."""

    def __init__(self, answer: Any) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                self.reply()

            def do_GET(self) -> None:
                asked.append((self.path, {}, b""))
                self.reply()

            def reply(self) -> None:
                status, data, kind = answer(len(asked))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def serve() -> Iterator[Any]:
    running: list[Server] = []

    def start(answer: Any) -> Server:
        server = Server(answer)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def edit(editor: Any, task: EditTask = TASK) -> bytes:
    async def once() -> bytes:
        try:
            made: bytes = await editor.edit(task)
            return made
        finally:
            await editor.close()

    return asyncio.run(once())


def test_an_images_api_gets_a_form_and_the_key_and_its_image_is_read(serve: Any) -> None:
    data = {"data": [{"b64_json": base64.b64encode(BLUE.data or b"").decode()}]}
    server = serve(lambda number: (503, b"{}", "x") if number == 1 else (200, json.dumps(data).encode(), "x"))
    editor = open_editor(f"openai:org/edit@{server.url}/v1", Settings.from_env({"RH_API_KEY": "geheim"}))
    assert edit(editor) == BLUE.data and editor.name == "org/edit" and "geheim" not in f"{editor}{editor.identity}"
    path, headers, body = server.asked[-1]
    assert path == "/v1/images/edits" and headers["authorization"] == "Bearer geheim" and len(server.asked) == 2
    parts = body.split(headers["content-type"].partition("boundary=")[2].encode())
    for name, text in (("model", b"org/edit"), ("prompt", b"make it blue"), ("seed", b"7"), ("n", b"1")):
        assert sum(f'name="{name}"\r\n\r\n'.encode() + text + b"\r\n" in part for part in parts) == 1, name
    assert sum(b'filename="image.png"' in part and (RED.data or b"") in part for part in parts) == 1


@pytest.mark.parametrize(
    ("status", "body", "code", "asked"),
    [
        (400, b'{"error": {"message": "no such size sk-12345678"}}', "bad_request", 1),
        (401, b"{}", "unauthorized", 1),
        (200, b'{"data": []}', "bad_response", 1),
        (200, b"<html>", "bad_response", 1),
    ],
)
def test_a_refusal_is_an_error_without_keys(serve: Any, status: int, body: bytes, code: str, asked: int) -> None:
    server = serve(lambda number: (status, body, "x"))
    with pytest.raises(ModelError) as error:
        edit(open_editor(f"openai:m@{server.url}", Settings.from_env({})))
    assert error.value.code == code and len(server.asked) == asked
    assert "12345678" not in error.value.message and error.value.message.startswith("m ")


def test_an_inference_endpoint_gets_image_and_prompt_and_an_error_hides_the_token(serve: Any) -> None:
    server = serve(lambda number: (200, BLUE.data, "image/png") if number == 1 else (402, b"no credit geheim", "x"))
    editor = InferenceProvider(server.url, "hf-inference", "geheim")
    assert np.array_equal(load_picture(ImageInput("edit", edit(editor))).pixels, load_picture(BLUE).pixels)
    assert b"make it blue" in server.asked[0][2] and server.asked[0][1]["authorization"] == "Bearer geheim"
    with pytest.raises(HarnessError) as error:
        edit(editor)
    assert "geheim" not in error.value.message and "gave no edit" in error.value.message


WORKFLOW = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{image}"}},
    "2": {"class_type": "Edit", "inputs": {"image": ["1", 0], "prompt": "{instruction}", "seed": "{seed}"}},
}


@pytest.mark.parametrize("status", ["success", "error", "empty"])
def test_a_workflow_of_comfyui_gets_image_instruction_and_seed(
    status: str, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewardharness.editors.local.POLL_SECONDS", 0.01)
    (tmp_path / "red.json").write_text(json.dumps(WORKFLOW))
    image = {"filename": "out 1.png", "subfolder": "", "type": "output"}
    done = {"status": {"status_str": "error" if status == "error" else "success", "completed": status != "error"},
            "outputs": {"9": {"images": [image]}} if status == "success" else {}}  # fmt: skip
    uploaded = {"name": "x.png", "subfolder": "in", "type": "input"}
    documents = [uploaded, {"prompt_id": "p1", "number": 1}, {}, {"p1": done}]

    def answer(number: int) -> tuple[int, bytes, str]:
        if number > len(documents):
            return 200, BLUE.data or b"", "image/png"
        return 200, json.dumps(documents[number - 1]).encode(), "application/json"

    server = serve(answer)
    editor = open_editor(f"comfyui:{tmp_path / 'red.json'}@{server.url}", Settings.from_env({}))
    if status != "success":
        with pytest.raises(ModelError, match="failed" if status == "error" else "saved no image"):
            edit(editor, replace(TASK, instruction="make {seed} blue"))
    else:
        assert edit(editor, replace(TASK, instruction="make {seed} blue")) == BLUE.data and editor.name == "red"
        paths = [path for path, _, _ in server.asked]
        assert paths[:4] == ["/upload/image", "/prompt", "/history/p1", "/history/p1"]
        assert paths[4] == "/view?filename=out+1.png&subfolder=&type=output" and (RED.data or b"") in server.asked[0][2]
    inputs = json.loads(server.asked[1][2])["prompt"]
    assert inputs["1"]["inputs"]["image"] == "in/x.png"
    assert inputs["2"]["inputs"] == {"image": ["1", 0], "prompt": "make {seed} blue", "seed": 7}
    (tmp_path / "red.json").write_text('{"nodes": []}')
    with pytest.raises(InputError, match="API format"):
        open_editor(f"comfyui:{tmp_path / 'red.json'}@{server.url}", Settings.from_env({}))


def test_a_function_is_an_editor_and_its_edits_are_kept_by_content(tmp_path: Path) -> None:
    seen: list[tuple[Any, str, int]] = []

    def turned(image: Image.Image, instruction: str, seed: int) -> Image.Image:
        seen.append((image.size, instruction, seed))
        if instruction == "fail":
            raise ValueError("no")
        return image.rotate(180)

    editor = open_editor(turned)
    made = [asyncio.run(kept_edit(editor, TASK, tmp_path)) for _ in range(2)]
    assert made[0][0] == made[1][0] and [new for _, new in made] == [True, False]
    assert seen == [((60, 40), "make it blue", 7)]
    assert Image.open(io.BytesIO(made[0][0])).size == (60, 40)
    with pytest.raises(ModelError, match="turned raised ValueError: no"):
        asyncio.run(kept_edit(editor, EditTask("e", RED, "fail"), tmp_path))
    nonsense = open_editor(lambda image, instruction, seed: b"no image")
    with pytest.raises(HarnessError):
        asyncio.run(kept_edit(nonsense, TASK, tmp_path))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_gives_the_file_of_an_example_and_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "edits").mkdir()
    for path in (tmp_path / "edits" / "e1.png", tmp_path / "e2.png"):
        path.write_bytes(BLUE.data or b"")
    editor = open_editor(f"folder:{tmp_path / 'edits'}")
    assert edit(editor) == BLUE.data
    for name in ("e2", "../e2"):
        with pytest.raises(ModelError, match="has no file"):
            edit(editor, EditTask(name, RED, ""))


def test_the_painter_is_right_or_wrong_by_seed_and_knows_the_demo_data_only() -> None:
    case = next(case for case in known_edits(100) if case.category == "tone")
    source, right = case.source(), case.right()
    task = EditTask("x", ImageInput("s", encode_png(source)), f"{case.instruction} Leave the rest.")
    edits = (edit(open_editor(f"painter:{share}"), task) for share in (0, 1))
    honest, faulty = (load_picture(ImageInput("e", data)).pixels for data in edits)
    assert np.array_equal(honest, right) and not np.array_equal(faulty, right)
    with pytest.raises(InputError, match="demo data"):
        edit(open_editor("painter:0"), TASK)


@pytest.mark.parametrize(
    "spec", ["painter:2", "painter:x", "openai:", "openai:m@ftp://h", "openai:m@http://u:pw@h", "folder:none", "new"]
)
def test_a_wrong_spelling_is_one_error(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        open_editor(spec, Settings.from_env({}))
    assert error.value.next_step and "pw" not in error.value.message
    with pytest.raises(InputError, match="needs a key"):
        open_editor("openai:gpt-image-1", Settings.from_env({}))


@pytest.mark.parametrize(("image", "words", "said"), [("a.png", " ", "is empty"), ("b.png", "red", "does not exist")])
def test_a_refinement_without_an_instruction_or_image_asks_no_editor(
    tmp_path: Path, image: str, words: str, said: str
) -> None:
    (tmp_path / "a.png").write_bytes(b"an image")
    with pytest.raises(HarnessError, match=said):
        open_job(RefineConfig(tmp_path / image, words, editor="folder:x"), Settings.from_env({}))

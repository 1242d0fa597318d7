"""Model servers on this computer are found, and nothing else on their ports is taken for one."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from model_server import ModelServer, own_port

from rewardharness.models.probe import LocalModel, find_local_servers


@contextmanager
def serving(replies: Mapping[str, bytes]) -> Iterator[int]:
    """Serve fixed replies by path on a port of this computer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            known = replies.get(self.path)
            self.send_response(404 if known is None else 200)
            self.end_headers()
            self.wfile.write(known or b"")

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def listed(*rows: object) -> bytes:
    return json.dumps({"data": list(rows)}).encode()


@pytest.mark.parametrize(
    ("usual", "replies", "images"),
    [
        ("vLLM", {}, None),
        ("llama.cpp", {"/v1/models": listed({"id": "m", "capabilities": ["completion", "multimodal"]})}, True),
        ("llama.cpp", {"/v1/models": listed({"id": "m", "capabilities": ["completion"]})}, False),
        ("Ollama", {"/api/show": b'{"capabilities": ["completion", "vision"]}'}, True),
        ("Ollama", {"/api/show": b'{"capabilities": ["completion"]}'}, False),
        ("Ollama", {}, None),
        ("LM Studio", {"/api/v0/models": listed({"id": "m", "type": "vlm"})}, True),
        ("LM Studio", {"/api/v0/models": listed({"id": "m", "type": "llm"}, 3)}, False),
        ("LM Studio", {"/api/v0/models": b"[]"}, None),
    ],
)
def test_a_server_says_what_it_serves_and_whether_it_accepts_images(
    usual: str, replies: Mapping[str, bytes], images: bool | None
) -> None:
    with serving({"/v1/models": listed({"id": "m"}), **replies}) as port:
        (found,) = find_local_servers({usual: port})
    assert found.models == (LocalModel("m", images),) and found.url == f"http://127.0.0.1:{port}/v1"
    assert found.kind == ("vllm" if usual == "vLLM" else "openai")


@pytest.mark.parametrize("reply", [b"<html>", b"[]", b"{}", b'{"data": 3}', b"[" * 100_000, b"\xff", None])
def test_something_else_on_a_port_is_no_model_server(reply: bytes | None) -> None:
    with serving({} if reply is None else {"/v1/models": reply}) as port:
        assert find_local_servers({"vLLM": port, "SGLang": own_port()}) == []


def test_odd_entries_of_a_list_are_left_out() -> None:
    with serving({"/v1/models": listed(3, {}, {"id": 3}, {"id": ""}, {"id": "m"}, None)}) as port:
        (found,) = find_local_servers({"SGLang": port})
    assert found.models == (LocalModel("m", None),)


def test_a_real_server_is_found() -> None:
    with ModelServer() as server:
        (found,) = find_local_servers({"vLLM": server.port})
    assert found.url == server.url and found.models == (LocalModel("judge", None),)

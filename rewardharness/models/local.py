"""Model servers on this computer, found on the ports that they use by default."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

PORTS: Mapping[str, int] = {"vLLM": 8000, "SGLang": 30000, "llama.cpp": 8080, "Ollama": 11434, "LM Studio": 1234}
"""Default port of each server."""
_SECONDS = 0.5
_MOST_BYTES = 1_000_000
_SEEING = frozenset({"vision", "multimodal", "image"})
"""What servers call the ability to read images."""


@dataclass(frozen=True)
class LocalModel:
    """A model that a server on this computer serves."""

    name: str
    images: bool | None
    """Whether it accepts images; None if the server does not say."""


@dataclass(frozen=True)
class LocalServer:
    """A server with the OpenAI protocol on this computer."""

    usual: str
    """The program that uses this port by default; another one may run there."""
    url: str
    """Base URL."""
    models: tuple[LocalModel, ...]

    @property
    def kind(self) -> str:
        """Kind of model in a specification."""
        return "vllm" if self.usual == "vLLM" else "openai"


def find_local_servers(ports: Mapping[str, int] = PORTS) -> list[LocalServer]:
    """Return the servers that answer on these ports of 127.0.0.1. Takes at most about two seconds."""
    with ThreadPoolExecutor(max(1, len(ports))) as threads:
        found = threads.map(_find, ports.keys(), ports.values())
        return [server for server in found if server is not None]


def _find(usual: str, port: int) -> LocalServer | None:
    listed = _ask(port, "/v1/models")
    rows = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(rows, list):
        return None
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"]]
    models = tuple(LocalModel(row["id"], _accepts_images(usual, port, row)) for row in named)
    return LocalServer(usual, f"http://127.0.0.1:{port}/v1", models)


def _accepts_images(usual: str, port: int, row: Mapping[str, Any]) -> bool | None:
    """Read what the server says: llama.cpp in its list; Ollama and LM Studio in interfaces of their own."""
    if usual == "Ollama":
        row = _ask(port, "/api/show", {"model": row["id"]})
    elif usual == "LM Studio":
        known = _ask(port, "/api/v0/models")
        rows = known.get("data") if isinstance(known, dict) else None
        own = (each for each in rows or () if isinstance(each, dict) and each.get("id") == row["id"])
        kind = next(own, {}).get("type")
        return kind == "vlm" if isinstance(kind, str) else None
    can = row.get("capabilities") if isinstance(row, dict) else None
    return bool(_SEEING & {each for each in can if isinstance(each, str)}) if isinstance(can, list) else None


def _ask(port: int, path: str, body: Mapping[str, str] | None = None) -> Any:
    """Return the JSON reply of a server on this computer; None without one."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    with suppress(OSError, HTTPException, ValueError, RecursionError):
        try:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            if reply.status == 200:
                return json.loads(reply.read(_MOST_BYTES))
        finally:
            connection.close()
    return None

"""The app as an MCP server, asked by a real MCP client."""

import ast
import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from app_parts import Pictures, running_app
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from test_app_server import status


async def ask(url: str, calls: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    async with (
        streamable_http_client(f"{url}/gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        return tools, [await session.call_tool(tools[0].name, call) for call in calls]


@pytest.mark.slow
def test_an_agent_scores_edits(tmp_path: Path, pictures: Pictures) -> None:
    def encoded(path: Path) -> str:
        return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"

    names = {"source": pictures.source, "candidate_a": pictures.bad, "candidate_b": pictures.good}
    given: dict[str, Any] = {name: encoded(path) for name, path in names.items()}
    given["instruction"] = pictures.instruction
    stolen = given | {"candidate_b": str(pictures.good)}
    with running_app(tmp_path, {"HF_HUB_OFFLINE": "1", "TEST_MCP": "1"}) as served:
        tools, answers = asyncio.run(ask(served.url, [given, given | {"judge": "nonsense"}, stolen]))
        headers = {"Origin": "http://evil.example", "Content-Type": "application/json"}
        assert status(f"{served.url}/gradio_api/mcp/", b"{}", **headers) == 403
    [tool] = tools
    assert tool.name.endswith("score") and "people would prefer" in tool.description
    assert {"source", "candidate_a", "instruction", "library", "judge"} <= set(tool.inputSchema["properties"])
    done, wrong, refused = answers
    assert not done.isError and ast.literal_eval(done.content[0].text)["preference"] == "B"
    assert wrong.isError and "is not a judge" in wrong.content[0].text
    assert refused.isError and "preference" not in refused.content[0].text

"""Spans, with the OpenTelemetry SDK: what they hold, how they nest, and what must never be in them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from model_server import Fault, ModelServer, completion
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from PIL import Image

from rewardharness.errors import HarnessError
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.opening import open_judge
from rewardharness.library.store import EMPTY
from rewardharness.models.base import ChatRequest, Message, ModelError
from rewardharness.models.open import open_model
from rewardharness.schema import Example, ImageInput, Judgment
from rewardharness.settings import Settings
from rewardharness.telemetry import current_tracer, without_file

SECRET = "turn the secret sky green"
ANSWER = "<think>hidden thoughts</think>" + "<answer>{}</answer>".format(
    json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 3} for label in "AB"}})
)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Export the spans of a test into memory."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def judge_one(server: ModelServer, respond_key: str = "a-secret-key") -> Judgment:
    picture = Image.new("RGB", (16, 16), "red")
    example = Example(
        "secret-name",
        SECRET,
        ImageInput.of(picture, "source"),
        (ImageInput.of(picture, "a"), ImageInput.of(Image.new("RGB", (16, 16), "blue"), "b")),
    )
    judge = open_judge(f"vllm:judge@{server.url}", Settings.from_env(), api_key=respond_key, retries=0, no_cache=True)
    [(_, judgment)] = evaluate(judge, EMPTY, [example])
    return judgment


def named(spans: InMemorySpanExporter, start: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name.startswith(start)]


def events(span: ReadableSpan) -> list[dict[str, Any]]:
    assert all(event.name == "gen_ai.evaluation.result" for event in span.events)
    return [dict(event.attributes or {}) for event in span.events]


def test_a_judgment_is_a_span_with_the_requests_to_the_model_as_children(spans: InMemorySpanExporter) -> None:
    with ModelServer(lambda call: completion(ANSWER, prompt_tokens=77)) as server:
        judgment = judge_one(server)
    assert judgment.failure is None
    [judged], chats = named(spans, "judge "), named(spans, "chat ")
    assert judged.name == "judge vllm:judge" and judged.attributes is not None and judged.context is not None
    assert judged.attributes["rewardharness.library_id"] == EMPTY.id
    assert judged.attributes["rewardharness.model_calls"] == len(chats) == judgment.usage.calls == 2
    for chat in chats:
        assert chat.name == "chat judge" and chat.kind is trace.SpanKind.CLIENT and chat.parent is not None
        assert chat.parent.span_id == judged.context.span_id
        assert dict(chat.attributes or {}) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": "judge",
            "gen_ai.response.model": "judge",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 77,
            "gen_ai.usage.output_tokens": len(ANSWER.split()),
            "server.address": "127.0.0.1",
            "server.port": server.port,
            "rewardharness.attempts": 1,
        }
    by_name = {(each["gen_ai.evaluation.name"], each.get("rewardharness.candidate")): each for each in events(judged)}
    assert by_name["preference", None]["gen_ai.evaluation.score.label"] == judgment.preference
    assert by_name["reward", "A"]["gen_ai.evaluation.score.value"] == judgment.scores["A"].reward


def test_no_content_and_no_key_is_in_a_span(spans: InMemorySpanExporter) -> None:
    with ModelServer(lambda call: completion(ANSWER)) as server:
        judge_one(server)
    text = "\n".join(span.to_json() for span in spans.get_finished_spans())
    assert text and not [word for word in ("secret", "hidden", "base64", "preference is", "think>") if word in text]


def test_a_failure_is_named_by_its_code(spans: InMemorySpanExporter) -> None:
    with ModelServer(lambda call: Fault("401")) as server:
        judgment = judge_one(server)
    assert judgment.failure is not None
    [judged], chats = named(spans, "judge "), named(spans, "chat ")
    assert chats and all((chat.attributes or {})["error.type"] == "unauthorized" for chat in chats)
    assert all(chat.status.status_code is trace.StatusCode.ERROR and not chat.events for chat in chats)
    assert (judged.attributes or {})["error.type"] == judgment.failure.code
    assert events(judged) == [{"gen_ai.evaluation.name": "judgment", "error.type": judgment.failure.code}]


def test_a_canceled_request_ends_its_span(spans: InMemorySpanExporter) -> None:
    async def main(url: str) -> None:
        model = open_model(f"vllm:judge@{url}", retries=0)
        task = asyncio.ensure_future(model.ask(ChatRequest((Message.of("user", "hello"),))))
        while not server.calls:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await model.close()

    with ModelServer(lambda call: Fault("hang")) as server:
        asyncio.run(main(server.url))
    [chat] = named(spans, "chat ")
    assert (chat.attributes or {})["error.type"] == "CancelledError"


def test_without_a_provider_there_are_no_spans_and_nothing_is_imported() -> None:
    assert current_tracer() is None, "the API alone is loaded"
    script = (
        "import sys, rewardharness.telemetry as t; assert t.current_tracer() is None\n"
        "with t.chat_span('vllm:x') as span: assert span is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_error_of_a_model_is_the_same_with_spans(spans: InMemorySpanExporter) -> None:
    async def main(url: str) -> None:
        model = open_model(f"openai:judge@{url}", retries=0)
        try:
            await model.ask(ChatRequest((Message.of("user", "hello"),)))
        finally:
            await model.close()

    with ModelServer(lambda call: Fault("bad_request")) as server, pytest.raises(HarnessError) as error:
        asyncio.run(main(server.url))
    assert isinstance(error.value, ModelError) and error.value.code == "bad_request"


@pytest.mark.parametrize(
    ("judge", "shown"),
    [("file:/home/me/scores.jsonl", "file"), ("scripted:replies.jsonl", "scripted"), ("vllm:a/b", "vllm:a/b")],
)
def test_judges_are_named_without_files(judge: str, shown: str) -> None:
    assert without_file(judge) == shown


def test_a_module_that_another_thread_imports_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    halfway = ModuleType("opentelemetry.trace")
    halfway.__spec__ = ModuleSpec("opentelemetry.trace", None)
    halfway.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", halfway)
    assert current_tracer() is None

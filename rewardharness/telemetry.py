"""OpenTelemetry spans of judgments and of requests to models, and what this process waits for.

Spans have the semantic conventions for generative AI.

Nothing is imported: a program that exports spans has loaded OpenTelemetry and set a tracer provider before it judges.
Without one, no span is made. Spans contain numbers, names of models and codes of failures; no prompts, replies, images,
instructions, ids of examples or keys.

The model layer reports what is waited for, and a display shows it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from rewardharness.schema import Judgment

SCOPE = "rewardharness"
"""Instrumentation scope of all spans."""

# Names of the conventions, which are in development: https://opentelemetry.io/docs/specs/semconv/gen-ai/
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE_VALUE = "gen_ai.evaluation.score.value"
SCORE_LABEL = "gen_ai.evaluation.score.label"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# Names of this package.
ATTEMPTS = "rewardharness.attempts"
"""Requests sent for one reply."""
JUDGE = "rewardharness.judge"
PROTOCOL = "rewardharness.protocol"
LIBRARY = "rewardharness.library_id"
CANDIDATE = "rewardharness.candidate"
"""Letter of the candidate that a reward belongs to."""
MODEL_CALLS = "rewardharness.model_calls"

_PROVIDERS = {"gemini": "gcp.gemini", "hf": "huggingface"}
"""Names of providers in the conventions, where they differ from the kind of a model."""


def current_tracer() -> Any | None:
    """Return the tracer; None if this process exports no spans."""
    trace = sys.modules.get("opentelemetry.trace")
    # Another thread may be importing it: trackers do.
    if trace is None or getattr(getattr(trace, "__spec__", None), "_initializing", False):
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)


@lru_cache(maxsize=4)
def _tracer_of(provider: Any) -> Any:
    return provider.get_tracer(SCOPE)


def chat_span(model: str) -> AbstractContextManager[Any | None]:
    """Record one request to a model, with its retries.

    Args:
        model: The id of the model, such as `vllm:NAME`.

    Returns:
        A context with the span for `record_reply`; with None if no spans are exported.
    """
    kind, _, name = model.partition(":")
    attributes = {OPERATION: "chat", PROVIDER: _PROVIDERS.get(kind, kind), REQUEST_MODEL: name}
    return _span(f"chat {name}".strip(), "CLIENT", attributes)


def record_reply(span: Any | None, reply: Any, endpoint: str, attempts: int) -> None:
    """Record the reply of a model.

    Args:
        span: The span; None to record nothing.
        reply: A `Reply`.
        endpoint: Host and port that answered.
        attempts: Number of requests sent.
    """
    if span is None or not span.is_recording():
        return
    host, colon, port = endpoint.partition("/")[0].rpartition(":")
    attributes: dict[str, Any] = {SERVER_ADDRESS: endpoint, ATTEMPTS: attempts}
    if colon and port.isdecimal():
        attributes |= {SERVER_ADDRESS: host, SERVER_PORT: int(port)}
    if finish := getattr(reply, "finish_reason", ""):
        attributes[FINISH_REASONS] = (finish,)
    if answered := getattr(reply, "model", ""):
        attributes[RESPONSE_MODEL] = answered
    if usage := getattr(reply, "usage", None):
        counts = {INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens}
        attributes |= {name: count for name, count in counts.items() if count}
    span.set_attributes(attributes)


def judgment_span(judge: str, library_id: str) -> AbstractContextManager[Any | None]:
    """Record one judgment; requests to models within it are children of its span.

    Args:
        judge: Name of the judge.
        library_id: Id of its Library.

    Returns:
        A context with the span for `record_judgment`; with None if no spans are exported.
    """
    judge = without_file(judge)
    return _span(f"judge {judge}", "INTERNAL", {JUDGE: judge, LIBRARY: library_id})


def record_judgment(span: Any | None, judgment: Judgment) -> None:
    """Record the rewards and the preference of a judgment, or the code of its failure.

    Args:
        span: The span; None to record nothing.
        judgment: The judgment.
    """
    if span is None or not span.is_recording():
        return
    span.set_attributes({PROTOCOL: judgment.protocol, MODEL_CALLS: judgment.usage.calls})
    if judgment.failure is not None:
        span.add_event(EVALUATION, {EVALUATION_NAME: "judgment", ERROR_TYPE: judgment.failure.code})
        _fail(span, judgment.failure.code)
        return
    if judgment.preference is not None:
        margin = {} if judgment.margin is None else {SCORE_VALUE: float(judgment.margin)}
        span.add_event(EVALUATION, {EVALUATION_NAME: "preference", SCORE_LABEL: judgment.preference, **margin})
    for label, scores in judgment.scores.items():
        if scores.reward is not None:
            span.add_event(EVALUATION, {EVALUATION_NAME: "reward", SCORE_VALUE: float(scores.reward), CANDIDATE: label})


def without_file(judge: str) -> str:
    """Return the name of a judge without the name of a file, which those that read answers from a file have."""
    kind, colon, _ = judge.partition(":")
    return kind if colon and kind in {"file", "scripted"} else judge


@contextmanager
def _span(name: str, kind: str, attributes: dict[str, Any]) -> Iterator[Any | None]:
    tracer = current_tracer()
    if tracer is None:
        yield None
        return
    options: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
    options["attributes"] = {key: value for key, value in attributes.items() if value}
    with tracer.start_as_current_span(name, kind=sys.modules["opentelemetry.trace"].SpanKind[kind], **options) as span:
        try:
            yield span
        except BaseException as error:
            _fail(span, str(getattr(error, "code", "") or type(error).__name__))
            raise


def _fail(span: Any, code: str) -> None:
    span.set_attribute(ERROR_TYPE, code)
    span.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)


_displays: list[Callable[[str], None]] = []


def on_wait(text: str) -> None:
    """Report what is waited for, as in "429 from URL, again in 2 s; 3 of 12 waiting"; empty once nothing is."""
    for display in list(_displays):
        display(text)


@contextmanager
def shown(display: Callable[[str], None]) -> Iterator[None]:
    """Show what is waited for in this context. `display` may be called from any thread."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)

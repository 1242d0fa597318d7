"""The model interface: `ChatRequest`, `Reply` and `ModelError`.

This module does not depend on Libraries, judging or examples. Failures raise `ModelError`; a `Reply` is always a real
reply.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rewardharness.errors import HarnessError
from rewardharness.files import sha256

ErrorCode = Literal[
    "timeout",
    "rate_limited",
    "unauthorized",
    "model_not_found",
    "context_too_long",
    "refused",
    "bad_response",
    "unreachable",
    "server_error",
    "bad_request",
    "not_public",
    "wrong_address",
]
"""Reason for a missing reply.

`timeout`: too slow; `rate_limited`: too many requests or overloaded; `unauthorized`: the key is missing, wrong or not
allowed; `model_not_found`: the server does not serve this model; `context_too_long`: the prompt does not fit;
`refused`: the model or a filter declined; `bad_response`: the reply violates the protocol; `unreachable`: no connection
or a lost connection; `server_error`: the server failed; `bad_request`: the server does not accept this request;
`not_public`: the address is not a server on the public internet, which is required; `wrong_address`: the server has no
chat endpoint at this address.
"""

_RETRYABLE = frozenset({"timeout", "rate_limited", "bad_response", "unreachable", "server_error"})

_NEXT_STEPS: Mapping[str, str] = {
    "timeout": "Increase the timeout or lower the token limit; `rh doctor` shows the response time of each endpoint.",
    "rate_limited": "Wait and run again, or lower the number of concurrent requests.",
    "unauthorized": "Set the correct key: OPENAI_API_KEY for `openai:NAME`, HF_TOKEN for `hf:NAME` (permitted "
    "to call Inference Providers), OPENROUTER_API_KEY for `openrouter:NAME`, RH_API_KEY for an endpoint "
    "(RH_ORCHESTRATOR_API_KEY for a separate endpoint of the Orchestrator), GEMINI_API_KEY for Gemini.",
    "model_not_found": "`rh doctor` shows the models that each endpoint serves.",
    "context_too_long": "Use fewer or smaller images, a shorter Library, or a server with a longer context.",
    "bad_response": "Check that the address is the base URL of an OpenAI-compatible server, usually ending in /v1.",
    "unreachable": "Check the address and that the server is running.",
    "server_error": "See the server's log.",
    "bad_request": "`rh doctor` shows what each endpoint accepts.",
    "wrong_address": "Check the base URL; that of an OpenAI-compatible server usually ends in /v1.",
    "not_public": "Check the address, and use an endpoint on the public internet.",
}


class ModelError(HarnessError):
    """A model gave no usable reply.

    The message names the endpoint by its alias. It may quote the server, shortened and on one line, and never contains
    a key or an image.

    Args:
        code: Reason for the failure.
        message: One sentence that names the endpoint and the problem.
        status: The HTTP status, if any.
        retry_after: Seconds to wait as requested by the server, if any.
        next_step: Suggested next step; the default depends on the code.
    """

    title = "The model did not answer"

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message, next_step=_NEXT_STEPS.get(code, "") if next_step is None else next_step)
        self.code = code
        self.status = status
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later. Models retry internally before they raise."""
        return self.code in _RETRYABLE


@dataclass(frozen=True)
class TextPart:
    """Text in a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """An encoded image in a message. Its bytes are sent unchanged."""

    data: bytes = field(repr=False)
    """The encoded image."""
    mime: str
    """Media type, such as `image/png`."""
    sha256: str = field(init=False)
    """Hash of these bytes. Servers use it as a cache key without verification, so it is always computed here."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", sha256(self.data))


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[TextPart | ImagePart, ...]
    """Text and images in the order in which the model reads them."""

    @classmethod
    def of(cls, role: Literal["system", "user", "assistant"], *parts: str | ImagePart) -> "Message":
        """Create a message from texts and images."""
        return cls(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


@dataclass(frozen=True)
class ChatRequest:
    """A request to a model."""

    messages: tuple[Message, ...]
    max_tokens: int = 2048
    """Maximum number of tokens of the reply; `Reply.finish_reason` reports a truncated reply."""
    temperature: float = 0.0
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply. Mutually exclusive with `choices`."""
    choices: tuple[str, ...] = ()
    """Allowed texts of the reply."""
    top_logprobs: int = 0
    """Number of alternatives reported for each token of the reply."""
    stop: tuple[str, ...] = ()
    """Stop sequences; the reply ends before them."""
    timeout: float | None = None
    """Seconds for the whole request, including waiting and all attempts; None limits only each attempt."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body for OpenAI-compatible servers, such as `top_k`."""

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """All images, in order."""
        return tuple(part for message in self.messages for part in message.parts if isinstance(part, ImagePart))


@dataclass(frozen=True)
class TokenUsage:
    """Token counts as reported by the server; 0 if not reported."""

    input_tokens: int = 0
    output_tokens: int = 0
    """Generated tokens, including hidden reasoning."""
    cached_tokens: int = 0
    """Input tokens read from the server's cache; included in `input_tokens`."""


FINISHED = frozenset({"", "stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"})
"""Finish reasons of a complete reply, in lowercase; a server that gives no reason sends only complete replies."""


@dataclass(frozen=True)
class Reply:
    """The reply of a model."""

    text: str
    finish_reason: str = "stop"
    """`stop` or empty for a complete reply, `length` for one truncated at `max_tokens`, or the server's own value."""
    usage: TokenUsage = TokenUsage()
    top_logprobs: tuple[Mapping[str, float], ...] = ()
    """For each token of the reply: natural log-probabilities of the most likely tokens, including the chosen one.
    With `schema` or `choices` they may be normalized over the allowed tokens. Empty if not requested or not
    reported."""
    model: str = ""
    """Model name as reported by the server."""
    fingerprint: str = ""
    """Version and configuration of the server, if reported."""
    seconds: float = 0.0
    """Duration of the whole request, including waiting and all attempts."""
    attempts: int = 1
    """Number of requests sent."""
    endpoint: str = ""
    """Host and port of the endpoint that answered, without credentials."""

    @property
    def cut_off(self) -> bool:
        """Whether the reply was truncated."""
        return self.finish_reason.lower() not in FINISHED


@dataclass(frozen=True)
class Waiting:
    """Why a request waits. `str` puts it into words."""

    endpoint: str
    """Host and port."""
    code: ErrorCode
    """The last failure; `timeout` for an attempt that is not answered yet."""
    status: int | None
    """Its HTTP status, if any."""
    seconds: float
    """Seconds until the next attempt, or until one that is not answered is given up."""
    waiting: int
    """Requests that wait for another attempt, with this one."""
    pending: int
    """Requests without a result."""
    unanswered: bool = False
    """Whether the attempt is not answered yet, rather than failed."""

    def __str__(self) -> str:
        if self.unanswered:
            return f"no answer from {self.endpoint} yet, given up in {self.seconds:.0f} s"
        kinds = {"timeout": "no answer", "unreachable": "no connection"}
        what = self.status if (self.status or 0) >= 400 else kinds.get(self.code, self.code)
        return f"{what} from {self.endpoint}, again in {self.seconds:.0f} s; {self.waiting} of {self.pending} waiting"


class Model(Protocol):
    """A model client, bound to the event loop of its first request."""

    @property
    def id(self) -> str:
        """Provider and name without addresses, such as `vllm:Qwen/Qwen2.5-VL-7B-Instruct`."""

    async def ask(self, request: ChatRequest) -> Reply:
        """Send a request, with retries.

        Raises:
            ModelError: If there is no usable reply.
        """

    async def close(self) -> None:
        """Close all connections. Idempotent."""

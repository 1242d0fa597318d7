"""How a frozen vision-language model is asked: one request, one reply, one kind of error.

Nothing here knows of Libraries, of judging or of examples. What a model can be asked is a `ChatRequest`; what it says
is a `Reply`; why it said nothing is a `ModelError`. There is no reply that stands for a failure.
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
]
"""Why a model gave no reply, in a word for tables.

`timeout`: too slow; `rate_limited`: too many requests or overloaded; `unauthorized`: the key is missing, wrong or not
allowed; `model_not_found`: the server does not serve this model; `context_too_long`: the prompt does not fit;
`refused`: the model or a filter declined; `bad_response`: the reply breaks the protocol; `unreachable`: no connection,
or it was torn; `server_error`: the server failed; `bad_request`: the server does not accept this request;
`not_public`: no server answers at this address on the public internet, and only such may be asked.
"""

_RETRYABLE = frozenset({"timeout", "rate_limited", "bad_response", "unreachable", "server_error"})

_NEXT_STEPS: Mapping[str, str] = {
    "timeout": "Allow more time or ask for fewer tokens; `rh doctor` shows how fast each endpoint answers.",
    "rate_limited": "Wait and run again, or lower the number of requests in flight.",
    "unauthorized": "Set the right key: OPENAI_API_KEY for `openai:NAME`, RH_API_KEY for an endpoint "
    "(RH_ORCHESTRATOR_API_KEY for the Orchestrator's, "
    "where it has one of its own), GEMINI_API_KEY for Gemini.",
    "model_not_found": "`rh doctor` shows the models that each endpoint serves.",
    "context_too_long": "Use fewer or smaller images, a shorter Library, or a server with a longer context.",
    "bad_response": "Check that the address is the base URL of an OpenAI-compatible server, usually ending in /v1.",
    "unreachable": "Check the address and that the server runs.",
    "server_error": "Look at the server's log.",
    "bad_request": "`rh doctor` shows what each endpoint accepts.",
    "not_public": "Check the address, and give an endpoint that can be reached from everywhere.",
}


class ModelError(HarnessError):
    """A model gave no usable reply.

    The message names the endpoint by its alias. It never holds a key, a prompt, an image or a server's own words.

    Args:
        code: Why, in a word for tables.
        message: One sentence that names the endpoint and the problem.
        status: The HTTP status, when there was one.
        retry_after: Seconds that the server asks to wait, when it said so.
        next_step: What to do about it; the usual one for the code when left out.
    """

    title = "The model gave no answer"

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
        """Whether the same request may succeed later. Models have retried by themselves before they raise."""
        return self.code in _RETRYABLE


@dataclass(frozen=True)
class TextPart:
    """A piece of text in a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """An encoded image in a message. Its bytes are sent as given."""

    data: bytes = field(repr=False)
    """The encoded image."""
    mime: str
    """Its media type, as in `image/png`."""
    sha256: str = field(init=False)
    """Of exactly these bytes. Servers that cache by it trust it blindly, so it is computed here and cannot be given."""

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
        """Make a message of texts and images."""
        return cls(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


@dataclass(frozen=True)
class ChatRequest:
    """What a model is asked."""

    messages: tuple[Message, ...]
    max_tokens: int = 2048
    """Most tokens of the reply; a longer one is cut off and says so in `Reply.finish_reason`."""
    temperature: float = 0.0
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    """JSON schema that the reply is to follow. Not together with `choices`."""
    choices: tuple[str, ...] = ()
    """Texts of which the reply is to be one."""
    top_logprobs: int = 0
    """How many alternatives to report for each token of the reply; 0 for none."""
    stop: tuple[str, ...] = ()
    """Texts at which the reply ends; they are not part of it."""
    timeout: float | None = None
    """Seconds from asking to the reply, with all waiting and all attempts; None: only each attempt is limited."""

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """All images, in order."""
        return tuple(part for message in self.messages for part in message.parts if isinstance(part, ImagePart))


@dataclass(frozen=True)
class TokenUsage:
    """What a reply cost, as the server counts; 0 where it does not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    """Tokens that the model wrote, with those of its hidden thinking."""
    cached_tokens: int = 0
    """Input tokens that the server had cached; a part of `input_tokens`."""


_UNFINISHED = frozenset({"length", "model_length", "max_tokens", "abort"})


@dataclass(frozen=True)
class Reply:
    """What a model said."""

    text: str
    finish_reason: str = "stop"
    """`stop` when the reply is complete, `length` when it was cut off at `max_tokens`, or the server's own word."""
    usage: TokenUsage = TokenUsage()
    top_logprobs: tuple[Mapping[str, float], ...] = ()
    """For each token of the reply: natural log-probabilities of the likeliest tokens, the chosen one among them.
    Under `schema` or `choices` they may be relative to what these allow. Empty when not asked for or not known."""
    model: str = ""
    """The model as the server names it."""
    fingerprint: str = ""
    """The server's version and configuration, if it tells."""
    seconds: float = 0.0
    """From asking to the reply, with all waiting and all attempts."""
    attempts: int = 1
    """Requests that were sent for it."""
    endpoint: str = ""
    """Who answered: host and port, never with credentials."""

    @property
    def cut_off(self) -> bool:
        """Whether the reply ended before the model had finished it."""
        return self.finish_reason in _UNFINISHED


class Model(Protocol):
    """A model that can be asked. It belongs to the event loop on which it is first asked."""

    @property
    def id(self) -> str:
        """Kind and name, as in `vllm:Qwen/Qwen2.5-VL-7B-Instruct`; without addresses."""

    async def ask(self, request: ChatRequest) -> Reply:
        """Ask once; retries are made inside.

        Raises:
            ModelError: If there is no usable reply.
        """

    async def close(self) -> None:
        """Close all connections. Closing twice is fine."""

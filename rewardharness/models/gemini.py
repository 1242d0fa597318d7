"""Gemini models through Google's client, with an API key or Vertex AI.

The client makes single HTTP requests; the endpoint pool handles retries, limits and deadlines as for other models.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import orjson

from rewardharness.errors import InputError, MissingPackageError
from rewardharness.models.base import FINISHED, ChatRequest, Message, Model, ModelError, Reply, TextPart, TokenUsage
from rewardharness.models.endpoints import PooledModel
from rewardharness.models.faults import read_error
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.raw import RawReply, read_retry_after
from rewardharness.models.replies import read_count, read_finish
from rewardharness.settings import Settings

_DELAY = re.compile(rb'"retryDelay"\s*:\s*"([0-9.]{1,12})s"')
"""Wait time in the body of a Gemini error, in addition to the header."""


_MOST = {"start": 4, "most_in_flight": 64, "bytes_in_flight": 128 << 20}
"""Maximum of some limits. Google's client needs about five times as much memory as the images in flight."""


class GeminiModel(PooledModel):
    """A Gemini model.

    Args:
        name: Model name, such as `gemini-2.5-pro`.
        settings: An API key; or else a Google Cloud project, for Vertex AI with the credentials of the machine.
        endpoint: Another key, retries and limits.
        base_url: Address to use instead of Google's, such as a gateway.
        reopen: Opens the model in another process, with that process's key; None if it cannot be sent to one.

    Raises:
        InputError: If neither a key nor a project is set.
        MissingPackageError: If Google's client is not installed.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        endpoint: EndpointSettings = EndpointSettings(),
        *,
        base_url: str | None = None,
        reopen: Callable[[], Model] | None = None,
    ) -> None:
        self._key = endpoint.api_key or settings.gemini_key or ""
        self._project, self._location = None if self._key else settings.cloud_project, settings.cloud_location
        if not self._key and not self._project:
            raise InputError(
                "Gemini needs an API key or a Vertex AI project.",
                next_step="Set GEMINI_API_KEY, or set GOOGLE_CLOUD_PROJECT and log in with gcloud.",
            )
        try:
            import aiohttp
            from google import genai
            from google.auth.exceptions import GoogleAuthError
        except ImportError:
            raise MissingPackageError("google-genai", "gemini", "using Gemini") from None
        self._aiohttp, self._genai = aiohttp, genai
        self._auth_error: type[Exception] = GoogleAuthError
        self._name = name
        self._base_url = base_url
        usual = "vertex" if self._project else "gemini"
        self._alias = usual if base_url is None else urlsplit(base_url).netloc.rpartition("@")[2]
        limits = replace(endpoint, **{limit: min(most, getattr(endpoint, limit)) for limit, most in _MOST.items()})
        super().__init__(f"gemini:{name}", (self._alias,), limits, reopen)
        self._session: Any = None
        self._client: Any = None

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        client, self._client = self._client, None
        session, self._session = self._session, None
        if client is not None:
            await client.aio.aclose()
            client.close()
        if session is not None:
            await session.close()

    def _open(self) -> Any:
        """Create Google's client on the event loop that uses it."""
        if self._client is None:
            self._session = self._aiohttp.ClientSession(
                connector=self._aiohttp.TCPConnector(limit=0), cookie_jar=self._aiohttp.DummyCookieJar()
            )
            types = self._genai.types
            once = types.HttpRetryOptions(attempts=1)
            options = types.HttpOptions(base_url=self._base_url, aiohttp_client=self._session, retry_options=once)
            account: dict[str, Any] = {"vertexai": False, "api_key": self._key}
            if self._project:
                account = {"vertexai": True, "project": self._project, "location": self._location or "global"}
            self._client = self._genai.Client(http_options=options, **account)
        return self._client

    async def _exchange(self, alias: str, request: ChatRequest) -> Reply:
        turns = [message for message in request.messages if message.role != "system"]
        contents, config = [self._content(message) for message in turns], self._config(request)
        size = sum(len(image.data) for image in request.images)
        await self._budget.acquire(size)
        try:
            client = self._open()
            response = await client.aio.models.generate_content(model=self._name, contents=contents, config=config)
        except self._genai.errors.APIError as error:
            raise self._refusal(error) from None
        except self._auth_error:
            raise ModelError("unauthorized", f"{self._alias}: Google's credentials cannot be used.") from None
        except self._aiohttp.ClientConnectorError:
            raise ModelError("unreachable", f"{self._alias} cannot be reached.") from None
        except (self._aiohttp.ClientError, OSError):
            lost = f"{self._alias} closed the connection before its reply was complete."
            raise ModelError("unreachable", lost) from None
        except (ValueError, TypeError, AttributeError, LookupError):  # raised by the client on an invalid reply
            raise self._bad("it is not a Gemini reply") from None
        finally:
            self._budget.release(size)
        return self._read(response, request)

    def _content(self, *messages: Message) -> Any:
        """Return the content of one turn, or of all system messages."""
        types = self._genai.types
        parts = [
            types.Part.from_text(text=part.text)
            if isinstance(part, TextPart)
            else types.Part.from_bytes(data=part.data, mime_type=part.mime)
            for message in messages
            for part in message.parts
        ]
        role = {"user": "user", "assistant": "model", "system": None}[messages[0].role]
        return types.Content(role=role, parts=parts)

    def _config(self, request: ChatRequest) -> Any:
        types = self._genai.types
        system = [message for message in request.messages if message.role == "system"]
        fields: dict[str, Any] = {
            "max_output_tokens": request.max_tokens,
            "temperature": request.temperature,
            "system_instruction": self._content(*system) if system else None,
            "seed": request.seed,
            "stop_sequences": list(request.stop) or None,
        }
        if request.schema is not None:
            fields |= {"response_mime_type": "application/json", "response_json_schema": request.schema}
        if request.choices:
            choices = {"type": "STRING", "enum": list(request.choices)}
            fields |= {"response_mime_type": "text/x.enum", "response_schema": choices}
        if request.top_logprobs:
            fields |= {"response_logprobs": True, "logprobs": request.top_logprobs}
        try:
            return types.GenerateContentConfig(**fields)
        except ValueError:
            raise ModelError("bad_request", f"{self._alias}: the request cannot be converted for Gemini.") from None

    def _refusal(self, error: Any) -> ModelError:
        """Return the error for an HTTP status other than 200."""
        status = error.code if isinstance(error.code, int) else 500
        try:
            data = orjson.dumps(error.details)
        except TypeError:
            data = b""
        headers = getattr(error.response, "headers", None)
        wait = read_retry_after(headers.get("Retry-After"), time.time()) if headers is not None else None
        if wait is None and (match := _DELAY.search(data)):
            wait = read_retry_after(match.group(1).decode(), time.time())
        return read_error(RawReply(self._alias, status, data, wait, model=self._name, secret=self._key))

    def _bad(self, what: str) -> ModelError:
        return ModelError("bad_response", f"{self._alias} sent an invalid reply: {what}.", status=200)

    def _read(self, response: Any, request: ChatRequest) -> Reply:
        """Parse a reply strictly."""
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            raise ModelError("refused", f"{self._alias}: a content filter declined the request.", status=200)
        if not response.candidates:
            raise self._bad("it has no candidates")
        candidate = response.candidates[0]
        finish = read_finish(RawReply(self._alias, 200, b""), getattr(candidate.finish_reason, "value", ""))
        parts = (candidate.content.parts if candidate.content is not None else None) or []
        texts = [part.text for part in parts if part.text is not None and not part.thought]
        if not texts and finish in FINISHED:
            raise self._bad("it has no text")
        return Reply(
            text="".join(texts),
            finish_reason=finish,
            usage=_usage(response.usage_metadata),
            top_logprobs=_logprobs(candidate.logprobs_result) if request.top_logprobs else (),
            model=response.model_version or "",
            endpoint=self._alias,
        )


def _usage(value: Any) -> TokenUsage:
    if value is None:
        return TokenUsage()
    written = read_count(value.candidates_token_count) + read_count(value.thoughts_token_count)
    return TokenUsage(read_count(value.prompt_token_count), written, read_count(value.cached_content_token_count))


def _logprobs(value: Any) -> tuple[Mapping[str, float], ...]:
    """Return the log-probabilities of each token, most likely first."""
    if value is None:
        return ()
    rows = []
    chosen = value.chosen_candidates or []
    for number, step in enumerate(value.top_candidates or []):
        entries = [*(step.candidates or []), *chosen[number : number + 1]]
        row = {entry.token: entry.log_probability for entry in entries if entry.token is not None}
        known = {token: float(logprob) for token, logprob in row.items() if logprob is not None}
        rows.append(dict(sorted(known.items(), key=lambda item: -item[1])))
    return tuple(rows)

"""Open a model from its specification; among them one with scripted replies, for tests and demonstrations.

vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1,http://other:8000/v1
openai:gpt-4.1                                   at OpenAI, with OPENAI_API_KEY
openai:gpt-4.1@https://api.openai.com/v1
hf:Qwen/Qwen2.5-VL-7B-Instruct                   by Hugging Face Inference Providers, with HF_TOKEN or `hf auth login`
hf:Qwen/Qwen2.5-VL-7B-Instruct:hyperbolic        by one of the providers
openrouter:qwen/qwen2.5-vl-72b-instruct          by OpenRouter, with OPENROUTER_API_KEY
gemini:gemini-2.5-pro
scripted:replies.jsonl
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import orjson

from rewardharness.errors import DataError, InputError
from rewardharness.files import read_text
from rewardharness.models.base import ChatRequest, ErrorCode, Model, ModelError, Reply
from rewardharness.models.limits import EndpointSettings
from rewardharness.settings import SERVICE_KEYS, Settings

SERVICES = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "hf": "https://router.huggingface.co/v1",
}
"""Base URLs of hosted services by kind of model, for names without an address."""
KINDS = frozenset({"vllm", "gemini", "scripted", *SERVICES})
"""Kinds of models: what a specification begins with."""

MAX_ENDPOINTS = 1_000_000
"""Characters of a file of endpoints that are read."""
_URL = re.compile(r"https?://[^\s,]+")
_SPELLINGS = (
    "Use vllm:NAME@URL[,URL...], openai:NAME[@URL], hf:NAME[:PROVIDER], openrouter:NAME, gemini:NAME or "
    "scripted:FILE.jsonl."
)


def open_model(
    spec: str, settings: Settings | None = None, endpoint: EndpointSettings = EndpointSettings(), **limits: Any
) -> Model:
    """Open a model from its specification, without sending a request.

    Args:
        spec: Provider, name and addresses, as above. A name may contain `/` and `@`.
        settings: Keys; None for none.
        endpoint: Another key, retries and limits.
        limits: Single fields of `EndpointSettings`.

    Raises:
        InputError: If the specification is invalid, or a key is missing.
        DataError: If a script cannot be read.
        MissingPackageError: If a package for this provider is not installed.
    """
    settings, endpoint = settings or Settings.from_env({}), replace(endpoint, **limits)
    if endpoint.request_timeout <= 0 or endpoint.most_in_flight < 1:
        message = "The timeout and the number of concurrent requests must be greater than 0."
        raise InputError(message, next_step="Choose larger values.")
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in KINDS or not rest.strip():
        raise InputError(f"Unknown model {_shown(spec)}.", next_step=_SPELLINGS)
    if kind == "scripted":
        return read_script(Path(rest))
    reopen = partial(_reopen, spec, replace(endpoint, api_key=None))
    if kind == "gemini":
        from rewardharness.models.gemini import GeminiModel

        return GeminiModel(rest, settings, endpoint, reopen=reopen)
    from rewardharness.models.openai_compatible import OpenAICompatibleModel

    name, urls, hosted = _parse(spec)
    if not name or not urls or (not hosted and kind in SERVICES and kind != "openai"):
        problem = "cannot have an address" if urls else "has no address such as http://localhost:8000/v1"
        raise InputError(f"{_shown(spec)} {problem}.", next_step=_SPELLINGS)
    key = endpoint.api_key or (service_key(kind, spec, settings) if hosted else settings.api_key)
    return OpenAICompatibleModel(kind, name, urls, replace(endpoint, api_key=key), reopen=reopen)


def _reopen(spec: str, endpoint: EndpointSettings) -> Model:
    """Open a model in another process, with the keys in the environment of that process."""
    return open_model(spec, Settings.from_env(), endpoint)


def service_key(kind: str, spec: str, settings: Settings) -> str:
    """Return the key of a hosted service.

    Raises:
        InputError: If there is none.
    """
    key = settings.service_keys.get(kind)
    if not key and kind == "hf" and settings.hf_login:
        from rewardharness.hub.repository import saved_token

        key = saved_token()
    if not key:
        variable = SERVICE_KEYS[kind]
        login = " or log in with `hf auth login`" if kind == "hf" else ""
        server = f", or add a server: {spec[:100]}@URL" if kind == "openai" else ""
        step = f"Set {variable}{login}{server}."
        raise InputError(f"{_shown(spec)} needs a key, and {variable} is not set.", next_step=step)
    return key


def model_name(spec: str) -> str:
    """Return the model name in a specification, without provider and addresses."""
    kind, _, rest = spec.partition(":")
    if kind == "scripted":
        return Path(rest).name
    return rest if kind == "gemini" else _parse(spec)[0]


def model_urls(spec: str) -> list[str]:
    """Return the addresses in a specification or in a list of plain addresses."""
    return spec.split(",") if spec.startswith("http") else _parse(spec)[1]


def read_endpoints(spec: str) -> str:
    """Replace a file of endpoints in a specification by its URLs: `vllm:NAME@endpoints.txt`.

    Args:
        spec: A specification; one without such a file is returned unchanged.

    Raises:
        InputError: If the file has no URL, or another line than URLs, empty lines and comments (`#`).
    """
    kind, _, rest = spec.partition(":")
    name, at, file = rest.rpartition("@")
    if kind not in {"vllm", "openai"} or not (name and at) or "://" in file or not Path(file).is_file():
        return spec
    try:
        with Path(file).open(encoding="utf-8") as text:
            lines = [line.partition("#")[0].strip() for line in text.read(MAX_ENDPOINTS).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.", next_step="Name a file with one URL per line.") from None
    urls = [line for line in lines if line]
    wrong = next((number for number, line in enumerate(lines, 1) if line and not _URL.fullmatch(line)), None)
    if wrong is not None or not urls:
        problem = "has no URL" if wrong is None else f"line {wrong}: not a URL"
        raise InputError(f"{file}: {problem}.", next_step="Write one URL per line, as in http://127.0.0.1:8000/v1.")
    return f"{kind}:{name}@{','.join(urls)}"


def _parse(spec: str) -> tuple[str, list[str], bool]:
    """Return the name, the addresses, and whether the address is that of a hosted service, which is left out."""
    kind, _, rest = spec.partition(":")
    if kind in SERVICES and re.fullmatch(r"[^@\s]+", rest):
        return rest, [SERVICES[kind]], True
    name, at, urls = spec.rpartition("@http")  # a name may contain `@`
    return name.partition(":")[2], f"http{urls}".split(",") if at else [], False


def _shown(spec: str) -> str:
    """Return a specification for messages, without its addresses, which may contain a key."""
    return repr(re.split(r"@?https?://", spec)[0][:100])


Script = str | Reply | Exception
"""A scripted result: a text, a complete reply, or an error to raise."""


class ScriptedModel:
    """A model with predefined or computed replies.

    Args:
        replies: Replies in the order of requests, or a function of the request.
        id: Id of the model.
    """

    def __init__(self, replies: Sequence[Script] | Callable[[ChatRequest], Script], id: str = "scripted") -> None:
        self._replies = replies
        self._id = id
        self.requests: list[ChatRequest] = []
        """All requests, in order."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Replies in an order cannot be given by several processes."""
        if not callable(self._replies):
            raise TypeError("its replies have an order")
        return ScriptedModel, (self._replies, self._id)

    @property
    def id(self) -> str:
        """Id of the model."""
        return self._id

    async def ask(self, request: ChatRequest) -> Reply:
        """Return the next reply.

        Raises:
            ModelError: If no reply is left.
        """
        number = len(self.requests)
        self.requests.append(request)
        if callable(self._replies):
            reply = self._replies(request)
        elif number < len(self._replies):
            reply = self._replies[number]
        else:
            message = f"The script of {self._id} has only {len(self._replies)} replies."
            raise ModelError("bad_response", message, next_step="Add more replies.")
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, model=self._id, endpoint="script") if isinstance(reply, str) else reply

    async def close(self) -> None:
        """Do nothing."""


def read_script(path: Path) -> ScriptedModel:
    """Read a script: JSON lines, each `{"text": ...}` or `{"error": code}`, optionally with `finish_reason`.

    Raises:
        DataError: If the file or a line of it cannot be read.
    """
    replies: list[Script] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            replies.append(_read_line(path, number, line))
    return ScriptedModel(replies, id=f"scripted:{path.name}")


def _read_line(path: Path, number: int, line: str) -> Script:
    step = 'Write {"text": "..."} or {"error": "timeout"} on each line.'
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise DataError(f"{path}, line {number}: invalid JSON.", next_step=step) from None
    if isinstance(record, dict):
        if set(record) == {"error"} and record["error"] in get_args(ErrorCode):
            return ModelError(record["error"], f"Scripted error from {path.name}.")
        text, finish = record.get("text"), record.get("finish_reason", "stop")
        if set(record) <= {"text", "finish_reason"} and isinstance(text, str) and isinstance(finish, str):
            return Reply(text, finish, model="scripted", endpoint="script")
    raise DataError(f"{path}, line {number}: not a valid reply.", next_step=step)

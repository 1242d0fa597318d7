"""Messages and remedies for failed judgments and for errors of event handlers."""

import logging
import re
from collections.abc import Callable, Mapping
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec

from app.markup import block, callout, paragraph
from rewardharness.errors import Description, HarnessError, describe
from rewardharness.schema import Failure

log = logging.getLogger(__name__)

P = ParamSpec("P")

_TITLES: Mapping[str, str] = {
    "image": "One of the images cannot be used",
    "input": "Missing input",
    "nothing_to_measure": "This Library has no criteria for this instruction",
    "defect": "Internal error of the judge",
    "unreachable": "The endpoint cannot be reached",
    "not_public": "This address cannot be reached from here",
    "unauthorized": "The key was refused",
    "model_not_found": "The server does not serve this model",
    "wrong_address": "There is no model at this address",
    "timeout": "The model did not answer in time",
    "rate_limited": "Rate limit exceeded",
    "context_too_long": "Images and Library exceed the model's context",
    "refused": "The model refused to judge these images",
    "bad_response": "The server's reply cannot be used",
    "server_error": "The server failed",
    "bad_request": "The server does not accept the request",
    "no_answer": "The model's answer could not be read",
    "truncated": "The model ran out of tokens before it answered",
    "no_logprobs": "The server reports no probabilities",
    "no_criteria": "This Library has no criteria for this instruction",
}
"""Title per failure code."""

_REMEDIES: Mapping[str, str] = {
    "image": "Replace that image and compare again.",
    "nothing_to_measure": "Choose the built-in Library or a model under Change, or describe one edit, for example: "
    "make the car red.",
    "defect": "Please report it, with the images if you can share them.",
}
"""Remedy per failure code, for failures that do not concern a model."""

_MODEL_REMEDIES: Mapping[str, str] = {
    "unreachable": "Check its address in the section Judge, and that the server runs.",
    "not_public": "The server must be reachable on the public internet. To use one in your own network, run the app "
    "yourself.",
    "unauthorized": "Correct the key in the section Judge. A key is sent only to the address that it was entered for.",
    "model_not_found": "Correct the name in the section Judge; “Check” there lists what the server serves.",
    "wrong_address": "Check the base URL in the section Judge; it usually ends in /v1.",
    "timeout": "Compare again; if it stays slow, scale the images down or choose the protocol Direct.",
    "rate_limited": "Wait a minute and compare again, with one sample or one order if necessary.",
    "context_too_long": "Scale the images down in the section Judge, or serve the model with a longer context "
    "(vLLM: --max-model-len).",
    "refused": "Choose another model, or the pixel-based judge.",
    "bad_response": "Check its base URL in the section Judge; it usually ends in /v1.",
    "server_error": "Check the server's log, then compare again.",
    "bad_request": "“Check” in the section Judge lists what it accepts. If it is not vLLM, select the other kind "
    "of server there.",
    "no_answer": "Compare again. Larger models and the protocol Direct follow the answer format better.",
    "truncated": "Choose the protocol Direct, or a model with shorter reasoning.",
    "no_logprobs": "Choose another protocol in the section Judge.",
    "no_criteria": "Choose another protocol in the section Judge, or another Library.",
}
"""Remedy per failure code, for failures of a model."""


def title_of(code: str) -> str:
    """Return the title of a failure code."""
    return _TITLES.get(code, code.replace("_", " "))


def failure(reason: Failure, *, own_judge: bool = True, fixed: bool = False) -> str:
    """Format the reason why there is no judgment, with a remedy.

    Args:
        reason: The failure.
        own_judge: Whether the reader chose the model, and so can correct its settings.
        fixed: Whether a release fixes Library and judge.
    """
    of_model = reason.code in _MODEL_REMEDIES
    remedy = (_MODEL_REMEDIES if of_model else _REMEDIES).get(reason.code, "")
    if fixed and reason.code == "nothing_to_measure":
        remedy = "Describe one edit, for example: make the car red."
    elif fixed and of_model:
        remedy = "A release fixes Library and judge here. Ask the owner of this app to correct it."
    elif of_model and not own_judge:
        remedy = "Ask the owner of this app to correct it, or choose another judge in the section Judge."
    title = _TITLES.get(reason.code, "There is no judgment")
    note = paragraph("No candidate got a score; a failure is never counted as a tie.", "faint")
    message = in_browser(reason.message.partition(" Next: judge with a model")[0])  # the rest is for the command line
    return block(callout("error", title, paragraph(message), paragraph(remedy, "remedy"), note))


_COMMAND = re.compile(
    r"(run|give) the same command again|(judge with|use|or) (a model: )?--judge vllm:NAME@URL( or openai:NAME@URL)?",
    re.I,
)
"""What messages say to users of the command line."""


def in_browser(text: str) -> str:
    """Return a message with what to do in the page instead of on the command line."""

    def instead(match: re.Match[str]) -> str:
        phrase = "try again" if match[1] else "choose a model under Judge"
        phrase = f"or {phrase}" if (match[2] or "").lower() == "or" else phrase
        return phrase if match[0][0].islower() else phrase.capitalize().replace("under judge", "under Judge")

    return re.sub(r" \(--[a-z][^;)]*\)", "", _COMMAND.sub(instead, text))


def error_message(error: Description, hint: str = "") -> str:
    """Format an error with its remedy and a hint."""
    texts = (paragraph(in_browser(error.detail)), paragraph(in_browser(error.next_step), "remedy"), paragraph(hint))
    return block(callout("error", error.title, *texts))


def explain(error: Exception, hint: str = "") -> str:
    """Format an error for the page, so that the page stays usable. Log internal errors.

    Args:
        error: The error.
        hint: Further help.
    """
    if not isinstance(error, HarnessError):
        log.error("an event handler failed", exc_info=error)
    return error_message(describe(error), hint)


def explaining(handler: Callable[P, str]) -> Callable[P, str]:
    """Let a handler that returns markup return its error as such."""

    @wraps(handler)
    def run(*args: P.args, **options: P.kwargs) -> str:
        try:
            return handler(*args, **options)
        except Exception as error:
            return explain(error)

    return run


def explaining_at(place: str) -> Callable[[Callable[..., dict[Any, Any]]], Callable[..., dict[Any, Any]]]:
    """Let a method that returns updates return its error at a part of its object, as in `panel.message`.

    A part that shows examples (with a method `empty`) shows the error in place of one.
    """

    def decorate(handler: Callable[..., dict[Any, Any]]) -> Callable[..., dict[Any, Any]]:
        @wraps(handler)
        def run(self: Any, *args: Any, **options: Any) -> dict[Any, Any]:
            try:
                return handler(self, *args, **options)
            except Exception as error:
                part, text = attrgetter(place)(self), explain(error)
                empty: dict[Any, Any] = part.empty(text) if hasattr(part, "empty") else {part: text}
                return empty

        return run

    return decorate

"""Reasons for missing rewards and refused requests, in one form, with fixed messages and no upstream text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rewardharness.schema import Failure


@dataclass(frozen=True)
class Fault:
    """Reason why there is no reward, or why a request was refused."""

    code: str
    """Fixed code for programs."""
    message: str
    """One sentence for users. Never contains an address, a key, a prompt or a stack trace."""
    remedy: str = ""
    """Recommended action; empty if there is none."""
    retryable: bool = False
    """Whether the same request may succeed later."""


class RefusedError(Exception):
    """A request that is refused.

    Args:
        status: The HTTP status.
        fault: The reason.
        fields: Fields of the request and their problems, such as `("items[3].edited", "field required")`.
        retry_after: Seconds until the request may be repeated.
    """

    def __init__(
        self, status: int, fault: Fault, *, fields: Sequence[tuple[str, str]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(fault.code)
        self.status = status
        self.fault = fault
        self.fields = tuple(fields)
        self.retry_after = retry_after


@dataclass(frozen=True)
class FieldProblem:
    """A field of a request, and its problem."""

    field: str
    problem: str


@dataclass(frozen=True)
class ErrorReply:
    """Body of every reply with a status other than 2xx."""

    request_id: str
    error: Fault
    fields: tuple[FieldProblem, ...] = field(default=())


TOO_MANY = "too_many"
"""Code for a list that is too long."""

DEADLINE = Fault("deadline", "The time that this request may take ended first.", "Ask again, or allow more time.", True)
SHUTTING_DOWN = Fault("shutting_down", "The server is shutting down.", "Ask again, or ask another server.", True)
DEFECT = Fault("defect", "The judge failed unexpectedly.", "Ask the operator to check the server log.")
NO_SCORE = Fault(
    "no_score",
    "The judge's protocol compares edits and scored none of these.",
    "Use /compare, or /rank with the method win_rate.",
)
BAD_SCORE = Fault("bad_score", "The judge gave a score that is no number from 0 to 1; it is not passed on.")
UNGRADED = Fault(
    "not_gradable",
    "No measurement shows whether the instruction was followed.",
    "Serve a model as judge, use the preference with its low confidence, or send allow_ungradable.",
)

_KNOWN = (
    *(DEADLINE, SHUTTING_DOWN, DEFECT),
    Fault("timeout", "The judge's model did not answer in time.", "Ask again later.", True),
    Fault("rate_limited", "The judge's model is overloaded.", "Ask again later.", True),
    Fault("unreachable", "The judge's model cannot be reached.", "Ask again later.", True),
    Fault("server_error", "The judge's model failed.", "Ask again later.", True),
    Fault("bad_response", "The judge's model sent a reply that breaks its protocol.", retryable=True),
    Fault("unauthorized", "The judge's model refuses the server's key.", "Ask the operator."),
    Fault("model_not_found", "The judge's model is not served.", "Ask the operator."),
    Fault("context_too_long", "Images and text are too long for the model.", "Send smaller ones."),
    Fault("refused", "The judge's model declined to judge this."),
    Fault("bad_request", "The judge's model does not accept this request.", "Ask the operator."),
    Fault("wrong_address", "The judge's model is not at its address.", "Ask the operator."),
    Fault("not_public", "The judge's model cannot be asked from here.", "Ask the operator."),
)
"""Faults of this server, and of the judge's model."""
_LOW = "Serve a model as judge, compare candidates, or send allow_ungradable for a reward of low confidence."
_OWN_WORDS = {
    **dict.fromkeys(("input", "no_answer", "truncated"), ""),
    "image": "Send another image.",
    "not_gradable": _LOW,
    "nothing_to_measure": "Serve a Library that speaks to this kind of edit, or another judge.",
    "no_criteria": "Serve a Library that speaks to this kind of edit.",
    "no_logprobs": "Serve another protocol, or a model that reports log-probabilities.",
}
"""Failures whose message is written by this package about the request, each with its remedy."""
_LONGEST = 300

UPSTREAM_TROUBLE = frozenset({"timeout", "rate_limited", "unreachable", "server_error", "bad_response", "unauthorized"})
"""Codes of failures that concern the judge's model rather than a single request."""


def fault_of(failure: Failure) -> Fault:
    """Convert the failure of a judgment to a fault for callers.

    Messages that may name the judge's endpoint are replaced; an unknown code is reported without its message.
    """
    for fault in _KNOWN:
        if fault.code == failure.code:
            return fault
    if failure.code in _OWN_WORDS:
        return Fault(failure.code, failure.message[:_LONGEST], _OWN_WORDS[failure.code])
    return Fault(failure.code, "The judge could not judge this.")


def failure_for(fault: Fault) -> Failure:
    """Convert a fault to the failure of a judgment; the inverse of `fault_of`."""
    return Failure(fault.code, fault.message)


def too_large(what: str, limit: str, remedy: str, *, fields: Sequence[tuple[str, str]] = ()) -> RefusedError:
    """Return the error for a value that exceeds a limit."""
    return RefusedError(413, Fault("too_large", f"{what} is over the limit of {limit}.", remedy), fields=fields)


def invalid(message: str, *fields: tuple[str, str]) -> RefusedError:
    """Return the error for an invalid request."""
    fault = Fault("invalid_request", message, "Correct the request; /openapi.json describes what it may hold.")
    return RefusedError(422, fault, fields=fields)

"""Why there is no judgment, in words, each with its remedy. Pure: records in, markup out."""

from collections.abc import Mapping

from app.markup import block, callout, paragraph
from rewardharness.schema import Failure

_FAILURES: Mapping[str, tuple[str, str]] = {
    "image": ("One of the pictures cannot be used", "Replace that picture and compare again."),
    "input": ("Something is missing", ""),
    "nothing_to_measure": (
        "This Library has nothing to go by here",
        "Choose the built-in Library, or word the instruction as one edit, such as: make the car red.",
    ),
    "defect": (
        "The judge stumbled over a defect of ours",
        "Please report it, with the pictures if you can share them.",
    ),
}
"""Per code of a failure that has nothing to do with a model: what happened, and what to do."""

_MODEL_FAILURES: Mapping[str, tuple[str, str]] = {
    "unreachable": (
        "The endpoint cannot be reached",
        "Check its address in the section Judge, and that the server runs.",
    ),
    "not_public": (
        "This address cannot be reached from here",
        "Check that its server runs on the public internet. One in your own network can be asked when you run the app "
        "yourself.",
    ),
    "unauthorized": (
        "The key was refused",
        "Type the right key in the section Judge. A key is sent only to the address that it was typed for.",
    ),
    "model_not_found": (
        "The server does not serve this model",
        "Correct the name in the section Judge; “Check” there lists what the server serves.",
    ),
    "timeout": (
        "The model did not answer in time",
        "Compare again; if it stays slow, scale the pictures down or choose the protocol Direct.",
    ),
    "rate_limited": (
        "The model is being asked too often",
        "Wait a minute and compare again, with one sample or in one order if need be.",
    ),
    "context_too_long": (
        "Pictures and Library do not fit into the model's context",
        "Scale the pictures down in the section Judge, or serve the model with a longer context "
        "(vLLM: --max-model-len).",
    ),
    "refused": (
        "The model declined to judge these pictures",
        "Choose another model, or the measured judge.",
    ),
    "bad_response": (
        "The server's reply cannot be used",
        "Check its base URL in the section Judge; it usually ends in /v1.",
    ),
    "server_error": ("The server failed", "Look at the server's log, then compare again."),
    "bad_request": (
        "The server does not accept the request",
        "“Check” in the section Judge says what it accepts. If it is not vLLM, say so there.",
    ),
    "no_answer": (
        "The model's answer could not be read",
        "Compare again. Larger models, and the protocol Direct, keep better to the form that is asked for.",
    ),
    "truncated": (
        "The model ran out of tokens before it answered",
        "Choose the protocol Direct, or a model that thinks less.",
    ),
    "no_logprobs": ("The server reports no probabilities", "Choose another protocol in the section Judge."),
    "no_criteria": (
        "This Library has no criteria for this instruction",
        "Choose another protocol in the section Judge, or another Library.",
    ),
}
"""The same for what goes wrong with a model."""


def title_of(code: str) -> str:
    """What happened where a judgment failed with a code, in a few words."""
    return {**_FAILURES, **_MODEL_FAILURES}.get(code, (code.replace("_", " "), ""))[0]


def failure(reason: Failure, *, mendable: bool = True, fixed: bool = False) -> str:
    """Why there is no judgment, with the remedy.

    Args:
        reason: The failure.
        mendable: Whether the reader chose the model, and so can mend what is wrong with it.
        fixed: Whether a release fixes Library and judge, so that there is nothing to choose on the page.
    """
    title, remedy = {**_FAILURES, **_MODEL_FAILURES}.get(reason.code, ("There is no judgment", ""))
    if fixed and reason.code in {*_MODEL_FAILURES, "nothing_to_measure"}:
        remedy = "A release fixes Library and judge here. Whoever runs this app can mend it, or name another release."
        if reason.code == "nothing_to_measure":
            remedy = "Word the instruction as one edit, such as: make the car red."
    elif reason.code in _MODEL_FAILURES and not mendable:
        remedy = "Whoever runs this app has to mend it. Meanwhile, choose another judge in the section Judge."
    said = paragraph("No candidate got a score; a failure is never counted as a tie.", "faint")
    return block(callout("error", title, paragraph(reason.message), paragraph(remedy, "remedy"), said))

"""The protocols without a conversation: `direct`, `logprob`, `pointwise`, `rubric`. See `conversation` for `chain`."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rewardharness.judging.answers import Answer, ReplyProblem, conclusion, read_last, read_number, read_turn
from rewardharness.judging.chain import neutral, raw, think
from rewardharness.judging.consistency import consistency_of, with_consistency
from rewardharness.judging.context import (
    Asking,
    answer_form,
    answer_schema,
    judge_system,
    notes,
    object_schema,
    spans,
    third_score,
)
from rewardharness.judging.conversation import make, problem_of, shown_as, translate
from rewardharness.judging.criteria import Applied, applicable, make_scores
from rewardharness.judging.presentation import PresentationResult, no_answer, usage_of
from rewardharness.library.rubric import Criterion
from rewardharness.models.base import ChatRequest, Message, Model, ModelError, Reply
from rewardharness.prompts import load
from rewardharness.schema import SCALE, ChainStep, Failure, Scores, Usage

LETTER_MASS = 0.1
"""Minimum probability of the letters together, as a share of the first token, for their odds to be used."""
_MOST_MASS = 1.05
"""Maximum sum of probabilities, which allows for rounding by the server."""
_UNSEEN = 2.0**-24
"""Probability that is lost in single precision next to one of 1."""


_NUMBERS = "A number is missing or not on its scale."
T = TypeVar("T")


async def ask_direct(asking: Asking) -> PresentationResult:
    """Request preference and scores without reasoning; the form is enforced if the server supports it."""
    labels, ties = asking.presented.labels, asking.config.ties
    schema, names = answer_schema(asking.presented, ties=ties), asking.presented.dimensions
    form = answer_form("format_direct", asking.presented, ties=ties)
    system = judge_system(asking.route, asking.presented, form)

    def read(reply: Reply, last: bool) -> tuple[Answer, str] | ReplyProblem:
        options = {"ties": ties, "cut_off": reply.cut_off, "blocks": False}
        outcome = read_turn(reply.text, labels, dimensions=names, **options).outcome
        if isinstance(outcome, Answer) and (last or not outcome.problem):
            return outcome, reply.text
        return ReplyProblem(problem_of(outcome, 0))

    answered, result = await ask_twice(asking.model, asking.chat(system, asking.question(), schema), read, form)
    if answered is None:
        return result
    scores, leads = translate(answered[0], asking)
    order = (think(shown_as(asking.presented)),) if len(asking.presented.own) > 1 else ()
    steps = (*order, *result.steps, ChainStep("answer", neutral(answered[1].strip())))
    return replace(result, scores=scores, margins=leads, steps=steps)


async def ask_letter(asking: Asking) -> PresentationResult:
    """Request one letter and read the odds of A against B from the log-probabilities of its first token.

    The margin is continuous without sampling. The odds are normalized over the two letters; if these have too little
    probability, or none is reported, the request fails.
    """
    labels = asking.presented.labels
    if len(labels) != 2:
        raise ValueError("the logprob protocol compares two candidates at a time")
    form = answer_form("format_letter", asking.presented, ties=False)
    system = judge_system(asking.route, asking.presented, form)
    answered, usage = await _first_token(asking, system, asking.question(), labels)
    if isinstance(answered, PresentationResult):
        return replace(answered, usage=usage)
    own = (asking.presented.own[0], asking.presented.own[1])
    masses = [answered.masses[label] for label in labels]
    first, second = (math.log(max(mass, answered.least)) for mass in masses)
    logit = first - second
    odds = {label: round(mass / sum(masses), 4) for label, mass in zip(own, masses, strict=True)}
    steps = (think(shown_as(asking.presented)), ChainStep("answer", json.dumps({"odds": odds})))
    return PresentationResult(margins={own: math.tanh(logit / 2)}, logits={own: logit}, steps=steps, usage=usage)


@dataclass(frozen=True)
class _FirstToken:
    """What the first token of a reply could have been."""

    masses: Mapping[str, float]
    """Probability of each answer that was asked for, over all its spellings; together at most 1."""
    least: float
    """Bound for an answer that is not among the reported tokens: it has less than the least of them, and no more than
    they leave of 1."""


async def _first_token(
    asking: Asking, system: str, asked: str, answers: Sequence[str]
) -> tuple[_FirstToken | PresentationResult, Usage]:
    """Ask for one token and read the probabilities of some answers from its log-probabilities, or say why not."""
    try:
        reply = await asking.model.ask(asking.chat(system, asked, None, max_tokens=1, top_logprobs=20))
    except ModelError as error:
        return PresentationResult(failure=Failure(error.code, error.message)), Usage()
    masses = _read_masses(reply, answers)
    if isinstance(masses, Failure):
        return PresentationResult(steps=(raw(reply.text),), failure=masses), usage_of(reply)
    return masses, usage_of(reply)


def read_shares(reply: Reply) -> dict[str, float] | Failure:
    """Return the probabilities of the first token of a reply, as far as the server reports them."""
    if not reply.top_logprobs:
        return Failure("no_logprobs", "The server reports no log-probabilities.")
    shares = {token: math.exp(min(logprob, 1.0)) for token, logprob in reply.top_logprobs[0].items()}
    if not sum(shares.values()) <= _MOST_MASS:  # NaN is not, either
        message = "The log-probabilities of the server are invalid: as probabilities they do not add up to 1 or less."
        return Failure("bad_response", message)
    return shares


def _read_masses(reply: Reply, answers: Sequence[str]) -> _FirstToken | Failure:
    """Read the probabilities of some answers from the first token of a reply."""
    shares = read_shares(reply)
    if isinstance(shares, Failure):
        return shares
    masses = dict.fromkeys(answers, 0.0)
    for token, share in shares.items():
        said = token.strip().strip("\"'([").upper()
        if said in masses:
            masses[said] += share
    mass = sum(masses.values())
    if mass < LETTER_MASS:
        message = f"{', '.join(answers)} hold only {mass:.0%} of the probability of the first token."
        return Failure("no_answer", message)
    # Servers write a large negative number, such as -9999.0, for tokens whose log-probability they do not report.
    reported = (share for share in shares.values() if share > 0)
    return _FirstToken(masses, min(*reported, max(1 - sum(shares.values()), _UNSEEN)))


async def ask_digits(asking: Asking) -> PresentationResult:
    """Ask for each score of one candidate as one digit, and take the mean under the first token's probabilities.

    The expected score is graded much finer than the scale and needs no sampling (G-Eval, arXiv 2303.16634). The digits'
    probabilities are renormalised over the scale; if they hold too little, or are not reported, there is no verdict.
    """
    system = load("digit", asking.presented.wording, notes=notes(asking.route.skills, asking.presented))
    system += third_score(asking.presented)
    own = asking.presented.own[0]
    digits = [str(digit) for digit in range(SCALE[0], SCALE[1] + 1)]
    means: list[float] = []
    usage = Usage()
    for dimension in asking.presented.dimensions:
        asked = asking.question("question_digit", dimension=dimension)
        answered, cost = await _first_token(asking, system, asked, digits)
        usage += cost
        if isinstance(answered, PresentationResult):
            return replace(answered, usage=usage)
        masses = answered.masses
        means.append(sum(int(digit) * mass for digit, mass in masses.items()) / sum(masses.values()))
    said = {
        "candidate": own,
        **{name: round(mean, 4) for name, mean in zip(asking.presented.dimensions, means, strict=True)},
    }
    steps = (ChainStep("answer", json.dumps(said), subject=own),)
    return PresentationResult({own: make(asking, *means)}, steps=steps, usage=usage)


async def ask_scores(asking: Asking) -> PresentationResult:
    """Ask for the two scores of one candidate, which is seen alone beside the source."""
    system = load("pointwise", asking.presented.wording, notes=notes(asking.route.skills, asking.presented))
    system, names = system + third_score(asking.presented), asking.presented.dimensions
    numbers, result = await _ask_numbers(asking, system, dict.fromkeys(names, SCALE), spans(asking.presented))
    if numbers is None:
        return result
    return _scored(asking, result, dict(zip(names, numbers, strict=True)), make(asking, *numbers))


async def ask_rubric(asking: Asking, criteria: Sequence[Applied] | None = None) -> PresentationResult:
    """Ask for a grade on every criterion, for one candidate; weigh them into scores.

    Args:
        asking: The request.
        criteria: The criteria; None for those of the routed Skills that apply.
    """
    criteria = applicable(asking.route, asking.request) if criteria is None else criteria
    if not criteria:
        message = "The Library has no criteria that apply to this instruction; use another protocol."
        return PresentationResult(failure=Failure("no_criteria", message))
    scales = {f"c{number}": applied.criterion.scale for number, applied in enumerate(criteria, 1)}
    system = load(
        "rubric",
        asking.presented.wording,
        criteria="\n".join(_criterion_line(*pair) for pair in zip(scales, criteria, strict=True)),
        notes=notes(asking.route.skills, asking.presented),
        form=json.dumps(dict.fromkeys(scales, 3)),
    )
    numbers, result = await _ask_numbers(asking, system, scales)
    if numbers is None:
        return result
    graded: list[tuple[Criterion, float]] = []
    for applied, number in zip(criteria, numbers, strict=True):
        low, high = applied.criterion.scale
        graded.append((applied.criterion, (number - low) / (high - low)))
    scores = make_scores(graded)
    if scores is None:
        message = "All criteria that apply are about consistency; the reward needs others."
        return replace(result, failure=Failure("no_criteria", message))
    weight = asking.config.consistency
    scores = with_consistency(scores, consistency_of(graded, measured=weight is not None), weight)
    return _scored(
        asking, result, {criterion.key: number for criterion, number in zip(criteria, numbers, strict=True)}, scores
    )


def _scored(
    asking: Asking, result: PresentationResult, said: Mapping[str, float], scores: Scores
) -> PresentationResult:
    own = asking.presented.own[0]
    answer = ChainStep("answer", neutral(json.dumps({"candidate": own, **said})), subject=own)
    return replace(result, scores={own: scores}, steps=(*result.steps, answer))


async def _ask_numbers(
    asking: Asking, system: str, scales: Mapping[str, tuple[float, float]], form: str = ""
) -> tuple[tuple[float, ...] | None, PresentationResult]:
    """Ask for a whole number on each scale."""
    spans = {key: {"type": "integer", "minimum": int(low), "maximum": int(high)} for key, (low, high) in scales.items()}
    chat = asking.chat(system, asking.question(), object_schema(spans))

    def read(value: Mapping[str, object]) -> tuple[float, ...] | None:
        numbers = [read_number(value.get(key), low, high) for key, (low, high) in scales.items()]
        return tuple(number for number in numbers if number is not None) if None not in numbers else None

    form = form or json.dumps({key: f"{low:g}-{high:g}" for key, (low, high) in scales.items()})
    return await ask_object(asking, chat, read, form, _NUMBERS)


async def ask_object(
    asking: Asking, chat: ChatRequest, read: Callable[[dict[str, Any]], T | None], form: str, rule: str
) -> tuple[T | None, PresentationResult]:
    """Ask for a JSON object with the keys of a schema; see `ask_twice`.

    Args:
        asking: The request.
        chat: The request.
        read: Reads the object; None if it breaks the form.
        form: The form of the object, for the reminder.
        rule: What is wrong with an object that cannot be read.
    """
    keys = tuple((chat.schema or {})["properties"])

    def take(value: dict[str, Any]) -> T | ReplyProblem:
        answer = read(value)
        return ReplyProblem(rule) if answer is None else answer

    def read_reply(reply: Reply, last: bool) -> T | ReplyProblem:
        said = conclusion(reply.text, cut_off=reply.cut_off)
        return said if isinstance(said, ReplyProblem) else read_last(said, keys, take)

    own = asking.presented.own
    return await ask_twice(asking.model, chat, read_reply, form, own[0] if len(own) == 1 else "")


async def ask_twice(
    model: Model, chat: ChatRequest, read: Callable[[Reply, bool], T | ReplyProblem], form: str, subject: str = ""
) -> tuple[T | None, PresentationResult]:
    """Ask a model; remind it once. Never fills in what is missing.

    Args:
        model: The model.
        chat: The request.
        read: Reads a reply; also told whether it is the last one.
        form: The form of the reply, for the reminder.
        subject: Label of the candidate that the request is about; empty for several.

    Returns:
        What was read; and the usage, the replies that could not be read, and the failure if there is one.
    """
    usage, problem = Usage(), ""
    steps: list[ChainStep] = []
    for last in (False, True):
        try:
            reply = await model.ask(chat)
        except ModelError as error:
            return None, PresentationResult(steps=(*steps,), usage=usage, failure=Failure(error.code, error.message))
        usage += usage_of(reply)
        outcome = read(reply, last)
        if not isinstance(outcome, ReplyProblem):
            return outcome, PresentationResult(steps=(*steps,), usage=usage)
        problem = outcome.message
        steps.append(raw(reply.text, subject))
        reminder = Message.of("user", load("reminder", problem=problem, form=form))
        chat = replace(chat, messages=(*chat.messages, Message.of("assistant", reply.text or "(nothing)"), reminder))
    failure = no_answer(reply, f"{problem} The same happened when the model was asked again.")
    return None, PresentationResult(steps=(*steps,), usage=usage, failure=failure)


def _criterion_line(key: str, applied: Applied) -> str:
    low, high = applied.criterion.scale
    return f"- {key} ({low:g} to {high:g}): {neutral(applied.criterion.text)}"

"""Values that a judge profile reads from replies, and their scores: trees of a fixed set of operations over values.

What cannot be read is a problem, never a number.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from rewardharness.codec import ValidationError, decode, finite
from rewardharness.judging.answers import MAX_REPLY, ReplyProblem, conclusion, find_objects
from rewardharness.judging.profile import (
    CannedReplies,
    ChoiceReply,
    Node,
    Profile,
    ReplyForm,
    TokenReply,
    ValueRange,
    Values,
)
from rewardharness.models.base import Reply

_NUMBER = re.compile(r"(?<![\w.])[-+]?[0-9]{1,9}(?:\.[0-9]{1,30})?(?!\w|\.[0-9])", re.ASCII)
_MARKERS = " \t#*_->.()0123456789"
"""What may stand before a label: markers of lists, headings and bold text."""
_NONE = frozenset({"n/a", "na", "none", "not applicable"})


def read_values(profile: Profile, call: str, reply: Reply) -> dict[str, float | None] | ReplyProblem:
    """Read the values of a call from the text of its reply; None for one that does not apply.

    Args:
        profile: The profile.
        call: Name of a call whose reply is text.
        reply: The reply. One that was cut off counts only as far as `conclusion` says.
    """
    form = profile.calls[call].reply
    if form.tokens:
        raise ValueError(f"the call {call} reads tokens")
    if len(reply.text) > MAX_REPLY:
        return ReplyProblem("The reply is far too long.")
    said = conclusion(reply.text)
    if isinstance(said, ReplyProblem):
        return said
    if reply.cut_off:
        return ReplyProblem("The reply was cut off at the token limit.")
    raw_values = dict(_find(form, said.replace("\N{MINUS SIGN}", "-")))
    values: dict[str, float | None] = {}
    for name in form.values:
        if name not in raw_values:
            return ReplyProblem(f"The reply holds no {name}.")
        value = _within(raw_values[name], profile.values[name])
        if isinstance(value, ReplyProblem):
            return ReplyProblem(f"{name}: {value.message}")
        values[name] = value
    return values


def read_tokens(tokens: TokenReply, shares: Mapping[str, float]) -> dict[str, float | None] | ReplyProblem:
    """Read the mean value of a reply under the probabilities of its first token.

    Args:
        tokens: The tokens that count.
        shares: Probability of each token that the server reports.
    """

    def plain(token: str) -> str:
        return token.strip().casefold() if tokens.fold else token.strip()

    values = {plain(token): value for token, value in tokens.of.items()}
    known = [(values[plain(token)], share) for token, share in shares.items() if plain(token) in values]
    mass = sum(share for _, share in known)
    if mass < tokens.least or not mass:
        return ReplyProblem(f"{', '.join(tokens.of)} hold only {mass:.0%} of the probability of the first token.")
    return {tokens.value: sum(value * share for value, share in known) / mass}


def run_check(profile: Profile, check: CannedReplies) -> float | None:
    """Return the score of the canned replies of a check; None if they cannot be read."""
    values: dict[str, float | None] = dict.fromkeys(profile.values)
    for name in (*check.replies, *check.tokens):
        tokens = profile.calls[name].reply.tokens
        text = Reply(check.replies.get(name, ""))
        outcome = read_tokens(tokens, check.tokens[name]) if tokens else read_values(profile, name, text)
        if isinstance(outcome, ReplyProblem):
            return None
        values |= outcome
    try:
        return evaluate_score(profile.score, values)
    except (ValueError, ArithmeticError):
        return None


def _find(form: ReplyForm, text: str) -> Iterator[tuple[str, Any]]:
    """Yield each value that a text holds, unchecked; a later one of the same name counts."""
    if form.json:
        for name, path in form.json.items():
            objects = find_objects(text, [str(path[0])]) or _in_broken_json(text, str(path[0]))
            if objects and (value := _at(objects[-1], path, _sizes(form))) is not None:
                yield name, value
    elif form.choice:
        if (value := _read_choice(form.choice, text)) is not None:
            yield form.choice.value, value
    elif form.numbers:
        numbers = [number for number in _NUMBER.findall(text) if "." in number or not form.decimals]
        if len(numbers) == len(form.numbers):
            yield from zip(form.numbers, numbers, strict=True)
    elif form.lines:
        for line in text.splitlines():
            for name, labels in form.lines.items():
                if (rest := _after(line, labels)) is not None:
                    yield name, rest
    else:
        titles = sorted({title for title, _ in form.sections.values()}, key=len, reverse=True)
        current = ""
        for line in text.splitlines():
            heading = next((title for title in titles if _starts(line, title)), "")
            current = heading or current
            for name, (title, label) in form.sections.items():
                if title == current and not heading and (rest := _after(line, (label,))) is not None:
                    yield name, rest


def _in_broken_json(text: str, key: str) -> list[dict[str, Any]]:
    """Return the number, or list, of a key that a text has once, in an object with such faults as unescaped quotes."""
    value = r"(\[[^][{}]{0,200}\]|-?[0-9.]{1,40})(?=\s{0,99}[,}])"
    matches = re.findall(rf"""["']{re.escape(key)}["']\s{{0,99}}:\s{{0,99}}{value}""", text)
    try:
        return [{key: decode(matches[0].encode())}] if len(matches) == 1 else []
    except ValidationError:
        return []


def _sizes(form: ReplyForm) -> dict[tuple[str | int, ...], int]:
    """Return how many items each list has that values are read from."""
    sizes: dict[tuple[str | int, ...], int] = {}
    for *place, last in form.json.values():
        if isinstance(last, int):
            sizes[tuple(place)] = max(sizes.get(tuple(place), 0), last + 1)
    return sizes


def _at(value: Any, path: tuple[str | int, ...], sizes: Mapping[tuple[str | int, ...], int]) -> Any:
    """Return what lies at a path; None if nothing does. A single value stands for a list of one."""
    for depth, step in enumerate(path):
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list):
            size = sizes.get(path[:depth], len(value))
            value = value[step] if len(value) == size and 0 <= step < size else None
        elif not (step == 0 and isinstance(value, int | float | str)):
            return None
    return value


def _starts(line: str, label: str) -> bool:
    return line.lstrip(_MARKERS).casefold().startswith(label.casefold())


def _after(line: str, labels: tuple[str, ...]) -> str | None:
    """Return what follows a label and a colon in a line; None if it begins with none of them."""
    plain = line.lstrip(_MARKERS)
    for label in labels:
        if plain.casefold().startswith(label.casefold()):
            head, colon, rest = plain[len(label) :].partition(":")
            if colon and not head.strip(" \t*_)"):
                return rest.strip(" \t*_[]")
    return None


def _read_choice(choice: ChoiceReply, text: str) -> float | None:
    objects = find_objects(text, [choice.key])
    said = objects[-1].get(choice.key) if objects else None
    if not objects:
        said = next((rest for line in reversed(text.splitlines()) if (rest := _after(line, (choice.key,)))), None)
    if not isinstance(said, str):
        return None
    word = " ".join(said.casefold().strip(" .\"'*").split())
    for value, spellings in ((1.0, choice.a), (-1.0, choice.b), (0.0, choice.tie)):
        if word in {spelling.casefold() for spelling in spellings}:
            return value
    return None


def _within(said: Any, allowed: ValueRange) -> float | ReplyProblem | None:
    """Check what was said for a value."""
    if isinstance(said, str):
        if said.casefold().strip(" .") in _NONE:
            return allowed.na if allowed.optional else ReplyProblem("it must apply.")
        start = re.match(r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,30})?(?=\s*(?:$|[/,;(]|out of\b|\.\s*$))", said)
        said = float(start.group()) if start else None
    number = finite(said)
    low, high = allowed.range
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        span = f" from {low:g} to {high:g}" if low is not None and high is not None else ""
        return ReplyProblem(f"it is not a number{span}.")
    if allowed.integer and number != int(number):
        return ReplyProblem("it is not a whole number.")
    return number


MAX_DEPTH = 8
"""Maximum depth of a score."""


def evaluate_score(node: Node, values: Values) -> float | None:
    """Compute a score from values; None if none of its values applies.

    Raises:
        ValueError: If it is not a finite number.
    """
    number = _value_of(node, values)
    if number is not None and not math.isfinite(number):
        raise ValueError("the score is not a finite number")
    return number


def _value_of(node: Node, values: Values) -> float | None:
    if isinstance(node, str):
        return values[node]
    if isinstance(node, int | float):
        return float(node)
    (operation, arguments), *_ = node.items()
    if operation in ("affine", "clip"):
        inner = _value_of(arguments["of"], values)
        if inner is None:
            return None
        if operation == "affine":
            return inner * float(arguments.get("scale", 1.0)) + float(arguments.get("offset", 0.0))
        return min(max(inner, float(arguments["low"])), float(arguments["high"]))
    if operation == "weighted":
        known = [(number, weight) for name, weight in arguments.items() if (number := values[name]) is not None]
        total = sum(weight for _, weight in known)
        return sum(number * weight for number, weight in known) / total if total else None
    numbers = [number for argument in arguments if (number := _value_of(argument, values)) is not None]
    return _OPERATIONS[operation](numbers) if numbers else None


def _geomean(numbers: Sequence[float]) -> float:
    if min(numbers) < 0:
        raise ValueError("a geometric mean of a negative number")
    return math.prod(numbers) ** (1 / len(numbers))


_OPERATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "mean": fmean,
    "geomean": _geomean,
    "product": math.prod,
    "difference": lambda numbers: numbers[0] - sum(numbers[1:]),
}
_FIELDS = {"affine": ({"of"}, {"scale", "offset"}), "clip": ({"of", "low", "high"}, set[str]())}


def check_score(node: Node, names: set[str], place: str, depth: int = 0) -> None:
    """Check a score.

    Raises:
        ValueError: If an operation or a value is unknown, or an argument is missing.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"{place}: nested too deeply")
    if isinstance(node, bool) or not isinstance(node, str | int | float | Mapping):
        raise ValueError(f"{place}: expected a value, a number or an operation")
    if isinstance(node, str):
        if node not in names:
            raise ValueError(f"{place}: there is no value {node!r}")
        return
    if not isinstance(node, Mapping):
        return
    if len(node) != 1:
        raise ValueError(f"{place}: an operation is written as {{name: arguments}}")
    ((operation, arguments),) = node.items()
    here = f"{place}.{operation}"
    if operation in _FIELDS:
        needed, optional = _FIELDS[operation]
        keys = set(arguments) if isinstance(arguments, Mapping) else set()
        numbers = [arguments[key] for key in keys - {"of"}] if keys else []
        if not needed <= keys <= needed | optional or not all(isinstance(operand, int | float) for operand in numbers):
            raise ValueError(f"{here}: needs {', '.join(sorted(needed | optional))}, numbers but for `of`")
        check_score(arguments["of"], names, here, depth + 1)
    elif operation == "weighted":
        weights = list(arguments.values()) if isinstance(arguments, Mapping) else []
        if not weights or set(arguments) - names or not all(isinstance(weight, int | float) for weight in weights):
            raise ValueError(f"{here}: needs the weights of values")
    elif operation in _OPERATIONS:
        if not isinstance(arguments, list | tuple) or not arguments:
            raise ValueError(f"{here}: needs a list")
        for number, argument in enumerate(arguments):
            check_score(argument, names, f"{here}[{number}]", depth + 1)
    else:
        known = ", ".join((*_OPERATIONS, *_FIELDS, "weighted"))
        raise ValueError(f"{place}: there is no operation {operation!r}; there are {known}")

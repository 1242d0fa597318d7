"""Scores of judge profiles: trees of a fixed set of operations over the values of replies."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

MAX_DEPTH = 8
"""Maximum depth of a score."""

Node = Any
"""A score: the name of a value, a number, or `{operation: arguments}`."""
Values = Mapping[str, float | None]
"""What was read from the replies; None for a value that does not apply."""


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
    numbers = [number for each in arguments if (number := _value_of(each, values)) is not None]
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
        if not needed <= keys <= needed | optional or not all(isinstance(each, int | float) for each in numbers):
            raise ValueError(f"{here}: needs {', '.join(sorted(needed | optional))}, numbers but for `of`")
        check_score(arguments["of"], names, here, depth + 1)
    elif operation == "weighted":
        weights = list(arguments.values()) if isinstance(arguments, Mapping) else []
        if not weights or set(arguments) - names or not all(isinstance(each, int | float) for each in weights):
            raise ValueError(f"{here}: needs the weights of values")
    elif operation in _OPERATIONS:
        if not isinstance(arguments, list | tuple) or not arguments:
            raise ValueError(f"{here}: needs a list")
        for number, each in enumerate(arguments):
            check_score(each, names, f"{here}[{number}]", depth + 1)
    else:
        known = ", ".join((*_OPERATIONS, *_FIELDS, "weighted"))
        raise ValueError(f"{place}: there is no operation {operation!r}; there are {known}")

"""Reads the configuration files of TIGER-AI-Lab/RewardHarness, for `--config`."""

from collections.abc import Mapping
from typing import Any

from rewardharness.errors import InputError

SECTIONS = ("schema_version", "model", "gemini", "evolution", "benchmark")
KEYS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "evolve": {
        "gemini": {"model": "orchestrator"},
        "evolution": {
            "train_dataset": "data",
            "max_iterations": "iterations",
            "batch_concurrent": "concurrency",
            "seed": "seed",
        },
    },
    "benchmark": {"gemini": {"model": "router"}, "benchmark": {"dataset": "task", "max_workers": "concurrency"}},
}
"""Option by section and key, by job."""
FIXED: Mapping[str, Any] = {
    "train_n": 60,
    "val_n": 40,
    "explore_margin": 0.075,
    "augment_swap": True,
    "prune_every_n": 50,
}
"""Values of the section evolution that `--schedule paper` has built in, of 100 examples."""
TASKS = {"TIGER-Lab/EditReward-Bench": "editreward-bench"}
"""Our task by the dataset of a benchmark."""


def is_upstream(document: Mapping[str, Any]) -> bool:
    """Return whether a document is such a configuration: it has one of its sections, and no options of ours."""
    return any(isinstance(document.get(name), Mapping) for name in SECTIONS) and "job" not in document


def read_upstream(document: Mapping[str, Any], job: str, file: str) -> tuple[dict[str, Any], list[str]]:
    """Translate a configuration.

    Args:
        document: The parsed file.
        job: `evolve` or `benchmark`.
        file: Its name, for messages.

    Returns:
        Options of the job, and remarks on keys without an effect.

    Raises:
        InputError: If the job has no such configuration, a key is unknown, or a value has the wrong type.
    """
    if job not in KEYS:
        step = "Use it with rh evolve or rh benchmark."
        raise InputError(f"{file} is a configuration of TIGER-AI-Lab/RewardHarness.", next_step=step)
    unknown = [name for name in document if name not in SECTIONS]
    options: dict[str, Any] = {"schedule": "paper"} if job == "evolve" else {}
    remarks = []
    for section, keys in KEYS[job].items():
        values = document.get(section) or {}
        if not isinstance(values, Mapping):
            raise InputError(f"{file}: {section} is not a mapping.", next_step=f"Write {section}: and its keys below.")
        known = {*keys, *(FIXED if section == "evolution" else ())}
        unknown += [f"{section}.{name}" for name in values if name not in known]
        options |= {option: values[name] for name, option in keys.items() if values.get(name) is not None}
        if section == "evolution":
            remarks += [
                f"{section}.{name}: {values[name]} has no effect; --schedule paper uses {fixed}."
                for name, fixed in FIXED.items()
                if name in values and values[name] != fixed
            ]
    if unknown:
        raise InputError(f"{file} has unknown keys: {', '.join(unknown)}.", next_step="Correct or remove them.")
    return _converted(options, file), remarks


def _converted(options: dict[str, Any], file: str) -> dict[str, Any]:
    """Convert values to those of our options."""
    for name in ("iterations", "concurrency", "seed"):
        if name in options and (not isinstance(options[name], int) or isinstance(options[name], bool)):
            raise InputError(f"{file}: {options[name]!r} is not a whole number.", next_step=f"Correct the {name}.")
    if "iterations" in options:
        options["iterations"] = max(1, options["iterations"] - 1)  # theirs counts the first judgment of all examples
    for name in ("orchestrator", "router"):
        if name in options:
            options[name] = f"gemini:{options[name]}"
    if "task" in options:
        options["task"] = TASKS.get(options["task"], options["task"])
    return options

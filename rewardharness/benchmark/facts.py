"""Results of a benchmark as facts on the card of a Library."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardharness.benchmark.figures import full_name, number_name, sampled
from rewardharness.errors import LibraryError
from rewardharness.files import write_json
from rewardharness.judging.report import wilson
from rewardharness.library.card import BENCHMARK_FILE, Facts
from rewardharness.library.store import Library
from rewardharness.schema import Accuracy, Interval, Json

_METRICS = frozenset({"exact", "forced", "groups", "fitted"})


def make_facts(result: Json, library: Library) -> tuple[Facts, ...]:
    """Return the accuracies of a run with and without a Library, for its card.

    Raises:
        LibraryError: If the run is about another Library.
    """
    rows = [row for row in result["rows"] if row["role"] == "judge" and row["library_id"] == library.id]
    if not rows:
        others = ", ".join(sorted({row["library_id"][:12] for row in result["rows"] if row["role"] == "judge"}))
        raise LibraryError(
            f"The run is about the Library {others}, not about {library.id[:12]}.",
            next_step="Run the benchmark with the Library that is to be published.",
        )
    row = rows[0]
    without = next((each for each in result["rows"] if each["role"] == "empty"), None)
    parts = {part["name"]: part["labels"] for part in result["parts"]}
    found = []
    for number in row["numbers"]:
        count = _count(number)
        if number["metric"] not in _METRICS or count is None or not count.judged:
            continue
        other = (
            next((each for each in without["numbers"] if number_name(each) == number_name(number)), None)
            if without
            else None
        )
        bare = _count(other) if other else None
        found.append(
            Facts(
                library_id=library.id,
                judge=row["name"],
                protocol=f"{result['protocol']}; {', '.join(row['protocols'])}",
                data=f"{result['task']['title']}, {number['part']}"
                + (f" ({sampled(result)})" if sampled(result) else ""),
                label_kind=number["part"],
                accuracy=count,
                interval=_around(number, count),
                without=bare,
                without_interval=_around(other, bare) if other and bare and bare.judged else None,
                dataset=result["hub"],
                metric=full_name(number, parts.get(number["part"], ())),
                evolved_on=bool(row.get("evolved_on")),
                **_exploit(row, number["part"]),
            )
        )
    return tuple(found)


def _exploit(row: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the reward of the exploit, if the part is an attack."""
    for number in row["numbers"]:
        if number["part"] == part and number["metric"] == "exploit_reward" and number["value"] is not None:
            span = Interval(*number["interval"]) if number["interval"] else None
            return {"exploit_reward": number["value"], "exploit_interval": span}
    return {}


def _count(number: Mapping[str, Any]) -> Accuracy | None:
    detail = number["detail"]
    return Accuracy(detail["n"], detail["judged"], detail["correct"]) if "correct" in detail else None


def _around(number: Mapping[str, Any], count: Accuracy) -> Interval:
    if number["interval"] and number["basis"] == "judged":
        return Interval(*number["interval"])
    found = wilson(count.correct, count.judged)
    assert found is not None
    return found


def write_for_library(folder: Path, result: Json) -> Path:
    """Write the results of a run into the folder of its Library, for the card.

    Raises:
        LibraryError: If the run is about another Library, or the folder holds none.
    """
    library = Library.load(folder)
    facts = make_facts(result, library)
    about = {"task": result["task"]["name"], "revision": result["revision"], "digest": result["digest"]}
    path = folder / BENCHMARK_FILE
    write_json(path, {"library_id": library.id, **about, "evaluation": [each.to_json() for each in facts]})
    return path

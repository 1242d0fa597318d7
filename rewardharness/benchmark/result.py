"""The result of a run, computed from its folder. Neither the data nor a judge is needed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Literal

from rewardharness.benchmark.answers import QuestionAnswer, read_answer
from rewardharness.benchmark.calibration import GradedJudgment, calibration_json
from rewardharness.benchmark.cases import NOT_JUDGED
from rewardharness.benchmark.comparison import ComparedExample, ComparedRun, compare
from rewardharness.benchmark.exploits import exploit_numbers
from rewardharness.benchmark.items import FORWARD, REVERSE, Question
from rewardharness.benchmark.metrics import TWO_WAY, UNDECIDED
from rewardharness.benchmark.numbers import AnswerSheet, credit, numbers
from rewardharness.benchmark.published import Setting, compare_published
from rewardharness.benchmark.task import Group, TaskPart
from rewardharness.benchmark.ties import TieRule
from rewardharness.judging.config import EVIDENCE, WITH_EVIDENCE
from rewardharness.judging.report import BAD_ROW
from rewardharness.schema import Json, Judgment, Usage

OF_NO_PART = "of no part"
"""Part of invalid rows if there are several parts: it depends on the label, which is not known."""


def read_parts(data: Json) -> dict[str, TaskPart]:
    """Read the parts of a task from a run folder."""
    made = {}
    for value in data["parts"]:
        group = Group(**value["group"]) if value["group"] else None
        made[value["name"]] = TaskPart(**{**value, "labels": tuple(value["labels"]), "group": group})
    return made


def make_sheet(data: Json, judgments: Mapping[str, Judgment]) -> AnswerSheet:
    """Read the answers of an entry from its judgments."""
    parts = read_parts(data)
    questions = [Question.from_json(value) for value in data["questions"]]
    replies = tuple(read_answer(question, judgments, parts[question.part].ties) for question in questions)
    return AnswerSheet(parts, data["protocol"], tuple(data["task"]["metrics"]), replies)


def summary(sheet: AnswerSheet, judgments: Mapping[str, Judgment], wanted: Iterable[str], skipped: int = 0) -> Json:
    """Summarize judging: coverage, failures by code, position consistency, usage.

    Args:
        sheet: The answers.
        judgments: Judgments by item.
        wanted: Ids of the items.
        skipped: Skipped rows. Each counts as one item that was not judged, under any protocol.
    """
    items = set(wanted)
    total = len(items) + skipped
    known = [judgment for name, judgment in judgments.items() if name in items]
    failures = Counter(judgment.failure.code for judgment in known if judgment.failure is not None)
    failures += Counter({BAD_ROW: skipped})
    tried = [judgment.position_consistent for judgment in known if judgment.position_consistent is not None]
    usage = sum((judgment.usage for judgment in known), Usage())
    judged = sum(judgment.judged for judgment in known)
    return {
        "items": total,
        "judged": judged,
        "coverage": judged / total if total else None,
        "failures": dict(sorted(failures.items())),
        "missing": len(items) - len(known),
        "protocols": sorted({judgment.protocol for judgment in known}),
        "position_consistency": sum(tried) / len(tried) if tried else None,
        "both_orders": _both_orders(sheet),
        "usage": {**asdict(usage), "seconds": round(usage.seconds, 3)},
    }


def _both_orders(sheet: AnswerSheet) -> Json | None:
    """Return how often the answers in both presentation orders agree, as in MMRB2 (arXiv 2512.16899).

    A judge that always prefers the candidate shown first has a consistency of 0. None if only one order was judged.
    """
    pairs: dict[str, dict[str, QuestionAnswer]] = {}
    for reply in sheet.counting:
        if reply.question.order and reply.question.truth in TWO_WAY:
            pairs.setdefault(reply.question.id.rpartition("|")[0], {})[reply.question.order] = reply
    if not pairs:
        return None
    answers = [(_two_way(two[FORWARD]), _two_way(two[REVERSE])) for two in pairs.values() if len(two) == 2]
    same = [forward == reverse for forward, reverse in answers if forward is not None and reverse is not None]
    return {"same": sum(same), "tried": len(same), "consistency": sum(same) / len(same) if same else None}


def _two_way(reply: QuestionAnswer) -> str | None:
    return reply.choice if reply.choice in (*TWO_WAY, None) else UNDECIDED


def graded_judgments(sheet: AnswerSheet, judgments: Mapping[str, Judgment]) -> list[GradedJudgment]:
    """Return confidence and correctness of every answer about a preference."""
    made = []
    for reply in sheet.counting:
        if not isinstance(reply.question.truth, str):
            continue
        names = {item for item, _ in reply.question.asks}
        judgment = judgments.get(next(iter(names))) if len(names) == 1 else None
        confidence = judgment.confidence if judgment is not None and reply.choice is not None else None
        margin = abs(reply.margin) if reply.margin is not None and reply.choice is not None else None
        made.append(
            GradedJudgment(
                reply.question.id,
                credit(sheet.parts[reply.question.part], reply),
                confidence,
                margin,
                reply.question.category,
            )
        )
    return made


def compared_examples(sheet: AnswerSheet, part: str) -> tuple[ComparedExample, ...]:
    """Return the result of every question of a part, for a paired comparison.

    Both presentation orders of a pair are one result under the id of the first, since they are not independent: their
    mean, or None if one of them failed.
    """
    pairs: dict[str, list[QuestionAnswer]] = {}
    for reply in sheet.counting:
        if reply.question.part == part and isinstance(reply.question.truth, str):
            pairs.setdefault(reply.question.pair, []).append(reply)
    results = []
    for replies in pairs.values():
        question = replies[0].question
        credits = [value for reply in replies if (value := credit(sheet.parts[part], reply)) is not None]
        mean = fmean(credits) if len(credits) == len(replies) else None
        results.append(ComparedExample(question.id, str(question.truth), mean, question.cluster))
    return tuple(results)


def paired_run(name: str, data: Json, sheet: AnswerSheet, part: str) -> ComparedRun:
    """Return the results of an entry in the form that `compare` takes."""
    labels = "/".join(sheet.parts[part].labels)
    return ComparedRun(
        name, f"{data['task']['name']}, {part}", f"exact, {labels}", data["protocol"], compared_examples(sheet, part)
    )


def make_result(
    data: Json,
    entries: Sequence[Json],
    judgments: Mapping[str, Mapping[str, Judgment]],
    rules: Mapping[str, Mapping[str, TieRule]] | None = None,
) -> Json:
    """Compute the result of a run.

    Args:
        data: Items and questions, as `BenchmarkData.to_json` returns them.
        entries: The entries, as `BenchmarkEntry.to_json` returns them; the judge of the run is the first.
        judgments: Judgments by entry and item.
        rules: Tie thresholds by entry and part, fitted on other data.
    """
    wanted = {item for question in data["questions"] for item, _ in question["asks"]}
    sheets = {entry["key"]: make_sheet(data, judgments.get(entry["key"], {})) for entry in entries}
    # A sample is drawn from valid rows; skipped rows are reported next to it.
    skipped = 0 if data["sampled"] else data.get("skipped_rows", {"n": 0})["n"]
    rows = []
    for entry in entries:
        key, sheet = entry["key"], sheets[entry["key"]]
        known = judgments.get(key, {})
        rows.append(
            {
                **entry,
                **summary(sheet, known, wanted, skipped),
                "numbers": [
                    one.to_json() for one in (*numbers(sheet, (rules or {}).get(key)), *exploit_numbers(sheet))
                ],
                **(calibration_json(graded_judgments(sheet, known)) if not data["scores"] else {}),
                "against": _against(data, entries[0], entry, sheets) if entry is not entries[0] else [],
            }
        )
    about = {key: value for key, value in data.items() if key != "questions"}
    return {**about, "counted": _counted(data), "rows": rows, "published": _published(data, rows[0]) if rows else []}


def _published(data: Json, row: Json) -> list[Json]:
    """Return published numbers for each number of the judge of the run."""
    pairwise = data["protocol"] == "both-orders"
    orders: Literal[1, 2] = 2 if pairwise or row["position_consistency"] is not None else 1
    results = []
    for number in row["numbers"]:
        setting = Setting(
            data["task"]["name"],
            number["part"],
            number["metric"],
            data["protocol"],
            number["dimension"],
            tuple(number["labels"]),
            orders,
            number["n"] // 2 if pairwise else number["n"],
            data["revision"],
        )
        others = [each.to_json() for each in compare_published(setting)]
        if others:
            named = {key: number[key] for key in ("part", "dimension", "metric", "name", "value", "interval", "n")}
            results.append({**named, "rows": others})
    return results


def _against(data: Json, first: Json, other: Json, sheets: Mapping[str, AnswerSheet]) -> list[Json]:
    """Compare the judge of the run with another entry, part by part, on the questions that both answered."""
    results = []
    for part in sheets[first["key"]].parts:
        mine = paired_run(label(first), data, sheets[first["key"]], part)
        if mine.outcomes:
            compared = compare(paired_run(label(other), data, sheets[other["key"]], part), mine).to_json()
            fixed, broken = len(compared.pop("fixed")), len(compared.pop("broken"))
            results.append({"part": part, **compared, "better": fixed, "worse": broken})
    return results


def label(entry: Mapping[str, Any]) -> str:
    """Return the display name of an entry."""
    name = judge_label(entry)
    return name if entry["role"] == "baseline" else f"{name}, {entry['library']}"


def judge_label(entry: Mapping[str, Any]) -> str:
    """Return the display name of the judge of an entry, as it is spelled for `--judges`."""
    with_evidence = str(entry.get("protocol", "")).endswith(WITH_EVIDENCE)
    return f"{entry['name']}{EVIDENCE}" if with_evidence else str(entry["name"])


def _counted(data: Json) -> list[Json]:
    """Return how many questions of each part count, and why the others do not."""
    tallies: dict[str, Counter[str]] = {part["name"]: Counter() for part in data["parts"]}
    for value in data["questions"]:
        reason = value["excluded"] or ("no label" if value["truth"] is None else "")
        tallies[value["part"]][reason] += 1
    for problem in data["problems"]:
        if problem["consequence"] == NOT_JUDGED:
            tallies.setdefault(problem["part"], Counter())[problem["code"]] += problem["n"]
    return [
        {
            "part": name or OF_NO_PART,
            "rows": sum(tally.values()),
            "counted": tally[""],
            "left_out": {reason: n for reason, n in sorted(tally.items()) if reason},
        }
        for name, tally in tallies.items()
    ]

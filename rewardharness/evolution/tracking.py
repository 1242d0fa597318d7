"""Tracking of an evolution: turns its events and progress into numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardharness.evolution.events import Concluding, Decided, Event, Finished, Judged, read_events
from rewardharness.evolution.loop import Callbacks
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.progress import RunProgress
from rewardharness.evolution.report import EvolutionReport
from rewardharness.runs.spending import NOTHING
from rewardharness.schema import Json
from rewardharness.tracking.numbers import known_numbers, share_numbers, spending_numbers
from rewardharness.tracking.run import RunTracking


def tracked(
    callbacks: Callbacks, tracking: RunTracking, plan: EvolutionPlan, folder: Path, config: Any = None
) -> Callbacks:
    """Return callbacks that also pass the numbers of a run on to its trackers.

    Args:
        callbacks: The callbacks, which are called first.
        tracking: The tracking of the run; it begins with the first event, when the run folder is locked.
        plan: The plan of the run.
        folder: Its run folder.
        config: The configuration of the job; None for a run of Python objects.
    """
    if not tracking.active:
        return callbacks
    decided: list[Decided] = []

    def on_event(event: Event) -> None:
        callbacks.on_event(event)
        new = [event]
        if not tracking.begun:
            tracking.begin(folder, plan.manifest, config)
            new = read_events(folder)  # the file has this event already
        decided.extend(item for item in new if isinstance(item, Decided))
        if numbers := _numbers(event):
            counts = {"evolve/tested": len(decided), "evolve/accepted": sum(item.accepted for item in decided)}
            tracking.log({**numbers, **counts}, event.step)

    def on_progress(progress: RunProgress) -> None:
        callbacks.on_progress(progress)
        tracking.progress({f"progress/{progress.phase}": progress.done / progress.total if progress.total else 1.0})

    return replace(callbacks, on_event=on_event, on_progress=on_progress)


def _numbers(event: Event) -> Json:
    """Return the numbers of an event; empty if it has none."""
    match event:
        case Judged():
            done = event.judged + event.failed
            coverage = {"progress/coverage": event.judged / done} if done else {}
            accuracy = {} if event.accuracy is None else {"train/accuracy": event.accuracy}
            return {**accuracy, **coverage, "progress/failures": event.failed}
        case Decided():
            net = event.evidence.fixes - event.evidence.breaks
            numbers = {"train/accuracy": event.accuracy, "evolve/net_gain": net, "evolve/version": event.version}
            return {**known_numbers(numbers), **spending_numbers(event.spent.to_json())}
        case Concluding() | Finished() if event.spent != NOTHING:
            return spending_numbers(event.spent.to_json())
    return {}


def evolution_numbers(report: EvolutionReport) -> dict[str, float]:
    """Return the result of a run."""
    held_out, train = report.audit, report.pool
    compared = held_out.final_against_start
    scores = {"held_out/before": held_out.start, "held_out/after": held_out.final}
    scores |= {"train/before": train.start, "train/after": train.final}
    numbers = known_numbers({"held_out/p_value": compared.p}) | share_numbers("held_out/gain", vars(compared), "gain")
    for name, score in scores.items():
        numbers |= share_numbers(name, vars(score), "accuracy")
    return numbers

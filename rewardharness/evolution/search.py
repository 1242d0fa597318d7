"""Runs a schedule step by step until the search ends."""

from collections.abc import Callable
from dataclasses import replace

from rewardharness.evolution.schedules import Schedule
from rewardharness.evolution.state import State
from rewardharness.evolution.steps import Run
from rewardharness.evolution.stop import Exhausted


def search(run: Run, schedule: Schedule, state: State, keep: Callable[[State], None]) -> State:
    """Go on from a state until the schedule or the budget ends the search.

    Args:
        run: The judge, the Orchestrator and the pool.
        schedule: The order of things.
        state: Where to go on from.
        keep: Given the state after every step. What it has kept is where a killed run goes on from.

    Returns:
        The last state, with the reason in `ending`.

    Raises:
        Stopped: If somebody asked for an end.
        Paused: If there is trouble that a person has to see to.
    """
    while not state.ending:
        try:
            state = schedule.advance(run, state)
        except Exhausted as end:
            state = replace(state, ending=str(end))
        state = replace(state, step=state.step + 1)
        keep(state)
    return state

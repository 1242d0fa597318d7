"""The paper's loop and gate, to compare with (arXiv 2605.08703 and its published code)."""

from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from rewardharness.errors import LibraryError
from rewardharness.evolution.gate import Evidence, MarginGate
from rewardharness.evolution.proposal import Outcome, Phase, Proposal
from rewardharness.evolution.screening import rehearse, unrehearsed
from rewardharness.evolution.state import State
from rewardharness.evolution.steps import (
    Run,
    accept,
    bundle_of,
    emit_decided,
    pending_of,
    prune_order,
    removal,
    request_proposals,
    skip,
)
from rewardharness.evolution.trial import GateSettings, Trial, try_edit
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import TIE, Example


@dataclass(frozen=True)
class PaperSchedule:
    """Bundles of edits against a margin, without error control.

    The Orchestrator reads the first 60% of the training examples in both presentation orders; acceptance tests use the
    last 40%. Each iteration judges everything and tests all edits of Skills as one bundle, then all edits of Tools; a
    bundle is accepted if it scores at least the best accuracy so far minus `margin`. Rejected edits are forgotten. New
    prompted Tools are rehearsed first, with the images that the published code leaves out.
    """

    iterations: int = 4
    """Iterations after the first judgment of all examples, which the paper counts as one more."""
    per_round: int = 6
    """Proposals per request to the Orchestrator, for Skills and for Tools."""
    margin: float = 0.075
    prune_every: int = 50
    """Iterations between two prunings, which remove all entries without which the score is no lower; 0 for never."""

    name = "paper"

    def watched(self, training: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return the last 40%."""
        return training[round(0.6 * len(training)) :]

    def advance(self, run: Run, state: State) -> State:
        """Take the next step: propose, test the Skills, test the Tools, or prune."""
        if state.best is None:
            run.evaluator.judge(state.library, self._read(run), again=True)
            return replace(state, best=state.accuracy or 0.0)
        if state.round >= self.iterations and state.phase == "skills" and not state.pending:
            return replace(state, ending=f"all {self.iterations} iterations are done")
        if state.phase == "skills" and not state.pending:
            return self._propose(run, state)
        if state.phase == "prune":
            return replace(self._prune(run, state), phase="skills")
        waiting = next((item for item in state.pending if unrehearsed(run, state, item)), None)
        if waiting is not None:
            return rehearse(run, state, waiting)
        return self._bundle(run, state)

    def _read(self, run: Run) -> list[Example]:
        """Return the examples that the Orchestrator reads, pairs in both orders."""
        train = run.pool[: len(run.pool) - len(self.watched(run.pool))]
        return [*train, *(swapped(example) for example in train if len(example.candidates) == 2)]

    def _propose(self, run: Run, state: State) -> State:
        outcomes = run.evaluator.judge(state.library, self._read(run), again=True)
        asked, skills, _ = request_proposals(run, replace(state, rejected=()), outcomes, self.per_round)
        for_tools = replace(asked, phase="tools", round=state.round)
        after, tools, _ = request_proposals(run, for_tools, outcomes, self.per_round)
        pending = pending_of([*skills, *tools], state.library)
        proposed = state.proposed + len(pending)
        return replace(after, phase="skills" if pending else self._later(after), pending=pending, proposed=proposed)

    def _later(self, state: State) -> Phase:
        """Return the phase after the Tools."""
        return "prune" if self.prune_every and state.round % self.prune_every == 0 else "skills"

    def _bundle(self, run: Run, state: State) -> State:
        """Test all edits of one kind at once."""
        tools = state.phase == "tools"
        mine = [item.proposal for item in state.pending if _of_tool(item.proposal, state.library) == tools]
        rest = tuple(item for item in state.pending if item.proposal not in mine)
        following = replace(state, pending=rest, phase=self._later(state) if tools else "tools")
        after, applied = state.library, []
        for proposal in mine:
            try:
                after = proposal.applied_to(after)
                applied.append(proposal)
            except LibraryError as error:
                skip(run, state, proposal, error.message)
        if not applied:
            return following
        bundle = bundle_of(applied)
        watched = self.watched(run.pool)  # all are judged, whether the edit touches them or not
        trial = Trial(watched, state.outcomes, partial(run.evaluator.judge, after, again=True))
        gate = GateSettings(MarginGate(state.best or 0.0, self.margin), batch=max(1, len(watched)))
        evidence = try_edit(trial, state.histories, gate, 0)
        if evidence.decision == "accept":
            following = accept(run, following, bundle, trial.outcomes, evidence)
            following = replace(following, best=max(state.best or 0.0, following.accuracy or 0.0))
        emit_decided(run, following, bundle, evidence)
        return following

    def _prune(self, run: Run, state: State) -> State:
        watched = self.watched(run.pool)

        def accuracy(library: Library) -> tuple[float, list[Outcome]]:
            outcomes = run.evaluator.judge(library, watched, again=True)
            return fmean(outcome.credit for outcome in outcomes if outcome.judged), outcomes

        whole, _ = accuracy(state.library)
        idle = [
            proposal
            for name in prune_order(state.library)
            if accuracy((proposal := removal(state.library, name)).applied_to(state.library))[0] >= whole
        ]
        if not idle:
            return state
        after = state.library
        for proposal in idle:
            after = proposal.applied_to(after)
        reached, outcomes = accuracy(after)
        bundle = bundle_of(idle)
        evidence = Evidence("accept", f"accuracy {whole:.3f} is no lower without any one of them", "leave one out")
        judged = {outcome.example.id: outcome for outcome in outcomes}
        pruned = accept(run, state, bundle, judged, evidence)
        emit_decided(run, pruned, bundle, evidence)
        return replace(pruned, best=max(state.best or 0.0, reached))


def swapped(example: Example) -> Example:
    """Return a pair in the other order, label included."""
    label = {"A": "B", "B": "A", TIE: TIE, None: None}[example.preference]
    return replace(example, id=f"{example.id}_swap", candidates=example.candidates[::-1], preference=label)


def _of_tool(proposal: Proposal, library: Library) -> bool:
    """Whether a proposal edits Tools."""
    entries = [
        library.get(change.name) if isinstance(change, RemoveEntry) else change.entry for change in proposal.changes
    ]
    return any(entry is not None and entry.kind == "tool" for entry in entries)

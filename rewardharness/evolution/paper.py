"""The paper's loop and gate, to compare with (arXiv 2605.08703 and its published code)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rewardharness.errors import LibraryError
from rewardharness.evolution.gate import Evidence, MarginGate
from rewardharness.evolution.proposal import Outcome, Phase, Proposal
from rewardharness.evolution.prune import prune_order, removal
from rewardharness.evolution.rehearsal import rehearse, unrehearsed
from rewardharness.evolution.state import State
from rewardharness.evolution.steps import Run, ask, decided, keep, passed, pend, together
from rewardharness.evolution.trial import GateSettings, Trial, try_edit
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import TIE, Example


@dataclass(frozen=True)
class PaperSchedule:
    """Bundles of edits against a margin, without error control.

    The first 60 % of the pool are for the Orchestrator to read, both ways round; the last 40 % are the gate's. In each
    iteration everything is judged, all edits of Skills are tried as one bundle, then all edits of Tools, and a bundle
    stays if it scores at least the best so far less `margin`. What was tried before is not remembered. New prompted
    Tools are rehearsed first, with the images that the published code leaves out.
    """

    iterations: int = 4
    """After the first judging, which the paper counts as one more."""
    per_round: int = 6
    """Proposals that the Orchestrator is asked for at a time, for Skills and for Tools."""
    margin: float = 0.075
    prune_every: int = 50
    """Every so many iterations, entries without which the score is no lower go, all at once; 0 for never."""

    name = "paper"

    def watched(self, pool: tuple[Example, ...]) -> tuple[Example, ...]:
        """The last 40 %."""
        return pool[round(0.6 * len(pool)) :]

    def advance(self, run: Run, state: State) -> State:
        """Take the next step: read and propose, try the Skills, try the Tools, or prune."""
        if state.best is None:
            run.bench.judge(state.library, self._read(run), again=True)
            return replace(state, best=state.accuracy or 0.0)
        if state.round >= self.iterations and state.phase == "skills" and not state.pending:
            return replace(state, ending=f"all {self.iterations} iterations are done")
        if state.phase == "skills" and not state.pending:
            return self._propose(run, state)
        if state.phase == "prune":
            return replace(self._prune(run, state), phase="skills")
        waiting = next((each for each in state.pending if unrehearsed(run, state, each)), None)
        if waiting is not None:
            return rehearse(run, state, waiting)
        return self._bundle(run, state)

    def _read(self, run: Run) -> list[Example]:
        """The examples that the Orchestrator reads, pairs both ways round."""
        train = run.pool[: len(run.pool) - len(self.watched(run.pool))]
        return [*train, *(swapped(example) for example in train if len(example.candidates) == 2)]

    def _propose(self, run: Run, state: State) -> State:
        outcomes = run.bench.judge(state.library, self._read(run), again=True)
        asked, skills, _ = ask(run, replace(state, rejected=()), outcomes, self.per_round)
        for_tools = replace(asked, phase="tools", round=state.round)
        after, tools, _ = ask(run, for_tools, outcomes, self.per_round)
        pending = pend([*skills, *tools], state.library)
        proposed = state.proposed + len(pending)
        return replace(after, phase="skills" if pending else self._later(after), pending=pending, proposed=proposed)

    def _later(self, state: State) -> Phase:
        """What follows the Tools."""
        return "prune" if self.prune_every and state.round % self.prune_every == 0 else "skills"

    def _bundle(self, run: Run, state: State) -> State:
        """Try all edits of one kind at once."""
        tools = state.phase == "tools"
        mine = [each.proposal for each in state.pending if _of_tool(each.proposal, state.library) == tools]
        rest = tuple(each for each in state.pending if each.proposal not in mine)
        following = replace(state, pending=rest, phase=self._later(state) if tools else "tools")
        after, applied = state.library, []
        for proposal in mine:
            try:
                after = proposal.applied_to(after)
                applied.append(proposal)
            except LibraryError as error:
                passed(run, state, proposal, error.message)
        if not applied:
            return following
        bundle = together(applied)
        trial = self._run(run, state, bundle, after)
        if trial.evidence.decision == "accept":
            following = keep(run, following, bundle, trial.outcomes, trial.evidence)
            following = replace(following, best=max(state.best or 0.0, following.accuracy or 0.0))
        decided(run, following, bundle, trial.evidence)
        return following

    def _run(self, run: Run, state: State, bundle: Proposal, library: Library) -> Trial:
        """Judge all that the gate looks at, whether the edit touches it or not."""
        watched = self.watched(run.pool)
        how = GateSettings(MarginGate(state.best or 0.0, self.margin), batch=max(1, len(watched)))

        def ask_again(examples: Sequence[Example]) -> list[Outcome]:
            return run.bench.judge(library, examples, again=True)

        return try_edit(watched, bundle, state.outcomes, state.standings, ask_again, how, 0)

    def _prune(self, run: Run, state: State) -> State:
        watched = self.watched(run.pool)

        def accuracy(library: Library) -> tuple[float, list[Outcome]]:
            outcomes = run.bench.judge(library, watched, again=True)
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
        bundle = together(idle)
        evidence = Evidence("accept", f"accuracy {whole:.3f} is no lower without any one of them", "leave one out")
        known = {outcome.example.id: outcome for outcome in outcomes}
        pruned = keep(run, state, bundle, known, evidence)
        decided(run, pruned, bundle, evidence)
        return replace(pruned, best=max(state.best or 0.0, reached))


def swapped(example: Example) -> Example:
    """The same pair the other way round, label included."""
    label = {"A": "B", "B": "A", TIE: TIE, None: None}[example.preference]
    return replace(example, id=f"{example.id}_swap", candidates=example.candidates[::-1], preference=label)


def _of_tool(proposal: Proposal, library: Library) -> bool:
    """Whether a proposal edits Tools."""
    entries = [
        library.get(change.name) if isinstance(change, RemoveEntry) else change.entry for change in proposal.changes
    ]
    return any(entry is not None and entry.kind == "tool" for entry in entries)

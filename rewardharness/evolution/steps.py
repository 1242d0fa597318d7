"""The parts of schedules: asking for proposals, accepting them, and recording what happens."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from rewardharness.data.source import split
from rewardharness.errors import LibraryError
from rewardharness.evolution.checkpoint import change_json
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import Decided, Emit, EvidenceReport, Found, OrchestratorFailed, Proposed, Skipped
from rewardharness.evolution.gate import EXACT, Evidence, Noise
from rewardharness.evolution.proposal import (
    UNSAVED_REPLIES,
    Mutation,
    Observe,
    Orchestrator,
    Outcome,
    Proposal,
    Replies,
    View,
    wording,
)
from rewardharness.evolution.state import GateSettings, State, Trial, seed_of, try_edit
from rewardharness.library.diff import diff_json, diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.models.base import ModelError
from rewardharness.runs.job import RunPaused
from rewardharness.schema import Example

EVIDENCE_SHARE = 0.6
"""Share of the training examples that count as evidence; proposals are written from the rest."""

PRUNING = "pruning"
"""Source of proposals to remove an entry. They use no labels, so all training examples count as evidence."""

_IN_LINEAGE = "policy reason fixes breaks ties failed unsteady judged affected p_value fixed broken".split()
"""Fields of the evidence that the lineage has."""


@dataclass(frozen=True)
class Run:
    """Everything that steps need besides the state."""

    evaluator: Evaluator
    orchestrator: Orchestrator
    pool: tuple[Example, ...]
    """The training examples."""
    observe: Observe
    measures: tuple[str, ...]
    """Names of the measures that criteria and Tools may use."""
    seed: int = 0
    emit: Emit = lambda event: None
    """Receives events."""
    setting: Mapping[str, str] = field(default_factory=dict)
    """Fields of every line of the lineage: `data`, `data_digest` and `judge`."""
    replies: Replies = UNSAVED_REPLIES
    """Saves the replies of the Orchestrator's model."""
    subphase: Callable[[str, int], AbstractContextManager[None]] = lambda phase, total: nullcontext()
    """Counts a phase within the search; see `Meter.subphase`."""
    workers: int = 1
    """Number of threads that measure examples for proposals."""

    @cached_property
    def sides(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """Examples that proposals are written from, and those that count as evidence; no source image is in both."""
        return split(self.pool, share=EVIDENCE_SHARE, seed=self.seed)

    @property
    def noise(self) -> Noise:
        """How the judge's answers are weighted."""
        return Noise() if self.evaluator.noisy else EXACT


def request_proposals(
    run: Run, state: State, outcomes: Sequence[Outcome], limit: int, mutations: tuple[Mutation, ...] = ()
) -> tuple[State, list[Proposal], bool]:
    """Ask the Orchestrator for a round of proposals, of any kind or by certain mutation operators.

    Returns:
        The state with the round counted and its findings; the proposals that fit the champion; and whether another
        round may bring more.

    Raises:
        RunPaused: If its model gives no answer, permanently or twice in a row.
    """
    view = replace(view_of(run, state, outcomes, limit), mutations=mutations)
    asked = replace(state, round=state.round + 1)
    try:
        with run.subphase("proposals", len(view.outcomes)):
            proposals = list(run.orchestrator.propose(view))[:limit]
    except ModelError as error:
        run.emit(OrchestratorFailed(error.code, error.message, step=state.step))
        if not error.retryable or state.silent:
            raise RunPaused(
                f"The Orchestrator {run.orchestrator.name} gives no answer ({error.code}). {error.message}",
                next_step=f"{error.next_step} Then give the same command again.".strip(),
                kind="orchestrator",
            ) from error
        return replace(asked, silent=state.silent + 1, idle=state.idle + 1), [], True
    findings = tuple(run.orchestrator.findings)
    if findings:
        run.emit(Found(findings, step=state.step))
    for dropped in run.orchestrator.dropped:
        run.emit(Skipped(dropped.excerpt, dropped.problem, step=state.step))
    replied = bool(proposals or run.orchestrator.dropped)
    return replace(asked, silent=0, findings=findings or state.findings), _fitting(run, state, proposals), replied


def view_of(run: Run, state: State, outcomes: Sequence[Outcome], limit: int) -> View:
    """Return what the Orchestrator sees."""
    waiting = (item.waiting for item in state.pending)
    seen = (state.library, tuple(outcomes), run.observe, run.measures, state.phase)
    rejected, seed = (*state.rejected, *waiting), seed_of(run.seed, "round", state.round)
    return View(*seen, seed, rejected, state.findings, limit, replies=run.replies, workers=run.workers)


def emit_proposed(run: Run, state: State, proposal: Proposal, after: Library) -> None:
    """Emit that an edit was proposed."""
    diff = diff_json(diff_libraries(state.library, after))
    run.emit(Proposed(*_edit(proposal), diff, mutation=proposal.mutation or "", step=state.step))


def emit_decided(run: Run, state: State, proposal: Proposal, evidence: Evidence) -> None:
    """Emit a decision.

    Args:
        run: The run.
        state: The state after the decision, with the step that it was made in.
        proposal: The edit.
        evidence: The evidence of the decision.
    """
    changes = tuple(change_json(change) for change in proposal.changes)
    members = tuple(member.signature for member in proposal.members)
    after = (state.accuracy, state.library.id, state.version, run.evaluator.spent)
    run.emit(Decided(*_edit(proposal), EvidenceReport.of(evidence), *after, changes, members, step=state.step))


def skip(run: Run, state: State, proposal: Proposal, reason: str) -> None:
    """Emit that a proposal was skipped before anything was judged."""
    run.emit(Skipped(proposal.statement, reason, step=state.step))


def applied(run: Run, state: State, proposal: Proposal, library: Library) -> Library | None:
    """Return a Library after an edit; None if the edit does not fit and is skipped."""
    try:
        return proposal.applied_to(library)
    except LibraryError as error:
        skip(run, state, proposal, error.message)
        return None


def accept(run: Run, state: State, proposal: Proposal, outcomes: Mapping[str, Outcome], evidence: Evidence) -> State:
    """Make an edited Library the champion, with a line in its lineage for each proposal of a bundle.

    Args:
        run: The run.
        state: The state before the edit.
        proposal: The edit.
        outcomes: The outcomes with the edit, by example id.
        evidence: The evidence of the decision.
    """
    judged = state.judged(outcomes, run.noise, accepted=True)
    n = sum(outcome.judged for outcome in judged.outcomes.values())
    on_pool = {"n": n, "before": state.accuracy, "after": judged.accuracy}
    members, library = proposal.members or (proposal,), state.library
    others = f"in one bundle of {len(members)} edits, " if len(members) > 1 else ""
    about = {**vars(evidence), "reason": others + evidence.reason}
    why = {**on_pool, **{name: about[name] for name in _IN_LINEAGE}}
    for member in members:
        after = library
        for change in member.changes:
            after = after.apply(change)
        line = {"parent": library.id, "library": after.id, "step": state.step, "operator": member.operator}
        line |= {"mutation": member.mutation} if member.mutation else {}
        line |= {"entries": member.names, "statement": member.statement, "source": member.source, "cited": member.cited}
        line |= {**run.setting, "evidence": why, "added": new_lines(library, after)}
        library = after.with_lineage(line)
    return replace(judged, library=library, idle=0, gained=True, accepted=state.accepted + 1, version=state.version + 1)


def trial_of(run: Run, state: State, proposal: Proposal, examples: Sequence[Example]) -> Trial:
    """Return the trial of an edit on those of some examples that it touches."""
    after = proposal.applied_to(state.library)
    touched = run.evaluator.affected(state.library, after, examples)
    return Trial(touched, state.outcomes, lambda asked: run.evaluator.judge(after, asked))


def decide(run: Run, state: State, proposal: Proposal, gate: GateSettings, counted: Collection[str]) -> State:
    """Test an edit of the champion, and accept it or not.

    Args:
        run: The run.
        state: The state before the edit.
        proposal: The edit.
        gate: The acceptance test.
        counted: Ids of the examples that count as evidence.

    Returns:
        The state after the edit; its version is another one if the edit was accepted.
    """
    trial = trial_of(run, state, proposal, run.pool)
    seed = seed_of(run.seed, "gate", state.step, proposal.signature)
    evidence = try_edit(trial, state.histories, gate, seed, counted)
    if evidence.decision == "accept":
        state = accept(run, state, proposal, trial.outcomes, evidence)
    else:
        state = state.judged(trial.outcomes, run.noise, accepted=False)
    emit_decided(run, state, proposal, evidence)
    return state


def prune_order(library: Library) -> tuple[str, ...]:
    """Return the names of the entries that are not protected, the longest texts first."""
    sizes = {entry.name: len(wording(entry)) for entry in library.entries if not entry.protected}
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def removal(library: Library, name: str) -> Proposal:
    """Return the proposal to remove an entry."""
    entry = library.get(name)
    assert entry is not None
    statement = f"Remove the {entry.kind} {name}."
    return Proposal("remove", (RemoveEntry(name, "pruned"),), statement, (), PRUNING, ("prune", name))


def new_lines(before: Library, after: Library) -> dict[str, list[str]]:
    """Return the lines that an edit added to the wording of a Library, by entry; moved lines are not new.

    They connect every sentence of a Library with the edit that added it, and so with the examples that motivated it.
    """

    def lines(entry: Entry) -> list[str]:
        return [line.strip() for line in wording(entry).split("\n") if line.strip()]

    old = {line for entry in before.entries for line in lines(entry)}
    new = {entry.name: [line for line in lines(entry) if line not in old] for entry in after.entries}
    return {name: added for name, added in new.items() if added}


def bundle_of(proposals: Sequence[Proposal]) -> Proposal:
    """Return several proposals as one bundle; a single one unchanged."""
    if len(proposals) == 1:
        return proposals[0]
    changes = tuple(change for proposal in proposals for change in proposal.changes)
    statement = " ".join(dict.fromkeys(proposal.statement for proposal in proposals))
    cited = tuple(dict.fromkeys(name for proposal in proposals for name in proposal.cited))
    return Proposal("bundle", changes, statement, cited, proposals[0].source, members=tuple(proposals))


def _fitting(run: Run, state: State, proposals: Sequence[Proposal]) -> list[Proposal]:
    """Return the proposals that apply to the champion, each once, without those that were tried before."""
    seen = {tried.signature for tried in state.rejected} | {item.proposal.signature for item in state.pending}
    fitting: list[Proposal] = []
    for proposal in proposals:
        if proposal.signature in seen:
            skip(run, state, proposal, "The same edit was tried before.")
        elif (after := applied(run, state, proposal, state.library)) is not None:
            fitting.append(proposal)
            emit_proposed(run, state, proposal, after)
        seen.add(proposal.signature)
    return fitting


def _edit(proposal: Proposal) -> tuple[str, str, tuple[str, ...], str, tuple[str, ...], str]:
    """Return the fields that events about an edit share."""
    return proposal.signature, proposal.operator, proposal.names, proposal.statement, proposal.cited, proposal.source

"""What schedules are made of: asking for proposals, trying one, keeping it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from rewardharness.data.source import split
from rewardharness.errors import LibraryError
from rewardharness.evolution.bench import Bench
from rewardharness.evolution.checkpoint import change_json
from rewardharness.evolution.events import Decided, Emit, Event, Found, OrchestratorFailed, Passed, Proposed
from rewardharness.evolution.gate import EXACT, Evidence, Noise
from rewardharness.evolution.proposal import Observe, Orchestrator, Outcome, Proposal, View, wording
from rewardharness.evolution.replies import FORGETFUL, Replies
from rewardharness.evolution.state import Pending, State, chance
from rewardharness.evolution.stop import Paused
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.base import ModelError
from rewardharness.schema import Example, Json

EVIDENCE_SHARE = 0.6
"""Share of the pool that counts as evidence; proposals are written from the rest."""


@dataclass(frozen=True)
class Run:
    """Everything that steps need beside the state."""

    bench: Bench
    orchestrator: Orchestrator
    pool: tuple[Example, ...]
    """Labelled examples to learn from. The audit is not among them."""
    observe: Observe
    measures: tuple[str, ...]
    """Names of the measures that criteria and Tools may use."""
    seed: int = 0
    emit: Emit | None = None
    """Takes events; None where nobody listens."""
    setting: Mapping[str, str] = field(default_factory=dict)
    """What the lineage says of every edit: on which `data`, of which digest, and by which `judge` it was tried."""
    replies: Replies = FORGETFUL
    """Keeps what the Orchestrator's model says."""
    aside: Callable[[str, int], AbstractContextManager[None]] = lambda phase, total: nullcontext()
    """Counts a phase within the search; see `Meter.aside`."""

    @cached_property
    def sides(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """Examples that proposals are written from, and those that count as evidence; no source image is in both."""
        return split(self.pool, share=EVIDENCE_SHARE, seed=self.seed)

    @property
    def noise(self) -> Noise:
        """How the judge's answers are weighed."""
        return Noise() if self.bench.noisy else EXACT

    def tell(self, make: Callable[[], Event]) -> None:
        """Emit an event, which is only made if somebody listens."""
        if self.emit is not None:
            self.emit(make())


def ask(run: Run, state: State, outcomes: Sequence[Outcome], limit: int) -> tuple[State, list[Proposal], bool]:
    """Ask the Orchestrator for a round of proposals.

    Returns:
        The state with the round counted and its findings; the proposals that fit the champion; and whether another
        round may bring more although this one brought none, because something was said that was of no use.

    Raises:
        Paused: If its model gives no answer, for good or twice in a row.
    """
    view = view_of(run, state, outcomes, limit)
    asked = replace(state, round=state.round + 1)
    try:
        with run.aside("proposals", len(view.outcomes)):
            proposals = list(run.orchestrator.propose(view))[:limit]
    except ModelError as error:
        code, message = error.code, error.message
        run.tell(lambda: OrchestratorFailed(code, message, step=state.step))
        if not error.retryable or state.silent:
            raise Paused(
                f"The Orchestrator {run.orchestrator.name} gives no answer ({code}). {message}",
                next_step=f"{error.next_step} Then give the same command again.".strip(),
                kind="orchestrator",
            ) from error
        return replace(asked, silent=state.silent + 1, idle=state.idle + 1), [], True
    found = tuple(run.orchestrator.findings)
    if found:
        run.tell(lambda: Found(tuple(each.__dict__ for each in found), step=state.step))
    for each in run.orchestrator.dropped:
        _pass(run, state, each.excerpt, each.problem)
    said = bool(proposals or run.orchestrator.dropped)
    return replace(asked, silent=0, findings=found or state.findings), _fitting(run, state, proposals), said


def view_of(run: Run, state: State, outcomes: Sequence[Outcome], limit: int) -> View:
    """What the Orchestrator gets to see."""
    return View(
        library=state.library,
        outcomes=tuple(outcomes),
        observe=run.observe,
        known_measures=run.measures,
        phase=state.phase,
        seed=chance(run.seed, "round", state.round),
        rejected=state.rejected,
        findings=state.findings,
        limit=limit,
        replies=run.replies,
    )


def announce(run: Run, state: State, proposal: Proposal, after: Library) -> None:
    """Emit what is going to be tried."""
    run.tell(
        lambda: Proposed(
            proposal.signature,
            proposal.operator,
            proposal.names,
            proposal.statement,
            proposal.cited,
            proposal.source,
            diff_libraries(state.library, after).to_json(),
            step=state.step,
        )
    )


def keep(run: Run, state: State, proposal: Proposal, outcomes: Mapping[str, Outcome], evidence: Evidence) -> State:
    """Make an edited Library the champion, with a line in its lineage for each proposal of a bundle.

    Args:
        run: The run.
        state: Before the edit.
        proposal: The edit.
        outcomes: What was judged with it, by example id.
        evidence: Why it is kept.
    """
    judged = state.judged(outcomes, run.noise, kept=True)
    n = sum(outcome.judged for outcome in judged.outcomes.values())
    on_pool = {"n": n, "before": state.accuracy, "after": judged.accuracy}
    members, library = proposal.members or (proposal,), state.library
    others = f"in one bundle of {len(members)} edits, " if len(members) > 1 else ""
    for member in members:
        record, after = lineage(run, member, replace(evidence, reason=others + evidence.reason)), library
        for change in member.changes:
            after = after.apply(change)
        line = {"parent": library.id, "library": after.id, "step": state.step, **record}
        line["added"] = new_lines(library, after)
        line["evidence"] = {**on_pool, **record["evidence"]}
        library = after.with_lineage(line)
    return replace(judged, library=library, idle=0, gained=True, accepted=state.accepted + 1, version=state.version + 1)


def new_lines(before: Library, after: Library) -> dict[str, list[str]]:
    """Lines that an edit brought into the wording of a Library, by entry; those that only moved are not new.

    With them a lineage tells for every sentence which edit brought it, and so which examples caused it.
    """
    known = {line for entry in before.entries for line in _lines(entry)}
    found = {entry.name: [line for line in _lines(entry) if line not in known] for entry in after.entries}
    return {name: lines for name, lines in found.items() if lines}


def _lines(entry: Entry) -> list[str]:
    return [line.strip() for line in wording(entry).split("\n") if line.strip()]


def lineage(run: Run, proposal: Proposal, evidence: Evidence) -> Json:
    """What the lineage says of an edit: what was done, why, and on what evidence."""
    counts = ("policy", "reason", "fixes", "breaks", "ties", "failed", "unsteady", "judged", "affected", "p_value")
    return {
        "operator": proposal.operator,
        "entries": list(proposal.names),
        "statement": proposal.statement,
        "source": proposal.source,
        "cited": list(proposal.cited),
        **run.setting,
        "evidence": {
            **{name: getattr(evidence, name) for name in counts},
            "fixed": list(evidence.fixed),
            "broken": list(evidence.broken),
        },
    }


def decided(run: Run, state: State, proposal: Proposal, evidence: Evidence) -> None:
    """Emit a decision.

    Args:
        run: The run.
        state: After the decision, with the step that it was made in.
        proposal: What was decided on.
        evidence: What decided.
    """
    run.tell(
        lambda: Decided(
            proposal.signature,
            proposal.operator,
            proposal.names,
            proposal.statement,
            proposal.cited,
            proposal.source,
            evidence.to_json(),
            state.accuracy,
            state.library.id,
            state.version,
            run.bench.spent.to_json(),
            tuple(change_json(change) for change in proposal.changes),
            tuple(each.signature for each in proposal.members),
            step=state.step,
        )
    )


def passed(run: Run, state: State, proposal: Proposal, reason: str) -> None:
    """Emit that a proposal was passed over before anything was judged."""
    _pass(run, state, proposal.statement, reason)


def together(proposals: Sequence[Proposal]) -> Proposal:
    """Several proposals as one bundle; a single one stays as it is."""
    if len(proposals) == 1:
        return proposals[0]
    changes = tuple(change for proposal in proposals for change in proposal.changes)
    statement = " ".join(dict.fromkeys(proposal.statement for proposal in proposals))
    cited = tuple(dict.fromkeys(name for proposal in proposals for name in proposal.cited))
    return Proposal("bundle", changes, statement, cited, proposals[0].source, members=tuple(proposals))


def pend(proposals: Sequence[Proposal], library: Library) -> tuple[Pending, ...]:
    """Let proposals wait for their turn."""
    return tuple(Pending.of(proposal, library) for proposal in proposals)


def _fitting(run: Run, state: State, proposals: Sequence[Proposal]) -> list[Proposal]:
    """Proposals that can be applied to the champion, each once, without those that were tried before."""
    seen = {tried.signature for tried in state.rejected}
    fitting: list[Proposal] = []
    for proposal in proposals:
        if proposal.signature in seen:
            passed(run, state, proposal, "The same edit was tried before.")
            continue
        seen.add(proposal.signature)
        try:
            after = proposal.applied_to(state.library)
        except LibraryError as error:
            passed(run, state, proposal, error.message)
            continue
        fitting.append(proposal)
        announce(run, state, proposal, after)
    return fitting


def _pass(run: Run, state: State, what: str, reason: str) -> None:
    run.tell(lambda: Passed(what, reason, step=state.step))

"""The values of an evolution: outcomes, findings, proposals, and the interface of Orchestrators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from rewardharness.errors import LibraryError
from rewardharness.files import append_jsonl, content_id, read_jsonl
from rewardharness.judging.presentation import usage_of
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry
from rewardharness.models.base import ChatRequest, ImagePart, Message, Model, ModelError, Reply
from rewardharness.runs.spending import ledger_usage, usage_json
from rewardharness.schema import Example, Judgment, Usage
from rewardharness.task import IMAGE_EDIT, Task, task_of

REPLIES = "orchestrator.jsonl"


class Replies:
    """Asks a model, and saves its replies.

    Args:
        folder: The run folder, locked by this process; None to save nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / REPLIES if folder is not None else None
        lines = [line for _, line in read_jsonl(self._path)] if self._path is not None else []
        self._saved: dict[str, dict[str, Any]] = {line["key"]: line for line in lines if "text" in line}
        self.before = ledger_usage(lines)
        """Usage of earlier sessions."""

    async def ask(self, model: Model, request: ChatRequest) -> tuple[Reply, Usage]:
        """Ask, unless the reply is saved.

        Returns:
            The reply, and its usage: nothing for a saved one.

        Raises:
            ModelError: If there is no usable reply. It counts as one request.
            OSError: If the reply could not be saved.
        """
        key = request_key(model, request)
        saved = self._saved.get(key)
        if saved is not None:
            return Reply(saved["text"], saved["finish_reason"]), Usage()
        try:
            reply = await model.ask(request)
        except ModelError as error:
            self._save({"key": key, "error": error.code, **usage_json(Usage(calls=1))})
            raise
        paid = usage_of(reply)
        self._save({"key": key, **usage_json(paid), "text": reply.text, "finish_reason": reply.finish_reason})
        return reply, paid

    def _save(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            append_jsonl(self._path, line)
            if "text" in line:
                self._saved[line["key"]] = line


def request_key(model: Model, request: ChatRequest) -> str:
    """Return the id of a question: everything that can change the answer, without address and timeout."""

    def keys(message: Message) -> list[object]:
        parts = (["image", part.sha256] if isinstance(part, ImagePart) else part.text for part in message.parts)
        return [message.role, *parts]

    messages = [keys(message) for message in request.messages]
    return content_id([model.id, messages, request.max_tokens, request.temperature, request.seed])


UNSAVED_REPLIES = Replies()
"""Saves nothing."""


Operator = Literal["add", "modify", "remove", "merge", "split", "retrigger", "reweight", "add_tool", "fix_tool"]
"""Kinds of edit that may be proposed.

`add`, `modify`, `remove`: a Skill, or a criterion of one; `merge`: two Skills into one; `split`: a Skill or a
criterion into two that apply to different kinds of edit; `retrigger`: when an entry applies; `reweight`: how much a
criterion counts; `add_tool`, `fix_tool`: a Tool, new or repaired.
"""

OPERATORS: tuple[Operator, ...] = get_args(Operator)

Mutation = Literal[
    "raise_bar",
    "decompose",
    "focus_on_facts",
    "punish_artifacts",
    "counterexample_trigger",
    "reweight",
    "merge",
    "retire",
    "retrigger",
    "swap_tool",
    "fix_tool",
]
"""Purposes of an edit, each with a condition that the edit must meet; see `rewardharness.evolution.operators`."""

MUTATIONS: tuple[Mutation, ...] = get_args(Mutation)

Phase = Literal["skills", "tools", "prune"]
"""What a round may change: Skills, Tools, or the size of the Library."""

LIBRARY_FAILURES = frozenset({"nothing_to_measure", "no_criteria"})
"""Codes of judgments that failed because the Library has nothing that applies."""

MAX_CITED = 4
"""Examples that a finding or a proposal may cite."""

Observe = Callable[[Example], Mapping[str, Mapping[str, float]]]
"""Returns the grades in [0, 1] of all measures: label to measure to grade, without what cannot be measured."""


@dataclass(frozen=True)
class Outcome:
    """One judged example."""

    example: Example
    judgment: Judgment
    credit: float
    """Agreement of the judgment with the label, in [0, 1]; 0 without a judgment. The mean of several judges."""
    credits: Mapping[str, float] = field(default_factory=dict)
    """Agreement of each of several judges, by name; empty for one judge."""

    @property
    def judged(self) -> bool:
        """Whether there is a judgment. A failed one is neither a tie nor evidence about the Library."""
        return self.judgment.judged

    @property
    def failed(self) -> bool:
        """Whether it was judged and the label was missed, at least partly."""
        return self.judged and self.credit < 1

    @property
    def unsupported(self) -> bool:
        """Whether it was not judged because the Library has nothing that applies."""
        failure = self.judgment.failure
        return failure is not None and failure.code in LIBRARY_FAILURES

    @property
    def missed(self) -> bool:
        """Whether the Library may be the cause: the label was missed, or nothing in it applied."""
        return self.failed or self.unsupported


@dataclass(frozen=True)
class Finding:
    """A description of what went wrong in a cluster of examples."""

    statement: str
    cited: tuple[str, ...]
    """Ids of at most `MAX_CITED` examples that show it."""
    kinds: tuple[str, ...]
    """Kinds of edit that it is about, members of `EDIT_KINDS`."""
    failures: int
    """Failures in the cluster."""
    successes: int
    """Successes among comparable examples."""


@dataclass(frozen=True)
class Proposal:
    """One typed edit of a Library."""

    operator: Operator | Literal["bundle"]
    """`bundle`: several proposals that are tried together."""
    changes: tuple[Change, ...]
    """Applied together, in this order: one, or several for a merge, a split of Skills or a bundle."""
    statement: str
    """Why, in a sentence or two."""
    cited: tuple[str, ...]
    """Ids of at most `MAX_CITED` examples that motivate it."""
    source: str
    """Who proposes it."""
    idea: tuple[str, ...] = ()
    """Identifies the edit, for proposers that can; as in: reweight, a Skill, a criterion, the new weight. If empty, the
    resulting entries identify the edit."""
    members: tuple["Proposal", ...] = ()
    """The proposals of a bundle."""
    mutation: Mutation | None = None
    """The purpose whose condition it meets; None if none was asked for."""

    @property
    def signature(self) -> str:
        """Content id of the edit. Two proposals with the same signature are the same edit."""
        return content_id(["idea", *self.idea] if self.idea else [_change_json(change) for change in self.changes])

    @property
    def entries(self) -> list[Entry]:
        """The entries that it would put into the Library."""
        return [change.entry for change in self.changes if not isinstance(change, RemoveEntry)]

    @property
    def text(self) -> str:
        """All wording that it would put into the Library, to compare with other wording."""
        return "\n".join(map(wording, self.entries))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries that it touches, in order."""
        return tuple(map(name_of, self.changes))

    def applied_to(self, library: Library) -> Library:
        """Return the Library after all changes.

        Raises:
            LibraryError: If one of them does not fit, nothing would change, or a protected entry would be lost.
        """
        after = library
        for change in self.changes:
            after = after.apply(change)
        if after.id == library.id:
            raise LibraryError("The proposed edit changes nothing.", next_step="Propose a different edit.")
        for entry in library.entries:
            kept = after.get(entry.name)
            if entry.protected and (kept is None or not kept.protected):
                raise LibraryError(f"`{entry.name}` is protected.", next_step="Change its text or criteria instead.")
        return after


@dataclass(frozen=True)
class RejectedProposal:
    """A proposal that was rejected."""

    signature: str
    statement: str
    """Its purpose."""
    reason: str = ""
    """Why it was rejected."""
    text: str = ""
    """The wording that it would have added to the Library."""
    operator: str = ""
    names: tuple[str, ...] = ()
    """Entries that it would have touched."""

    @classmethod
    def of(cls, proposal: Proposal, reason: str) -> "RejectedProposal":
        """Return the record of a rejected proposal."""
        return cls(proposal.signature, proposal.statement, reason, proposal.text, proposal.operator, proposal.names)


@dataclass(frozen=True)
class Dropped:
    """A reply of an Orchestrator that could not become a proposal."""

    problem: str
    """Why, in a sentence; safe to show."""
    excerpt: str = ""
    """The beginning of the reply; untrusted text."""


@dataclass(frozen=True)
class View:
    """The input of an Orchestrator in one round, without held-out examples and those that count as evidence."""

    library: Library
    """The Library to improve: the champion."""
    outcomes: tuple[Outcome, ...]
    """The examples to write proposals from, as judged with this Library."""
    observe: Observe
    known_measures: tuple[str, ...]
    """Names of measures that criteria and Tools may use."""
    phase: Phase = "skills"
    seed: int = 0
    """Random seed of this round; the same View gives the same proposals of an Orchestrator without a model."""
    rejected: tuple[RejectedProposal, ...] = ()
    """Rejected proposals, oldest first."""
    findings: tuple[Finding, ...] = ()
    """Findings of earlier rounds, oldest first."""
    limit: int = 6
    """Maximum number of proposals."""
    mutations: tuple[Mutation, ...] = ()
    """What to ask for, proposal by proposal and from the start again; empty for any edit."""
    replies: Replies = UNSAVED_REPLIES
    """Asks a model and saves its replies with the run."""
    workers: int = 1
    """Number of threads that measure examples."""

    @property
    def task(self) -> Task:
        """The task of the examples."""
        return task_of(self.outcomes[0].example) if self.outcomes else IMAGE_EDIT


class Orchestrator(Protocol):
    """Proposes edits of a Library."""

    @property
    def name(self) -> str:
        """Name, part of every proposal."""

    @property
    def spent(self) -> Usage:
        """Usage of all rounds."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Findings of the latest round, strongest first."""

    @property
    def dropped(self) -> Sequence[Dropped]:
        """Unusable replies of the latest round."""

    def propose(self, view: View) -> Sequence[Proposal]:
        """Propose edits, the most promising first.

        Raises:
            ModelError: If its model gave no answer. Nothing was proposed; a later round may succeed.
        """

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Return a repaired version of an unusable proposal; None if there is none.

        Args:
            view: The input of the round.
            proposal: The proposal.
            problem: Why it is unusable.

        Raises:
            ModelError: If its model gave no answer.
        """


def name_of(change: Change) -> str:
    """Return the name of the entry that a change touches."""
    return change.name if isinstance(change, RemoveEntry) else change.entry.name


def wording(entry: Entry) -> str:
    """Return all texts of an entry: description, body, system prompt and criteria."""
    criteria = (criterion.text for criterion in criteria_of(entry))
    return "\n".join(filter(None, (entry.description, entry.body, entry.system_prompt, *criteria)))


def criteria_of(entry: Entry | None) -> tuple[Criterion, ...]:
    """Return the criteria of an entry; none for no entry, and for one without a rubric."""
    return entry.rubric.criteria if entry is not None and entry.rubric else ()


def _change_json(change: Change) -> list[object]:
    if isinstance(change, RemoveEntry):
        return ["remove", change.name]
    return ["add" if isinstance(change, AddEntry) else "replace", change.entry.canonical()]

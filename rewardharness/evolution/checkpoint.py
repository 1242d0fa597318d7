"""Keeps a run's state on disk, so that it goes on exactly where it was, also after `kill -9`.

    checkpoint.json    the state after the last whole step, written atomically; people can read it
    versions/0000/     the starting Library; versions/0001/ the first champion after it; and so on
    library/           the champion: a copy of its version, for whoever wants to use it
    library-tried/     the champion of a run whose result is the starting Library, because the champion did worse

A checkpoint names its champion's version, which is on the disk before it. What a killed step has left behind is
written over when the step is taken again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError, LibraryError, RunError
from rewardharness.evolution.bench import Bench
from rewardharness.evolution.gate import Standing
from rewardharness.evolution.proposal import Finding, Outcome, Proposal, Tried
from rewardharness.evolution.state import Pending, State
from rewardharness.evolution.stop import Spent
from rewardharness.files import read_json, write_json
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, entry_files, parse_entry
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.schema import Example, Json

CHECKPOINT = "checkpoint.json"
VERSIONS = "versions"
CHAMPION = "library"
TRIED = "library-tried"
SCHEMA = 1

_PLAIN = (
    "step",
    "phase",
    "round",
    "idle",
    "gained",
    "proposed",
    "accepted",
    "tests",
    "single_tests",
    "prune_limit",
    "best",
    "silent",
    "version",
    "ending",
)
_CHANGES: Mapping[str, type[AddEntry] | type[ReplaceEntry]] = {"add": AddEntry, "replace": ReplaceEntry}


class Checkpoints:
    """The checkpoint of one run folder.

    Args:
        folder: The run folder; this process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved: tuple[int, str, str] | None = None

    @property
    def spent(self) -> Spent:
        """What the run had spent at the last checkpoint; nothing when there is none."""
        document = self._read()
        return Spent.from_json(document["spent"]) if document else Spent()

    @property
    def step(self) -> int | None:
        """The step that comes next; None when there is no checkpoint."""
        document = self._read()
        return int(document["step"]) if document else None

    @property
    def ending(self) -> str:
        """Why the search ended; empty while it goes on."""
        document = self._read()
        return str(document["ending"]) if document else ""

    def save(self, state: State, spent: Spent) -> None:
        """Keep a state.

        Raises:
            LibraryError: If the champion cannot be saved.
            OSError: If the disk is full or fails. The checkpoint before stays as it was.
        """
        champion = (state.version, state.library.id, state.library.lineage_text)
        if champion != self._saved:
            state.library.save(version_folder(self._folder, state.version))
        write_json(self._folder / CHECKPOINT, _state_json(state, spent))
        if champion != self._saved:
            state.library.save(self._folder / CHAMPION)
        self._saved = champion

    def load(self, pool: Sequence[Example], bench: Bench) -> State | None:
        """Bring back the last state; None when there is none.

        Args:
            pool: All examples of the pool.
            bench: Judges the champion's examples again: what it judged before is remembered and costs nothing.

        Raises:
            RunError: If the checkpoint is damaged.
        """
        document = self._read()
        if document is None:
            return None
        try:
            library = Library.load(version_folder(self._folder, document["version"]))
            if library.id != document["library_id"]:
                raise _damaged(self._folder, "its champion is another Library")
            state = _read_state(document, library)
            examples = {example.id: example for example in pool}
            outcomes = _outcomes(document["pool"], library, examples, bench, state.twice)
        except (KeyError, TypeError, ValueError, LibraryError) as error:
            raise _damaged(self._folder, f"{type(error).__name__}: {str(error).rstrip('.')}") from error
        champion = self._folder / CHAMPION
        if not champion.is_dir() or Library.load(champion) != library:
            library.save(champion)
        self._saved = (state.version, library.id, library.lineage_text)
        return replace(state, outcomes=outcomes)

    def _read(self) -> Json | None:
        path = self._folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            document = read_json(path)
        except DataError as error:
            raise _damaged(self._folder, "it is not JSON") from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise _damaged(self._folder, "it is of another version of this program")
        missing = [key for key in ("spent", *_PLAIN) if key not in document]
        if missing:
            raise _damaged(self._folder, f"it lacks {', '.join(missing)}")
        return document


def version_folder(folder: Path, version: int) -> Path:
    """Where a champion of a run lies; version 0 is the starting Library."""
    return folder / VERSIONS / f"{version:04d}"


def proposal_json(proposal: Proposal) -> Json:
    """Put a proposal into JSON: entries as the text of their files."""
    plain = {**{name: getattr(proposal, name) for name in ("operator", "statement", "source")}}
    lists = {name: list(getattr(proposal, name)) for name in ("cited", "idea")}
    return {**plain, **lists, "changes": [change_json(change) for change in proposal.changes]}


def read_proposal(value: Mapping[str, Any]) -> Proposal:
    """Read a proposal back.

    Raises:
        LibraryError: If an entry breaks the format.
    """
    lists = {name: tuple(value[name]) for name in ("cited", "idea")}
    changes = tuple(read_change(change) for change in value["changes"])
    return Proposal(
        operator=value["operator"], changes=changes, statement=value["statement"], source=value["source"], **lists
    )


def _state_json(state: State, spent: Spent) -> Json:
    return {
        "schema": SCHEMA,
        **{name: getattr(state, name) for name in _PLAIN},
        "library_id": state.library.id,
        "spent": spent.to_json(),
        "queue": None if state.queue is None else list(state.queue),
        "findings": [asdict(finding) for finding in state.findings],
        "rejected": [asdict(tried) for tried in state.rejected],
        "pending": [
            {
                "proposal": proposal_json(each.proposal),
                "base": dict(each.base),
                "single": each.single,
                "rehearsed": each.rehearsed,
            }
            for each in state.pending
        ],
        "pool": {name: _pool_json(state, name) for name in state.outcomes},
    }


def _pool_json(state: State, name: str) -> Json:
    outcome, standing = state.outcomes[name], state.standings.get(name)
    return {
        "judged": outcome.judged,
        "credit": outcome.credit,
        "right": standing.right if standing else None,
        "total": standing.total if standing else None,
        "second_opinion": name in state.twice,
    }


def _read_state(document: Json, library: Library) -> State:
    rows = document["pool"].items()
    return State(
        library=library,
        outcomes={},
        standings={name: Standing(row["right"], row["total"]) for name, row in rows if row["total"] is not None},
        queue=None if document["queue"] is None else tuple(document["queue"]),
        findings=tuple(
            Finding(**{**each, "cited": tuple(each["cited"]), "kinds": tuple(each["kinds"])})
            for each in document["findings"]
        ),
        rejected=tuple(Tried(**{**each, "names": tuple(each["names"])}) for each in document["rejected"]),
        pending=tuple(
            Pending(read_proposal(each["proposal"]), each["base"], each["single"], each["rehearsed"])
            for each in document["pending"]
        ),
        twice=frozenset(name for name, row in rows if row["second_opinion"]),
        **{name: document[name] for name in _PLAIN},
    )


def _outcomes(
    rows: Mapping[str, Json], library: Library, examples: Mapping[str, Example], bench: Bench, twice: frozenset[str]
) -> dict[str, Outcome]:
    first = [examples[name] for name in rows if name not in twice]
    second = [examples[name] for name in rows if name in twice]
    judged = [*bench.judge(library, first), *(bench.fresh(library, second) if second else ())]
    found = {outcome.example.id: outcome for outcome in judged}
    return {name: _as_recorded(found[name], row) for name, row in rows.items()}


def _as_recorded(outcome: Outcome, row: Json) -> Outcome:
    """Judgments are remembered. Should one be lost all the same, what was decided on still counts."""
    return Outcome(outcome.example, outcome.judgment, row["credit"]) if outcome.judged and row["judged"] else outcome


def change_json(change: Change) -> Json:
    """Put a change into JSON: an entry as the text of its files."""
    if isinstance(change, RemoveEntry):
        return {"do": "remove", "name": change.name, "reason": change.reason}
    do = "add" if isinstance(change, AddEntry) else "replace"
    entry = change.entry
    return {"do": do, "name": entry.name, "kind": entry.kind, "files": entry_files(entry), "reason": change.reason}


def read_change(value: Mapping[str, Any]) -> Change:
    """Read a change back.

    Raises:
        LibraryError: If an entry breaks the format.
    """
    if value["do"] == "remove":
        return RemoveEntry(value["name"], value["reason"])
    files = value["files"]
    entry = parse_entry(files[ENTRY_FILE], name=value["name"], kind=value["kind"], rubric_text=files.get(RUBRIC_FILE))
    return _CHANGES[value["do"]](entry, value["reason"])


def _damaged(folder: Path, how: str) -> RunError:
    return RunError(f"{folder / CHECKPOINT} cannot be used: {how}.", next_step="Begin the run anew with --restart.")

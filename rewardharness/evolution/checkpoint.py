"""The state of a run on disk, from which it resumes exactly, also after `kill -9`.

    checkpoint.json    the state after the last whole step, written atomically
    versions/0000/     the starting Library; versions/0001/ the first champion after it; and so on
    library/           the champion: a copy of its version
    population/        the Libraries of a population search, by the beginning of their id
    library-tried/     the champion of a run whose result is the starting Library, because the champion did worse

A checkpoint names the version of its champion, which is written before it. Files of a killed step are overwritten when
the step is repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from rewardharness.codec import from_json, to_json
from rewardharness.errors import DataError, InputError, LibraryError, RunError
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.gate import AnswerHistory
from rewardharness.evolution.proposal import Finding, Outcome, Proposal, RejectedProposal
from rewardharness.evolution.state import Member, Pending, Population, State
from rewardharness.files import read_json, write_json
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, entry_files, parse_entry
from rewardharness.library.store import AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.runs.spending import Spent
from rewardharness.schema import Example, Json

CHECKPOINT = "checkpoint.json"
VERSIONS = "versions"
CHAMPION = "library"
TRIED = "library-tried"
POPULATION = "population"
SCHEMA = 1

_OTHERS = {"library", "outcomes", "histories", "pending", "rejected", "findings", "queue", "population"}
_PLAIN = tuple(field.name for field in fields(State) if field.name not in _OTHERS)
"""Fields of a state that are numbers, texts or None."""

_CHANGES: Mapping[str, type[AddEntry] | type[ReplaceEntry]] = {"add": AddEntry, "replace": ReplaceEntry}


class Checkpoints:
    """The checkpoint of one run folder.

    Args:
        folder: The run folder, locked by this process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved: tuple[int, str, str] | None = None

    @property
    def spent(self) -> Spent:
        """Spending of the run at the latest checkpoint."""
        return from_json(Spent, (self._read() or {}).get("spent", {}))

    @property
    def step(self) -> int | None:
        """The next step; None without a checkpoint."""
        document = self._read()
        return int(document["step"]) if document else None

    @property
    def ending(self) -> str:
        """Why the search ended; empty before."""
        return str((self._read() or {}).get("ending", ""))

    def save(self, state: State, spent: Spent) -> None:
        """Save a state.

        Raises:
            LibraryError: If the champion cannot be saved.
            OSError: If the disk is full or fails. The previous checkpoint stays.
        """
        for member in state.population.members if state.population else ():
            folder = self._folder / POPULATION / member.library.id[:24]
            if not folder.is_dir():
                member.library.save(folder)
        champion = (state.version, state.library.id, state.library.lineage_text)
        if champion != self._saved:
            state.library.save(version_folder(self._folder, state.version))
        write_json(self._folder / CHECKPOINT, _state_json(state, spent))
        if champion != self._saved:
            state.library.save(self._folder / CHAMPION)
        self._saved = champion

    def load(self, training: Sequence[Example], evaluator: Evaluator) -> State | None:
        """Load the latest state; None if there is none.

        Args:
            training: All training examples.
            evaluator: Judges the examples of the champion again, from the cache at no cost.

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
            state = replace(_read_state(document, library), population=self._population(document.get("population")))
            outcomes = _outcomes(document["pool"], state, {example.id: example for example in training}, evaluator)
        except (KeyError, TypeError, ValueError, LibraryError, InputError) as error:
            raise _damaged(self._folder, f"{type(error).__name__}: {str(error).rstrip('.')}") from error
        champion = self._folder / CHAMPION
        if not champion.is_dir() or Library.load(champion) != library:
            library.save(champion)
        self._saved = (state.version, library.id, library.lineage_text)
        return replace(state, outcomes=outcomes)

    def _population(self, document: Json | None) -> Population | None:
        if document is None:
            return None
        folder = self._folder / POPULATION
        rows = ({**row, "library": Library.load(folder / row["library"][:24])} for row in document["members"])
        results = from_json(dict[str, tuple[float, float]], document["results"])
        read = {"members": tuple(Member(**row) for row in rows), "seen": tuple(document["seen"]), "results": results}
        return Population(**{**document, **read})

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
    """Return the folder of a champion of a run; version 0 is the starting Library."""
    return folder / VERSIONS / f"{version:04d}"


def proposal_json(proposal: Proposal) -> Json:
    """Convert a proposal to JSON, with entries as the text of their files."""
    names = ("operator", "statement", "source", *(("mutation",) if proposal.mutation else ()), "cited", "idea")
    changes = [change_json(change) for change in proposal.changes]
    return {**{name: getattr(proposal, name) for name in names}, "changes": changes}


def read_proposal(value: Mapping[str, Any]) -> Proposal:
    """Read the JSON form of a proposal.

    Raises:
        LibraryError: If an entry is not valid.
    """
    lists = {name: tuple(value[name]) for name in ("cited", "idea")}
    return Proposal(**{**value, **lists, "changes": tuple(map(read_change, value["changes"]))})


def change_json(change: Change) -> Json:
    """Convert a change to JSON, with an entry as the text of its files."""
    if isinstance(change, RemoveEntry):
        return {"do": "remove", "name": change.name, "reason": change.reason}
    do, entry = "add" if isinstance(change, AddEntry) else "replace", change.entry
    return {"do": do, "name": entry.name, "kind": entry.kind, "files": entry_files(entry), "reason": change.reason}


def read_change(value: Mapping[str, Any]) -> Change:
    """Read the JSON form of a change.

    Raises:
        LibraryError: If an entry is not valid.
    """
    if value["do"] == "remove":
        return RemoveEntry(value["name"], value["reason"])
    files = value["files"]
    entry = parse_entry(files[ENTRY_FILE], name=value["name"], kind=value["kind"], rubric_text=files.get(RUBRIC_FILE))
    return _CHANGES[value["do"]](entry, value["reason"])


def _state_json(state: State, spent: Spent) -> Json:
    population, members = state.population, state.population.members if state.population else ()
    rows = [{**vars(member), "library": member.library.id} for member in members]
    return {
        "schema": SCHEMA,
        **{name: getattr(state, name) for name in _PLAIN},
        "library_id": state.library.id,
        "spent": to_json(spent),
        "queue": None if state.queue is None else list(state.queue),
        "findings": [asdict(finding) for finding in state.findings],
        "rejected": [asdict(proposal) for proposal in state.rejected],
        "pending": [{**vars(item), "proposal": proposal_json(item.proposal)} for item in state.pending],
        "population": {**vars(population), "members": rows} if population else None,
        "pool": {name: _outcome_json(state, name) for name in state.outcomes},
    }


def _outcome_json(state: State, name: str) -> Json:
    outcome, history = state.outcomes[name], state.histories.get(name)
    answers = vars(history) if history else {"right": None, "total": None}
    return {"judged": outcome.judged, "credit": outcome.credit, **answers}


def _read_state(document: Json, library: Library) -> State:
    rows = document["pool"].items()
    return State(
        library=library,
        outcomes={},
        histories={name: AnswerHistory(row["right"], row["total"]) for name, row in rows if row["total"] is not None},
        queue=from_json(tuple[str, ...] | None, document["queue"]),  # type: ignore[arg-type]
        findings=from_json(tuple[Finding, ...], document["findings"]),
        rejected=from_json(tuple[RejectedProposal, ...], document["rejected"]),
        pending=tuple(Pending(**{**item, "proposal": read_proposal(item["proposal"])}) for item in document["pending"]),
        **{name: document[name] for name in _PLAIN},
    )


def _outcomes(
    rows: Mapping[str, Json], state: State, examples: Mapping[str, Example], evaluator: Evaluator
) -> dict[str, Outcome]:
    """Return the outcomes with their recorded credit, which decisions were based on, also if the cache was lost."""
    judged = evaluator.judge(state.library, [examples[name] for name in rows])
    outcomes = {outcome.example.id: outcome for outcome in judged}
    for name, row in rows.items():
        if outcomes[name].judged and row["judged"]:
            outcomes[name] = replace(outcomes[name], credit=row["credit"])
    return {name: outcomes[name] for name in rows}


def _damaged(folder: Path, problem: str) -> RunError:
    return RunError(f"{folder / CHECKPOINT} cannot be used: {problem}.", next_step="Start over with --restart.")

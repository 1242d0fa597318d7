"""The results of a run by id, of which only those parts are parsed that are used.

Lines are long, and resuming a run needs their ids alone, so a line is kept as it was read until its fields are wanted.
"""

import json
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from rewardharness.codec import fields_reader
from rewardharness.files import LARGE_READ
from rewardharness.judgments import BRIEF, judgment_from_json
from rewardharness.schema import Json, Judgment

_ID = frozenset({"id"})
_FAILURE = frozenset({"failure", "reason"})

ASKED_AGAIN = frozenset(
    "timeout rate_limited server_error unreachable unauthorized model_not_found wrong_address not_public bad_response "
    "no_logprobs defect stopped".split()
)
"""Codes of failures that are judged again when a run is resumed: the model, its server or this program was the cause,
so that the same question may be answered now. Others, such as `image`, `input`, `refused`, `bad_request`,
`context_too_long`, `truncated` or `not_gradable`, would fail again; they are judged again on request."""


def is_due(code: str, retry_failed: bool) -> bool:
    """Return whether an example whose latest result has this failure code, or none, is judged again."""
    return bool(code) and (retry_failed or code in ASKED_AGAIN)


class Results(MutableMapping[str, Json]):
    """Results by id. Each access parses the result again."""

    def __init__(self) -> None:
        self._lines: dict[str, bytes | Json] = {}

    def __getitem__(self, name: str) -> Json:
        line = self._lines[name]
        return dict(json.loads(line)) if isinstance(line, bytes) else line

    def __setitem__(self, name: str, record: Json) -> None:
        self._lines[name] = record

    def __delitem__(self, name: str) -> None:
        del self._lines[name]

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __copy__(self) -> "Results":
        found = Results()
        found._lines = dict(self._lines)
        return found

    def fields(self, name: str, names: frozenset[str]) -> Json:
        """Return some fields of a result, which is faster than the whole result; others may be there, too."""
        line = self._lines[name]
        return fields_reader(names)(line) if isinstance(line, bytes) else line

    def judgment(self, name: str) -> Judgment:
        """Return a judgment without steps, reasons and entries, which is faster than the whole one."""
        return judgment_from_json(self.fields(name, BRIEF), steps=False, reasons=False)

    def failure(self, name: str) -> str:
        """Return the code of the failure of a result; empty for a judgment."""
        line = self.fields(name, _FAILURE)
        failure = line.get("failure", line.get("reason"))  # earlier versions: "code: message"
        return str(failure["code"] if isinstance(failure, dict) else failure or "").partition(":")[0]

    def add_line(self, line: bytes) -> None:
        """Add a line of a results file. An incomplete line, or one without an id, is skipped."""
        try:
            record = fields_reader(_ID)(line)
            line.decode()  # texts that are not parsed are not checked
        except ValueError:
            try:
                line = record = json.loads(line)  # such as one with NaN
            except ValueError:
                return
        if isinstance(record, dict) and "id" in record:
            self._lines[str(record["id"])] = line


def read_results(path: Path) -> Results:
    """Read a results file; without one there are no results. If an id occurs in several lines, the last line counts."""
    found = Results()
    if path.exists():
        with path.open("rb", buffering=LARGE_READ) as stream:
            for line in stream:
                found.add_line(line)
    return found

import json
from pathlib import Path
from typing import get_args

import pytest

from rewardharness.models.base import ErrorCode
from rewardharness.runs.results import is_due, read_results

LINES = (
    b'{"id": "1", "preference": "A", "steps": "long"}\n'
    b'{"id": "2", "pref\n'
    b"\n"
    b"[1]\n"
    b'{"preference": "B"}\n'
    b'{"id": 3, "reward": NaN}\n'
    b'{"id": "4", "text": "\xff"}\n'
    b'{"id": "5", "text": "\\ud800"}\n'
    b'{"id": "1", "preference": "B", "steps": "long"}\n'
    b'{"id": "6", "a": nonsense}\n'
)


def test_lines_are_read_as_json_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes(LINES)
    found = read_results(tmp_path / "results.jsonl")
    assert list(found) == ["1", "3", "5"] and len(found) == 3
    assert found["1"] == {"id": "1", "preference": "B", "steps": "long"}
    assert json.dumps(found["3"]) == '{"id": 3, "reward": NaN}'
    assert found["5"] == {"id": "5", "text": "\ud800"}
    assert "2" not in found and found.get("4") is None
    assert read_results(tmp_path / "none.jsonl") == {}


def test_results_are_read_in_part_and_take_new_ones(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes(LINES)
    found = read_results(tmp_path / "results.jsonl")
    names = frozenset({"id", "preference", "failure"})
    assert found.fields("1", names) == {"id": "1", "preference": "B"}
    found["7"] = {"id": "7", "preference": "A"}
    assert found.fields("7", names) == found["7"] == {"id": "7", "preference": "A"}
    del found["7"]
    with pytest.raises(KeyError):
        found.fields("7", names)


def test_errors_of_models_are_asked_again_unless_the_input_is_their_cause() -> None:
    of_the_input = {"context_too_long", "refused", "bad_request"}
    assert {code for code in get_args(ErrorCode) if not is_due(code, retry_failed=False)} == of_the_input
    assert all(is_due(code, retry_failed=True) for code in of_the_input)

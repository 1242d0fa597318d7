"""What the form of a new evolution asks for."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from app_parts import make_services

from app.evolve.form import BUILT_IN, RunForm
from app.library.libraries import BUILTIN, FOLDER
from rewardharness.library.opening import THIN
from rewardharness.remote.config import LOCAL

FIELDS = {"data": "demo", "start": THIN, "on": LOCAL, "proposer": BUILT_IN, "schedule": "default", "proposals": 12}
EMPTY = ("place", "columns", "model", "images", "key", "seed", "corrections", "budget_calls", "budget_tokens")
MORE = ("budget_seconds", "budget_usd", "Judge in", "Judge out", "Orchestrator in", "Orchestrator out")


@pytest.mark.parametrize(
    ("values", "kind", "library"),
    [
        ({}, BUILTIN, THIN),
        ({"start": ""}, BUILTIN, "builtin"),
        ({"data": FOLDER, "place": "pairs"}, BUILTIN, "builtin"),
        ({}, FOLDER, "mine"),
    ],
)
def test_a_first_run_starts_from_half_of_the_criteria_unless_a_library_is_chosen(
    values: dict[str, str], kind: str, library: str, tmp_path: Path
) -> None:
    services, form = make_services(tmp_path), RunForm.__new__(RunForm)  # without widgets
    fields = FIELDS | dict.fromkeys((*EMPTY, *MORE)) | values
    form.services, form.judge, form.fields = services, None, fields
    form.chooser = SimpleNamespace(inputs=range(4))  # type: ignore[assignment]
    config = form.read(services, [*fields.values(), kind, str(tmp_path / "mine"), "", ""]).config
    assert str(config.library).removeprefix(f"{tmp_path}/") == library

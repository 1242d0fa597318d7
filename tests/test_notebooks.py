"""The notebooks run from their first cell to their last, without the network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_parts import running_hub

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
TRL_PYTHON = os.environ.get("RH_TEST_TRL_PYTHON", "")


def run(name: str, cwd: Path, python: str = sys.executable, **more: str) -> str:
    """Run the code of a notebook in a process, and return what it printed."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("RH_", "HF_"))}
    environ |= {"RH_HOME": str(cwd / "home"), "PYTHONPATH": str(ROOT), "RH_REGRESSION_PAIRS": "0", "TMPDIR": str(cwd)}
    environ |= {"HF_HOME": str(cwd / "hf"), **({} if "HF_ENDPOINT" in more else {"HF_HUB_OFFLINE": "1"}), **more}
    done = subprocess.run(
        [python, "-c", "\n\n".join(cells)], env=environ, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_notebook_is_run_here_and_holds_no_output() -> None:
    names = {path.stem for path in FOLDER.glob("*.ipynb")}
    assert names == {"quickstart", "evolve", "publish", "grpo_trl"}
    for name in names:
        notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4 and notebook["cells"][0]["cell_type"] == "markdown"
        assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook["cells"])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "says"), [("quickstart", "preferred: "), ("evolve", "held-out: ")])
def test_a_notebook_runs_without_model_and_network(tmp_path: Path, name: str, says: str) -> None:
    assert says in run(name, tmp_path)


def test_a_library_is_published_from_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        token = hub.server.login("ann")
        printed = run("publish", tmp_path, HF_ENDPOINT=hub.server.url, HF_TOKEN=token, REPO="ann/library")
        assert "ann/library v0.1.0" in printed and ("models", "ann/library") in hub.server.store.repos


@pytest.mark.trl
@pytest.mark.skipif(not TRL_PYTHON, reason="`make test-trl` runs it with TRL installed")
def test_a_policy_is_trained_in_a_notebook(tmp_path: Path) -> None:
    printed = run("grpo_trl", tmp_path, TRL_PYTHON, TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    assert "mean reward per step:" in printed

import asyncio
import importlib.util
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from hub_parts import running_hub

from rewardharness.measure.text import ocr_available

FOLDER = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ocr_available(), reason="needs the extra `ocr`")
@pytest.mark.parametrize("spec", ["measured", "scripted"])
def test_the_sale_sign_is_read(spec: str) -> None:
    judgment = load("sale_sign").judge(spec)
    assert judgment.preference == "A"
    assert any(step.kind == "obs" and "Sael" in step.text for step in judgment.steps)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loop", [False, True], ids=["plain", "running loop"])
def test_the_python_api_works_plainly_and_inside_a_running_event_loop(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, loop: bool
) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "examples"))  # both share measurements
    run = partial(load("python_api").main, pairs=10, side=128, proposals=1)
    monkeypatch.setenv("RH_REGRESSION_PAIRS", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))

    async def notebook() -> dict:
        return run(tmp_path / "work", "ann/library")

    with running_hub(tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_TOKEN", hub.server.login("ann"))
        made = asyncio.run(notebook()) if loop else run(tmp_path / "work", "ann/library")
    assert len(made["results"]) == 10 and made["results"].report.judged == 10
    assert (made["run"].folder / "report.json").is_file()
    assert made["report"].rows[0]["library_id"] == made["run"].library.id
    assert [row["role"] for row in made["report"].rows] == ["judge"]
    assert "no Library" not in str(made["report"]), "the pixel-based judge judges nothing without one"
    [value] = made["values"]
    assert value is None or 0 <= value <= 1
    assert made["pushed"].version == "v0.1.0" and made["again"].origin == ("ann/library", made["pushed"].commit)


def test_the_page_of_the_python_api_is_up_to_date() -> None:
    script = FOLDER.parent / "docs" / "make_api.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, "run make docs"

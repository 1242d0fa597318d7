import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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

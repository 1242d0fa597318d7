"""requirements.txt installs what the app needs, as the project declares it, with Gemini and datasets on the Hub."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return found.group().lower().replace("_", "-")


def test_requirements_agree_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {
        name(each): each
        for each in [
            *project["dependencies"],
            *(each for name in ("app", "ocr", "data", "gemini") for each in extras[name]),
        ]
    }
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    required = {name(line): line for line in lines if line and not line.startswith("#")}
    for package, requirement in declared.items():
        assert required[package].replace(" ", "") == requirement.replace(" ", ""), package
    assert "vllm" not in required, "a machine that only talks to an endpoint never installs vllm"

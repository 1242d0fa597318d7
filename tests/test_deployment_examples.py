"""The examples of deployments: images, Kubernetes and Slurm, as far as this machine can check them."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from rewardharness.cli.command import COMMANDS, parse
from rewardharness.codec import from_json
from rewardharness.judging.config import RewardConfig

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTRUCTIONS = set("FROM ARG RUN WORKDIR COPY USER EXPOSE HEALTHCHECK ENTRYPOINT VOLUME".split())


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with their continued lines."""
    text = (EXAMPLES / "docker" / f"Dockerfile.{name}").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


@pytest.mark.parametrize("name", ["server", "app"])
def test_an_image_runs_a_command_without_root_and_holds_no_secret(name: str) -> None:
    found = instructions(name)
    assert found[0] == ("FROM", "python:3.12-slim") and {word for word, _ in found} <= INSTRUCTIONS
    assert not re.search("token|key|secret|password", " ".join(rest for _, rest in found), re.IGNORECASE)
    for source in (path for word, rest in found if word == "COPY" for path in rest.split()[:-1]):
        assert (ROOT / source).exists(), source
    last = dict(found)
    assert last["USER"] == "rh"
    assert "uid 1000 rh" in " ".join(rest for word, rest in found if word == "RUN")
    entry, check = json.loads(last["ENTRYPOINT"]), json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert entry[0] == "rh" and entry[1] in COMMANDS
    parse(entry[1], entry[2:])
    assert f":{last['EXPOSE']}/" in check[-1] and last["EXPOSE"] == entry[-1]
    compile(check[-1], "check", "exec")
    wanted = set(last.get("ARG", "=app").partition("=")[2].split(","))
    assert wanted <= set(EXTRAS)


def test_versions_in_images_are_those_that_the_project_allows() -> None:
    lines = (EXAMPLES / "docker" / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {name.lower(): version for name, _, version in (line.partition("==") for line in lines if "==" in line)}
    images = ("serve", "ocr", "hub", "data", "ray", "app")
    for text in [*PROJECT["dependencies"], *(each for extra in images for each in EXTRAS[extra])]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pinned[wanted.name.lower()]), text


def resource(name: str) -> dict[str, Any]:
    """A Kubernetes resource of the examples."""
    found = yaml.safe_load((EXAMPLES / "kuberay" / f"{name}.yaml").read_text("utf-8"))
    assert isinstance(found, dict) and found["apiVersion"] == "ray.io/v1"
    return found


def test_the_service_on_kubernetes_names_what_there_is() -> None:
    spec = resource("rayservice")["spec"]
    [application] = yaml.safe_load(spec["serveConfigV2"])["applications"]
    module, _, function = application["import_path"].partition(":")
    assert callable(getattr(import_module(module), function))
    assert from_json(RewardConfig, application["args"]).release
    [container] = spec["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    token = next(each for each in container["env"] if each["name"] == "RH_SERVER_TOKEN")
    assert "secretKeyRef" in token["valueFrom"] and "value" not in token
    assert application["args"]["release"].startswith(container["volumeMounts"][0]["mountPath"])


def test_the_job_on_kubernetes_is_one_command() -> None:
    spec = resource("rayjob")["spec"]
    words = shlex.split(spec["entrypoint"])
    assert words[:2] == ["rh", "score"]
    assert shlex.join(words[words.index("--engine") :]).startswith("--engine ray --address auto")
    [container] = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    folder = words[words.index("--output") + 1]
    assert folder.startswith(container["volumeMounts"][0]["mountPath"])


def test_each_task_of_slurm_serves_a_model_and_judges_its_share(tmp_path: Path) -> None:
    real = f'"{sys.executable}" -m rewardharness "$@"'
    programs = {
        "rh": f'if [ "$1" = serve ]; then exec {real}; fi; echo "$@" > "{tmp_path}/ran"',
        "vllm": f'echo "$@" > "{tmp_path}/served"; exec sleep 60',
        "curl": f'[ -e "{tmp_path}/served" ]',
    }
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8", "TMPDIR": str(tmp_path)}
    words = ["bash", str(EXAMPLES / "slurm" / "score_array.sh"), "ORG/MODEL", "ORG/EDITS", "scores"]
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "served").read_text("utf-8").startswith("serve ORG/MODEL --host 127.0.0.1 --port 8002 ")
    ran = (tmp_path / "ran").read_text("utf-8").strip()
    assert ran == (
        "score ORG/EDITS --output scores --engine local --shard 2/8 --protocol pointwise --yes "
        "--judge vllm:ORG/MODEL@http://127.0.0.1:8002/v1"
    )

"""`rh serve judge`: what it prints for which machine, and that what it starts it also ends."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from model_server import own_port

from rewardharness.cli.main import main
from rewardharness.errors import InputError
from rewardharness.models.serving import Gpu, ServingOptions, find_gpus, plan_servers, weight_bytes

GIB = 1 << 30
H200 = "NVIDIA H200"

# Stands in for vLLM: writes down how it was called, and answers /health until it is ended.
FAKE_VLLM = """#!{python}
import http.server, json, os, sys
record = {{"arguments": sys.argv[1:], "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "pid": os.getpid()}}
port = int(sys.argv[sys.argv.index("--port") + 1])
with open(os.path.join({folder!r}, f"{{port}}.json"), "w") as file:
    json.dump(record, file)
if {status} is not None:
    sys.exit({status})
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)


def fake_vllm(folder: Path, status: int | None = None) -> None:
    program(folder, "vllm", FAKE_VLLM.format(python=sys.executable, folder=str(folder), status=status))


Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make a machine with GPUs (name and MiB): a path on which nvidia-smi says so."""

    def make(*gpus: tuple[str, int]) -> Path:
        lines = [f"{number}, GPU-{number:04d}, {name}, {memory}" for number, (name, memory) in enumerate(gpus)]
        program(tmp_path, "nvidia-smi", "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return tmp_path

    return make


def printed(rh: Rh, *arguments: str) -> dict[str, Any]:
    return rh("serve", "judge", *arguments, "--json").json  # type: ignore[no-any-return]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_one_server_per_gpu_on_its_own_port(machine: Machine, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    machine((H200, 143771), (H200, 143771), (H200, 143771))
    plan = printed(rh, "Qwen/Qwen2.5-VL-7B-Instruct", "--port", "9000")
    servers = plan["servers"]
    for number, server in enumerate(servers):
        assert server["gpus"] == [str(number)] and option(server["command"], "--port") == str(9000 + number)
        assert server["command"][:3] == ["env", f"CUDA_VISIBLE_DEVICES={number}", "vllm"]
    assert len(servers) == 3
    urls = ",".join(f"http://127.0.0.1:{port}/v1" for port in (9000, 9001, 9002))
    assert plan["judge"] == f"vllm:Qwen/Qwen2.5-VL-7B-Instruct@{urls}"
    command = servers[0]["command"]
    assert option(command, "--host") == "127.0.0.1"
    assert json.loads(option(command, "--limit-mm-per-prompt")) == {"image": 8, "video": 0}
    assert json.loads(option(command, "--structured-outputs-config"))["disable_any_whitespace"] is True
    assert {"--enable-prefix-caching", "--enable-prompt-tokens-details"} <= set(command)
    assert option(command, "--max-model-len") == "32768"
    assert "--tensor-parallel-size" not in command
    assert plan["gpus"][0] == {"id": "0", "name": H200, "memory": 143771 << 20}


def test_a_model_that_does_not_fit_gets_several_gpus(machine: Machine, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(*[("NVIDIA A100-SXM4-80GB", 81920)] * 5)
    plan = printed(rh, "Qwen/Qwen2.5-VL-72B-Instruct")
    assert plan["tensor_parallel"] == 4
    assert [server["gpus"] for server in plan["servers"]] == [["0", "1", "2", "3"]]
    assert option(plan["servers"][0]["command"], "--tensor-parallel-size") == "4"
    assert plan["idle"] == ["4"]
    assert "GiB of weights" in plan["reason"]
    assert printed(rh, "Qwen/Qwen2.5-VL-72B-Instruct-AWQ")["tensor_parallel"] == 1
    asked = printed(rh, "Qwen/Qwen2.5-VL-7B-Instruct", "--tensor-parallel", "2")
    assert [server["gpus"] for server in asked["servers"]] == [["0", "1"], ["2", "3"]]


def test_only_the_gpus_that_the_caller_may_see(machine: Machine, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(*[(H200, 143771)] * 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-0001,7")
    assert [server["gpus"] for server in printed(rh, "some/model-7B")["servers"]] == [["3"], ["1"]]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert printed(rh, "some/model-7B")["gpus"] == []
    assert [gpu.id for gpu in find_gpus("MIG-1,2")] == ["MIG-1", "2"]


def test_without_a_gpu_it_plans_for_as_many_as_asked(machine: Machine, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine()
    lines = rh("serve", "judge", "some/model-7B", "--gpus", "2").out.splitlines()
    assert "no GPU" in lines[0]
    commands = [line for line in lines if line.startswith("env ")]
    assert [shlex.split(line)[1] for line in commands] == ["CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"]
    assert all(line.startswith(("#", "env ", "rh doctor --judge vllm:")) for line in lines)
    assert any("--tensor-parallel N" in line for line in lines)
    shown = rh("serve", "judge", "some/model-7B", "--host", "0.0.0.0").out
    assert "VLLM_API_KEY" in shown and "@http://127.0.0.1:8000/v1" in shown
    program(folder, "nvidia-smi", "#!/bin/sh\nexit 9\n")
    assert find_gpus() == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["m-7B", "--gpus", "2", "--tensor-parallel", "3"], "needs 3 GPUs"),
        (["m-7B", "--port", "65535", "--gpus", "4"], "65535"),
        (["m-7B", "--slurm", "--run"], "--slurm"),
        ([" "], "Invalid model"),
    ],
)
def test_what_cannot_be_planned_is_named(machine: Machine, rh: Rh, arguments: list[str], says: str) -> None:
    machine()
    shown = rh("serve", "judge", *arguments, status=1)
    assert says in shown.err and not shown.out


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", (14, 18)),
        ("Qwen/Qwen2.5-VL-72B-Instruct", (140, 180)),
        ("Qwen/Qwen2.5-VL-72B-Instruct-AWQ", (36, 50)),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct-FP8", (30, 40)),
        ("lmms-lab/llava-onevision-qwen2-0.5b-ov", (1, 1.5)),
        ("someone/nameless", None),
        ("someone/8bit-thing", None),
    ],
)
def test_the_size_of_a_model_is_read_from_its_name(model: str, gigabytes: tuple[float, float] | None) -> None:
    found = weight_bytes(model)
    assert (found is None) == (gigabytes is None)
    assert found is None or gigabytes is None or gigabytes[0] <= found / 1e9 <= gigabytes[1]


def test_the_size_of_a_folder_is_that_of_its_weights(tmp_path: Path) -> None:
    assert weight_bytes(str(tmp_path)) is None
    (tmp_path / "model-1.safetensors").write_bytes(bytes(1000))
    (tmp_path / "model-2.safetensors").write_bytes(bytes(234))
    assert weight_bytes(str(tmp_path)) == 1234


def test_an_address_of_ipv6_is_written_as_a_url() -> None:
    plan = plan_servers("m", [Gpu("0", "x", 24 * GIB)], ServingOptions(host="::1"))
    assert plan.judge == "vllm:m@http://[::1]:8000/v1"
    with pytest.raises(InputError, match="No GPU"):
        plan_servers("m", [])


# ---- starting


def test_running_needs_vllm_and_a_gpu(machine: Machine, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, words = machine(), ("serve", "judge", "some/model-7B", "--run")
    # Both nvidia-smi and whatever vllm this machine has are out of sight.
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(folder))
    shown = rh(*words, status=1).err
    assert "'vllm' is not installed" in shown and "reward-harness-library[vllm]" in shown
    fake_vllm(folder)
    assert "0 GPUs" in rh(*words, status=1).err


def test_servers_run_until_interrupted_and_none_is_left(machine: Machine) -> None:
    tmp_path = machine((H200, 143771), (H200, 143771))
    fake_vllm(tmp_path)
    port = own_port(2)
    # vllm is looked for beside the Python first: one is run that has none beside it.
    code = "import sys; sys.executable = '/nowhere/python'; from rewardharness.cli.main import entry; entry()"
    command = [sys.executable, "-c", code, "serve", "judge", "some/model-7B", "--run", "--port", str(port)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    ready = next(line for line in running.stderr if "Ready" in line)
    assert f"--judge vllm:some/model-7B@http://127.0.0.1:{port}/v1,http://127.0.0.1:{port + 1}/v1" in ready
    running.terminate()
    running.stderr.read()
    running.stderr.close()
    assert running.wait(500) == 130
    started = [json.loads((tmp_path / f"{port + n}.json").read_text("utf-8")) for n in range(2)]
    assert [each["gpus"] for each in started] == ["0", "1"]
    assert started[0]["arguments"][:2] == ["serve", "some/model-7B"]
    for each in started:
        with pytest.raises(ProcessLookupError):
            os.kill(each["pid"], 0)


def test_one_that_ends_ends_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = machine((H200, 143771))
    fake_vllm(folder, status=7)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert main(["serve", "judge", "some/model-7B", "--run", "--port", str(own_port())]) == 1
    assert "exited with status 7" in capfd.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("curl") is None, reason="needs bash and curl")
def test_the_batch_script_serves_judges_and_ends(machine: Machine, rh: Rh) -> None:
    folder = machine()
    fake_vllm(folder)
    # No waiting between two looks at a server, and a stand-in for the command that judges.
    program(folder, "sleep", "#!/bin/sh\n:\n")
    program(folder, "rh", '#!/bin/sh\necho "judged: $*"\n')
    port = own_port(2)
    arguments = ["some/model-7B", "--gpus", "4", "--tensor-parallel", "2", "--port", port, "--slurm"]
    script = rh("serve", "judge", *arguments).out
    assert script.startswith("#!/bin/bash\n#SBATCH ") and "#SBATCH --gres=gpu:4\n" in script
    program(folder, "judge.sh", script)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "5,1,4,2"}
        command = ["bash", "judge.sh", *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)

    done = run("score", "my data")
    assert done.returncode == 0, done.stderr
    judge = f"vllm:some/model-7B@http://127.0.0.1:{port}/v1,http://127.0.0.1:{port + 1}/v1"
    assert f"judged: score my data --judge {judge}" in done.stdout
    started = [json.loads((folder / f"{port + n}.json").read_text("utf-8")) for n in range(2)]
    assert [each["gpus"] for each in started] == ["5,1", "4,2"]
    fake_vllm(folder, status=1)
    failed = run()
    assert failed.returncode == 1 and "a server exited" in failed.stderr

"""Plan and run `vllm serve` processes for a judge.

There is one independent server per GPU, or per group of GPUs if the model does not fit on one. The endpoint pool
balances the load and sends the same images to the same server, whose caches are then warm. Servers do not share an
image cache, so images can be sent once.
"""

import math
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rewardharness.errors import HarnessError, InputError, MissingPackageError, shell

LOOPBACK = "127.0.0.1"
MAX_IMAGES = 8
"""Maximum images per request: up to four source and reference images, and four candidates."""
MAX_MODEL_LEN = 32768
"""Context length in tokens: five large images, a Library and a reasoning chain."""
MEMORY_SHARE = 0.9
"""Fraction of GPU memory that vLLM uses."""
_GIB = 1 << 30
_WORKING_BYTES = 4 * _GIB
"""Memory reserved for activations and a minimal cache in the estimate, in bytes."""
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)[bB](?![A-Za-z])")
_NARROW = ((re.compile(r"awq|gptq|int4|4bit|w4a|nvfp4", re.I), 0.55), (re.compile(r"fp8|int8|8bit|w8a", re.I), 1.05))
"""Bytes per parameter of quantized weights, including scales; other weights have 2."""


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    id: str
    """Id for CUDA_VISIBLE_DEVICES."""
    name: str
    memory: int
    """Bytes; 0 if unknown."""


@dataclass(frozen=True)
class ServingOptions:
    """Options of the servers."""

    host: str = LOOPBACK
    port: int = 8000
    """Port of the first server; the others use the following ports."""
    tensor_parallel: int | None = None
    """GPUs per server; None for the estimated minimum."""
    max_model_len: int = MAX_MODEL_LEN
    max_images: int = MAX_IMAGES


@dataclass(frozen=True)
class Server:
    """One server to start."""

    gpus: tuple[str, ...]
    """Ids of its GPUs for CUDA_VISIBLE_DEVICES."""
    host: str
    port: int
    arguments: tuple[str, ...]
    """Arguments of `vllm serve`."""

    @property
    def url(self) -> str:
        """Base URL for a client on this machine."""
        host = LOOPBACK if self.host in {"0.0.0.0", "::"} else self.host
        return f"http://[{host}]:{self.port}/v1" if ":" in host else f"http://{host}:{self.port}/v1"

    @property
    def health(self) -> str:
        """Health check URL, which answers 200 when the server is ready."""
        return self.url.removesuffix("/v1") + "/health"

    def command(self, executable: str = "vllm") -> list[str]:
        """Return the command with its environment as an argument list."""
        return ["env", f"CUDA_VISIBLE_DEVICES={','.join(self.gpus)}", executable, "serve", *self.arguments]


@dataclass(frozen=True)
class Plan:
    """The servers for a model on a set of GPUs."""

    model: str
    servers: tuple[Server, ...]
    tensor_parallel: int
    reason: str
    """Reason for the number of GPUs per server."""
    idle: tuple[str, ...]
    """Unused GPUs."""

    @property
    def judge(self) -> str:
        """The judge specification for these servers."""
        return f"vllm:{self.model}@{','.join(server.url for server in self.servers)}"


def find_gpus(visible: str | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs of this machine from nvidia-smi; empty if it is not installed.

    Args:
        visible: CUDA_VISIBLE_DEVICES of the caller, by index or UUID; restricts and orders the result.
    """
    fields = "--query-gpu=index,uuid,name,memory.total"
    command = ["nvidia-smi", fields, "--format=csv,noheader,nounits"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    gpus: dict[str, Gpu] = {}
    for line in process.stdout.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and parts[0].isdecimal() and parts[3].isdecimal():
            gpus[parts[0]] = gpus[parts[1]] = Gpu(parts[0], parts[2], int(parts[3]) << 20)
    if visible is None:
        return tuple(dict.fromkeys(gpus.values()))
    wanted = [name.strip() for name in visible.split(",")]
    # A MIG slice has its own name, which this query does not list.
    return tuple(gpus.get(name, Gpu(name, "slice", 0)) for name in wanted if name in gpus or name.startswith("MIG-"))


def plan_servers(model: str, gpus: Sequence[Gpu], options: ServingOptions = ServingOptions()) -> Plan:
    """Plan the servers to start.

    Args:
        model: Model name on the Hub, or a folder.
        gpus: The GPUs to use, at least one. A memory of 0 means unknown.
        options: Addresses and limits.

    Raises:
        InputError: If there are fewer GPUs than one server needs, or an option is out of range.
    """
    if not model.strip() or model.startswith("-"):
        raise InputError(f"Invalid model {model!r}.", next_step="Use a model name on the Hub, or a folder.")
    if not gpus:
        raise InputError("No GPU was found.", next_step="Set the number of GPUs to plan for with --gpus N.")
    size, reason = options.tensor_parallel, "as requested"
    if size is None:
        size, reason = _least_gpus(model, gpus[0].memory)
    if size < 1 or size > len(gpus):
        raise InputError(
            f"One server of {model} needs {size} GPU{'s' * (size > 1)} ({reason}), but only {len(gpus)} are available.",
            next_step="Use a smaller or quantized model, more GPUs, or a different --tensor-parallel N.",
        )
    count = len(gpus) // size
    if not 1 <= options.port <= 65535 - count:
        problem = f"Port {options.port} is out of range for {count} server{'s' * (count > 1)}."
        raise InputError(problem, next_step="Use a port such as 8000.")
    names = tuple(gpu.id for gpu in gpus)
    groups = [names[start : start + size] for start in range(0, count * size, size)]
    servers = tuple(
        Server(group, options.host, port, _arguments(model, size, port, options))
        for port, group in enumerate(groups, options.port)
    )
    return Plan(model, servers, size, reason, names[count * size :])


def _arguments(model: str, size: int, port: int, options: ServingOptions) -> tuple[str, ...]:
    return (
        model,
        *("--host", options.host, "--port", str(port)),
        *(("--tensor-parallel-size", str(size)) if size > 1 else ()),
        *("--max-model-len", str(options.max_model_len)),
        *("--limit-mm-per-prompt", f'{{"image":{options.max_images},"video":0}}'),
        *("--gpu-memory-utilization", f"{MEMORY_SHARE:g}"),
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        # Whitespace in JSON costs tokens, and a weak model may generate nothing else.
        *("--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}'),
        # Without this, the model's own defaults apply to unset fields: a repetition penalty changes probabilities,
        # and a top_k of 1 makes all samples equal.
        *("--generation-config", "vllm"),
    )


def _least_gpus(model: str, memory: int) -> tuple[int, str]:
    """Estimate the minimum number of GPUs: weights and working memory must fit the memory that vLLM uses."""
    weights = weight_bytes(model)
    if weights is None or memory == 0:
        unknown = "the size of the model" if weights is None else "the memory of the GPUs"
        return 1, f"{unknown} is unknown; if it does not fit on one GPU, set --tensor-parallel N"
    size = 1
    while weights / size + _WORKING_BYTES > MEMORY_SHARE * memory and size < 1024:
        size *= 2  # attention heads divide by powers of two
    return size, f"about {weights / _GIB:.0f} GiB of weights, GPUs of {memory / _GIB:.0f} GiB"


def weight_bytes(model: str) -> int | None:
    """Estimate the size of a model's weights from its files or from the number in its name.

    Returns:
        Bytes, or None if unknown.
    """
    folder = Path(model)
    if folder.is_dir():
        return sum(file.stat().st_size for file in folder.glob("*.safetensors")) or None
    sizes = [float(number) for number in _SIZE.findall(model.rpartition("/")[2])]
    if not sizes:
        return None
    width = next((width for pattern, width in _NARROW if pattern.search(model)), 2.0)
    # The number excludes the vision tower and embeddings: "7B" models have 8.3 billion parameters.
    return math.ceil(max(sizes) * 1.2e9 * width)


def slurm_script(plan: Plan) -> str:
    """Return a Slurm batch script that starts the servers on one node and runs an `rh` command against them."""
    used = sum(len(server.gpus) for server in plan.servers)
    starts = "\n".join(_start_line(number, server) for number, server in enumerate(plan.servers))
    health = shell("{}", [server.health for server in plan.servers])
    return f"""#!/bin/bash
#SBATCH --job-name=rh-judge
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gres=gpu:{used}
#SBATCH --cpus-per-task={8 * used}
#SBATCH --time=12:00:00
# Starts the judge on this node, waits until it answers, and runs `rh` with the arguments of this script:
#   sbatch judge.sh score DATA
# Without arguments it serves until the job ends. Each server logs to vllm-PORT.log.
set -euo pipefail
judge={shell("{}", plan.judge)}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
IFS=, read -ra gpus <<< "${{CUDA_VISIBLE_DEVICES:-{",".join(map(str, range(used)))}}}"

{starts}

for address in {health}; do
  until curl --silent --fail --output /dev/null "$address"; do
    [ "$(jobs -pr | wc -l)" -eq {len(plan.servers)} ] || {{ echo "a server exited; see its log" >&2; exit 1; }}
    sleep 2
  done
done
echo "--judge $judge"
if [ $# -gt 0 ]; then rh "$@" --judge "$judge"; else wait; fi
"""


def _start_line(number: int, server: Server) -> str:
    """Return the shell line that starts a server on the GPUs of the job."""
    size = len(server.gpus)
    gpus = ",".join(f"${{gpus[{place}]}}" for place in range(number * size, (number + 1) * size))
    command = shell("vllm serve {}", server.arguments)
    return f'CUDA_VISIBLE_DEVICES="{gpus}" {command} > vllm-{server.port}.log 2>&1 &'


def find_vllm() -> str:
    """Return the path of the program `vllm`, next to this Python or on PATH.

    Raises:
        MissingPackageError: If it is not installed.
    """
    beside = Path(sys.executable).with_name("vllm")
    executable = str(beside) if beside.is_file() else shutil.which("vllm")
    if executable is None:
        raise MissingPackageError("vllm", "vllm", "serving a judge on this machine")
    return executable


def run_servers(
    plan: Plan, executable: str, on_ready: Callable[[], None], *, pause: float = 0.5, patience: float = 3600.0
) -> None:
    """Start the servers, report when all are ready, and serve until interrupted. All servers are stopped at the end.

    Args:
        plan: The servers.
        executable: The program `vllm`.
        on_ready: Called once, when every server answers.
        pause: Seconds between two checks.
        patience: Startup timeout in seconds; the first start downloads the model.

    Raises:
        HarnessError: If a server exits, or does not answer in time.
    """
    started: list[subprocess.Popen[bytes]] = []
    waiting = list(plan.servers)
    deadline = time.monotonic() + patience
    try:
        for server in plan.servers:
            started.append(subprocess.Popen(server.command(executable)))
        while True:
            for server, process in zip(plan.servers, started, strict=True):
                if process.poll() is not None:
                    problem = f"The server on port {server.port} exited with status {process.returncode}."
                    step = "See its last lines above; often the port or the GPU memory is already in use."
                    raise HarnessError(problem, next_step=step)
            if waiting:
                waiting = [server for server in waiting if not is_healthy(server)]
                if not waiting:
                    on_ready()
                elif time.monotonic() > deadline:
                    ports = ", ".join(str(server.port) for server in waiting)
                    raise HarnessError(f"No answer on port {ports} within {patience:g} s.", next_step="See its log.")
            time.sleep(pause)
    finally:
        _stop(started)


def is_healthy(server: Server) -> bool:
    """Return whether a server answers."""
    try:
        with urllib.request.urlopen(server.health, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

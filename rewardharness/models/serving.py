"""Serving the judge: which `vllm serve` commands a machine needs, and running them.

One independent server per GPU, or per group of GPUs where the model does not fit on one. The pool of endpoints
shares the work, and sends the same images to the same server, whose caches are then warm; no server shares its image
cache with another process, so images may be sent once.
"""

import math
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rewardharness.errors import HarnessError, InputError, MissingPackageError

LOOPBACK = "127.0.0.1"
MAX_IMAGES = 8
"""Images per request that a server allows: a source, four candidates, and what a Tool looks at."""
MAX_MODEL_LEN = 32768
"""Tokens of prompt and reply together: five large images, a Library and a chain of thought."""
MEMORY_SHARE = 0.9
"""Share of a GPU's memory that vLLM takes."""
_GIB = 1 << 30
_WORKING_BYTES = 4 * _GIB
"""Kept free for activations and the smallest useful cache when it is estimated whether a model fits."""
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)[bB](?![A-Za-z])")
_NARROW = ((re.compile(r"awq|gptq|int4|4bit|w4a|nvfp4", re.I), 0.55), (re.compile(r"fp8|int8|8bit|w8a", re.I), 1.05))
"""Bytes per parameter of quantised weights, with their scales; others have 2."""


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    id: str
    """As CUDA_VISIBLE_DEVICES names it."""
    name: str
    memory: int
    """Bytes; 0 when unknown."""


@dataclass(frozen=True)
class ServingOptions:
    """What a caller decides."""

    host: str = LOOPBACK
    port: int = 8000
    """Port of the first server; the others take the next ones."""
    tensor_parallel: int | None = None
    """GPUs per server; None: as few as the model fits on, as far as can be told."""
    max_model_len: int = MAX_MODEL_LEN
    max_images: int = MAX_IMAGES


@dataclass(frozen=True)
class Server:
    """One server to be started."""

    gpus: tuple[str, ...]
    """Which GPUs it sees, as CUDA_VISIBLE_DEVICES names them."""
    host: str
    port: int
    arguments: tuple[str, ...]
    """What follows `vllm serve`."""

    @property
    def url(self) -> str:
        """Base URL for a client on this machine."""
        host = LOOPBACK if self.host in {"0.0.0.0", "::"} else self.host
        return f"http://[{host}]:{self.port}/v1" if ":" in host else f"http://{host}:{self.port}/v1"

    @property
    def health(self) -> str:
        """Address that answers 200 when the server is ready."""
        return self.url.removesuffix("/v1") + "/health"

    def command(self, executable: str = "vllm") -> list[str]:
        """The command with its environment, as a list of words."""
        return ["env", f"CUDA_VISIBLE_DEVICES={','.join(self.gpus)}", executable, "serve", *self.arguments]


@dataclass(frozen=True)
class Plan:
    """The servers for a model on some GPUs."""

    model: str
    servers: tuple[Server, ...]
    tensor_parallel: int
    reason: str
    """Why so many GPUs per server, in a sentence."""
    idle: tuple[str, ...]
    """GPUs that are left over."""

    @property
    def judge(self) -> str:
        """The spelling of the judge that these servers make."""
        return f"vllm:{self.model}@{','.join(server.url for server in self.servers)}"


def find_gpus(visible: str | None = None) -> tuple[Gpu, ...]:
    """Ask nvidia-smi for the GPUs of this machine; none where there is no such command.

    Args:
        visible: CUDA_VISIBLE_DEVICES of the caller, by index or UUID: only these, in this order.
    """
    fields = "--query-gpu=index,uuid,name,memory.total"
    try:
        found = subprocess.run(
            ["nvidia-smi", fields, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if found.returncode != 0:
        return ()
    gpus: dict[str, Gpu] = {}
    for line in found.stdout.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and parts[0].isdecimal() and parts[3].isdecimal():
            gpus[parts[0]] = gpus[parts[1]] = Gpu(parts[0], parts[2], int(parts[3]) << 20)
    if visible is None:
        return tuple(dict.fromkeys(gpus.values()))
    wanted = [name.strip() for name in visible.split(",")]
    # A slice of a GPU has a name of its own, of which this query knows nothing.
    return tuple(gpus.get(name, Gpu(name, "slice", 0)) for name in wanted if name in gpus or name.startswith("MIG-"))


def plan_servers(model: str, gpus: Sequence[Gpu], options: ServingOptions = ServingOptions()) -> Plan:
    """Decide which servers to start.

    Args:
        model: Name on the Hub, or a folder.
        gpus: The GPUs to use, at least one. A memory of 0 is unknown.
        options: Addresses and limits.

    Raises:
        InputError: If there are fewer GPUs than one server needs, or an option is out of range.
    """
    if not model.strip() or model.startswith("-"):
        raise InputError(f"{model!r} is not a model.", next_step="Give its name on the Hub, or a folder.")
    if not gpus:
        raise InputError("There is no GPU.", next_step="Say for how many to plan: --gpus N.")
    size, reason = options.tensor_parallel, "as was asked"
    if size is None:
        size, reason = _least_gpus(model, gpus[0].memory)
    if size < 1 or size > len(gpus):
        raise InputError(
            f"One server of {model} needs {size} GPUs ({reason}); there are {len(gpus)}.",
            next_step="Use a smaller or a quantised model, more GPUs, or another --tensor-parallel N.",
        )
    count = len(gpus) // size
    if not 1 <= options.port <= 65535 - count:
        raise InputError(f"{options.port} is not a port for {count} servers.", next_step="Use a port such as 8000.")
    names = [gpu.id for gpu in gpus]
    servers = tuple(
        Server(
            tuple(names[number * size : (number + 1) * size]),
            options.host,
            options.port + number,
            _arguments(model, size, options.port + number, options),
        )
        for number in range(count)
    )
    return Plan(model, servers, size, reason, tuple(names[count * size :]))


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
        # Blanks between the parts of JSON cost tokens, and a weak model may write nothing else.
        *("--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}'),
        # Else a model's own defaults apply wherever a request says nothing: a penalty on repetition changes odds, and
        # a top_k of 1 makes all samples equal.
        *("--generation-config", "vllm"),
    )


def _least_gpus(model: str, memory: int) -> tuple[int, str]:
    """Estimate on how many GPUs a model fits: weights and some working memory within what vLLM takes."""
    weights = weight_bytes(model)
    if weights is None or memory == 0:
        unknown = "the size of the model" if weights is None else "the memory of the GPUs"
        return 1, f"{unknown} is not known; if it does not fit on one, say --tensor-parallel N"
    size = 1
    while weights / size + _WORKING_BYTES > MEMORY_SHARE * memory and size < 1024:
        size *= 2  # the heads of a model divide by powers of two
    return size, f"about {weights / _GIB:.0f} GiB of weights, GPUs of {memory / _GIB:.0f} GiB"


def weight_bytes(model: str) -> int | None:
    """Estimate the size of a model's weights: of the files in a folder, or by the number in its name.

    Returns:
        Bytes, or None when neither says anything.
    """
    folder = Path(model)
    if folder.is_dir():
        return sum(file.stat().st_size for file in folder.glob("*.safetensors")) or None
    sizes = [float(number) for number in _SIZE.findall(model.rpartition("/")[2])]
    if not sizes:
        return None
    width = next((width for pattern, width in _NARROW if pattern.search(model)), 2.0)
    # A vision tower and embeddings are not in the number: 8.3 billion parameters are called 7B.
    return math.ceil(max(sizes) * 1.2e9 * width)


def slurm_script(plan: Plan, hours: int = 12) -> str:
    """Write a batch script that starts the servers on one node and then runs a command of `rh` against them.

    Args:
        plan: The servers.
        hours: Time limit of the job.
    """
    used = sum(len(server.gpus) for server in plan.servers)
    starts = "\n".join(_start_line(number, server) for number, server in enumerate(plan.servers))
    health = " ".join(shlex.quote(server.health) for server in plan.servers)
    return f"""#!/bin/bash
#SBATCH --job-name=rh-judge
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gres=gpu:{used}
#SBATCH --cpus-per-task={8 * used}
#SBATCH --time={hours}:00:00
# Starts the judge on this node, waits until it answers, and runs `rh` with the arguments of this script:
#   sbatch judge.sh score-folder DATA
# Without arguments it serves until the job ends. Each server writes vllm-PORT.log.
set -euo pipefail
judge={shlex.quote(plan.judge)}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
IFS=, read -ra gpus <<< "${{CUDA_VISIBLE_DEVICES:-{",".join(map(str, range(used)))}}}"

{starts}

for address in {health}; do
  until curl --silent --fail --output /dev/null "$address"; do
    [ "$(jobs -pr | wc -l)" -eq {len(plan.servers)} ] || {{ echo "a server has ended; see its log" >&2; exit 1; }}
    sleep 2
  done
done
echo "--judge $judge"
if [ $# -gt 0 ]; then rh "$@" --judge "$judge"; else wait; fi
"""


def _start_line(number: int, server: Server) -> str:
    """Write the line that starts a server, on GPUs that the job was given, whatever they are called."""
    size = len(server.gpus)
    gpus = ",".join(f"${{gpus[{place}]}}" for place in range(number * size, (number + 1) * size))
    command = shlex.join(["vllm", "serve", *server.arguments])
    return f'CUDA_VISIBLE_DEVICES="{gpus}" {command} > vllm-{server.port}.log 2>&1 &'


def find_vllm() -> str:
    """Find the program `vllm`: beside this Python, or on the path.

    Raises:
        MissingPackageError: If there is none.
    """
    beside = Path(sys.executable).with_name("vllm")
    found = str(beside) if beside.is_file() else shutil.which("vllm")
    if found is None:
        raise MissingPackageError("vllm", "vllm", "serving a judge on this machine")
    return found


def run_servers(
    plan: Plan, executable: str, on_ready: Callable[[], None], *, pause: float = 0.5, patience: float = 3600.0
) -> None:
    """Start the servers, say when all of them answer, and serve until interrupted. None is left behind.

    Args:
        plan: The servers.
        executable: The program `vllm`.
        on_ready: Called once, when every server answers.
        pause: Seconds between two looks at them.
        patience: Seconds that they may take to start; a first start downloads the model.

    Raises:
        HarnessError: If a server ends by itself, or does not answer in time.
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
                    raise HarnessError(
                        f"The server on port {server.port} ended with status {process.returncode}.",
                        next_step="Its last lines above say why; often the port is taken or the memory of the GPU is.",
                    )
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
    """Whether a server answers."""
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

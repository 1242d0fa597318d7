"""`rh serve judge`: servers of a model judge on the GPUs of this machine."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import within
from rewardharness.errors import InputError, shell
from rewardharness.ranges import PORTS, Range
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.models.serving import Gpu, Plan


def serve_model(
    model: str,
    /,
    *,
    start: Annotated[bool, Parameter(name="--run")] = False,
    slurm: bool = False,
    gpus: Annotated[int | None, within("gpus", Range(1))] = None,
    tensor_parallel: Annotated[int | None, within("tensor-parallel", Range(1))] = None,
    host: str = "127.0.0.1",
    port: Annotated[int, within("port", PORTS)] = 8000,
    max_model_len: Annotated[int, within("max-model-len", Range(1))] = 32768,
    max_images: Annotated[int, within("max-images", Range(1))] = 8,
    json: bool = False,
) -> None:
    """Print the commands that serve a judge with vLLM on the GPUs of this machine; with --run, start them.

    Example: `rh serve judge Qwen/Qwen2.5-VL-7B-Instruct --run`

    Args:
        model: Name on the Hub, or a folder.
        start: Start the servers, and serve until interrupted.
        slurm: Print a batch script for Slurm.
        gpus: Number of GPUs (default: those of this machine).
        tensor_parallel: GPUs per server (default: as few as the model fits on).
        host: Address to listen on (default: this machine only).
        port: Port of the first server.
        max_model_len: Tokens of prompt and reply.
        max_images: Images per request.
        json: Print one JSON object.
    """
    from rewardharness.models.serving import ServingOptions, find_gpus, find_vllm, plan_servers, slurm_script

    if slurm and (start or json):
        raise InputError("--slurm prints a script only.", next_step="Leave out --run and --json.")
    found = find_gpus(Settings.from_env().visible_gpus)
    options = ServingOptions(host, port, tensor_parallel, max_model_len, max_images)
    plan = plan_servers(model, _gpus(found, gpus, tensor_parallel), options)
    if slurm:
        output.say(slurm_script(plan).rstrip("\n"))
    elif start:
        executable = find_vllm()
        if len(found) < (gpus or 1):
            step = "Leave out --run to print the commands only."
            raise InputError(f"nvidia-smi shows {output.count(len(found), 'GPU')}.", next_step=step)
        _run(plan, executable)
    elif json:
        output.emit(_record(plan, found))
    else:
        _print(plan, found)


def _gpus(found: "Sequence[Gpu]", wanted: int | None, tensor_parallel: int | None) -> "Sequence[Gpu]":
    """Return the GPUs to plan for: those of this machine, or the requested number of them."""
    from rewardharness.models.serving import Gpu

    if wanted is None:
        wanted = len(found) or tensor_parallel or 1
    like = found[0] if found else Gpu("0", "unknown", 0)
    more = [replace(like, id=str(number)) for number in range(len(found), wanted)]
    return [*found, *more][:wanted]


def _print(plan: "Plan", found: "Sequence[Gpu]") -> None:
    """Print commands that can be copied; everything else is a comment."""
    if found:
        names = ", ".join(dict.fromkeys(f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB" for gpu in found))
        output.say(f"# GPUs here: {len(found)} ({names}).")
    else:
        output.say("# nvidia-smi shows no GPU. To plan for another machine: --gpus N.")
    each = "one GPU" if plan.tensor_parallel == 1 else f"{plan.tensor_parallel} GPUs"
    output.say(f"# Servers: {len(plan.servers)}, {each} each ({plan.reason}).")
    if plan.idle:
        output.say(f"# Not used: GPU {', '.join(plan.idle)}.")
    if plan.servers[0].host not in {"127.0.0.1", "localhost", "::1"}:
        output.say("# Other machines can reach this address: set VLLM_API_KEY for the servers and RH_API_KEY for rh.")
    for server in plan.servers:
        output.say(shell("{} &", server.command()))
    output.say("# When the servers are ready:")
    output.say(shell("rh doctor --judge {}", plan.judge))
    output.say(shell("# Option of every command that judges: --judge {}", plan.judge))


def _record(plan: "Plan", found: "Sequence[Gpu]") -> dict[str, object]:
    servers = [{"url": each.url, "gpus": list(each.gpus), "command": each.command()} for each in plan.servers]
    return {
        "gpus": [{"id": gpu.id, "name": gpu.name, "memory": gpu.memory} for gpu in found],
        "tensor_parallel": plan.tensor_parallel,
        "reason": plan.reason,
        "idle": list(plan.idle),
        "servers": servers,
        "judge": plan.judge,
    }


def _run(plan: "Plan", executable: str) -> None:
    from rewardharness.models.serving import run_servers

    # SIGTERM stops the servers too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.note(f"Servers to start: {len(plan.servers)}. The first start of a model downloads it.")

    def ready() -> None:
        output.note(shell("Ready: --judge {}", plan.judge))
        output.note("Press Ctrl-C to stop the servers.")

    run_servers(plan, executable, ready)

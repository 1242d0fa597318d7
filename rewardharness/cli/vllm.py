"""`rh serve-vllm`: the judge's servers on the GPUs of this machine."""

import argparse
import shlex
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rewardharness.cli import output
from rewardharness.cli.counts import port
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.models.serving import Gpu, Plan


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve-vllm", help="the commands that serve a judge with vLLM", description=serve_vllm.__doc__
    )
    parser.add_argument(
        "model", metavar="MODEL", help="name on the Hub, as in Qwen/Qwen2.5-VL-7B-Instruct, or a folder"
    )
    parser.add_argument(
        "--run", dest="start", action="store_true", help="start the servers and serve until interrupted"
    )
    parser.add_argument("--slurm", action="store_true", help="print a batch script for Slurm")
    parser.add_argument("--gpus", type=int, metavar="N", help="plan for N GPUs (default: those of this machine)")
    parser.add_argument(
        "--tensor-parallel", type=int, metavar="N", help="GPUs per server (default: as few as the model fits on)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=port, default=8000, help="port of the first server (default: 8000)")
    parser.add_argument(
        "--max-model-len", type=int, default=32768, metavar="N", help="tokens of prompt and reply (default: 32768)"
    )
    parser.add_argument("--max-images", type=int, default=8, metavar="N", help="images per request (default: 8)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=serve_vllm)


def serve_vllm(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the commands that serve a judge on the GPUs of this machine, one server each; with --run, start them."""
    from rewardharness.errors import InputError
    from rewardharness.models.serving import ServingOptions, find_gpus, find_vllm, plan_servers, slurm_script

    if arguments.slurm and (arguments.start or arguments.json):
        raise InputError("--slurm prints a script and nothing else.", next_step="Leave out --run and --json.")
    for name in ("gpus", "tensor_parallel", "max_model_len", "max_images"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value} is too small.", next_step="Give at least 1.")
    found = find_gpus(settings.visible_gpus)
    options = ServingOptions(
        arguments.host, arguments.port, arguments.tensor_parallel, arguments.max_model_len, arguments.max_images
    )
    plan = plan_servers(arguments.model, _gpus(found, arguments.gpus, arguments.tensor_parallel), options)
    if arguments.slurm:
        output.say(slurm_script(plan).rstrip("\n"))
    elif arguments.start:
        executable = find_vllm()
        if len(found) < (arguments.gpus or 1):
            raise InputError(
                f"nvidia-smi shows {len(found)} GPUs here.", next_step="Leave out --run to print the commands only."
            )
        _run(plan, executable)
    elif arguments.json:
        output.emit(_record(plan, found))
    else:
        _print(plan, found)
    return 0


def _gpus(found: "Sequence[Gpu]", wanted: int | None, tensor_parallel: int | None) -> "Sequence[Gpu]":
    """Choose the GPUs to plan for: those that there are, or as many like them as were asked for."""
    from rewardharness.models.serving import Gpu

    if wanted is None:
        wanted = len(found) or tensor_parallel or 1
    like = found[0] if found else Gpu("0", "unknown", 0)
    more = [replace(like, id=str(number)) for number in range(len(found), wanted)]
    return [*found, *more][:wanted]


def _print(plan: "Plan", found: "Sequence[Gpu]") -> None:
    """Print commands that can be copied as they stand; what is said about them is a comment."""
    if found:
        names = ", ".join(dict.fromkeys(f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB" for gpu in found))
        output.say(f"# GPUs here: {len(found)} ({names}).")
    else:
        output.say("# nvidia-smi shows no GPU here. For a machine with several: --gpus N.")
    each = "one GPU" if plan.tensor_parallel == 1 else f"{plan.tensor_parallel} GPUs"
    output.say(f"# Servers: {len(plan.servers)}, {each} each ({plan.reason}).")
    if plan.idle:
        output.say(f"# Left over: GPU {', '.join(plan.idle)}.")
    if plan.servers[0].host not in {"127.0.0.1", "localhost", "::1"}:
        output.say("# Whoever can reach this address may ask: set VLLM_API_KEY for the servers and RH_API_KEY for rh.")
    for server in plan.servers:
        output.say(f"{shlex.join(server.command())} &")
    output.say("# When they answer:")
    output.say(f"rh doctor --judge {shlex.quote(plan.judge)}")
    output.say(f"# and then, with any command that judges: --judge {shlex.quote(plan.judge)}")


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

    # Being asked to end must end the servers too, as an interruption does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.note(f"Servers to start: {len(plan.servers)}. The first start of a model downloads it.")

    def ready() -> None:
        output.note(f"Ready: --judge {shlex.quote(plan.judge)}")
        output.note("Interrupt to end the servers.")

    run_servers(plan, executable, ready)

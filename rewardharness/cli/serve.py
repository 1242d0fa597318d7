"""`rh serve`: the reward server. `rh serve judge`: servers of a model judge on the GPUs of this machine."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app, within
from rewardharness.cli.output import INTERRUPTED, WRONG_USE
from rewardharness.errors import InputError, MissingPackageError, describe, shell
from rewardharness.judging.config import DEFAULT_JUDGE, JudgeConfig, RewardConfig
from rewardharness.ranges import PORTS, Range, check_ranges
from rewardharness.runs.job import exit_within
from rewardharness.serving.replicas import Replicas
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.identity import JudgeIdentity
    from rewardharness.models.serving import Gpu, Plan
    from rewardharness.serving.limits import Limits
    from rewardharness.serving.security import Guard

PORT = 8100
"""Default port; vLLM's is 8000."""


LEFT_SECONDS = 0.8
"""Seconds after `--drain` after which the process ends, whatever is left to close."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Address and callers."""

    host: str = "127.0.0.1"
    """Address to listen on (default: this machine only)."""
    port: Annotated[int, within("port", PORTS)] = PORT
    """Port to listen on; 0 for any."""
    token_file: Path | None = None
    """File with the token that callers send (default: RH_SERVER_TOKEN)."""
    insecure_no_auth: bool = False
    """Accept requests from the network without a token."""
    request_log: Path | None = None
    """Append one line of JSON per request to this file."""
    sample: tuple[float, Path] | None = None
    """Store this share of the requests with their images in a folder, as --sample 0.01 DIR, to be labeled. It is not
    anonymous: tell the callers."""

    def __post_init__(self) -> None:
        if self.sample is not None:
            Range(0, 1, (0,)).check("sample", self.sample[0])


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits."""

    concurrency: int | None = None
    """Judgments at the same time."""
    queue: int | None = None
    """Judgments at the same time or waiting; beyond that, requests are answered with 429."""
    max_items: int | None = None
    """Edits per batch."""
    max_body_mb: int | None = None
    """Megabytes per request."""
    max_megapixels: int | None = None
    """Megapixels per image, if fewer than judges accept."""
    deadline: float | None = None
    """Seconds per request."""
    drain: float | None = None
    """Seconds to finish open requests after SIGTERM."""

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("queue", "max_items", "max_megapixels"), Range(1))
        seconds = {"deadline": Range(0.1, 86_400), "drain": Range(0, 86_400)}
        check_ranges(self, {"concurrency": Range(1, 4096), **counts, "max_body_mb": Range(1, 1073), **seconds})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EngineOptions(Replicas):
    """Ray Serve."""

    engine: Literal["local", "ray"] = "local"
    """One process, or replicas with Ray Serve."""
    address: str | None = None
    """Ray cluster: auto or HOST:PORT (default: RAY_ADDRESS, else this machine only)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine == "local" and any(getattr(self, field.name) != field.default for field in fields(self)):
            raise InputError("Replicas need Ray Serve.", next_step="Give --engine ray.")


_NETWORK, _LIMITS, _ENGINE = NetworkOptions(), LimitOptions(), EngineOptions()

app = make_app(
    "serve",
    "Serve rewards over HTTP; `rh serve judge` serves a model with vLLM.",
    {"Judge": JudgeConfig, "Network": NetworkOptions, "Limits": LimitOptions, "Ray": EngineOptions},
)


@app.default
def serve(
    *,
    config: Annotated[RewardConfig, Parameter(name="*")] = DEFAULT_JUDGE,
    network: NetworkOptions = _NETWORK,
    bounds: LimitOptions = _LIMITS,
    engine: EngineOptions = _ENGINE,
) -> int:
    """Serve rewards for edits over HTTP until SIGTERM or Ctrl-C; open requests are finished first.

    Example: `rh serve --release release.json --port 8100`
    """
    from importlib.util import find_spec

    packages = dict.fromkeys(("fastapi", "httptools", "prometheus_client", "uvicorn"), "serve")
    for package, extra in (packages | ({"ray": "ray"} if engine.engine == "ray" else {})).items():
        if find_spec(package) is None:
            raise MissingPackageError(package, extra, "the reward server")

    from rewardharness.judging.opening import open_reward
    from rewardharness.serving import ray_engine, server
    from rewardharness.serving.config import ServerConfig, usual_limits
    from rewardharness.serving.hosts import is_loopback
    from rewardharness.serving.security import Guard, read_token

    settings = Settings.from_env()
    if engine.engine == "ray":
        settings = replace(settings, workers=engine.replica_cpus)
    guard = Guard(read_token(settings.server_token, network.token_file), is_loopback(network.host))
    problem = _problem(network, guard)
    if problem is not None:
        output.fail(describe(problem))
        return WRONG_USE
    judge, library, release = reward = open_reward(config, settings)
    plan = ServerConfig(
        config=config,
        library=library,
        release=release,
        settings=settings,
        limits=_limits(usual_limits(judge, cache=not config.no_cache), bounds),
        guard=guard,
        request_log=None if network.request_log is None else network.request_log.resolve(),
        sample=network.sample and (network.sample[0], network.sample[1].resolve()),
    )
    opened = server.listen(network.host, network.port)
    place = network.host, opened.getsockname()[1]
    ready = partial(_announce, place, reward.identity, guard)
    if engine.engine == "ray":
        opened.close()  # the address is free; Ray's proxies listen on it
        asyncio.run(judge.close())  # each replica opens its own
        ended_by = ray_engine.serve(plan, engine, place, engine.address, ready)
    else:
        front, left = plan.open(judge), plan.limits.drain_seconds + LEFT_SECONDS
        over = lambda number: exit_within(left, _status(number))  # noqa: E731
        ended_by = asyncio.run(server.serve(front, front.service, opened, lambda _: ready(), over))
    return _status(ended_by)


def _status(ended_by: int | None) -> int:
    return INTERRUPTED if ended_by == signal.SIGINT else 0


def _problem(network: NetworkOptions, guard: "Guard") -> InputError | None:
    """Return why the server must not listen there; None if it may."""
    if not guard.local and guard.token is None and not network.insecure_no_auth:
        step = "Set RH_SERVER_TOKEN or give --token-file; or, on a network that you trust, --insecure-no-auth."
        return InputError(f"{network.host} is reachable from other machines; no auth token is set.", next_step=step)
    return None


def _announce(place: tuple[str, int], who: "JudgeIdentity", guard: "Guard") -> None:
    """Say where the server is, and who judges."""
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    output.note(f"Rewards at http://{host}:{place[1]}  (press Ctrl-C to stop)")
    output.note(f"Judge {who.judge}, {who.protocol}; Library {who.library_id[:12]}; release {who.release or 'none'}.")
    if guard.token is None:
        who_may = "only local connections are accepted" if guard.local else "ALL connections are accepted"
        output.note(f"No auth token set; {who_may}.")


def _limits(usual: "Limits", bounds: LimitOptions) -> "Limits":
    """Return the limits of the server.

    Raises:
        InputError: If one of them is out of range.
    """
    changes = {
        "concurrency": bounds.concurrency,
        "queue": bounds.queue,
        "items": bounds.max_items,
        "body_bytes": bounds.max_body_mb and bounds.max_body_mb * 1_000_000,
        "pixels": bounds.max_megapixels and bounds.max_megapixels * 1_000_000,
        "deadline": bounds.deadline,
        "drain_seconds": bounds.drain,
    }
    return usual.changed({name: value for name, value in changes.items() if value is not None})


# ---- servers of a model


@app.command(name="judge")
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
    devices = find_gpus(Settings.from_env().visible_gpus)
    options = ServingOptions(host, port, tensor_parallel, max_model_len, max_images)
    plan = plan_servers(model, _gpus(devices, gpus, tensor_parallel), options)
    if slurm:
        output.say(slurm_script(plan).rstrip("\n"))
    elif start:
        executable = find_vllm()
        if len(devices) < (gpus or 1):
            step = "Leave out --run to print the commands only."
            raise InputError(f"nvidia-smi shows {output.count(len(devices), 'GPU')}.", next_step=step)
        _run(plan, executable)
    elif json:
        servers = [{"url": entry.url, "gpus": list(entry.gpus), "command": entry.command()} for entry in plan.servers]
        output.emit(
            {
                "gpus": [{"id": gpu.id, "name": gpu.name, "memory": gpu.memory} for gpu in devices],
                **{name: getattr(plan, name) for name in ("tensor_parallel", "reason", "idle", "judge")},
                "servers": servers,
            }
        )
    else:
        _print(plan, devices)


def _gpus(gpus: "Sequence[Gpu]", wanted: int | None, tensor_parallel: int | None) -> "Sequence[Gpu]":
    """Return the GPUs to plan for: those of this machine, or the requested number of them."""
    from rewardharness.models.serving import Gpu

    if wanted is None:
        wanted = len(gpus) or tensor_parallel or 1
    like = gpus[0] if gpus else Gpu("0", "unknown", 0)
    more = [replace(like, id=str(number)) for number in range(len(gpus), wanted)]
    return [*gpus, *more][:wanted]


def _print(plan: "Plan", gpus: "Sequence[Gpu]") -> None:
    """Print commands that can be copied; everything else is a comment."""
    if gpus:
        names = ", ".join(dict.fromkeys(f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB" for gpu in gpus))
        output.say(f"# GPUs here: {len(gpus)} ({names}).")
    else:
        output.say("# nvidia-smi shows no GPU. To plan for another machine: --gpus N.")
    gpu_count = "one GPU" if plan.tensor_parallel == 1 else f"{plan.tensor_parallel} GPUs"
    output.say(f"# Servers: {len(plan.servers)}, {gpu_count} each ({plan.reason}).")
    if plan.idle:
        output.say(f"# Not used: GPU {', '.join(plan.idle)}.")
    if plan.servers[0].host not in {"127.0.0.1", "localhost", "::1"}:
        output.say("# Other machines can reach this address: set VLLM_API_KEY for the servers and RH_API_KEY for rh.")
    for server in plan.servers:
        output.say(shell("{} &", server.command()))
    output.say("# When the servers are ready:")
    output.say(shell("rh doctor --judge {}", plan.judge))
    output.say(shell("# Option of every command that judges: --judge {}", plan.judge))


def _run(plan: "Plan", executable: str) -> None:
    from rewardharness.models.serving import run_servers

    # SIGTERM stops the servers too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.note(f"Servers to start: {len(plan.servers)}. The first start of a model downloads it.")

    def ready() -> None:
        output.note(shell("Ready: --judge {}", plan.judge))
        output.note("Press Ctrl-C to stop the servers.")

    run_servers(plan, executable, ready)

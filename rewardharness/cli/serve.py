"""`rh serve`: the reward server."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from rewardharness.cli import output
from rewardharness.cli.command import WRONG_USE, make_app
from rewardharness.cli.vllm import serve_model
from rewardharness.errors import InputError, MissingPackageError, describe
from rewardharness.judging.config import DEFAULT_JUDGE, JudgeConfig, RewardConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.judge import Judge
    from rewardharness.serving.limits import Limits

PORT = 8100
"""Default port; vLLM's is 8000."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Address and callers."""

    host: str = "127.0.0.1"
    """Address to listen on (default: this machine only)."""
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = PORT
    """Port to listen on; 0 for any."""
    token_file: Path | None = None
    """File with the token that callers send (default: RH_SERVER_TOKEN)."""
    insecure_no_auth: bool = False
    """Accept requests from the network without a token."""
    allow_pickle: bool = False
    """Also accept the pickle formats of older reward servers (plain data only; this machine only)."""
    request_log: Path | None = None
    """Append one line of JSON per request to this file."""


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


_NETWORK, _LIMITS = NetworkOptions(), LimitOptions()

app = make_app(
    "serve",
    "Serve rewards over HTTP; `rh serve judge` serves a model with vLLM.",
    {"Judge": JudgeConfig, "Network": NetworkOptions, "Limits": LimitOptions},
)
app.command(serve_model, name="judge")


@app.default
def serve(
    *,
    config: Annotated[RewardConfig, Parameter(name="*")] = DEFAULT_JUDGE,
    network: NetworkOptions = _NETWORK,
    bounds: LimitOptions = _LIMITS,
) -> int:
    """Serve rewards for edits over HTTP until SIGTERM or Ctrl-C; open requests are finished first.

    Example: `rh serve --release release.json --port 8100`
    """
    from importlib.util import find_spec

    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingPackageError(package, "serve", "the reward server")
    import asyncio

    from rewardharness.serving import server
    from rewardharness.serving.api import make_app
    from rewardharness.serving.hosts import is_loopback
    from rewardharness.serving.request_log import RequestLog
    from rewardharness.serving.security import Guard, read_token
    from rewardharness.serving.service import Service

    settings = Settings.from_env()
    token = read_token(settings.server_token, network.token_file)
    local = is_loopback(network.host)
    if not local and token is None and not network.insecure_no_auth:
        step = "Set RH_SERVER_TOKEN or give --token-file; or, on a network that you trust, --insecure-no-auth."
        output.fail(
            describe(
                InputError(f"{network.host} is reachable from other machines; no auth token is set.", next_step=step)
            )
        )
        return WRONG_USE
    if network.allow_pickle and not local:
        step = "Listen on 127.0.0.1, or leave out --allow-pickle."
        output.fail(describe(InputError("--allow-pickle accepts connections from this machine only.", next_step=step)))
        return WRONG_USE
    judge, library, release = config.open(settings)
    limits = _limits(config, bounds, settings, judge)
    opened = server.listen(network.host, network.port)
    service = Service(judge, library, limits, release=None if release is None else release.id)
    if network.request_log is not None:
        service.log = RequestLog(network.request_log, lambda: service.metrics.log_dropped.add())
    app = make_app(service, Guard(token, local), pickles=network.allow_pickle)

    def ready(_: Callable[[], None]) -> None:
        who = service.identity
        host = f"[{network.host}]" if ":" in network.host else network.host
        output.note(f"Rewards at http://{host}:{opened.getsockname()[1]}  (press Ctrl-C to stop)")
        output.note(
            f"Judge {who.judge}, {who.protocol}; Library {who.library_id[:12]}; release {who.release or 'none'}."
        )
        if token is None:
            who_may = "only local connections are accepted" if local else "ALL connections are accepted"
            output.note(f"No auth token set; {who_may}.")

    ended_by = asyncio.run(server.serve(app, service, opened, ready))
    return 130 if ended_by == signal.SIGINT else 0


def _limits(config: RewardConfig, bounds: LimitOptions, settings: Settings, judge: "Judge") -> "Limits":
    """Return the limits of the server.

    Raises:
        InputError: If one of them is out of range, or this judge cannot be served.
    """
    from rewardharness.serving.limits import Limits

    if judge.needs_ids:
        step = "Serve measured, a model or a release."
        raise InputError(
            "Scores in a file belong to examples by their id; a server's callers have none.", next_step=step
        )
    usual = Limits(
        concurrency=Limits.concurrency if judge.uses_model else judge.concurrency,
        remembered=0 if config.no_cache else Limits.remembered,
    )
    given = {
        "concurrency": bounds.concurrency,
        "queue": bounds.queue,
        "items": bounds.max_items,
        "body_bytes": None if bounds.max_body_mb is None else bounds.max_body_mb * 1_000_000,
        "pixels": None if bounds.max_megapixels is None else bounds.max_megapixels * 1_000_000,
        "deadline": bounds.deadline,
        "drain_seconds": bounds.drain,
    }
    return usual.changed({name: value for name, value in given.items() if value is not None})

"""`rh serve`: the reward server."""

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.cli import output
from rewardharness.cli.counts import port
from rewardharness.cli.judging import add_options, open_judging
from rewardharness.errors import InputError, MissingPackageError, describe
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.judge import Judge
    from rewardharness.serving.limits import Limits

PORT = 8100
"""Where the server listens when nothing else is said; 8000 is vLLM's."""

WRONG_USE = 2
"""Exit status of a command line that cannot be meant."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("serve", help="serve rewards over HTTP", description=serve.__doc__)
    add_options(parser, release=True)
    network = parser.add_argument_group("network")
    network.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    network.add_argument("--port", type=port, default=PORT, help=f"port to listen on; 0 for any (default: {PORT})")
    network.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that callers show (default: RH_SERVER_TOKEN)",
    )
    network.add_argument(
        "--insecure-no-auth", action="store_true", help="let everybody on the network ask, without a token"
    )
    network.add_argument(
        "--allow-pickle",
        action="store_true",
        help="also speak the pickle dialects of older reward servers (plain data only; this machine only)",
    )
    network.add_argument("--request-log", type=Path, metavar="FILE", help="append one line of JSON per request")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--concurrency", type=int, metavar="N", help="judgments under way at once")
    limits.add_argument("--queue", type=int, metavar="N", help="judgments under way or waiting, beyond which: 429")
    limits.add_argument("--max-items", type=int, metavar="N", help="edits in one batch")
    limits.add_argument("--max-body-mb", type=int, metavar="N", help="megabytes of one request")
    limits.add_argument(
        "--max-megapixels", type=int, metavar="N", help="megapixels of one image, if fewer than judges take"
    )
    limits.add_argument("--deadline", type=float, metavar="S", help="seconds that a request may take")
    limits.add_argument("--drain", type=float, metavar="S", help="seconds for what is under way, when told to end")
    parser.set_defaults(run=serve)


def serve(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve rewards for edits over HTTP until SIGTERM or Ctrl-C; what is under way then is finished first."""
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

    token = read_token(settings.server_token, arguments.token_file)
    local = is_loopback(arguments.host)
    if not local and token is None and not arguments.insecure_no_auth:
        step = "Set RH_SERVER_TOKEN or give --token-file; or, on a network that you trust, --insecure-no-auth."
        output.fail(describe(InputError(f"Others than this machine can reach {arguments.host}.", next_step=step)))
        return WRONG_USE
    if arguments.allow_pickle and not local:
        step = "Listen on 127.0.0.1, or leave --allow-pickle out."
        output.fail(describe(InputError("Pickles are taken from this machine alone.", next_step=step)))
        return WRONG_USE
    judge, library, release = open_judging(arguments, settings)
    limits = _limits(arguments, settings, judge)
    opened = server.listen(arguments.host, arguments.port)
    service = Service(judge, library, limits, release=None if release is None else release.id)
    if arguments.request_log is not None:
        service.log = RequestLog(arguments.request_log, lambda: service.metrics.log_dropped.add())
    app = make_app(service, Guard(token, local), pickles=arguments.allow_pickle)

    def ready(_: Callable[[], None]) -> None:
        who = service.identity
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        output.note(f"Rewards at http://{host}:{opened.getsockname()[1]}  (Ctrl-C ends it)")
        output.note(
            f"Judge {who.judge}, {who.protocol}; Library {who.library_id[:12]}; release {who.release or 'none'}."
        )
        if token is None:
            output.note("There is no token: " + ("this machine may ask." if local else "EVERYBODY may ask."))

    ended_by = asyncio.run(server.serve(app, service, opened, ready))
    return 130 if ended_by == signal.SIGINT else 0


def _limits(arguments: argparse.Namespace, settings: Settings, judge: "Judge") -> "Limits":
    """Put the limits together.

    Raises:
        InputError: If one of them is out of range, or this judge cannot be served.
    """
    from rewardharness.judging.scored_elsewhere import ScoredElsewhere
    from rewardharness.serving.limits import Limits

    if isinstance(judge, ScoredElsewhere):
        step = "Serve measured, a model or a release."
        raise InputError(
            "Scores in a file belong to examples by their id; a server's callers have none.", next_step=step
        )
    usual = Limits(
        concurrency=Limits.concurrency if judge.uses_model else judge.concurrency,
        remembered=0 if arguments.no_cache else Limits.remembered,
    )
    given = {
        "concurrency": arguments.concurrency,
        "queue": arguments.queue,
        "items": arguments.max_items,
        "body_bytes": None if arguments.max_body_mb is None else arguments.max_body_mb * 1_000_000,
        "pixels": None if arguments.max_megapixels is None else arguments.max_megapixels * 1_000_000,
        "deadline": arguments.deadline,
        "drain_seconds": arguments.drain,
    }
    return usual.changed({name: value for name, value in given.items() if value is not None})

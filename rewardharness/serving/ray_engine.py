"""The reward server as a deployment of Ray Serve: replicas in processes of their own, on one machine or a cluster.

Each replica is a whole reward server: admission control, cache, metrics and request log are its own. Ray's proxies
accept the connections and choose the replica.
"""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rewardharness.codec import from_json
from rewardharness.errors import InputError
from rewardharness.judging.config import RewardConfig
from rewardharness.judging.on_ray import connect, ray_error
from rewardharness.judging.opening import open_reward
from rewardharness.serving.api import Front
from rewardharness.serving.config import ServerConfig, usual_limits
from rewardharness.serving.replicas import Replicas
from rewardharness.serving.security import Guard, read_token
from rewardharness.settings import Settings

NAME = "rewards"
"""Name of the application in Ray Serve."""
_CHECK_SECONDS = 5
"""Seconds between the checks by which Ray notices that a replica died."""


def application(server: ServerConfig, replicas: Replicas) -> Any:
    """Return the application for Ray Serve.

    Args:
        server: Each replica opens it.
        replicas: How many there are.
    """
    from ray import serve

    def build() -> Front:
        return server.open()

    class Rewards:
        app: Front

        async def end(self) -> None:
            """Refuse new requests, and finish the open ones."""
            await self.app.service.end()

    deployment = serve.deployment(
        name="Rewards",
        # Admission control of the replica answers 429, as a server without Ray does; Ray would let requests wait.
        max_ongoing_requests=server.limits.queue,
        graceful_shutdown_timeout_s=server.limits.drain_seconds,
        health_check_period_s=_CHECK_SECONDS,
        ray_actor_options={"num_cpus": replicas.replica_cpus},
        **replicas.options(),
    )
    return deployment(serve.ingress(build)(Rewards)).bind()


def build_application(args: Mapping[str, Any]) -> Any:
    """Return the application for a configuration file of Ray Serve, such as that of a RayService of KubeRay.

    The file names it as `import_path: rewardharness.serving.ray_engine:build_application`. A token is required, in
    RH_SERVER_TOKEN, because other machines reach the proxies of a cluster.

    Args:
        args: Options of `rh serve` that name judge and Library, such as `release` or `judge`, with underscores.

    Raises:
        InputError: If there is no token, or the judge cannot be opened.
        ValidationError: If an option is not known.
    """
    config = from_json(RewardConfig, dict(args))
    settings = replace(Settings.from_env(), workers=Replicas.replica_cpus)
    token = read_token(settings.server_token, None)
    if token is None:
        raise InputError("There is no token for callers.", next_step="Set RH_SERVER_TOKEN, for example from a Secret.")
    judge, library, release = open_reward(config, settings)
    limits = usual_limits(judge, cache=not config.no_cache)
    guard = Guard(token, local=False)
    server = ServerConfig(
        config=config, library=library, release=release, settings=settings, limits=limits, guard=guard
    )
    return application(server, Replicas())


def serve(
    server: ServerConfig, replicas: Replicas, place: tuple[str, int], address: str | None, on_ready: Callable[[], None]
) -> int | None:
    """Serve until SIGTERM or SIGINT, then end in order, as `server.serve` does.

    Args:
        server: What is served.
        replicas: By how many replicas.
        place: Host and port that the proxies listen on.
        address: Address of a Ray cluster; None for `RAY_ADDRESS`, else for a new instance that ends with this call.
        on_ready: Called when requests are answered.

    Returns:
        The signal that ended it.

    Raises:
        RayError: If Ray or the replicas do not start.
    """
    connect(
        address, "replicas of the reward server", cpus=max(os.cpu_count() or 1, replicas.most * replicas.replica_cpus)
    )
    import ray
    from ray import serve as ray_serve

    received: list[int] = []
    asked = threading.Event()

    def ask(number: int, _: object) -> None:
        received.append(number)
        asked.set()
        if len(received) > 1:
            raise KeyboardInterrupt

    try:
        handle = _start(application(server, replicas), place)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask)
        on_ready()
        with contextlib.suppress(KeyboardInterrupt):  # a second signal
            asked.wait()
            with contextlib.suppress(ray.exceptions.RayError, TimeoutError):  # what has died need not end
                handle.broadcast("end").results(timeout_s=server.limits.drain_seconds + 5)
            ray_serve.delete(NAME)
    finally:
        ray.shutdown()
    return received[0] if received else None


def _start(deployed: Any, place: tuple[str, int]) -> Any:
    """Start the proxies, and wait for the replicas; return the handle of the deployment."""
    from ray import serve as ray_serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # the import sets its own level
    try:
        ray_serve.start(
            proxy_location="EveryNode",
            http_options={"host": place[0], "port": place[1], "keep_alive_timeout_s": 75},
            logging_config={"log_level": "ERROR", "enable_access_log": False},
        )
        return ray_serve.run(deployed, name=NAME, route_prefix="/")
    except Exception as error:  # Ray raises errors of many types, and plain ones
        raise ray_error(error) from None

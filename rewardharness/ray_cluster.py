"""Connecting to a Ray cluster, or starting Ray on this machine."""

import logging
import secrets
import socket

from rewardharness.errors import HarnessError, MissingPackageError
from rewardharness.settings import Settings, export

_REACH_SECONDS = 10
"""Seconds in which the address of a cluster must answer."""


class RayError(HarnessError):
    """Ray did not start, or stopped."""

    title = "Ray failed"


def connect(address: str | None, purpose: str, *, cpus: int | None = None) -> None:
    """Connect to a cluster. `ray.shutdown()` ends the connection, and what was started here.

    Args:
        address: Its address, or `auto`; None for `RAY_ADDRESS`, and without it to start Ray on this machine.
        purpose: What Ray is for, in the message if it is not installed.
        cpus: CPUs of a Ray that is started here; None for all.

    Raises:
        MissingPackageError: If Ray is not installed.
        RayError: If the cluster cannot be reached, or Ray does not start.
    """
    address = address or Settings.from_env().ray_address
    export("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # Ray listens on all interfaces; without this token others could run code here
        export("RAY_AUTH_MODE", "token")
        export("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise MissingPackageError("ray", "ray", purpose) from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:  # Ray would try for minutes
        try:
            socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
        except (OSError, OverflowError):
            raise RayError(
                f"No Ray cluster answers at {address}.", next_step="Check --address or RAY_ADDRESS."
            ) from None
    new = {"include_dashboard": False, "num_cpus": cpus} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **new)
    except Exception as error:  # Ray raises errors of many types, and plain ones
        raise ray_error(error) from None


def ray_error(error: Exception) -> RayError:
    """Return an error of Ray in one sentence."""
    problem = (str(error).strip() or type(error).__name__).splitlines()[-1]
    return RayError(problem, next_step="Check the address, and Ray's logs in /tmp/ray/session_latest/logs.")

"""What an account on the Hub pays for: Jobs on rented hardware, with its prices, and edits by Inference Providers."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rewardharness.errors import DataError, shown
from rewardharness.hub.errors import Context, HubError, client, require_client, translated
from rewardharness.hub.repository import Access, saved_token

if TYPE_CHECKING:
    from huggingface_hub import HfApi


PAGE = "https://huggingface.co/settings"
ENDED = frozenset({"COMPLETED", "CANCELED", "ERROR", "DELETED"})
"""Stages of a job that has ended."""
COMPLETED = "COMPLETED"
_HOURS = {"second": 3600.0, "minute": 60.0, "hour": 1.0}
"""Units of a price per hour."""
_REMEDIES = {
    401: "Log in again with `hf auth login`, or set HF_TOKEN to a valid token.",
    402: f"Add a payment method or credit on {PAGE}/billing, then run the same command again.",
    403: f"Use a token with the permission to start jobs and to write repositories ({PAGE}/tokens), or --namespace of "
    "an account that you may start jobs in. On a web page, log out and in again to grant the permission `jobs`.",
    404: "Check the id of the job, and --namespace.",
    429: "Wait a few minutes and run the same command again, or end other jobs first.",
}


@dataclass(frozen=True)
class JobSpec:
    """A job to start."""

    image: str
    """Docker image."""
    command: tuple[str, ...]
    flavor: str
    """Hardware, such as `a10g-large`."""
    timeout: int
    """Seconds after which the job is ended."""
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    """Values by name; the values are never shown."""
    name: str = "rewardharness"


@dataclass(frozen=True)
class JobStatus:
    """The status of a job."""

    id: str
    stage: str
    """`SCHEDULING`, `RUNNING`, or one of `ENDED`."""
    message: str
    url: str
    """URL of its page."""
    seconds: float = 0.0
    """Seconds that it has run."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.stage in ENDED


@dataclass(frozen=True)
class Hardware:
    """A kind of machine."""

    name: str
    title: str
    price: float
    """US dollars per hour."""
    gpus: int = 0
    gpu_memory: int = 0
    """Bytes per GPU; 0 if unknown."""


class JobsClient:
    """Jobs in one account.

    Every method raises `HubError` if the Hub refuses, and `UnreachableError` if it cannot be reached.

    Args:
        access: How the Hub is reached.
        namespace: User or organization that pays; empty for the owner of the token.

    Raises:
        HubError: If there is no token.
    """

    def __init__(self, access: Access, namespace: str = "") -> None:
        require_client("hub", "Hugging Face Jobs")
        token = saved_token() if access.token is None else access.token
        if not token:
            raise HubError("Hugging Face Jobs need a login.", next_step=_REMEDIES[401].replace("again ", ""))
        self.token: str = token
        self.access = replace(access, token=token)
        self._namespace = namespace

    @property
    def _api(self) -> "HfApi":
        return client(self.access)

    @property
    def namespace(self) -> str:
        """User or organization that pays."""
        if not self._namespace:
            with self._request("read your account"):
                self._namespace = str(self._api.whoami()["name"])
        return self._namespace

    def hardware(self) -> tuple[Hardware, ...]:
        """List the hardware with prices."""
        with self._request("list the hardware of jobs"):
            return tuple(_hardware(machine) for machine in self._api.list_jobs_hardware())

    def start(self, spec: JobSpec) -> JobStatus:
        """Start a job."""
        namespace = self.namespace
        with self._request(f"start a job of {namespace}"):
            values = asdict(spec)
            env = values.pop("environment")
            return _status(self._api.run_job(**values, env=env, namespace=namespace))

    def look(self, job: str) -> JobStatus:
        """Return the status of a job."""
        with self._request(f"read job {job}"):
            return _status(self._api.inspect_job(job_id=job, namespace=self.namespace))

    def logs(self, job: str, *, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the log of a job.

        Args:
            job: Its id.
            follow: Wait for further lines until the job ends.
        """
        with self._request(f"read the log of job {job}"):
            yield from self._api.fetch_job_logs(job_id=job, namespace=self.namespace, follow=follow)

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        with self._request(f"cancel job {job}"):
            self._api.cancel_job(job_id=job, namespace=self.namespace)

    @contextmanager
    def _request(self, action: str) -> Iterator[None]:
        try:
            with translated(Context("Hugging Face Jobs", "model", PAGE, action, "", self.token)):
                yield
        except HubError as error:
            if error.status in _REMEDIES:
                message = error.message.replace("Hub's rate", "rate").replace("The token may not", "You may not")
                if error.status == 404:
                    message = f"The Hub finds nothing to {action}."
                raise type(error)(message, next_step=_REMEDIES[error.status], status=error.status) from None
            raise


def _status(job: Any) -> JobStatus:
    seconds = (job.durations.running_secs if job.durations else 0) or 0
    message = shown(" ".join((job.status.message or "").split()), 300)
    return JobStatus(shown(str(job.id)), str(job.status.stage), message, shown(str(job.url), 300), float(seconds))


def _hardware(listed: Any) -> Hardware:
    price = float(listed.unit_cost_usd) * _HOURS.get(str(listed.unit_label), 60.0)
    count, memory = 0, 0
    if listed.accelerator is not None:
        count = int(listed.accelerator.quantity)
        size, _, unit = str(listed.accelerator.vram).partition(" ")
        memory = int(float(size) * (1 << 30) / max(1, count)) if unit == "GB" else 0
    return Hardware(shown(str(listed.name)), shown(str(listed.pretty_name)), price, count, memory)


def edit_image(model: str, image: bytes, prompt: str, *, provider: str, token: str, seconds: float) -> bytes:
    """Edit an image.

    Args:
        model: Name of the model, or the address of an Inference Endpoint.
        image: The encoded image.
        prompt: The instruction.
        provider: Name of the provider; `auto` for the first one of the account's settings.
        token: Token of the account that pays.
        seconds: Timeout.

    Returns:
        The edited image as PNG.

    Raises:
        DataError: If there is none.
    """
    from huggingface_hub import InferenceClient

    try:
        client = InferenceClient(provider=provider, token=token, timeout=seconds)  # type: ignore[arg-type]
        made = client.image_to_image(image, prompt=prompt, model=model)
    except Exception as error:  # the providers' clients raise nearly every exception
        reason = f"{type(error).__name__}: {' '.join(str(error).replace(token, '…').split())[:200]}"
        step = "Check the model, its providers, and the credit of the account."
        raise DataError(f"{model} gave no edit ({reason}).", next_step=step) from None
    file = io.BytesIO()
    made.save(file, "PNG")
    return file.getvalue()

"""The client of the Hub, and its exceptions as errors of this project, none of which contains a token."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from rewardharness import __version__
from rewardharness.errors import HarnessError, MissingPackageError, shell, shown
from rewardharness.leaks import masked

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from rewardharness.hub.repository import Access

Kind = Literal["model", "dataset", "space"]
"""Type of a repository. Libraries are stored in `model` repositories."""

CLIENT: Mapping[str, Any] = {"library_name": "rewardharness", "library_version": __version__}
_FORBIDDEN = frozenset({402, 403})
_HINTS = {
    "model": "See the versions with: rh library versions {}",
    "dataset": "Choose a branch, tag or commit of the dataset.",
    "space": "Choose a branch, tag or commit of the Space.",
}


class HubError(HarnessError):
    """The Hub refused a request, or could not be reached.

    Args:
        message: One sentence.
        next_step: What to do about it.
        status: The HTTP status, if there was one.
    """

    title = "Hub error"

    def __init__(self, message: str, *, next_step: str = "", status: int | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status


class UnreachableError(HubError):
    """The Hub is unreachable, or the connection broke. The request may have taken effect."""


class MissingRepoError(HubError):
    """The repository does not exist, or the token cannot see it."""


class MissingRevisionError(HubError):
    """The repository has no such revision."""


@dataclass(frozen=True)
class Context:
    """The request that an error is about."""

    repo: str
    kind: Kind
    page: str
    """URL of the repository's page."""
    action: str
    """As in `download org/name`."""
    revision: str = ""
    secret: str | None = None
    """The token, which is masked in messages."""


@contextmanager
def translated(context: Context) -> Iterator[None]:
    """Translate exceptions of the client in the block to `HubError`."""
    http_error = _http_error()
    try:
        yield
    except HarnessError:
        raise
    except (http_error, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        if type(error) in {OSError, PermissionError} and getattr(error, "errno", None):
            raise  # the cache is not writable, or the disk is full
        raise _translate(error, context) from None


def require_client(extra: str, purpose: str) -> None:
    """Check that `huggingface_hub` is installed.

    Raises:
        MissingPackageError: If it is not.
    """
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise MissingPackageError("huggingface_hub", extra, purpose) from None


def client(access: "Access", extra: str = "hub", purpose: str = "Libraries on the Hub") -> "HfApi":
    """Return the client for a Hub.

    Args:
        access: How the Hub is reached.
        extra: The extra of this package that installs the client.
        purpose: What it is needed for.

    Raises:
        MissingPackageError: If it is not installed.
    """
    require_client(extra, purpose)
    from huggingface_hub import HfApi

    return HfApi(endpoint=(access.endpoint or "").rstrip("/") or None, token=access.token, **CLIENT)


def _http_error() -> type[Exception]:
    """Return the base error of the HTTP package that the client uses."""
    return cast(type[Exception], import_module("huggingface_hub.utils").httpx.HTTPError)


def _translate(error: BaseException, context: Context) -> HubError:
    from huggingface_hub import errors

    name, http_error = context.repo, _http_error()
    login = "Log in with `hf auth login`, or set HF_TOKEN."
    if isinstance(error, errors.GatedRepoError):
        step = f"Request access on {context.page}. {login}"
        return HubError(f"{name} is gated: its owner decides who may read it.", next_step=step, status=403)
    if isinstance(error, errors.RepositoryNotFoundError):
        what = f"{context.kind} {name}" if context.kind != "model" else name
        message = f"There is no {what} on the Hub, or it is private and the token cannot see it."
        return MissingRepoError(message, next_step=f"Check the name. For a private one: {login}", status=404)
    if isinstance(error, errors.RevisionNotFoundError):
        message = f"{name} has no revision {shown(context.revision)!r}."
        return MissingRevisionError(message, next_step=shell(_HINTS[context.kind], name), status=404)
    if isinstance(error, errors.HfHubHTTPError):
        return _translate_status(error.response.status_code, error.server_message or "", context)
    if isinstance(error, ValueError) and str(error).startswith("Invalid metadata in README.md"):
        reason = shown(masked(str(error).partition("\n")[2].removeprefix("- "), context.secret), 200)
        return HubError(f"The Hub rejects the header of the card: {reason}", next_step="Correct README.md.")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return UnreachableError("HF_HUB_OFFLINE is set, so the Hub is not contacted.", next_step="Unset it.")
    if isinstance(error.__cause__, (errors.HfHubHTTPError, http_error)):
        return _translate(error.__cause__, context)
    message, step = "The Hub sent an invalid answer", "Check HF_ENDPOINT if it is set, or try again later."
    if isinstance(error, (http_error, OSError)):
        message = "The Hub is unreachable, or the connection broke"
        step = "Check the network, then run the same command again; complete files are not downloaded twice."
    return UnreachableError(f"{message} (while trying to {context.action}).", next_step=step)


def _translate_status(status: int, said: str, context: Context) -> HubError:
    action = context.action
    if status >= 500:
        message = f"The Hub failed with status {status} (while trying to {action})."
        return UnreachableError(message, next_step="Run the same command again later.", status=status)
    if status == 401:
        step = "Log in again with `hf auth login`, or set HF_TOKEN to a valid token."
        return HubError("The Hub does not accept the token.", next_step=step, status=status)
    if status == 429:
        step = "Wait a few minutes and run the same command again."
        return UnreachableError("The Hub's rate limit is exceeded.", next_step=step, status=status)
    # What a server writes about a dataset repository is not repeated.
    said = "" if context.kind == "dataset" else shown(masked(" ".join(said.split()), context.secret), 200)
    reason = f" The Hub says: {said}" if said else ""
    if status not in _FORBIDDEN:
        return HubError(f"The Hub refuses to {action} (status {status}).{reason}", status=status)
    step = "Use a token with write access, or propose the change: rh push-library --create-pr"
    if action.startswith("create"):
        step = "Choose a name in your own namespace, or use a token that may create repositories there."
        step += " Spaces that run code need a plan that includes them." if context.kind == "space" else ""
    elif context.kind != "model":
        step = "Use a token with write access, or choose a name in your own namespace."
    return HubError(f"The token may not {action}.{reason}", next_step=step, status=status)

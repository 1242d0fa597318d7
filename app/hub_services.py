"""Operations of the tabs on the Hugging Face Hub: load a Library, compare its versions, publish one.

The visitor determines the rights. On this computer its token is used. Other visitors use their own token or none, and
never the token of the app's owner.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from rewardharness.errors import InputError, LibraryError, shown
from rewardharness.hub.repository import Repo
from rewardharness.library.hub import (
    Access,
    Pulled,
    Pushed,
    PushOptions,
    pull,
    push,
    restoration,
    split_spec,
    usual_access,
)
from rewardharness.library.outgoing import Draft
from rewardharness.library.store import Library
from rewardharness.settings import Settings


class RightsError(InputError):
    """A visitor lacks the required rights."""

    title = "Insufficient rights"


@dataclass(frozen=True)
class Visitor:
    """The signed-in user, or an anonymous visitor."""

    name: str = ""
    """Name on the Hub; empty if anonymous."""
    token: str = field(default="", repr=False)
    """Their token; empty if anonymous. Never stored."""


ANONYMOUS = Visitor()
"""A visitor without a login."""


@dataclass(frozen=True)
class Loaded:
    """A Library that a visitor has loaded from the Hub; later versions do not change it."""

    spec: str
    """The requested spec, as in `org/name@v1.2.0`."""
    pulled: Pulled

    @property
    def library(self) -> Library:
        """The Library."""
        return self.pulled.library

    @property
    def name(self) -> str:
        """Repository, and version or commit."""
        return f"{self.pulled.repo}@{self.pulled.version or self.pulled.commit[:7]}"


@dataclass(frozen=True)
class Order:
    """What to publish, where, and with which options."""

    source: Library | Path | Draft
    repo: str
    how: PushOptions


@dataclass(frozen=True)
class Preview:
    """An order and the result of its dry run."""

    order: Order
    pushed: Pushed


class HubServices:
    """The Hub for visitors of the app. Holds no state of visitors in memory.

    Args:
        settings: The settings.
        scratch: A private folder for downloads of visitors of a public app.
        local: Whether visitors use this computer.
    """

    def __init__(self, settings: Settings, scratch: Path, *, local: bool) -> None:
        self._usual = usual_access(settings)
        self._caches = scratch / "hub"
        self.local = local
        self.with_login = settings.space and settings.login and not local

    @property
    def may_publish(self) -> bool:
        """Whether visitors can publish: on this computer, or where they can log in."""
        return self.local or self.with_login

    def access(self, visitor: Visitor) -> Access:
        """Return the access of a visitor to the Hub."""
        if self.local:
            return self._usual
        # A cache per token: a private copy must not be readable with another token, or without one.
        whose = sha256(visitor.token.encode("utf-8")).hexdigest()[:32] if visitor.token else "anonymous"
        return replace(self._usual, token=visitor.token or False, cache=self._caches / whose)

    def load(self, spec: str, visitor: Visitor) -> Loaded:
        """Fetch a Library.

        Args:
            spec: `org/name`, `org/name@revision`, or the address of its page on the Hub.
            visitor: The visitor.

        Raises:
            HarnessError: If it cannot be fetched or is invalid.
        """
        spec = spec.strip()
        if not spec:
            raise InputError(
                "The name of the Library is missing.", next_step="Enter org/name, or org/name@v1.0.0 for a version."
            )
        found = split_spec(spec)
        if found is None:
            step = "Enter org/name, org/name@v1.0.0 for a version, or the address of its page."
            raise InputError(f"{shown(spec)!r} is not the name of a Library on the Hub.", next_step=step)
        return Loaded(spec, pull(*found, access=self.access(visitor)))

    def page(self, repo: str) -> str:
        """Return the address of a Library's page on the Hub."""
        return Repo(repo, self._usual).page

    def two(self, repo: str, before: str, after: str, visitor: Visitor) -> tuple[Library, Library]:
        """Fetch two versions of a Library."""
        if not before or not after:
            raise InputError("Two versions are needed.", next_step="Choose one in each list.")
        access = self.access(visitor)
        return pull(repo, before, access=access).library, pull(repo, after, access=access).library

    def restoration(self, repo: str, version: str, how: PushOptions, visitor: Visitor) -> Order:
        """Return the order that publishes an old version again."""
        if not repo or not version:
            raise InputError("No version is chosen.", next_step="List the versions, then choose one.")
        draft, how = restoration(repo, version, how, access=self.access(visitor))
        return Order(draft, repo, how)

    def preview(self, order: Order, visitor: Visitor) -> Preview:
        """Return what publishing would do; nothing is written.

        Raises:
            HarnessError: If it fails, for example because of a newer version.
        """
        self._check(order, visitor)
        how = replace(order.how, dry_run=True)
        return Preview(order, push(order.source, order.repo, how, access=self.access(visitor)))

    def publish(self, preview: Preview, visitor: Visitor) -> Pushed:
        """Execute exactly the previewed order.

        Raises:
            HarnessError: If it is no longer possible. Nothing is changed.
        """
        order, promised = preview.order, preview.pushed
        self._check(order, visitor)
        again = self.preview(order, visitor).pushed
        expected = (promised.version, promised.changes, promised.library.id, promised.diffs)
        if (again.version, again.changes, again.library.id, again.diffs) != expected:
            message = "The content has changed since the preview. Nothing was published."
            raise LibraryError(message, next_step="Preview again, then publish.")
        return push(order.source, order.repo, order.how, access=self.access(visitor))

    def _check(self, order: Order, visitor: Visitor) -> None:
        """Check that a visitor publishes under their own name."""
        if not self.may_publish:
            step = "Use the app on your own computer, or in a Hugging Face Space where you can log in."
            raise RightsError("Login is not available here, so nothing can be published.", next_step=step)
        if self.local:
            return
        if not visitor.token or not visitor.name:
            raise RightsError("You are not logged in.", next_step="Log in with the button above, then try again.")
        if isinstance(order.source, Path):
            raise RightsError("Folders can be published only on the computer that the app runs on.")
        if order.repo.partition("/")[0].casefold() != visitor.name.casefold() and not order.how.create_pr:
            step = f"Publish to {visitor.name}/…, or tick the pull request to propose it to its owner."
            raise RightsError(f"{shown(order.repo)} does not belong to {visitor.name}.", next_step=step)

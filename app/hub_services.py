"""What the tabs can do on the Hugging Face Hub: load a Library, list its versions, publish one.

Who asks decides what is allowed. At this computer the token of this computer is used. Everybody else acts with their
own token or with none; the token of whoever runs the app is never lent to a visitor.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from rewardharness.errors import InputError, LibraryError, shown
from rewardharness.library.hub import (
    Access,
    PublishedVersion,
    Pulled,
    Pushed,
    PushOptions,
    pull,
    push,
    restoration,
    split_spec,
    usual_access,
    versions,
)
from rewardharness.library.outgoing import Draft
from rewardharness.library.store import Library
from rewardharness.settings import Settings


class RightsError(InputError):
    """A visitor asks for what only somebody else may do."""

    title = "This needs other rights"


@dataclass(frozen=True)
class Visitor:
    """Who asks, as the login says."""

    name: str = ""
    """Name on the Hub; empty for nobody."""
    token: str = field(default="", repr=False)
    """Their token; empty for nobody. Never kept."""


NOBODY = Visitor()
"""A visitor who has not logged in."""


@dataclass(frozen=True)
class Loaded:
    """A Library that a visitor has loaded from the Hub. It stays what it is, whatever is published later."""

    spec: str
    """What was asked for, as in `org/name@v1.2.0`."""
    pulled: Pulled

    @property
    def library(self) -> Library:
        """The Library."""
        return self.pulled.library

    @property
    def name(self) -> str:
        """What to call it: repository, and version or commit."""
        return f"{self.pulled.repo}@{self.pulled.version or self.pulled.commit[:7]}"


@dataclass(frozen=True)
class Order:
    """What a visitor wants to publish, and how."""

    source: Library | Path | Draft
    repo: str
    how: PushOptions


@dataclass(frozen=True)
class Preview:
    """An order, and what it would do. Nothing has been written."""

    order: Order
    found: Pushed


class HubServices:
    """The Hub as visitors of the app may use it. Holds nothing of any visitor in memory.

    Args:
        settings: The settings.
        scratch: A private folder, for copies that were fetched for strangers.
        local: Whether visitors sit at this computer.
    """

    def __init__(self, settings: Settings, scratch: Path, *, local: bool) -> None:
        self._usual = usual_access(settings)
        self._caches = scratch / "hub"
        self.local = local
        self.with_login = settings.space and settings.login and not local

    @property
    def may_publish(self) -> bool:
        """Whether anybody can publish from here: at this computer, or where visitors can log in."""
        return self.local or self.with_login

    def access(self, visitor: Visitor) -> Access:
        """How a visitor reaches the Hub."""
        if self.local:
            return self._usual
        # A cache of their own: a copy that one token may read must not reach those who hold another, or none.
        whose = sha256(visitor.token.encode("utf-8")).hexdigest()[:32] if visitor.token else "nobody"
        return replace(self._usual, token=visitor.token or False, cache=self._caches / whose)

    def load(self, spec: str, visitor: Visitor) -> Loaded:
        """Fetch a Library.

        Args:
            spec: `org/name`, `org/name@revision`, or the address of its page on the Hub.
            visitor: Who asks.

        Raises:
            HarnessError: If it cannot be fetched, or breaks the format.
        """
        spec = spec.strip()
        if not spec:
            raise InputError("No Library is named.", next_step="Type org/name, or org/name@v1.0.0 for a version.")
        found = split_spec(spec)
        if found is None:
            step = "Write it as org/name, as org/name@v1.0.0 for a version, or paste the address of its page."
            raise InputError(f"{shown(spec)!r} is not the name of a Library on the Hub.", next_step=step)
        return Loaded(spec, pull(*found, access=self.access(visitor)))

    def versions(self, repo: str, visitor: Visitor) -> tuple[PublishedVersion, ...]:
        """List the versions of a Library, newest first."""
        return versions(repo, access=self.access(visitor))

    def two(self, repo: str, before: str, after: str, visitor: Visitor) -> tuple[Library, Library]:
        """Fetch two versions of a Library."""
        if not before or not after:
            raise InputError("Two versions are needed.", next_step="Choose one in each list.")
        access = self.access(visitor)
        return pull(repo, before, access=access).library, pull(repo, after, access=access).library

    def restoration(self, repo: str, version: str, how: PushOptions, visitor: Visitor) -> Order:
        """Put together what publishing an old version once more means."""
        if not repo or not version:
            raise InputError("No version is chosen.", next_step="List the versions, then choose one.")
        draft, how = restoration(repo, version, how, access=self.access(visitor))
        return Order(draft, repo, how)

    def preview(self, order: Order, visitor: Visitor) -> Preview:
        """Tell what publishing would do; nothing is written.

        Raises:
            HarnessError: If it cannot be done, as when others have pushed meanwhile.
        """
        self._check(order, visitor)
        how = replace(order.how, dry_run=True)
        return Preview(order, push(order.source, order.repo, how, access=self.access(visitor)))

    def publish(self, preview: Preview, visitor: Visitor) -> Pushed:
        """Do what a preview told, and nothing else.

        Raises:
            HarnessError: If it cannot be done any more. Nothing is changed then.
        """
        order, promised = preview.order, preview.found
        self._check(order, visitor)
        again = self.preview(order, visitor).found
        told = (promised.version, promised.changes, promised.library.id, promised.diffs)
        if (again.version, again.changes, again.library.id, again.diffs) != told:
            message = "What would be published is no longer what the preview showed. Nothing was published."
            raise LibraryError(message, next_step="Look at a new preview, then publish.")
        return push(order.source, order.repo, order.how, access=self.access(visitor))

    def _check(self, order: Order, visitor: Visitor) -> None:
        """Make sure that a visitor publishes in their own name."""
        if not self.may_publish:
            step = "Use the app on your own computer, or in a Hugging Face Space where you can log in."
            raise RightsError("Nobody can be logged in here, so nothing can be published from here.", next_step=step)
        if self.local:
            return
        if not visitor.token or not visitor.name:
            raise RightsError("You are not logged in.", next_step="Log in with the button above, then try again.")
        if isinstance(order.source, Path):
            raise RightsError("Folders can be published only on the computer that the app runs on.")
        if order.repo.partition("/")[0].casefold() != visitor.name.casefold() and not order.how.create_pr:
            step = f"Publish to {visitor.name}/…, or tick the pull request to propose it to its owner."
            raise RightsError(f"{shown(order.repo)} does not belong to {visitor.name}.", next_step=step)

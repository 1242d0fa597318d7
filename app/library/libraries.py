"""The Libraries that a visitor can choose, and the Hugging Face Hub: load one, compare its versions, publish one.

The visitor determines the rights. On this computer its token is used. Other visitors use their own token or none, and
never the token of the app's owner.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path
from tempfile import TemporaryDirectory

from app.benchmark.runs import library_name
from app.score.releases import RELEASE, Fixed
from rewardharness.errors import HarnessError, InputError, LibraryError, shown
from rewardharness.files import user_path
from rewardharness.hub.repository import Repo
from rewardharness.library.card import CardSubject, make_card
from rewardharness.library.check import check_folder
from rewardharness.library.hub import (
    Access,
    ListedLibrary,
    Pulled,
    Pushed,
    PushOptions,
    UnreachableError,
    pull,
    push,
    restoration,
    search_libraries,
    split_spec,
    usual_access,
)
from rewardharness.library.hub_files import Upload, read_draft
from rewardharness.library.opening import open_library
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.settings import Settings

SEARCH_SECONDS = 5.0
"""Seconds for which the gallery waits for the Hub, whose client would try for longer."""


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
    owner: str = ""
    """Pseudonym of the address that they come from; empty on the user's own computer."""


ANONYMOUS = Visitor()
"""A visitor without a login."""


@dataclass(frozen=True)
class Loaded:
    """A Library that a visitor has loaded from the Hub; later versions do not change it."""

    spec: str
    """The requested spec, as in `org/name@v1.2.0`."""
    pulled: Pulled

    @cached_property
    def library(self) -> Library:
        """The Library, which knows where it was loaded from."""
        return replace(self.pulled.library, origin=(self.pulled.repo, self.pulled.commit))

    @property
    def name(self) -> str:
        """Repository, and version or commit."""
        return f"{self.pulled.repo}@{self.pulled.version or self.pulled.commit[:7]}"


@dataclass(frozen=True)
class Order:
    """What to publish, where, and with which options."""

    source: Library | Path | Upload
    repo: str
    how: PushOptions

    @classmethod
    def on_its_base(cls, source: Library | Path, repo: str, options: PushOptions) -> "Order":
        """Return an order; the base of a Library is its commit in the repository that it was loaded from."""
        origin = source.origin if isinstance(source, Library) else None
        return cls(source, repo, replace(options, base=origin[1]) if origin and origin[0] == repo else options)


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
        self.may_publish = local or self.with_login
        """Whether visitors can publish: on this computer, or where they can log in."""
        self._searches = ThreadPoolExecutor(4, "gallery")
        self._gallery: dict[str, tuple[ListedLibrary, ...]] = {}  # last answers by query, on this computer only

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
        location = split_spec(spec) if spec else None
        if location is None:
            problem = f"{shown(spec)!r} is not the name of a Library on the Hub."
            step = "Enter org/name, org/name@v1.0.0 for a version, or the address of its page."
            raise InputError(problem if spec else "The name of the Library is missing.", next_step=step)
        return Loaded(spec, pull(*location, access=self.access(visitor)))

    def search(self, query: str, visitor: Visitor) -> tuple[tuple[ListedLibrary, ...], bool]:
        """Return the Libraries on the Hub that match a query, and whether this is an earlier answer.

        Raises:
            HarnessError: If the Hub refuses, or does not answer in time and has not before.
        """
        waiting = self._searches.submit(search_libraries, query, access=self.access(visitor))
        try:
            libraries = waiting.result(SEARCH_SECONDS)
        except (TimeoutError, UnreachableError):
            waiting.cancel()
            if query in self._gallery:
                return self._gallery[query], True
            raise UnreachableError(f"The Hub did not answer within {SEARCH_SECONDS:g} seconds.") from None
        self._gallery |= {query: libraries} if self.local else {}
        return libraries, False

    def page(self, repo: str) -> str:
        """Return the address of a Library's page on the Hub."""
        return Repo(repo, self._usual).page

    def two(self, repo: str, before: str, after: str, visitor: Visitor) -> tuple[Library, Library]:
        """Fetch two versions of a Library."""
        if not before or not after:
            raise InputError("Two versions are needed.", next_step="Choose one in each list.")
        access = self.access(visitor)
        return pull(repo, before, access=access).library, pull(repo, after, access=access).library

    def restoration(self, repo: str, version: str, options: PushOptions, visitor: Visitor) -> Order:
        """Return the order that publishes an old version again."""
        if not repo or not version:
            raise InputError("No version is chosen.", next_step="List the versions, then choose one.")
        draft, options = restoration(repo, version, options, access=self.access(visitor))
        return Order(draft, repo, options)

    def preview(self, order: Order, visitor: Visitor) -> Preview:
        """Return what publishing would do; nothing is written.

        Raises:
            HarnessError: If it fails, for example because of a newer version.
        """
        self._check(order, visitor)
        options = replace(order.how, dry_run=True)
        return Preview(order, push(order.source, order.repo, options, access=self.access(visitor)))

    def publish(self, preview: Preview, visitor: Visitor) -> Pushed:
        """Execute exactly the previewed order.

        Raises:
            HarnessError: If it is no longer possible. Nothing is changed.
        """
        order = preview.order
        again, promised = (
            (outcome.version, outcome.changes, outcome.library_id, outcome.diffs)
            for outcome in (self.preview(order, visitor).pushed, preview.pushed)
        )
        if again != promised:
            message = "The content has changed since the preview. Nothing was published."
            raise LibraryError(message, next_step="Preview again, then publish.")
        return push(order.source, order.repo, order.how, access=self.access(visitor))

    def _check(self, order: Order, visitor: Visitor) -> None:
        """Check that a visitor may publish this where they want to."""
        if not self.local and isinstance(order.source, Path):
            raise RightsError("Folders can be published only on the computer that the app runs on.")
        self.check_rights(order.repo, visitor, proposed=order.how.create_pr)

    def check_rights(self, repo: str, visitor: Visitor, *, proposed: bool = False) -> None:
        """Check that a visitor publishes under their own name, or proposes it to the owner.

        Raises:
            RightsError: If they do not.
        """
        if not self.may_publish:
            step = "Use the app on your own computer, or in a Hugging Face Space where you can log in."
            raise RightsError("Login is not available here, so nothing can be published.", next_step=step)
        if self.local:
            return
        if not visitor.token or not visitor.name:
            raise RightsError("You are not logged in.", next_step="Log in with the button above, then try again.")
        if repo.partition("/")[0].casefold() != visitor.name.casefold() and not proposed:
            step = f"Publish to {visitor.name}/…, or tick the pull request, where there is one, to propose it."
            raise RightsError(f"{shown(repo)} does not belong to {visitor.name}.", next_step=step)


BUILTIN = "builtin"
"""Choice of the built-in Library."""

DEFAULT = "default"
"""Choice of the Library in the settings."""

FOLDER = "folder"
"""Choice of a folder on this computer."""

HUB = "hub"
"""Choice of a Library that was loaded from the Hugging Face Hub."""


@dataclass(frozen=True)
class Choice:
    """The choice of a Library."""

    kind: str = BUILTIN
    """`BUILTIN`, `DEFAULT`, `FOLDER`, `HUB` or `RELEASE`."""
    folder: str = ""
    """The path, as typed; only for `FOLDER`."""
    spec: str = ""
    """`org/name` or `org/name@revision`, as typed; only for `HUB`."""
    loaded: Loaded | None = None
    """The Library loaded from the Hub."""

    def __post_init__(self) -> None:
        for name in ("folder", "spec"):  # an untouched field holds None
            object.__setattr__(self, name, getattr(self, name) or "")

    @property
    def is_pending(self) -> bool:
        """Whether a folder is still to be entered, or a Library still to be loaded."""
        return (self.kind == FOLDER and not self.folder.strip()) or (self.kind == HUB and self.loaded is None)


class Libraries:
    """The Libraries of an app. Holds no state of visitors.

    Args:
        settings: The settings.
        fixed: The release that the app is fixed to, if any.
        local: Whether visitors use this computer. Only then are folder names accepted.
    """

    def __init__(self, settings: Settings, fixed: Fixed | None, *, local: bool) -> None:
        self._settings = settings
        self._fixed = fixed
        self._local = local
        self._default: Library | None = None
        self.home = settings.home / "libraries"
        """Folder of the copies that were saved in the app."""

    def saved(self) -> list[tuple[str, str]]:
        """Return name and folder of each saved copy; none for visitors who do not use this computer."""
        files = sorted(self.home.glob("*/registry.json")) if self._local else []
        return [(path.parent.name, str(path.parent)) for path in files]

    def choices(self) -> list[tuple[str, str]]:
        """Return label and kind of each Library that a visitor can choose. The first is the default."""
        choices = [("Built-in", BUILTIN)]
        if self._settings.library != BUILTIN:
            name = self._own_name(Choice(DEFAULT)) or library_name(self._settings.library)
            choices.insert(0, (f"From RH_LIBRARY: {name}", DEFAULT))
        choices.append(("From the Hugging Face Hub", HUB))
        if self._local:
            choices.append(("A folder on this computer", FOLDER))
        return choices

    def name(self, choice: Choice) -> str:
        """Return the name of a Library: its own, or that of its folder. Foreign text."""
        if choice.kind == BUILTIN:
            return "the built-in Library"
        if choice.kind == HUB:
            return f"the Library {self._loaded(choice).name!r}"
        if choice.kind == RELEASE:
            return f"the Library of {self._pinned().name}"
        return f"the Library {(self._own_name(choice) or library_name(self._spec(choice)))!r}"

    def label(self, choice: Choice) -> str:
        """Return the label of a Library in the choice. Foreign text."""
        try:
            name = self.name(choice)
        except HarnessError:
            return "none chosen yet"
        return "built-in" if choice.kind == BUILTIN else name.removeprefix("the Library ")

    def _own_name(self, choice: Choice) -> str:
        """Return the own name of the Library in a folder; empty if it has none or cannot be opened."""
        with suppress(HarnessError):
            return self.open(choice).name if user_path(self._spec(choice)).is_dir() else ""
        return ""

    def _loaded(self, choice: Choice) -> Loaded:
        wanted, loaded = choice.spec.strip(), choice.loaded
        if loaded is None or loaded.spec != wanted:
            missing = "The name of the Library on the Hub is missing."
            message = f"{shown(wanted)} is not loaded yet." if wanted else missing
            raise InputError(message, next_step="Enter its name, for example org/name@v1.0.0, and press Load.")
        return loaded

    def _pinned(self) -> Fixed:
        if self._fixed is None:
            raise InputError("This app is not fixed to a release.", next_step="Choose another Library.")
        return self._fixed

    def _spec(self, choice: Choice) -> str:
        if choice.kind == BUILTIN:
            return BUILTIN
        if choice.kind == DEFAULT:
            return self._settings.library
        if not self._local:
            raise InputError("Folders can be chosen only on the computer that runs the app.")
        if not choice.folder.strip():
            raise InputError("The folder is missing.", next_step="Enter the path of a Library's folder.")
        return str(user_path(choice.folder.strip()).absolute())

    def spelled(self, choice: Choice) -> str:
        """Return the spec of a Library for the command line. A Library on the Hub is pinned to its commit.

        Raises:
            InputError: If the choice is incomplete.
        """
        if choice.kind == HUB:
            pulled = self._loaded(choice).pulled
            return f"{pulled.repo}@{pulled.commit}"
        return self._spec(choice)

    def open(self, choice: Choice) -> Library:
        """Open a Library.

        Raises:
            HarnessError: If it does not exist or is invalid.
        """
        if choice.kind == HUB:
            return self._loaded(choice).library
        if choice.kind == RELEASE:
            return self._pinned().library
        spec = self._spec(choice)
        if choice.kind == FOLDER:  # a visitor enters a folder, even if it looks like another spec
            return Library.load(spec)
        if choice.kind == BUILTIN or user_path(spec).exists():
            return open_library(spec)
        # On the Hub: fetched once, so that all visitors judge with the same Library until a restart.
        if self._default is None:
            self._default = open_library(spec)
        return self._default

    def card(self, choice: Choice) -> str:
        """Return the card of a Library: as published, as stored in the folder, or as a push would write it."""
        if choice.kind == HUB:
            return self._loaded(choice).pulled.card
        library = self.open(choice)
        folder = user_path(self._spec(choice)) if choice.kind not in {BUILTIN, RELEASE} else None
        draft = read_draft(folder) if folder is not None and folder.exists() else None
        if draft is not None and draft.card is not None:
            return draft.card
        return make_card(CardSubject(library, "your-name/your-library"))

    def publishable(self, choice: Choice) -> Library | Path:
        """What a push of a Library takes: its folder, which remembers what was published, or else the Library."""
        library = self.open(choice)
        return Path(self._spec(choice)) if choice.kind == FOLDER else library

    def check(self, choice: Choice) -> tuple[Problem, ...]:
        """Check a Library's folder."""
        nowhere = choice.kind == DEFAULT and not user_path(self._spec(choice)).exists()
        if nowhere or choice.kind in {HUB, RELEASE}:
            with TemporaryDirectory(prefix="rh-check-") as scratch:
                self.open(choice).save(Path(scratch) / "library")
                return check_folder(Path(scratch) / "library", MEASURES)
        spec = self._spec(choice)
        if spec != BUILTIN:
            return check_folder(user_path(spec), MEASURES)
        with as_file(resources("rewardharness.library").joinpath(BUILTIN)) as folder:
            return check_folder(folder, MEASURES)

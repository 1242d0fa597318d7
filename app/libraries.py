"""The Libraries that a visitor can choose: names, opening and checks."""

from dataclasses import dataclass
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path
from tempfile import TemporaryDirectory

from app.benchmark_runs import library_name
from app.hub_services import Loaded
from app.releases import RELEASE, Fixed
from rewardharness.errors import HarnessError, InputError, shown
from rewardharness.library.card import CardSubject, make_card
from rewardharness.library.check import check_folder
from rewardharness.library.opening import open_library
from rewardharness.library.outgoing import read_draft
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.settings import Settings

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

    def choices(self) -> list[tuple[str, str]]:
        """Return label and kind of each Library that a visitor can choose. The first is the default."""
        found = [("Built-in", BUILTIN)]
        if self._settings.library != BUILTIN:
            found.insert(
                0,
                (
                    f"From RH_LIBRARY: {self._own_name(Choice(DEFAULT)) or library_name(self._settings.library)}",
                    DEFAULT,
                ),
            )
        found.append(("From the Hugging Face Hub", HUB))
        if self._local:
            found.append(("A folder on this computer", FOLDER))
        return found

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
        if not Path(self._spec(choice)).expanduser().is_dir():
            return ""
        try:
            return self.open(choice).name
        except HarnessError:
            return ""

    def _loaded(self, choice: Choice) -> Loaded:
        wanted, loaded = (choice.spec or "").strip(), choice.loaded
        if loaded is None or loaded.spec != wanted:
            message = (
                f"{shown(wanted)} is not loaded yet." if wanted else "The name of the Library on the Hub is missing."
            )
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
        if not (choice.folder or "").strip():  # an untouched field holds None
            raise InputError("The folder is missing.", next_step="Enter the path of a Library's folder.")
        return str(Path(choice.folder.strip()).expanduser().absolute())

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
        if choice.kind == BUILTIN or Path(spec).expanduser().exists():
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
        folder = Path(self._spec(choice)).expanduser() if choice.kind not in {BUILTIN, RELEASE} else None
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
        nowhere = choice.kind == DEFAULT and not Path(self._spec(choice)).expanduser().exists()
        if nowhere or choice.kind in {HUB, RELEASE}:
            with TemporaryDirectory(prefix="rh-check-") as scratch:
                self.open(choice).save(Path(scratch) / "library")
                return check_folder(Path(scratch) / "library", MEASURES)
        spec = self._spec(choice)
        if spec != BUILTIN:
            return check_folder(Path(spec).expanduser(), MEASURES)
        with as_file(resources("rewardharness.library").joinpath(BUILTIN)) as folder:
            return check_folder(folder, MEASURES)

"""Opens a dataset by what a user calls it. The single door for everyone who asks for examples."""

from collections.abc import Callable
from pathlib import Path

from rewardharness.data.folder import read_folder
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError
from rewardharness.settings import Settings

DEMO = "demo"
"""Spelling of the demonstration set, drawn once into `RH_HOME`."""

FEEDBACK = "feedback"
"""Spelling of what people said in the app."""

DEMO_PAIRS = 100
"""Pairs of the demonstration set that is drawn by this name."""

Progress = Callable[[str, int, int], None]
"""Told how long work goes on: what is being done, steps done, steps in all."""


def open_data(spec: str, settings: Settings, *, progress: Progress | None = None) -> Dataset:
    """Open a dataset by what a user calls it.

    Args:
        spec: `demo` for the demonstration set, which is drawn when it is not there yet; `feedback` for what people
            said in the app; or a folder as `read_folder` reads it.
        settings: Where this project's own data lie.
        progress: Told how the work goes on, where it takes long.

    Returns:
        The dataset, with what is odd about it in `problems`.

    Raises:
        DataError: If there is no such dataset, or it cannot be read.
        MissingPackageError: If a package that is needed to draw the demonstration set is not installed.
    """
    if spec == FEEDBACK:
        return read_folder(settings.feedback)
    if spec == DEMO:
        return _open_demo(settings.home / "data" / f"demo-{DEMO_PAIRS}", progress)
    return read_folder(Path(spec).expanduser())


def _open_demo(folder: Path, progress: Progress | None) -> Dataset:
    try:
        return read_folder(folder)
    except DataError:  # not there, or left unfinished
        from rewardharness.data.demo import make_demo

        def drawn(done: int, total: int) -> None:
            if progress is not None:
                progress("drawing", done, total)

        return make_demo(folder, pairs=DEMO_PAIRS, groups=0, progress=drawn)

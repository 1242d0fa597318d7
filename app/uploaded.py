"""Uploads that the page names."""

from pathlib import Path

from gradio.utils import get_upload_folder

from rewardharness.schema import Json


def uploaded(image: Json | None) -> str | None:
    """Return the path of an upload that the page names; None for anything else, such as another file.

    Args:
        image: The value of an image field as the page sends it.
    """
    path = Path(str(image.get("path"))).resolve() if image else None
    folder = Path(get_upload_folder()).resolve()
    return str(path) if path is not None and path.is_relative_to(folder) and path.is_file() else None

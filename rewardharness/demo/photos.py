"""Photographs and textures of the installed scikit-image package, without downloads."""

from functools import lru_cache
from importlib import resources
from importlib.util import find_spec

import cv2
import numpy as np
from numpy.typing import NDArray

from rewardharness.demo.paint import Image
from rewardharness.errors import DataError, MissingPackageError

SIDE = 512
"""Side of the images of the demo dataset, in pixels."""

PHOTOS: dict[str, tuple[str, tuple[float, float, float]]] = {
    "astronaut": ("astronaut.png", (0.5, 0.5, 1.0)),
    "cat": ("chelsea.png", (0.42, 0.5, 1.0)),
    "coffee": ("coffee.png", (0.44, 0.5, 1.0)),
    "coins": ("coins.png", (0.5, 0.5, 1.0)),
    "motorcycle": ("motorcycle_left.png", (0.5, 0.5, 1.0)),
    "photographer": ("camera.png", (0.5, 0.5, 1.0)),
    "rocket": ("rocket.jpg", (0.52, 0.5, 1.0)),
    "stars": ("hubble_deep_field.jpg", (0.5, 0.5, 1.0)),
}
"""Photographs: file, and the square crop as center (x, y) and relative side."""


@lru_cache(maxsize=16)
def photo(name: str) -> NDArray[np.uint8]:
    """Return a square 8-bit RGB photograph. Cached; copy before writing.

    Raises:
        MissingPackageError: If scikit-image is not installed.
        DataError: If the installed scikit-image does not contain the file.
    """
    file, (x, y, share) = PHOTOS[name]
    image = _read(file, cv2.IMREAD_COLOR)
    height, width = image.shape[:2]
    side = round(min(height, width) * share)
    left = min(max(0, round(width * x - side / 2)), width - side)
    top = min(max(0, round(height * y - side / 2)), height - side)
    cut = image[top : top + side, left : left + side, ::-1]
    method = cv2.INTER_AREA if side > SIDE else cv2.INTER_CUBIC
    return np.ascontiguousarray(cv2.resize(cut, (SIDE, SIDE), interpolation=method))


@lru_cache(maxsize=8)
def surface(name: str) -> Image:
    """Return a photographed texture (`grass`, `gravel`, `brick`) with one channel and mean 1.

    Raises:
        MissingPackageError: If scikit-image is not installed.
        DataError: If the installed scikit-image does not contain the file.
    """
    gray = _read(f"{name}.png", cv2.IMREAD_GRAYSCALE).astype(np.float32)
    if name == "brick":
        gray = np.ascontiguousarray(np.rot90(gray))
    even: Image = gray / np.maximum(cv2.GaussianBlur(gray, (0, 0), 60), 1)
    result: Image = even / even.mean()
    return result


def _read(file: str, mode: int) -> NDArray[np.uint8]:
    if find_spec("skimage") is None:
        raise MissingPackageError("scikit-image", "data", "the photographs of the demo dataset")
    try:
        data = (resources.files("skimage") / "data" / file).read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"The installed scikit-image does not contain {file}.", next_step="Install scikit-image 0.25 or 0.26."
        ) from None
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), mode)
    if image is None:
        raise DataError(f"{file} of scikit-image cannot be read.", next_step="Install scikit-image again.")
    return np.asarray(image, dtype=np.uint8)

"""Images as pages show them: read within the limits of the judges, and scaled down."""

from PIL import Image

from rewardharness.measure.images import load_picture
from rewardharness.schema import ImageInput


def shrunk(image: ImageInput, side: int) -> Image.Image:
    """Return an image whose long side has at most so many pixels.

    Raises:
        ImageError: If it cannot be read.
    """
    picture = Image.fromarray(load_picture(image).pixels)
    picture.thumbnail((side, side))
    return picture

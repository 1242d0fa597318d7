"""Makes PNG files of the arrays that trainers hold: float or uint8, channels first or last, of numpy or torch.

Nothing is lost that eight bits can hold: a float v in [0, 1] becomes round(255 v), as in the files that trainers save.
"""

import io
from typing import TYPE_CHECKING, Any

from rewardharness.errors import ImageError

if TYPE_CHECKING:
    import numpy as np

_CHANNELS = (1, 3, 4)
_SHAPE = "Give height, width and channels, or channels first; of a batch one image at a time."
_TOLERANCE = 1e-3
"""By how much rounding may leave [0, 1]."""


def pictures(images: Any, what: str) -> list[bytes]:
    """Make a PNG of each image of a batch.

    Args:
        images: An array or tensor of four dimensions, NCHW or NHWC; or a sequence of what `picture` takes.
        what: What messages call them.

    Raises:
        ImageError: If one cannot be read as an image; says which.
    """
    shape = getattr(images, "shape", None)
    if shape is not None and len(shape) != 4:
        raise ImageError(f"{what} have the shape {tuple(shape)}; a batch has four dimensions.")
    return [picture(image, f"{what}, number {number}") for number, image in enumerate(images, 1)]


def picture(image: Any, what: str) -> bytes:
    """Make a PNG of one image.

    Args:
        image: An array or tensor of three dimensions, CHW or HWC: floats in [0, 1] or uint8. Or a picture of Pillow,
            or the bytes of an image file or a file that is open, which are taken as they are.
        what: What messages call it.

    Raises:
        ImageError: If it is none of these, has numbers out of range, or an unknown order of channels.
    """
    if isinstance(image, bytes):
        return image
    if isinstance(image, bytearray | memoryview):
        return bytes(image)
    if hasattr(image, "getvalue") or hasattr(image, "read"):  # `io.BytesIO`, which can be read again, or an open file
        content = image.getvalue() if hasattr(image, "getvalue") else image.read()
        if isinstance(content, bytes):
            return content
        raise ImageError(f"{what} is open as text.", next_step='Open the file with the mode "rb".')
    if hasattr(image, "save"):
        buffer = io.BytesIO()
        try:
            image.save(buffer, "PNG")
        except (OSError, ValueError) as error:
            step = 'Convert it first: image.convert("RGB").'
            raise ImageError(f"{what} cannot be encoded as PNG: {error}.", next_step=step) from None
        return buffer.getvalue()
    return _encode(_rows(_numbers(image, what), what))


def _numbers(image: Any, what: str) -> "np.ndarray[Any, Any]":
    """Bring an array of whatever kind to numpy; torch is never imported for it."""
    import numpy as np

    if hasattr(image, "detach"):
        image = image.detach().cpu()
        image = image.float().numpy() if image.is_floating_point() else image.numpy()
    if not isinstance(image, np.ndarray):
        step = "Give an array or a tensor, a picture of Pillow, or the bytes or the path of an image file."
        raise ImageError(f"{what} is of type {type(image).__name__}, which is no image.", next_step=step)
    return image


def _rows(image: "np.ndarray[Any, Any]", what: str) -> "np.ndarray[Any, Any]":
    """Height, width, channels; uint8."""
    import numpy as np

    if image.ndim != 3:
        raise ImageError(f"{what} has the shape {image.shape}; an image has three dimensions.", next_step=_SHAPE)
    first, last = image.shape[0] in _CHANNELS, image.shape[2] in _CHANNELS
    if not first and not last:
        message = f"{what} has the shape {image.shape}; neither end is a number of channels (1, 3 or 4)."
        raise ImageError(message, next_step=_SHAPE)
    # Of an image of three rows or columns both ends could be channels; trainers put them first in floats.
    if first and (not last or np.issubdtype(image.dtype, np.floating)):
        image = np.moveaxis(image, 0, 2)
    if image.dtype == np.uint8:
        return image
    if not np.issubdtype(image.dtype, np.floating):
        message = f"{what} has numbers of type {image.dtype}; an image has floats in [0, 1] or uint8."
        raise ImageError(message, next_step="Convert them: image.astype(numpy.uint8).")
    if not np.isfinite(image).all() or image.min() < -_TOLERANCE or image.max() > 1 + _TOLERANCE:
        message = f"{what} has floats from {image.min():g} to {image.max():g}; they belong in [0, 1]."
        step = "Undo the normalisation of the model first, as in images / 2 + 0.5."
        raise ImageError(message, next_step=step)
    eight: np.ndarray[Any, Any] = np.rint(image.clip(0, 1) * 255).astype(np.uint8)
    return eight


def _encode(image: "np.ndarray[Any, Any]") -> bytes:
    from PIL import Image

    if image.shape[2] == 1:
        image = image[:, :, 0]
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)  # sent once; time counts more than size
    return buffer.getvalue()

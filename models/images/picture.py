"""One image file as pixels, uint8 (height, width, channels): upright, of any mode and depth.

Read with Pillow, which bounds what it unpacks. Grey of 16 bits is scaled, so 65,535 becomes 255.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import DataError, FileError
from ..files import regular_file
from .intake import Intake
from .resizing import fit_images

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "WEBP", "TIFF")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff"})
MOST_PIXELS = 1 << 26  # of one image file
MOST_FILE_BYTES = 1 << 27
_BY_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_EIGHT_BITS = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"})
_WHOLE_I = ("PNG", "PPM")  # whose mode I is 16 bits in a wider type
_WHITE_IS_ZERO = (262, 0)  # tag and value of a TIFF, which Pillow heeds for 8 bits alone
_ORIENTATION = 0x0112  # EXIF
_SIDEWAYS = range(5, 9)  # the orientations that change width and height
_UPRIGHT = {  # what turns an image upright, by its orientation
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def read_picture(path: Path, intake: Intake | None) -> npt.NDArray[np.uint8]:
    """Read one image as uint8 (height, width, channels), at the intake's size. Raises DataError."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "reading image files needs Pillow, which is not installed: pip install 'fluidnpu[design]'"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata and palettes, whose pixels are whole
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(regular_file(path, MOST_FILE_BYTES), formats=FORMATS) as opened:
                _check(path, opened)
                mode = _mode(opened.mode, intake)
                opened.load()  # a TIFF is turned by this already, and forgets how it lay
                turn = _UPRIGHT.get(_orientation(opened))
                whole = _of_eight_bits(opened)
                upright = whole if turn is None else whole.transpose(Image.Transpose[turn])
                pixels = np.asarray(upright.convert(mode), np.uint8)
    except (DataError, FileError):
        raise
    except Exception as error:  # Pillow's parsers raise of all kinds for a stranger's bytes
        raise DataError(f"'{path}' must be an image ({', '.join(FORMATS)}), and reading it failed: {error}") from None
    image = pixels[..., None] if pixels.ndim == 2 else pixels
    if intake is None:
        return image
    try:
        return np.asarray(fit_images(image[None], intake.shape, intake.preprocessing)[0], np.uint8)
    except DataError as error:
        raise DataError(f"'{path}': {error}") from None


def _check(path: Path, opened: ImageFile) -> None:
    """Refuse what would take too much, and what has no one meaning as pixels of 8 bits."""
    if opened.width * opened.height > MOST_PIXELS:
        raise DataError(f"'{path}' must have at most {MOST_PIXELS} pixels, and it has {opened.width} x {opened.height}")
    if opened.format == "TIFF" and getattr(opened, "n_frames", 1) > 1:
        raise DataError(f"'{path}' must be one image, and it has {getattr(opened, 'n_frames', 1)} pages")
    if opened.format == "TIFF" and any(part[0] == "raw" for part in opened.tile) and _orientation(opened) in _SIDEWAYS:
        raise DataError(f"'{path}' must be upright or compressed: Pillow misreads uncompressed TIFF that lies sideways")
    wide = _is_wide(opened)
    tag, white_is_zero = _WHITE_IS_ZERO
    inverted = wide and getattr(opened, "tag_v2", {}).get(tag) == white_is_zero
    if inverted or not (wide or opened.mode in _EIGHT_BITS):
        what = "16 bits with white as 0" if inverted else f"mode {opened.mode}, whose white is not known"
        raise DataError(
            f"'{path}' must have 1, 8 or 16 unsigned bits a channel with black as 0, and it has {what}: convert it, or "
            "give an .npz of floats"
        )


def _is_wide(opened: ImageFile) -> bool:
    """True for grey of 16 unsigned bits."""
    return opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format in _WHOLE_I)


def _of_eight_bits(opened: ImageFile) -> Image:
    """Return an image of 8 bits a channel; Pillow's own conversion of 16 bits would clip, not scale."""
    if not _is_wide(opened):
        return opened
    from PIL import Image

    return Image.fromarray(((np.asarray(opened).astype(np.uint32) + 128) // 257).astype(np.uint8))


def _orientation(image: Image) -> int:
    """Return how the image lies, 1 to 8, as cameras tell it in EXIF; 1 where EXIF is damaged or absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return int(image.getexif().get(_ORIENTATION, 1))
        except Exception:  # whatever a parser meets in a stranger's bytes; the pixels are whole
            return 1


def _mode(stored: str, intake: Intake | None) -> str:
    """Return the mode with the network's channels, or without a network the file's own, grey or RGB."""
    if intake is None:
        return "L" if stored in ("1", "L") or stored.startswith("I") else "RGB"
    if intake.shape[2] not in _BY_CHANNELS:
        raise DataError(f"image files have 1, 3 or 4 channels, and the network takes {intake.shape[2]}: give an .npz")
    return _BY_CHANNELS[intake.shape[2]]

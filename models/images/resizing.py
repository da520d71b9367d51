"""Resize and crop images to a network's size with Pillow, each channel by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .image_set import Pixels
from .preprocessing import MOST_SIDE, Preprocessing


def fit_images(images: Pixels, shape: tuple[int, int, int], preprocessing: Preprocessing) -> Pixels:
    """Return NHWC images in the size of `shape` (height, width, channels), as the record says.

    "crop" keeps the middle, like torchvision's Resize and CenterCrop. Raises DataError where the record says
    no resize or an image is too small for the crop.

    >>> fit_images(np.zeros((1, 8, 6, 3), np.uint8), (4, 4, 3), Preprocessing(resize="crop")).shape
    (1, 4, 4, 3)
    """
    if images.shape[1:] == shape:
        return images
    if preprocessing.resize == "none" or images.shape[3] != shape[2]:
        hint = "" if images.shape[3] != shape[2] else "; a resize can be set with `fluidnpu prepare --resize`"
        raise DataError(f"images must be of shape (N, {shape[0]}, {shape[1]}, {shape[2]}), not {images.shape}{hint}")
    if 0 in images.shape[1:3]:
        raise DataError(
            f"an image to be resized must have pixels, and its size is {images.shape[1]} x {images.shape[2]}"
        )
    size = (
        shape[:2]
        if preprocessing.resize == "stretch"
        else _before_crop((images.shape[1], images.shape[2]), shape[:2], preprocessing.side)
    )
    out = np.empty((len(images), *shape), images.dtype)
    top, left = (round((whole - part) / 2) for whole, part in zip(size, shape[:2], strict=True))
    for index, image in enumerate(images):
        for channel in range(shape[2]):
            whole = _resized(image[..., channel], size, preprocessing.interpolation)
            out[index, ..., channel] = whole[top : top + shape[0], left : left + shape[1]]
    return out


def _before_crop(size: tuple[int, int], target: tuple[int, int], side: int | None) -> tuple[int, int]:
    """Return height and width whose shorter one is `side`, or which just cover the target."""
    height, width = size
    if side is None:
        factor = max(target[0] / height, target[1] / width)
        scaled = max(target[0], round(height * factor)), max(target[1], round(width * factor))
    else:
        scaled = (side, int(side * width / height)) if height <= width else (int(side * height / width), side)
    if scaled[0] < target[0] or scaled[1] < target[1]:
        raise DataError(f"a crop to {target[0]} x {target[1]} needs a larger image than {scaled[0]} x {scaled[1]}")
    if max(scaled) > 4 * MOST_SIDE:
        raise DataError(f"a resized image must have sides of at most {4 * MOST_SIDE}, not {scaled[0]} x {scaled[1]}")
    return scaled


def _resized(plane: Pixels, size: tuple[int, int], interpolation: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "resizing an image needs Pillow, which is not installed: pip install 'fluidnpu[design]', or give images of "
            "the network's size"
        ) from None
    whole = plane if plane.dtype == np.uint8 else np.asarray(plane, np.float32)
    kind = Image.Resampling[interpolation.upper()]
    return np.asarray(Image.fromarray(np.ascontiguousarray(whole)).resize((size[1], size[0]), kind))

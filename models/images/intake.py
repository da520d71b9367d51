"""The intake turns a user's images into a network's input tensor. The one place where that is done.

Float reference, golden model, driver and commands all call it, so they agree on every bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .image_set import Pixels
from .preprocessing import Preprocessing

Doubles = npt.NDArray[np.float64]
_ROUNDING = 1e-6  # of the declared range: floats beside it by that much are rounding, not another unit
_INT16 = np.iinfo(np.int16)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """The way from images to an input tensor (height, width, channels): values are scaled * factor - offset.

    `scaled` is pixel * scale, or a float as it comes. `factor` and `offset` are one number or one for each
    channel. `declared` is False for a network without a record, whose floats lie in 0..1. Raises DataError.

    >>> intake = Intake.of(Preprocessing(mean=(0.5,), std=(0.5,)), (1, 2, 1))
    >>> intake.values(np.array([[[[0], [255]]]], np.uint8)).ravel().tolist()
    [-1.0, 1.0]
    """

    shape: tuple[int, int, int]
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    factor: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)
    declared: bool = True

    def __post_init__(self) -> None:
        for name in ("factor", "offset"):
            if len(getattr(self, name)) not in (1, self.shape[2]):
                raise DataError(
                    f"mean and std must be one number or one for each of {self.shape[2]} channels, "
                    f"not {len(getattr(self, name))}"
                )

    @classmethod
    def of(cls, preprocessing: Preprocessing | None, shape: tuple[int, int, int]) -> Intake:
        """Make the intake of a network whose input tensor is what its own first layers read.

        Raises DataError where mean and std are for different numbers of channels.
        """
        if preprocessing is None:
            return cls(shape=shape, declared=False)
        std, mean = np.array(preprocessing.std), np.array(preprocessing.mean)
        if 1 not in (len(std), len(mean)) and len(std) != len(mean):
            raise DataError(f"mean and std must be for as many channels, not for {len(mean)} and {len(std)}")
        return cls(
            shape=shape,
            preprocessing=preprocessing,
            factor=tuple((1 / std).tolist()),
            offset=tuple((mean / std).tolist()),
        )

    def in_pixels(self, *, centred: bool) -> Intake:
        """Return the intake whose tensor holds pixels, less their mean where `centred`.

        The rest of scale, mean and std is then the first layers' to do (numeric/input_folding.py).
        """
        scale = self.preprocessing.scale
        mean = tuple(mean_ / scale for mean_ in self.preprocessing.mean) if centred else (0.0,)
        return replace(self, factor=(1 / scale,), offset=mean)

    # -- images to values ----------------------------------------------------------------------------------

    def arranged(self, images: Pixels) -> Pixels:
        """Return images as (N, height, width, channels) of the network's size and order of channels.

        They may come as NHWC or NCHW, with the channel left out where there is one, or as (N, values) for a
        network that reads vectors. Raises DataError.
        """
        if images.dtype != np.uint8 and not np.issubdtype(images.dtype, np.floating):
            raise DataError(f"images must be uint8 or finite floats, not {images.dtype}")
        pixels = self._channels_last(images)
        if pixels.shape[1:] != self.shape:
            from .resizing import fit_images

            pixels = fit_images(pixels, self.shape, self.preprocessing)
        return pixels[..., ::-1] if self.preprocessing.colour == "BGR" else pixels

    def _channels_last(self, images: Pixels) -> Pixels:
        height, width, channels = self.shape
        if images.ndim == 4 and images.shape[1:] == self.shape:
            swapped = self.ambiguous and self.preprocessing.layout == "NCHW"
            return images.transpose(0, 2, 3, 1) if swapped else images
        if height == width == 1:  # a network that reads vectors: an image of one channel has one order only
            flat = images.ndim in (2, 3) or (images.ndim == 4 and 1 in (images.shape[1], images.shape[3]))
            if flat and int(np.prod(images.shape[1:])) == channels:
                return images.reshape(len(images), 1, 1, channels)
        if images.ndim == 3 and channels == 1:
            return images[..., None]
        if images.ndim == 4:
            exact = self.preprocessing.resize == "none"
            last = images.shape[1:] == self.shape if exact else images.shape[3] == channels
            first = images.shape[1:] == (channels, height, width) if exact else images.shape[1] == channels
            if first and (not last or self.preprocessing.layout == "NCHW"):
                return images.transpose(0, 2, 3, 1)
            if last:
                return images
        resizes = self.preprocessing.resize == "none" and images.ndim == 4 and channels in images.shape[1::2]
        why = "; a resize can be set with `fluidnpu prepare --resize`" if resizes else ""
        raise DataError(f"images must be of shape (N, {height}, {width}, {channels}), not {images.shape}{why}")

    @property
    def ambiguous(self) -> bool:
        """True if an array of the network's shape may be NHWC or NCHW, so that `layout` decides."""
        height, width, channels = self.shape
        return height == width == channels > 1

    def values(self, images: Pixels) -> Doubles:
        """Return the values of the input tensor, float64 (N, height, width, channels). Raises DataError."""
        return self._values(self.arranged(images))

    def _values(self, pixels: Pixels) -> Doubles:
        if pixels.dtype == np.uint8:
            return np.asarray(self._table[pixels, self._channel])
        real = np.asarray(pixels, np.float64)
        self.check_range(real)
        return np.asarray(real * np.array(self.factor) - np.array(self.offset))

    def check_range(self, real: npt.NDArray[Any]) -> None:
        """Raise DataError for floats, of any shape, that are not finite or outside of what the network's
        record declares.
        """
        if not real.size:
            return
        low, high = float(real.min()), float(real.max())  # NaN goes through both
        least, most = self.preprocessing.limits
        slack = _ROUNDING * (most - least)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError(f"images must be uint8 or finite floats, and {'NaN' if np.isnan(low) else 'inf'} came")
        if low < least - slack or high > most + slack:
            remedy = "" if self.declared else ", or set the preprocessing with `fluidnpu prepare`"
            raise DataError(
                f"images of floats must lie in {least:g}..{most:g}, and {low:g}..{high:g} came; give uint8{remedy}"
            )

    def codes(self, images: Pixels, unit: float, dtype: npt.DTypeLike = np.int16, zero: int = 0) -> npt.NDArray[Any]:
        """Return the input tensor in integers, rounded and clipped: one step is `unit`, and 0 is `zero`.

        Images are as `arranged` takes them; the result is (N, height, width, channels).
        """
        pixels = self.arranged(images)
        kind = (unit, np.dtype(dtype).name, zero)
        if pixels.dtype == np.uint8:
            table = self._code_table(*kind)
            return table[0][pixels] if len(table) == 1 else _by_channel(table, pixels)
        return _stored(self._values(pixels), *kind)

    # -- what can come ---------------------------------------------------------------------------------------

    @cached_property
    def _table(self) -> Doubles:
        """Value of every uint8 pixel, (256, 1 or channels)."""
        scaled = np.arange(256)[:, None] * self.preprocessing.scale
        return np.asarray(scaled * np.array(self.factor) - np.array(self.offset))

    @cached_property
    def _channel(self) -> npt.NDArray[np.int64] | int:
        return 0 if self._table.shape[1] == 1 else np.arange(self.shape[2])

    @cached_property
    def _tables(self) -> dict[tuple[float, str, int], npt.NDArray[Any]]:
        return {}

    def _code_table(self, unit: float, dtype: str, zero: int) -> npt.NDArray[Any]:
        """Return the code of every uint8 pixel, (1 or channels, 256)."""
        kind = (unit, dtype, zero)
        if kind not in self._tables:
            self._tables[kind] = np.ascontiguousarray(_stored(self._table, *kind).T)
        return self._tables[kind]

    @property
    def largest(self) -> float:
        """Largest magnitude of the input tensor, for every image that is not refused."""
        ends = np.array([self.preprocessing.limits, (0.0, 255 * self.preprocessing.scale)]).reshape(-1, 1)
        return float(np.abs(ends * np.array(self.factor) - np.array(self.offset)).max())

    def random(self, count: int, seed: int = 0) -> Pixels:
        """Return images of noise (count, height, width, channels) that the network takes: uint8, or floats of
        the declared range.
        """
        rng, limits = np.random.default_rng(seed), self.preprocessing.float_range
        if limits is None:
            return rng.integers(0, 256, (count, *self.shape), np.uint8)
        return rng.uniform(*limits, (count, *self.shape))

    # -- files -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the shape is left to the file that this stands in."""
        return {
            "preprocessing": self.preprocessing.to_dict() if self.declared else None,
            "factor": list(self.factor),
            "offset": list(self.offset),
        }

    @classmethod
    def of_dict(cls, raw: Mapping[str, Any], shape: tuple[int, int, int]) -> Intake:
        """Read `to_dict` back. Raises DataError, KeyError or TypeError for anything else."""
        record = raw["preprocessing"]
        return cls(
            shape=shape,
            preprocessing=Preprocessing() if record is None else Preprocessing.of_dict(record),
            factor=tuple(float(value) for value in raw["factor"]),
            offset=tuple(float(value) for value in raw["offset"]),
            declared=record is not None,
        )


def _by_channel(table: npt.NDArray[Any], pixels: Pixels) -> npt.NDArray[Any]:
    """Look pixels up channel by channel, which is several times faster than both indices at once."""
    out = np.empty(pixels.shape, table.dtype)
    for channel, codes in enumerate(table):
        out[..., channel] = codes[pixels[..., channel]]
    return out


def _stored(real: Doubles, unit: float, dtype: str, zero: int) -> npt.NDArray[Any]:
    ends = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(real / unit) + zero, ends.min, ends.max), dtype)

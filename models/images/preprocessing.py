"""Preprocessing: a network's own record of the way from a user's image to its input. Pure; no images here.

A pixel p of uint8 becomes (p * scale - mean) / std, as torchvision has it with a scale of 1/255. An image of
floats holds p * scale already, and must lie in the declared range.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import DataError

LAYOUTS = ("NHWC", "NCHW")
COLOURS = ("RGB", "BGR")
INTERPOLATIONS = ("bilinear", "bicubic", "nearest")
MOST_SIDE = 1 << 14  # pixels of a resized side
_RESIZE = re.compile(r"none|stretch|crop(:[1-9][0-9]{0,4})?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """The steps from an image to a network's input. Raises DataError.

    scale: factor of a uint8 pixel. mean, std: one number, or one for each channel in the network's order, in
    units of the scaled pixel. layout: of arrays whose shape leaves it open, NHWC or NCHW. colour: the order
    of the network's channels, RGB or BGR; images come as RGB. resize: "none" (an image of another size is
    refused), "stretch" to the network's size, "crop" (the shorter side is made to fit, the middle is kept)
    or "crop:256" (the shorter side becomes 256 first). interpolation: of a resize; bilinear, bicubic or
    nearest. float_range: what images of floats must lie in; None: 0 to 255 * scale.

    >>> Preprocessing(mean=(0.5,), std=(0.25,)).limits
    (0.0, 1.0)
    >>> Preprocessing.loads(Preprocessing(resize="crop:256").dumps()).side
    256
    """

    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str = "NHWC"
    colour: str = "RGB"
    resize: str = "none"
    interpolation: str = "bilinear"
    float_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not _number(self.scale) or not 0 < self.scale < 1e6:
            raise DataError(f"the scale of a pixel must be a number above 0, not {self.scale!r}")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if not values or not all(map(_number, values)):
                raise DataError(f"{name} must be one finite number, or one for each channel, not {values!r}")
        if min(self.std) <= 0:
            raise DataError(f"std must be above 0, not {self.std}")
        for name, value, allowed in (
            ("layout", self.layout, LAYOUTS),
            ("colour", self.colour, COLOURS),
            ("interpolation", self.interpolation, INTERPOLATIONS),
        ):
            if value not in allowed:
                raise DataError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if not isinstance(self.resize, str) or not _RESIZE.fullmatch(self.resize) or (self.side or 1) > MOST_SIDE:
            raise DataError(f"resize must be none, stretch, crop or crop:256 (up to {MOST_SIDE}), not {self.resize!r}")
        if self.float_range is not None:
            if len(self.float_range) != 2 or not all(map(_number, self.float_range)):
                raise DataError(f"the range of floats must be two finite numbers, not {self.float_range!r}")
            if not self.float_range[0] < self.float_range[1]:
                raise DataError(f"the range of floats must go from low to high, not {self.float_range!r}")

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest value that an image of floats may hold."""
        return (0.0, 255 * self.scale) if self.float_range is None else self.float_range

    @property
    def side(self) -> int | None:
        """Shorter side of an image before the crop, where `resize` says one."""
        _, colon, side = self.resize.partition(":")
        return int(side) if colon else None

    def describe(self) -> str:
        """Return the record on one line, steps at their defaults left out."""
        steps = [] if self.resize == "none" else [f"{self.resize.replace(':', ' ')} ({self.interpolation})"]
        steps += [] if self.colour == "RGB" else [self.colour]
        steps.append(f"pixel * {_ratio(self.scale)}")
        steps += [] if not any(self.mean) else [f"- {_listed(self.mean)}"]
        steps += [] if set(self.std) == {1.0} else [f"/ {_listed(self.std)}"]
        low, high = self.limits
        return f"{', '.join(steps)}; floats in {low:g}..{high:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    def dumps(self) -> str:
        """Return the record as JSON text with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)

    @classmethod
    def of_dict(cls, raw: Any) -> Preprocessing:
        """Read `to_dict` back; a key that is left out has its default. Raises DataError."""
        names = {field.name for field in fields(cls)}
        if not isinstance(raw, Mapping) or not set(raw) <= names:
            odd = ", ".join(sorted(set(raw) - names)) if isinstance(raw, Mapping) else type(raw).__name__
            raise DataError(f"a preprocessing record may have the keys {', '.join(sorted(names))}, not {odd[:120]}")
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
        for key in ("mean", "std"):
            if key in values and not isinstance(values[key], tuple):
                raise DataError(f"{key} of a preprocessing record must be a list of numbers, not {values[key]!r}")
        return cls(**dict[str, Any](values))

    @classmethod
    def loads(cls, text: str) -> Preprocessing:
        """Read `dumps` back. Raises DataError."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError("a preprocessing record must be JSON, and it is not") from None
        return cls.of_dict(raw)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ratio(scale: float) -> str:
    """Write a scale as people do: 1/255, not 0.00392157."""
    return f"1/{1 / scale:g}" if scale < 1 and math.isclose(1 / scale, round(1 / scale, 3)) else f"{scale:g}"


def _listed(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"({', '.join(f'{value:g}' for value in values)})"

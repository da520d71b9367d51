"""Outputs that are no exits: maps and vectors that a network returns, and their arrangement for the user.

A tensor lies as (height, width, channels); an output has the shape and the order of axes of the user's model,
and the activation that ends it there. Moving axes is free of rounding, so only the activation computes.

>>> import numpy as np
>>> boxes = Output(name="boxes", tensor="t", shape=(2, 3, 4, 1), axes="chwc", split=(2, 1))
>>> boxes.arranged(np.zeros((5, 3, 4, 2))).shape
(5, 2, 3, 4, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError

ACTIVATIONS = ("", "sigmoid", "softmax", "log_softmax")


@dataclass(frozen=True, kw_only=True)
class Output:
    """A value that a network returns after a stage, for each sample.

    Its elements are those of `channels` (empty: all, in order) of `tensor`. `axes` names the axes of a
    sample in order: "h", "w", and a "c" for each factor of the channels in `split`; joined into `shape` they
    are the output as the user's model has it, without the batch. `activation` ends it, along `axis` of the
    batch of outputs if it needs one.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    axes: str
    split: tuple[int, ...]
    channels: tuple[int, ...] = ()
    activation: str = ""
    axis: int = 1
    stage: int = 0

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS or not 1 <= self.axis <= max(1, len(self.shape)):
            raise NetworkError(
                f"output '{self.name}' must end in one of {ACTIVATIONS} along an axis of its shape {self.shape}, not in "
                f"'{self.activation}' along {self.axis}"
            )
        if self.axes.count("h") > 1 or self.axes.count("w") > 1 or self.axes.count("c") != len(self.split):
            raise NetworkError(
                f"output '{self.name}' must have axes h and w once and a c for each of {self.split}, not '{self.axes}'"
            )

    def arranged(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return tensors (B, height, width, channels) as outputs (B, *shape), the values untouched."""
        batch, height, width, _ = tensor.shape
        picked = tensor[..., list(self.channels)] if self.channels else tensor
        sizes = {"h": height, "w": width}
        named = [axis for axis in "hw" if axis in self.axes]  # the others are of size 1
        split = picked.reshape(batch, *(sizes[axis] for axis in named), *self.split)
        factors = iter(range(1 + len(named), split.ndim))
        order = [next(factors) if axis == "c" else 1 + named.index(axis) for axis in self.axes]
        return np.ascontiguousarray(split.transpose(0, *order)).reshape(batch, *self.shape)

    def activated(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """Return what the user's model returns for real values (B, *shape): the activation applied."""
        if self.activation == "sigmoid":
            values = np.exp(-np.logaddexp(0, -values))
        elif self.activation:
            shifted = values - values.max(axis=self.axis, keepdims=True)
            logs = shifted - np.log(np.exp(shifted).sum(axis=self.axis, keepdims=True))
            values = logs if self.activation == "log_softmax" else np.exp(logs)
        return np.asarray(values, np.float32)

    def facts(self) -> dict[str, Any]:
        """Return the fields in plain JSON types; `Output.of` inverts it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Output:
        """Invert `facts`. Raises TypeError, KeyError or ValueError for other input."""
        lists = {key: tuple(facts[key]) for key in ("shape", "split", "channels")}
        return cls(**{**facts, **lists})

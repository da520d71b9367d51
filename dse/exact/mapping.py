"""Mappings of a layer onto the PE array: mode and lanes at one batch size, all of a plan but its row blocks.

>>> layer = LayerShape(name="conv", r=196, p=576, c=64)
>>> [(mapping.mode.name, mapping.b_r, mapping.beats(layer)) for mapping in mappings(layer, batch=2)]
[('NORMAL', 2, 392), ('WIDE', 2, 392), ('LANES', 1, 196)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.models import Kind, LayerShape

from ..design import BatchPlan, Stack
from ..hardware.array import Array, Floats, Ints, Mode, N, ceil_div
from ..hardware.row_buffer import needed_bytes_of


@dataclass(frozen=True, kw_only=True)
class LayerMapping:
    """A mode of the array with its lanes, for `batch` samples of which `b_r` stand along the rows of lane 0.

    `row_lanes`: neighbouring rows side by side instead.
    """

    mode: Mode
    batch: int
    b_r: int
    row_lanes: bool = False

    @property
    def lanes(self) -> int:
        """Output rows of a beat."""
        return 2 if self.mode is Mode.LANES else 1

    @property
    def pool(self) -> bool:
        """True for a pool."""
        return self.mode >= Mode.MAX_POOL

    def beats(self, layer: LayerShape) -> int:
        """Rows of lane 0 in the whole layer."""
        return ceil_div(self.batch * layer.r, 2) if self.row_lanes else self.b_r * layer.r

    def needed_bytes(self, layer: LayerShape, block: int, word_bytes: int = 2) -> int:
        """Bytes of the input buffer that row blocks of `block` beats need."""
        return int(self.needed_bytes_of(layer, (block,), word_bytes)[0])

    def needed_bytes_of(self, layer: LayerShape, blocks: Sequence[int] | Ints, word_bytes: int = 2) -> Ints:
        """As `needed_bytes`, for each of many blocks, (n,)."""
        if not len(blocks):
            return np.zeros(0, np.int64)
        return _needed_bytes(layer_key(layer), self, tuple(map(int, blocks)), word_bytes)

    def plan(self, block: int) -> BatchPlan:
        """The FBCB entry."""
        k = Stack.TWO if self.mode is Mode.WIDE else Stack.ONE
        return BatchPlan(k=k, b_r=self.b_r, row_lanes=self.row_lanes, block=block)


def mappings(layer: LayerShape, batch: int, *, stackable: bool = True) -> tuple[LayerMapping, ...]:
    """Every mapping with two lanes: plain, k = 2, neighbouring rows or halves of the batch side by side.

    Outputs that pass a pool or a filter come in the order of the image, so neighbouring rows go side by side
    there. A layer that is merged has one mapping, of which nothing comes.
    """
    if layer.kind is not Kind.GEMM:
        mode = Mode.MAX_POOL if layer.kind is Kind.MAX_POOL else Mode.SUM_POOL
        return (LayerMapping(mode=mode, batch=batch, b_r=batch),)
    plain = LayerMapping(mode=Mode.NORMAL, batch=batch, b_r=batch)
    if not stackable or layer.merged:
        return (plain,)
    wide = replace(plain, mode=Mode.WIDE)
    neighbours = batch == 1 or layer.behind is not None
    b_r = batch if neighbours else ceil_div(batch, 2)
    return plain, wide, LayerMapping(mode=Mode.LANES, batch=batch, b_r=b_r, row_lanes=neighbours)


def joins(layer: LayerShape, array: Array[N]) -> tuple[int, ...]:
    """Numbers of a layer's groups to compute as one that are worth a look on an array, or on one of many.

    Joined groups fill columns of the array with outputs, and beats with words of a tap. More columns than the
    array has, or more words than its widest P-tile, would only add zeros.

    >>> array = Array(t_r=512, t_p=14, t_c=64, weight_slots=1, in_words=28)
    >>> from fluidnpu.models import Window
    >>> window = Window(kernel=(3, 3), out=(14, 14), channels=96)
    >>> joins(LayerShape(name="depthwise", r=196, p=9, c=1, groups=96, window=window), array)
    (1, 2, 3, 4, 6, 8, 12, 16, 24)
    """
    if layer.groups == 1 or layer.window is None or layer.merged:
        return (1,)
    most = int(np.max(_most_joined(layer, array)))
    return tuple(count for count in range(1, max(1, min(layer.groups, most)) + 1) if layer.groups % count == 0)


def joinable(layer: LayerShape, array: Array[Floats], count: int) -> npt.NDArray[np.bool_]:
    """Tell for each of many arrays, (n,), whether `joins` has a count."""
    return np.ones(len(array.t_c), bool) if count == 1 else _most_joined(layer, array) >= count


def _most_joined(layer: LayerShape, array: Array[N]) -> npt.NDArray[Any]:
    """Groups whose columns and words of a tap an array, or each of many, computes at once."""
    window = layer.window
    assert window is not None
    words = layer.p // (window.kernel[0] * window.kernel[1])
    return np.asarray(np.minimum(array.t_c // layer.c, 2 * array.t_p // words))


@lru_cache(maxsize=1 << 16)
def _needed_bytes(layer: LayerShape, mapping: LayerMapping, blocks: tuple[int, ...], word_bytes: int) -> Ints:
    """Remembered, since a search asks about many arrays with banks and buffers of few sizes."""
    needed = needed_bytes_of(
        layer,
        np.array(blocks),
        batch=mapping.batch,
        row_lanes=mapping.row_lanes,
        b_r=mapping.b_r,
        word_bytes=word_bytes,
    )
    needed.flags.writeable = False
    return needed


def layer_key(layer: LayerShape) -> LayerShape:
    """The layer without name and stage: its cycles depend on the rest."""
    return replace(layer, name="", stage=0)

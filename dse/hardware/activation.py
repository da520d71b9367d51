"""Pieces of the activation unit that a layer takes, and the words of its residual (ADR 69). Pure arithmetic.

A table has a piece for every segment and two outside of its window. Channels have one each, in the order of
the output stream: a row of pieces for every beat of a pixel, as many as the mode with most beats needs.

>>> array = Array(t_r=512, t_p=27, t_c=64, weight_slots=1, in_words=54, out_words=32)
>>> prelu = LayerShape(name="conv1", r=3136, p=576, c=64, activation="slope")
>>> pieces(prelu, array), piece_rows(prelu.joined(1), array)
(64, 2)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidnpu.models import Kind, LayerShape

from .array import Array, N
from .pooling import pooled_beats

USES = ("", "table", "product", "slope", "affine")  # of the unit, each at its code in a descriptor
TABLE_PIECES = 258
LANE_PIECES = 256  # of channels, that a lane holds of a layer


def piece_rows(layer: LayerShape, array: Array[N]) -> Any:
    """Rows of pieces of a layer's channels, of all lanes, as many numbers as there are arrays; 0 without."""
    if layer.activation not in ("slope", "affine"):
        return 0
    if layer.kind is Kind.GEMM:
        return layer.groups * pooled_beats(layer.c, array)
    width = np.asarray(array.in_words)
    full = (layer.c - 1) // width
    rows = full * -(-width // array.out_words) - (-(layer.c - full * width) // array.out_words)
    return int(rows) if np.ndim(rows) == 0 else rows


def pieces(layer: LayerShape, array: Array[int]) -> int:
    """Pieces of 32 bits that a layer takes on an array."""
    return TABLE_PIECES if layer.activation == "table" else int(piece_rows(layer, array)) * array.out_words


def too_many_pieces(layer: LayerShape, array: Array[int]) -> str:
    """The sentence on a layer whose channels need more pieces of a lane than it holds; empty for others."""
    rows = int(piece_rows(layer, array))
    if rows <= LANE_PIECES:
        return ""
    return f"the channels of layer '{layer.name}' need {rows} pieces of a lane of the activation unit, which holds {LANE_PIECES}"


def residual_reads(layer: LayerShape, rows: float, tiles: Any, port_words: int) -> Any:
    """Words that are read of a residual for `rows` rows of all samples, each row in `tiles` column tiles.

    One pixel for the whole map is read again for every row, and of one word for all channels a whole port
    word for every row of a tile.
    """
    if not layer.residual:
        return 0.0
    return rows * tiles * port_words if layer.residual_spread else rows * layer.groups * layer.c


def residual_words(layer: LayerShape) -> int:
    """Words of a sample's residual, each once.

    >>> gate = LayerShape(name="gate", r=196, p=576, c=64, residual=True, residual_fixed=True)
    >>> residual_words(gate)
    64
    """
    channels = layer.c * layer.groups if layer.kind is Kind.GEMM else layer.c
    if not layer.residual:
        return 0
    return (1 if layer.residual_fixed else layer.r) * (1 if layer.residual_spread else channels)

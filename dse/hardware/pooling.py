"""The RAM in which the NPU keeps maxima of a max pool that outputs pass on their way to memory (ADR 51).

Pure arithmetic. An entry is a beat of outputs. One RAM holds the window at hand of each beat of a pixel, the
other a row of pooled pixels. A pixel has most beats where its column tiles leave most of their last beats
empty, which depends on the mode; the RAM has room for every mode.

>>> from fluidnpu.models.graph import Pooling
>>> array = Array(t_r=512, t_p=27, t_c=64, weight_slots=1, in_words=54)
>>> pooling = Pooling(kernel=3, padded=(1, 1), out=(56, 56))
>>> layer = LayerShape(name="conv1", r=12544, p=147, c=64, pooling=pooling)
>>> pooled_beats(64, array), pool_room(poolings([layer]), array)
(8, (8, 448))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidnpu.models import LayerShape

from .array import Array, N

Poolings = tuple[tuple[int, int], ...]  # columns of a layer, and pooled pixels of a row


def poolings(layers: Sequence[LayerShape]) -> Poolings:
    """Columns and pooled pixels of a row, of every layer whose outputs pass a pool; each once."""
    return tuple(dict.fromkeys((layer.c, layer.pooling.out[1]) for layer in layers if layer.pooling is not None))


def pooled_beats(columns: int, array: Array[N]) -> Any:
    """The most beats of outputs that a pixel takes, of all modes; as many numbers as there are arrays."""
    t_c: Any = np.asarray(array.t_c)
    widths = [t_c, *([np.maximum(1, t_c // 2)] if array.stackable else []), *([2 * t_c] if array.split else [])]
    most = np.zeros_like(t_c)
    for width in widths:
        full = (columns - 1) // width  # tiles before the last one
        beats = full * -(-width // array.out_words) - (-(columns - full * width) // array.out_words)
        most = np.maximum(most, beats)
    return int(most) if np.ndim(most) == 0 else most


def pool_room(pools: Poolings, array: Array[N]) -> tuple[Any, Any]:
    """Entries of the RAM for a pixel's windows and of that for a pooled row; both 0 without a pool."""
    windows: Any = 0
    rows: Any = 0
    for columns, across in pools:
        beats = pooled_beats(columns, array)
        windows, rows = np.maximum(windows, beats), np.maximum(rows, across * beats)
    whole = np.ndim(windows) == 0
    return (int(windows), int(rows)) if whole else (windows, rows)

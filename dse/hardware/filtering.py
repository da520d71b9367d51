"""The RAM of a depthwise filter that outputs pass on their way to memory, and its weights (ADR 70).

Pure arithmetic. An entry is a beat of outputs, a lane a word of it. The filter keeps rows of the map in front
of it, the window at hand of each beat of a pixel, and two banks of weights. In a bank, every beat of a pixel
has a row of nine weights and a bias a lane, and of larger kernels a row for each cycle that a window takes. A
pixel has most beats in one of the modes; the filter has room for each.

>>> from fluidnpu.models import Window
>>> from fluidnpu.models.graph import Filtering
>>> array = Array(t_r=512, t_p=27, t_c=64, weight_slots=1, in_words=54, out_words=16)
>>> filtering = Filtering(kernel=5, stride=2, padded=(2, 2), out=(56, 56))
>>> window = Window(kernel=(1, 1), out=(112, 112), channels=16)
>>> expand = LayerShape(name="expand", r=12544, p=16, c=96, window=window, filtering=filtering)
>>> filter_steps(5), filter_rows(expand, array)
(3, 18)
>>> filter_room(filterings([expand]), array)
FilterRoom(kernel=5, windows=6, rows=672, deep_rows=672, weights=18, activation=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidnpu.models import LayerShape

from .array import Array, N, ceil_div
from .pooling import pooled_beats

PRODUCTS = 9  # multipliers of a lane
WEIGHT_PAIRS = 6  # pairs of 16-bit words of a lane in a row of weights: nine weights, three words of a bias
PACKED_PAIRS = 5  # of these that hold anything with 8-bit words: nine weights, bias, M and S (ADR 75)
SHALLOW_KERNEL = 3  # the largest that needs no more than the two rows above

Filterings = tuple[tuple[int, int, int, bool], ...]  # columns and pixels of a row of a layer, kernel, a table behind


class FilterRoom(NamedTuple):
    """Parameters of a filter; each number is 0 without one, and may be one for every array.

    `windows`, `rows` and `deep_rows` are entries of RAM: windows at hand, the two rows above, the rows above
    those. `weights`: rows of one bank. `activation`: 1 with an activation unit behind the filter.
    """

    kernel: int
    windows: Any
    rows: Any
    deep_rows: Any
    weights: Any
    activation: int


def filter_steps(kernel: int) -> int:
    """Cycles that a window takes, and rows of weights of a beat.

    >>> [filter_steps(kernel) for kernel in (2, 3, 4, 5, 6, 7)]
    [1, 1, 2, 3, 4, 6]
    """
    return ceil_div(kernel * kernel, PRODUCTS)


def filterings(layers: Sequence[LayerShape]) -> Filterings:
    """Columns, pixels of a row, kernel and table of every layer whose outputs pass a filter; each once."""
    return tuple(
        dict.fromkeys(
            (layer.c, layer.window.out[1], layer.filtering.kernel, bool(layer.filtering.activation))
            for layer in layers
            if layer.filtering is not None and layer.window is not None
        )
    )


def filter_cycles(layer: LayerShape) -> int:
    """Cycles that the filter takes at least for each beat of a pixel of a sample; without one, its pixels.

    >>> from fluidnpu.models import Window
    >>> from fluidnpu.models.graph import Filtering
    >>> window = Window(kernel=(1, 1), out=(8, 8), channels=16)
    >>> filtering = Filtering(kernel=5, stride=2, padded=(2, 2), out=(4, 4))
    >>> filter_cycles(LayerShape(name="expand", r=64, p=16, c=96, window=window, filtering=filtering))
    113
    """
    if layer.filtering is None or layer.window is None:
        return layer.r
    (high, wide), (rows, columns) = layer.filtering.walk(layer.window.out), layer.filtering.out
    return high * wide + (filter_steps(layer.filtering.kernel) - 1) * rows * columns


def filter_rows(layer: LayerShape, array: Array[N]) -> Any:
    """Rows of filter weights of a layer, as many numbers as there are arrays; 0 without a filter."""
    if layer.filtering is None:
        return 0
    return filter_steps(layer.filtering.kernel) * pooled_beats(layer.c, array)


def filter_bytes(rows: int, out_words: int, port_bytes: int) -> int:
    """Bytes of rows of filter weights in a weight image: each pair of words of all lanes fills port words.

    >>> filter_bytes(18, out_words=16, port_bytes=16), filter_bytes(1, out_words=6, port_bytes=16)
    (6912, 192)
    """
    return rows * WEIGHT_PAIRS * ceil_div(4 * out_words, port_bytes) * port_bytes


def filter_room(filters: Filterings, array: Array[N]) -> FilterRoom:
    """The parameters of the filter that layers need, for every mode of an array or of many."""
    windows: Any = 0
    rows: Any = 0
    deep: Any = 0
    weights: Any = 0
    for columns, across, kernel, _ in filters:
        beats = pooled_beats(columns, array)
        windows, rows = np.maximum(windows, beats), np.maximum(rows, across * beats)
        weights = np.maximum(weights, filter_steps(kernel) * beats)
        if kernel > SHALLOW_KERNEL:
            deep = np.maximum(deep, across * beats)
    numbers = (windows, rows, deep, weights)
    if all(np.ndim(number) == 0 for number in numbers):
        numbers = tuple(int(number) for number in numbers)  # type: ignore[assignment]  # as many
    return FilterRoom(
        max((kernel for _, _, kernel, _ in filters), default=0), *numbers, int(any(table for *_, table in filters))
    )

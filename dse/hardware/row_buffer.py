"""How much of the data plane's input buffer a layer's row blocks need, so that no block waits for a row that has no room. Pure arithmetic.

The buffer is a ring. Input rows follow one another in it in the order in which windows reach them, `pitch` bytes apart; what the block at hand
needs stays, what comes next is loaded behind it. With lanes by samples each lane has half of the ring. The RTL's `fluidnpu_row_buffer` does this.

>>> from fluidnpu.models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(14, 14), channels=64)
>>> layer = LayerShape(name="conv", r=196, p=576, c=64, window=window)
>>> needed_bytes(layer, batch=2, block=28, port_bytes=8), needed_bytes(layer, batch=2, block=392, port_bytes=8)
(8248, 65928)
"""

from __future__ import annotations

from math import ceil

import numpy as np

from fluidnpu.models import Kind, LayerShape, Window

WORD_BYTES = 2
MOST_PORT_BYTES = 64  # slots begin on such a boundary, so wider ports see rows shifted against each other


def row_bytes(layer: LayerShape, window: Window) -> int:
    """Bytes of an input row from its first window's first word to its last window's last."""
    groups = layer.groups * (layer.p // (window.kernel[0] * window.kernel[1])) if layer.kind is Kind.GEMM else layer.c
    apart = (window.out[1] - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1]
    return WORD_BYTES * (apart * window.channels + groups)


def rows(window: Window) -> tuple[int, int, int]:
    """(input rows from a window to the one below, rows of a window, rows of a sample); a kernel of one row leaves out what its stride skips."""
    flat = window.kernel[0] == 1
    rise, span = (1, 1) if flat else (window.stride[0], (window.kernel[0] - 1) * window.dilation[0] + 1)
    return rise, span, (window.out[0] - 1) * rise + span


def needed_bytes(
    layer: LayerShape,
    *,
    batch: int,
    block: int,
    row_lanes: bool = False,
    b_r: int | None = None,
    port_bytes: int = MOST_PORT_BYTES,
) -> int:
    """Least capacity of the buffer in bytes for row blocks of `block` beats. Raises ValueError without a window.

    `b_r` below `batch` means lanes by samples. Behind the widest port rows lie at their furthest from each other.
    """
    window = layer.window
    if window is None:
        raise ValueError(f"layer '{layer.name}' needs a window before its rows can be placed")
    by_samples = b_r is not None and b_r < batch
    rise, span, sample_rows = rows(window)
    pitch = row_bytes(layer, window) + 2 * port_bytes - 2 * WORD_BYTES
    sample_pitch = ceil(sample_rows * pitch / port_bytes) * port_bytes
    total = window.out[0] * window.out[1] * (b_r if by_samples and b_r else batch)
    step = 2 * block if row_lanes else block
    first = np.arange(0, total, step)
    last = np.minimum(first + step, total) - 1

    def place(row: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        sample, within = np.divmod(row, window.out[0] * window.out[1])
        return sample * sample_pitch + within // window.out[1] * (rise * pitch)

    most = int(np.max(place(last) - place(first))) + span * pitch + port_bytes
    return 2 * most if by_samples else most

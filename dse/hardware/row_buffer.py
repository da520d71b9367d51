"""Bytes of the data plane's input buffer that a layer's row blocks need, so that no row waits for room.

Pure arithmetic. The buffer is a ring, as in `fluidnpu_row_buffer`. Input rows follow one another in it in the
order in which windows reach them, `pitch` bytes apart; the rows that the block at hand needs stay, the next
ones are loaded behind them. With lanes by samples each lane has half of the ring.

>>> from fluidnpu.models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(14, 14), channels=64)
>>> layer = LayerShape(name="conv", r=196, p=576, c=64, window=window)
>>> [needed_bytes(layer, batch=2, block=block, port_bytes=8) for block in (28, 392)]
[8248, 65928]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fluidnpu.models import Kind, LayerShape, Window

from ..errors import DesignError
from .array import Ints, ceil_div
from .layer import LayerGeometry

BUFFER_WORDS = 1 << 15  # least input buffer of a design
MOST_PORT_BYTES = 64  # slots begin on such a boundary, so wider ports see rows shifted against each other


@dataclass(frozen=True, kw_only=True)
class InputRows:
    """The input rows of a layer: counts of rows, and bytes.

    A row goes from its first window's first word to its last window's last. Rows follow one another `pitch`
    bytes apart, so far that no two share a port word, and each begins as far into a port word as it does in
    memory. `row_step` is a distance in memory, `pitch` and all below are distances in the buffer.
    """

    row_bytes: int
    row_step: int
    sample_rows: int  # rows of a sample
    rise: int  # rows from a window to the one below
    span: int  # rows of a window
    pitch: int  # from row to row
    sample_pitch: int  # from sample to sample
    step_h: int  # from a window to the one below
    tap_h: int  # from a tap to the one below

    @classmethod
    def of(cls, layer: LayerGeometry, port_bytes: int, word_bytes: int = 2) -> InputRows:
        """The rows of a layer behind a port of that width, of words of that size.

        >>> from fluidnpu.dse.hardware.layer import LayerGeometry
        >>> conv = LayerGeometry(
        ...     in_offset=0, in_row_bytes=60, in_pixel_bytes=2, kernel_h=3, kernel_w=3, stride_h=1,
        ...     stride_w=1, dilation_h=1, dilation_w=1, out_h=28, out_w=28, group_words=1, groups=1,
        ...     columns=16, out_offset=4096, out_row_bytes=896, out_pixel_bytes=32)
        >>> InputRows.of(conv, port_bytes=8).pitch
        68
        """
        rise, span, sample_rows = window_rows(layer.kernel_h, layer.stride_h, layer.dilation_h, layer.out_h)
        apart = (layer.out_w - 1) * layer.stride_w + (layer.kernel_w - 1) * layer.dilation_w
        row_bytes = apart * layer.in_pixel_bytes + word_bytes * layer.groups * layer.group_words
        row_step = layer.in_row_bytes * (layer.stride_h if layer.kernel_h == 1 else 1)
        least = row_bytes + port_bytes - word_bytes
        pitch = least + (row_step - least) % port_bytes
        return cls(
            row_bytes=row_bytes,
            row_step=row_step,
            sample_rows=sample_rows,
            rise=rise,
            span=span,
            pitch=pitch,
            sample_pitch=ceil_div(sample_rows * pitch, port_bytes) * port_bytes,
            step_h=rise * pitch,
            tap_h=layer.dilation_h * pitch,
        )


def window_rows(kernel_h: int, stride_h: int, dilation_h: int, out_h: int) -> tuple[int, int, int]:
    """Rows from a window to the one below, rows of a window, rows of a sample.

    A kernel of one row leaves out the rows that its stride skips.
    """
    rise, span = (1, 1) if kernel_h == 1 else (stride_h, (kernel_h - 1) * dilation_h + 1)
    return rise, span, (out_h - 1) * rise + span


def rows(window: Window) -> tuple[int, int, int]:
    """The counts of `window_rows` for a layer's window."""
    return window_rows(window.kernel[0], window.stride[0], window.dilation[0], window.out[0])


def row_bytes(layer: LayerShape, window: Window, word_bytes: int = 2) -> int:
    """Bytes of an input row from its first window's first word to its last window's last."""
    groups = layer.groups * (layer.p // (window.kernel[0] * window.kernel[1])) if layer.kind is Kind.GEMM else layer.c
    apart = (window.out[1] - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1]
    return word_bytes * (apart * window.channels + groups)


def needed_bytes(
    layer: LayerShape,
    *,
    batch: int,
    block: int,
    row_lanes: bool = False,
    b_r: int | None = None,
    port_bytes: int = MOST_PORT_BYTES,
    word_bytes: int = 2,
) -> int:
    """Least capacity of the buffer in bytes for row blocks of `block` beats.

    Raises DesignError without a window.

    `b_r` below `batch` means lanes by samples. Behind the widest port rows lie at their furthest from each
    other.
    """
    needed = needed_bytes_of(
        layer,
        np.array([block]),
        batch=batch,
        row_lanes=row_lanes,
        b_r=b_r,
        port_bytes=port_bytes,
        word_bytes=word_bytes,
    )
    return int(needed[0])


def needed_bytes_of(
    layer: LayerShape,
    blocks: Ints,
    *,
    batch: int,
    row_lanes: bool = False,
    b_r: int | None = None,
    port_bytes: int = MOST_PORT_BYTES,
    word_bytes: int = 2,
) -> Ints:
    """Bytes as `needed_bytes` gives them, in the shape of `blocks`. Raises DesignError without a window."""
    window = layer.window
    if window is None:
        raise DesignError(f"layer '{layer.name}' needs a window before its rows can be placed")
    by_samples = b_r is not None and b_r < batch
    rise, span, sample_rows = rows(window)
    pitch = row_bytes(layer, window, word_bytes) + 2 * port_bytes - 2 * word_bytes
    sample_pitch = ceil_div(sample_rows * pitch, port_bytes) * port_bytes
    total = window.out[0] * window.out[1] * (b_r if by_samples and b_r else batch)
    # The blocks of the first size, one after another, then those of the second, ...
    steps = 2 * blocks if row_lanes else blocks
    counts = -(-total // steps)
    begins = np.cumsum(counts) - counts
    step = np.repeat(steps, counts)
    first = (np.arange(len(step)) - np.repeat(begins, counts)) * step
    last = np.minimum(first + step, total) - 1

    def place(row: Ints) -> Ints:
        sample, within = np.divmod(row, window.out[0] * window.out[1])
        return sample * sample_pitch + within // window.out[1] * (rise * pitch)

    most = np.maximum.reduceat(place(last) - place(first), begins) + (span * pitch + port_bytes)
    return np.asarray(2 * most if by_samples else most)

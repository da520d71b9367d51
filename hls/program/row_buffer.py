"""Layout and least size of the data plane's input buffer, computed as the hardware does. Pure arithmetic.

A row spans the first word of its first window to the last word of its last. Rows are `pitch` bytes apart, so
that no two share a port word, and each starts at the same offset in a port word as in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluidnpu.dse.hardware import needed_bytes
from fluidnpu.models import Kind, LayerShape, Window

from ..formats.table import KindCode
from .descriptor import Descriptor
from .fbcb import FbcbEntry
from .program import WORD_BYTES


@dataclass(frozen=True, kw_only=True)
class InputRows:
    """The input rows of a layer: counts, and distances in bytes.

    `row_step` is a distance in memory; `pitch` and the fields after it are distances in the buffer.
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
    def of(cls, d: Descriptor, port_bytes: int) -> InputRows:
        """Lay out the rows of a layer behind a port of that width."""
        flat = d.kernel_h == 1
        rise, span = (1, 1) if flat else (d.stride_h, (d.kernel_h - 1) * d.dilation_h + 1)
        apart = (d.out_w - 1) * d.stride_w + (d.kernel_w - 1) * d.dilation_w
        row_bytes = apart * d.in_pixel_bytes + WORD_BYTES * d.groups * d.group_words
        row_step = d.in_row_bytes * (d.stride_h if flat else 1)
        least = row_bytes + port_bytes - WORD_BYTES
        pitch = least + (row_step - least) % port_bytes
        sample_rows = (d.out_h - 1) * rise + span
        return cls(
            row_bytes=row_bytes,
            row_step=row_step,
            sample_rows=sample_rows,
            rise=rise,
            span=span,
            pitch=pitch,
            sample_pitch=-(-sample_rows * pitch // port_bytes) * port_bytes,
            step_h=rise * pitch,
            tap_h=d.dilation_h * pitch,
        )


def buffer_bytes(descriptor: Descriptor, run: FbcbEntry) -> int:
    """The least capacity in bytes, for any port width, at which no window waits for a row without room."""
    d = descriptor
    taps = d.kernel_h * d.kernel_w
    layer = LayerShape(
        name="layer",
        r=d.out_h * d.out_w,
        p=taps * d.group_words if d.kind == KindCode.GEMM else taps,
        c=d.columns if d.kind == KindCode.GEMM else d.group_words,
        kind=Kind.GEMM if d.kind == KindCode.GEMM else Kind.MAX_POOL,
        groups=d.groups,
        window=Window(
            kernel=(d.kernel_h, d.kernel_w),
            stride=(d.stride_h, d.stride_w),
            dilation=(d.dilation_h, d.dilation_w),
            out=(d.out_h, d.out_w),
            channels=d.in_pixel_bytes // WORD_BYTES,
        ),
    )
    return needed_bytes(layer, batch=run.batch, block=run.block, row_lanes=run.row_lanes, b_r=run.b_r)

"""Where input rows lie in the data plane's input buffer, and how large it must be; from a descriptor, as the hardware does it. Pure arithmetic.

A row goes from its first window's first word to its last window's last. Rows follow one another `pitch` bytes apart, so far that no two share a port
word, and each begins as far into a port word as it does in memory.
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
    """A layer's input rows. `row_step` is a distance in memory, `pitch` and what follows are distances in the buffer; all in bytes but the counts."""

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
        """Those of a layer behind a port of that width."""
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
    """Least capacity in bytes with which no window of this run waits for a row that has no room, for ports of any width."""
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

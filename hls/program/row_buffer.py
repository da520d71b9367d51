"""Least size of the data plane's input buffer for one layer at one FBCB word. Pure arithmetic.

`dse.hardware.InputRows` has the layout of the rows in it.
"""

from __future__ import annotations

from fluidnpu.dse.hardware import needed_bytes
from fluidnpu.models import Kind, LayerShape, Window

from ..formats.table import KindCode
from .descriptor import Descriptor
from .fbcb import FbcbEntry


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
            channels=d.in_pixel_bytes // d.word_bytes,
        ),
    )
    return needed_bytes(
        layer, batch=run.batch, block=run.block, row_lanes=run.row_lanes, b_r=run.b_r, word_bytes=d.word_bytes
    )

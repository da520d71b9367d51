"""From a program to what the `exact` cycle model asks for: one `dse.LayerJob` a layer. Numbers only; no I/O."""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.dse.exact import LayerJob

from .descriptor import DESCRIPTOR_BYTES
from .fbcb import decode_fbcb
from .program import Program

_SAME = (
    "in_offset", "in_row_bytes", "in_pixel_bytes", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w",
    "out_h", "out_w", "group_words", "groups", "columns", "out_offset", "out_row_bytes", "out_pixel_bytes", "has_residual",
    "residual_offset", "residual_row_bytes", "residual_pixel_bytes",
)  # fmt: skip


def layer_jobs(program: Program, design: Design, batch: int, *, address: int = 0) -> tuple[LayerJob, ...]:
    """Every layer of a program at a batch size, with its image at `address`. FbcbError where an FBCB word cannot be obeyed."""
    jobs = []
    for index, one in enumerate(program.descriptors):
        word = program.fbcb_word(index, batch)
        run = decode_fbcb(
            word, kind=one.kind, batch=batch, t_r=design.t_r, stackable=design.stackable, split=design.split
        )
        part = one.weights[run.mode] if one.kind == 0 else 0
        jobs.append(
            LayerJob(
                mode=run.mode,
                batch=batch,
                b_r=run.b_r,
                row_lanes=run.row_lanes,
                block=run.block,
                weights=address + program.weights_offset + part,
                descriptor=address + DESCRIPTOR_BYTES * index,
                **{name: getattr(one, name) for name in _SAME},
            )
        )
    return tuple(jobs)

"""Jobs for the `exact` cycle model from a program: one `dse.exact.LayerJob` a layer. Numbers only; no I/O."""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.dse.exact import LayerJob

from ..formats.table import KindCode
from .descriptor import DESCRIPTOR_BYTES
from .fbcb import decode_layer
from .program import Program


def layer_jobs(program: Program, design: Design, batch: int, *, address: int = 0) -> tuple[LayerJob, ...]:
    """The jobs of a program at a batch size, its image at `address`; FbcbError for a bad FBCB word."""
    jobs = []
    for index, layer in enumerate(program.descriptors):
        run = decode_layer(design, program.fbcb_word(index, batch), layer, batch)
        part = layer.weights[run.mode] if layer.kind == KindCode.GEMM else 0
        jobs.append(
            LayerJob(
                mode=run.mode,
                batch=batch,
                b_r=run.b_r,
                row_lanes=run.row_lanes,
                block=run.block,
                weights=address + program.weights_offset + part,
                descriptor=address + DESCRIPTOR_BYTES * index,
                **layer.geometry,
            )
        )
    return tuple(jobs)

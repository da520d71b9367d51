"""Jobs for the `exact` cycle model from a program: one `dse.exact.LayerJob` a layer. Numbers only; no I/O."""

from __future__ import annotations

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.exact import LayerJob

from ..formats.table import KindCode
from .descriptor import DESCRIPTOR_BYTES, Descriptor
from .fbcb import decode_layer
from .pieces import OF_POOLS
from .program import Program


def layer_jobs(program: Program, design: Design, batch: int, *, address: int = 0) -> tuple[LayerJob, ...]:
    """The jobs of a program at a batch size, its image at `address`; FbcbError for a bad FBCB word."""
    return tuple(
        layer_job(
            design,
            layer,
            program.fbcb_word(index, batch),
            batch,
            weights=address + program.weights_offset,
            descriptor=address + DESCRIPTOR_BYTES * index,
        )
        for index, layer in enumerate(program.descriptors)
    )


def layer_job(design: Design, layer: Descriptor, word: int, batch: int, *, weights: int, descriptor: int) -> LayerJob:
    """One layer by its FBCB word; `weights` and `descriptor` are the addresses of image and descriptor."""
    run = decode_layer(design, word, layer, batch)
    return LayerJob(
        mode=run.mode,
        batch=batch,
        b_r=run.b_r,
        row_lanes=run.row_lanes,
        block=run.block,
        weights=weights + _part(layer, run.mode),
        descriptor=descriptor,
        **layer.geometry,
    )


def _part(layer: Descriptor, mode: Mode) -> int:
    """The offset in the image of what a layer takes: weights in that mode, or of a pool its pieces."""
    if layer.merged:
        return 0
    if layer.kind == KindCode.GEMM:
        return layer.weights[mode]
    return layer.weights[OF_POOLS] if layer.pieces else 0

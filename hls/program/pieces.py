"""The constants of the activation unit behind a layer's weights in the image (ADR 69). Arrays only; no I/O.

A piece is a pair of int16, base and slope: 32 bits in memory, the base in the low half. Those of a table lie
in the order of its segments, those of channels in the order of the output stream, so they depend on the mode.

>>> from fluidnpu.dse.testing import tiny_design
>>> channels = np.stack([np.arange(10), 100 + np.arange(10)], axis=1).astype(np.int16)
>>> place = {"columns": 5, "groups": 2, "mode": Mode.LANES, "design": tiny_design()}
>>> packed = pack_pieces(channels, **place, count=24)
>>> packed[:, 0].tolist()
[0, 1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
>>> bool((unpack_pieces(packed, **place) == channels).all())
True
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import LANE_PIECES, pieces
from fluidnpu.models import Kind, LayerShape
from fluidnpu.models.graph import Use
from fluidnpu.models.numeric import Unit

from ..errors import StreamError
from ..formats.table import NO_WEIGHTS, ActivationCode, KindCode
from .descriptor import Descriptor
from .layout import column_tiles, part_words
from .program import align

Int16 = npt.NDArray[np.int16]

PIECE_BYTES = 4
OF_POOLS = 3  # the entry of a descriptor's `weights` that says where a pool's pieces lie
CHANNELS = (Use.SLOPE, Use.AFFINE)  # uses with a piece for each channel


def packed_pieces(unit: Unit, shape: LayerShape, mode: Mode, design: Design) -> Int16:
    """The pieces of a layer as they lie in the image: int16 (count, 2), of `dse.hardware.pieces`."""
    if unit.use not in CHANNELS:
        return unit.pieces
    place = {"columns": shape.c, "groups": shape.groups if shape.kind is Kind.GEMM else 1}
    return pack_pieces(unit.pieces, **place, mode=mode, design=design, count=pieces(shape, design.array))


def unit_fields(unit: Unit, count: int) -> dict[str, int]:
    """The fields of a descriptor that say how a layer uses the unit."""
    return {
        "activation": ActivationCode[unit.use.name],
        "activation_window": unit.window,
        "activation_shift": unit.shift,
        "activation_lo": unit.lo,
        "activation_hi": unit.hi,
        "pieces": count,
    }


def held(layer: Descriptor, mode: Mode, design: Design) -> bool:
    """True if a layer has a piece for each of its channels, and no more than the lanes of a unit hold."""
    if layer.activation not in (ActivationCode.SLOPE, ActivationCode.AFFINE):
        return True
    needed = len(beat_channels(layer.columns, layer.groups, mode, design))
    return needed <= layer.pieces <= LANE_PIECES * design.out_words


def layer_unit(layer: Descriptor, mode: Mode, design: Design, weights: bytes) -> Unit:
    """The unit of a layer, from a descriptor and the weight image. Raises StreamError where pieces are
    missing.
    """
    start = pieces_at(layer, mode, design)
    if layer.pieces and start == NO_WEIGHTS:
        raise StreamError(f"the program stores no pieces for mode {mode.name} in this layer")
    if layer.pieces and start + PIECE_BYTES * layer.pieces > len(weights):
        raise StreamError(f"the pieces of this layer must end within the image of {len(weights)} bytes")
    words = np.frombuffer(weights, "<i2", count=2 * layer.pieces, offset=start if layer.pieces else 0)
    return unit_of(layer, mode, design, words)


def unit_of(layer: Descriptor, mode: Mode, design: Design, words: Int16) -> Unit:
    """The unit of a layer from its pieces as they lie in the image, int16 (2 * pieces,).

    Slopes have no bases, whatever lies there: the hardware does not look.
    """
    use, given = Use[ActivationCode(layer.activation).name], words.reshape(-1, 2)
    if use in CHANNELS:
        given = unpack_pieces(given, columns=layer.columns, groups=layer.groups, mode=mode, design=design)
        given[:, 0] *= use is not Use.SLOPE
    return Unit(
        use=use,
        window=layer.activation_window,
        shift=layer.activation_shift,
        lo=layer.activation_lo,
        hi=layer.activation_hi,
        pieces=given,
        bits=design.word_bits,
    )


def pack_pieces(channels: Int16, *, columns: int, groups: int, mode: Mode, design: Design, count: int) -> Int16:
    """Put pieces of channels (groups * columns, 2) into the order of the output stream: (count, 2).

    Lanes without a column, and what is left of `count` behind the last beat, are zero.
    """
    order = beat_channels(columns, groups, mode, design)
    packed = np.zeros((count, 2), np.int16)
    packed[: len(order)][order >= 0] = channels[order[order >= 0]]
    return packed


def unpack_pieces(packed: Int16, *, columns: int, groups: int, mode: Mode, design: Design) -> Int16:
    """Invert `pack_pieces`: (groups * columns, 2)."""
    order = beat_channels(columns, groups, mode, design)
    channels = np.zeros((groups * columns, 2), np.int16)
    channels[order[order >= 0]] = packed[: len(order)][order >= 0]
    return channels


def pieces_at(layer: Descriptor, mode: Mode, design: Design) -> int:
    """The offset of a layer's pieces in the weight image: behind the weights of the mode, on 64 bytes.

    NO_WEIGHTS where the layer has no part for the mode.
    """
    if layer.kind != KindCode.GEMM:
        return layer.weights[OF_POOLS]
    start = layer.weights[mode]
    if start == NO_WEIGHTS:
        return NO_WEIGHTS
    p = layer.kernel_h * layer.kernel_w * layer.group_words
    words = part_words(p=p, columns=layer.columns, groups=layer.groups, mode=mode, design=design)
    return align(start + design.word_bytes * words)


def beat_channels(columns: int, groups: int, mode: Mode, design: Design) -> npt.NDArray[np.intp]:
    """The channel of each word of a pixel in the output stream (words,), -1 for a lane without a column."""
    parts = []
    for group in range(groups):
        for first, cols in column_tiles(columns, mode, design):
            part = np.full(align(cols, design.out_words), -1, np.intp)
            part[:cols] = group * columns + first + np.arange(cols)
            parts.append(part)
    return np.concatenate(parts)

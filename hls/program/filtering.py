"""A depthwise layer as the filter behind another: its constants in the weight image (ADR 70). Arrays only; no
I/O.

They follow the pieces of the layer in front: rows of weights in the order of the output stream, which
depends on the mode, and then the pieces of a table. Each part fills whole words of the memory's port. Rows
are pairs of 16-bit words, whatever the width of the NPU's words: two weights of 8 bits share one.

>>> from fluidnpu.dse.testing import tiny_design
>>> taps = np.arange(50, dtype=np.int16).reshape(2, 25)
>>> packed = pack_rows(taps, np.array([-7, 1 << 40]), Mode.NORMAL, tiny_design(), count=3)
>>> packed.shape, packed[0, 4, 1].tolist(), packed[1, 0, 1].tolist()
((3, 6, 4, 2), [33, 0], [34, 35])
>>> back = unpack_rows(packed, channels=2, kernel=5, mode=Mode.NORMAL, design=tiny_design())
>>> bool((back[0] == taps).all()), back[1].tolist()
(True, [-7, 1099511627776])
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import PRODUCTS, WEIGHT_PAIRS, filter_bytes, filter_steps
from fluidnpu.models import Kind, Layer, QuantisedLayer
from fluidnpu.models.graph import Activation, Filtering, Use
from fluidnpu.models.numeric import WORDS, Stored, Unit

from ..errors import StreamError
from ..formats.table import NO_WEIGHTS
from .descriptor import TABLE_PIECES, Descriptor
from .layout import Int64, header_bits, headers, scales
from .pieces import PIECE_BYTES, beat_channels, pieces_at
from .program import align

Int16 = npt.NDArray[np.int16]


CONSTANT_BYTES = 2  # of the words that rows and pieces consist of


def filter_fields(depthwise: QuantisedLayer, filtering: Filtering, size: tuple[int, int], rows: int) -> dict[str, int]:
    """The fields of a descriptor that say what its outputs, a map of this size, pass; `rows` of weights."""
    high, wide = filtering.walk(size)
    fields = {
        "filter_kernel": filtering.kernel,
        "filter_stride": filtering.stride,
        "filter_top": filtering.padded[0],
        "filter_left": filtering.padded[1],
        "filter_shift": depthwise.shift,
        "filter_lo": depthwise.lo,
        "filter_hi": depthwise.hi,
        "filter_rows": rows,
        "walk_h": high,
        "walk_w": wide,
    }
    if depthwise.unit is not None:
        fields |= {
            "filter_table": 1,
            "filter_window": depthwise.unit.window,
            "filter_unit_shift": depthwise.unit.shift,
            "filter_unit_lo": depthwise.unit.lo,
            "filter_unit_hi": depthwise.unit.hi,
        }
    return fields


def pack_filter(depthwise: QuantisedLayer, rows: int, mode: Mode, design: Design) -> bytes:
    """The constants of a filter as they lie in the image: rows of weights, then the pieces of a table."""
    header = headers(depthwise.bias, depthwise.multipliers, depthwise.shifts)
    packed = pack_rows(depthwise.weights[:, :, 0], header, mode, design, count=rows)
    table = b"" if depthwise.unit is None else depthwise.unit.pieces.astype("<i2").tobytes()
    return packed.astype("<i2").tobytes() + table.ljust(align(len(table), _port_bytes(design)), b"\0")


def layer_filter(layer: Descriptor, mode: Mode, design: Design, weights: bytes) -> QuantisedLayer:
    """The depthwise layer that outputs pass, from a descriptor and the weight image. Raises StreamError where
    its constants are missing.
    """
    start, size = filter_at(layer, mode, design), filter_words(layer, design)
    if start == NO_WEIGHTS:
        raise StreamError(f"the program stores no weights of a filter for mode {mode.name} in this layer")
    if start + CONSTANT_BYTES * size > len(weights):
        raise StreamError(f"the filter of this layer must end within the image of {len(weights)} bytes")
    return filter_of(layer, mode, design, np.frombuffer(weights, "<i2", count=size, offset=start))


def filter_of(layer: Descriptor, mode: Mode, design: Design, words: Int16) -> QuantisedLayer:
    """The depthwise layer that outputs pass, from its constants (filter_words,) as they lie in the image,
    int16.

    Raises NetworkError where its sums could wrap.
    """
    kernel, stride, channels = layer.filter_kernel, layer.filter_stride, layer.columns
    size = _row_words(layer, design)
    rows = words[:size].reshape(layer.filter_rows, WEIGHT_PAIRS, -1, 2)
    taps, header = unpack_rows(rows, channels=channels, kernel=kernel, mode=mode, design=design)
    bias, multipliers, shifts = scales(header, design)
    unit = None
    if layer.filter_table:
        unit = Unit(
            use=Use.TABLE,
            window=layer.filter_window,
            shift=layer.filter_unit_shift,
            lo=layer.filter_unit_lo,
            hi=layer.filter_unit_hi,
            pieces=words[size : size + 2 * TABLE_PIECES].reshape(-1, 2),
            bits=design.word_bits,
        )
    behind = layer.walk_h - layer.out_h, layer.walk_w - layer.out_w
    return QuantisedLayer(
        layer=Layer(
            name="filter",
            kind=Kind.GEMM,
            input="map",
            output="filtered",
            channels=channels,
            in_shape=(layer.out_h, layer.out_w, channels),
            kernel=(kernel, kernel),
            stride=(stride, stride),
            padding=(layer.filter_top, layer.filter_left, *behind),
            groups=channels,
            activation=None if unit is None else Activation(use=Use.TABLE, function="silu"),  # whichever: pieces say
        ),
        weights=taps[:, :, None],
        bias=bias,
        multipliers=multipliers,
        shifts=shifts,
        shift=layer.filter_shift,
        lo=layer.filter_lo,
        hi=layer.filter_hi,
        unit=unit,
    )


def filter_fits(layer: Descriptor, mode: Mode, design: Design) -> bool:
    """True if there is a row of weights for each step of each beat of a pixel."""
    beats = len(beat_channels(layer.columns, 1, mode, design)) // design.out_words
    return beats * filter_steps(layer.filter_kernel) <= layer.filter_rows


def filter_at(layer: Descriptor, mode: Mode, design: Design) -> int:
    """The offset in the weight image of a filter's constants; NO_WEIGHTS where the layer has no part for the
    mode.
    """
    start = pieces_at(layer, mode, design)
    return start if start == NO_WEIGHTS else align(start + PIECE_BYTES * layer.pieces, _port_bytes(design))


def filter_words(layer: Descriptor, design: Design) -> int:
    """16-bit words of a filter's constants, without what fills the last word of the port."""
    return _row_words(layer, design) + 2 * TABLE_PIECES * layer.filter_table


def _row_words(layer: Descriptor, design: Design) -> int:
    return filter_bytes(layer.filter_rows, design.out_words, _port_bytes(design)) // CONSTANT_BYTES


def _port_bytes(design: Design) -> int:
    return design.port_bits // 8


def pack_rows(taps: Stored, header: Int64, mode: Mode, design: Design, *, count: int) -> Int16:
    """Put weights (channels, k * k) and `headers` (channels,) into rows: int16 (count, 6, lanes, 2).

    A beat of a pixel has a row for each nine taps; the first has the header. Lanes without a column, and rows
    behind the last beat, are zero. Lanes fill whole words of the memory's port.
    """
    channels, steps = len(taps), -(-taps.shape[1] // PRODUCTS)
    order, (first, end) = beat_channels(channels, 1, mode, design), _header_words(design)
    nines = np.zeros((channels, steps * PRODUCTS), taps.dtype)
    nines[:, : taps.shape[1]] = taps
    weights = np.zeros((channels, steps, first * CONSTANT_BYTES // design.word_bytes), taps.dtype)
    weights[:, :, :PRODUCTS] = nines.reshape(channels, steps, PRODUCTS)
    words = np.zeros((channels + 1, steps, 2 * WEIGHT_PAIRS), np.int16)  # the last for a lane without a column
    words[:-1, :, :first] = weights.view("<i2")
    words[:-1, 0, first:end] = (header[:, None] >> 16 * np.arange(end - first)).astype(np.int16)
    lanes = design.out_words
    rows = words[order].reshape(-1, lanes, steps, WEIGHT_PAIRS, 2).transpose(0, 2, 3, 1, 4)
    packed = np.zeros((count, WEIGHT_PAIRS, align(lanes, _port_bytes(design) // 4), 2), np.int16)
    packed[: len(order) // lanes * steps, :, :lanes] = rows.reshape(-1, WEIGHT_PAIRS, lanes, 2)
    return packed


def unpack_rows(packed: Int16, *, channels: int, kernel: int, mode: Mode, design: Design) -> tuple[Stored, Int64]:
    """Invert `pack_rows`: weights (channels, k * k) of the design's words, and headers int64 (channels,)."""
    order, steps, lanes = beat_channels(channels, 1, mode, design), filter_steps(kernel), design.out_words
    first, end = _header_words(design)
    rows = packed[: len(order) // lanes * steps, :, :lanes].reshape(-1, steps, WEIGHT_PAIRS, lanes, 2)
    words = rows.transpose(0, 3, 1, 2, 4).reshape(len(order), steps, 2 * WEIGHT_PAIRS)
    at = np.argsort(order[order >= 0])  # of each channel, among the lanes that have one
    own = np.ascontiguousarray(words[order >= 0][at])
    parts = own[:, 0, first:end].astype(np.int64)
    parts[:, :-1] &= 0xFFFF  # the last has the sign
    taps = np.ascontiguousarray(own[:, :, :first]).view(WORDS[design.word_bits].dtype)[:, :, :PRODUCTS]
    weights = np.ascontiguousarray(taps.reshape(channels, -1)[:, : kernel * kernel])
    return weights, (parts << 16 * np.arange(end - first)).sum(axis=1)


def _header_words(design: Design) -> tuple[int, int]:
    """The first 16-bit word of a header in a lane's row, behind the weights, and the end of it."""
    first = -(-PRODUCTS * design.word_bytes // CONSTANT_BYTES)
    return first, first + header_bits(design) // 16

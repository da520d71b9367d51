"""A depthwise layer as the filter behind another: its constants in the weight image (ADR 70). Arrays only; no
I/O.

They follow the pieces of the layer in front: rows of weights in the order of the output stream, which
depends on the mode, and then the pieces of a table. Each part fills whole words of the memory's port.

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
from fluidnpu.models.numeric import Unit

from ..errors import StreamError
from ..formats.table import NO_WEIGHTS
from .descriptor import TABLE_PIECES, Descriptor
from .layout import BIAS_WORDS
from .pieces import PIECE_BYTES, beat_channels, pieces_at
from .program import WORD_BYTES, align

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]


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


def packed_filter(depthwise: QuantisedLayer, rows: int, mode: Mode, design: Design) -> bytes:
    """The constants of a filter as they lie in the image: rows of weights, then the pieces of a table."""
    packed = pack_rows(depthwise.weights[:, :, 0], depthwise.bias, mode, design, count=rows)
    table = b"" if depthwise.unit is None else depthwise.unit.pieces.astype("<i2").tobytes()
    return packed.astype("<i2").tobytes() + table.ljust(align(len(table), _port_bytes(design)), b"\0")


def layer_filter(layer: Descriptor, mode: Mode, design: Design, weights: bytes) -> QuantisedLayer:
    """The depthwise layer that outputs pass, from a descriptor and the weight image; StreamError where its
    constants are missing.
    """
    start, size = filter_at(layer, mode, design), filter_words(layer, design)
    if start == NO_WEIGHTS:
        raise StreamError(f"the program stores no weights of a filter for mode {mode.name} in this layer")
    if start + WORD_BYTES * size > len(weights):
        raise StreamError(f"the filter of this layer must end within the image of {len(weights)} bytes")
    return filter_of(layer, mode, design, np.frombuffer(weights, "<i2", count=size, offset=start))


def filter_of(layer: Descriptor, mode: Mode, design: Design, words: Int16) -> QuantisedLayer:
    """The depthwise layer that outputs pass, from its constants as they lie in the image: int16
    (`filter_words`,).

    NetworkError where its sums could wrap.
    """
    kernel, stride, channels = layer.filter_kernel, layer.filter_stride, layer.columns
    size = _row_words(layer, design)
    rows = words[:size].reshape(layer.filter_rows, WEIGHT_PAIRS, -1, 2)
    taps, bias = unpack_rows(rows, channels=channels, kernel=kernel, mode=mode, design=design)
    unit = None
    if layer.filter_table:
        unit = Unit(
            use=Use.TABLE,
            window=layer.filter_window,
            shift=layer.filter_unit_shift,
            lo=layer.filter_unit_lo,
            hi=layer.filter_unit_hi,
            pieces=words[size : size + 2 * TABLE_PIECES].reshape(-1, 2),
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
    """Words of a filter's constants, without what fills the last word of the port."""
    return _row_words(layer, design) + 2 * TABLE_PIECES * layer.filter_table


def _row_words(layer: Descriptor, design: Design) -> int:
    return filter_bytes(layer.filter_rows, design.out_words, _port_bytes(design)) // WORD_BYTES


def _port_bytes(design: Design) -> int:
    return design.port_bits // 8


def pack_rows(taps: Int16, bias: Int64, mode: Mode, design: Design, *, count: int) -> Int16:
    """Put weights (channels, k * k) and biases (channels,) into rows: int16 (count, 6, lanes, 2).

    A beat of a pixel has a row for each nine taps; the first has the bias. Lanes without a column, and rows
    behind the last beat, are zero. Lanes fill whole words of the memory's port.
    """
    channels, steps = len(taps), -(-taps.shape[1] // PRODUCTS)
    order = beat_channels(channels, 1, mode, design)
    nines = np.zeros((channels, steps * PRODUCTS), np.int16)
    nines[:, : taps.shape[1]] = taps
    words = np.zeros((channels + 1, steps, 2 * WEIGHT_PAIRS), np.int16)  # the last for a lane without a column
    words[:-1, :, :PRODUCTS] = nines.reshape(channels, steps, PRODUCTS)
    words[:-1, 0, PRODUCTS:] = (bias[:, None] >> np.array([0, 16, 32])).astype(np.uint16).view(np.int16)
    lanes = design.out_words
    rows = words[order].reshape(-1, lanes, steps, WEIGHT_PAIRS, 2).transpose(0, 2, 3, 1, 4)
    packed = np.zeros((count, WEIGHT_PAIRS, align(lanes, _port_bytes(design) // 4), 2), np.int16)
    packed[: len(order) // lanes * steps, :, :lanes] = rows.reshape(-1, WEIGHT_PAIRS, lanes, 2)
    return packed


def unpack_rows(packed: Int16, *, channels: int, kernel: int, mode: Mode, design: Design) -> tuple[Int16, Int64]:
    """Invert `pack_rows`: weights int16 (channels, k * k) and biases int64 (channels,)."""
    order, steps, lanes = beat_channels(channels, 1, mode, design), filter_steps(kernel), design.out_words
    rows = packed[: len(order) // lanes * steps, :, :lanes].reshape(-1, steps, WEIGHT_PAIRS, lanes, 2)
    words = rows.transpose(0, 3, 1, 2, 4).reshape(len(order), steps, 2 * WEIGHT_PAIRS)
    at = np.argsort(order[order >= 0])  # of each channel, among the lanes that have one
    own = words[order >= 0][at]
    low, middle, high = own[:, 0, PRODUCTS : PRODUCTS + BIAS_WORDS].astype(np.int64).T
    taps = own[:, :, :PRODUCTS].reshape(channels, -1)[:, : kernel * kernel]
    return np.ascontiguousarray(taps), (low & 0xFFFF) | (middle & 0xFFFF) << 16 | high << 32

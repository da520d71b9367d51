"""RAM primitives of a memory as Yosys maps it, for one memory or for arrays of depths. Pure arithmetic.

The rule is that of `memory_libmap` with the libraries of `synth_xilinx` (Yosys 0.70): a memory is cut into
chunks of as many rows as a primitive of a given width has; the bits of all chunks, each filled up to whole
write-enable bytes, are packed side by side into primitives; multiplexers between chunks cost half a point a
bit, a primitive about 129 points for each RAMB18, and the cheapest shape wins. So 1536 x 48 takes five RAMB18
of 512 x 36 (three chunks of 54 bits), where whole chunks in whole primitives would take six:

>>> int(block_rams(1536, 48)), int(block_rams(1024, 48)), int(block_rams(512, 48)), int(ultra_rams(12288, 48))
(5, 3, 2, 2)

Vendor tools choose their own shapes: they may take other counts, never fewer bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..hardware.array import Floats, Ints

_Blocks = tuple[Floats, Ints, Ints]  # points, RAMB18s, chunks
_Found = tuple[Floats, Ints, Ints, Ints]  # points, RAMB18s, LUTs, chunks
_T = TypeVar("_T", bound=tuple[npt.NDArray[Any], ...])

XC7, XCUP = "xc7", "xcup"  # as Yosys names 7-series and UltraScale+
FAMILIES = {"zynq7000": XC7, "zynquplus": XCUP}  # by the family of a board
_WIDTHS = (1, 2, 4, 9, 18, 36, 72)
_BYTE = 9
_ULTRA_ROWS, _ULTRA_WIDTH = 4096, 72
_MUX, _EMULATION = 0.5, 2.0  # points a multiplexed bit, a piece of logic around the memory
_FORWARDING = 3  # pieces when a word that is written while it is read must show


@dataclass(frozen=True)
class _Ram:
    """One kind of block RAM: address bits at width 1, widths, price in points, RAMB18s."""

    address_bits: int
    widths: tuple[int, ...]
    price: int
    ramb18: int


_TRUE_DUAL = (_Ram(14, _WIDTHS[:5], 129, 1), _Ram(15, _WIDTHS[:6], 257, 2))
_CASCADED = (_Ram(16, _WIDTHS[:1], 513, 4),)
_SIMPLE_DUAL = (_Ram(14, _WIDTHS[:6], 129, 1), _Ram(15, _WIDTHS, 257, 2))
_DUAL_BLOCKS = {XC7: (*_TRUE_DUAL, *_CASCADED), XCUP: _TRUE_DUAL}
_BLOCKS = {family: (*rams, *_SIMPLE_DUAL) for family, rams in _DUAL_BLOCKS.items()}
# Distributed RAM with a write and a read port: rows and bits of a primitive, its LUTs, points for it and for
# the share of it that is used.
_DISTRIBUTED = {XC7: (((32, 6), (64, 3)), 4, 1.0, 7.0), XCUP: (((32, 14), (64, 7)), 8, 0.0, 16.0)}


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """Primitives of one memory, numbers or arrays.

    `chunks`: chunks of rows that its read port chooses among. LUTs are those that store.
    """

    ramb18: Ints
    luts: Ints
    chunks: Ints


def block_rams(depth: Ints | int, width: Ints | int, family: str = XC7, *, dual: bool = False) -> Ints:
    """RAMB18s of a memory of `depth` rows of `width` bits in block RAM; a RAMB36 is two of them.

    `depth` and `width`: numbers or arrays of any shape. `dual`: the port that writes reads, too, beside the
    port that only reads.

    >>> block_rams(np.array([2048, 4096]), 36)
    array([4, 8])
    >>> int(block_rams(512, 36)), int(block_rams(512, 36, dual=True))
    (1, 2)
    """
    depth, width = np.asarray(depth, dtype=np.int64), np.asarray(width, dtype=np.int64)
    return _cheapest_block(depth, width, family, 1, dual)[1]


def block_chunks(depth: Ints | int, width: Ints | int, family: str = XC7) -> Ints:
    """Chunks of rows that the read port of such a memory chooses among.

    The count has the shape that depth and width broadcast to.

    >>> int(block_chunks(1536, 48)), int(block_chunks(1024, 36))
    (3, 1)
    """
    return _cheapest_block(np.asarray(depth, dtype=np.int64), np.asarray(width, dtype=np.int64), family, 1)[2]


def ultra_rams(depth: Ints | int, width: int) -> Ints:
    """URAM288s of such a memory in UltraRAM, whose write enables have bytes of 8 or of 9 bits.

    The count has the shape of `depth`.

    >>> int(ultra_rams(4096, 48)), int(ultra_rams(8192, 36)), int(ultra_rams(8192, 37))
    (1, 1, 2)
    """
    chunks = ultra_chunks(depth)
    counts = [-(-chunks * (-(-width // byte) * byte) // _ULTRA_WIDTH) for byte in (8, 9)]
    return np.asarray(np.minimum(*counts), dtype=np.int64)


def ultra_chunks(depth: Ints | int) -> Ints:
    """Chunks of rows that the read port of a memory in UltraRAM chooses among, in the shape of `depth`."""
    return -(-np.asarray(depth, dtype=np.int64) // _ULTRA_ROWS)


def distributed_luts(depth: Ints | int, width: Ints | int, family: str = XC7) -> Ints:
    """LUTs of a memory that is to be distributed RAM.

    The count has the shape that depth and width broadcast to.

    >>> int(distributed_luts(64, 96)), int(distributed_luts(24, 96))
    (128, 64)
    """
    depth, width = np.broadcast_arrays(np.asarray(depth, dtype=np.int64), np.asarray(width, dtype=np.int64))
    return np.asarray(_cheapest_distributed(depth, width, family)[2], dtype=np.int64)


def free_memory(depth: Ints | int, width: Ints | int, family: str = XC7, *, forwards: bool = False) -> Mapped:
    """A memory whose kind the synthesiser chooses: the cheapest of distributed RAM, block RAM and flip-flops.

    `forwards`: the read address is a register and the word at it shows at once, also when it is just being
    written, as in `common_fifo`. Counts have the shape that depth and width broadcast to.

    >>> found = free_memory(np.array([64, 128]), 64, forwards=True)
    >>> found.ramb18, found.luts
    (array([0, 2]), array([88,  0]))
    """
    depth, width = np.broadcast_arrays(np.asarray(depth, dtype=np.int64), np.asarray(width, dtype=np.int64))
    if depth.size != 1:
        return _free_memories(depth, width, family, forwards)
    mapped = _one_free_memory(depth.item(), width.item(), family, forwards)
    ramb18, luts, chunks = (value.reshape(depth.shape) for value in (mapped.ramb18, mapped.luts, mapped.chunks))
    return Mapped(ramb18=ramb18, luts=luts, chunks=chunks)


@lru_cache(maxsize=4096)
def _one_free_memory(depth: int, width: int, family: str, forwards: bool) -> Mapped:
    return _free_memories(np.asarray(depth), np.asarray(width), family, forwards)


def _free_memories(depth: Ints, width: Ints, family: str, forwards: bool) -> Mapped:
    none = np.zeros_like(depth)
    points, ramb18, chunks = _cheapest_block(depth, width, family, 1 + (_FORWARDING if forwards else 0))
    best: _Found = (depth * width * 1.0, none, none, none + 1)
    for new in (_cheapest_distributed(depth, width, family), (points, ramb18, none, chunks)):
        best = _choose(new[0] < np.floor(best[0]), new, best)
    return Mapped(ramb18=best[1], luts=best[2], chunks=best[3])


def _cheapest_distributed(depth: Ints, width: Ints, family: str) -> _Found:
    shapes, luts, price, share = _DISTRIBUTED[family]
    best: _Found | None = None
    for rows, bits in shapes:
        chunks = -(-depth // rows)
        primitives = chunks * (-(-width // bits))
        points = price * primitives + share * chunks * width / bits + _glue(chunks, width) + _EMULATION
        new: _Found = (points, np.zeros_like(chunks), luts * primitives, chunks)
        best = new if best is None else _choose(points < best[0], new, best)
    assert best is not None
    return best


def _glue(chunks: Ints, width: Ints) -> Floats:
    glue: Floats = _MUX * ((chunks - 1) * width + np.where(chunks > 1, chunks, 0))
    return glue


def _cheapest_block(depth: Ints, width: Ints, family: str, pieces: int, dual: bool = False) -> _Blocks:
    """As `_cheapest_blocks`; of one memory the answer is remembered, since a search asks about few depths."""
    depth, width = np.broadcast_arrays(depth, width)
    if depth.size != 1:
        return _cheapest_blocks(depth, width, family, pieces, dual)
    points, ramb18, chunks = _one_cheapest_block(depth.item(), width.item(), family, pieces, dual)
    return points.reshape(depth.shape), ramb18.reshape(depth.shape), chunks.reshape(depth.shape)


@lru_cache(maxsize=4096)
def _one_cheapest_block(depth: int, width: int, family: str, pieces: int, dual: bool) -> _Blocks:
    return _cheapest_blocks(np.asarray(depth), np.asarray(width), family, pieces, dual)


def _cheapest_blocks(depth: Ints, width: Ints, family: str, pieces: int, dual: bool) -> _Blocks:
    """Points, RAMB18s and chunks of the cheapest shape.

    Within a kind of RAM a later width must save a whole point, as Yosys compares.
    """
    best: _Blocks | None = None
    for ram in (_DUAL_BLOCKS if dual else _BLOCKS)[family]:
        cheapest: _Blocks | None = None
        for level, bits in enumerate(ram.widths):
            chunks = -(-depth // (1 << (ram.address_bits - level)))
            byte = min(_BYTE, bits)
            primitives = -(-chunks * (-(-width // byte) * byte) // bits)
            points = ram.price * primitives + _glue(chunks, width) + _EMULATION * pieces
            new = points, primitives * ram.ramb18, chunks
            cheapest = new if cheapest is None else _choose(points < np.floor(cheapest[0]), new, cheapest)
        assert cheapest is not None
        best = cheapest if best is None else _choose(cheapest[0] < best[0], cheapest, best)
    assert best is not None
    return best


def _choose(better: npt.NDArray[np.bool_], new: _T, old: _T) -> _T:
    return type(old)(np.where(better, a, b) for a, b in zip(new, old, strict=True))

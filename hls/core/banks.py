"""The accumulators of the HLS core in a board's memories. Pure arithmetic.

The C++ has two banks for each PE: one adds up, rows leave from the other. Where a beat of inputs is wider
than the array, each channel of a pool has one of the latter. UltraRAM takes the banks that fit beside the
input buffer.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.dse.testing import tiny_design
>>> hls_ultra_banks(tiny_design(), load_board("zc706")), hls_ultra_banks(tiny_design(), load_board("zcu104"))
(0, 16)
"""

from __future__ import annotations

from dataclasses import replace

from fluidnpu.boards import Board
from fluidnpu.dse import Design
from fluidnpu.dse.resources import HLS_BEAT_BITS, PARTS, NpuShape, hls_banks_in_ultraram, part_primitives


def _shape(design: Design, board: Board) -> NpuShape:
    return replace(NpuShape.of(design, board), pool_banks=True)


def _halves(design: Design) -> int:
    return 2 if design.split else 1


def hls_ultra_banks(design: Design, board: Board) -> int:
    """The number of banks of the C++ that lie in UltraRAM with both halves."""
    return hls_banks_in_ultraram(NpuShape.of(design, board), board)


def hls_core_lacks(design: Design, board: Board) -> str:
    """The reason that a design fits a board only with the reference core; empty when both fit."""
    shape = _shape(design, board)
    if (bits := int(shape.beat_bits)) > HLS_BEAT_BITS:
        return (
            f"a beat of the HLS core has at most {HLS_BEAT_BITS} bits, the widest number of Vivado HLS, and this design "
            f"needs {bits}; the reference core (`--core rtl`) has no such limit"
        )
    shape = replace(shape, ultra_banks=_halves(design) * hls_ultra_banks(design, board))
    need = sum(int(part_primitives(part, shape)["ramb18"]) for part in PARTS)
    if need <= board.ramb18:
        return ""
    return (
        f"the HLS core keeps {int(shape.banks) // _halves(design)} banks of accumulators, with which the NPU takes {need} "
        f"RAMB18 beside UltraRAM, and the board has {board.ramb18}; the reference core (`--core rtl`) needs what the "
        "design counts"
    )

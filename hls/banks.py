"""Where the accumulators of the HLS core lie on a board. Pure arithmetic.

The C++ has a bank for each PE and, where a beat of inputs is wider than the array, one for each channel of a pool; every bank is there twice, since
the array fills one while post-processing empties the other. What of them a board's UltraRAM holds beside the input buffer goes there.

>>> from boards import load_board
>>> from dse.testing import tiny_design
>>> hls_ultra_banks(tiny_design(), load_board("zc706")), hls_ultra_banks(tiny_design(), load_board("zcu104"))
(0, 8)
"""

from __future__ import annotations

from dataclasses import replace

from boards import Board
from dse import PARTS, Design, NpuShape, part_primitives, ultra_banks


def _shape(design: Design, board: Board) -> NpuShape:
    return replace(NpuShape.of(design, board), pool_banks=True)


def _copies(design: Design) -> int:
    """Memories of a bank: two that take turns, each in halves with split trees."""
    return 4 if design.split else 2


def hls_ultra_banks(design: Design, board: Board) -> int:
    """Banks of the C++ that lie in UltraRAM, all copies of each."""
    return int(ultra_banks(_shape(design, board), board)) // _copies(design)


def hls_core_lacks(design: Design, board: Board) -> str:
    """Why a design that fits a board with the reference core does not fit it with the HLS core; empty when it does."""
    shape = replace(_shape(design, board), ultra_banks=_copies(design) * hls_ultra_banks(design, board))
    need = sum(int(part_primitives(part, shape)["ramb18"]) for part in PARTS)
    if need <= board.ramb18:
        return ""
    return (
        f"the HLS core keeps {int(shape.banks) // _copies(design)} banks of accumulators, with which the NPU takes {need} RAMB18 beside UltraRAM, "
        f"and the board has {board.ramb18}; the reference core (`--core rtl`) needs what the design counts"
    )

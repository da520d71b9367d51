"""The shapes of PE arrays and the space of those that fit a board, as the publication counts DSPs and memory.

>>> from fluidnpu.boards import load_board
>>> space = legal_space(load_board("zc706"))
>>> len(space), space[0]
(6276, Point(t_r=314572, t_p=1, t_c=1))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..errors import DesignError
from .array import Ints


@dataclass(frozen=True, kw_only=True)
class Point:
    """A PE shape: rows of a tile, width of a PE's tree, number of PEs.

    >>> point = Point(t_r=4652, t_p=7, t_c=128)
    >>> point.dsp, point.memory_bits
    (896, 20125312)
    """

    t_r: int
    t_p: int
    t_c: int

    def __post_init__(self) -> None:
        for name in ("t_r", "t_p", "t_c"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise DesignError(f"{name} must be a whole number of at least 1, not {value!r}")

    @property
    def dsp(self) -> int:
        """One DSP for each multiply-accumulate of a cycle."""
        return self.t_p * self.t_c

    @property
    def memory_bits(self) -> int:
        """Bits of three double-buffered tile buffers of 16-bit words, as Table I counts them."""
        return 2 * 16 * (self.t_r * self.t_p + self.t_p * self.t_c + self.t_r * self.t_c)

    def stacked(self) -> Point | None:
        """The shape with k = 2, or None where there is no pair of PEs or rows to stack."""
        if self.t_c < 2 or self.t_r < 2:
            return None
        return Point(t_r=self.t_r // 2, t_p=2 * self.t_p, t_c=self.t_c // 2)

    def __str__(self) -> str:
        return f"<{self.t_r}, {self.t_p}, {self.t_c}>"


@dataclass(frozen=True, kw_only=True)
class DesignSpace:
    """Design points as three parallel arrays of whole numbers; indexing gives a `Point`."""

    t_r: Ints
    t_p: Ints
    t_c: Ints

    def __len__(self) -> int:
        return len(self.t_p)

    def __getitem__(self, index: int) -> Point:
        return Point(t_r=int(self.t_r[index]), t_p=int(self.t_p[index]), t_c=int(self.t_c[index]))

    def only(self, keep: npt.NDArray[np.bool_] | Ints) -> DesignSpace:
        """Some of the points, by mask (n,) or by indices (m,)."""
        return DesignSpace(t_r=self.t_r[keep], t_p=self.t_p[keep], t_c=self.t_c[keep])

    @property
    def dsp(self) -> Ints:
        """DSPs of each point, (n,)."""
        return self.t_p * self.t_c

    @property
    def memory_bits(self) -> Ints:
        """Bits of each point, (n,), as Table I counts them."""
        bits: Ints = 32 * (self.t_r * self.t_p + self.t_p * self.t_c + self.t_r * self.t_c)
        return bits


def legal_space(board: Board, columns: int = 1) -> DesignSpace:
    """Every <T_P, T_C> within the board's DSPs, T_R the largest even number whose tile buffers fit.

    So many `columns` of an array share each DSP, one in the publication. In the order of T_P, then T_C.
    Points with no room for two rows are left out. Raises DesignError when none is left.
    """
    widths = np.arange(1, board.dsp + 1, dtype=np.int64)
    per_width = columns * (board.dsp // widths)
    t_p = np.repeat(widths, per_width)
    t_c = np.arange(len(t_p), dtype=np.int64) - np.repeat(np.cumsum(per_width) - per_width, per_width) + 1
    t_r = 2 * ((board.paper_memory_bits - 32 * t_p * t_c) // (64 * (t_p + t_c)))
    legal = t_r >= 2
    if not legal.any():
        raise DesignError(
            f"board '{board.name}' is too small: the smallest design needs 160 bits of on-chip memory, not {board.paper_memory_bits}"
        )
    return DesignSpace(t_r=t_r, t_p=t_p, t_c=t_c).only(legal)

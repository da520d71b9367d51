"""Chains of multiply-accumulates in columns of DSP slices. Pure arithmetic.

The reference core cascades the T_P slices of a processing element from one to the next (PCOUT to PCIN), and
such a cascade lies in one column. So a device holds fewer chains than its slices would make, where columns
are no multiple of T_P high. The HLS core leaves its adders to the tool, and asks nothing of the columns.

>>> chains([(140, 5), (100, 2)], 28), chains([(144, 12)], 27), chains([(144, 12)], 9)
(31, 60, 192)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ..hardware.array import Ints, ceil_div

Columns = Sequence[tuple[int, int]]  # (height, number of columns)


@overload
def chains(columns: Columns, length: int) -> int: ...
@overload
def chains(columns: Columns, length: Ints) -> Ints: ...
def chains(columns: Columns, length: int | Ints) -> int | Ints:
    """Count the chains of `length` slices that fit into the columns, each whole."""
    return sum((count * (height // length) for height, count in columns), start=length * 0)


def fewest_pieces(columns: Columns, length: int, number: int) -> int | None:
    """The fewest equal pieces into which chains must break so that all fit; None where they have no room.

    A piece begins at a port instead of a cascade, which costs a cycle more until the sum is there.

    >>> [fewest_pieces([(144, 12)], t_p, t_c) for t_p, t_c in ((24, 72), (27, 64), (54, 32), (27, 65))]
    [1, 3, 3, None]
    >>> fewest_pieces([(140, 5), (100, 2)], 28, 32)
    2
    """
    if length * number > sum(height * count for height, count in columns):
        return None
    return next(n for n in range(1, length + 1) if chains(columns, ceil_div(length, n)) >= n * number)

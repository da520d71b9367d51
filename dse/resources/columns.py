"""Chains of multiply-accumulates in columns of DSP slices. Pure arithmetic.

The reference core cascades the T_P slices of a processing element from one to the next (PCOUT to PCIN), and
such a cascade lies in one column. So a device holds fewer whole chains than its slices would make, where
columns are no multiple of T_P high. The chains of some elements may break into pieces for what is left over
(ADR 39). The HLS core leaves its adders to the tool, and asks nothing of the columns. The nine multipliers of
a lane of a filter (ADR 70) are such a chain, too, and lie in what the array leaves.

>>> chains([(140, 5), (100, 2)], 28), chains([(144, 11), (48, 3)], 27)
(31, 58)
>>> fewest_breaks(((144, 11), (48, 3)), 27, 64)
Cut(piece=24, broken=24)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np

from ..errors import DesignError
from ..hardware.array import Ints

FILTER_CHAIN = 9  # slices of a lane of a filter
Columns = Sequence[tuple[int, int]]  # (height, number of columns)
MOST_BREAKS = 3  # of a chain: each is a sum of 48 bits that goes over the fabric


@dataclass(frozen=True)
class Cut:
    """A way to break chains: `broken` of them, into pieces of `piece` words, the last shorter; zero: none."""

    piece: int = 0
    broken: int = 0


WHOLE = Cut()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A piece of the chain of a processing element: `words` from word `first` on, and where it lies.

    `offset`: slices of its column below it. Columns count from the highest down.
    """

    pe: int
    first: int
    words: int
    column: int
    offset: int


@overload
def chains(columns: Columns, length: int, lanes: int = 0) -> int: ...
@overload
def chains(columns: Columns, length: Ints, lanes: int = 0) -> Ints: ...
def chains(columns: Columns, length: int | Ints, lanes: int = 0) -> int | Ints:
    """Count the chains of `length` slices that fit into the columns, each whole, beside `lanes` of a filter.

    The count has the shape of `length`.

    >>> chains([(140, 5), (100, 2)], 28, lanes=12)
    28
    """
    held = sum((count * (height // length) for height, count in columns), start=length * 0)
    if not lanes:
        return held
    beside = [_beside(tuple(columns), chain, lanes) for chain in np.ravel(length).tolist()]
    return np.reshape(beside, np.shape(length)) if isinstance(length, np.ndarray) else beside[0]


@lru_cache(maxsize=1 << 12)
def _beside(columns: tuple[tuple[int, int], ...], length: int, lanes: int) -> int:
    """The most whole chains that leave room for the lanes of a filter; 0 where these have none."""
    heights, most = _heights(columns), chains(columns, length)
    return next((number for number in range(most, 0, -1) if _packed(heights, length, number, length, 0, lanes)), 0)


@lru_cache(maxsize=1 << 16)
def fewest_breaks(
    columns: tuple[tuple[int, int], ...], length: int, number: int, *, stackable: bool = True, lanes: int = 0
) -> Cut | None:
    """Find how `number` chains must break for the columns to hold all; None where they have no room.

    `lanes` of a filter lie beside them.

    Of the ways that it finds, the one of fewest breaks in a chain, then of fewest chains that break, then of
    the longest piece; no chain breaks more often than MOST_BREAKS. Both chains of a pair break, or none,
    since their sums are added.

    >>> [fewest_breaks(((144, 11), (48, 3)), t_p, t_c) for t_p, t_c in ((24, 72), (54, 32), (27, 65))]
    [Cut(piece=0, broken=0), Cut(piece=48, broken=24), None]
    >>> fewest_breaks(((140, 5), (100, 2)), 28, 32)
    Cut(piece=22, broken=2)
    """
    if length * number + FILTER_CHAIN * lanes > sum(height * count for height, count in columns):
        return None
    missing = number - chains(columns, length, lanes)
    if missing <= 0:
        return WHOLE
    heights = _heights(columns)
    step = 2 if stackable and number % 2 == 0 else 1
    least = -(-missing // step) * step
    for breaks in range(1, min(MOST_BREAKS + 1, length)):
        shortest = -(-length // (breaks + 1))
        longest = min(-(-length // breaks) - 1, max(heights))
        for broken in range(least, number + 1, step):
            for piece in range(longest, shortest - 1, -1):
                if _packed(heights, length, number - broken, piece, broken, lanes):
                    return Cut(piece, broken)
    return None


def _heights(columns: Columns) -> list[int]:
    return [height for height, count in sorted(columns, reverse=True) for _ in range(count)]


def _packed(
    heights: Sequence[int], length: int, whole: int, piece: int, broken: int, lanes: int = 0, lane: int = FILTER_CHAIN
) -> bool:
    """Tell if `lay` finds room: the longest first, each where there is room first; then all `lanes`."""
    pieces, rest = broken * (length // piece), length % piece
    tails = broken if rest else 0
    for height in heights:
        taken = min(whole, height // length)
        left = height - taken * length
        laid = min(pieces, left // piece)
        whole, pieces, left = whole - taken, pieces - laid, left - laid * piece
        if tails:
            ended = min(tails, left // rest)
            tails, left = tails - ended, left - ended * rest
        lanes -= min(lanes, left // lane)
    return not (whole or pieces or tails or lanes)


@lru_cache(maxsize=1 << 16)
def fewest_segments(
    columns: tuple[tuple[int, int], ...], length: int, number: int, longest: int, pairs: int = 0
) -> Cut | None:
    """Find how chains of two columns (ADR 75) must break for the columns to hold all; None without room.

    `pairs` of slices that multiply by M lie beside them.

    They break alike: no part is longer than `longest` words, and the sums of parts meet in LUTs. WHOLE where
    the columns ask for no more parts than that.

    >>> [fewest_segments(((144, 11), (48, 3)), t_p, 64, 32, 64) for t_p in (24, 25, 20)]
    [Cut(piece=0, broken=0), Cut(piece=16, broken=64), Cut(piece=0, broken=0)]
    """
    if length * number + 2 * pairs > sum(height * count for height, count in columns):
        return None
    heights = _heights(columns)
    fewest = -(-length // longest)
    for parts in range(fewest, fewest + MOST_BREAKS + 1):
        shortest = -(-length // parts)
        highest = min(longest, -(-length // (parts - 1)) - 1) if parts > 1 else min(longest, length)
        for piece in range(shortest, highest + 1):
            if _packed(heights, length, 0, piece, number, pairs, lane=2):
                return WHOLE if parts == fewest and piece == shortest else Cut(piece, number)
    return None


def broken_elements(number: int, broken: int, *, stackable: bool = True) -> tuple[int, ...]:
    """Processing elements whose chains break, as `core_array` numbers them: those of the last pairs.

    Elements j and j + number // 2 are a pair; with an odd number the last has none.

    >>> broken_elements(8, 4), broken_elements(7, 3), broken_elements(5, 2, stackable=False)
    ((2, 3, 6, 7), (2, 5, 6), (3, 4))
    """
    if not stackable:
        return tuple(range(number - broken, number))
    pairs = number // 2
    first = pairs - broken // 2
    single = (number - 1,) if broken % 2 else ()
    return (*range(first, pairs), *range(pairs + first, 2 * pairs), *single)


def lay(columns: Columns, length: int, number: int, cut: Cut, *, stackable: bool = True) -> tuple[Place, ...]:
    """Place every piece of every chain. Raises DesignError where the columns do not hold them.

    >>> lay([(8, 1), (5, 1)], 4, 3, Cut(3, 2), stackable=False)[-1]
    Place(pe=2, first=3, words=1, column=1, offset=3)
    """
    breaking = broken_elements(number, cut.broken, stackable=stackable)
    pieces = [(pe, 0, length) for pe in range(number) if pe not in set(breaking)]
    cuts = range(0, length, cut.piece) if cut.broken else range(0)
    pieces += [(pe, first, min(cut.piece, length - first)) for pe in breaking for first in cuts]
    filled, heights = [0] * len(_heights(columns)), _heights(columns)
    places = []
    for pe, first, words in sorted(pieces, key=lambda piece: -piece[2]):
        column = next((at for at, height in enumerate(heights) if filled[at] + words <= height), None)
        if column is None:
            raise DesignError(
                f"{number} chains of {length} multiply-accumulates, {cut.broken} of them in pieces of {cut.piece}, must "
                f"fit {len(heights)} columns of DSP slices, and a piece of {words} does not"
            )
        places.append(Place(pe=pe, first=first, words=words, column=column, offset=filled[column]))
        filled[column] += words
    return tuple(sorted(places, key=lambda place: (place.pe, place.first)))


def cuts(columns: Columns, t_p: Ints, t_c: Ints, *, stackable: bool = True, lanes: int = 0) -> tuple[Ints, Ints]:
    """For many arrays, (n,): the words of a piece and the chains that break; zero where none does or
    could.
    """
    piece, broken = np.zeros_like(t_p), np.zeros_like(t_p)
    for index in np.flatnonzero(chains(columns, t_p, lanes) < t_c):
        cut = fewest_breaks(tuple(columns), int(t_p[index]), int(t_c[index]), stackable=stackable, lanes=lanes) or WHOLE
        piece[index], broken[index] = cut.piece, cut.broken
    return piece, broken

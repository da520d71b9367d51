"""The PE array: its tiles in every mode and the widths of its streams, for one array or for many.

Pure arithmetic. The numbers of one array are integers; a search has NumPy arrays of one shape in their place.

>>> array = Array(t_r=512, t_p=7, t_c=128, weight_slots=2, in_words=14)
>>> array.tile(Mode.WIDE), array.tile(Mode.LANES), array.tile(Mode.MAX_POOL)
((14, 64), (7, 64), (14, 14))
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..errors import DesignError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
N = TypeVar("N", int, Ints, Floats)

_NUMBERS = ("t_r", "t_p", "t_c", "weight_slots", "in_words")  # of an array, each with a value of its own in a space
_CHAINS = ("piece", "broken")  # likewise; zero where no chain breaks
BIAS_WORDS = 3  # words of a weight slot that hold one 48-bit bias (ADR 4)


class Mode(IntEnum):
    """Operation of the PE array in one command; codes as in ADR 4."""

    NORMAL = 0
    WIDE = 1
    LANES = 2
    SPLIT = 3
    MAX_POOL = 4
    SUM_POOL = 5


def floor_div(value: N, by: N | int) -> N:
    """Quotient rounded down.

    >>> floor_div(7, 2), floor_div(np.array([7.0, 8.0]), 2)
    (3, array([3., 4.]))
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.asarray(np.floor(value / by))  # `//` of floats takes ten times as long
    return value // by


def ceil_div(value: N, by: N | int) -> N:
    """Quotient rounded up.

    >>> ceil_div(7, 2), ceil_div(np.array([7.0, 8.0]), 2)
    (4, array([4., 4.]))
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.asarray(np.ceil(value / by))
    return -(-value // by)


def at_least(low: int, value: N) -> N:
    """The larger of a limit and a value."""
    return max(low, value) if isinstance(value, int) else np.maximum(low, value)


def log2_ceil(values: npt.ArrayLike) -> Ints:
    """Bits that number `values` things, as $clog2 counts: 0 for one.

    >>> log2_ceil(np.array([1, 2, 3, 4, 5]))
    array([0, 1, 2, 2, 3])
    """
    return np.asarray(np.ceil(np.log2(np.maximum(values, 1))), dtype=np.int64)


def input_words(t_p: N, port_bits: int, *, stackable: bool = True) -> N:
    """Words of a beat of inputs: the P-tiles of both lanes, and at least a port word of a pool's channels.

    >>> input_words(7, 64), input_words(7, 64, stackable=False), input_words(7, 512)
    (14, 7, 32)
    """
    return at_least(port_bits // 16, 2 * t_p if stackable else t_p)


def line_words(in_words: N) -> N:
    """Words of a line of the input buffer: a power of two that no beat straddles twice and no port exceeds.

    >>> line_words(14), line_words(26), line_words(32)
    (16, 32, 32)
    """
    if isinstance(in_words, int):
        return max(16, 1 << (in_words - 1).bit_length())
    return np.maximum(16, 1 << log2_ceil(in_words))


def weight_slots_for(t_p: N, port_bits: int) -> N:
    """Enough slots for one beat to carry at least one port word, so the core never throttles the port.

    >>> [weight_slots_for(t_p, port_bits=256) for t_p in (3, 10, 40)]
    [6, 2, 1]
    """
    return -(-port_bits // (16 * t_p))


def stream_words(board: Board, memory: str | None = None) -> int:
    """Words of a beat of outputs: as the `paper` model has it, and at least one port word.

    >>> from fluidnpu.boards import load_board
    >>> stream_words(load_board("zc706"), "ps"), stream_words(load_board("zc706"), "pl")
    (8, 32)
    """
    return max(board.paper_words_per_cycle, board.memory(memory).port_bits // 16)


def pool_beats(taps: int, *, maximum: bool) -> int:
    """Input beats of a row of a pool (ADR 4): one a tap; a max pool sends the larger of two taps.

    >>> pool_beats(9, maximum=True), pool_beats(9, maximum=False)
    (5, 9)
    """
    return ceil_div(taps, 2) if maximum else taps


@dataclass(frozen=True, kw_only=True)
class Array(Generic[N]):
    """A PE array, or many side by side, with the widths of its streams in 16-bit words.

    `t_r`: rows of an accumulator bank. `t_p`: words of a PE's adder tree. `t_c`: PEs. `weight_slots`: slots
    of `t_p` weights in a beat. `in_words`, `out_words`: words of a beat of inputs and of outputs.
    `stackable`: pairs of PEs join (k = 2) or make two lanes. `split`: trees split (k = 1/2). `broken`: PEs of
    the reference core whose chain of multiply-accumulates breaks into pieces of `piece` words, the last
    shorter (ADR 39); both zero where none does. Raises DesignError.
    """

    t_r: N
    t_p: N
    t_c: N
    weight_slots: N
    in_words: N
    out_words: int = 8
    stackable: bool = True
    split: bool = False
    piece: N | int = 0
    broken: N | int = 0

    def __post_init__(self) -> None:
        for name in (*_NUMBERS, "out_words"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.ndarray) and not isinstance(value, bool)
            if not whole or np.any(value < 1):
                raise DesignError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.stackable and np.any(self.t_c < 2):
            raise DesignError(f"t_c must be at least 2 when stackable PEs are on, not {self.t_c}")
        if self.split and (np.any(self.t_p % 2) or np.any(self.t_r < 2)):
            raise DesignError(f"t_p must be even and t_r at least 2 when trees split, not {self.t_p} and {self.t_r}")
        self._check_chains()

    def _check_chains(self) -> None:
        for name in _CHAINS:
            value = getattr(self, name)
            if not isinstance(value, int | np.ndarray) or isinstance(value, bool) or np.any(np.less(value, 0)):
                raise DesignError(f"{name} must be a whole number of at least 0, not {value!r}")
        breaks = np.greater(self.broken, 0)
        if np.any(breaks & (np.less(self.piece, 1) | np.greater_equal(self.piece, self.t_p))):
            raise DesignError(f"a piece of a chain of {self.t_p} must have 1 to t_p - 1 words, not {self.piece}")
        if np.any(~breaks & np.greater(self.piece, 0)):
            raise DesignError(f"piece must be 0 where no chain breaks, not {self.piece}")
        if np.any(np.greater(self.broken, self.t_c)) or (self.split and np.any(breaks)):
            raise DesignError(f"at most t_c chains break, and none where trees split, not {self.broken}")
        if self.stackable and np.any(np.equal(np.mod(self.t_c, 2), 0) & np.not_equal(np.mod(self.broken, 2), 0)):
            raise DesignError(f"both chains of a pair must break, or none: broken must be even, not {self.broken}")

    @classmethod
    def on(
        cls, board: Board, memory: str | None, *, t_r: N, t_p: N, t_c: N, stackable: bool = True, lanes: int = 0
    ) -> Array[N]:
        """The array whose streams keep up with the ports to a memory of a board, its first by default.

        With a filter of some `lanes` beats of outputs are as wide as these.
        """
        port_bits = board.memory(memory).port_bits
        return Array(
            t_r=t_r,
            t_p=t_p,
            t_c=t_c,
            weight_slots=weight_slots_for(t_p, port_bits),
            in_words=input_words(t_p, port_bits, stackable=stackable),
            out_words=lanes or stream_words(board, memory),
            stackable=stackable,
        )

    def only(self, keep: npt.NDArray[np.bool_] | Ints | slice) -> Array[Ints]:
        """Some of many arrays, by mask or by indices."""
        picked = {name: self._many(name)[keep] for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, out_words=self.out_words, stackable=self.stackable, split=self.split)

    def at(self, index: int) -> Array[int]:
        """One of many arrays."""
        picked = {name: int(self._many(name)[index]) for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, out_words=self.out_words, stackable=self.stackable, split=self.split)

    def side_by_side(self) -> Array[Floats]:
        """The same numbers in float64: one array becomes a row of one."""
        picked = {name: np.atleast_1d(self._many(name).astype(float)) for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, out_words=self.out_words, stackable=self.stackable, split=self.split)

    def _many(self, name: str) -> npt.NDArray[Any]:
        """A number with as many values as there are arrays."""
        return np.broadcast_to(np.asarray(getattr(self, name)), np.shape(self.t_c))

    def tile(self, mode: Mode) -> tuple[N, N]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4's W and N).

        A pool has one tile: the channels of a beat.
        """
        match mode:
            case Mode.NORMAL:
                return self.t_p, self.t_c
            case Mode.WIDE:
                return 2 * self.t_p, floor_div(self.t_c, 2)
            case Mode.LANES:
                return self.t_p, floor_div(self.t_c, 2)
            case Mode.SPLIT:
                return floor_div(self.t_p, 2), 2 * self.t_c
            case Mode.MAX_POOL | Mode.SUM_POOL:
                return self.in_words, self.in_words

    def tile_beats(self, mode: Mode, columns: N) -> N:
        """Beats of weights for one P-tile of `columns` columns.

        >>> array = Array(t_r=512, t_p=8, t_c=16, weight_slots=3, in_words=16, split=True)
        >>> [array.tile_beats(mode, 8) for mode in (Mode.NORMAL, Mode.WIDE, Mode.SPLIT)]
        [3, 6, 2]
        """
        slots: N = columns
        if mode is Mode.WIDE:
            slots = 2 * columns
        elif mode is Mode.SPLIT:
            slots = ceil_div(columns, 2)
        return ceil_div(slots, self.weight_slots)

    def bias_beats(self, columns: N) -> N:
        """Beats of the biases of `columns` columns, which go before their weights."""
        return ceil_div(columns, self.biases_per_beat)

    @property
    def biases_per_beat(self) -> N:
        """Biases in one beat of a header."""
        return at_least(1, floor_div(self.t_p, BIAS_WORDS)) * self.weight_slots

    @property
    def weight_words(self) -> N:
        """Words of one beat of weights."""
        return self.weight_slots * self.t_p

    @property
    def macs(self) -> N:
        """Multiply-accumulates of the whole array in one cycle: one DSP each."""
        return self.t_p * self.t_c

    @property
    def breaks(self) -> N | int:
        """Cycles by which a chain in pieces is later: one for each place where it breaks.

        >>> Array(t_r=64, t_p=27, t_c=64, weight_slots=1, in_words=54, piece=9, broken=4).breaks
        2
        """
        piece: Any = self.piece
        if isinstance(piece, int):
            return ceil_div(self.t_p, piece) - 1 if piece else 0
        return cast(N, np.where(piece > 0, ceil_div(self.t_p, np.maximum(piece, 1)) - 1, 0))

    @property
    def late(self) -> N:
        """Cycles from a beat to the last sums that it finishes, which may be read that many cycles later."""
        return self.t_p + (3 + int(self.stackable) + self.breaks)

    def row_distance(self, *, ultra: bool = False) -> N:
        """The fewest calls of the HLS core between writing and reading a row.

        More than the depth of its pipeline: the product, the adder tree, the pair's adder, reading the sum
        (which takes longer from UltraRAM), adding and writing it.

        >>> Array(t_r=64, t_p=9, t_c=8, weight_slots=1, in_words=18).row_distance()
        18
        """
        depth: Any = (self.t_p - 1).bit_length() if isinstance(self.t_p, int) else log2_ceil(self.t_p)
        return cast(N, 10 + 2 * depth + (4 if ultra else 0))

    @property
    def columns(self) -> N:
        """Columns of the widest column tile."""
        return 2 * self.t_c if self.split else self.t_c

    @property
    def line_words(self) -> N:
        """Words of a line of the input buffer."""
        return line_words(self.in_words)

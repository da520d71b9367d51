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
WORD_BITS = (16, 8)  # widths of a word that an NPU can have; a DSP slice multiplies as many of 8 bits as fit 16
FIELD_BITS = {"DSP48E1": 17, "DSP48E2": 18}  # of the lower of two sums in a chain of slices (ADR 75)
_FIELD_BITS = 18  # where nothing is said of the device
_ACC_BITS = {16: 48, 8: 32}
_FINISH_STEPS = {16: 8, 8: 15}  # of `core_finish`
_TURNAROUND = 4
_HEADER_BITS = {16: 48, 8: 64}  # of a column's header among the weights: a bias, with 8 bits also M and S (ADR 75)


def acc_bits_for(word_bits: int) -> int:
    """Bits of an accumulator that sums products of such words, at most.

    >>> acc_bits_for(16), acc_bits_for(8)
    (48, 32)
    """
    return _ACC_BITS[word_bits]


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
    """Bits that number `values` things, as $clog2 counts, in their shape: 0 for one.

    >>> log2_ceil(np.array([1, 2, 3, 4, 5]))
    array([0, 1, 2, 2, 3])
    """
    return np.asarray(np.ceil(np.log2(np.maximum(values, 1))), dtype=np.int64)


def input_words(t_p: N, port_bits: int, *, stackable: bool = True, word_bits: int = 16) -> N:
    """Words of a beat of inputs: the P-tiles of both lanes, and at least a port word of a pool's channels.

    >>> input_words(7, 64), input_words(7, 64, stackable=False), input_words(7, 512)
    (14, 7, 32)
    """
    return at_least(port_bits // word_bits, 2 * t_p if stackable else t_p)


def line_words(in_words: N) -> N:
    """Words of a line of the input buffer: a power of two that no beat straddles twice and no port exceeds.

    >>> line_words(14), line_words(26), line_words(32)
    (16, 32, 32)
    """
    if isinstance(in_words, int):
        return max(16, 1 << (in_words - 1).bit_length())
    return np.maximum(16, 1 << log2_ceil(in_words))


def chain_columns(word_bits: int) -> int:
    """Columns that share a chain of DSP slices: one product a slice of 16-bit words, two of 8-bit ones.

    >>> chain_columns(16), chain_columns(8)
    (1, 2)
    """
    return 16 // word_bits


def header_words(word_bits: int) -> int:
    """Words of a weight slot that hold the header of one column: its bias, with 8 bits also M and S.

    >>> header_words(16), header_words(8)
    (3, 8)
    """
    return _HEADER_BITS[word_bits] // word_bits


def weight_slots_for(t_p: N, port_bits: int, word_bits: int = 16) -> N:
    """Enough slots for one beat to carry at least one port word, so the core never throttles the port.

    All columns of a chain have theirs in one beat.

    >>> [weight_slots_for(t_p, port_bits=256) for t_p in (3, 10, 40)]
    [6, 2, 1]
    >>> [weight_slots_for(t_p, port_bits=256, word_bits=8) for t_p in (8, 15, 40)]
    [4, 4, 2]
    """
    columns = chain_columns(word_bits)
    return -(-port_bits // (columns * word_bits * t_p)) * columns


def stream_words(board: Board, memory: str | None = None) -> int:
    """Words of a beat of outputs: as the `paper` model has it, and at least one port word of 16-bit words.

    With 8 bits they are as many, since each takes a multiplier, and outputs are seldom what is waited for.

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
    """A PE array, or many side by side, with the widths of its streams in words of `word_bits` (16 or 8).

    `t_r`: rows of an accumulator bank. `t_p`: words of a PE's adder tree. `t_c`: PEs. `weight_slots`: slots
    of `t_p` weights in a beat. `in_words`, `out_words`: words of a beat of inputs and of outputs.
    `stackable`: pairs of PEs join (k = 2) or make two lanes. `split`: trees split (k = 1/2). `broken`: chains
    of multiply-accumulates of the reference core that break into pieces of `piece` words, the last shorter
    (ADR 39); both zero where none does. With 8 bits all chains break alike, at `piece` or where the lower of
    their two sums, of `field_bits`, would be lost (ADR 75); with 16 that number says nothing. Raises
    DesignError.
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
    word_bits: int = 16
    field_bits: int = _FIELD_BITS

    def __post_init__(self) -> None:
        if type(self.word_bits) is not int or self.word_bits not in WORD_BITS:
            raise DesignError(f"word_bits must be 16 or 8, not {self.word_bits!r}")
        for name in (*_NUMBERS, "out_words"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.ndarray) and not isinstance(value, bool)
            if not whole or np.any(value < 1):
                raise DesignError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.stackable and np.any(self.t_c < 2):
            raise DesignError(f"t_c must be at least 2 when stackable PEs are on, not {self.t_c}")
        if self.split and (np.any(self.t_p % 2) or np.any(self.t_r < 2)):
            raise DesignError(f"t_p must be even and t_r at least 2 when trees split, not {self.t_p} and {self.t_r}")
        self._check_word()
        self._check_chains()

    def _check_word(self) -> None:
        columns = chain_columns(self.word_bits)
        if columns == 1:
            return
        if type(self.field_bits) is not int or self.field_bits not in FIELD_BITS.values():
            raise DesignError(f"field_bits must be 17 or 18, not {self.field_bits!r}")
        if np.any(np.greater(self.broken, 0) & np.not_equal(self.broken, self.chains)):
            raise DesignError(f"all chains break where words have 8 bits, or none, not {self.broken} of {self.chains}")
        if self.split:
            raise DesignError("trees must not split where words have 8 bits, since each chain has two columns already")
        step = columns * (2 if self.stackable else 1)
        if np.any(np.mod(self.t_c, step)):
            raise DesignError(f"t_c must be a multiple of {step} where words have 8 bits, not {self.t_c}")
        if np.any(np.mod(self.weight_slots, columns)):
            raise DesignError(f"weight_slots must be even where words have 8 bits, not {self.weight_slots}")

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
        if np.any(np.greater(self.broken, self.chains)) or (self.split and np.any(breaks)):
            raise DesignError(f"at most {self.chains} chains break, and none where trees split, not {self.broken}")
        if self.stackable and np.any(np.equal(np.mod(self.chains, 2), 0) & np.not_equal(np.mod(self.broken, 2), 0)):
            raise DesignError(f"both chains of a pair must break, or none: broken must be even, not {self.broken}")

    @classmethod
    def on(
        cls,
        board: Board,
        memory: str | None,
        *,
        t_r: N,
        t_p: N,
        t_c: N,
        stackable: bool = True,
        lanes: int = 0,
        word_bits: int = 16,
    ) -> Array[N]:
        """The array whose streams keep up with the ports to a memory of a board, its first by default.

        With a filter of some `lanes` beats of outputs are as wide as these.
        """
        port_bits = board.memory(memory).port_bits
        return Array(
            t_r=t_r,
            t_p=t_p,
            t_c=t_c,
            weight_slots=weight_slots_for(t_p, port_bits, word_bits),
            in_words=input_words(t_p, port_bits, stackable=stackable, word_bits=word_bits),
            out_words=lanes or stream_words(board, memory),
            stackable=stackable,
            word_bits=word_bits,
            field_bits=FIELD_BITS[board.dsp_primitive] if chain_columns(word_bits) > 1 else _FIELD_BITS,
        )

    def only(self, keep: npt.NDArray[np.bool_] | Ints | slice) -> Array[Ints]:
        """Some of many arrays, by mask (n,) or by indices (m,)."""
        picked: dict[str, Any] = {name: self._many(name)[keep] for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, **self._common)

    def at(self, index: int) -> Array[int]:
        """One of many arrays."""
        picked: dict[str, Any] = {name: int(self._many(name)[index]) for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, **self._common)

    def side_by_side(self) -> Array[Floats]:
        """The same numbers in float64, (n,): one array becomes a row of one."""
        picked: dict[str, Any] = {name: np.atleast_1d(self._many(name).astype(float)) for name in (*_NUMBERS, *_CHAINS)}
        return Array(**picked, **self._common)

    @property
    def _common(self) -> dict[str, Any]:
        """What all arrays side by side share."""
        return {name: getattr(self, name) for name in ("out_words", "stackable", "split", "word_bits", "field_bits")}

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
            slots = 2 * (ceil_div(columns, self.chain_columns) * self.chain_columns)
        elif mode is Mode.SPLIT:
            slots = ceil_div(columns, 2)
        return ceil_div(slots, self.weight_slots)

    def bias_beats(self, columns: N) -> N:
        """Beats of the biases of `columns` columns, which go before their weights."""
        return ceil_div(columns, self.biases_per_beat)

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.word_bits // 8

    @property
    def bias_words(self) -> int:
        """Words of a weight slot that hold the header of one column."""
        return header_words(self.word_bits)

    @property
    def chain_columns(self) -> int:
        """Columns that share a chain of DSP slices."""
        return chain_columns(self.word_bits)

    @property
    def chains(self) -> N:
        """Chains of DSP slices: a chain of `t_p` multiplies for one column, with 8 bits for two."""
        return floor_div(self.t_c, self.chain_columns)

    @property
    def biases_per_beat(self) -> N:
        """Biases in one beat of a header."""
        return at_least(1, floor_div(self.t_p, self.bias_words)) * self.weight_slots

    @property
    def weight_words(self) -> N:
        """Words of one beat of weights."""
        return self.weight_slots * self.t_p

    @property
    def macs(self) -> N:
        """Multiply-accumulates of the whole array in one cycle."""
        return self.t_p * self.t_c

    @property
    def slices(self) -> N:
        """DSP slices of the array: one for each product of 16-bit words, one for two of 8-bit ones."""
        return self.t_p * self.chains

    @property
    def breaks(self) -> N | int:
        """Cycles by which a chain of 16-bit words in pieces is later: one for each place where it breaks.

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
        if self.chain_columns == 1:
            return self.t_p + (3 + int(self.stackable) + self.breaks)
        levels: Any = log2_ceil(ceil_div(self.t_p, self.segment))  # of the sum of all segments
        late: Any = self.segment + levels + (6 + int(self.stackable))
        return int(late) if isinstance(self.t_p, int) else late  # type: ignore[no-any-return]  # as many

    @property
    def longest(self) -> int:
        """Most words of a chain of two columns whose lower sum two bits beside it can still tell."""
        return 1 << self.field_bits - 13

    @property
    def segment(self) -> N:
        """Words of the longest part of a chain of 8-bit words whose slices are cascaded.

        >>> chain = {"t_r": 64, "t_c": 64, "weight_slots": 2, "word_bits": 8}
        >>> [Array(t_p=t_p, in_words=2 * t_p, field_bits=17, **chain).segment for t_p in (14, 16, 17, 40)]
        [14, 16, 9, 14]
        """
        span = np.where(np.greater(self.broken, 0), self.piece, self.t_p)
        parts = -(-span // self.longest)
        words: Any = -(-span // parts)
        return int(words) if isinstance(self.t_p, int) else words  # type: ignore[no-any-return]  # as many

    @property
    def turnaround(self) -> N:
        """Cycles from a row to itself in the next P-tile; sums of 8-bit words are met behind the chain."""
        return self.late if self.chain_columns == 1 else self.t_p * 0 + _TURNAROUND

    @property
    def finish_steps(self) -> int:
        """Steps from the sums of a beat to its words."""
        return _FINISH_STEPS[self.word_bits]

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

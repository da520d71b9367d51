"""On-chip memory by primitives: does a design fit the board's RAMB18 and URAM288, and with how many accumulator rows? Pure arithmetic.

A memory of D words of W bits takes ceil(W / w) * ceil(D / d) primitives of shape d x w, at the best of these shapes (7-series UG473 and UltraScale
UG573: simple dual port, one write and one read a cycle; URAM288 has one shape):

>>> ramb18_count(depth=1024, width=48), ramb18_count(depth=512, width=48), uram_count(depth=4096, width=48)
(3, 2, 1)

What is counted, all of it an assumption about what the core and the data plane will instantiate:

- **Accumulators**: 2 (double-buffered) x T_C banks of T_R rows x `acc_bits`, each bank a memory of its own, since HLS partitions by PE. Banks go
  to URAM first, since nothing else uses it, the rest to block RAM.
- **Input buffer** of the data plane: two banks of lines, a memory for each 64 bits of a line.
- **Stream FIFOs**: 512 beats each of input, weights, residual and output; the command stream is shallow and stays in LUTRAM.
- **FBCB**: layers x b_max entries of 23 bits in block RAM, in LUTRAM when 64 entries are enough.
- Weight tiles are double-buffered in registers or LUTRAM and take no RAM.

DSPs are T_P * T_C, and nothing else multiplies. LUTs and flip-flops are NOT estimated yet: that needs calibration against a synthesiser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boards import Board

from .design import DesignError
from .paper_model import Point

RAMB18_SHAPES = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
URAM_SHAPE = (4096, 72)
DEPTH_STEP = 512  # the count of primitives changes at multiples of this only
MAX_T_R = 65_534  # even, and `beats` of a core command has 16 bits (ADR 4)
MAX_T_C = 4_095  # `cols` of a core command has 12 bits (ADR 4)
MIN_T_P = 3  # a 48-bit bias is three words of one weight slot (ADR 4)
MIN_T_C = 2  # stackable PEs come in pairs
BUFFER_WORDS = 1 << 15  # least input buffer of a design
_LINE_WORDS, _PART_WORDS = 16, 4
FIFO_BEATS = 512
FBCB_BITS = 23
LUTRAM_WORDS = 64

NOT_ESTIMATED = "LUTs and flip-flops are not estimated yet"


class FitError(DesignError):
    """A design does not fit a board: one sentence with the resource, what is needed and what there is."""

    def __init__(self, message: str, *, resource: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.resource, self.needed, self.available = resource, needed, available


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The deepest accumulators that fit, and every primitive then used. `parts` splits `ramb18` by use."""

    t_r: int
    dsp: int
    ramb18: int
    uram288: int
    uram_banks: int
    ramb_banks: int
    parts: Mapping[str, int]


def ramb18_count(depth: int, width: int) -> int:
    """RAMB18s of a memory of `depth` words of `width` bits; a RAMB36 is two of them.

    >>> ramb18_count(depth=2048, width=36)
    4
    """
    return min(-(-width // w) * -(-depth // d) for d, w in RAMB18_SHAPES)


def uram_count(depth: int, width: int) -> int:
    """URAM288s of a memory of `depth` words of `width` bits."""
    return -(-width // URAM_SHAPE[1]) * -(-depth // URAM_SHAPE[0])


def fixed_ramb18(
    t_p: int, *, out_words: int, weight_slots: int, fbcb_words: int, stackable: bool, buffer_words: int = BUFFER_WORDS
) -> dict[str, int]:
    """RAMB18s that do not depend on T_R, by use.

    >>> fixed_ramb18(7, out_words=8, weight_slots=1, fbcb_words=432, stackable=True)
    {'input_buffer': 32, 'fifos': 19, 'fbcb': 1}
    """
    input_words = 2 * t_p if stackable else t_p
    streams = (input_words, weight_slots * t_p, out_words, out_words)
    lines = _LINE_WORDS // _PART_WORDS * ramb18_count(buffer_words // (2 * _LINE_WORDS), 16 * _PART_WORDS)
    return {
        "input_buffer": 2 * lines,
        "fifos": sum(ramb18_count(FIFO_BEATS, 16 * words) for words in streams),
        "fbcb": ramb18_count(fbcb_words, FBCB_BITS) if fbcb_words > LUTRAM_WORDS else 0,
    }


def weight_slots_for(t_p: int, words_per_cycle: int) -> int:
    """Slots of T_P weights in a beat: as many as the memory delivers in a cycle, so that neither side waits for the other.

    >>> [weight_slots_for(t_p, words_per_cycle=16) for t_p in (3, 10, 40)]
    [5, 2, 1]
    """
    return max(1, round(words_per_cycle / t_p))


def fit(
    point: Point,
    board: Board,
    *,
    fbcb_words: int = 0,
    acc_bits: int = 48,
    stackable: bool = True,
    buffer_words: int = BUFFER_WORDS,
) -> Fit:
    """Shrink `point.t_r` (even, at least 2) until every memory fits the board. Raises FitError when nothing does."""
    _check_buildable(point, board, stackable)
    words = board.paper_words_per_cycle
    fixed = fixed_ramb18(
        point.t_p,
        out_words=words,
        weight_slots=weight_slots_for(point.t_p, words),
        fbcb_words=fbcb_words,
        stackable=stackable,
        buffer_words=buffer_words,
    )
    deepest = max(2, min(point.t_r, MAX_T_R) // 2 * 2)
    least = _at_depth(min(deepest, DEPTH_STEP), point, board, fixed, acc_bits)
    if least.ramb18 > board.ramb18:
        raise FitError(
            f"board '{board.name}' is too small for {point.t_p} x {point.t_c} PEs: "
            f"they need {least.ramb18} RAMB18 beside {least.uram288} URAM288 even with {least.t_r} rows, and it has {board.ramb18}",
            resource="ramb18",
            needed=least.ramb18,
            available=board.ramb18,
        )
    steps = range(deepest // DEPTH_STEP * DEPTH_STEP, DEPTH_STEP, -DEPTH_STEP)
    every = (_at_depth(t_r, point, board, fixed, acc_bits) for t_r in (deepest, *steps))
    return next((found for found in every if found.ramb18 <= board.ramb18), least)


def _at_depth(t_r: int, point: Point, board: Board, fixed: Mapping[str, int], acc_bits: int) -> Fit:
    banks = 2 * point.t_c
    per_bank = uram_count(t_r, acc_bits)
    uram_banks = min(banks, board.uram288 // per_bank)
    parts = {"accumulators": (banks - uram_banks) * ramb18_count(t_r, acc_bits), **fixed}
    return Fit(
        t_r=t_r,
        dsp=point.dsp,
        ramb18=sum(parts.values()),
        uram288=uram_banks * per_bank,
        uram_banks=uram_banks,
        ramb_banks=banks - uram_banks,
        parts=parts,
    )


def _check_buildable(point: Point, board: Board, stackable: bool) -> None:
    min_t_c = MIN_T_C if stackable else 1
    for name, value, low in (("t_p", point.t_p, MIN_T_P), ("t_c", point.t_c, min_t_c)):
        if value < low:
            raise FitError(
                f"a design that can be built needs {name} of at least {low}, not {value}",
                resource=name,
                needed=low,
                available=value,
            )
    if point.t_c > MAX_T_C:
        raise FitError(
            f"a design that can be built needs t_c of at most {MAX_T_C}, not {point.t_c}",
            resource="t_c",
            needed=point.t_c,
            available=MAX_T_C,
        )
    if point.dsp > board.dsp:
        raise FitError(
            f"board '{board.name}' is too small for {point.t_p} x {point.t_c} PEs: they need {point.dsp} DSPs, and it has {board.dsp}",
            resource="dsp",
            needed=point.dsp,
            available=board.dsp,
        )

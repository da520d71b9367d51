"""Does a design fit a board: DSPs, RAM primitives, LUTs and flip-flops, and with how many accumulator rows? Pure arithmetic.

Primitives are those of the reference core and the data plane, as Yosys maps them (`dse.memories`, `dse.resources`); LUTs and flip-flops are
calibrated estimates with an interval (`dse.logic`), and the whole interval must fit. Accumulator banks go to UltraRAM first, since nothing else
uses it, the rest to block RAM: `UltraBanks` of the core.

>>> ramb18_count(depth=1024, width=48), ramb18_count(depth=1536, width=48), uram_count(depth=4096, width=48)
(3, 5, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..design import DesignError
from ..paper.model import Point
from .logic import Estimate, estimate, interval_pct, npu_logic
from .memories import FAMILIES, XC7, block_rams, ultra_rams
from .primitives import BUFFER_WORDS, NpuShape, accumulator_ramb18, buffer_uram288, dsp, fixed_ramb18, uram288

DEPTH_STEP = 512  # the count of primitives changes at multiples of this only
MAX_T_R = 65_534  # even, and `beats` of a core command has 16 bits (ADR 4)
MAX_T_C = 4_095  # `cols` of a core command has 12 bits (ADR 4)
SHALLOWER = (4096, 2048, 1024, 512)  # rows of a bank worth giving up for a larger input buffer
MIN_T_P = 3  # a 48-bit bias is three words of one weight slot (ADR 4)
MIN_T_C = 2  # stackable PEs come in pairs

HLS_BEAT_BITS = 4096  # the widest number of Vivado HLS, by its manuals: AP_INT_MAX_W at most

CORES = ("rtl", "hls")  # the reference core in SystemVerilog, and the one that Vivado HLS makes

_Width = TypeVar("_Width", int, npt.NDArray[np.int64])

LOGIC_NOTE = "LUTs and flip-flops are estimates calibrated against Yosys on 7-series, each with its interval; vendor tools pack differently"


class FitError(DesignError):
    """A design does not fit a board: one sentence with the resource, what is needed and what there is."""

    def __init__(self, message: str, *, resource: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.resource, self.needed, self.available = resource, needed, available


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The deepest accumulators that fit, and every primitive then used. `parts` splits `ramb18` by use."""

    t_r: int
    buffer_words: int
    dsp: int
    ramb18: int
    uram288: int
    uram_banks: int
    ramb_banks: int
    parts: Mapping[str, int]
    lut: Estimate
    ff: Estimate


def ramb18_count(depth: int, width: int, family: str = XC7) -> int:
    """RAMB18s of a memory of `depth` words of `width` bits; a RAMB36 is two of them.

    >>> ramb18_count(depth=2048, width=36)
    4
    """
    return int(block_rams(depth, width, family))


def uram_count(depth: int, width: int) -> int:
    """URAM288s of a memory of `depth` words of `width` bits."""
    return int(ultra_rams(depth, width))


def weight_slots_for(t_p: _Width, port_bits: int) -> _Width:
    """Slots of T_P weights in a beat: no fewer words than a port to the memory carries, so that it never waits for the core. Or of an array of T_P.

    >>> [weight_slots_for(t_p, port_bits=256) for t_p in (3, 10, 40)]
    [6, 2, 1]
    """
    return -(-port_bits // (16 * t_p))


def stream_words(board: Board, memory: str | None = None) -> int:
    """Words of a beat of outputs: as the `paper` model has it, and no fewer than a port to the memory carries.

    >>> from fluidnpu.boards import load_board
    >>> stream_words(load_board("zc706"), "ps"), stream_words(load_board("zc706"), "pl")
    (8, 32)
    """
    return max(board.paper_words_per_cycle, board.memory(memory).port_bits // 16)


def fit(
    point: Point,
    board: Board,
    *,
    fbcb_words: int = 0,
    b_max: int = 8,
    acc_bits: int = 48,
    stackable: bool = True,
    memory: str | None = None,
    buffer_words: int = BUFFER_WORDS,
    core: str = CORES[0],
) -> Fit:
    """Shrink `point.t_r` (even, at least 2) until every memory fits the board. Raises FitError when nothing does.

    `fbcb_words`: layers times `b_max`. `memory`: the one that tensors live in, the board's first by default. `core`: "hls" has more banks.
    """
    _check_buildable(point, stackable)
    deepest = max(2, min(point.t_r, MAX_T_R) // 2 * 2)
    steps = range(deepest // DEPTH_STEP * DEPTH_STEP, DEPTH_STEP, -DEPTH_STEP)
    shape = npu_shape(
        board, memory, t_r=np.array([deepest, *steps, min(deepest, DEPTH_STEP)]), t_p=point.t_p, t_c=point.t_c,
        weight_slots=weight_slots_for(point.t_p, board.memory(memory).port_bits), acc_bits=acc_bits, stackable=stackable,
        b_max=b_max, layers=-(-fbcb_words // b_max), buffer_words=buffer_words, pool_banks=core == "hls",
    )  # fmt: skip
    if core == "hls" and (bits := int(shape.beat_bits)) > HLS_BEAT_BITS:
        raise FitError(
            f"a beat of the HLS core has at most {HLS_BEAT_BITS} bits, the widest number of Vivado HLS, and {point.t_p} words of inputs a PE need "
            f"{bits}; the reference core has no such limit",
            resource="beat_bits",
            needed=bits,
            available=HLS_BEAT_BITS,
        )
    if (need := int(dsp(shape))) > board.dsp:
        raise FitError(
            f"board '{board.name}' is too small for {point.t_p} x {point.t_c} PEs: they need {need} DSPs, and it has {board.dsp}",
            resource="dsp",
            needed=need,
            available=board.dsp,
        )
    found = _deepest(shape, board)
    _check_logic(found, point, board)
    return found


def fits(point: Point, board: Board, *, most_buffer_words: int, **given: Any) -> tuple[Fit, ...]:
    """Ways to share the board's RAM: accumulators as deep as can be beside the least input buffer, and ever shallower ones, each beside the largest
    buffer of at most `most_buffer_words` that fits. Raises FitError when nothing fits; `given` as `fit` takes it.
    """
    deepest = fit(point, board, **given)
    depths = sorted({deepest.t_r, *(depth for depth in SHALLOWER if depth < deepest.t_r)}, reverse=True)
    found: list[Fit] = []
    for depth in depths:
        best = fit(replace(point, t_r=depth), board, **given)
        while best.buffer_words < most_buffer_words:
            try:
                larger = fit(replace(point, t_r=depth), board, **given | {"buffer_words": 2 * best.buffer_words})
            except FitError:
                break
            if larger.t_r < depth:
                break
            best = larger
        if not found or best.buffer_words > found[-1].buffer_words:
            found.append(best)
    return tuple(found)


def npu_shape(board: Board, memory: str | None, **numbers: Any) -> NpuShape:
    """The NPU of these `numbers` on a board, with ports to one of its memories."""
    behind = board.memory(memory)
    return NpuShape(
        out_words=stream_words(board, memory), port_bytes=behind.port_bits // 8, stripes=behind.stripes,
        ultra_buffer=board.uram288 > 0, family=FAMILIES[board.family], **numbers,
    )  # fmt: skip


def ultra_banks(shape: NpuShape, board: Board) -> npt.NDArray[np.int64]:
    """How many accumulator banks a board's UltraRAM holds beside the input buffer: as many as there are, or as fit."""
    left = np.maximum(0, board.uram288 - buffer_uram288(shape))
    return np.minimum(shape.banks, left // ultra_rams(shape.bank_rows, shape.acc_bits))


def _deepest(shapes: NpuShape, board: Board) -> Fit:
    """The first of several depths that fits a board's RAM; FitError with what the last one needs."""
    shapes = replace(shapes, ultra_banks=ultra_banks(shapes, board))
    fixed = {use: int(count) for use, count in fixed_ramb18(shapes).items()}
    accumulators = accumulator_ramb18(shapes)
    ramb18 = accumulators + sum(fixed.values())
    if (need := int(np.max(buffer_uram288(shapes)))) > board.uram288:
        raise FitError(
            f"board '{board.name}' is too small for an input buffer of {shapes.buffer_words} words: "
            f"it needs {need} URAM288, and there are {board.uram288}",
            resource="uram288",
            needed=need,
            available=board.uram288,
        )
    fits = np.flatnonzero(ramb18 <= board.ramb18)
    index = int(fits[0]) if len(fits) else -1
    t_r, on_uram = (int(np.asarray(values)[index]) for values in (shapes.t_r, shapes.ultra_banks))
    shape = replace(shapes, t_r=t_r, ultra_banks=on_uram)
    if not len(fits):
        raise FitError(
            f"board '{board.name}' is too small for {shape.t_p} x {shape.t_c} PEs: "
            f"they need {ramb18[-1]} RAMB18 beside {int(uram288(shape))} URAM288 even with {t_r} rows, and it has {board.ramb18}",
            resource="ramb18",
            needed=int(ramb18[-1]),
            available=board.ramb18,
        )
    estimates = {kind: estimate(float(value), interval_pct(kind)) for kind, value in npu_logic(shape).items()}
    return Fit(
        t_r=t_r,
        buffer_words=shape.buffer_words,
        dsp=int(dsp(shape)),
        ramb18=int(ramb18[index]),
        uram288=int(uram288(shape)),
        uram_banks=on_uram,
        ramb_banks=int(shape.banks) - on_uram,
        parts={"accumulators": int(accumulators[index]), **fixed},
        lut=estimates["lut"],
        ff=estimates["ff"],
    )


def _check_logic(found: Fit, point: Point, board: Board) -> None:
    """The whole interval must fit."""
    for name, what, need, available in (
        ("lut", "LUTs", found.lut, board.lut),
        ("ff", "flip-flops", found.ff, board.ff),
    ):
        if need.high > available:
            raise FitError(
                f"board '{board.name}' is too small for {point.t_p} x {point.t_c} PEs with {found.t_r} rows: they need up to {need.high} {what} "
                f"(an estimate of {need.value}), and it has {available}",
                resource=name,
                needed=need.high,
                available=available,
            )


def _check_buildable(point: Point, stackable: bool) -> None:
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
